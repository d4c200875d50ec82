package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"nod/state"
)

// The tempo of the play.
const (
	wordPause   = 25 * time.Millisecond  // between two words
	linePause   = 120 * time.Millisecond // between two lines of output
	beforeScene = 400 * time.Millisecond
)

// errStopped ends a performance from within: a script is straight-line code, and
// perform catches it at the end.
var errStopped = errors.New("demo: stopped")

// stage is one turn being played.
type stage struct {
	conn   *conn
	ctx    context.Context // ends when the turn is stopped or the link ends
	uri    string          // of the session
	turn   string
	folder string
	meta   map[string]json.RawMessage
	parts  int
	spoken int64 // words, for the usage
	open   *tool // the call that is running, if any
}

// tool is a tool call on the stage.
type tool struct {
	id       string
	terminal string
	started  time.Time
}

// perform plays a script to its end, or to where it is stopped.
func (s *stage) perform(script func()) {
	defer func() {
		if p := recover(); p != nil && p != any(errStopped) {
			panic(p)
		}
		if s.conn.ended() {
			return // the hub closes what was open
		}
		if s.ctx.Err() != nil {
			if s.open != nil {
				s.end(s.open, -1, "Stopped")
			}
			s.apply(&state.SessionTurnCancelled{TurnID: s.turn})
		}
	}()
	script()
	in := s.spoken * 6
	s.apply(&state.SessionUsage{TurnID: s.turn, Usage: state.UsageInfo{InputTokens: &in, OutputTokens: &s.spoken, Model: "scripted"}},
		&state.SessionTurnComplete{TurnID: s.turn})
}

func (c *conn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running == nil || c.running.Err() != nil
}

func (s *stage) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		panic(errStopped)
	}
}

// apply sends session actions. What the play has shown is shown, even if it is
// being stopped.
func (s *stage) apply(actions ...state.Action) {
	s.conn.sink.Apply(context.WithoutCancel(s.ctx), s.uri, s.envelopes(actions...)...)
}

func (s *stage) envelopes(actions ...state.Action) []state.Envelope {
	out := make([]state.Envelope, len(actions))
	for i, a := range actions {
		out[i] = state.Envelope{Channel: s.uri, Action: a}
	}
	return out
}

func (s *stage) partID() string {
	s.parts++
	return fmt.Sprintf("%s-part-%d", s.turn, s.parts)
}

// think streams a reasoning part.
func (s *stage) think(text string) {
	id := s.partID()
	s.apply(&state.SessionResponsePart{TurnID: s.turn, Part: &state.ReasoningPart{ID: id}})
	for w := range strings.SplitAfterSeq(text, " ") {
		s.pause(wordPause)
		s.apply(&state.SessionReasoning{TurnID: s.turn, PartID: id, Content: w})
	}
}

// say streams markdown.
func (s *stage) say(text string) {
	id := s.partID()
	s.apply(&state.SessionResponsePart{TurnID: s.turn, Part: &state.MarkdownPart{ID: id}})
	for w := range strings.SplitAfterSeq(text, " ") {
		s.pause(wordPause)
		s.spoken++
		s.apply(&state.SessionDelta{TurnID: s.turn, PartID: id, Content: w})
	}
}

// plan shows steps, of which the first done are done and the next is being done.
func (s *stage) plan(done int, steps ...string) {
	type step struct {
		Step   string `json:"step"`
		Status string `json:"status"`
	}
	list := make([]step, len(steps))
	for i, text := range steps {
		list[i] = step{text, "pending"}
		if i < done {
			list[i].Status = "completed"
		} else if i == done {
			list[i].Status = "inProgress"
		}
	}
	raw, _ := json.Marshal(list) // strings always encode
	meta := map[string]json.RawMessage{}
	for k, v := range s.meta {
		meta[k] = v
	}
	meta["nod.plan"] = raw
	s.apply(&state.SessionMetaChanged{Meta: meta})
}

// start begins a tool call of a kind of input: command or diff.
func (s *stage) start(name, display, kind string) *tool {
	s.pause(beforeScene)
	t := &tool{id: "call-" + rand.Text()[:8]}
	t.terminal = "ahp-terminal:/demo-" + t.id
	s.apply(&state.SessionToolCallStart{TurnID: s.turn, ToolCallID: t.id, ToolName: name, DisplayName: display,
		Meta: map[string]json.RawMessage{"nod.input": fmt.Appendf(nil, "%q", kind)}})
	return t
}

// ready says what the call will do, and whether it may.
func (s *stage) ready(t *tool, does, input, confirmed string) *state.SessionToolCallReady {
	return &state.SessionToolCallReady{TurnID: s.turn, ToolCallID: t.id, InvocationMessage: state.Plain(does), ToolInput: input, Confirmed: confirmed}
}

// run plays a command that needs no permission.
func (s *stage) run(command string, exit int, output string) {
	t := s.start("shell", "Run a command", "command")
	s.apply(s.ready(t, command, command, state.ConfirmedNotNeeded))
	s.output(t, command, exit, output)
}

// output plays what a command prints, and its end.
func (s *stage) output(t *tool, command string, exit int, output string) {
	s.open, t.started = t, time.Now()
	ctx := context.WithoutCancel(s.ctx)
	s.conn.sink.Apply(ctx, s.uri,
		state.Envelope{Channel: s.uri, Action: &state.SessionToolCallContentChanged{TurnID: s.turn, ToolCallID: t.id, Content: t.content()}},
		state.Envelope{Channel: t.terminal, Action: &state.TerminalCommandExecuted{CommandID: t.id, CommandLine: command, Timestamp: t.started.UnixMilli()}})
	for line := range strings.SplitAfterSeq(output, "\n") {
		s.pause(linePause)
		s.conn.sink.Apply(ctx, s.uri, state.Envelope{Channel: t.terminal, Action: &state.TerminalData{Data: line}})
	}
	s.end(t, exit, "Ran "+command)
}

