package main

import (
	"fmt"
	"slices"
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
	for _, s := range allScripts() {
		if s.name == name {
			return s, true
		}
	}
	return script{}, false
}

func scriptList() string {
	var b strings.Builder
	for _, s := range allScripts() {
		fmt.Fprintf(&b, "  script:%-11s %s\n", s.name, s.about)
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

func allScripts() []script { return slices.Concat(scripts(), copilotScripts()) }

// scripts is the table of those that both agents can play, or Codex alone. It is a
// function because one of the scripts lists it.
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
		{name: "files", about: "two new files; then one is gone and one is moved and changed", play: func(t *turn, step int) {
			switch step {
			case 0:
				t.patch(twoFilesPatch)
			case 1:
				t.patch(movePatch)
			default:
				t.say(finalAnswer, "One file is left.")
			}
		}},
		{name: "escalate", about: "a command outside the sandbox", play: func(t *turn, step int) {
			if step == 0 {
				t.call("exec_command", object{
					"cmd": "touch escaped.txt && ls escaped.txt", "yield_time_ms": 10_000, "sandbox_permissions": "require_escalated",
					"justification": "May I write a file outside the sandbox?", "prefix_rule": []string{"touch"},
				})
				return
			}
			t.say(finalAnswer, "The command has had its answer.")
		}},
		{name: "subagent", about: "a sub-agent that runs a command (features.multi_agent_v2)", play: func(t *turn, step int) {
			switch step {
			case 0:
				t.callIn("collaboration", "spawn_agent", object{"task_name": "look_around", "message": "Look around."})
			case 1:
				t.callIn("collaboration", "wait_agent", object{"timeout_ms": 60_000})
			default:
				t.say(finalAnswer, "The sub-agent is done.")
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
		{name: "three", about: "three commands at once", play: func(t *turn, step int) {
			if step == 0 {
				for i := 1; i <= 3; i++ {
					t.command(fmt.Sprintf("touch three%d.txt; echo number %d", i, i))
				}
				return
			}
			t.say(finalAnswer, "All three have had their answer.")
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
		{name: "code", about: "a command and a new file, as newer models use tools: from a script of their own", play: func(t *turn, step int) {
			switch step {
			case 0:
				t.custom("exec", "const r = await tools.exec_command({cmd: 'echo from a script > code.txt && cat code.txt'});\ntext(r.output);\n")
			case 1:
				t.custom("exec", "text(await tools.apply_patch("+encode(addPatch)+"));\n")
			default:
				t.say(finalAnswer, "The scripts have run.")
			}
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
		{name: "form", about: "an MCP server that asks for a form" + needsMCP, play: mcpScript("ask_form", object{})},
		{name: "url", about: "an MCP server that asks to open a page" + needsMCP, play: mcpScript("ask_url", object{})},
		{name: "count", about: "an MCP server that tells how far it is" + needsMCP, play: mcpScript("count", object{})},
		{name: "note", about: "a tool of an MCP server that needs approval" + needsMCP, play: mcpScript("write_note", object{"text": "hello"})},
		{name: "tool", about: "a tool of the client, named lookup", play: func(t *turn, step int) {
			if step == 0 {
				t.call("lookup", object{"word": "nod"})
				return
			}
			t.say(finalAnswer, "The tool returned: "+t.outputs[len(t.outputs)-1].output())
		}},
		{name: "permissions", about: "a request for more permissions", play: func(t *turn, step int) {
			if step == 0 {
				t.call("request_permissions", object{
					"reason":      "May I reach the network and write to /srv/data?",
					"permissions": object{"network": object{"enabled": true}, "file_system": object{"write": []string{"/srv/data"}}},
				})
				return
			}
			t.say(finalAnswer, "You granted:\n\n```json\n"+t.outputs[len(t.outputs)-1].output()+"\n```\n")
		}},
		{name: "reason", about: "thoughts, and a summary of them", play: func(t *turn, _ int) {
			t.reason("First I count the words. Then I answer.", "**Counting**\n\nThere are three.", "**Answering**\n\nA number will do.")
			t.say(finalAnswer, "Three words.")
		}},
		{name: "messages", about: "two remarks before the answer", play: func(t *turn, _ int) {
			t.say(commentary, "First I look around.")
			t.say(commentary, "Now I know **enough**.")
			t.say(finalAnswer, "It is all in order.")
		}},
		{name: "search", about: "a search of the web (the model says so, nothing is sent)", play: func(t *turn, _ int) {
			t.search("what is a scripted model")
			t.say(finalAnswer, "The web says: a model that does not think.")
		}},
		{name: "review", about: "two findings, as a review writes them", play: func(t *turn, _ int) {
			t.say(finalAnswer, encode(reviewOutput))
		}},
		{name: "compact", about: "a summary, as the compaction of a thread asks for", play: func(t *turn, _ int) {
			t.say(finalAnswer, "The person tries the scripted model; nothing is left to do.")
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
			t.stream(finalAnswer, numbered("slow%d ", 200), 100*time.Millisecond)
		}},
		{name: "slowcmd", about: "a command that takes 8 seconds", play: func(t *turn, step int) {
			if step == 0 {
				t.command("for i in 1 2 3 4 5 6 7 8; do echo tick $i; sleep 1; done")
				return
			}
			t.say(finalAnswer, "The ticks are over.")
		}},
		{name: "wait", about: "20 seconds without a word, to stop it", play: func(t *turn, _ int) {
			t.pause(20 * time.Second)
			t.say(finalAnswer, "That was a long wait.")
		}},
		{name: "steer", about: "a command of 5 seconds, to say something meanwhile; the answer repeats it", play: func(t *turn, step int) {
			if step == 0 {
				t.say(commentary, "Tell me more while this runs.")
				t.command("for i in 1 2 3 4 5; do echo waiting $i; sleep 1; done")
				return
			}
			if len(t.steered) == 0 {
				t.say(finalAnswer, "You said nothing meanwhile.")
				return
			}
			t.say(finalAnswer, "Meanwhile you said: "+strings.Join(t.steered, "; "))
		}},
		{name: "background", about: "a command that runs on for 6 seconds after the answer", play: func(t *turn, step int) {
			if step == 0 {
				t.call("exec_command", object{"cmd": "for i in 1 2 3 4 5 6; do echo background $i; sleep 1; done", "yield_time_ms": 500})
				return
			}
			t.say(finalAnswer, "The command runs on in the background.")
		}},
		{name: "stdin", about: "a command outside the sandbox that asks, and is answered by the model", play: func(t *turn, step int) {
			switch step {
			case 0:
				// Outside, since Codex lets the model write to a sandboxed command.
				t.call("exec_command", object{
					"cmd": "printf 'Name? '; read name; echo Hello, $name", "yield_time_ms": 900, "tty": true,
					"sandbox_permissions": "require_escalated", "justification": "May I run a command that asks for a name?",
				})
			case 1:
				t.call("write_stdin", object{"session_id": t.runningID(), "chars": "nod\n", "yield_time_ms": 2000})
			default:
				t.say(finalAnswer, "The command knows the name.")
			}
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
		{name: "err400", about: "the model says: a bad request", status: 400},
		{name: "err401", about: "the model says: not logged in", status: 401},
		{name: "err429", about: "the model says: too many requests", status: 429},
		{name: "err500", about: "the model fails", status: 500},
		{name: "cut", about: "the stream breaks in the middle of the answer", play: func(t *turn, _ int) {
			t.breakOff("This stream is about to break")
		}},
	}
}

// needsMCP is said of a script that a Codex without the server of e2e/fakemcp
// cannot play.
const needsMCP = " (needs -mcp)"

func mcpScript(tool string, arguments object) func(*turn, int) {
	return func(t *turn, step int) {
		if step == 0 {
			t.mcp(tool, arguments)
			return
		}
		t.say(finalAnswer, "The server returned:\n\n```\n"+t.outputs[len(t.outputs)-1].output()+"\n```\n")
	}
}

// reviewOutput is what a review of Codex has its model write.
var reviewOutput = object{
	"findings": []object{
		{"title": "[P1] The widget is never closed", "body": "Each call leaves a file open.", "confidence_score": 0.9, "priority": 1,
			"code_location": object{"absolute_file_path": "/w/widget.go", "line_range": object{"start": 12, "end": 14}}},
		{"title": "[P3] A name says nothing", "body": "`x2` is the width.", "confidence_score": 0.4, "priority": 3,
			"code_location": object{"absolute_file_path": "/w/widget.go", "line_range": object{"start": 20, "end": 20}}},
	},
	"overall_correctness": "patch is incorrect", "overall_explanation": "It leaks files.", "overall_confidence_score": 0.8,
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

const twoFilesPatch = `*** Begin Patch
*** Add File: old.txt
+to be removed
*** Add File: here.txt
+one
+two
+three
*** End Patch`

const movePatch = `*** Begin Patch
*** Delete File: old.txt
*** Update File: here.txt
*** Move to: there.txt
@@
 one
-two
+2
 three
*** End Patch`

// hostileCommand must stay harmless between single quotes.
const hostileCommand = "safe \u202e\u2066txt.exe\u2069\u202c zero\u200bwidth \u00a0nbsp \x1b[31mred\x1b[2K\x1b[0m " +
	"<script>alert(1)</script> [click](javascript:alert(1)) ![x](http://127.0.0.1:9/leak?q=1)"

const hostileText = "Look: <script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\n\n" +
	"[click](javascript:document.title='owned') ![x](http://127.0.0.1:9/leak?q=1) [go](/logout)\n\n" +
	"right\u202eto left\u202c, zero\u200bwidth, \x1b[31mred\x1b[0m, bell\a\n\n" +
	"<form action=/logout method=post><button>Approve once</button></form>\n\n" +
	"```\"><script>alert(1)</script>\ncode\n```\n"
