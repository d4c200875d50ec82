package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type event struct {
	Type  string `json:"type"`
	Seq   int    `json:"sequence_number"`
	Delta string `json:"delta"`
	Text  string `json:"text"`
	Item  struct {
		Type    string `json:"type"`
		Phase   string `json:"phase"`
		Name    string `json:"name"`
		Space   string `json:"namespace"`
		CallID  string `json:"call_id"`
		Args    string `json:"arguments"`
		Input   string `json:"input"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"item"`
	Response struct {
		ID string `json:"id"`
	} `json:"response"`
}

// parse reads a stream as strictly as its form allows: an event line, a data
// line of the same type, an empty line.
func parse(t *testing.T, body io.Reader) (events []event, broken error) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		kind, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok {
			t.Fatalf("no event line: %q", lines.Text())
		}
		if !lines.Scan() {
			break
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e event
		if err := json.Unmarshal([]byte(data), &e); !ok || err != nil || e.Type != kind {
			t.Fatalf("%s has the data %q: %v", kind, lines.Text(), err)
		}
		if e.Seq != len(events) {
			t.Fatalf("event %d has the number %d", len(events), e.Seq)
		}
		events = append(events, e)
		if lines.Scan() && lines.Text() != "" {
			t.Fatalf("no empty line after %s: %q", kind, lines.Text())
		}
	}
	return events, lines.Err()
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func ask(t *testing.T, body string) (status int, events []event, broken error) {
	t.Helper()
	srv := httptest.NewServer(newServer(0, quiet(), io.Discard))
	defer srv.Close()
	res, err := http.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		var e struct {
			Error struct{ Message string }
		}
		if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Error.Message == "" {
			t.Errorf("status %d without a message in JSON: %v", res.StatusCode, err)
		}
		return res.StatusCode, nil, nil
	}
	events, broken = parse(t, res.Body)
	return res.StatusCode, events, broken
}

// play asks in a bubble, where pauses take no time.
func play(t *testing.T, body string) (events []event, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began, rec := time.Now(), httptest.NewRecorder()
		newServer(defaultDelay, quiet(), io.Discard).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(body)))
		took = time.Since(began)
		var err error
		if events, err = parse(t, rec.Body); rec.Code != http.StatusOK || err != nil {
			t.Fatalf("%d, %v", rec.Code, err)
		}
	})
	return events, took
}

func conversation(items ...object) string { return encode(object{"input": items}) }

func user(text string) object {
	return object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": text}}}
}

func returned(text string) object {
	return object{"type": "function_call_output", "call_id": "call_1", "output": text}
}

func said(text, phase string) object {
	return object{"type": "message", "role": "assistant", "phase": phase, "content": []any{object{"type": "output_text", "text": text}}}
}

func prompt(text string) string { return conversation(user(text)) }

// done are the items that an answer brought.
func done(events []event) (items []event) {
	for _, e := range events {
		if e.Type == "response.output_item.done" {
			items = append(items, e)
		}
	}
	return items
}

// TestScripts plays each script to its final answer, with a tool output for each
// call it makes.
func TestScripts(t *testing.T) {
	want := []string{
		"hello", "command", "fail", "patch", "files", "escalate", "parallel", "three", "ask", "code", "plan", "form", "url", "count", "note", "tool", "permissions",
		"reason", "messages", "search", "review", "compact", "long", "slow", "slowcmd", "wait", "steer", "background", "stdin", "big", "hostile",
		"err400", "err401", "err429", "err500", "cut",
	}
	for _, name := range want {
		if _, ok := find(name); !ok {
			t.Errorf("there is no script %s", name)
		}
	}
	for _, s := range scripts() {
		if s.status != 0 || s.name == "cut" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			items := []object{user("please script:" + s.name + " now")}
			var calls []string
			for range 10 {
				events, _ := play(t, conversation(items...))
				first, last := events[0], events[len(events)-1]
				if first.Type != "response.created" || last.Type != "response.completed" || first.Response.ID != last.Response.ID {
					t.Fatalf("it goes from %+v to %+v", first, last)
				}
				for _, e := range done(events) {
					switch {
					case e.Item.Name != "":
						if e.Item.CallID == "" || slices.Contains(calls, e.Item.CallID) {
							t.Errorf("a call with the id %q after %q", e.Item.CallID, calls)
						}
						calls = append(calls, e.Item.CallID)
						items = append(items, returned("out"))
					case e.Item.Phase == finalAnswer:
						return
					}
				}
			}
			t.Error("it does not end")
		})
	}
}

