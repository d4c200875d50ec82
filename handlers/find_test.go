package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nod/state"
)

// TestR38Query: as much of a text is looked for as a person types.
func TestR38Query(t *testing.T) {
	s := newSite(t)
	id := s.session()
	long := strings.Repeat("é", 2*maxQuery)
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m", Content: state.NewText(long)}})
	page := s.get(s.in, "/s/"+id+"/find?q="+url.QueryEscape(long)).body
	if want := "<mark>" + strings.Repeat("é", maxQuery) + "</mark>"; !strings.Contains(page, want) {
		t.Errorf("not %d characters were looked for", maxQuery)
	}
	s.agent.older = state.OlderPage{}
	s.get(s.in, "/older?agent=codex&q="+url.QueryEscape(long))
	if len(s.agent.listed) != 1 || s.agent.listed[0] != strings.Repeat("é", maxQuery)+" " {
		t.Errorf("the agent was asked for %q", s.agent.listed)
	}
}

// TestR38PageIsBounded: whatever an agent writes, a page has some thousand elements.
func TestR38PageIsBounded(t *testing.T) {
	s := newSite(t)
	id := s.session()
	for range 10 {
		var parts []state.Envelope
		for range 1000 {
			parts = append(parts, state.Envelope{Channel: s.uri(id), Action: &state.SessionResponsePart{TurnID: "t", Part: &state.NotificationPart{Content: state.Plain("x")}}})
		}
		s.hub.Apply(t.Context(), s.uri(id), state.Source{}, parts...)
	}
	if n := strings.Count(s.get(s.in, "/s/"+id).body, "</"); n > 6000 || n < 100 {
		t.Errorf("%d elements", n)
	}
}

// TestC35Find finds what stands anywhere in a session, and leads to it.
func TestC35Find(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m", Content: state.NewText("Well, a <Needle> lies here.")}})
	s.apply(id, &state.SessionToolCallStart{TurnID: "t", ToolCallID: "c", ToolName: "shell", DisplayName: "Shell"})
	s.apply(id, &state.SessionToolCallReady{TurnID: "t", ToolCallID: "c", InvocationMessage: state.Plain("ls"), ToolInput: new("ls"), Confirmed: state.ConfirmedNotNeeded})
	s.apply(id, &state.SessionToolCallContentChanged{TurnID: "t", ToolCallID: "c", Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/c", "ls")}})
	s.hub.Apply(t.Context(), s.uri(id), state.Source{}, state.Envelope{Channel: "ahp-terminal:/c", Action: &state.TerminalData{Data: "a NEEDLE in the output\n"}})

	find := func(text string) string {
		t.Helper()
		r := s.get(s.in, "/s/"+id+"/find?q="+url.QueryEscape(text))
		if r.status != http.StatusOK {
			t.Fatalf("%q: %d", text, r.status)
		}
		return r.body
	}
	page := find("needle")
	output, message := strings.Index(page, "<mark>NEEDLE</mark> in the output"), strings.Index(page, "a &lt;<mark>Needle</mark>&gt; lies")
	if output < 0 || message < output || !strings.Contains(page, "2 places, the newest first") {
		t.Errorf("not both, the newest first: %s", page)
	}
	link := "/s/" + id + "/before/0/1"
	if !strings.Contains(page, `href="`+link+`#t0p0"`) {
		t.Errorf("no way to the message: %s", page)
	}
	if r := s.get(s.in, link); r.status != http.StatusOK || !strings.Contains(r.body, `id="t0p0"`) || strings.Contains(r.body, `id="t0p1"`) {
		t.Errorf("the way leads elsewhere: %d", r.status)
	}
	if page := find("do it"); !strings.Contains(page, "what was asked") || !strings.Contains(page, `/before/0/0#t0"`) {
		t.Errorf("what was asked is not found: %s", page)
	}
	for _, text := range []string{"", "a.*here", strings.Repeat("é", 5000), "\x00\xff("} {
		if page := find(text); strings.Contains(page, "<mark>") {
			t.Errorf("%.20q was found", text)
		}
	}
	if r := s.get(s.in, "/s/none/find?q=x"); r.status != http.StatusNotFound {
		t.Errorf("in no session: %d", r.status)
	}
}
