package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent is an upstream that does as it is told and counts what reaches it.
type agent struct {
	hub *Hub

	mu      sync.Mutex
	answers []state.Decision
	fail    error  // of Answer
	during  func() // what happens while an answer is on its way; nil for nothing

	dispatchFails error
	dispatched    []state.Action
}

func (a *agent) CreateSession(ctx context.Context, n state.NewSession) (string, error) {
	uri := uriScheme + strings.ToLower(rand.Text())
	_, err := a.hub.Begin(ctx, n.Provider, &state.SessionSummary{Resource: uri, Provider: n.Provider, WorkingDirectory: new(state.FileURI(n.Folder))}, nil, &state.SessionReady{})
	return uri, err
}

func (a *agent) Dispatch(ctx context.Context, _ string, s *state.Session, act state.Action) error {
	a.mu.Lock()
	fails := a.dispatchFails
	a.dispatched = append(a.dispatched, act)
	a.mu.Unlock()
	if fails != nil {
		return fails
	}
	if t, ok := act.(*state.SessionTurnStarted); ok {
		t.TurnID = fmt.Sprint("turn-", len(s.Turns))
		a.hub.Apply(ctx, s.Summary.Resource, state.Source{}, on(s.Summary.Resource, t))
	}
	return nil
}

func (a *agent) Operate(context.Context, string, *state.Session, string, map[string]string) (string, error) {
	return "", nil
}

func (a *agent) Answer(_ context.Context, _ state.Request, d state.Decision) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.during != nil {
		a.during()
	}
	if a.fail == nil {
		a.answers = append(a.answers, d)
	}
	return a.fail
}

func on(channel string, a state.Action) state.Envelope {
	return state.Envelope{Channel: channel, Action: a}
}

type house struct {
	t     *testing.T
	dir   string
	store journal.Store
	hub   *Hub
	agent *agent
	id    string
	uri   string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	h.open()
	t.Cleanup(h.leave)
	var err error
	if h.id, err = h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "do it\nplease"); err != nil {
		t.Fatal(err)
	}
	h.uri = uriScheme + h.id
	return h
}

func (h *house) open() {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	var err error
	if h.store, err = journal.Open(h.t.Context(), h.dir, log); err != nil {
		h.t.Fatal(err)
	}
	if h.hub, err = New(h.t.Context(), h.store, log); err != nil {
		h.t.Fatal(err)
	}
	h.agent = &agent{hub: h.hub}
	h.hub.SetUpstream(h.agent, []state.Link{{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkUp, Epoch: "e1"}})
}

