package handlers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"nod/state"
	"nod/state/snapshot"
	"nod/views"
)

// numbers is a hub whose inbox only has a revision.
type numbers struct {
	Hub
	mu    sync.Mutex
	rev   uint64
	watch chan struct{}

	trouble string
}

func (n *numbers) Inbox() snapshot.Inbox {
	n.mu.Lock()
	defer n.mu.Unlock()
	return snapshot.Inbox{Rev: n.rev, Trouble: n.trouble}
}

func (n *numbers) Watch(string) (<-chan struct{}, func()) { return n.watch, func() {} }

func (n *numbers) next() {
	n.mu.Lock()
	n.rev++
	n.mu.Unlock()
	poke(n.watch)
}

func newNumbers(t *testing.T) (*numbers, *Server) {
	n := &numbers{rev: 1, watch: make(chan struct{}, 1)}
	s := New(Config{Hub: n, Epoch: "e"})
	t.Cleanup(s.Close)
	return n, s
}

// TestEditions: a change after a quiet time shows at once, and under many changes
// there are twenty editions a second, the last of which has the last change.
func TestEditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNumbers(t)
		f, done := s.feeds.open(s.ownedBy(t.Context(), ""), true)
		at, err := f.position(t.Context(), views.Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		editions := 0
		follow := func() {
			for {
				fr, _, err := f.since(at)
				if err != nil {
					t.Fatal(err)
				}
				if fr.at == at {
					return
				}
				at, editions = fr.at, editions+1
			}
		}
		follow()
		time.Sleep(time.Minute)
		n.next()
		synctest.Wait()
		if follow(); at.Rev != 2 {
			t.Errorf("a change after a quiet minute waits: the page is at %d", at.Rev)
		}
		editions = 0
		for range 1000 { // one a millisecond
			n.next()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			follow()
		}
		time.Sleep(minGap)
		synctest.Wait()
		if follow(); at.Rev != 1002 || editions < 19 || editions > 21 {
			t.Errorf("%d editions in a second, the last at %d", editions, at.Rev)
		}
		done()
		time.Sleep(linger) // until its timer has run
		synctest.Wait()
		if len(s.feeds.m) != 0 {
			t.Error("what was drawn is kept for ever")
		}
	})
}

// TestBeats: an idle stream beats, each event has an id, and a stop says goodbye.
func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newNumbers(t)
		rec := httptest.NewRecorder()
		ctx, cancel := context.WithCancel(t.Context())
		var streaming sync.WaitGroup
		streaming.Go(func() {
			c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/live", nil), rec)
			s.streams.stream(ctx, cancel, c, s.ownedBy(ctx, ""), &seat{leave: make(chan struct{})})
		})
		time.Sleep(4*beatEvery + time.Second)
		synctest.Wait()
		s.streams.close()
		streaming.Wait()
		var names []string
		for event := range strings.SplitSeq(strings.TrimSpace(rec.Body.String()), "\n\n") {
			_, name, _ := strings.Cut(event, "event: ")
			name, _, _ = strings.Cut(name, "\n")
			names = append(names, name)
			if !strings.Contains("\n"+event, "\nid: ") {
				t.Errorf("without an id: %s", event)
			}
		}
		if got := strings.Join(names, " "); got != "hello parts- beat beat beat beat bye" {
			t.Error(got)
		}
		time.Sleep(linger)
	})
}

