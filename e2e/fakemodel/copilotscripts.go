package main

import (
	"fmt"
	"time"
)

// copilotScripts are those that use tools of Copilot alone, or what only its tests
// need.
func copilotScripts() []script {
	return []script{
		{name: "shell", about: "Copilot: a command with its intention", play: copilotScript("The command has had its answer.", func(t *turn) {
			t.think("A command will do.")
			t.say(commentary, "I will make a file.")
			t.commandFor("echo hello > hello.txt && cat hello.txt", "Create hello.txt")
		})},
		{name: "twice", about: "Copilot: three commands, the last two of one kind", play: copilotScript("All three have had their answer.", func(t *turn) {
			t.commandFor("git --version", "Ask for the version of Git")
		}, func(t *turn) {
			t.commandFor("touch a.txt", "Create a.txt")
		}, func(t *turn) {
			t.commandFor("touch b.txt", "Create b.txt")
		})},
		{name: "create", about: "Copilot with a model that has no patches: a new file, then a change of it", play: copilotScript("The notes are written.", func(t *turn) {
			t.say(commentary, "First the notes.")
			t.call("create", object{"path": t.path("notes.md"), "file_text": "# Notes\n\n- first line\n- second line\n- third line\n"})
		}, func(t *turn) {
			t.call("edit", object{"path": t.path("notes.md"), "old_str": "- second line\n", "new_str": "- second line, changed\n- one more\n"})
		})},
		{name: "read", about: "Copilot: a file of the work folder, README.md, then one beside it, outside.txt", play: copilotScript("Both have been read.", func(t *turn) {
			t.call("view", object{"path": t.path("README.md")})
		}, func(t *turn) {
			t.call("view", object{"path": t.path("../outside.txt")})
		})},
		{name: "fetch", about: "Copilot: a page of this machine, which it does not fetch", play: copilotScript("The page has had its answer.", func(t *turn) {
			t.call("web_fetch", object{"url": "http://127.0.0.1:9/page", "max_length": 2000})
		})},
		{name: "mixed", about: "Copilot: two commands, a file that is read and one that is written, all at once", play: copilotScript("All four have had their answer.", func(t *turn) {
			t.commandFor("sleep 1; echo first", "Say first")
			t.call("view", object{"path": t.path("README.md")})
			t.commandFor("echo second", "Say second")
			t.patch(onePatch)
		})},
		{name: "choose", about: "Copilot: a question with choices; the answer repeats it", play: copilotAnswer("ask_user", object{
			"question": "Which colour should the button be?", "choices": []string{"red", "green", "blue"}, "allow_freeform": true,
		})},
		{name: "tell", about: "Copilot: a question without choices; the answer repeats it", play: copilotAnswer("ask_user", object{"question": "What should the button say?", "allow_freeform": true})},
		{name: "exitplan", about: "Copilot: a plan to agree to (in plan mode)", play: copilotScript("The plan has had its answer.", func(t *turn) {
			t.call("exit_plan_mode", object{
				"summary": "- Read the **code**\n- Write the fix", "actions": []string{"exit_only", "interactive", "autopilot"}, "recommendedAction": "interactive",
			})
		})},
		{name: "noticed", about: "Copilot: what it says of a command that has ended in the background", play: copilotScript("Noted.")},
		{name: "autopilot", about: "Copilot: a command, then the end of the task (in autopilot mode)", play: copilotScript("That is the end.", func(t *turn) {
			t.commandFor("echo auto > auto.txt", "Create auto.txt")
		}, func(t *turn) {
			t.call("task_complete", object{"summary": "The file is **there**."})
		})},
		{name: "delegate", about: "Copilot: a sub-agent that reads README.md", play: copilotScript("The sub-agent is done.", func(t *turn) {
			t.say(commentary, "Somebody else can look.")
			t.call("task", object{"agent_type": "explore", "name": "look-around", "description": "Look around", "prompt": "script:look", "mode": "sync"})
		})},
		{name: "aside", about: "Copilot: a sub-agent in the background that reads README.md", play: copilotScript("The sub-agent works.", func(t *turn) {
			t.call("task", object{"agent_type": "explore", "name": "look-around", "description": "Look around", "prompt": "script:look", "mode": "background"})
		})},
		{name: "look", about: "Copilot: what the sub-agent of delegate does", play: copilotScript("There is one file.", func(t *turn) {
			t.call("view", object{"path": t.path("README.md")})
		})},
		{name: "todo", about: "Copilot: what it intends, and two things to do, of which one gets done", play: copilotScript("One is left to do.", func(t *turn) {
			t.call("report_intent", object{"intent": "Planning the work"})
			t.call("sql", object{"description": "Insert todos", "query": "INSERT INTO todos (id, title, description, status) VALUES " +
				"('read', 'Read the code', 'All of it', 'in_progress'), ('fix', 'Write the fix', 'A short one', 'pending');"})
		}, nil, func(t *turn) {
			t.call("sql", object{"description": "Finish a todo", "query": "UPDATE todos SET status = 'done' WHERE id = 'read';"})
		})},
		{name: "async", about: "Copilot: a command in the background, which is read, then stopped", play: copilotScript("The command is over.", func(t *turn) {
			t.call("bash", object{"command": "for i in 1 2 3 4 5 6 7 8; do echo background $i; sleep 1; done", "description": "Count in the background", "mode": "async", "shellId": "counter"})
		}, func(t *turn) {
			t.call("read_bash", object{"shellId": "counter", "delay": 2})
		}, func(t *turn) {
			t.call("stop_bash", object{"shellId": "counter"})
		})},
		{name: "lines", about: "Copilot: a command that prints 5,000 lines", play: copilotScript("That was a lot.", func(t *turn) {
			t.commandFor("seq 1 5000", "Count to 5,000")
		})},
		{name: "unknown", about: "Copilot: a tool that there is not", play: copilotScript("There is no such tool.", func(t *turn) {
			t.call("no_such_tool", object{"a": 1})
		})},
		{name: "verylong", about: "an answer of 12,000 pieces", play: func(t *turn, _ int) {
			t.stream(finalAnswer, numbered("word%d ", 12_000), 0)
		}},
		{name: "trickle", about: "4 seconds of text", play: func(t *turn, _ int) {
			t.stream(finalAnswer, numbered("drop%d ", 40), 100*time.Millisecond)
		}},
	}
}

// copilotScript makes a step of each of the uses of tools, and says the end. A
// step is nil where the one before uses two tools.
func copilotScript(end string, steps ...func(*turn)) func(*turn, int) {
	return func(t *turn, step int) {
		if step < len(steps) && steps[step] != nil {
			steps[step](t)
			return
		}
		t.say(finalAnswer, end)
	}
}

// copilotAnswer uses a tool and repeats what it returned.
func copilotAnswer(tool string, arguments object) func(*turn, int) {
	return func(t *turn, step int) {
		if step == 0 {
			t.call(tool, arguments)
			return
		}
		t.say(finalAnswer, "The answer was:\n\n```\n"+t.outputs[len(t.outputs)-1].output()+"\n```\n")
	}
}

// numbered are pieces of a text that can be counted.
func numbered(format string, n int) []string {
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = fmt.Sprintf(format, i)
	}
	return pieces
}

const onePatch = `*** Begin Patch
*** Add File: mixed.txt
+written among others
*** End Patch`
