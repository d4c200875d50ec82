package codex

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/agentconn/agenttest"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/schematest"
	"nod/state/snapshot"
)

// stage replays one side of a conversation with Codex through the adapter into a
// real hub: what Codex said is read, and what was said to it is done.
type stage struct {
	t       *testing.T
	conn    *conn
	hub     *hub.Hub
	data    string            // folder of the journal
	id      string            // of the newest session
	threads map[string]string // id of a thread -> of its session
	heard   []heard           // what was said about them
	calls   map[string]message
	prompt  state.Message
	sent    paper
	errors  strings.Builder // what was logged as an error
	leaving func()          // what happens while an answer is on its way here; nil for nothing
}

// heard is a notification about a thread that the adapter had by then.
type heard struct {
	thread, method string
	params         params
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, calls: map[string]message{}, threads: map[string]string{}, prompt: state.UserMessage("first"), data: t.TempDir()}
	log := slog.New(slog.NewTextHandler(&s.errors, &slog.HandlerOptions{Level: slog.LevelError}))
	store, err := journal.Open(t.Context(), s.data, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if s.hub, err = hub.New(t.Context(), store, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.hub.Close(context.Background()) })
	s.conn = newConn(place{Provider, Provider, displayName, Config{Log: log}}, s.hub, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing runs beside the reader
	t.Cleanup(s.conn.running.Wait)
	s.conn.ctx, s.conn.wire, s.conn.epoch, s.conn.calls, s.conn.stop = ctx, &s.sent, "e", map[int]*call{}, func() {}
	s.hub.SetUpstream(s, []state.Link{{Key: Provider, Provider: Provider, DisplayName: "Codex", Status: state.LinkUp, Epoch: "e"}})
	return s
}

// paper is a wire that keeps what is written to it.
type paper struct{ strings.Builder }

func (p *paper) read(context.Context) ([]byte, *agentconn.Outline, error) { return nil, nil, io.EOF }
func (p *paper) end() (error, string)                                     { return nil, "" }
func (p *paper) write(_ context.Context, msg []byte) error {
	_, err := p.Write(append(msg, '\n'))
	return err
}

// CreateSession and Dispatch are not called: the stage does what they would do when
// Codex answers.
func (s *stage) CreateSession(context.Context, state.NewSession) (string, error) {
	return "", errLost
}

func (s *stage) Dispatch(context.Context, string, *state.Session, state.Action) error { return errLost }

func (s *stage) Operate(ctx context.Context, _ string, st *state.Session, operation string, args map[string]string) (string, error) {
	return s.conn.Operate(ctx, st, operation, args)
}

func (s *stage) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	if s.leaving != nil {
		s.leaving()
	}
	return s.conn.Answer(ctx, r, d)
}

// in plays a message of Codex.
func (s *stage) in(line []byte) {
	s.t.Helper()
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		s.t.Fatal(err)
	}
	asked := s.calls[string(m.ID)]
	switch {
	case m.Method != "" || m.Result == nil:
		var p params
		if json.Unmarshal(m.Params, &p) == nil && m.ID == nil && s.threads[p.ThreadID] != "" {
			s.heard = append(s.heard, heard{p.ThreadID, m.Method, p})
		}
		s.conn.receive(s.t.Context(), m, line)
	case asked.Method == "thread/start" || asked.Method == "thread/resume":
		s.attach(m.Result)
	case asked.Method == "turn/start":
		var r struct {
			Turn struct{ ID string }
		}
		var p struct {
			ThreadID string
			Input    json.RawMessage
		}
		if errors.Join(json.Unmarshal(m.Result, &r), json.Unmarshal(asked.Params, &p)) != nil {
			s.t.Fatal("no turn")
		}
		if p.Input != nil {
			s.prompt = state.UserMessage(wireItem{Content: p.Input}.message())
		}
		if th := s.conn.threads[p.ThreadID]; th != nil && th.turn != r.Turn.ID {
			th.begin(s.t.Context(), s.conn, r.Turn.ID, s.prompt)
		}
	}
}

