package markdown

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark/util"
	"go.uber.org/goleak"
)

// newTestHighlighter closes the highlighter when the test ends, and checks that
// nothing is left of it. The clock of chroma's regular expressions ends by itself.
func newTestHighlighter(t *testing.T, limit time.Duration, cache int) *Highlighter {
	before := goleak.IgnoreCurrent()
	h := newHighlighter(limit, cache)
	t.Cleanup(func() {
		h.Close()
		select {
		case <-h.ended:
		default:
			t.Error("Close did not wait")
		}
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
	})
	return h
}

func forever() bool { return true }

func fenced(lang, code string) string { return "```" + lang + "\n" + code + "```\n\n" }

func TestColours(t *testing.T) {
	for _, c := range []struct{ lang, code, want string }{
		{"go", "func f() int { return 1 } // a < b\n", `<span class="k">func </span><span class="nf">f</span>() <span class="k">int </span>{ <span class="k">return </span><span class="m">1 </span>} <span class="c">// a &lt; b` + "\n</span>"},
		{"diff", "+a\n-b\n c\n", `<span class="gi">+a` + "\n" + `</span><span class="gd">-b` + "\n</span> c\n"},
		{"json", "{\"a\": \"b\"}\n", `{<span class="nf">&quot;a&quot;</span>: <span class="s">&quot;b&quot;</span>}` + "\n"},
	} {
		if got := colour(c.lang, c.code, forever); got != c.want {
			t.Errorf("%s: %s, want %s", c.lang, got, c.want)
		}
	}
}

// Colours change nothing but colour, in any language and whatever the code is.
func TestColoursKeepTheCode(t *testing.T) {
	code := strings.ToValidUTF8(strings.Join(hostile[:60], "\n"), "?") + "\r\n\x00\u202e</code></pre><script>\n"
	for lang := range languages {
		if lexer(lang) == nil {
			continue
		}
		out := colour(lang, code, forever)
		if out == "" {
			t.Errorf("%s: no colours", lang)
		}
		check(t, code, showControls("<pre><code>"+out+fenceEnd))
		if got, want := seen(t, showControls(out)), seen(t, showControls(string(util.EscapeHTML([]byte(code))))); got != want {
			t.Errorf("%s: %q, want %q", lang, got, want)
		}
	}
}

func TestRelight(t *testing.T) {
	woken := make(chan bool, 10)
	s := NewStream(newTestHighlighter(t, jobLimit, maxCache), func() { woken <- true })
	src := fenced("go", "var a = 1\n") + "- in a list\n  ```sh\n  ls # \x1b\n  ```\n\ntext\n"
	s.Update(src[:len("```go\nvar a = 1\n")], false)
	if len(s.h.queue) > 0 || s.pieces != nil {
		t.Error("an open fence is coloured")
	}
	s.Update(src, false)
	if got := s.Blocks()[0]; got != "<pre><code class=\"language-go\">var a = 1\n</code></pre>\n" {
		t.Errorf("at first: %s", got)
	}
	for !strings.Contains(s.Blocks()[1], `<span class="c"># <span class="hid">U+001B</span>`) {
		<-woken
		if !s.Relight() {
			t.Error("woken for nothing")
		}
	}
	if got := s.Blocks()[0]; !strings.HasPrefix(got, `<pre><code class="language-go"><span class="k">var </span>`) {
		t.Errorf("at last: %s", got)
	}
	if s.Relight() {
		t.Error("relit again")
	}
	check(t, src, strings.Join(s.Blocks(), ""))

	again := NewStream(s.h, func() { t.Error("woken for what was ready") })
	again.Update(src, false)
	if !slices.Equal(again.Blocks(), s.Blocks()) {
		t.Errorf("another message: %q", again.Blocks())
	}
}

func TestOpenFenceIsColouredAtTheEnd(t *testing.T) {
	woken := make(chan bool, 1)
	s := NewStream(newTestHighlighter(t, jobLimit, maxCache), func() { woken <- true })
	s.Update("```go\nvar a = 1", true)
	<-woken
	if !s.Relight() || !strings.Contains(s.Blocks()[0], `<span class="k">`) {
		t.Error(s.Blocks())
	}
}

