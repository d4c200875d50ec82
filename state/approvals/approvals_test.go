package approvals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"nod/state"
)

func request() state.Request {
	return state.Request{
		Session: "ahp-session:/1", TurnID: "t", ToolCallID: "c", Provider: "codex", Epoch: "e",
		UpstreamID: json.RawMessage("7"), Method: "m", Params: json.RawMessage(`{"command":"ls"}`),
		Input: "ls", Diff: "d", Cwd: "/w", Editable: true,
		Options: []state.ConfirmationOption{{ID: "y", Kind: state.OptionApprove}, {ID: "n", Kind: state.OptionDeny}},
	}
}

// bound are the fields of a request that its digest covers; the others only
// describe it.
var bound = map[string]bool{
	"Session": true, "TurnID": true, "ToolCallID": true, "Provider": true, "Epoch": true, "UpstreamID": true,
	"Method": true, "Params": true, "Input": true, "Diff": true, "Details": true, "Cwd": true, "Environment": true,
	"Caution": false, "Folder": false, "Kind": false, "Title": false, "Reason": false, "Options": false, "Explains": false, "Editable": false, "Questions": false,
}

// TestR4DigestBindsEveryField changes each field in turn, and fails on a field
// that nobody classified.
// TestR20TooLongToApprove: a request that is longer than a page shows can only be denied, and
// says so.
func TestR20TooLongToApprove(t *testing.T) {
	options := []state.ConfirmationOption{{ID: "y", Kind: state.OptionApprove}, {ID: "n", Kind: state.OptionDeny}}
	for size, most := range map[int]int{MaxRequest: 2, MaxRequest + 1: 1} {
		a := New(state.Request{Kind: state.RequestTool, Params: []byte(`"` + strings.Repeat("x", size-2) + `"`), Options: options}, 1)
		if len(a.Request.Options) != most || (a.Request.Caution != "") != (most == 1) || len(a.Request.Params) != size {
			t.Errorf("%d bytes: %+v, %s", size, a.Request.Options, a.Request.Caution)
		}
	}
}

