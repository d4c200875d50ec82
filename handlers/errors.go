package handlers

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/handlers/guests"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/views"
)

// userError is an error that a person may see: what happened and what to do.
type userError struct {
	Code   string // stable
	Status int
	Title  string
	Next   string
}

func (e *userError) Error() string { return e.Code + ": " + e.Title }

// The catalogue of everything that can go wrong for a person.
var (
	problemLogin = &userError{"not-logged-in", http.StatusUnauthorized, "Please log in",
		"Open the link that nod printed in its terminal, or get another with “nod login-url”."}
	problemPassword = &userError{"wrong-password", http.StatusUnauthorized, "That is not the password",
		"Try again, or log in with a link of “nod login-url”."}
	problemPasskey = &userError{"wrong-passkey", http.StatusUnauthorized, "That passkey is not known here",
		"Try again, or log in with a link of “nod login-url”."}
	problemToken = &userError{"login-failed", http.StatusUnauthorized, "That login link does not work",
		"A link works once and for ten minutes. Get another with “nod login-url”."}
	problemLooks = &userError{"may-only-look", http.StatusForbidden, "This browser may look and not touch",
		"Let it operate under Devices, on a browser that may; or log in here with a link of “nod login-url”."}
	problemProof = &userError{"not-proved", http.StatusForbidden, "That does not show that it is you",
		"Nothing was sent. A code of “nod verify” works once and for five minutes; get another."}
	problemName = &userError{"no-name", http.StatusUnprocessableEntity, "That is not a name that fits in a list",
		"Nothing was changed. Give it one to sixty characters."}
	problemPair = &userError{"no-such-code", http.StatusNotFound, "This code does not work any more",
		"A code can be scanned once, within a minute and a half, and three wrong numbers end it. Let “Devices” on the other screen show another."}
	problemHost = &userError{"wrong-host", http.StatusMisdirectedRequest, "nod does not answer to this name",
		"Use 127.0.0.1 or localhost with nod's port, or add the name to public_hosts in the configuration."}
	problemCrossSite = &userError{"cross-site", http.StatusForbidden, "This request came from another site",
		"Open nod itself and do it there."}
	problemTLS = &userError{"tls_required", http.StatusForbidden, "Nothing can be changed over this connection",
		"Nothing was done. The connection is not encrypted, so anybody in the network could do the same with your login. Open nod over https, or through an SSH tunnel; docs/phone.md tells how."}
	problemDirect = &userError{"past-the-proxy", http.StatusForbidden, "nod answers here to its proxy alone",
		"This connection is not encrypted. Open nod at the address of its proxy, over https; docs/phone.md tells how."}
	problemPreview = &userError{"preview-over", http.StatusNotFound, "This preview is over",
		"If you have just made a link of it, it is under Shared links; end it there if you have not got it. Otherwise open the session and choose again what others may see."}
	problemFull = &userError{"too-many", http.StatusServiceUnavailable, "Too many people look at this just now",
		"The page shows what there was when it was loaded; load it again from time to time."}
	problemForm = &userError{"not-a-form", http.StatusUnsupportedMediaType, "This is not how a form is sent",
		"Post application/x-www-form-urlencoded."}
	problemTooOften = &userError{"too-often", http.StatusTooManyRequests, "That is more than nod takes in a minute",
		"Nothing was done. Denying and looking always work."}
	problemTooLarge = &userError{"too-large", http.StatusRequestEntityTooLarge, "That is too much at once",
		"A message may have up to 1 MB. Put more into a file and name the file."}
	problemUpload = &userError{"images-too-large", http.StatusRequestEntityTooLarge, "These images are too much at once",
		"Nothing was sent. Go back, and choose images that have up to 10 MB together."}
	problemNoPage = &userError{"no-such-page", http.StatusNotFound, "There is no such page",
		"The address is wrong, or what it named is gone."}
	problemNotOffered = &userError{"not-offered", http.StatusConflict, "The agent cannot do that now",
		"It may not be connected, or be of another version. Send it a message first, or go back."}
	problemNoSession = &userError{"no-such-session", http.StatusNotFound, "There is no such session",
		"The address is wrong, or it belongs to another data folder."}
	problemNoApproval = &userError{"no-such-request", http.StatusNotFound, "There is no such request",
		"The address is wrong, or it belongs to another data folder."}
	problemChanged = &userError{"changed", http.StatusConflict, "What you answered is not what is asked",
		"Nothing was sent. Look at the request again and answer it there."}
	problemOption = &userError{"no-such-answer", http.StatusBadRequest, "The request does not offer that answer",
		"Nothing was sent. Use one of its buttons."}
	problemNothing = &userError{"nothing-to-run", http.StatusUnprocessableEntity, "There is nothing left to run",
		"Nothing was sent. Go back and write what is to run, or deny the request."}
	problemLinkDown = &userError{"link-down", http.StatusServiceUnavailable, "The link to the agent is down, so nothing was approved",
		"The request still waits. Approve it when the link is back, or deny it now: the agent is told as soon as it asks again."}
	problemReason = &userError{"reason-too-long", http.StatusBadRequest, "That reason cannot be sent",
		"Nothing was sent. A reason may have up to 2,000 characters: shorten it and deny again."}
	problemAnswers = &userError{"wrong-answers", http.StatusUnprocessableEntity, "An answer is not of the form that is asked for",
		"Nothing was sent. Look at the request again and answer it there."}
	problemReasonLost = &userError{"reason-lost", http.StatusOK, "It is denied, but your reason did not reach the agent",
		"The denial stands. The turn may have been over already: send the reason as a message."}
	problemJournal = &userError{"not-recorded", http.StatusServiceUnavailable, "nod cannot write to its data folder, so your answer was not sent",
		"Is the disk full? Make room and answer again: the request still waits."}
	problemNotRecorded = &userError{"not-written", http.StatusServiceUnavailable, "nod cannot write to its data folder, so nothing was changed",
		"Is the disk full? Make room and try again."}
	problemInternal = &userError{"internal", http.StatusInternalServerError, "Something went wrong in nod",
		"The log says what. Try again; what is recorded stays."}
)

