package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	"nod/state"
)

// The tempo: slow enough to read along, fast enough for a first minute.
const (
	wordPause = 25 * time.Millisecond  // a model writes about forty words a second
	linePause = 120 * time.Millisecond // between two lines of output
	stepPause = 400 * time.Millisecond // before each step, and while “sent” is shown
)

// model is the name under which the demo appears where others name their model.
const model = "scripted"

// stage is one turn. What it can do are its methods, for a script that reads from
// top to bottom: once the turn has been stopped or the link has ended, each of
// them does nothing and returns at once, so no script looks for that.
type stage struct {
	conn      *conn
	ctx       context.Context // ends early when the turn is stopped or the link ends
	stop      context.CancelCauseFunc
	uri       string // of the session
	turn      string
	folderURI string
	folder    string
	meta      state.Meta // of the session; the plan is put beside it
	began     time.Time

	parts   int              // so far, for their ids
	words   int64            // so far, for the usage
	running *call            // that has been allowed and has not ended; nil if none
	failure *state.ErrorInfo // ends the turn; nil if it goes well
}

// call is one tool call.
type call struct {
	id       string
	label    string                    // what it does, in a line
	content  []state.ToolResultContent // what it has returned so far
	terminal string                    // URI; "" if there is none or nothing runs in it yet
	started  time.Time
}

// perform plays a script and tells the hub how it ended.
func (s *stage) perform(script func()) {
	script()
	s.end(s.conn.leave(s))
}

// end tells how the turn ended; cause is why it ended early, nil if it did not.
func (s *stage) end(cause error) {
	if cause != nil && cause != errStopped {
		return // the link has ended: the hub closes what is open
	}
	var last []state.Envelope
	if s.running != nil { // a call keeps its output only if it completes
		last = s.finished(-1, state.ToolCallResult{PastTenseMessage: state.Plain("Stopped: " + s.running.label), Content: s.running.content})
	}
	last = append(last, s.envelope(s.used()))
	switch {
	case cause != nil:
		last = append(last, s.envelope(&state.SessionTurnCancelled{TurnID: s.turn}))
	case s.failure != nil:
		last = append(last, s.envelope(&state.SessionError{TurnID: s.turn, Error: *s.failure}))
	default:
		last = append(last, s.envelope(&state.SessionTurnComplete{TurnID: s.turn}))
	}
	s.emit(last...)
}

// pause reports whether the turn goes on afterwards.
func (s *stage) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
	return s.ctx.Err() == nil
}

// emit tells the hub what has happened, even while the turn is being stopped: it
// has happened.
func (s *stage) emit(es ...state.Envelope) {
	s.conn.sink.Apply(context.WithoutCancel(s.ctx), s.uri, state.Source{}, es...)
}

func (s *stage) envelope(a state.Action) state.Envelope {
	return state.Envelope{Channel: s.uri, Action: a}
}

func (s *stage) apply(a state.Action) { s.emit(s.envelope(a)) }

func (s *stage) partID() string {
	s.parts++
	return fmt.Sprintf("%s/%d", s.turn, s.parts)
}

// ---- words ----

// say streams markdown.
func (s *stage) say(text string) {
	id := s.partID()
	s.stream(text, &state.MarkdownPart{ID: id}, func(word string) state.Action {
		return &state.SessionDelta{TurnID: s.turn, PartID: id, Content: word}
	})
}

// think streams reasoning.
func (s *stage) think(text string) {
	id := s.partID()
	s.stream(text, &state.ReasoningPart{ID: id}, func(word string) state.Action {
		return &state.SessionReasoning{TurnID: s.turn, PartID: id, Content: word}
	})
}

func (s *stage) stream(text string, part state.ResponsePart, delta func(word string) state.Action) {
	if !s.pause(stepPause) {
		return
	}
	s.apply(&state.SessionResponsePart{TurnID: s.turn, Part: part})
	for word := range strings.SplitAfterSeq(text, " ") {
		if !s.pause(wordPause) {
			return
		}
		s.words++
		s.apply(delta(word))
	}
}

