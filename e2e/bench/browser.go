package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http/httptrace"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// tab is the one tab of a Chromium with an empty profile.
type tab struct {
	ctx   context.Context
	close func()
}

// newTab starts a Chromium that is logged in and runs a script of ours before
// those of each page; "" for none.
func (n *nod) newTab(script string) (*tab, error) {
	var chromium string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			chromium = p
			break
		}
	}
	if chromium == "" {
		return nil, errors.New("there is no Chromium")
	}
	profile, err := os.MkdirTemp(n.bench.dir, "chromium-")
	if err != nil {
		return nil, err
	}
	alloc, stop := chromedp.NewExecAllocator(n.bench.ctx,
		chromedp.ExecPath(chromium), chromedp.UserDataDir(profile),
		chromedp.Flag("no-sandbox", true), chromedp.Flag("headless", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("no-first-run", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
	)
	ctx, cancel := chromedp.NewContext(alloc)
	t := &tab{ctx: ctx, close: func() { cancel(); stop() }}
	name, value, _ := strings.Cut(n.cookie, "=")
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)); err != nil {
		t.close()
		return nil, err
	}
	_, err1 := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: n.base})
	_, err2 := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	if err := errors.Join(err1, err2); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tab) goTo(address string) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Do(ctx, chromedp.Navigate(address))
}

// until asks the page for a value until it is good.
func until[T any](t *tab, expression string, wait time.Duration, good func(T) bool) (v T, err error) {
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		v, err = chromedp.Run(t.ctx, chromedp.Evaluate[T](expression))
		if err == nil && good(v) {
			return v, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.ctx.Done():
			return v, t.ctx.Err()
		}
	}
	if err == nil {
		err = errors.New("the page did not get there: " + expression)
	}
	return v, err
}

// watchMarks is a script that notes when each marker is first in the page, and
// the tasks that took longer than 50 ms. Times are in ms since 1970.
const watchMarks = `(() => {
	const bench = window.bench = { marks: [], long: [] };
	new PerformanceObserver(l => {
		for (const e of l.getEntries()) bench.long.push([performance.timeOrigin + e.startTime, e.duration]);
	}).observe({ type: 'longtask', buffered: true });
	let newest = '';
	new MutationObserver(() => {
		const now = performance.timeOrigin + performance.now();
		const text = document.getElementById('turns')?.textContent ?? '';
		const fresh = [];
		for (let at = text.length; at > 0 && (at = text.lastIndexOf('mark-', at - 1)) >= 0;) {
			const ns = text.slice(at + 5, at + 24);
			if (ns <= newest) break;
			fresh.push([ns, now]);
		}
		if (!fresh.length) return;
		newest = fresh[0][0];
		bench.marks.push(...fresh);
	}).observe(document, { subtree: true, childList: true, characterData: true });
})()`

// shown is what watchMarks has noted.
type shown struct {
	Marks [][2]any     `json:"marks"` // ns as text, ms when it was seen
	Long  [][2]float64 `json:"long"`  // begin and length of a long task
}

// ages are those of all markers in ms, when they were seen.
func (s shown) ages() (ages []float64, err error) {
	for _, m := range s.Marks {
		text, _ := m[0].(string)
		seen, _ := m[1].(float64)
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		ages = append(ages, seen-float64(ns)/1e6)
	}
	return ages, nil
}

// pace is how updates come to a tab, and what is asked of it.
type pace struct {
	name            string
	events          int
	rate            float64 // a second
	others          int     // viewers beside the tab
	p50, p99        float64 // targets, ms
	peer50, peer99  string  // what another program of this kind takes
	peerTasks       string
	allShownNoTasks bool // ask for all events, and for no long task
}

var (
	pace5       = pace{name: "a tab, 5 updates/s: ", events: 200, rate: 5, p50: 8, p99: 40, peer50: "peer: 15", peer99: "peer: 133"}
	pace50      = pace{name: "a tab, 50 updates/s: ", events: 1000, rate: 50, p50: 40, p99: 90, peer50: "peer: 69", peer99: "peer: 278", peerTasks: "peer: 6", allShownNoTasks: true}
	paceCopilot = pace{name: "a tab, Copilot 50 updates/s: ", events: 1000, rate: 50, p50: 60, p99: 150, peer50: "the real CLI lies between", peer99: "the real CLI lies between", allShownNoTasks: true}
	pace50Crowd = pace{name: "a tab and 19 more viewers, 50 updates/s: ", events: 1000, rate: 50, others: 19, p50: 40, p99: 90, allShownNoTasks: true}
)

// tab measures from the agent's write to the page's DOM.
func (b *bench) tab(p pace) ([]row, error) {
	n, err := b.start()
	if err != nil {
		return nil, err
	}
	defer n.stop()
	return n.tab(p)
}

func (n *nod) tab(p pace) ([]row, error) {
	b := n.bench
	id, err := n.session(script{})
	if err != nil {
		return nil, err
	}
	c, err := n.gather(id, audience{Viewers: p.others})
	if err != nil {
		return nil, err
	}
	defer c.leave()
	t, err := n.newTab(watchMarks)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.goTo(n.base + "/s/" + id); err != nil {
		return nil, err
	}
	b.pause(2 * time.Second)                              // for the page's stream, and whatever a fresh Chromium does
	s := script{Marks: b.shorter(p.events), Rate: p.rate} // a message short enough to be shown whole
	began := float64(time.Now().UnixMilli())
	if err := n.say(id, s); err != nil {
		return nil, err
	}
	b.pause(s.took() + linger)
	seen, err := chromedp.Run(t.ctx, chromedp.Evaluate[shown]("bench"))
	if err != nil {
		return nil, err
	}
	ages, err := seen.ages()
	if err != nil {
		return nil, err
	}
	rows := []row{
		figure(p.name+"to the DOM, p50", quantile(ages, 0.50), "ms").atMost(p.p50).noted(p.peer50),
		figure(p.name+"to the DOM, p99", quantile(ages, 0.99), "ms").atMost(p.p99).noted(p.peer99),
	}
	all := figure(p.name+"shown", float64(len(ages)), "").atLeast(float64(s.Marks))
	tasks := figure(p.name+"long tasks", float64(len(seen.longSince(began))), "").noted(p.peerTasks)
	if p.allShownNoTasks {
		tasks = tasks.atMost(0)
	}
	return append(rows, all, tasks), nil
}

