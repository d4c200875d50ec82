package reveal

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestReveal(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []Line
	}{
		{"", []Line{nil}},
		{"rm -rf /tmp/é", []Line{{{Text, "rm -rf /tmp/é"}}}},
		{"a\nb\n", []Line{{{Text, "a"}}, {{Text, "b"}}, nil}},
		{"a  b ", []Line{{{Text, "a"}, {Space, "··"}, {Text, "b"}, {Space, "·"}}}},
		{" a b\n ", []Line{{{Space, "·"}, {Text, "a b"}}, {{Space, "·"}}}},
		{"a\t\tb", []Line{{{Text, "a"}, {Tab, "→"}, {Tab, "→"}, {Text, "b"}}}},
		{"a·→U+202E", []Line{{{Text, "a·→U+202E"}}}},
		{"a\u202eb c", []Line{{{Text, "a"}, {Hidden, "U+202E"}, {Text, "b c"}}}},
		{"a\r\nb\rc", []Line{{{Text, "a"}, {Hidden, "U+000D"}}, {{Text, "b"}, {Hidden, "U+000D"}, {Text, "c"}}}},
		{"\xff\xe2\x80\uFFFD", []Line{{{Hidden, "0xFF"}, {Hidden, "0xE2"}, {Hidden, "0x80"}, {Text, "\uFFFD"}}}},
		{"\x1b[31m\x00", []Line{{{Hidden, "U+001B"}, {Text, "[31m"}, {Hidden, "U+0000"}}}},
		{"a\u00a0\u3000b", []Line{{{Text, "a"}, {Hidden, "U+00A0"}, {Hidden, "U+3000"}, {Text, "b"}}}},
		{"x\U000e0041\U000e0100", []Line{{{Text, "x"}, {Hidden, "U+E0041"}, {Hidden, "U+E0100"}}}},
	} {
		if got := Reveal(c.in); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q\n got %v\nwant %v", c.in, got, c.want)
		}
	}
}

func TestIsHidden(t *testing.T) {
	for _, r := range []rune{
		0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, // all Bidi_Control
		0x200b, 0x200c, 0x200d, 0x2060, 0xfeff, 0x180e, // zero width
		0x00, 0x07, 0x1b, '\r', '\t', '\n', 0x7f, 0x80, 0x85, 0x9b, 0x9f, // controls
		0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x202f, 0x205f, 0x3000, // the 16 other spaces
		0x2028, 0x2029, // line and paragraph separator
		0xad, 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180f, 0x2061, 0x2064, 0x2065, 0x206a, 0x3164, 0xffa0, 0xfff0, 0xfff8, 0xfff9, 0xfffb, 0xfffc,
		0xfe00, 0xfe0f, 0xe0100, 0xe01ef, // variation selectors
		0xe0000, 0xe0001, 0xe0020, 0xe0041, 0xe007f, 0xe0080, 0xe0fff, // tags and around
		0x1bca0, 0x1d159, 0x1d173, 0x16fe4, 0x2800, 0x110bd,
		0xe000, 0xf8ff, 0xf0000, 0x10fffd, // private use
		0xfdd0, 0xfdef, 0xfffe, 0xffff, 0x1fffe, 0x10ffff, // noncharacters
	} {
		if !IsHidden(r) {
			t.Errorf("%U is not hidden", r)
		}
	}
	for _, r := range " !~aéßЖ中한א۝๑·→☐🙂\u0301\ufffd\u30fb\u2014" {
		if want := r == '\u06dd'; IsHidden(r) != want { // a format character that has a picture
			t.Errorf("%U: IsHidden is %v", r, !want)
		}
	}
}