// plan shows steps, of which the first done are done and the next one is being
// worked on.
func (s *stage) plan(done int, steps []string) {
	if s.ctx.Err() != nil {
		return
	}
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
	meta := maps.Clone(s.meta) // the action replaces all of it
	if meta == nil {
		meta = state.Meta{}
	}
	meta["nod.plan"] = encode(list)
	s.apply(&state.SessionMetaChanged{Meta: meta})
}

// usage shows what the turn has cost so far, were it a model's.
func (s *stage) usage() {
	if s.ctx.Err() == nil {
		s.apply(s.used())
	}
}

func (s *stage) used() *state.SessionUsage {
	// Four tokens to three words is the usual rule; the input is made up.
	in, out := int64(1200)+4*s.words, s.words*4/3
	return &state.SessionUsage{TurnID: s.turn, Usage: state.UsageInfo{
		InputTokens: &in, OutputTokens: &out, Model: new(model),
		Meta: state.Meta{"nod.durationMs": encode(time.Since(s.began).Milliseconds())},
	}}
}

// fail ends the turn with an error, after what the script still does.
func (s *stage) fail(errorType, sentence string) {
	s.failure = &state.ErrorInfo{ErrorType: errorType, Message: sentence}
}

// ---- tools ----

// command is one that the script pretends to run.
type command struct {
	line     string
	why      string // the reason it is asked for
	output   string
	exit     int
	editable bool // a person may change line before approving it
}

// run runs a command that needs nobody's word.
func (s *stage) run(c command) {
	t := s.start("shell", "Run a command", "command", c.line)
	if t == nil {
		return
	}
	s.apply(&state.SessionToolCallReady{
		TurnID: s.turn, ToolCallID: t.id, InvocationMessage: state.Plain(c.line), ToolInput: &c.line, Confirmed: state.ConfirmedNotNeeded,
	})
	s.running = t
	s.execute(c)
}

// delegate has a sub-agent play a script in a session of its own, and waits for
// it.
func (s *stage) delegate(title, message string, script func(*stage)) {
	t := s.start("task", "Start a sub-agent", "", title)
	if t == nil {
		return
	}
	sub := *s
	sub.uri, sub.turn = state.SessionScheme+strings.ToLower(rand.Text()), "turn-"+rand.Text()
	sub.began, sub.parts, sub.words, sub.running, sub.failure = time.Now(), 0, 0, nil, nil
	t.content = []state.ToolResultContent{state.SubagentContent(sub.uri, title)}
	s.running = t
	s.emit(s.envelope(&state.SessionToolCallReady{
		TurnID: s.turn, ToolCallID: t.id, InvocationMessage: state.Plain(title), ToolInput: &message, Confirmed: state.ConfirmedNotNeeded,
	}), s.envelope(&state.SessionToolCallContentChanged{TurnID: s.turn, ToolCallID: t.id, Content: t.content}))
	sub.apply(&state.SessionTurnStarted{TurnID: sub.turn, Message: state.UserMessage(message)})
	script(&sub)
	sub.end(context.Cause(s.ctx))
	if s.ctx.Err() == nil {
		s.emit(s.finished(0, state.ToolCallResult{Success: true, PastTenseMessage: state.Plain("The sub-agent has reported"), Content: t.content})...)
	}
}

// verdict is what a person made of a request.
type verdict struct {
	approved bool
	granted  bool   // for the rest of the session
	edited   bool   // before it was approved
	line     string // of the command as it was approved
}

// askToRun asks for a command and runs it if it is approved, as it was edited.
func (s *stage) askToRun(c command) verdict {
	if s.conn.isGranted(s.uri, c.line) {
		s.run(c)
		return verdict{approved: true, granted: true, line: c.line}
	}
	t := s.start("shell", "Run a command", "command", c.line)
	if t == nil {
		return verdict{line: c.line}
	}
	d := s.askFor(t, c.line, state.Request{
		Kind: state.RequestCommand, Title: "Run a command?", Reason: c.why, Input: c.line,
		Editable: c.editable, Options: approvalOptions("the same command"),
	})
	v := verdict{approved: approves(d), granted: d.OptionID == acceptForSession, line: c.line}
	if !v.approved {
		return v
	}
	if d.EditedInput != "" && d.EditedInput != c.line {
		v.edited, v.line = true, d.EditedInput
		c.line, c.output = v.line, editedOutput(v.line)
		t.label = v.line
	}
	if v.granted {
		s.conn.grant(s.uri, v.line)
	}
	s.execute(c)
	return v
}

