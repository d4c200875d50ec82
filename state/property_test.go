package state

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// exact reads JSON with the digits of its numbers.
func exact(t testing.TB, s string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

// TestRoundTrip decodes and encodes every state and action of every fixture:
// nothing may be lost, known or not.
func TestRoundTrip(t *testing.T) {
	for _, f := range allFixtures(t) {
		for _, raw := range []json.RawMessage{f.Initial, f.Expected} {
			s := channels[f.Reducer].empty()
			if err := Unmarshal(raw, s); err != nil {
				t.Fatalf("%s: %v", f.file, err)
			}
			if got, want := tree(t, text(t, s)), tree(t, string(raw)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s became %s", f.file, raw, text(t, s))
			}
		}
		for i, a := range f.actions(t) {
			b, err := MarshalAction(a)
			if err != nil {
				t.Fatalf("%s: %v", f.file, err)
			}
			if got, want := tree(t, string(b)), tree(t, string(f.Actions[i])); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s became %s", f.file, f.Actions[i], b)
			}
		}
	}
}

// TestUnknownSurvives adds a member to every object of every fixture's states
// and actions, the odd ones of JSON among them, and expects each of them back.
func TestUnknownSurvives(t *testing.T) {
	const odd = `{"n":9007199254740993,"f":1.50,"e":[],"o":{"a":null},"s":"\u2028"}`
	// An odd value in a map of a known type is a wrong one; so it is in a model's config.
	typedMaps := []string{"answers", "properties"}
	var widen func(v any)
	widen = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if m, ok := x.(map[string]any); ok && (slices.Contains(typedMaps, k) || k == "config" && v["id"] != nil) {
					for _, x := range m {
						widen(x)
					}
					continue
				}
				widen(x)
			}
			v["x-vendor"] = exact(t, odd)
		case []any:
			for _, x := range v {
				widen(x)
			}
		}
	}
	for _, f := range allFixtures(t) {
		v := tree(t, string(f.Expected))
		widen(v)
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s := channels[f.Reducer].empty()
		if err := Unmarshal(raw, s); err != nil {
			t.Fatalf("%s: %v", f.file, err)
		}
		if got := exact(t, text(t, s)); !reflect.DeepEqual(got, v) {
			t.Errorf("%s: %s became %s", f.file, raw, text(t, s))
		}
	}
}

// TestSameLogSameBytes reduces every fixture twice, once from its encoded form
// after every step, as after a restart.
func TestSameLogSameBytes(t *testing.T) {
	for _, f := range allFixtures(t) {
		c := channels[f.Reducer]
		live, restarted := f.initial(t), f.initial(t)
		for i := range f.Actions {
			live = c.reduce(live, f.actions(t)[i])
			restarted = c.reduce(restarted, f.actions(t)[i])
			again := c.empty()
			if err := Unmarshal([]byte(text(t, restarted)), again); err != nil {
				t.Fatalf("%s: %v", f.file, err)
			}
			restarted = again
			if a, b := text(t, live), text(t, restarted); a != b {
				t.Errorf("%s: %s, but after restarts %s", f.file, a, b)
			}
		}
	}
}

// someSession is a session in which every kind of action has something to do.
const someSession = `{"summary":{"resource":"s:/1","provider":"p","title":"T","status":24,"createdAt":1,"modifiedAt":2,"activity":"a"},
	"lifecycle":"ready","turns":[{"id":"t0","message":{"text":"m","origin":{"kind":"user"}},"responseParts":[],"state":"complete"}],
	"activeTurn":{"id":"t","message":{"text":"go","origin":{"kind":"user"}},"responseParts":[{"kind":"markdown","id":"m","content":"x"},
		{"kind":"toolCall","toolCall":{"toolCallId":"c","toolName":"n","displayName":"N","invocationMessage":"I","status":"pending-confirmation"}}]},
	"queuedMessages":[{"id":"q","message":{"text":"later","origin":{"kind":"user"}}}],"inputRequests":[{"id":"r"}],
	"activeClient":{"clientId":"c","tools":[]},"customizations":[{"type":"plugin","id":"z","uri":"u:","name":"Z","enabled":true}],
	"config":{"schema":{"type":"object","properties":{}},"values":{"k":1}},"_meta":{"a":1}}`