// longSince are the lengths of the long tasks that began after a time, in ms.
func (s shown) longSince(began float64) (lengths []float64) {
	for _, l := range s.Long {
		if l[0] >= began {
			lengths = append(lengths, l[1])
		}
	}
	return lengths
}

// ---- opening a long session ----

// watchOpening is a script that notes when the last turn's foot is painted, in
// ms since navigation began. The composer comes after all turns.
const watchOpening = `(() => {
	window.bench = { foot: 0 };
	new MutationObserver((_, observer) => {
		if (!document.getElementById('composer')) return;
		observer.disconnect();
		requestAnimationFrame(() => setTimeout(() => {
			const foot = [...document.querySelectorAll('#turns .foot')].pop();
			if (foot.getBoundingClientRect().height > 0) bench.foot = performance.now();
		}));
	}).observe(document, { subtree: true, childList: true });
})()`

// open opens a session of 10,000 events.
func (b *bench) open() ([]row, error) {
	const tries = 11
	n, err := b.start()
	if err != nil {
		return nil, err
	}
	defer n.stop()
	id, err := n.session(script{Events: 10_000})
	if err != nil {
		return nil, err
	}
	var first []float64
	var sent float64
	note := ""
	for range tries {
		took, zipped, body, err := n.firstByte("/s/" + id)
		if err != nil {
			return nil, err
		}
		if !zipped {
			note = "nod did not compress it; the bench has, at level 6"
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, 6) // a level that there is
			_, _ = w.Write(body)               // into memory
			_ = w.Close()
			body = b.Bytes()
		}
		first, sent = append(first, float64(took.Microseconds())/1000), float64(len(body))
	}
	t, err := n.newTab(watchOpening)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var visible []float64
	for range tries {
		if err := t.goTo(n.base + "/s/" + id); err != nil {
			return nil, err
		}
		ms, err := until(t, "bench.foot", patience, func(ms float64) bool { return ms > 0 })
		if err != nil {
			return nil, err
		}
		visible = append(visible, ms)
		if err := t.goTo("about:blank"); err != nil { // so that the next is no mere jump to #now
			return nil, err
		}
	}
	if err := t.goTo(n.base + "/s/" + id); err != nil {
		return nil, err
	}
	nodes, err := chromedp.Run(t.ctx, chromedp.Evaluate[int]("document.querySelectorAll('*').length"))
	if err != nil {
		return nil, err
	}
	return []row{
		figure("open 10,000 events: to the first byte", quantile(first, 0.5), "ms").below(50),
		figure("open 10,000 events: page, gzip", sent/1000, "kB").below(150).noted(note),
		figure("open 10,000 events: first time, to the last row", visible[0], "ms"),
		figure("open 10,000 events: to the last row", quantile(visible[1:], 0.5), "ms").below(300),
		figure("open 10,000 events: elements", float64(nodes), "").atMost(3000),
	}, nil
}

// firstByte asks for a page with gzip. It returns the body as it came.
func (n *nod) firstByte(path string) (took time.Duration, zipped bool, body []byte, err error) {
	var began, first time.Time
	ctx := httptrace.WithClientTrace(n.bench.ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { began = time.Now() },
		GotFirstResponseByte: func() { first = time.Now() },
	})
	res, body, err := n.ask(ctx, path, n.cookie, nil, "Accept-Encoding", "gzip")
	if err != nil {
		return 0, false, nil, err
	}
	return first.Sub(began), res.Header.Get("Content-Encoding") == "gzip", body, nil
}

// ---- the first load of all ----

// cold loads the inbox and a session in browsers that know nothing yet, with
// scripts and without.
func (b *bench) cold() ([]row, error) {
	n, err := b.start()
	if err != nil {
		return nil, err
	}
	defer n.stop()
	id, err := n.session(script{Tokens: 400})
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, page := range []struct{ name, path string }{{"inbox", "/"}, {"session", "/s/" + id}} {
		for _, scripts := range []bool{true, false} {
			size, requests, err := n.load(page.path, scripts)
			if err != nil {
				return rows, err
			}
			name := "first load of the " + page.name
			if !scripts {
				name += " without scripts"
			}
			rows = append(rows,
				figure(name+": bytes", float64(size)/1000, "kB").below(100),
				figure(name+": requests", float64(requests), "").atMost(6))
		}
	}
	return rows, nil
}

// load returns the bytes of all bodies, decompressed, and the number of requests.
func (n *nod) load(path string, scripts bool) (size int64, requests int, err error) {
	t, err := n.newTab("")
	if err != nil {
		return 0, 0, err
	}
	defer t.close()
	_, err1 := chromedp.Call(t.ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(t.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts})
	var mu sync.Mutex
	err3 := chromedp.Listen(t.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			requests++
		case *network.EventDataReceived:
			size += e.DataLength
		}
	})
	if err := errors.Join(err1, err2, err3, t.goTo(n.base+path)); err != nil {
		return 0, 0, err
	}
	n.bench.pause(2 * time.Second) // for what comes after the page
	mu.Lock()
	defer mu.Unlock()
	return size, requests, nil
}
