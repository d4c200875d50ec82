// Command fakeagent stands in for `codex app-server` while nod is being killed. It
// speaks just enough of that protocol: each turn it streams numbered words, in
// messages and in the output of commands, and asks before some of the commands.
//
// Everything that it sends is in its log before it is sent, and every decision as
// soon as it is read, so that the log tells the truth about a nod that is no more.
// The numbers go on where the log ends: no word and no name comes twice.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// LogEnv names the log file.
const LogEnv = "NOD_FAKEAGENT_LOG"

// pace is the pause between two pieces of text: a few hundred a second.
const pace = 3 * time.Millisecond

// breath is the pause between two items: text stops, and so do nod's commits.
const breath = 40 * time.Millisecond

func main() {
	signal.Ignore(syscall.SIGPIPE) // a nod that is gone must not end us before we have read what it wrote
	if err := run(os.Getenv(LogEnv), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent:", err)
		os.Exit(1)
	}
}

// entry is one line of the log.
type entry struct {
	What     string `json:"what"` // start, turn, item, words, ask, decision, done, end
	PID      int    `json:"pid,omitempty"`
	Turn     string `json:"turn,omitempty"`
	Item     string `json:"item,omitempty"`
	Command  string `json:"command,omitempty"`
	Ask      int    `json:"ask,omitempty"`
	Decision string `json:"decision,omitempty"`
	From     int    `json:"from,omitempty"` // first word of a piece
	To       int    `json:"to,omitempty"`   // last
	Status   string `json:"status,omitempty"`
	// How far the numbers are; for the process after this one.
	Words int `json:"w"`
	Names int `json:"n"`
}

// agent is the process. Its log is locked as long as it lives.
type agent struct {
	mu    sync.Mutex // of the log and the numbers
	log   *os.File
	words int
	names int
	asked map[int]asked
	stops map[string]context.CancelFunc // by turn

	sending sync.Mutex
	out     io.Writer
	broken  bool // nod is gone
}

// asked is a request that waits, and the turn that waits for it.
type asked struct {
	thread string
	answer chan string // has room for one
}

func run(path string, in io.Reader, out io.Writer) error {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The process of the nod before may still be reading its last decision.
	if err := syscall.Flock(int(log.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	a := &agent{log: log, out: out, asked: map[int]asked{}, stops: map[string]context.CancelFunc{}}
	if err := a.restore(); err != nil {
		return err
	}
	a.write(entry{What: "start", PID: os.Getpid()})
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // nod is gone; half a line is no decision
			a.write(entry{What: "end"})
			return nil
		}
		a.receive(line)
	}
}

// restore takes the numbers from the last line of the log.
func (a *agent) restore() error {
	const enough = 4 << 10
	info, err := a.log.Stat()
	if err != nil {
		return err
	}
	b := make([]byte, min(info.Size(), enough))
	if _, err := a.log.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	last := lines[len(lines)-1]
	if len(last) == 0 {
		return nil
	}
	var e entry
	err = json.Unmarshal(last, &e)
	a.words, a.names = e.Words, e.Names
	return err
}

// write appends to the log, with one write: a kill leaves whole lines.
func (a *agent) write(e entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeLocked(e)
}

func (a *agent) writeLocked(e entry) {
	e.Words, e.Names = a.words, a.names
	b, _ := json.Marshal(e) // strings and numbers always encode
	if _, err := a.log.Write(append(b, '\n')); err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent: the log:", err)
		os.Exit(1) // what is not in the log must not be sent
	}
}

// name makes a number that was never used.
func (a *agent) name() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names++
	return a.names
}

type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

type object = map[string]any

func (a *agent) send(o object) {
	b, _ := json.Marshal(o) // made of strings and numbers
	a.sending.Lock()
	defer a.sending.Unlock()
	if a.broken {
		return
	}
	_, err := a.out.Write(append(b, '\n'))
	a.broken = err != nil
}

func (a *agent) notify(method string, params object) {
	a.send(object{"method": method, "params": params})
}

func (a *agent) receive(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return // "initialized"
	}
	var p struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}
	_ = json.Unmarshal(m.Params, &p) // an answer has none
	answer := func(result object) { a.send(object{"id": *m.ID, "result": result}) }
	switch m.Method {
	case "":
		a.decided(*m.ID, m.Result)
	case "initialize":
		answer(object{"userAgent": "nod/0.171.0 (fakeagent)"})
	case "thread/start":
		answer(object{"thread": object{"id": fmt.Sprint("thread-", a.name())}, "model": "numbers"})
	case "thread/loaded/list":
		answer(object{"data": []string{}})
	case "thread/resume":
		answer(object{"thread": object{"id": p.ThreadID}, "model": "numbers"})
	case "turn/start":
		ctx, stop := context.WithCancel(context.Background())
		t := &turn{agent: a, ctx: ctx, thread: p.ThreadID, id: fmt.Sprint("turn-", a.name())}
		a.mu.Lock()
		a.stops[t.id] = stop
		a.mu.Unlock()
		a.write(entry{What: "turn", Turn: t.id})
		answer(object{"turn": object{"id": t.id}})
		go t.play()
	case "turn/interrupt":
		answer(object{})
		a.mu.Lock()
		stop := a.stops[p.TurnID]
		a.mu.Unlock()
		if stop != nil {
			stop()
		}
	default:
		a.send(object{"id": *m.ID, "error": object{"code": -32600, "message": "fakeagent does not know " + m.Method}})
	}
}

