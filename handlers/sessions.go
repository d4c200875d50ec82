package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"nod/state"
	"nod/state/hub"
	"nod/views"
)

func (s *Server) inbox(c echo.Context) error {
	in := s.Hub.Inbox()
	return s.render(c, http.StatusOK, views.InboxPage(in, views.Cursor{Epoch: s.Epoch, Rev: in.Rev}))
}

func (s *Server) newForm(c echo.Context) error {
	in := s.Hub.Inbox()
	f := views.NewSession{Links: in.Links, Folder: s.StartFolder}
	if o := views.Offered(in.Links); len(o) > 0 {
		f.Provider = o[0].Provider
	}
	if len(in.Sessions) > 0 { // where the last one was
		last := in.Sessions[0].State.Summary
		f.Provider = last.Provider
		f.Folder = state.FilePath(state.Value(last.WorkingDirectory))
	}
	f.More = s.settings(c, f.Links)
	return s.render(c, http.StatusOK, views.NewPage(f))
}

// settings are the settings of each provider that a session can be started with.
func (s *Server) settings(c echo.Context, links []state.Link) (out []views.Fields) {
	for _, l := range views.Offered(links) {
		out = append(out, views.Fields{Prefix: l.Provider, Settings: s.Agents.Settings(c.Request().Context(), l.Provider)})
	}
	return out
}

func (s *Server) create(c echo.Context) error {
	f := views.NewSession{
		Links: s.Hub.Inbox().Links, Provider: c.FormValue("provider"),
		Folder: strings.TrimSpace(c.FormValue("folder")), Prompt: lines(c.FormValue("prompt")),
	}
	f.More = s.settings(c, f.Links)
	chosen := &views.Fields{}
	for i := range f.More {
		m := &f.More[i]
		if readSettings(c, m, nil); m.Prefix == f.Provider {
			chosen = m
		} else {
			m.Problem, m.Risky = "", nil
		}
	}
	again := func(status int, field, problem string) error {
		f.Field, f.Problem = field, problem
		return s.render(c, status, views.NewPage(f))
	}
	folder, problem := checkFolder(f.Folder)
	if problem != "" {
		return again(http.StatusUnprocessableEntity, "folder", problem)
	}
	if strings.TrimSpace(f.Prompt) == "" {
		return again(http.StatusUnprocessableEntity, "prompt", "Say what should be done.")
	}
	if status, err := s.settled(c, chosen); err != nil {
		return err
	} else if status != http.StatusOK {
		return again(status, "more", "")
	}
	id, err := s.Hub.Create(c.Request().Context(), state.NewSession{Provider: f.Provider, Folder: folder, Config: chosen.Values}, f.Prompt)
	s.recordRisky(c, *chosen, id, "a new session of "+f.Provider+" in "+folder)
	if err == nil {
		return s.goTo(c, "/s/"+id)
	}
	words, public := publicWords(err)
	if !public {
		return err
	}
	s.Log.Warn("no session", "provider", f.Provider, "err", err)
	if id != "" { // the session is there, the message is not
		return s.showSession(c, http.StatusBadGateway, id, views.Draft{Text: f.Prompt, Problem: words})
	}
	return again(http.StatusBadGateway, "", words)
}

// checkFolder returns the folder in its whole form, or a sentence about it.
func checkFolder(path string) (folder, problem string) {
	path, problem = fromHome(path)
	if problem != "" {
		return "", problem
	}
	if !filepath.IsAbs(path) {
		return "", "Type the whole path of the folder, beginning with a slash."
	}
	switch info, err := os.Stat(path); {
	case os.IsNotExist(err):
		return "", "There is no such folder. Nothing was started."
	case err != nil:
		return "", "The folder cannot be read. Nothing was started."
	case !info.IsDir():
		return "", "That is a file, not a folder. Nothing was started."
	}
	return filepath.Clean(path), ""
}

// fromHome puts the home folder in the place of a tilde.
func fromHome(path string) (whole, problem string) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' {
		return path, ""
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "nod does not know your home folder. Type the whole path."
	}
	return home + rest, ""
}

