package handlers

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// TestR20WholeText: the page leads from a text that is too long for it to all of it, which
// comes as a file and is text whatever it says.
func TestR20WholeText(t *testing.T) {
	s := newSite(t)
	id := s.session()
	long := "<script>alert(1)</script>" + strings.Repeat("x", 4<<20) + "the end"
	const turn = "t" // of every session of a test
	for _, a := range []state.Action{
		&state.SessionToolCallStart{TurnID: turn, ToolCallID: "c", ToolName: "read", DisplayName: "Read"},
		&state.SessionToolCallReady{TurnID: turn, ToolCallID: "c", InvocationMessage: state.Plain("read"), Confirmed: state.ConfirmedNotNeeded},
		&state.SessionToolCallComplete{TurnID: turn, ToolCallID: "c", Result: state.ToolCallResult{PastTenseMessage: state.Plain("read"), Content: []state.ToolResultContent{state.TextContent(long)}}},
	} {
		s.apply(id, a)
	}
	link := regexp.MustCompile(`href="(/s/[^"]*/texts/[^"]*)" download>All of it, 4096 kB`).FindStringSubmatch(s.get(s.in, "/s/"+id).body)
	if link == nil {
		t.Fatal("the page does not lead there")
	}
	r := s.get(s.in, link[1])
	if r.status != http.StatusOK || r.body != long {
		t.Errorf("%d, %d bytes", r.status, len(r.body))
	}
	for name, want := range map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Content-Disposition": `attachment; filename="nod-text.txt"`, "Cache-Control": "no-store"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, none := range []string{"/s/" + id + "/texts/0/0", "/s/" + id + "/texts/1/0", "/s/" + id + "/texts/x/0", link[1] + "1", "/s/other/texts/1/0"} {
		if r := s.get(s.in, none); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", none, r.status)
		}
	}
	if r := s.get(s.out, link[1]); r.status == http.StatusOK {
		t.Error("a stranger gets it")
	}
}

// TestR20TooLongForACard: a request that is too long to be approved shows its begin, and why
// it can only be denied.
func TestR20TooLongForACard(t *testing.T) {
	s := newSite(t)
	id := s.session()
	long := strings.Repeat("x", approvals.MaxRequest)
	a := s.ask(id, func(r *state.Request) {
		r.Kind, r.Params = state.RequestTool, []byte(`{"x":"`+long+`"}`)
		r.Details = []state.Detail{{Label: "Parameter x", Text: long}}
	})
	page := s.get(s.in, "/s/"+id).body
	if !strings.Contains(page, "too long for a page that shows all of it (4 MiB)") || !strings.Contains(page, `value="decline"`) || strings.Contains(page, `value="accept"`) {
		t.Error("the card does not say that it can only be denied")
	}
	if len(page) > 1<<20 || !strings.Contains(page, "bytes more") {
		t.Errorf("the page has %d bytes", len(page))
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "confirmed", "yes")); r.status < 400 || len(s.agent.answers) > 0 {
		t.Errorf("%d, and %d answers", r.status, len(s.agent.answers))
	}
}
