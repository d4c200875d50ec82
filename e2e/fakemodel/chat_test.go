package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// chatAnswer is an answer in the form of Chat Completions, put together.
type chatAnswer struct {
	text, reasoning, finish string
	calls                   []chatCall
	deltas                  int
	done                    bool
}

type chatCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

func (c chatCall) name() string { return c.Function.Name + c.Custom.Name }
func (c chatCall) told() string { return c.Function.Arguments + c.Custom.Input }

// parseChat reads a stream of chunks.
func parseChat(t *testing.T, body io.Reader) (a chatAnswer, broken error) {
	t.Helper()
	lines := bufio.NewScanner(body)
	usage := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if lines.Text() == "" || a.done {
			continue
		}
		if data == "[DONE]" {
			a.done = true
			continue
		}
		var chunk struct {
			Object  string `json:"object"`
			Choices []struct {
				Delta struct {
					Content   string     `json:"content"`
					Reasoning string     `json:"reasoning_content"`
					ToolCalls []chatCall `json:"tool_calls"`
				} `json:"delta"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
			Usage struct {
				Total int `json:"total_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); !ok || err != nil || chunk.Object != "chat.completion.chunk" {
			t.Fatalf("no chunk: %q, %v", lines.Text(), err)
		}
		usage = usage || chunk.Usage.Total > 0
		for _, c := range chunk.Choices {
			if c.Delta.Content != "" {
				a.deltas++
			}
			a.text, a.reasoning, a.finish = a.text+c.Delta.Content, a.reasoning+c.Delta.Reasoning, a.finish+c.Finish
			for _, call := range c.Delta.ToolCalls {
				if call.ID != "" {
					a.calls = append(a.calls, call)
					continue
				}
				whole := &a.calls[call.Index]
				whole.Function.Arguments += call.Function.Arguments
				whole.Custom.Input += call.Custom.Input
			}
		}
	}
	if a.done && !usage {
		t.Error("the answer tells no use of tokens")
	}
	return a, lines.Err()
}

// chatTools are those that Copilot offers.
func chatTools() (tools []object) {
	for _, name := range []string{"bash", "view", "create", "edit", "ask_user", "lookup"} {
		tools = append(tools, object{"type": "function", "function": object{"name": name}})
	}
	for _, name := range []string{"ask_form", "ask_url", "count", "write_note"} {
		tools = append(tools, object{"type": "function", "function": object{"name": "fakemcp-" + name}})
	}
	return append(tools, object{"type": "custom", "custom": object{"name": "apply_patch"}})
}

func chatRequest(stream bool, messages ...object) string {
	system := object{"role": "system", "content": "<env>\n* Current working directory: /w/d\n</env>"}
	return encode(object{"model": "gpt-5.4", "stream": stream, "messages": append([]object{system}, messages...), "tools": chatTools()})
}

func chatUser(text string) object {
	return object{"role": "user", "content": "<current_datetime>2026-12-01T10:00:00Z</current_datetime>\n\n" + text}
}

func chatPost(t *testing.T, body string, requests io.Writer) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	synctest.Test(t, func(*testing.T) {
		newServer(defaultDelay, quiet(), requests).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	})
	return rec
}

func chatPlay(t *testing.T, messages ...object) chatAnswer {
	t.Helper()
	rec := chatPost(t, chatRequest(true, messages...), io.Discard)
	a, err := parseChat(t, rec.Body)
	if rec.Code != http.StatusOK || err != nil || !a.done {
		t.Fatalf("%d, %v, %+v", rec.Code, err, a)
	}
	return a
}

// TestChatScripts plays each script to its final answer, with a tool output for
// each call it makes.
func TestChatScripts(t *testing.T) {
	want := []string{
		"shell", "twice", "create", "read", "fetch", "mixed", "choose", "tell", "exitplan", "autopilot", "delegate", "aside", "look", "todo", "async", "unknown", "lines",
		"verylong", "trickle", "noticed",
	}
	for _, name := range want {
		if _, ok := find(name); !ok {
			t.Errorf("there is no script %s", name)
		}
	}
	for _, s := range allScripts() {
		if s.status != 0 || s.name == "cut" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			messages := []object{chatUser("script:" + s.name)}
			var ids []string
			for range 10 {
				a := chatPlay(t, messages...)
				if len(a.calls) == 0 {
					if a.finish != "stop" || a.text == "" {
						t.Errorf("it ends with %q and says %.40q", a.finish, a.text)
					}
					return
				}
				if a.finish != "tool_calls" {
					t.Errorf("it ends with %q and %d calls", a.finish, len(a.calls))
				}
				messages = append(messages, object{"role": "assistant", "content": a.text, "tool_calls": a.calls})
				for _, c := range a.calls {
					if slices.Contains(ids, c.ID) || c.name() == "" {
						t.Errorf("the call %+v", c)
					}
					ids = append(ids, c.ID)
					messages = append(messages, object{"role": "tool", "tool_call_id": c.ID, "content": "out"})
				}
			}
			t.Error("it does not end")
		})
	}
	seen := map[string]bool{}
	for _, s := range allScripts() {
		if seen[s.name] {
			t.Errorf("there are two scripts %s", s.name)
		}
		seen[s.name] = true
	}
}