// TestDeltasAreTheText: what streams is what the item says in the end.
func TestDeltasAreTheText(t *testing.T) {
	for _, s := range []string{"help", "hello", "long", "slow"} {
		events, _ := play(t, prompt("script:"+s))
		var streamed strings.Builder
		for _, e := range events {
			if e.Type == "response.output_text.delta" {
				streamed.WriteString(e.Delta)
			}
		}
		items := done(events)
		if got := items[len(items)-1].Item.Content[0].Text; got != streamed.String() || got == "" {
			t.Errorf("%s streams %.60q and says %.60q", s, streamed.String(), got)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, s := range scripts() {
		if s.status == 0 {
			continue
		}
		if status, _, _ := ask(t, prompt("script:"+s.name)); status != s.status {
			t.Errorf("%s: %d", s.name, status)
		}
	}
}

func TestCut(t *testing.T) {
	_, events, broken := ask(t, prompt("script:cut"))
	if broken == nil {
		t.Error("the connection was closed in order")
	}
	if last := events[len(events)-1]; last.Type != "response.output_text.delta" {
		t.Errorf("it ends with %s", last.Type)
	}
}

func TestLongHas5000Deltas(t *testing.T) {
	events, took := play(t, prompt("script:long"))
	n := 0
	for _, e := range events {
		if e.Type == "response.output_text.delta" {
			n++
		}
	}
	if n != 5000 || took != 0 {
		t.Errorf("%d deltas in %v", n, took)
	}
}

func TestSlowTakes20Seconds(t *testing.T) {
	if _, took := play(t, prompt("script:slow")); took != 20*time.Second {
		t.Errorf("%v", took)
	}
}

// TestSteps counts what tools have returned since the newest script.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		about string
		items []object
		want  string // kind of the last item
		says  string
	}{
		{"first step", []object{user("script:patch")}, "custom_tool_call", "Add File"},
		{"second step", []object{user("script:patch"), {"type": "custom_tool_call_output", "output": "x"}}, "custom_tool_call", "Update File"},
		{"content as a string", []object{{"role": "user", "content": "script:command"}}, "function_call", "ls -la"},
		{"an output", []object{user("script:command"), returned("x")}, "message", "Result"},
		{"the same again", []object{user("script:command"), returned("x"), user("script:command")}, "function_call", "ls -la"},
		{"another", []object{user("script:command"), returned("x"), user("now script:hello")}, "message", "Hello"},
		{"context after it", []object{user("script:command"), user("<environment_context>x")}, "function_call", "ls -la"},
		{"context before it", []object{user("# AGENTS.md instructions for /x\n\nscript:build"), user("script:command")}, "function_call", "ls -la"},
		{"script only in AGENTS.md", []object{user("# AGENTS.md instructions for /x\n\nscript:command"), user("hi")}, "message", "script:hostile"},
		{"a newer prompt", []object{user("script:command"), returned("x"), user("thanks")}, "message", "script:hostile"},
		{"no such script", []object{user("script:nothing")}, "message", "script:hostile"},
		{"no script", []object{user("see javascript:hello")}, "message", "script:hostile"},
		{"no prompt", []object{}, "message", "script:hostile"},
		{"an answer", []object{user("script:ask"), returned(`{"answers":{"db":{"answers":["SQLite"]}}}`)}, "message", `{"answers":{"db":{"answers":["SQLite"]}}}`},
		{"more outputs than steps", []object{user("script:plan"), returned("1"), returned("2"), returned("3"), returned("4")}, "message", "done"},
		{"steered", []object{user("script:steer"), said("Tell me", commentary), returned("x"), user("mind the widget"), user("and hurry")}, "message", "mind the widget; and hurry"},
		{"not steered", []object{user("script:steer"), said("Tell me", commentary), returned("x")}, "message", "nothing"},
		{"after a script that was steered", []object{user("script:steer"), returned("x"), user("hurry"), said("You said", finalAnswer), user("thanks")}, "message", "script:hostile"},
		{"a summary is asked for", []object{user("script:command"), returned("x"), user(compaction + ". Write a summary.")}, "message", "The person tries"},
		{"a patch as a command", []object{user("script:patch"), returned("x"), user(patchWarning + " via exec_command.")}, "custom_tool_call", "Update File"},
		{"a command left running", []object{user("script:stdin"), returned("Process running with session ID 4711\nOutput:\nName? ")}, "function_call", `"session_id":4711`},
		{"odd items", []object{user("script:ask"), {"type": "x_output"}, {"content": 7}, {}}, "message", "You answered"},
	} {
		events, _ := play(t, conversation(c.items...))
		items := done(events)
		last := items[len(items)-1].Item
		said := last.Args + last.Input
		for _, p := range last.Content {
			said += p.Text
		}
		if last.Type != c.want || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s with %q; want %s with %q", c.about, last.Type, said, c.want, c.says)
		}
	}
}