func (t *tool) content() []state.ToolResultContent {
	return []state.ToolResultContent{state.TerminalContent(t.terminal, "Output")}
}

// end completes a command; a negative exit code is none.
func (s *stage) end(t *tool, exit int, past string) {
	s.open = nil
	finished := &state.TerminalCommandFinished{CommandID: t.id}
	ms := time.Since(t.started).Milliseconds()
	finished.DurationMs = &ms
	if exit >= 0 {
		finished.ExitCode = &exit
	}
	s.conn.sink.Apply(context.WithoutCancel(s.ctx), s.uri,
		state.Envelope{Channel: t.terminal, Action: finished},
		state.Envelope{Channel: s.uri, Action: &state.SessionToolCallComplete{TurnID: s.turn, ToolCallID: t.id, Result: state.ToolCallResult{
			Success: exit == 0, PastTenseMessage: state.Plain(past), Content: t.content(),
		}}})
}

// approvalOptions are what the demo offers for a command or an edit.
func approvalOptions(scope string) []state.ConfirmationOption {
	return []state.ConfirmationOption{
		{ID: "accept", Label: "Approve once", Kind: state.OptionApprove},
		{ID: "acceptForSession", Label: "Approve for this session: " + scope, Kind: state.OptionApprove, Group: 1},
		{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		{ID: "cancel", Label: "Deny and stop the turn", Kind: state.OptionDeny, Group: 1},
	}
}

// ask waits for a person's decision and takes it: "cancel" stops the play.
func (s *stage) ask(r state.Request, shown ...state.Action) state.Decision {
	id, answer := s.conn.expect()
	r.Session, r.TurnID, r.Provider, r.Epoch, r.UpstreamID = s.uri, s.turn, Provider, s.conn.epoch, id
	r.Cwd = s.folder
	r.Method = "demo/" + string(r.Kind)
	r.Params, _ = json.Marshal(map[string]any{"input": r.Input, "diff": r.Diff, "questions": r.Questions}) // plain data
	s.conn.sink.Ask(context.WithoutCancel(s.ctx), r, s.envelopes(shown...)...)
	var d state.Decision
	select {
	case d = <-answer:
	case <-s.ctx.Done():
		s.conn.forget(id)
		panic(errStopped)
	}
	s.pause(beforeScene) // so that a person sees "sent"
	s.conn.sink.Resolved(context.WithoutCancel(s.ctx), s.uri, s.conn.epoch, id)
	if d.OptionID == "cancel" {
		s.conn.mu.Lock()
		stop := s.conn.stops[s.turn]
		s.conn.mu.Unlock()
		stop()
		panic(errStopped)
	}
	return d
}

// allowed reports whether a decision lets the play go on with what was asked.
func allowed(d state.Decision) bool {
	return d.OptionID == "accept" || d.OptionID == "acceptForSession"
}

// askToRun asks for a command and plays it if it is approved, as it was edited.
func (s *stage) askToRun(command, why string, editable bool, exit int, output func(command string) string) (ran string, ok bool) {
	t := s.start("shell", "Run a command", "command")
	options := approvalOptions("the same command only")
	ready := s.ready(t, command, command, "")
	ready.Options, ready.Editable = options, editable
	d := s.ask(state.Request{
		ToolCallID: t.id, Kind: state.RequestCommand, Title: "Run a command?", Reason: why, Input: command, Editable: editable, Options: options,
	}, ready)
	if !allowed(d) {
		return "", false
	}
	if d.EditedInput != "" {
		command = d.EditedInput
	}
	s.output(t, command, exit, output(command))
	return command, true
}

// askToEdit asks for a change of files and reports it as done if it is approved.
func (s *stage) askToEdit(does, why, diff string, edits []state.ToolResultContent) bool {
	t := s.start("apply_patch", "Edit files", "diff")
	options := approvalOptions("these files only")
	ready := s.ready(t, does, diff, "")
	ready.Options = options
	d := s.ask(state.Request{
		ToolCallID: t.id, Kind: state.RequestFileChange, Title: "Change files?", Reason: why, Diff: diff, Options: options,
	}, ready)
	if allowed(d) {
		s.apply(&state.SessionToolCallComplete{TurnID: s.turn, ToolCallID: t.id, Result: state.ToolCallResult{
			Success: true, PastTenseMessage: state.Plain(strings.Replace(does, "Edit", "Edited", 1)), Content: edits,
		}})
	}
	return allowed(d)
}

// question asks and returns the answers, nil if they were refused.
func (s *stage) question(q state.InputRequest) map[string]state.Answer {
	s.pause(beforeScene)
	q.ID = s.partID()
	d := s.ask(state.Request{
		Kind: state.RequestQuestion, Title: "The demo has a question", Questions: &q,
		Options: []state.ConfirmationOption{{ID: "answer", Label: "Answer", Kind: state.OptionApprove}, {ID: "skip", Label: "Skip", Kind: state.OptionDeny}},
	}, &state.SessionInputRequested{Request: q})
	if d.OptionID != "answer" {
		return nil
	}
	return d.Answers
}
