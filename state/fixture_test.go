package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// fixtureClock is what AHP's own fixtures freeze time at.
const fixtureClock = 9999

// sharedFolder returns a folder of material that is not part of this module, and
// skips the test where there is none.
func sharedFolder(t testing.TB, sub string) string {
	t.Helper()
	root := os.Getenv("NOD_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	dir := filepath.Join(root, sub)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("%s is not here; NOD_SHARED may name the folder that holds it", sub)
	}
	return dir
}

// fixture is a case of AHP's own form.
type fixture struct {
	file        string
	Description string
	Reducer     string
	Initial     json.RawMessage
	Actions     []json.RawMessage
	Expected    json.RawMessage
}

func fixtures(t testing.TB, dir string) (out []fixture) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := fixture{file: filepath.Base(file)}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, f)
	}
	return out
}

// allFixtures returns our own fixtures and, where they are at hand, AHP's.
func allFixtures(t testing.TB) []fixture {
	out := fixtures(t, filepath.Join("testdata", "fixtures"))
	if _, err := os.Stat(filepath.Join("..", "..", "shared")); err == nil || os.Getenv("NOD_SHARED") != "" {
		out = append(out, fixtures(t, sharedFolder(t, "ahp-fixtures"))...)
	}
	return out
}

// channel is a state of any channel, for tests that treat them alike.
type channel struct {
	empty  func() any
	reduce func(s any, a Action) any
}

var channels = map[string]channel{
	"root":          {func() any { return new(Root) }, func(s any, a Action) any { return ReduceRoot(s.(*Root), a) }},
	"session":       {func() any { return new(Session) }, func(s any, a Action) any { return ReduceSession(s.(*Session), a, fixtureClock) }},
	"terminal":      {func() any { return new(Terminal) }, func(s any, a Action) any { return ReduceTerminal(s.(*Terminal), a) }},
	"changeset":     {func() any { return new(Changeset) }, func(s any, a Action) any { return ReduceChangeset(s.(*Changeset), a) }},
	"resourceWatch": {func() any { return new(ResourceWatch) }, func(s any, a Action) any { return ReduceResourceWatch(s.(*ResourceWatch), a) }},
}

func (f fixture) initial(t testing.TB) any {
	t.Helper()
	s := channels[f.Reducer].empty()
	if err := Unmarshal(f.Initial, s); err != nil {
		t.Fatalf("%s: %v", f.file, err)
	}
	return s
}

func (f fixture) actions(t testing.TB) (out []Action) {
	t.Helper()
	for _, raw := range f.Actions {
		a, err := UnmarshalAction(raw)
		if err != nil {
			t.Fatalf("%s: %v", f.file, err)
		}
		out = append(out, a)
	}
	return out
}

// TestFixtures runs AHP's own reducer fixtures, all of them.
func TestFixtures(t *testing.T) {
	fs := fixtures(t, sharedFolder(t, "ahp-fixtures"))
	if len(fs) != 163 {
		t.Errorf("%d fixtures are here, not 163", len(fs))
	}
	for _, f := range fs {
		t.Run(f.file, f.run)
	}
}

// TestOwnFixtures runs ours, which together use every action.
func TestOwnFixtures(t *testing.T) {
	unused := map[string]bool{}
	for name := range codecs {
		unused[name] = true
	}
	for _, f := range fixtures(t, filepath.Join("testdata", "fixtures")) {
		t.Run(f.file, f.run)
		for _, a := range f.actions(t) {
			delete(unused, a.Type())
		}
	}
	for name := range unused {
		t.Errorf("no fixture of ours uses %s", name)
	}
	if len(codecs) != 62 {
		t.Errorf("%d actions are registered, the schema has 62", len(codecs))
	}
}

// run reduces the fixture, and holds every state on the way against what it was
// when it was new: an older state must never change.
func (f fixture) run(t *testing.T) {
	s := f.initial(t)
	states, before := []any{s}, []string{text(t, s)}
	for _, a := range f.actions(t) {
		s = channels[f.Reducer].reduce(s, a)
		states, before = append(states, s), append(before, text(t, s))
	}
	if got, want := tree(t, text(t, s)), tree(t, string(f.Expected)); !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngot  %s\nwant %s", f.Description, text(t, got), text(t, want))
	}
	for i := range states {
		if now := text(t, states[i]); now != before[i] {
			t.Errorf("the state after %d actions was %s and is %s", i, before[i], now)
		}
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tree reads JSON without members that are null: the fixtures take them for
// absent. Numbers keep their digits.
func tree(t testing.TB, s string) any {
	t.Helper()
	return withoutNulls(exact(t, s))
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil {
				delete(v, k)
			} else {
				v[k] = withoutNulls(x)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}
