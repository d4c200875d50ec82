package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nod/agentconn"
	"nod/state"
	"nod/state/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sessionURI = "ahp-session:/s1"
	epoch      = "epoch-1"
	prompt     = "Make the cache | of `shop` stop growing"
)

// house is a hub of one session with a demo behind it. It takes only actions that
// change something, so that nothing is said too late or of the wrong turn.
type house struct {
	t     *testing.T
	conn  agentconn.Conn
	leave context.CancelFunc // ends the link
	left  chan error         // what Run returned
	asks  chan state.Request

	mu        sync.Mutex
	session   *state.Session
	begun     *state.SessionSummary // the session that was created last
	beganWith []state.Action
	child     *state.Session // the sub-agent that was started last
	terminals map[string]*state.Terminal
	actions   []state.Envelope
	open      map[string]state.Request  // by upstream id
	decisions map[string]state.Decision // by upstream id
}

// visit runs a test in a bubble of its own time with a demo that is up. Whatever
// the test leaves running must end with the link.
func visit(t *testing.T, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{
			t: t, left: make(chan error, 1), asks: make(chan state.Request, 10),
			session: &state.Session{
				Summary:   &state.SessionSummary{Resource: sessionURI, Provider: Provider, WorkingDirectory: new("file:///home/ada/shop"), Status: state.StatusIdle},
				Lifecycle: state.LifecycleReady, Turns: []*state.Turn{}, Meta: state.Meta{"other": []byte(`"kept"`)},
			},
			terminals: map[string]*state.Terminal{}, open: map[string]state.Request{}, decisions: map[string]state.Decision{},
		}
		h.connect()
		test(h)
		h.disconnect()
	})
}

func (h *house) connect() {
	ctx, leave := context.WithCancel(h.t.Context())
	h.leave = leave
	c := New().NewConn(h).(*conn)
	c.epoch = epoch
	h.conn = c
	ready := make(chan string, 1)
	go func() { h.left <- h.conn.Run(ctx, func(f agentconn.Found) { ready <- f.Detail }) }()
	if got := <-ready; got != "demo, nothing is real" {
		h.t.Errorf("ready with %q", got)
	}
}

// disconnect ends the link and returns how long that took.
func (h *house) disconnect() time.Duration {
	h.valid()
	start := time.Now()
	h.leave()
	var public *agentconn.PublicError
	err := <-h.left
	if !errors.As(err, &public) {
		h.t.Errorf("Run ended with %v, which is not for people", err)
	}
	h.left <- err // for whoever asks again
	return time.Since(start)
}

// valid holds what the demo has made against AHP's schema.
func (h *house) valid() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	schema := schematest.Pinned(h.t)
	if schema == nil {
		return
	}
	check := func(definition string, x any) {
		raw, err := state.Marshal(x)
		if err == nil {
			err = schema.Validate(definition, raw)
		}
		if err != nil {
			h.t.Errorf("%s: %v", definition, err)
		}
	}
	check("SessionState", h.session)
	for _, t := range h.terminals {
		check("TerminalState", t)
	}
}

// ---- agentconn.Sink ----

func (h *house) Apply(_ context.Context, session string, _ state.Source, actions ...state.Envelope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.apply(session, actions)
}

func (h *house) apply(session string, actions []state.Envelope) {
	if session != sessionURI && h.child == nil {
		h.t.Errorf("an action for session %s", session)
	}
	for _, e := range actions {
		h.actions = append(h.actions, e)
		if h.child != nil && e.Channel == h.child.Summary.Resource {
			h.child = state.ReduceSession(h.child, e.Action, time.Now().UnixMilli())
			continue
		}
		if a, ok := e.Action.(*state.SessionToolCallContentChanged); ok && a.Content[0].Type == state.ContentSubagent {
			h.child = &state.Session{Summary: &state.SessionSummary{Resource: *a.Content[0].Resource}}
		}
		if e.Channel != sessionURI {
			was := h.terminals[e.Channel]
			if was == nil {
				was = &state.Terminal{Claim: state.SessionClaim(sessionURI)}
			}
			h.terminals[e.Channel] = state.ReduceTerminal(was, e.Action)
			continue
		}
		was := h.session
		if h.session = state.ReduceSession(was, e.Action, time.Now().UnixMilli()); h.session == was {
			h.t.Errorf("%s changes nothing: %+v", e.Action.Type(), e.Action)
		}
	}
}

func (h *house) Ask(_ context.Context, r state.Request, actions ...state.Envelope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.apply(r.Session, actions)
	if _, twice := h.open[string(r.UpstreamID)]; twice {
		h.t.Errorf("request %s is asked twice", r.UpstreamID)
	}
	h.open[string(r.UpstreamID)] = r
	h.asks <- r
}

