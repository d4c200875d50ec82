package handlers

import (
	"errors"
	"mime"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/state/journal"
	"nod/static"
	"nod/views"
)

func (s *Server) health(c echo.Context) error { return c.NoContent(http.StatusNoContent) }

// static sends a file. Its address changes with its content, so it may be kept.
func (s *Server) static(c echo.Context) error {
	name := c.Param("name")
	b, err := static.FS.ReadFile(name)
	if err != nil {
		return problemNoPage
	}
	if c.QueryParam("v") == static.Version {
		c.Response().Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	return c.Blob(http.StatusOK, mime.TypeByExtension(path.Ext(name)), b)
}

func (s *Server) loginForm(c echo.Context) error { return s.showLogin(c, http.StatusOK, "") }

func (s *Server) showLogin(c echo.Context, status int, problem string) error {
	p, err := s.proofAsked(c, s.Auth.Challenge())
	if err != nil {
		return err
	}
	return s.render(c, status, views.Login(p, problem))
}

// login lets in who has a link of the terminal, a passkey, or the password.
func (s *Server) login(c echo.Context) error {
	wrong := problemToken
	enter := func() (*http.Cookie, journal.Device, error) {
		return s.Auth.Login(c.Request().Context(), c.Request(), c.FormValue("token"))
	}
	if p := proof(c); p.Password != "" || p.Assertion != "" {
		if wrong = problemPassword; p.Assertion != "" {
			wrong = problemPasskey
		}
		enter = func() (*http.Cookie, journal.Device, error) {
			return s.Auth.LoginByProof(c.Request().Context(), c.Request(), p)
		}
	}
	cookie, d, err := enter()
	switch {
	case errors.Is(err, auth.ErrBadToken), errors.Is(err, auth.ErrBadProof):
		if often, ok := c.Get(tooOftenKey).(error); ok {
			return often
		}
		s.Log.Warn("a login failed", "code", wrong.Code, "err", err)
		return s.showLogin(c, wrong.Status, wrong.Title+". "+wrong.Next)
	case err != nil:
		return err
	}
	s.record(c, d, "logged in", d.ID, "")
	c.SetCookie(cookie)
	return s.goTo(c, "/")
}

func (s *Server) logout(c echo.Context) error {
	if err := s.Auth.Revoke(c.Request().Context(), device(c).ID); err != nil {
		return err
	}
	s.record(c, device(c), "logged out", device(c).ID, "")
	c.SetCookie(s.Auth.Forget(c.Request()))
	return s.goTo(c, "/login")
}

// goTo answers a post: the next page, loaded afresh.
func (s *Server) goTo(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, s.BasePath+path)
}
