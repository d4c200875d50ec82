// Package share makes of a session what a guest of it may see: a picture in which
// nothing is but what is named here, with every text of it gone through by redact.
// What this package does not know stays at home.
package share

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/redact"
	"nod/state/snapshot"
)

// Terms are what the owner of a session wants seen.
type Terms struct {
	Live      bool     `json:"live"`            // what comes later, too
	From      int      `json:"from"`            // first turn, counted from 0 and from the session's begin
	Reasoning bool     `json:"reasoning"`       // what the model thought
	Output    bool     `json:"output"`          // what tools have said
	Diffs     bool     `json:"diffs"`           // what was changed
	Shown     []string `json:"shown,omitempty"` // ids of findings that are none
}

// Found is something that is masked, or that the owner lets be seen.
type Found struct {
	redact.Finding     // its value is cut
	Turn           int // where it was found first, counted from 0 and from the session's begin
	Shown          bool
}

// maxValue bounds what the owner is shown of a finding, in bytes.
const maxValue = 200

// maxFound bounds the findings that are remembered; all are masked.
const maxFound = 1000

// patience is how long a part of a line is held back before what is surely no secret in
// it is shown, and for how long a text that grew has to rest to be taken for whole.
const patience = time.Second

// Projection makes pictures for guests, one after the other. One goroutine at a time
// may use it.
type Projection struct {
	terms    Terms
	redactor *redact.Redactor
	found    []Found
	known    map[string]bool // ids of what is in found

	now   time.Time
	turn  int           // that is being looked at
	again time.Duration // until something may be seen without anything new; 0 for never

	last      snapshot.Session // as it was made
	cut       int
	turns     []turn
	active    string // id of the turn in progress
	parts     []part // of it
	terminals map[string]terminal
	calls     map[string]time.Time // when the tool calls in progress were seen first
}

// turn is a turn that has ended, as it is and as it is seen.
type turn struct{ is, seen *state.Turn }

// part is a response part, as it is and as it is seen.
type part struct {
	is       state.ResponsePart
	withheld bool
	seen     state.ResponsePart
	text     text
}

// terminal is a terminal, as it is and as it is seen.
type terminal struct {
	is, seen *state.Terminal
	texts    []text
}

// New returns a projection on these terms.
func New(terms Terms, r *redact.Redactor) *Projection {
	return &Projection{terms: terms, redactor: r, known: map[string]bool{}, terminals: map[string]terminal{}, calls: map[string]time.Time{}}
}

// Found returns what was found so far, in order.
func (p *Projection) Found() []Found { return slices.Clone(p.found) }

// Take returns the picture of a session for its guests, and which parts of it have
// changed since the last one. If again is not 0, some text is held back that may be
// seen after that time though nothing new comes.
func (p *Projection) Take(s snapshot.Session, now time.Time) (seen snapshot.Session, changed []snapshot.Part, again time.Duration) {
	p.now, p.again = now, 0
	if s.Cut != p.cut {
		p.turns = p.turns[min(max(s.Cut-p.cut, 0), len(p.turns)):]
		p.cut = s.Cut
	}
	skip := min(max(p.terms.From-s.Cut, 0), snapshot.TurnCount(s.State)) // turns that are there and not shared
	before := p.last
	seen = snapshot.Session{Seq: before.Seq + 1, Cut: s.Cut + skip, LastEvent: s.LastEvent, Link: p.link(s.Link), State: p.session(s, skip)}
	seen.Terminals, changed = p.screens(s, seen.State, skip)
	switch {
	case before.State == nil || before.Cut != seen.Cut:
		changed = []snapshot.Part{{Kind: snapshot.Root}}
	default:
		changed = append(changed, snapshot.Changed(before.State, seen.State)...)
		if !reflect.DeepEqual(before.Link, seen.Link) {
			changed = append(changed, snapshot.Part{Kind: snapshot.Head})
		}
	}
	if len(changed) == 0 {
		return before, nil, p.again
	}
	p.last = seen
	return seen, changed, p.again
}

// Once returns the picture of a session of which no other is going to be taken: nothing
// more is waited for.
func (p *Projection) Once(s snapshot.Session, now time.Time) snapshot.Session {
	seen, _, again := p.Take(s, now)
	for again > 0 {
		now = now.Add(again)
		seen, _, again = p.Take(s, now)
	}
	return seen
}

