package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"nod/agentconn/agenttest"
	"nod/agentconn/forms"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/snapshot"
)

// stage replays one side of a conversation with Copilot through the adapter into a
// real hub: what the server said is read, and what was said to it is done.
type stage struct {
	t       *testing.T
	conn    *conn
	hub     *hub.Hub
	id      string             // of the newest session
	calls   map[string]message // made, by id
	asked   map[string]string  // methods of the calls of the server, by id
	heard   []heardEvent       // of all sessions, in order, as they came first
	decided []state.Decision   // that went out
	errors  strings.Builder    // what was logged as an error
}

type heardEvent struct {
	event
	session string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, calls: map[string]message{}, asked: map[string]string{}}
	log := slog.New(slog.NewTextHandler(&s.errors, &slog.HandlerOptions{Level: slog.LevelError}))
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if s.hub, err = hub.New(t.Context(), store, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.hub.Close(context.Background()) })
	a := &remote{cfg: Config{Log: log, held: &held{}}, Server: Server{Address: "127.0.0.1:1", TokenFile: "none"}}
	s.conn = newConn(a, a.cfg, s.hub, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing runs beside the reader
	t.Cleanup(s.conn.running.Wait)
	s.conn.ctx, s.conn.stop, s.conn.room.epoch, s.conn.room.rests, s.conn.room.todos = ctx, func() {}, "e", nil, nil
	s.hub.SetUpstream(s, []state.Link{{Key: a.Key(), Provider: a.Provider(), DisplayName: "Copilot", Status: state.LinkUp, Epoch: "e"}})
	return s
}

// CreateSession, Dispatch and Operate are not called: the stage does what they would
// do when the server answers.
func (s *stage) CreateSession(context.Context, state.NewSession) (string, error) { return "", errLost }

func (s *stage) Dispatch(context.Context, string, *state.Session, state.Action) error { return errLost }

func (s *stage) Operate(context.Context, string, *state.Session, string, map[string]string) (string, error) {
	return "", errLost
}

// Answer notes a decision; the recording tells what came of it.
func (s *stage) Answer(_ context.Context, r state.Request, d state.Decision) error {
	s.decided = append(s.decided, d)
	o, _ := r.Option(d.OptionID)
	s.conn.waits(sessionID(r.Session), r.UpstreamID).option = o.Kind
	return nil
}

// in plays a message of the server.
func (s *stage) in(line json.RawMessage) {
	s.t.Helper()
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		s.t.Fatal(err)
	}
	if m.Method == "session.event" {
		var p struct {
			SessionID string
			Event     json.RawMessage
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			s.t.Fatal(err)
		}
		if e, err := readEvent(p.Event); err == nil {
			s.heard = append(s.heard, heardEvent{e, p.SessionID})
		}
	}
	if m.Method != "" {
		s.asked[string(m.ID)] = m.Method
		s.conn.receive(m)
		return
	}
	asked := s.calls[string(m.ID)]
	var p struct {
		SessionID        string `json:"sessionId"`
		WorkingDirectory string `json:"workingDirectory"`
		Prompt           string `json:"prompt"`
	}
	_ = json.Unmarshal(asked.Params, &p) // none for calls that are not about a session
	if m.Error != nil {
		return
	}
	for kind, known := range requests {
		if known.method != "" && known.method == asked.Method {
			s.taken(kind, asked.Params, m.Result)
		}
	}
	switch asked.Method {
	case "session.create", "session.resume":
		s.id = p.SessionID
		err := s.conn.begin(s.id, &state.SessionSummary{
			Resource: uriOf(s.id), Provider: s.conn.room.provider, Status: state.StatusIdle, CreatedAt: time.Now().UnixMilli(), ModifiedAt: time.Now().UnixMilli(),
			WorkingDirectory: new(state.FileURI(p.WorkingDirectory)),
		}, m.Result)
		if err != nil {
			s.t.Fatal(err)
		}
		s.conn.sessions[s.id].caughtUp(s.t.Context())
	case "session.plan.readSqlTodos":
		if err := s.conn.planned(p.SessionID, m.Result); err != nil {
			s.t.Fatal(err)
		}
	case "session.send":
		if err := s.conn.sent(p.SessionID, state.UserMessage(p.Prompt), m.Result); err != nil {
			s.t.Fatal(err)
		}
	}
}

// callbacks are the calls that ask a client what an event asks, too.
var callbacks = map[string]string{"userInput.request": "user_input.requested", "exitPlanMode.request": "exit_plan_mode.requested"}

