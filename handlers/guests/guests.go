// Package guests is the door of those who were sent a link to a session. It knows of
// no agent and of no request, and it has no way to change anything: all that it can
// reach of nod is a Room, which can be looked at.
package guests

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Errors of a House and its rooms.
var (
	// ErrNone: there is nothing to be seen there, for whatever reason. Why, nobody is
	// told who has no right to know.
	ErrNone = errors.New("guests: there is nothing to be seen")
	// ErrWrong: that is not the passphrase.
	ErrWrong = errors.New("guests: that is not the passphrase")
)

// House is where the rooms are.
type House interface {
	// Visit returns the room of a share for who has its token, or ErrNone.
	Visit(ctx context.Context, share, token string) (Room, error)
}

// Room is one share, to be looked at. It answers with pages; ErrNone stands for one
// that is not there.
type Room interface {
	// Until is when it ends.
	Until() time.Time
	// Locked reports whether it stays shut to who has that key: what Unlock has
	// returned, or "".
	Locked(key string) bool
	// Unlock returns the key for a passphrase, or ErrWrong; or another error if that
	// was tried too often.
	Unlock(c echo.Context, passphrase string) (key string, err error)
	// Lock asks for the passphrase, after a problem with it or "".
	Lock(c echo.Context, status int, problem string) error
	// Count counts somebody who looks.
	Count(ctx context.Context)

	Page(c echo.Context) error
	Earlier(c echo.Context) error // param turn, part: what stands before it
	Whole(c echo.Context) error   // param turn, part
	Files(c echo.Context) error   // param turn, part; query from
	File(c echo.Context) error    // param turn, part, file; query from
	// Live sends what changes until the guest leaves or the share ends.
	Live(c echo.Context) error
}

// Door lets guests in.
type Door struct {
	House    House
	BasePath string                   // of nod
	Secure   func(*http.Request) bool // the browser speaks TLS
}

// Route is one way in.
type Route struct {
	Method, Path string
	Handle       echo.HandlerFunc
}

// Routes are all ways in. The only POST takes the passphrase.
func (d *Door) Routes() []Route {
	return []Route{
		{http.MethodGet, "/v/:share", d.page},                 // share: its public id
		{http.MethodPost, "/v/:share", d.unlock},              // passphrase
		{http.MethodGet, "/v/:share/k/:token", d.arrive},      // what was sent
		{http.MethodGet, "/v/:share/live", d.room(Room.Live)}, // ?since=cursor
		{http.MethodGet, "/v/:share/before/:turn/:part", d.room(Room.Earlier)},
		{http.MethodGet, "/v/:share/turns/:turn/parts/:part", d.room(Room.Whole)},
		{http.MethodGet, "/v/:share/turns/:turn/parts/:part/files", d.room(Room.Files)},      // ?from=file
		{http.MethodGet, "/v/:share/turns/:turn/parts/:part/files/:file", d.room(Room.File)}, // ?from=line
	}
}

// cookie is what a guest has in place of the token in the address: the token, and the
// key that a passphrase has given.
func (d *Door) cookie(c echo.Context, r Room, token, key string) *http.Cookie {
	value := token
	if key != "" {
		value += "." + key
	}
	return &http.Cookie{
		Name: cookieName, Value: value, Path: d.BasePath + "/v/" + c.Param("share"), Expires: r.Until(),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: d.Secure(c.Request()),
	}
}

const cookieName = "nod_guest"

// visit returns the room that a request is for, and the token and the key it brings.
func (d *Door) visit(c echo.Context) (r Room, token, key string, err error) {
	cookie, err := c.Request().Cookie(cookieName)
	if err != nil {
		return nil, "", "", ErrNone
	}
	token, key, _ = strings.Cut(cookie.Value, ".")
	r, err = d.House.Visit(c.Request().Context(), c.Param("share"), token)
	return r, token, key, err
}

// arrive puts the token out of the address bar.
func (d *Door) arrive(c echo.Context) error {
	r, err := d.House.Visit(c.Request().Context(), c.Param("share"), c.Param("token"))
	if err != nil {
		return err
	}
	key := ""
	if _, token, had, err := d.visit(c); err == nil && token == c.Param("token") {
		key = had // of the passphrase, which was asked for once
	}
	c.SetCookie(d.cookie(c, r, c.Param("token"), key))
	return c.Redirect(http.StatusSeeOther, d.BasePath+"/v/"+c.Param("share"))
}

func (d *Door) page(c echo.Context) error {
	r, _, key, err := d.visit(c)
	if err != nil {
		return err
	}
	if r.Locked(key) {
		return r.Lock(c, http.StatusOK, "")
	}
	if looks(c) {
		r.Count(c.Request().Context())
	}
	return r.Page(c)
}

// looks reports whether somebody has opened a page, and not their browser for itself.
func looks(c echo.Context) bool {
	mode := c.Request().Header.Get("Sec-Fetch-Mode")
	return !c.QueryParams().Has("again") && (mode == "" || mode == "navigate")
}

func (d *Door) unlock(c echo.Context) error {
	r, token, _, err := d.visit(c)
	if err != nil {
		return err
	}
	key, err := r.Unlock(c, c.FormValue("passphrase"))
	if errors.Is(err, ErrWrong) {
		return r.Lock(c, http.StatusForbidden, "That is not the passphrase. Ask whoever sent you the link.")
	} else if err != nil {
		return err
	}
	c.SetCookie(d.cookie(c, r, token, key))
	return c.Redirect(http.StatusSeeOther, d.BasePath+"/v/"+c.Param("share"))
}

// room is for what is only there in a room that is open.
func (d *Door) room(show func(Room, echo.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, _, key, err := d.visit(c)
		if err == nil && r.Locked(key) {
			err = ErrNone
		}
		if err != nil {
			return err
		}
		return show(r, c)
	}
}