// link is what guests see of a link: whose it is and how it is.
func (p *Projection) link(l state.Link) state.Link {
	return state.Link{Provider: l.Provider, DisplayName: p.mask(l.DisplayName), Status: l.Status, Lasting: l.Lasting}
}

// session is the state that guests see.
func (p *Projection) session(s snapshot.Session, skip int) *state.Session {
	is, was := s.State, p.last.State
	p.turn = s.Cut + skip
	summary := &state.SessionSummary{
		Resource: "ahp-session:/shared", Provider: is.Summary.Provider, Title: p.mask(is.Summary.Title), Status: is.Summary.Status,
		CreatedAt: is.Summary.CreatedAt, ModifiedAt: is.Summary.ModifiedAt,
	}
	if m := is.Summary.Model; m != nil {
		summary.Model = &state.ModelSelection{ID: p.mask(m.ID)}
	}
	seen := &state.Session{Summary: summary, Lifecycle: is.Lifecycle, Meta: p.meta(is.Meta, "nod.plan", "nod.planWhy")}
	if was != nil && reflect.DeepEqual(was.Summary, summary) {
		seen.Summary = was.Summary
	}
	for i, t := range is.Turns {
		if i == len(p.turns) {
			p.turns = append(p.turns, turn{})
		}
		if p.turns[i].is != t {
			p.turn = s.Cut + i
			p.turns[i] = turn{is: t}
			if i >= skip {
				p.turns[i].seen = p.ended(s, t)
			}
		}
		if i >= skip {
			seen.Turns = append(seen.Turns, p.turns[i].seen)
		}
	}
	p.turns = p.turns[:len(is.Turns)]
	if t := is.ActiveTurn; t != nil && len(is.Turns) >= skip {
		p.turn = s.Cut + len(is.Turns)
		seen.ActiveTurn = p.running(s, t)
		if was != nil && was.ActiveTurn != nil && sameTurn(was.ActiveTurn, seen.ActiveTurn) {
			seen.ActiveTurn = was.ActiveTurn
		}
	}
	return seen
}

// sameTurn reports whether two turns in progress look the same.
func sameTurn(a, b *state.ActiveTurn) bool {
	for range b.ResponseParts.Changed(a.ResponseParts) {
		return false
	}
	return a.ID == b.ID && a.ResponseParts.Len() == b.ResponseParts.Len() && reflect.DeepEqual(a.Usage, b.Usage)
}

// ended is a turn that has ended.
func (p *Projection) ended(s snapshot.Session, t *state.Turn) *state.Turn {
	seen := &state.Turn{ID: t.ID, Message: p.message(t.Message), Usage: p.usage(t.Usage), State: t.State}
	if t.Error != nil {
		seen.Error = &state.ErrorInfo{ErrorType: p.mask(t.Error.ErrorType), Message: p.mask(t.Error.Message)}
	}
	for i, x := range t.ResponseParts {
		withheld := p.withhold(s, t.ID, x)
		if t.ID == p.active && i < len(p.parts) && p.parts[i].is == x && p.parts[i].withheld == withheld && p.parts[i].text.whole {
			seen.ResponseParts = append(seen.ResponseParts, p.parts[i].seen)
			continue
		}
		seen.ResponseParts = append(seen.ResponseParts, p.part(x, withheld, &text{}, over))
	}
	return seen
}

// running is the turn in progress.
func (p *Projection) running(s snapshot.Session, t *state.ActiveTurn) *state.ActiveTurn {
	if t.ID != p.active {
		p.active, p.parts = t.ID, nil
	}
	list := make([]state.ResponsePart, t.ResponseParts.Len())
	for i, x := range t.ResponseParts.All() {
		if i == len(p.parts) {
			p.parts = append(p.parts, part{})
		}
		at, withheld := &p.parts[i], p.withhold(s, t.ID, x)
		if at.is != x || at.withheld != withheld || !at.text.whole {
			how := grows
			if i < len(list)-1 {
				how = overtaken
			}
			if seen := p.part(x, withheld, &at.text, how); !same(at.seen, seen) {
				at.seen = seen
			}
			at.is, at.withheld = x, withheld
		}
		list[i] = at.seen
	}
	return &state.ActiveTurn{ID: t.ID, Message: p.message(t.Message), Usage: p.usage(t.Usage), ResponseParts: state.PartsOf(list...)}
}

