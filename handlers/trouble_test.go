package handlers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"nod/state"
	"nod/state/snapshot"
	"nod/views"
)

type brokenSheet struct{ seq uint64 }

func (b *brokenSheet) refresh(context.Context) (bool, error) { b.seq++; return true, nil }
func (b *brokenSheet) at(views.Cursor) views.Position        { return b.here() }
func (b *brokenSheet) here() views.Position                  { return views.Position{Cursor: views.Cursor{Seq: b.seq}} }
func (b *brokenSheet) since(context.Context, *bytes.Buffer, views.Position) (views.Position, error) {
	panic("a mistake in drawing")
}

// TestPanicInDraw: new parts are drawn by since, in the feed's goroutine.
func TestPanicInDraw(t *testing.T) {
	_, s := newNumbers(t)
	f := &feed{all: s.feeds, of: s.ownedBy(t.Context(), ""), sheet: &brokenSheet{}, next: make(chan struct{}), frames: map[views.Position]frame{}}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("the process would end: %v", p)
		}
	}()
	f.edition()
	f.edition()
	if _, broken := f.sheet.(*brokenSheet); broken || f.err == nil {
		t.Error("what was drawn until then is still trusted")
	}
}

// TestFramesOfStrangeCursors: what is kept must not be chosen by who asks.
func TestFramesOfStrangeCursors(t *testing.T) {
	s := newSite(t)
	id := s.session()
	for _, page := range []string{"", id} {
		srv := s.srv.Config.Handler.(*Server)
		f, done := srv.feeds.open(srv.ownedBy(t.Context(), page), false)
		defer done()
		f.edition()
		now := f.sheet.here()
		for i := range uint64(1000) {
			c := now.Cursor
			c.Rev = 1e6 + i
			at, err := f.position(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := f.since(at); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.frames); n > 10 {
			t.Errorf("page %q keeps %d frames", page, n)
		}
	}
}

// TestEarlierAfterReplacedTurn: a turn that takes the place of one of which
// the page held the end moves the page's begin.
func TestEarlierAfterReplacedTurn(t *testing.T) {
	p := newPlay(t, 1)
	for range 80 {
		p.apply(&state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: p.newID("m"), Content: state.NewText(strings.Repeat("word ", 800))}})
	}
	v := p.open()
	v.connect()
	p.apply(&state.SessionTurnStarted{TurnID: "u", Message: state.UserMessage("again")})
	p.apply(&state.SessionResponsePart{TurnID: "u", Part: &state.MarkdownPart{ID: "n", Content: state.NewText("new")}})
	p.edition()
	v.pull()
	v.apply()
	p.lingered()
	if what := v.differs(p.open()); what != "" {
		t.Error(what)
	}
}

// TestFindStyled: what stands in one word on the page is found as one.
func TestFindStyled(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.command(id, "c", "--- FAIL: \x1b[31mTest\x1b[0mThing\n")
	if r := s.get(s.in, "/s/"+id+"/find?q=TestThing"); !strings.Contains(r.body, "row hit") {
		t.Error("a page shows TestThing, and it is not found")
	}
}

// jammed is a connection whose other end has stopped reading when it is told so.
type jammed struct {
	net.Conn
	mu       sync.Mutex
	jam      bool
	deadline time.Time
	closed   chan struct{}
	once     sync.Once
}

func (c *jammed) Close() error { c.once.Do(func() { close(c.closed) }); return c.Conn.Close() }

func (c *jammed) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *jammed) Write(p []byte) (int, error) {
	for {
		c.mu.Lock()
		jam, d := c.jam, c.deadline
		c.mu.Unlock()
		if !jam {
			return c.Conn.Write(p)
		}
		if !d.IsZero() && time.Now().After(d) {
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
}

type jamming struct {
	net.Listener
	mu    sync.Mutex
	conns []*jammed
}

func (l *jamming) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	j := &jammed{Conn: c, closed: make(chan struct{})}
	l.mu.Lock()
	l.conns = append(l.conns, j)
	l.mu.Unlock()
	return j, nil
}

// TestLastBytesHaveADeadline: an idle stream whose browser has stopped
// reading ends with its logout, though the end of a stream is written, too.
func TestLastBytesHaveADeadline(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		t.Run("encoding"+encoding, func(t *testing.T) {
			s := newSite(t)
			id := s.session()
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := &jamming{Listener: inner}
			front := &http.Server{Handler: s.srv.Config.Handler}
			ended := make(chan struct{})
			front.ConnState = func(_ net.Conn, st http.ConnState) {
				if st == http.StateClosed || st == http.StateIdle {
					select {
					case <-ended:
					default:
						close(ended)
					}
				}
			}
			go func() { _ = front.Serve(l) }()
			defer func() { _ = front.Close() }()
			c, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			r, _ := http.NewRequest(http.MethodGet, s.srv.URL+"/s/"+id+"/live", nil)
			u, _ := url.Parse(s.srv.URL)
			for _, cookie := range s.in.Jar.Cookies(u) {
				r.AddCookie(cookie)
			}
			r.Header.Set("Accept-Encoding", encoding)
			if err := r.Write(c); err != nil {
				t.Fatal(err)
			}
			if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			time.Sleep(300 * time.Millisecond) // the stream is idle
			l.mu.Lock()
			j := l.conns[0]
			l.mu.Unlock()
			j.mu.Lock()
			j.jam = true
			j.mu.Unlock()
			s.post(s.in, "/logout", nil)
			select {
			case <-ended:
			case <-time.After(15 * time.Second):
				j.mu.Lock()
				t.Errorf("15 s after the logout its connection is still being written to; deadline %v; %d requests have not returned", j.deadline, s.seats())
				j.mu.Unlock()
			}
		})
	}
}

// never is a hub that cannot show a session.
type never struct{ Hub }

func (never) Since(string, uint64) (snapshot.Session, []snapshot.Part, error) {
	return snapshot.Session{}, nil, errors.New("the disk")
}

// TestHelloOfNothing: hello takes the browser's banner away, so a page that
// cannot be brought up to date must not get one.
func TestHelloOfNothing(t *testing.T) {
	s := newSite(t)
	id := s.session()
	server := s.srv.Config.Handler.(*Server)
	server.Hub = never{server.Hub}
	c := s.raw(s.in, "/s/"+id+"/live")
	defer func() { _ = c.Close() }()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if said := readAll(res.Body); strings.Contains(said, "event: hello") {
		t.Errorf("%q", said)
	}
}
