package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nod/agentconn/plain"
	"nod/state"
)

// at names the thread, and perhaps the turn, that a notification is about.
type at struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

func (a at) thread() string { return a.ThreadID }

// board holds what Codex says about no thread. Each session with a turn in
// progress shows it; if there is none, it waits for the next turn of any session.
type board struct {
	waiting []state.ResponsePart
	told    []string // the newest texts: Codex says some things to each that comes
	odd     int      // messages that nod does not understand
}

const (
	maxWaiting = 20 // notes that wait for a turn; the newest are kept
	maxTold    = 50
	// maxUnknown is how many messages that nod does not understand a turn shows.
	maxUnknown = 20
	// maxOdd is how many of them a link keeps and logs: a new kind of delta may come
	// by the thousand.
	maxOdd = 1000
	// maxRaw bounds, in bytes, what a note shows of such a message.
	maxRaw = 16 << 10
)

// levels of a note.
const (
	plainNote = ""
	warnNote  = "warning" // a person may want to do something
)

func notePart(level, text string) state.ResponsePart {
	p := &state.NotificationPart{Content: state.Plain(plain.Shorten(text, plain.MaxNote))}
	if level != plainNote {
		p.Meta = state.Meta{"nod.level": plain.Value(level)}
	}
	return p
}

// note shows something in the turn in progress, or in the next one.
func (c *conn) note(ctx context.Context, th *thread, part state.ResponsePart) {
	if th.turn == "" {
		th.waiting = newest(append(th.waiting, part), maxWaiting)
		return
	}
	c.apply(ctx, th, &state.SessionResponsePart{TurnID: th.turn, Part: part})
}

// announce shows something that is about no thread, once.
func (c *conn) announce(ctx context.Context, level, text string) {
	if text = plain.Shorten(text, plain.MaxNote); slices.Contains(c.board.told, text) {
		return
	}
	c.board.told = newest(append(c.board.told, text), maxTold)
	part, shown := notePart(level, text), false
	for _, th := range c.threads {
		if th.turn != "" {
			c.note(ctx, th, part)
			shown = true
		}
	}
	if !shown {
		c.board.waiting = newest(append(c.board.waiting, part), maxWaiting)
	}
}

func newest[T any](list []T, n int) []T { return slices.Clone(list[max(0, len(list)-n):]) }

// about handles a notification that is about a thread or, if it names none, about
// Codex as a whole. tell says it there.
func about[P interface{ thread() string }](f func(c *conn, p P, tell func(level, text string))) handler {
	return func(c *conn, ctx context.Context, raw json.RawMessage) bool {
		var p P
		if json.Unmarshal(raw, &p) != nil {
			return false
		}
		switch th := c.threads[p.thread()]; {
		case th != nil:
			f(c, p, func(level, text string) { c.note(ctx, th, notePart(level, text)) })
		case p.thread() == "":
			f(c, p, func(level, text string) { c.announce(ctx, level, text) })
		}
		return true
	}
}

// unknownNote shows a message that nod does not understand, as it came.
func (c *conn) unknownNote(ctx context.Context, th *thread, method string, line []byte) {
	if th.unknown++; th.unknown > maxUnknown {
		return
	}
	c.note(ctx, th, &state.NotificationPart{
		Content: state.Plain("Codex says something that this nod does not understand: " + plain.Shorten(method, 80)),
		Meta:    state.Meta{"nod.raw": plain.Value(plain.Cut(plain.Indented(line), maxRaw))},
	})
}

// activity says what Codex does right now in a turn. It ends with the next item.
func (c *conn) activity(ctx context.Context, th *thread, text string) {
	if th.turn == "" {
		return
	}
	th.active = true
	c.apply(ctx, th, &state.SessionActivityChanged{Activity: new(plain.Shorten(text, 200))})
}

// ---- about a thread ----

type nameNote struct {
	at
	ThreadName string `json:"threadName"`
}

