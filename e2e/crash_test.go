package e2e

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
	_ "modernc.org/sqlite" // to look into nod's file after a kill

	"nod/state/crashpoint"
)

const (
	// seriesRounds bounds how many rounds one session lives through: its page and
	// nod's start grow with it. Then comes another data folder.
	seriesRounds = 200
	// longestTurn is a little more than the agent's script takes with its answers,
	// so that some kills fall into the quiet after it.
	longestTurn = 1500 * time.Millisecond
)

// How a nod ended, beside the labels of crashpoint.
const (
	atRandom  = "random"
	atText    = "at text"   // right after text was shown, which may not be on disk
	atStart   = "at start"  // while it comes up
	unreached = "unreached" // the moment did not come in the turn; killed after it
)

// TestCrash kills nod again and again, at random moments and at those that
// crashpoint names, and holds what it shows afterwards against what it had shown,
// what the agent knows and what was answered. NOD_CRASH_ROUNDS says how often; a
// failure names its NOD_CRASH_SEED.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	rounds, seed := envNumber(t, "NOD_CRASH_ROUNDS", 60), envNumber(t, "NOD_CRASH_SEED", time.Now().UnixNano())
	defer func() {
		if t.Failed() {
			t.Logf("to see it again: NOD_CRASH_SEED=%d NOD_CRASH_ROUNDS=%d", seed, rounds)
		}
	}()
	nod, agent := buildCrashing(t)
	sum := summary{kills: map[string]int{}}
	page := newBrowser(t, desk)
	fresh := page.tab()
	began := time.Now()
	for done := int64(0); done < rounds; {
		n := min(rounds-done, seriesRounds)
		// Each series has dice of its own: one can be seen again without the others.
		c := &crasher{t: t, dice: rand.New(rand.NewPCG(uint64(seed), uint64(done))), nodBinary: nod, agentBinary: agent, page: page, fresh: fresh, sum: &sum}
		c.series(int(n))
		done += n
	}
	sum.rounds = int(rounds)
	t.Logf("%v in %v, seed %d", sum, time.Since(began).Round(time.Second), seed)
	if rounds >= 60 {
		for _, label := range crashpoint.Labels {
			if sum.kills[label] == 0 {
				t.Errorf("nod never died at %s: does anything call it?", label)
			}
		}
	}
}

// buildCrashing builds a nod that dies where it is told to, and an agent for it.
func buildCrashing(t *testing.T) (nod, agent string) {
	t.Helper()
	dir := t.TempDir()
	nod, agent = filepath.Join(dir, "nod"), filepath.Join(dir, "fakeagent")
	for _, args := range [][]string{{"-tags", "crashpoint", "-o", nod, "nod/cmd/web"}, {"-o", agent, "nod/e2e/fakeagent"}} {
		if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return nod, agent
}

func envNumber(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

type summary struct {
	rounds, words, cut, tail, answers, twice int
	kills                                    map[string]int
	slowest                                  time.Duration // from a restart to an open page that shows it
}

func (s summary) String() string {
	var kills []string
	for _, how := range slices.Sorted(maps.Keys(s.kills)) {
		kills = append(kills, fmt.Sprint(how, " ", s.kills[how]))
	}
	return fmt.Sprintf("%d rounds; killed: %s; %d words streamed, shown text lost in %d rounds, at most %d words; %d answers taken, %d of them sent twice; open page current at most %v after a start",
		s.rounds, strings.Join(kills, ", "), s.words, s.cut, s.tail, s.answers, s.twice, s.slowest.Round(time.Millisecond))
}

// crasher is one session that lives through many nods.
type crasher struct {
	t                      *testing.T
	dice                   *rand.Rand
	nodBinary, agentBinary string
	page, fresh            *browser // the one that stays open; the one that loads anew
	sum                    *summary

	data, folder, config, agentLogPath string
	listen, base, path                 string // path of the session
	client                             *http.Client
	nod                                *process
	link                               string // to log in
	round                              int
	label                              string // crash point of the running nod, "" for none

	log     *agentLog
	logRead int64 // bytes
	did     deed
	shown   *picture // everything that was shown and judged until now
}

func (c *crasher) fatal(format string, args ...any) {
	c.t.Helper()
	said := c.nod.said()
	c.t.Fatalf("round %d: %s\nnod said at last:\n%s", c.round, fmt.Sprintf(format, args...), said[max(0, len(said)-2000):])
}

func (c *crasher) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("round %d: %v", c.round, err)
	}
}

