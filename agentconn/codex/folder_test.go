package codex

import (
	"testing"

	"nod/agentconn/agenttest"
	"nod/state/approvals"
)

// TestR24ElsewhereAsRecorded: a change of a file that does not lie in the session's folder
// is risky, as the agent really asks for it.
func TestR24ElsewhereAsRecorded(t *testing.T) {
	agenttest.Elsewhere(t, "testdata/recordings/file-approved.jsonl", "/w/notes/hello.md", func(t *testing.T, file string) []*approvals.Approval {
		s := newStage(t)
		s.play(file)
		return s.view().Approvals
	})
}