func (c *conn) nameUpdated(ctx context.Context, th *thread, p nameNote) {
	if p.ThreadName != "" {
		c.apply(ctx, th, &state.SessionTitleChanged{Title: plain.Shorten(p.ThreadName, 200)})
	}
}

type goalNote struct {
	at
	Goal struct {
		Objective string `json:"objective"`
		Status    string `json:"status"`
	} `json:"goal"`
}

// goalUpdated comes whenever tokens are counted; it is told when the goal changes.
func (c *conn) goalUpdated(ctx context.Context, th *thread, p goalNote) {
	goal := plain.Joined(": ", "Goal ("+plain.Shorten(p.Goal.Status, 40)+")", p.Goal.Objective)
	if goal != th.goal {
		th.goal = goal
		c.note(ctx, th, notePart(plainNote, goal))
	}
}

func (c *conn) reverted(ctx context.Context, th *thread, _ at) {
	c.note(ctx, th, notePart(warnNote, "This session was taken back to an earlier point in another client. What is shown here still has what was taken back."))
}

type environmentNote struct {
	at
	ID string `json:"environmentId"`
}

func (c *conn) environmentConnected(ctx context.Context, th *thread, p environmentNote) {
	c.note(ctx, th, notePart(plainNote, "The environment “"+plain.Shorten(p.ID, 80)+"” is connected."))
}

func (c *conn) environmentDisconnected(ctx context.Context, th *thread, p environmentNote) {
	c.note(ctx, th, notePart(warnNote, "The environment “"+plain.Shorten(p.ID, 80)+"” is disconnected: what runs there cannot be reached."))
}

type spokenNote struct {
	at
	Role string `json:"role"`
	Text string `json:"text"`
}

// spoken is what was said in a voice session of another client.
func (c *conn) spoken(ctx context.Context, th *thread, p spokenNote) {
	c.note(ctx, th, notePart(plainNote, plain.Joined(": ", "Spoken ("+plain.Shorten(p.Role, 40)+")", p.Text)))
}

