package codex

import (
	"encoding/json"
	"errors"
	"io/fs"
	"nod/agentconn/agenttest"
	"os"
	"path/filepath"
	"testing"
)

// protocol are the names of what a version of Codex can say.
type protocol struct {
	Notifications []string `json:"notifications"`
	Requests      []string `json:"requests"`
	Items         []string `json:"items"`
}

// protocols returns the versions that are at hand: the names of 0.171.0 were taken
// from its generated schema, those of 0.122.0 are in the pinned one.
func protocols(t *testing.T) map[string]protocol {
	t.Helper()
	var newest protocol
	b, err := os.ReadFile(filepath.Join("testdata", "protocol-0.171.0.json"))
	if err != nil || json.Unmarshal(b, &newest) != nil {
		t.Fatal("no names", err)
	}
	out := map[string]protocol{"0.171.0": newest}
	b, err = os.ReadFile(agenttest.Shared("schemas", "codex-app-server-protocol.schema.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("the pinned schema is not here; NOD_SHARED may name the folder that holds it")
		return out
	}
	type union struct {
		OneOf []struct {
			Properties map[string]json.RawMessage
		}
	}
	var schema struct {
		Definitions struct {
			ServerNotification, ServerRequest union
			V2                                struct{ ThreadItem union } `json:"v2"`
		}
	}
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	names := func(u union, property string) (out []string) {
		for _, x := range u.OneOf {
			var p struct{ Enum []string }
			if err := json.Unmarshal(x.Properties[property], &p); err != nil {
				t.Fatal(err)
			}
			out = append(out, p.Enum...)
		}
		return out
	}
	d := schema.Definitions
	out["0.122.0"] = protocol{names(d.ServerNotification, "method"), names(d.ServerRequest, "method"), names(d.V2.ThreadItem, "type")}
	return out
}

// requestForms say how each server request is shown.
var requestForms = map[string]string{
	"item/commandExecution/requestApproval": "a card with the command",
	"item/fileChange/requestApproval":       "a card with the diff",
	"item/tool/requestUserInput":            "a card with the questions",
	"item/permissions/requestApproval":      raw,
	"mcpServer/elicitation/request":         raw,
	"item/tool/call":                        raw, // nod offers no tools, so it is not asked
	"account/chatgptAuthTokens/refresh":     raw, // nod manages no tokens, so it is not asked
	"attestation/generate":                  raw, // nod does not say that it can, so it is not asked
	"applyPatchApproval":                    raw, // of the protocol before threads
	"execCommandApproval":                   raw, // of the protocol before threads
}

const raw = "a card with the request as it came"

// TestEverythingIsClassified walks what both versions can say: what nobody has
// thought of is found here, and not by a person who misses it.
func TestEverythingIsClassified(t *testing.T) {
	for version, p := range protocols(t) {
		if len(p.Notifications) < 50 || len(p.Requests) < 9 || len(p.Items) < 16 {
			t.Errorf("%s: only %d notifications, %d requests, %d items are known", version, len(p.Notifications), len(p.Requests), len(p.Items))
		}
		for _, name := range p.Notifications {
			if (handlers[name] != nil) == (ignored[name] != "") {
				t.Errorf("%s: the notification %s is neither handled nor ignored for a reason, or both", version, name)
			}
		}
		for _, name := range p.Items {
			if _, known := kinds[name]; !known {
				t.Errorf("%s: the item %s has no form", version, name)
			}
		}
		for _, name := range p.Requests {
			if requestForms[name] == "" {
				t.Errorf("%s: the request %s has no form", version, name)
			}
		}
	}
}

// TestNothingIsMadeUp: what is handled is in one of the versions.
func TestNothingIsMadeUp(t *testing.T) {
	all := protocols(t)
	if len(all) < 2 {
		t.Skip("needs both versions")
	}
	said := map[string]bool{}
	for _, p := range all {
		for _, list := range [][]string{p.Notifications, p.Items, p.Requests} {
			for _, name := range list {
				said[name] = true
			}
		}
	}
	check := func(name string) {
		if !said[name] {
			t.Errorf("no version says %s", name)
		}
	}
	for name := range handlers {
		check(name)
	}
	for name := range ignored {
		check(name)
	}
	for name := range kinds {
		check(name)
	}
	for name := range requestForms {
		check(name)
	}
}
