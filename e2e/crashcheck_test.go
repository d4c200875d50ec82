package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// This file judges what TestCrash has seen. It knows pages only as a person does:
// by what they say. What depends on how a page is written is in read and below it.

// picture is what a page, or the frames of a stream, have shown of a session.
type picture struct {
	parts map[string]part // by element id
	// blocks are the words of a part's blocks, by the part's element id and their
	// number. A frame may hold a block without its part.
	blocks map[string]map[int][]int
	order  []string        // their ids, as the last whole page had them
	turns  map[int]turn    // by ordinal
	cards  map[string]card // by approval id
	twice  []string        // ids that stood more than once on one page
}

type part struct {
	turn     int
	kind     string // prose, tool, …
	command  string // of a tool call
	status   string // of a tool call: ok, bad, off once it has ended
	decision string // label of the option that is shown as taken
	words    []int
}

type turn struct {
	ask   string
	ended bool
	done  bool // ended well
	cut   bool // says that text may be missing
}

type card struct {
	command string
	state   string // as in state/approvals
	option  string // label of the answer it speaks of
	digest  string
	nonce   string
	labels  map[string]string // of its buttons: option id to label
}

func newPicture() *picture {
	return &picture{parts: map[string]part{}, blocks: map[string]map[int][]int{}, turns: map[int]turn{}, cards: map[string]card{}}
}

var (
	turnID  = regexp.MustCompile(`^t(\d+)$`)
	partID  = regexp.MustCompile(`^t(\d+)p\d+$`)
	blockID = regexp.MustCompile(`^(t\d+p\d+)x(\d+)$`)
	footID  = regexp.MustCompile(`^t(\d+)f$`)
	wordRE  = regexp.MustCompile(`w(\d{6})\b`) // it may stand right behind what is above it
	quoted  = regexp.MustCompile(`“([^”]*)”`)
	choseRE = regexp.MustCompile(`You chose “([^”]*)”`)
)

// saysCut reports whether a turn tells that some of its text may be missing.
var saysCut = regexp.MustCompile(`(?i)(text|output|words?) (may be|is|are|was|were) (missing|lost)`).MatchString

// cards that still wait for something, in the order of an approval's life.
var openStates = []string{"pending", "decided", "sent"}

