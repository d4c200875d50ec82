package state

import (
	"iter"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// partsChunk is how many parts are copied at most when one of them changes.
const partsChunk = 64

// Parts are the response parts of a turn in progress. Nothing in it changes: to
// append or to replace returns a new list that shares all but one chunk with the
// old one, so that a delta does not cost the number of parts.
type Parts struct {
	chunks [][]ResponsePart // all but the last are full
}

// PartsOf returns a list.
func PartsOf(list ...ResponsePart) Parts {
	var p Parts
	for chunk := range slices.Chunk(list, partsChunk) {
		p.chunks = append(p.chunks, slices.Clone(chunk))
	}
	return p
}

// Len returns how many there are.
func (p Parts) Len() int {
	if len(p.chunks) == 0 {
		return 0
	}
	last := len(p.chunks) - 1
	return last*partsChunk + len(p.chunks[last])
}

// At returns a part by its index, counted from 0.
func (p Parts) At(i int) ResponsePart { return p.chunks[i/partsChunk][i%partsChunk] }

// Append returns the list with one more.
func (p Parts) Append(x ResponsePart) Parts {
	last := len(p.chunks) - 1
	if last < 0 || len(p.chunks[last]) == partsChunk {
		return Parts{appended(p.chunks, []ResponsePart{x})}
	}
	return Parts{replaced(p.chunks, last, appended(p.chunks[last], x))}
}

// Replace returns the list with another part at an index.
func (p Parts) Replace(i int, x ResponsePart) Parts {
	c := i / partsChunk
	return Parts{replaced(p.chunks, c, replaced(p.chunks[c], i%partsChunk, x))}
}

// Slice returns the parts as a slice of its own.
func (p Parts) Slice() []ResponsePart {
	return append(make([]ResponsePart, 0, p.Len()), slices.Concat(p.chunks...)...)
}

// All yields the parts with their indexes.
func (p Parts) All() iter.Seq2[int, ResponsePart] {
	return func(yield func(int, ResponsePart) bool) {
		for i := range p.Len() {
			if !yield(i, p.At(i)) {
				return
			}
		}
	}
}

// Backward yields the parts with their indexes, the newest first.
func (p Parts) Backward() iter.Seq2[int, ResponsePart] {
	return func(yield func(int, ResponsePart) bool) {
		for i := p.Len() - 1; i >= 0; i-- {
			if !yield(i, p.At(i)) {
				return
			}
		}
	}
}

// Changed yields the indexes at which the list is not what an older one was. What
// both share is not looked at.
func (p Parts) Changed(old Parts) iter.Seq[int] {
	return func(yield func(int) bool) {
		for c, chunk := range p.chunks {
			var was []ResponsePart
			if c < len(old.chunks) {
				was = old.chunks[c]
			}
			if len(was) == len(chunk) && &was[0] == &chunk[0] {
				continue
			}
			for i, x := range chunk {
				if (i >= len(was) || was[i] != x) && !yield(c*partsChunk+i) {
					return
				}
			}
		}
	}
}

func init() {
	variants[reflect.TypeFor[Parts]()] = func(jsontext.Value) (reflect.Type, error) { return reflect.TypeFor[[]ResponsePart](), nil }
}

// MarshalJSONTo writes an array.
func (p Parts) MarshalJSONTo(e *jsontext.Encoder) error { return json.MarshalEncode(e, p.Slice()) }

// UnmarshalJSONFrom reads an array.
func (p *Parts) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var list []ResponsePart
	err := json.UnmarshalDecode(d, &list)
	*p = PartsOf(list...)
	return err
}
