package handlers

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/approvals"
)

// aForm has a question of each kind.
func aForm(r *state.Request) {
	r.Kind, r.Input = state.RequestQuestion, ""
	options := []state.QuestionOption{{ID: "a", Label: "A"}, {ID: "b", Label: "B"}}
	r.Questions = &state.InputRequest{ID: "q", Message: new("Who <is> it?"), Questions: []state.Question{
		{ID: "name", Kind: "text", Message: "Name", Max: jsontext.Value("5"), DefaultValue: jsontext.Value(`"Ada"`)},
		{ID: "mail", Kind: "text", Message: "Mail", Format: new("email"), Required: new(true)},
		{ID: "count", Kind: "integer", Message: "Count", Min: jsontext.Value("1"), Max: jsontext.Value("9"), DefaultValue: jsontext.Value("3")},
		{ID: "ok", Kind: "boolean", Message: "Ok?", DefaultValue: jsontext.Value("false")},
		{ID: "one", Kind: "single-select", Message: "One", Options: options, DefaultValue: jsontext.Value(`"b"`)},
		{ID: "many", Kind: "multi-select", Message: "Many", Options: options, Max: jsontext.Value("1"), DefaultValue: jsontext.Value(`["a"]`)},
		{ID: "key", Kind: "text", Message: "Key", Format: new(state.FormatSecret)},
	}}
	r.Options = []state.ConfirmationOption{
		{ID: "accept", Label: "Answer", Kind: state.OptionApprove}, {ID: "decline", Label: "Decline", Kind: state.OptionDeny}, {ID: "cancel", Label: "Cancel", Kind: state.OptionDeny},
	}
}

