package views

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"nod/state"
	"nod/state/snapshot"
	"nod/views/ansi"
	"nod/views/markdown"
)

// piece is a response part as it was drawn: a shell, and in it, if it is a message
// or what a command writes, blocks.
type piece struct {
	id     string
	in     string // id of the element that it is in
	born   uint64 // edition since which the shell is what it is
	newest uint64 // edition of the last change
	before string // the shell up to the blocks
	after  string
	blocks []block

	open    bool // a message to which text may still come
	running bool // a command that may still write
	tag     string
	prose   *markdown.Stream
	screen  *ansi.Screen
	fed     []string // what the screen has had
}

// block is one block of a piece. Empty HTML is of one that is not shown any more.
type block struct {
	html    string
	edition uint64 // of its last change
}

// growing is text that becomes blocks.
type growing interface {
	// Blocks returns the HTML of each block; one that is not shown any more is "".
	Blocks() []string
	// LeftOut returns how many bytes are left out in the middle, and Gap which
	// block is the first of them.
	LeftOut() int
	Gap() int
}

// whole is text that does not grow, all of it.
type whole string

func (w whole) Blocks() []string { return []string{string(w)} }
func (whole) LeftOut() int       { return 0 }
func (whole) Gap() int           { return 0 }

// here stands where the blocks go while a shell is drawn. No agent can guess it.
var here = "<!--" + rand.Text() + "-->"

// update draws the piece as it is in the sheet's picture.
func (p *piece) update(ctx context.Context, s *Sheet, at snapshot.Part) {
	p.id, p.in = partID(at), turnBodyID(at.Turn)
	p.open, p.running = false, false
	var text growing
	switch part := snapshot.PartAt(s.view.State, at.Turn, at.Index).(type) {
	case *state.MarkdownPart:
		text = p.write(s, part.Content.String(), at)
	case *state.ReasoningPart:
		text = p.write(s, part.Content.String(), at)
	case *state.ToolCallPart:
		if v := toolOf(s.view.Session, &part.ToolCall); v.terminal != nil {
			p.running = v.class == "run" || v.command != nil && !v.command.IsComplete
			text = p.play(s, v.terminal.Output())
		}
	}
	shell := rendered(ctx, responsePart(s.view.Session, at.Turn, at.Index, templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, here)
		return err
	})))
	before, after, place := strings.Cut(shell, here)
	if before != p.before || after != p.after {
		p.before, p.after = before, after
		p.born, p.newest = s.edition, s.edition
	}
	if text != nil && place {
		p.take(ctx, s, text, at)
	} else {
		p.blocks = nil
	}
	if !p.running { // a screen is large; if something does come, it begins anew
		p.screen, p.fed = nil, nil
	}
}

// write gives a message's text to its stream.
func (p *piece) write(s *Sheet, text string, at snapshot.Part) growing {
	if s.file {
		p.tag = "div"
		return whole(markdown.Unlinked(text))
	}
	if p.prose == nil {
		p.tag, p.prose = "div", markdown.NewStream(s.colours, s.wake)
	}
	p.open = s.grows(at)
	p.prose.Update(text, !p.open)
	return p.prose
}

// play gives what a terminal has had to the screen: what is new of it, or all if
// it was cleared.
func (p *piece) play(s *Sheet, output []string) growing {
	if s.file {
		p.tag = "span"
		return whole(ansi.HTML(output...))
	}
	more := func(i int) bool { return i < len(output) && strings.HasPrefix(output[i], p.fed[i]) }
	last := len(p.fed) - 1 // the one that may have grown
	if p.screen == nil || last >= 0 && !(more(last) && slices.Equal(output[:last], p.fed[:last])) {
		p.tag, p.screen, p.fed = "span", ansi.NewScreen(), nil
	}
	for i, text := range output {
		if i < len(p.fed) {
			text = text[len(p.fed[i]):]
		}
		p.screen.Write(text)
	}
	p.fed = output
	return p.screen
}

// take compares the blocks with what they were.
func (p *piece) take(ctx context.Context, s *Sheet, text growing, at snapshot.Part) {
	blocks := text.Blocks()
	if len(blocks) < len(p.blocks) {
		p.blocks, p.born, p.newest = nil, s.edition, s.edition
	}
	left := text.LeftOut()
	for i, html := range blocks {
		if left > 0 && i == text.Gap() {
			html = rendered(ctx, leftOut(left, wholeURL(ctx, s.view.Session, at.Turn, at.Index)))
		}
		if i == len(p.blocks) {
			p.blocks = append(p.blocks, block{html, s.edition})
		} else if was := p.blocks[i].html; was != html {
			p.blocks[i] = block{html, s.edition}
			if was == "" { // it has no place on a page
				p.born = s.edition
			}
		} else {
			continue
		}
		p.newest = s.edition
	}
}

// date says that the piece is as it is since an edition.
func (p *piece) date(edition uint64) {
	p.born, p.newest = edition, edition
	for i := range p.blocks {
		p.blocks[i].edition = edition
	}
}

// since writes what is new of the piece to somebody who has it as it was in an
// edition.
func (p *piece) since(w io.Writer, edition uint64, held bool) error {
	if edition < p.born {
		return p.whole(w, held)
	}
	var b bytes.Buffer
	for i, x := range p.blocks {
		if x.edition > edition {
			p.writeBlock(&b, i, x)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// whole writes all of the piece. A page that does not hold its place takes it only
// for an older one.
func (p *piece) whole(w io.Writer, held bool) error {
	var b bytes.Buffer
	before := p.before
	if !held {
		before = strings.Replace(before, ` data-in="`+p.in+`"`, "", 1)
	}
	b.WriteString(before)
	for i, x := range p.blocks {
		if x.html != "" {
			p.writeBlock(&b, i, x)
		}
	}
	b.WriteString(p.after)
	_, err := w.Write(b.Bytes())
	return err
}

// Render writes all of the piece, as a page holds it.
func (p *piece) Render(_ context.Context, w io.Writer) error {
	return p.whole(w, true)
}

func (p *piece) writeBlock(b *bytes.Buffer, i int, x block) {
	id := p.id + "x" + strconv.Itoa(i)
	if x.html == "" {
		fmt.Fprintf(b, `<%s id="%s" data-gone></%s>`, p.tag, id, p.tag)
		return
	}
	fmt.Fprintf(b, `<%s class="b" id="%s" data-in="%sx">`, p.tag, id, p.id)
	_ = unescaped(x.html).Render(context.Background(), b) // a bytes.Buffer does not fail
	fmt.Fprintf(b, "</%s>", p.tag)
}

// result shows what a tool has returned, as a terminal would.
func result(text string, whole templ.SafeURL) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		if inFile(ctx) {
			return unescaped(ansi.HTML(text)).Render(ctx, w)
		}
		screen := ansi.NewScreen()
		screen.Write(text)
		for i, html := range screen.Blocks() {
			if screen.LeftOut() > 0 && i == screen.Gap() {
				html = rendered(ctx, leftOut(screen.LeftOut(), whole))
			}
			if err := unescaped(html).Render(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// unescaped is HTML as it is. This is the one place where that is written: it comes
// from renderers that write nothing but what they know.
func unescaped(html string) templ.Component { return templ.Raw(html) }

// rendered is a component as text.
func rendered(ctx context.Context, c templ.Component) string {
	var b strings.Builder
	_ = c.Render(ctx, &b) // the components here fail only with their writer
	return b.String()
}
