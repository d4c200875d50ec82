package share

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/approvals"
	"nod/state/redact"
	"nod/state/snapshot"
)

var ada = redact.New(redact.Owner{Home: "/home/ada", User: "ada", Hosts: []string{"engine-7"}})

var all = Terms{Live: true, Reasoning: true, Output: true, Diffs: true}

// key is a secret, in pieces so that nobody takes this file for a leak.
const key = "gh" + "p_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2"

// seen writes all that is in a picture.
func seen(t *testing.T, v snapshot.Session) string {
	t.Helper()
	lines := []string{fmt.Sprintf("%+v", v.Link)}
	add := func(uri string, x any) {
		b, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, uri+" "+string(b))
	}
	add("", v.State)
	for uri, x := range v.Terminals.All() {
		add(uri, x)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// session is one with these parts in a turn that is in progress.
func session(parts ...state.ResponsePart) snapshot.Session {
	return snapshot.Session{ID: "s1", State: &state.Session{
		Summary:    &state.SessionSummary{Resource: "ahp-session:/s1", Provider: "demo", Title: "A title", Status: state.StatusInProgress},
		Lifecycle:  state.LifecycleReady,
		ActiveTurn: &state.ActiveTurn{ID: "t1", Message: state.UserMessage("Do it."), ResponseParts: state.PartsOf(parts...)},
	}}
}

func prose(text string) *state.MarkdownPart {
	return &state.MarkdownPart{ID: "m", Content: state.NewText(text)}
}

func call(status state.ToolCallStatus, input string) *state.ToolCallPart {
	words := state.Plain("runs " + input)
	return &state.ToolCallPart{ToolCall: state.ToolCall{
		ToolCallID: "c1", ToolName: "shell", DisplayName: "Shell", Status: status, ToolInput: &input, InvocationMessage: &words, ConfirmationTitle: &words, ReasonMessage: &words,
		PartialInput: state.NewText(input), Meta: state.Meta{"nod.input": jsontext.Value(`"command"`), "nod.about": jsontext.Value(`"` + input + `"`)},
		Content: []state.ToolResultContent{state.TextContent("output of it")},
	}}
}

func take(t *testing.T, p *Projection, s snapshot.Session, now time.Time) string {
	t.Helper()
	v, _, _ := p.Take(s, now)
	return seen(t, v)
}

// TestR28Undecided keeps to itself what a tool is asked to do until somebody has
// approved it, and for good if it was denied.
func TestR28Undecided(t *testing.T) {
	denied := &approvals.Approval{State: approvals.Confirmed, Decision: &state.Decision{OptionID: "no"},
		Request: state.Request{Session: "ahp-session:/s1", ToolCallID: "c1", Options: []state.ConfirmationOption{{ID: "no", Kind: state.OptionDeny}}}}
	waits := &approvals.Approval{State: approvals.Pending, Request: state.Request{Session: "ahp-session:/s1", ToolCallID: "c1", Input: "rm -rf"}}
	for name, c := range map[string]struct {
		status   state.ToolCallStatus
		approval *approvals.Approval
		shown    bool
	}{
		"being written":     {state.ToolStreaming, nil, false},
		"waits":             {state.ToolPendingConfirmation, nil, false},
		"runs, and waits":   {state.ToolRunning, waits, false},
		"runs":              {state.ToolRunning, nil, true},
		"done":              {state.ToolCompleted, nil, true},
		"cancelled":         {state.ToolCancelled, nil, false},
		"denied, yet done":  {state.ToolCompleted, denied, false},
		"waits with result": {state.ToolPendingResult, nil, true},
		"of a coming kind":  {"meditating", nil, false},
	} {
		s := session(call(c.status, "rm -rf"))
		if c.approval != nil {
			s.Approvals = []*approvals.Approval{c.approval}
		}
		got := take(t, New(all, ada), s, time.Unix(0, 0))
		if strings.Contains(got, "rm -rf") != c.shown || strings.Contains(got, "output of it") != c.shown || !strings.Contains(got, "Shell") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestR28Decided has the input seen once it was approved.
func TestR28Decided(t *testing.T) {
	p, now := New(all, ada), time.Unix(0, 0)
	if got := take(t, p, session(call(state.ToolPendingConfirmation, "go test")), now); strings.Contains(got, "go test") {
		t.Fatal(got)
	}
	v, changed, _ := p.Take(session(call(state.ToolRunning, "go test")), now)
	if got := seen(t, v); !strings.Contains(got, "go test") || !slices.Contains(changed, snapshot.Part{Kind: snapshot.Response}) {
		t.Errorf("%v changed: %s", changed, got)
	}
}

// TestR28Terms leaves out what the owner does not want seen.
func TestR28Terms(t *testing.T) {
	diff := call(state.ToolCompleted, "--- a diff")
	diff.ToolCall.Meta = state.Meta{"nod.input": jsontext.Value(`"diff"`)}
	diff.ToolCall.InvocationMessage = nil
	shell := call(state.ToolCompleted, "make")
	shell.ToolCall.Content = append(shell.ToolCall.Content, state.TerminalContent("term:/1", "make"))
	s := session(&state.ReasoningPart{ID: "r", Content: state.NewText("a thought\n")}, diff, shell, prose("done\n"))
	s.Terminals = s.Terminals.With("term:/1", &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{CommandLine: "make", Output: state.NewText("a line\n"), IsComplete: true}}})
	words := map[string]func(*Terms){
		"a thought":    func(x *Terms) { x.Reasoning = false },
		"--- a diff":   func(x *Terms) { x.Diffs = false },
		"output of it": func(x *Terms) { x.Output = false },
		"a line":       func(x *Terms) { x.Output = false },
		"Do it.":       func(x *Terms) { x.From = 1 },
	}
	if got := take(t, New(all, ada), s, time.Unix(0, 0)); strings.Count(got, "done") == 0 {
		t.Fatal(got)
	} else {
		for word := range words {
			if !strings.Contains(got, word) {
				t.Errorf("%q is missing in %s", word, got)
			}
		}
	}
	for word, without := range words {
		terms := all
		without(&terms)
		if got := take(t, New(terms, ada), s, time.Unix(0, 0)); strings.Contains(got, word) {
			t.Errorf("%q is in %s", word, got)
		}
	}
}

// TestR28Unknown keeps to itself all that nobody has said may be seen.
func TestR28Unknown(t *testing.T) {
	canary := func(string) *jsontext.Value { v := jsontext.Value(`{"x":"CANARY"}`); return &v }
	raw := jsontext.Value(`"CANARY"`)
	folder := "file:///CANARY"
	note := &state.NotificationPart{Content: state.Plain("CANARY"), Meta: state.Meta{"nod.raw": raw}}
	tool := call(state.ToolCompleted, "make")
	tool.Unknown, tool.ToolCall.Unknown = canary(""), canary("")
	tool.ToolCall.StructuredContent = state.Meta{"a": raw}
	tool.ToolCall.Meta["nod.cwd"], tool.ToolCall.Meta["other"] = raw, raw
	tool.ToolCall.Content = []state.ToolResultContent{{Type: "fileEdit", URI: &folder, Title: &folder}, state.SubagentContent("ahp-session:/CANARY", "CANARY"), {Type: "resource", Resource: &folder}, {Type: "embeddedResource", Data: &folder}}
	s := session(tool, note, &state.OpaquePart{Kind: "coming", Raw: raw}, &state.ContentRefPart{URI: folder})
	s.State.Unknown, s.State.Summary.Unknown = canary(""), canary("")
	s.State.Summary.WorkingDirectory, s.State.Summary.Activity = &folder, &folder
	s.State.Summary.Project = &state.ProjectInfo{URI: folder, DisplayName: "CANARY"}
	s.State.SteeringMessage = &state.PendingMessage{Message: state.UserMessage("CANARY")}
	s.State.QueuedMessages = []state.PendingMessage{{Message: state.UserMessage("CANARY")}}
	s.State.InputRequests = []*state.InputRequest{{ID: "CANARY", Message: &folder}}
	s.State.Meta = state.Meta{"nod.cursor": raw, "other": raw, "nod.context": raw}
	s.State.ServerTools = []state.ToolDefinition{{Name: "CANARY"}}
	s.State.ActiveTurn.Message.Meta = state.Meta{"a": raw}
	s.State.ActiveTurn.Message.Attachments = []state.MessageAttachment{{Type: "resource", Label: "a file", URI: &folder, Data: &folder, ModelRepresentation: &folder}}
	s.Approvals = []*approvals.Approval{{ID: "CANARY", State: approvals.Pending, Request: state.Request{Title: "CANARY"}}}
	s.Children = []snapshot.Child{{ID: "CANARY", Summary: &state.SessionSummary{Title: "CANARY"}}}
	s.Link = state.Link{Key: "CANARY", DisplayName: "Demo", Detail: "CANARY", Epoch: "CANARY", Description: "CANARY"}
	s.ID, s.Parent = "CANARY", "CANARY"
	v, _, _ := New(all, ada).Take(s, time.Unix(0, 0))
	if got := seen(t, v); strings.Contains(got, "CANARY") || v.Approvals != nil || v.Children != nil || v.ID != "" || v.Parent != "" || !strings.Contains(got, "a file") {
		t.Error(got)
	}
}

// TestR28Growing has a secret come in pieces, cut everywhere, as words of the agent, as
// a thought, and as what a command writes; somebody looks after each, and later.
func TestR28Growing(t *testing.T) {
	text := "The token is " + key + " and\nmore.\nNo end"
	for name, at := range map[string]func(text string) snapshot.Session{
		"words": func(text string) snapshot.Session { return session(prose(text)) },
		"thoughts": func(text string) snapshot.Session {
			return session(&state.ReasoningPart{ID: "r", Content: state.NewText(text)})
		},
		"overtaken": func(text string) snapshot.Session { return session(prose(text), prose("Another.\n")) },
		"output": func(text string) snapshot.Session {
			shell := call(state.ToolRunning, "make")
			shell.ToolCall.Content = []state.ToolResultContent{state.TerminalContent("term:/1", "make")}
			s := session(shell)
			s.Terminals = s.Terminals.With("term:/1", &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{CommandLine: "make", Output: state.NewText(text)}}})
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, now := New(all, ada), time.Unix(0, 0)
			for cut := range len(text) {
				for _, wait := range []time.Duration{0, 300 * time.Millisecond, time.Second} {
					now = now.Add(wait)
					got := take(t, p, at(text[:cut]), now)
					if cut > 17 && cut < 13+len(key) && wait == time.Second && name == "overtaken" {
						break // it is taken for whole: nothing came for so long
					}
					for i := 0; i+6 <= len(key); i++ {
						if strings.Contains(got, key[i:i+6]) {
							t.Fatalf("at byte %d, after %v: %s", cut, wait, got)
						}
					}
				}
			}
			p = New(all, ada)
			v, _, again := p.Take(at(text), now)
			if got := seen(t, v); strings.Contains(got, "No ") || again != patience {
				t.Errorf("again in %v: %s", again, got)
			}
			if got := take(t, p, at(text), now.Add(again)); !strings.Contains(got, "No ") || strings.Contains(got, "No end") != (name == "overtaken") {
				t.Error(got)
			}
		})
	}
}

