package schematest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shared returns a file of the material that is not part of this module, and
// skips the test where there is none.
func shared(t *testing.T, name ...string) string {
	t.Helper()
	root := os.Getenv("NOD_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{root}, name...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not here; NOD_SHARED may name the folder that holds it", filepath.Join(name...))
	}
	return path
}

func pinned(t *testing.T) *Validator {
	t.Helper()
	v := Pinned(t)
	if v == nil {
		t.Skip("the schema is not here; NOD_SHARED may name the folder that holds it")
	}
	return v
}

type fixture struct {
	Reducer  string
	Actions  []struct{ Type string }
	Expected any
}

// definitions names the type of each reducer's state.
var definitions = map[string]string{
	"root": "RootState", "session": "SessionState", "terminal": "TerminalState",
	"changeset": "ChangesetState", "resourceWatch": "ResourceWatchState",
}

// beyond are the fixtures whose outcome is not valid, on purpose: it holds what
// a later version, or a vendor, may send.
var beyond = map[string]string{
	"103-delta-skips-parts-without-id": "an unknown kind of response part",

	"changeset-operation-unknown-values":      "an unknown scope and status of an operation",
	"changeset-status-unknown":                "an unknown status",
	"session-customizations-of-unknown-kind":  "unknown types of customization and an unknown load state",
	"session-input-unknown-kinds":             "unknown kinds of question and answer",
	"session-lifecycle-unknown":               "an unknown lifecycle",
	"session-parts-of-unknown-kind-kept":      "unknown kinds of origin, attachment, part and content, an unknown reason",
	"session-past-turns-untouched":            "an unknown turn state and kind of response part",
	"session-status-high-bits-kept":           "status bits of a later version",
	"session-status-high-bits-through-a-call": "status bits of a later version",
	"session-text-of-the-wrong-part":          "unknown kinds of response parts",
	"session-toolcall-option-of-unknown-kind": "an unknown kind of option",
	"session-toolcall-unknown-status-kept":    "an unknown status of a tool call",
	"terminal-claim-of-unknown-kind":          "an unknown kind of claim",
	"terminal-data-after-an-unknown-part":     "an unknown type of part",
}

