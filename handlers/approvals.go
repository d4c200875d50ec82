package handlers

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/risk"
	"nod/state/snapshot"
	"nod/views"
)

// approval shows a request by itself: the session it belongs to has its card.
func (s *Server) approval(c echo.Context) error {
	_, v, err := s.Hub.ApprovalView(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return s.goTo(c, "/s/"+v.ID)
}

// decide takes a person's answer. An approval that was not seen to its last byte
// on a live page, whose card does not show all of a change, that was edited, or that
// allows more than one run leads over a page that shows everything once more.
func (s *Server) decide(c echo.Context) error {
	a, v, err := s.Hub.ApprovalView(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	most := int64(maxForm)
	if !a.Request.Editable && a.Request.Questions == nil {
		most = maxCard
	}
	if err := bounded(c, most); err != nil {
		return err
	}
	o, ok := a.Request.Option(c.FormValue("option"))
	if !ok {
		return approvals.ErrOption
	}
	actor, d := device(c).ID, state.Decision{OptionID: o.ID, Address: reachOf(c.Request()).From.String()}
	if o.ID == a.Request.Explains {
		d.Reason = strings.TrimSpace(lines(c.FormValue("reason")))
	}
	switch {
	case a.State == approvals.Decided && c.FormValue("again") != "": // whose it is and what it says is recorded
		actor, d = a.Actor, *a.Decision
	case o.Kind == state.OptionApprove:
		if a.State == approvals.Pending && v.Link.Status.Down() {
			return hub.ErrLinkDown // before a proof is used up
		}
		if a.Request.Editable && a.Request.Input != "" && c.Request().PostForm.Has("edited") && c.FormValue("edited") == "" {
			return problemNothing
		}
		d.EditedInput = edited(a.Request, c.FormValue("edited"))
		d.Answers = answers(c, a.Request.Questions)
		if wrong := a.Request.Questions.Wrong(d.Answers); len(wrong) > 0 && a.State == approvals.Pending {
			return s.render(c, http.StatusUnprocessableEntity, views.AnswersPage(v, answeredOn(c, v), a, d.Answers, wrong))
		}
		why := s.proofNeeded(device(c), a.Request.Edited(d.EditedInput), o)
		seen := c.FormValue("seen") != "" && views.RequestChanges(c.Request().Context(), a).OnCard()
		ask := why != "" || !seen || d.EditedInput != "" || state.Value(o.Group) > 0
		if !ask || c.FormValue("confirmed") != "" {
			if _, err := s.limiter.take(s.limiter.allows.of(device(c).ID)); err != nil {
				return err
			}
		}
		if ask && a.State == approvals.Pending {
			if done, err := s.confirmed(c, a, v, o, d, why); !done || err != nil {
				return err
			}
		}
	}
	_, err = s.Hub.Decide(c.Request().Context(), actor, a.ID, c.FormValue("digest"), c.FormValue("nonce"), d)
	switch {
	case err == nil:
		return s.goTo(c, "/s/"+answeredOn(c, v)+"#now")
	case errors.Is(err, approvals.ErrNotPending), errors.Is(err, state.ErrAnsweredElsewhere):
		return s.tooLate(c, a.ID, o)
	case userErrorOf(err) != problemInternal:
		return err
	}
	s.Log.Error("a decision was not recorded", "approval", a.ID, "err", err)
	return problemJournal
}

// tooLate tells whoever was not first who was, when, and what became of it.
func (s *Server) tooLate(c echo.Context, id string, tried state.ConfirmationOption) error {
	a, v, err := s.Hub.ApprovalView(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.render(c, http.StatusConflict, views.TooLatePage(views.TooLate{
		Approval: a, Session: v, From: answeredOn(c, v), Tried: tried, By: s.deviceName(c, a.Actor), Here: a.Actor == device(c).ID,
	}))
}

// proofNeeded tells why an answer asks for more than a browser that is logged in, "" if
// it does not. What is risky does so each time.
func (s *Server) proofNeeded(d journal.Device, r state.Request, o state.ConfirmationOption) string {
	switch {
	case risk.High(r, o, s.Own...):
		return "This is risky, so a browser that is logged in is not enough."
	case !s.Auth.Fresh(d):
		return "Nobody has shown here for a while that it is you. Then nod does not ask for it again for half a day, but for what is risky."
	}
	return ""
}

// confirmed reports whether a person has seen the whole of what they allow on a page
// of its own and, unless why is "", has proved to be there. If not, it shows that page.
func (s *Server) confirmed(c echo.Context, a *approvals.Approval, v snapshot.Session, o state.ConfirmationOption, d state.Decision, why string) (bool, error) {
	page := views.Confirm{Approval: a, Session: v, From: answeredOn(c, v), Option: o, Edited: d.EditedInput, Answers: d.Answers}
	status := http.StatusOK
	if why != "" {
		challenge := approvals.Challenge(a, d)
		asked, err := s.proofAsked(c, challenge)
		if err != nil {
			return false, err
		}
		asked.Why, page.Proof = why, &asked
		if c.FormValue("confirmed") != "" {
			err := s.prove(c, challenge)
			if status, asked.Problem = s.refused(c, err, "approval", a.ID); status == 0 {
				return err == nil, err
			}
		}
	} else if c.FormValue("confirmed") != "" {
		return true, nil
	}
	return false, s.render(c, status, views.ConfirmPage(page))
}

// answeredOn is the session on whose page the answer was given: a sub-agent's
// requests also stand on the page of the session that started it.
func answeredOn(c echo.Context, v snapshot.Session) string {
	if from := c.FormValue("from"); from != "" && from == v.Parent {
		return from
	}
	return v.ID
}

// lines undoes what forms make of line ends.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// edited returns what a person made of the input, "" if it is as it was.
func edited(r state.Request, text string) string {
	text = lines(text)
	if !r.Editable || text == "" || text == r.Input {
		return ""
	}
	return text
}

// answers reads the fields that the card's form has for each question.
func answers(c echo.Context, q *state.InputRequest) map[string]state.Answer {
	if q == nil {
		return nil
	}
	form, err := c.FormParams()
	if err != nil {
		return nil // the form has been read before
	}
	out := map[string]state.Answer{}
	for _, x := range q.Questions {
		a := state.Answer{Selected: chosen(x, form["q."+x.ID]), Text: lines(form.Get("t." + x.ID))}
		if x.Secret() {
			a = state.Answer{Secret: a.Given()}
		}
		out[x.ID] = a
	}
	return out
}

// chosen are the ids of the options that a form names.
func chosen(q state.Question, values []string) []string {
	for i, v := range values {
		for _, o := range q.Options {
			if lines(v) == lineEnds.Replace(o.ID) {
				values[i] = o.ID
			}
		}
	}
	return values
}

// lineEnds makes of a text what is left of it behind a form and lines.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")
