package handlers

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"nod/state"
	"nod/views"
)

var seed = flag.Uint64("seed", 0, "of the one play to run; 0: some")

// TestEveryViewerEndsWithTheSamePage plays agents and browsers at random: whenever
// a browser came, went, came back, and however many frames it took at once, it
// ends with what a page shows that is drawn anew.
func TestEveryViewerEndsWithTheSamePage(t *testing.T) {
	from, to := uint64(1), uint64(6)
	if *seed > 0 {
		from, to = *seed, *seed+1
	}
	for n := from; n < to; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) { newPlay(t, n).run() })
	}
}

// play is a session with an agent, and the browsers that look at it.
type play struct {
	*testing.T
	*rand.Rand
	site    *site
	id      string
	feeds   *feeds
	viewers []*viewer
	log     []string

	turn  string // "": none is open
	turns int
	texts []string // ids of parts that can grow
	calls []string // ids of commands
	n     int      // of ids given
}

func newPlay(t *testing.T, seed uint64) *play {
	s := newSite(t)
	return &play{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), site: s, id: s.session(), feeds: s.srv.Config.Handler.(*Server).feeds, turn: "t"}
}

func (p *play) run() {
	defer func() {
		if x := recover(); x != nil {
			p.Fatalf("%v\n%s\n%s", x, debug.Stack(), strings.Join(p.log[max(0, len(p.log)-12):], "\n"))
		}
	}()
	for range 150 + p.IntN(150) {
		for range 1 + p.IntN(4) {
			p.agent()
		}
		p.browsers()
	}
	if p.turn != "" {
		p.apply(&state.SessionTurnComplete{TurnID: p.turn})
	}
	for _, v := range p.viewers {
		v.connect()
	}
	p.edition()
	for _, v := range p.viewers {
		v.pull()
		v.apply()
	}
	p.lingered()
	for i, v := range p.viewers {
		if what := v.differs(p.open()); what != "" {
			p.Errorf("viewer %d, which came at step %d: %s", i, v.came, what)
		}
	}
	if p.Failed() {
		p.Logf("the last of %d steps:\n%s", len(p.log), strings.Join(p.log[max(0, len(p.log)-60):], "\n"))
	}
}

func (p *play) say(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *play) apply(a state.Action) {
	p.say("%T", a)
	p.site.apply(p.id, a)
}

func (p *play) newID(kind string) string {
	p.n++
	return kind + strconv.Itoa(p.n)
}

func pick[T any](p *play, list []T) (x T, ok bool) {
	if len(list) == 0 {
		return x, false
	}
	return list[p.IntN(len(list))], true
}

var markdowns = []string{
	"a word", " and more", "\n", "\n\n", "\n\n## Head\n", "- item\n", "\n```\ncode\n", "\n```\n", "x | y\n--|--\n1 | 2\n", "\n[a]: /b\n", "[a]", "**bold", "> q\n",
}