// settle prepares one data folder, and a nod that has a session in it. It dies at
// label, or not if that is "".
func (c *crasher) settle(label string) {
	dir := c.t.TempDir()
	c.data, c.folder, c.config, c.agentLogPath = filepath.Join(dir, "data"), c.t.TempDir(), filepath.Join(dir, "config.toml"), filepath.Join(dir, "agent.log")
	c.listen = quietPort(c.t, c.dice)
	c.base = "http://" + c.listen
	c.must(os.WriteFile(c.config, fmt.Appendf(nil, "listen = %q\ndata = %q\n[codex]\ncommand = %q\nenv = [\"NOD_FAKEAGENT_LOG\"]\n", c.listen, c.data, c.agentBinary), 0o600))
	c.must(os.WriteFile(c.agentLogPath, nil, 0o600))
	c.log, c.shown, c.did = newAgentLog(), newPicture(), deed{messages: map[string]bool{}}
	jar, err := cookiejar.New(nil)
	c.must(err)
	c.client = &http.Client{
		Jar: jar, Timeout: patience,
		Transport:     &http.Transport{DisableKeepAlives: true}, // none of a nod that is no more
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	c.start(label)
	c.t.Cleanup(func() { c.nod.kill(syscall.SIGTERM) })
	if status, _, err := c.post("/login", url.Values{"token": {c.link}}); err != nil || status != http.StatusSeeOther {
		c.fatal("login: %d %v", status, err)
	}
	status, at, err := c.post("/new", url.Values{"provider": {"codex"}, "folder": {c.folder}, "prompt": {"message 0"}})
	if err != nil || status != http.StatusSeeOther {
		c.fatal("no session: %d %v", status, err)
	}
	c.path, _, _ = strings.Cut(at, "#")
	c.did.messages["message 0"] = true
}

// series is one data folder, one session, one open page, and n kills.
func (c *crasher) series(n int) {
	c.settle("")
	defer func() { c.nod.kill(syscall.SIGTERM) }()
	out, err := exec.Command(c.nodBinary, "login-url", "--config", c.config).Output()
	c.must(err)
	c.page.goTo(strings.TrimSpace(string(out)))
	c.page.untilText("h2.group", "Agents")
	c.page.goTo(c.base + c.path + "#now") // it follows then, and holds what a fresh page holds
	c.page.until("the session", "document.getElementById('turns')")
	for c.round = 1; c.round <= n; c.round++ {
		c.oneRound()
	}
}

// quietPort finds a port below those that the system gives to clients: one that
// tries to reach a nod that is down could get nod's own port, and so itself.
func quietPort(t *testing.T, dice *rand.Rand) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprint("127.0.0.1:", 20_000+dice.IntN(12_000))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// launch starts nod, to die at label ("label:n", or "") or after a time (or 0). It
// returns an error if nod ends before it is ready.
func (c *crasher) launch(label string, killAfter time.Duration) error {
	cmd := exec.Command(c.nodBinary, "--config", c.config)
	cmd.Dir = c.folder
	cmd.Env = append(os.Environ(), "NOD_FAKEAGENT_LOG="+c.agentLogPath, crashpoint.Env+"="+label)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = p
	out, err := cmd.StdoutPipe()
	c.must(err)
	c.must(cmd.Start())
	c.nod, c.label = p, label
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := loginLine.FindString(lines.Text()); m != "" {
				ready <- m // printed once
			}
		}
		_ = cmd.Wait() // how it ended is known
		close(p.ended)
	}()
	late, dead := time.After(patience), (<-chan time.Time)(nil)
	if killAfter > 0 {
		dead = time.After(killAfter)
	}
	select {
	case c.link = <-ready:
		return nil
	case <-p.ended:
		return errors.New("ended")
	case <-dead:
		p.kill(syscall.SIGKILL)
		return errors.New("killed")
	case <-late:
		c.fatal("nod was not ready in time")
	}
	return nil
}

