package handlers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/r3labs/sse/v2"

	"nod/state/hub"
	"nod/views"
)

const (
	// beatEvery keeps proxies from closing an idle stream and lets the page
	// notice a dead one. The page's own watchdog is at 40 s.
	beatEvery = 15 * time.Second
	// flushTimeout ends a stream whose browser does not read.
	flushTimeout = 10 * time.Second
	// byeTimeout is what a browser gets to hear that nod stops, well within the
	// time that a stop may take.
	byeTimeout = time.Second
	// cutTimeout is after what time a write ends that waits for a browser whose
	// stream is over.
	cutTimeout = byeTimeout / 2
	// maxGzip is how many streams are compressed: each costs 0.8 MiB. Further
	// ones are plain.
	maxGzip = 100
	// maxOpen is how many streams one browser may hold open over HTTP/1.1, of
	// the six connections it opens to a server: pages and answers need the
	// others. The pages that were opened first ask again and again then.
	maxOpen = 4
	// askAgain is how often they do.
	askAgain = 1500 * time.Millisecond
	// comeBack is after what time a browser returns that has lost its stream, at
	// the least; at most it is twice as long. Not all of them come at once.
	comeBack = 700 * time.Millisecond
)

// streams sends pages' changes to browsers over r3labs/sse. Each connection has
// an r3labs stream of its own, because that package blocks every publisher and
// every reader of a stream on its slowest reader.
type streams struct {
	server *Server
	sse    *sse.Server
	ctx    context.Context
	close  context.CancelFunc
	gzip   echo.MiddlewareFunc

	mu   sync.Mutex
	zip  int                // compressed streams
	all  int                // streams that stay open
	each map[string]int     // of them, by device
	open map[string][]*seat // by device, over HTTP/1.1, oldest first
}

// seat is the place of a stream that stays open.
type seat struct {
	leave chan struct{} // closed when it has to be left
	gone  bool          // for good; set before leave is closed
	end   context.CancelFunc
	once  sync.Once
}

func newSeat(end context.CancelFunc) *seat { return &seat{leave: make(chan struct{}), end: end} }

// free takes the seat for somebody else.
func (s *seat) free() { s.ask(false) }

// goodbye ends the stream for good: what it shows is not to be seen any more.
func (s *seat) goodbye() { s.ask(true) }

func (s *seat) ask(gone bool) {
	s.once.Do(func() {
		s.gone = gone
		close(s.leave)
		time.AfterFunc(byeTimeout, s.end) // if it does not read
	})
}