// attach makes a session of a thread that was started or resumed, and catches up
// with it.
func (s *stage) attach(result json.RawMessage) {
	s.t.Helper()
	var a attached
	if err := json.Unmarshal(result, &a); err != nil {
		s.t.Fatal(err)
	}
	if s.threads[a.Thread.ID] != "" { // resumed once more
		return
	}
	th, st, err := s.conn.enter(s.t.Context(), a.Thread, a.Model)
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = a.Thread.ID
	s.threads[th.id] = s.id
	turns, more := a.turns()
	for _, t := range turns { // all of it is to be shown
		for _, w := range t.Items {
			if w.Status != "inProgress" {
				s.heard = append(s.heard, heard{th.id, "item/completed", params{TurnID: t.ID, Item: w}})
			}
		}
		if t.Status != "inProgress" {
			s.heard = append(s.heard, heard{th.id, "turn/completed", params{Turn: t.wireTurn}})
		}
	}
	s.conn.reconcile(s.t.Context(), th, st, a.Thread, turns, more)
}

// said plays a message to Codex. A decision goes through the door it has to.
func (s *stage) said(line []byte) {
	s.t.Helper()
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		s.t.Fatal(err)
	}
	if m.Method != "" {
		s.calls[string(m.ID)] = m
		return
	}
	var r struct {
		Decision json.RawMessage
	}
	_ = json.Unmarshal(m.Result, &r) // other answers have no decision
	var word string
	if json.Unmarshal(r.Decision, &word) != nil {
		return
	}
	for _, id := range s.threads {
		for _, a := range s.session(id).Approvals {
			_, offered := a.Request.Option(word) // one recording says a word that no Codex knows
			if offered && a.State == approvals.Pending && string(a.Request.UpstreamID) == string(m.ID) {
				if _, err := s.hub.Decide(s.t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: word}); err != nil {
					s.t.Errorf("decision %s: %v", word, err)
				}
			}
		}
	}
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

func (s *stage) play(file string) {
	s.t.Helper()
	agenttest.Play(s.t, file, func(dir string, msg json.RawMessage) {
		switch {
		case len(msg) == 0 || msg[0] != '{': // a note of the recorder
		case dir == "in":
			s.in(msg)
		default:
			s.said(msg)
		}
	})
}

// TestRecordings replays what the real Codex has said, of both versions, and
// checks what must hold of any session: what Codex called complete is shown as
// it was completed, and no turn, call or request is left open that ended.
func TestRecordings(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.jsonl", filepath.Join("*", "*.jsonl")} {
		more, _ := filepath.Glob(agenttest.Shared("recordings", "codex", pattern))
		files = append(files, more...)
	}
	if len(files) == 0 {
		t.Skip("the recordings of Codex are not here; NOD_SHARED may name the folder that holds them")
	}
	schema := schematest.Pinned(t)
	turns := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newStage(t)
			s.play(file)
			for thread, id := range s.threads {
				v := s.session(id)
				s.check(thread, v)
				agenttest.CheckValid(t, schema, v)
				turns += len(v.State.Turns)
			}
			if s.errors.Len() > 0 {
				t.Errorf("logged: %s", s.errors.String())
			}
		})
	}
	if turns < 80 {
		t.Errorf("the recordings have only %d turns", turns)
	}
}

