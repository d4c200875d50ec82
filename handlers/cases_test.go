package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nod/handlers/auth"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
)

// link has the link be as told: one to an agent that goes on without it.
func (s *site) link(status state.LinkStatus, epoch string) {
	s.hub.LinkChanged(s.t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: status, Epoch: epoch, Lasting: true})
}

// TestC01ColdPage: who comes from a link to the request, with a browser that has seen
// nothing of it live, finds the whole command and working buttons in the first HTML.
func TestC01ColdPage(t *testing.T) {
	s := newSite(t)
	id := s.session()
	line := "go test ./... # " + strings.Repeat("x", 3000) + " the end"
	a := s.ask(id, func(r *state.Request) { r.Input = line })
	c := s.login()
	r := s.get(c, "/approvals/"+a.ID)
	if r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	page := s.get(c, strings.TrimSuffix(r.header.Get("Location"), "#now")).body
	for _, want := range []string{line, `action="/approvals/` + a.ID + `"`, `value="accept"`, `value="decline"`, `value="` + a.Digest + `"`, `value="` + a.Nonce + `"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %.40q", want)
		}
	}
	if !strings.Contains(s.get(c, "/").body, "needs you") {
		t.Error("the first page does not say that it waits")
	}
	// As a browser without scripts: over the page that shows all of it.
	if r := s.post(c, "/approvals/"+a.ID, form(a, "accept")); r.status != http.StatusOK || !strings.Contains(r.body, line) {
		t.Errorf("%d", r.status)
	}
	if r := s.post(c, "/approvals/"+a.ID, form(a, "accept", "confirmed", "yes")); r.status != http.StatusSeeOther || len(s.agent.answers) != 1 {
		t.Errorf("%d, %d sent", r.status, len(s.agent.answers))
	}
}

// TestC02SlowAgent: each button is a plain form. While the agent is slow the card says
// that the answer is on its way, and only the agent's own word makes it taken.
func TestC02SlowAgent(t *testing.T) {
	for option, label := range map[string]string{"accept": "Approve once", "acceptForSession": "Approve for this session", "decline": "Deny"} {
		t.Run(option, func(t *testing.T) {
			s := newSite(t)
			s.agent.slow = make(chan struct{})
			id := s.session()
			a := s.ask(id)
			answered := make(chan reply)
			go func() { answered <- s.post(s.in, "/approvals/"+a.ID, form(a, option, "confirmed", "yes")) }()
			<-s.agent.slow
			says := func(when, want string) {
				t.Helper()
				if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, want) {
					t.Errorf("%s: the card does not say %q", when, want)
				}
			}
			says("on its way", "“"+label+"” was sent. Waiting for Codex to confirm it.")
			<-s.agent.slow
			if r := <-answered; r.status != http.StatusSeeOther {
				t.Fatalf("%d", r.status)
			}
			says("before the agent's word", "“"+label+"” was sent. Waiting for Codex to confirm it.")
			s.hub.Resolved(t.Context(), s.uri(id), "e1", a.Request.UpstreamID, state.EndedAnswered)
			if got, _, err := s.hub.ApprovalView(t.Context(), a.ID); err != nil || got.State != approvals.Confirmed {
				t.Errorf("after it: %+v %v", got, err)
			}
		})
	}
	s := newSite(t)
	s.agent.deaf = errors.New("refused")
	id := s.session()
	a := s.ask(id)
	s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes"))
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, "Whether it took effect is not known") {
		t.Error("an answer that the agent refused looks as if it was taken")
	}
}

// TestC03LostOnTheWay: an allow that did not reach the agent is never shown as taken,
// and when the agent is back and asks again, a person is asked again.
func TestC03LostOnTheWay(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) { r.ToolCallID = "c" })
	s.agent.deaf = errors.New("write |1: broken pipe")
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	s.agent.deaf = nil
	s.link(state.LinkLost, "e1")
	page := s.get(s.in, "/s/"+id).body
	if !strings.Contains(page, "was recorded, but the turn or the link ended before Codex confirmed it") || strings.Contains(page, "has taken your answer") {
		t.Error("the card does not say that it is not known")
	}
	s.link(state.LinkUp, "e2")
	again := s.ask(id, func(r *state.Request) { r.ToolCallID, r.Epoch = "c", "e2" })
	if again.ID == a.ID || again.State != approvals.Pending || len(s.agent.answers) != 1 {
		t.Errorf("asked again: %+v; %d sent", again, len(s.agent.answers))
	}
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, `action="/approvals/`+again.ID+`"`) {
		t.Error("there is no card for it")
	}
}

// TestC08SessionDies: a request whose turn failed, or whose agent is gone, is over:
// nothing waits any more, and an answer reads why.
func TestC08SessionDies(t *testing.T) {
	for name, dies := range map[string]func(s *site, id string){
		"its turn failed": func(s *site, id string) { s.apply(id, &state.SessionError{TurnID: "t"}) },
		"its turn ended":  func(s *site, id string) { s.apply(id, &state.SessionTurnComplete{TurnID: "t"}) },
		"the agent is gone": func(s *site, _ string) {
			s.hub.LinkChanged(s.t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkLost, Epoch: "e1"})
		},
	} {
		s := newSite(t)
		id := s.session()
		a := s.ask(id)
		if page := s.get(s.in, "/").body; !strings.Contains(page, "needs you") || !strings.Contains(page, "<title>(1) ") {
			t.Errorf("%s: nothing waits before", name)
		}
		dies(s, id)
		page := s.get(s.in, "/").body
		if strings.Contains(page, "needs you") || strings.Contains(page, "<title>(") {
			t.Errorf("%s: the first page still says that it waits", name)
		}
		if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, "No longer asked") || strings.Contains(page, `value="accept"`) {
			t.Errorf("%s: the card does not say that it is over", name)
		}
		if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusConflict || !strings.Contains(r.body, "This is no longer asked") || len(s.agent.answers) > 0 {
			t.Errorf("%s: %d", name, r.status)
		}
	}
}

// TestC12NobodyLooks: what is asked while no page is open is recorded then, still waits
// a day later, and outlives nod.
func TestC12NobodyLooks(t *testing.T) {
	dir, asked := t.TempDir(), (*approvals.Approval)(nil)
	var id string
	// A bubble has a clock of its own, and no network: the requests are handed over.
	live := func(f func(get func(path string) string, h *hub.Hub)) {
		synctest.Test(t, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			store, err := journal.Open(context.Background(), dir, log)
			if err != nil {
				t.Fatal(err)
			}
			h, err := hub.New(context.Background(), store, log)
			if err != nil {
				t.Fatal(err)
			}
			a := &agent{hub: h}
			h.SetUpstream(a, []state.Link{{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkUp, Epoch: "e1", Lasting: true}})
			const port = 8787
			server := New(Config{Hub: h, Epoch: h.Epoch, Agents: a, Auth: auth.New(auth.Config{Store: store, Port: port, Secure: Secure, Private: Private}), Audit: store, Log: log, Port: port, StartFolder: "/"})
			token, err := auth.MintLogin(context.Background(), store)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(method, path string, form url.Values, cookies []*http.Cookie) *http.Response {
				r := httptest.NewRequest(method, "http://127.0.0.1:8787"+path, strings.NewReader(form.Encode()))
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}))
				r.RemoteAddr = "127.0.0.1:1"
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				for _, c := range cookies {
					r.AddCookie(c)
				}
				w := httptest.NewRecorder()
				server.ServeHTTP(w, r)
				return w.Result()
			}
			cookies := ask(http.MethodPost, "/login", url.Values{"token": {token}}, nil).Cookies()
			f(func(path string) string {
				body, err := io.ReadAll(ask(http.MethodGet, path, nil, cookies).Body)
				if err != nil {
					t.Fatal(err)
				}
				return string(body)
			}, h)
			server.Close()
			if err := errors.Join(h.Close(context.Background()), store.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	waits := func(get func(string) string, when string) {
		t.Helper()
		if page := get("/s/" + id); !strings.Contains(page, `action="/approvals/`+asked.ID+`"`) || !strings.Contains(page, `value="accept"`) {
			t.Errorf("%s: it waits no more", when)
		}
		if page := get("/"); !strings.Contains(page, "needs you") {
			t.Errorf("%s: the first page does not tell", when)
		}
	}
	live(func(get func(string) string, h *hub.Hub) {
		var err error
		if id, err = h.Create(context.Background(), state.NewSession{Provider: "codex", Folder: "/w"}, "go"); err != nil {
			t.Fatal(err)
		}
		h.Ask(context.Background(), state.Request{
			Session: "ahp-session:/" + id, TurnID: "t", Provider: "codex", Epoch: "e1", UpstreamID: json.RawMessage("1"), Method: "m", Params: json.RawMessage(`{}`),
			Kind: state.RequestCommand, Title: "Run a command?", Input: "ls", Options: []state.ConfirmationOption{{ID: "accept", Label: "Approve", Kind: state.OptionApprove}},
		})
		v, err := h.Session(id)
		if err != nil {
			t.Fatal(err)
		}
		asked = v.Approvals[0]
		time.Sleep(11 * time.Minute)
		waits(get, "after 11 minutes")
		time.Sleep(24 * time.Hour)
		v, err = h.Session(id)
		if err != nil || v.Approvals[0].State != approvals.Pending {
			t.Errorf("after a day: %v %v", v.Approvals, err)
		}
	})
	live(func(get func(string) string, _ *hub.Hub) { waits(get, "after a restart") })
}

// TestC13TwoTabs: an allow and a denial at the same moment, each sent twice as browsers
// do that try again, are one answer; whoever lost reads who won, and the winner's
// second try reads as the first.
func TestC13TwoTabs(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session())
	other := s.login(header("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"))
	shots := []struct {
		c    *http.Client
		form url.Values
	}{{s.in, form(a, "accept", "seen", "yes")}, {s.in, form(a, "accept", "seen", "yes")}, {other, form(a, "decline")}, {other, form(a, "decline")}}
	replies := make([]reply, len(shots))
	var both sync.WaitGroup
	for i, x := range shots {
		both.Go(func() { replies[i] = s.post(x.c, "/approvals/"+a.ID, x.form) })
	}
	both.Wait()
	if len(s.agent.answers) != 1 {
		t.Fatalf("%d reached the agent", len(s.agent.answers))
	}
	won := s.agent.answers[0].OptionID
	for i, r := range replies {
		if shots[i].form.Get("option") == won {
			if r.status != http.StatusSeeOther {
				t.Errorf("the winner: %d", r.status)
			}
		} else if r.status != http.StatusConflict || !strings.Contains(told(r.body), "on another device") {
			t.Errorf("the loser: %d %s", r.status, told(r.body))
		}
	}
}

// TestC18AnswerAfterARestart: the page of before a restart can answer what the agent
// still asks; what it does not ask any more is refused in a sentence.
func TestC18AnswerAfterARestart(t *testing.T) {
	for name, asksOn := range map[string]bool{"it asks on": true, "it does not": false} {
		dir := t.TempDir()
		first := newSiteIn(t, dir)
		first.link(state.LinkUp, "e1")
		id := first.session()
		a := first.ask(id)
		first.leave()

		s := newSiteIn(t, dir)
		s.link(state.LinkUp, "e1")
		if asksOn {
			s.hub.Ask(t.Context(), a.Request)
		} else {
			s.hub.Waiting(t.Context(), s.uri(id), "e1", nil)
		}
		r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes"))
		switch {
		case asksOn && (r.status != http.StatusSeeOther || len(s.agent.answers) != 1):
			t.Errorf("%s: %d %s", name, r.status, told(r.body))
		case !asksOn && (r.status != http.StatusConflict || len(s.agent.answers) > 0 || !strings.Contains(told(r.body), "Somebody else has answered this first") || strings.Contains(told(r.body), a.ID)):
			t.Errorf("%s: %d %s", name, r.status, told(r.body))
		}
		s.leave()
	}
}

// TestR7AnsweredInTheTerminal: what was answered where the agent runs is over on every
// page, and approving it after that sends nothing.
func TestR7AnsweredInTheTerminal(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	live := s.stream("/s/"+id+"/live?since="+revision.FindStringSubmatch(s.get(s.in, "/s/"+id).body)[1], "")
	live.next("hello")
	s.hub.Resolved(t.Context(), s.uri(id), "e1", a.Request.UpstreamID, state.EndedAnswered)
	if _, data := live.next("parts"); !strings.Contains(data, "Answered in another client.") {
		t.Errorf("the open page gets %s", data)
	}
	r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes"))
	if r.status != http.StatusConflict || !strings.Contains(told(r.body), "Answered in another client.") || len(s.agent.answers) > 0 {
		t.Errorf("%d, %d sent: %s", r.status, len(s.agent.answers), told(r.body))
	}
}
