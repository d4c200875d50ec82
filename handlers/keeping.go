package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"nod/state/hub"
	"nod/state/snapshot"
	"nod/views"
)

func (s *Server) archived(c echo.Context) error {
	return s.render(c, http.StatusOK, views.ArchivePage(s.Hub.Archived(), hub.TellArchive))
}

func (s *Server) archive(c echo.Context) error {
	id := c.Param("id")
	if err := s.Hub.Archive(c.Request().Context(), id, true); err != nil {
		return s.afterVerb(c, id, views.Draft{}, err)
	}
	return s.goTo(c, "/")
}

func (s *Server) unarchive(c echo.Context) error {
	id := c.Param("id")
	return s.afterVerb(c, id, views.Draft{}, s.Hub.Archive(c.Request().Context(), id, false))
}

func (s *Server) deleteForm(c echo.Context) error {
	v, err := s.Hub.Session(c.Param("id"))
	if err != nil {
		return err
	}
	shares, err := s.sharesOf(c, v.ID)
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.DeletePage(v, len(shares)))
}

func (s *Server) delete(c echo.Context) error {
	id := c.Param("id")
	shares, err := s.sharesOf(c, id)
	if err != nil {
		return err
	}
	if err := s.Hub.Delete(c.Request().Context(), id); err != nil {
		return s.afterVerb(c, id, views.Draft{}, err)
	}
	for _, x := range shares { // they went with it
		s.guestbook.cut(x)
	}
	s.Log.Info("a session was deleted", "session", id, "device", device(c).ID)
	return s.goTo(c, "/")
}

// whole shows all of one part of a session, of which its page shows an excerpt.
func (s *Server) whole(c echo.Context) error {
	v, turn, part, err := s.part(c)
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.WholePage(v, turn, part))
}

// part returns the response part that an address names, and its session.
func (s *Server) part(c echo.Context) (v snapshot.Session, turn, part int, err error) {
	if v, err = s.Hub.Session(c.Param("id")); err != nil {
		return v, 0, 0, err
	}
	turn, part, err = partOf(c, v)
	return v, turn, part, err
}

func partOf(c echo.Context, v snapshot.Session) (turn, part int, err error) {
	turn, ok1 := number(c.Param("turn"))
	part, ok2 := number(c.Param("part"))
	if !ok1 || !ok2 || turn >= snapshot.TurnCount(v.State) || part >= snapshot.PartCount(v.State, turn) {
		return 0, 0, problemNoPage
	}
	return turn, part, nil
}