func TestWhatStaysPlain(t *testing.T) {
	h := newTestHighlighter(t, jobLimit, maxCache)
	s := NewStream(h, func() { t.Error("woken") })
	for name, src := range map[string]string{
		"no language":           fenced("", "var a\n"),
		"unknown language":      fenced("nonsense", "var a\n"),
		"a file name":           fenced("x.go", "var a\n"),
		"cannot be stopped":     fenced("svelte", "<a>\n"),
		"long":                  fenced("go", strings.Repeat("var a\n", maxCode/6+1)),
		"long line":             fenced("go", strings.Repeat("a", maxCodeLine)+"\n"),
		"left out when it came": strings.Repeat("words\n\n", kept/7+1) + fenced("go", "var a\n") + strings.Repeat("words\n\n", kept/4),
	} {
		s.Update(src, true)
		if slices.ContainsFunc(s.pieces, func(p piece) bool { return p.wants != nil }) {
			t.Errorf("%s: waits for colours", name)
		}
	}
}

// TestR39WildCode: wild input ends at the limit, and what waits behind it has its turn.
func TestR39WildCode(t *testing.T) {
	for _, lang := range []string{"yaml", "cpp"} {
		for _, code := range []string{strings.Repeat("[", 8<<10) + "\n", strings.Repeat(strings.Repeat("[", maxCodeLine-1)+"\n", 16)} {
			polls := 0
			if colour(lang, code, func() bool { polls++; return polls < 20 }) != "" || polls != 20 {
				t.Errorf("%s: not stopped, %d", lang, polls)
			}
		}
	}
	colour("go", "var a\n", forever) // so that it need not be loaded within the limit
	woken := make(chan bool, 1)
	s := NewStream(newTestHighlighter(t, 200*time.Millisecond, maxCache), func() { woken <- true })
	src := fenced("cpp", strings.Repeat("\n", maxCode-2)+"[\n") + fenced("go", "var a\n")
	s.Update(src, true)
	<-woken
	if !s.Relight() || strings.Contains(s.Blocks()[0], "<span") {
		t.Errorf("%.100q", s.Blocks())
	}
	if s.pieces[0].wants != nil {
		t.Error("what cannot be coloured is still waited for")
	}
}

func TestCloseGivesUp(t *testing.T) {
	h := newTestHighlighter(t, time.Hour, maxCache)
	s := NewStream(h, func() {})
	s.Update(fenced("cpp", strings.Repeat("\n", 16<<10-10)), true) // and Close comes at once
}

func TestFullQueue(t *testing.T) {
	h := &Highlighter{queue: make(chan *job, 1), jobs: map[key]*job{}}
	s := NewStream(h, func() {})
	s.Update(fenced("go", "var a\n")+fenced("go", "var b\n"), true)
	if len(h.jobs) != 1 || len(s.pieces[1].wants) != 1 {
		t.Fatalf("%d jobs, %v", len(h.jobs), s.pieces)
	}
	j := <-h.queue
	delete(h.jobs, j.key)
	s.Relight()
	if j := <-h.queue; j.code != "var a\n" && j.code != "var b\n" {
		t.Errorf("asked again for %q", j.code)
	}
}

func TestCacheIsBounded(t *testing.T) {
	h := newTestHighlighter(t, jobLimit, 3*(256+100))
	woken := make(chan bool, 1)
	for i := range 10 {
		s := NewStream(h, func() { woken <- true })
		s.Update(fenced("go", fmt.Sprintf("var a%d\n", i)), true)
		<-woken
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.cache.items); n != 3 || h.cache.order.Len() != n || h.cache.size > h.cache.max {
		t.Errorf("%d results of %d bytes", n, h.cache.size)
	}
	if len(h.jobs) != 0 {
		t.Error("jobs are left")
	}
}

func TestCacheKeepsWhatIsUsed(t *testing.T) {
	h := newHighlighter(0, 2*256)
	h.Close()
	c := &h.cache
	c.put(key{1}, "")
	c.put(key{2}, "")
	c.get(key{1})
	c.put(key{3}, "")
	if _, ok := c.get(key{1}); !ok {
		t.Error("what was used last is gone")
	}
	if _, ok := c.get(key{2}); ok {
		t.Error("what was not is kept")
	}
}