// start starts nod for good. A label that is met on the way up is a kill as well.
func (c *crasher) start(label string) {
	c.t.Helper()
	for range 2 {
		if c.launch(label, 0) == nil {
			return
		}
		if label == "" || c.nod.cmd.ProcessState.ExitCode() != -1 {
			c.fatal("nod does not start")
		}
		c.sum.kills[crashed(label)]++
		c.integrity()
		label = ""
	}
	c.fatal("nod does not start")
}

// post sends a form as a browser does. An error means that it is not known
// whether nod has it.
func (c *crasher) post(path string, form url.Values) (status int, location string, err error) {
	r, err := http.NewRequest(http.MethodPost, c.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := c.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body) // the head has said it
	return res.StatusCode, res.Header.Get("Location"), nil
}

func (c *crasher) get() (string, error) { return c.load(c.path) }

func (c *crasher) load(path string) (string, error) {
	res, err := c.client.Get(c.base + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", res.StatusCode, b)
	}
	return string(b), err
}

// look loads the page between two rounds. A nod that meets its label while it
// settles is started again: that was a kill too.
func (c *crasher) look() string {
	c.t.Helper()
	page, err := c.get()
	if err != nil && c.label != "" {
		select {
		case <-c.nod.ended:
			c.sum.kills[crashed(c.label)]++
			c.integrity()
			c.start("")
			page, err = c.get()
		case <-time.After(patience):
		}
	}
	c.must(err)
	return page
}

// ---- one round ----

// life is what happens between two kills.
type life struct {
	c     *crasher
	cards chan card // that ask, as the stream shows them

	mu       sync.Mutex
	shown    *picture // since the start of this nod
	problems []string
	asked    map[string]bool // commands whose cards were handed on
	over     chan struct{}   // closed when the turn is seen to end
	text     chan struct{}   // closed when so many frames have shown text
	frames   int
	turns    int // before the message
}

func (c *crasher) oneRound() {
	l := &life{c: c, cards: make(chan card, 100), shown: newPicture(), asked: map[string]bool{}, over: make(chan struct{}), text: make(chan struct{}), turns: len(c.shown.turns)}
	how, killAfter := atRandom, time.Duration(c.dice.Int64N(int64(longestTurn)))
	if c.dice.IntN(2) == 0 {
		how, killAfter = atText, patience
		l.frames = 1 + c.dice.IntN(10)
	}
	if c.label != "" {
		how, l.frames = unreached, 0
	}
	// Of each choice the dice are thrown here, so that they do not depend on time.
	stopAt := time.Duration(-1)
	if c.dice.IntN(10) == 0 {
		stopAt = time.Duration(c.dice.Int64N(int64(longestTurn)))
	}
	var shots []*answer
	for i := range 5 {
		a := &answer{option: []string{"accept", "decline"}[(c.round+i)%2], wait: time.Duration(c.dice.IntN(40)) * time.Millisecond, times: 1}
		if c.dice.IntN(4) == 0 {
			a.times = 2 // an impatient finger
		}
		shots = append(shots, a)
	}
	killAgent := c.dice.IntN(2) == 0

	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.watch(ctx) })
	running.Go(func() { l.answer(ctx, shots) })
	running.Go(func() { l.say(ctx, stopAt) })
	if c.label == "" {
		over := l.over
		if how == atRandom {
			over = nil // some die in the quiet after the turn
		}
		select {
		case <-c.nod.ended:
			c.fatal("nod ended by itself")
		case <-time.After(killAfter):
		case <-l.text:
		case <-over:
			how = unreached
		}
	} else {
		select {
		case <-c.nod.ended:
			how = crashed(c.label)
		case <-l.over:
		case <-time.After(patience):
			c.fatal("the turn does not end; shown: %+v", l.shown.turns)
		}
	}
	select {
	case <-l.over: // at rest: the open page shows what is there
		if c.label == "" && c.round%3 == 1 {
			l.rest()
		}
	default:
	}
	c.nod.kill(syscall.SIGKILL)
	if how != crashed(c.label) && c.nod.cmd.ProcessState.ExitCode() != -1 {
		c.fatal("nod ended by itself: %v", c.nod.cmd.ProcessState)
	}
	c.sum.kills[how]++
	if killAgent {
		c.killAgent()
	}
	stop()
	running.Wait()
	c.agentGone()
	c.readLog()
	c.integrity()
	if c.dice.IntN(8) == 0 {
		c.killAtStart(time.Duration(1+c.dice.IntN(120)) * time.Millisecond)
	}
	began := time.Now()
	c.start(c.next())
	c.judge(l, how)
	c.sum.slowest = max(c.sum.slowest, c.same("after "+how).Sub(began))
}