// withhold reports whether what a tool call of a turn is about must not be seen: nobody
// has approved it yet, or somebody has denied it, perhaps in another program.
func (p *Projection) withhold(s snapshot.Session, turn string, x state.ResponsePart) bool {
	part, ok := x.(*state.ToolCallPart)
	if !ok {
		return false
	}
	t := &part.ToolCall
	switch t.Status {
	case state.ToolRunning, state.ToolPendingResult, state.ToolCompleted:
	default:
		return true
	}
	done := ran(s, t)
	for _, a := range s.Approvals {
		// Some requests do not name the call that they are about.
		own, some := a.Request.ToolCallID == t.ToolCallID, a.Request.ToolCallID == "" && (a.Request.TurnID == turn || a.Request.TurnID == "") && !done
		if a.Request.Session != s.State.Summary.Resource || !own && !some {
			continue
		}
		if a.Open() || a.Decision != nil && a.Denies(*a.Decision) || a.Decision == nil && !done {
			return true
		}
	}
	return t.Status != state.ToolCompleted && !done && p.begins(t.ToolCallID)
}

// ran reports whether a tool call surely has run: nobody has denied it.
func ran(s snapshot.Session, t *state.ToolCall) bool {
	return state.Value(t.Success) || slices.ContainsFunc(t.Content, func(c state.ToolResultContent) bool {
		is := s.Terminals.Get(state.Value(c.Resource))
		return c.Type == state.ContentText || c.Type == state.ContentTerminal && is != nil && slices.ContainsFunc(is.Output(), func(text string) bool { return text != "" })
	})
}

// begins reports whether a tool call has only just begun: agents say that a call runs,
// and then ask for it.
func (p *Projection) begins(call string) bool {
	since, ok := p.calls[call]
	if !ok {
		since = p.now
		p.calls[call] = since
	}
	p.wait(patience - p.now.Sub(since))
	return p.now.Sub(since) < patience
}

// same reports whether two parts that stand in the same place look the same. A tool
// call that was looked at again has changed.
func same(a, b state.ResponsePart) bool {
	switch b := b.(type) {
	case *state.MarkdownPart:
		a, ok := a.(*state.MarkdownPart)
		return ok && a.Content.String() == b.Content.String() && reflect.DeepEqual(a.Meta, b.Meta)
	case *state.ReasoningPart:
		a, ok := a.(*state.ReasoningPart)
		return ok && a.Content.String() == b.Content.String() && reflect.DeepEqual(a.Meta, b.Meta)
	}
	return a == b
}

// part is what is seen of a response part, which is never nothing: the place that it
// has stays.
func (p *Projection) part(x state.ResponsePart, withheld bool, t *text, how how) state.ResponsePart {
	t.whole = true
	switch x := x.(type) {
	case *state.MarkdownPart:
		return &state.MarkdownPart{ID: x.ID, Content: t.take(p, x.Content.String(), how), Meta: p.meta(x.Meta, "nod.phase", "nod.joined", "nod.supersedes")}
	case *state.ReasoningPart:
		if p.terms.Reasoning {
			return &state.ReasoningPart{ID: x.ID, Content: t.take(p, x.Content.String(), how), Meta: p.meta(x.Meta, "nod.thoughts", "nod.joined", "nod.supersedes")}
		}
	case *state.NotificationPart:
		if x.Meta["nod.raw"] == nil { // what its adapter does not know either
			return &state.NotificationPart{Content: p.words(x.Content), Meta: p.meta(x.Meta, "nod.said", "nod.level", "nod.review", "nod.gap")}
		}
	case *state.ToolCallPart:
		return &state.ToolCallPart{ToolCall: p.call(&x.ToolCall, withheld)}
	}
	return leftOut
}

// leftOut stands in the place of a part that guests do not see.
var leftOut = &state.NotificationPart{Meta: state.Meta{Hidden: jsontext.Value("true")}}

// Hidden is in the meta of a part that guests do not see. (Of a notification's _meta.)
const Hidden = "nod.hidden"

