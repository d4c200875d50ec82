package views

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// TestR17OneDoorForHTML fails on any place but one that writes HTML unescaped.
func TestR17OneDoorForHTML(t *testing.T) {
	raw := 0
	for _, pattern := range []string{"*.templ", "*.go", "*/*.go", "../handlers/*.go", "../handlers/*/*.go", "../cmd/*/*.go", "../state/*.go", "../state/*/*.go", "../agentconn/*.go", "../agentconn/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "_templ.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			raw += strings.Count(string(b), "templ.Raw(")
			for _, word := range []string{"WithUnsafe", "template.HTML", "html/template", "AllowDataAttributes", "templ.FromGoHTML", "style=\"", "onclick", "innerHTML"} {
				if strings.Contains(string(b), word) {
					t.Errorf("%s uses %s", f, word)
				}
			}
		}
	}
	if raw != 1 {
		t.Errorf("templ.Raw is used %d times", raw)
	}
}

// TestRevealedIsExact: what stands in the box is the text, to the byte, but for
// what is shown by a mark.
func TestRevealedIsExact(t *testing.T) {
	const text = "rm -rf \"$HOME\"/<b> &amp; 'x' | tee a > b; echo done"
	var b bytes.Buffer
	if err := revealed("bytes", text).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, b.String()); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
	b.Reset()
	if err := revealed("bytes", "a \u202eb\n\tc").Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, b.String()); got != "a U+202Eb→c" {
		t.Errorf("got %q", got)
	}
	if n := strings.Count(b.String(), `<bdi class="line"`); n != 2 {
		t.Errorf("%d lines", n)
	}
}

func textOf(t *testing.T, source string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

func TestCursor(t *testing.T) {
	c := Cursor{Epoch: "e", Seq: 7, Rev: 9}
	if ParseCursor(c.String()) != c {
		t.Errorf("%s", c)
	}
	for _, bad := range []string{"", "e", "e.1", "e.1.2.3", "e.x.1", "e.1.-1", "e.99999999999999999999999.1"} {
		if got := ParseCursor(bad); got != (Cursor{}) {
			t.Errorf("%q became %v", bad, got)
		}
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		duration(40): "0.0 s", duration(9_940): "9.9 s", duration(59_999): "59 s", duration(92_000): "1 m 32 s", duration(3_700_000): "1 h 1 m",
		count(999): "999", count(1234): "1.2k", count(182_400): "182k",
		plural(1, "line", "lines"): "1 line", plural(0, "line", "lines"): "0 lines",
		lastPath("/a/b/"): "b", lastPath("/"): "", oneLine("a\n\t b"): "a b",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEveryPartHasAPlace: a part that arrives alone names where it belongs, or
// is always on the page.
func TestEveryPartHasAPlace(t *testing.T) {
	b, err := os.ReadFile("session.templ")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"head", "composer", "plan", "list"} {
		if n := len(regexp.MustCompile(`id="`+id+`"`).FindAllString(string(b), -1)); n != 1 {
			t.Errorf("id %s is written %d times", id, n)
		}
	}
}

// onCard are the fields of a Request that a card shows. The others are of use to
// the program alone.
var onCard = map[string]bool{
	"Caution": true, "Reason": true, "Title": true, "Input": true, "Diff": true, "Details": true, "Cwd": true, "Environment": true, "Method": true, "Params": true, "Options": true, "Questions": true,
	"Session": false, "TurnID": false, "ToolCallID": false, "Provider": false, "Epoch": false, "UpstreamID": false, "Kind": false, "Folder": false, "Explains": false, "Editable": false,
}

// TestR13EveryFieldOfACard hides a character in each text that an agent can put
// on a card, and fails on a field of Request that nobody has classified.
func TestR13EveryFieldOfACard(t *testing.T) {
	for f := range reflect.TypeFor[state.Request]().Fields() {
		if _, ok := onCard[f.Name]; !ok {
			t.Errorf("field %s of Request: does a card show it?", f.Name)
		}
	}
	const trick = "a\u202eb"
	texts := func(n int) state.Request {
		r := state.Request{Kind: state.RequestUnknown, Options: []state.ConfirmationOption{{ID: "o", Label: "x", Kind: state.OptionApprove}}}
		q := &state.InputRequest{Message: new(""), Questions: []state.Question{{
			ID: "q", Kind: "single-select", Title: new(""), Options: []state.QuestionOption{{ID: "a", Description: new("")}},
		}}}
		fields := []*string{&r.Reason, &r.Title, &r.Input, &r.Cwd, &r.Method, &r.Options[0].Label,
			q.Message, q.Questions[0].Title, &q.Questions[0].Message, &q.Questions[0].Options[0].Label, q.Questions[0].Options[0].Description}
		switch {
		case n < len(fields):
			*fields[n] = trick
			r.Questions = q
		case n == len(fields):
			r.Diff = "--- " + trick + "\n+++ " + trick + "\n@@ -1 +1 @@\n-x\n+x\n"
		case n == len(fields)+1:
			r.Diff = "--- x\n+++ x\n@@ -1 +1 @@\n-x\n+" + trick + "\n"
		case n == len(fields)+2:
			r.Params = []byte(trick)
		case n == len(fields)+3:
			r.Environment = trick
		case n == len(fields)+4:
			r.Details = []state.Detail{{Label: trick}}
		case n == len(fields)+5:
			r.Details = []state.Detail{{Text: trick}}
		case n == len(fields)+6:
			q.URL = new("https://example.org/" + trick)
			r.Questions = q
		}
		return r
	}
	for n := range 18 {
		a := approvals.New(texts(n), 1)
		a.Request.Options = texts(n).Options // as if nothing were wrong with the parameters
		s := snapshot.Session{State: &state.Session{Summary: new(state.SessionSummary)}, Approvals: []*approvals.Approval{a}}
		var b bytes.Buffer
		if err := dockPart(s).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\u202e") || !strings.Contains(b.String(), `<span class="hid">U+202E</span>`) {
			t.Errorf("text %d hides a character:\n%s", n, b.String())
		}
	}
}

// TestOffered: what a session can be started with, whoever runs.
func TestOffered(t *testing.T) {
	daemon, own, demo := state.Link{Key: "codex@daemon", Provider: "codex"}, state.Link{Key: "codex", Provider: "codex"}, state.Link{Key: "demo", Provider: "demo"}
	for _, c := range []struct {
		daemon, own state.LinkStatus
		want        string
	}{
		{state.LinkIdle, state.LinkIdle, "codex demo"},
		{state.LinkUp, state.LinkIdle, "codex demo"},
		{state.LinkUp, state.LinkMissing, "codex@daemon demo"},
		{state.LinkIdle, state.LinkMissing, "demo"},
	} {
		daemon.Status, own.Status, demo.Status = c.daemon, c.own, state.LinkIdle
		var got []string
		for _, l := range Offered([]state.Link{daemon, own, demo}) {
			got = append(got, l.Key)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, %s: %v", c.daemon, c.own, got)
		}
	}
}