// Resolved shows the decision as the hub does.
func (h *house) Resolved(_ context.Context, session, e string, id json.RawMessage, _ state.Ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, open := h.open[string(id)]
	d, decided := h.decisions[string(id)]
	if !open || !decided || e != epoch {
		h.t.Errorf("request %s of %s is resolved: open %v, decided %v", id, e, open, decided)
		return
	}
	delete(h.open, string(id))
	o, _ := r.Option(d.OptionID)
	var a state.Action
	switch {
	case r.Kind == state.RequestQuestion && o.Kind == state.OptionApprove:
		a = &state.SessionInputCompleted{RequestID: r.Questions.ID, Response: "accept"}
	case r.Kind == state.RequestQuestion:
		a = &state.SessionInputCompleted{RequestID: r.Questions.ID, Response: "decline"}
	case o.Kind == state.OptionApprove:
		a = &state.SessionToolCallConfirmed{
			TurnID: r.TurnID, ToolCallID: r.ToolCallID, SelectedOptionID: &o.ID,
			Approved: true, Confirmed: state.ConfirmedUserAction, EditedToolInput: state.Optional(d.EditedInput),
		}
	default:
		a = &state.SessionToolCallConfirmed{TurnID: r.TurnID, ToolCallID: r.ToolCallID, SelectedOptionID: &o.ID, Reason: state.CancelledDenied}
	}
	h.apply(session, []state.Envelope{{Channel: session, Action: a}})
}

func (h *house) Opaque(context.Context, string, json.RawMessage) {
	h.t.Error("the demo says something opaque")
}

// Begin knows one session, and remembers another one.
func (h *house) Begin(_ context.Context, link string, m *state.SessionSummary, _ *state.SessionConfigState, actions ...state.Action) (*state.Session, error) {
	if link != Provider {
		h.t.Errorf("a session is live on %q", link)
	}
	if m.Resource == sessionURI {
		return h.now(), nil
	}
	h.begun, h.beganWith = m, actions
	return &state.Session{Summary: m}, nil
}
func (h *house) Open(context.Context, string) []*state.Session { return nil }
func (h *house) Gone(context.Context, string, string)          { h.t.Error("the demo has lost a session") }
func (h *house) Waiting(context.Context, string, string, []json.RawMessage) {
	h.t.Error("the demo says what it waits for")
}
func (h *house) LinkChanged(context.Context, state.Link) { h.t.Error("the demo reports on its link") }

// ---- what people do ----

func (h *house) now() *state.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}

func (h *house) send(text string) {
	h.t.Helper()
	if err := h.conn.Dispatch(h.t.Context(), h.now(), &state.SessionTurnStarted{Message: state.UserMessage(text)}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) stop() {
	h.t.Helper()
	s := h.now()
	if s.ActiveTurn == nil {
		h.t.Fatal("there is no turn to stop")
	}
	if err := h.conn.Dispatch(h.t.Context(), s, &state.SessionTurnCancelled{TurnID: s.ActiveTurn.ID}); err != nil {
		h.t.Fatal(err)
	}
}

// asked waits for a request and checks that it is one of the given kind.
func (h *house) asked(kind state.RequestKind) state.Request {
	h.t.Helper()
	select {
	case r := <-h.asks:
		if r.Kind != kind {
			h.t.Fatalf("asked for a %s, want a %s", r.Kind, kind)
		}
		return r
	case <-time.After(time.Hour):
		h.t.Fatalf("no %s was asked for", kind)
		return state.Request{}
	}
}

func (h *house) decide(r state.Request, d state.Decision) {
	h.t.Helper()
	h.mu.Lock()
	h.decisions[string(r.UpstreamID)] = d
	h.mu.Unlock()
	if err := h.conn.Answer(h.t.Context(), r, d); err != nil {
		h.t.Fatal(err)
	}
}

// answer waits for a request of a kind and picks an option.
func (h *house) answer(kind state.RequestKind, option string) state.Request {
	h.t.Helper()
	r := h.asked(kind)
	if _, ok := r.Option(option); !ok {
		h.t.Fatalf("%s does not offer %s", r.Title, option)
	}
	h.decide(r, state.Decision{OptionID: option})
	return r
}

// ended waits for the end of the turn and returns it.
func (h *house) ended() *state.Turn {
	h.t.Helper()
	for range 3600 {
		if s := h.now(); s.ActiveTurn == nil {
			return s.Turns[len(s.Turns)-1]
		}
		time.Sleep(time.Second)
	}
	h.t.Fatal("the turn does not end")
	return nil
}

// ---- what they see ----

// said joins the markdown of a turn.
func said(parts []state.ResponsePart) string {
	var b strings.Builder
	for _, p := range parts {
		if m, ok := p.(*state.MarkdownPart); ok {
			b.WriteString(m.Content.String() + "\n\n")
		}
	}
	return b.String()
}

func calls(parts []state.ResponsePart) []*state.ToolCall {
	var out []*state.ToolCall
	for _, p := range parts {
		if c, ok := p.(*state.ToolCallPart); ok {
			out = append(out, &c.ToolCall)
		}
	}
	return out
}

// ran returns the command that a call's terminal shows, nil if none.
func (h *house) ran(c *state.ToolCall) *state.CommandPart {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(c.Content) != 1 || c.Content[0].Type != "terminal" || !strings.HasPrefix(*c.Content[0].Resource, "ahp-terminal:/") {
		return nil
	}
	if t := h.terminals[*c.Content[0].Resource]; t != nil {
		return t.Command()
	}
	return nil
}

func (h *house) wantSaid(text string, wants ...string) {
	h.t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			h.t.Errorf("%q is not in what was said:\n%s", want, text)
		}
	}
}

