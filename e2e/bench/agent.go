package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// script is what the agent does in a turn: the turn's message is one, as JSON.
// An empty one ends the turn at once.
type script struct {
	Marks   int     `json:"marks,omitempty"`   // events, a marker in each
	Size    int     `json:"size,omitempty"`    // bytes of each; the marker comes first
	Tokens  int     `json:"tokens,omitempty"`  // events that are a token of a long answer each
	Events  int     `json:"events,omitempty"`  // of AHP, in many turns of text, thoughts and commands
	PerItem int     `json:"perItem,omitempty"` // marks or tokens of one message; 0 for all
	Rate    float64 `json:"rate,omitempty"`    // marks or tokens a second; 0 for as many as nod takes
}

func (s script) String() string {
	b, _ := json.Marshal(s) // numbers always encode
	return string(b)
}

// took is how long the marks or tokens of a script take.
func (s script) took() time.Duration {
	return time.Duration(float64(s.Marks+s.Tokens) / s.Rate * float64(time.Second))
}

// agent speaks as much of the protocol of `codex app-server` as nod needs.
type agent struct {
	sending sync.Mutex // also of number
	out     *bufio.Writer
	number  int // of the last name that was given
}

type object = map[string]any

func runAgent(in io.Reader, out io.Writer) error {
	a := &agent{out: bufio.NewWriter(out)}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // nod is gone
			return nil
		}
		a.receive(line)
	}
}

// send writes one message. Without nod there is nothing left to do.
func (a *agent) send(o object) {
	b, _ := json.Marshal(o) // made of strings and numbers
	a.sending.Lock()
	defer a.sending.Unlock()
	_, _ = a.out.Write(append(b, '\n')) // the error stays until Flush
	if a.out.Flush() != nil {
		os.Exit(0)
	}
}

func (a *agent) name(kind string) string {
	a.sending.Lock()
	defer a.sending.Unlock()
	a.number++
	return fmt.Sprint(kind, "-", a.number)
}

func (a *agent) receive(line []byte) {
	var m struct {
		ID     *int   `json:"id"`
		Method string `json:"method"`
		Params struct {
			ThreadID string `json:"threadId"`
			Input    []struct {
				Text string `json:"text"`
			} `json:"input"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return // "initialized"
	}
	answer := func(result object) { a.send(object{"id": *m.ID, "result": result}) }
	switch m.Method {
	case "initialize":
		answer(object{"userAgent": "nod/0.171.0 (bench)"})
	case "thread/start":
		answer(object{"thread": object{"id": a.name("thread")}, "model": "bench"})
	case "thread/loaded/list":
		answer(object{"data": []string{}})
	case "turn/start":
		t := &turn{agent: a, thread: m.Params.ThreadID, id: a.name("turn")}
		answer(object{"turn": object{"id": t.id}})
		var s script
		_ = json.Unmarshal([]byte(m.Params.Input[0].Text), &s) // only the bench writes to us
		go t.play(s)
	default:
		a.send(object{"id": *m.ID, "error": object{"code": -32600, "message": "the bench's agent does not know " + m.Method}})
	}
}

// turn is one turn that is being played.
type turn struct {
	agent      *agent
	thread, id string
}

func (t *turn) notify(method string, params object) {
	params["threadId"], params["turnId"] = t.thread, t.id
	t.agent.send(object{"method": method, "params": params})
}

func (t *turn) begin() {
	t.notify("turn/started", object{"turn": object{"id": t.id, "status": "inProgress"}})
}

func (t *turn) end() {
	t.notify("turn/completed", object{"turn": object{"id": t.id, "status": "completed"}})
}

func (t *turn) play(s script) {
	t.begin()
	if s.Marks > 0 {
		t.messages(s, s.Marks, func(i int) string { return marked(i, s.Size) })
	}
	if s.Tokens > 0 {
		text := answer(s.Tokens)
		t.messages(s, s.Tokens, func(i int) string { return text[i*tokenSize : (i+1)*tokenSize] })
	}
	if s.Events > 0 {
		t.live(s.Events)
	}
	t.end()
}

// marked is the text of one event: a marker, and words up to a size. As in real
// text a paragraph ends now and then.
func marked(i, size int) string {
	const perParagraph, words = 12, " the port that the test waits for is taken"
	s := mark(time.Now())
	for n := 0; len(s) < size; n++ {
		s += words
		if n%perParagraph == perParagraph-1 {
			s += "\n\n"
		}
	}
	if i%perParagraph == perParagraph-1 {
		return s + "\n\n"
	}
	return s + " "
}

// messages streams n pieces of text at the script's pace.
func (t *turn) messages(s script, n int, piece func(int) string) {
	began := time.Now()
	perItem := s.PerItem
	if perItem == 0 {
		perItem = n
	}
	for from := 0; from < n; from += perItem {
		t.item("agentMessage", "item/agentMessage/delta", "text", min(perItem, n-from), func(i int) string {
			if s.Rate > 0 {
				time.Sleep(time.Until(began.Add(time.Duration(float64(from+i) / s.Rate * float64(time.Second)))))
			}
			return piece(from + i)
		})
	}
}

// item streams an item that is n pieces of text. The completed item repeats it
// in one of its fields.
func (t *turn) item(kind, method, field string, n int, piece func(int) string) {
	id := t.agent.name(kind)
	item := object{"type": kind, "id": id, "command": "go test ./...", "cwd": "/", "status": "inProgress"}
	t.notify("item/started", object{"item": item})
	var all strings.Builder
	for i := range n {
		text := piece(i)
		all.WriteString(text)
		t.notify(method, object{"itemId": id, "delta": text})
	}
	item[field], item["status"], item["exitCode"], item["durationMs"] = all.String(), "completed", 0, 310
	if kind == "reasoning" {
		item[field] = []string{all.String()}
	}
	t.notify("item/completed", object{"item": item})
}

// live plays turns of about so many events, each piece of text one, in the
// proportions that agents have; nod may join what comes at once. All but the first come as if somebody had typed
// them at the agent's own prompt.
func (t *turn) live(events int) {
	const piece = 4 * tokenSize
	text := answer(events * piece / tokenSize) // more than enough
	prose := func(int) (s string) {
		s, text = text[:piece], text[piece:]
		return s
	}
	for n, item := 0, 0; ; item++ {
		switch item % 4 {
		case 0:
			t.item("reasoning", "item/reasoning/textDelta", "summary", 6, prose)
			n += 7
		case 1:
			t.item("agentMessage", "item/agentMessage/delta", "text", 14, prose)
			n += 15
		default:
			t.item("commandExecution", "item/commandExecution/outputDelta", "aggregatedOutput", 8, func(i int) string {
				return fmt.Sprintf("ok  \t%s/%s\t0.%02ds\n", words[(item+i)%len(words)], words[item*7%len(words)], (item*13+i*29)%100)
			})
			n += 14
		}
		if n >= events {
			return
		}
		if item%17 == 16 {
			t.end()
			t.id = t.agent.name("turn")
			t.begin()
			t.notify("item/started", object{"item": object{"type": "userMessage", "id": t.agent.name("user"), "content": []object{{"text": "Please look again."}}}})
			n += 3
		}
	}
}
