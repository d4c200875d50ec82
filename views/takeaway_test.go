package views

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"nod/state"
	"nod/state/redact"
	"nod/state/share"
	"nod/state/snapshot"
	"nod/static"
)

// recorded is one session of all that the real agents have said, each in turns of its
// own, as guests see it.
func recorded(t *testing.T) snapshot.Session {
	t.Helper()
	files, _ := filepath.Glob("../agentconn/*/testdata/golden/*.json")
	if len(files) < 50 {
		t.Fatalf("there are %d recordings", len(files))
	}
	s := snapshot.Session{Seq: 1, State: &state.Session{Summary: &state.SessionSummary{
		Title: "All that they said", CreatedAt: 1.7e12, Model: &state.ModelSelection{ID: "gpt-5"},
	}}, Link: state.Link{Provider: "codex", DisplayName: "Codex"}, LastEvent: 1.7e12}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct {
			State     json.RawMessage
			Terminals map[string]json.RawMessage
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			st := new(state.Session)
			if err := state.Unmarshal(one.State, st); err != nil {
				t.Fatal(err)
			}
			s.State.Turns = append(s.State.Turns, st.Turns...)
			if raw, is := st.Meta["nod.plan"]; is {
				s.State.Meta = state.Meta{"nod.plan": raw}
			}
			for uri, raw := range one.Terminals {
				terminal := new(state.Terminal)
				if err := state.Unmarshal(raw, terminal); err != nil {
					t.Fatal(err)
				}
				s.Terminals = s.Terminals.With(uri, terminal)
			}
		}
	}
	return seenByGuests(s)
}

// seenByGuests is the picture of a session of which everything is shared.
func seenByGuests(s snapshot.Session) snapshot.Session {
	p := share.New(share.Terms{Reasoning: true, Output: true, Diffs: true}, redact.New(redact.Owner{}))
	seen, _, _ := p.Take(s, time.UnixMilli(1.7e12))
	return seen
}

// hostile are texts of an agent that have taken over some document, somewhere.
var hostile = []string{
	`<script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>`,
	`"><script src=//evil.test/x.js></script>' onmouseover='alert(1)' style="position:fixed`,
	`</div></main></details></pre></section></bdi></style></title><script>alert(1)</script><h1>owned</h1>`,
	"<!-- --><!--><script>alert(1)</script>--!>\n\n<!-- the rest is not to be seen",
	`<form action=/logout method=post><button>Approve</button></form><base href=//evil.test/><link rel=stylesheet href=//evil.test/x><meta http-equiv=refresh content=0;url=//evil.test>`,
	`[a](javascript:alert(1)) [b](//evil.test) [c](/logout) [d](#t0) [e](http://evil.test/x) <http://evil.test/y> http://evil.test/z www.evil.test m@evil.test`,
	"![x](http://evil.test/leak?q=1) ![](http://evil.test/2) [![z](http://evil.test/3)](http://evil.test/4)\n\n[a]: http://evil.test \"x\"\n\n[a] ![a] ![b][a]",
	"```go\nfunc main() {\n",
	"~~~~ x\n```\n~~~\n<script>alert(1)</script>",
	"- a\n  - b\n\n    ```\n    open",
	"> quoted\n> ```\n> open",
	"# Turn 7\n\n> Delete all of it.\n\nTurn 8\n======\n\ntwo\nlines\n---\n\n## ✓ `make test`\n\n> - deep\n>   # Turn 9\n>\n>   x\n>   ===",
	"<details><summary>open\n\n<table><tr><td>\n\n<pre>",
	"<?php open\n\n<![CDATA[ open\n\n<!DOCTYPE x\n\n<x-y a='\n\n<div\nb",
	"[a]: <http://evil.test>\n[^1]: a note\n[Turn 1]: http://evil.test\n\n[Turn 1] [^1]\n\n[^2]: that\n    goes on\n\n- [x]: /y\n> [z]: /y 'open",
	"    indented\n\ttab\n\n| a | b |\n|---|---|\n| `<b>` | <b> |\n\n- [x] done",
	"x\u202e\u2066gpj.exe\u2069\u202c\u200b\ufeff\u2028# y\u2029 \x1b[31mred\x1b[0m \x00\x07 a\r# b\r\n# c\x0c# d\u0085# e \xff",
	"`` ` ``` ```` open ` <b> \\<b> \\\\<b> &lt;b&gt; &#35; \\",
	"*open **and __more _of ~~it [and [this ![and",
	"Vec<T> a<b>c</b> 1 < 2 > 0 <a@b.test> <ftp://x> <javascript:x> <!x> <!--> <?>",
	"---\ntitle: front\n---\n\n***\n\na\n\\\n===",
	"#\n##\n### ###\n#	tab\n   # three\n    # four\n#no\n####### seven",
	"1. one\n\n   <div>\n\n   two\n\n1) other\n\n   # in a list",
	"",
	" \n\t\n",
}

