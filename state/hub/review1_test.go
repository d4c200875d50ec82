package hub

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"nod/state"
	"nod/state/journal"
)

// TestReview1BeginTwice: what a server tells of a thread and what a call is answered
// with may make one session known at the same moment.
func TestReview1BeginTwice(t *testing.T) {
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
				_, errs[i] = h.Begin(t.Context(), "codex", m, &state.SessionReady{})
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
