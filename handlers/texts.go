package handlers

import (
	"github.com/labstack/echo/v4"

	"nod/state"
)

// text sends a text of which the page of its session shows only the begin, as a file.
func (s *Server) text(c echo.Context) error {
	event, ok1 := number(c.Param("event"))
	text, ok2 := number(c.Param("text"))
	if !ok1 || !ok2 {
		return problemNoPage
	}
	whole, err := s.Hub.Whole(c.Request().Context(), c.Param("id"), state.Whole{Event: uint64(event), Text: text})
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="nod-text.txt"`)
	return asItCame(c, whole)
}
