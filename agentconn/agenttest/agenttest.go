// Package agenttest is what the tests of adapters share: recordings, golden states,
// and AHP's schema.
package agenttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nod/state"
	"nod/state/schematest"
	"nod/state/snapshot"
)

// Shared is the path of what does not belong to the module: recordings, schemas.
func Shared(path ...string) string {
	root := os.Getenv("NOD_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	return filepath.Join(append([]string{root}, path...)...)
}

// Play reads a recording: a line of JSON for each message, with its direction.
func Play(t testing.TB, file string, message func(dir string, msg json.RawMessage)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var rec struct {
				Dir string
				Msg json.RawMessage
			}
			if err := json.Unmarshal(line, &rec); err != nil {
				t.Fatal(err)
			}
			message(rec.Dir, rec.Msg)
		}
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// CheckValid holds a session against AHP's schema: nod may send it to a client. Without
// the schema it does nothing.
func CheckValid(t *testing.T, schema *schematest.Validator, v snapshot.Session) {
	t.Helper()
	if schema == nil {
		return
	}
	check := func(definition string, x any) {
		raw, err := state.Marshal(x)
		if err == nil {
			err = schema.Validate(definition, raw)
		}
		if err != nil {
			t.Errorf("%s: %v", definition, err)
		}
	}
	check("SessionState", v.State)
	for _, terminal := range v.Terminals.All() {
		check("TerminalState", terminal)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// Golden holds what came of a recording against a file. With -update it is written
// there; then a person reads the difference.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if bytes.Equal([]byte(got), want) {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s", file, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", file, len(a), len(b))
}

// What differs whenever a recording is made or played.
var (
	times   = regexp.MustCompile(`("(?:createdAt|modifiedAt|timestamp|durationMs|nod\.durationMs)": )[0-9.]+`)
	running = regexp.MustCompile(`\(for [0-9][^)]*\)`)
	ids     = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// Final is the state of sessions as a golden file has it, without what is another each
// time. named may put names in the place of further ids before the rest are counted.
func Final(t *testing.T, sessions []snapshot.Session, named func(text string) string) string {
	t.Helper()
	plain := func(v any) json.RawMessage {
		raw, err := state.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var all []map[string]any
	for _, v := range sessions {
		terminals := map[string]any{}
		for uri, terminal := range v.Terminals.All() {
			terminals[uri] = plain(terminal)
		}
		var asked []string
		for _, a := range v.Approvals {
			asked = append(asked, fmt.Sprintf("%s %s: %s", a.Request.Method, a.Request.UpstreamID, a.State))
		}
		all = append(all, map[string]any{"state": plain(v.State), "terminals": terminals, "requests": asked})
	}
	out, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text := named(running.ReplaceAllString(times.ReplaceAllString(string(out), "${1}0"), "(for a while)"))
	var seen []string
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
		return fmt.Sprintf("id-%d", slices.Index(seen, id)+1)
	}) + "\n"
}