// spoofed is a session in which everything that an agent can say is one text.
func spoofed(text string) snapshot.Session {
	diff := "--- a/" + text + "\n+++ b/x\n@@ -1 +1 @@ " + text + "\n-" + text + "\n+" + text + "\n"
	call := func(kind, input string) *state.ToolCallPart {
		return &state.ToolCallPart{ToolCall: state.ToolCall{
			ToolCallID: text, ToolName: text, DisplayName: text, Status: state.ToolCompleted, Success: new(false),
			InvocationMessage: new(state.Plain(text)), PastTenseMessage: new(state.Plain(text)), ToolInput: &input,
			Meta: state.Meta{"nod.input": fmt.Appendf(nil, "%q", kind)}, Error: &state.ToolError{Message: text},
			Content: []state.ToolResultContent{state.TextContent(text), state.TerminalContent("ahp-terminal:/"+kind, text)},
		}}
	}
	turn := &state.Turn{
		ID: text, Message: state.UserMessage(text), State: state.TurnError, Error: &state.ErrorInfo{Message: text},
		ResponseParts: []state.ResponsePart{
			&state.MarkdownPart{ID: text, Content: state.NewText(text)},
			&state.ReasoningPart{ID: text + "r", Content: state.NewText(text)},
			call("command", text+"\nend"), call("diff", diff), call("json", text+"\nend"), call("", text+"\nend"),
			&state.NotificationPart{Content: state.Plain(text)},
			&state.NotificationPart{Content: state.StringOrMarkdown{Text: text, Markdown: true}},
			&state.NotificationPart{Content: state.Plain(text), Meta: state.Meta{"nod.said": []byte(`"user"`)}},
			&state.NotificationPart{Content: state.Plain(text), Meta: state.Meta{"nod.review": []byte(`true`)}},
			&state.MarkdownPart{ID: text + "2", Content: state.NewText(text)},
		},
	}
	turn.Message.Attachments = []state.MessageAttachment{{Type: "simple", Label: text}}
	alone := *turn
	alone.Message = state.Message{Text: text, Origin: state.MessageOrigin{Kind: "systemNotification"}}
	step, _ := json.Marshal([]planStep{{Step: text, Status: "inProgress"}})
	why, _ := json.Marshal(text)
	s := snapshot.Session{
		Link: state.Link{Provider: text, DisplayName: text},
		State: &state.Session{
			Summary: &state.SessionSummary{Title: text, Provider: text, Model: &state.ModelSelection{ID: text}},
			Turns:   []*state.Turn{turn, &alone}, Meta: state.Meta{"nod.plan": step, "nod.planWhy": why},
			ActiveTurn: &state.ActiveTurn{ID: "now", Message: state.UserMessage(text), ResponseParts: state.PartsOf(turn.ResponseParts[0], turn.ResponseParts[2])},
		},
	}
	for _, kind := range []string{"command", "diff", "json", ""} {
		s.Terminals = s.Terminals.With("ahp-terminal:/"+kind, &state.Terminal{Content: []state.TerminalPart{
			&state.UnclassifiedPart{Value: state.NewText(text)}, &state.CommandPart{CommandLine: text, Output: state.NewText(text), IsComplete: true},
		}})
	}
	return seenByGuests(s)
}

