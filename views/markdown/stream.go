package markdown

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A Stream renders a message that is still being written, as a list of blocks.
//
// Text appended to markdown can change only its last top-level block, so what
// ends before it is rendered once and kept, and an update costs what its new
// text and the open block cost. How far that reaches is said in blocks.go. A
// link definition also changes text before it; the end of the message puts that
// right.
//
// An open block is rendered again only when it has grown by a share of its
// length (see pace), so that a block of n bytes costs O(n) and not O(n²). An
// open fence is not parsed at all while it grows.
//
// A Stream belongs to one goroutine at a time.
type Stream struct {
	h     *Highlighter // nil: no colours
	wake  func()
	whole bool // nothing is left out: for HTML
	bare  bool // there are no links, and their addresses are text: for Unlinked
	state
}

// state is what a stream starts anew without.
type state struct {
	text string // the message as of the last update
	done bool
	read int    // bytes of text that are in src
	bad  bool   // the last byte read was not UTF-8
	src  []byte // the message with \n as line end and in valid UTF-8
	base int    // src[base:] is the open tail

	pieces   []piece  // what is closed
	blocks   []string // HTML of pieces, then of the tail if it shows anything
	from, to int      // pieces[from:to] are left out

	refs   map[string]parser.Reference // link definitions of pieces; the first of a name holds
	cells  int                         // of tables in pieces
	output int                         // bytes of HTML in blocks of pieces
	due    int                         // length of the tail at which it is rendered again
	fence  fence                       // the tail, if it is an open fence

	plain    bool // from base on there is a block too large to parse, or the message is
	declined bool // something could not be rendered and is plain
	work     int  // bytes given to goldmark or escaped, for tests
}

// A piece is the text between two places where a top-level block begins for
// certain: mostly one block, and none that could still change.
type piece struct {
	start int   // in src; it ends where the next starts
	cells int   // of tables before it
	refs  int   // link definitions known when it was rendered
	wants []key // colours that it waits for
	plain bool
}

// Lengths in bytes of source.
const (
	maxTotal  = 1 << 20  // beyond it all is plain text: 128k tokens of 8 bytes, the longest answer models write
	kept      = 32 << 10 // shown at the beginning and at the end of a long message
	keptStep  = 8 << 10  // what is left out grows by so much at a time, not at every update
	plainSize = 8 << 10  // of a block of plain text, so that it can be left out
	smallTail = 4 << 10  // rendered at every update
	shownLine = 1 << 10  // an unfinished line of an open fence that is longer waits for its end
)

// An open tail is rendered when what it has beyond smallTail has grown by
// 1/tailPace since. A block of n bytes then costs at most about tailPace*n, and
// lags by 6 % of its length. An open fence is only copied, and lags by 1 %.
const (
	tailPace  = 16
	fencePace = 128
)

func pace(n, share int) int { return n + 1 + max(0, n-smallTail)/share }

// NewStream returns a stream of an empty message. Without a highlighter (nil)
// code has no colours. wake is called from the highlighter's goroutine when
// Relight has something to take up; it may come late, after the stream's end.
func NewStream(h *Highlighter, wake func()) *Stream { return &Stream{h: h, wake: wake} }

// Update takes the whole message so far. If it does not continue the one before
// (which is looked at only at both ends), the stream starts anew. done says that
// no more is expected: what was not final is then rendered once more, exactly.
func (s *Stream) Update(text string, done bool) {
	switch {
	case done == s.done && text == s.text:
		return
	case s.done || !continues(text, s.text):
		s.state = state{}
	}
	s.text, s.done = text, done
	s.take()
	switch {
	case done:
		s.advance()
		s.finish()
	case s.growFence():
	case len(s.src)-s.base >= s.due:
		s.advance()
		s.setTail()
	}
	s.leaveOut()
}

// Blocks returns the HTML of each block in order. The last may be the open tail,
// which may hold several blocks of markdown; the others do not change before the
// message is done, except by Relight, or to "" when they are left out. A block
// that shows nothing, as link definitions, is "" from the start. The slice is
// the stream's own and holds until its next call.
func (s *Stream) Blocks() []string { return s.blocks }

