// Package reveal makes text show what it is made of. What a person approves has
// to be what the agent will do, so on an approval nothing may hide: characters
// without a picture of their own, characters that reorder or swallow others,
// spaces that push text out of sight, bytes that are no text at all. All of them
// are shown, none is dropped: the text can be rebuilt from what [Reveal] returns.
//
// Letters that merely look like others are not its business.
package reveal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says how a [Run] is to be shown.
type Kind uint8

const (
	Text   Kind = iota // as it is
	Hidden             // one character that would not be seen, by name
	Space              // leading, trailing or repeated spaces, as dots
	Tab                // one tab, as an arrow
)

// Run is a piece of a line to be shown in one way.
type Run struct {
	Kind Kind
	// Text is what to show: itself for Text, "U+202E" (or "0xFF" for a byte that
	// is not UTF-8) for Hidden, one "·" for each space, "→" for a tab. It holds
	// no character for which the kind would have to be Hidden.
	Text string
}

// Line is what stands between two newlines.
type Line []Run

const (
	dot   = "·"
	arrow = "→"
)

// Reveal splits s into lines and the lines into runs. There is always at least
// one line, and one more if s ends with a newline. A carriage return is a hidden
// character, also before a newline.
func Reveal(s string) []Line {
	lines := make([]Line, 0, 1+strings.Count(s, "\n"))
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, revealLine(line))
	}
	return lines
}

func revealLine(s string) Line {
	var line Line
	text := 0 // where the text that is in no run yet begins
	flush := func(end int) {
		if text < end {
			line = append(line, Run{Text, s[text:end]})
		}
	}
	for i := 0; i < len(s); {
		run, size := next(s[i:], i == 0)
		if run.Kind != Text {
			flush(i)
			line = append(line, run)
			text = i + size
		}
		i += size
	}
	flush(len(s))
	return line
}

// next returns how to show the beginning of s, which is not empty, and how many
// bytes that is. first says that s begins the line.
func next(s string, first bool) (Run, int) {
	switch s[0] {
	case '\t':
		return Run{Tab, arrow}, 1
	case ' ':
		n := len(s) - len(strings.TrimLeft(s, " "))
		if n > 1 || first || n == len(s) {
			return Run{Space, strings.Repeat(dot, n)}, n
		}
		return Run{Text, " "}, 1
	}
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		return Run{Hidden, fmt.Sprintf("0x%02X", s[0])}, 1
	case IsHidden(r):
		return Run{Hidden, fmt.Sprintf("U+%04X", r)}, size
	}
	return Run{Text, s[:size]}, size
}

// Count returns how many lines and characters s has, newlines included, and how
// many of the characters are hidden. A byte that is not UTF-8 counts as one
// hidden character. Spaces and tabs are not hidden.
func Count(s string) (lines, chars, hidden int) {
	lines = 1
	for i, r := range s {
		chars++
		switch {
		case r == '\n':
			lines++
		case r == '\t':
		case IsHidden(r), r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			hidden++
		}
	}
	return lines, chars, hidden
}

// IsHidden reports whether r has no picture of its own or acts on the text
// around it. It holds for tab and newline, which [Reveal] shows in ways of
// their own, and for every space but the ASCII one.
func IsHidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, hidden...) || r&0xfffe == 0xfffe // the last two of each plane are no characters
}

// The properties overlap; each is there because of characters the others miss
// in some version of Unicode.
var hidden = []*unicode.RangeTable{
	unicode.Cc,                 // controls, C1 too
	unicode.Cf,                 // format characters: direction, joiners, tags, soft hyphen, annotations
	unicode.Zl,                 // line separator
	unicode.Zp,                 // paragraph separator
	unicode.Zs,                 // all spaces; the ASCII one is settled before
	unicode.Co,                 // private use: a picture only where a font gives one
	unicode.Bidi_Control,       // all twelve that reorder
	unicode.Variation_Selector, // carry any data behind one visible character
	defaultIgnorable,
	blank,
}

// defaultIgnorable is Default_Ignorable_Code_Point of Unicode 16, what a font may
// show as nothing; the standard library has only a part of it.
var defaultIgnorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00ad, 0x00ad, 1}, // soft hyphen
		{0x034f, 0x034f, 1}, // combining grapheme joiner
		{0x061c, 0x061c, 1}, // Arabic letter mark
		{0x115f, 0x1160, 1}, // Hangul choseong and jungseong fillers
		{0x17b4, 0x17b5, 1}, // Khmer inherent vowels
		{0x180b, 0x180f, 1}, // Mongolian free variation selectors and vowel separator
		{0x200b, 0x200f, 1}, // zero width space, joiners, direction marks
		{0x202a, 0x202e, 1}, // direction embeddings and overrides
		{0x2060, 0x206f, 1}, // word joiner, invisible operators, direction isolates, deprecated format characters
		{0x3164, 0x3164, 1}, // Hangul filler
		{0xfe00, 0xfe0f, 1}, // variation selectors 1 to 16
		{0xfeff, 0xfeff, 1}, // zero width no-break space, byte order mark
		{0xffa0, 0xffa0, 1}, // halfwidth Hangul filler
		{0xfff0, 0xfff8, 1}, // unassigned
	},
	R32: []unicode.Range32{
		{0x1bca0, 0x1bca3, 1}, // shorthand format controls
		{0x1d173, 0x1d17a, 1}, // musical beams, ties, slurs and phrases
		{0xe0000, 0xe0fff, 1}, // tags, variation selectors 17 to 256, and what is unassigned around them
	},
	LatinOffset: 1,
}

// blank are characters that have a picture, which is empty, and the
// noncharacters inside a plane.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x2800, 0x2800, 1}, // Braille pattern blank
		{0xfdd0, 0xfdef, 1}, // noncharacters
		{0xfffc, 0xfffc, 1}, // object replacement character
	},
	R32: []unicode.Range32{
		{0x16fe4, 0x16fe4, 1}, // Khitan small script filler
		{0x1d159, 0x1d159, 1}, // musical symbol null notehead
	},
}