// check holds a session against what was said about its thread.
func (s *stage) check(thread string, v snapshot.Session) {
	t := s.t
	shown := map[string]string{} // text by item id
	calls := map[string]state.ToolCall{}
	for n := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, n) {
			if snapshot.Superseded(v.State, n, i) {
				continue
			}
			switch p := snapshot.PartAt(v.State, n, i).(type) {
			case *state.MarkdownPart:
				shown[strings.TrimSuffix(p.ID, "/completed")] += p.Content.String()
				if p.Meta["nod.joined"] != nil && n < len(v.State.Turns) && v.State.Turns[n].State == state.TurnComplete {
					t.Errorf("message %s is still shown without its begin", p.ID)
				}
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
	ended := 0
	for _, h := range s.heard {
		if h.thread != thread {
			continue
		}
		switch p := h.params; h.method {
		case "turn/completed":
			ended++
		case "item/completed":
			switch p.Item.Type {
			case "agentMessage":
				if shown[p.Item.ID] != p.Item.Text {
					t.Errorf("message %s: %q is shown, %q was said", p.Item.ID, shown[p.Item.ID], p.Item.Text)
				}
			case "mcpToolCall", "fileChange":
				if c := calls[p.Item.ID]; c.Success == nil && c.Reason != state.CancelledDenied {
					t.Errorf("call %s is %s though it ended", p.Item.ID, c.Status)
				}
			case "commandExecution":
				c := calls[p.Item.ID]
				if c.Open() {
					t.Errorf("command %s is %s though it ended", p.Item.ID, c.Status)
				}
				if p.Item.Status == "declined" && c.Reason != state.CancelledDenied && c.Reason != state.CancelledSkipped && state.Value(c.Success) {
					t.Errorf("command %s was declined, but is %s", p.Item.ID, c.Status)
				}
				if p.Item.Status == "completed" {
					checkOutput(t, v, c, p.Item)
				}
			}
		}
	}
	if len(v.State.Turns) != ended {
		t.Errorf("%d turns, %d ended", len(v.State.Turns), ended)
	}
	if v.State.ActiveTurn == nil {
		for _, a := range v.Approvals {
			if a.Open() {
				t.Errorf("request %s is %s though nothing runs", a.Request.UpstreamID, a.State)
			}
		}
	}
}

func checkOutput(t *testing.T, v snapshot.Session, c state.ToolCall, w wireItem) {
	i := slices.IndexFunc(c.Content, func(x state.ToolResultContent) bool { return x.Type == "terminal" })
	if i < 0 {
		t.Errorf("command %s shows no terminal", w.ID)
		return
	}
	cmd := v.Terminals.Get(*c.Content[i].Resource).Command()
	if cmd == nil || !cmd.IsComplete {
		t.Errorf("command %s is not complete in its terminal", w.ID)
		return
	}
	if len(w.AggregatedOutput) < 1<<20 && !strings.HasSuffix(w.AggregatedOutput, cmd.Output.String()) && !strings.HasSuffix(cmd.Output.String(), w.AggregatedOutput) {
		t.Errorf("command %s shows %d bytes, %d were written", w.ID, cmd.Output.Len(), len(w.AggregatedOutput))
	}
	if (cmd.ExitCode == nil) != (w.ExitCode == nil) || cmd.ExitCode != nil && *cmd.ExitCode != *w.ExitCode {
		t.Errorf("command %s: another exit code", w.ID)
	}
}

// begin has Codex start a thread and a turn.
func (s *stage) begin() {
	s.said([]byte(`{"id":2,"method":"thread/start","params":{}}`))
	s.in([]byte(`{"id":2,"result":{"thread":{"id":"th"},"model":"m"}}`))
	s.said([]byte(`{"id":3,"method":"turn/start","params":{"threadId":"th"}}`))
	s.in([]byte(`{"id":3,"result":{"turn":{"id":"tu"}}}`))
	s.in([]byte(`{"method":"turn/started","params":{"threadId":"th","turn":{"id":"tu"}}}`))
}

func (s *stage) lines(lines ...string) {
	for _, l := range lines {
		s.in([]byte(l))
	}
}

const (
	startCommand = `{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":{"type":"commandExecution","id":"c","command":"/bin/sh -c ls","cwd":"/w","status":"inProgress","commandActions":[{"type":"unknown","command":"ls"}]}}}`
	askCommand   = `{"method":"item/commandExecution/requestApproval","id":10,"params":{"threadId":"th","turnId":"tu","itemId":"c","command":"/bin/sh -c ls","cwd":"/w"}}`
)

// TestAnswerKeepsTheID sends the id back as it came, and only the decision.
func TestAnswerKeepsTheID(t *testing.T) {
	for id, option := range map[string]string{`10`: "accept", `"10"`: "decline", `0`: "acceptForSession", `"a b"`: "cancel"} {
		s := newStage(t)
		s.begin()
		s.lines(startCommand, strings.Replace(askCommand, `"id":10`, `"id":`+id, 1))
		a := s.view().Approvals[0]
		if a.Request.Input != "/bin/sh -c ls" || a.Request.Cwd != "/w" {
			t.Errorf("asked for %q in %q", a.Request.Input, a.Request.Cwd)
		}
		if _, err := s.hub.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: option}); err != nil {
			t.Fatal(err)
		}
		if got, want := s.sent.String(), `{"id":`+id+`,"result":{"decision":"`+option+`"}}`+"\n"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
}

// TestC07UnknownRequest becomes a card and is never answered.
func TestC07UnknownRequest(t *testing.T) {
	for name, line := range map[string]string{
		"unknown method":     `{"method":"item/new/request","id":4,"params":{"threadId":"th","turnId":"tu"}}`,
		"odd parameters":     `{"method":"item/commandExecution/requestApproval","id":4,"params":{"threadId":"th","command":7}}`,
		"no command":         `{"method":"item/commandExecution/requestApproval","id":4,"params":{"threadId":"th","itemId":"c"}}`,
		"a file never shown": `{"method":"item/fileChange/requestApproval","id":4,"params":{"threadId":"th","itemId":"never"}}`,
	} {
		s := newStage(t)
		s.begin()
		s.lines(line)
		as := s.view().Approvals
		if len(as) != 1 || as[0].Request.Kind != state.RequestUnknown || len(as[0].Request.Options) != 0 {
			t.Errorf("%s: %+v", name, as)
		}
		if s.sent.Len() > 0 {
			t.Errorf("%s was answered: %s", name, s.sent.String())
		}
	}
}