// wantCommand checks a call that ran a command to its end.
func (h *house) wantCommand(c *state.ToolCall, line string, exit int, output string) {
	h.t.Helper()
	r := h.ran(c)
	if r == nil {
		h.t.Fatalf("%s has no terminal: %+v", line, c)
	}
	if c.Status != state.ToolCompleted || c.Success == nil || *c.Success != (exit == 0) || c.PastTenseMessage.Text != "Ran "+line {
		h.t.Errorf("the call of %s is %+v", line, c)
	}
	if string(c.Meta["nod.input"]) != `"command"` || c.ToolName != "shell" || *c.ToolInput != line {
		h.t.Errorf("the call of %s is shown as %+v", line, c)
	}
	if r.CommandLine != line || !r.IsComplete || r.ExitCode == nil || *r.ExitCode != int64(exit) || r.DurationMs == nil || *r.DurationMs <= 0 || r.Output.String() != output {
		h.t.Errorf("the terminal of %s shows %+v with %q", line, r, r.Output.String())
	}
}

// ---- the first turn ----

func TestFirstTurn(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		if a := h.now().ActiveTurn; a == nil || a.Message.Text != prompt || a.Message.Origin.Kind != "user" {
			t.Fatalf("when Dispatch has returned the turn is %+v", a)
		}

		test := h.asked(state.RequestCommand)
		wantOptions := []state.ConfirmationOption{
			{ID: "accept", Label: "Approve once", Kind: state.OptionApprove},
			{ID: "acceptForSession", Label: "Approve for this session: the same command", Kind: state.OptionApprove, Group: new(int64(1))},
			{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
			{ID: "cancel", Label: "Deny and stop the turn", Kind: state.OptionDeny, Group: new(int64(1))},
		}
		if !reflect.DeepEqual(test.Options, wantOptions) {
			t.Errorf("the options are %+v", test.Options)
		}
		if test.Title != "Run a command?" || test.Input != testLine || test.Cwd != "/home/ada/shop" || test.Reason == "" || test.Editable ||
			test.Session != sessionURI || test.TurnID != h.now().ActiveTurn.ID || test.Provider != Provider || test.Epoch != epoch || test.Method == "" {
			t.Errorf("the request is %+v", test)
		}
		if _, err := strconv.Atoi(string(test.UpstreamID)); err != nil {
			t.Errorf("the upstream id %s is not a number", test.UpstreamID)
		}
		c := calls(h.now().ActiveTurn.ResponseParts.Slice())[1]
		if c.Status != state.ToolPendingConfirmation || c.ToolCallID != test.ToolCallID || !reflect.DeepEqual(c.Options, wantOptions) || c.ConfirmationTitle.Text != test.Title {
			t.Errorf("the call that waits is %+v", c)
		}
		if h.now().Summary.Status.Activity() != state.StatusInputNeeded {
			t.Error("the session does not say that it needs somebody")
		}
		h.decide(test, state.Decision{OptionID: "accept"})

		branch := h.answer(state.RequestCommand, "accept")
		if !branch.Editable || branch.Input != branchLine {
			t.Errorf("the editable request is %+v", branch)
		}
		edit := h.answer(state.RequestFileChange, "accept")
		if edit.Diff != patch || edit.Input != "" || edit.Title != "Change files?" {
			t.Errorf("the edit is %+v", edit)
		}

		q := h.asked(state.RequestQuestion)
		var shape []string
		for _, x := range q.Questions.Questions {
			shape = append(shape, x.Kind)
		}
		if want := []string{"single-select", "boolean", "text"}; !reflect.DeepEqual(shape, want) {
			t.Errorf("the questions are %v", shape)
		}
		if in := h.now().InputRequests; len(in) != 1 || !reflect.DeepEqual(in[0], q.Questions) {
			t.Errorf("the session's input requests are %+v", in)
		}
		h.decide(q, state.Decision{OptionID: "answer", Answers: map[string]state.Answer{
			"expiry": {Selected: []string{"sweep"}}, "metrics": {Selected: []string{"true"}}, "note": {Text: "Mind `Len`,\r\n**please**"},
		}})

		turn := h.ended()
		if turn.State != state.TurnComplete || turn.Error != nil || turn.Message.Text != prompt {
			t.Errorf("the turn ended as %s, %v, of %q", turn.State, turn.Error, turn.Message.Text)
		}
		if r, ok := turn.ResponseParts[1].(*state.ReasoningPart); !ok || r.Content.Len() < 100 {
			t.Errorf("the second part is no reasoning: %+v", turn.ResponseParts[1])
		}

		cs := calls(turn.ResponseParts)
		if len(cs) != 4 {
			t.Fatalf("%d tool calls, want 4", len(cs))
		}
		h.wantCommand(cs[0], grepLine, 0, grepOutput)
		h.wantCommand(cs[1], testLine, 1, testOutput)
		h.wantCommand(cs[2], branchLine, 0, branchOutput)
		if cs[0].Confirmed != state.ConfirmedNotNeeded || cs[1].Confirmed != state.ConfirmedUserAction || cs[1].SelectedOption.ID != "accept" {
			t.Errorf("confirmed are %q and %q", cs[0].Confirmed, cs[1].Confirmed)
		}
		if e := cs[3]; e.Status != state.ToolCompleted || !*e.Success || e.ToolName != "apply_patch" || string(e.Meta["nod.input"]) != `"diff"` ||
			*e.ToolInput != patch || e.InvocationMessage.Text != "Edit cache.go and cache_test.go" || e.PastTenseMessage.Text != "Edited cache.go and cache_test.go" {
			t.Errorf("the edit is %+v", e)
		}
		var edits []string
		for _, x := range cs[3].Content {
			edits = append(edits, fmt.Sprintf("%s %s +%d -%d", x.Type, x.After.URI, *x.Diff.Added, *x.Diff.Removed))
		}
		if want := []string{"fileEdit file:///home/ada/shop/cache/cache.go +10 -1", "fileEdit file:///home/ada/shop/cache/cache_test.go +9 -0"}; !reflect.DeepEqual(edits, want) {
			t.Errorf("the edited files are %q", edits)
		}

		var plan []struct{ Step, Status string }
		if err := json.Unmarshal(h.now().Meta["nod.plan"], &plan); err != nil || len(plan) != len(planSteps) {
			t.Errorf("the plan is %s", h.now().Meta["nod.plan"])
		}
		for _, p := range plan {
			if p.Status != "completed" {
				t.Errorf("%q is %s in the end", p.Step, p.Status)
			}
		}
		if string(h.now().Meta["other"]) != `"kept"` {
			t.Error("the plan has replaced other meta keys")
		}
		if u := turn.Usage; u == nil || *u.InputTokens == 0 || *u.OutputTokens == 0 || *u.Model != model || len(u.Meta["nod.durationMs"]) < 4 {
			t.Errorf("the usage is %+v", u)
		}

		text := said(turn.ResponseParts)
		h.wantSaid(text[:200], "**demo agent**", "nothing is run, no file is touched")
		h.wantSaid(text, "``"+prompt+"``")
		h.wantSaid(text,
			"## What you decided", "| `go test ./cache/...` | approved | failed, exit 1 |", "| approved | 19 lines added, 1 removed |",
			"```go\n", "\n- Should entries get too old? **By a sweep**\n", "**yes**", "``Mind `Len`, **please**``",
			"[container/list](https://pkg.go.dev/container/list)", "of `Put`", longText)
	})
}

