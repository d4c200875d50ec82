package copilot

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nod/agentconn/agenttest"
	"nod/state"
	"nod/state/snapshot"
)

// TestGolden replays the recordings of the module: the state of each session at the
// end is what its golden file says. With -update it is written there; then a person
// reads the difference.
func TestGolden(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("testdata", "recordings", "*.rpc.jsonl"))
	if len(files) < 20 {
		t.Fatalf("there are %d recordings", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".rpc.jsonl")
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

var callIDs = regexp.MustCompile(`call_[0-9a-z]+_([0-9_]+)`)

// final is the state of all sessions, sub-agents last, without what is another each
// time.
func (s *stage) final() string {
	s.t.Helper()
	var uris []string
	for _, known := range s.conn.sessions {
		uris = append(append(uris, known.main.uri), subURIs(known)...)
	}
	slices.Sort(uris)
	var sessions []snapshot.Session
	for _, uri := range uris {
		sessions = append(sessions, s.session(strings.TrimPrefix(uri, state.SessionScheme)))
	}
	return agenttest.Final(s.t, sessions, func(text string) string { return callIDs.ReplaceAllString(text, "call_$1") })
}
