package views

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"nod/state"
	"nod/state/approvals"
)

// onACard is a diff as a card shows it.
func onACard(t *testing.T, text string) string {
	t.Helper()
	return drawn(t, diffView(RequestChanges(t.Context(), &approvals.Approval{ID: "x", Request: state.Request{Diff: text}}).list(0)))
}

func drawn(t *testing.T, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDiffLinesAreExact: marks of words and of hidden characters leave every
// character of a line where it is.
func TestDiffLinesAreExact(t *testing.T) {
	got := onACard(t, "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n  <a> & \tb\n-old\tvalue := \"one\"  \n+old\tvalue := \"t\u202ewo\xff\" \n")
	for _, want := range []string{
		`<div class="">  &lt;a&gt; &amp; ` + "\tb</div>",
		`<div class="d">-old` + "\t" + `value := &#34;<span class="w">one</span>&#34;<span class="w">  </span></div>`,
		`<div class="a">+old` + "\t" + `value := &#34;<span class="w">t<span class="hid">U+202E</span>wo<span class="hid">0xFF</span></span>&#34;<span class="w"> </span></div>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// TestDiffSaysWhatIsNotShown, in numbers, and how to come to it.
func TestDiffSaysWhatIsNotShown(t *testing.T) {
	file := func(name string, added, removed int) string {
		return "--- a/" + name + "\n+++ b/" + name + "\n@@ -1 +1 @@\n" + strings.Repeat("-gone\n", removed) + strings.Repeat("+come\n", added)
	}
	var many, medium strings.Builder
	for i := range 10_000 {
		many.WriteString(file(fmt.Sprint("f", i), 1, 0))
	}
	for i := range 8 {
		medium.WriteString(file(fmt.Sprint("m", i), 299, 0))
	}
	raw := `<a href="/approvals/x/raw">The diff as it came</a>`
	for _, c := range []struct {
		name, text string
		want       []string
		lines      int // of the diff that are shown
	}{
		{"a small one", file("s", 2, 1), []string{`<figure class="diff" id="a-xd0">`, "<small>+2 −1</small>", raw}, 4},
		{"a large file", file("s", 1, 0) + file("l", 1200, 300), []string{"<small>+1,200 −300, 9012 bytes</small>", `<a href="/approvals/x/files/1" data-get="a-xd1">Show 1,501 lines</a>`, raw}, 2},
		{"many files", many.String(), []string{`<a href="/approvals/x/files?from=50">9,950 more files</a>`, `id="a-xd49"`, raw}, 100},
		{"many lines in all", medium.String(), []string{`<a href="/approvals/x/files/6" data-get="a-xd6">Show 300 lines</a>`, `data-get="a-xd7"`, raw}, 1800},
		{"a long line", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n+" + strings.Repeat("ü", 2_000_000) + "\n",
			[]string{"ü<small> … 1,998,000 characters more</small>", `<a href="/approvals/x/files/0" data-get="a-xd0">Show more of the long lines</a>`, raw}, 2},
		{"a patch of bytes", "diff --git a/x b/x\nGIT binary patch\nliteral 5\nMcmZ\n", []string{"<small>binary, 32 bytes</small>", `data-get="a-xd0">Show 3 lines</a>`, raw}, 0},
		{"nothing but a name", "diff --git a/o b/n\nrename from o\nrename to n\n", []string{"o → n", "<small>moved, +0 −0</small>", raw}, 0},
	} {
		got := onACard(t, c.text)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in\n%.3000s", c.name, want, got)
			}
		}
		if n := len(regexp.MustCompile(`<div class="[adh]?">`).FindAllString(got, -1)); n != c.lines {
			t.Errorf("%s: %d lines, want %d", c.name, n, c.lines)
		}
	}
}

// TestFilePages: page by page every line of a file is shown once.
func TestFilePages(t *testing.T) {
	var text strings.Builder
	text.WriteString("--- a/x\n+++ b/x\n@@ -0,0 +1,2500 @@\n")
	for i := range 2499 {
		fmt.Fprintf(&text, "+line %d.\n", i)
	}
	c := RequestChanges(t.Context(), &approvals.Approval{ID: "x", Request: state.Request{Diff: text.String()}})
	all := ""
	for _, from := range []int{0, 1000, 2000} {
		page, ok := c.FilePage(0, from)
		if !ok {
			t.Fatalf("no page from line %d", from)
		}
		html := drawn(t, page)
		all += html
		earlier := fmt.Sprintf(`href="/approvals/x/files/0?from=%d" data-get="a-xd0">Earlier`, from-1000)
		if from == 1000 {
			earlier = `href="/approvals/x/files/0" data-get="a-xd0">Earlier`
		}
		if strings.Contains(html, earlier) != (from > 0) {
			t.Errorf("from %d: the way to what is before", from)
		}
		if later := fmt.Sprintf(`href="/approvals/x/files/0?from=%d" data-get="a-xd0"`, from+1000); strings.Contains(html, later) != (from < 2000) {
			t.Errorf("from %d: the way to what comes after", from)
		}
	}
	for i := range 2499 {
		if n := strings.Count(all, fmt.Sprintf("+line %d.<", i)); n != 1 {
			t.Fatalf("line %d is shown %d times", i, n)
		}
	}
}
