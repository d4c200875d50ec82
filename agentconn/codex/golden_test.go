package codex

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod/agentconn/agenttest"
	"nod/state"
	"nod/state/snapshot"
)

// TestGolden replays the small recordings of the module: the state of each session
// at the end is what its golden file says. With -update it is written there; then a
// person reads the difference.
func TestGolden(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("testdata", "recordings", "*.jsonl"))
	if len(files) == 0 {
		t.Fatal("there are no recordings")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.play(file)
			agenttest.Golden(t, filepath.Join("testdata", "golden", name+".json"), s.final())
			if s.errors.Len() > 0 {
				t.Errorf("logged: %s", s.errors.String())
			}
		})
	}
}

// final is the state of all sessions, in the order of their threads, without what
// is another each time.
func (s *stage) final() string {
	s.t.Helper()
	var sessions []snapshot.Session
	for _, thread := range slices.Sorted(maps.Keys(s.conn.threads)) {
		sessions = append(sessions, s.session(strings.TrimPrefix(s.conn.threads[thread].uri, state.SessionScheme)))
	}
	return agenttest.Final(s.t, sessions, func(text string) string {
		for thread, id := range s.threads {
			text = strings.ReplaceAll(text, id, thread)
		}
		return text
	})
}
