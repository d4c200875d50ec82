package approvals

import (
	"encoding/json"
	"testing"

	"nod/state"
)

// TestR12AnotherNetwork: a proof holds though the phone has changed its network, and
// for no other answer.
func TestR12AnotherNetwork(t *testing.T) {
	a := New(state.Request{Params: []byte(`{}`)}, 1)
	d := state.Decision{OptionID: "accept", Address: "192.0.2.1"}
	other := d
	other.Address = "198.51.100.7"
	if Challenge(a, d) != Challenge(a, other) {
		t.Error("another address is another challenge")
	}
	if other.OptionID = "always"; Challenge(a, d) == Challenge(a, other) {
		t.Error("another answer is the same challenge")
	}
}

// TestR13HalfACharacter: some readers put another character there, so what is shown
// would not be what takes effect.
func TestR13HalfACharacter(t *testing.T) {
	for raw, faithful := range map[string]bool{
		`{"a":"\ud800"}`: false, `{"a":"\udc00\ud800"}`: false, `{"a":"\ud83dx"}`: false, `{"\uDFFF":1}`: false, `{"a":"\ud83d\ud83d\ude00"}`: false, `{"a":"\ud83d\\ude00"}`: false,
		`{"a":"\ud83d\ude00"}`: true, `{"a":"\\ud800"}`: true, `{"a":"\u0041\n"}`: true,
	} {
		if err := Faithful(json.RawMessage(raw)); (err == nil) != faithful {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