// leave closes the files without a goodbye.
func (h *house) leave() {
	close(h.hub.stop)
	<-h.hub.stopped
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// restart opens the same folder anew, as after a crash: nothing is said goodbye to.
func (h *house) restart() {
	h.t.Helper()
	h.leave()
	h.open()
}

func (h *house) apply(actions ...state.Action) {
	h.t.Helper()
	es := make([]state.Envelope, len(actions))
	for i, a := range actions {
		es[i] = on(h.uri, a)
	}
	h.hub.Apply(h.t.Context(), h.uri, state.Source{}, es...)
}

func (h *house) view() snapshot.Session {
	h.t.Helper()
	v, err := h.hub.Session(h.id)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// ask has the agent ask for a command in the turn in progress.
func (h *house) ask(id string) *approvals.Approval {
	h.t.Helper()
	turn := h.view().State.ActiveTurn.ID
	options := []state.ConfirmationOption{{ID: "accept", Label: "Approve once", Kind: state.OptionApprove}, {ID: "decline", Label: "Deny", Kind: state.OptionDeny}}
	h.apply(&state.SessionToolCallStart{TurnID: turn, ToolCallID: "call-" + id, ToolName: "shell"})
	h.hub.Ask(h.t.Context(), state.Request{
		Session: h.uri, TurnID: turn, ToolCallID: "call-" + id, Provider: "codex", Epoch: "e1",
		UpstreamID: json.RawMessage(id), Method: "ask", Params: json.RawMessage(`{}`), Kind: state.RequestCommand, Input: "ls", Options: options,
	}, on(h.uri, &state.SessionToolCallReady{TurnID: turn, ToolCallID: "call-" + id, ToolInput: new("ls"), Options: options}))
	as := h.view().Approvals
	return as[len(as)-1]
}

func (h *house) decide(a *approvals.Approval, option string) (*approvals.Approval, error) {
	return h.hub.Decide(h.t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: option})
}

func (h *house) approval(id string) *approvals.Approval {
	h.t.Helper()
	a, _, err := h.hub.ApprovalView(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// TestApprove walks a decision from asked to confirmed.
func TestApprove(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	if s := h.view().State.Summary.Status; s.Activity() != state.StatusInputNeeded {
		t.Errorf("status %d while asked", s)
	}
	got, err := h.decide(a, "accept")
	if err != nil || got.State != approvals.Sent {
		t.Fatalf("decided: %v, %v", got, err)
	}
	h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered)
	if s := h.approval(a.ID).State; s != approvals.Confirmed {
		t.Errorf("after the agent's word: %s", s)
	}
	call := h.view().State.ActiveTurn.ResponseParts.At(0).(*state.ToolCallPart).ToolCall
	if call.Status != state.ToolRunning || call.SelectedOption == nil || call.SelectedOption.ID != "accept" {
		t.Errorf("the call is %+v", call)
	}
	if len(h.agent.answers) != 1 {
		t.Errorf("%d answers sent", len(h.agent.answers))
	}
}

// TestR5OneDecision has a hundred people answer at once.
func TestR5OneDecision(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 100 {
		wg.Go(func() {
			option := []string{"accept", "decline"}[i%2]
			_, err := h.hub.Decide(context.Background(), fmt.Sprint("device-", i), a.ID, a.Digest, a.Nonce, state.Decision{OptionID: option})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, approvals.ErrNotPending) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || len(h.agent.answers) != 1 {
		t.Errorf("%d won, %d answers were sent", won, len(h.agent.answers))
	}
}

// TestR7Sweep ends what can no longer be answered, and an answer that comes too
// late sends nothing.
func TestR7Sweep(t *testing.T) {
	for name, end := range map[string]func(h *house){
		"turn complete":  func(h *house) { h.apply(&state.SessionTurnComplete{TurnID: "turn-0"}) },
		"turn cancelled": func(h *house) { h.apply(&state.SessionTurnCancelled{TurnID: "turn-0"}) },
		"turn failed":    func(h *house) { h.apply(&state.SessionError{TurnID: "turn-0"}) },
		"link lost": func(h *house) {
			h.hub.LinkChanged(h.t.Context(), state.Link{Key: "codex", Provider: "codex", Status: state.LinkLost, Epoch: "e1", Detail: "It was killed."})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			a := h.ask("7")
			end(h)
			if s := h.approval(a.ID).State; s != approvals.Expired {
				t.Errorf("state %s", s)
			}
			if _, err := h.decide(a, "accept"); !errors.Is(err, approvals.ErrNotPending) {
				t.Errorf("late answer: %v", err)
			}
			if len(h.agent.answers) != 0 {
				t.Error("it was sent")
			}
			if st := h.view().State; st.ActiveTurn != nil || st.Summary.Status.Activity() == state.StatusInProgress {
				t.Error("something still runs")
			}
		})
	}
}

func TestAnsweredElsewhere(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered)
	if s := h.approval(a.ID).State; s != approvals.AnsweredElsewhere {
		t.Errorf("state %s", s)
	}
	if _, err := h.decide(a, "accept"); !errors.Is(err, approvals.ErrNotPending) {
		t.Errorf("late answer: %v", err)
	}
}

// TestOtherEpochDoesNotConfirm: upstream ids begin anew with every connection.
func TestOtherEpochDoesNotConfirm(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	h.hub.Resolved(t.Context(), h.uri, "e2", json.RawMessage("7"), state.EndedAnswered)
	h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage(`"7"`), state.EndedAnswered)
	if s := h.approval(a.ID).State; s != approvals.Pending {
		t.Errorf("state %s", s)
	}
}

func TestUndeliverable(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	h.agent.fail = errors.New("broken pipe")
	got, err := h.decide(a, "accept")
	if err != nil || got.State != approvals.DeliveryUnknown {
		t.Errorf("%v, %v", got, err)
	}
}

// fullDisk is a store whose next appends fail.
type fullDisk struct {
	journal.Store
	after int // appends that still work
}

func (f *fullDisk) Append(ctx context.Context, b journal.Batch) error {
	if f.after--; f.after < 0 {
		return errors.New("disk full")
	}
	return f.Store.Append(ctx, b)
}

// TestFullDisk refuses decisions that cannot be recorded, sends nothing, says
// so, and takes the same answer when there is room again.
func TestFullDisk(t *testing.T) {
	for after, want := range []approvals.State{approvals.Pending, approvals.Decided} {
		h := newHouse(t)
		a := h.ask("7")
		real := h.hub.store
		h.hub.store = &fullDisk{real, after}
		if _, err := h.decide(a, "accept"); err == nil {
			t.Fatal("no error")
		}
		if s := h.approval(a.ID).State; s != want || len(h.agent.answers) != 0 {
			t.Errorf("after %d appends: %s, %d answers", after, s, len(h.agent.answers))
		}
		if h.hub.Inbox().Trouble == "" {
			t.Error("nobody is told")
		}
		// What the agent says is shown all the same.
		h.apply(&state.SessionTitleChanged{Title: "still here"})
		if h.view().State.Summary.Title != "still here" {
			t.Error("an event was lost")
		}
		late := h.ask("8") // asked while nothing can be written
		h.hub.store = real
		if _, err := h.decide(late, "decline"); err != nil {
			t.Errorf("a request that the disk had refused: %v", err)
		}
		h.agent.answers = nil
		if got, err := h.decide(a, "accept"); err != nil || got.State != approvals.Sent || len(h.agent.answers) != 1 {
			t.Errorf("with room again: %v, %v", got, err)
		}
		if h.hub.Inbox().Trouble != "" {
			t.Error("the trouble stays")
		}
	}
}

// TestC05FiveAtOnce keeps several requests apart, answered in any order.
func TestC05FiveAtOnce(t *testing.T) {
	h := newHouse(t)
	var as []*approvals.Approval
	for i := range 5 {
		as = append(as, h.ask(fmt.Sprint(i)))
	}
	for _, i := range []int{3, 0, 4, 1, 2} {
		if _, err := h.decide(as[i], "accept"); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if len(h.agent.answers) != 5 {
		t.Errorf("%d answers", len(h.agent.answers))
	}
	if as[0].Digest == as[1].Digest {
		t.Error("two requests share a digest")
	}
}

// TestRestart brings a session back whole, closes what was open, and says so.
func TestRestart(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}})
	for _, w := range []string{"one ", "two ", "three"} {
		h.apply(&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: w})
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	before := h.view()
	h.restart()
	if after := h.view(); mustJSON(t, before.State) != mustJSON(t, after.State) || after.Seq != before.Seq {
		t.Errorf("before %s\nafter  %s", mustJSON(t, before.State), mustJSON(t, after.State))
	}

	if err := h.hub.Send(t.Context(), h.id, state.UserMessage("more")); err != nil {
		t.Fatal(err)
	}
	pending := h.ask("7")
	decided := h.ask("8")
	if _, err := h.decide(decided, "accept"); err != nil {
		t.Fatal(err)
	}
	h.restart()
	st := h.view().State
	if st.ActiveTurn != nil || len(st.Turns) != 2 || st.Turns[1].State != state.TurnError || !strings.Contains(st.Turns[1].Error.Message, "nod was stopped") {
		t.Errorf("the open turn: %s", mustJSON(t, st))
	}
	if s := h.approval(pending.ID).State; s != approvals.Expired {
		t.Errorf("the pending request is %s", s)
	}
	if s := h.approval(decided.ID).State; s != approvals.DeliveryUnknown {
		t.Errorf("the decided request is %s", s)
	}
	if len(h.agent.answers) != 0 {
		t.Error("a restart sent an answer again")
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSince names what changed, and only that.
func TestSince(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}},
		&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "n"}})
	at := h.view().Seq
	since := func(seq uint64) []snapshot.Part {
		t.Helper()
		_, parts, err := h.hub.Since(h.id, seq)
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	if got := since(at); len(got) != 0 {
		t.Errorf("nothing happened, but %v changed", got)
	}
	h.apply(&state.SessionDelta{TurnID: "turn-0", PartID: "n", Content: "x"})
	if got, want := since(at), []snapshot.Part{{Kind: snapshot.Response, Turn: 0, Index: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("after a delta %v", got)
	}
	at = h.view().Seq
	a := h.ask("7")
	if got := since(at); !contains(got, snapshot.Dock, snapshot.Response, snapshot.Head) {
		t.Errorf("after a request %v", got)
	}
	at = h.view().Seq
	if _, err := h.decide(a, "accept"); err != nil {
		t.Fatal(err)
	}
	if got := since(at); !contains(got, snapshot.Dock) {
		t.Errorf("after a decision %v", got)
	}
	at = h.view().Seq
	h.hub.Apply(t.Context(), h.uri, state.Source{}, on("ahp-terminal:/x", &state.TerminalData{Data: "early"}))
	if got := since(at); len(got) != 0 {
		t.Errorf("a terminal that nothing shows changed %v", got)
	}
	h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered)
	h.apply(&state.SessionToolCallContentChanged{TurnID: "turn-0", ToolCallID: "call-7", Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/x", "Output")}})
	at = h.view().Seq
	h.hub.Apply(t.Context(), h.uri, state.Source{}, on("ahp-terminal:/x", &state.TerminalData{Data: "out"}))
	if got, want := since(at), []snapshot.Part{{Kind: snapshot.Response, Turn: 0, Index: 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("after output %v", got)
	}
	at = h.view().Seq
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if got := since(at); !contains(got, snapshot.Foot, snapshot.Composer, snapshot.Head) {
		t.Errorf("after the end %v", got)
	}
	// Whoever saw nothing of a turn gets it whole, and its parts only within it.
	for _, p := range since(0) {
		if p.Kind == snapshot.Response || p.Kind == snapshot.Foot {
			t.Errorf("%v comes beside its turn", p)
		}
	}
}

func contains(parts []snapshot.Part, kinds ...snapshot.PartKind) bool {
	for _, k := range kinds {
		found := false
		for _, p := range parts {
			found = found || p.Kind == k
		}
		if !found {
			return false
		}
	}
	return true
}

// TestWatchThenRead wakes a viewer for each change, and never blocks on one.
func TestWatchThenRead(t *testing.T) {
	h := newHouse(t)
	woken, done := h.hub.Watch(h.id)
	defer done()
	for range 3 {
		h.apply(&state.SessionTitleChanged{Title: "x"})
	}
	select {
	case <-woken:
	default:
		t.Error("not woken")
	}
	select {
	case <-woken:
		t.Error("woken twice for what one look shows")
	default:
	}
}

func TestVerbsWithoutTheirObject(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	for name, c := range map[string]struct{ got, want error }{
		"send to nobody":     {h.hub.Send(ctx, "no", state.UserMessage("x")), ErrNoSession},
		"send while working": {h.hub.Send(ctx, h.id, state.UserMessage("x")), ErrTurnOpen},
		"stop nobody":        {h.hub.Stop(ctx, "no"), ErrNoSession},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v", name, c.got)
		}
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if err := h.hub.Stop(ctx, h.id); !errors.Is(err, ErrNoTurn) {
		t.Errorf("stop idle: %v", err)
	}
	if _, err := h.hub.Decide(ctx, "me", "no", "", "", state.Decision{}); !errors.Is(err, ErrNoApproval) {
		t.Errorf("decide nothing: %v", err)
	}
}

func TestInboxKnowsWhoNeedsMe(t *testing.T) {
	h := newHouse(t)
	before := h.hub.Inbox().Rev
	h.ask("7")
	in := h.hub.Inbox()
	if in.Rev == before || len(in.Sessions) != 1 || len(in.Sessions[0].Approvals) != 1 {
		t.Errorf("%+v", in)
	}
}

// TestOutputOutlivesTheLink keeps what a command had written when its link is lost.
func TestOutputOutlivesTheLink(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionActivityChanged{Activity: new("retrying")},
		&state.SessionToolCallStart{TurnID: "turn-0", ToolCallID: "c", ToolName: "shell"},
		&state.SessionToolCallReady{TurnID: "turn-0", ToolCallID: "c", Confirmed: state.ConfirmedNotNeeded},
		&state.SessionToolCallContentChanged{TurnID: "turn-0", ToolCallID: "c", Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/x", "Output")}})
	h.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Provider: "codex", Status: state.LinkLost, Epoch: "e1"})
	st := h.view().State
	c := st.Turns[0].ResponseParts[0].(*state.ToolCallPart).ToolCall
	if len(c.Content) != 1 || c.Status != state.ToolCompleted || *c.Success || st.Summary.Activity != nil {
		t.Errorf("%+v, activity %v", c, st.Summary.Activity)
	}
}

// TestBeginTwiceAtOnce: what a server tells of a thread and what a call is answered
// with may make one session known at the same moment.
func TestBeginTwiceAtOnce(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(t.Context()); _ = store.Close() }()
	failed := 0
	for n := range 100 {
		var all sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			all.Go(func() {
				m := &state.SessionSummary{Resource: fmt.Sprintf("%sx-%d", uriScheme, n), Provider: "codex"}
				_, errs[i] = h.Begin(t.Context(), "codex", m, nil, &state.SessionReady{})
			})
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				failed++
				t.Log(err)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of 200 failed", failed)
	}
}

// TestInputOfAnotherRunIsWithdrawn: a request of another run of the agent is no longer asked,
// in the session's state as well.
func TestInputOfAnotherRunIsWithdrawn(t *testing.T) {
	h := newHouse(t)
	up := state.Link{Key: "codex", Provider: "codex", Status: state.LinkUp, Epoch: "e1", Lasting: true}
	if _, err := h.hub.Begin(t.Context(), "codex", h.view().State.Summary, nil); err != nil {
		t.Fatal(err)
	}
	h.hub.LinkChanged(t.Context(), up)
	q := &state.InputRequest{ID: "e1/7"}
	h.hub.Ask(t.Context(), state.Request{
		Session: h.uri, TurnID: h.view().State.ActiveTurn.ID, Provider: "codex", Epoch: "e1", UpstreamID: []byte("7"), Method: "ask", Params: []byte(`{}`),
		Kind: state.RequestPermissions, Questions: q, Options: []state.ConfirmationOption{{ID: "turn", Kind: state.OptionApprove}},
	}, on(h.uri, &state.SessionInputRequested{Request: *q}))
	up.Epoch = "e2"
	h.hub.LinkChanged(t.Context(), up)
	v := h.view()
	if a := v.Approvals[0]; a.Open() {
		t.Fatalf("the card is %s", a.State)
	}
	if n := len(v.State.InputRequests); n != 0 || v.State.Summary.Status.Activity() == state.StatusInputNeeded {
		t.Errorf("%d requests for input are left, and the session is said to need somebody: %v", n, v.State.Summary.Status)
	}
}
