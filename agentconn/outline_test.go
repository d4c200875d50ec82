package agentconn

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"nod/state"
)

// TestR20Outline: who says what stays, and what is long or nests deep does not. What comes
// in single bytes comes to the same.
func TestR20Outline(t *testing.T) {
	long, longer := strings.Repeat("a", 510), strings.Repeat(`\"`, 1000)
	for in, want := range map[string]string{
		``: ``,
		"{ \"id\" : 7,\r\n\t\"method\" : \"a b\" }":                       `{"id":7,"method":"a b"}`,
		`{"p":{"x":"` + long + `","id":"1"}}`:                             `{"p":{"x":"` + long + `","id":"1"}}`,
		`{"p":{"x":"` + long + `a","id":"1"}}`:                            `{"p":{"x":"","id":"1"}}`,
		`{"p":{"x":"` + longer + `","id":"\\"}}`:                          `{"p":{"x":"","id":"\\"}}`,
		`{"` + longer + `":1,"id":"1"}`:                                   `{"":1,"id":"1"}`,
		`{"p":{"deep":{"id":"}\"","x":[{}]},"l":[1,{}],"id":"1"},"id":2}`: `{"p":{"deep":null,"l":null,"id":"1"},"id":2}`,
		`{"x":{"y":{"z":"` + longer + `"}},"id":1}`:                       `{"x":{"y":null},"id":1}`,
		`{"x":[` + strings.Repeat("1,", maxOutline) + `1],"id":1}`:        `{"x":null,"id":1}`,
		`{"x":{` + strings.Repeat(`"":1,`, maxOutline) + `"":1},"id":1}`:  ``,
		`{"l":[[{"a":[1]},"]"],{}],"p":{"l":[]},"id":1}`:                  `{"l":null,"p":{"l":null},"id":1}`,
		`{"x":` + strings.Repeat("1", maxOutline) + `,"id":1}`:            ``,
	} {
		for name, r := range map[string]io.Reader{"as it is": strings.NewReader(in), "in bytes": iotest.OneByteReader(strings.NewReader(in))} {
			o := &Outline{Depth: 2}
			if n, err := io.Copy(o, r); int(n) != len(in) || err != nil {
				t.Fatal(n, err)
			}
			if got := string(o.Bytes()); got != want {
				t.Errorf("%.60s, %s: %.80s", in, name, got)
			}
		}
	}
}

// TestR20OutlineIsBound: two requests with one outline are not the same, and neither can be
// approved.
func TestR20OutlineIsBound(t *testing.T) {
	seen := map[string]bool{}
	for i := range 2 {
		o := &Outline{Depth: 2}
		_, _ = fmt.Fprintf(o, `{"id":1,"params":{"command":"%s%d"}}`, strings.Repeat("x", 1000), i)
		r := o.Refusable(state.Request{Params: o.Bytes()}, nil)
		seen[r.Details[0].Text] = true
		if !json.Valid(r.Params) || r.Kind != state.RequestTooLong || r.Caution == "" {
			t.Errorf("%+v", r)
		}
	}
	if len(seen) != 2 {
		t.Errorf("%v", seen)
	}
}

// FuzzR20Outline: the outline of JSON is JSON, or nothing; it is no longer than its bound,
// and does not depend on the pieces that came.
func FuzzR20Outline(f *testing.F) {
	f.Add([]byte(`{"id":1,"p":{"a":"\u00e9\\","b":[{"c":"`+strings.Repeat("x", 600)+`"}]}}`), 7)
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		at = max(0, min(at, len(in)))
		whole, pieces := &Outline{Depth: 2}, &Outline{Depth: 2}
		_, _ = whole.Write(in)
		_, _ = pieces.Write(in[:at])
		_, _ = pieces.Write(in[at:])
		if string(whole.Bytes()) != string(pieces.Bytes()) || len(whole.Bytes()) > maxOutline {
			t.Errorf("%q, or %q", whole.Bytes(), pieces.Bytes())
		}
		if json.Valid(in) && whole.Bytes() != nil && !json.Valid(whole.Bytes()) {
			t.Errorf("%q becomes %q", in, whole.Bytes())
		}
	})
}
