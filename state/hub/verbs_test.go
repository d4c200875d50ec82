package hub

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"nod/agentconn"
	"nod/state"
	"nod/state/snapshot"
)

// untilState waits for what another goroutine does.
func (h *house) untilState(what string, f func(*state.Session) bool) {
	h.t.Helper()
	h.until(what, func() bool { return f(h.view().State) })
}

func (h *house) queue(text string) {
	h.t.Helper()
	if err := h.hub.Queue(h.t.Context(), h.id, state.UserMessage(text)); err != nil {
		h.t.Fatal(err)
	}
}

// TestQueueIsSentInOrder sends one message after each turn that has completed.
func TestQueueIsSentInOrder(t *testing.T) {
	h := newHouse(t)
	h.queue("one")
	h.queue("two")
	if q := h.view().State.QueuedMessages; len(q) != 2 || q[0].Message.Text != "one" {
		t.Fatalf("%+v", q)
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	h.untilState("the first", func(s *state.Session) bool {
		return s.ActiveTurn != nil && s.ActiveTurn.Message.Text == "one" && len(s.QueuedMessages) == 1
	})
	h.apply(&state.SessionTurnComplete{TurnID: "turn-1"})
	h.untilState("the second", func(s *state.Session) bool {
		return s.ActiveTurn != nil && s.ActiveTurn.Message.Text == "two" && len(s.QueuedMessages) == 0
	})
	if m := h.view().State.ActiveTurn.Message; len(m.Meta) != 0 {
		t.Errorf("the message carries %v", m.Meta)
	}
}

// TestQueueWaitsAfterAStop also over a restart, until a person decides.
func TestQueueWaitsAfterAStop(t *testing.T) {
	for name, end := range map[string]state.Action{
		"stopped": &state.SessionTurnCancelled{TurnID: "turn-0"},
		"failed":  &state.SessionError{TurnID: "turn-0", Error: state.ErrorInfo{Message: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.queue("one")
			h.queue("two")
			h.apply(end)
			h.restart()
			st := h.view().State
			if st.ActiveTurn != nil || len(st.QueuedMessages) != 2 {
				t.Fatalf("%+v", st)
			}
			if err := h.hub.Unqueue(t.Context(), h.id, st.QueuedMessages[0].ID); err != nil {
				t.Fatal(err)
			}
			if err := h.hub.SendQueued(t.Context(), h.id, st.QueuedMessages[0].ID); !errors.Is(err, ErrNoMessage) {
				t.Errorf("one that was removed: %v", err)
			}
			if err := h.hub.SendQueued(t.Context(), h.id, st.QueuedMessages[1].ID); err != nil {
				t.Fatal(err)
			}
			if st := h.view().State; st.ActiveTurn == nil || st.ActiveTurn.Message.Text != "two" || len(st.QueuedMessages) != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestQueueAfterTheEnd is sent at once.
func TestQueueAfterTheEnd(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	h.queue("late")
	h.untilState("the turn", func(s *state.Session) bool { return s.ActiveTurn != nil && s.ActiveTurn.Message.Text == "late" })
}

// TestQueueIsNeverSentTwice: one of which nod does not know whether it was sent
// waits for a person.
func TestQueueIsNeverSentTwice(t *testing.T) {
	h := newHouse(t)
	h.queue("one")
	h.agent.mu.Lock()
	h.agent.dispatchFails = &agentconn.PublicError{Message: "The cable is out."}
	h.agent.mu.Unlock()
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	h.untilState("the mark", func(s *state.Session) bool {
		return len(s.QueuedMessages) == 1 && strings.Contains(string(s.QueuedMessages[0].Message.Meta[triedKey]), "The cable is out.")
	})
	h.agent.mu.Lock()
	h.agent.dispatchFails = nil
	h.agent.mu.Unlock()
	h.restart()
	h.queue("two") // wakes the queue, of which the first is in doubt
	h.hub.delivering.Wait()
	if st := h.view().State; st.ActiveTurn != nil {
		t.Errorf("it was sent again by itself: %+v", st.ActiveTurn)
	}
	if err := h.hub.SendQueued(t.Context(), h.id, h.view().State.QueuedMessages[0].ID); err != nil {
		t.Fatal(err)
	}
	h.untilState("one", func(s *state.Session) bool { return s.ActiveTurn != nil && s.ActiveTurn.Message.Text == "one" })
}

// TestRemovedWhileSent: a message that a person removes while it is being sent does not
// come back when that fails.
func TestRemovedWhileSent(t *testing.T) {
	h := newHouse(t)
	h.queue("one")
	id := h.view().State.QueuedMessages[0].ID
	h.agent.mu.Lock() // it does not answer yet
	h.agent.dispatchFails = &agentconn.PublicError{Message: "The cable is out."}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	h.untilState("the mark", func(s *state.Session) bool { return tried(s.QueuedMessages[0].Message) })
	removed := make(chan error, 1)
	go func() { removed <- h.hub.Unqueue(t.Context(), h.id, id) }()
	for range 100_000 {
		if len(removed) > 0 {
			break
		}
		runtime.Gosched()
	}
	h.agent.mu.Unlock()
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	h.hub.delivering.Wait()
	if q := h.view().State.QueuedMessages; len(q) != 0 {
		t.Errorf("it is back: %+v", q)
	}
}

// TestRequeue gives a queued message another text, where it is; one that is gone has none.
func TestRequeue(t *testing.T) {
	h := newHouse(t)
	m := state.UserMessage("one")
	m.Attachments = []state.MessageAttachment{{Type: "resource", Label: "a", URI: new("file:///a")}}
	if err := h.hub.Queue(t.Context(), h.id, m); err != nil {
		t.Fatal(err)
	}
	h.queue("two")
	first := h.view().State.QueuedMessages[0].ID
	if err := h.hub.Requeue(t.Context(), h.id, first, "one, but better"); err != nil {
		t.Fatal(err)
	}
	h.restart()
	q := h.view().State.QueuedMessages
	if len(q) != 2 || q[0].ID != first || q[0].Message.Text != "one, but better" || len(q[0].Message.Attachments) != 1 || q[1].Message.Text != "two" {
		t.Errorf("%+v", q)
	}
	if err := h.hub.Requeue(t.Context(), h.id, "gone", "x"); !errors.Is(err, ErrNoMessage) {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestSteerQueued says a queued message to the turn in progress, once. It is not lost if
// that fails, and not sent by itself then.
func TestSteerQueued(t *testing.T) {
	h := newHouse(t)
	h.queue("one")
	h.queue("two")
	q := h.view().State.QueuedMessages
	h.agent.mu.Lock()
	h.agent.dispatchFails = &agentconn.PublicError{Message: "The cable is out."}
	h.agent.mu.Unlock()
	if err := h.hub.SteerQueued(t.Context(), h.id, q[0].ID); err == nil {
		t.Error("nobody says that it failed")
	}
	st := h.view().State
	if len(st.QueuedMessages) != 2 || !strings.Contains(string(st.QueuedMessages[0].Message.Meta[triedKey]), "The cable is out.") {
		t.Errorf("after a failure: %+v", st.QueuedMessages)
	}
	h.agent.mu.Lock()
	h.agent.dispatchFails, h.agent.dispatched = nil, nil
	h.agent.mu.Unlock()
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- h.hub.SteerQueued(t.Context(), h.id, q[0].ID) }()
	}
	if a, b := <-results, <-results; (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), ErrNoMessage) {
		t.Errorf("at once: %v, %v", a, b)
	}
	h.agent.mu.Lock()
	said := h.agent.dispatched
	h.agent.mu.Unlock()
	if len(said) != 1 || said[0].(*state.SessionPendingMessageSet).Message.Text != "one" || len(said[0].(*state.SessionPendingMessageSet).Message.Meta) != 0 {
		t.Errorf("the agent was told %+v", said)
	}
	if q := h.view().State.QueuedMessages; len(q) != 1 || q[0].Message.Text != "two" {
		t.Errorf("what waits: %+v", q)
	}
	h.apply(&state.SessionTurnCancelled{TurnID: "turn-0"})
	if err := h.hub.SteerQueued(t.Context(), h.id, q[1].ID); !errors.Is(err, ErrNoTurn) {
		t.Errorf("without a turn: %v", err)
	}
}

// TestWaitingThere: what waits at the agent is the agent's to forget and to take.
func TestWaitingThere(t *testing.T) {
	h := newHouse(t)
	h.queue("mine")
	h.apply(&state.SessionMetaChanged{Meta: state.Meta{state.MetaQueue: []byte(`[{"id":"7","text":"theirs"},{"id":"8","text":"more"}]`)}})
	if err := h.hub.SteerQueued(t.Context(), h.id, "7"); err != nil {
		t.Fatal(err)
	}
	if err := h.hub.Unqueue(t.Context(), h.id, "8"); err != nil {
		t.Fatal(err)
	}
	if err := h.hub.StopAll(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	h.agent.mu.Lock()
	defer h.agent.mu.Unlock()
	var said []string
	for _, a := range h.agent.dispatched {
		switch a := a.(type) {
		case *state.SessionPendingMessageSet:
			said = append(said, string(a.Kind)+" "+a.ID+" "+a.Message.Text)
		case *state.SessionPendingMessageRemoved:
			said = append(said, "removed "+a.ID)
		default:
			said = append(said, string(a.Type()))
		}
	}
	if got := strings.Join(said, ", "); got != "session/turnStarted, steering 7 theirs, removed 8, removed 7, removed 8, session/turnCancelled" {
		t.Errorf("the agent was told: %s", got)
	}
}

// TestStopAll leaves nothing that waits, also of what the agent has not taken.
func TestStopAll(t *testing.T) {
	h := newHouse(t)
	h.queue("one")
	h.queue("two")
	h.apply(&state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: "s", Message: state.UserMessage("mind the gap")})
	if err := h.hub.StopAll(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	h.apply(&state.SessionTurnCancelled{TurnID: "turn-0"})
	if st := h.view().State; len(st.QueuedMessages) != 0 || st.SteeringMessage != nil {
		t.Errorf("it still waits: %+v %+v", st.QueuedMessages, st.SteeringMessage)
	}
	if err := h.hub.StopAll(t.Context(), h.id); !errors.Is(err, ErrNoTurn) {
		t.Errorf("without a turn: %v", err)
	}
}

// TestC23StopSaysWhatItStopped names the commands, the requests and the messages.
func TestC23StopSaysWhatItStopped(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionMetaChanged{Meta: state.Meta{"nod.plan": []byte(`[{"step":"a","status":"completed"}]`)}})
	h.apply(&state.SessionToolCallStart{TurnID: "turn-0", ToolCallID: "c", ToolName: "shell", DisplayName: "Run"})
	h.apply(&state.SessionToolCallReady{TurnID: "turn-0", ToolCallID: "c", InvocationMessage: state.Plain("npm test\nmore"), Confirmed: state.ConfirmedNotNeeded})
	h.apply(&state.SessionToolCallContentChanged{TurnID: "turn-0", ToolCallID: "c", Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/c", "x")}})
	h.hub.Apply(t.Context(), h.uri, state.Source{}, on("ahp-terminal:/c", &state.TerminalCommandExecuted{CommandID: "c", CommandLine: "npm test", Timestamp: time.Now().Add(-12 * time.Second).UnixMilli()}))
	h.ask("1")
	h.queue("next")
	h.apply(&state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: "s", Message: state.UserMessage("mind the gap")})
	// As Codex tells it: the command first, then the end.
	h.hub.Apply(t.Context(), h.uri, state.Source{}, on(h.uri, &state.SessionToolCallComplete{TurnID: "turn-0", ToolCallID: "c"}), on(h.uri, &state.SessionTurnCancelled{TurnID: "turn-0"}))
	st := h.view().State
	p, ok := snapshot.PartAt(st, 0, snapshot.PartCount(st, 0)-1).(*state.NotificationPart)
	const want = "Stopped while this ran: “npm test” (for 12s). 1 request was withdrawn. 2 messages wait below."
	if !ok || p.Content.Text != want {
		t.Errorf("it says %+v, want %q", p, want)
	}
	if st.SteeringMessage != nil || len(st.QueuedMessages) != 2 || st.QueuedMessages[1].Message.Text != "mind the gap" {
		t.Errorf("what was not taken is lost: %+v %+v", st.SteeringMessage, st.QueuedMessages)
	}
}

// TestSteer goes to a turn in progress only.
func TestSteer(t *testing.T) {
	h := newHouse(t)
	if err := h.hub.Steer(t.Context(), h.id, state.UserMessage("x")); err != nil {
		t.Fatal(err)
	}
	h.apply(&state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: "s", Message: state.UserMessage("x")})
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if st := h.view().State; st.SteeringMessage != nil || len(st.QueuedMessages) != 0 {
		t.Errorf("after a turn that has completed: %+v", st)
	}
	if err := h.hub.Steer(t.Context(), h.id, state.UserMessage("x")); !errors.Is(err, ErrNoTurn) {
		t.Errorf("without a turn: %v", err)
	}
}

// TestRenameWithoutTheAgent is done here, whatever the agent says.
func TestRenameWithoutTheAgent(t *testing.T) {
	h := newHouse(t)
	h.agent.mu.Lock()
	h.agent.dispatchFails = errors.New("down")
	h.agent.mu.Unlock()
	if err := h.hub.Rename(t.Context(), h.id, "a better name"); err != nil {
		t.Fatal(err)
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if err := h.hub.Archive(t.Context(), h.id, true); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if m := h.view().State.Summary; m.Title != "a better name" || !m.Status.Archived() {
		t.Errorf("%+v", m)
	}
}
