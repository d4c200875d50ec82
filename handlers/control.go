package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"nod/state"
	"nod/state/snapshot"
	"nod/views"
)

const (
	// maxSetting and maxTitle bound what is typed into one line, in bytes.
	maxSetting = 4000
	maxTitle   = 200
)

// readSettings takes the settings of a form, of a session if it is about one, and says what
// is wrong with them. What is risky and not in force yet has to be ticked.
func readSettings(c echo.Context, f *views.Fields, st *state.Session) {
	f.Values, f.Risky = map[string]string{}, map[string]bool{}
	wrong := func(s state.Setting, sentence string) { f.Field, f.Problem = s.Name, sentence }
	for _, s := range f.Settings {
		v := strings.TrimSpace(c.FormValue(f.Name(s.Name)))
		if v == "" {
			continue
		}
		f.Values[s.Name] = v
		choice, known := s.Choice(v)
		if s.Turns && st != nil {
			for _, t := range st.Turns {
				known = known || t.ID == v
			}
		}
		risky := choice.Risky && !inForce(st, s.Name, v)
		if risky {
			f.Risky[s.Name] = c.FormValue(f.Sure(s.Name)) == v
		}
		switch {
		case f.Problem != "": // one at a time
		case len(v) > maxSetting || strings.ContainsFunc(v, unicode.IsControl):
			wrong(s, "“"+s.Title+"” must be one line, and not that long.")
		case !known && !s.Open:
			wrong(s, "“"+s.Title+"” has no such choice. Choose one of those that are here.")
		case risky && !f.Risky[s.Name]:
			wrong(s, "“"+choice.Label+"”, really? "+choice.Description+" Tick the box if you want that, and send it again.")
		}
	}
}

// inForce reports whether a session runs with a setting already.
func inForce(st *state.Session, name, value string) bool {
	var now string
	return st != nil && st.Config != nil && json.Unmarshal(st.Config.Values[name], &now) == nil && now == value
}

// queued sends a message that waits, alone or into the turn in progress, gives it
// another text, or removes it.
func (s *Server) queued(c echo.Context) error {
	id, do := c.Param("id"), s.Hub.SendQueued
	switch c.FormValue("do") {
	case "send":
	case "steer":
		do = s.Hub.SteerQueued
	case "remove":
		do = s.Hub.Unqueue
	case "edit":
		text := lines(c.FormValue("text"))
		if strings.TrimSpace(text) == "" {
			return s.showSession(c, http.StatusUnprocessableEntity, id, views.Draft{Problem: "A queued message needs some words. Nothing was changed; “Remove” takes it away."})
		}
		do = func(ctx context.Context, id, message string) error { return s.Hub.Requeue(ctx, id, message, text) }
	default:
		return problemNoPage
	}
	return s.afterVerb(c, id, views.Draft{}, do(c.Request().Context(), id, c.Param("message")))
}

func (s *Server) renameForm(c echo.Context) error {
	v, err := s.Hub.Session(c.Param("id"))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.RenamePage(v, v.State.Summary.Title, ""))
}

func (s *Server) rename(c echo.Context) error {
	v, err := s.Hub.Session(c.Param("id"))
	if err != nil {
		return err
	}
	title := strings.TrimSpace(c.FormValue("title"))
	if title == "" || len(title) > maxTitle || strings.ContainsFunc(title, unicode.IsControl) {
		return s.render(c, http.StatusUnprocessableEntity, views.RenamePage(v, title, "A title is one line of up to 200 characters."))
	}
	return s.afterVerb(c, v.ID, views.Draft{}, s.Hub.Rename(c.Request().Context(), v.ID, title))
}

// operation returns the form of the operation that an address names. One that the
// session's link does not offer now has none.
func (s *Server) operation(c echo.Context) (f views.OperationForm, err error) {
	if f.Session, err = s.Hub.Session(c.Param("id")); err != nil {
		return f, err
	}
	for _, o := range f.Session.Link.Offers.Operations {
		if o.Name == c.Param("operation") {
			f.Operation, f.Fields = o, views.Fields{Prefix: o.Name, Settings: o.Params}
			return f, nil
		}
	}
	return f, problemNotOffered
}

func (s *Server) operationForm(c echo.Context) error {
	f, err := s.operation(c)
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.OperationPage(f))
}

func (s *Server) operate(c echo.Context) error {
	f, err := s.operation(c)
	if err != nil {
		return err
	}
	readSettings(c, &f.Fields, f.Session.State)
	if status, err := s.settled(c, &f.Fields); err != nil {
		return err
	} else if status != http.StatusOK {
		return s.render(c, status, views.OperationPage(f))
	}
	s.recordRisky(c, f.Fields, f.Session.ID, "“"+f.Session.State.Summary.Title+"”")
	other, err := s.Hub.Operate(c.Request().Context(), f.Session.ID, f.Operation.Name, f.Fields.Values)
	if err == nil {
		return s.goTo(c, "/s/"+other+"#now")
	}
	words, public := publicWords(err)
	if !public {
		return err
	}
	s.Log.Warn("not done", "operation", f.Operation.Name, "session", f.Session.ID, "err", err)
	f.Problem = words
	return s.render(c, http.StatusConflict, views.OperationPage(f))
}

// older lists the sessions that an agent keeps.
func (s *Server) older(c echo.Context) error {
	o := views.OlderPage{Text: query(c), First: c.QueryParam("cursor") == ""}
	return s.showOlder(c, http.StatusOK, c.QueryParam("agent"), c.QueryParam("cursor"), o)
}

func (s *Server) showOlder(c echo.Context, status int, provider, cursor string, o views.OlderPage) error {
	in := s.Hub.Inbox()
	for _, l := range in.Links {
		if l.Provider == provider && (o.Link.Key == "" || l.Key == provider) {
			o.Link = l
		}
	}
	if o.Link.Key == "" || len(cursor) > maxSetting {
		return problemNoPage
	}
	o.Known = map[string]bool{}
	for _, list := range [][]snapshot.Session{in.Sessions, s.Hub.Archived()} {
		for _, v := range list {
			o.Known[v.ID] = true
		}
	}
	var err error
	if o.Page, err = s.Agents.Older(c.Request().Context(), provider, strings.TrimSpace(o.Text), cursor); err != nil {
		words, public := publicWords(err)
		if !public {
			return err
		}
		s.Log.Warn("no older sessions", "provider", provider, "err", err)
		status = http.StatusBadGateway
		if o.Problem == "" {
			o.Problem = words
		}
	}
	return s.render(c, status, views.OlderSessionsPage(o))
}

// recall opens one of them.
func (s *Server) recall(c echo.Context) error {
	provider, uri := c.FormValue("agent"), c.FormValue("session")
	id, ok := strings.CutPrefix(uri, state.SessionScheme)
	if !ok {
		return problemNoPage
	}
	s.Hub.Readmit(uri)
	err := s.Agents.Recall(c.Request().Context(), provider, uri)
	if err == nil {
		return s.goTo(c, "/s/"+id+"#now")
	}
	words, public := publicWords(err)
	if !public {
		return err
	}
	s.Log.Warn("not opened", "provider", provider, "session", uri, "err", err)
	return s.showOlder(c, http.StatusBadGateway, provider, "", views.OlderPage{First: true, Problem: words})
}