// TestTakeawayNeedsNothing: no script, no form, nothing that is fetched, and no link
// that leads out of the file, whatever the agent says.
func TestTakeawayNeedsNothing(t *testing.T) {
	sessions := []snapshot.Session{recorded(t)}
	for _, text := range hostile {
		sessions = append(sessions, spoofed(text))
	}
	never := strings.Fields("script form input button textarea select link base iframe object embed img svg math video audio source template noscript")
	for i, s := range sessions {
		doc, err := html.Parse(strings.NewReader(drawn(t, Takeaway(s, 1.7e12))))
		if err != nil {
			t.Fatal(err)
		}
		ids, styles, titles := map[string]bool{}, 0, 0
		var links []string
		for n := range doc.Descendants() {
			if n.Type == html.CommentNode {
				t.Errorf("%d: a comment %q", i, n.Data)
			}
			if n.Type != html.ElementNode {
				continue
			}
			if slices.Contains(never, n.Data) || n.Namespace != "" {
				t.Errorf("%d: an element %s", i, n.Data)
			}
			switch n.Data {
			case "style":
				styles++
				if css := n.FirstChild.Data; strings.Contains(css, "url(") || strings.Contains(css, "@import") {
					t.Error("the style sheet loads something")
				}
			case "title":
				titles++
			}
			for _, a := range n.Attr {
				switch a.Key {
				case "id":
					if ids[a.Val] {
						t.Errorf("%d: the id %s is there twice", i, a.Val)
					}
					ids[a.Val] = true
				case "href":
					links = append(links, a.Val)
				case "src", "srcset", "action", "formaction", "data", "poster", "background", "ping", "style", "srcdoc":
					t.Errorf("%d: an attribute %s=%q", i, a.Key, a.Val)
				}
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("%d: an attribute %s", i, a.Key)
				}
			}
		}
		if styles != 1 || titles != 1 {
			t.Errorf("%d: %d style sheets, %d titles", i, styles, titles)
		}
		if turns := snapshot.TurnCount(s.State); len(links) != turns {
			t.Errorf("%d: %d links for %d turns", i, len(links), turns)
		}
		for _, to := range links {
			if !strings.HasPrefix(to, "#") || !ids[to[1:]] {
				t.Errorf("%d: a link to %q", i, to)
			}
		}
		for n := range snapshot.TurnCount(s.State) {
			if !ids[fmt.Sprintf("t%d", n)] || !ids[fmt.Sprintf("t%df", n)] {
				t.Errorf("%d: turn %d is not all there", i, n)
			}
		}
	}
}

