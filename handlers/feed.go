package handlers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-h/templ"

	"nod/state/snapshot"
	"nod/views"
	"nod/views/markdown"
)

const (
	// minGap is the least time between two editions of a page: 20 a second look
	// fluent, more cost batteries.
	minGap = 50 * time.Millisecond
	// linger is how long what was drawn is kept for somebody who comes back: a
	// browser that has loaded a page and now asks for its stream, a phone that
	// was switched on again. Later it gets the whole page once more.
	linger = 10 * time.Minute
)

// feeds are the pages that somebody looks at. Whatever many browsers see is drawn
// once, and not by whoever changes it: each further viewer costs a write.
type feeds struct {
	server  *Server
	ctx     context.Context // of all; it has the base path
	colours *markdown.Highlighter
	close   func()

	sheets atomic.Uint64 // how many there were

	mu sync.Mutex
	m  map[pageKey]*feed
}

// pageKey is what a feed draws: a session, or the inbox if id is "", for those who may
// change something or for those who only look on; or a share of a session, by its id.
type pageKey struct {
	id       string
	viewOnly bool
	share    string
}

// page is what the page has as its session.
func (k pageKey) page() string { return cmp.Or(k.share, k.id) }

// subject is a page that feeds can draw.
type subject interface {
	key() pageKey
	// context is what its components are drawn with.
	context(all context.Context) context.Context
	sheet(f *feed) sheet
}

func newFeeds(s *Server) *feeds {
	fs := &feeds{server: s, ctx: s.pages(context.Background()), colours: markdown.NewHighlighter(), m: map[pageKey]*feed{}}
	fs.close = sync.OnceFunc(fs.colours.Close)
	return fs
}

// feed is one page, as it is drawn for all who look at it. It has a goroutine of
// its own while streams are open.
type feed struct {
	all *feeds
	of  subject
	ctx context.Context // what components are drawn with
	lit chan struct{}   // holds a token when colours are ready

	users, streams int         // guarded by all.mu; streams are users too
	stop           func()      // ends the goroutine
	forget         *time.Timer // runs while nobody uses it

	failed atomic.Bool // err is not nil

	mu     sync.Mutex
	sheet  sheet
	shown  bool // there was an edition
	err    error
	frames map[views.Position]frame // of this edition
	next   chan struct{}            // closed when there is another edition
}

// sheet draws one page.
type sheet interface {
	// refresh looks for a newer picture and reports whether there is one.
	refresh(ctx context.Context) (bool, error)
	// at returns the position of whoever comes with a cursor.
	at(views.Cursor) views.Position
	// here returns the position of what it shows.
	here() views.Position
	// since writes what is new after a position, and returns the newest one.
	since(ctx context.Context, b *bytes.Buffer, from views.Position) (views.Position, error)
}

type frame struct {
	data []byte // nil: nothing is new
	at   views.Position
}

// owned is a page of nod for those who are logged in: of a session, or the inbox if id
// is "". why says what keeps from changing anything; "" for nothing.
type owned struct {
	server  *Server
	id, why string
}

// ownedBy is the page for whoever asks with ctx.
func (s *Server) ownedBy(ctx context.Context, id string) owned {
	return owned{s, id, views.ViewOnly(ctx)}
}

func (o owned) key() pageKey { return pageKey{id: o.id, viewOnly: o.why != ""} }

func (o owned) context(all context.Context) context.Context { return views.WithViewOnly(all, o.why) }

func (o owned) sheet(f *feed) sheet {
	if o.id == "" {
		return &inboxSheet{server: o.server}
	}
	return &sessionSheet{server: o.server, id: o.id, Sheet: f.newSheet()}
}

// open returns the feed of a page, for one who loads it or for a stream. done must be
// called.
func (fs *feeds) open(of subject, stream bool) (f *feed, done func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f = fs.m[of.key()]
	if f == nil {
		f = &feed{all: fs, of: of, ctx: of.context(fs.ctx), lit: make(chan struct{}, 1), next: make(chan struct{}), frames: map[views.Position]frame{}}
		f.sheet = of.sheet(f)
		f.forget = time.AfterFunc(linger, func() { fs.drop(f) })
		fs.m[of.key()] = f
	}
	f.forget.Stop()
	f.users++
	if stream {
		if f.streams++; f.streams == 1 {
			f.start()
		}
	}
	return f, func() { fs.leave(f, stream) }
}

func (fs *feeds) leave(f *feed, stream bool) {
	fs.mu.Lock()
	stop := func() {}
	if stream {
		if f.streams--; f.streams == 0 {
			stop = f.stop
		}
	}
	if f.users--; f.users == 0 {
		wait := linger
		if f.failed.Load() { // perhaps there is no such session
			wait = 0
		}
		f.forget.Reset(wait)
	}
	fs.mu.Unlock()
	stop()
}

// drop forgets a feed that nobody has come back to.
func (fs *feeds) drop(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.users == 0 && fs.m[f.of.key()] == f {
		delete(fs.m, f.of.key())
	}
}

// newSheet returns what draws a session, and has the feed look when colours are ready.
func (f *feed) newSheet() *views.Sheet {
	epoch := fmt.Sprintf("%s-%d", f.all.server.Epoch, f.all.sheets.Add(1))
	return views.NewSheet(epoch, f.all.colours, f.wake)
}

// wake has the feed look whether anything is to be seen.
func (f *feed) wake() { poke(f.lit) }

