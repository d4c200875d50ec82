package main

import (
	"strings"
	"time"
)

// chat writes an answer in the form of Chat Completions: as chunks, or whole for
// a client that does not want a stream.
type chat struct {
	*writer
	model  string
	stream bool
	calls  []object // of tools
	text   string   // of an answer that is sent whole
	tokens int
}

// chunk writes one piece of a stream.
func (c *chat) chunk(delta object, finish any) {
	if c.stream {
		c.send("data: " + encode(c.frame("chat.completion.chunk", object{"index": 0, "delta": delta, "finish_reason": finish})) + "\n\n")
	}
}

func (c *chat) frame(kind string, choices ...object) object {
	if choices == nil {
		choices = []object{}
	}
	return object{"id": "chatcmpl_" + c.tag, "object": kind, "created": time.Now().Unix(), "model": c.model, "choices": choices}
}

func (c *chat) created() { c.chunk(object{"role": "assistant", "content": ""}, nil) }

// reason tells thoughts. There is no summary of them in this form, so the parts
// are thoughts too.
func (c *chat) reason(raw string, parts ...string) {
	if raw != "" {
		parts = append([]string{raw}, parts...)
	}
	for _, w := range words(strings.Join(parts, "\n\n")) {
		c.chunk(object{"reasoning_content": w}, nil)
		c.pause(c.delay)
	}
}

// message knows no phases.
func (c *chat) message(_ string, pieces []string, delay time.Duration, streamed func()) {
	for _, p := range pieces {
		if c.gone {
			return
		}
		c.chunk(object{"content": p}, nil)
		c.tokens++
		c.pause(delay)
	}
	c.text += strings.Join(pieces, "")
	streamed()
}

func (c *chat) callIn(_, name string, arguments object) {
	c.use("function", object{"name": name}, "arguments", []string{encode(arguments)})
}

func (c *chat) custom(name, input string) {
	c.use("custom", object{"name": name}, "input", strings.SplitAfter(input, "\n"))
}

// use has Copilot use a tool of a kind; what it is told comes in pieces.
func (c *chat) use(kind string, tool object, told string, pieces []string) {
	n := len(c.calls)
	call := object{"id": c.id("call"), "type": kind, kind: with(tool, object{told: strings.Join(pieces, "")})}
	c.chunk(object{"tool_calls": []object{{"index": n, "id": call["id"], "type": kind, kind: with(tool, object{told: ""})}}}, nil)
	for _, p := range pieces {
		c.chunk(object{"tool_calls": []object{{"index": n, "type": kind, kind: object{told: p}}}}, nil)
	}
	c.calls = append(c.calls, call)
	c.index++
}

// completed ends the answer with token counts that look like something.
func (c *chat) completed() {
	finish := "stop"
	if len(c.calls) > 0 {
		finish = "tool_calls"
	}
	usage := object{
		"prompt_tokens": 1200, "prompt_tokens_details": object{"cached_tokens": 800},
		"completion_tokens": 40 + c.tokens, "completion_tokens_details": object{"reasoning_tokens": 40}, "total_tokens": 1240 + c.tokens,
	}
	if !c.stream {
		message := object{"role": "assistant", "content": c.text}
		if len(c.calls) > 0 {
			message["tool_calls"] = c.calls
		}
		c.send(encode(with(c.frame("chat.completion", object{"index": 0, "message": message, "finish_reason": finish}), object{"usage": usage})))
		return
	}
	c.chunk(object{}, finish)
	c.send("data: " + encode(with(c.frame("chat.completion.chunk"), object{"usage": usage})) + "\n\ndata: [DONE]\n\n")
}