func (c *crasher) killAtStart(after time.Duration) {
	if c.launch("", after) == nil { // it came up before the blow
		c.nod.kill(syscall.SIGKILL)
	}
	c.sum.kills[atStart]++
	c.integrity()
}

// crashed is the name of the moment at which a label has nod die.
func crashed(label string) string {
	name, _, _ := strings.Cut(label, ":")
	return name
}

// next chooses how the next nod ends: every other one by its own hand.
func (c *crasher) next() string {
	if c.round%2 == 0 {
		return ""
	}
	label, most := crashpoint.Labels[c.round/2%len(crashpoint.Labels)], 3 // about as many answers as a turn has
	if label == crashpoint.BeforeCommit || label == crashpoint.AfterCommit {
		most = 40
	}
	return fmt.Sprint(label, ":", 1+c.dice.IntN(most))
}

func (l *life) saw(text string) *picture {
	p := newPicture()
	err := p.read(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.problems = append(l.problems, err.Error())
	}
	l.problems = append(l.problems, l.shown.add(p)...)
	return p
}

// watch is a viewer: it reads the stream from the page's own cursor on.
func (l *life) watch(ctx context.Context) {
	page, err := l.c.get()
	if err != nil {
		return // nod has died already
	}
	l.frame(page) // in the first round something is going on already
	_, rev, _ := strings.Cut(page, `data-rev="`)
	rev, _, _ = strings.Cut(rev, `"`)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.c.base+l.c.path+"/live?since="+url.QueryEscape(rev), nil)
	if err != nil {
		return
	}
	streaming := *l.c.client
	streaming.Timeout = 0
	res, err := streaming.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	in := bufio.NewReader(res.Body)
	var event string
	var data []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return // half a frame was shown to nobody
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && strings.HasPrefix(event, "parts-"):
			l.frame(strings.Join(data, "\n"))
			fallthrough
		case line == "":
			event, data = "", nil
		case name == "event":
			event = value
		case name == "data":
			data = append(data, value)
		}
	}
}

// frame takes up what the stream shows, and tells the others what they wait for.
func (l *life) frame(text string) {
	p := l.saw(text)
	if maxWord(p) > maxWord(l.c.shown) {
		if l.frames--; l.frames == 0 {
			close(l.text)
		}
	}
	for _, card := range p.cards {
		if card.state == "pending" && !l.asked[card.command] {
			l.asked[card.command] = true
			l.cards <- card
		}
	}
	for n, t := range p.turns {
		if n >= l.turns && t.ended {
			select {
			case <-l.over:
			default:
				close(l.over)
			}
		}
	}
}

