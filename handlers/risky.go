package handlers

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"nod/views"
)

// settled reports whether the settings of a form may take effect, by StatusOK: nothing is
// wrong with them, and for what is risky a person has proved, each time, to be there.
// Otherwise it is the status of the page, and the fields say what is missing. Whatever
// else can be wrong with a form comes first, since a code works once.
func (s *Server) settled(c echo.Context, f *views.Fields) (status int, err error) {
	if len(f.Risky) > 0 {
		asked, err := s.proofAsked(c, s.Auth.Challenge())
		if err != nil {
			return 0, err
		}
		asked.Why = "This lets the agent do more than usual, so a browser that is logged in is not enough."
		f.Proof = &asked
	}
	switch {
	case f.Problem != "":
		return http.StatusUnprocessableEntity, nil
	case f.Proof == nil:
		return http.StatusOK, nil
	}
	err = s.prove(c, "")
	if err == nil {
		return http.StatusOK, nil
	} else if status, f.Proof.Problem = s.refused(c, err, "route", c.Path()); status > 0 {
		return status, nil
	} else if often, ok := errors.AsType[*tooOften](err); ok {
		u := often.told(c.Response().Header())
		f.Proof.Problem = u.Title + ". " + u.Next
		return u.Status, nil
	}
	return 0, err
}

// recordRisky notes what is risky among the settings that a person has chosen for a
// session: its id, "" if there is none yet, and what it is called.
func (s *Server) recordRisky(c echo.Context, f views.Fields, id, called string) {
	var list []string
	for _, x := range f.Settings {
		if choice, _ := x.Choice(f.Values[x.Name]); f.Risky[x.Name] {
			list = append(list, x.Title+": "+choice.Label)
		}
	}
	if list != nil {
		s.record(c, device(c), views.AuditRisky, id, strings.Join(list, ", ")+", for "+called)
	}
}