// askToEdit asks for a change of files and, if it is approved, says that it was
// made.
func (s *stage) askToEdit(label, why, diff string) verdict {
	t := s.start("apply_patch", "Edit files", "diff", label)
	if t == nil {
		return verdict{}
	}
	d := s.askFor(t, diff, state.Request{
		Kind: state.RequestFileChange, Title: "Change files?", Reason: why, Diff: diff, Options: approvalOptions("these files"),
	})
	v := verdict{approved: approves(d), granted: d.OptionID == acceptForSession}
	if v.approved && s.pause(stepPause) {
		s.emit(s.finished(0, state.ToolCallResult{
			Success: true, PastTenseMessage: state.Plain(strings.Replace(label, "Edit", "Edited", 1)), Content: fileEdits(s.folderURI, diff),
		})...)
	}
	return v
}

// askQuestions returns the answers, or nil if the questions were skipped.
func (s *stage) askQuestions(q state.InputRequest) map[string]state.Answer {
	if !s.pause(stepPause) {
		return nil
	}
	q.ID = s.partID()
	d, ok := s.ask(state.Request{
		Kind: state.RequestQuestion, Title: "The demo agent has questions", Questions: &q,
		Options: []state.ConfirmationOption{
			{ID: "answer", Label: "Answer", Kind: state.OptionApprove},
			{ID: "skip", Label: "Skip", Kind: state.OptionDeny},
		},
	}, &state.SessionInputRequested{Request: q})
	if !ok || d.OptionID != "answer" {
		return nil
	}
	if d.Answers == nil { // answered, with nothing
		return map[string]state.Answer{}
	}
	return d.Answers
}

// start begins a tool call whose input is read as kind says, command or diff. It
// returns nil if the turn does not go on.
func (s *stage) start(tool, display, kind, label string) *call {
	if !s.pause(stepPause) {
		return nil
	}
	t := &call{id: "call-" + rand.Text(), label: label}
	s.apply(&state.SessionToolCallStart{
		TurnID: s.turn, ToolCallID: t.id, ToolName: tool, DisplayName: display,
		Meta: state.Meta{"nod.input": encode(kind)},
	})
	return t
}

// execute pretends that the call that was allowed runs a command.
func (s *stage) execute(c command) {
	if s.ctx.Err() != nil {
		return
	}
	t := s.running
	t.terminal, t.started = "ahp-terminal:/demo-"+rand.Text(), time.Now()
	t.content = []state.ToolResultContent{state.TerminalContent(t.terminal, "Output")}
	s.emit(
		s.envelope(&state.SessionToolCallContentChanged{TurnID: s.turn, ToolCallID: t.id, Content: t.content}),
		state.Envelope{Channel: t.terminal, Action: &state.TerminalCommandExecuted{CommandID: t.id, CommandLine: c.line, Timestamp: t.started.UnixMilli()}},
	)
	for line := range strings.Lines(c.output) {
		if !s.pause(linePause) {
			return
		}
		s.emit(state.Envelope{Channel: t.terminal, Action: &state.TerminalData{Data: line}})
	}
	if s.pause(linePause) {
		s.emit(s.finished(c.exit, state.ToolCallResult{
			Success: c.exit == 0, PastTenseMessage: state.Plain("Ran " + c.line), Content: t.content,
		})...)
	}
}

// finished returns what ends the running call. A negative exit code is none: the
// command was stopped.
func (s *stage) finished(exit int, result state.ToolCallResult) []state.Envelope {
	t := s.running
	s.running = nil
	var es []state.Envelope
	if t.terminal != "" {
		ms := time.Since(t.started).Milliseconds()
		f := &state.TerminalCommandFinished{CommandID: t.id, DurationMs: new(float64(ms))}
		if exit >= 0 {
			f.ExitCode = new(int64(exit))
		}
		es = append(es, state.Envelope{Channel: t.terminal, Action: f})
	}
	return append(es, s.envelope(&state.SessionToolCallComplete{TurnID: s.turn, ToolCallID: t.id, Result: result}))
}

