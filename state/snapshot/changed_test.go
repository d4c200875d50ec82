package snapshot

import (
	"slices"
	"testing"

	"nod/state"
)

// TestChangedQueue: what waits at the agent is drawn where messages are written.
func TestChangedQueue(t *testing.T) {
	before := &state.Session{Summary: &state.SessionSummary{}, Meta: state.Meta{"nod.plan": []byte(`[]`)}}
	with := func(key string) *state.Session {
		after := *before
		after.Meta = state.Meta{"nod.plan": []byte(`[]`), key: []byte(`[{"id":"1","text":"x"}]`)}
		return &after
	}
	if !slices.Contains(Changed(before, with(state.MetaQueue)), Part{Kind: Composer}) {
		t.Error("it is not drawn again")
	}
	if slices.Contains(Changed(before, with("nod.other")), Part{Kind: Composer}) {
		t.Error("something else is drawn there")
	}
}
