package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

type object = map[string]any

// turn writes one answer of the model as the events of a Responses stream.
type turn struct {
	w       http.ResponseWriter
	ctx     context.Context
	delay   time.Duration
	tag     string      // unlike that of every other answer, also of an earlier run
	seq     int         // of the next event
	index   int         // of the next output item
	offered []offered   // which tools there are
	outputs []inputItem // what tools have returned in this turn
	steered []string    // what a person has said since the turn began
	gone    bool        // the client is; a script need not ask, it just plays to nobody
}

func (t *turn) id(kind string) string { return fmt.Sprintf("%s_%s_%d", kind, t.tag, t.index) }

// event writes one event. After the client has gone nothing is written any more:
// a stream that stopped in the middle must not end as if it were whole.
func (t *turn) event(kind string, fields object) {
	if t.gone = t.gone || t.ctx.Err() != nil; t.gone {
		return
	}
	fields["type"], fields["sequence_number"] = kind, t.seq
	t.seq++
	if _, err := fmt.Fprintf(t.w, "event: %s\ndata: %s\n\n", kind, encode(fields)); err != nil {
		t.gone = true
		return
	}
	t.gone = http.NewResponseController(t.w).Flush() != nil
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
func (t *turn) pause(d time.Duration) {
	if d <= 0 || t.gone {
		return
	}
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
	}
}

// deltas writes text in pieces. at tells where it belongs.
func (t *turn) deltas(kind string, at object, pieces []string, delay time.Duration) {
	for _, p := range pieces {
		if t.gone {
			return
		}
		t.event(kind, with(at, object{"delta": p}))
		t.pause(delay)
	}
}

// with leaves both maps alone, since their events differ only in part.
func with(base, more object) object {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}

// item writes the frame of an output item around its content. done is what the
// item has got by the end.
func (t *turn) item(item object, content func(), done object) {
	t.event("response.output_item.added", object{"output_index": t.index, "item": item})
	content()
	t.event("response.output_item.done", object{"output_index": t.index, "item": with(item, done)})
	t.index++
}

// created begins the answer: Codex counts nothing before it.
func (t *turn) created() {
	t.event("response.created", object{"response": object{"id": "resp_" + t.tag, "object": "response", "status": "in_progress", "output": []any{}}})
}

// completed ends the answer with token counts that look like something.
func (t *turn) completed() {
	t.event("response.completed", object{"response": object{
		"id": "resp_" + t.tag, "object": "response", "status": "completed", "output": []any{},
		"usage": object{
			"input_tokens": 1200, "input_tokens_details": object{"cached_tokens": 800},
			"output_tokens": 150, "output_tokens_details": object{"reasoning_tokens": 40}, "total_tokens": 1350,
		},
	}})
}

// think writes a summary of thoughts. Codex shows its parts one by one.
func (t *turn) think(parts ...string) { t.reason("", parts...) }

// reason writes thoughts and a summary of them. Few models tell the thoughts.
func (t *turn) reason(raw string, parts ...string) {
	id := t.id("rs")
	summary := make([]object, len(parts))
	for i, p := range parts {
		summary[i] = object{"type": "summary_text", "text": p}
	}
	done := object{"summary": summary, "encrypted_content": nil}
	if raw != "" {
		done["content"] = []object{{"type": "reasoning_text", "text": raw}}
	}
	t.item(object{"type": "reasoning", "id": id, "summary": []any{}}, func() {
		for i, p := range parts {
			at := object{"item_id": id, "output_index": t.index, "summary_index": i}
			t.event("response.reasoning_summary_part.added", with(at, object{"part": object{"type": "summary_text", "text": ""}}))
			t.deltas("response.reasoning_summary_text.delta", at, words(p), t.delay)
			t.event("response.reasoning_summary_text.done", with(at, object{"text": p}))
			t.event("response.reasoning_summary_part.done", with(at, object{"part": summary[i]}))
		}
		t.deltas("response.reasoning_text.delta", object{"item_id": id, "output_index": t.index, "content_index": 0}, words(raw), t.delay)
	}, done)
}

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

// message writes a message; streamed is called when its text has been, before it
// is said to be whole.
func (t *turn) message(phase string, pieces []string, delay time.Duration, streamed func()) {
	id, text := t.id("msg"), strings.Join(pieces, "")
	at := object{"item_id": id, "output_index": t.index, "content_index": 0}
	part := func(text string) object { return object{"type": "output_text", "text": text, "annotations": []any{}} }
	t.item(object{"type": "message", "id": id, "role": "assistant", "phase": phase, "status": "in_progress", "content": []any{}}, func() {
		t.event("response.content_part.added", with(at, object{"part": part("")}))
		t.deltas("response.output_text.delta", at, pieces, delay)
		streamed()
		t.event("response.output_text.done", with(at, object{"text": text}))
		t.event("response.content_part.done", with(at, object{"part": part(text)}))
	}, object{"status": "completed", "content": []any{part(text)}})
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

// call has Codex use a function tool.
func (t *turn) call(name string, arguments object) { t.callIn("", name, arguments) }

// callIn has it use a tool of a namespace.
func (t *turn) callIn(namespace, name string, arguments object) {
	id, raw := t.id("fc"), encode(arguments)
	at := object{"item_id": id, "output_index": t.index}
	call := object{"type": "function_call", "id": id, "name": name, "call_id": t.id("call"), "arguments": ""}
	if namespace != "" {
		call["namespace"] = namespace
	}
	t.item(call, func() {
		t.event("response.function_call_arguments.delta", with(at, object{"delta": raw}))
		t.event("response.function_call_arguments.done", with(at, object{"arguments": raw}))
	}, object{"arguments": raw, "status": "completed"})
}

// command has Codex run a shell command, and wait long enough for the slow ones:
// otherwise the answer comes while they run.
func (t *turn) command(cmd string) {
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

// mcp has Codex use a tool of the server of e2e/fakemcp. An older Codex offers
// its tools at once, and in a namespace of another form.
func (t *turn) mcp(tool string, arguments object) {
	namespace := "mcp__" + mcpServer
	if t.has(namespace + "__") {
		namespace += "__"
	}
	t.callIn(namespace, tool, arguments)
}

func (t *turn) has(tool string) bool {
	return slices.ContainsFunc(t.offered, func(o offered) bool { return o.Name == tool })
}

// search says that the model has searched the web, which it does by itself.
func (t *turn) search(query string) {
	t.item(object{"type": "web_search_call", "id": t.id("ws"), "status": "in_progress"}, func() { t.pause(t.delay) },
		object{"status": "completed", "action": object{"type": "search", "query": query}})
}

// patch has Codex change files. apply_patch takes free text, so it is no
// function; Codex shows the patch while it streams. An older Codex offers it to
// some models only, but takes a command of that name for it.
func (t *turn) patch(patch string) {
	if len(t.offered) > 0 && !t.has("apply_patch") {
		t.command("apply_patch <<'EOF'\n" + patch + "\nEOF\n")
		return
	}
	t.custom("apply_patch", patch)
}

// custom has it use a tool that takes free text.
func (t *turn) custom(name, input string) {
	id, call := t.id("ctc"), t.id("call")
	at := object{"item_id": id, "output_index": t.index}
	t.item(object{"type": "custom_tool_call", "id": id, "name": name, "call_id": call, "input": ""}, func() {
		t.deltas("response.custom_tool_call_input.delta", with(at, object{"call_id": call}), strings.SplitAfter(input, "\n"), t.delay)
		t.event("response.custom_tool_call_input.done", with(at, object{"input": input}))
	}, object{"input": input, "status": "completed"})
}
