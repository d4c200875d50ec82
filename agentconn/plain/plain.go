// Package plain makes what agents say fit to be shown: cut, joined, and in words.
package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxInput bounds, in bytes, what a call that nod has no form for is given and
	// what it returns: nobody reads more.
	MaxInput = 64 << 10
	// MaxNote bounds a sentence of an agent, in characters.
	MaxNote = 2000
	// MaxDepth bounds how deep what an agent says may nest.
	MaxDepth = 64
)

// Shorten cuts s to at most n characters and marks the cut.
func Shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Cut cuts s to about n bytes and says how many are missing.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("\n… %d bytes more", len(s)-n)
}

// Joined puts what is not empty together.
func Joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// Words makes words of one of a protocol's: timedOut, rate_limit_reached.
func Words(word string) string {
	var b strings.Builder
	for i, r := range Shorten(word, 80) {
		switch {
		case r == '_':
			b.WriteByte(' ')
		case r >= 'A' && r <= 'Z' && i > 0:
			b.WriteByte(' ')
			b.WriteRune(r - 'A' + 'a')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Indented is JSON for reading.
func Indented(raw []byte) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return Cut(string(raw), MaxInput)
	}
	return Cut(b.String(), MaxInput)
}

// Value is a value of a _meta.
func Value(v any) jsontext.Value {
	raw, _ := json.Marshal(v) // strings, numbers and structs of them always encode
	return raw
}

// TooDeep reports whether valid JSON nests deeper than MaxDepth.
func TooDeep(raw []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case text:
		case c == '{', c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}