// A person reads along: text comes word by word, and the plan moves on.
func TestFirstTurnStreams(t *testing.T) {
	visit(t, func(h *house) {
		h.send(strings.Repeat("é", 100))
		h.answer(state.RequestCommand, "accept")
		h.answer(state.RequestCommand, "accept")
		h.answer(state.RequestFileChange, "accept")
		h.answer(state.RequestQuestion, "skip")
		h.ended()
		count := map[string]int{}
		var plans []string
		for _, e := range h.actions {
			count[e.Action.Type()]++
			if m, ok := e.Action.(*state.SessionMetaChanged); ok {
				plans = append(plans, regexp.MustCompile(`"(pending|inProgress|completed)"`).FindString(string(m.Meta["nod.plan"])))
			}
		}
		if count["session/delta"] < 600 || count["session/reasoning"] < 20 || count["terminal/data"] < 9 {
			t.Errorf("streamed were %v", count)
		}
		if want := []string{`"inProgress"`, `"completed"`, `"completed"`, `"completed"`, `"completed"`, `"completed"`}; !reflect.DeepEqual(plans, want) {
			t.Errorf("the plan's first step went %v", plans)
		}
		h.wantSaid(said(h.now().Turns[0].ResponseParts), "`"+strings.Repeat("é", 80)+"…`")
	})
}