// read adds a page, or a frame's pieces of one.
func (p *picture) read(text string) error {
	nodes, err := html.ParseFragment(strings.NewReader(text), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, root := range nodes {
		for n := range root.Descendants() {
			p.readElement(n, seen)
		}
		p.readElement(root, seen)
	}
	return nil
}

func (p *picture) readElement(n *html.Node, seen map[string]bool) {
	id := attr(n, "id")
	if n.Type != html.ElementNode || id == "" {
		return
	}
	if seen[id] {
		p.twice = append(p.twice, id)
	}
	seen[id] = true
	switch {
	case id == "turns":
		p.order = nil
		for d := range n.Descendants() {
			if partID.MatchString(attr(d, "id")) {
				p.order = append(p.order, attr(d, "id"))
			}
		}
	case turnID.MatchString(id):
		t := p.turns[number(turnID, id)]
		t.ask = said(byClass(n, "ask"))
		p.turns[number(turnID, id)] = t
	case footID.MatchString(id):
		t := p.turns[number(footID, id)]
		foot := said(n)
		t.ended = !strings.Contains(foot, "· working")
		t.done = strings.Contains(foot, "· done") || t.ended && !strings.Contains(foot, "· failed") && !strings.Contains(foot, "· stopped")
		t.cut = t.cut || saysCut(foot)
		p.turns[number(footID, id)] = t
	case partID.MatchString(id):
		x := readPart(n)
		x.turn = number(partID, id)
		if len(x.words) == 0 && saysCut(said(n)) { // a row that says so
			t := p.turns[x.turn]
			t.cut = true
			p.turns[x.turn] = t
		}
		p.parts[id] = x
	case blockID.MatchString(id):
		m := blockID.FindStringSubmatch(id)
		if p.blocks[m[1]] == nil {
			p.blocks[m[1]] = map[int][]int{}
		}
		i, _ := strconv.Atoi(m[2]) // it has matched
		p.blocks[m[1]][i] = words(said(n))
	case strings.HasPrefix(id, "card-"):
		p.cards[strings.TrimPrefix(id, "card-")] = readCard(n)
	}
}

func readPart(n *html.Node) part {
	var x part
	for c := range n.ChildNodes() {
		if c.Type == html.ElementNode {
			x.kind, x.status, _ = strings.Cut(attr(c, "class"), " ")
			break
		}
	}
	text := said(n)
	if x.kind == "tool" {
		x.command = said(byClass(n, "label"))
	}
	if m := choseRE.FindStringSubmatch(text); m != nil {
		x.decision = m[1]
	}
	x.words = words(text)
	return x
}

func words(text string) (out []int) {
	for _, m := range wordRE.FindAllStringSubmatch(text, -1) {
		w, _ := strconv.Atoi(m[1]) // six digits
		out = append(out, w)
	}
	return out
}

func readCard(n *html.Node) card {
	c := card{state: "pending", command: said(byClass(n, "bytes")), labels: map[string]string{}}
	if fate := byClass(n, "fate"); fate != nil {
		_, c.state, _ = strings.Cut(attr(fate, "class"), " ")
		if m := quoted.FindStringSubmatch(said(fate)); m != nil {
			c.option = m[1]
		}
	}
	for d := range n.Descendants() {
		switch attr(d, "name") {
		case "digest":
			c.digest = attr(d, "value")
		case "nonce":
			c.nonce = attr(d, "value")
		case "option":
			if _, known := c.labels[attr(d, "value")]; !known { // “Deny with this reason” is the same answer
				c.labels[attr(d, "value")] = said(d)
			}
		}
	}
	return c
}

func number(re *regexp.Regexp, id string) int {
	n, _ := strconv.Atoi(re.FindStringSubmatch(id)[1]) // it has matched
	return n
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// byClass returns the first element within n that has a class.
func byClass(n *html.Node, class string) *html.Node {
	for d := range n.Descendants() {
		if slices.Contains(strings.Fields(attr(d, "class")), class) {
			return d
		}
	}
	return nil
}

// said is the text within n but for what ticks.
func said(n *html.Node) string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		if n.Data == "time" && n.Type == html.ElementNode {
			return
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	walk(n)
	return strings.Join(strings.Fields(b.String()), " ")
}

// add takes up what a later look has shown. Text only grows, and what has ended
// stays as it ended.
func (p *picture) add(q *picture) (problems []string) {
	for id, blocks := range q.blocks {
		if _, whole := q.parts[id]; whole {
			p.blocks[id] = blocks
			continue
		}
		is, ok := p.parts[id]
		if !ok {
			continue // a page that does not hold the part ignores its blocks
		}
		if p.blocks[id] == nil {
			p.blocks[id] = map[int][]int{}
		}
		maps.Copy(p.blocks[id], blocks)
		is.words = nil
		for _, n := range slices.Sorted(maps.Keys(p.blocks[id])) {
			is.words = append(is.words, p.blocks[id][n]...)
		}
		q.parts[id] = is
	}
	for id, is := range q.parts {
		was, ok := p.parts[id]
		if ok && was.kind == "tool" && was.command != is.command {
			problems = append(problems, fmt.Sprintf("%s was %q and became %q", id, was.command, is.command))
		}
		n := min(len(was.words), len(is.words))
		if ok && !slices.Equal(was.words[:n], is.words[:n]) {
			problems = append(problems, fmt.Sprintf("%s began as %v and became %v", id, was.words, is.words))
		}
		if len(was.words) > len(is.words) {
			is.words = was.words
		}
		if is.decision == "" {
			is.decision = was.decision
		}
		if ended(was) && !ended(is) {
			is.status = was.status
		}
		p.parts[id] = is
	}
	for n, is := range q.turns {
		was := p.turns[n]
		if is.ask == "" {
			is.ask = was.ask
		}
		is.ended, is.done, is.cut = is.ended || was.ended, is.done || was.done, is.cut || was.cut
		p.turns[n] = is
	}
	for id, is := range q.cards {
		if was, ok := p.cards[id]; !ok || rank(was.state) <= rank(is.state) {
			p.cards[id] = is
		}
	}
	for _, id := range q.twice {
		problems = append(problems, "the element "+id+" is there twice")
	}
	return problems
}

// standsBefore takes up a page of what stands before this one. A turn may be on
// both, and ends here.
func (p *picture) standsBefore(q *picture) {
	p.order = append(q.order, p.order...)
	maps.Copy(p.parts, q.parts)
	for n, t := range q.turns {
		if is, both := p.turns[n]; both {
			t.ended, t.done, t.cut = is.ended, is.done, t.cut || is.cut
		}
		p.turns[n] = t
	}
	p.twice = append(p.twice, q.twice...)
}

func ended(x part) bool { return x.status == "ok" || x.status == "bad" || x.status == "off" }

func rank(state string) int {
	if i := slices.Index(openStates, state); i >= 0 {
		return i
	}
	return len(openStates)
}

// ---- the agent's side ----

// agentLog is what the agent has written down.
type agentLog struct {
	byID      map[string]*agentItem
	byCommand map[string]*agentItem
	byFirst   map[int]*agentItem // by first word
	turns     map[string][]*agentItem
	asked     map[int]*agentItem
	decisions map[int][]string // by request, as received
	words     int
	alive     int // process that has started and not ended, 0 if none
}

type agentItem struct {
	turn, command string
	first, last   int // words, 0 if none
	ask           int // request, 0 if none
}

func newAgentLog() *agentLog {
	return &agentLog{byID: map[string]*agentItem{}, byCommand: map[string]*agentItem{}, byFirst: map[int]*agentItem{}, turns: map[string][]*agentItem{}, asked: map[int]*agentItem{}, decisions: map[int][]string{}}
}

// line takes up one line; see e2e/fakeagent.
func (l *agentLog) line(b []byte) error {
	var e struct {
		What, Turn, Item, Command, Decision string
		PID, Ask, From, To                  int
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return fmt.Errorf("the agent's log: %w: %s", err, b)
	}
	switch e.What {
	case "start":
		l.alive = e.PID
	case "end":
		l.alive = 0
	case "item":
		it := &agentItem{turn: e.Turn, command: e.Command}
		l.byID[e.Item] = it
		l.turns[e.Turn] = append(l.turns[e.Turn], it)
		if e.Command != "" {
			l.byCommand[e.Command] = it
		}
	case "ask":
		it := l.byCommand[e.Command]
		it.ask = e.Ask
		l.asked[e.Ask] = it
	case "words":
		it := l.byID[e.Item]
		if it.first == 0 {
			it.first = e.From
			l.byFirst[e.From] = it
		}
		it.last = e.To
		l.words += e.To - e.From + 1
	case "decision":
		l.decisions[e.Ask] = append(l.decisions[e.Ask], e.Decision)
	}
	return nil
}

// ---- what the test itself did ----

type deed struct {
	posts    []post
	messages map[string]bool // text to whether nod said that it has it
}

// post is one answer to a card that was sent to nod.
type post struct {
	command, option, label string
	taken                  bool // nod said that it has it
}

// ---- the verdict ----

// check compares what was shown until a crash with what a page shows after it. It
// returns what is wrong, and how many words that were shown are gone.
func check(shown, now *picture, log *agentLog, did deed) (problems []string, tail int) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, id := range now.twice {
		wrong("the element %s is there twice", id)
	}
	tools := checkWords(now, log, wrong)
	tail = checkKept(shown, now, wrong)
	checkMessages(now, did, wrong)
	checkApprovals(shown, now, tools, log, did, wrong)
	return problems, tail
}

// checkWords looks at a page by itself: every word once and in order, each part an
// unbroken beginning of what the agent sent, and all of it where nothing is said.
func checkWords(now *picture, log *agentLog, wrong func(string, ...any)) (tools map[string]part) {
	tools = map[string]part{}
	whole := map[int]int{} // words by turn
	agentTurn := map[int]string{}
	last := 0
	for _, id := range now.order {
		x := now.parts[id]
		var it *agentItem
		if x.kind == "tool" {
			if _, twice := tools[x.command]; twice {
				wrong("%q is there twice", x.command)
			}
			tools[x.command] = x
			if it = log.byCommand[x.command]; it == nil {
				wrong("%s shows %q, which the agent never ran", id, x.command)
				continue
			}
		}
		for i, w := range x.words {
			if w <= last {
				wrong("%s: word %d after word %d", id, w, last)
			} else if i > 0 && w != last+1 {
				wrong("%s: words between %d and %d are missing", id, last, w)
			}
			last = w
		}
		if len(x.words) > 0 {
			if it == nil {
				it = log.byFirst[x.words[0]]
			}
			switch {
			case it == nil || it.first != x.words[0]:
				wrong("%s begins with word %d, which begins nothing that the agent sent", id, x.words[0])
			case x.words[len(x.words)-1] > it.last:
				wrong("%s has words up to %d, the agent sent up to %d", id, x.words[len(x.words)-1], it.last)
			}
		}
		if it != nil {
			if t := agentTurn[x.turn]; t != "" && t != it.turn {
				wrong("%s is of another turn of the agent than what stands before it", id)
			}
			agentTurn[x.turn] = it.turn
			whole[x.turn] += len(x.words)
		}
	}
	for n, t := range agentTurn {
		sent := 0
		for _, it := range log.turns[t] {
			if it.first > 0 {
				sent += it.last - it.first + 1
			}
		}
		if whole[n] < sent && !now.turns[n].cut {
			wrong("turn %d has %d of the agent's %d words and does not say so", n+1, whole[n], sent)
		}
		if whole[n] < sent && now.turns[n].done {
			wrong("turn %d has %d of the agent's %d words and is called done", n+1, whole[n], sent)
		}
	}
	return tools
}

// checkKept looks for everything that was shown.
func checkKept(shown, now *picture, wrong func(string, ...any)) (tail int) {
	for _, id := range slices.Sorted(maps.Keys(shown.parts)) {
		was := shown.parts[id]
		is, ok := now.parts[id]
		if !ok {
			wrong("%s was shown and is gone: %+v", id, was)
			continue
		}
		if was.kind != is.kind || was.command != is.command {
			wrong("%s was %s %q and is %s %q", id, was.kind, was.command, is.kind, is.command)
		}
		if was.decision != "" && was.decision != is.decision {
			wrong("%s showed the decision %q and shows %q", id, was.decision, is.decision)
		}
		if ended(was) && was.status != is.status {
			wrong("%s (%s) had ended as %q and is %q", id, was.command, was.status, is.status)
		}
		n := min(len(was.words), len(is.words))
		if !slices.Equal(was.words[:n], is.words[:n]) {
			wrong("%s had the words %v and has %v", id, was.words, is.words)
		}
		if lost := len(was.words) - n; lost > 0 {
			tail += lost
			switch t := now.turns[was.turn]; {
			case shown.turns[was.turn].ended:
				wrong("%s lost %d words, and its turn had ended", id, lost)
			case !t.cut:
				wrong("%s lost %d words, and its turn does not say so", id, lost)
			case maxWord(now) > was.words[n]:
				wrong("%s lost %d words from %d on, and later ones are there", id, lost, was.words[n])
			}
		}
	}
	for n, was := range shown.turns {
		is, ok := now.turns[n]
		if !ok || was.ask != is.ask {
			wrong("turn %d asked %q and asks %q", n+1, was.ask, is.ask)
		}
		if was.ended && (!is.ended || was.done != is.done) {
			wrong("turn %d had ended, and ends in another way now", n+1)
		}
	}
	return tail
}

func maxWord(p *picture) int {
	most := 0
	for _, x := range p.parts {
		if len(x.words) > 0 {
			most = max(most, x.words[len(x.words)-1])
		}
	}
	return most
}

func checkMessages(now *picture, did deed, wrong func(string, ...any)) {
	times := map[string]int{}
	for n, t := range now.turns {
		times[t.ask]++
		if _, sent := did.messages[t.ask]; !sent {
			wrong("turn %d asks %q, which nobody sent", n+1, t.ask)
		}
	}
	for text, taken := range did.messages {
		if times[text] > 1 || taken && times[text] == 0 {
			wrong("the message %q (taken: %v) is there %d times", text, taken, times[text])
		}
	}
}

// checkApprovals holds the page against what the agent received and what the test
// answered. No request outlives the process that asked it.
func checkApprovals(shown, now *picture, tools map[string]part, log *agentLog, did deed, wrong func(string, ...any)) {
	cards := map[string]card{}
	for id, c := range now.cards {
		cards[c.command] = c
		switch c.state {
		case "expired", "delivery-unknown":
		default:
			wrong("the card %s of %q is %s after a restart", id, c.command, c.state)
		}
	}
	attempts, taken := map[string][]post{}, map[string]bool{}
	for _, p := range did.posts {
		attempts[p.command] = append(attempts[p.command], p)
		taken[p.command] = taken[p.command] || p.taken
	}
	given := func(command string, same func(post) bool) bool { return slices.ContainsFunc(attempts[command], same) }
	for ask, it := range log.asked {
		received := log.decisions[ask]
		tool, card := tools[it.command], cards[it.command]
		if len(received) > 1 {
			wrong("%q was answered %d times: %v", it.command, len(received), received)
		}
		for _, d := range received {
			if !given(it.command, func(p post) bool { return p.option == d }) {
				wrong("the agent received %q for %q, which nobody gave", d, it.command)
			}
		}
		if tool.decision != "" && !given(it.command, func(p post) bool { return p.label == tool.decision && slices.Contains(received, p.option) }) {
			wrong("%q is shown as %q; the agent received %v", it.command, tool.decision, received)
		}
		if card.option != "" && !given(it.command, func(p post) bool { return p.label == card.option }) {
			wrong("the card of %q speaks of the answer %q, which nobody gave", it.command, card.option)
		}
		if tool.decision != "" && card.state != "" {
			wrong("%q is shown as %q, and has a card that says %s", it.command, tool.decision, card.state)
		}
		// The dock keeps what failed until the next turn.
		if tool.kind == "" || tool.turn != len(now.turns)-1 {
			continue
		}
		known := tool.decision != "" || card.state == "delivery-unknown"
		if len(received) > 0 && !known {
			wrong("the agent received %v for %q, and the page says nothing of it (card %q)", received, it.command, card.state)
		}
		if taken[it.command] && !known {
			wrong("an answer to %q was taken, and the page says nothing of it (card %q)", it.command, card.state)
		}
	}
	for id, was := range shown.cards {
		tool, ok := tools[was.command]
		if !ok {
			wrong("the card %s of %q was shown, and nothing is left of it", id, was.command)
			continue
		}
		if _, stays := now.cards[id]; !stays && tool.decision == "" && tool.turn == len(now.turns)-1 {
			wrong("the card %s of %q was %s, and nothing tells what became of it", id, was.command, was.state)
		}
		if is := now.cards[id]; rank(was.state) >= rank("decided") && is.state != "" && was.option != is.option {
			wrong("the card %s showed the answer %q and shows %q", id, was.option, is.option)
		}
	}
}

// ---- checks of the checks ----

// goodRound is a turn that was cut off by a crash: what was shown, what is left,
// what the agent knows and what was done.
func goodRound(t *testing.T) (shown, now *picture, log *agentLog, did deed) {
	t.Helper()
	log = newAgentLog()
	for _, line := range []string{
		`{"what":"start","pid":7}`,
		`{"what":"item","turn":"turn-1","item":"msg-1"}`,
		`{"what":"words","turn":"turn-1","item":"msg-1","from":1,"to":3}`,
		`{"what":"item","turn":"turn-1","item":"call-2","command":"count --from 2"}`,
		`{"what":"ask","turn":"turn-1","item":"call-2","command":"count --from 2","ask":3}`,
		`{"what":"decision","ask":3,"decision":"accept"}`,
		`{"what":"words","turn":"turn-1","item":"call-2","from":4,"to":7}`,
		`{"what":"item","turn":"turn-1","item":"call-4","command":"count --from 4"}`,
		`{"what":"ask","turn":"turn-1","item":"call-4","command":"count --from 4","ask":5}`,
		`{"what":"end"}`,
	} {
		if err := log.line([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	shown = mustRead(t, pageBefore)
	now = mustRead(t, pageAfter)
	did = deed{messages: map[string]bool{"go": true}, posts: []post{{"count --from 2", "accept", "Approve once", true}}}
	return shown, now, log, did
}

func mustRead(t *testing.T, text string) *picture {
	t.Helper()
	p := newPicture()
	if err := p.read(text); err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	pageBefore = `<div id="turns"><section class="turn" id="t0"><div class="ask"><bdi>go</bdi></div><div id="t0b">
<div class="part" id="t0p0"><div class="prose"><p>w000001 w000002 w000003 </p></div></div>
<div class="part" id="t0p1"><details class="tool run"><summary><code class="label">count --from 2</code></summary>
<p class="soft">You chose “<bdi>Approve once</bdi>”.</p><pre class="output">w000004 w000005 w000006 w000007 </pre></details></div>
<div class="part" id="t0p2"><details class="tool need"><summary><code class="label">count --from 4</code></summary></details></div>
</div><div class="foot" id="t0f"><p class="end">Turn 1 · working</p></div></section></div>
<section id="dock"><article class="card" id="card-A"><h2>Run a command?</h2><pre class="bytes">count --from 4</pre>
<form><input name="digest" value="d"><input name="nonce" value="n"><button name="option" value="accept">Approve once</button></form>asked <time>now</time></article></section>`
	pageAfter = `<div id="turns"><section class="turn" id="t0"><div class="ask"><bdi>go</bdi></div><div id="t0b">
<div class="part" id="t0p0"><div class="prose"><p>w000001 w000002 w000003 </p></div></div>
<div class="part" id="t0p1"><details class="tool bad"><summary><code class="label">count --from 2</code></summary>
<p class="soft">You chose “<bdi>Approve once</bdi>”.</p><pre class="output">w000004 w000005 </pre></details></div>
<div class="part" id="t0p2"><details class="tool off"><summary><code class="label">count --from 4</code></summary></details></div>
</div><div class="foot" id="t0f"><p class="failed">The last streamed text may be missing</p><p class="end">Turn 1 · failed</p></div></section></div>
<section id="dock"><article class="card" id="card-A"><h2>Run a command?</h2><p class="fate expired">No longer asked</p><pre class="bytes">count --from 4</pre></article></section>`
)

func TestCrashCheckPassesWhatIsGood(t *testing.T) {
	problems, tail := check(goodRound(t))
	if len(problems) > 0 || tail != 2 {
		t.Errorf("%d words lost, %q", tail, problems)
	}
}

// TestCrashCheckFindsWhatIsBad spoils a good round in one way each.
func TestCrashCheckFindsWhatIsBad(t *testing.T) {
	after := func(old, new string) func(*testing.T, *picture, *picture, *agentLog, *deed) {
		return func(t *testing.T, _, now *picture, _ *agentLog, _ *deed) {
			t.Helper()
			if !strings.Contains(pageAfter, old) {
				t.Fatalf("no %q", old)
			}
			*now = *mustRead(t, strings.ReplaceAll(pageAfter, old, new))
		}
	}
	line := func(s string) func(*testing.T, *picture, *picture, *agentLog, *deed) {
		return func(t *testing.T, _, _ *picture, log *agentLog, _ *deed) {
			t.Helper()
			if err := log.line([]byte(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	type spoil = func(*testing.T, *picture, *picture, *agentLog, *deed)
	for name, c := range map[string]struct {
		spoil spoil
		says  string
	}{
		"a word twice":                      {after("w000005", "w000005 w000005"), "word 5 after word 5"},
		"words in another order":            {after("w000004 w000005", "w000005 w000004"), "word 4 after word 5"},
		"a word lost in the middle":         {after("w000002 ", ""), "words between 1 and 3 are missing"},
		"the beginning lost":                {after("w000001 w000002 ", ""), "begins with word 3"},
		"a tail lost before later text":     {after(" w000003", ""), "later ones are there"},
		"a tail lost in silence":            {after("text may be missing", "it failed"), "does not say so"},
		"a word that was never sent":        {after("w000004 w000005", "w000004 w000005 w000006 w000007 w000008"), "the agent sent up to 7"},
		"called done though words are lost": {after("Turn 1 · failed", "Turn 1 · done"), "is called done"},
		"a part lost":                       {after(`id="t0p0"`, `id="x"`), "t0p0 was shown and is gone"},
		"an element twice":                  {after(`id="t0p1"`, `id="t0p0"`), "t0p0 is there twice"},
		"a command twice":                   {after("count --from 4", "count --from 2"), `"count --from 2" is there twice`},
		"a decision lost":                   {after("You chose “<bdi>Approve once</bdi>”.", ""), `showed the decision "Approve once"`},
		"another decision":                  {after("You chose “<bdi>Approve once</bdi>”.", "You chose “Deny”."), `is shown as "Deny"`},
		"a card lost":                       {after("card-A", "card-B"), "nothing tells what became of it"},
		"a card that still asks":            {after(`fate expired`, `fate pending`), "is pending after a restart"},
		"a message lost":                    {after("<bdi>go</bdi>", ""), `turn 1 asked "go"`},
		"answered twice":                    {line(`{"what":"decision","ask":3,"decision":"accept"}`), "was answered 2 times"},
		"an allow that nobody gave":         {line(`{"what":"decision","ask":5,"decision":"accept"}`), "which nobody gave"},
		"confirmed without an answer": {func(_ *testing.T, _, _ *picture, log *agentLog, _ *deed) { delete(log.decisions, 3) },
			"the agent received []"},
		"received and called expired": {func(t *testing.T, _, _ *picture, log *agentLog, did *deed) {
			line(`{"what":"decision","ask":5,"decision":"decline"}`)(t, nil, nil, log, nil)
			did.posts = append(did.posts, post{"count --from 4", "decline", "Deny", false})
		}, `the agent received [decline] for "count --from 4", and the page says nothing`},
		"taken and called expired": {func(_ *testing.T, _, _ *picture, _ *agentLog, did *deed) {
			did.posts = append(did.posts, post{"count --from 4", "decline", "Deny", true})
		}, "was taken, and the page says nothing"},
		"a tail lost after the end": {func(_ *testing.T, shown, _ *picture, _ *agentLog, _ *deed) {
			shown.turns[0] = turn{ask: "go", ended: true}
		}, "its turn had ended"},
		"a message twice": {func(_ *testing.T, _, now *picture, _ *agentLog, _ *deed) { now.turns[1] = turn{ask: "go"} },
			`the message "go" (taken: true) is there 2 times`},
	} {
		t.Run(name, func(t *testing.T) {
			shown, now, log, did := goodRound(t)
			c.spoil(t, shown, now, log, &did)
			problems, _ := check(shown, now, log, did)
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.says) }) {
				t.Errorf("%q was not found; it said %q", c.says, problems)
			}
		})
	}
	// And what frames show one after the other.
	shown, now, _, _ := goodRound(t)
	if problems := now.add(shown); len(problems) > 0 {
		t.Errorf("growing text: %q", problems)
	}
	if problems := shown.add(mustRead(t, `<div id="t0p0"><div class="prose">w000002 w000003</div></div>`)); len(problems) == 0 {
		t.Error("text that changed was not found")
	}
}