// TestOfferedTools: which tools there are, and their names, depends on the version
// of Codex.
func TestOfferedTools(t *testing.T) {
	for _, c := range []struct {
		script  string
		offered []object
		want    string // namespace and name of the tool that is used
	}{
		{"patch", []object{{"type": "function", "name": "exec_command"}, {"type": "custom", "name": "apply_patch"}}, " apply_patch"},
		{"patch", []object{{"type": "function", "name": "exec_command"}, {"type": "web_search"}}, " exec_command"},
		{"form", []object{{"type": "tool_search"}}, "mcp__fakemcp ask_form"},
		{"form", []object{{"type": "namespace", "name": "mcp__fakemcp__"}}, "mcp__fakemcp__ ask_form"},
	} {
		events, _ := play(t, encode(object{"input": []any{user("script:" + c.script)}, "tools": c.offered}))
		items := done(events)
		last := items[len(items)-1].Item
		if got := last.Space + " " + last.Name; got != c.want {
			t.Errorf("%s with %v uses %q, not %q", c.script, c.offered, got, c.want)
		}
		if last.Name == "exec_command" && !strings.Contains(last.Args, `'EOF'\n*** Begin Patch`) {
			t.Errorf("the patch is %s", last.Args)
		}
	}
}

// TestReasoning tells both the thoughts and the summary of them.
func TestReasoning(t *testing.T) {
	events, _ := play(t, prompt("script:reason"))
	text := map[string]string{}
	for _, e := range events {
		text[e.Type] += e.Delta
	}
	if !strings.HasPrefix(text["response.reasoning_text.delta"], "First I") || !strings.HasPrefix(text["response.reasoning_summary_text.delta"], "**Counting**") {
		t.Errorf("%q", text)
	}
}

// TestWaitSaysNothing for 20 seconds.
func TestWaitSaysNothing(t *testing.T) {
	if _, took := play(t, prompt("script:wait")); took < 20*time.Second {
		t.Errorf("%v", took)
	}
}