func newStreams(s *Server) *streams {
	t := &streams{server: s, sse: sse.New(), gzip: middleware.Gzip(), each: map[string]int{}, open: map[string][]*seat{}}
	t.ctx, t.close = context.WithCancel(context.Background())
	t.sse.AutoReplay = false // its log is never freed
	t.sse.SplitData = true
	t.sse.BufferSize = 1
	t.sse.Headers = map[string]string{"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
	// Removing a stream that has a subscriber leaks a goroutine in v2.10.0, so
	// a stream is removed only here, when its one subscriber has gone.
	t.sse.OnUnsubscribe = func(id string, _ *sse.Subscriber) { t.sse.RemoveStream(id) }
	return t
}

// loadAgain tells a page that its stream is over for good: it asks for itself again,
// and is led to the login if it has none. A browser would ask for ever after an error.
func loadAgain(c echo.Context) error {
	return c.Blob(http.StatusOK, "text/event-stream", []byte("event: gone\ndata: -\n\n"))
}

func (s *Server) inboxLive(c echo.Context) error   { return s.streams.own(c, "") }
func (s *Server) sessionLive(c echo.Context) error { return s.streams.own(c, c.Param("id")) }

// own streams a page's changes to who is logged in, until they are not any more.
func (t *streams) own(c echo.Context, id string) error {
	ctx, release := t.server.Auth.Hold(c.Request().Context(), device(c))
	defer release()
	// Whoever was logged out between the check of the request and Hold.
	d, err := t.server.Auth.Who(c.Request())
	if err != nil {
		return problemLogin
	}
	if t.server.Auth.MayRenew(c.Request(), d) { // which comes with the next page
		return loadAgain(c)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, leave := t.enter(c, cancel)
	defer leave()
	return t.serve(ctx, cancel, c, t.server.ownedBy(c.Request().Context(), id), at)
}

// serve streams a page's changes until the browser leaves, ctx ends, or the server
// stops.
func (t *streams) serve(ctx context.Context, cancel context.CancelFunc, c echo.Context, of subject, at *seat) error {
	defer context.AfterFunc(t.ctx, func() { time.AfterFunc(byeTimeout, cancel) })() // for a browser that does not read
	stream := func(c echo.Context) error {
		t.stream(ctx, cancel, c, of, at)
		return nil
	}
	if !t.compresses(c) {
		return stream(c)
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.zip--
	}()
	return t.gzip(stream)(c)
}

// compresses reports whether a stream is compressed; then it is counted.
func (t *streams) compresses(c echo.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.zip >= maxGzip || !strings.Contains(c.Request().Header.Get("Accept-Encoding"), "gzip") {
		return false
	}
	t.zip++
	return true
}

// enter gives a stream a seat if it may stay open. A page that is opened takes the
// oldest one; a page that comes back, by itself or because its seat was taken, only
// takes what is free. Where there are too many, a page asks again and again.
func (t *streams) enter(c echo.Context, end context.CancelFunc) (at *seat, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = newSeat(end)
	browser := device(c).ID
	taken := t.open[browser]
	if t.all >= t.server.Limits.Streams || t.each[browser] >= t.server.Limits.Device {
		at = nil
	} else if c.Request().ProtoMajor == 1 {
		switch {
		case len(taken) < maxOpen:
			t.open[browser] = append(taken, at)
		case c.Request().Header.Get("Last-Event-ID") == "":
			taken[0].free()
			t.open[browser] = append(taken[1:], at)
		default:
			at = nil
		}
	}
	if at != nil {
		t.all++
		t.each[browser]++
	}
	return at, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if at == nil {
			return
		}
		t.all--
		if t.each[browser]--; t.each[browser] == 0 {
			delete(t.each, browser)
		}
		if still := slices.DeleteFunc(t.open[browser], func(s *seat) bool { return s == at }); len(still) > 0 {
			t.open[browser] = still
		} else {
			delete(t.open, browser)
		}
	}
}

// stream runs one connection: r3labs writes here what the pump publishes.
func (t *streams) stream(ctx context.Context, cancel context.CancelFunc, c echo.Context, of subject, at *seat) {
	last := c.Request().Header.Get("Last-Event-ID")
	if last == "" {
		last = c.QueryParam("since")
	}
	w := &frameWriter{ctx: ctx, ResponseWriter: c.Response(), control: http.NewResponseController(c.Response()), ready: make(chan struct{}, 1)}
	p := &pump{streams: t, name: rand.Text(), event: "parts-" + of.key().page(), at: at, to: w, retry: comeBack + mathrand.N(comeBack)}
	if at == nil {
		p.retry = askAgain
	}
	defer w.guard()()
	t.sse.CreateStream(p.name)
	var pumping sync.WaitGroup
	pumping.Go(func() {
		defer cancel()
		f, done := t.server.feeds.open(of, true)
		defer done()
		p.run(ctx, f, views.ParseCursor(last))
	})
	// r3labs would take Last-Event-ID for a number of its own, and needs nothing
	// else of the request.
	in := (&http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: "stream=" + p.name}, Header: http.Header{}}).WithContext(ctx)
	t.sse.ServeHTTP(w, in)
	cancel()
	pumping.Wait()
}

// pump sends one browser what changed, one frame at a time, and waits for each to
// reach the kernel before it looks again: a slow browser skips states, it queues
// none.
type pump struct {
	streams *streams
	name    string        // of the r3labs stream
	event   string        // that carries parts; a page takes those of its own session only
	at      *seat         // nil: it ends when everything is sent
	retry   time.Duration // when the browser is to come back
	to      *frameWriter
	shown   views.Position
	last    sse.Event // one at a time is on its way
}

