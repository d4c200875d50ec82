package main

import (
	"fmt"
	"strings"
	"time"
)

// script is what the model does. step counts the tools that have returned.
type script struct {
	name, about string
	play        func(t *turn, step int)
	status      int // if not 0: an HTTP error instead of an answer
}

func find(name string) (script, bool) {
	for _, s := range scripts() {
		if s.name == name {
			return s, true
		}
	}
	return script{}, false
}

func scriptList() string {
	var b strings.Builder
	for _, s := range scripts() {
		fmt.Fprintf(&b, "  script:%-9s %s\n", s.name, s.about)
	}
	return b.String()
}

// titleScript answers the request for a title of a thread.
func titleScript(name string) script {
	title := "Try the scripted model"
	if _, known := find(name); known {
		title = "Play the script " + name
	}
	return script{play: func(t *turn, _ int) { t.say(finalAnswer, encode(object{"title": title})) }}
}

// scripts is the table. It is a function because one of the scripts lists it.
func scripts() []script {
	return []script{
		{name: "help", about: "says which scripts there are; so does a prompt without a script", play: func(t *turn, _ int) {
			t.say(finalAnswer, "I am a **scripted model**: I do not understand what you write. Put one of these words into a message:\n\n```\n"+scriptList()+"```\n")
		}},
		{name: "hello", about: "a plain answer", play: func(t *turn, _ int) {
			t.think("**Greeting**\n\nA short hello will do.")
			t.say(finalAnswer, "Hello from the *scripted* model.")
		}},
		{name: "command", about: "thoughts, a shell command, an answer with a table and code", play: func(t *turn, step int) {
			if step == 0 {
				t.think("**Looking at the folder**\n\nThe files come first.", "**Choosing a command**\n\n`ls` is enough.")
				t.say(commentary, "I will list the files first.")
				t.command("ls -la && echo done > out.txt && cat out.txt")
				return
			}
			t.say(finalAnswer, answer)
		}},
		{name: "fail", about: "a command that fails", play: func(t *turn, step int) {
			if step == 0 {
				t.command("echo 'cannot find the widget' >&2; exit 3")
				return
			}
			t.say(finalAnswer, "The command failed with exit code **3**: the widget is missing.")
		}},
		{name: "patch", about: "a new file, then a change of it", play: func(t *turn, step int) {
			switch step {
			case 0:
				t.think("**Editing files**")
				t.patch(addPatch)
			case 1:
				t.patch(updatePatch)
			default:
				t.say(finalAnswer, "Both edits are made.")
			}
		}},
		{name: "parallel", about: "two commands at once", play: func(t *turn, step int) {
			if step == 0 {
				t.say(commentary, "Two commands at once.")
				for i := 1; i <= 2; i++ {
					t.command(fmt.Sprintf("touch par%d.txt; sleep 1; echo parallel %d", i, i))
				}
				return
			}
			t.say(finalAnswer, "Both commands are done.")
		}},
		{name: "ask", about: "a question (Codex asks it in plan mode only)", play: func(t *turn, step int) {
			if step == 0 {
				t.call("request_user_input", object{"questions": []any{object{
					"id": "db", "header": "Database", "question": "Which database should I use?",
					"options": []any{
						object{"label": "SQLite (Recommended)", "description": "A single file, nothing to run"},
						object{"label": "PostgreSQL", "description": "A server, for many writers"},
					},
				}}})
				return
			}
			t.say(finalAnswer, "You answered:\n\n```json\n"+t.outputs[len(t.outputs)-1].output()+"\n```\n")
		}},
		{name: "plan", about: "a plan with three steps", play: func(t *turn, step int) {
			steps := []string{"Read the code", "Write the fix", "Run the tests"}
			if step >= len(steps) {
				t.say(finalAnswer, "The plan is **done**.")
				return
			}
			var plan []any
			for i, s := range steps {
				status := "pending"
				if i < step {
					status = "completed"
				} else if i == step {
					status = "in_progress"
				}
				plan = append(plan, object{"step": s, "status": status})
			}
			t.call("update_plan", object{"explanation": fmt.Sprintf("Step %d", step+1), "plan": plan})
		}},
		{name: "long", about: "an answer of 5,000 pieces", play: func(t *turn, _ int) {
			pieces := make([]string, 5000)
			for i := range pieces {
				pieces[i] = fmt.Sprintf("word%d ", i)
				if i%40 == 0 {
					pieces[i] = fmt.Sprintf("\n\n### Part %d\n\n", i/40+1)
				}
			}
			t.stream(finalAnswer, pieces, 0)
		}},
		{name: "slow", about: "20 seconds of text, to stop it or to reload", play: func(t *turn, _ int) {
			pieces := make([]string, 200)
			for i := range pieces {
				pieces[i] = fmt.Sprintf("slow%d ", i)
			}
			t.stream(finalAnswer, pieces, 100*time.Millisecond)
		}},
		{name: "slowcmd", about: "a command that takes 8 seconds", play: func(t *turn, step int) {
			if step == 0 {
				t.command("for i in 1 2 3 4 5 6 7 8; do echo tick $i; sleep 1; done")
				return
			}
			t.say(finalAnswer, "The ticks are over.")
		}},
		{name: "big", about: "a command that prints 2 MB", play: func(t *turn, step int) {
			if step == 0 {
				// With pauses, since of a command that ends at once Codex streams nothing.
				t.command("for i in 1 2 3 4; do seq -f \"$i: line %.0f, nothing to see, but a lot of it\" 1 20000 | head -c 500000; sleep 0.3; done; echo; echo END")
				return
			}
			t.say(finalAnswer, "That was 2 MB.")
		}},
		{name: "hostile", about: "text and a command that try to deceive", play: func(t *turn, step int) {
			if step == 0 {
				t.say(commentary, hostileText)
				t.command("echo '" + hostileCommand + "'")
				return
			}
			t.say(finalAnswer, hostileText)
		}},
		{name: "err429", about: "the model says: too many requests", status: 429},
		{name: "err500", about: "the model fails", status: 500},
		{name: "cut", about: "the stream breaks in the middle of the answer", play: func(t *turn, _ int) {
			t.breakOff("This stream is about to break")
		}},
	}
}

const answer = `## Result

The command **finished**. Summary:

| step | state | files |
|------|:-----:|------:|
| list | ok    |     1 |
| test | ok    |    12 |

` + "```go" + `
func main() { fmt.Println("hello <world> & \"co\"") }
` + "```" + `

1. first
2. second, with ` + "`inline code`" + `
`

const addPatch = `*** Begin Patch
*** Add File: notes/hello.md
+# Hello
+
+line one
+line two
*** End Patch`

const updatePatch = `*** Begin Patch
*** Update File: notes/hello.md
@@
 # Hello
 
-line one
+line 1
+line 1 and a half
 line two
*** End Patch`

// hostileCommand must stay harmless between single quotes.
const hostileCommand = "safe \u202e\u2066txt.exe\u2069\u202c zero\u200bwidth \u00a0nbsp \x1b[31mred\x1b[2K\x1b[0m " +
	"<script>alert(1)</script> [click](javascript:alert(1)) ![x](http://127.0.0.1:9/leak?q=1)"

const hostileText = "Look: <script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\n\n" +
	"[click](javascript:document.title='owned') ![x](http://127.0.0.1:9/leak?q=1) [go](/logout)\n\n" +
	"right\u202eto left\u202c, zero\u200bwidth, \x1b[31mred\x1b[0m, bell\a\n\n" +
	"<form action=/logout method=post><button>Approve once</button></form>\n\n" +
	"```\"><script>alert(1)</script>\ncode\n```\n"
