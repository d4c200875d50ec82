package copilot

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	s := &stage{t: t, calls: map[string]message{}}
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
func (s *stage) Answer(_ context.Context, _ state.Request, d state.Decision) error {
	s.decided = append(s.decided, d)
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

// said plays a message to the server. A decision goes through the door it has to.
func (s *stage) said(line json.RawMessage) {
	s.t.Helper()
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		s.t.Fatal(err)
	}
	if m.Method == "" {
		return
	}
	s.calls[string(m.ID)] = m
	var p struct {
		SessionID string `json:"sessionId"`
		RequestID string `json:"requestId"`
		Result    struct {
			Kind string `json:"kind"`
		} `json:"result"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "session.create", "session.resume":
		if s.conn.sessions[p.SessionID] == nil {
			s.conn.enter(p.SessionID)
		}
	case "session.permissions.handlePendingPermissionRequest":
		for _, a := range s.approvals() {
			if _, offered := a.Request.Option(p.Result.Kind); offered && a.State == approvals.Pending && string(a.Request.UpstreamID) == string(requestID(p.RequestID)) {
				if _, err := s.hub.Decide(s.t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: p.Result.Kind}); err != nil {
					s.t.Errorf("decision %s: %v", p.Result.Kind, err)
				}
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
	f, err := os.Open(file)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var rec struct {
				Dir string
				Msg json.RawMessage
			}
			if err := json.Unmarshal(line, &rec); err != nil {
				s.t.Fatal(err)
			}
			switch rec.Dir { // others are notes of the recorder
			case "s2c":
				s.in(rec.Msg)
			case "c2s":
				s.said(rec.Msg)
			}
		}
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			s.t.Fatal(err)
		}
	}
}

// shared is the folder of what does not belong to the module: recordings, schemas.
func shared(path ...string) string {
	root := os.Getenv("NOD_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	return filepath.Join(append([]string{root}, path...)...)
}
