package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type object = map[string]any

// turn is one answer of the model, as a script sees it.
type turn struct {
	form
	*writer
	offered []offered   // which tools there are
	outputs []inputItem // what tools have returned in this turn
	steered []string    // what a person has said since the turn began
	folder  string      // in which the agent works, if it says so
}

// form is how an API writes the parts of an answer.
type form interface {
	created()
	reason(raw string, parts ...string)
	// message writes text; streamed is called when its pieces are out, before it
	// is said to be whole.
	message(phase string, pieces []string, delay time.Duration, streamed func())
	callIn(namespace, name string, arguments object)
	custom(name, input string)
	completed()
}

// writer is where a form writes to.
type writer struct {
	w     http.ResponseWriter
	ctx   context.Context
	delay time.Duration
	tag   string // unlike that of every other answer, also of an earlier run
	index int    // of the next part of the answer
	gone  bool   // the client is; a script need not ask, it just plays to nobody
}

func (w *writer) id(kind string) string { return fmt.Sprintf("%s_%s_%d", kind, w.tag, w.index) }

// send writes and flushes. After the client has gone nothing is written any more:
// a stream that stopped in the middle must not end as if it were whole.
func (w *writer) send(text string) {
	if w.gone = w.gone || w.ctx.Err() != nil; w.gone {
		return
	}
	if _, err := fmt.Fprint(w.w, text); err != nil {
		w.gone = true
		return
	}
	w.gone = http.NewResponseController(w.w).Flush() != nil
}

// encode is for what scripts write: strings, numbers, maps and lists.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a script holds something else
	}
	return string(b)
}

// pause keeps the speed of a model.
func (w *writer) pause(d time.Duration) {
	if d <= 0 || w.gone {
		return
	}
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// think writes a summary of thoughts. Codex shows its parts one by one.
func (t *turn) think(parts ...string) { t.reason("", parts...) }

// Phases of a message (Responses API): remarks on the way, and the answer.
const (
	commentary  = "commentary"
	finalAnswer = "final_answer"
)

func (t *turn) say(phase, text string) { t.stream(phase, words(text), t.delay) }

// stream writes a message in pieces of the caller's choice.
func (t *turn) stream(phase string, pieces []string, delay time.Duration) {
	t.message(phase, pieces, delay, func() {})
}

// breakOff begins an answer and drops the connection in the middle of it.
func (t *turn) breakOff(text string) {
	t.message(finalAnswer, words(text), t.delay, func() {
		panic(http.ErrAbortHandler) // the one way to end a response that is not complete
	})
}

// words splits text so that each piece ends with its white space.
func words(text string) []string {
	var out []string
	for text != "" {
		i := strings.IndexAny(text, " \n")
		for i >= 0 && i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\n') {
			i++
		}
		if i < 0 {
			i = len(text) - 1
		}
		out, text = append(out, text[:i+1]), text[i+1:]
	}
	return out
}

// call has the agent use a function tool.
func (t *turn) call(name string, arguments object) { t.callIn("", name, arguments) }

// command has the agent run a shell command, and wait long enough for the slow
// ones: otherwise the answer comes while they run.
func (t *turn) command(cmd string) { t.commandFor(cmd, "Do what the script says") }

// commandFor also says what it is for, where the agent has a place for that.
func (t *turn) commandFor(cmd, intention string) {
	if t.has("bash") {
		t.call("bash", object{"command": cmd, "description": intention, "mode": "sync", "initial_wait": 30})
		return
	}
	t.call("exec_command", object{"cmd": cmd, "yield_time_ms": 30_000})
}

// runningID is the number of the command that the last call left running.
func (t *turn) runningID() int {
	var n int
	if _, after, ok := strings.Cut(t.outputs[len(t.outputs)-1].output(), "session ID "); ok {
		_, _ = fmt.Sscan(after, &n) // stays 0, which no command has
	}
	return n
}

// path names a file in the folder of the agent, since some tools take no other.
func (t *turn) path(name string) string { return filepath.Join(t.folder, name) }

// mcp has the agent use a tool of the server of e2e/fakemcp. Copilot offers it
// under one name; an older Codex offers its tools at once, and in a namespace of
// another form.
func (t *turn) mcp(tool string, arguments object) {
	if flat := mcpServer + "-" + tool; t.has(flat) {
		t.call(flat, arguments)
		return
	}
	namespace := "mcp__" + mcpServer
	if t.has(namespace + "__") {
		namespace += "__"
	}
	t.callIn(namespace, tool, arguments)
}

func (t *turn) has(tool string) bool {
	return slices.ContainsFunc(t.offered, func(o offered) bool { return o.Name == tool })
}

// search says that the model has searched the web, which it does by itself. Chat
// Completions has no word for that.
func (t *turn) search(query string) {
	if r, ok := t.form.(*responses); ok {
		r.search(query)
	}
}

// patch has the agent change files. apply_patch takes free text, so it is no
// function; it shows the patch while it streams. An older Codex offers it to
// some models only, but takes a command of that name for it.
func (t *turn) patch(patch string) {
	if len(t.offered) > 0 && !t.has("apply_patch") {
		t.command("apply_patch <<'EOF'\n" + patch + "\nEOF\n")
		return
	}
	t.custom("apply_patch", patch)
}