// The first minute is one: without the time that a person takes, and with the
// long text at its end.
func TestFirstTurnTakesLessThanAMinute(t *testing.T) {
	visit(t, func(h *house) {
		start := time.Now()
		h.send(prompt)
		h.answer(state.RequestCommand, "accept")
		h.answer(state.RequestCommand, "accept")
		h.answer(state.RequestFileChange, "accept")
		h.answer(state.RequestQuestion, "skip")
		asked := time.Since(start)
		h.ended()
		whole := time.Since(start)
		t.Logf("to the last answer %v, whole %v", asked, whole)
		if asked > 40*time.Second || whole > time.Minute {
			t.Errorf("the script takes %v to the last answer and %v in all", asked, whole)
		}
		if words := len(strings.Fields(longText)); words < 380 || words > 440 {
			t.Errorf("the long text has %d words, want about 400", words)
		}
	})
}

// Deny everything: no call completes, nothing is said to have been done.
func TestDenied(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		h.answer(state.RequestCommand, "decline")
		h.answer(state.RequestCommand, "decline")
		h.answer(state.RequestFileChange, "decline")
		h.answer(state.RequestQuestion, "skip")
		turn := h.ended()
		if turn.State != state.TurnComplete {
			t.Errorf("the turn ended as %s", turn.State)
		}
		for _, c := range calls(turn.ResponseParts)[1:] {
			if c.Status != state.ToolCancelled || c.Reason != state.CancelledDenied || len(c.Content) > 0 {
				t.Errorf("a denied call is %+v", c)
			}
		}
		if len(h.terminals) != 1 {
			t.Errorf("%d terminals, want the one of the command that asks nobody", len(h.terminals))
		}
		h.wantSaid(said(turn.ResponseParts),
			"I go on without the tests", "I stay on the branch that you are on", "both files stay as they are", "You skipped the questions",
			"| `go test ./cache/...` | denied | nothing |", "| a change of two files | denied | nothing |")
	})
}

func TestEdited(t *testing.T) {
	visit(t, func(h *house) {
		const line = "git switch -c mine | tee `log`"
		h.send(prompt)
		h.answer(state.RequestCommand, "decline")
		h.decide(h.asked(state.RequestCommand), state.Decision{OptionID: "accept", EditedInput: line})
		h.answer(state.RequestFileChange, "acceptForSession")
		h.answer(state.RequestQuestion, "skip")
		turn := h.ended()
		h.wantCommand(calls(turn.ResponseParts)[2], line, 0, editedOutput(line))
		h.wantSaid(said(turn.ResponseParts),
			"What ran is what you made of it: `` "+line+" ``.", "| `` git switch -c mine \\| tee `log` `` | approved, edited | exit 0 |",
			"| a change of two files | approved for this session |")
	})
}

func TestAnswersInOwnWords(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		h.answer(state.RequestCommand, "decline")
		h.answer(state.RequestCommand, "decline")
		h.answer(state.RequestFileChange, "decline")
		h.decide(h.asked(state.RequestQuestion), state.Decision{OptionID: "answer", Answers: map[string]state.Answer{
			"expiry": {Selected: []string{"never"}, Text: "after a day"}, "metrics": {Selected: []string{"false"}}, "note": {Text: " \n"},
		}})
		h.wantSaid(said(h.ended().ResponseParts), "too old? `after a day`\n", "misses? **no**\n", "note: none\n")
	})
}

// An answer without answers is an answer all the same.
func TestAnsweredWithNothing(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		h.answer(state.RequestCommand, "decline")
		h.answer(state.RequestCommand, "decline")
		h.answer(state.RequestFileChange, "decline")
		h.answer(state.RequestQuestion, "answer")
		h.wantSaid(said(h.ended().ResponseParts), "too old? not answered\n", "misses? not answered\n", "note: none\n")
	})
}

// ---- stopping ----

