package views

import (
	"encoding/json"
	"strings"
	"testing"

	"nod/state"
	"nod/state/snapshot"
)

func metaOf(t *testing.T, members map[string]any) state.Meta {
	t.Helper()
	m := state.Meta{}
	for k, v := range members {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		m[k] = raw
	}
	return m
}

// pageOf is the page of a session with an open turn of these parts.
func pageOf(t *testing.T, meta state.Meta, parts ...state.ResponsePart) string {
	t.Helper()
	st := &state.Session{
		Summary: &state.SessionSummary{Resource: "ahp-session:/id", WorkingDirectory: new("file:///w")}, Meta: meta,
		Turns: []*state.Turn{}, ActiveTurn: &state.ActiveTurn{ID: "t", Message: state.UserMessage("go"), ResponseParts: state.PartsOf(parts...)},
	}
	sheet := NewSheet("e", nil, func() {})
	sheet.Show(t.Context(), snapshot.Session{ID: "id", Seq: 1, State: st}, snapshot.Inbox{}, nil)
	return rendered(t.Context(), sheet.Page(Draft{}))
}

const nasty = "\x1b[31m<script>x</script>&amp;"

// TestNotesOfAnAnswer shows the remarks that have a form of their own. What an
// agent says in one is text, and only so much of it.
func TestNotesOfAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		part state.ResponsePart
		want string
	}{
		"a person":    {&state.NotificationPart{Content: state.Plain(nasty), Meta: metaOf(t, map[string]any{"nod.said": "user"})}, `class="ask said"`},
		"questions":   {&state.NotificationPart{Meta: metaOf(t, map[string]any{"nod.questions": []map[string]any{{"title": nasty, "options": []string{nasty, "b"}}}})}, `<li><bdi>b</bdi></li>`},
		"a review":    {&state.NotificationPart{Content: state.Plain(nasty), Meta: metaOf(t, map[string]any{"nod.review": "begin"})}, `class="divide"`},
		"a warning":   {&state.NotificationPart{Content: state.Plain(nasty), Meta: metaOf(t, map[string]any{"nod.level": "warning"})}, `class="notice gap"`},
		"a message":   {&state.NotificationPart{Content: state.Plain("not understood"), Meta: metaOf(t, map[string]any{"nod.raw": nasty + strings.Repeat("x", 2*maxRaw)})}, `bytes more`},
		"a half":      {&state.MarkdownPart{ID: "m", Content: state.NewText("half"), Meta: metaOf(t, map[string]any{"nod.joined": true})}, `class="joined"`},
		"half a word": {&state.ReasoningPart{ID: "m", Content: state.NewText("half"), Meta: metaOf(t, map[string]any{"nod.joined": true, "nod.thoughts": "raw"})}, `word for word`},
		"a command":   {&state.ToolCallPart{ToolCall: state.ToolCall{ToolCallID: "c", Status: state.ToolStreaming, Meta: metaOf(t, map[string]any{"nod.cwd": "/w/sub" + nasty, "nod.about": "reads " + nasty})}}, `in /w/sub`},
		"odd":         {&state.NotificationPart{Content: state.Plain("as it is"), Meta: metaOf(t, map[string]any{"nod.said": 7, "nod.questions": "x", "nod.level": []int{1}})}, `<p class="notice"><bdi>as it is</bdi>`},
	} {
		page := pageOf(t, nil, c.part)
		if !strings.Contains(page, c.want) {
			t.Errorf("%s: no %s in\n%s", name, c.want, page)
		}
		if strings.Contains(page, "<script>x") || strings.Contains(page, "\x1b") {
			t.Errorf("%s: an agent's text is more than text", name)
		}
	}
	many := make([]map[string]any, 2*maxOptions)
	for i := range many {
		many[i] = map[string]any{"title": "q", "options": make([]string, 2*maxOptions)}
	}
	if n := strings.Count(pageOf(t, nil, &state.NotificationPart{Meta: metaOf(t, map[string]any{"nod.questions": many})}), "<li>"); n > maxOptions*maxOptions {
		t.Errorf("%d options are drawn", n)
	}
}

