package main

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// responses writes an answer as the events of a Responses stream.
type responses struct {
	*writer
	seq int // of the next event
}

// event writes one event.
func (r *responses) event(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, r.seq
	r.seq++
	r.send(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, encode(fields)))
}

// deltas writes text in pieces. at tells where it belongs.
func (r *responses) deltas(kind string, at object, pieces []string, delay time.Duration) {
	for _, p := range pieces {
		if r.gone {
			return
		}
		r.event(kind, with(at, object{"delta": p}))
		r.pause(delay)
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
func (r *responses) item(item object, content func(), done object) {
	r.event("response.output_item.added", object{"output_index": r.index, "item": item})
	content()
	r.event("response.output_item.done", object{"output_index": r.index, "item": with(item, done)})
	r.index++
}

// created begins the answer: Codex counts nothing before it.
func (r *responses) created() {
	r.event("response.created", object{"response": object{"id": "resp_" + r.tag, "object": "response", "status": "in_progress", "output": []any{}}})
}

// completed ends the answer with token counts that look like something.
func (r *responses) completed() {
	r.event("response.completed", object{"response": object{
		"id": "resp_" + r.tag, "object": "response", "status": "completed", "output": []any{},
		"usage": object{
			"input_tokens": 1200, "input_tokens_details": object{"cached_tokens": 800},
			"output_tokens": 150, "output_tokens_details": object{"reasoning_tokens": 40}, "total_tokens": 1350,
		},
	}})
}

// reason writes thoughts and a summary of them. Few models tell the thoughts.
func (r *responses) reason(raw string, parts ...string) {
	id := r.id("rs")
	summary := make([]object, len(parts))
	for i, p := range parts {
		summary[i] = object{"type": "summary_text", "text": p}
	}
	done := object{"summary": summary, "encrypted_content": nil}
	if raw != "" {
		done["content"] = []object{{"type": "reasoning_text", "text": raw}}
	}
	r.item(object{"type": "reasoning", "id": id, "summary": []any{}}, func() {
		for i, p := range parts {
			at := object{"item_id": id, "output_index": r.index, "summary_index": i}
			r.event("response.reasoning_summary_part.added", with(at, object{"part": object{"type": "summary_text", "text": ""}}))
			r.deltas("response.reasoning_summary_text.delta", at, words(p), r.delay)
			r.event("response.reasoning_summary_text.done", with(at, object{"text": p}))
			r.event("response.reasoning_summary_part.done", with(at, object{"part": summary[i]}))
		}
		r.deltas("response.reasoning_text.delta", object{"item_id": id, "output_index": r.index, "content_index": 0}, words(raw), r.delay)
	}, done)
}

func (r *responses) message(phase string, pieces []string, delay time.Duration, streamed func()) {
	id, text := r.id("msg"), strings.Join(pieces, "")
	at := object{"item_id": id, "output_index": r.index, "content_index": 0}
	part := func(text string) object { return object{"type": "output_text", "text": text, "annotations": []any{}} }
	r.item(object{"type": "message", "id": id, "role": "assistant", "phase": phase, "status": "in_progress", "content": []any{}}, func() {
		r.event("response.content_part.added", with(at, object{"part": part("")}))
		r.deltas("response.output_text.delta", at, pieces, delay)
		streamed()
		r.event("response.output_text.done", with(at, object{"text": text}))
		r.event("response.content_part.done", with(at, object{"part": part(text)}))
	}, object{"status": "completed", "content": []any{part(text)}})
}

// callIn has Codex use a tool of a namespace.
func (r *responses) callIn(namespace, name string, arguments object) {
	id, raw := r.id("fc"), encode(arguments)
	at := object{"item_id": id, "output_index": r.index}
	call := object{"type": "function_call", "id": id, "name": name, "call_id": r.id("call"), "arguments": ""}
	if namespace != "" {
		call["namespace"] = namespace
	}
	r.item(call, func() {
		r.event("response.function_call_arguments.delta", with(at, object{"delta": raw}))
		r.event("response.function_call_arguments.done", with(at, object{"arguments": raw}))
	}, object{"arguments": raw, "status": "completed"})
}

// search says that the model has searched the web, which it does by itself.
func (r *responses) search(query string) {
	r.item(object{"type": "web_search_call", "id": r.id("ws"), "status": "in_progress"}, func() { r.pause(r.delay) },
		object{"status": "completed", "action": object{"type": "search", "query": query}})
}

// custom has it use a tool that takes free text.
func (r *responses) custom(name, input string) {
	id, call := r.id("ctc"), r.id("call")
	at := object{"item_id": id, "output_index": r.index}
	r.item(object{"type": "custom_tool_call", "id": id, "name": name, "call_id": call, "input": ""}, func() {
		r.deltas("response.custom_tool_call_input.delta", with(at, object{"call_id": call}), strings.SplitAfter(input, "\n"), r.delay)
		r.event("response.custom_tool_call_input.done", with(at, object{"input": input}))
	}, object{"input": input, "status": "completed"})
}