func TestR4DigestBindsEveryField(t *testing.T) {
	base := Digest(request())
	for i := range reflect.TypeFor[state.Request]().NumField() {
		name := reflect.TypeFor[state.Request]().Field(i).Name
		covered, known := bound[name]
		if !known {
			t.Errorf("field %s of Request: does the digest bind it?", name)
			continue
		}
		if !covered {
			continue
		}
		r := request()
		f := reflect.ValueOf(&r).Elem().Field(i)
		switch {
		case f.Kind() == reflect.String:
			f.SetString(f.String() + "x")
		case name == "Details":
			r.Details = []state.Detail{{Text: "x"}}
		default:
			f.SetBytes(append(append([]byte{}, f.Bytes()...), 'x'))
		}
		if Digest(r) == base {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

// TestR4EveryByte: a byte that changes, comes, goes or moves to the next field, in
// whatever a decision is bound to, makes another request of it, which a decision on
// the first does not answer.
func TestR4EveryByte(t *testing.T) {
	full := func() state.Request {
		r := request()
		r.Environment, r.Details = "container", []state.Detail{{Label: "Host", Text: "x.test", Option: "y"}}
		return r
	}
	a := New(full(), 1)
	// texts are all texts of a request that are bound, as bytes that can be set.
	texts := func(r *state.Request) (out []func(func([]byte) []byte)) {
		str := func(s *string) {
			out = append(out, func(change func([]byte) []byte) { *s = string(change([]byte(*s))) })
		}
		for i := range reflect.TypeFor[state.Request]().NumField() {
			name := reflect.TypeFor[state.Request]().Field(i).Name
			if !bound[name] {
				continue
			}
			switch f := reflect.ValueOf(r).Elem().Field(i); {
			case f.Kind() == reflect.String:
				str(f.Addr().Interface().(*string))
			case name == "Details":
				str(&r.Details[0].Label)
				str(&r.Details[0].Text)
				str(&r.Details[0].Option)
			default:
				out = append(out, func(change func([]byte) []byte) { f.SetBytes(change(slices.Clone(f.Bytes()))) })
			}
		}
		return out
	}
	tried := 0
	other := func(what string, r state.Request) {
		t.Helper()
		tried++
		if Digest(r) == a.Digest {
			t.Errorf("%s: the same digest", what)
		}
		swapped := *a
		swapped.Request = r
		if _, err := Decide(&swapped, "me", a.Digest, a.Nonce, state.Decision{OptionID: "y"}, 2); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	same := full()
	for field := range texts(&same) {
		length := 0
		texts(&same)[field](func(b []byte) []byte { length = len(b); return b })
		if length == 0 {
			t.Fatalf("text %d is empty", field)
		}
		for at := range length {
			for bit := range 8 {
				r := full()
				texts(&r)[field](func(b []byte) []byte { b[at] ^= 1 << bit; return b })
				other(fmt.Sprintf("text %d, byte %d, bit %d", field, at, bit), r)
			}
			r := full()
			texts(&r)[field](func(b []byte) []byte { return slices.Delete(b, at, at+1) })
			other(fmt.Sprintf("text %d without byte %d", field, at), r)
			r = full()
			texts(&r)[field](func(b []byte) []byte { return slices.Insert(b, at, 0) })
			other(fmt.Sprintf("text %d with a byte before byte %d", field, at), r)
		}
		for next := range texts(&same) {
			if next == field {
				continue
			}
			r := full()
			var last byte
			texts(&r)[field](func(b []byte) []byte { last = b[len(b)-1]; return b[:len(b)-1] })
			texts(&r)[next](func(b []byte) []byte { return append([]byte{last}, b...) })
			other(fmt.Sprintf("the last byte of text %d before text %d", field, next), r)
		}
	}
	if tried < 500 {
		t.Errorf("only %d changes", tried)
	}
}

// FuzzR4TwoReaders: what nod lets be approved, a lax reader and a strict one take for
// the same.
func FuzzR4TwoReaders(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `{"n":9007199254740993}`, "{\"a\":\"\xff\"}", `{"command":["ls","-l"],"Command":1}`, `{"a":"\ud800"}`, `{"a":1}{}`, `[1e400]`, `{"a":-0,"b":1.0}`, `{"\u0061":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(bytes.TrimSpace(raw)) == 0 || Faithful(raw) != nil {
			return
		}
		var lax, strict any
		errLax, errStrict := json.Unmarshal(raw, &lax), state.Unmarshal(raw, &strict)
		if (errLax == nil) != (errStrict == nil) || !reflect.DeepEqual(lax, strict) {
			t.Fatalf("%q is %v, %v to one and %v, %v to another", raw, lax, errLax, strict, errStrict)
		}
	})
}

func TestDecide(t *testing.T) {
	a := New(request(), 1)
	yes := state.Decision{OptionID: "y"}
	for name, c := range map[string]struct {
		digest, nonce string
		d             state.Decision
		want          error
	}{
		"right":            {a.Digest, a.Nonce, yes, nil},
		"other digest":     {strings.Repeat("0", 64), a.Nonce, yes, ErrChanged},
		"no digest":        {"", a.Nonce, yes, ErrChanged},
		"other nonce":      {a.Digest, "x", yes, ErrChanged},
		"unknown option":   {a.Digest, a.Nonce, state.Decision{OptionID: "always"}, ErrOption},
		"edit":             {a.Digest, a.Nonce, state.Decision{OptionID: "y", EditedInput: "ls -l"}, nil},
		"digest of record": {a.Digest, a.Nonce, state.Decision{}, ErrOption},
	} {
		if _, err := Decide(a, "me", c.digest, c.nonce, c.d, 2); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// A record whose request was changed behind the digest's back is refused.
	forged := *a
	forged.Request.Input = "rm -rf /"
	if _, err := Decide(&forged, "me", a.Digest, a.Nonce, yes, 2); !errors.Is(err, ErrChanged) {
		t.Errorf("forged record: %v", err)
	}
}

func TestDecideTwice(t *testing.T) {
	a := New(request(), 1)
	d, err := Decide(a, "me", a.Digest, a.Nonce, state.Decision{OptionID: "y"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Decide(d, "me", a.Digest, a.Nonce, state.Decision{OptionID: "y"}, 3); err != nil || again != d {
		t.Errorf("the same again: %v", err)
	}
	if _, err := Decide(d, "me", a.Digest, a.Nonce, state.Decision{OptionID: "n"}, 3); !errors.Is(err, ErrNotPending) {
		t.Errorf("the opposite: %v", err)
	}
	if _, err := Decide(d, "you", a.Digest, a.Nonce, state.Decision{OptionID: "y"}, 3); !errors.Is(err, ErrNotPending) {
		t.Errorf("the same by another: %v", err)
	}
}

func TestLife(t *testing.T) {
	pending := New(request(), 1)
	decided, _ := Decide(pending, "me", pending.Digest, pending.Nonce, state.Decision{OptionID: "y"}, 2)
	sent := MarkSent(decided)
	confirmed := Resolve(sent, state.EndedAnswered, 3)
	for name, c := range map[string]struct{ got, want State }{
		"asked":                       {pending.State, Pending},
		"decided":                     {decided.State, Decided},
		"sent":                        {sent.State, Sent},
		"confirmed":                   {confirmed.State, Confirmed},
		"resolved while pending":      {Resolve(pending, state.EndedAnswered, 3).State, AnsweredElsewhere},
		"resolved before it was sent": {Resolve(decided, state.EndedAnswered, 3).State, AnsweredElsewhere},
		"sent, another's was taken":   {Resolve(sent, state.EndedElsewhere, 3).State, AnsweredElsewhere},
		"elsewhere while pending":     {Resolve(pending, state.EndedElsewhere, 3).State, AnsweredElsewhere},
		"withdrawn while pending":     {Resolve(pending, state.EndedWithdrawn, 3).State, Expired},
		"withdrawn after sending":     {Resolve(sent, state.EndedWithdrawn, 3).State, DeliveryUnknown},
		"confirmed stays":             {Resolve(confirmed, state.EndedElsewhere, 4).State, Confirmed},
		"swept while pending":         {Sweep(pending, 3).State, Expired},
		"swept after the decision":    {Sweep(decided, 3).State, DeliveryUnknown},
		"swept after sending":         {Sweep(sent, 3).State, DeliveryUnknown},
		"an end stays when resolved":  {Resolve(Sweep(pending, 3), state.EndedAnswered, 4).State, Expired},
		"an end stays when swept":     {Sweep(confirmed, 4).State, Confirmed},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

// TestR4Faithful lists what two readers of a request could take for different things.
func TestR4Faithful(t *testing.T) {
	for raw, ok := range map[string]bool{
		``: true, `{"a":1}`: true, `{"a":{"b":[1,2,{"c":null}]},"d":"é"}`: true, `{"n":9007199254740991}`: true, `{"n":1.5e300}`: true,
		`{"a":1,"a":2}`: false, `{"command":"rm","Command":"ls"}`: false, "{\"k\":1,\"\u212a\":2}": false, `{"x":{"a":1,"a":1}}`: false, "{\"a\":\"\xff\"}": false, `{"n":9007199254740992}`: false,
		`{"n":-9007199254740993}`: false, `{"a":1} {"b":2}`: false, `{"a":`: false,
		strings.Repeat("[", 70) + strings.Repeat("]", 70): false,
	} {
		if err := Faithful(json.RawMessage(raw)); (err == nil) != ok {
			t.Errorf("%.60s: %v", raw, err)
		}
	}
}

// TestR4AmbiguousRequestCanOnlyBeDenied keeps what is shown and what happens one.
func TestR4AmbiguousRequestCanOnlyBeDenied(t *testing.T) {
	r := request()
	r.Params = json.RawMessage(`{"command":"ls","command":"rm"}`)
	a := New(r, 1)
	if a.Request.Caution == "" {
		t.Error("no caution")
	}
	if _, err := Decide(a, "me", a.Digest, a.Nonce, state.Decision{OptionID: "y"}, 2); !errors.Is(err, ErrOption) {
		t.Errorf("approve: %v", err)
	}
	if _, err := Decide(a, "me", a.Digest, a.Nonce, state.Decision{OptionID: "n"}, 2); err != nil {
		t.Errorf("deny: %v", err)
	}
}

// TestC09NoDetails: what tells nothing of itself can only be denied.
func TestC09NoDetails(t *testing.T) {
	for _, kind := range []state.RequestKind{state.RequestCommand, state.RequestFileChange} {
		r := request()
		r.Kind, r.Input, r.Diff = kind, "", ""
		a := New(r, 1)
		if !strings.Contains(a.Request.Caution, "No details given") || len(a.Request.Options) != 1 || a.Request.Options[0].Kind != state.OptionDeny {
			t.Errorf("%s: %+v", kind, a.Request)
		}
		r.Details = []state.Detail{{Label: "Host", Text: "x.test"}}
		if a := New(r, 1); a.Request.Caution != "" || len(a.Request.Options) != 2 {
			t.Errorf("%s with details: %+v", kind, a.Request)
		}
	}
}

// TestReasonAndAnswers: a decision carries only what its request takes.
func TestReasonAndAnswers(t *testing.T) {
	r := request()
	r.Explains = "n"
	r.Questions = &state.InputRequest{Questions: []state.Question{{ID: "q", Kind: "integer", Required: new(true)}, {ID: "s", Kind: "text", Format: new(state.FormatSecret)}}}
	a := New(r, 1)
	good := map[string]state.Answer{"q": {Text: "7"}, "s": {Secret: []string{"hunter2"}}}
	for name, c := range map[string]struct {
		d    state.Decision
		want error
	}{
		"denied, and why":              {state.Decision{OptionID: "n", Reason: "no"}, nil},
		"denied without answers":       {state.Decision{OptionID: "n"}, nil},
		"approved, and why":            {state.Decision{OptionID: "y", Reason: "no", Answers: good}, ErrReason},
		"too much of a reason":         {state.Decision{OptionID: "n", Reason: strings.Repeat("é", state.MaxReason+1)}, ErrReason},
		"a reason that is no text":     {state.Decision{OptionID: "n", Reason: "\xff"}, ErrReason},
		"answered":                     {state.Decision{OptionID: "y", Answers: good}, nil},
		"approved without its answers": {state.Decision{OptionID: "y"}, ErrAnswers},
		"another answer":               {state.Decision{OptionID: "y", Answers: map[string]state.Answer{"q": {Text: "x"}}}, ErrAnswers},
	} {
		if _, err := Decide(a, "me", a.Digest, a.Nonce, c.d, 2); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	denied, _ := Decide(a, "me", a.Digest, a.Nonce, state.Decision{OptionID: "n", Reason: "no"}, 2)
	if _, err := Decide(denied, "me", a.Digest, a.Nonce, state.Decision{OptionID: "n", Reason: "another"}, 3); !errors.Is(err, ErrNotPending) {
		t.Errorf("another reason afterwards: %v", err)
	}
	decided, _ := Decide(a, "me", a.Digest, a.Nonce, state.Decision{OptionID: "y", Answers: good}, 2)
	if decided.Decision.Answers["s"].Secret == nil {
		t.Error("the secret is gone before it is sent")
	}
	for name, next := range map[string]*Approval{"sent": MarkSent(decided), "swept": Sweep(decided, 3), "resolved": Resolve(decided, state.EndedAnswered, 3)} {
		if next.Decision.Answers["s"].Secret != nil || next.Decision.Answers["q"].Text != "7" || decided.Decision.Answers["s"].Secret == nil {
			t.Errorf("%s: %+v", name, next.Decision)
		}
	}
}
