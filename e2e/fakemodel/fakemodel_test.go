package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type event struct {
	Type  string `json:"type"`
	Seq   int    `json:"sequence_number"`
	Delta string `json:"delta"`
	Item  struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"item"`
}

func ask(t *testing.T, body string) (status int, events []event, broken error) {
	t.Helper()
	srv := httptest.NewServer(newServer(0, slog.New(slog.DiscardHandler)))
	defer srv.Close()
	res, err := http.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, nil, nil
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	return res.StatusCode, events, lines.Err()
}

func prompt(text string) string {
	return fmt.Sprintf(`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}]}`, text)
}

// TestScripts plays the first step of each and checks the form of its stream.
func TestScripts(t *testing.T) {
	for _, s := range scripts() {
		if s.name == "slow" {
			continue // it takes its 20 s; its form is that of long
		}
		t.Run(s.name, func(t *testing.T) {
			status, events, broken := ask(t, prompt("please script:"+s.name+" now"))
			if s.status != 0 {
				if status != s.status {
					t.Errorf("status %d", status)
				}
				return
			}
			for i, e := range events {
				if e.Seq != i {
					t.Fatalf("event %d has number %d", i, e.Seq)
				}
			}
			complete := events[len(events)-1].Type == "response.completed"
			if s.name == "cut" {
				if complete || broken == nil {
					t.Error("the stream was not cut")
				}
			} else if !complete || broken != nil {
				t.Errorf("it ends with %s, %v", events[len(events)-1].Type, broken)
			}
		})
	}
}

func TestLongHas5000Deltas(t *testing.T) {
	_, events, _ := ask(t, prompt("script:long"))
	n := 0
	for _, e := range events {
		if e.Type == "response.output_text.delta" {
			n++
		}
	}
	if n != 5000 {
		t.Errorf("%d deltas", n)
	}
}

// TestSteps counts what tools have returned since the newest script.
func TestSteps(t *testing.T) {
	const old = `{"role":"user","content":"script:command"},{"type":"function_call_output","output":"x"},`
	for body, want := range map[string]string{
		`{"input":[{"role":"user","content":"script:patch"}]}`:                                                     "custom_tool_call",
		`{"input":[` + old + `{"role":"user","content":"script:command"}]}`:                                        "function_call",
		`{"input":[{"role":"user","content":"script:command"},{"type":"function_call_output","output":"x"}]}`:      "message",
		`{"input":[{"role":"user","content":"script:command"},{"role":"user","content":"<environment_context>"}]}`: "function_call",
		`{"input":[` + old + `{"role":"user","content":"thanks"}]}`:                                                "message",
		`{"input":[{"role":"user","content":"script:patch"},{"type":"custom_tool_call_output","output":"x"}]}`:     "custom_tool_call",
	} {
		_, events, _ := ask(t, body)
		last := ""
		for _, e := range events {
			if e.Type == "response.output_item.done" {
				last = e.Item.Type
			}
		}
		if last != want {
			t.Errorf("%s: %s, want %s", body, last, want)
		}
	}
}

func TestBadRequest(t *testing.T) {
	for _, body := range []string{"", "no json", `{"input":7}`} {
		if status, _, _ := ask(t, body); status != http.StatusBadRequest {
			t.Errorf("%q: %d", body, status)
		}
	}
}

func TestWords(t *testing.T) {
	const text = "a bc  d\n\n| x |\nend"
	if got := words(text); strings.Join(got, "") != text || len(got) != 7 {
		t.Errorf("%q", got)
	}
}

func TestOnlyLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:80", "localhost", "example.org:80"} {
		if err := run(context.Background(), []string{"-addr", addr}, io.Discard, io.Discard); err == nil {
			t.Errorf("%s was taken", addr)
		}
	}
}

func TestConfigIsNotOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	for range 2 { // the same again is no conflict
		if err := writeConfig(dir, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeConfig(dir, "b"); err == nil {
		t.Error("it was overwritten")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "config.toml")); err != nil || string(b) != "a" {
		t.Errorf("%q, %v", b, err)
	}
}