func TestDenyAndStop(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		h.answer(state.RequestCommand, "cancel")
		turn := h.ended()
		c := calls(turn.ResponseParts)[1]
		if turn.State != state.TurnCancelled || c.Status != state.ToolCancelled || c.Reason != state.CancelledDenied || len(h.open) > 0 {
			t.Errorf("the turn ended as %s, the call as %+v, open are %v", turn.State, c, h.open)
		}
	})
}

func TestStopWhileACommandRuns(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		h.answer(state.RequestCommand, "accept")
		for !strings.Contains(h.output(), "TestBound") {
			time.Sleep(time.Millisecond)
		}
		h.stop()
		synctest.Wait()
		turn := h.ended()
		c := calls(turn.ResponseParts)[1]
		r := h.ran(c)
		if turn.State != state.TurnCancelled || c.Status != state.ToolCompleted || *c.Success || r == nil || !r.IsComplete || r.ExitCode != nil {
			t.Errorf("the turn ended as %s, the call as %+v, its command as %+v", turn.State, c, r)
		}
		if out := r.Output.String(); out == "" || out == testOutput {
			t.Errorf("the output kept is %q", out)
		}
	})
}

// output joins what all terminals show.
func (h *house) output() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := ""
	for _, t := range h.terminals {
		s += t.Command().Output.String()
	}
	return s
}

func TestStopWhileARequestWaits(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		r := h.asked(state.RequestCommand)
		h.stop()
		turn := h.ended()
		if c := calls(turn.ResponseParts)[1]; turn.State != state.TurnCancelled || c.Status != state.ToolCancelled || c.Reason != state.CancelledSkipped {
			t.Errorf("the turn ended as %s, the call as %+v", turn.State, c)
		}
		if err := h.conn.Answer(t.Context(), r, state.Decision{OptionID: "accept"}); err == nil {
			t.Error("a request is answered after its turn")
		}
	})
}

// A decision that was sent before the stop is confirmed, so that nobody has to
// wonder what became of it.
func TestStopRightAfterAnAnswer(t *testing.T) {
	for _, kind := range []string{"command", "edit"} {
		t.Run(kind, func(t *testing.T) {
			visit(t, func(h *house) {
				h.send(prompt)
				if kind == "edit" {
					h.answer(state.RequestCommand, "decline")
					h.answer(state.RequestCommand, "decline")
					h.answer(state.RequestFileChange, "accept")
				} else {
					h.answer(state.RequestCommand, "accept")
				}
				h.stop()
				turn := h.ended()
				cs := calls(turn.ResponseParts)
				if c := cs[len(cs)-1]; turn.State != state.TurnCancelled || len(h.open) > 0 || c.Status != state.ToolCompleted || *c.Success || len(c.Content) > 0 {
					t.Errorf("the turn ended as %s, open are %v, the call is %+v", turn.State, h.open, c)
				}
			})
		})
	}
}

func TestStopWhileTextGrows(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		time.Sleep(2 * time.Second)
		turn := h.now().ActiveTurn.ID
		h.stop()
		synctest.Wait()
		s := h.now()
		if s.ActiveTurn != nil || s.Turns[0].State != state.TurnCancelled || !strings.HasPrefix(said(s.Turns[0].ResponseParts), "This is the **demo agent**") {
			t.Fatalf("right after the stop the session is %+v", s)
		}
		before := len(h.actions)
		time.Sleep(time.Hour)
		if len(h.actions) != before {
			t.Error("a stopped turn goes on")
		}
		var public *agentconn.PublicError
		if err := h.conn.Dispatch(t.Context(), s, &state.SessionTurnCancelled{TurnID: turn}); !errors.As(err, &public) {
			t.Errorf("stopping a turn that is over: %v", err)
		}
	})
}

// ---- later turns ----

// later opens a session that another process of nod has had a turn in.
func later(t *testing.T, test func(h *house)) {
	t.Helper()
	visit(t, func(h *house) {
		h.session.Turns = []*state.Turn{{ID: "turn-of-old", Message: state.UserMessage("hello"), State: state.TurnComplete}}
		test(h)
	})
}

func TestLaterTurn(t *testing.T) {
	later(t, func(h *house) {
		h.send("and now?")
		if r := h.answer(state.RequestCommand, "accept"); r.Cwd != "/home/ada/shop" {
			t.Errorf("the folder is %q", r.Cwd)
		}
		turn := h.ended()
		cs := calls(turn.ResponseParts)
		if turn.State != state.TurnComplete || len(cs) != 1 || turn.ID == "turn-of-old" || turn.Usage == nil {
			t.Fatalf("the turn is %+v", turn)
		}
		h.wantCommand(cs[0], againLine, 0, againOutput)
		h.wantSaid(said(turn.ResponseParts), "**demo agent**", "It passed, or would have")

		h.send("belongs to failure") // neither word stands alone
		h.answer(state.RequestCommand, "decline")
		h.wantSaid(said(h.ended().ResponseParts), "You denied it")
	})
}

