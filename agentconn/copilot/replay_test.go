package copilot

import (
	"path/filepath"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// TestRecordings replays what the real CLI has said, and checks what must hold of any
// session: what it called whole is shown as it was, and no turn, call or request is
// left open that ended.
func TestRecordings(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.rpc.jsonl", filepath.Join("*", "*.rpc.jsonl")} {
		more, _ := filepath.Glob(shared("recordings", "copilot", pattern))
		files = append(files, more...)
	}
	if len(files) == 0 {
		t.Skip("the recordings of Copilot are not here; NOD_SHARED may name the folder that holds them")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".rpc.jsonl"), func(t *testing.T) {
			s := newStage(t)
			s.play(file)
			for id := range s.conn.sessions {
				s.check(id)
			}
			if s.errors.Len() > 0 {
				t.Errorf("logged: %s", s.errors.String())
			}
		})
	}
}

// check holds a session against what was said about it.
func (s *stage) check(id string) {
	t := s.t
	v, err := s.hub.Session(id)
	if err != nil {
		t.Error(err)
		return
	}
	shown := map[string]string{}
	for n := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, n) {
			if snapshot.Superseded(v.State, n, i) {
				continue
			}
			switch p := snapshot.PartAt(v.State, n, i).(type) {
			case *state.MarkdownPart:
				shown[strings.TrimSuffix(p.ID, "/whole")] += p.Content.String()
			case *state.ToolCallPart:
				if p.ToolCall.Open() && n < len(v.State.Turns) {
					t.Errorf("call %s is %s though its turn ended", p.ToolCall.ToolCallID, p.ToolCall.Status)
				}
			}
		}
	}
	for _, a := range v.Approvals {
		switch {
		case a.Open() && v.State.ActiveTurn == nil:
			t.Errorf("request %s is %s though nothing runs", a.Request.UpstreamID, a.State)
		case a.Decision != nil && !a.Open() && a.State != approvals.Confirmed:
			t.Errorf("request %s was answered, and is %s", a.Request.UpstreamID, a.State)
		case a.Request.Kind == state.RequestUnknown, a.Request.Caution != "" && a.Request.Kind != state.RequestElsewhere:
			t.Errorf("request %s cannot be answered: %s", a.Request.UpstreamID, a.Request.Caution)
		}
	}
}