// known maps errors of the rooms below to the catalogue.
var known = []struct {
	err error
	to  *userError
}{
	{hub.ErrNoSession, problemNoSession},
	{hub.ErrNoApproval, problemNoApproval},
	{hub.ErrNotRecorded, problemNotRecorded},
	{hub.ErrLinkDown, problemLinkDown},
	{approvals.ErrChanged, problemChanged},
	{approvals.ErrOption, problemOption},
	{approvals.ErrNotEditable, problemOption},
	{approvals.ErrReason, problemReason},
	{approvals.ErrAnswers, problemAnswers},
	{auth.ErrNoOffer, problemPair},
	{journal.ErrNotFound, problemNoPage},
	{guests.ErrNone, problemNoPage},
	{state.ErrReasonLost, problemReasonLost},
	{echo.ErrNotFound, problemNoPage},
	{echo.ErrMethodNotAllowed, problemNoPage},
}

func userErrorOf(err error) *userError {
	var u *userError
	if errors.As(err, &u) {
		return u
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return k.to
		}
	}
	return problemInternal
}

// publicWords returns the sentence of an error that was written for a person:
// an agent that is missing or failed, a turn that is open or not.
func publicWords(err error) (string, bool) {
	var p interface{ Public() string }
	switch {
	case errors.As(err, &p):
		return p.Public(), true
	case errors.Is(err, hub.ErrTurnOpen):
		return "The agent is still working on the last message. Stop it first, or wait.", true
	case errors.Is(err, hub.ErrSubagent):
		return "A sub-agent goes with the session that started it: do that there.", true
	case errors.Is(err, hub.ErrNoMessage):
		return "That message was sent or removed meanwhile.", true
	case errors.Is(err, hub.ErrDeleted):
		return "You have deleted this session from nod. Open it under “Older sessions” if you want it back.", true
	case errors.Is(err, hub.ErrNoTurn):
		return "Nothing was running any more.", true
	}
	return "", false
}

// showError is the end of every error: a page for the person, the cause for the log.
func (s *Server) showError(err error, c echo.Context) {
	u := userErrorOf(err)
	if u == problemInternal && !errors.Is(err, context.Canceled) { // else nobody waits for it any more
		s.Log.Error("request failed", "method", c.Request().Method, "route", c.Path(), "err", err)
	}
	if c.Response().Committed {
		return
	}
	if often, ok := errors.AsType[*tooOften](err); ok {
		u = often.told(c.Response().Header())
	}
	if u == problemLogin && c.Request().Header.Get("Accept") == "text/event-stream" {
		_ = loadAgain(c)
		return
	}
	if u == problemLogin && c.Request().Method == http.MethodGet {
		_ = c.Redirect(http.StatusSeeOther, s.BasePath+"/login")
		return
	}
	back := ""
	if id := c.Param("id"); id != "" && u != problemNoSession && u != problemLogin {
		if a, v, err := s.Hub.ApprovalView(c.Request().Context(), id); err == nil && a != nil {
			back = "/s/" + v.ID
		}
	}
	if err := s.render(c, u.Status, views.ProblemPage(views.Problem{Code: u.Code, Title: u.Title, Next: u.Next, Back: back})); err != nil && c.Request().Context().Err() == nil {
		s.Log.Error("an error page failed", "err", err)
	}
}

// render writes a page. It is drawn whole before its first byte is sent, so an
// error cannot leave half a page.
func (s *Server) render(c echo.Context, status int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(c.Request().Context(), &b); err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}
