package ansi

import (
	"strings"

	terminal "github.com/buildkite/terminal-to-html/v3"
)

// The live window: lines that a cursor can still come back to.
const (
	// columns is where a line goes on in the next row. Nearly no line does, and a
	// progress bar that is longer could not be drawn over.
	columns = 256
	// rows is how far up a cursor can go: more than a program may take for
	// granted.
	rows = 48
	// keptRows are the rows in all; a line that is longer than all those above the
	// window is broken in pieces of 4,096 characters.
	keptRows = rows + 16
)

// What is shown, in bytes of HTML, which for text without colours are about the
// bytes of the output.
const (
	blockSize = 4 << 10  // of a block: some sixty lines; the last line may go over
	headSize  = 16 << 10 // what began it all
	tailSize  = 48 << 10 // what came last
	tailStep  = 16 << 10 // by how much the tail grows before its begin is left out
)

// Screen shows a program's output as it streams in: text, the classes
// of colours and styles, and nothing else. Carriage returns, cursor moves and
// erases work within the last 48 rows of 256 columns; what has left them is
// final. Colours come down to sixteen. Not known are the alternate screen, tab
// stops, scroll regions, and what inserts or deletes within a line.
//
// A Screen takes about a quarter of a megabyte; who has shown the last of an output keeps
// its Blocks instead. It is for one goroutine at a time.
type Screen struct {
	filter filter
	buffer []byte // for what is let through
	screen *terminal.Screen
	whole  bool // nothing is left out: for HTML

	blocks  []string
	partial strings.Builder // lines that are final, of a block that is not full
	live    string          // the last block, if drawn
	drawn   bool

	head, tail int // bytes of HTML in the blocks of the head and of the tail
	headEnd    int // blocks before this one are the head's
	tailBegin  int // blocks from this one on are the tail's; between them there is nothing
	left       int // bytes of text in what is left out
}

// NewScreen returns an empty screen.
func NewScreen() *Screen {
	s := &Screen{}
	screen, err := terminal.NewScreen(terminal.WithSize(columns, rows), terminal.WithMaxSize(columns, keptRows))
	if err != nil {
		panic(err) // the sizes are constants
	}
	s.screen = screen
	s.screen.ScrollOutFunc = s.scrolledOut
	return s
}

// HTML is all of an output, as a Screen shows it, and nothing of it left out.
func HTML(output ...string) string {
	s := NewScreen()
	s.whole = true
	for _, text := range output {
		s.Write(text)
	}
	return strings.Join(s.Blocks(), "")
}

// Write adds the next output. It may end anywhere: in a sequence, a rune, a line.
func (s *Screen) Write(text string) {
	s.buffer = s.filter.next(s.buffer[:0], text)
	if len(s.buffer) == 0 {
		return
	}
	_, _ = s.screen.Write(s.buffer) // never fails
	s.drawn = false
}

// Blocks returns the output as HTML for a pre element, by blocks of whole lines.
// All but the last are final and never change again, but that they become "" when
// they are no longer shown. The last one is what may still change; it is there
// from the beginning. Each block is balanced by itself.
func (s *Screen) Blocks() []string {
	if !s.drawn {
		s.live = s.partial.String() + lines(s.screen.AsHTMLWithTimestamps(false))
		s.drawn = true
	}
	return append(s.blocks[:len(s.blocks):len(s.blocks)], s.live)
}

// LeftOut returns how many bytes of text are in lines that are not shown.
func (s *Screen) LeftOut() int { return s.left }

// Gap returns which block is the first of those that are not shown.
func (s *Screen) Gap() int { return s.headEnd }

// scrolledOut takes a line that has left the window.
func (s *Screen) scrolledOut(line string) {
	s.partial.WriteString(lines(line))
	if s.partial.Len() < blockSize {
		return
	}
	block := s.partial.String()
	s.partial.Reset()
	s.blocks = append(s.blocks, block)
	if s.headEnd == len(s.blocks)-1 && s.head+len(block) <= headSize {
		s.head += len(block)
		s.headEnd++
		s.tailBegin++
		return
	}
	s.tail += len(block)
	if s.whole || s.tail < tailSize+tailStep {
		return
	}
	for s.tail > tailSize {
		gone := &s.blocks[s.tailBegin]
		s.tail -= len(*gone)
		s.left += textLen(*gone)
		*gone = ""
		s.tailBegin++
	}
}

// plain takes back what needs no escape within text.
var plain = strings.NewReplacer("&#47;", "/", "&#39;", "'", "&quot;", `"`)

// lines makes the library's HTML shorter. It writes an empty line as a space that
// does not break, which would be copied.
func lines(html string) string {
	html = plain.Replace(html)
	if !strings.Contains(html, "&nbsp;") {
		return html
	}
	var b strings.Builder
	for line := range strings.Lines(html) {
		if strings.TrimSuffix(line, "\n") == "&nbsp;" {
			line = line[len("&nbsp;"):]
		}
		b.WriteString(line)
	}
	return b.String()
}

// textLen returns how many bytes the text of HTML written here has.
func textLen(html string) int {
	n, tag, entity := 0, false, false
	for i := range len(html) {
		switch c := html[i]; {
		case tag:
			tag = c != '>'
		case entity:
			entity = c != ';'
		case c == '<':
			tag = true
		default:
			entity = c == '&'
			n++
		}
	}
	return n
}