// TestTakeawayLeavesNothingOut: what a page shows the begin and the end of, or by
// pages, a file has all of.
func TestTakeawayLeavesNothingOut(t *testing.T) {
	const lines = 30_000
	long := func(prefix string) string {
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, "%s%d.\n", prefix, i)
		}
		return b.String()
	}
	call := func(kind, input string, content ...state.ToolResultContent) *state.ToolCallPart {
		return &state.ToolCallPart{ToolCall: state.ToolCall{
			ToolCallID: kind, DisplayName: "x", Status: state.ToolCompleted, Success: new(true), ToolInput: &input,
			Meta: state.Meta{"nod.input": fmt.Appendf(nil, "%q", kind)}, Content: content,
		}}
	}
	const kind = "command"
	message := state.UserMessage(long("said"))
	for i := range 50 {
		message.Attachments = append(message.Attachments, state.MessageAttachment{Label: fmt.Sprintf("file%d.", i)})
	}
	turn := &state.Turn{Message: message, State: state.TurnComplete, ResponseParts: []state.ResponsePart{
		&state.MarkdownPart{Content: state.NewText(strings.ReplaceAll(long("told"), "\n", "\n\n"))},
		&state.ReasoningPart{Content: state.NewText(long("thought"))},
		call(kind, long("ran"), state.TerminalContent("ahp-terminal:/1", "")),
		call("diff", "--- a/x\n+++ b/x\n@@ -0,0 +1,30000 @@\n"+long("+added")+strings.Repeat("--- a/y\n+++ b/y\n@@ -1 +1 @@\n+one\n", 200)),
		call("json", "["+long("asked")+"]", state.TextContent(long("found"))),
	}}
	alone := &state.Turn{Message: state.Message{Text: long("alone"), Origin: state.MessageOrigin{Kind: "systemNotification"}}}
	s := snapshot.Session{State: &state.Session{Summary: new(state.SessionSummary), Turns: []*state.Turn{turn, alone}}}
	s.Terminals = s.Terminals.With("ahp-terminal:/1", &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{Output: state.NewText(long("put"))}}})
	for range 300 {
		s.State.Turns = append(s.State.Turns, &state.Turn{Message: state.UserMessage("again")})
	}
	text := textOf(t, drawn(t, Takeaway(seenByGuests(s), 1.7e12)))
	for _, word := range []string{"said", "told", "thought", "ran", "added", "asked", "found", "alone", "put"} {
		at := 0
		for i := range lines {
			n := strings.Index(text[at:], fmt.Sprintf("%s%d.", word, i))
			if n < 0 {
				t.Fatalf("line %d of what was %s is not there", i, word)
			}
			at += n
		}
	}
	for _, want := range []string{"file49.", "Turn 302"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, word := range []string{"Show all", "more files", "characters more", "lines more"} {
		if strings.Contains(text, word) {
			t.Errorf("it says %q", word)
		}
	}
}

// TestTakeawayShowsExactInput: an input of some lines is not only the one line of its
// heading.
func TestTakeawayShowsExactInput(t *testing.T) {
	input := "cat <<E\n  x\nE"
	s := snapshot.Session{State: &state.Session{Summary: new(state.SessionSummary), Turns: []*state.Turn{{ResponseParts: []state.ResponsePart{
		&state.ToolCallPart{ToolCall: state.ToolCall{Status: state.ToolCompleted, InvocationMessage: new(state.Plain(input)), ToolInput: &input, Meta: state.Meta{"nod.input": []byte(`"command"`)}}},
	}}}}}
	if page := drawn(t, Takeaway(seenByGuests(s), 1.7e12)); !strings.Contains(page, `<pre class="input"`) {
		t.Error("the input is not there")
	}
}

// TestTakeawayStyle: a file has the rules for all that is in it, and not those for what
// is not.
func TestTakeawayStyle(t *testing.T) {
	sheet, err := static.FS.ReadFile("nod.css")
	if err != nil {
		t.Fatal(err)
	}
	comments := regexp.MustCompile(`(?s)/\*.*?\*/`)
	classes := func(css string) map[string]bool {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(`\.([a-z][a-z0-9-]*)`).FindAllStringSubmatch(comments.ReplaceAllString(css, ""), -1) {
			found[m[1]] = true
		}
		return found
	}
	ours, all := classes(style), classes(string(sheet))
	page := drawn(t, Takeaway(recorded(t), 1.7e12)) + drawn(t, Takeaway(spoofed("x\x1b[31my"), 1.7e12))
	_, page, _ = strings.Cut(page, "</style>")
	for _, m := range regexp.MustCompile(` class="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		for _, c := range strings.Fields(m[1]) {
			if all[c] && !ours[c] {
				t.Errorf("the rules for %s are missing", c)
				ours[c] = true
			}
		}
	}
	for _, c := range []string{"button", "proof", "choice", "send", "pending", "findings"} {
		if !all[c] || ours[c] {
			t.Errorf("there are rules for %s", c)
		}
	}
	if strings.Contains(strings.ToLower(style), "</style") {
		t.Error("the style sheet ends itself")
	}
}
