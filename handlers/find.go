package handlers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"nod/views"
)

const (
	maxHits  = 100                    // more places are no answer
	maxQuery = 200                    // characters
	findTime = 500 * time.Millisecond // a person waits as long; some 50 MB of text
)

// find looks for a text in all of a session, of which a page holds only a part.
func (s *Server) find(c echo.Context) error {
	v, err := s.Hub.Session(c.Param("id"))
	if err != nil {
		return err
	}
	f := views.Find{Session: v, Text: query(c), Most: maxHits}
	if f.Text != "" {
		ctx, cancel := context.WithTimeout(c.Request().Context(), findTime)
		defer cancel()
		f.Hits, f.Whole = v.Find(ctx, f.Text, maxHits, views.Plain)
	}
	return s.render(c, http.StatusOK, views.FindPage(f))
}

// query is the text that somebody looks for, as much of it as may be.
func query(c echo.Context) string {
	text := strings.ToValidUTF8(c.QueryParam("q"), "")
	n := 0
	for i := range text {
		if n == maxQuery {
			return text[:i]
		}
		n++
	}
	return text
}
