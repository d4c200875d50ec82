package handlers

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"nod/views"
)

const (
	maxHits  = 100 // more places are no answer
	maxQuery = 500 // bytes
)

// find looks for a text in all of a session, of which a page holds only a part.
func (s *Server) find(c echo.Context) error {
	v, err := s.Hub.Session(c.Param("id"))
	if err != nil {
		return err
	}
	text := c.QueryParam("q")
	f := views.Find{Session: v, Text: strings.ToValidUTF8(text[:min(len(text), maxQuery)], ""), Most: maxHits}
	if f.Text != "" {
		f.Hits = v.Find(f.Text, maxHits, views.Plain)
	}
	return s.render(c, http.StatusOK, views.FindPage(f))
}
