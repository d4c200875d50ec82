package state

import (
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Text is growing text. Appending to the newest version writes behind it in the
// same memory, so that a delta costs its own bytes and not the message's; an
// older version keeps its length and never sees what was written after it.
//
// One goroutine appends to a lineage of Texts; any number may read any version.
type Text struct {
	p      []byte
	newest *int // length of the newest version that shares p's memory; touched by appenders only
}

// NewText returns a Text holding s.
func NewText(s string) Text { return Text{}.Append(s) }

// Append returns t followed by s. t itself does not change.
func (t Text) Append(s string) Text {
	switch n := len(t.p) + len(s); {
	case t.newest == nil || *t.newest != len(t.p): // somebody else writes behind t
		t.p = append(make([]byte, 0, n), t.p...)
		t.newest = new(int)
	case n > cap(t.p): // doubled, which append does for short texts alone: each byte is copied once on average
		t.p = append(make([]byte, 0, 2*n), t.p...)
	}
	t.p = append(t.p, s...)
	*t.newest = len(t.p)
	return t
}

// Len returns the length in bytes.
func (t Text) Len() int { return len(t.p) }

// String returns the text without copying it: bytes that a version holds are
// never written again.
func (t Text) String() string { return unsafe.String(unsafe.SliceData(t.p), len(t.p)) }

// IsZero reports whether there is no text at all, not even an empty one.
func (t Text) IsZero() bool { return t.newest == nil }

// MarshalJSONTo writes a JSON string.
func (t Text) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(t.String()))
}

// UnmarshalJSONFrom reads a JSON string.
func (t *Text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var s string
	err := json.UnmarshalDecode(d, &s)
	*t = NewText(s)
	return err
}