// TestFormIsShown: each field is of its kind, and holds its default.
func TestFormIsShown(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.ask(id, aForm)
	page := s.get(s.in, "/s/"+id).body
	for _, want := range []string{
		"Who &lt;is&gt; it?", ">Ada</textarea>", "At most 5 characters.", `name="t.mail" type="email" value="" autocomplete="off" aria-label="Answer" required`, `name="t.count" value="3"`, "A whole number. From 1 to 9.",
		`name="q.ok" value="false" checked`, `type="radio" name="q.one" value="b" checked`, `type="checkbox" name="q.many" value="a" checked`, `type="checkbox" name="q.many" value="b">`,
		`name="t.key" type="password" value="" autocomplete="off"`, `value="cancel"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the card lacks %s", want)
		}
	}
}

// TestFormIsChecked: what is wrong is told beside its field, what was typed stays,
// and nothing is sent until all of it is right. No page holds the secret.
func TestFormIsChecked(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), aForm)
	f := form(a, "accept", "t.name", "Ad<a> the longest", "t.mail", "ada at home", "t.count", "12", "q.ok", "true", "q.one", "z", "t.key", "hunter2", "seen", "yes", "from", "")
	f["q.many"] = []string{"a", "b"}
	r := s.post(s.in, "/approvals/"+a.ID, f)
	if r.status != http.StatusUnprocessableEntity || strings.Count(r.body, `class="problem"`) != 1+5 {
		t.Errorf("%d, %s", r.status, r.body)
	}
	for _, want := range []string{"5 answers are not of the form", "Ad&lt;a&gt; the longest</textarea>", `value="ada at home"`, `value="12"`, `name="q.ok" value="true" checked`, "An e-mail address.", "Choose from what is offered.", "At most 1 choice.",
		`name="digest" value="` + a.Digest, `name="nonce" value="` + a.Nonce} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(r.body, "hunter2") || len(s.agent.answers) > 0 {
		t.Errorf("the secret is shown, or %d answers were sent", len(s.agent.answers))
	}
	// The door itself refuses, too.
	if _, err := s.hub.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "accept"}); err != approvals.ErrAnswers {
		t.Errorf("%v", err)
	}
	f.Set("t.name", "Ada")
	f.Set("t.mail", "ada@example.org")
	f.Set("t.count", "9")
	f.Set("q.one", "a")
	f.Set("q.many", "b")
	if r := s.post(s.in, "/approvals/"+a.ID, f); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	got := s.agent.answers[0].Answers
	if got["name"].Text != "Ada" || got["mail"].Text != "ada@example.org" || !slices.Equal(got["many"].Selected, []string{"b"}) || !slices.Equal(got["key"].Secret, []string{"hunter2"}) {
		t.Errorf("%+v", got)
	}
}

// TestRefusingNeedsNoAnswers: what is wrong in a form hinders nobody from declining.
func TestRefusingNeedsNoAnswers(t *testing.T) {
	for _, option := range []string{"decline", "cancel"} {
		s := newSite(t)
		a := s.ask(s.session(), aForm)
		if r := s.post(s.in, "/approvals/"+a.ID, form(a, option, "t.count", "x")); r.status != http.StatusSeeOther || s.agent.answers[0].OptionID != option {
			t.Errorf("%s: %d", option, r.status)
		}
	}
}

// TestSecretWithoutAScript: the page in between does not carry a secret along, but
// has a field for it.
func TestSecretWithoutAScript(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, aForm)
	f := form(a, "accept", "t.mail", "a@b.c", "t.key", "hunter2")
	r := s.post(s.in, "/approvals/"+a.ID, f)
	if r.status != http.StatusOK || strings.Contains(r.body, "hunter2") || !strings.Contains(r.body, `name="t.key" type="password"`) || !strings.Contains(r.body, `type="hidden" name="t.mail" value="a@b.c"`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	f.Set("confirmed", "yes")
	if r := s.post(s.in, "/approvals/"+a.ID, f); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	if got := s.agent.answers[0].Answers["key"]; !slices.Equal(got.Secret, []string{"hunter2"}) {
		t.Errorf("%+v", got)
	}
	s.hub.Resolved(t.Context(), s.uri(id), "e1", []byte("1"), state.EndedAnswered)
	if page := s.get(s.in, "/s/"+id).body; strings.Contains(page, "hunter2") {
		t.Error("the session shows the secret")
	}
}

// TestSecretIsNotWritten looks for it in every file.
func TestSecretIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	s := newSiteIn(t, dir)
	a := s.ask(s.session(), aForm)
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "t.mail", "a@b.c", "t.key", "hunter2", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	s.leave()
	found := ""
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range files {
		b, _ := os.ReadFile(name) // others are folders
		found += string(b)
	}
	if strings.Contains(found, "hunter2") || !strings.Contains(found, "a@b.c") {
		t.Errorf("the secret is written: %v; the rest is: %v", strings.Contains(found, "hunter2"), strings.Contains(found, "a@b.c"))
	}
}

// TestC51ReasonOfADenial: a reason goes along with the denial alone, and where the
// agent cannot take one the card says so and what to do instead.
func TestC51ReasonOfADenial(t *testing.T) {
	explains := func(r *state.Request) { r.Explains, r.ToolCallID = "decline", "c" }
	for _, c := range []struct {
		option, reason, want string
		status               int
	}{
		{"decline", " not <there>\r\nbut here ", "not <there>\nbut here", http.StatusSeeOther},
		{"decline", "  ", "", http.StatusSeeOther},
		{"decline", strings.Repeat("é", state.MaxReason), strings.Repeat("é", state.MaxReason), http.StatusSeeOther},
		{"decline", strings.Repeat("é", state.MaxReason+1), "", http.StatusBadRequest},
		{"decline", "a\xff", "", http.StatusBadRequest},
		{"accept", "not there", "", http.StatusSeeOther},
	} {
		s := newSite(t)
		id := s.session()
		a := s.ask(id, explains)
		if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, `<textarea name="reason"`) {
			t.Fatal("the card has no field for a reason")
		}
		r := s.post(s.in, "/approvals/"+a.ID, form(a, c.option, "seen", "yes", "reason", c.reason))
		if r.status != c.status {
			t.Fatalf("%s %.20q: %d", c.option, c.reason, r.status)
		}
		if c.status != http.StatusSeeOther {
			if len(s.agent.answers) > 0 {
				t.Errorf("%.20q was sent", c.reason)
			}
			continue
		}
		if got := s.agent.answers[0]; got.OptionID != c.option || got.Reason != c.want {
			t.Errorf("%+v", got)
		}
		if page := s.get(s.in, "/s/"+id).body; c.want != "" && !strings.Contains(page, "Deny: "+strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(c.want)) {
			t.Errorf("the card does not say why: %.40q", c.want)
		}
	}
	s := newSite(t)
	id := s.session()
	s.ask(id)
	page := s.get(s.in, "/s/"+id).body
	if strings.Contains(page, `name="reason"`) {
		t.Error("there is a field for a reason that nobody would hear")
	}
	if !strings.Contains(page, `<textarea rows="2" disabled aria-label="Why not">`) || !strings.Contains(page, "The agent takes no reason along with this. Deny it, and then say why in a message.") {
		t.Error("the card does not say why there is none")
	}
}

// TestC51ReasonIsLost tells the person, and the denial stands.
func TestC51ReasonIsLost(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) { r.Explains = "decline" })
	s.agent.deaf = state.ErrReasonLost
	r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline", "reason", "why"))
	if r.status != http.StatusOK || !strings.Contains(r.body, "your reason did not reach the agent") || !strings.Contains(r.body, "The denial stands.") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if v, _ := s.hub.Session(s.hub.Inbox().Sessions[0].ID); v.Approvals[0].State != approvals.Sent {
		t.Errorf("it is %s", v.Approvals[0].State)
	}
}

// TestTooLate tells the person who was faster, and shows nothing as taken.
func TestTooLate(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session())
	s.agent.deaf = state.ErrAnsweredElsewhere
	r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline"))
	if r.status != http.StatusConflict || !strings.Contains(r.body, "Somebody else has answered this first") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if v, _ := s.hub.Session(s.hub.Inbox().Sessions[0].ID); v.Approvals[0].State != approvals.AnsweredElsewhere {
		t.Errorf("it is %s", v.Approvals[0].State)
	}
}

// TestR12PermanentRule is asked for a second time, with the rule and with nothing of
// the others.
func TestR12PermanentRule(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) {
		r.Options = append(r.Options, state.ConfirmationOption{ID: "rule", Label: "Write the rule", Kind: state.OptionApprove, Group: new(int64(2))})
		r.Details = []state.Detail{{Label: "Also", Text: "/srv"}, {Label: "The rule", Text: `["git","<push>"]`, Option: "rule"}}
	})
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, "/srv") || !strings.Contains(page, `[&#34;git&#34;,&#34;&lt;push&gt;&#34;]`) {
		t.Error("the card does not show the rule")
	}
	again := func(option string) string {
		r := s.post(s.in, "/approvals/"+a.ID, form(a, option, "seen", "yes"))
		if r.status != http.StatusOK || len(s.agent.answers) > 0 {
			t.Fatalf("%s: %d, %d sent", option, r.status, len(s.agent.answers))
		}
		return r.body
	}
	if page := again("rule"); !strings.Contains(page, "&lt;push&gt;") || !strings.Contains(page, "for every session from now on") || !strings.Contains(page, "/srv") {
		t.Errorf("%s", page)
	}
	if page := again("acceptForSession"); strings.Contains(page, "&lt;push&gt;") || !strings.Contains(page, "This allows more than one run") {
		t.Errorf("%s", page)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "rule", "confirmed", "yes", "code", s.code())); r.status != http.StatusSeeOther || s.agent.answers[0].OptionID != "rule" {
		t.Errorf("%d", r.status)
	}
}