// LeftOut returns how many bytes of the message are not shown because it is
// long: whole blocks between its first and its last 32 KiB.
func (s *Stream) LeftOut() int {
	if s.from == s.to {
		return 0
	}
	return s.end(s.to-1) - s.pieces[s.from].start
}

// Gap returns which block is the first of those that LeftOut counts.
func (s *Stream) Gap() int { return s.from }

// Relight takes up the colours that became ready, and reports whether that
// changed a block.
func (s *Stream) Relight() bool {
	changed := false
	for i := range s.pieces {
		if !slices.ContainsFunc(s.pieces[i].wants, s.h.idle) {
			continue
		}
		before := s.blocks[i]
		s.render(i)
		changed = changed || s.blocks[i] != before
	}
	return changed
}

func continues(text, before string) bool {
	const ends = 64
	n := len(before)
	k := min(n, ends)
	return len(text) >= n && text[:k] == before[:k] && text[n-k:n] == before[n-k:]
}

// take moves what is new in text to src: \r\n becomes \n, and each run of bytes
// that are not UTF-8 one U+FFFD. What the next byte may change waits for it.
func (s *Stream) take() {
	for in := s.text[s.read:]; len(in) > 0; in = s.text[s.read:] {
		if !s.done && (in == "\r" || !utf8.FullRuneInString(in)) {
			return
		}
		r, n := utf8.DecodeRuneInString(in)
		bad := r == utf8.RuneError && n == 1
		switch {
		case bad && s.bad, strings.HasPrefix(in, "\r\n"):
		case bad:
			s.src = utf8.AppendRune(s.src, utf8.RuneError)
		default:
			s.src = append(s.src, in[:n]...)
		}
		s.bad = bad
		s.read += n
	}
}

// advance closes all of the tail that cannot change any more.
func (s *Stream) advance() {
	s.fence = fence{}
	for !s.plain {
		s.skipBlank()
		tail, cut := s.window()
		s.work += len(tail)
		starts, ok := starts(tail)
		if !ok || cut && len(starts) == 0 {
			s.plain = true
			break
		}
		base := s.base
		for _, at := range starts {
			s.close(base + at)
		}
		if !cut {
			break
		}
	}
	for s.plain && !s.whole && len(s.src)-s.base > plainSize {
		part := s.src[s.base:][:plainSize]
		n := bytes.LastIndexByte(part, '\n') + 1
		if n == 0 {
			for n = plainSize; !utf8.RuneStart(s.src[s.base+n]); n-- {
			}
		}
		s.close(s.base + n)
	}
}

// skipBlank moves base to the line where the next block begins.
func (s *Stream) skipBlank() {
	for {
		n := bytes.IndexByte(s.src[s.base:], '\n') + 1
		if n == 0 || !util.IsBlank(s.src[s.base:s.base+n]) {
			return
		}
		s.base += n
	}
}

// window returns as much of the tail as may be parsed at once, and whether that
// is not all of it. A block that is not closed within a window is too large.
func (s *Stream) window() (tail []byte, cut bool) {
	tail = s.src[s.base:min(len(s.src), s.base+maxSource, maxTotal)]
	if len(tail) > maxLines && bytes.Count(tail, nl) > maxLines {
		at := 0
		for range maxLines {
			at += bytes.IndexByte(tail[at:], '\n') + 1
		}
		tail = tail[:at]
	}
	return tail, s.base+len(tail) < len(s.src)
}

// close makes a piece of what is before end.
func (s *Stream) close(end int) {
	i := len(s.pieces)
	s.pieces = append(s.pieces, piece{start: s.base, cells: s.cells, plain: s.plain})
	s.blocks = append(s.blocks[:i], "")
	s.base, s.due = end, 0
	pc := s.render(i)
	if pc == nil {
		return
	}
	for _, ref := range pc.References() {
		name := util.ToLinkReference(ref.Label())
		if _, ok := s.refs[name]; !ok {
			if s.refs == nil {
				s.refs = map[string]parser.Reference{}
			}
			s.refs[name] = ref
		}
	}
	s.cells = pc.cells.n
	s.pieces[i].refs = len(s.refs)
}