// say sends a message, and sometimes stops the turn.
func (l *life) say(ctx context.Context, stopAt time.Duration) {
	text := fmt.Sprint("message ", l.c.round)
	status, _, err := l.c.post(l.c.path+"/messages", url.Values{"text": {text}})
	l.mu.Lock()
	l.c.did.messages[text] = err == nil && status == http.StatusSeeOther
	if err == nil && status != http.StatusSeeOther && !(l.c.round == 1 && status == http.StatusConflict) {
		l.problems = append(l.problems, fmt.Sprintf("the message was answered with %d", status))
	}
	l.mu.Unlock()
	if stopAt < 0 {
		return
	}
	select {
	case <-time.After(stopAt):
		_, _, _ = l.c.post(l.c.path+"/stop", url.Values{}) // what comes of it is seen
	case <-ctx.Done():
	}
}

// answer is one answer that will be given to a card.
type answer struct {
	option string
	wait   time.Duration // a person's
	times  int
}

func (l *life) answer(ctx context.Context, answers []*answer) {
	for _, a := range answers {
		var k card
		select {
		case k = <-l.cards:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(a.wait):
		case <-ctx.Done():
			return
		}
		var sending sync.WaitGroup
		for range a.times {
			sending.Go(func() { l.decide(k, a.option) })
		}
		sending.Wait()
		l.c.sum.twice += a.times - 1
		if page, err := l.c.get(); err == nil { // where the answer leads a person
			l.saw(page)
		}
	}
}

func (l *life) decide(k card, option string) {
	id := ""
	l.mu.Lock()
	for i, x := range l.shown.cards {
		if x.command == k.command {
			id = i
		}
	}
	l.mu.Unlock()
	status, _, err := l.c.post("/approvals/"+id, url.Values{"digest": {k.digest}, "nonce": {k.nonce}, "seen": {"yes"}, "option": {option}})
	l.mu.Lock()
	defer l.mu.Unlock()
	p := post{command: k.command, option: option, label: k.labels[option], taken: err == nil && status == http.StatusSeeOther}
	l.c.did.posts = append(l.c.did.posts, p)
	if p.taken {
		l.c.sum.answers++
	} else if err == nil && status != http.StatusConflict { // the turn was stopped meanwhile
		l.problems = append(l.problems, fmt.Sprintf("an answer to %q was answered with %d", k.command, status))
	}
}

// rest compares the open page with a fresh one while nothing happens.
func (l *life) rest() {
	page, err := l.c.get()
	if err != nil {
		return
	}
	l.saw(page)
	l.c.same("at rest")
}

// ---- after the kill ----

// killAgent kills the agent's group, as a machine's end would.
func (c *crasher) killAgent() {
	c.readLog()
	if c.log.alive != 0 {
		_ = syscall.Kill(-c.log.alive, syscall.SIGKILL) // it may have gone by itself
	}
}

// agentGone waits until the agent has read what nod had written, and ended: its
// log is locked as long as it lives.
func (c *crasher) agentGone() {
	f, err := os.Open(c.agentLogPath)
	c.must(err)
	defer func() { _ = f.Close() }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.killAgent()
			c.fatal("the agent outlives nod")
		}
	}
}

func (c *crasher) readLog() {
	f, err := os.Open(c.agentLogPath)
	c.must(err)
	defer func() { _ = f.Close() }()
	_, err = f.Seek(c.logRead, io.SeekStart)
	c.must(err)
	b, err := io.ReadAll(f)
	c.must(err)
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	c.logRead += int64(len(b))
	before := c.log.words
	for line := range bytes.Lines(b) {
		c.must(c.log.line(line))
	}
	c.sum.words += c.log.words - before
}

// integrity asks SQLite about a copy of nod's file as the kill has left it: nod's
// own copy is for nod to recover.
func (c *crasher) integrity() {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.data, "*.db*"))
	c.must(err)
	dir, err := os.MkdirTemp(c.folder, "copy-")
	c.must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	name := ""
	for _, from := range files {
		if strings.HasSuffix(from, "-shm") {
			continue // made anew from the log, as after a power cut
		}
		b, err := os.ReadFile(from)
		c.must(err)
		c.must(os.WriteFile(filepath.Join(dir, filepath.Base(from)), b, 0o600))
		if strings.HasSuffix(from, ".db") {
			name = filepath.Join(dir, filepath.Base(from))
		}
	}
	if name == "" {
		c.fatal("nod has no file in %s", c.data)
	}
	db, err := sql.Open("sqlite", "file:"+name)
	c.must(err)
	defer func() { _ = db.Close() }()
	for _, pragma := range []string{"integrity_check", "foreign_key_check"} {
		rows, err := db.Query("PRAGMA " + pragma)
		c.must(err)
		for rows.Next() {
			var says any
			if pragma == "foreign_key_check" {
				c.fatal("a row without what it refers to")
			}
			if err := rows.Scan(&says); err != nil || says != "ok" {
				c.fatal("%s: %v %v", pragma, says, err)
			}
		}
		c.must(errors.Join(rows.Err(), rows.Close()))
	}
}