// TestR28LongLine: a line that goes on and on is seen with a second's delay.
func TestR28LongLine(t *testing.T) {
	p, now, text := New(all, ada), time.Unix(0, 0), ""
	said := map[int]int{} // length of the text by tenths of a second
	for i := range 100 {
		text += fmt.Sprintf("word%d ", i)
		said[i] = len(text)
		now = now.Add(100 * time.Millisecond)
		v, _, _ := p.Take(session(prose(text)), now)
		got := v.State.ActiveTurn.ResponseParts.At(0).(*state.MarkdownPart).Content.String()
		if !strings.HasPrefix(text, got) || i > 12 && len(got) < said[i-12] {
			t.Fatalf("after %d words a guest sees %q", i+1, got)
		}
	}
}

// TestR28Unnamed: a request that does not say which call it is about may be about any
// that has not run; and a call that has only just begun may still be asked for.
func TestR28Unnamed(t *testing.T) {
	begun := time.Unix(0, 0)
	ask := func(a approvals.Approval) snapshot.Session {
		s := session(call(state.ToolRunning, "secret plan"))
		s.State.ActiveTurn.ResponseParts.At(0).(*state.ToolCallPart).ToolCall.Content = nil
		a.Request.Session, a.Request.TurnID = s.State.Summary.Resource, "t1"
		s.Approvals = []*approvals.Approval{&a}
		return s
	}
	no := &state.Decision{OptionID: "n"}
	denied := approvals.Approval{State: approvals.Confirmed, Decision: no, Request: state.Request{Options: []state.ConfirmationOption{{ID: "n", Kind: state.OptionDeny}}}}
	named := denied
	named.Decision, named.State, named.Request.ToolCallID = nil, approvals.AnsweredElsewhere, "c1"
	for name, a := range map[string]approvals.Approval{"pending": {State: approvals.Pending}, "denied": denied, "elsewhere": {State: approvals.AnsweredElsewhere}, "its own, elsewhere": named} {
		p := New(all, ada)
		s := ask(a)
		take(t, p, s, begun)
		if got := take(t, p, s, begun.Add(time.Hour)); strings.Contains(got, "secret plan") {
			t.Errorf("%s: %s", name, got)
		}
	}
	p, s := New(all, ada), ask(approvals.Approval{State: approvals.Pending, Request: state.Request{ToolCallID: "another"}})
	if v, _, again := p.Take(s, begun); strings.Contains(seen(t, v), "secret plan") || again != patience {
		t.Errorf("it has just begun: %s", seen(t, v))
	}
	if got := take(t, p, s, begun.Add(patience)); !strings.Contains(got, "secret plan") {
		t.Errorf("nobody asks: %s", got)
	}
}

