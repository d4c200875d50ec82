package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// puppetWord makes a process of the test program the pipe between nod, which takes
// it for Codex, and the test that pulls the strings.
const puppetWord = "nod-e2e-puppet"

// puppetPipe is that process.
func puppetPipe(socket string) int {
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin) // nod is gone
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, c) // the test is over
	return 0
}

type object = map[string]any

// puppet is an agent that does what a test tells it, word by word. It speaks the
// protocol of `codex app-server`.
type puppet struct {
	t      *testing.T
	scenes chan *scene
	model  string // as it calls it
	agent  string // as it calls itself

	mu    sync.Mutex
	out   net.Conn // to the newest nod
	names int
	asked map[int]chan json.RawMessage // what nod answers
}

// newPuppetWorld starts a nod whose Codex is a puppet.
func newPuppetWorld(t *testing.T) (*world, *puppet) {
	t.Helper()
	w, p := puppetWorld(t)
	w.start()
	return w, p
}

func puppetWorld(t *testing.T) (*world, *puppet) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod-puppet-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s'\n", program, puppetWord, socket)
	if err := os.WriteFile(filepath.Join(dir, "codex"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &puppet{t: t, scenes: make(chan *scene, 100), model: "strings", agent: "nod/0.171.0 (puppet)", asked: map[int]chan json.RawMessage{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.out = c
			p.mu.Unlock()
			go p.listen(c)
		}
	}()
	w := &world{t: t, data: filepath.Join(t.TempDir(), "data"), folder: t.TempDir(), path: dir + ":/usr/bin:/bin"}
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.out != nil {
			_ = p.out.Close()
		}
	})
	return w, p
}

func (p *puppet) send(o object) {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // made of strings and numbers
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil {
		_, _ = p.out.Write(append(b, '\n')) // a nod that is gone hears nothing
	}
}

func (p *puppet) name() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names++
	return p.names
}

func (p *puppet) listen(c net.Conn) {
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     *int            `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Params struct {
				ThreadID string `json:"threadId"`
				TurnID   string `json:"turnId"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue // "initialized"
		}
		answer := func(result object) { p.send(object{"id": *m.ID, "result": result}) }
		switch m.Method {
		case "":
			p.mu.Lock()
			answered := p.asked[*m.ID]
			delete(p.asked, *m.ID)
			p.mu.Unlock()
			if answered != nil {
				answered <- m.Result
			}
		case "initialize":
			answer(object{"userAgent": p.agent})
		case "thread/start":
			answer(object{"thread": object{"id": fmt.Sprint("thread-", p.name())}, "model": p.model})
		case "thread/loaded/list":
			answer(object{"data": []string{}})
		case "thread/resume":
			answer(object{"thread": object{"id": m.Params.ThreadID}, "model": p.model})
		case "turn/start":
			s := &scene{p: p, thread: m.Params.ThreadID, id: fmt.Sprint("turn-", p.name())}
			answer(object{"turn": object{"id": s.id}})
			s.notify("turn/started", object{"turn": object{"id": s.id, "status": "inProgress"}})
			p.scenes <- s
		case "turn/interrupt":
			answer(object{})
			(&scene{p: p, thread: m.Params.ThreadID, id: m.Params.TurnID}).end("interrupted")
		default:
			p.send(object{"id": *m.ID, "error": object{"code": -32600, "message": "the puppet does not know " + m.Method}})
		}
	}
}

// scene waits for the next turn that nod starts.
func (p *puppet) scene() *scene {
	p.t.Helper()
	select {
	case s := <-p.scenes:
		return s
	case <-time.After(patience):
		p.t.Fatal("nod began no turn")
	}
	return nil
}

// scene is one turn, and what can happen in it.
type scene struct {
	p          *puppet
	thread, id string
	begun      map[string]bool // texts
}

// again is a further turn of the same session, one that nod has not started.
func (s *scene) again(message string) *scene {
	n := &scene{p: s.p, thread: s.thread, id: fmt.Sprint("turn-", s.p.name())}
	n.notify("turn/started", object{"turn": object{"id": n.id, "status": "inProgress"}})
	n.begin(object{"type": "userMessage", "id": n.id + "-ask", "content": []any{object{"type": "text", "text": message}}})
	return n
}

func (s *scene) params(more object) object {
	more["threadId"], more["turnId"] = s.thread, s.id
	return more
}

func (s *scene) notify(method string, params object) {
	s.p.send(object{"method": method, "params": s.params(params)})
}

func (s *scene) begin(item object) { s.notify("item/started", object{"item": item}) }
func (s *scene) done(item object)  { s.notify("item/completed", object{"item": item}) }

// text begins a text that has not begun.
func (s *scene) text(kind, id string) {
	if !s.begun[id] {
		if s.begun == nil {
			s.begun = map[string]bool{}
		}
		s.begun[id] = true
		s.begin(object{"type": kind, "id": id})
	}
}

// say adds to a message, which need not have begun.
func (s *scene) say(id, text string) {
	s.text("agentMessage", id)
	s.notify("item/agentMessage/delta", object{"itemId": id, "delta": text})
}

func (s *scene) think(id, text string) {
	s.text("reasoning", id)
	s.notify("item/reasoning/summaryTextDelta", object{"itemId": id, "delta": text, "summaryIndex": 0})
}

// run begins a command; write is what it writes, ran its end.
func (s *scene) run(id, line string) { s.begin(command(id, line, "inProgress")) }
func (s *scene) write(id, text string) {
	s.notify("item/commandExecution/outputDelta", object{"itemId": id, "delta": text})
}

func (s *scene) ran(id, line string) {
	item := command(id, line, "completed")
	item["exitCode"], item["durationMs"] = 0, 100
	s.done(item)
}

func command(id, line, status string) object {
	return object{"type": "commandExecution", "id": id, "command": line, "cwd": "/", "status": status}
}

// ask asks for something. What nod answers comes from the channel; asked tells nod
// that it has come.
func (s *scene) ask(method string, params object) (answer <-chan json.RawMessage, resolved func()) {
	id, c := s.p.name()+1_000_000, make(chan json.RawMessage, 1) // unlike nod's own ids
	s.p.mu.Lock()
	s.p.asked[id] = c
	s.p.mu.Unlock()
	s.p.send(object{"id": id, "method": method, "params": s.params(params)})
	return c, func() { s.notify("serverRequest/resolved", object{"requestId": id}) }
}

// askToRun begins a command and asks whether it may.
func (s *scene) askToRun(id, line string) (answer <-chan json.RawMessage, resolved func()) {
	s.run(id, line)
	return s.ask("item/commandExecution/requestApproval", object{"itemId": id, "command": line, "cwd": "/"})
}

func (s *scene) end(status string) {
	s.notify("turn/completed", object{"turn": object{"id": s.id, "status": status, "durationMs": 1000}})
}

// approved waits for the answer to a request, which must be a yes.
func approved(t *testing.T, answer <-chan json.RawMessage) {
	t.Helper()
	select {
	case a := <-answer:
		if !strings.Contains(string(a), `"accept"`) {
			t.Errorf("nod answered %s", a)
		}
	case <-time.After(patience):
		t.Fatal("nod did not answer")
	}
}
