package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// maxBody bounds a request: Codex sends the whole conversation each time.
const maxBody = 64 << 20

// scriptWord chooses a script anywhere in a prompt.
var scriptWord = regexp.MustCompile(`script:(\w+)`)

type server struct {
	delay time.Duration
	log   *slog.Logger
	count atomic.Int64 // requests so far, for ids that differ
}

func newServer(delay time.Duration, log *slog.Logger) http.Handler {
	s := &server{delay: delay, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("POST /v1/responses", s.responses)
	return mux
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"gpt-5.5","object":"model"}],"models":[]}`)
}

// inputItem is one item of the conversation (Responses API, request field input).
type inputItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
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

func (s *server) responses(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Input []inputItem `json:"input"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&req); err != nil {
		httpError(w, http.StatusBadRequest, "the body is not a Responses request: "+err.Error())
		return
	}
	name, outputs := chosen(req.Input)
	n := s.count.Add(1)
	s.log.Debug("request", "n", n, "script", name, "step", len(outputs))
	sc, ok := find(name)
	if !ok {
		sc, _ = find("help")
	}
	if sc.status != 0 {
		httpError(w, sc.status, fmt.Sprintf("scripted error %d", sc.status))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	t := &turn{w: w, ctx: r.Context(), delay: s.delay, n: n, outputs: outputs}
	t.event("response.created", object{"response": object{"id": t.id("resp"), "object": "response", "status": "in_progress", "output": []any{}}})
	sc.play(t, len(outputs))
	t.completed()
}

// chosen finds the newest prompt that names a script, and the outputs of tools
// since: as many as there are, so many steps have been made. A newer prompt that
// names none ends a script.
func chosen(items []inputItem) (name string, outputs []inputItem) {
	for _, it := range items {
		switch {
		case it.Role == "user":
			if m := scriptWord.FindStringSubmatch(it.text()); m != nil {
				name, outputs = m[1], nil
			} else if name != "" && !strings.HasPrefix(strings.TrimSpace(it.text()), "<") { // not context that Codex adds
				name, outputs = "", nil
			}
		case strings.HasSuffix(it.Type, "_output"):
			outputs = append(outputs, it)
		}
	}
	return name, outputs
}

func httpError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{"message": message, "type": "scripted", "code": fmt.Sprint(status)}})
}
