package handlers

import (
	"errors"
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/views"
)

// proof reads what a person gave to show that they are there.
func proof(c echo.Context) auth.Proof {
	return auth.Proof{Password: c.FormValue("password"), Code: c.FormValue("code"), Assertion: c.FormValue("assertion")}
}

// proofAsked is what a page needs to ask for a proof. A passkey signs the challenge.
func (s *Server) proofAsked(c echo.Context, challenge string) (views.Proof, error) {
	ways, err := s.Auth.Ways(c.Request().Context(), c.Request())
	if err != nil {
		return views.Proof{}, err
	}
	p := views.Proof{Password: ways.Password}
	if ways.Passkey {
		p.Passkey, err = s.Auth.AssertOptions(c.Request().Context(), c.Request(), challenge)
	}
	return p, err
}

// verifyForm asks a person to show that it is they, before they change the door.
func (s *Server) verifyForm(c echo.Context) error {
	return s.showVerify(c, http.StatusOK, c.QueryParam("next"), "")
}

func (s *Server) showVerify(c echo.Context, status int, next, problem string) error {
	p, err := s.proofAsked(c, s.Auth.Challenge())
	if err != nil {
		return err
	}
	p.Problem = problem
	return s.render(c, status, views.VerifyPage(p, next))
}

func (s *Server) verify(c echo.Context) error {
	next := c.FormValue("next")
	err := s.prove(c, "")
	if errors.Is(err, auth.ErrNoProof) {
		return s.showVerify(c, http.StatusUnprocessableEntity, next, "Nothing was given.")
	} else if status, problem := s.refused(c, err); status > 0 {
		return s.showVerify(c, status, next, problem)
	} else if err != nil {
		return err
	}
	s.Auth.OpenDoor(device(c).ID)
	if !ownPage.MatchString(next) {
		next = "/devices"
	}
	return s.goTo(c, next)
}

// refused tells, for its page, what is wrong with a proof that was asked for before
// something is sent; nothing if err is another error. about is for the log.
func (s *Server) refused(c echo.Context, err error, about ...any) (status int, problem string) {
	switch {
	case errors.Is(err, auth.ErrNoProof):
		return http.StatusUnprocessableEntity, "Nothing was sent: show first that it is you."
	case errors.Is(err, auth.ErrBadProof):
		s.Log.Warn("a proof was refused", append([]any{"device", device(c).ID, "err", err}, about...)...)
		return problemProof.Status, problemProof.Title + ". " + problemProof.Next
	}
	return 0, ""
}

// ownPage is a page of ours. What browsers leave out of an address, or read as a second
// slash, would lead to another host.
var ownPage = regexp.MustCompile(`^(?:/[\w-]+)+$`)

func (s *Server) passwordForm(c echo.Context) error {
	set, err := s.Auth.HasPassword(c.Request().Context())
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.PasswordPage(set, ""))
}

// setPassword sets the password, or takes it away if the fields are empty.
func (s *Server) setPassword(c echo.Context) error {
	ctx := c.Request().Context()
	set, err := s.Auth.HasPassword(ctx)
	if err != nil {
		return err
	}
	refuse := func(why string) error {
		return s.render(c, http.StatusUnprocessableEntity, views.PasswordPage(set, why))
	}
	password, remove := c.FormValue("password"), c.FormValue("do") == "remove"
	switch {
	case remove:
		password = ""
	case password == "":
		return refuse("Type a password.")
	case password != c.FormValue("again"):
		return refuse("The two are not the same. Nothing was changed.")
	}
	if err := s.Auth.SetPassword(ctx, device(c).ID, password); errors.Is(err, auth.ErrPassword) {
		return refuse("A password has at least 10 and at most 500 characters. Nothing was changed.")
	} else if err != nil {
		return err
	}
	what := "set the password"
	if remove {
		what = "took the password away"
	}
	s.record(c, device(c), what, "", "")
	return s.goTo(c, "/devices")
}

func (s *Server) passkeyForm(c echo.Context) error { return s.showPasskey(c, http.StatusOK, "") }

func (s *Server) showPasskey(c echo.Context, status int, problem string) error {
	options, err := s.Auth.CreateOptions(c.Request().Context(), c.Request())
	if err != nil {
		return err
	}
	return s.render(c, status, views.PasskeyPage(options, problem))
}

func (s *Server) addPasskey(c echo.Context) error {
	name, err := given(c, "name")
	if err != nil {
		return err
	}
	err = s.Auth.AddPasskey(c.Request().Context(), c.Request(), c.FormValue("attestation"), name)
	if errors.Is(err, auth.ErrBadProof) {
		s.Log.Warn("a passkey was refused", "err", err)
		return s.showPasskey(c, http.StatusUnprocessableEntity, "The browser did not make a passkey that nod can use. Try again.")
	} else if err != nil {
		return err
	}
	s.record(c, device(c), "added the passkey", "", name)
	return s.goTo(c, "/devices")
}

func (s *Server) removePasskey(c echo.Context) error {
	if err := s.Auth.RemovePasskey(c.Request().Context(), device(c).ID, c.Param("key")); err != nil {
		return err
	}
	s.record(c, device(c), "removed a passkey", c.Param("key"), "")
	return s.goTo(c, "/devices")
}
