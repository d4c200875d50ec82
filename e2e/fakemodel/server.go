package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody bounds a request: Codex sends the whole conversation each time.
const maxBody = 64 << 20

// scriptWord chooses a script anywhere in a prompt. The boundary keeps a
// javascript: link from choosing one.
var scriptWord = regexp.MustCompile(`\bscript:(\w+)`)

type server struct {
	delay time.Duration
	log   *slog.Logger
	run   string       // makes ids unlike those of an earlier run, which a thread may hold
	count atomic.Int64 // answers so far

	mu       sync.Mutex
	requests io.Writer // gets each request for an answer, a line each
}

func newServer(delay time.Duration, log *slog.Logger, requests io.Writer) http.Handler {
	s := &server{delay: delay, log: log, requests: requests, run: strings.ToLower(rand.Text()[:8])}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("POST /v1/responses", s.responses)
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	return mux
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"gpt-5.5","object":"model"},{"id":"gpt-5.4","object":"model"},{"id":"claude-sonnet-4.5","object":"model"}],"models":[]}`)
}

// offered is a tool that the model may use.
type offered struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// inputItem is one item of the conversation (Responses API, request field input).
type inputItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Phase   string          `json:"phase"`
	Content json.RawMessage `json:"content"` // a string, or parts with text
	Output  json.RawMessage `json:"output"`
}

func (i inputItem) text() string {
	var s string
	if json.Unmarshal(i.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(i.Content, &parts) // other content has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text + "\n")
	}
	return b.String()
}

// output is what a tool returned, as the model reads it.
func (i inputItem) output() string {
	var s string
	if json.Unmarshal(i.Output, &s) == nil {
		return s
	}
	return string(i.Output)
}

// read takes the body of a request for an answer, or refuses it.
func (s *server) read(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		// No agent compresses anything for a provider of one's own.
		httpError(w, http.StatusUnsupportedMediaType, "send the request without the encoding "+e)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		httpError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", tooLarge.Limit))
		return nil, false
	} else if err != nil {
		httpError(w, http.StatusBadRequest, "the request did not arrive whole: "+err.Error())
		return nil, false
	}
	var line bytes.Buffer
	if json.Compact(&line, body) == nil { // what is no JSON is refused below
		line.WriteByte('\n')
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = s.requests.Write(line.Bytes()) // a test that misses a line says so
	}
	return body, true
}

// responses answers Codex.
func (s *server) responses(w http.ResponseWriter, r *http.Request) {
	body, ok := s.read(w, r)
	if !ok {
		return
	}
	var req struct {
		Input []inputItem     `json:"input"`
		Tools []offered       `json:"tools"`
		Text  json.RawMessage `json:"text"` // how the answer should look
	}
	if err := json.Unmarshal(body, &req); err != nil {
		httpError(w, http.StatusBadRequest, "the body is not a Responses request: "+err.Error())
		return
	}
	if req.Input == nil {
		httpError(w, http.StatusBadRequest, "the body is not a Responses request: it has no list named input")
		return
	}
	t := s.turn(w, r)
	t.offered, t.form = req.Tools, &responses{writer: t.writer}
	t.w.Header().Set("Content-Type", "text/event-stream")
	s.play(t, req.Input, wantsTitle(req.Text))
}

// chat answers Copilot.
func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	body, ok := s.read(w, r)
	if !ok {
		return
	}
	var req struct {
		Model    string        `json:"model"`
		Stream   bool          `json:"stream"`
		Messages []chatMessage `json:"messages"`
		Tools    []struct {
			Function, Custom offered
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		httpError(w, http.StatusBadRequest, "the body is not a Chat Completions request: "+err.Error())
		return
	}
	if req.Messages == nil {
		httpError(w, http.StatusBadRequest, "the body is not a Chat Completions request: it has no list named messages")
		return
	}
	t := s.turn(w, r)
	t.form = &chat{writer: t.writer, model: req.Model, stream: req.Stream}
	for _, o := range req.Tools {
		t.offered = append(t.offered, offered{Name: o.Function.Name + o.Custom.Name})
	}
	items := make([]inputItem, len(req.Messages))
	for i, m := range req.Messages {
		items[i] = m.item()
		if found := workFolder.FindStringSubmatch(items[i].text()); found != nil && m.Role == "system" {
			t.folder = found[1]
		}
	}
	kind := "application/json"
	if req.Stream {
		kind = "text/event-stream"
	}
	t.w.Header().Set("Content-Type", kind)
	s.play(t, items, false)
}

// workFolder is how Copilot tells the model where it works.
var workFolder = regexp.MustCompile(`Current working directory: (\S+)`)

// chatMessage is one message of a conversation (Chat Completions).
type chatMessage struct {
	Role      string            `json:"role"`
	Content   json.RawMessage   `json:"content"`
	ToolCalls []json.RawMessage `json:"tool_calls"`
}

// item is the same in the words of the Responses API.
func (m chatMessage) item() inputItem {
	switch {
	case m.Role == "tool":
		return inputItem{Type: "function_call_output", Output: m.Content}
	case m.Role == "assistant" && len(m.ToolCalls) == 0:
		return inputItem{Role: m.Role, Phase: finalAnswer, Content: m.Content}
	}
	return inputItem{Role: m.Role, Content: m.Content}
}

func (s *server) turn(w http.ResponseWriter, r *http.Request) *turn {
	tag := fmt.Sprintf("%s_%d", s.run, s.count.Add(1))
	return &turn{writer: &writer{w: w, ctx: r.Context(), delay: s.delay, tag: tag}}
}

// play chooses the script by the conversation, and writes what it says.
func (s *server) play(t *turn, items []inputItem, title bool) {
	var name string
	name, t.outputs, t.steered = chosen(items)
	s.log.Debug("request", "answer", t.tag, "script", name, "step", len(t.outputs), "title", title)
	sc, known := find(name)
	switch {
	case title:
		sc = titleScript(name)
	case !known:
		sc, _ = find("help")
	}
	if sc.status != 0 {
		httpError(t.w, sc.status, fmt.Sprintf("scripted error %d", sc.status))
		return
	}
	t.w.Header().Set("Cache-Control", "no-store")
	t.created()
	sc.play(t, len(t.outputs))
	t.completed()
}

// compaction begins what Codex says when it wants a summary of the conversation.
const compaction = "You are performing a CONTEXT CHECKPOINT COMPACTION"

// summary begins what Copilot says for the same.
const summary = "Please create a detailed summary of the conversation so far."

// notification begins what Copilot says when a command in the background is over.
const notification = "<system_notification>"

// clock is what Copilot puts before a prompt.
var clock = regexp.MustCompile(`^<current_datetime>[^<]*</current_datetime>\s*`)

// patchWarning begins what an older Codex says of a command that is a patch.
const patchWarning = "Warning: apply_patch was requested"

// newTask begins what Codex tells a sub-agent, which has inherited the prompt of
// the agent that started it. It plays the script command.
const newTask = "Message Type: NEW_TASK"

// chosen finds the newest prompt that names a script, and the outputs of tools
// since: as many as there are, so many steps have been made. A newer prompt that
// names none ends a script; what Codex itself says as the user does not. What a
// person adds to the script steer while it runs is no prompt.
func chosen(items []inputItem) (name string, outputs []inputItem, steered []string) {
	for _, it := range items {
		switch {
		case it.Role == "user":
			text := clock.ReplaceAllString(strings.TrimSpace(it.text()), "")
			if strings.HasPrefix(text, "# AGENTS.md instructions") {
				continue // it may speak of scripts of its own
			}
			if m := scriptWord.FindStringSubmatch(text); m != nil {
				name, outputs, steered = m[1], nil, nil
			} else if strings.HasPrefix(text, compaction) || strings.HasPrefix(text, summary) {
				name, outputs = "compact", nil
			} else if strings.HasPrefix(text, notification) && name == "" {
				name, outputs = "noticed", nil
			} else if strings.HasPrefix(text, "<") || strings.HasPrefix(text, patchWarning) {
				// <environment_context> and the like
			} else if name == "steer" {
				steered = append(steered, text)
			} else {
				name, outputs = "", nil
			}
		case it.Type == "agent_message" && strings.HasPrefix(it.text(), newTask):
			name, outputs, steered = "command", nil, nil
		case it.Role == "assistant" && it.Phase == finalAnswer:
			if name == "steer" {
				name, outputs = "", nil // what comes next is a prompt again
			}
		case strings.HasSuffix(it.Type, "_output"):
			outputs = append(outputs, it)
		}
	}
	return name, outputs, steered
}

// wantsTitle reports whether Codex asks for the title of a thread: its terminal
// does so in a hidden thread that repeats the prompt, and with it the script. To
// play it there would run its commands twice.
func wantsTitle(text json.RawMessage) bool {
	var t struct {
		Format struct {
			Schema struct {
				Properties struct {
					Title json.RawMessage `json:"title"`
				} `json:"properties"`
			} `json:"schema"`
		} `json:"format"`
	}
	return json.Unmarshal(text, &t) == nil && t.Format.Schema.Properties.Title != nil
}

func httpError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1") // seconds, so that who tries again does so soon
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{"message": message, "type": "scripted", "code": fmt.Sprint(status)}})
}
