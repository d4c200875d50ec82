package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// fixtureClock is what AHP's own fixtures freeze time at.
const fixtureClock = 9999

// sharedFolder returns the folder of material that is not part of this module,
// and skips the test where there is none.
func sharedFolder(t *testing.T, sub string) string {
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

type fixture struct {
	Description string
	Reducer     string
	Initial     json.RawMessage
	Actions     []json.RawMessage
	Expected    json.RawMessage
}

// TestFixtures runs AHP's own reducer fixtures of the channels and actions that
// nod knows so far, and says how many it left out.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sharedFolder(t, "ahp-fixtures"), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	ran, left := 0, 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f fixture
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		if !known(t, f) {
			left++
			continue
		}
		ran++
		t.Run(filepath.Base(file), func(t *testing.T) { runFixture(t, f) })
	}
	t.Logf("%d fixtures ran, %d concern actions or fields not built yet", ran, left)
	if ran < 60 {
		t.Errorf("only %d fixtures ran: the types have lost a field", ran)
	}
}

// known reports whether every action and every field of the fixture is one that
// the types have: a fixture about others cannot pass, and says nothing.
func known(t *testing.T, f fixture) bool {
	if f.Reducer != "session" && f.Reducer != "terminal" {
		return false
	}
	for _, a := range f.Actions {
		if o, ok := action(t, a).(*OpaqueAction); ok && actionNames[o.Name] {
			return false
		}
	}
	for _, raw := range []json.RawMessage{f.Initial, f.Expected} {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(withoutNulls(v), roundTrip(t, f.Reducer, raw)) {
			return false
		}
	}
	return true
}

// actionNames are the actions of the pinned schema that are still to be built.
// What is neither here nor in actionTypes is unknown to the protocol itself.
var actionNames = map[string]bool{
	"session/toolCallResultConfirmed": true, "session/agentChanged": true, "session/serverToolsChanged": true,
	"session/activeClientChanged": true, "session/activeClientToolsChanged": true, "session/pendingMessageSet": true,
	"session/pendingMessageRemoved": true, "session/queuedMessagesReordered": true, "session/inputAnswerChanged": true,
	"session/customizationsChanged": true, "session/customizationToggled": true, "session/customizationUpdated": true,
	"session/customizationRemoved": true, "session/truncated": true, "session/isReadChanged": true,
	"session/isArchivedChanged": true, "session/changesetsChanged": true, "session/configChanged": true,
	"terminal/input": true, "terminal/resized": true, "terminal/claimed": true, "terminal/titleChanged": true,
	"terminal/cwdChanged": true, "terminal/cleared": true, "terminal/commandDetectionAvailable": true,
}

func roundTrip(t *testing.T, reducer string, raw []byte) any {
	if reducer == "session" {
		return plain(t, decode[Session](t, raw))
	}
	return plain(t, decode[Terminal](t, raw))
}

func runFixture(t *testing.T, f fixture) {
	switch f.Reducer {
	case "session":
		first := decode[Session](t, f.Initial)
		before, s := toJSON(t, first), first
		for _, a := range f.Actions {
			s = ReduceSession(s, action(t, a), fixtureClock)
		}
		compare(t, f.Expected, plain(t, s))
		if toJSON(t, first) != before {
			t.Error("the initial state changed")
		}
	case "terminal":
		s := decode[Terminal](t, f.Initial)
		for _, a := range f.Actions {
			s = ReduceTerminal(s, action(t, a))
		}
		compare(t, f.Expected, plain(t, s))
	}
}

func action(t *testing.T, raw []byte) Action {
	t.Helper()
	a, err := UnmarshalAction(raw)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func compare(t *testing.T, expected json.RawMessage, got any) {
	t.Helper()
	var want any
	if err := json.Unmarshal(expected, &want); err != nil {
		t.Fatal(err)
	}
	if want = withoutNulls(want); !reflect.DeepEqual(want, got) {
		t.Errorf("got  %s\nwant %s", toJSON(t, got), toJSON(t, want))
	}
}

func decode[T any](t *testing.T, b []byte) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func plain(t *testing.T, v any) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(toJSON(t, v)), &out); err != nil {
		t.Fatal(err)
	}
	return withoutNulls(out)
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
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