// TestC09OddNeighbour: a request that cannot be read takes no other with it.
func TestC09OddNeighbour(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(startCommand, askCommand, `{"method":"item/commandExecution/requestApproval","id":11,"params":{"threadId":"th","itemId":null,"command":null}}`)
	as := s.view().Approvals
	if len(as) != 2 || as[0].State != approvals.Pending || len(as[0].Request.Options) == 0 || as[1].Request.Kind != state.RequestUnknown {
		t.Errorf("%+v", as)
	}
}

// TestUnknownMessagesAreNotFatal plays what no schema knows, and then a word.
func TestUnknownMessagesAreNotFatal(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(
		`{"method":"thread/newThing","params":{"threadId":"th"}}`,
		`{"method":"thread/newThing"}`,
		`{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":{"type":"hologram","id":"h"}}}`,
		`{"method":"item/completed","params":{"threadId":"th","turnId":"tu","item":{"type":"hologram","id":"h"}}}`,
		`{"method":"item/started","params":{"threadId":"th","item":"no object"}}`,
		`{"method":"turn/completed","params":{"threadId":"other","turn":{"id":"x"}}}`,
		`{"id":99,"result":{}}`, `{"id":"x","error":{"code":1,"message":"m"}}`, `{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":77}}`,
		`{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"m","delta":"still here"}}`,
	)
	parts := s.view().State.ActiveTurn.ResponseParts.Slice()
	if m, ok := parts[len(parts)-1].(*state.MarkdownPart); !ok || m.Content.String() != "still here" {
		t.Errorf("%+v", parts)
	}
	if n, ok := parts[0].(*state.NotificationPart); !ok || !strings.Contains(string(n.Meta["nod.raw"]), "newThing") {
		t.Errorf("an unknown notification is shown as %+v", parts[0])
	}
	if c, ok := parts[1].(*state.ToolCallPart); !ok || c.ToolCall.Status != state.ToolCompleted || !strings.Contains(*c.ToolCall.ToolInput, `"hologram"`) {
		t.Errorf("an unknown item is shown as %+v", parts[1])
	}
}