// TestR28Failure: an error of a tool may repeat its output.
func TestR28Failure(t *testing.T) {
	c := call(state.ToolCompleted, "make")
	c.ToolCall.Error = &state.ToolError{Message: "make: no rule"}
	for _, output := range []bool{true, false} {
		terms := all
		terms.Output = output
		if got := take(t, New(terms, ada), session(c), time.Unix(0, 0)); strings.Contains(got, "no rule") != output {
			t.Errorf("output %v: %s", output, got)
		}
	}
}

// TestOnce: a picture that stands alone has all that is there, but for the word that may
// be going on.
func TestOnce(t *testing.T) {
	got := seen(t, New(all, ada).Once(session(prose("I look first."), call(state.ToolRunning, "ls"), prose("So it is done, and key")), time.Unix(0, 0)))
	if !strings.Contains(got, "I look first.") || !strings.Contains(got, "So it is done, and ") || strings.Contains(got, "and key") {
		t.Error(got)
	}
}

// TestC43Findings are listed once, and seen if the owner says so.
func TestC43Findings(t *testing.T) {
	s := session(prose("It is " + key + " here, and there " + key + ", in /home/ada/x.\n"))
	p := New(all, ada)
	if got := take(t, p, s, time.Unix(0, 0)); strings.Contains(got, key) || strings.Contains(got, "/home/ada") {
		t.Fatal(got)
	}
	found := p.Found()
	if len(found) != 2 || found[0].Value != key || found[0].Shown || found[1].Kind != redact.Home {
		t.Fatalf("%+v", found)
	}
	terms := all
	terms.Shown = []string{found[0].ID}
	p = New(terms, ada)
	if got := take(t, p, s, time.Unix(0, 0)); !strings.Contains(got, key) || strings.Contains(got, "/home/ada") {
		t.Error(got)
	}
	if found := p.Found(); len(found) != 2 || !found[0].Shown {
		t.Errorf("%+v", found)
	}
}

