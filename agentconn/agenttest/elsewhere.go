package agenttest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
	"nod/state/risk"
)

// Elsewhere plays a recording in which an agent asks to change a file in the session's
// folder, and then one in which that file lies elsewhere: of a change as the agent asks for
// it, which tells no folder, the one that the session works in makes what lies elsewhere
// risky, and what lies in it not. play returns the requests of a recording.
func Elsewhere(t *testing.T, recording, changed string, play func(t *testing.T, file string) []*approvals.Approval) {
	t.Helper()
	said, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	for name, risky := range map[string]bool{changed: false, "/usr/local/bin/hello": true} {
		bent := bytes.ReplaceAll(said, []byte(changed), []byte(name))
		bent = bytes.ReplaceAll(bent, []byte(changed[1:]), []byte(strings.TrimPrefix(name, "/"))) // of a diff
		file := filepath.Join(t.TempDir(), "recording.jsonl")
		if err := os.WriteFile(file, bent, 0o600); err != nil {
			t.Fatal(err)
		}
		list := play(t, file)
		i := slices.IndexFunc(list, func(a *approvals.Approval) bool { return a.Request.Kind == state.RequestFileChange })
		if i < 0 {
			t.Fatalf("nobody asks for %s", name)
		}
		r := list[i].Request
		if r.Cwd != "" {
			t.Errorf("%s: the request tells a folder: %q", name, r.Cwd)
		}
		if marks := risk.Marks(r); risk.Grave(marks) != risky {
			t.Errorf("%s: %+v", name, marks)
		}
	}
}