// TestHostile feeds what no honest host sends. An action is refused with an
// error, or does what its bytes say; it never panics and never does something
// that they do not say.
func TestHostile(t *testing.T) {
	deep := func(open, inside, close string) string {
		const depth = 10_000
		return strings.Repeat(open, depth) + inside + strings.Repeat(close, depth)
	}
	for name, c := range map[string]struct {
		action string
		want   string // in the state afterwards; "" if the action must be refused
	}{
		"not JSON":                 {`{"type":"session/titleChanged","title":`, ""},
		"not an object":            {`[]`, ""},
		"type of a wrong type":     {`{"type":5}`, ""},
		"title is a number":        {`{"type":"session/titleChanged","title":5}`, ""},
		"title is null":            {`{"type":"session/titleChanged","title":null}`, ""},
		"title is missing":         {`{"type":"session/titleChanged"}`, ""},
		"title in another case":    {`{"type":"session/titleChanged","Title":"X"}`, ""},
		"title twice":              {`{"type":"session/titleChanged","title":"A","title":"B"}`, ""},
		"type twice":               {`{"type":"session/ready","type":"session/truncated"}`, ""},
		"unknown member twice":     {`{"type":"session/ready","x":1,"x":2}`, ""},
		"message is null":          {`{"type":"session/turnStarted","turnId":"n","message":null}`, ""},
		"message without text":     {`{"type":"session/turnStarted","turnId":"n","message":{"origin":{"kind":"user"}}}`, ""},
		"part is null":             {`{"type":"session/responsePart","turnId":"t","part":null}`, ""},
		"part is a string":         {`{"type":"session/responsePart","turnId":"t","part":"x"}`, ""},
		"part without its text":    {`{"type":"session/responsePart","turnId":"t","part":{"kind":"markdown","id":"n"}}`, ""},
		"tool call is null":        {`{"type":"session/responsePart","turnId":"t","part":{"kind":"toolCall","toolCall":null}}`, ""},
		"kind of a wrong type":     {`{"type":"session/responsePart","turnId":"t","part":{"kind":7}}`, ""},
		"result is null":           {`{"type":"session/toolCallComplete","turnId":"t","toolCallId":"c","result":null}`, ""},
		"error is null":            {`{"type":"session/error","turnId":"t","error":null}`, ""},
		"meta is null":             {`{"type":"session/metaChanged","_meta":null}`, ""},
		"config is null":           {`{"type":"session/configChanged","config":null,"replace":true}`, ""},
		"customizations are null":  {`{"type":"session/customizationsChanged","customizations":[null]}`, ""},
		"truncated by null":        {`{"type":"session/truncated","turnId":null}`, ""},
		"truncated by a list":      {`{"type":"session/truncated","turnId":[]}`, ""},
		"approved by a string":     {`{"type":"session/toolCallConfirmed","turnId":"t","toolCallId":"c","approved":"true","confirmed":"user-action"}`, ""},
		"approved is missing":      {`{"type":"session/toolCallConfirmed","turnId":"t","toolCallId":"c","confirmed":"user-action"}`, ""},
		"ids as numbers":           {`{"type":"session/delta","turnId":1,"partId":2,"content":"x"}`, ""},
		"a count with a fraction":  {`{"type":"session/usage","turnId":"t","usage":{"inputTokens":1.5}}`, ""},
		"an approval without why":  {`{"type":"session/toolCallConfirmed","turnId":"t","toolCallId":"c","approved":true}`, ""},
		"a client that is missing": {`{"type":"session/activeClientChanged"}`, ""},
		"no type":                  {`{"title":"T"}`, ""},
		"unknown, cut short":       {`{"type":"x/later",`, ""},
		"unknown, and more":        {`{"type":"x/later"} {}`, ""},
		"unknown, a key twice":     {`{"type":"x/later","a":1,"a":2}`, ""},
		"unknown, too deep":        {`{"type":"x/later","x":` + deep("[", "", "]") + `}`, ""},
		"a result that says more than a result may": {`{"type":"session/toolCallComplete","turnId":"t","toolCallId":"c","result":{"success":true,
			"pastTenseMessage":"P","status":"cancelled","toolInput":"evil","toolName":"evil","x":1}}`, `"status":"completed"`},
		"too deep": {`{"type":"session/ready","x":` + deep("[", "", "]") + `}`, ""},
		"a schema too deep": {`{"type":"session/activeClientToolsChanged","tools":[{"name":"n","inputSchema":` +
			deep(`{"p":`, "1", "}") + `}]}`, ""},
		"null for an optional member": {`{"type":"session/toolCallReady","turnId":"t","toolCallId":"none","invocationMessage":"I","toolInput":null}`, `"title":"T"`},
		"unknown type":                {`{"type":"session/inventedLater","title":null,"kind":5}`, `"title":"T"`},
		"a large number":              {`{"type":"session/usage","turnId":"t","usage":{"inputTokens":9007199254740993}}`, `"inputTokens":9007199254740993`},
		"a large number, unknown":     {`{"type":"session/usage","turnId":"t","usage":{"x":9007199254740993}}`, `"x":9007199254740993`},
		"half a surrogate pair":       {`{"type":"session/titleChanged","title":"a\ud83d"}`, `"title":"a` + "\ufffd" + `"`},
		"bytes that are not UTF-8":    {"{\"type\":\"session/titleChanged\",\"title\":\"a\xff\"}", `"title":"a` + "\ufffd" + `"`},
		"an empty title":              {`{"type":"session/titleChanged","title":""}`, `"title":""`},
		"a part of unknown kind":      {`{"type":"session/responsePart","turnId":"t","part":{"kind":"hologram","x":null}}`, `{"kind":"hologram","x":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(Session)
			if err := Unmarshal([]byte(someSession), s); err != nil {
				t.Fatal(err)
			}
			before := text(t, s)
			a, err := UnmarshalAction([]byte(c.action))
			switch {
			case c.want == "" && err == nil:
				t.Errorf("taken, and the state is %s", text(t, ReduceSession(s, a, 3)))
			case c.want == "":
			case err != nil:
				t.Errorf("refused: %v", err)
			default:
				if after := text(t, ReduceSession(s, a, 3)); !strings.Contains(after, c.want) {
					t.Errorf("want %s in %s", c.want, after)
				}
			}
			if text(t, s) != before {
				t.Error("the state changed under its reader")
			}
		})
	}
}

// TestHostileState reads states that no honest host sends.
func TestHostileState(t *testing.T) {
	for name, raw := range map[string]string{
		"null":                `null`,
		"no summary":          `{"lifecycle":"ready","turns":[]}`,
		"summary is null":     `{"summary":null,"lifecycle":"ready","turns":[]}`,
		"a turn is null":      strings.Replace(someSession, `"turns":[`, `"turns":[null,`, 1),
		"a part is null":      strings.Replace(someSession, `"responseParts":[{`, `"responseParts":[null,{`, 1),
		"a request is null":   strings.Replace(someSession, `"inputRequests":[`, `"inputRequests":[null,`, 1),
		"a status of 33 bits": strings.Replace(someSession, `"status":24`, `"status":-4294967296`, 1),
		"a time with a point": strings.Replace(someSession, `"createdAt":1`, `"createdAt":1.5`, 1),
	} {
		s := new(Session)
		if err := Unmarshal([]byte(raw), s); err == nil {
			t.Errorf("%s: taken as %s", name, text(t, s))
		}
	}
}

// FuzzReduce decodes whatever comes and reduces it. Nothing may panic, nothing
// that was there before may change, and what comes out must survive being
// written and read.
func FuzzReduce(f *testing.F) {
	for _, x := range allFixtures(f) {
		for _, a := range x.Actions {
			f.Add([]byte(x.Initial), []byte(a), x.Reducer)
		}
	}
	f.Fuzz(func(t *testing.T, initial, raw []byte, reducer string) {
		c, ok := channels[reducer]
		if !ok {
			return
		}
		s := c.empty()
		if Unmarshal(initial, s) != nil {
			return
		}
		a, err := UnmarshalAction(raw)
		if err != nil {
			return
		}
		before := text(t, s)
		after := text(t, c.reduce(s, a))
		if text(t, s) != before {
			t.Errorf("%s changed the state it was given", raw)
		}
		again := c.empty()
		if err := Unmarshal([]byte(after), again); err != nil {
			t.Errorf("%s cannot be read again: %v", after, err)
		} else if text(t, again) != after {
			t.Errorf("%s became %s", after, text(t, again))
		}
	})
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

// TestReadersAndOneWriter reads old versions while new ones are made; the race
// detector looks on.
func TestReadersAndOneWriter(t *testing.T) {
	s := new(Session)
	if err := Unmarshal([]byte(someSession), s); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	versions := make(chan *Session, 16)
	go func() {
		defer close(done)
		for v := range versions {
			want := text(t, v)
			if got := text(t, v); got != want {
				t.Errorf("%s became %s", want, got)
			}
		}
	}()
	for i := range 2000 {
		s = ReduceSession(s, &SessionDelta{TurnID: "t", PartID: "m", Content: fmt.Sprint(i, " ")}, 3)
		if i%7 == 0 {
			versions <- s
		}
	}
	close(versions)
	<-done
}

// TestBit31 reads a status as JavaScript writes it.
func TestBit31(t *testing.T) {
	s := new(Session)
	if err := Unmarshal([]byte(strings.Replace(someSession, `"status":24`, `"status":-2147483640`, 1)), s); err != nil || s.Summary.Status != 1<<31|8 {
		t.Errorf("%v, %b", err, s.Summary.Status)
	}
}

// TestDepthIsCheap: what is refused for its depth must not cost the square of it.
func TestDepthIsCheap(t *testing.T) {
	const depth = 9000
	raw := `{"type":"root/agentsChanged","agents":[{"provider":"p","displayName":"d","description":"","models":[{"id":"m","provider":"p","name":"n","configSchema":{"type":"object","properties":{"x":` +
		strings.Repeat(`{"type":"array","title":"t","items":`, depth) + `{"type":null}` + strings.Repeat(`}`, depth) + `}}}]}]}`
	_, err := UnmarshalAction([]byte(raw))
	if err == nil || len(err.Error()) > 100_000 {
		t.Errorf("%d bytes of error", len(fmt.Sprint(err)))
	}
	if n := testing.AllocsPerRun(1, func() { _, _ = UnmarshalAction([]byte(raw)) }); n > 40*depth {
		t.Errorf("%v allocations", n)
	}
}
