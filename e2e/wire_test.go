package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// wire is the network between a browser and nod, as bad as a test wants it.
type wire struct {
	*httptest.Server
	nod   *url.URL
	proxy *httputil.ReverseProxy

	mu      sync.Mutex
	down    int                  // what it answers while there is no way to nod; refused closes the connection
	alter   func(string) string  // of each page
	cut     func(event int) bool // is asked for each event of a stream, counted over all of them
	half    bool                 // of the event at which a stream is cut only half gets through
	returns func(*http.Request)  // changes the request of a stream that was cut; has the lock
	hold    chan struct{}        // such a request waits until it is closed
	instead string               // path of the stream that is sent whatever was asked for
	events  int
	first   string // id of the first event that has shown something
	broken  int    // streams that were cut
	streams map[*http.Request]int
	strange []string // requests that were addressed to another name
}

// refused is a wire that ends every connection without a word.
const refused = -1

func newWire(t *testing.T, w *world) *wire {
	t.Helper()
	nod, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	x := &wire{nod: nod, streams: map[*http.Request]int{}}
	x.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { x.address(r.Out) },
		ModifyResponse: func(r *http.Response) error {
			x.mu.Lock()
			alter := x.alter
			x.mu.Unlock()
			if alter == nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
				return nil
			}
			b, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			page := alter(string(b))
			r.Body = io.NopCloser(strings.NewReader(page))
			r.Header.Set("Content-Length", fmt.Sprint(len(page)))
			r.ContentLength = int64(len(page))
			return err
		},
	}
	x.Server = httptest.NewServer(x)
	t.Cleanup(func() {
		x.CloseClientConnections()
		x.Close()
	})
	return x
}

// address makes a request one to nod: what a browser says of where it is.
func (x *wire) address(r *http.Request) {
	r.URL.Scheme, r.URL.Host, r.Host = x.nod.Scheme, x.nod.Host, x.nod.Host
	if r.Header.Get("Origin") != "" {
		r.Header.Set("Origin", x.nod.String())
	}
	r.Header.Set("Accept-Encoding", "identity")
}

// set changes the wire under its lock.
func (x *wire) set(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

// cutOff ends every connection, and answers so until it is mended.
func (x *wire) cutOff(how int) {
	x.set(func() { x.down = how })
	x.CloseClientConnections()
}

// wasCut reports whether the page's stream has been cut.
func (x *wire) wasCut() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken > 0
}

func (x *wire) mend() { x.set(func() { x.down = 0 }) }

func (x *wire) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	x.mu.Lock()
	down := x.down
	if "http://"+in.Host != x.URL {
		x.strange = append(x.strange, in.Host+in.URL.Path)
	}
	x.mu.Unlock()
	switch {
	case down == refused:
		panic(http.ErrAbortHandler)
	case down != 0:
		out.WriteHeader(down)
	case strings.HasSuffix(in.URL.Path, "/live"):
		x.stream(out, in)
	default:
		x.proxy.ServeHTTP(out, in)
	}
}

var (
	retryField = regexp.MustCompile(`(?m)^retry: *\d+`)
	idField    = regexp.MustCompile(`(?m)^id: *(\S+)`)
)

// stream passes events on, one by one. Whoever loses one comes back at once.
func (x *wire) stream(out http.ResponseWriter, in *http.Request) {
	r := in.Clone(in.Context())
	r.RequestURI = ""
	x.address(r)
	x.mu.Lock()
	returns, hold, cut := x.returns, x.hold, x.cut
	if x.instead != "" {
		r.URL.Path, r.URL.RawQuery = x.instead, ""
	}
	x.mu.Unlock()
	if in.Header.Get("Last-Event-ID") != "" {
		if hold != nil {
			select {
			case <-hold:
			case <-in.Context().Done():
				return
			}
		}
		if returns != nil {
			x.set(func() { returns(r) })
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = res.Body.Close() }()
	for k, v := range res.Header {
		out.Header()[k] = v
	}
	out.WriteHeader(res.StatusCode)
	flush := http.NewResponseController(out)
	x.set(func() { x.streams[in] = 0 })
	defer x.set(func() { delete(x.streams, in) })
	lines := bufio.NewReader(res.Body)
	var event strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		event.WriteString(line)
		if line != "\n" {
			continue
		}
		text := event.String()
		if cut != nil {
			text = retryField.ReplaceAllString(text, "retry: 20")
		}
		event.Reset()
		x.mu.Lock()
		x.events++
		x.streams[in]++
		if m := idField.FindStringSubmatch(text); m != nil && x.first == "" {
			x.first = m[1]
		}
		broken := cut != nil && cut(x.events)
		if broken && x.half {
			text = text[:len(text)/2]
		}
		x.mu.Unlock()
		if _, err := io.WriteString(out, text); err != nil || flush.Flush() != nil {
			return
		}
		if broken {
			x.set(func() { x.broken++ })
			panic(http.ErrAbortHandler)
		}
	}
}

// open returns how many events each stream has had that is open.
func (x *wire) open() map[*http.Request]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := map[*http.Request]int{}
	for s, n := range x.streams {
		m[s] = n
	}
	return m
}
