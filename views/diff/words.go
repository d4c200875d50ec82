package diff

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"znkr.io/diff"
)

// Span is a part of a line's text, in bytes.
type Span struct{ From, To int }

const (
	// maxWords is how long a line may be, in bytes, for its words to be compared.
	// In a longer one nobody looks for them, and they cost more than in proportion.
	maxWords = 1 << 10
	// maxCompared is how many bytes of lines are compared in all: more than a page
	// of code has, and tens of milliseconds at worst.
	maxCompared = 128 << 10
	// maxUnequal is how many times as long as the other one of two lines may be.
	maxUnequal = 3
)

// Words returns for each of the lines what changed in it. Removed lines and the
// added ones right behind them are compared in their order, by words. Lines that
// have little in common are other lines: nothing is marked in them.
func Words(lines []Line) [][]Span {
	out := make([][]Span, len(lines))
	compared := 0
	for i := 0; i < len(lines); {
		removed := i
		for i < len(lines) && lines[i].Kind == Minus {
			i++
		}
		added := i
		for i < len(lines) && lines[i].Kind == Plus {
			i++
		}
		for k := range min(added-removed, i-added) {
			old, new := lines[removed+k].Text, lines[added+k].Text
			shorter, longer := min(len(old), len(new)), max(len(old), len(new))
			if longer > maxWords || longer > maxUnequal*shorter || compared > maxCompared {
				continue
			}
			compared += len(old) + len(new)
			out[removed+k], out[added+k] = compare(old, new)
		}
		if i == removed {
			i++
		}
	}
	return out
}

// Lines returns both texts line by line: what only one of them has, and what both
// have.
func Lines(old, new string) (out []Line) {
	for _, e := range diff.Edits(strings.Split(old, "\n"), strings.Split(new, "\n")) {
		switch e.Op {
		case diff.Match:
			out = append(out, Line{Kind: Context, Text: e.X})
		case diff.Delete:
			out = append(out, Line{Kind: Minus, Text: e.X})
		case diff.Insert:
			out = append(out, Line{Kind: Plus, Text: e.Y})
		}
	}
	return out
}

// compare returns what of old is not in new, and what of new is not in old.
func compare(old, new string) (gone, come []Span) {
	i, j, common := 0, 0, 0
	for _, e := range diff.Edits(words(old), words(new)) {
		switch e.Op {
		case diff.Match:
			i += len(e.X)
			j += len(e.Y)
			common += len(e.X)
		case diff.Delete:
			gone = extend(gone, i, len(e.X))
			i += len(e.X)
		case diff.Insert:
			come = extend(come, j, len(e.Y))
			j += len(e.Y)
		}
	}
	if 2*common < max(len(old), len(new)) {
		return nil, nil
	}
	return gone, come
}

// extend adds n bytes at from.
func extend(spans []Span, from, n int) []Span {
	if last := len(spans) - 1; last >= 0 && spans[last].To == from {
		spans[last].To += n
		return spans
	}
	return append(spans, Span{from, from + n})
}

// words splits s into names and numbers, runs of white space, and every other
// character by itself.
func words(s string) []string {
	var out []string
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		kind := kindOf(r)
		for kind != 0 && n < len(s) {
			r, size := utf8.DecodeRuneInString(s[n:])
			if kindOf(r) != kind {
				break
			}
			n += size
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

func kindOf(r rune) int {
	switch {
	case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
		return 1
	case unicode.IsSpace(r):
		return 2
	}
	return 0
}
