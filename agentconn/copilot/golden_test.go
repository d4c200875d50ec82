package copilot

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nod/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

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
			golden(t, filepath.Join("testdata", "golden", name+".json"), s.final())
			if s.errors.Len() > 0 {
				t.Errorf("logged: %s", s.errors.String())
			}
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if bytes.Equal(got, want) {
		return
	}
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s", file, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", file, len(a), len(b))
}

// times are what differs whenever a recording is made or played.
var (
	times   = regexp.MustCompile(`("(?:createdAt|modifiedAt|timestamp|durationMs|nod\.durationMs)": )[0-9.]+`)
	running = regexp.MustCompile(`\(for [0-9][^)]*\)`)
	ids     = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	callIDs = regexp.MustCompile(`call_[0-9a-z]+_([0-9_]+)`)
)

// final is the state of all sessions, sub-agents last, without what is another each
// time.
func (s *stage) final() []byte {
	s.t.Helper()
	var uris []string
	for _, known := range s.conn.sessions {
		uris = append(append(uris, known.main.uri), subURIs(known)...)
	}
	slices.Sort(uris)
	var sessions []map[string]any
	for _, uri := range uris {
		v := s.session(strings.TrimPrefix(uri, state.SessionScheme))
		terminals := map[string]any{}
		for uri, terminal := range v.Terminals.All() {
			terminals[uri] = s.plain(terminal)
		}
		var asked []string
		for _, a := range v.Approvals {
			asked = append(asked, fmt.Sprintf("%s %s: %s", a.Request.Method, a.Request.UpstreamID, a.State))
		}
		sessions = append(sessions, map[string]any{"state": s.plain(v.State), "terminals": terminals, "requests": asked})
	}
	out, err := json.MarshalIndent(sessions, "", "  ")
	if err != nil {
		s.t.Fatal(err)
	}
	text := running.ReplaceAllString(times.ReplaceAllString(string(out), "${1}0"), "(for a while)")
	text = callIDs.ReplaceAllString(text, "call_$1")
	var seen []string
	text = ids.ReplaceAllStringFunc(text, func(id string) string {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
		return fmt.Sprintf("id-%d", slices.Index(seen, id)+1)
	})
	return []byte(text + "\n")
}

func (s *stage) plain(v any) json.RawMessage {
	s.t.Helper()
	raw, err := state.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}
