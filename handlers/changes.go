package handlers

import (
	"net/http"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"nod/views"
)

// The pages of a diff that is too large for the place where it stands: of a tool
// call, or of a request.

func (s *Server) partFiles(c echo.Context) error { return s.showFiles(c, s.partChanges) }
func (s *Server) partFile(c echo.Context) error  { return s.showFile(c, s.partChanges) }

func (s *Server) requestFiles(c echo.Context) error { return s.showFiles(c, s.requestChanges) }
func (s *Server) requestFile(c echo.Context) error  { return s.showFile(c, s.requestChanges) }

// requestRaw sends the diff that a request is about, every byte as it came.
func (s *Server) requestRaw(c echo.Context) error {
	a, _, err := s.Hub.ApprovalView(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	if a.Request.Diff == "" {
		return problemNoPage
	}
	return asItCame(c, a.Request.Diff)
}

func (s *Server) partChanges(c echo.Context) (views.Changes, error) {
	v, turn, part, err := s.part(c)
	if err != nil {
		return views.Changes{}, err
	}
	return views.PartChanges(c.Request().Context(), v, turn, part), nil
}

func (s *Server) requestChanges(c echo.Context) (views.Changes, error) {
	a, _, err := s.Hub.ApprovalView(c.Request().Context(), c.Param("id"))
	if err != nil {
		return views.Changes{}, err
	}
	return views.RequestChanges(c.Request().Context(), a), nil
}

func (s *Server) showFiles(c echo.Context, of func(echo.Context) (views.Changes, error)) error {
	changes, err := of(c)
	if err != nil {
		return err
	}
	from, ok := fromParam(c)
	if !ok {
		return problemNoPage
	}
	return s.renderFound(c)(changes.FilesPage(from))
}

func (s *Server) showFile(c echo.Context, of func(echo.Context) (views.Changes, error)) error {
	changes, err := of(c)
	if err != nil {
		return err
	}
	from, ok1 := fromParam(c)
	file, ok2 := number(c.Param("file"))
	if !ok1 || !ok2 {
		return problemNoPage
	}
	return s.renderFound(c)(changes.FilePage(file, from))
}

// renderFound is render for a page that may not be there.
func (s *Server) renderFound(c echo.Context) func(templ.Component, bool) error {
	return func(page templ.Component, found bool) error {
		if !found {
			return problemNoPage
		}
		return s.render(c, http.StatusOK, page)
	}
}

// fromParam is where a page begins: 0 if the address does not say.
func fromParam(c echo.Context) (int, bool) {
	if v := c.QueryParam("from"); v != "" {
		return number(v)
	}
	return 0, true
}

// number reads a number that counts from 0.
func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// asItCame sends what an agent said as it said it: as text, whatever it is, on a page
// that may do nothing.
func asItCame(c echo.Context, text string) error {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", h.Get("Content-Security-Policy")+"; sandbox")
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(text))
}