// TestManyThreads play at once, each its own script.
func TestManyThreads(t *testing.T) {
	const threads = 20
	synctest.Test(t, func(t *testing.T) {
		h, began := newServer(defaultDelay, quiet(), io.Discard), time.Now()
		var all sync.WaitGroup
		for i := range threads {
			all.Go(func() {
				script, says := "slow", "slow199"
				if i%2 == 1 {
					script, says = "wait", "a long wait"
				}
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(prompt("script:"+script))))
				events, err := parse(t, rec.Body)
				items := done(events)
				if err != nil || len(items) != 1 || !strings.Contains(items[0].Item.Content[0].Text, says) {
					t.Errorf("thread %d: %+v, %v", i, items, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 21*time.Second {
			t.Errorf("they wait for each other: %v", took)
		}
	})
}

// TestTitle: the hidden request for a title repeats the prompt and must not play
// what it names.
func TestTitle(t *testing.T) {
	events, _ := play(t, encode(object{
		"input": []any{user("Generate a title. User prompt:\nscript:command")},
		"text":  object{"format": object{"type": "json_schema", "schema": object{"properties": object{"title": object{"type": "string"}}}}},
	}))
	items := done(events)
	if len(items) != 1 || items[0].Item.Content[0].Text != `{"title":"Play the script command"}` {
		t.Errorf("%+v", items)
	}
	if _, events, _ := ask(t, `{"input":[],"text":7}`); len(events) == 0 {
		t.Error("odd text is no reason to refuse")
	}
}

func TestBadRequest(t *testing.T) {
	for _, body := range []string{"", "no json", "null", "[]", "{}", `{"input":7}`, `{"input":[7]}`, `{"input":[{"role":7}]}`, `{"input":[]} and more`, strings.Repeat("[", 100_000)} {
		if status, _, _ := ask(t, body); status != http.StatusBadRequest {
			t.Errorf("%.40q: %d", body, status)
		}
	}
	h := newServer(0, quiet(), io.Discard)
	r := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(prompt("script:hello")))
	r.Header.Set("Content-Encoding", "zstd")
	rec := httptest.NewRecorder()
	if h.ServeHTTP(rec, r); rec.Code != http.StatusUnsupportedMediaType {
		t.Errorf("compressed: %d", rec.Code)
	}
	rec = httptest.NewRecorder()
	if h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/responses", io.LimitReader(zeros{}, maxBody+1))); rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", rec.Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestModels(t *testing.T) {
	rec := httptest.NewRecorder()
	newServer(0, quiet(), io.Discard).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
	var list struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil || len(list.Data) != 3 {
		t.Errorf("%s, %v", rec.Body, err)
	}
}

func TestWords(t *testing.T) {
	const text = "a bc  d\n\n| x |\nend"
	if got := words(text); strings.Join(got, "") != text || len(got) != 7 {
		t.Errorf("%q", got)
	}
}

func TestRefusedArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-addr", "0.0.0.0:0"}, {"-addr", "192.0.2.1:80"}, {"-addr", ":18765"}, {"-addr", "[::]:0"}, {"-addr", "localhost"}, {"-addr", "example.org:80"},
		{"-nothing"}, {"start"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// TestRun starts the program as a person does, stops it in the middle of an
// answer, and sees that the answer does not end as if it were whole.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	home := filepath.Join(t.TempDir(), "home")
	kept := filepath.Join(t.TempDir(), "requests.jsonl")
	out, in := io.Pipe()
	var log bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-addr", "127.0.0.1:0", "-codex-home", home, "-mcp", "/opt/fake mcp", "-requests", kept, "-v"}, in, &log)
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	base, ok := strings.CutPrefix(lines.Text(), "fakemodel listening on ")
	if !ok {
		t.Fatalf("the first line is %q", lines.Text())
	}
	config, err := os.ReadFile(filepath.Join(home, "config.toml"))
	if err != nil || !strings.Contains(string(config), fmt.Sprintf("base_url = %q", base)) {
		t.Errorf("the configuration is %q, %v", config, err)
	}
	if !strings.HasSuffix(string(config), "\n\n[mcp_servers.fakemcp]\ncommand = \"/opt/fake mcp\"\n") {
		t.Errorf("the configuration ends with %.100q", string(config[len(config)-100:]))
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()

	res, err := http.Post(base+"/responses", "application/json", strings.NewReader(prompt("script:slow")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	time.AfterFunc(300*time.Millisecond, stop)
	events, _ := parse(t, res.Body)
	if last := events[len(events)-1]; last.Type != "response.output_text.delta" {
		t.Errorf("it ends with %s", last.Type)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(kept); err != nil || !strings.Contains(string(b), "script:slow") {
		t.Errorf("the requests are %q, %v", b, err)
	}
	if !strings.Contains(log.String(), "script=slow step=0") {
		t.Errorf("the log is %q", log.String())
	}
}

func TestConfigIsNotOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	for range 2 { // the same again is no conflict
		if err := writeConfig(dir, "a\nb\n"); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"c\n", "b\na\n", "a\nb\nc\n"} {
		if err := writeConfig(dir, other); err == nil {
			t.Errorf("%q replaced it", other)
		}
	}
	file := filepath.Join(dir, "config.toml")
	if b, err := os.ReadFile(file); err != nil || string(b) != "a\nb\n" {
		t.Errorf("%q, %v", b, err)
	}
	// Codex adds to its configuration.
	const grown = "a\nx\nb\n\n[projects]\n"
	if err := os.WriteFile(file, []byte(grown), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeConfig(dir, "a\nb\n"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != grown {
		t.Errorf("%q, %v", b, err)
	}
}
