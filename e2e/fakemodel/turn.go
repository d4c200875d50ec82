package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type object = map[string]any

// turn writes one answer of the model as the events of a Responses stream.
type turn struct {
	w       http.ResponseWriter
	ctx     context.Context
	delay   time.Duration
	n       int64       // of the request
	seq     int         // of the next event
	index   int         // of the next output item
	outputs []inputItem // what tools have returned in this turn
}

func (t *turn) id(kind string) string { return fmt.Sprintf("%s_%d_%d", kind, t.n, t.index) }

// event writes one event. A client that has gone away is noticed by the pauses.
func (t *turn) event(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, t.seq
	t.seq++
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings, numbers, maps and lists
	}
	_, _ = fmt.Fprintf(t.w, "event: %s\ndata: %s\n\n", kind, b)
	_ = http.NewResponseController(t.w).Flush()
}

// pause waits and reports whether the client is still there.
func (t *turn) pause(d time.Duration) bool {
	if d == 0 {
		return t.ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-t.ctx.Done():
		return false
	}
}

// item writes the frame of an output item around its content.
func (t *turn) item(item object, content func(), done object) {
	t.event("response.output_item.added", object{"output_index": t.index, "item": item})
	content()
	final := object{}
	for k, v := range item {
		final[k] = v
	}
	for k, v := range done {
		final[k] = v
	}
	t.event("response.output_item.done", object{"output_index": t.index, "item": final})
	t.index++
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

func (t *turn) think(parts ...string) {
	id := t.id("rs")
	summary := []any{}
	t.item(object{"type": "reasoning", "id": id, "summary": []any{}}, func() {
		for i, p := range parts {
			at := func(more object) object {
				more["item_id"], more["output_index"], more["summary_index"] = id, t.index, i
				return more
			}
			whole := object{"type": "summary_text", "text": p}
			t.event("response.reasoning_summary_part.added", at(object{"part": object{"type": "summary_text", "text": ""}}))
			for _, w := range words(p) {
				t.event("response.reasoning_summary_text.delta", at(object{"delta": w}))
				if !t.pause(t.delay) {
					return
				}
			}
			t.event("response.reasoning_summary_text.done", at(object{"text": p}))
			t.event("response.reasoning_summary_part.done", at(object{"part": whole}))
			summary = append(summary, whole)
		}
	}, object{"summary": summary, "encrypted_content": nil})
}

// Phases of a message (Responses API): remarks on the way, and the answer.
const (
	commentary  = "commentary"
	finalAnswer = "final_answer"
)

func (t *turn) say(phase, text string) { t.stream(phase, words(text), t.delay) }

// stream writes a message piece by piece.
func (t *turn) stream(phase string, pieces []string, delay time.Duration) {
	id, text := t.id("msg"), strings.Join(pieces, "")
	content := object{"type": "output_text", "text": text, "annotations": []any{}}
	t.item(object{"type": "message", "id": id, "role": "assistant", "phase": phase, "status": "in_progress", "content": []any{}}, func() {
		at := func(more object) object {
			more["item_id"], more["output_index"], more["content_index"] = id, t.index, 0
			return more
		}
		t.event("response.content_part.added", at(object{"part": object{"type": "output_text", "text": ""}}))
		for _, p := range pieces {
			t.event("response.output_text.delta", at(object{"delta": p}))
			if !t.pause(delay) {
				return
			}
		}
		t.event("response.output_text.done", at(object{"text": text}))
	}, object{"status": "completed", "content": []any{content}})
}

// breakOff begins a message and drops the connection.
func (t *turn) breakOff(text string) {
	id := t.id("msg")
	t.event("response.output_item.added", object{"output_index": t.index, "item": object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}}})
	t.event("response.content_part.added", object{"item_id": id, "output_index": t.index, "content_index": 0, "part": object{"type": "output_text", "text": ""}})
	for _, w := range words(text) {
		t.event("response.output_text.delta", object{"item_id": id, "output_index": t.index, "content_index": 0, "delta": w})
		t.pause(t.delay)
	}
	panic(http.ErrAbortHandler) // the one way to end a response that is not complete
}

// call has Codex use a function tool.
func (t *turn) call(name string, arguments object) {
	raw, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // strings, numbers, maps and lists
	}
	id := t.id("fc")
	t.item(object{"type": "function_call", "id": id, "name": name, "call_id": t.id("call"), "arguments": ""}, func() {
		t.event("response.function_call_arguments.delta", object{"item_id": id, "output_index": t.index, "delta": string(raw)})
		t.event("response.function_call_arguments.done", object{"item_id": id, "output_index": t.index, "arguments": string(raw)})
	}, object{"arguments": string(raw), "status": "completed"})
}

// command has Codex run a shell command.
func (t *turn) command(cmd string) {
	t.call("exec_command", object{"cmd": cmd, "yield_time_ms": 30_000})
}

// patch has Codex change files: apply_patch takes free text.
func (t *turn) patch(patch string) {
	id, call := t.id("ctc"), t.id("call")
	t.item(object{"type": "custom_tool_call", "id": id, "name": "apply_patch", "call_id": call, "input": ""}, func() {
		for _, l := range strings.SplitAfter(patch, "\n") {
			t.event("response.custom_tool_call_input.delta", object{"item_id": id, "output_index": t.index, "call_id": call, "delta": l})
		}
		t.event("response.custom_tool_call_input.done", object{"item_id": id, "output_index": t.index, "input": patch})
	}, object{"input": patch, "status": "completed"})
}

// completed ends the answer with token counts that look like something.
func (t *turn) completed() {
	t.event("response.completed", object{"response": object{
		"id": t.id("resp"), "object": "response", "status": "completed", "output": []any{},
		"usage": object{
			"input_tokens": 1200, "input_tokens_details": object{"cached_tokens": 800},
			"output_tokens": 150, "output_tokens_details": object{"reasoning_tokens": 40}, "total_tokens": 1350,
		},
	}})
}