// TestDrawnOnce: viewers who are up to date get the very same bytes.
func TestDrawnOnce(t *testing.T) {
	s := newSite(t)
	id := s.session()
	f, done := s.feed(id)
	defer done()
	f.edition()
	a, err := f.position(t.Context(), views.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	fr, _, err := f.since(a)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m", Content: state.NewText("text")}})
	f.edition()
	one, _, err1 := f.since(fr.at)
	two, _, err2 := f.since(fr.at)
	if err1 != nil || err2 != nil || len(one.data) == 0 || &one.data[0] != &two.data[0] {
		t.Errorf("a second viewer costs a second drawing (%v, %v)", err1, err2)
	}
}

func TestOneNewline(t *testing.T) {
	if got := oneNewline([]byte("a\rb\r\nc\n\r\rd")); string(got) != "a\nb\nc\n\n\nd" {
		t.Errorf("%q", got)
	}
}

// raw opens a stream over a connection of its own, with its own buffers, and reads
// nothing of it.
func (s *site) raw(c *http.Client, path string, headers ...string) net.Conn {
	s.t.Helper()
	u, err := url.Parse(s.srv.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, s.srv.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, cookie := range c.Jar.Cookies(r.URL) {
		r.AddCookie(cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if err := r.Write(conn); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// until waits for something that comes by itself.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s did not come", what)
		}
	}
}

// TestThousandStreams connects and disconnects, while something happens, and
// leaves no goroutine behind.
func TestThousandStreams(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m"}})
	s.in.CloseIdleConnections()
	before := runtime.NumGoroutine()
	for range 20 {
		var conns []net.Conn
		for range 50 {
			conns = append(conns, s.raw(s.in, "/s/"+id+"/live"))
			s.apply(id, &state.SessionDelta{TurnID: "t", PartID: "m", Content: "word "})
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}
	s.until("the end of all streams", func() bool { return s.streams() == 0 })
	s.until("the end of their goroutines", func() bool { return runtime.NumGoroutine() <= before })
	s.until("the end of their seats", func() bool { return s.seats() == 0 })
}

// TestCompression: the first streams of those who can are compressed, the others
// are not, and an end makes room.
func TestCompression(t *testing.T) {
	s := newSite(t)
	id := s.session()
	server := s.srv.Config.Handler.(*Server)
	open := func() (net.Conn, *http.Response) {
		c := s.raw(s.login(), "/s/"+id+"/live", "Accept-Encoding", "gzip")
		t.Cleanup(func() { _ = c.Close() })
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, res
	}
	first, res := open()
	if res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("the first stream is plain")
	}
	z, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 0, 1000)
	for !bytes.Contains(got, []byte("event: hello")) { // it comes before the stream ends
		n, err := z.Read(got[len(got):cap(got)])
		if got = got[:len(got)+n]; err != nil {
			t.Fatalf("%q: %v", got, err)
		}
	}
	server.streams.mu.Lock()
	server.streams.zip = maxGzip
	server.streams.mu.Unlock()
	if _, res := open(); res.Header.Get("Content-Encoding") != "" {
		t.Error("a stream beyond the last is compressed")
	}
	_ = first.Close()
	s.until("its end", func() bool {
		server.streams.mu.Lock()
		defer server.streams.mu.Unlock()
		return server.streams.zip == maxGzip-1
	})
	if _, res := open(); res.Header.Get("Content-Encoding") != "gzip" {
		t.Error("there is room again, and the next stream is plain")
	}
}

// TestC33NeverReads: twenty viewers that never read, while 24 MB go by, cost
// little memory, and are ended; they can come back to where they were.
func TestC33NeverReads(t *testing.T) {
	n := &numbers{watch: make(chan struct{}, 1), trouble: strings.Repeat(strings.Repeat("x", 1023)+"\n", 400)}
	s := newSite(t, func(c *Config) { n.Hub, c.Hub = c.Hub, n })
	reader := s.stream("/live", "")
	var conns []net.Conn
	for range 20 {
		c := s.raw(s.login(), "/live")
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
	}
	s.until("all streams", func() bool { return s.streams() == 21 })
	reader.next("hello")
	updates := func(bytes int) {
		for range bytes / len(n.trouble) {
			reader.next("parts")
			n.next()
		}
	}
	updates(4 << 20) // more than sockets hold
	with, there := held(), s.streams() == 21
	updates(20 << 20)
	s.until("their end", func() bool { return s.streams() == 1 })
	if cost := (int64(with) - int64(held())) / 20; there && cost > 256<<10 { // a slow machine has ended them already
		t.Errorf("they cost %d kB each", cost>>10)
	}
	last := ""
	for line := range strings.Lines(readAll(conns[0])) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(id)
		}
	}
	again := s.stream("/live", last)
	again.next("hello")
	again.next("parts")
}

func readAll(r io.Reader) string {
	b, _ := io.ReadAll(r) // it was cut off
	return string(b)
}

// TestTwoMegabytesOfOutput: a command that writes much keeps its page small, each
// frame too, and all of it is one link away.
func TestTwoMegabytesOfOutput(t *testing.T) {
	s := newSite(t)
	id := s.session()
	f, done := s.feed(id)
	defer done()
	f.edition()
	at := f.sheet.here()
	s.command(id, "c", "the very first line\n")
	largest := 0
	for i := range 500 { // 4 kB each
		s.output(id, "c", strings.Repeat(strconv.Itoa(10_000+i)+" \x1b[32mok\x1b[0m  example.com/shop/cart\n", 100))
		f.edition()
		fr, _, err := f.since(at)
		if err != nil {
			t.Fatal(err)
		}
		at, largest = fr.at, max(largest, len(fr.data))
	}
	page := s.get(s.in, "/s/"+id).body
	if len(page) > 150_000 || largest > 40_000 {
		t.Errorf("the page has %d bytes, the largest frame %d", len(page), largest)
	}
	for _, want := range []string{"the very first line", "10499 ", "are not shown here", `class="term-fg32">ok<`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "10250 ") {
		t.Error("the page has the middle of it")
	}
	if whole := s.get(s.in, "/s/"+id+"/turns/0/parts/0").body; strings.Count(whole, "10250 ") != 100 {
		t.Error("the middle is nowhere")
	}
}
