package keep

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rig is a keeper between this test, which plays nod, and this test, which plays the
// server.
type rig struct {
	t      *testing.T
	socket string
	server net.Listener
	keeper *keeper
	ended  chan struct{} // closed when the keeper has ended itself
}

// end is one end of a connection through the keeper.
type end struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod-k-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, socket: filepath.Join(dir, "s"), ended: make(chan struct{})}
	if r.server, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		<-r.ended
		_ = r.server.Close()
		_ = os.RemoveAll(dir)
	})
	_ = r.server.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
	r.keeper = &keeper{address: r.server.Addr().String(), log: slog.New(slog.DiscardHandler), unused: time.Minute}
	go func() { defer close(r.ended); r.keeper.serve(ctx, l) }()
	return r
}

// hurry has the keeper end as soon as nobody needs it.
func (r *rig) hurry() {
	r.keeper.mu.Lock()
	defer r.keeper.mu.Unlock()
	r.keeper.unused = time.Millisecond
}

// link has nod connect, and returns both ends.
func (r *rig) link() (nod, server *end) {
	r.t.Helper()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	nod = newEnd(r.t, c)
	nod.send(`{"id":"0","method":"connect","params":{}}`)
	s, err := r.server.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	server = newEnd(r.t, s)
	server.hears(`"connect"`)
	return nod, server
}

func newEnd(t *testing.T, c net.Conn) *end {
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // so that a test that fails ends
	return &end{t, c, bufio.NewReader(c)}
}

func (e *end) send(body string) {
	e.t.Helper()
	if _, err := e.Write(frame([]byte(body))); err != nil {
		e.t.Fatal("cannot send: ", err)
	}
}

func (e *end) event(session, kind string) {
	e.t.Helper()
	e.send(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"` + session + `","event":{"type":"` + kind + `"}}}`)
}

// next returns the next message.
func (e *end) next() (string, error) {
	_, n, err := readHead(e.in)
	if err != nil {
		return "", err
	}
	body := make([]byte, n)
	_, err = io.ReadFull(e.in, body)
	return string(body), err
}

// hears returns the next message, which must hold that text.
func (e *end) hears(text string) string {
	e.t.Helper()
	body, err := e.next()
	if err != nil || !strings.Contains(body, text) {
		e.t.Fatalf("got %.200s, %v; want %s", body, err, text)
	}
	return body
}

// isClosed reads to the end of the connection, where nothing more may come.
func (e *end) isClosed() {
	e.t.Helper()
	if rest, err := io.ReadAll(e.in); errors.Is(err, os.ErrDeadlineExceeded) || len(rest) > 0 {
		e.t.Fatalf("still open: %v, %.200s", err, rest)
	}
}

// isRead sends more than all buffers on the way hold: it arrives only if the keeper
// still reads.
func (e *end) isRead(session string) {
	e.t.Helper()
	filler := `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"` + session + `","event":{"type":"assistant.message_delta","data":"` + strings.Repeat("x", 64<<10) + `"}}}`
	for range 512 {
		e.send(filler)
	}
}

const sendS = `{"id":"1","method":"session.send","params":{"sessionId":"s","prompt":"go"}}`

// TestTurnGoesOn: nod leaves while a session works. The server keeps its client until
// the turn is over, and the keeper stays until then.
func TestTurnGoesOn(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	r.hurry()
	nod.send(sendS)
	server.hears("session.send")
	_ = nod.Close()
	server.isRead("s")
	server.send(`{"id":"9","method":"userInput.request","params":{"sessionId":"s"}}`) // nobody answers it
	server.event("s", "assistant.idle")
	server.isRead("s")
	server.event("s", "session.idle")
	server.isClosed()
	<-r.ended
}

// TestPendingPermission keeps the connection; a nod that comes back has one of its
// own, over which it can answer, and the old one is given up after the turn.
func TestPendingPermission(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	server.event("s", "permission.requested")
	nod.hears("permission.requested")
	_ = nod.Close()
	server.isRead("s")

	again, second := r.link()
	again.send(`{"id":"1","method":"session.permissions.handlePendingPermissionRequest","params":{"sessionId":"s"}}`)
	second.hears("handlePendingPermissionRequest")
	for _, s := range []*end{server, second} {
		s.event("s", "permission.completed")
		s.event("s", "session.idle")
	}
	server.isClosed()
	again.hears("permission.completed")
	again.hears("session.idle")
	_ = again.Close()
	second.isClosed()
}

// TestNothingAtWork: the connection ends with nod's.
func TestNothingAtWork(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	r.hurry()
	nod.send(sendS)
	server.hears("session.send")
	server.event("s", "session.idle")
	nod.hears("session.idle")
	_ = nod.Close()
	server.isClosed()
	<-r.ended
}

// TestResumed: whether a session that was resumed has pending work is asked once nod
// has left, and only then.
func TestResumed(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		works  bool
	}{
		"at work":    {`"result":{"abortable":true,"hasActiveWork":true}`, true},
		"at rest":    {`"result":{"abortable":false,"hasActiveWork":false}`, false},
		"not loaded": {`"error":{"code":-32603,"message":"Session not found"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			nod, server := r.link()
			nod.send(`{"id":"1","method":"session.resume","params":{"sessionId":"a \"s\"","continuePendingWork":true}}`)
			server.hears("session.resume")
			server.send(`{"id":"1","result":{"sessionId":"s"}}`)
			nod.hears(`"id":"1"`)
			_ = nod.Close()
			var q struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
				Params struct {
					SessionID string `json:"sessionId"`
				} `json:"params"`
			}
			if err := json.Unmarshal([]byte(server.hears(activity)), &q); err != nil || q.Method != activity || q.Params.SessionID != `a "s"` {
				t.Fatalf("%+v, %v", q, err)
			}
			server.send(`{"id":` + string(q.ID) + `,` + c.result + `}`)
			if c.works {
				server.isRead("other") // nobody's, and now at work too
				server.event("other", "session.idle")
				server.event(`a \"s\"`, "session.idle")
			}
			server.isClosed()
		})
	}
}

