package handlers

import (
	"errors"
	"mime"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
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

func (s *Server) loginForm(c echo.Context) error { return s.render(c, http.StatusOK, views.Login("")) }

func (s *Server) login(c echo.Context) error {
	cookie, err := s.Auth.Login(c.Request().Context(), c.Request(), c.FormValue("token"))
	if errors.Is(err, auth.ErrBadToken) {
		return s.render(c, problemToken.Status, views.Login(problemToken.Title+". "+problemToken.Next))
	} else if err != nil {
		return err
	}
	c.SetCookie(cookie)
	return s.goTo(c, "/")
}

func (s *Server) logout(c echo.Context) error {
	if err := s.Auth.Revoke(c.Request().Context(), device(c).ID); err != nil {
		return err
	}
	c.SetCookie(s.Auth.Forget())
	return s.goTo(c, "/login")
}

// goTo answers a post: the next page, loaded afresh.
func (s *Server) goTo(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, s.BasePath+path)
}
