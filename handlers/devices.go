package handlers

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/state/journal"
	"nod/views"
)

// maxDeviceName bounds the name of a device or a passkey, in characters.
const maxDeviceName = 60

func (s *Server) devices(c echo.Context) error {
	ctx := c.Request().Context()
	all, err := s.Auth.Devices(ctx)
	if err != nil {
		return err
	}
	ways, err := s.Auth.Ways(ctx, c.Request())
	if err != nil {
		return err
	}
	keys, err := s.Auth.Passkeys(ctx)
	if err != nil {
		return err
	}
	password, err := s.Auth.HasPassword(ctx)
	if err != nil {
		return err
	}
	door := views.Door{Password: password, Possible: ways.Possible, Passkeys: make([]views.Passkey, len(keys))}
	for i, k := range keys {
		door.Passkeys[i] = views.Passkey{ID: k.ID, Name: k.Name, Host: k.Host, CreatedAt: k.CreatedAt, UsedAt: k.UsedAt}
	}
	list := make([]views.Device, len(all))
	for i, d := range all {
		list[i] = views.Device{
			ID: d.ID, Name: d.Name, CreatedAt: d.CreatedAt, SeenAt: d.SeenAt, This: d.ID == device(c).ID,
			Operates: d.Scope == auth.ScopeOperate, Granted: d.Granted == auth.ScopeOperate,
		}
	}
	return s.render(c, http.StatusOK, views.DevicesPage(list, door))
}

// endDevice ends a session. One that has ended meanwhile is no error.
func (s *Server) endDevice(c echo.Context) error {
	id := c.Param("id")
	called := s.deviceName(c, id)
	err := s.Auth.Revoke(c.Request().Context(), id)
	if errors.Is(err, journal.ErrNotFound) {
		return s.goTo(c, "/devices")
	} else if err != nil {
		return err
	}
	s.record(c, device(c), "ended the session", id, called)
	return s.goTo(c, "/devices")
}

func (s *Server) endOthers(c echo.Context) error {
	if err := s.Auth.RevokeOthers(c.Request().Context(), device(c).ID); err != nil {
		return err
	}
	s.record(c, device(c), "ended all other sessions", "", "")
	return s.goTo(c, "/devices")
}

func (s *Server) nameDevice(c echo.Context) error {
	name, err := given(c, "name")
	if err != nil {
		return err
	}
	if err := s.Auth.Rename(c.Request().Context(), c.Param("id"), name); err != nil {
		return err
	}
	return s.goTo(c, "/devices")
}

// given reads the name that a person has given to a thing.
func given(c echo.Context, field string) (string, error) {
	name := strings.TrimSpace(c.FormValue(field))
	if n := utf8.RuneCountInString(name); n == 0 || n > maxDeviceName || !utf8.ValidString(name) {
		return "", problemName
	}
	return name, nil
}

func (s *Server) letLook(c echo.Context) error    { return s.grant(c, auth.ScopeView) }
func (s *Server) letOperate(c echo.Context) error { return s.grant(c, auth.ScopeOperate) }

func (s *Server) grant(c echo.Context, scope string) error {
	if err := s.Auth.Grant(c.Request().Context(), c.Param("id"), scope); err != nil {
		return err
	}
	what := "may only look from now on"
	if scope == auth.ScopeOperate {
		what = "may operate from now on"
	}
	s.record(c, device(c), what, c.Param("id"), s.deviceName(c, c.Param("id")))
	return s.goTo(c, "/devices")
}

// offer shows a code that another device can come in with.
func (s *Server) offer(c echo.Context) error {
	return s.goTo(c, "/pair/"+s.Auth.Offer(device(c).ID))
}

// offered is the page of the device that shows the code. It asks for itself again
// until somebody has scanned it.
func (s *Server) offered(c echo.Context) error { return s.showOffer(c, http.StatusOK, "") }

func (s *Server) showOffer(c echo.Context, status int, problem string) error {
	o, err := s.Auth.Offered(device(c).ID, c.Param("offer"))
	if err != nil {
		return err
	}
	p := views.Pairing{ID: o.ID, Ends: o.Ends.UnixMilli(), Name: o.Name, Address: o.Address, Device: o.Device, Problem: problem}
	if o.Token != "" {
		if at := s.publicAddress(c.Request()); at != "" {
			p.Link = at + s.BasePath + "/join" + auth.LoginFragment(o.Token)
		}
	}
	return s.render(c, status, views.PairPage(p))
}

// publicAddress is where another device reaches nod over TLS, "" if none can: the
// address that this request was sent to if that is not this machine's own name for
// itself, else the first that the owner has configured.
func (s *Server) publicAddress(r *http.Request) string {
	switch {
	case !reachOf(r).Local: // so over TLS, or it could not ask for this
		return "https://" + r.Host
	case len(s.PublicHosts) > 0:
		return "https://" + s.PublicHosts[0]
	}
	return ""
}

// confirmPair lets the other device in, if the number is the one that it shows.
func (s *Server) confirmPair(c echo.Context) error {
	err := s.Auth.Confirm(device(c).ID, c.Param("offer"), c.FormValue("number"))
	if errors.Is(err, auth.ErrNumber) {
		return s.showOffer(c, http.StatusUnprocessableEntity, "That is not the number that the other device shows. Look again: it has two digits.")
	} else if err != nil {
		return err
	}
	o, err := s.Auth.Offered(device(c).ID, c.Param("offer"))
	if err != nil {
		return err
	}
	s.record(c, device(c), "was let in by its number", "", o.Name)
	return s.goTo(c, "/pair/"+c.Param("offer"))
}

func (s *Server) joinForm(c echo.Context) error {
	return s.render(c, http.StatusOK, views.JoinPage(""))
}

// join is where a scanned code leads to. Whoever brings it waits until the device
// that shows it lets them in.
func (s *Server) join(c echo.Context) error {
	cookie, err := s.Auth.Join(c.Request(), c.FormValue("token"), reachOf(c.Request()).From.String())
	if errors.Is(err, auth.ErrNoOffer) {
		return s.render(c, problemPair.Status, views.JoinPage(problemPair.Title+". "+problemPair.Next))
	} else if err != nil {
		return err
	}
	c.SetCookie(cookie)
	return s.goTo(c, "/join/wait")
}

// wait shows the number, and asks for itself again until somebody has typed it.
func (s *Server) wait(c echo.Context) error {
	number, in, d, err := s.Auth.Await(c.Request().Context(), c.Request())
	if err != nil {
		return err
	}
	if in == nil {
		return s.render(c, http.StatusOK, views.WaitPage(number))
	}
	for _, cookie := range in {
		c.SetCookie(cookie)
	}
	s.record(c, d, "came in by a scanned code", d.ID, "")
	s.Hub.Tell("A new device is in and may look: " + d.Name + ". If you do not know it, end it under Devices.")
	return s.goTo(c, "/")
}

// endNotices takes away what the inbox tells of new devices.
func (s *Server) endNotices(c echo.Context) error {
	s.Hub.Hush()
	return s.goTo(c, "/")
}
