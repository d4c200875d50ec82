package demo

import (
	"fmt"
	"strings"

	"nod/state"
)

// play is the script. The first turn shows everything; later ones are short.
func play(s *stage, prompt string, first bool) {
	switch {
	case strings.Contains(prompt, "fail"):
		s.say("This turn will fail, because you asked for it.")
		s.apply(&state.SessionError{TurnID: s.turn, Error: state.ErrorInfo{ErrorType: "demo.asked", Message: "You wrote “fail”, so the demo failed."}})
	case strings.Contains(prompt, "long"):
		s.say(tail)
	case first:
		playAll(s, prompt)
	default:
		s.say("This is the **demo agent** again; I do not understand what you write. I will ask for one more command.")
		if _, ok := s.askToRun("git status --short", "To see what has changed.", false, 0, func(string) string { return " M cache.go\n M cache_test.go\n" }); ok {
			s.say("Two files have changed, or would have, if this were real.")
		} else {
			s.say("You denied it, so it did not run. That is all there is to it.")
		}
	}
}

var steps = []string{"Find where entries are added", "Run the tests", "Bound the list", "Commit"}

func playAll(s *stage, prompt string) {
	s.say("This is the **demo agent** of nod. What you see is a play: nothing is run and no file is touched. " +
		"You asked: “" + shorten(prompt, 80) + "”. I will pretend that this was about a cache that grows without limit.")
	s.think("**Where do entries come from?** The cache keeps a list and a map. If only Put adds to them, one bound in Put is enough. I will search before I change anything.")
	s.plan(0, steps...)
	s.run("rg -n 'PushFront|delete\\(' --type go", 0, "cache.go:41:\tc.items[k] = c.list.PushFront(entry{k, v})\ncache.go:58:\tdelete(c.items, k)\n")
	s.plan(1, steps...)
	s.say("Only `Put` adds entries. A command that changes something, or that could, needs your word: **look at the card**. It shows every byte of what would run.")

	_, tested := s.askToRun("go test ./cache/...", "To see the tests fail before the change.", false, 1, func(string) string {
		return "--- FAIL: TestBound (0.00s)\n    cache_test.go:23: 10,001 entries, want 10,000\nFAIL\nFAIL\tdemo/cache\t0.004s\nFAIL\n"
	})
	if tested {
		s.say("The test fails, as it should: a failing command is not hidden. Now the change itself. An edit asks in the same way and shows its diff.")
	} else {
		s.say("You denied the tests; I go on without them. Now the change itself. An edit asks in the same way and shows its diff.")
	}
	s.plan(2, steps...)
	edited := s.askToEdit("Edit cache.go and cache_test.go", "To bound the list and test the bound.", patch, []state.ToolResultContent{
		fileEdit(s.folder+"/cache.go", 9, 2), fileEdit(s.folder+"/cache_test.go", 10, 0),
	})
	s.plan(3, steps...)
	s.say("The next command can be **edited** before you approve it. Try it: change the message.")
	commit, committed := s.askToRun(`git commit -am "Bound the cache"`, "To record the change.", true, 0, func(command string) string {
		return "$ " + command + "\n[main 1f0c2aa] committed\n 2 files changed, 19 insertions(+), 2 deletions(-)\n"
	})
	s.plan(4, steps...)
	answers := s.question(state.InputRequest{
		Message: "Last thing: three small questions.",
		Questions: []state.Question{
			{ID: "policy", Kind: "single-select", Title: "Eviction", Message: "Which entry should go when the cache is full?", AllowFreeformInput: true, Options: []state.QuestionOption{
				{ID: "lru", Label: "The least recently used", Description: "What most caches do", Recommended: true},
				{ID: "lfu", Label: "The least frequently used", Description: "Better for a few very popular entries"},
				{ID: "fifo", Label: "The oldest", Description: "The simplest"},
			}},
			{ID: "metrics", Kind: "boolean", Message: "Should the cache count hits and misses?"},
			{ID: "note", Kind: "text", Message: "Anything else?"},
		},
	})
	s.say(summary(tested, edited, committed, commit, answers))
	s.say(tail)
}