// What a person approved for the session is not asked again, and says why.
func TestApprovedForTheSession(t *testing.T) {
	later(t, func(h *house) {
		h.send("and now?")
		h.answer(state.RequestCommand, "acceptForSession")
		h.wantSaid(said(h.ended().ResponseParts), "not asked for again until nod starts anew")
		h.send("once more")
		turn := h.ended()
		c := calls(turn.ResponseParts)[0]
		if len(h.asks) > 0 || c.Confirmed != state.ConfirmedNotNeeded {
			t.Errorf("%d requests; the call is %+v", len(h.asks), c)
		}
		h.wantCommand(c, againLine, 0, againOutput)
	})
}

func TestLongAnswer(t *testing.T) {
	later(t, func(h *house) {
		h.send("A LONG one, please")
		turn := h.ended()
		if len(turn.ResponseParts) != 1 || turn.State != state.TurnComplete {
			t.Errorf("the turn is %+v", turn)
		}
		h.wantSaid(said(turn.ResponseParts), longText)
	})
}

// TestHelper: a sub-agent works in a session of its own, and asks.
func TestHelper(t *testing.T) {
	for answer, want := range map[string]state.ToolCallStatus{"accept": state.ToolCompleted, "decline": state.ToolCancelled} {
		later(t, func(h *house) {
			h.send("Get a helper")
			r := h.asked(state.RequestCommand)
			if r.Session == sessionURI || r.Session != h.child.Summary.Resource || h.child.ActiveTurn == nil {
				t.Errorf("asked in %s", r.Session)
			}
			h.decide(r, state.Decision{OptionID: answer})
			turn := h.ended()
			c := calls(turn.ResponseParts)
			if len(c) != 1 || c[0].Status != state.ToolCompleted || c[0].Content[0].Type != state.ContentSubagent {
				t.Errorf("the call is %+v", c)
			}
			sub := h.child.Turns[0]
			if cs := calls(sub.ResponseParts); sub.State != state.TurnComplete || len(cs) != 2 || cs[1].Status != want {
				t.Errorf("the helper's turn is %+v", sub)
			}
		})
	}
}

// TestStopHelper: to stop a turn stops its sub-agent.
func TestStopHelper(t *testing.T) {
	later(t, func(h *house) {
		h.send("Get a helper")
		h.asked(state.RequestCommand)
		h.stop()
		if turn := h.ended(); turn.State != state.TurnCancelled {
			t.Errorf("the turn is %+v", turn)
		}
		if h.child.ActiveTurn != nil || h.child.Turns[0].State != state.TurnCancelled {
			t.Errorf("the helper's turn is %+v", h.child)
		}
	})
}

func TestFailingTurn(t *testing.T) {
	later(t, func(h *house) {
		h.send("please fail")
		turn := h.ended()
		if turn.State != state.TurnError || turn.Error == nil || turn.Error.Message == "" || h.now().Summary.Status.Activity() != state.StatusError {
			t.Errorf("the turn is %+v", turn)
		}
		h.send("and now?") // a failed turn is not the end
		h.answer(state.RequestCommand, "accept")
		if turn := h.ended(); turn.State != state.TurnComplete {
			t.Errorf("the turn after it is %+v", turn)
		}
	})
}

// ---- the link ----

func TestRunEndsWhileARequestWaits(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		h.asked(state.RequestCommand)
		before := len(h.actions)
		if took := h.disconnect(); took != 0 {
			t.Errorf("the end took %v", took)
		}
		// The hub closes what is open: it alone knows that the link was lost.
		if len(h.actions) != before || h.now().ActiveTurn == nil {
			t.Errorf("the end of the link says %v", h.actions[before:])
		}
		var public *agentconn.PublicError
		err := h.conn.Dispatch(t.Context(), &state.Session{Summary: h.session.Summary}, &state.SessionTurnStarted{})
		if !errors.As(err, &public) {
			t.Errorf("a message after the end: %v", err)
		}
	})
}

func TestRunEndsWhileTextGrows(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		time.Sleep(time.Second)
		if took := h.disconnect(); took != 0 || h.now().ActiveTurn == nil {
			t.Errorf("the end took %v, the turn is %+v", took, h.now().ActiveTurn)
		}
	})
}