type errorParams struct {
	at
	Error     wireError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

// errorNote: an error that ends a turn is told again by turn/completed, which may
// leave out what it says.
func (c *conn) errorNote(ctx context.Context, th *thread, p errorParams) {
	switch sentence := p.Error.sentence(); {
	case p.WillRetry:
		for _, it := range th.open(th.turn) {
			if it.kind == "agentMessage" && it.said.part != "" { // the next one says it from the begin
				c.note(ctx, th, notePart(plainNote, "This answer broke off, so Codex asks the model again."))
				it.done = true
			}
		}
		c.activity(ctx, th, sentence)
	case th.turn != "" && p.TurnID == th.turn:
		th.failure = sentence
	default:
		c.note(ctx, th, notePart(warnNote, plain.Joined(": ", "Codex reports an error", sentence)))
	}
}

type messageNote struct {
	at
	Message string `json:"message"`
}

func (c *conn) warned(ctx context.Context, th *thread, p messageNote) {
	c.note(ctx, th, notePart(warnNote, p.Message))
}

func (c *conn) authRecovery(ctx context.Context, th *thread, p messageNote) {
	c.activity(ctx, th, p.Message)
}

type bufferingNote struct {
	at
	Model string `json:"model"`
	Show  bool   `json:"showBufferingUi"`
}

func (c *conn) safetyBuffering(ctx context.Context, th *thread, p bufferingNote) {
	if p.Show {
		c.activity(ctx, th, "The provider looks at the answer of "+p.Model+" before it passes it on")
	}
}

type reroutedNote struct {
	at
	From   string `json:"fromModel"`
	To     string `json:"toModel"`
	Reason string `json:"reason"`
}

func (c *conn) rerouted(ctx context.Context, th *thread, p reroutedNote) {
	c.note(ctx, th, notePart(warnNote, "Another model answers: "+p.To+" in place of "+p.From+" ("+plain.Words(p.Reason)+")."))
}

type verificationNote struct {
	at
	Verifications []string `json:"verifications"`
}

func (c *conn) verification(ctx context.Context, th *thread, p verificationNote) {
	c.note(ctx, th, notePart(warnNote, "The provider wants the account to be verified ("+plain.Words(strings.Join(p.Verifications, ", "))+")."))
}

// ---- hooks ----

type hookNote struct {
	at
	Run struct {
		EventName     string `json:"eventName"`
		Status        string `json:"status"` // running, completed, failed, blocked, stopped
		StatusMessage string `json:"statusMessage"`
		Entries       []struct {
			Kind string `json:"kind"` // warning, stop, feedback, context, error
			Text string `json:"text"`
		} `json:"entries"`
	} `json:"run"`
}

func (c *conn) hookStarted(ctx context.Context, th *thread, p hookNote) {
	c.activity(ctx, th, cmp.Or(p.Run.StatusMessage, "A hook runs: "+plain.Words(p.Run.EventName)))
}

// hookCompleted is told if the hook said or changed something.
func (c *conn) hookCompleted(ctx context.Context, th *thread, p hookNote) {
	level := warnNote
	if p.Run.Status == "completed" {
		if level = plainNote; len(p.Run.Entries) == 0 {
			return
		}
	}
	lines := []string{plain.Joined(": ", "Hook "+plain.Words(p.Run.EventName)+" "+plain.Words(p.Run.Status), p.Run.StatusMessage)}
	for _, e := range p.Run.Entries {
		lines = append(lines, plain.Joined(": ", plain.Words(e.Kind), e.Text))
	}
	c.note(ctx, th, notePart(level, strings.Join(lines, "\n")))
}

// ---- reviews of approvals by a model ----

type reviewNote struct {
	at
	Review struct {
		Status    string `json:"status"` // inProgress, approved, denied, timedOut, aborted
		RiskLevel string `json:"riskLevel"`
		Rationale string `json:"rationale"`
	} `json:"review"`
	Action struct {
		Type     string   `json:"type"`
		Command  string   `json:"command"`
		Program  string   `json:"program"`
		Argv     []string `json:"argv"`
		Stdin    string   `json:"stdin"`
		Files    []string `json:"files"`
		Target   string   `json:"target"`
		Host     string   `json:"host"`
		Server   string   `json:"server"`
		ToolName string   `json:"toolName"`
		Reason   string   `json:"reason"`
	} `json:"action"`
}

// what says what is reviewed.
func (p reviewNote) what() string {
	a := p.Action
	what := cmp.Or(a.Command, strings.Join(a.Argv, " "), a.Program, a.Stdin, strings.Join(a.Files, ", "), a.Target, a.Host, plain.Joined(" · ", a.Server, a.ToolName), a.Reason)
	return plain.Joined(": ", plain.Words(a.Type), plain.Shorten(what, 300))
}

func (c *conn) reviewStarted(ctx context.Context, th *thread, p reviewNote) {
	c.activity(ctx, th, "A model reviews whether this may be done: "+p.what())
}

func (c *conn) reviewCompleted(ctx context.Context, th *thread, p reviewNote) {
	level := warnNote
	if p.Review.Status == "approved" {
		level = plainNote
	}
	how := "A model has reviewed this, and nobody was asked (" + plain.Words(p.Review.Status)
	if p.Review.RiskLevel != "" {
		how += ", " + plain.Words(p.Review.RiskLevel) + " risk"
	}
	c.note(ctx, th, notePart(level, plain.Joined("\n", plain.Joined(": ", how+")", p.what()), p.Review.Rationale)))
}

func (c *conn) strictReview(ctx context.Context, th *thread, _ at) {
	c.note(ctx, th, notePart(warnNote, "From here on a model reviews everything that this turn wants to do."))
}

// ---- about Codex as a whole ----

func (c *conn) warning(p messageNote, tell func(level, text string)) { tell(plainNote, p.Message) }

type configNote struct {
	at
	Summary string `json:"summary"`
	Details string `json:"details"`
	Path    string `json:"path"`
}

func (c *conn) configWarning(p configNote, tell func(level, text string)) {
	tell(plainNote, plain.Joined("\n", strings.TrimSpace(p.Summary), p.Details, p.Path))
}

func (c *conn) deprecation(p configNote, tell func(level, text string)) {
	tell(plainNote, plain.Joined("\n", "Deprecated: "+p.Summary, p.Details))
}

type limitsNote struct {
	at
	RateLimits struct {
		LimitID   string      `json:"limitId"`
		LimitName string      `json:"limitName"`
		Primary   limitWindow `json:"primary"`
		Secondary limitWindow `json:"secondary"`
		Reached   string      `json:"rateLimitReachedType"`
	} `json:"rateLimits"`
}

type limitWindow struct {
	UsedPercent int64 `json:"usedPercent"`
	Minutes     int64 `json:"windowDurationMins"`
	ResetsAt    int64 `json:"resetsAt"` // Unix seconds
}

// nearlyUsed is from how many percent on a limit is told.
const nearlyUsed = 90

// rateLimits comes after each answer of the model. A limit is told when it is
// nearly used up and when it is reached; of a window that has been told that, the
// words are the same, so that it is not told again.
func (c *conn) rateLimits(p limitsNote, tell func(level, text string)) {
	l := p.RateLimits
	name := cmp.Or(l.LimitName, l.LimitID, "the account")
	for _, w := range []limitWindow{l.Primary, l.Secondary} {
		if w.UsedPercent < nearlyUsed {
			continue
		}
		sentence := "90 % or more is used of the limit of "
		if w.UsedPercent >= 100 {
			sentence = "All is used of the limit of "
		}
		sentence += plain.Shorten(name, 80)
		if w.Minutes > 0 {
			sentence += " for each " + span(w.Minutes)
		}
		if w.ResetsAt > 0 {
			sentence += ". It begins anew on " + time.Unix(w.ResetsAt, 0).UTC().Format("2 January at 15:04 UTC")
		}
		tell(warnNote, sentence+".")
	}
	if l.Reached != "" {
		tell(warnNote, "A limit of "+plain.Shorten(name, 80)+" is reached ("+plain.Words(l.Reached)+").")
	}
}

// span is a number of minutes in words.
func span(minutes int64) string {
	switch {
	case minutes%(24*60) == 0:
		return fmt.Sprintf("%d days", minutes/(24*60))
	case minutes%60 == 0:
		return fmt.Sprintf("%d hours", minutes/60)
	}
	return fmt.Sprintf("%d minutes", minutes)
}

type serverNote struct {
	at
	Name    string `json:"name"`
	Status  string `json:"status"` // starting, ready, failed, cancelled
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

func (c *conn) serverStarted(p serverNote, tell func(level, text string)) {
	switch name := "The MCP server “" + plain.Shorten(p.Name, 80) + "”"; p.Status {
	case "starting", "ready":
	case "failed", "cancelled":
		tell(warnNote, plain.Joined(": ", name+" did not start ("+p.Status+")", p.Error))
	default:
		tell(plainNote, plain.Joined(": ", name, plain.Words(p.Status), p.Error))
	}
}

func (c *conn) serverLogin(p serverNote, tell func(level, text string)) {
	if !p.Success {
		tell(warnNote, plain.Joined(": ", "The login to the MCP server “"+plain.Shorten(p.Name, 80)+"” failed", p.Error))
	}
}

type gatewayNote struct {
	at
	Provider string `json:"providerId"`
	Status   string `json:"status"` // notReady, started, succeeded, failed
	Error    string `json:"error"`
}

func (c *conn) gatewayLogin(p gatewayNote, tell func(level, text string)) {
	if p.Status == "failed" {
		tell(warnNote, plain.Joined(": ", "The login to “"+plain.Shorten(p.Provider, 80)+"” failed", p.Error))
	}
}