// TestDefaultIgnorable holds the table against its definition in Unicode's
// DerivedCoreProperties, as far as the standard library knows the parts.
func TestDefaultIgnorable(t *testing.T) {
	count := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) &&
			!unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark) &&
			!(r >= 0xfff9 && r <= 0xfffb) && !(r >= 0x13430 && r <= 0x13440)
		got := unicode.Is(defaultIgnorable, r)
		if got {
			count++
		}
		if got != want {
			t.Errorf("%U: in the table %v, by definition %v", r, got, want)
		}
		if got && !IsHidden(r) {
			t.Errorf("%U is not hidden", r)
		}
	}
	if count != 4174 { // "Total code points" in the file
		t.Errorf("%d code points", count)
	}
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		in                   string
		lines, chars, hidden int
	}{
		{"", 1, 0, 0},
		{"añb\n", 2, 4, 0},
		{"a  \tb ", 1, 6, 0},
		{"a\u202e\u00a0\r\n\U000e0041", 2, 6, 4},
		{"\xff\uFFFD\xe2\x80", 1, 4, 3},
	} {
		if lines, chars, hidden := Count(c.in); lines != c.lines || chars != c.chars || hidden != c.hidden {
			t.Errorf("%q: %d lines, %d characters, %d hidden; want %d, %d, %d", c.in, lines, chars, hidden, c.lines, c.chars, c.hidden)
		}
	}
}

func TestR39LongText(t *testing.T) {
	for _, s := range []string{strings.Repeat("a", 2_000_000), strings.Repeat("a ", 1_000_000), strings.Repeat(" ", 2_000_000), strings.Repeat("\n", 200_000), strings.Repeat("\u202e", 200_000), strings.Repeat("a  ", 200_000)} {
		start := time.Now()
		Reveal(s)
		Count(s)
		t.Logf("%.9q...: %v", s, time.Since(start)) // some 0.1 s; what is quadratic runs into the timeout of go test
	}
}

// unreveal rebuilds the text from nothing but what is shown.
func unreveal(lines []Line) (string, error) {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, run := range line {
			switch run.Kind {
			case Text:
				b.WriteString(run.Text)
			case Space:
				b.WriteString(strings.ReplaceAll(run.Text, dot, " "))
			case Tab:
				b.WriteByte('\t')
			case Hidden:
				n, err := strconv.ParseUint(run.Text[2:], 16, 32)
				if err != nil {
					return "", err
				}
				if run.Text[:2] == "0x" {
					b.WriteByte(byte(n))
				} else {
					b.WriteRune(rune(n))
				}
			default:
				return "", fmt.Errorf("kind %d", run.Kind)
			}
		}
	}
	return b.String(), nil
}

func checkProperties(t *testing.T, s string) {
	t.Helper()
	lines := Reveal(s)
	if back, err := unreveal(lines); err != nil || back != s {
		t.Fatalf("%q came back as %q, %v", s, back, err)
	}
	hiddenRuns := 0
	for _, line := range lines {
		shown := ""
		for i, run := range line {
			if run.Text == "" || !utf8.ValidString(run.Text) || strings.IndexFunc(run.Text, IsHidden) >= 0 {
				t.Fatalf("%q: run %q", s, run.Text)
			}
			if run.Kind == Hidden {
				hiddenRuns++
			}
			if run.Kind == Text && i > 0 && line[i-1].Kind == Text {
				t.Fatalf("%q: neighbours %q and %q", s, line[i-1].Text, run.Text)
			}
			shown += run.Text
		}
		if strings.Contains(shown, "  ") || strings.TrimSpace(shown) != shown {
			t.Fatalf("%q: spaces in %q", s, shown)
		}
	}
	n, chars, hidden := Count(s)
	if n != len(lines) || hidden != hiddenRuns || chars != utf8.RuneCountInString(s) {
		t.Fatalf("%q: counted %d, %d, %d; shown %d lines, %d hidden", s, n, chars, hidden, len(lines), hiddenRuns)
	}
}

func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		checkProperties(t, "a"+string(r)+"b")
	}
	for b := range 256 {
		checkProperties(t, "a"+string([]byte{byte(b)})+"b")
	}
}

func FuzzReveal(f *testing.F) {
	for _, s := range []string{"", "a  b \n\tc", "\xff\u202e\r\n ", "\U000e0041·→U+0041", "\xe2\x80\xae\xe2\x80"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkProperties(t, string(b)) })
}
