package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"nod/state"
)

// c37 are diffs that are too much for the place where they stand.
func c37() map[string]string {
	var patch, files strings.Builder
	patch.WriteString("diff --git a/long.txt b/long.txt\n--- a/long.txt\n+++ b/long.txt\n@@ -1,10000 +1,10000 @@\n")
	for i := range 10_000 {
		fmt.Fprintf(&patch, "-old line %d\n+new line %d\n", i, i)
	}
	for i := range 10_000 {
		fmt.Fprintf(&files, "diff --git a/f%d b/f%d\n--- a/f%d\n+++ b/f%d\n@@ -1 +1 @@\n-old %d\n+new %d\n", i, i, i, i, i, i)
	}
	var medium strings.Builder
	for i := range 49 {
		fmt.Fprintf(&medium, "--- a/m%d\n+++ b/m%d\n@@ -1,300 +1,300 @@\n", i, i)
		for j := range 300 {
			fmt.Fprintf(&medium, "+m%d line %d\n", i, j)
		}
	}
	return map[string]string{
		"2 MB of JSON in one line": `{"patch":"` + strings.Repeat(`+x\n`, 500_000) + `"}`,
		"a line of 2 MB":           "--- a/min.js\n+++ b/min.js\n@@ -1 +1 @@\n-short\n+" + strings.Repeat("<", 2_000_000) + "\n",
		"many lines of 10 kB":      "--- a/min.js\n+++ b/min.js\n@@ -1 +1 @@\n" + strings.Repeat("+"+strings.Repeat("x", 10_000)+"\n", 300),
		"bytes that are no text":   "--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + strings.Repeat("+"+strings.Repeat("\xff", 5_000)+"\n", 60),
		"20,000 lines":             patch.String(),
		"10,000 files":             files.String(),
		"49 files of 300 lines":    medium.String(),
		"binary":                   "diff --git a/x.png b/x.png\nindex 1..2 100644\nGIT binary patch\nliteral 5\n" + strings.Repeat("McmZ?wbhEHb\n", 3000),
		"binary, not shown":        "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n",
		"rename only":              "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n",
		"broken":                   "@@\n@@ -1,x\n--- a/x\nwhat\n@@\n-a\n+b\n",
		"a name of 2 MB":           "diff --git a/x b/x\nrename from x\nrename to " + strings.Repeat("y", 2_000_000) + "\n",
	}
}

// What a page may weigh: the one that a diff stands on, less what it weighs without
// one, and the pages that it leads to.
const (
	maxElements     = 5_000
	maxBytes        = 200_000
	maxPageElements = 11_000
	maxPageBytes    = 400_000
)

// page is what a test looks at of a page.
type page struct {
	elements int
	links    []string          // within what was asked for
	lines    map[string]string // of a diff, by the id of its figure, with a newline behind each
	ids      []string
	gets     []string // what data-get names
}

func read(t *testing.T, body, below string) page {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	p := page{lines: map[string]string{}}
	figure := ""
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		p.elements++
		for _, a := range n.Attr {
			switch {
			case a.Key == "href" && strings.HasPrefix(a.Val, below):
				p.links = append(p.links, a.Val)
			case a.Key == "id":
				p.ids = append(p.ids, a.Val)
				if n.Data == "figure" {
					figure = a.Val
				}
			case a.Key == "data-get":
				p.gets = append(p.gets, a.Val)
			case a.Key == "class" && a.Val == "lines":
				for line := n.FirstChild; line != nil; line = line.NextSibling {
					p.lines[figure] += text(line) + "\n"
				}
			}
		}
	}
	return p
}

func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// walk visits every page below an address that the first one leads to, and
// returns all the lines that these show, and what came as plain text.
func (s *site) walk(t *testing.T, first page, below string) (lines map[string]bool, raw string) {
	t.Helper()
	lines = map[string]bool{}
	seen := map[string]bool{}
	todo := slices.Clone(first.links)
	take := func(p page) {
		for _, l := range p.lines {
			for line := range strings.Lines(l) {
				lines[strings.TrimSuffix(line, "\n")] = true
			}
		}
	}
	take(first)
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[path] {
			continue
		}
		seen[path] = true
		r := s.get(s.in, path)
		if r.status == http.StatusSeeOther { // back to the card
			continue
		}
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d", path, r.status)
		}
		if strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			raw = r.body
			continue
		}
		if path == below { // the whole of a tool call, which shows everything in one
			raw = r.body
			continue
		}
		p := read(t, r.body, below)
		if p.elements > maxPageElements || len(r.body) > maxPageBytes {
			t.Errorf("%s: %d elements, %d bytes", path, p.elements, len(r.body))
		}
		for _, id := range p.gets {
			if !slices.Contains(p.ids, id) {
				t.Errorf("%s: a link would take the place of %s, which is not there", path, id)
			}
		}
		take(p)
		todo = append(todo, p.links...)
	}
	return lines, raw
}