// TestR14WholeFile: of a changed file the card holds all, folded below what changes; it
// is no text that a phone is too small for, and its words are no marks.
func TestR14WholeFile(t *testing.T) {
	s := newSite(t)
	id := s.session()
	file := strings.Repeat("see https://x.test/ and /etc/shadow\n", 2000) + "the <end>"
	a := s.ask(id, func(r *state.Request) {
		r.Kind, r.Input, r.Diff = state.RequestFileChange, "", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
		r.Details = []state.Detail{{Label: "All of x afterwards", Text: file, File: true}}
	})
	folded := regexp.MustCompile(`(?s)<details class="edit"><summary><bdi[^>]*>All of x afterwards</bdi></summary> <p class="soft size">2001 lines[^<]*</p><pre.*the &lt;end&gt;.*</details>`)
	for where, page := range map[string]string{"the card": s.get(s.in, "/s/"+id).body, "the page before the answer": s.post(s.in, "/approvals/"+a.ID, form(a, "accept")).body} {
		if !folded.MatchString(page) {
			t.Errorf("%s has not all of it folded", where)
		}
		if strings.Contains(page, "reaches the network") || strings.Contains(page, "passwords or keys") || strings.Contains(page, "toolong") || strings.Contains(page, "The address is of") {
			t.Errorf("%s takes it for what is to be run", where)
		}
	}
}