func (s *Server) session(c echo.Context) error {
	return s.showSession(c, http.StatusOK, c.Param("id"), views.Draft{})
}

func (s *Server) showSession(c echo.Context, status int, id string, draft views.Draft) error {
	page, err := s.feeds.page(c.Request().Context(), id, func(sheet *views.Sheet) (templ.Component, error) { return sheet.Page(draft), nil })
	if err != nil {
		return err
	}
	return c.HTMLBlob(status, page)
}

// earlier shows what stands before a response part.
func (s *Server) earlier(c echo.Context) error {
	page, err := s.feeds.page(c.Request().Context(), c.Param("id"), func(sheet *views.Sheet) (templ.Component, error) { return earlierPage(c, sheet) })
	if err != nil {
		return err
	}
	return c.HTMLBlob(http.StatusOK, page)
}

func earlierPage(c echo.Context, sheet *views.Sheet) (templ.Component, error) {
	turn, ok1 := number(c.Param("turn"))
	part, ok2 := number(c.Param("part"))
	if !ok1 || !ok2 {
		return nil, problemNoPage
	}
	return sheet.Earlier(turn, part), nil
}

func (s *Server) message(c echo.Context) error {
	id := c.Param("id")
	if err := readUpload(c); err != nil {
		return err
	}
	v, err := s.Hub.Session(id)
	if err != nil {
		return err
	}
	draft := views.Draft{Text: lines(c.FormValue("text")), Paths: c.FormValue("paths"), Problem: imagesLost(c)}
	again := func(status int, problem string) error {
		draft.Problem = strings.TrimSpace(problem + " " + draft.Problem)
		return s.showSession(c, status, id, draft)
	}
	if strings.TrimSpace(draft.Text) == "" {
		return again(http.StatusUnprocessableEntity, "Write a message first.")
	}
	m := state.UserMessage(draft.Text)
	var problem string
	if m.Attachments, problem = attachments(c, v); problem != "" {
		return again(http.StatusUnprocessableEntity, problem)
	}
	send := s.Hub.Send
	switch c.FormValue("how") {
	case "steer":
		send = s.Hub.Steer
	case "queue":
		send = s.Hub.Queue
	default:
		f := views.MessageFields(v.State)
		readSettings(c, &f, v.State)
		if status, err := s.settled(c, &f); err != nil {
			return err
		} else if status != http.StatusOK {
			draft.Next = f
			return again(status, "")
		}
		s.recordRisky(c, f, id, "“"+v.State.Summary.Title+"”")
		if len(f.Values) > 0 {
			raw, err := json.Marshal(f.Values)
			if err != nil {
				return err
			}
			m.Meta = state.Meta{state.MessageConfig: raw}
		}
	}
	return s.afterVerb(c, id, draft, send(c.Request().Context(), id, m))
}

func (s *Server) stop(c echo.Context) error {
	id, stop := c.Param("id"), s.Hub.Stop
	if c.FormValue("queue") == "empty" {
		stop = s.Hub.StopAll
	}
	return s.afterVerb(c, id, views.Draft{}, stop(c.Request().Context(), id))
}

// afterVerb shows the session again: anew, or with what was typed, why it was not taken,
// and the draft's own problem.
func (s *Server) afterVerb(c echo.Context, id string, draft views.Draft, err error) error {
	if err == nil {
		return s.goTo(c, "/s/"+id+"#now")
	}
	words, public := publicWords(err)
	if !public {
		return err
	}
	s.Log.Warn("not done", "route", c.Path(), "session", id, "err", err)
	status := http.StatusBadGateway
	if errors.Is(err, hub.ErrTurnOpen) || errors.Is(err, hub.ErrNoTurn) || errors.Is(err, hub.ErrSubagent) || errors.Is(err, hub.ErrNoMessage) {
		status = http.StatusConflict
	}
	draft.Problem = strings.TrimSpace(words + " " + draft.Problem)
	return s.showSession(c, status, id, draft)
}