// agent does something.
func (p *play) agent() {
	if p.turn == "" {
		p.turn = p.newID("turn")
		p.turns++
		p.texts, p.calls = nil, nil
		p.apply(&state.SessionTurnStarted{TurnID: p.turn, Message: state.UserMessage("ask " + p.turn)})
		return
	}
	switch n := p.IntN(100); {
	case n < 12:
		id := p.newID("m")
		p.texts = append(p.texts, id)
		p.apply(&state.SessionResponsePart{TurnID: p.turn, Part: &state.MarkdownPart{ID: id, Content: state.NewText("text " + id)}})
	case n < 52:
		if len(p.texts) == 0 {
			return
		}
		id := p.texts[len(p.texts)-1]
		if p.IntN(10) == 0 {
			id, _ = pick(p, p.texts)
		}
		text := markdowns[p.IntN(len(markdowns))]
		if p.IntN(12) == 0 {
			text = strings.Repeat("long "+text, 200+p.IntN(2500))
		}
		p.apply(&state.SessionDelta{TurnID: p.turn, PartID: id, Content: text})
	case n < 62:
		id := p.newID("c")
		p.calls = append(p.calls, id)
		p.apply(&state.SessionToolCallStart{TurnID: p.turn, ToolCallID: id, ToolName: "shell", DisplayName: "Shell"})
		p.apply(&state.SessionToolCallReady{TurnID: p.turn, ToolCallID: id, InvocationMessage: state.Plain("ls"), ToolInput: new("ls"), Confirmed: state.ConfirmedNotNeeded})
		p.apply(&state.SessionToolCallContentChanged{TurnID: p.turn, ToolCallID: id, Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/"+id, "ls")}})
	case n < 80:
		if id, ok := pick(p, p.calls); ok {
			text := fmt.Sprintf("line %d\n", p.n)
			if p.IntN(8) == 0 {
				text = strings.Repeat(text, 2000)
			}
			p.say("output of %s, %d", id, len(text))
			p.site.output(p.id, id, text)
		}
	case n < 81:
		if id, ok := pick(p, p.calls); ok {
			p.say("clear %s", id)
			p.site.hub.Apply(p.Context(), p.site.uri(p.id), state.Source{}, state.Envelope{Channel: "ahp-terminal:/" + id, Action: &state.TerminalCleared{}})
		}
	case n < 87:
		if id, ok := pick(p, p.calls); ok {
			p.apply(&state.SessionToolCallComplete{TurnID: p.turn, ToolCallID: id, Result: state.ToolCallResult{
				Success: p.IntN(2) == 0, PastTenseMessage: state.Plain("ran"), Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/"+id, "ls")},
			}})
		}
	case n < 89:
		p.apply(&state.SessionTitleChanged{Title: p.newID("title ")})
	case n < 91:
		p.n++
		id := json.RawMessage(strconv.Itoa(p.n))
		a := p.site.ask(p.id, func(r *state.Request) { r.TurnID, r.UpstreamID = p.turn, id })
		p.say("ask")
		if p.IntN(2) == 0 {
			if _, err := p.site.hub.Decide(p.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "accept"}); err != nil {
				p.Fatal(err)
			}
		}
		if p.IntN(2) == 0 {
			p.site.hub.Resolved(p.Context(), p.site.uri(p.id), "e1", id, state.EndedAnswered)
		}
	case n < 93:
		p.apply(&state.SessionMetaChanged{Meta: state.Meta{"nod.plan": fmt.Appendf(nil, `[{"step":"s%d","status":"pending"}]`, p.n)}})
	case n < 94 && p.turns > 2 && p.IntN(3) == 0:
		v, err := p.site.hub.Session(p.id)
		if err != nil {
			p.Fatal(err)
		}
		if len(v.State.Turns) > 0 {
			keep := v.State.Turns[p.IntN(len(v.State.Turns))].ID
			p.turn = ""
			p.apply(&state.SessionTruncated{TurnID: &keep})
		}
	case n < 97:
		turn := p.turn
		p.turn = ""
		if p.IntN(3) == 0 {
			p.apply(&state.SessionTurnCancelled{TurnID: turn})
		} else {
			p.apply(&state.SessionTurnComplete{TurnID: turn})
		}
	case n < 98 && len(p.texts) > 0: // the whole of a text that was heard in part
		old, _ := pick(p, p.texts)
		id := p.newID("m")
		p.texts = append(p.texts, id)
		p.apply(&state.SessionResponsePart{TurnID: p.turn, Part: &state.MarkdownPart{ID: id, Content: state.NewText("whole " + id), Meta: state.Meta{"nod.supersedes": fmt.Appendf(nil, "%q", old)}}})
	default:
		p.apply(&state.SessionResponsePart{TurnID: p.turn, Part: &state.NotificationPart{Content: state.Plain("note")}})
	}
}

// browsers do something.
func (p *play) browsers() {
	switch n := p.IntN(30); {
	case n == 0 && len(p.viewers) < 8:
		p.viewers = append(p.viewers, p.open())
	case n == 1 && len(p.viewers) > 0:
		p.lingered()
	case n < 12:
		p.edition()
	}
	for i, v := range p.viewers {
		switch p.IntN(12) {
		case 0:
			p.say("viewer %d connects", i)
			v.connect()
		case 1:
			if p.IntN(3) == 0 {
				p.say("viewer %d leaves", i)
				v.at = nil
			}
		case 2, 3, 4, 5:
			v.pull()
		case 6, 7, 8:
			v.apply()
		case 9:
			if p.IntN(20) == 0 {
				p.say("viewer %d scrolls", i)
				v.following = !v.following
			}
		}
	}
}

func (p *play) edition() {
	p.say("edition")
	f, done := p.feeds.open(p.feeds.server.ownedBy(p.Context(), p.id), false)
	defer done()
	f.edition()
}

// lingered is when nobody was there for a while.
func (p *play) lingered() {
	p.say("a new sheet")
	for _, v := range p.viewers {
		v.at = nil
	}
	p.feeds.mu.Lock()
	defer p.feeds.mu.Unlock()
	delete(p.feeds.m, pageKey{id: p.id})
}

// open loads the page.
func (p *play) open() *viewer {
	p.say("a page is drawn")
	page, err := p.feeds.page(p.feeds.server.pages(p.Context()), p.id, func(s *views.Sheet) (templ.Component, error) { return s.Page(views.Draft{}), nil })
	if err != nil {
		p.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(string(page)))
	if err != nil {
		p.Fatal(err)
	}
	rev := revision.FindSubmatch(page)
	return &viewer{play: p, doc: doc, rev: views.ParseCursor(string(rev[1])), following: true, came: len(p.log)}
}

// viewer is a browser with a page: what live.js does.
type viewer struct {
	*play
	doc       *html.Node
	rev       views.Cursor
	at        *views.Position // nil: not connected
	following bool
	came      int
	waiting   []*html.Node   // elements to apply, one for each id unless another holds it
	newest    map[string]int // id -> where in waiting
}

func (v *viewer) feed() *feed {
	f, done := v.feeds.open(v.feeds.server.ownedBy(v.Context(), v.id), false)
	done()
	return f
}

func (v *viewer) connect() {
	f := v.feed()
	if !f.shown {
		f.edition()
	}
	at, err := f.position(v.Context(), v.rev)
	if err != nil {
		v.Fatal(err)
	}
	v.at = &at
}

// pull takes a frame.
func (v *viewer) pull() {
	if v.at == nil {
		return
	}
	fr, _, err := v.feed().since(*v.at)
	if err != nil {
		v.Fatal(err)
	}
	*v.at, v.rev = fr.at, fr.at.Cursor
	nodes, err := html.ParseFragment(strings.NewReader(string(fr.data)), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		v.Fatal(err)
	}
	for _, n := range nodes {
		if n.Type != html.ElementNode {
			continue
		}
		for inner := range n.Descendants() {
			if attr(inner, "id") != "" { // what comes for its parts comes after it
				v.newest = nil
			}
		}
		if v.newest == nil {
			v.newest = map[string]int{}
		}
		if i, ok := v.newest[attr(n, "id")]; ok {
			v.waiting[i] = n
		} else {
			v.newest[attr(n, "id")] = len(v.waiting)
			v.waiting = append(v.waiting, n)
		}
	}
}

// apply is what is done once per frame of the screen.
func (v *viewer) apply() {
	for _, n := range v.waiting {
		old := byID(v.doc, attr(n, "id"))
		switch {
		case hasAttr(n, "data-gone"):
			if old != nil {
				old.Parent.RemoveChild(old)
			}
		case old != nil:
			old.Parent.InsertBefore(n, old)
			old.Parent.RemoveChild(old)
		default:
			if into := byID(v.doc, attr(n, "data-in")); into != nil {
				into.AppendChild(n)
			}
		}
	}
	v.newest, v.waiting = nil, nil
	if v.following {
		v.trim(attr(byID(v.doc, "earlier"), "data-first"))
	}
}

func (v *viewer) trim(first string) {
	n := byID(v.doc, first)
	if n == nil {
		return
	}
	turn := n
	for !strings.Contains(attr(turn, "class"), "turn") {
		turn = turn.Parent
	}
	for _, n := range []*html.Node{n, turn} {
		for n.PrevSibling != nil {
			n.Parent.RemoveChild(n.PrevSibling)
		}
	}
}

// differs tells what is not on a page as it is on a fresh one.
func (v *viewer) differs(fresh *viewer) string {
	if hole := v.hole(); hole != "" {
		return hole
	}
	first := attr(byID(v.doc, "earlier"), "data-first")
	if byID(v.doc, first) == nil {
		return "it says that it begins at " + first + ", which is not there"
	}
	if byID(fresh.doc, first) == nil { // a page may begin earlier than a fresh one, or later
		first = attr(byID(fresh.doc, "earlier"), "data-first")
	}
	fresh.trim(first)
	v.trim(first)
	for _, id := range []string{"list", "head", "composer", "plan", "dock", "turns"} {
		a, b := flat(byID(v.doc, id)), flat(byID(fresh.doc, id))
		if a != b {
			i := 0
			for i < min(len(a), len(b)) && a[i] == b[i] {
				i++
			}
			around := func(s string) string { return s[max(0, i-200):min(len(s), i+200)] }
			return fmt.Sprintf("%s differs: it has\n%s\nand should have\n%s", id, around(a), around(b))
		}
	}
	return ""
}

// hole finds turns or parts between which others are missing, or that stand in the
// wrong order.
func (v *viewer) hole() string {
	turn := -1
	for t := range byID(v.doc, "turns").ChildNodes() {
		if t.Type != html.ElementNode {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(attr(t, "id"), "t%d", &n); err != nil || turn >= 0 && n != turn+1 {
			return fmt.Sprintf("turn %s stands behind turn %d", attr(t, "id"), turn)
		}
		body := byID(t, fmt.Sprintf("t%db", n))
		part := -1
		for p := range body.ChildNodes() {
			var i, m int
			if p.Type != html.ElementNode {
				continue
			}
			if _, err := fmt.Sscanf(attr(p, "id"), "t%dp%d", &m, &i); err != nil || part >= 0 && i != part+1 || part < 0 && turn >= 0 && i != 0 {
				return fmt.Sprintf("in turn %d part %s stands behind part %d", n, attr(p, "id"), part)
			}
			part = i
		}
		turn = n
	}
	return ""
}

// flat is an element as text, without what tells blocks from one another and
// what tells a time.
func flat(n *html.Node) string {
	if n == nil {
		return "nothing"
	}
	var b strings.Builder
	var write func(*html.Node)
	write = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case attr(n, "class") == "b":
			for c := range n.ChildNodes() {
				write(c)
			}
		case n.Data == "time":
		default:
			fmt.Fprintf(&b, "<%s %s>", n.Data, n.Attr)
			for c := range n.ChildNodes() {
				write(c)
			}
			fmt.Fprintf(&b, "</%s>", n.Data)
		}
	}
	write(n)
	return b.String()
}

