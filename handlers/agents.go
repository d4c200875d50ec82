package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// connect makes the link to an agent now, and does not wait for the next try.
func (s *Server) connect(c echo.Context) error {
	err := s.Agents.Connect(c.Request().Context(), c.FormValue("agent"))
	if err == nil {
		return s.goTo(c, "/")
	}
	words, public := publicWords(err)
	if !public {
		return err
	}
	s.Log.Warn("not connected", "link", c.FormValue("agent"), "err", err)
	return &userError{"not-connected", http.StatusBadGateway, "The agent could not be connected", words}
}
