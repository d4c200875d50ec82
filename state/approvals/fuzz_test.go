package approvals

import (
	"reflect"
	"testing"

	"nod/state"
)

// FuzzR4Digest: any other byte, anywhere in what an answer is bound to, makes another
// digest, and so do the same bytes in other fields.
func FuzzR4Digest(f *testing.F) {
	for field := range boundTo(&state.Request{}) {
		f.Add("left", "right", uint(field), uint(field), byte(1))
	}
	f.Fuzz(func(t *testing.T, a, b string, field, at uint, change byte) {
		r := request()
		r.Details = []state.Detail{{Label: "l", Text: "t", Option: "o"}}
		fields := boundTo(&r)
		field %= uint(len(fields))
		next := (field + 1) % uint(len(fields))
		set(fields[field], a+b)
		set(fields[next], "")
		whole := Digest(r)
		set(fields[field], a)
		set(fields[next], b)
		split := Digest(r)
		if b != "" && whole == split {
			t.Errorf("%q and %q have the digest of %q", a, b, a+b)
		}
		if a == "" || change == 0 {
			return
		}
		other := []byte(a)
		other[at%uint(len(other))] ^= change
		set(fields[field], string(other))
		if Digest(r) == split {
			t.Errorf("%q has the digest of %q", other, a)
		}
	})
}

// boundTo are the fields of a request that an answer is bound to.
func boundTo(r *state.Request) (out []reflect.Value) {
	v := reflect.ValueOf(r).Elem()
	for _, name := range []string{"Provider", "Epoch", "Session", "TurnID", "ToolCallID", "UpstreamID", "Method", "Params", "Input", "Diff", "Cwd", "Environment"} {
		out = append(out, v.FieldByName(name))
	}
	for i := range r.Details {
		d := reflect.ValueOf(&r.Details[i]).Elem()
		out = append(out, d.FieldByName("Label"), d.FieldByName("Text"), d.FieldByName("Option"))
	}
	return out
}

func set(v reflect.Value, s string) {
	if v.Kind() == reflect.String {
		v.SetString(s)
	} else {
		v.SetBytes([]byte(s))
	}
}
