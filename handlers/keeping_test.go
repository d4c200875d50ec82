package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nod/state"
)

// done ends the turn of a new session.
func (s *site) done() (id string) {
	s.t.Helper()
	id = s.session()
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	return id
}

// TestArchiveAndDelete through the pages: what is put away is listed apart, what
// is deleted is gone, and an open page of it is told.
func TestArchiveAndDelete(t *testing.T) {
	s := newSite(t)
	id := s.done()
	if r := s.post(s.in, "/s/"+id+"/archive", url.Values{}); r.status != http.StatusSeeOther {
		t.Fatalf("archive: %d", r.status)
	}
	if inbox := s.get(s.in, "/").body; strings.Contains(inbox, "/s/"+id) || !strings.Contains(inbox, `href="/archive"`) {
		t.Error("the inbox shows what is archived, or not the way to it")
	}
	if !strings.Contains(s.get(s.in, "/archive").body, "/s/"+id) {
		t.Error("the archive does not list it")
	}
	if r := s.post(s.in, "/s/"+id+"/unarchive", url.Values{}); r.status != http.StatusSeeOther || !strings.Contains(s.get(s.in, "/").body, "/s/"+id) {
		t.Errorf("unarchive: %d", r.status)
	}
	live := s.stream("/s/"+id+"/live", "")
	if page := s.get(s.in, "/s/"+id+"/delete").body; !strings.Contains(page, "cannot be undone") {
		t.Error("nobody is asked first")
	}
	if r := s.post(s.in, "/s/"+id+"/delete", url.Values{}); r.status != http.StatusSeeOther {
		t.Fatalf("delete: %d", r.status)
	}
	told := false
	for live.lines.Scan() {
		told = told || live.lines.Text() == "event: gone"
	}
	if !told {
		t.Error("an open page is not told")
	}
	if r := s.get(s.in, "/s/"+id); r.status != http.StatusNotFound {
		t.Errorf("the page of a deleted session: %d", r.status)
	}
	again := url.Values{"agent": {"codex"}, "session": {"ahp-session:/" + id}}
	if r := s.post(s.in, "/older", again); r.status != http.StatusSeeOther {
		t.Errorf("it is not opened again: %d", r.status)
	}
	if r := s.get(s.in, "/s/"+id); !strings.Contains(r.body, "recalled") {
		t.Errorf("the page of a session that was opened again: %d", r.status)
	}
	busy := s.session()
	for _, verb := range []string{"archive", "delete"} {
		if r := s.post(s.in, "/s/"+busy+"/"+verb, url.Values{}); r.status != http.StatusConflict || !strings.Contains(r.body, "still working") {
			t.Errorf("%s of a session at work: %d", verb, r.status)
		}
	}
}

// TestWholePart shows all of what the session's page shows an excerpt of.
func TestWholePart(t *testing.T) {
	s := newSite(t)
	id := s.session()
	var b strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&b, "Paragraph %d of a long message.\n\n", i)
	}
	long := b.String() + "the end <b>of it</b>"
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m", Content: state.NewText(long)}})
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	page := s.get(s.in, "/s/"+id).body
	if strings.Contains(page, "Paragraph 3000 ") || !strings.Contains(page, "Paragraph 0 ") || !strings.Contains(page, "the end") || !strings.Contains(page, `href="/s/`+id+`/turns/0/parts/0"`) {
		t.Error("the page shows all of a long message, or not the way to it")
	}
	whole := s.get(s.in, "/s/"+id+"/turns/0/parts/0")
	if whole.status != http.StatusOK || !strings.Contains(whole.body, "Paragraph 3000 ") || !strings.Contains(whole.body, "the end &lt;b&gt;of it&lt;/b&gt;") {
		t.Errorf("%d", whole.status)
	}
	for _, bad := range []string{"/turns/1/parts/0", "/turns/0/parts/1", "/turns/-1/parts/0", "/turns/x/parts/0"} {
		if r := s.get(s.in, "/s/"+id+bad); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", bad, r.status)
		}
	}
}
