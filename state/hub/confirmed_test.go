package hub

import (
	"encoding/json"
	"errors"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// TestConfirmed tells AHP what became of a request, in its words.
func TestConfirmed(t *testing.T) {
	options := []state.ConfirmationOption{
		{ID: "accept", Kind: state.OptionApprove}, {ID: "always", Kind: state.OptionApprove}, {ID: "decline", Kind: state.OptionDeny}, {ID: "cancel", Kind: state.OptionDeny},
	}
	asks := state.Request{Session: "s", TurnID: "t", Options: options, Questions: &state.InputRequest{ID: "q", Questions: []state.Question{
		{ID: "name", Kind: "text"}, {ID: "key", Kind: "text", Format: new(state.FormatSecret)},
	}}}
	call := state.Request{Session: "s", TurnID: "t", ToolCallID: "c", Options: options}
	for _, c := range []struct {
		name  string
		r     state.Request
		state approvals.State
		d     *state.Decision
		want  string
	}{
		{"answered", asks, approvals.Confirmed, &state.Decision{OptionID: "accept", Answers: map[string]state.Answer{"name": {Text: "Ada"}, "key": {Secret: []string{"hunter2"}}}},
			`{"type":"session/inputCompleted","requestId":"q","response":"accept","answers":{"name":{"state":"submitted","value":{"kind":"text","value":"Ada"}}}}`},
		{"allowed for good", asks, approvals.Confirmed, &state.Decision{OptionID: "always"}, `{"type":"session/inputCompleted","requestId":"q","response":"accept"}`},
		{"declined", asks, approvals.Confirmed, &state.Decision{OptionID: "decline"}, `{"type":"session/inputCompleted","requestId":"q","response":"decline"}`},
		{"cancelled", asks, approvals.Confirmed, &state.Decision{OptionID: "cancel"}, `{"type":"session/inputCompleted","requestId":"q","response":"cancel"}`},
		{"answered elsewhere", asks, approvals.AnsweredElsewhere, nil, `{"type":"session/inputCompleted","requestId":"q","response":"cancel"}`},
		{"a call, allowed", call, approvals.Confirmed, &state.Decision{OptionID: "accept"},
			`{"type":"session/toolCallConfirmed","turnId":"t","toolCallId":"c","approved":true,"confirmed":"user-action","selectedOptionId":"accept"}`},
		{"a call, denied with a reason", call, approvals.Confirmed, &state.Decision{OptionID: "decline", Reason: "not there"},
			`{"type":"session/toolCallConfirmed","turnId":"t","toolCallId":"c","approved":false,"reason":"denied","reasonMessage":"not there","selectedOptionId":"decline"}`},
		{"a call, answered elsewhere", call, approvals.AnsweredElsewhere, nil, ""},
	} {
		got := ""
		for _, e := range confirmed(&approvals.Approval{Request: c.r, State: c.state, Decision: c.d}) {
			raw, err := state.MarshalAction(e.Action)
			if err != nil || e.Channel != "s" {
				t.Error(err, e.Channel)
			}
			got += string(raw)
		}
		if got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestTooLate: an answer that the agent did not take is never shown as taken,
// whichever comes first, the agent's word or its refusal.
func TestTooLate(t *testing.T) {
	resolved := func(h *house) {
		h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedElsewhere)
	}
	for name, c := range map[string]struct{ before, after func(*house) }{
		"the refusal first": {func(*house) {}, resolved},
		"the word first":    {resolved, func(*house) {}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			a := h.ask("7")
			h.agent.fail, h.agent.during = state.ErrAnsweredElsewhere, func() { c.before(h) }
			if got, err := h.decide(a, "accept"); !errors.Is(err, state.ErrAnsweredElsewhere) || got.State != approvals.AnsweredElsewhere {
				t.Errorf("%v, %v", got, err)
			}
			c.after(h)
			if s := h.approval(a.ID).State; s != approvals.AnsweredElsewhere {
				t.Errorf("it ends as %s", s)
			}
		})
	}
}

// TestReasonLost: the answer has arrived, so it stands and waits to be confirmed.
func TestReasonLost(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	h.agent.fail = state.ErrReasonLost
	if got, err := h.decide(a, "decline"); !errors.Is(err, state.ErrReasonLost) || got.State != approvals.Sent {
		t.Errorf("%v, %v", got, err)
	}
	h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered)
	if s := h.approval(a.ID).State; s != approvals.Confirmed {
		t.Errorf("after the agent's word: %s", s)
	}
}
