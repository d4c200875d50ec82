package copilot

import (
	"encoding/json"
	"testing"
)

// TestR4TwoWords: a request that names one thing in one place and another in another
// is noticed; where only one place names it, that holds.
func TestR4TwoWords(t *testing.T) {
	for _, c := range [][3]string{
		{`{"fullCommandText":"rm -rf /"}`, `{"fullCommandText":"ls"}`, "fullCommandText"},
		{`{"fullCommandText":"ls"}`, `{"fullCommandText":"ls"}`, ""},
		{`{"fileName":"/a"}`, `{"fileName":"/b"}`, "fileName"},
		{`{"url":"https://a.example"}`, `{"url":"https://b.example"}`, "url"},
		{`{"path":"/a"}`, `{"kind":"path"}`, ""},
		{`{"path":"/a"}`, ``, ""},
	} {
		d := permissionData{Request: json.RawMessage(c[0]), Prompt: json.RawMessage(c[1])}
		if got := d.disagrees(); got != c[2] {
			t.Errorf("%s and %s: %q", c[0], c[1], got)
		}
	}
}