// fileEdits lists the files of a unified diff as changed in a folder.
func fileEdits(folderURI, diff string) []state.ToolResultContent {
	var out []state.ToolResultContent
	for line := range strings.Lines(diff) {
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			uri := strings.TrimSuffix(folderURI, "/") + "/" + strings.TrimSuffix(name, "\n")
			side := &state.FileSide{URI: uri, Content: encode(map[string]string{"uri": uri})}
			out = append(out, state.ToolResultContent{Type: "fileEdit", Before: side, After: side, Diff: &state.DiffSize{Added: new(int64), Removed: new(int64)}})
		} else if n := len(out) - 1; strings.HasPrefix(line, "+") {
			*out[n].Diff.Added++
		} else if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "--- a/") {
			*out[n].Diff.Removed++
		}
	}
	return out
}

// ---- a person's word ----

// Options that mean more than approve or deny.
const (
	acceptForSession = "acceptForSession"
	cancelTurn       = "cancel"
)

// approvalOptions are those of an approval, as Codex has them. Group sets apart
// what reaches further than this one request; what says how far approving does.
func approvalOptions(what string) []state.ConfirmationOption {
	return []state.ConfirmationOption{
		{ID: "accept", Label: "Approve once", Kind: state.OptionApprove},
		{ID: acceptForSession, Label: "Approve for this session: " + what, Kind: state.OptionApprove, Group: new(state.ForSession)},
		{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		{ID: cancelTurn, Label: "Deny and stop the turn", Kind: state.OptionDeny, Group: new(state.ForSession)},
	}
}

func approves(d state.Decision) bool { return d.OptionID == "accept" || d.OptionID == acceptForSession }

// askFor asks whether a tool call may do what its input says. If it may, the call
// runs from then on.
func (s *stage) askFor(t *call, input string, r state.Request) state.Decision {
	title := state.Plain(r.Title)
	r.ToolCallID = t.id
	d, _ := s.ask(r, &state.SessionToolCallReady{
		TurnID: s.turn, ToolCallID: t.id, InvocationMessage: state.Plain(t.label), ToolInput: &input,
		ConfirmationTitle: &title, Editable: &r.Editable, Options: r.Options,
	})
	if approves(d) {
		s.running = t
	}
	return d
}

// ask shows a request and waits for the decision. It reports false if the turn
// ended before there was one.
func (s *stage) ask(r state.Request, shown state.Action) (state.Decision, bool) {
	id, answer := s.conn.expect()
	r.Session, r.TurnID, r.Provider, r.Epoch, r.UpstreamID = s.uri, s.turn, Provider, s.conn.epoch, id
	r.Cwd = s.folder
	r.Method, r.Params = "demo/"+string(r.Kind), params(r)
	ctx := context.WithoutCancel(s.ctx)
	s.conn.sink.Ask(ctx, r, s.envelope(shown))
	var d state.Decision
	select {
	case d = <-answer:
	case <-s.ctx.Done():
		if s.conn.forget(id) {
			return d, false
		}
		d = <-answer // it came first, and whoever gave it is owed a word
	}
	s.pause(stepPause) // so that a person sees that the answer was sent before it is taken
	s.conn.sink.Resolved(ctx, s.uri, s.conn.epoch, id, state.EndedAnswered)
	if d.OptionID == cancelTurn {
		s.stop(errStopped)
	}
	return d, true
}

// params is what a real agent would have sent for a request.
func params(r state.Request) []byte {
	return encode(struct {
		Command   string              `json:"command,omitzero"`
		Diff      string              `json:"diff,omitzero"`
		Questions *state.InputRequest `json:"questions,omitzero"`
		Reason    string              `json:"reason,omitzero"`
		Cwd       string              `json:"cwd"`
	}{r.Input, r.Diff, r.Questions, r.Reason, r.Cwd})
}

// encode is for plain data, which always encodes.
func encode(v any) []byte {
	b, err := state.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
