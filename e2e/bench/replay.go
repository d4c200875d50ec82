package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// replay sends 5,000 token frames as fast as it can to a page of nod with a
// transcript of 100 KB: what nod's own stream would put together stays apart, so
// this is what the page's script takes.
func (b *bench) replay() ([]row, error) {
	n, err := b.start()
	if err != nil {
		return nil, err
	}
	defer n.stop()
	id, err := n.session(script{Tokens: 100_000 / tokenSize, PerItem: 500})
	if err != nil {
		return nil, err
	}
	html, err := n.get("/s/" + id)
	if err != nil {
		return nil, err
	}
	server, err := serveReplay(n, html)
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }()
	t, err := n.newTab(watchMarks)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.goTo("http://" + server.Addr); err != nil {
		return nil, err
	}
	seen, err := until(t, "bench", patience, func(s shown) bool { return len(s.Marks) > 0 })
	if err != nil {
		return nil, err
	}
	b.pause(linger) // a long task is told when it has ended
	ages, err := seen.ages()
	if err != nil {
		return nil, err
	}
	began, _ := seen.Marks[0][1].(float64)
	seen, err = until(t, "bench", patience, func(shown) bool { return true })
	if err != nil {
		return nil, err
	}
	longest := 0.0
	long := seen.longSince(began - ages[0])
	if len(long) > 0 {
		longest = slices.Max(long)
	}
	return []row{
		figure("5,000 token frames: all in the page after", ages[0], "ms").atMost(1100),
		figure("5,000 token frames: long tasks", float64(len(long)), "").atMost(0).noted(fmt.Sprintf("the longest took %.0f ms", longest)),
	}, nil
}

var (
	liveAddress = regexp.MustCompile(`data-live="[^"]*"`)
	sessionName = regexp.MustCompile(`data-session="([^"]*)"`)
)

// serveReplay serves a page of nod, whose event stream is our frames.
func serveReplay(n *nod, page string) (*http.Server, error) {
	page = liveAddress.ReplaceAllString(page, `data-live="/live"`)
	session := sessionName.FindStringSubmatch(page)
	if session == nil {
		return nil, errors.New("the page does not say of which session it is")
	}
	frames := tokenFrames(session[1])
	base, err := url.Parse(n.base)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/static/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(base) }})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(page)) // the browser has gone
	})
	mux.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(frame string) bool {
			_, err := w.Write([]byte(frame))
			return err == nil && http.NewResponseController(w).Flush() == nil
		}
		if !send("event: hello\ndata: -\n\n") {
			return
		}
		time.Sleep(2 * time.Second) // until the page has been laid out
		began := mark(time.Now())
		for _, f := range frames {
			if !send(strings.Replace(f, lastToken, began, 1)) {
				return
			}
		}
		<-r.Context().Done() // or the browser would come again
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Addr: listener.Addr().String(), Handler: mux}
	go func() { _ = s.Serve(listener) }() // until it is closed
	return s, nil
}

// lastToken stands in the last frame where the time of the first will be.
const lastToken = "last-token"

// tokenFrames are the frames of a message of 20 KB in blocks of 1 KB, as it
// grows by 4 bytes: each is the block that grows.
func tokenFrames(session string) []string {
	const count, size, block = 5000, 4, 1000
	text := strings.Repeat("The test waits for a port that is taken. ", count*size/40)
	frames := make([]string, count)
	for i := range frames {
		begin, end := i*size/block*block, (i+1)*size
		last := ""
		if i == count-1 {
			last = lastToken
		}
		frames[i] = fmt.Sprintf("id: replay.%d.0\nevent: parts-%s\ndata: <div class=\"part\" id=\"replay%d\" data-in=\"turns\"><div class=\"prose\"><p>%s%s</p></div></div>\n\n",
			i, session, begin/block, text[begin:end], last)
	}
	return frames
}