// TestC37 puts each of these diffs on a card and into a turn, and follows the
// links from there until every line has been seen.
func TestC37(t *testing.T) {
	for name, text := range c37() {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			id := s.session()
			empty := s.get(s.in, "/s/"+id).body
			weigh := func(where string) page {
				body := s.get(s.in, "/s/"+id).body
				p, before := read(t, body, "/"), read(t, empty, "/")
				if e, b := p.elements-before.elements, len(body)-len(empty); e > maxElements || b > maxBytes {
					t.Errorf("%s: %d elements, %d bytes", where, e, b)
				}
				slices.Sort(p.ids)
				if len(slices.Compact(slices.Clone(p.ids))) != len(p.ids) {
					t.Errorf("%s: an id stands twice: %q", where, p.ids)
				}
				return p
			}
			all := func(where string, lines map[string]bool) {
				for line := range strings.Lines(text) {
					line = strings.TrimSuffix(line, "\n")
					if changed := line != "" && (line[0] == '+' || line[0] == '-') && !strings.HasPrefix(line, "+++ ") && !strings.HasPrefix(line, "--- "); changed && len(line) < 2000 && !lines[line] {
						t.Fatalf("%s: %q is nowhere", where, line)
					}
				}
			}

			s.apply(id, &state.SessionToolCallStart{TurnID: "t", ToolCallID: "c", ToolName: "edit", DisplayName: "Edit", Meta: state.Meta{"nod.input": []byte(`"diff"`)}})
			s.apply(id, &state.SessionToolCallReady{TurnID: "t", ToolCallID: "c", InvocationMessage: state.Plain("Edit"), ToolInput: &text, Confirmed: state.ConfirmedNotNeeded})
			weigh("a turn")
			below := "/s/" + id + "/turns/0/parts/0"
			lines, _ := s.walk(t, read(t, s.get(s.in, "/s/"+id).body, below), below)
			all("a turn", lines)

			a := s.ask(id, func(r *state.Request) { r.Kind, r.Input, r.Diff = state.RequestFileChange, "", text })
			weigh("a turn and a card")
			below = "/approvals/" + a.ID
			lines, raw := s.walk(t, read(t, s.get(s.in, "/s/"+id).body, below), below)
			all("a card", lines)
			if raw != text {
				t.Errorf("what comes as plain text has %d bytes, not %d", len(raw), len(text))
			}
		})
	}
}

// TestChangesThatAreNotThere: an address that names no diff, no file or no line
// leads nowhere; the plain text is nothing but that.
func TestChangesThatAreNotThere(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m", Content: state.NewText("no diff")}})
	a := s.ask(id, func(r *state.Request) {
		r.Kind, r.Diff = state.RequestFileChange, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+<b>\n"
	})
	none := s.ask(id, func(r *state.Request) { r.UpstreamID = []byte("2") })
	for path, want := range map[string]int{
		"/s/" + id + "/turns/0/parts/0/files":                       404,
		"/s/" + id + "/turns/0/parts/0/files/0":                     404,
		"/s/" + id + "/turns/0/parts/1/files":                       404,
		"/s/" + id + "/turns/1/parts/0/files":                       404,
		"/s/" + id + "/turns/-1/parts/x/files":                      404,
		"/s/x/turns/0/parts/0/files":                                404,
		"/approvals/x/files":                                        404,
		"/approvals/x/files/0":                                      404,
		"/approvals/x/raw":                                          404,
		"/approvals/" + none.ID + "/files":                          404,
		"/approvals/" + none.ID + "/raw":                            404,
		"/approvals/" + a.ID + "/files":                             200,
		"/approvals/" + a.ID + "/files?from=1":                      404,
		"/approvals/" + a.ID + "/files?from=-1":                     404,
		"/approvals/" + a.ID + "/files/0":                           200,
		"/approvals/" + a.ID + "/files/1":                           404,
		"/approvals/" + a.ID + "/files/x":                           404,
		"/approvals/" + a.ID + "/files/0?from=2":                    200,
		"/approvals/" + a.ID + "/files/0?from=3":                    404,
		"/approvals/" + a.ID + "/files/0?from=99999999999999999999": 404,
	} {
		if got := s.get(s.in, path).status; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	raw := s.get(s.in, "/approvals/"+a.ID+"/raw")
	if raw.body != a.Request.Diff || raw.header.Get("Content-Type") != "text/plain; charset=utf-8" || raw.header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(raw.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%q, %v", raw.body, raw.header)
	}
}