// TestChangedParts plays a session at random: of two pictures that follow one another
// only those parts differ that are told to have changed.
func TestChangedParts(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		p, now := New(all, ada), time.Unix(0, 0)
		s := session()
		s.State.ActiveTurn = nil
		var was snapshot.Session
		for step := range 60 {
			now = now.Add(time.Duration(r.IntN(1200)) * time.Millisecond)
			s = play(r, s, step)
			is, changed, _ := p.Take(s, now)
			if was.State != nil && !slices.Contains(changed, snapshot.Part{Kind: snapshot.Root}) {
				for n := range snapshot.TurnCount(was.State) {
					for i := range snapshot.PartCount(was.State, n) {
						at := snapshot.Part{Kind: snapshot.Response, Turn: n, Index: i}
						if !slices.Contains(changed, at) && drawn(t, was, at) != drawn(t, is, at) {
							t.Fatalf("seed %d, step %d: %v differs and is not among %v", seed, step, at, changed)
						}
					}
				}
			}
			was = is
		}
	}
}

// drawn is what a part shows.
func drawn(t *testing.T, s snapshot.Session, at snapshot.Part) string {
	part := snapshot.PartAt(s.State, at.Turn, at.Index)
	b, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := part.(*state.ToolCallPart); ok {
		for _, x := range c.ToolCall.Content {
			if terminal := s.Terminals.Get(state.Value(x.Resource)); terminal != nil {
				b = fmt.Append(b, terminal.Output(), terminal.Command())
			}
		}
	}
	return string(b)
}

