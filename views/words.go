package views

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
	"nod/views/ansi"
)

// status is a mark, a word and a colour: never the colour alone.
type status struct{ class, mark, word string }

// What a session and a sub-agent can both be.
var (
	needsYou = status{"need", "▲", "needs you"}
	working  = status{"run", "●", "working"}
	failed   = status{"bad", "✕", "failed"}
	done     = status{"idle", "✓", "done"}
)

// Need counts the requests of a session that wait for a person.
func Need(s snapshot.Session) int {
	n := 0
	for _, a := range s.Approvals {
		if a.State == approvals.Pending {
			n++
		}
	}
	return n
}

func statusOf(s snapshot.Session) status {
	switch st := s.State; {
	case Need(s) > 0:
		return needsYou
	case st.Summary.Status.Activity() == state.StatusInputNeeded && !slices.ContainsFunc(s.Approvals, (*approvals.Approval).Open):
		return needsYou // by a request that is none of nod's own; one that is answered shows until the agent takes it
	case st.ActiveTurn != nil && s.Link.Status == state.LinkStalled:
		return status{"bad", "◌", "agent silent"}
	case st.ActiveTurn != nil && (s.Link.Status == state.LinkLost || s.Link.Status == state.LinkConnecting):
		return status{"bad", "◌", "link lost"}
	case st.ActiveTurn != nil:
		return working
	case len(st.Turns) == 0:
		return status{"idle", "○", "new"}
	}
	switch last := s.State.Turns[len(s.State.Turns)-1]; last.State {
	case state.TurnError:
		return failed
	case state.TurnCancelled:
		return status{"idle", "■", "stopped"}
	}
	return done
}

// group is one heading of the list of sessions.
type group struct {
	name     string
	sessions []snapshot.Session
}

// groups answers one question first: does anyone need me?
func groups(in snapshot.Inbox) []group {
	gs := []group{{name: "Needs you"}, {name: "Working"}, {name: "Idle"}}
	for _, s := range in.Sessions {
		i := 2
		switch {
		case statusOf(s).class == "need":
			i = 0
		case s.State.ActiveTurn != nil:
			i = 1
		}
		gs[i].sessions = append(gs[i].sessions, s)
	}
	return gs
}

// pageTitle counts what waits, so that a tab in the background tells.
func pageTitle(title string, need int) string {
	if need > 0 {
		return fmt.Sprintf("(%d) %s · nod", need, title)
	}
	return title + " · nod"
}

func sessionTitle(s *state.Session) string {
	if s.Summary.Title == "" {
		return "Untitled session"
	}
	return Plain(s.Summary.Title)
}

// Plain is an agent's text without what acts on a terminal: escape sequences and
// control characters.
func Plain(s string) string { return ansi.Text(s) }

func folder(s *state.Session) string { return state.FilePath(state.Value(s.Summary.WorkingDirectory)) }

// lastPath is the end of a path, for where there is little room.
func lastPath(p string) string {
	p = strings.TrimRight(p, "/")
	return p[strings.LastIndexByte(p, '/')+1:]
}

func linkWord(l state.Link) status {
	switch l.Status {
	case state.LinkUp:
		return status{"ok", "●", "connected"}
	case state.LinkConnecting:
		return status{"run", "◌", "connecting"}
	case state.LinkStalled:
		return status{"bad", "▲", "does not answer"}
	case state.LinkLost:
		return status{"bad", "✕", "link lost"}
	case state.LinkMissing:
		return status{"idle", "–", "not installed"}
	}
	return status{"idle", "○", "not running"}
}

// Offered are the agents that a session can be started with: one for each provider,
// by the link that starts it, else by one to a runtime that somebody has started.
func Offered(links []state.Link) []state.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l state.Link) bool {
		starts := func(x state.Link) bool {
			return x.Provider == l.Provider && x.Key == x.Provider && x.Status != state.LinkMissing
		}
		return l.Status == state.LinkMissing || l.Offers.ReadOnly != "" || l.Key != l.Provider && (l.Status == state.LinkIdle || slices.ContainsFunc(links, starts))
	})
}

// onlyDemo reports whether no real agent is here.
func onlyDemo(links []state.Link) bool {
	o := Offered(links)
	return len(o) == 1 && o[0].Provider == "demo"
}