func byID(n *html.Node, id string) *html.Node {
	if id == "" {
		return nil
	}
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && attr(d, "id") == id {
			return d
		}
	}
	return nil
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func hasAttr(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// TestAwayForLong: a browser that was away while a person read in the middle of
// its page comes back to a page without a hole.
func TestAwayForLong(t *testing.T) {
	p := newPlay(t, 1)
	say := func(n int) {
		for range n {
			p.apply(&state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: p.newID("m"), Content: state.NewText(strings.Repeat("word ", 800))}})
		}
	}
	say(5)
	v := p.open()
	v.following = false
	say(80)
	p.edition()
	v.connect()
	v.pull()
	v.apply()
	if hole := v.hole(); hole != "" {
		t.Error(hole)
	}
}

// TestTailOfAnotherSheet: what a browser has of an open block may be behind, and
// the sheet that drew it gone.
func TestTailOfAnotherSheet(t *testing.T) {
	p := newPlay(t, 1)
	p.apply(&state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m"}})
	v := p.open()
	v.connect()
	delta := func(text string) {
		p.apply(&state.SessionDelta{TurnID: "t", PartID: "m", Content: text})
		p.edition()
		v.pull()
		v.apply()
	}
	delta(strings.Repeat("word ", 2000))
	delta("the end of it")
	p.lingered()
	p.edition()
	v.connect()
	v.pull()
	delta("\n\nMore.\n\n")
	if text := flat(byID(v.doc, "t0p0")); !strings.Contains(text, "the end of it") {
		t.Errorf("…%s", text[len(text)-100:])
	}
}

// TestFramesAtOnce: frames that a browser takes at once show what the last one
// says.
func TestFramesAtOnce(t *testing.T) {
	p := newPlay(t, 1)
	v := p.open()
	v.connect()
	take := func() {
		p.edition()
		v.pull()
	}
	p.site.command(p.id, "c", "one\n")
	take()
	p.site.output(p.id, "c", "two\n")
	take()
	p.site.output(p.id, "c", "three\n")
	p.apply(&state.SessionToolCallComplete{TurnID: "t", ToolCallID: "c", Result: state.ToolCallResult{
		Success: true, PastTenseMessage: state.Plain("ran"), Content: []state.ToolResultContent{state.TerminalContent("ahp-terminal:/c", "ls")},
	}})
	take()
	v.apply()
	if text := flat(byID(v.doc, "t0p0")); !strings.Contains(text, "three") {
		t.Error(text)
	}
}
