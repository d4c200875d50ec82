package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"nod/state"
	"nod/state/snapshot"
	"nod/views"
)

// takenAway is a file of a session that has something of everything, more than fits.
func takenAway(t *testing.T) string {
	t.Helper()
	call := func(kind, input string, ok bool) *state.ToolCallPart {
		return &state.ToolCallPart{ToolCall: state.ToolCall{
			Status: state.ToolCompleted, Success: &ok, DisplayName: strings.Repeat("a long name ", 20), ToolInput: &input,
			Meta: state.Meta{"nod.input": fmt.Appendf(nil, "%q", kind)}, Content: []state.ToolResultContent{
				state.TerminalContent("t", ""), state.TextContent(strings.Repeat(strings.Repeat("result ", 60)+"\n", 100)),
			},
		}}
	}
	s := snapshot.Session{Link: state.Link{DisplayName: "Codex"}, State: &state.Session{
		Summary: &state.SessionSummary{Title: strings.Repeat("A long title ", 20)},
		Meta:    state.Meta{"nod.plan": []byte(`[{"step":"Test","status":"completed"},{"step":"Write","status":"inProgress"}]`)},
	}}
	s.Terminals = s.Terminals.With("t", &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{Output: state.NewText(strings.Repeat("\x1b[31moutput\x1b[0m "+strings.Repeat("x", 300)+"\n", 100))}}})
	for range 3 {
		s.State.Turns = append(s.State.Turns, &state.Turn{Message: state.UserMessage("Do it."), State: state.TurnComplete, ResponseParts: []state.ResponsePart{
			&state.ReasoningPart{Content: state.NewText("I think.")},
			&state.MarkdownPart{Content: state.NewText("[a](http://evil.test/a) ![b](http://evil.test/b)\n\n```\n" + strings.Repeat("code ", 100) + "\n```\n\n|" + strings.Repeat(" column |", 12) + "\n|" + strings.Repeat("---|", 12) + "\n")},
			call("command", strings.Repeat("make all && ", 60)+"true", true), call("json", `{"a":"`+strings.Repeat("b", 500)+`"}`, false),
			call("diff", "--- a/x\n+++ b/x\n@@ -1,100 +1,100 @@\n"+strings.Repeat("-"+strings.Repeat("old ", 100)+"\n+"+strings.Repeat("new ", 100)+"\n", 60), true),
		}})
	}
	file := filepath.Join(t.TempDir(), "session.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := views.Takeaway(s, 1.7e12).Render(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// TestTakeawayByItself: the file needs nothing and runs nothing, and its table of turns
// works, also without scripts.
func TestTakeawayByItself(t *testing.T) {
	t.Parallel()
	address := takenAway(t)
	for name, l := range map[string]look{
		"phone": phone, "desk": desk, "phone, dark": {width: 390, height: 844, dark: true}, "desk, dark": {width: 1440, height: 900, dark: true},
	} {
		b := newBrowser(t, l)
		g := b.guarded()
		b.goTo(address)
		b.run("document.querySelectorAll('details').forEach(d => d.open = true)")
		for _, fault := range eval[[]string](b, faults) {
			t.Errorf("%s: %s", name, fault)
		}
		b.click(".contents li:last-child a")
		b.until("the last turn", "location.hash === '#t2' && Math.abs(document.querySelector('#t2').getBoundingClientRect().top) < innerHeight")
		if stopped := eval[[]string](b, "window.stopped"); len(stopped) > 0 {
			t.Errorf("%s: the policy had to stop %q", name, stopped)
		}
		g.mu.Lock()
		if len(g.requests) != 1 || g.requests[0] != address {
			t.Errorf("%s: requests for %q", name, g.requests)
		}
		g.mu.Unlock()
		if said := b.complaints(); len(said) > 0 {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestTakeawayOnPaper: what is printed is black on white, open and not cut, also from a
// dark window.
func TestTakeawayOnPaper(t *testing.T) {
	t.Parallel()
	address := takenAway(t)
	b := newBrowser(t, look{width: 720, height: 1000, dark: true})
	b.goTo(address)
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, fault := range eval[[]string](b, `(() => {
		const found = [], body = getComputedStyle(document.body);
		if (body.backgroundColor !== 'rgb(255, 255, 255)' || body.color !== 'rgb(0, 0, 0)') found.push(body.color + ' on ' + body.backgroundColor);
		for (const e of document.querySelectorAll('details > :not(summary)'))
			if (!e.closest('.plan') && !e.checkVisibility()) found.push('closed: ' + e.outerHTML.slice(0, 80));
		for (const e of document.querySelectorAll('pre, .lines, .label, .title, .scroll, .aside, figcaption'))
			if (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)
				if (getComputedStyle(e).display !== 'inline') found.push('cut: ' + e.outerHTML.slice(0, 80));
		for (const e of document.querySelectorAll('*'))
			if (/fixed|sticky/.test(getComputedStyle(e).position)) found.push('stays in sight: ' + e.outerHTML.slice(0, 80));
		if (!document.querySelector('.plan > ol').getBoundingClientRect().height) found.push('no plan');
		for (const a of document.links) if (!/underline/.test(getComputedStyle(a).textDecorationLine)) found.push('a link by its colour only');
		if (document.scrollingElement.scrollWidth > innerWidth) found.push('too wide');
		return [...new Set(found)];
	})()`) {
		t.Error(fault)
	}
	for _, fault := range eval[[]string](b, faults) {
		if !strings.Contains(fault, "px to hit") { // nobody does
			t.Error(fault)
		}
	}
}