// TestOneTurn is a fixture of our own, so that the way of a turn is tested where
// the others are not at hand.
func TestOneTurn(t *testing.T) {
	f := fixture{
		Reducer: "session",
		Initial: json.RawMessage(`{"summary":{"resource":"ahp-session:/1","provider":"p","title":"","status":33,"createdAt":1,"modifiedAt":1},"lifecycle":"ready","turns":[]}`),
		Expected: json.RawMessage(`{"summary":{"resource":"ahp-session:/1","provider":"p","title":"","status":1,"createdAt":1,"modifiedAt":9999},"lifecycle":"ready",
			"turns":[{"id":"t","message":{"text":"go","origin":{"kind":"user"}},"state":"complete","responseParts":[
				{"kind":"markdown","id":"m","content":"ab"},
				{"kind":"toolCall","toolCall":{"toolCallId":"c","toolName":"sh","displayName":"Shell","status":"completed","invocationMessage":"Run","toolInput":"ls",
					"confirmed":"user-action","selectedOption":{"id":"y","label":"Yes","kind":"approve"},"success":true,"pastTenseMessage":"Ran"}},
				{"kind":"toolCall","toolCall":{"toolCallId":"d","toolName":"sh","displayName":"Shell","status":"cancelled","invocationMessage":"","reason":"skipped"}}]}]}`),
	}
	for _, a := range []string{
		`{"type":"session/turnStarted","turnId":"t","message":{"text":"go","origin":{"kind":"user"}}}`,
		`{"type":"session/responsePart","turnId":"t","part":{"kind":"markdown","id":"m","content":""}}`,
		`{"type":"session/delta","turnId":"t","partId":"m","content":"a"}`,
		`{"type":"session/delta","turnId":"other","partId":"m","content":"X"}`,
		`{"type":"session/delta","turnId":"t","partId":"m","content":"b"}`,
		`{"type":"session/toolCallStart","turnId":"t","toolCallId":"c","toolName":"sh","displayName":"Shell"}`,
		`{"type":"session/toolCallReady","turnId":"t","toolCallId":"c","invocationMessage":"Run","toolInput":"ls","options":[{"id":"y","label":"Yes","kind":"approve"}]}`,
		`{"type":"session/toolCallConfirmed","turnId":"t","toolCallId":"c","approved":true,"confirmed":"user-action","selectedOptionId":"y"}`,
		`{"type":"session/toolCallComplete","turnId":"t","toolCallId":"c","result":{"success":true,"pastTenseMessage":"Ran"}}`,
		`{"type":"session/toolCallStart","turnId":"t","toolCallId":"d","toolName":"sh","displayName":"Shell"}`,
		`{"type":"session/turnComplete","turnId":"t"}`,
	} {
		f.Actions = append(f.Actions, json.RawMessage(a))
	}
	runFixture(t, f)
}

// TestActionsRoundTrip encodes one filled action of every known type.
func TestActionsRoundTrip(t *testing.T) {
	for name, f := range actionTypes {
		a := f()
		if p, ok := a.(*SessionResponsePart); ok {
			p.TurnID, p.Part = "t", &NotificationPart{Content: StringOrMarkdown{Text: "x", Markdown: true}}
		}
		b, err := MarshalAction(a)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back, err := UnmarshalAction(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := MarshalAction(back)
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s: %s became %s (%v)", name, b, again, err)
		}
	}
}

func TestUnknownActionIsKept(t *testing.T) {
	const raw = `{"type":"session/notYetInvented","x":9007199254740993}`
	a, err := UnmarshalAction([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	b, err := MarshalAction(a)
	if err != nil || string(b) != raw {
		t.Errorf("got %s, %v", b, err)
	}
	s := &Session{Lifecycle: LifecycleReady}
	if ReduceSession(s, a, 1) != s {
		t.Error("an unknown action changed the state")
	}
}

// TestOldVersionsOfTextStay grows one text in two directions from one version.
func TestOldVersionsOfTextStay(t *testing.T) {
	base := NewText("ab")
	left := base.Append("L1").Append("L2")
	right := base.Append("R1")
	for got, want := range map[string]string{base.String(): "ab", left.String(): "abL1L2", right.String(): "abR1"} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
