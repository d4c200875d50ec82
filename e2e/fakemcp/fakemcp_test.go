package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// client is the other side of a server.
type client struct {
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
	ended chan error
}

func connect(t *testing.T) *client {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	c := &client{t: t, in: toServer, lines: bufio.NewScanner(fromServer), ended: make(chan error, 1)}
	go func() {
		err := serve(in, out)
		_ = out.Close()
		c.ended <- err
	}()
	return c
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next message, which must be of JSON-RPC 2.0.
func (c *client) hear() (text string, m message) {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatal("the server says nothing")
	}
	var version struct{ JSONRPC string }
	if err := json.Unmarshal(c.lines.Bytes(), &version); err != nil || version.JSONRPC != "2.0" {
		c.t.Fatalf("%s: %v", c.lines.Text(), err)
	}
	if err := json.Unmarshal(c.lines.Bytes(), &m); err != nil {
		c.t.Fatal(err)
	}
	return c.lines.Text(), m
}

// close ends the conversation.
func (c *client) close() error {
	_ = c.in.Close() // cannot fail
	for c.lines.Scan() {
	}
	return <-c.ended
}

func TestHandshake(t *testing.T) {
	c := connect(t)
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
	if text, m := c.hear(); string(m.ID) != "0" || !strings.Contains(text, `"protocolVersion":"2025-06-18"`) || !strings.Contains(text, `"tools":{}`) {
		t.Error(text)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	text, m := c.hear()
	if string(m.ID) != `"list"` {
		t.Errorf("the id is %s", m.ID)
	}
	for _, tool := range tools {
		if !strings.Contains(text, `"name":"`+tool.name+`"`) {
			t.Errorf("%s is not listed", tool.name)
		}
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`)
	if text, m := c.hear(); m.Error == nil {
		t.Errorf("a method that is not there: %s", text)
	}
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"nothing"}}`)
	if text, m := c.hear(); m.Error == nil {
		t.Errorf("a tool that is not there: %s", text)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// TestAsking answers what a tool asks, and finds the answer in what it returns.
func TestAsking(t *testing.T) {
	for _, x := range []struct{ tool, mode, has string }{
		{"ask_form", `"mode":"form"`, `"requestedSchema"`},
		{"ask_url", `"mode":"url"`, `"url":"https://`},
	} {
		c := connect(t)
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + x.tool + `","arguments":{}}}`)
		text, m := c.hear()
		if m.Method != "elicitation/create" || !strings.Contains(text, x.mode) || !strings.Contains(text, x.has) {
			t.Errorf("%s asks %s", x.tool, text)
		}
		// Meanwhile it still listens.
		c.say(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		if _, m := c.hear(); string(m.ID) != "9" {
			t.Errorf("%s answers the ping of 9 with %s", x.tool, m.ID)
		}
		c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"decline"}}`)
		if text, m := c.hear(); string(m.ID) != "1" || !strings.Contains(text, `{\"action\":\"decline\"}`) || !strings.Contains(text, `"isError":false`) {
			t.Errorf("%s returns %s", x.tool, text)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused: a client that cannot ask says so, and the tool with it.
func TestRefused(t *testing.T) {
	c := connect(t)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask_form"}}`)
	_, m := c.hear()
	c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32600,"message":"cannot ask"}}`)
	if text, _ := c.hear(); !strings.Contains(text, "cannot ask") || !strings.Contains(text, `"isError":true`) {
		t.Error(text)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// TestGone: what waits for an answer ends with the client.
func TestGone(t *testing.T) {
	c := connect(t)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask_url"}}`)
	c.hear()
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func TestProgress(t *testing.T) {
	c := connect(t)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","_meta":{"progressToken":7}}}`)
	for range progressSteps {
		if text, m := c.hear(); m.Method != "notifications/progress" || !strings.Contains(text, `"progressToken":7`) {
			t.Error(text)
		}
	}
	if text, m := c.hear(); string(m.ID) != "1" || !strings.Contains(text, "counted to 5") {
		t.Error(text)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count"}}`)
	if text, m := c.hear(); string(m.ID) != "2" {
		t.Errorf("nobody wants to know, but it tells %s", text)
	}
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"write_note","arguments":{"text":"hi"}}}`)
	if text, _ := c.hear(); !strings.Contains(text, "noted: hi") {
		t.Error(text)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// TestFormHasEveryKind: what the form lacks, nobody sees nod show.
func TestFormHasEveryKind(t *testing.T) {
	b, err := json.Marshal(form)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		`"format":"email"`, `"format":"uri"`, `"format":"date"`, `"format":"date-time"`, `"minLength"`, `"maxLength"`, `"type":"number"`, `"type":"integer"`,
		`"minimum"`, `"maximum"`, `"type":"boolean"`, `"enum"`, `"oneOf"`, `"enumNames"`, `"type":"array"`, `"anyOf"`, `"minItems"`, `"maxItems"`, `"default"`, `"required"`,
	} {
		if !strings.Contains(string(b), kind) {
			t.Errorf("the form has no %s", kind)
		}
	}
}

func TestNoMessage(t *testing.T) {
	if err := serve(strings.NewReader("hello\n"), io.Discard); err == nil {
		t.Error("a line that is no message was taken")
	}
}
