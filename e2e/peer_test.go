package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// peer is another client of a Codex server that nod is connected to, as a terminal
// is one.
type peer struct {
	t     *testing.T
	conn  *websocket.Conn
	calls int
	seen  int // of heard, by until

	mu    sync.Mutex
	heard []peerMessage
	ended error
}

type peerMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// newPeer connects to a server on the path of a socket, or on a ws:// address.
func newPeer(t *testing.T, address string) *peer {
	t.Helper()
	options := &websocket.DialOptions{}
	if !strings.HasPrefix(address, "ws://") {
		socket := address
		address = "ws://codex/"
		options.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, address, options)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	p := &peer{t: t, conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, raw, err := conn.Read(context.Background())
			var m peerMessage
			if err == nil {
				err = json.Unmarshal(raw, &m)
			}
			p.mu.Lock()
			if p.ended = err; err == nil {
				p.heard = append(p.heard, m)
			}
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.CloseNow()
		<-done
	})
	p.call("initialize", object{"clientInfo": object{"name": "peer", "title": "peer", "version": "1"}, "capabilities": object{"experimentalApi": true}})
	p.send(object{"method": "initialized"})
	return p
}

func (p *peer) send(m object) {
	p.t.Helper()
	raw, err := json.Marshal(m)
	if err == nil {
		err = p.conn.Write(p.t.Context(), websocket.MessageText, raw)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the first message from number from on that is wanted.
func (p *peer) wait(what string, from int, wanted func(peerMessage) bool) (peerMessage, int) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		p.mu.Lock()
		i, n, ended := slices.IndexFunc(p.heard[from:], wanted), len(p.heard), p.ended
		var m peerMessage
		if i >= 0 {
			m = p.heard[from+i]
		}
		p.mu.Unlock()
		switch {
		case i >= 0:
			return m, from + i
		case ended != nil:
			p.t.Fatalf("the server left the other client before %s: %v", what, ended)
		case time.Now().After(deadline):
			p.t.Fatalf("the other client has heard %d messages, and no %s", n, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// call makes a call, which has to succeed, and reads the result.
func (p *peer) call(method string, params object, into ...any) {
	p.t.Helper()
	p.calls++
	raw, _ := json.Marshal(p.calls) // a number
	p.send(object{"id": p.calls, "method": method, "params": params})
	m, _ := p.wait("answer to "+method, 0, func(m peerMessage) bool { return m.Method == "" && string(m.ID) == string(raw) })
	if m.Error != nil {
		p.t.Fatalf("%s: %s", method, m.Error)
	}
	for _, v := range into {
		if err := json.Unmarshal(m.Result, v); err != nil {
			p.t.Fatal(err)
		}
	}
}

// until waits for a request or a notification about a thread, after the one that
// it found last.
func (p *peer) until(thread, method string) peerMessage {
	p.t.Helper()
	m, i := p.wait(method, p.seen, func(m peerMessage) bool {
		var about struct {
			ThreadID string `json:"threadId"`
		}
		return m.Method == method && json.Unmarshal(m.Params, &about) == nil && about.ThreadID == thread
	})
	p.seen = i + 1
	return m
}

func (p *peer) answer(request peerMessage, result object) {
	p.t.Helper()
	p.send(object{"id": request.ID, "result": result})
}

// join subscribes to a thread.
func (p *peer) join(thread string) {
	p.t.Helper()
	p.call("thread/resume", object{"threadId": thread})
}

// begin starts a thread that asks as the policy says.
func (p *peer) begin(folder, policy string, more object) (thread string) {
	p.t.Helper()
	params := object{"cwd": folder, "approvalPolicy": policy, "sandbox": "workspace-write"}
	for k, v := range more {
		params[k] = v
	}
	var started struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	p.call("thread/start", params, &started)
	return started.Thread.ID
}

// prompt starts a turn.
func (p *peer) prompt(thread, text string, more object) (turn string) {
	p.t.Helper()
	params := object{"threadId": thread, "input": []object{{"type": "text", "text": text}}}
	for k, v := range more {
		params[k] = v
	}
	var started struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	p.call("turn/start", params, &started)
	return started.Turn.ID
}
