package markdown

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// full renders source in one parse, without a stream.
func full(source string) string {
	source = strings.ToValidUTF8(strings.ReplaceAll(source, "\r\n", "\n"), "\uFFFD")
	var b strings.Builder
	if err := dialect.Convert([]byte(source), &b); err != nil {
		panic(err)
	}
	return showControls(b.String())
}

func examples(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/spec.json")
	if err != nil {
		t.Fatal(err)
	}
	var spec []struct{ Markdown string }
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range spec {
		all = append(all, e.Markdown)
	}
	return all
}

func answers(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/answers/*.md")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var all []string
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
	return all
}

// fork returns a stream that goes on from where s is and leaves s alone.
func fork(s *Stream) *Stream {
	c := *s
	c.src, c.fence.html = slices.Clip(c.src), slices.Clip(c.fence.html)
	c.pieces, c.blocks, c.refs = slices.Clone(c.pieces), slices.Clone(c.blocks), maps.Clone(c.refs)
	return &c
}

// feed gives s the text in pieces and checks after each that what is closed stays
// as it was and that the page may show all of it.
func feed(t *testing.T, s *Stream, text string, next func() int) {
	t.Helper()
	var before []string
	for i := 0; i < len(text); {
		i = min(len(text), i+next())
		s.Update(text[:i], false)
		if len(s.pieces) < len(before) || !slices.Equal(s.blocks[:len(before)], before) {
			t.Fatalf("closed blocks changed after %q\n was %q\n  is %q", text[:i], before, s.blocks)
		}
		before = slices.Clone(s.blocks[:len(s.pieces)])
		for _, b := range s.blocks {
			check(t, text[:i], b)
		}
	}
}

func TestEveryPrefix(t *testing.T) {
	docs := slices.Concat(examples(t), answers(t), hostile)
	for _, doc := range docs {
		s := NewStream(nil, nil)
		var last []string
		for i := 1; i <= len(doc); i++ {
			s.Update(doc[:i], false)
			if n := min(len(last), len(s.pieces)); !slices.Equal(s.blocks[:n], last[:n]) {
				t.Fatalf("closed blocks changed at %q", doc[:i])
			}
			last = slices.Clone(s.blocks[:len(s.pieces)])
			done := fork(s)
			done.Update(doc[:i], true)
			if got, want := strings.Join(done.Blocks(), ""), full(doc[:i]); got != want {
				t.Fatalf("%q\n got %q\nwant %q", doc[:i], got, want)
			}
			if got := HTML(doc[:i]); got != strings.Join(done.Blocks(), "") {
				t.Fatalf("HTML of %q\n got %q\nwant %q", doc[:i], got, done.Blocks())
			}
		}
	}
}

// What is shown while a message is written is what it would be if it ended there,
// but for link definitions that come later and for half a character.
func TestTailIsExact(t *testing.T) {
	for _, doc := range examples(t) {
		s := NewStream(nil, nil)
		for i := 1; i <= len(doc); i++ {
			s.Update(doc[:i], false)
			if got, want := strings.Join(s.Blocks(), ""), full(doc[:i]); len(s.refs) == 0 && s.read == i && got != want && !strings.Contains(doc, "]:") {
				t.Fatalf("%q\n got %q\nwant %q", doc[:i], got, want)
			}
		}
	}
}

// However a message comes, the blocks are the same.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := slices.Concat(examples(t), answers(t))
	for range 300 {
		var b strings.Builder
		for range 6 {
			b.WriteString(parts[r.IntN(len(parts))])
			b.WriteString([]string{"", "\n", "\n \n\n", "\r\n\r\n"}[r.IntN(4)])
		}
		doc := b.String()
		s, once := NewStream(nil, nil), NewStream(nil, nil)
		feed(t, s, doc, func() int { return 1 + r.IntN(60) })
		s.Update(doc, true)
		once.Update(doc, true)
		if !slices.Equal(s.Blocks(), once.Blocks()) {
			t.Fatalf("%q\n got %q\nwant %q", doc, s.Blocks(), once.Blocks())
		}
		if got, want := strings.Join(s.Blocks(), ""), full(doc); got != want {
			t.Fatalf("%q\n got %q\nwant %q", doc, got, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	for i, s := range slices.Concat(answers(f), hostile) {
		f.Add(s, uint64(i))
	}
	f.Fuzz(func(t *testing.T, doc string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := NewStream(nil, nil)
		feed(t, s, doc, func() int { return 1 + r.IntN(1+len(doc)/3) })
		s.Update(doc, true)
		once := NewStream(nil, nil)
		once.Update(doc, true)
		if !slices.Equal(s.Blocks(), once.Blocks()) {
			t.Fatalf("%q\n got %q\nwant %q", doc, s.Blocks(), once.Blocks())
		}
		if got := strings.Join(s.Blocks(), ""); len(doc) < 1000 && got != full(doc) {
			t.Fatalf("%q\n got %q\nwant %q", doc, got, full(doc))
		}
	})
}

func TestCloses(t *testing.T) {
	for _, c := range []struct {
		name, src string
		closed    int
	}{
		{"a paragraph goes on", "a\n", 0},
		{"a blank line ends it", "a\n\n", 1},
		{"a heading is one line", "# a\n", 1},
		{"that is not whole", "# a", 0},
		{"an underline", "a\n---\n", 1},
		{"a fence ends with its line", "```\na\n\n```\n", 1},
		{"and not without", "```\na\n\n", 0},
		{"a shorter one does not end it", "````\n```\n", 0},
		{"a list goes on", "- a\n\n", 0},
		{"a whole line after it ends it", "- a\n\nb\n", 1},
		{"half a line may belong to it", "- a\n\n*", 0},
		{"a table ends like a paragraph", "|a|\n|-|\n|b|\n\n", 1},
		{"a definition may have a title", "[a]: b\n", 0},
		{"and what follows be its title", "[a]: b\n'c\n", 0},
		{"even with a table in it", "[a]: b\n'c\na|b\n-|-\n", 0},
	} {
		s := NewStream(nil, nil)
		s.Update(c.src, false)
		if len(s.pieces) != c.closed {
			t.Errorf("%s: %d blocks closed of %q", c.name, len(s.pieces), c.src)
		}
	}
}

func TestLateDefinition(t *testing.T) {
	s := NewStream(nil, nil)
	s.Update("[a]\n\nb\n\n[a]: https://ok.example\n\n", false)
	if got := s.Blocks()[0]; got != "<p>[a]</p>\n" {
		t.Fatalf("before the end: %q", got)
	}
	s.Update("[a]\n\nb\n\n[a]: https://ok.example\n\n", true)
	if got := s.Blocks()[0]; !strings.Contains(got, "<a href=") {
		t.Fatalf("at the end: %q", got)
	}
}

func TestGoesOnAfterTheEnd(t *testing.T) {
	for _, c := range [][2]string{{"a\r", "a\r\nb"}, {"a \xe2\x82", "a \xe2\x82\xac"}, {"[x]\n\n", "[x]\n\n[x]: https://ok.example"}, {"- a\n", "- a\n- b"}} {
		s := NewStream(nil, nil)
		for _, text := range c {
			s.Update(text, true)
			if got, want := strings.Join(s.Blocks(), ""), full(text); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

func TestStartsAnew(t *testing.T) {
	s := NewStream(nil, nil)
	for _, text := range []string{"# one\n\nmore", "# two\n\nmore of it", "# two", ""} {
		s.Update(text, false)
		if got, want := strings.Join(s.Blocks(), ""), full(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// An open block is not rendered at every update, but never lags by more than its pace.
func TestPace(t *testing.T) {
	list, code := strings.Repeat("- an *item*\n", 2000), "```\n"+strings.Repeat("a line\n", 3000)
	for _, doc := range []string{list, code} {
		s := NewStream(nil, nil)
		for i := 0; i < len(doc); i = min(len(doc), i+50) {
			s.Update(doc[:i], false)
			if i%1000 != 0 {
				continue
			}
			shown := len(seen(t, strings.Join(s.Blocks(), "")))
			if whole := len(seen(t, full(doc[:i]))); whole-shown > max(0, i-smallTail)/tailPace+16 {
				t.Fatalf("%d of %d bytes shown", shown, whole)
			}
		}
	}
}

// The cost of whatever comes, counted in bytes that are parsed or escaped: a
// fixed share of its length.
func TestWorkIsBounded(t *testing.T) {
	const mb = 1_000_000
	for name, src := range map[string]string{
		"backticks":     strings.Repeat("`", mb),
		"brackets":      strings.Repeat("[", mb),
		"one line":      strings.Repeat("words and ", mb/10),
		"no UTF-8":      strings.Repeat("\xe2\x82", mb/2),
		"quotes":        strings.Repeat(">", 10_000) + "a",
		"table":         "|a|b|\n|-|-|\n" + strings.Repeat("|`x`|y|\n", 500_000/8),
		"list":          strings.Repeat("- a\n", mb/8),
		"open fence":    "```\n" + strings.Repeat("a < b\n", mb/6),
		"line in fence": "```\n" + strings.Repeat("a < b ", mb/6),
		"paragraphs":    strings.Repeat("a *b*\n\n", mb/40),
		"definitions":   strings.Repeat("[a]: b\n", mb/50),
		"uses":          strings.Repeat("[a]: b\n\n[a]\n\n", mb/80),
		"blank lines":   strings.Repeat("\n", mb),
		"much prose":    strings.Repeat(strings.Repeat("words ", 40)+"\n\n", 4*mb/242),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStream(nil, nil)
			for i := 0; i < len(src); i += 4096 {
				s.Update(src[:i], false)
			}
			s.Update(src, true)
			frames, part := NewStream(nil, nil), src[:min(len(src), maxSource/2)]
			for i := 0; i < len(part); i += 80 {
				frames.Update(part[:i], false)
			}
			each, inFrames := float64(s.work)/float64(len(src)), float64(frames.work)/float64(len(part))
			t.Logf("%d kB: %.1f bytes of work for each, %.1f of the first 128 KiB in frames", len(src)/1000, each, inFrames)
			if each > 3*tailPace || inFrames > 80 {
				t.Error("too much work")
			}
			out := strings.Join(s.Blocks(), "")
			check(t, name, out)
			once := NewStream(nil, nil)
			once.Update(src, true)
			if !slices.Equal(s.Blocks(), once.Blocks()) {
				t.Error("another result in one piece")
			}
		})
	}
}

func TestTooLargeABlockIsPlain(t *testing.T) {
	src := "# a\n\n" + strings.Repeat("*b* \x1b", maxSource/5+1) + "\n\n*c*\n"
	s := NewStream(nil, nil)
	for i := 0; i < len(src); i += 4096 {
		s.Update(src[:i], false)
	}
	s.Update(src, true)
	out := s.Blocks()
	if out[0] != "<h1>a</h1>\n" || !strings.HasPrefix(out[1], "<pre><code>*b* <span class=\"hid\">U+001B</span>*b*") || !strings.HasSuffix(out[len(out)-1], "\n\n*c*\n</code></pre>\n") {
		t.Errorf("%.80q ... %.80q", out[:2], out[len(out)-1])
	}
	if got := HTML(src); strings.Count(got, "<pre>") != 1 || !strings.HasPrefix(got, "<h1>") {
		t.Errorf("HTML: %.80q", got)
	}
}

func TestTooLongAMessageEndsPlain(t *testing.T) {
	src := strings.Repeat("*a* "+strings.Repeat("words ", 40)+"\n\n", maxTotal/246+100)
	out := HTML(src)
	if i := strings.Index(out, "<pre><code>*a*"); i < maxTotal || strings.Contains(out[i:], "<em>") {
		t.Errorf("plain from %d on of %d", i, len(out))
	}
}

func answer(size int) string {
	const section = `## Step %[1]d: the cache

The handler reads the **whole** file before it looks at its header, so that a large one costs memory for nothing. I moved the check to the front and kept the old order for the rest, see [the notes](https://ok.example/%[1]d) and ` + "`open.go`" + `.

- First, the size is checked, and the *kind*.
- Then the header is read:
  - magic number
  - version %[1]d
- Last, the body.

` + "```go\nfunc open(name string) (*file, error) {\n\tf, err := os.Open(name)\n\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"open %%q: %%w\", name, err) // %[1]d\n\t}\n\treturn &file{f: f, size: 0x%[1]d}, nil\n}\n```" + `

| case | before | after |
|------|-------:|------:|
| small | 12 ms | 11 ms |
| large | 940 ms | 14 ms |

That is all of step %[1]d; the tests pass. Nothing else depends on the order, as far as I can see from the callers, of which there are three.

`
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, section, i)
	}
	return b.String()[:size]
}

func TestLongMessage(t *testing.T) {
	src := answer(320_000)
	s := NewStream(nil, nil)
	left := map[int]bool{}
	for i := 0; i < len(src); i += 80 {
		s.Update(src[:i], false)
		left[s.LeftOut()] = true
	}
	if n := (len(src) - 2*kept) / keptStep; len(left) > n+2 || len(left) < n-1 {
		t.Errorf("what is left out changed %d times, not %d", len(left), n)
	}
	s.Update(src, true)
	once := NewStream(nil, nil)
	once.Update(src, true)
	if !slices.Equal(s.Blocks(), once.Blocks()) || s.LeftOut() != once.LeftOut() {
		t.Error("another result in one piece")
	}

	whole := Stream{whole: true}
	whole.Update(src, true)
	if got := strings.Join(whole.Blocks(), ""); got != HTML(src) || got != full(src) {
		t.Error("HTML is not all of it")
	}
	out, hidden := 0, 0
	for i, b := range s.Blocks() {
		start := s.pieces[i].start
		switch {
		case b != "" && b != whole.blocks[i]:
			t.Fatalf("block %d is another: %q", i, b)
		case b == "":
			hidden += s.end(i) - start
			if start < kept || s.end(i) > len(src)-kept {
				t.Errorf("block at %d to %d is left out", start, s.end(i))
			}
		case start >= kept && s.end(i) <= len(src)-kept-keptStep:
			t.Errorf("block at %d is shown", start)
		}
		out += len(b)
	}
	if hidden != s.LeftOut() || hidden == 0 {
		t.Errorf("%d bytes left out, LeftOut says %d", hidden, s.LeftOut())
	}
	if out != s.output || out > 4*(2*kept+keptStep) {
		t.Errorf("%d bytes of HTML, counted %d", out, s.output)
	}
}

// BenchmarkStream40k streams an answer of 40,000 tokens of 8 bytes in frames of
// 10 tokens; an operation is the whole answer. The other figures are of the 4000
// tokens before a quarter, the half and the end of it.
func BenchmarkStream40k(b *testing.B) {
	const tokens, size, frame, span = 40_000, 8, 10, 4000
	src := answer(tokens * size)
	marks := []int{tokens / 4, tokens / 2, tokens}
	spent := make([]float64, len(marks))
	for b.Loop() {
		s := NewStream(nil, nil)
		for n := 0; n < tokens; n += frame {
			start := b.Elapsed()
			s.Update(src[:n*size], false)
			for i, mark := range marks {
				if mark-span <= n && n < mark {
					spent[i] += float64(b.Elapsed() - start)
				}
			}
		}
		s.Update(src, true)
	}
	for i, name := range []string{"quarter", "half", "end"} {
		b.ReportMetric(spent[i]/float64(b.N)/span, "ns/token-"+name)
	}
}