func TestOneTurnAtATime(t *testing.T) {
	visit(t, func(h *house) {
		before := h.now() // a second browser has seen no turn yet
		h.send(prompt)
		turn := h.now().ActiveTurn.ID
		var public *agentconn.PublicError
		err := h.conn.Dispatch(t.Context(), before, &state.SessionTurnStarted{Message: state.UserMessage("me too")})
		if !errors.As(err, &public) || h.now().ActiveTurn.ID != turn {
			t.Errorf("a second message: %v, the turn is %+v", err, h.now().ActiveTurn)
		}
	})
}

func TestAnswerToNothing(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		r := h.asked(state.RequestCommand)
		stranger, elder := r, r
		stranger.UpstreamID, elder.Epoch = json.RawMessage("99"), "epoch-0"
		for _, wrong := range []state.Request{stranger, elder} {
			if err := h.conn.Answer(t.Context(), wrong, state.Decision{OptionID: "accept"}); err == nil {
				t.Errorf("request %s of %s is answered", wrong.UpstreamID, wrong.Epoch)
			}
		}
		h.decide(r, state.Decision{OptionID: "decline"})
		if err := h.conn.Answer(t.Context(), r, state.Decision{OptionID: "accept"}); err == nil {
			t.Error("a request is answered twice")
		}
	})
}

func TestCreateSession(t *testing.T) {
	visit(t, func(h *house) {
		uri, err := h.conn.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/home/ada/shop"})
		want := []state.Action{&state.SessionReady{}, &state.SessionModelChanged{Model: state.ModelSelection{ID: "scripted"}}}
		if err != nil || h.begun == nil || uri != h.begun.Resource || *h.begun.WorkingDirectory != "file:///home/ada/shop" || !reflect.DeepEqual(h.beganWith, want) {
			t.Errorf("CreateSession returns %v, %v and begins %+v with %v", uri, err, h.begun, h.beganWith)
		}
		if err := h.conn.Dispatch(t.Context(), h.now(), &state.SessionReady{}); err == nil {
			t.Error("an action that no person dispatches is carried out")
		}
	})
}

func TestAdapter(t *testing.T) {
	a := New()
	note, err := a.Find()
	if a.Provider() != "demo" || a.DisplayName() != "Demo agent" || err != nil || !strings.Contains(note, "runs nothing and touches no file") {
		t.Errorf("%s, %s, %q, %v", a.Provider(), a.DisplayName(), note, err)
	}
}

// ---- texts ----

// A digest is made of the parameters, so they hold all that is asked.
func TestRequestParams(t *testing.T) {
	visit(t, func(h *house) {
		h.send(prompt)
		seen := map[string]bool{}
		for _, step := range []struct {
			kind   state.RequestKind
			option string
			key    string
		}{
			{state.RequestCommand, "decline", "command"}, {state.RequestCommand, "decline", "command"},
			{state.RequestFileChange, "decline", "diff"}, {state.RequestQuestion, "skip", "questions"},
		} {
			r := h.answer(step.kind, step.option)
			var params map[string]json.RawMessage
			if err := json.Unmarshal(r.Params, &params); err != nil || len(params[step.key]) == 0 {
				t.Errorf("the parameters of a %s are %s", r.Kind, r.Params)
			}
			if seen[string(r.UpstreamID)] {
				t.Errorf("the id %s comes twice", r.UpstreamID)
			}
			seen[string(r.UpstreamID)] = true
		}
	})
}

// The patch is one that git would take: its hunks have as many lines as they say.
func TestPatchCounts(t *testing.T) {
	header := regexp.MustCompile(`^@@ -\d+,(\d+) \+\d+,(\d+) @@`)
	var left, right, hunks int
	check := func() {
		if left != 0 || right != 0 {
			t.Errorf("hunk %d is wrong by %d old and %d new lines", hunks, left, right)
		}
	}
	for line := range strings.Lines(patch) {
		switch m := header.FindStringSubmatch(line); {
		case m != nil:
			check()
			hunks++
			left, _ = strconv.Atoi(m[1])
			right, _ = strconv.Atoi(m[2])
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		case line[0] == '-':
			left--
		case line[0] == '+':
			right--
		default:
			left, right = left-1, right-1
		}
	}
	check()
	if hunks != 2 {
		t.Errorf("%d hunks, want one for each file", hunks)
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"plain":        "`plain`",
		" two\n lines": "`two lines`",
		"a `b` c":      "``a `b` c``",
		"`b`":          "`` `b` ``",
		"<b>**x**":     "`<b>**x**`",
	} {
		if got := quoted(text); got != want {
			t.Errorf("quoted(%q) = %q, want %q", text, got, want)
		}
	}
}