// TestInterruptClosesWhatIsOpen keeps the output of a command that the end of
// its turn cut off.
func TestInterruptClosesWhatIsOpen(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(startCommand,
		`{"method":"item/commandExecution/outputDelta","params":{"threadId":"th","turnId":"tu","itemId":"c","delta":"tick\n"}}`,
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted"}}}`)
	v := s.view()
	if len(v.State.Turns) != 1 || v.State.Turns[0].State != state.TurnCancelled {
		t.Fatalf("%+v", v.State)
	}
	c := v.State.Turns[0].ResponseParts[0].(*state.ToolCallPart).ToolCall
	if c.Open() || len(c.Content) != 1 || v.Terminals.Get(*c.Content[0].Resource).Command().Output.String() != "tick\n" {
		t.Errorf("%+v", c)
	}
}

// TestBackgroundCommandEndsAfterItsTurn still shows how it ended.
func TestBackgroundCommandEndsAfterItsTurn(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(startCommand,
		`{"method":"item/commandExecution/outputDelta","params":{"threadId":"th","turnId":"tu","itemId":"c","delta":"one\n"}}`,
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"completed"}}}`,
		`{"method":"item/commandExecution/outputDelta","params":{"threadId":"th","turnId":"tu","itemId":"c","delta":"two\n"}}`,
		`{"method":"item/completed","params":{"threadId":"th","turnId":"tu","item":{"type":"commandExecution","id":"c","status":"completed","exitCode":0,"durationMs":5}}}`)
	v := s.view()
	c := v.State.Turns[0].ResponseParts[0].(*state.ToolCallPart).ToolCall
	cmd := v.Terminals.Get(*c.Content[0].Resource).Command()
	if !cmd.IsComplete || *cmd.ExitCode != 0 || cmd.Output.String() != "one\ntwo\n" {
		t.Errorf("%+v", cmd)
	}
}

func TestUnifiedDiff(t *testing.T) {
	var cs []fileChange
	if err := json.Unmarshal([]byte(`[
		{"path":"/w/new","kind":{"type":"add"},"diff":"a\nb\n"},
		{"path":"/w/old","kind":{"type":"delete"},"diff":"gone"},
		{"path":"/w/x","kind":{"type":"update","move_path":"/w/y"},"diff":"@@ -1 +1 @@\n-a\n+b"}]`), &cs); err != nil {
		t.Fatal(err)
	}
	const want = "--- /dev/null\n+++ /w/new\n@@ -0,0 +1,2 @@\n+a\n+b\n" +
		"--- /w/old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-gone\n" +
		"--- /w/x\n+++ /w/y\n@@ -1 +1 @@\n-a\n+b\n"
	if got := unified(cs); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	edits := fileEdits(cs)
	for i, want := range []string{`{"added":2}`, `{"removed":1}`, `{"added":1,"removed":1}`} {
		if got, err := state.Marshal(edits[i].Diff); err != nil || string(got) != want {
			t.Errorf("edit %d: %s, %v", i, got, err)
		}
	}
}

// TestR20MoreThanIsShown: an approval that holds more than its card can show can
// only be denied.
func TestR20MoreThanIsShown(t *testing.T) {
	for name, field := range map[string]string{
		"network":       `"networkApprovalContext":{"host":"example.org","protocol":"https","port":8443}`,
		"more rights":   `"additionalPermissions":{"network":{"enabled":true},"camera":true}`,
		"another place": `"additionalPermissions":{"fileSystem":{"entries":[{"access":"write","path":{"type":"special","value":{"kind":"unknown","path":"/x"}}}]}}`,
		"a skill":       `"skillMetadata":{"pathToSkillsMd":"/s/SKILL.md","trusts":"all"}`,
		"another kind":  `"kind":"telepathy"`,
		"unknown field": `"alsoGrants":"everything"`,
	} {
		s := newStage(t)
		s.begin()
		s.lines(startCommand, strings.Replace(askCommand, `"cwd":"/w"`, `"cwd":"/w",`+field, 1))
		a := s.view().Approvals[0]
		if a.Request.Caution == "" || slices.ContainsFunc(a.Request.Options, func(o state.ConfirmationOption) bool { return o.Kind == state.OptionApprove }) {
			t.Errorf("%s: it can be approved: %+v", name, a.Request.Options)
		}
	}
}

// TestATurnBeginsOnce: a message that steers names the turn that runs; what it
// has shown stays.
func TestATurnBeginsOnce(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(`{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"m","delta":"kept"}}`)
	s.said([]byte(`{"id":4,"method":"turn/start","params":{"threadId":"th"}}`))
	s.conn.threads["th"].begin(t.Context(), s.conn, "tu", state.UserMessage("second"))
	turn := s.view().State.ActiveTurn
	if turn.ResponseParts.Len() != 1 || turn.Message.Text != "first" {
		t.Errorf("%+v", turn)
	}
}

// TestForeignTurn takes the message of a turn that somebody else has started
// from its first item.
func TestForeignTurn(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"completed"}}}`,
		`{"method":"turn/started","params":{"threadId":"th","turn":{"id":"theirs"}}}`,
		`{"method":"item/started","params":{"threadId":"th","turnId":"theirs","item":{"type":"userMessage","id":"u","content":[{"type":"text","text":"from elsewhere"}]}}}`,
		`{"method":"item/completed","params":{"threadId":"th","turnId":"theirs","item":{"type":"agentMessage","id":"m","text":"hello"}}}`)
	turn := s.view().State.ActiveTurn
	if turn == nil || turn.Message.Text != "from elsewhere" || turn.ResponseParts.Len() != 1 {
		t.Errorf("%+v", turn)
	}
}

// TestEmptyFileChange: what shows nothing cannot be approved.
func TestEmptyFileChange(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(`{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":{"type":"fileChange","id":"f","changes":[]}}}`,
		`{"method":"item/fileChange/requestApproval","id":4,"params":{"threadId":"th","turnId":"tu","itemId":"f"}}`)
	if r := s.view().Approvals[0].Request; r.Kind != state.RequestUnknown || len(r.Options) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestForgedFileName cannot begin a second file in a diff.
func TestForgedFileName(t *testing.T) {
	var f fileChange
	f.Path, f.Kind.Type, f.Diff = "/w/real\n+++ /w/harmless", "add", "x\n"
	if got := unified([]fileChange{f}); strings.Contains(got, "\n+++ /w/harmless\n") {
		t.Errorf("%s", got)
	}
}
