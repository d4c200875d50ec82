package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// marked shows the lines of a hunk with what changed in brackets.
func marked(hunk string) string {
	lines := Parse("@@\n"+hunk, all)[0].Lines[1:]
	var out []string
	for i, spans := range Words(lines) {
		text, at := "", 0
		for _, s := range spans {
			text += lines[i].Text[at:s.From] + "[" + lines[i].Text[s.From:s.To] + "]"
			at = s.To
		}
		out = append(out, text+lines[i].Text[at:])
	}
	return strings.Join(out, "|")
}

func TestWords(t *testing.T) {
	long := strings.Repeat("word ", 300)
	for _, c := range []struct{ name, in, want string }{
		{"a word", "-x := one(a)\n+x := two(a)\n", "x := [one](a)|x := [two](a)"},
		{"more words", "-a b c d\n+a b new c d\n", "a b c d|a b [new ]c d"},
		{"two in their order", "-x = 1\n-y = 2\n+x = 3\n+y = 4\n", "x = [1]|y = [2]|x = [3]|y = [4]"},
		{"one more than before", "-x = 1\n+x = 2\n+z = 9\n", "x = [1]|x = [2]|z = 9"},
		{"white space", "-\tx y\n+  x y\n", "[\t]x y|[  ]x y"},
		{"other letters", "-grüße 漢字 da\n+grüße 漢語 da\n", "grüße [漢字] da|grüße [漢語] da"},
		{"bytes that are no text", "-a \xff b\n+a \xfe b\n", "a [\xff] b|a [\xfe] b"},
		{"apart", "-x = 1\n y\n+x = 2\n", "x = 1|y|x = 2"},
		{"added first", "+x = 2\n-x = 1\n", "x = 2|x = 1"},
		{"unlike", "-return nil, err\n+for i := range 10 {\n", "return nil, err|for i := range 10 {"},
		{"very unequal", "-a\n+a b c\n", "a|a b c"},
		{"equal", "-a\n+a\n", "a|a"},
		{"empty", "-\n+\n", "|"},
		{"too long", "-" + long + "x\n+" + long + "y\n", long + "x|" + long + "y"},
	} {
		if got := marked(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWordsHaveAnEnd: beyond a stated number of bytes nothing is compared.
func TestWordsHaveAnEnd(t *testing.T) {
	lines := Parse("@@\n"+strings.Repeat("-"+strings.Repeat("a ", 400)+"x\n+"+strings.Repeat("a ", 400)+"y\n", 1000), all)[0].Lines[1:]
	marked := 0
	for i, spans := range Words(lines) {
		if spans != nil {
			marked += len(lines[i].Text)
		}
	}
	if marked < maxCompared || marked > maxCompared+2*maxWords {
		t.Errorf("%d bytes of lines were compared", marked)
	}
}

// BenchmarkParse reads 20,000 lines as a page does that shows the first of them.
func BenchmarkParse(b *testing.B) {
	s := "--- a/x\n+++ b/x\n@@ -1,10000 +1,10000 @@\n" + strings.Repeat("-\tone := 1\n+\ttwo := 2\n", 10_000)
	b.SetBytes(int64(len(s)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(s, func(_, line int) bool { return line < 400 })
	}
}

// BenchmarkWords compares as many lines as a page shows, each as long as it may
// be, with one word changed and with most words in another order.
func BenchmarkWords(b *testing.B) {
	var old, new strings.Builder
	for i := range 230 {
		fmt.Fprintf(&old, "%d ", i)
		fmt.Fprintf(&new, "%d ", i*7%230)
	}
	for name, added := range map[string]string{"one": old.String() + "x", "most": new.String()} {
		lines := Parse("@@\n"+strings.Repeat("-"+old.String()+"\n+"+added+"\n", 1000), all)[0].Lines
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Words(lines)
			}
		})
	}
}

func TestLines(t *testing.T) {
	var got []string
	for _, l := range Lines("a\nb\nd", "a\nc\nd\n") {
		got = append(got, string(l.Kind)+l.Text)
	}
	if want := []string{"ctxa", "delb", "addc", "ctxd", "add"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
