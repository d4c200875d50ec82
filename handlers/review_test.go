package handlers

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"nod/state"
)

// TestEmptySession: a session without a turn has a page, and pages before it.
func TestEmptySession(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionTruncated{})
	for _, path := range []string{"", "/before/0/0", "/before/5/7", "/find?q=x"} {
		if r := s.get(s.in, "/s/"+id+path); r.status != http.StatusOK {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

// TestTurnInPlaceOfAnother: an agent that begins a turn while one is open takes
// its place, whatever was drawn of the other.
func TestTurnInPlaceOfAnother(t *testing.T) {
	s := newSite(t)
	id := s.session()
	for _, text := range []string{"one", "two"} {
		s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: text, Content: state.NewText(text)}})
	}
	s.get(s.in, "/s/"+id)
	s.apply(id, &state.SessionTurnStarted{TurnID: "u", Message: state.UserMessage("again")})
	if r := s.get(s.in, "/s/"+id); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
}

// TestLiveWithoutTurns: a session that loses all its turns while somebody looks
// at it, as one that has none yet, ends no process.
func TestLiveWithoutTurns(t *testing.T) {
	s := newSite(t)
	id := s.session()
	f, done := s.feed(id)
	defer done()
	f.edition()
	s.apply(id, &state.SessionTruncated{})
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("the feed's goroutine panics: %v", p)
		}
	}()
	f.edition()
}

func (s *site) feed(id string) (*feed, func()) {
	srv := s.srv.Config.Handler.(*Server)
	return srv.feeds.open(srv.ownedBy(s.t.Context(), id), false)
}

// command has the agent run one, with some output.
func (s *site) command(id, call, output string) {
	s.apply(id, &state.SessionToolCallStart{TurnID: "t", ToolCallID: call, ToolName: "shell", DisplayName: "Shell"})
	s.apply(id, &state.SessionToolCallReady{TurnID: "t", ToolCallID: call, InvocationMessage: state.Plain("ls"), ToolInput: new("ls"), Confirmed: state.ConfirmedNotNeeded})
	s.apply(id, &state.SessionToolCallContentChanged{TurnID: "t", ToolCallID: call, Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/"+call, "ls")}})
	s.output(id, call, output)
}

func (s *site) output(id, call, output string) {
	s.hub.Apply(s.t.Context(), s.uri(id), state.Source{}, state.Envelope{Channel: "ahp-terminal:/" + call, Action: &state.TerminalData{Data: output}})
}

// TestStoppedCommand: a call that is cancelled while it runs loses its output,
// which must not stand beside it.
func TestStoppedCommand(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.command(id, "c", "output of the call\n")
	if r := s.get(s.in, "/s/"+id); !strings.Contains(r.body, "output of the call") {
		t.Fatal("no output")
	}
	s.apply(id, &state.SessionTurnCancelled{TurnID: "t"})
	if r := s.get(s.in, "/s/"+id); strings.Contains(r.body, `id="t0p0x0"`) != strings.Contains(r.body, `id="t0p0x"`) {
		t.Errorf("blocks without a place:\n%s", r.body[strings.Index(r.body, `id="t0p0"`):][:1500])
	}
}

// TestClearedTerminal: a terminal may be empty when it is drawn, and go on.
func TestClearedTerminal(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.command(id, "c", "before\n")
	s.get(s.in, "/s/"+id)
	s.hub.Apply(t.Context(), s.uri(id), state.Source{}, state.Envelope{Channel: "ahp-terminal:/c", Action: &state.TerminalCleared{}})
	s.get(s.in, "/s/"+id)
	s.output(id, "c", "after\n")
	if r := s.get(s.in, "/s/"+id); r.status != http.StatusOK || !strings.Contains(r.body, "after") {
		t.Errorf("%d: a feed's goroutine would have panicked", r.status)
	}
}

// TestR11EndsWhatIsNotRead: a stream ends within two seconds of its logout, and of
// nod's stop, though its browser has long not read.
func TestR11EndsWhatIsNotRead(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		for _, end := range []string{"logout", "stop"} {
			t.Run(end+encoding, func(t *testing.T) {
				s := newSite(t)
				id := s.session()
				c, err := net.Dial("tcp", s.srv.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
				r, err := http.NewRequest(http.MethodGet, s.srv.URL+"/s/"+id+"/live", nil)
				if err != nil {
					t.Fatal(err)
				}
				u, _ := url.Parse(s.srv.URL)
				for _, cookie := range s.in.Jar.Cookies(u) {
					r.AddCookie(cookie)
				}
				r.Header.Set("Accept-Encoding", encoding)
				if err := r.Write(c); err != nil {
					t.Fatal(err)
				}
				for s.streams() == 0 {
					time.Sleep(time.Millisecond)
				}
				for range 25 { // until nothing goes through
					for range 8 {
						s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: rand.Text(), Content: state.NewText(noise(30 << 10))}})
					}
					time.Sleep(minGap)
				}
				if s.seats() != 1 {
					t.Fatal("it ended before")
				}
				began := time.Now()
				if end == "stop" {
					s.srv.Config.Handler.(*Server).Close()
				} else {
					s.post(s.in, "/logout", nil)
				}
				s.until("its end", func() bool { return s.seats() == 0 })
				// It takes a second and a half. Left alone, it would take flushTimeout.
				if took := time.Since(began); took > flushTimeout-2*time.Second {
					t.Errorf("the stream ended %v after", took)
				}
			})
		}
	}
}

// seats counts the requests of streams that have not ended.
func (s *site) seats() (n int) {
	streams := s.srv.Config.Handler.(*Server).streams
	streams.mu.Lock()
	defer streams.mu.Unlock()
	for _, open := range streams.open {
		n += len(open)
	}
	return n
}

// noise is text that does not compress.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// TestSubagentBeforeItsFirstTurn: the page of a sub-agent is there as soon as the
// way to it is.
func TestSubagentBeforeItsFirstTurn(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionToolCallStart{TurnID: "t", ToolCallID: "c", ToolName: "agent"})
	s.apply(id, &state.SessionToolCallReady{TurnID: "t", ToolCallID: "c", Confirmed: state.ConfirmedNotNeeded})
	s.apply(id, &state.SessionToolCallContentChanged{TurnID: "t", ToolCallID: "c", Content: []state.ToolResultContent{state.SubagentContent("ahp-session:/sub", "A sub-agent")}})
	v, err := s.hub.Session(id)
	if err != nil || len(v.Children) != 1 {
		t.Fatal(v.Children, err)
	}
	if r := s.get(s.in, "/s/"+v.Children[0].ID); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
}

// TestArchivedElsewhere: a page that is open offers what a fresh one does.
func TestArchivedElsewhere(t *testing.T) {
	s := newSite(t)
	p := &play{T: t, site: s, id: s.session(), feeds: s.srv.Config.Handler.(*Server).feeds}
	p.apply(&state.SessionTurnComplete{TurnID: "t"})
	v := p.open()
	v.connect()
	if err := s.hub.Archive(t.Context(), p.id, true); err != nil {
		t.Fatal(err)
	}
	p.edition()
	v.pull()
	v.apply()
	if what := v.differs(p.open()); what != "" {
		t.Error(what)
	}
}