// call is what is seen of a tool call.
func (p *Projection) call(t *state.ToolCall, withheld bool) state.ToolCall {
	seen := state.ToolCall{
		ToolCallID: t.ToolCallID, ToolName: p.mask(t.ToolName), DisplayName: p.mask(t.DisplayName), Status: t.Status, Success: t.Success,
		Confirmed: t.Confirmed, Reason: t.Reason, Meta: p.meta(t.Meta, "nod.input"),
	}
	if withheld {
		return seen
	}
	diff := string(t.Meta["nod.input"]) == `"diff"`
	if t.InvocationMessage != nil {
		seen.InvocationMessage = new(p.words(*t.InvocationMessage))
	}
	if t.PastTenseMessage != nil {
		seen.PastTenseMessage = new(p.words(*t.PastTenseMessage))
	}
	if t.ToolInput != nil && (!diff || p.terms.Diffs) {
		seen.ToolInput = new(p.mask(*t.ToolInput))
	}
	switch {
	case t.Error == nil:
	case p.terms.Output:
		seen.Error = &state.ToolError{Message: p.mask(t.Error.Message)}
	default: // it may repeat what the tool has said
		seen.Error = &state.ToolError{Message: "It failed."}
	}
	for _, c := range t.Content {
		switch {
		case c.Type == state.ContentTerminal:
			seen.Content = append(seen.Content, state.TerminalContent(state.Value(c.Resource), p.mask(state.Value(c.Title))))
		case c.Type == state.ContentText && p.terms.Output:
			seen.Content = append(seen.Content, state.TextContent(p.mask(state.Value(c.Text))))
		}
	}
	return seen
}

// screens are the terminals that the tool calls of a state refer to, and the parts
// whose terminal has changed.
func (p *Projection) screens(s snapshot.Session, seen *state.Session, skip int) (all snapshot.Terminals, changed []snapshot.Part) {
	kept := map[string]terminal{}
	for n := range snapshot.TurnCount(seen) {
		for i := range snapshot.PartCount(seen, n) {
			call, ok := snapshot.PartAt(seen, n, i).(*state.ToolCallPart)
			if !ok {
				continue
			}
			p.turn = s.Cut + skip + n
			for _, c := range call.ToolCall.Content {
				uri := state.Value(c.Resource)
				is := s.Terminals.Get(uri)
				if c.Type != state.ContentTerminal || is == nil {
					continue
				}
				was := p.terminals[uri]
				now := was
				if was.is != is || slices.ContainsFunc(was.texts, func(t text) bool { return !t.whole }) {
					now = p.screen(is, was)
				}
				if now.seen != was.seen {
					changed = append(changed, snapshot.Part{Kind: snapshot.Response, Turn: n, Index: i})
				}
				kept[uri] = now
				all = all.With(uri, now.seen)
			}
		}
	}
	p.terminals = kept
	return all, changed
}

// screen is what is seen of a terminal, which was seen otherwise before.
func (p *Projection) screen(is *state.Terminal, was terminal) terminal {
	seen := &state.Terminal{Claim: state.TerminalClaim{Kind: is.Claim.Kind}}
	texts := slices.Clone(was.texts)
	texts = append(texts[:min(len(texts), len(is.Content))], make([]text, max(0, len(is.Content)-len(texts)))...)
	for i, x := range is.Content {
		how := grows
		if i < len(is.Content)-1 {
			how = over
		}
		output := func(s string) (seen state.Text) {
			texts[i].whole = true
			if p.terms.Output {
				seen = texts[i].take(p, s, how)
			}
			return seen
		}
		switch x := x.(type) {
		case *state.UnclassifiedPart:
			seen.Content = append(seen.Content, &state.UnclassifiedPart{Value: output(x.Value.String())})
		case *state.CommandPart:
			if x.IsComplete {
				how = over
			}
			seen.Content = append(seen.Content, &state.CommandPart{
				CommandID: x.CommandID, CommandLine: p.mask(x.CommandLine), Output: output(x.Output.String()),
				Timestamp: x.Timestamp, IsComplete: x.IsComplete, ExitCode: x.ExitCode, DurationMs: x.DurationMs,
			})
		default:
			texts[i].whole = true
			seen.Content = append(seen.Content, &state.UnclassifiedPart{})
		}
	}
	if was.seen != nil && alike(was.seen, seen) {
		seen = was.seen
	}
	return terminal{is, seen, texts}
}

// alike reports whether two terminals look the same.
func alike(a, b *state.Terminal) bool {
	return slices.EqualFunc(a.Content, b.Content, func(a, b state.TerminalPart) bool {
		x, is := a.(*state.CommandPart)
		y, too := b.(*state.CommandPart)
		return is == too && (!is || x.IsComplete == y.IsComplete && x.CommandLine == y.CommandLine)
	}) && slices.Equal(a.Output(), b.Output())
}

