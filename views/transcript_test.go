package views

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"nod/state"
	"nod/state/snapshot"
	"nod/views/markdown"
)

func written(t *testing.T, s snapshot.Session) string {
	t.Helper()
	var b strings.Builder
	if err := Transcript(&b, s, 1.7e12); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// outline is the structure of a transcript: its headings of the first three levels, by
// the words that are its own, the block below each turn's, and the blocks below those
// of tool calls.
func outline(t *testing.T, source string) (lines []string) {
	t.Helper()
	src := []byte(source)
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser().Parse(text.NewReader(src))
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.HTMLBlock, *ast.RawHTML, *ast.Image, *ast.LinkReferenceDefinition:
			t.Errorf("there is a %s in\n%s", n.Kind(), source)
		case *ast.Heading:
			if n.Level <= 3 && n.Parent() != doc {
				t.Errorf("a heading is in something in\n%s", source)
			}
		}
		return ast.WalkContinue, nil
	})
	call, turn := false, false
	own := strings.Fields("Turn Plan Thoughts Said Note This The ✓ ✕ – ● ▲")
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch h, is := n.(*ast.Heading); {
		case is && h.Level <= 3:
			word, _, _ := strings.Cut(string(h.Lines().Value(src)), " ")
			call, turn = h.Level == 3 && slices.Contains(own[7:], word), h.Level == 2
			if !slices.Contains(own, word) {
				word = "what it is called"
			}
			lines = append(lines, strings.Repeat("#", h.Level)+" "+word)
		case call, turn:
			lines = append(lines, n.Kind().String())
			turn = false
		}
	}
	return lines
}

// TestTranscriptStructure: the structure of a transcript is the session's, whatever
// its agent says.
func TestTranscriptStructure(t *testing.T) {
	want := strings.Join(outline(t, written(t, spoofed("harmless"))), "\n")
	if strings.Count(want, "## Turn") != 3 || strings.Count(want, "\nBlockquote") != 2 || strings.Count(want, "\n### ✕") != 9 {
		t.Fatalf("the structure is\n%s", want)
	}
	for _, evil := range hostile {
		if strings.TrimSpace(evil) == "" { // there is less of it then
			continue
		}
		if got := strings.Join(outline(t, written(t, spoofed(evil))), "\n"); got != want {
			t.Errorf("%q makes of it\n%s\nwant\n%s", evil, got, want)
		}
	}
}

// TestTranscriptIsExact: code is there to the byte, but for what would not be seen.
func TestTranscriptIsExact(t *testing.T) {
	input := "cat <<'E'\n```\n````` x\n~~~\n</details>\u202e\tE"
	output := "a\n```\n\x1b[31mred\x1b[0m\n# no heading\n"
	s := snapshot.Session{State: &state.Session{Summary: new(state.SessionSummary), Turns: []*state.Turn{{ResponseParts: []state.ResponsePart{
		&state.ToolCallPart{ToolCall: state.ToolCall{Status: state.ToolCompleted, InvocationMessage: new(state.Plain(input)), ToolInput: &input,
			Meta: state.Meta{"nod.input": []byte(`"command"`)}, Content: []state.ToolResultContent{state.TerminalContent("t", "")}}},
	}}}}}
	s.Terminals = s.Terminals.With("t", &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{Output: state.NewText(output)}}})
	src := []byte(written(t, seenByGuests(s)))
	var code []string
	doc := goldmark.DefaultParser().Parse(text.NewReader(src))
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() == ast.KindFencedCodeBlock {
			code = append(code, string(n.Lines().Value(src)))
		}
	}
	want := []string{markdown.Visible(input) + "\n", "a\n```\nred\n# no heading\n"}
	if !slices.Equal(code, want) {
		t.Errorf("got %q, want %q", code, want)
	}
}

// TestTranscript is how one reads.
func TestTranscript(t *testing.T) {
	input := "--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-a\n+b\n"
	turn := &state.Turn{
		Message: state.Message{Text: "Make it *fast*.\nPlease.", Origin: state.MessageOrigin{Kind: "user"}, Attachments: []state.MessageAttachment{{Label: "a`b.png"}}},
		State:   state.TurnError, Error: &state.ErrorInfo{Message: "The model is gone."},
		Usage: &state.UsageInfo{InputTokens: new(int64(1200)), OutputTokens: new(int64(30)), Meta: state.Meta{"nod.durationMs": []byte("9000")}},
		ResponseParts: []state.ResponsePart{
			&state.ReasoningPart{Content: state.NewText("**Hm.**")},
			&state.MarkdownPart{Content: state.NewText("# Plan\n\n1. `Map<K>` or Map<K>\n\n```go\nopen")},
			&state.NotificationPart{Content: state.Plain("and test it"), Meta: state.Meta{"nod.said": []byte(`"user"`)}},
			&state.ToolCallPart{ToolCall: state.ToolCall{Status: state.ToolCompleted, Success: new(true), DisplayName: "Edit", PastTenseMessage: new(state.Plain("Edited x.go")), ToolInput: &input, Meta: state.Meta{"nod.input": []byte(`"diff"`)}}},
			&state.ToolCallPart{ToolCall: state.ToolCall{Status: state.ToolCancelled, Reason: state.CancelledDenied, DisplayName: "Run a command", Meta: state.Meta{"nod.input": []byte(`"command"`)}}},
		},
	}
	got := written(t, seenByGuests(snapshot.Session{
		Link: state.Link{DisplayName: "Codex"}, LastEvent: 1.7e12, Cut: 3,
		State: &state.Session{
			Summary: &state.SessionSummary{Title: "Fast <now>", CreatedAt: 1.7e12, Model: &state.ModelSelection{ID: "gpt-5"}}, Turns: []*state.Turn{turn},
			Meta: state.Meta{"nod.plan": []byte(`[{"step":"Measure","status":"completed"},{"step":"Cut *it*","status":"inProgress"}]`)},
		},
	}))
	want := strings.TrimPrefix(strings.ReplaceAll(`
# Fast \<now\>

failed · Codex · gpt-5 · begun 14 November 2023, 22:13 UTC · last event 14 November 2023, 22:13 UTC · as it was on 14 November 2023, 22:13 UTC

## Plan

- [x] done: Measure
- [ ] now: Cut \*it\*

## Turn 4 · failed · 9.0 s · 1.2k in, 30 out

> Make it *fast*.
> Please.

Attached: ''a'b.png''

### Thoughts

**Hm.**

### Codex

#### Plan

1. 'Map<K>' or Map\<K>

'''go
open
'''

### Said while the turn ran

> and test it

### ✓ Edited x.go

Input:

'''diff
--- a/x.go
+++ b/x.go
@@ -1 +1 @@
-a
+b
'''

### – 'Run a command' · denied

Denied. It was not run.

### This turn failed

The model is gone.

`, "'", "`"), "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTranscriptOfRecordings: nothing that the real agents have said is missing a place.
func TestTranscriptOfRecordings(t *testing.T) {
	s := recorded(t)
	got := outline(t, written(t, s))
	turns := 0
	for _, line := range got {
		if line == "## Turn" {
			turns++
		}
	}
	if n := snapshot.TurnCount(s.State); turns != n {
		t.Errorf("%d turns, want %d", turns, n)
	}
}

// TestTranscriptEndsWithItsWriter: a reader that has gone ends it.
func TestTranscriptEndsWithItsWriter(t *testing.T) {
	if err := Transcript(failing{}, recorded(t), 0); err == nil {
		t.Error("no error")
	}
	if err := Takeaway(recorded(t), 0).Render(t.Context(), failing{}); err == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("the reader has gone") }
