package handlers

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"nod/state/journal"
	"nod/views"
)

func (s *Server) devices(c echo.Context) error {
	all, err := s.Auth.Devices(c.Request().Context())
	if err != nil {
		return err
	}
	list := make([]views.Device, len(all))
	for i, d := range all {
		list[i] = views.Device{ID: d.ID, Name: d.Name, CreatedAt: d.CreatedAt, SeenAt: d.SeenAt, This: d.ID == device(c).ID}
	}
	return s.render(c, http.StatusOK, views.DevicesPage(list))
}

// endDevice ends a session. One that has ended meanwhile is no error.
func (s *Server) endDevice(c echo.Context) error {
	id := c.Param("id")
	if err := s.Auth.Revoke(c.Request().Context(), id); err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	return s.goTo(c, "/devices")
}

func (s *Server) endOthers(c echo.Context) error {
	if err := s.Auth.RevokeOthers(c.Request().Context(), device(c).ID); err != nil {
		return err
	}
	return s.goTo(c, "/devices")
}