// TestTwoNods have a connection each, and what is said on one stays there.
func TestTwoNods(t *testing.T) {
	r := newRig(t)
	nod1, server1 := r.link()
	nod2, server2 := r.link()
	nod1.send(`"one"`)
	nod2.send(`"two"`)
	server1.hears("one")
	server2.hears("two")
	_ = nod1.Close()
	server1.isClosed()
	server2.send(`"still here"`)
	nod2.hears("still here")
}

// TestSlowNod makes the server wait; nothing is lost, and nothing piles up.
func TestSlowNod(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	whole := frame([]byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`))
	_ = server.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	sent := 0
	for range 256 {
		n, err := server.Write(whole[sent%len(whole):])
		if sent += n; err != nil {
			break
		}
	}
	if sent == 256*len(whole) {
		t.Fatal("the keeper holds what nod does not read")
	}
	_ = server.SetWriteDeadline(time.Now().Add(30 * time.Second))
	go func() { _, _ = server.Write(whole[sent%len(whole):]) }()
	for range sent/len(whole) + 1 {
		nod.hears(`{"x":"`)
	}
}

// TestServerDies: nod hears all of what it has said, and that it is gone.
func TestServerDies(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	r.hurry()
	nod.send(sendS)
	server.hears("session.send")
	server.event("s", "assistant.turn_start")
	_ = server.Close()
	nod.hears("assistant.turn_start")
	nod.isClosed()
	<-r.ended
}

// TestServerIsNotThere: nod's connection ends.
func TestServerIsNotThere(t *testing.T) {
	r := newRig(t)
	_ = r.server.Close()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	nod := newEnd(t, c)
	nod.send(`{}`)
	nod.isClosed()
}

// TestLook: that somebody looks whether a keeper listens is nothing to the server,
// and does not make the keeper stay.
func TestLook(t *testing.T) {
	r := newRig(t)
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	look := newEnd(t, c)
	nod, server := r.link()
	r.hurry()
	_ = nod.Close()
	server.isClosed()
	<-r.ended
	look.isClosed()
	_ = r.server.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Millisecond)) // one that waits is taken at once
	if s, err := r.server.Accept(); err == nil {
		_ = s.Close()
		t.Error("the server was bothered")
	}
}

// TestUnchanged: whatever is a message passes as it is.
func TestUnchanged(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	odd := "content-length:2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{}" + "Content-Length: 0\r\n\r\n" + "Content-Length: 7\n\nrubbish"
	for _, way := range [][2]*end{{nod, server}, {server, nod}} {
		got := make([]byte, len(odd))
		if _, err := way[0].Write([]byte(odd)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(way[1].in, got); err != nil || string(got) != odd {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// TestNoMessage: what is none ends the connection.
func TestNoMessage(t *testing.T) {
	for name, text := range map[string]string{
		"no length": "Content-Type: x\r\n\r\n{}", "a bad one": "Content-Length: many\r\n\r\n", "below zero": "Content-Length: -1\r\n\r\n",
		"another protocol": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no end": strings.Repeat("x", 1<<20), "long lines": strings.Repeat("x: y\r\n", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			nod, server := r.link()
			_, _ = server.Write([]byte(text)) // the keeper may have had enough before its end
			nod.isClosed()
		})
	}
}

// TestHugeMessage streams through. If nod leaves within one the server gets nothing
// more: it would take that for the rest.
func TestHugeMessage(t *testing.T) {
	r := newRig(t)
	nod, server := r.link()
	nod.send(`{"id":"1","method":"session.resume","params":{"sessionId":"s","continuePendingWork":true}}`)
	server.hears("session.resume")
	server.send(`{"id":"1","result":{}}`)
	nod.hears(`"id":"1"`)
	half := []byte(strings.Repeat("x", maxLooked))
	huge := append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", 2*maxLooked), half...)
	go func() { _, _ = nod.Write(huge); _, _ = nod.Write(half); _, _ = nod.Write(huge); _ = nod.Close() }()
	for i, want := range []int{len(huge) + len(half), len(huge)} {
		if _, err := io.CopyN(io.Discard, server.in, int64(want)); err != nil {
			t.Fatalf("the message %d: %v", i, err)
		}
	}
	server.isRead("s")
	server.event("s", "session.idle")
	server.isClosed()
}