// message is what a person or a program has said to the agent.
func (p *Projection) message(m state.Message) state.Message {
	seen := state.Message{Text: p.mask(m.Text), Origin: state.MessageOrigin{Kind: m.Origin.Kind}}
	for _, a := range m.Attachments {
		seen.Attachments = append(seen.Attachments, state.MessageAttachment{Type: "simple", Label: p.mask(a.Label)})
	}
	return seen
}

func (p *Projection) words(s state.StringOrMarkdown) state.StringOrMarkdown {
	return state.StringOrMarkdown{Text: p.mask(s.Text), Markdown: s.Markdown}
}

func (p *Projection) usage(u *state.UsageInfo) *state.UsageInfo {
	if u == nil {
		return nil
	}
	return &state.UsageInfo{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheReadTokens: u.CacheReadTokens, Meta: p.meta(u.Meta, "nod.durationMs")}
}

// meta keeps the members that are named, each a JSON value in which every text is
// looked through.
func (p *Projection) meta(m state.Meta, names ...string) state.Meta {
	var seen state.Meta
	for _, name := range names {
		if raw, ok := m[name]; ok {
			if seen == nil {
				seen = state.Meta{}
			}
			seen[name] = p.json(raw)
		}
	}
	return seen
}

// json masks every text of a JSON value, names of members included. What is no JSON is
// left out.
func (p *Projection) json(raw jsontext.Value) jsontext.Value {
	in, out := jsontext.NewDecoder(bytes.NewReader(raw)), new(bytes.Buffer)
	to := jsontext.NewEncoder(out, jsontext.AllowDuplicateNames(true)) // two names may have the same mask
	for {
		token, err := in.ReadToken()
		if err == nil && token.Kind() == '"' {
			token = jsontext.String(p.mask(token.String()))
		}
		if err == nil {
			err = to.WriteToken(token)
		}
		switch {
		case err == io.EOF:
			return jsontext.Value(bytes.TrimSpace(out.Bytes()))
		case err != nil:
			return jsontext.Value("null")
		}
	}
}

// mask returns a text that is whole as guests see it.
func (p *Projection) mask(s string) string {
	g := redact.Growing{Redactor: p.redactor, Shown: p.shown}
	seen, _ := g.Take(s, true, false)
	return seen
}

// shown remembers a finding, and reports whether the owner lets it be seen.
func (p *Projection) shown(f redact.Finding) bool {
	shown := slices.Contains(p.terms.Shown, f.ID)
	if !p.known[f.ID] && len(p.found) < maxFound {
		p.known[f.ID] = true
		f.Value = strings.ToValidUTF8(f.Value[:min(len(f.Value), maxValue)], "")
		p.found = append(p.found, Found{Finding: f, Turn: p.turn, Shown: shown})
	}
	return shown
}

// how tells whether more may come to a text.
type how int

const (
	grows     how = iota // it may
	overtaken            // hardly: something came behind it, but agents may say two things at once
	over                 // it may not
)

// text is a text that may grow.
type text struct {
	growing redact.Growing
	is      string
	since   time.Time  // when it grew last
	held    time.Time  // since when something of it is held back; the zero Time if nothing is
	seen    state.Text // what guests see of it
	whole   bool       // which is all
}

func (t *text) take(p *Projection, is string, how how) state.Text {
	if is != t.is {
		t.is, t.since = is, p.now
	}
	if t.held.IsZero() {
		t.held = p.now
	}
	rests, was := p.now.Sub(t.since), t.seen.String()
	t.growing.Redactor, t.growing.Shown = p.redactor, p.shown
	seen, all := t.growing.Take(is, how == over || how == overtaken && rests >= patience, p.now.Sub(t.held) >= patience)
	t.whole = how == over || all && how == overtaken && rests >= patience
	switch {
	case all:
		t.held = time.Time{}
	case seen != was:
		t.held = p.now
	}
	if !all {
		p.wait(patience - p.now.Sub(t.held))
	}
	if how == overtaken && !t.whole {
		p.wait(patience - rests)
	}
	switch {
	case t.seen.IsZero() || !strings.HasPrefix(seen, was):
		t.seen = state.NewText(seen)
	case len(seen) > len(was):
		t.seen = t.seen.Append(seen[len(was):])
	}
	return t.seen
}

// wait has the session be looked at again after a time, if that is not over.
func (p *Projection) wait(d time.Duration) {
	if d > 0 && (p.again == 0 || d < p.again) {
		p.again = d
	}
}
