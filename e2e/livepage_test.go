package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// livePage is a session's page that keeps itself current as static/live.js does,
// without a browser: enough to compare what was streamed with what is loaded.
type livePage struct {
	t    *testing.T
	w    *world
	c    *http.Client
	path string

	mu    sync.Mutex
	doc   *html.Node
	ended error // of the stream
}

// openLive opens the page of a session and follows its stream until the test ends.
func (w *world) openLive(c *http.Client, path string) *livePage {
	w.t.Helper()
	p := &livePage{t: w.t, w: w, c: c, path: path}
	p.doc = p.load()
	body := element(p.doc, func(n *html.Node) bool { return n.DataAtom == atom.Body })
	address := w.base + attr(body, "data-live") + "?since=" + url.QueryEscape(attr(body, "data-rev"))
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Accept-Encoding", "identity")
	streaming := *c
	streaming.Timeout = 0
	res, err := streaming.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		cancel()
		w.t.Fatalf("%s: %v, %v", address, res, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := p.follow(bufio.NewReaderSize(res.Body, 1<<20), "parts-"+strings.TrimPrefix(path, "/s/"))
		p.mu.Lock()
		p.ended = err
		p.mu.Unlock()
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
		_ = res.Body.Close()
	})
	return p
}

// load loads the page afresh.
func (p *livePage) load() *html.Node {
	p.t.Helper()
	status, page := p.w.get(p.c, p.path)
	doc, err := html.Parse(strings.NewReader(page))
	if status != http.StatusOK || err != nil {
		p.t.Fatalf("%s: %d, %v", p.path, status, err)
	}
	return doc
}

func (p *livePage) follow(lines *bufio.Reader, parts string) error {
	name, data := "", []string{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		switch value = strings.TrimPrefix(value, " "); field {
		case "event":
			name = value
		case "data":
			data = append(data, value)
		case "":
			switch name {
			case parts:
				if err := p.receive(strings.Join(data, "\n")); err != nil {
					return err
				}
			case "gone":
				return fmt.Errorf("the stream says that the page is gone")
			}
			name, data = "", nil
		}
	}
}

// receive puts the parts of one event where they belong.
func (p *livePage) receive(text string) error {
	nodes, err := html.ParseFragment(strings.NewReader(text), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nodes {
		if n.Type != html.ElementNode {
			continue
		}
		old := byID(p.doc, attr(n, "id"))
		switch {
		case slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-gone" }):
			if old != nil {
				old.Parent.RemoveChild(old)
			}
		case old != nil:
			old.Parent.InsertBefore(n, old)
			old.Parent.RemoveChild(old)
		default:
			if into := byID(p.doc, attr(n, "data-in")); into != nil {
				into.AppendChild(n)
			}
		}
	}
	// A reader at the end has no more than what begins there.
	if first := byID(p.doc, attr(byID(p.doc, "earlier"), "data-first")); first != nil {
		turn := first
		for attr(turn, "class") != "turn" {
			turn = turn.Parent
		}
		for _, n := range []*html.Node{first, turn} {
			for n.PrevSibling != nil {
				n.Parent.RemoveChild(n.PrevSibling)
			}
		}
	}
	return nil
}

// read looks at the page as it is now.
func (p *livePage) read(f func(doc *html.Node)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.doc)
}

// until waits until the page is as it should be.
func (p *livePage) until(what string, is func(doc *html.Node) bool) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var ok bool
		var says string
		var ended error
		p.read(func(doc *html.Node) {
			if ok = is(doc); !ok {
				says, ended = said(byID(doc, "page")), p.ended
			}
		})
		switch {
		case ok:
			return
		case ended != nil:
			p.t.Fatalf("the stream ended before %s: %v", what, ended)
		case time.Now().After(deadline):
			p.t.Fatalf("%s did not come. The page says:\n%.3000s", what, says)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// untilSays waits for text in an element.
func (p *livePage) untilSays(id, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q in #%s", text, id), func(doc *html.Node) bool { return strings.Contains(said(byID(doc, id)), text) })
}

// shown is all that a page shows and where it leads, but for what ticks.
func shown(doc *html.Node) string {
	var b bytes.Buffer
	for _, id := range []string{"head", "earlier", "turns", "plan", "dock", "composer"} {
		if n := byID(doc, id); n != nil {
			_ = html.Render(&b, n) // into memory
			b.WriteByte('\n')
		}
	}
	return ticking.ReplaceAllString(b.String(), "")
}

var ticking = regexp.MustCompile(`<time [^>]*>[^<]*</time>`)

func element(n *html.Node, is func(*html.Node) bool) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && is(d) {
			return d
		}
	}
	return nil
}

func byID(n *html.Node, id string) *html.Node {
	if id == "" {
		return nil
	}
	return element(n, func(d *html.Node) bool { return attr(d, "id") == id })
}

// allOfClass returns the elements within n that have a class.
func allOfClass(n *html.Node, class string) (out []*html.Node) {
	for d := range n.Descendants() {
		if slices.Contains(strings.Fields(attr(d, "class")), class) {
			out = append(out, d)
		}
	}
	return out
}

// fields are what a form would send if nobody touched it.
func fields(form *html.Node) url.Values {
	out := url.Values{}
	for d := range form.Descendants() {
		name, value := attr(d, "name"), attr(d, "value")
		switch {
		case name == "" || d.DataAtom == atom.Button:
		case d.DataAtom == atom.Textarea:
			value = ""
			for t := range d.ChildNodes() {
				value += t.Data
			}
			out.Add(name, value)
		case d.DataAtom == atom.Input:
			kind := attr(d, "type")
			checked := slices.ContainsFunc(d.Attr, func(a html.Attribute) bool { return a.Key == "checked" })
			if kind != "radio" && kind != "checkbox" || checked {
				out.Add(name, value)
			}
		}
	}
	return out
}