// TestAddress is opened by a person, in a window that knows nothing of nod.
func TestAddress(t *testing.T) {
	for address, host := range map[string]string{
		"https://good.example@evil.example/a?b=<c>": "", // no address holds that
		"https://good.example@evil.example/a?b=c":   "evil.example",
		"javascript:alert(1)":                       "",
	} {
		s := newSite(t)
		id := s.session()
		s.ask(id, func(r *state.Request) {
			r.Kind, r.Input, r.Questions = state.RequestQuestion, "", &state.InputRequest{ID: "q", URL: &address}
		})
		page := s.get(s.in, "/s/"+id).body
		dock := page[strings.Index(page, `id="dock"`):]
		if link := `href="` + address + `" target="_blank" rel="noopener noreferrer"`; strings.Contains(dock, link) != (host != "") || strings.Contains(dock, "javascript:alert(1)\"") {
			t.Errorf("%s: %s", address, dock)
		}
		if host != "" && !strings.Contains(dock, `https://good.example@<b class="host">evil.example</b>/a?b=c`) {
			t.Errorf("%s", dock)
		}
	}
}

// TestNobodyCanAnswerHere has no form, and says who can.
func TestNobodyCanAnswerHere(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) {
		r.Kind, r.Options, r.Input, r.Caution = state.RequestElsewhere, nil, "", "Only another program can."
		r.Params, r.Details = []byte(`{"tool":"x"}`), []state.Detail{{Label: "Tool", Text: "x"}}
	})
	page := s.get(s.in, "/s/"+id).body
	if strings.Contains(page, `action="/approvals/`+a.ID) || !strings.Contains(page, "Only another program can.") || strings.Contains(page, "on this machine") {
		t.Error("the card is another")
	}
	if r := s.post(s.in, "/approvals/"+a.ID, url.Values{"digest": {a.Digest}, "nonce": {a.Nonce}, "option": {"accept"}}); r.status != http.StatusBadRequest || len(s.agent.answers) > 0 {
		t.Errorf("%d", r.status)
	}
}

// TestChoiceOfTwoLines: forms send every line end as two characters. It is still the
// choice that was offered.
func TestChoiceOfTwoLines(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) {
		r.Kind, r.Input = state.RequestQuestion, ""
		r.Questions = &state.InputRequest{ID: "q", Questions: []state.Question{
			{ID: "one", Kind: "single-select", Message: "Which?", Required: new(true), Options: []state.QuestionOption{{ID: "first\nof two", Label: "A"}, {ID: "first", Label: "B"}}},
		}}
		r.Options = []state.ConfirmationOption{{ID: "answer", Label: "Answer", Kind: state.OptionApprove}}
	})
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "answer", "q.one", "first\r\nof two", "seen", "yes", "from", "")); r.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", r.status, r.body)
	}
	if got := s.agent.answers[0].Answers["one"].Selected; !slices.Equal(got, []string{"first\nof two"}) {
		t.Errorf("%q", got)
	}
}
