package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

type object = map[string]any

// message is any message of JSON-RPC. A request has a method and an id, a
// notification no id, an answer no method.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// server is one conversation.
type server struct {
	calls sync.WaitGroup
	gone  chan struct{} // is closed when the client has nothing more to say

	mu      sync.Mutex
	out     io.Writer
	failed  error // of a write
	asked   int
	waiting map[string]chan message // for the answer to what we ask, by id
}

// serve answers until the client closes its side.
func serve(in io.Reader, out io.Writer) error {
	s := &server{out: out, gone: make(chan struct{}), waiting: map[string]chan message{}}
	lines := bufio.NewReader(in)
	var failed error
	for failed == nil {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			failed = s.receive(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		failed = cmp.Or(failed, err)
	}
	close(s.gone)
	s.calls.Wait()
	return cmp.Or(failed, s.failed)
}

func (s *server) receive(line []byte) error {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("a line that is no message: %w", err)
	}
	switch {
	case m.Method == "" && m.ID != nil:
		s.mu.Lock()
		answer := s.waiting[string(m.ID)]
		delete(s.waiting, string(m.ID))
		s.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	case m.ID == nil: // a notification; none matters here
	case m.Method == "initialize":
		var p struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return err
		}
		s.answer(m.ID, object{
			"protocolVersion": p.ProtocolVersion, // any will do
			"capabilities":    object{"tools": object{}},
			"serverInfo":      object{"name": "fakemcp", "version": "1"},
		})
	case m.Method == "ping":
		s.answer(m.ID, object{})
	case m.Method == "tools/list":
		list := []object{}
		for _, t := range tools {
			list = append(list, object{"name": t.name, "description": t.about, "inputSchema": t.input, "annotations": t.hints})
		}
		s.answer(m.ID, object{"tools": list})
	case m.Method == "tools/call":
		// Apart, since the answers to what a tool asks are read here.
		s.calls.Go(func() { s.call(m) })
	default:
		s.write(object{"id": m.ID, "error": object{"code": -32601, "message": "there is no method " + m.Method}})
	}
	return nil
}

func (s *server) call(m message) {
	var c call
	if err := json.Unmarshal(m.Params, &c); err != nil {
		s.write(object{"id": m.ID, "error": object{"code": -32602, "message": err.Error()}})
		return
	}
	for _, t := range tools {
		if t.name == c.Name {
			text, err := t.run(s, c)
			if err != nil {
				text = err.Error()
			}
			s.answer(m.ID, object{"content": []any{object{"type": "text", "text": text}}, "isError": err != nil})
			return
		}
	}
	s.write(object{"id": m.ID, "error": object{"code": -32602, "message": "there is no tool " + c.Name}})
}

// elicit asks the person behind the client, and returns the answer as it came.
func (s *server) elicit(params object) (string, error) {
	answer := make(chan message, 1)
	s.mu.Lock()
	s.asked++
	id := s.asked
	s.waiting[fmt.Sprint(id)] = answer
	s.mu.Unlock()
	s.write(object{"id": id, "method": "elicitation/create", "params": params})
	select {
	case m := <-answer:
		if m.Error != nil {
			return "", errors.New(m.Error.Message)
		}
		return string(m.Result), nil
	case <-s.gone:
		return "", errors.New("the client has gone")
	}
}

func (s *server) answer(id json.RawMessage, result object) {
	s.write(object{"id": id, "result": result})
}

func (s *server) write(m object) {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // a tool holds something that is no JSON
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.out.Write(append(b, '\n'))
	s.failed = cmp.Or(s.failed, err)
}
