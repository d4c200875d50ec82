package share

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"

	"nod/state"
	"nod/state/snapshot"
)

// form names what Lines writes. Another number is another form; to this one members
// may be added.
const form = "nod-share/1"

// headLine is the first line. docs/sharing.md describes all.
type headLine struct {
	Form    string                `json:"form"`
	Live    bool                  `json:"live"`
	At      int64                 `json:"at"`
	Agent   string                `json:"agent"`
	Summary *state.SessionSummary `json:"summary"`
	Meta    state.Meta            `json:"_meta,omitzero"`
}

// turnLine is a line of a turn, and has one of the members below its number.
type turnLine struct {
	Turn     int                `json:"turn"` // counted from 1 and from the session's begin
	Message  *state.Message     `json:"message,omitzero"`
	Terminal *terminalLine      `json:"terminal,omitzero"`
	Part     state.ResponsePart `json:"part,omitzero"`
	End      *endLine           `json:"end,omitzero"`
}

type terminalLine struct {
	Resource string          `json:"resource"`
	State    *state.Terminal `json:"state"`
}

type endLine struct {
	State state.TurnState  `json:"state"`
	Usage *state.UsageInfo `json:"usage,omitzero"`
	Error *state.ErrorInfo `json:"error,omitzero"`
}

// Lines writes a picture that Take has made as JSON lines. live says whether the share
// goes on, and at when the picture was so, in Unix milliseconds. The ids in it are its
// own: those that the agent gave stay at home.
func Lines(w io.Writer, seen snapshot.Session, live bool, at int64) error {
	l := lines{w: bufio.NewWriter(w), terminals: map[string]string{}}
	st := seen.State
	l.write(headLine{form, live, at, seen.Link.DisplayName, st.Summary, st.Meta})
	for n := range snapshot.TurnCount(st) {
		l.turn = seen.Cut + n + 1
		message := snapshot.Message(st, n)
		l.write(turnLine{Turn: l.turn, Message: &message})
		for i := range snapshot.PartCount(st, n) {
			x := snapshot.PartAt(st, n, i)
			if note, is := x.(*state.NotificationPart); is && note.Meta[Hidden] != nil || snapshot.Superseded(st, n, i) {
				continue
			}
			l.write(turnLine{Turn: l.turn, Part: l.own(seen, fmt.Sprintf("%d.%d", l.turn, i+1), x)})
		}
		if n < len(st.Turns) {
			t := st.Turns[n]
			l.write(turnLine{Turn: l.turn, End: &endLine{t.State, t.Usage, t.Error}})
		}
	}
	if l.err != nil {
		return l.err
	}
	return l.w.Flush()
}

type lines struct {
	w         *bufio.Writer
	turn      int               // that is being written
	terminals map[string]string // their URIs here, by those of the session
	err       error             // the first one
}

func (l *lines) write(x any) {
	if l.err != nil {
		return
	}
	raw, err := state.Marshal(x)
	if err == nil {
		_, err = l.w.Write(append(raw, '\n'))
	}
	l.err = err
}

// own returns a response part with an id of its own. What it refers to is written.
func (l *lines) own(seen snapshot.Session, id string, x state.ResponsePart) state.ResponsePart {
	switch x := x.(type) {
	case *state.MarkdownPart:
		p := *x
		p.ID, p.Meta = id, standing(p.Meta)
		return &p
	case *state.ReasoningPart:
		p := *x
		p.ID, p.Meta = id, standing(p.Meta)
		return &p
	case *state.ToolCallPart:
		p := *x
		p.ToolCall.ToolCallID, p.ToolCall.Content = id, slices.Clone(p.ToolCall.Content)
		for i, c := range p.ToolCall.Content {
			if c.Type == state.ContentTerminal {
				p.ToolCall.Content[i].Resource = new(l.terminal(seen, state.Value(c.Resource)))
			}
		}
		return &p
	}
	return x
}

// terminal returns the URI that a terminal has here. It is written before what is the
// first to refer to it.
func (l *lines) terminal(seen snapshot.Session, uri string) string {
	own, written := l.terminals[uri]
	if written {
		return own
	}
	own = fmt.Sprintf("ahp-terminal:/shared/%d", len(l.terminals)+1)
	l.terminals[uri] = own
	if is := seen.Terminals.Get(uri); is != nil {
		t := *is
		t.Content = slices.Clone(t.Content)
		for i, x := range t.Content {
			if c, ok := x.(*state.CommandPart); ok {
				c := *c
				c.CommandID = fmt.Sprint(i + 1)
				t.Content[i] = &c
			}
		}
		l.write(turnLine{Turn: l.turn, Terminal: &terminalLine{own, &t}})
	}
	return own
}

// standing is the _meta of a part that stands for no other here.
func standing(m state.Meta) state.Meta {
	if len(m) == 1 && m["nod.supersedes"] != nil {
		return nil
	}
	m = maps.Clone(m)
	delete(m, "nod.supersedes")
	return m
}
