package copilot

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

// TestR24ElsewhereAsRecorded: of a change as the agent asks for it, which tells no
// folder, the one that the session works in makes what lies elsewhere risky, and what
// lies in it not.
func TestR24ElsewhereAsRecorded(t *testing.T) {
	recording, err := os.ReadFile(filepath.Join("testdata", "recordings", "write-approved.rpc.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, risky := range map[string]bool{"/w/notes.md": false, "/usr/local/bin/hello": true} {
		file := filepath.Join(t.TempDir(), "recording.jsonl")
		bent := bytes.ReplaceAll(recording, []byte("/w/notes.md"), []byte(name))
		bent = bytes.ReplaceAll(bent, []byte("/w/notes.md"[1:]), []byte(strings.TrimPrefix(name, "/"))) // of a diff
		if err := os.WriteFile(file, bent, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newStage(t)
		s.play(file)
		list := s.view().Approvals
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
