package demo

import (
	"slices"
	"strings"
	"unicode"

	"nod/state"
)

// play is one turn. A session's first shows everything, whatever was asked; later
// ones are short, and three words in the message have a meaning.
func play(s *stage, prompt string, first bool) {
	switch {
	case first:
		playFirst(s, prompt)
	case hasWord(prompt, "fail"):
		s.say("You wrote “fail”, so this turn of the **demo** ends with an error, the way it does when a real agent cannot go on.")
		s.fail("demo.asked", "The demo agent failed because you asked it to. Nothing is broken; send another message to go on.")
	case hasWord(prompt, "long"):
		s.say("You wrote “long”, so here is a long answer of the **demo** and nothing else.\n\n" + longText)
	case hasWord(prompt, "helper"):
		playHelper(s)
	default:
		playAgain(s)
	}
}

// playHelper hands a question to a sub-agent, which asks a person too.
func playHelper(s *stage) {
	s.say("You wrote “helper”, so I let a **sub-agent** look into something. It has a session of its own, one click away, and what it asks waits for you here as well.")
	var v verdict
	s.delegate("Find out what reads the cache", "Which functions read the cache, and is one of them slow?", func(h *stage) {
		h.say("I am the helper. I look for the callers first.")
		h.run(command{line: grepLine, output: grepOutput})
		v = h.askToRun(command{line: againLine, why: "To measure how long a read takes.", output: againOutput})
		h.say("`Get` is the only reader, and it does not walk the list. That is all I was asked.")
	})
	if v.approved {
		s.say("The helper says that reads are fast; you let it measure.")
	} else {
		s.say("The helper says that reads are fast, as far as one can see without measuring.")
	}
}

var planSteps = []string{
	"Find where the cache grows",
	"Run the tests as they are",
	"Make a branch",
	"Bound the cache and test it",
	"Ask what comes next",
}

func playFirst(s *stage, prompt string) {
	s.say("This is the **demo agent** of nod. It plays a script: nothing is run, no file is touched, and I cannot read what you wrote, only repeat it: " +
		quoted(shorten(prompt, promptShown)) + ". Let us pretend that it was about a cache that grows without limit.")
	s.think("**Where does the cache grow?** It has a map and a list. If only one function adds to them, one check in that function bounds both. " +
		"Reading is harmless, so I look before I ask for anything.")
	s.plan(0, planSteps)
	s.run(command{line: grepLine, output: grepOutput})
	s.say("That command ran without asking, because it only reads. `PushFront` has one caller, `Put`, so the bound belongs there.")

	s.plan(1, planSteps)
	s.say("A test runs whatever code the folder holds. So the next command waits for **you**: its card shows every byte of what would run.")
	tests := s.askToRun(command{line: testLine, why: "To see which tests fail before I change anything.", output: testOutput, exit: 1})
	switch {
	case tests.granted:
		s.say("It failed, and a failure is never folded away: `TestBound` finds one entry too many. You approved this command for the session, so I would not ask for it again.")
	case tests.approved:
		s.say("It failed, and a failure is never folded away: `TestBound` finds one entry too many. You approved it once, so the next time I would ask again.")
	default:
		s.say("You denied it, so it did not run, and I know less than I could. I go on without the tests.")
	}

	s.plan(2, planSteps)
	s.say("The next command can be **edited** before you approve it. Try it: give the branch another name.")
	branch := s.askToRun(command{line: branchLine, why: "To keep the change apart from your work.", output: branchOutput, editable: true})
	switch {
	case branch.edited:
		s.say("What ran is what you made of it: " + quoted(branch.line) + ". An edited command is shown to you once more before it is sent.")
	case branch.approved:
		s.say("You left it as it was, so that is what ran, and we are on a new branch.")
	default:
		s.say("You denied it, so I stay on the branch that you are on.")
	}

	s.plan(3, planSteps)
	s.say("Now the change itself. Writing to files asks as well, and shows the diff.")
	edit := s.askToEdit("Edit cache.go and cache_test.go", "To drop the oldest entry when the cache is full, and to test that a key is replaced.", patch)
	if edit.approved {
		s.say("Both files would be changed now. `Put` replaces an entry that is there, and makes room when the cache is full.")
	} else {
		s.say("You denied it, so both files stay as they are.")
	}

	s.plan(4, planSteps)
	s.say("Agents have questions too. You can answer them or skip them.")
	answers := s.askQuestions(questions)
	s.plan(len(planSteps), planSteps)
	s.say(summary(tests, branch, edit, answers))
	s.usage()
	s.say(longText)
}