// said plays a message to the server. A decision goes through the door it has to.
func (s *stage) said(line json.RawMessage) {
	s.t.Helper()
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		s.t.Fatal(err)
	}
	if m.Method == "" { // the recorder was asked by a call, too, and has answered that
		if kind := callbacks[s.asked[string(m.ID)]]; kind != "" {
			s.decide(kind, "", m.Result)
			s.taken(kind, nil, json.RawMessage(`{"success":true}`))
		}
		return
	}
	s.calls[string(m.ID)] = m
	var p struct {
		SessionID string          `json:"sessionId"`
		RequestID string          `json:"requestId"`
		Result    json.RawMessage `json:"result"`
		Response  json.RawMessage `json:"response"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "session.create", "session.resume":
		if s.conn.sessions[p.SessionID] == nil {
			s.conn.enter(p.SessionID)
		}
	}
	for kind, known := range requests {
		if known.method == m.Method {
			s.decide(kind, p.RequestID, slices.Concat(p.Result, p.Response))
		}
	}
}

// decide has a person give the answer that was recorded. Recorders have given it
// twice, too, to see what comes of that.
func (s *stage) decide(kind, id string, answer json.RawMessage) {
	s.t.Helper()
	a := s.waiting(kind, id)
	if a == nil {
		return
	}
	var w struct {
		Kind           string                     `json:"kind"`
		Feedback       string                     `json:"feedback"`
		Answer         string                     `json:"answer"`
		WasFreeform    bool                       `json:"wasFreeform"`
		Action         string                     `json:"action"`
		Content        map[string]json.RawMessage `json:"content"`
		SelectedAction string                     `json:"selectedAction"`
		Approved       *bool                      `json:"approved"` // of a plan
	}
	if err := json.Unmarshal(answer, &w); err != nil {
		s.t.Fatal(err)
	}
	d := state.Decision{OptionID: cmp.Or(w.Kind, w.Action, w.SelectedAction, answerOption), Reason: w.Feedback}
	if w.Approved != nil && !*w.Approved {
		d.OptionID = "reject"
	}
	if w.Answer != "" {
		given := state.Answer{Selected: []string{w.Answer}}
		if w.WasFreeform {
			given = state.Answer{Text: w.Answer}
		}
		d.Answers = map[string]state.Answer{answerOption: given}
	}
	for name, raw := range w.Content {
		if d.Answers == nil {
			d.Answers = map[string]state.Answer{}
		}
		given := state.Answer{Text: forms.Member{Value: raw}.Words()}
		for _, q := range a.Request.Questions.Questions {
			if q.ID == name && len(q.Options) > 0 {
				if json.Unmarshal(raw, &given.Selected) != nil {
					given.Selected = []string{given.Text}
				}
				given.Text = ""
			}
		}
		d.Answers[name] = given
	}
	if _, offered := a.Request.Option(d.OptionID); !offered {
		return // the recorder has tried what a person is not offered
	}
	if _, err := s.hub.Decide(s.t.Context(), "me", a.ID, a.Digest, a.Nonce, d); err != nil {
		s.t.Errorf("decision %+v: %v", d, err)
	}
}

// waiting is a request that a person may answer, nil if there is none.
func (s *stage) waiting(kind, id string) *approvals.Approval {
	for _, a := range s.approvals() {
		if a.State == approvals.Pending && a.Request.Method == kind && (id == "" || string(a.Request.UpstreamID) == string(requestID(id))) {
			return a
		}
	}
	return nil
}

// taken plays what came of an answer, if it was a person's.
func (s *stage) taken(kind string, params, result json.RawMessage) {
	var p struct{ RequestID string }
	var r struct{ Success bool }
	_ = json.Unmarshal(params, &p) // none for the answer to a call
	if err := json.Unmarshal(result, &r); err != nil {
		s.t.Fatal(err)
	}
	for _, known := range s.conn.sessions {
		for _, k := range slices.Clone(known.asks) {
			if k.option != "" && !k.taken && k.request.Method == kind && (p.RequestID == "" || string(k.request.UpstreamID) == string(requestID(p.RequestID))) {
				_ = known.sent(s.t.Context(), k.request.UpstreamID, r.Success) // the hub has heard it
			}
		}
	}
}

// approvals are those of all sessions.
func (s *stage) approvals() (all []*approvals.Approval) {
	for _, known := range s.conn.sessions {
		for _, id := range append([]string{known.main.uri}, subURIs(known)...) {
			if v, err := s.hub.Session(strings.TrimPrefix(id, state.SessionScheme)); err == nil {
				all = append(all, v.Approvals...)
			}
		}
	}
	return all
}

func subURIs(s *session) (out []string) {
	for _, a := range s.subs {
		out = append(out, a.uri)
	}
	return out
}

func (s *stage) view() snapshot.Session {
	s.t.Helper()
	return s.session(s.id)
}

func (s *stage) session(id string) snapshot.Session {
	s.t.Helper()
	v, err := s.hub.Session(id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// play replays a recording of both sides.
func (s *stage) play(file string) {
	s.t.Helper()
	agenttest.Play(s.t, file, func(dir string, msg json.RawMessage) {
		switch dir { // others are notes of the recorder
		case "s2c":
			s.in(msg)
		case "c2s":
			s.said(msg)
		}
	})
}