// start has editions made as long as streams are open.
func (f *feed) start() {
	ctx, cancel := context.WithCancel(f.all.ctx)
	ended := make(chan struct{})
	f.stop = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		f.run(ctx)
	}()
}

func (f *feed) run(ctx context.Context) {
	changed, done := f.all.server.Hub.Watch(f.of.key().id) // before the first look, so that nothing falls in between
	defer done()
	for {
		if f.edition() {
			select {
			case <-time.After(minGap):
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-changed:
		case <-f.lit:
		case <-ctx.Done():
			return
		}
	}
}

// edition takes up what has changed, and reports whether anything has. What is new
// to those who are up to date is drawn at once.
func (f *feed) edition() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.sheet.here()
	fresh := false
	err := f.guard(func() (err error) {
		fresh, err = f.sheet.refresh(f.ctx)
		return err
	})
	if !fresh && err == nil && f.err == nil {
		return false
	}
	f.fail(err)
	clear(f.frames)
	if f.shown && err == nil {
		_, _ = f.draw(before) // an error comes again to whoever asks
	}
	f.shown = true
	close(f.next)
	f.next = make(chan struct{})
	return true
}

func (f *feed) fail(err error) {
	f.err = err
	f.failed.Store(err != nil)
}

// guard draws. A mistake in drawing must cost one page, not everyone the server;
// what was drawn until then is not trusted any more.
func (f *feed) guard(draw func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			f.sheet = f.of.sheet(f)
		}
	}()
	return draw()
}

// position returns the position of whoever comes with a cursor, as soon as there
// is an edition.
func (f *feed) position(ctx context.Context, c views.Cursor) (views.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.shown {
		next := f.next
		f.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
		}
		f.mu.Lock()
		if ctx.Err() != nil {
			return views.Position{}, ctx.Err()
		}
	}
	return f.sheet.at(c), nil
}

// since returns what is new after a position, and a channel that is closed when
// there is more.
func (f *feed) since(from views.Position) (frame, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return frame{}, nil, f.err
	}
	fr, err := f.draw(from)
	return fr, f.next, err
}

// draw returns the frame for a position. Call with mu held.
func (f *feed) draw(from views.Position) (frame, error) {
	if fr, ok := f.frames[from]; ok {
		return fr, nil
	}
	var b bytes.Buffer
	var fr frame
	err := f.guard(func() (err error) {
		fr.at, err = f.sheet.since(f.ctx, &b, from)
		return err
	})
	if err != nil {
		f.fail(err)
		return frame{}, err
	}
	if b.Len() > 0 {
		fr.data = oneNewline(b.Bytes())
	}
	f.frames[from] = fr
	return fr, nil
}

// look calls f with the sheet of a page as it is now. What it draws is kept, and so
// does not end with who asked for it.
func (fs *feeds) look(of subject, do func(sheet) error) error {
	f, done := fs.open(of, false)
	defer done()
	f.edition()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	err := f.guard(func() error { return do(f.sheet) })
	if err != nil && !errors.Is(err, problemNoPage) {
		f.fail(err)
	}
	return err
}

// page draws a page of a session as it is now.
func (fs *feeds) page(ctx context.Context, id string, of func(*views.Sheet) (templ.Component, error)) ([]byte, error) {
	var b bytes.Buffer
	err := fs.look(fs.server.ownedBy(ctx, id), func(s sheet) error {
		page, err := of(s.(*sessionSheet).Sheet)
		if err != nil {
			return err
		}
		return page.Render(context.WithoutCancel(ctx), &b)
	})
	return b.Bytes(), err
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already told
	}
}

// sessionSheet is the page of a session.
type sessionSheet struct {
	*views.Sheet
	server *Server
	id     string
}

func (s *sessionSheet) refresh(ctx context.Context) (bool, error) {
	was := s.Cursor()
	in := s.server.Hub.Inbox() // before the session, so that the cursor promises no more than is shown
	snap, changed, err := s.server.Hub.Since(s.id, was.Seq)
	if err != nil {
		return false, err
	}
	fresh := snap.Seq != was.Seq || in.Rev != was.Rev || !s.Shown()
	if fresh {
		s.Show(ctx, snap, in, changed)
	}
	return s.Relight(ctx) || fresh, nil
}

func (s *sessionSheet) at(c views.Cursor) views.Position { return s.At(c) }

func (s *sessionSheet) since(ctx context.Context, b *bytes.Buffer, from views.Position) (views.Position, error) {
	return s.Here(), s.Since(ctx, b, from)
}

func (s *sessionSheet) here() views.Position { return s.Here() }

// inboxSheet is the list of sessions.
type inboxSheet struct {
	server *Server
	in     snapshot.Inbox
	shown  bool
}

func (s *inboxSheet) refresh(context.Context) (bool, error) {
	in := s.server.Hub.Inbox()
	fresh := !s.shown || in.Rev != s.in.Rev
	s.in, s.shown = in, true
	return fresh, nil
}

// at: the whole list is drawn whenever anything is new.
func (s *inboxSheet) at(c views.Cursor) views.Position {
	if here := s.here(); c == here.Cursor {
		return here
	}
	return views.Position{}
}

func (s *inboxSheet) since(ctx context.Context, b *bytes.Buffer, from views.Position) (views.Position, error) {
	if from == s.here() {
		return from, nil
	}
	return s.here(), views.Inbox(s.in).Render(ctx, b)
}

func (s *inboxSheet) here() views.Position {
	return views.Position{Cursor: views.Cursor{Epoch: s.server.Epoch, Rev: s.in.Rev}}
}
