package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// copilot starts a nod with the real Copilot of the end-to-end tests, whose model is
// the bench.
func (b *bench) copilot() (n *nod, stop func(), err error) {
	bin, err := filepath.Abs("e2e/node_modules/.bin")
	if err != nil {
		return nil, nil, err
	}
	program := filepath.Join(bin, "copilot")
	if _, err := os.Stat(program); err != nil {
		return nil, nil, errors.New("the real Copilot is not here; make test installs it")
	}
	home, err := os.MkdirTemp(b.dir, "copilot-")
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	model := &http.Server{Handler: http.HandlerFunc(chat), ReadHeaderTimeout: patience}
	go func() { _ = model.Serve(l) }() // until it is closed
	env := []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "COPILOT_HOME=" + home, "COPILOT_CACHE_HOME=" + filepath.Join(bin, "..", ".cache", "copilot"),
		"COPILOT_AUTO_UPDATE=false", "COPILOT_PROVIDER_BASE_URL=http://" + l.Addr().String() + "/v1", "COPILOT_MODEL=gpt-5.4",
	}
	unpack := exec.CommandContext(b.ctx, program, "--version") // so that its server is the program that serves
	unpack.Env = append(os.Environ(), env...)
	err = unpack.Run()
	if err == nil {
		n, err = b.start(env...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, model.Close())
	}
	n.agent = "copilot"
	return n, func() {
		_ = exec.Command(b.binary, "agents", "stop", "--data", n.data(), "--config", os.DevNull).Run() // it is seen if it fails: a process is left
		n.stop()
		_ = model.Close()
	}, nil
}

// chat is the model: it streams what the script in the newest prompt says.
func chat(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &req) != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	var s script
	for _, m := range req.Messages {
		if text := fmt.Sprint(m.Content); m.Role == "user" && strings.Contains(text, "{") {
			_ = json.Unmarshal([]byte(text[strings.LastIndexByte(text, '{'):]), &s) // only the bench writes to us
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(delta object, end any) {
		raw, _ := json.Marshal(object{"id": "bench", "object": "chat.completion.chunk", "model": "gpt-5.4", "choices": []object{{"index": 0, "delta": delta, "finish_reason": end}}}) // of texts and numbers
		_, _ = fmt.Fprintf(w, "data: %s\n\n", raw)
		w.(http.Flusher).Flush()
	}
	began := time.Now()
	for i := range s.Marks {
		time.Sleep(time.Until(began.Add(time.Duration(float64(i) / s.Rate * float64(time.Second)))))
		say(object{"content": marked(i, s.Size)}, nil)
	}
	if s.Marks == 0 {
		say(object{"content": "Done."}, nil)
	}
	say(object{}, "stop")
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// copilotTab measures from the model's write to the page's DOM, with the real CLI in
// between.
func (b *bench) copilotTab() ([]row, error) {
	n, stop, err := b.copilot()
	if err != nil {
		return nil, err
	}
	defer stop()
	return n.tab(paceCopilot)
}

var serverLine = regexp.MustCompile(`(?m)^Copilot\s+.*?\s(\d+)\s`)

// copilotSessions measures what fifty sessions of the real CLI take.
func (b *bench) copilotSessions() ([]row, error) {
	const sessions = 50
	n, stop, err := b.copilot()
	if err != nil {
		return nil, err
	}
	defer stop()
	memory := func() (nod, server float64, err error) {
		b.pause(3 * time.Second)
		out, err := exec.CommandContext(b.ctx, b.binary, "agents", "--data", n.data(), "--config", os.DevNull).Output()
		m := serverLine.FindSubmatch(out)
		if err != nil || m == nil {
			return 0, 0, fmt.Errorf("nod does not know its server: %w %s", err, out)
		}
		pid, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return 0, 0, err
		}
		nod, err1 := n.rss()
		server, err2 := resident(pid)
		return nod, server, errors.Join(err1, err2)
	}
	if _, err := n.session(script{}); err != nil {
		return nil, err
	}
	nod1, server1, err := memory()
	if err != nil {
		return nil, err
	}
	for range sessions - 1 {
		if _, err := n.session(script{}); err != nil {
			return nil, err
		}
	}
	nod2, server2, err := memory()
	if err != nil {
		return nil, err
	}
	return []row{
		figure("50 Copilot sessions: nod's memory for each", (nod2-nod1)/(sessions-1), "KiB").atMost(512),
		figure("50 Copilot sessions: nod's memory", nod2/1024, "MiB"),
		figure("50 Copilot sessions: Copilot's own memory for each", (server2-server1)/(sessions-1)/1024, "MiB").noted("its server's, not nod's"),
	}, nil
}