func playAgain(s *stage) {
	s.say("This is the **demo agent** again. I still cannot read, so every later turn is the same: one command that asks. " +
		"Write “long” for a long answer that you can stop, “helper” for a sub-agent, or “fail” for a turn that goes wrong.")
	switch v := s.askToRun(command{line: againLine, why: "To see that reading from the cache still works.", output: againOutput}); {
	case v.granted:
		s.say("It passed. You approved this command for the session, so it is not asked for again until nod starts anew.")
	case v.approved:
		s.say("It passed, or would have, if any of this were real.")
	default:
		s.say("You denied it, so it did not run. Nothing else happens in this turn.")
	}
}

// The questions' ids, where their answers are looked up.
const (
	askExpiry  = "expiry"
	askMetrics = "metrics"
	askNote    = "note"
)

var questions = state.InputRequest{
	Message: new("The size is bounded now. Three questions about what comes next:"),
	Questions: []state.Question{
		{
			ID: askExpiry, Kind: "single-select", Title: new("Expiry"), Message: "Should entries also get too old?", AllowFreeformInput: new(true),
			Options: []state.QuestionOption{
				{ID: "never", Label: "Never", Description: new("The bound keeps memory in check; nothing else to get wrong."), Recommended: new(true)},
				{ID: "on-read", Label: "When they are read", Description: new("Get drops an entry that is too old; the others stay until then.")},
				{ID: "sweep", Label: "By a sweep", Description: new("A goroutine looks for them; it has to end with the cache.")},
			},
		},
		{ID: askMetrics, Kind: "boolean", Title: new("Metrics"), Message: "Should the cache count hits and misses?"},
		{ID: askNote, Kind: "text", Title: new("Note"), Message: "Anything else? You may leave this empty."},
	},
}

// summary tells what a person made of the turn.
func summary(tests, branch, edit verdict, answers map[string]state.Answer) string {
	row := func(what string, v verdict, done string) string {
		answer := "denied"
		switch {
		case v.approved && v.edited:
			answer = "approved, edited"
		case v.granted:
			answer = "approved for this session"
		case v.approved:
			answer = "approved"
		}
		if !v.approved {
			done = "nothing"
		}
		return "| " + what + " | " + answer + " | " + done + " |\n"
	}
	return "## What you decided\n\n" +
		"| It asked for | You said | What followed |\n|---|---|---|\n" +
		row(cell(quoted(tests.line)), tests, "failed, exit 1") +
		row(cell(quoted(branch.line)), branch, "exit 0") +
		row("a change of two files", edit, "19 lines added, 1 removed") +
		"\n" + chosen(answers) + "\n" + closing
}

// chosen repeats the answers, one to a line.
func chosen(answers map[string]state.Answer) string {
	if answers == nil {
		return "You skipped the questions, so a real agent would have to choose for itself.\n"
	}
	expiry, metrics, note := "not answered", "not answered", "none"
	if a := answers[askExpiry]; strings.TrimSpace(a.Text) != "" {
		expiry = quoted(a.Text) // own words are more than a choice
	} else if label := optionLabel(questions.Questions[0], a.Selected); label != "" {
		expiry = "**" + label + "**"
	}
	switch strings.Join(answers[askMetrics].Selected, "") {
	case "true":
		metrics = "**yes**"
	case "false":
		metrics = "**no**"
	}
	if text := answers[askNote].Text; strings.TrimSpace(text) != "" {
		note = quoted(text)
	}
	return "Your answers to the questions:\n\n- Should entries get too old? " + expiry +
		"\n- Count hits and misses? " + metrics + "\n- Your note: " + note + "\n"
}

// optionLabel returns the label of the option that was selected, "" if none was.
func optionLabel(q state.Question, selected []string) string {
	for _, o := range q.Options {
		if slices.Contains(selected, o.ID) {
			return o.Label
		}
	}
	return ""
}

// promptShown is how many characters of a message the demo repeats.
const promptShown = 80

// shorten keeps the first n characters of s and marks the cut.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// hasWord reports whether text holds a word, in any case and not within another.
func hasWord(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }), word)
}

// quoted returns a person's words as inline code: there no character of theirs
// means anything to markdown.
func quoted(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// cell makes markdown fit into a cell of a table.
func cell(markdown string) string { return strings.ReplaceAll(markdown, "|", `\|`) }