// judge looks at what the new nod shows.
func (c *crasher) judge(l *life, how string) {
	c.t.Helper()
	page := c.look()
	now := newPicture()
	c.must(now.read(page))
	for link := earlierLink.FindStringSubmatch(page); link != nil; {
		before, err := c.load(link[1])
		c.must(err)
		p := newPicture()
		c.must(p.read(before))
		now.standsBefore(p)
		link = earlierLink.FindStringSubmatch(before)
	}
	problems := append(l.problems, c.shown.add(l.shown)...)
	more, tail := check(c.shown, now, c.log, c.did)
	problems = append(problems, more...)
	c.sum.tail = max(c.sum.tail, tail)
	if tail > 0 {
		c.sum.cut++
	}
	if len(problems) > 0 {
		c.fatal("after %s:\n  %s\nthe last turn reads:\n%s", how, strings.Join(problems, "\n  "), lastTurn(page))
	}
	c.shown = now
}

// earlierLink leads to what stands before the begin of a page.
var earlierLink = regexp.MustCompile(`href="([^"]*)"[^>]*>Show earlier<`)

func lastTurn(page string) string {
	i := strings.LastIndex(page, `<section class="turn"`)
	return page[max(0, i):]
}

// shownText is what a person reads of a page's turns, dock and head.
const shownText = `['turns', 'dock', 'head'].map(id => {
	const e = document.getElementById(id).cloneNode(true);
	e.querySelectorAll('time').forEach(t => t.remove());
	return e.textContent.replace(/\s+/g, ' ').trim();
}).join('\n')`

func textOf(page string) (string, error) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", err
	}
	texts := map[string]string{}
	for n := range doc.Descendants() {
		if id := attr(n, "id"); id != "" {
			texts[id] = said(n)
		}
	}
	return texts["turns"] + "\n" + texts["dock"] + "\n" + texts["head"], nil
}

// same waits until the page that has been open all the time, the same page loaded
// anew and the bare HTML say the same, and returns when the open page did.
func (c *crasher) same(when string) (current time.Time) {
	c.t.Helper()
	c.fresh.goTo(c.base + c.path)
	var want, open, loaded string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		want, err = textOf(c.look())
		c.must(err)
		if open = c.page.read(shownText); open != want {
			continue
		}
		if current.IsZero() {
			current = time.Now()
		}
		if loaded = c.fresh.read(shownText); loaded == want {
			c.fresh.goTo("about:blank") // its stream is work for nothing
			return current
		}
	}
	c.fatal("%s the pages differ\nHTML\n%s\nopen\n%s\nanew\n%s", when, want, open, loaded)
	return current
}

// tab opens another window of the same browser.
func (b *browser) tab(opts ...chromedp.ContextOption) *browser {
	ctx, cancel := chromedp.NewContext(b.ctx, opts...)
	other := &browser{t: b.t, ctx: ctx}
	b.t.Cleanup(func() { other.obeyed(b.t) })
	b.t.Cleanup(cancel)
	// The tab lives as long as the context it was first used with.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(desk.width, desk.height)); err != nil {
		b.t.Fatal(err)
	}
	other.watch(b.t, ctx)
	return other
}

// read evaluates an expression of text; a page that is being replaced says nothing.
func (b *browser) read(expression string) string {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		return err.Error()
	}
	return s
}
