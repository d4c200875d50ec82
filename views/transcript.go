package views

import (
	"bufio"
	"io"
	"strings"

	"nod/state"
	"nod/state/snapshot"
	"nod/views/markdown"
)

// Transcript writes a session as its guests see it as markdown. at is when it was so,
// in Unix milliseconds.
//
// Its own headings are of the first three levels: the title, the turns, and within a
// turn one for each thing that was said or done. No text of an agent has such a heading,
// so none can pass for another's.
func Transcript(w io.Writer, s snapshot.Session, at int64) error {
	t := transcript{w: bufio.NewWriter(w), s: s}
	t.blocks("# "+markdown.Escape(sessionTitle(s.State)), markdown.Escape(strings.Join(aboutWords(s, at), " · ")))
	t.plan()
	for n := range snapshot.TurnCount(s.State) {
		t.turn(n)
	}
	return t.w.Flush()
}

// aboutWords tell what a session is, and when.
func aboutWords(s snapshot.Session, at int64) []string {
	words := []string{guestStatus(s).word, Plain(s.Link.DisplayName)}
	if m := s.State.Summary.Model; m != nil {
		words = append(words, Plain(m.ID))
	}
	return append(words, "begun "+date(s.State.Summary.CreatedAt), "last event "+date(s.LastEvent), "as it was on "+date(at))
}

type transcript struct {
	w *bufio.Writer // remembers the first error
	s snapshot.Session
}

// blocks writes blocks of markdown; an empty one is none.
func (t *transcript) blocks(blocks ...string) {
	for _, b := range blocks {
		if b != "" {
			_, _ = t.w.WriteString(b + "\n\n")
		}
	}
}

func (t *transcript) plan() {
	steps := plan(t.s.State)
	if len(steps) == 0 {
		return
	}
	t.blocks("## Plan")
	if why := metaWord(t.s.State.Meta, "nod.planWhy"); why != "" {
		t.blocks("Why: " + markdown.Escape(oneLine(Plain(why))))
	}
	var list []string
	for _, p := range steps {
		box := "- [ ] "
		if p.Status == "completed" {
			box = "- [x] "
		}
		list = append(list, box+stepWord(p)+markdown.Escape(oneLine(Plain(p.Step))))
	}
	t.blocks(strings.Join(list, "\n"))
}

func (t *transcript) turn(n int) {
	st := t.s.State
	how, usage := "working", (*state.UsageInfo)(nil)
	var failed *state.ErrorInfo
	if n < len(st.Turns) {
		how, usage, failed = endWord(st.Turns[n].State), st.Turns[n].Usage, st.Turns[n].Error
	} else {
		usage = st.ActiveTurn.Usage
	}
	t.blocks("## " + markdown.Escape(footWords(t.s.Cut+n, how, usage)))
	asked := snapshot.Asked(st, n)
	switch blank := strings.TrimSpace(asked) == ""; {
	case byItself(t.s, n) != "" && blank:
		t.blocks("### The agent goes on by itself")
	case byItself(t.s, n) != "":
		t.blocks("### The agent goes on by itself", markdown.Contained(asked))
	case !blank:
		t.blocks(markdown.Quote(asked))
	}
	if list := snapshot.Message(st, n).Attachments; len(list) > 0 {
		var names []string
		for _, a := range list {
			names = append(names, markdown.Code(oneLine(Plain(a.Label))))
		}
		t.blocks("Attached: " + strings.Join(names, ", "))
	}
	for i := range snapshot.PartCount(st, n) {
		if !snapshot.Superseded(st, n, i) {
			t.part(snapshot.PartAt(st, n, i))
		}
	}
	if failed != nil {
		t.blocks("### This turn failed", markdown.Contained(Plain(failed.Message)))
	}
}

func (t *transcript) part(p state.ResponsePart) {
	switch p := p.(type) {
	case *state.MarkdownPart:
		t.blocks("### "+markdown.Escape(oneLine(Plain(t.s.Link.DisplayName))), markdown.Contained(p.Content.String()))
	case *state.ReasoningPart:
		t.blocks("### "+thoughtsWord(p), markdown.Contained(p.Content.String()))
	case *state.NotificationPart:
		switch {
		case p.Meta["nod.hidden"] != nil:
		case metaWord(p.Meta, "nod.said") == "user":
			t.blocks("### Said while the turn ran", markdown.Quote(p.Content.Text))
		default:
			t.blocks("### Note", markdown.Contained(Plain(p.Content.Text)))
		}
	case *state.ToolCallPart:
		t.call(&p.ToolCall)
	}
}

func (t *transcript) call(c *state.ToolCall) {
	v := toolOf(t.s, c)
	label := oneLine(Plain(v.label))
	words := markdown.Escape(label)
	if v.mono {
		words = markdown.Code(label)
	}
	heading := "### " + v.mark + " " + words
	if v.took != "" {
		heading += " · " + markdown.Escape(oneLine(Plain(v.took)))
	}
	t.blocks(heading)
	if c.Status == state.ToolCancelled {
		t.blocks(markdown.Escape(cancelWords(c, false)))
	}
	if input := state.Value(c.ToolInput); input != "" && input != label {
		lang := toolInputKind(c)
		if lang != "diff" && lang != "json" {
			lang = ""
		}
		t.blocks("Input:", markdown.Fence(lang, input))
	}
	if v.terminal != nil && !v.terminal.Empty() {
		t.blocks("Output:", markdown.Fence("", Plain(strings.Join(v.terminal.Output(), ""))))
	}
	for _, x := range c.Content {
		if x.Type == state.ContentText {
			t.blocks("Result:", markdown.Fence("", Plain(state.Value(x.Text))))
		}
	}
	if c.Error != nil {
		t.blocks("Error:", markdown.Fence("", Plain(c.Error.Message)))
	}
}
