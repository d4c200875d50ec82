package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// untilCards waits for a page to have n cards, and returns their HTML.
func (w *world) untilCards(c *http.Client, path string, n int) (list []string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, page := w.get(c, path)
		if list = wholeCard.FindAllString(page, -1); len(list) >= n {
			return list
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("there are %d cards, not %d:\n%s", len(list), n, page)
		}
	}
}

var wholeCard = regexp.MustCompile(`(?s)<article class="card.*?</article>`)

// TestC07EveryRequest: each thing that Codex can ask for has a card, also one that
// nobody knows, which shows what came; and nod answers none of them by itself.
func TestC07EveryRequest(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, s := w.newSession(c, p, "go")
	s.run("cmd", "echo known")
	s.begin(object{"type": "fileChange", "id": "edit", "status": "inProgress", "changes": []any{object{"path": "/w/a.txt", "kind": object{"type": "add"}, "diff": "added text"}}})
	asked := []struct {
		method string
		params object
		shows  string
		button string // "" for none
	}{
		{"item/commandExecution/requestApproval", object{"itemId": "cmd", "command": "echo known", "cwd": "/w"}, "echo known", "accept"},
		{"item/fileChange/requestApproval", object{"itemId": "edit", "reason": "to add it"}, "added text", "accept"},
		{"item/permissions/requestApproval", object{"itemId": "p", "reason": "more", "permissions": object{"fileSystem": object{"write": []any{"/srv/place"}}}}, "/srv/place", "turn"},
		{"item/tool/requestUserInput", object{"itemId": "q", "questions": []any{object{"id": "a", "header": "h", "question": "Which colour?"}}}, "Which colour?", "answer"},
		{"mcpServer/elicitation/request", object{"serverName": "m", "message": "Fill this in", "mode": "form", "requestedSchema": object{"type": "object", "properties": object{"x": object{"type": "string"}}}}, "Fill this in", "accept"},
		{"mcpServer/elicitation/request", object{"serverName": "m", "message": "Go there", "mode": "url", "elicitationId": "1", "url": "https://x.test/a"}, "https://", "accept"},
		{"item/tool/call", object{"callId": "k", "tool": "reach", "namespace": "n", "arguments": object{"deep": "value"}}, "value", ""},
		{"account/chatgptAuthTokens/refresh", object{"reason": "unauthorized"}, "unauthorized", ""},
		{"execCommandApproval", object{"callId": "old", "command": []any{"ls", "--of-old"}}, "--of-old", "denied"},
		{"applyPatchApproval", object{"callId": "old2", "fileChanges": object{"/w/of-old": object{"type": "add", "content": "x"}}}, "/w/of-old", "denied"},
		{"item/from/the/future", object{"anything": "at all"}, "at all", ""},
	}
	var answers []<-chan json.RawMessage
	for i, x := range asked {
		answer, _ := s.ask(x.method, x.params)
		answers = append(answers, answer)
		card := w.untilCards(c, path, i+1)[i]
		if !strings.Contains(card, x.shows) {
			t.Errorf("%s: the card lacks %q:\n%s", x.method, x.shows, card)
		}
		if x.button == "" && (!strings.Contains(card, "stop the turn") || strings.Contains(card, "<button name=")) {
			t.Errorf("%s: it can be answered, or the card does not say what to do:\n%s", x.method, card)
		}
		if x.button != "" && !strings.Contains(card, `value="`+x.button+`"`) {
			t.Errorf("%s: no button:\n%s", x.method, card)
		}
	}
	for i, answer := range answers {
		unanswered(t, answer, asked[i].method)
	}
}

