package handlers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/r3labs/sse/v2"

	"nod/state/hub"
	"nod/state/snapshot"
	"nod/views"
)

const (
	// minGap is the least time between two frames to one browser: 20 a second
	// look fluent, more cost batteries.
	minGap = 50 * time.Millisecond
	// beatEvery keeps proxies from closing an idle stream and lets the page
	// notice a dead one. The page's own watchdog is at 40 s.
	beatEvery = 15 * time.Second
	// flushTimeout ends a stream whose browser does not read.
	flushTimeout = 10 * time.Second
	// byeTimeout is what a browser gets to hear that nod stops, well within the
	// time that a stop may take.
	byeTimeout = time.Second
	// retryAfter is what a browser waits before it comes back, in ms.
	retryAfter = "1000"
)

// streams sends pages' changes to browsers over r3labs/sse. Each connection has
// an r3labs stream of its own, because that package blocks every publisher and
// every reader of a stream on its slowest reader.
type streams struct {
	server *Server
	sse    *sse.Server
	ctx    context.Context
	close  context.CancelFunc
}

func newStreams(s *Server) *streams {
	t := &streams{server: s, sse: sse.New()}
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

// source is what a live page shows: it renders everything that changed after a
// cursor, and tells where the page is then.
type source func(ctx context.Context, after views.Cursor) ([]byte, views.Cursor, error)

func (s *Server) inboxLive(c echo.Context) error {
	return s.streams.serve(c, "", func(ctx context.Context, after views.Cursor) ([]byte, views.Cursor, error) {
		in := s.Hub.Inbox()
		at := views.Cursor{Epoch: s.Epoch, Rev: in.Rev}
		if after == at {
			return nil, at, nil
		}
		var b bytes.Buffer
		err := draw(ctx, &b, views.Inbox(in))
		return b.Bytes(), at, err
	})
}

func (s *Server) sessionLive(c echo.Context) error {
	id := c.Param("id")
	return s.streams.serve(c, id, func(ctx context.Context, after views.Cursor) ([]byte, views.Cursor, error) {
		return s.sessionChanges(ctx, id, after)
	})
}

// sessionChanges renders the parts of a session page that changed after a
// cursor. A cursor of another process gets the whole page.
func (s *Server) sessionChanges(ctx context.Context, id string, after views.Cursor) ([]byte, views.Cursor, error) {
	in := s.Hub.Inbox()
	snap, parts, err := s.Hub.Since(id, after.Seq)
	if err != nil {
		return nil, after, err
	}
	v := views.SessionView{Session: snap, Inbox: in}
	at := views.Cursor{Epoch: s.Epoch, Seq: snap.Seq, Rev: in.Rev}
	var b bytes.Buffer
	if after.Epoch != s.Epoch {
		err := draw(ctx, &b, views.SessionRoot(v))
		return b.Bytes(), at, err
	}
	if after.Rev != in.Rev { // of the title bar the link, of the list everything
		if err := draw(ctx, &b, views.SideList(in, id)); err != nil {
			return nil, after, err
		}
		parts = append(parts, snapshot.Part{Kind: snapshot.Head})
	}
	if len(parts) > 0 && parts[0].Kind == snapshot.Root {
		parts = parts[:1]
	}
	drawn := map[snapshot.Part]bool{}
	for _, p := range parts {
		if drawn[p] {
			continue
		}
		drawn[p] = true
		if err := draw(ctx, &b, views.Part(v, p)); err != nil {
			return nil, after, err
		}
	}
	return b.Bytes(), at, nil
}

// serve streams a source until the browser leaves, its session ends, or the
// server stops.
func (t *streams) serve(c echo.Context, id string, src source) error {
	ctx, release := t.server.Auth.Hold(c.Request().Context(), device(c).ID)
	defer release()
	// Whoever was logged out between the check of the request and Hold.
	if _, err := t.server.Auth.Who(c.Request()); err != nil {
		return problemLogin
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, func() { time.AfterFunc(byeTimeout, cancel) })() // for a browser that does not read

	last := c.Request().Header.Get("Last-Event-ID")
	if last == "" {
		last = c.QueryParam("since")
	}
	stream := rand.Text()
	t.sse.CreateStream(stream)
	w := &frameWriter{ResponseWriter: c.Response(), control: http.NewResponseController(c.Response()), fail: cancel, flushed: make(chan struct{}, 1)}
	var pumping sync.WaitGroup
	pumping.Go(func() {
		defer cancel()
		t.pump(ctx, stream, id, src, views.ParseCursor(last), w.flushed)
	})
	in := c.Request().Clone(ctx)
	in.URL.RawQuery = "stream=" + stream
	in.Header.Del("Last-Event-ID") // r3labs takes only its own numbers
	t.sse.ServeHTTP(w, in)
	cancel()
	pumping.Wait()
	return nil
}

// pump sends what changed, one frame at a time, and waits for each to reach the
// kernel before it looks again: a slow browser skips states, it queues none.
func (t *streams) pump(ctx context.Context, stream, id string, src source, at views.Cursor, flushed <-chan struct{}) {
	changed, done := t.server.Hub.Watch(id)
	defer done()
	wait := func() bool {
		select {
		case <-flushed:
			return true
		case <-ctx.Done():
			return false
		}
	}
	// Every event carries an id: r3labs writes an empty one otherwise, which
	// makes the browser forget where it is.
	send := func(event string, data []byte) bool {
		t.sse.Publish(stream, &sse.Event{Event: []byte(event), ID: []byte(at.String()), Data: data, Retry: []byte(retryAfter)})
		return wait()
	}
	if !wait() || !send("hello", []byte("-")) { // the headers, then a sign of life
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		data, next, err := src(ctx, at)
		if errors.Is(err, hub.ErrNoSession) { // deleted: the page asks for itself again, and is told
			send("gone", []byte("-"))
			return
		}
		if err != nil {
			t.server.Log.Error("a live page could not be drawn", "err", err)
			return
		}
		at = next
		if len(data) > 0 {
			if !send("parts", oneNewline(data)) {
				return
			}
			beat.Reset(beatEvery)
			select {
			case <-time.After(minGap):
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-t.ctx.Done(): // nod stops: come back soon, it may only be a restart
			send("bye", []byte("-"))
			return
		case <-changed:
		case <-beat.C:
			if !send("beat", []byte("-")) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// oneNewline makes \n the only line end: a lone \r ends a line of an event
// stream too, and r3labs splits on \n alone.
func oneNewline(p []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// frameWriter turns the many small writes of r3labs into one write with a
// deadline, and tells when it has been handed to the kernel.
type frameWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	fail    context.CancelFunc
	flushed chan struct{}
	frame   bytes.Buffer
}

func (w *frameWriter) Write(p []byte) (int, error) { return w.frame.Write(p) }

// Flush is called once for the headers and once for each event.
func (w *frameWriter) Flush() {
	_ = w.control.SetWriteDeadline(time.Now().Add(flushTimeout)) // a writer without deadlines just has none
	_, err := w.ResponseWriter.Write(w.frame.Bytes())
	if err == nil {
		err = w.control.Flush()
	}
	w.frame.Reset()
	if err != nil {
		w.fail()
		return
	}
	// On HTTP/2 an expired deadline resets the stream even while nothing is
	// being written.
	_ = w.control.SetWriteDeadline(time.Time{})
	select {
	case w.flushed <- struct{}{}:
	default:
	}
}
