package main

import (
	"os/exec"
	"strings"
	"testing"
)

// mayImport draws the house: which rooms of this module each room may use,
// itself left out.
var mayImport = map[string][]string{
	"state":                     {},
	"state/approvals":           {"state"},
	"state/crashpoint":          {},
	"state/journal":             {"state/crashpoint"},
	"state/journal/journaltest": {"state/journal"},
	"state/risk":                {"state"},
	"state/snapshot":            {"state", "state/approvals"},
	"state/redact":              {},
	"state/share":               {"state", "state/approvals", "state/redact", "state/snapshot"},
	"state/schematest":          {}, // for tests only
	"state/hub":                 {"state", "state/approvals", "state/crashpoint", "state/journal", "state/snapshot"},

	"agentconn":              {"state"},
	"agentconn/agenttest":    {"state", "state/approvals", "state/risk", "state/schematest", "state/snapshot"}, // for tests only
	"agentconn/codex":        {"agentconn", "agentconn/forms", "agentconn/plain", "state"},
	"agentconn/copilot":      {"agentconn", "agentconn/copilot/keep", "agentconn/forms", "agentconn/plain", "state"},
	"agentconn/copilot/keep": {"agentconn"},
	"agentconn/forms":        {"state"},
	"agentconn/plain":        {},
	"agentconn/demo":         {"agentconn", "state"},

	"static":         {},
	"views/ansi":     {},
	"views/diff":     {},
	"views/markdown": {},
	"views/reveal":   {},
	"views":          {"state", "state/approvals", "state/risk", "state/share", "state/snapshot", "static", "views/ansi", "views/diff", "views/markdown", "views/reveal"},

	"handlers/auth":   {"state/journal"},
	"handlers/guests": {}, // R27: nothing that could change anything
	"handlers":        {"handlers/auth", "handlers/guests", "state", "state/approvals", "state/hub", "state/journal", "state/redact", "state/risk", "state/share", "state/snapshot", "static", "views", "views/markdown"},

	"e2e":           {},
	"e2e/bench":     {},
	"e2e/fakeagent": {},
	"e2e/fakemcp":   {},
	"e2e/fakemodel": {},
	"e2e/record":    {},
	"e2e/security":  {},
	"cmd/web":       nil, // knows every room
}

// TestImportsPointOneWay fails on an import that is not drawn above, and on a
// room that nobody has drawn.
func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "nod/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		room := strings.TrimPrefix(f[0], "nod/")
		allowed, drawn := mayImport[room]
		if !drawn {
			t.Errorf("the room %s is not drawn", room)
		}
		if room == "cmd/web" {
			continue
		}
		for _, imported := range f[1:] {
			to, ours := strings.CutPrefix(imported, "nod/")
			if ours && !contains(allowed, to) {
				t.Errorf("%s imports %s: that points back", room, to)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
