package markdown

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/util"
)

// A Highlighter colours code on a goroutine of its own, one piece after the
// other, and remembers the results. Several streams may share it.
//
// Chroma takes some 50 µs a line, and on odd input its regular expressions go
// wild: 8 KB of "[" in yaml or C++ take more than 5 s. Hence the bounds below,
// and hence nobody waits for it: code is shown plain until its colours are ready.
type Highlighter struct {
	queue chan *job
	quit  chan struct{}
	ended chan struct{}
	limit time.Duration // for one piece of code

	mu    sync.Mutex
	jobs  map[key]*job // in the queue or under way
	cache lru
}

const (
	maxCode     = 16 << 10 // bytes; longer code stays plain
	maxCodeLine = 500      // bytes; so does code with a longer line
	maxQueue    = 256      // pieces, so at most 4 MiB; what finds it full is asked for again by Relight
	maxCache    = 8 << 20  // bytes of HTML, about a thousand screens of code

	// Ten times what 16 KiB of ordinary code takes. It is looked at between
	// tokens; a token takes at most some tenths of a second, as chroma stops each
	// regular expression after 250 ms.
	jobLimit = time.Second
)

// A key names a piece of code in a language.
type key [sha256.Size]byte

type job struct {
	key  key
	lang string
	code string
	wait map[*Stream]bool // whom to wake
}

// NewHighlighter starts a highlighter. Its owner must Close it.
func NewHighlighter() *Highlighter { return newHighlighter(jobLimit, maxCache) }

func newHighlighter(limit time.Duration, cache int) *Highlighter {
	h := &Highlighter{
		queue: make(chan *job, maxQueue), quit: make(chan struct{}), ended: make(chan struct{}), limit: limit,
		jobs: map[key]*job{}, cache: lru{max: cache, items: map[key]*list.Element{}},
	}
	go h.run()
	return h
}

// Close ends the highlighter, once; what is under way is given up.
func (h *Highlighter) Close() {
	close(h.quit)
	<-h.ended
}

// colours returns the HTML of code if it is ready. Otherwise it reports whether
// it will be: s is then woken, unless the queue was full. "" and false is code
// that stays plain.
func (h *Highlighter) colours(lang string, code []byte, s *Stream) (html string, k key, ok bool) {
	if lexer(lang) == nil || len(code) > maxCode || longLine(code) {
		return "", k, false
	}
	k = sha256.Sum256(append([]byte(lang+"\n"), code...))
	h.mu.Lock()
	defer h.mu.Unlock()
	if html, ok := h.cache.get(k); ok {
		return html, k, false
	}
	j := h.jobs[k]
	if j == nil {
		j = &job{k, lang, string(code), map[*Stream]bool{}}
		select {
		case h.queue <- j:
			h.jobs[k] = j
		default:
		}
	}
	j.wait[s] = true
	return "", k, true
}

// idle reports whether there is nothing more to wait for.
func (h *Highlighter) idle(k key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[k] == nil
}

func (h *Highlighter) run() {
	defer close(h.ended)
	for {
		select {
		case <-h.quit:
			return
		case j := <-h.queue:
			html := colour(j.lang, j.code, h.alive(time.Now().Add(h.limit)))
			h.mu.Lock()
			delete(h.jobs, j.key)
			h.cache.put(j.key, html)
			h.mu.Unlock()
			if html != "" {
				for s := range j.wait {
					s.wake()
				}
			}
		}
	}
}

// alive returns a function that reports whether the work may go on.
func (h *Highlighter) alive(deadline time.Time) func() bool {
	return func() bool {
		select {
		case <-h.quit:
			return false
		default:
			return time.Now().Before(deadline)
		}
	}
}

// lexer returns chroma's lexer of a language, or nil. Only those made of rules
// give their tokens one by one; the few others cannot be stopped.
func lexer(lang string) chroma.Lexer {
	if lang == "" {
		return nil
	}
	if l, ok := lexers.Get(lang).(*chroma.RegexLexer); ok {
		return l
	}
	return nil
}

func longLine(code []byte) bool {
	for line := range bytes.Lines(code) {
		if len(line) > maxCodeLine {
			return true
		}
	}
	return false
}

// colour returns the HTML of code, or "" if it cannot be had while alive.
func colour(lang, code string, alive func() bool) (out string) {
	defer func() {
		if recover() != nil {
			out = ""
		}
	}()
	next, err := lexer(lang).Tokenise(&chroma.TokeniseOptions{State: "root"}, code)
	if err != nil {
		return ""
	}
	var b strings.Builder
	open := ""
	at := 0
	for t := next(); t != chroma.EOF; t = next() {
		if !alive() || !strings.HasPrefix(code[at:], t.Value) {
			return "" // also: nothing but the code itself may come out
		}
		at += len(t.Value)
		if c := class(t.Type); c != open && strings.TrimSpace(t.Value) != "" {
			if open != "" {
				b.WriteString("</span>")
			}
			if c != "" {
				b.WriteString(`<span class="` + c + `">`)
			}
			open = c
		}
		b.Write(util.EscapeHTML([]byte(t.Value)))
	}
	if open != "" {
		b.WriteString("</span>")
	}
	if at != len(code) {
		return ""
	}
	return b.String()
}

// class returns the name of a kind of token in Pygments' style sheets, or "" for
// what has the colour of text: few colours, or none of them says anything.
func class(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment) && !t.InSubCategory(chroma.CommentPreproc):
		return "c"
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord, t.InSubCategory(chroma.CommentPreproc):
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "m"
	case t.InSubCategory(chroma.NameFunction), t == chroma.NameClass, t == chroma.NameTag:
		return "nf"
	case t == chroma.GenericInserted:
		return "gi"
	case t == chroma.GenericDeleted:
		return "gd"
	}
	return ""
}

// lru keeps the HTML that was used last, max bytes of it.
type lru struct {
	max, size int
	items     map[key]*list.Element
	order     list.List // of *entry, last used first
}

type entry struct {
	key  key
	html string
}

// size counts what an entry takes beside its HTML too, or "" would be free.
func (e *entry) size() int { return len(e.html) + 256 }

func (c *lru) get(k key) (string, bool) {
	e, ok := c.items[k]
	if !ok {
		return "", false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).html, true
}

func (c *lru) put(k key, html string) {
	e := &entry{k, html}
	c.items[k] = c.order.PushFront(e)
	c.size += e.size()
	for c.size > c.max {
		last := c.order.Remove(c.order.Back()).(*entry)
		delete(c.items, last.key)
		c.size -= last.size()
	}
}
