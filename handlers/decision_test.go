package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/approvals"
)

// told is what the page of an answer that came too late says of it.
func told(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	page, _, _ = strings.Cut(page, "</main>")
	return page
}

// TestR5OneDecision has ten devices answer in a hundred ways at once: one is sent,
// and every other gets a page that says who was first, when, and with what.
func TestR5OneDecision(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) { r.Explains = "decline" })
	type shot struct {
		device *http.Client
		name   string
		form   url.Values
		what   string // as the winner's answer reads
	}
	var shots []shot
	for i := range 10 {
		name := fmt.Sprintf("Browser%d on Linux", i)
		c := s.login(header("User-Agent", fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) Browser%d/1.0", i)))
		shots = append(shots, shot{c, name, form(a, "accept", "seen", "yes"), "Approve once"})
		for k := range 9 {
			why := fmt.Sprint("reason ", i, k)
			shots = append(shots, shot{c, name, form(a, "decline", "reason", why), "Deny: " + why})
		}
	}
	replies := make([]reply, len(shots))
	start := make(chan struct{})
	var answering sync.WaitGroup
	for i, x := range shots {
		answering.Go(func() {
			<-start
			replies[i] = s.post(x.device, "/approvals/"+a.ID, x.form)
		})
	}
	close(start)
	answering.Wait()
	first := -1
	for i, r := range replies {
		if r.status == http.StatusSeeOther {
			if first >= 0 {
				t.Fatalf("%s and %s were both taken", shots[first].what, shots[i].what)
			}
			first = i
		}
	}
	if first < 0 || len(s.agent.answers) != 1 || s.agent.answers[0].OptionID != shots[first].form.Get("option") || s.agent.answers[0].Reason != shots[first].form.Get("reason") {
		t.Fatalf("taken is answer %d; %+v reached the agent", first, s.agent.answers)
	}
	devices, err := s.auth.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	got, _, err := s.hub.ApprovalView(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.ID == got.Actor {
			name = d.Name
		}
	}
	for i, r := range replies {
		if i == first {
			continue
		}
		who := "by “" + name + "”"
		if shots[i].device == shots[first].device {
			who = "by this device"
		}
		page := told(r.body)
		for _, want := range []string{shots[first].what, who, `<time class="age" datetime="`, "was not sent", "stop the turn"} {
			if !strings.Contains(page, want) {
				t.Fatalf("answer %d: the page lacks %q:\n%s", i, want, page)
			}
		}
		if r.status != http.StatusConflict {
			t.Errorf("answer %d: %d", i, r.status)
		}
	}
}

// TestR5TooLatePages: each way for a request to be over has its sentence, and what
// to do next.
func TestR5TooLatePages(t *testing.T) {
	resolve := func(s *site, a *approvals.Approval, how state.Ending) {
		s.hub.Resolved(t.Context(), a.Request.Session, "e1", a.Request.UpstreamID, how)
	}
	answer := func(s *site, c *http.Client, a *approvals.Approval, option string) {
		if r := s.post(c, "/approvals/"+a.ID, form(a, option, "seen", "yes")); r.status != http.StatusSeeOther {
			t.Fatalf("%s: %d", option, r.status)
		}
	}
	for name, c := range map[string]struct {
		before func(s *site, a *approvals.Approval)
		says   []string
	}{
		"this device": {
			func(s *site, a *approvals.Approval) { answer(s, s.in, a, "decline") },
			[]string{"You have answered this already, on this device", "<b>Deny</b>, by this device", "was sent. Waiting for Codex", "If you disagree with the first answer, stop the turn"},
		},
		"another device": {
			func(s *site, a *approvals.Approval) {
				answer(s, s.login(header("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")), a, "decline")
			},
			[]string{"on another device", "<b>Deny</b>, by “Firefox on Linux”"},
		},
		"a device that logged out": {
			func(s *site, a *approvals.Approval) {
				c := s.login()
				answer(s, c, a, "decline")
				s.post(c, "/logout", nil)
			},
			[]string{"<b>Deny</b>, by a device that is not logged in any more"},
		},
		"another client": {
			func(s *site, a *approvals.Approval) { resolve(s, a, state.EndedAnswered) },
			[]string{"Somebody else has answered this first", "Answered in another client.", "stop the turn there"},
		},
		"expired": {
			func(s *site, a *approvals.Approval) { resolve(s, a, state.EndedWithdrawn) },
			[]string{"This is no longer asked", "Nothing was approved.", "it asks again"},
		},
		"delivery unknown": {
			func(s *site, a *approvals.Approval) {
				s.agent.deaf = errors.New("broken pipe")
				answer(s, s.in, a, "decline")
			},
			[]string{"<b>Deny</b>, by this device", "Whether it took effect is not known", "Look into the session and the folder"},
		},
		"confirmed": {
			func(s *site, a *approvals.Approval) {
				answer(s, s.in, a, "decline")
				resolve(s, a, state.EndedAnswered)
			},
			[]string{"Codex has taken your answer “Deny”"},
		},
	} {
		s := newSite(t)
		id := s.session()
		a := s.ask(id)
		c.before(s, a)
		sent := len(s.agent.answers)
		r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes"))
		page := told(r.body)
		if r.status != http.StatusConflict || len(s.agent.answers) != sent {
			t.Errorf("%s: %d, %d more were sent", name, r.status, len(s.agent.answers)-sent)
		}
		for _, want := range append(c.says, "Your answer", "Approve once", "was not sent", `href="/s/`+id+`#now"`) {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q:\n%s", name, want, page)
			}
		}
	}
}