// TestChatSteps: the conversation of Copilot chooses as that of Codex does.
func TestChatSteps(t *testing.T) {
	called := object{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "c"}}}
	returned := object{"role": "tool", "content": "x"}
	said := object{"role": "assistant", "content": "Hello"}
	for _, c := range []struct {
		about       string
		messages    []object
		calls, says string
	}{
		{"a command", []object{chatUser("script:command")}, "bash", "ls -la"},
		{"an output", []object{chatUser("script:command"), called, returned}, "", "Result"},
		{"a file of the folder", []object{chatUser("script:read")}, "view", `"/w/d/README.md"`},
		{"a patch", []object{chatUser("script:files")}, "apply_patch", "*** Add File: old.txt\n"},
		{"a tool of a server", []object{chatUser("script:form")}, "fakemcp-ask_form", "{}"},
		{"an answer", []object{chatUser("script:choose"), called, {"role": "tool", "content": "blue"}}, "", "blue"},
		{"a newer prompt", []object{chatUser("script:command"), called, returned, said, chatUser("thanks")}, "", "script:hostile"},
		{"steered", []object{chatUser("script:steer"), called, returned, {"role": "user", "content": "mind the widget"}}, "", "mind the widget"},
		{"told of a command", []object{chatUser("script:steer"), called, returned, said, {"role": "user", "content": notification + "\nover"}, called, returned}, "", "Noted."},
		{"a summary is asked for", []object{chatUser("script:command"), said, {"role": "user", "content": summary}}, "", "The person tries"},
		{"a prompt in parts", []object{{"role": "user", "content": []object{{"type": "text", "text": "script:shell"}, {"type": "image_url"}}}}, "bash", "Create hello.txt"},
	} {
		a := chatPlay(t, c.messages...)
		calls, said := "", a.text
		for _, call := range a.calls {
			calls, said = calls+call.name(), said+call.told()
		}
		if calls != c.calls || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s with %q; want %s with %q", c.about, calls, said, c.calls, c.says)
		}
	}
}

// TestChatWhole: who wants no stream gets the same at once.
func TestChatWhole(t *testing.T) {
	rec := chatPost(t, chatRequest(false, chatUser("script:shell")), io.Discard)
	var r struct {
		Object  string `json:"object"`
		Choices []struct {
			Message struct {
				Content   string     `json:"content"`
				ToolCalls []chatCall `json:"tool_calls"`
			} `json:"message"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &r); err != nil || r.Object != "chat.completion" || len(r.Choices) != 1 {
		t.Fatalf("%s, %v", rec.Body, err)
	}
	c := r.Choices[0]
	if c.Finish != "tool_calls" || c.Message.Content != "I will make a file." || len(c.Message.ToolCalls) != 1 || c.Message.ToolCalls[0].name() != "bash" {
		t.Errorf("%+v", c)
	}
}

func TestChatReasoning(t *testing.T) {
	if a := chatPlay(t, chatUser("script:reason")); !strings.HasPrefix(a.reasoning, "First I count") || a.text != "Three words." {
		t.Errorf("%+v", a)
	}
}

func TestChatVeryLongHas12000Deltas(t *testing.T) {
	if a := chatPlay(t, chatUser("script:verylong")); a.deltas != 12_000 || !strings.HasSuffix(a.text, "word11999 ") {
		t.Errorf("%d deltas", a.deltas)
	}
}

func TestChatErrors(t *testing.T) {
	for _, s := range scripts() {
		if s.status == 0 {
			continue
		}
		rec := chatPost(t, chatRequest(true, chatUser("script:"+s.name)), io.Discard)
		if rec.Code != s.status || !strings.Contains(rec.Body.String(), "scripted error") {
			t.Errorf("%s: %d, %s", s.name, rec.Code, rec.Body)
		}
		if soon := rec.Header().Get("Retry-After"); (soon != "") != (s.status == http.StatusTooManyRequests) {
			t.Errorf("%s is to be tried again after %q", s.name, soon)
		}
	}
	for _, body := range []string{"", "null", "{}", `{"messages":7}`, `{"messages":[7]}`, `{"messages":[]} and more`} {
		if rec := chatPost(t, body, io.Discard); rec.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", body, rec.Code)
		}
	}
}

func TestChatCut(t *testing.T) {
	srv := httptest.NewServer(newServer(0, quiet(), io.Discard))
	defer srv.Close()
	res, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatRequest(true, chatUser("script:cut"))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if a, err := parseChat(t, res.Body); err == nil || a.done || a.text == "" {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestRequestsAreKept: a test can see what an agent tells the model, such as why
// a command was denied.
func TestRequestsAreKept(t *testing.T) {
	var kept strings.Builder
	chatPost(t, chatRequest(true, chatUser("script:shell"), object{"role": "tool", "content": "the user says: use ./out instead"}), &kept)
	chatPost(t, "no JSON", &kept)
	lines := slices.Collect(strings.Lines(kept.String()))
	if len(lines) != 1 || !strings.Contains(lines[0], "use ./out instead") || !json.Valid([]byte(lines[0])) {
		t.Errorf("kept are %q", lines)
	}
}