func (p *pump) run(ctx context.Context, f *feed, from views.Cursor) {
	if p.at == nil {
		f.edition() // it does not stay until there is one
	}
	var err error
	if p.shown, err = f.position(ctx, from); err != nil || !p.write(ctx) { // the headers
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for greeted := false; ; greeted = true {
		frame, more, err := f.since(p.shown)
		if errors.Is(err, hub.ErrNoSession) { // deleted: the page asks for itself again, and is told
			p.send(ctx, "gone", nothing)
			return
		}
		if err != nil {
			p.streams.server.Log.Error("a live page could not be drawn", "err", err)
			return
		}
		if !greeted && !p.send(ctx, "hello", nothing) { // a sign of life, and that the page can be drawn
			return
		}
		if p.shown = frame.at; frame.data != nil && !p.send(ctx, p.event, frame.data) {
			return
		}
		if p.at == nil {
			return
		}
		select {
		case <-p.streams.ctx.Done(): // nod stops: come back soon, it may only be a restart
			p.send(ctx, "bye", nothing)
			return
		case <-p.at.leave:
			if p.at.gone {
				p.send(ctx, "gone", nothing)
				return
			}
			p.retry = askAgain
			p.send(ctx, "bye", nothing)
			return
		case <-more:
		case <-beat.C:
			if !p.send(ctx, "beat", nothing) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// nothing is the data of an event without any, which r3labs would not send.
var nothing = []byte("-")

// send publishes an event and waits until it is written. Every event carries an
// id: r3labs writes an empty one otherwise, which makes the browser forget where
// it is. A script sees beats, as it would not see comments.
func (p *pump) send(ctx context.Context, event string, data []byte) bool {
	p.last = sse.Event{Event: []byte(event), ID: []byte(p.shown.String()), Data: data}
	if event == "hello" || event == "bye" {
		p.last.Retry = strconv.AppendInt(nil, p.retry.Milliseconds(), 10)
	}
	p.streams.sse.Publish(p.name, &p.last)
	return p.write(ctx)
}

// write writes what r3labs makes of an event.
func (p *pump) write(ctx context.Context) bool {
	select {
	case <-p.to.ready:
		return p.to.send() == nil
	case <-ctx.Done():
		return false
	}
}

// oneNewline makes \n the only line end: a lone \r ends a line of an event
// stream too, and r3labs splits on \n alone.
func oneNewline(p []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// frameWriter collects the many small writes of r3labs, so that the pump writes a
// frame at once, or a large one in some pieces. While the pump writes r3labs waits
// for the next event, or until the pump has ended.
type frameWriter struct {
	http.ResponseWriter
	ctx     context.Context // of the stream
	control *http.ResponseController
	ready   chan struct{} // has a token when r3labs has written a frame
	frame   *bytes.Buffer // nil between two frames
	err     error
}

// frames are buffers for the frames that are being written now.
var frames = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, frameSize)) }}

// frameSize is how much is written at once. A browser that does not read costs as
// much, and what the kernel takes.
const frameSize = 16 << 10

func (w *frameWriter) Write(p []byte) (int, error) {
	if w.frame == nil {
		w.frame = frames.Get().(*bytes.Buffer)
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), w.frame.Available())
		_, _ = w.frame.Write(rest[:n]) // never fails
		if rest = rest[n:]; w.frame.Available() == 0 {
			w.pass()
		}
	}
	return len(p), nil
}

// Flush is called once for the headers and once for each event.
func (w *frameWriter) Flush() { w.ready <- struct{}{} }

// pass hands on what was collected so far. After an error nothing more is.
func (w *frameWriter) pass() {
	if w.err == nil {
		w.err = w.hurry()
	}
	if w.err == nil {
		_, w.err = w.ResponseWriter.Write(w.frame.Bytes())
	}
	w.frame.Reset()
}

// hurry gives the browser its time to read, unless the stream has ended.
func (w *frameWriter) hurry() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(flushTimeout)) // a writer without deadlines just has none
	return w.ctx.Err()
}

// guard cuts a write that still waits for the browser when the stream has ended a
// moment ago. It ends with the function that it returns.
func (w *frameWriter) guard() (done func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(w.ctx, func() {
		defer close(ended)
		select {
		case <-time.After(cutTimeout):
			_ = w.control.SetWriteDeadline(time.Now())
		case <-over:
		}
	})
	return func() {
		if close(over); !stop() {
			<-ended
		}
		_ = w.control.SetWriteDeadline(time.Now().Add(cutTimeout)) // for the stream's end; the server lifts it
	}
}

// send writes what is left of a frame. It is the pump's part of the work, because
// the stack of r3labs' goroutine is deep, and would double for it.
func (w *frameWriter) send() error {
	if w.frame != nil {
		w.pass()
		frames.Put(w.frame)
		w.frame = nil
	}
	if w.err == nil {
		w.err = w.hurry()
	}
	if w.err == nil {
		w.err = w.control.Flush()
	}
	// On HTTP/2 an expired deadline resets the stream even while nothing is
	// being written.
	if w.ctx.Err() == nil {
		_ = w.control.SetWriteDeadline(time.Time{})
	}
	return w.err
}