// TestR5SameAnswerAgain leads where it led before, also when it has arrived; it is
// sent once. Other answers to its questions are another answer.
func TestR5SameAnswerAgain(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) {
		r.Questions = &state.InputRequest{ID: "q", Questions: []state.Question{
			{ID: "n", Kind: "integer", Message: "How many?", Min: jsontext.Value("1")}, {ID: "key", Kind: "text", Message: "Key", Format: new(state.FormatSecret)},
		}}
	})
	f := form(a, "accept", "seen", "yes", "t.n", "7", "t.key", "hunter2")
	first := s.post(s.in, "/approvals/"+a.ID, f)
	again := s.post(s.in, "/approvals/"+a.ID, f)
	s.hub.Resolved(t.Context(), s.uri(id), "e1", a.Request.UpstreamID, state.EndedAnswered)
	late := s.post(s.in, "/approvals/"+a.ID, f)
	if where := first.header.Get("Location"); first.status != http.StatusSeeOther || again.status != first.status || late.status != first.status ||
		again.header.Get("Location") != where || late.header.Get("Location") != where {
		t.Errorf("%d, then %d, then %d", first.status, again.status, late.status)
	}
	f.Set("t.n", "8")
	if r := s.post(s.in, "/approvals/"+a.ID, f); r.status != http.StatusConflict {
		t.Errorf("another number: %d", r.status)
	}
	if len(s.agent.answers) != 1 {
		t.Errorf("%d answers were sent", len(s.agent.answers))
	}
}

// TestR6LinkDown: an approval is refused with a sentence, a denial is recorded and
// the card says so; when the agent asks again it is told.
func TestR6LinkDown(t *testing.T) {
	s := newSite(t)
	id := s.session()
	link := func(status state.LinkStatus) {
		s.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: status, Epoch: "e1", Lasting: true})
	}
	a := s.ask(id)
	link(state.LinkLost)
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, "nothing can be approved until it is back. You can deny now") {
		t.Error("the card does not say that the link is down")
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "The link to the agent is down, so nothing was approved") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline")); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline")); r.status != http.StatusSeeOther {
		t.Errorf("the same again: %d", r.status)
	}
	page := s.get(s.in, "/s/"+id).body
	if !strings.Contains(page, "Denied: “Deny” is recorded, and Codex will be told when it is back.") || strings.Contains(page, "Send it now") || len(s.agent.answers) > 0 {
		t.Errorf("%d were sent; the card is another:\n%s", len(s.agent.answers), page)
	}
	link(state.LinkUp)
	s.hub.Ask(t.Context(), a.Request)
	s.until("the denial", func() bool {
		v, _, _ := s.hub.ApprovalView(t.Context(), a.ID)
		return v.State == approvals.Sent
	})
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, "“Deny” was sent.") {
		t.Error("the card does not say that it was sent")
	}
}
