package copilot

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod/agentconn/agenttest"
	"nod/state"
	"nod/state/approvals"
	"nod/state/schematest"
	"nod/state/snapshot"
)

// TestRecordings replays what the real CLI has said, and checks what must hold of any
// session: what it called whole is shown as it was, also in sub-agents, nothing is not
// understood, and no turn, call or request is left open that ended.
func TestRecordings(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.rpc.jsonl", filepath.Join("*", "*.rpc.jsonl")} {
		more, _ := filepath.Glob(agenttest.Shared("recordings", "copilot", pattern))
		files = append(files, more...)
	}
	own, _ := filepath.Glob(filepath.Join("testdata", "recordings", "*.rpc.jsonl"))
	files = append(files, own...)
	schema := schematest.Pinned(t)
	messages := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".rpc.jsonl"), func(t *testing.T) {
			s := newStage(t)
			s.play(file)
			for id, known := range s.conn.sessions {
				for _, a := range known.agents() {
					v := s.session(strings.TrimPrefix(a.uri, state.SessionScheme))
					messages += s.check(id, a, v)
					agenttest.CheckValid(t, schema, v)
				}
			}
			if s.errors.Len() > 0 {
				t.Errorf("logged: %s", s.errors.String())
			}
		})
	}
	if messages < 2*len(files) {
		t.Errorf("%d recordings have only %d messages", len(files), messages)
	}
}

func (s *session) agents() []*agent {
	return append([]*agent{s.main}, slices.Collect(maps.Values(s.subs))...)
}

// check holds an agent's session against what was said about it, and returns how many
// messages were.
func (s *stage) check(id string, a *agent, v snapshot.Session) (messages int) {
	t := s.t
	shown := map[string]string{} // text by message id
	calls := map[string]state.ToolCall{}
	for n := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, n) {
			if snapshot.Superseded(v.State, n, i) {
				continue
			}
			switch p := snapshot.PartAt(v.State, n, i).(type) {
			case *state.MarkdownPart:
				shown[strings.TrimSuffix(p.ID, "/whole")] += p.Content.String()
			case *state.ReasoningPart:
				shown[p.Content.String()] = "thought"
			case *state.ToolCallPart:
				calls[p.ToolCall.ToolCallID] = p.ToolCall
				if p.ToolCall.Open() && n < len(v.State.Turns) {
					t.Errorf("call %s is %s though its turn ended", p.ToolCall.ToolCallID, p.ToolCall.Status)
				}
			case *state.NotificationPart:
				if p.Meta["nod.raw"] != nil {
					t.Errorf("not understood: %s", p.Content.Text)
				}
			}
		}
	}
	idle := false
	told := map[string]bool{}
	for _, h := range s.heard {
		if h.session != id || told[h.ID] {
			continue
		}
		told[h.ID] = true
		switch h.Type {
		case "user.message", "assistant.turn_start":
			if h.AgentID == "" {
				idle = false
			}
		case "session.idle":
			idle = true
		}
		if h.AgentID != a.id {
			continue
		}
		switch h.Type {
		case "assistant.message":
			var p messageData
			if err := json.Unmarshal(h.Data, &p); err != nil {
				t.Fatal(err)
			}
			if shown[p.MessageID] != p.Content {
				t.Errorf("message %s: %q is shown, %q was said", p.MessageID, shown[p.MessageID], p.Content)
			}
			if p.ReasoningText != "" && shown[p.ReasoningText] == "" {
				t.Errorf("message %s: the thoughts %q are not shown", p.MessageID, p.ReasoningText)
			}
			messages++
		case "tool.execution_complete":
			var p toolEnd
			if err := json.Unmarshal(h.Data, &p); err != nil {
				t.Fatal(err)
			}
			if c, begun := calls[p.ToolCallID]; begun { // in a session that is resumed it may not be
				checkEnd(t, v, c, p)
			}
		}
	}
	if idle && v.State.ActiveTurn != nil {
		t.Error("a turn is open though the session is idle")
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
	return messages
}

// checkEnd holds a call against how Copilot says that it has ended.
func checkEnd(t *testing.T, v snapshot.Session, c state.ToolCall, p toolEnd) {
	t.Helper()
	exit, exited := p.exit()
	success := p.Success && (exit.ExitCode == nil || *exit.ExitCode == 0 || !strings.Contains(c.ToolName, "bash"))
	switch {
	case c.Open():
		t.Errorf("call %s is %s though it ended", c.ToolCallID, c.Status)
	case c.Status == state.ToolCancelled:
		if p.Success {
			t.Errorf("call %s has succeeded and is cancelled", c.ToolCallID)
		}
	case state.Value(c.Success) != success:
		t.Errorf("call %s: success is %v", c.ToolCallID, state.Value(c.Success))
	}
	i := slices.IndexFunc(c.Content, func(x state.ToolResultContent) bool { return x.Type == state.ContentTerminal })
	if c.ToolName != "bash" || !exited {
		return
	}
	if i < 0 {
		t.Errorf("command %s shows no terminal", c.ToolCallID)
		return
	}
	cmd := v.Terminals.Get(*c.Content[i].Resource).Command()
	if cmd == nil || !cmd.IsComplete || (cmd.ExitCode == nil) != (exit.ExitCode == nil) || cmd.ExitCode != nil && *cmd.ExitCode != *exit.ExitCode {
		t.Errorf("command %s is not shown as it ended: %+v", c.ToolCallID, cmd)
		return
	}
	if said, _, whole := strings.Cut(p.Result.Content, "<shellId:"); whole && !strings.HasPrefix(said, "Output too large") && strings.TrimSpace(said) != strings.TrimSpace(cmd.Output.String()) {
		t.Errorf("command %s shows %q, %q was written", c.ToolCallID, cmd.Output.String(), said)
	}
}
