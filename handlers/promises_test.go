package handlers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"

	"nod/state"
)

// pipes is a network without any buffer: whoever writes waits for the reader. So a
// browser that does not read holds up its very first byte.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	end   chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), end: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// TestP8StalledViewers: browsers that have asked for a page's changes, and never
// read a byte, delay neither another browser of the same page, nor the agent, nor
// a decision. Nothing here looks at a clock: whoever waited for them would wait
// for ever.
func TestP8StalledViewers(t *testing.T) {
	s := newSite(t)
	id := s.session()
	network := newPipes()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.srv.Config.Serve(network); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = network.Close()
		serving.Wait()
	})
	u, err := url.Parse(s.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	stall := func(path string) {
		c := network.dial()
		t.Cleanup(func() { _ = c.Close() })
		r, err := http.NewRequest(http.MethodGet, s.srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cookie := range s.login().Jar.Cookies(u) {
			r.AddCookie(cookie)
		}
		before := s.streams()
		if err := r.Write(c); err != nil {
			t.Fatal(err)
		}
		for s.streams() == before { // nobody will ever read from c
			runtime.Gosched()
		}
	}
	for range 3 {
		stall("/s/" + id + "/live")
		stall("/live")
	}
	page, inbox := s.stream("/s/"+id+"/live", ""), s.stream("/live", "")
	page.next("hello")
	inbox.next("hello")
	shows := func(e *events, what string) {
		t.Helper()
		for {
			if _, data := e.next("parts"); strings.Contains(data, what) {
				return
			}
		}
	}
	for i := range 15 {
		word := fmt.Sprint("word-", i, "-")
		s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: word, Content: state.NewText(word + strings.Repeat(" more", 1000))}})
		shows(page, word)
		s.apply(id, &state.SessionTitleChanged{Title: "title-" + word})
		shows(page, "title-"+word)
		shows(inbox, "title-"+word)
	}
	a := s.ask(id)
	shows(page, a.ID)
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline")); r.status != http.StatusSeeOther || len(s.agent.answers) != 1 {
		t.Errorf("a decision: %d, %d answers", r.status, len(s.agent.answers))
	}
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	shows(page, `id="t0f"`)
}

// streams counts those that are open.
func (s *site) streams() (n int) {
	feeds := s.srv.Config.Handler.(*Server).feeds
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	for _, f := range feeds.m {
		n += f.streams
	}
	return n
}

// TestP9Bye: a stream ends with a word that says so, which like every event has an
// id and tells how soon to come back.
func TestP9Bye(t *testing.T) {
	s := newSite(t)
	id := s.session()
	for _, path := range []string{"/live", "/s/" + id + "/live"} {
		e := s.stream(path, s.hub.Epoch+".0.0")
		e.next("hello")
		defer func() {
			raw := e.rest()
			last := raw[strings.LastIndex(strings.TrimRight(raw, "\n"), "\n\n")+1:]
			for _, want := range []string{"event: bye\n", "\nid: " + s.hub.Epoch, "\nretry: "} {
				if !strings.Contains("\n"+last, want) {
					t.Errorf("%s ends with %q, without %q", path, last, want)
				}
			}
		}()
	}
	s.srv.Config.Handler.(*Server).Close()
}

// rest reads a stream to its end, which must be one.
func (e *events) rest() string {
	e.t.Helper()
	var b strings.Builder
	for e.lines.Scan() {
		_, _ = io.WriteString(&b, e.lines.Text()+"\n")
	}
	if err := e.lines.Err(); err != nil {
		e.t.Errorf("the stream was torn off: %v", err)
	}
	return b.String()
}