// finish closes the tail and renders again what stands before a definition that
// it could use.
func (s *Stream) finish() {
	if !s.plain {
		s.skipBlank()
	}
	s.blocks = s.blocks[:len(s.pieces)]
	if !util.IsBlank(s.src[s.base:]) {
		s.close(len(s.src))
	}
	for i := range s.pieces {
		if p := &s.pieces[i]; !p.plain && p.refs != len(s.refs) && !s.beyond(i) {
			s.render(i)
			p.refs = len(s.refs)
		}
	}
}

func (s *Stream) setTail() {
	s.blocks = s.blocks[:len(s.pieces)]
	tail := s.src[s.base:]
	s.due = pace(len(tail), tailPace)
	out, _ := s.html(tail, &piece{cells: s.cells, plain: s.plain}, false)
	if out != "" {
		s.blocks = append(s.blocks, out)
	}
}

// render renders a piece. What is to be left out at once is not coloured.
func (s *Stream) render(i int) *context {
	s.output -= len(s.blocks[i])
	p := &s.pieces[i]
	out, pc := s.html(s.src[p.start:s.end(i)], p, s.h != nil && !s.beyond(i))
	s.blocks[i] = out
	s.output += len(out)
	return pc
}

// html renders src as p says, with the colours that are ready if colour is set.
// Without a parse the context is nil.
func (s *Stream) html(src []byte, p *piece, colour bool) (string, *context) {
	p.wants = nil
	s.work += len(src)
	if p.plain {
		return showControls(plain(src)), nil
	}
	pc := newContext(s.refs, p.cells)
	if s.bare {
		pc.Set(bareKey, true)
	}
	declined := true
	html := renderOr(src, func() (string, bool) {
		doc := dialect.Parser().Parse(text.NewReader(src), parser.WithContext(pc))
		if colour {
			p.wants = s.colour(doc, src)
		}
		out := bounded{max: maxOutput - s.output}
		if err := dialect.Renderer().Render(&out, src, doc); err != nil {
			return "", false
		}
		declined = false
		return out.String(), true
	})
	s.declined = s.declined || declined
	return showControls(html), pc
}

// colour gives every fence of doc its colours, and returns what it has to wait for.
func (s *Stream) colour(doc ast.Node, src []byte) (wants []key) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if f, ok := n.(*ast.FencedCodeBlock); ok && entering {
			switch out, k, ok := s.h.colours(language(f, src), f.Lines().Value(src), s); {
			case out != "":
				n.SetAttribute(coloursKey, out)
			case ok:
				wants = append(wants, k)
			}
		}
		return ast.WalkContinue, nil
	})
	return wants
}

// end returns where a piece ends in src.
func (s *Stream) end(i int) int {
	if i+1 < len(s.pieces) {
		return s.pieces[i+1].start
	}
	return s.base
}

// beyond reports whether a piece is too far from both ends of the message to be
// shown.
func (s *Stream) beyond(i int) bool {
	last := (len(s.src) - kept) / keptStep * keptStep
	return !s.whole && s.pieces[i].start >= kept && s.end(i) <= last
}

// leaveOut frees what has come to be beyond. The last piece stays: where it ends
// is not known before the next begins.
func (s *Stream) leaveOut() {
	for ; s.to+1 < len(s.pieces); s.to++ {
		i := s.to
		if s.pieces[i].start < kept {
			s.from = i + 1
			continue
		}
		if !s.beyond(i) {
			return
		}
		s.output -= len(s.blocks[i])
		s.blocks[i], s.pieces[i].wants = "", nil
	}
}

// context is goldmark's, with what is known from the pieces before.
type context struct {
	parser.Context
	refs  map[string]parser.Reference
	cells *tally
}

func newContext(refs map[string]parser.Reference, cells int) *context {
	c := &context{parser.NewContext(), refs, &tally{n: cells}}
	c.Set(cellsKey, c.cells)
	return c
}

// Reference finds the first definition of a name, as markdown wants it.
func (c *context) Reference(name string) (parser.Reference, bool) {
	if ref, ok := c.refs[name]; ok {
		return ref, true
	}
	return c.Context.Reference(name)
}