// rfc3339 is the machine's form of a time in Unix milliseconds.
func rfc3339(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// clock is the form a page shows without a script; with one it becomes an age.
func clock(ms int64) string { return time.UnixMilli(ms).Format("2 Jan 15:04") }

func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
}

func count(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 100_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%dk", n/1000)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// footWords tell how a turn ended, how long it took and what it cost.
func footWords(n int, how string, u *state.UsageInfo) string {
	words := []string{fmt.Sprintf("Turn %d", n+1)}
	if how != "" {
		words = append(words, how)
	}
	if u != nil {
		var ms int64
		if json.Unmarshal(u.Meta["nod.durationMs"], &ms) == nil {
			words = append(words, duration(ms))
		}
		if u.InputTokens != nil && u.OutputTokens != nil && *u.InputTokens+*u.OutputTokens > 0 {
			words = append(words, count(*u.InputTokens)+" in, "+count(*u.OutputTokens)+" out")
		}
	}
	return strings.Join(words, " · ")
}

// metaWord is a text in a _meta, "" if it is absent or odd.
func metaWord(m state.Meta, key string) (word string) {
	_ = json.Unmarshal(m[key], &word)
	return word
}

// wholeOf says where all of a text is that a note stands for.
func wholeOf(p *state.NotificationPart) (w state.Whole) {
	_ = json.Unmarshal(p.Meta[state.WholeKey], &w) // nod has written it
	return w
}

// contextWords tell how full a model's context is.
func contextWords(s *state.Session) string {
	var c struct{ Tokens, Window int64 }
	if json.Unmarshal(s.Meta["nod.context"], &c) != nil || c.Window <= 0 {
		return ""
	}
	return fmt.Sprintf("context %d %% of %s", c.Tokens*100/c.Window, count(c.Window))
}

// byItself says why an agent has begun a turn that nobody has asked for; "" if somebody
// has. A sub-agent is always asked by the agent that has started it.
func byItself(s snapshot.Session, n int) string {
	m := snapshot.Message(s.State, n)
	if m.Origin.Kind != "systemNotification" || s.Parent != "" && m.Text != "" {
		return ""
	}
	return cmp.Or(first(m.Text, maxAlone), "The agent goes on by itself")
}

// maxAlone bounds what is shown of what an agent says to itself, in bytes.
const maxAlone = 300

// totalWords tell what a session had come to when it was last put away.
func totalWords(s *state.Session) string {
	var t struct {
		Added, Removed, Files int
		Requests              float64
	}
	_ = json.Unmarshal(s.Meta["nod.totals"], &t) // absent or odd: nothing
	var words []string
	if t.Files > 0 {
		words = append(words, fmt.Sprintf("+%d −%d lines in %s", t.Added, t.Removed, plural(t.Files, "file", "files")))
	}
	if t.Requests > 0 {
		words = append(words, fmt.Sprintf("%g premium requests", t.Requests))
	}
	return strings.Join(words, " · ")
}

// whereWords tell what a command does and where it runs, if that is not the
// session's folder.
func whereWords(s *state.Session, t *state.ToolCall) string {
	var words []string
	if about := metaWord(t.Meta, "nod.about"); about != "" {
		words = append(words, Plain(about))
	}
	if cwd := metaWord(t.Meta, "nod.cwd"); cwd != "" && cwd != folder(s) {
		words = append(words, "in "+Plain(cwd))
	}
	return strings.Join(words, " · ")
}

func thoughtsWord(p *state.ReasoningPart) string {
	if metaWord(p.Meta, "nod.thoughts") == "raw" {
		return "Thoughts, word for word"
	}
	return "Thoughts"
}

// asyncQuestion is a question that came with a message and that nothing waits for.
type asyncQuestion struct {
	Title   string   `json:"title"`
	Options []string `json:"options"`
}

func asyncQuestions(p *state.NotificationPart) []asyncQuestion {
	var qs []asyncQuestion
	_ = json.Unmarshal(p.Meta["nod.questions"], &qs) // absent or odd: none
	return qs[:min(len(qs), maxOptions)]
}

type planStep struct {
	Step   string `json:"step"`
	Status string `json:"status"` // pending, inProgress, completed
}

func plan(s *state.Session) []planStep {
	var p []planStep
	if json.Unmarshal(s.Meta["nod.plan"], &p) != nil {
		return nil
	}
	return p[:min(len(p), maxPlanSteps)]
}

func planDone(p []planStep) (done int, now string) {
	for _, s := range p {
		switch s.Status {
		case "completed":
			done++
		case "inProgress":
			now = s.Step
		}
	}
	return done, now
}

func stepClass(s planStep) string {
	switch s.Status {
	case "completed":
		return "done"
	case "inProgress":
		return "now"
	}
	return ""
}

// stepWord tells a step's status where its mark cannot be seen.
func stepWord(s planStep) string {
	switch s.Status {
	case "completed":
		return "done: "
	case "inProgress":
		return "now: "
	}
	return "to do: "
}

// Bounds of what one page shows of an agent's text.
const (
	maxPlanSteps = 100      // more steps are no plan
	maxOptions   = 50       // of a question
	maxDiffLines = 2000     // a screenful a hundred times over
	maxRaw       = 16 << 10 // bytes of a message that nod does not understand
)

// size is a number of bytes in words.
func size(n int) string {
	switch {
	case n < 10<<10:
		return plural(n, "byte", "bytes")
	case n < 10<<20:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// first cuts raw text for display.
func first(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("\n… %d bytes more", len(s)-n)
}

// tool is what a view needs to know about a tool call.
type tool struct {
	class, mark, word string
	label             string // what it does or did
	mono              bool   // the label is a command
	took              string
	open              bool
	command           *state.CommandPart // nil unless it is one that ran
	terminal          *state.Terminal
}

// subagents are the sessions that a tool call has started.
func subagents(s snapshot.Session, t *state.ToolCall) (out []snapshot.Child) {
	for _, c := range t.Content {
		if c.Type != state.ContentSubagent {
			continue
		}
		if child, ok := s.Child(state.Value(c.Resource)); ok {
			out = append(out, child)
		}
	}
	return out
}

// childStatus is the state of a sub-agent, of which its parent knows the summary.
func childStatus(c snapshot.Child) status {
	switch c.Summary.Status.Activity() {
	case state.StatusInputNeeded:
		return needsYou
	case state.StatusInProgress:
		return working
	case state.StatusError:
		return failed
	}
	return done
}

// asker is the sub-agent that asks, if it is not the session itself.
func asker(s snapshot.Session, a *approvals.Approval) (title string, other bool) {
	if a.Request.Session == s.State.Summary.Resource {
		return "", false
	}
	if c, ok := s.Child(a.Request.Session); ok {
		return c.Summary.Title, true
	}
	return "one of them", true // a sub-agent's own
}

func toolOf(s snapshot.Session, t *state.ToolCall) tool {
	v := tool{label: t.DisplayName, mono: toolInputKind(t) == "command"}
	if t.InvocationMessage != nil && t.InvocationMessage.Text != "" {
		v.label = t.InvocationMessage.Text
	}
	if v.label == "" {
		v.label = t.ToolName
	}
	for _, c := range t.Content {
		if c.Type == state.ContentTerminal {
			if v.terminal = s.Terminals.Get(state.Value(c.Resource)); v.terminal != nil {
				v.command = v.terminal.Command()
			}
		}
	}
	switch t.Status {
	case state.ToolStreaming:
		v.class, v.mark, v.word = "run", "●", "preparing"
	case state.ToolPendingConfirmation, state.ToolPendingResult:
		v.class, v.mark, v.word, v.took = "need", "▲", "waits for you", "waits for you"
	case state.ToolRunning:
		v.class, v.mark, v.word, v.took, v.open = "run", "●", "running", "running", v.command != nil
	case state.ToolCompleted:
		v.class, v.mark, v.word = "ok", "✓", "done"
		if t.Success != nil && !*t.Success {
			v.class, v.mark, v.word, v.open = "bad", "✕", "failed", true
			if v.command == nil && t.PastTenseMessage != nil {
				v.took = "failed"
			}
		} else if !v.mono && t.PastTenseMessage != nil && t.PastTenseMessage.Text != "" {
			v.label = t.PastTenseMessage.Text
		}
	case state.ToolCancelled:
		v.class, v.mark, v.word, v.took = "off", "–", "not done", t.Reason
	}
	if c := v.command; c != nil && c.IsComplete {
		var words []string
		if c.ExitCode != nil {
			words = append(words, fmt.Sprintf("exit %d", *c.ExitCode))
			if *c.ExitCode == 0 && v.class == "bad" { // it outlived its turn, and ended well
				v.class, v.mark, v.word = "ok", "✓", "done"
			}
		}
		if c.DurationMs != nil {
			words = append(words, duration(int64(*c.DurationMs)))
		}
		v.took = strings.Join(words, " · ")
	} else if c != nil && v.class == "bad" && t.PastTenseMessage != nil { // nobody has said how it ended
		v.class, v.mark, v.word, v.took = "off", "–", "not finished", t.PastTenseMessage.Text
	}
	v.open = v.open || len(subagents(s, t)) > 0 // the way to them stays in sight
	if len(v.label) > maxLabel {
		v.label = strings.ToValidUTF8(v.label[:maxLabel], "") + "…"
	}
	return v
}

// maxLabel bounds the one line of a tool call; the whole input is below it.
const maxLabel = 300

// toolInputKind tells how a tool's input is to be read: command, diff, json, or "".
func toolInputKind(t *state.ToolCall) string {
	var kind string
	_ = json.Unmarshal(t.Meta["nod.input"], &kind) // absent or odd: plain text
	return kind
}

// cards are the approvals that the dock shows: those that are open, and, until
// the next turn, those that ended without the person's decision taking effect.
func cards(s snapshot.Session) []*approvals.Approval {
	lastTurn := ""
	if t := s.State.ActiveTurn; t != nil {
		lastTurn = t.ID
	} else if n := len(s.State.Turns); n > 0 {
		lastTurn = s.State.Turns[n-1].ID
	}
	var out []*approvals.Approval
	for _, a := range s.Approvals {
		if a.Open() || a.State != approvals.Confirmed && a.Request.TurnID == lastTurn {
			out = append(out, a)
		}
	}
	return out
}

// fate tells what became of a request that can no longer be answered.
func fate(a *approvals.Approval, l state.Link) string {
	if a.Unrecorded {
		return fateWords(a, l) + " It is not yet recorded: nod cannot write to its data folder."
	}
	return fateWords(a, l)
}

func fateWords(a *approvals.Approval, l state.Link) string {
	agent := Plain(l.DisplayName)
	switch a.State {
	case approvals.Decided:
		if a.Held() && l.Status.Down() {
			return "Denied: “" + decisionLabel(a) + "” is recorded, and " + agent + " will be told when it is back."
		}
		return "Your answer “" + decisionLabel(a) + "” is recorded."
	case approvals.Sent:
		return "“" + decisionLabel(a) + "” was sent. Waiting for " + agent + " to confirm it."
	case approvals.Confirmed:
		return agent + " has taken your answer “" + decisionLabel(a) + "”."
	case approvals.AnsweredElsewhere:
		return "Answered in another client."
	case approvals.Expired:
		return "No longer asked: before anyone answered, the turn or the run of the agent ended, or it asked something else instead. Nothing was approved."
	case approvals.DeliveryUnknown:
		return "Your answer “" + decisionLabel(a) + "” was recorded, but the turn or the link ended before " + agent +
			" confirmed it, or it asked for something else instead. Whether it took effect is not known: look at the folder before you go on."
	case approvals.Superseded:
		return "Denied while the link was down. " + agent + " has asked the same again, and was told “" + decisionLabel(a) + "”."
	}
	return ""
}

func decisionLabel(a *approvals.Approval) string {
	if a.Decision == nil {
		return ""
	}
	o, _ := a.Request.Option(a.Decision.OptionID)
	if a.Decision.Reason != "" {
		return Plain(o.Label + ": " + a.Decision.Reason)
	}
	return Plain(o.Label)
}

// twice reports whether an option does more than approve or deny once, so that
// it is asked for a second time.
func twice(o state.ConfirmationOption) bool {
	return o.Kind == state.OptionApprove && state.Value(o.Group) > 0
}

// inRows are the options in the agent's own order; what approves and what denies stand
// in rows of their own.
func inRows(options []state.ConfirmationOption) (rows [][]state.ConfirmationOption) {
	for i, o := range options {
		if i == 0 || o.Kind != options[i-1].Kind {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], o)
	}
	return rows
}

func options(r state.Request, k state.OptionKind) []state.ConfirmationOption {
	var out []state.ConfirmationOption
	for _, o := range r.Options {
		if o.Kind == k {
			out = append(out, o)
		}
	}
	return out
}