// TestC09OddNeighbour: a request with fields that are missing, null or of another kind
// takes no other with it: they stay and can be answered.
func TestC09OddNeighbour(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, s := w.newSession(c, p, "go")
	first, _ := s.askToRun("one", "echo first")
	second, _ := s.askToRun("two", "echo second")
	for _, odd := range []object{{}, {"itemId": nil, "command": nil}, {"itemId": 7, "command": []any{}}, {"itemId": "x", "command": "", "cwd": nil, "reason": 1}} {
		s.ask("item/commandExecution/requestApproval", odd)
		s.ask("item/fileChange/requestApproval", odd)
	}
	s.say("after", "Said after all of them.")
	w.untilPage(c, path, "Said after all of them.")
	list := w.untilCards(c, path, 10)
	for _, card := range list[2:] {
		if !strings.Contains(card, "No details") || strings.Contains(card, `class="approve`) {
			t.Errorf("an odd one does not say that it has no details, or can be approved:\n%s", card)
		}
	}
	for i, answer := range []<-chan json.RawMessage{second, first} { // in any order
		card := list[1-i]
		form := url.Values{"option": {"accept"}, "seen": {"yes"}}
		for _, m := range hiddenField.FindAllStringSubmatch(card, -1) {
			form.Set(m[1], m[2])
		}
		if status, page := w.post(c, approvalPath.FindString(card), form); status != http.StatusOK {
			t.Fatalf("%d %s", status, page)
		}
		approved(t, answer)
	}
}

// TestC11Questions: a question with no text, no options, one or very many can always
// be answered in words, and be refused: where the agent takes no refusal, by the end
// of the turn that is on the same page.
func TestC11Questions(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	many := make([]any, 200)
	for i := range many {
		many[i] = object{"label": fmt.Sprint("choice ", i), "description": "d"}
	}
	for name, x := range map[string]struct {
		question object
		form     bool // an empty form of an MCP server
	}{
		"nothing at all": {question: object{"id": "a"}},
		"no text":        {question: object{"id": "a", "header": "", "question": ""}},
		"null":           {question: object{"id": "a", "header": "h", "question": "?", "options": nil}},
		"no options":     {question: object{"id": "a", "header": "h", "question": "?", "options": []any{}}},
		"one":            {question: object{"id": "a", "header": "h", "question": "?", "isOther": true, "options": many[:1]}},
		"two hundred":    {question: object{"id": "a", "header": "h", "question": "?", "isOther": true, "options": many}},
		"an empty form":  {form: true},
	} {
		ask := func(s *scene) <-chan json.RawMessage {
			if x.form {
				answer, _ := s.ask("mcpServer/elicitation/request", object{"serverName": "m", "message": "", "mode": "form", "requestedSchema": object{"type": "object", "properties": object{}}})
				return answer
			}
			answer, _ := s.ask("item/tool/requestUserInput", object{"itemId": "q", "questions": []any{x.question}})
			return answer
		}
		words, refusal := "answer", ""
		if x.form {
			words, refusal = "accept", "cancel"
		}
		for _, option := range []string{words, refusal} {
			path, s := w.newSession(c, p, "go")
			answer := ask(s)
			card := w.untilCards(c, path, 1)[0]
			if !x.form && !strings.Contains(card, `name="t.a"`) {
				t.Errorf("%s: no place for words:\n%s", name, card)
			}
			if option == "" {
				if _, page := w.get(c, path); !strings.Contains(page, `action="`+path+`/stop"`) {
					t.Errorf("%s: it cannot be refused", name)
				}
				w.post(c, path+"/stop", nil)
				continue
			}
			form := url.Values{"option": {option}, "seen": {"yes"}, "t.a": {"in my own words"}}
			for _, m := range hiddenField.FindAllStringSubmatch(card, -1) {
				form.Set(m[1], m[2])
			}
			if status, page := w.post(c, approvalPath.FindString(card), form); status != http.StatusOK {
				t.Fatalf("%s, %s: %d %s", name, option, status, page)
			}
			select {
			case got := <-answer:
				if !x.form && !strings.Contains(string(got), "in my own words") || option == "cancel" && !strings.Contains(string(got), `"cancel"`) {
					t.Errorf("%s: the agent was told %s", name, got)
				}
			case <-time.After(patience):
				t.Fatalf("%s, %s: nod did not answer", name, option)
			}
		}
	}
}