// decided notes a decision, then hands it to the turn that waits for it. All are
// noted, the second for one request above all.
func (a *agent) decided(ask int, result json.RawMessage) {
	var r struct {
		Decision string `json:"decision"`
	}
	_ = json.Unmarshal(result, &r) // "" is in the log then, and is none that anybody gave
	a.mu.Lock()
	a.writeLocked(entry{What: "decision", Ask: ask, Decision: r.Decision})
	waits, first := a.asked[ask]
	delete(a.asked, ask)
	a.mu.Unlock()
	if first {
		a.notify("serverRequest/resolved", object{"threadId": waits.thread, "requestId": ask})
		waits.answer <- r.Decision
	}
}

// turn is one turn that is being played. Its context ends when it is stopped.
type turn struct {
	agent      *agent
	ctx        context.Context
	thread, id string
}

func (t *turn) params(more object) object {
	more["threadId"], more["turnId"] = t.thread, t.id
	return more
}

// play is the script: text, a command that asks, one that does not, two that ask
// at once, text.
func (t *turn) play() {
	t.agent.notify("turn/started", object{"threadId": t.thread, "turn": object{"id": t.id, "status": "inProgress"}})
	for _, step := range []func(){
		func() { t.say(80) },
		func() { t.run(t.command(true)) },
		func() { t.say(50) },
		func() { t.run(t.command(false)) },
		func() { t.run(t.command(true), t.command(true)) },
		func() { t.say(80) },
	} {
		step()
		t.pause(breath)
	}
	status := "completed"
	if t.ctx.Err() != nil {
		status = "interrupted"
	}
	t.agent.write(entry{What: "done", Turn: t.id, Status: status})
	t.agent.notify("thread/tokenUsage/updated", t.params(object{"tokenUsage": object{"last": object{"inputTokens": 1000, "outputTokens": 100}}}))
	t.agent.notify("turn/completed", object{"threadId": t.thread, "turn": object{"id": t.id, "status": status, "durationMs": 1000}})
}

func (t *turn) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
	}
}

// stream sends n words in pieces of one or two, and returns them all.
func (t *turn) stream(n int, method, item string) string {
	var all strings.Builder
	for i := 0; i < n && t.ctx.Err() == nil; {
		t.agent.mu.Lock()
		from := t.agent.words + 1
		size := min(1+from%2, n-i)
		t.agent.words += size
		t.agent.writeLocked(entry{What: "words", Turn: t.id, Item: item, From: from, To: from + size - 1})
		t.agent.mu.Unlock()
		var piece strings.Builder
		for w := from; w < from+size; w++ {
			fmt.Fprintf(&piece, "w%06d ", w)
		}
		i += size
		all.WriteString(piece.String())
		t.agent.notify(method, t.params(object{"itemId": item, "delta": piece.String()}))
		t.pause(pace)
	}
	return all.String()
}

func (t *turn) say(n int) {
	if t.ctx.Err() != nil {
		return
	}
	id := fmt.Sprint("msg-", t.agent.name())
	t.agent.write(entry{What: "item", Turn: t.id, Item: id})
	t.agent.notify("item/started", t.params(object{"item": object{"type": "agentMessage", "id": id, "text": ""}}))
	text := t.stream(n, "item/agentMessage/delta", id)
	t.agent.notify("item/completed", t.params(object{"item": object{"type": "agentMessage", "id": id, "text": text}}))
}

// command is one that has not run yet.
type command struct {
	id, line string
	asks     bool
	ask      int
	answer   chan string
}

func (t *turn) command(asks bool) *command {
	n := t.agent.name()
	return &command{id: fmt.Sprint("call-", n), line: fmt.Sprint("count --from ", n), asks: asks}
}

func (t *turn) item(c *command, status string, more object) object {
	item := object{"type": "commandExecution", "id": c.id, "command": c.line, "cwd": "/", "status": status}
	for k, v := range more {
		item[k] = v
	}
	return t.params(object{"item": item})
}

// run starts commands, asks for all of those that ask, and then runs them one
// after the other: the words come in the order of the items.
func (t *turn) run(cs ...*command) {
	if t.ctx.Err() != nil {
		return
	}
	for _, c := range cs {
		t.agent.write(entry{What: "item", Turn: t.id, Item: c.id, Command: c.line})
		t.agent.notify("item/started", t.item(c, "inProgress", nil))
		if c.asks {
			t.ask(c)
		}
	}
	for _, c := range cs {
		if c.asks {
			select {
			case decision := <-c.answer:
				if decision != "accept" {
					t.agent.notify("item/completed", t.item(c, "declined", nil))
					continue
				}
			case <-t.ctx.Done():
				return
			}
		}
		t.pause(breath)
		out := t.stream(50, "item/commandExecution/outputDelta", c.id)
		if t.ctx.Err() != nil {
			return // as Codex does: no word of an item that was interrupted
		}
		t.agent.notify("item/completed", t.item(c, "completed", object{"exitCode": 0, "durationMs": 100, "aggregatedOutput": out}))
	}
}

func (t *turn) ask(c *command) {
	c.ask, c.answer = t.agent.name(), make(chan string, 1)
	t.agent.mu.Lock()
	t.agent.asked[c.ask] = asked{t.thread, c.answer}
	t.agent.writeLocked(entry{What: "ask", Turn: t.id, Item: c.id, Command: c.line, Ask: c.ask})
	t.agent.mu.Unlock()
	t.agent.send(object{"id": c.ask, "method": "item/commandExecution/requestApproval", "params": t.params(object{
		"itemId": c.id, "command": c.line, "cwd": "/", "availableDecisions": []string{"accept", "cancel"},
	})})
}