// play does one thing to a session.
func play(r *rand.Rand, s snapshot.Session, step int) snapshot.Session {
	next := *s.State
	s.State = &next
	t := next.ActiveTurn
	switch what := r.IntN(10); {
	case t == nil:
		next.ActiveTurn = &state.ActiveTurn{ID: fmt.Sprint("t", step), Message: state.UserMessage("More.")}
	case what == 0:
		next.Turns = append(slices.Clip(next.Turns), &state.Turn{ID: t.ID, Message: t.Message, ResponseParts: t.ResponseParts.Slice(), State: state.TurnComplete})
		next.ActiveTurn = nil
	case what < 3:
		c := call(state.ToolRunning, "make")
		uri := fmt.Sprint("term:/", step)
		c.ToolCall.Content = append(c.ToolCall.Content, state.TerminalContent(uri, "make"))
		s.Terminals = s.Terminals.With(uri, &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{CommandLine: "make", Output: state.NewText("begins ")}}})
		next.ActiveTurn = &state.ActiveTurn{ID: t.ID, Message: t.Message, ResponseParts: t.ResponseParts.Append(c)}
	case what < 5 || t.ResponseParts.Len() == 0:
		next.ActiveTurn = &state.ActiveTurn{ID: t.ID, Message: t.Message, ResponseParts: t.ResponseParts.Append(prose("Some text"))}
	default:
		i := r.IntN(t.ResponseParts.Len())
		words := []string{" word", "\n", " token=" + key, ".\n"}[r.IntN(4)]
		switch x := t.ResponseParts.At(i).(type) {
		case *state.MarkdownPart:
			next.ActiveTurn = &state.ActiveTurn{ID: t.ID, Message: t.Message, ResponseParts: t.ResponseParts.Replace(i, &state.MarkdownPart{ID: x.ID, Content: x.Content.Append(words)})}
		case *state.ToolCallPart:
			uri := state.Value(x.ToolCall.Content[1].Resource)
			c := *s.Terminals.Get(uri).Content[0].(*state.CommandPart)
			c.Output, c.IsComplete = c.Output.Append(words), r.IntN(4) == 0
			s.Terminals = s.Terminals.With(uri, &state.Terminal{Content: []state.TerminalPart{&c}})
		}
	}
	return s
}

// TestFreeze: what stands still is what it was, also after it was kept.
func TestFreeze(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := session(prose("Some text with "+key+".\n"), &state.ReasoningPart{ID: "r", Content: state.NewText("Hm.\n")})
	s.Link, s.LastEvent = state.Link{Provider: "demo", DisplayName: "Demo", Status: state.LinkUp}, 7
	for step := range 40 {
		s = play(r, s, step)
	}
	s.State.Turns[0].ResponseParts = append(s.State.Turns[0].ResponseParts, call(state.ToolCompleted, "make"))
	is, _, _ := New(all, ada).Take(s, time.Unix(0, 0))
	raw, err := Freeze(is)
	if err != nil {
		t.Fatal(err)
	}
	was, err := Thaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	is.Link.Status, was.Link.Status = "", "" // which nobody asks of what stands still
	if seen(t, was) != seen(t, is) || was.LastEvent != 7 {
		t.Errorf("got\n%s\nwant\n%s", seen(t, was), seen(t, is))
	}
}