// TestFixturesAreValid holds the outcome of AHP's own fixtures and of ours
// against the schema.
func TestFixturesAreValid(t *testing.T) {
	v := pinned(t)
	met := map[string]bool{}
	for _, folder := range []string{shared(t, "ahp-fixtures"), ours} {
		for _, file := range files(t, folder) {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			f := read(t, file)
			doc, err := json.Marshal(withoutNulls(f.Expected))
			if err != nil {
				t.Fatal(err)
			}
			err = v.Validate(definitions[f.Reducer], doc)
			if _, ok := beyond[name]; ok {
				met[name] = true
				if err == nil {
					t.Errorf("%s is valid: it is no exception", name)
				}
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name := range beyond {
		if !met[name] {
			t.Errorf("the exception %s is no fixture", name)
		}
	}
}

// TestFixturesUseEveryAction looks for an action of the protocol that none of
// our fixtures uses.
func TestFixturesUseEveryAction(t *testing.T) {
	b, err := os.ReadFile(shared(t, "protocols", "ahp-actions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var actions map[string]any
	if err := json.Unmarshal(b, &actions); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, file := range files(t, ours) {
		for _, a := range read(t, file).Actions {
			used[a.Type] = true
		}
	}
	for action := range actions {
		if !used[action] {
			t.Errorf("no fixture of ours uses %s", action)
		}
	}
}

// TestRefuses spoils one thing in a valid document at a time.
func TestRefuses(t *testing.T) {
	const (
		session = `{"summary":{"resource":"ahp-session:/1","provider":"demo","title":"T","status":24,"createdAt":1,"modifiedAt":1},"lifecycle":"ready",` +
			`"turns":[{"id":"t1","message":{"text":"Hi","origin":{"kind":"user"}},"responseParts":[{"kind":"markdown","id":"m","content":"Ho"}],"state":"complete"}],` +
			`"activeTurn":{"id":"t2","message":{"text":"Go","origin":{"kind":"user"}},"responseParts":[` +
			`{"kind":"toolCall","toolCall":{"toolCallId":"c1","toolName":"sh","displayName":"Shell","status":"running","invocationMessage":"Run","confirmed":"setting","content":[{"type":"text","text":"x"}]}},` +
			`{"kind":"toolCall","toolCall":{"toolCallId":"c2","toolName":"sh","displayName":"Shell","status":"pending-confirmation","invocationMessage":{"markdown":"Run"},` +
			`"edits":{"items":[{"after":{"uri":"file:///a","content":{"uri":"content:/a"}}}]},"options":[{"id":"y","label":"Yes","kind":"approve"}]}},` +
			`{"kind":"toolCall","toolCall":{"toolCallId":"c3","toolName":"sh","displayName":"Shell","status":"cancelled","invocationMessage":"Run","reason":"denied"}}]},` +
			`"inputRequests":[{"id":"i","questions":[{"kind":"text","id":"q","message":"Name?"}],"answers":{"q":{"state":"draft","value":{"kind":"text","value":"n"}}}}],` +
			`"customizations":[{"type":"plugin","id":"p","uri":"x:/p","name":"P","enabled":true,"load":{"kind":"loaded"}}]}`
		root      = `{"agents":[{"provider":"demo","displayName":"Demo","description":"","models":[]}],"activeSessions":0}`
		terminal  = `{"title":"sh","content":[{"type":"command","commandId":"c","commandLine":"ls","output":"","timestamp":1,"isComplete":false}],"claim":{"kind":"client","clientId":"tab"}}`
		changeset = `{"status":"ready","files":[{"id":"a","edit":{"before":{"uri":"file:///a","content":{"uri":"content:/a"}}}}],"operations":[{"id":"o","label":"O","scopes":["range"],"status":"idle"}]}`
		watch     = `{"root":"file:///","recursive":true,"includes":{"items":["*.go"]}}`
		tool      = `{"name":"read","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`
	)
	snapshot := func(state string) string { return `{"resource":"ahp-root://","state":` + state + `,"fromSeq":3}` }

	tests := []struct{ what, definition, valid, from, to string }{
		{"a missing required member", "SessionState", session, `"lifecycle":"ready",`, ``},
		{"a missing member of the summary", "SessionState", session, `"provider":"demo",`, ``},
		{"a title that is no string", "SessionState", session, `"title":"T"`, `"title":7`},
		{"a null", "SessionState", session, `"title":"T"`, `"title":null`},
		{"an activity without its lower bit", "SessionState", session, `"status":24`, `"status":16`},
		{"a status bit of a later version", "SessionState", session, `"status":24`, `"status":152`},
		{"a lifecycle that is none", "SessionState", session, `"ready"`, `"live"`},
		{"a turn state that is none", "SessionState", session, `"state":"complete"`, `"state":"done"`},
		{"a part of unknown kind", "SessionState", session, `"kind":"markdown"`, `"kind":"poll"`},
		{"a part without its content", "SessionState", session, `,"content":"Ho"`, ``},
		{"a message without origin", "SessionState", session, `"text":"Go","origin":{"kind":"user"}`, `"text":"Go"`},
		{"a message of unknown origin", "SessionState", session, `"text":"Go","origin":{"kind":"user"}`, `"text":"Go","origin":{"kind":"agent"}`},
		{"a running call without confirmed", "SessionState", session, `"confirmed":"setting",`, ``},
		{"a running call confirmed by nobody known", "SessionState", session, `"confirmed":"setting"`, `"confirmed":"luck"`},
		{"a completed call without result", "SessionState", session, `"status":"running"`, `"status":"completed"`},
		{"a call of unknown status", "SessionState", session, `"status":"running"`, `"status":"paused"`},
		{"content of unknown type", "SessionState", session, `"type":"text"`, `"type":"sound"`},
		{"a pending call without message", "SessionState", session, `"invocationMessage":{"markdown":"Run"},`, ``},
		{"a message that is neither text nor Markdown", "SessionState", session, `{"markdown":"Run"}`, `{"html":"Run"}`},
		{"edits that are no list", "SessionState", session, `[{"after":{"uri":"file:///a","content":{"uri":"content:/a"}}}]`, `"file:///a"`},
		{"an edit with its content in place", "SessionState", session, `"content":{"uri":"content:/a"}`, `"content":"text"`},
		{"an option of unknown kind", "SessionState", session, `"kind":"approve"`, `"kind":"allow"`},
		{"a cancelled call without reason", "SessionState", session, `,"reason":"denied"`, ``},
		{"a question of unknown kind", "SessionState", session, `"kind":"text","id":"q"`, `"kind":"date","id":"q"`},
		{"an answer of the wrong type", "SessionState", session, `"value":"n"`, `"value":1`},
		{"an answer in an unknown state", "SessionState", session, `"state":"draft"`, `"state":"saved"`},
		{"a customization of unknown type", "SessionState", session, `"type":"plugin"`, `"type":"bundle"`},
		{"a load error without message", "SessionState", session, `"kind":"loaded"`, `"kind":"error"`},
		{"a root without agents", "RootState", root, `"agents"`, `"agent"`},
		{"a count that is text", "RootState", root, `"activeSessions":0`, `"activeSessions":"0"`},
		{"an agent without models", "RootState", root, `,"models":[]`, ``},
		{"a command without output", "TerminalState", terminal, `"output":"",`, ``},
		{"a part of unknown type", "TerminalState", terminal, `"type":"command"`, `"type":"image"`},
		{"a claim of the other kind", "TerminalState", terminal, `"kind":"client"`, `"kind":"session"`},
		{"an unknown status", "ChangesetState", changeset, `"status":"ready"`, `"status":"stale"`},
		{"a file without edit", "ChangesetState", changeset, `"edit"`, `"edits"`},
		{"a scope that is none", "ChangesetState", changeset, `"range"`, `"hunk"`},
		{"globs that are one text", "ResourceWatchState", watch, `["*.go"]`, `"*.go"`},
		{"a tool's property that is no schema", "ToolDefinition", tool, `{"type":"string"}`, `"string"`},
		{"a snapshot without number", "Snapshot", snapshot(root), `,"fromSeq":3`, ``},
		{"a snapshot of nothing known", "Snapshot", snapshot(root), `"agents"`, `"chats"`},
		{"a snapshot of a broken session", "Snapshot", snapshot(session), `"confirmed":"setting",`, ``},
	}
	v := pinned(t)
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			if err := v.Validate(test.definition, []byte(test.valid)); err != nil {
				t.Fatal(err)
			}
			spoilt := strings.Replace(test.valid, test.from, test.to, 1)
			if spoilt == test.valid {
				t.Fatalf("%s is not in the document", test.from)
			}
			if v.Validate(test.definition, []byte(spoilt)) == nil {
				t.Error("it is accepted")
			}
		})
	}
	if v.Validate("ChatState", []byte("{}")) == nil {
		t.Error("a definition that the schema does not have is accepted")
	}
	if v.Validate("RootState", []byte("{")) == nil {
		t.Error("half a document is accepted")
	}
}

// TestCompileRefusesAnotherSchema says that a schema without the known gaps, or
// with others, is not patched by what was known of the pinned one.
func TestCompileRefusesAnotherSchema(t *testing.T) {
	pinned, err := os.ReadFile(shared(t, "schemas", "ahp-state.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		what   string
		change func(defs map[string]any)
		reason string
	}{
		{"a lost definition is there", func(d map[string]any) { d["URI"] = map[string]any{} }, "URI is no longer lost"},
		{"a wrong place is right", func(d map[string]any) { d["Turn"].(map[string]any)["required"] = []any{"id"} }, "Turn/required"},
		{"a wrong place is gone", func(d map[string]any) { d["FileEdit"] = map[string]any{} }, "FileEdit"},
		{"a union is repaired", func(d map[string]any) { d["ToolCallState"] = map[string]any{"oneOf": []any{d["Turn"]}} }, "ToolCallState"},
		{"another definition is lost", func(d map[string]any) { delete(d, "UsageInfo") }, "UsageInfo"},
	}
	for _, test := range tests {
		var schema map[string]any
		if err := json.Unmarshal(pinned, &schema); err != nil {
			t.Fatal(err)
		}
		test.change(schema["$defs"].(map[string]any))
		b, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "schema.json")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(file); err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

// ours is the folder of nod's own fixtures.
var ours = filepath.Join("..", "testdata", "fixtures")

func files(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no fixtures in %s: %v", folder, err)
	}
	return list
}

func read(t *testing.T, file string) fixture {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f
}

// withoutNulls drops members that are null: the fixtures take them for absent.
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
