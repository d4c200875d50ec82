package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

var nl = []byte("\n")

// starts returns the places in src, which begins with a block, where a further
// top-level block begins for certain: whatever text follows src, what is before
// such a place renders the same with it and without it. It reports false if the
// parser failed.
func starts(src []byte) (at []int, ok bool) {
	defer func() {
		if recover() != nil {
			at, ok = nil, false
		}
	}()
	whole := bytes.LastIndexByte(src, '\n') + 1 // the last line may go on
	last := 0
	for b := blockParser.Parse(text.NewReader(src)).FirstChild(); b != nil; b = b.NextSibling() {
		end := whole
		next := b.NextSibling()
		switch {
		case next != nil:
			end = lineStart(src, next.Pos())
		case !util.IsBlank(src[whole:]):
			return at, true
		}
		// A table can begin with the paragraph before it.
		if end > max(last, lineStart(src, b.Pos())) && (ended(b, src[:end]) || next != nil && next.Pos() < whole && b.Kind() != ast.KindLinkReferenceDefinition) {
			at = append(at, end)
			last = end
		}
	}
	return at, true
}

// ended reports whether no text after src can reach b, its last block. If it
// cannot tell, the next block does once its first line is complete ("*" may be a
// bullet or "**bold**"), unless b is a link definition: that may take its title
// from the line after it.
func ended(b ast.Node, src []byte) bool {
	switch b.Kind() {
	case ast.KindHeading, ast.KindThematicBreak:
		return true
	case ast.KindFencedCodeBlock: // by a line that is not part of it
		at := b.Pos()
		if n := b.Lines().Len(); n > 0 {
			at = b.Lines().At(n - 1).Stop
		} else {
			at += bytes.IndexByte(src[at:], '\n') + 1
		}
		return at < len(src) && bytes.IndexByte(src[at:], '\n') >= 0
	case ast.KindParagraph, ast.KindBlockquote, ast.KindLinkReferenceDefinition, extast.KindTable:
		return util.IsBlank(src[lineStart(src, len(src)-1):])
	}
	return false
}

func lineStart(src []byte, at int) int { return bytes.LastIndexByte(src[:max(at, 0)], '\n') + 1 }

// A fence is an open fence at the left edge that is the whole tail of a stream.
type fence struct {
	mark []byte // what it began with; nil: the tail is none
	at   int    // the tail before it is in html
	html []byte // without the end tags
}

const fenceEnd = "</code></pre>\n"

// growFence shows a tail that is an open fence, and reports whether it is one.
// Its lines are independent of each other, so new ones are escaped and appended.
func (s *Stream) growFence() bool {
	if s.plain {
		return false
	}
	tail, cut := s.window()
	if cut {
		return false
	}
	f := &s.fence
	if f.mark == nil {
		n := bytes.IndexByte(tail, '\n') + 1
		if f.mark = fenceMark(tail[:n]); f.mark == nil {
			return false
		}
		out, _ := s.html(tail[:n], &piece{}, false)
		f.at, f.html, s.due = n, append(f.html, out[:len(out)-len(fenceEnd)]...), 0
	}
	var line []byte
	for {
		n := bytes.IndexByte(tail[f.at:], '\n') + 1
		if n == 0 {
			break
		}
		line = tail[f.at : f.at+n]
		if f.closedBy(line) {
			s.due = 0
			return false
		}
		f.html = append(f.html, s.escape(line)...)
		f.at += n
	}
	if len(tail) < s.due {
		return true
	}
	s.due = pace(len(tail), fencePace)
	var b bytes.Buffer
	b.Write(f.html)
	if line = tail[f.at:]; len(line) > 0 && len(line) <= shownLine && !f.closedBy(line) {
		b.WriteString(s.escape(line))
		b.WriteByte('\n')
	}
	b.WriteString(fenceEnd)
	s.blocks = append(s.blocks[:len(s.pieces)], b.String())
	return true
}

func (s *Stream) escape(line []byte) string {
	s.work += len(line)
	return showControls(string(util.EscapeHTML(line)))
}

// fenceMark returns the marks with which line opens a fence, or nil.
func fenceMark(line []byte) []byte {
	if len(line) == 0 || line[0] != '`' && line[0] != '~' {
		return nil
	}
	rest := bytes.TrimLeft(line, string(line[:1]))
	mark := line[:len(line)-len(rest)]
	if len(mark) < 3 || mark[0] == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return nil
	}
	return mark
}

func (f *fence) closedBy(line []byte) bool {
	marks := bytes.TrimLeft(line, " ")
	rest := bytes.TrimLeft(marks, string(f.mark[:1]))
	return len(line)-len(marks) < 4 && len(marks)-len(rest) >= len(f.mark) && util.IsBlank(rest)
}