func summary(tested, edited, committed bool, commit string, answers map[string]state.Answer) string {
	did := func(b bool) string {
		if b {
			return "approved"
		}
		return "denied"
	}
	chose := "you skipped the questions"
	if answers != nil {
		a := answers["policy"]
		chose = "you chose " + strings.Join(append(append([]string{}, a.Selected...), a.Text), " ")
		if len(a.Selected) == 0 && a.Text == "" {
			chose = "you answered without choosing"
		}
	}
	ran := "not run"
	if committed {
		ran = "`" + strings.ReplaceAll(strings.ReplaceAll(commit, "`", "'"), "|", "/") + "`"
	}
	return fmt.Sprintf("## What happened\n\n| step | you said | it ran |\n|------|----------|--------|\n| tests | %s | `go test ./cache/...` |\n| edit | %s | two files |\n| commit | %s | %s |\n\n"+
		"And %s. In a real session the agent would go on from there:\n\n```go\nif c.list.Len() >= c.max {\n\tc.evict(c.list.Back())\n}\n```\n\n"+
		"1. Everything you saw came over one event stream.\n2. Your answers are recorded before they are sent.\n3. The words are those of the [Agent Host Protocol](https://github.com/microsoft/agent-host-protocol).\n",
		did(tested), did(edited), did(committed), ran, chose)
}

func fileEdit(path string, added, removed int) state.ToolResultContent {
	side := &state.FileSide{URI: "file://" + path, Content: fmt.Appendf(nil, `{"uri":%q}`, "file://"+path)}
	return state.ToolResultContent{Type: "fileEdit", Before: side, After: side, Diff: &state.DiffSize{Added: added, Removed: removed}}
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

const patch = `--- a/cache.go
+++ b/cache.go
@@ -36,8 +36,15 @@ func New(max int) *Cache {
 // Put stores v under k.
 func (c *Cache) Put(k string, v []byte) {
 	c.mu.Lock()
 	defer c.mu.Unlock()
-	c.items[k] = c.list.PushFront(entry{k, v})
-	c.size++
+	if e, ok := c.items[k]; ok {
+		e.Value = entry{k, v}
+		c.list.MoveToFront(e)
+		return
+	}
+	if c.list.Len() >= c.max {
+		c.evict(c.list.Back())
+	}
+	c.items[k] = c.list.PushFront(entry{k, v})
 }
--- a/cache_test.go
+++ b/cache_test.go
@@ -12,3 +12,13 @@ func TestGet(t *testing.T) {
 		t.Errorf("got %q", v)
 	}
 }
+
+func TestBound(t *testing.T) {
+	c := New(10_000)
+	for i := range 10_001 {
+		c.Put(strconv.Itoa(i), nil)
+	}
+	if n := c.Len(); n != 10_000 {
+		t.Errorf("%d entries, want 10,000", n)
+	}
+}
`

// tail is long, so that a person can watch text grow, scroll away from it, and
// stop it.
const tail = `### While you watch

This last part is long on purpose. It streams slowly, so that you can see three things that nod does while text grows.

**It follows, until you scroll.** As long as the end of the page is in sight, the page stays there. Scroll up, and it stays where you read; a button at the bottom brings you back to the newest line. Nothing that you are reading moves.

**It can be stopped.** The button below ends this turn. What was written until then stays, and the page says that the turn was stopped. A real agent is asked to stop in the same way, and only its own word ends the turn: until then nod shows that it is still working.

**It comes back.** Close this tab and open it again: the page is whole at once, and goes on from there. Close the laptop, walk away, and open nod on another browser that is logged in: the same. A page that lost its connection says so within seconds, and catches up by itself when it is back.

Some more words about what is recorded. Every event of a session is written to disk before it is shown, except for text that is growing, which may be shown up to twenty-five milliseconds before. So when the power fails, nothing that you approved is forgotten, and nothing is approved that you did not approve. When the agent dies in the middle of a turn, the turn ends with it, and the page says what is known and what is not. Nothing runs for ever because nobody noticed that it was dead.

And about what is asked. A request is shown outside of the agent's text, so that no agent can draw a button into its answer. Each card is bound to the exact bytes that the agent sent; if they change, your answer does not fit any more and is not sent. Characters that cannot be seen are shown in red. What has been answered elsewhere, or can no longer be answered, says so.

That is all. Write another message, or start a session with a real agent.
`