// TestSuperseded: of a text and the whole of it, a page shows the whole.
func TestSuperseded(t *testing.T) {
	half := &state.MarkdownPart{ID: "m", Content: state.NewText("a half")}
	whole := &state.MarkdownPart{ID: "m/completed", Content: state.NewText("all of it"), Meta: metaOf(t, map[string]any{"nod.supersedes": "m"})}
	if page := pageOf(t, nil, half, &state.NotificationPart{Content: state.Plain("between")}, whole); strings.Contains(page, "a half") || !strings.Contains(page, "all of it") {
		t.Errorf("%s", page)
	}
	if page := pageOf(t, nil, half); !strings.Contains(page, "a half") {
		t.Errorf("%s", page)
	}
}

// TestHeadSaysHowFull the context is, and the plan why it is as it is.
func TestHeadSaysHowFull(t *testing.T) {
	meta := metaOf(t, map[string]any{
		"nod.context": map[string]int{"tokens": 38_760, "window": 258_400}, "nod.planWhy": "because " + nasty,
		"nod.plan": []map[string]string{{"step": "a", "status": "pending"}},
	})
	if page := pageOf(t, meta); !strings.Contains(page, "context 15 % of 258k") || !strings.Contains(page, "because &lt;script") {
		t.Errorf("%s", page)
	}
	if page := pageOf(t, metaOf(t, map[string]any{"nod.context": map[string]int{"tokens": 1, "window": 0}})); strings.Contains(page, "context ") {
		t.Error("a window that is not known is not shown")
	}
}

// TestHeadSaysTotals of a session that was put away, if it has changed something.
func TestHeadSaysTotals(t *testing.T) {
	if page := pageOf(t, metaOf(t, map[string]any{"nod.totals": map[string]any{"added": 7, "removed": 1, "files": 2, "requests": 1.5}})); !strings.Contains(page, "+7 −1 lines in 2 files · 1.5 premium requests") {
		t.Errorf("%s", page)
	}
	for _, odd := range []any{nasty, map[string]any{"files": 0}, map[string]any{"files": nasty}} {
		if page := pageOf(t, metaOf(t, map[string]any{"nod.totals": odd})); strings.Contains(page, "lines in") {
			t.Errorf("%v is shown", odd)
		}
	}
}

// TestTurnThatNobodyAskedFor does not look as if a person had asked, except in a
// sub-agent's session, where the agent that has started it asks.
func TestTurnThatNobodyAskedFor(t *testing.T) {
	alone := func(parent, text string) string {
		st := &state.Session{
			Summary: &state.SessionSummary{Resource: "ahp-session:/id"},
			Turns:   []*state.Turn{{ID: "t", State: state.TurnComplete, Message: state.Message{Text: text, Origin: state.MessageOrigin{Kind: "systemNotification"}}}},
		}
		sheet := NewSheet("e", nil, func() {})
		sheet.Show(t.Context(), snapshot.Session{ID: "id", Seq: 1, Parent: parent, State: st}, snapshot.Inbox{}, nil)
		return rendered(t.Context(), sheet.Page(Draft{}))
	}
	for _, c := range []struct{ parent, text, want string }{
		{"", "", `<p class="divide"><bdi>The agent goes on by itself</bdi></p>`},
		{"p", "", `<p class="divide"><bdi>The agent goes on by itself</bdi></p>`},
		{"", nasty, `<p class="divide"><bdi>&lt;script&gt;x&lt;/script&gt;&amp;amp;</bdi></p>`},
		{"p", "look", `<div class="ask"><bdi>look</bdi></div>`},
	} {
		if page := alone(c.parent, c.text); !strings.Contains(page, c.want) {
			t.Errorf("%q %q: %s", c.parent, c.text, page)
		}
	}
}
