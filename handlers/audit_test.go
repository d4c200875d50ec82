package handlers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nod/state"
	"nod/state/journal"
)

// answered is a site where a request was denied with a reason.
func answered(t *testing.T) *site {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) {
		r.Explains, r.Input, r.Params = "decline", "rm -rf \u202ebuild", json.RawMessage(`{"raw": "as  it came"}`)
	})
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline", "reason", "not <that> one")); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s.hub.Resolved(t.Context(), a.Request.Session, "e1", a.Request.UpstreamID, state.EndedAnswered)
	return s
}

// TestR42AuditPage tells who answered what, from where, and what became of it.
func TestR42AuditPage(t *testing.T) {
	s := answered(t)
	page := s.get(s.in, "/audit")
	for _, want := range []string{"Answered “Deny” to “Run a command?”", "127.0.0.1", "confirmed by the agent"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(page.body, "confirmed by the agent"); n != 1 || !strings.Contains(page.body, "U+202E") {
		t.Errorf("one line tells of the answer, with the command: %d\n%s", n, page.body)
	}
	m := regexp.MustCompile(`href="(/audit/\d+)"`).FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("no way to what was shown:\n%s", page.body)
	}
	shown := s.get(s.in, m[1])
	for _, want := range []string{"not &lt;that&gt; one", "U+202E", "rm", "as··it came", "confirmed by the agent"} {
		if !strings.Contains(stripped(shown.body), want) {
			t.Errorf("what was shown does not say %q:\n%s", want, shown.body)
		}
	}
	if r := s.get(s.in, "/audit/99999"); r.status != http.StatusNotFound {
		t.Errorf("an entry that is not there: %d", r.status)
	}
}

// stripped takes the elements out of a page.
func stripped(page string) string { return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "") }

// TestR42AuditExport sends every entry as a line, and no secret.
func TestR42AuditExport(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) {
		r.Kind, r.Input = state.RequestQuestion, ""
		r.Questions = &state.InputRequest{ID: "q", Questions: []state.Question{{ID: "key", Kind: "text", Message: "The key?", Format: new("password")}}}
		r.Options = []state.ConfirmationOption{{ID: "answer", Label: "Answer", Kind: state.OptionApprove}}
	})
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "answer", "t.key", "hunter2-canary", "confirmed", "yes")); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := s.agent.answers[0].Answers["key"].Given(); len(got) != 1 || got[0] != "hunter2-canary" {
		t.Fatalf("the agent got %q", got)
	}
	r := s.get(s.in, "/audit.jsonl")
	if !strings.HasPrefix(r.header.Get("Content-Disposition"), "attachment") {
		t.Error("it is shown, not saved")
	}
	if strings.Contains(r.body, "hunter2-canary") || strings.Contains(r.body, a.Nonce) {
		t.Error("a secret is in the record")
	}
	prev, decided := strings.Repeat("0", 64), false
	for lines := bufio.NewScanner(strings.NewReader(r.body)); lines.Scan(); {
		var x journal.AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if x.Prev != prev {
			t.Errorf("entry %d does not follow the one before", x.ID)
		}
		prev, decided = x.Hash, decided || x.What == "request decided" && x.About == a.ID && x.Actor != "" && x.Name != "" && x.Address == "127.0.0.1"
	}
	if !decided {
		t.Errorf("who decided is not there:\n%s", r.body)
	}
}

// TestR11AuditExportEndsWithTheSession, also for a browser that does not read, and what
// came of it does not look whole.
func TestR11AuditExportEndsWithTheSession(t *testing.T) {
	s := newSite(t)
	over := make(chan struct{})
	inner := s.srv.Config.Handler
	s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/audit.jsonl" {
			defer close(over)
		}
		inner.ServeHTTP(w, r)
	})
	big, err := json.Marshal(map[string]string{"title": strings.Repeat("x", 100<<10)})
	if err != nil {
		t.Fatal(err)
	}
	for at := range int64(100) { // more than the kernel takes
		if err := s.store.Append(t.Context(), journal.Batch{Audit: []journal.AuditEntry{{Time: at, What: "thing", Detail: big}}}); err != nil {
			t.Fatal(err)
		}
	}
	other := s.login()
	conn := s.raw(other, "/audit.jsonl")
	defer func() { _ = conn.Close() }()
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatal(got, err)
	}
	s.post(s.in, "/devices/"+s.who(other).ID+"/end", nil)
	<-over
	if b, err := io.ReadAll(got.Body); err == nil {
		t.Errorf("%d bytes look like all of it", len(b))
	}
}

// TestR42AuditIsPaged leads from the newest entries to the oldest, each once.
func TestR42AuditIsPaged(t *testing.T) {
	s := newSite(t)
	for at := range int64(2*auditPage + 1) {
		if err := s.store.Append(t.Context(), journal.Batch{Audit: []journal.AuditEntry{{Time: at, What: fmt.Sprintf("thing-%d.", at)}}}); err != nil {
			t.Fatal(err)
		}
	}
	path, pages, found := "/audit", 0, 0
	for path != "" {
		page := s.get(s.in, path).body
		found += strings.Count(page, "Thing-")
		pages++
		path = ""
		if m := regexp.MustCompile(`/audit\?before=\d+`).FindString(page); m != "" {
			path = m
		}
	}
	if pages < 3 || found != 2*auditPage+1 {
		t.Errorf("%d entries on %d pages", found, pages)
	}
}

// TestR42AuditCannotBeEdited: no route changes it.
func TestR42AuditCannotBeEdited(t *testing.T) {
	s := answered(t)
	before := s.get(s.in, "/audit.jsonl").body
	for _, path := range []string{"/audit", "/audit/1", "/audit.jsonl"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			if r := s.do(s.in, method, path, url.Values{}); r.status != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, r.status)
			}
		}
	}
	if s.get(s.in, "/audit.jsonl").body != before {
		t.Error("it was changed")
	}
}

// TestR42TheDoorIsRecorded: who came, who went, and who let whom do what.
func TestR42TheDoorIsRecorded(t *testing.T) {
	s := newSite(t)
	s.login(header("User-Agent", "Mozilla/5.0 (iPhone) Safari/1"))
	s.login(header("User-Agent", "Mozilla/5.0 (Android) Firefox/1"))
	devices, err := s.auth.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, d := range devices {
		if strings.Contains(d.Name, "iPhone") {
			id = d.ID
		}
	}
	for _, path := range []string{"/devices/" + id + "/look", "/devices/" + id + "/end", "/devices/" + id + "/end", "/devices/end-others", "/logout"} {
		if r := s.post(s.in, path, nil); r.status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
	}
	var got []string
	for x, err := range s.store.Audit(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if x.Actor == "" || x.Address != "127.0.0.1" {
			t.Errorf("%+v", x)
		}
		e := auditEntry(x)
		got = append(got, strings.TrimSpace(e.What+" "+e.Title))
	}
	want := []string{"logged in", "logged in", "logged in", "may only look from now on Safari on iPhone", "ended the session Safari on iPhone", "ended all other sessions", "logged out"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nnot\n%q", got, want)
	}
}
