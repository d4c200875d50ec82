package handlers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/handlers/guests"
	"nod/state"
	"nod/state/journal"
	"nod/state/share"
	"nod/state/snapshot"
	"nod/views"
)

// Shares is where shares are kept.
type Shares interface {
	PutShare(ctx context.Context, x journal.Share) error
	Shares(ctx context.Context) ([]journal.Share, error)
	Share(ctx context.Context, id string) (journal.Share, error)
	Frozen(ctx context.Context, id string) (json.RawMessage, error)
	ChangeShare(ctx context.Context, x journal.Share) error
	EndShares(ctx context.Context, at int64) error
	ViewShare(ctx context.Context, id string, at int64) error
}

// shareRecord is what is kept of a share beside what the store knows.
type shareRecord struct {
	Terms      share.Terms `json:"terms"`
	Label      string      `json:"label,omitempty"`
	Passphrase string      `json:"passphrase,omitempty"` // hashed
	By         string      `json:"by"`                   // name of the device that made it
	Known      []string    `json:"known,omitempty"`      // ids of the findings that its owner has seen
}

// house is all that guests can reach. It implements guests.House.
type house struct{ server *Server }

// Visit lets nobody see why there is nothing.
func (h house) Visit(ctx context.Context, id, token string) (guests.Room, error) {
	s := h.server
	x, err := s.share(ctx, id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(x.TokenHash), []byte(hashToken(token))) != 1 || !open(x, time.Now()) {
		return nil, guests.ErrNone
	}
	return s.room(x)
}

// share asks the store on a stack of its own, as auth does: a stream would keep it.
func (s *Server) share(ctx context.Context, id string) (x journal.Share, err error) {
	var asking sync.WaitGroup
	asking.Go(func() { x, err = s.Shares.Share(ctx, id) })
	asking.Wait()
	return x, err
}

// open reports whether a share can be looked at.
func open(x journal.Share, now time.Time) bool {
	return x.EndedAt == 0 && now.UnixMilli() < x.ExpiresAt
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// room is what guests look at: a share, or what its owner is shown before there is one.
// It implements guests.Room, and is the subject of a feed.
type room struct {
	server  *Server
	id      string // of the share; "" for none
	session string // id
	record  shareRecord
	guest   views.Guest
	still   *snapshot.Session // what stands still, if it is at hand
	until   time.Time
}

func (s *Server) room(x journal.Share) (*room, error) {
	r := &room{server: s, id: x.ID, session: strings.TrimPrefix(x.Session, state.SessionScheme), until: time.UnixMilli(x.ExpiresAt)}
	if err := json.Unmarshal(x.Record, &r.record); err != nil {
		return nil, err
	}
	r.guest = views.Guest{Base: "/v/" + x.ID, Live: r.record.Terms.Live, At: x.CreatedAt, Until: x.ExpiresAt}
	return r, nil
}

func (r *room) key() pageKey { return pageKey{id: r.session, viewOnly: true, share: r.guest.Base} }

func (r *room) context(all context.Context) context.Context { return views.WithGuest(all, r.guest) }

func (r *room) sheet(f *feed) sheet {
	return &sharedSheet{Sheet: f.newSheet(), room: r, projection: share.New(r.record.Terms, r.server.Redactor), wake: f.wake}
}

// draw draws a page of the room as it is now.
func (r *room) draw(c echo.Context, of func(*views.Sheet) (templ.Component, error)) error {
	var b bytes.Buffer
	err := r.server.feeds.look(r, func(s sheet) error {
		page, err := of(s.(*sharedSheet).Sheet)
		if err != nil {
			return err
		}
		return page.Render(r.context(context.WithoutCancel(c.Request().Context())), &b)
	})
	if err != nil {
		return err
	}
	return c.HTMLBlob(http.StatusOK, b.Bytes())
}

// picture is what the room shows now.
func (r *room) picture() (seen snapshot.Session, found []share.Found, err error) {
	err = r.server.feeds.look(r, func(s sheet) error {
		x := s.(*sharedSheet)
		seen, found = x.Picture(), x.projection.Found()
		return nil
	})
	return seen, found, err
}

func (r *room) Until() time.Time { return r.until }

func (r *room) Page(c echo.Context) error {
	r.server.outside.known(c.Request())
	return r.draw(c, func(s *views.Sheet) (templ.Component, error) { return s.Page(views.Draft{}), nil })
}

func (r *room) Earlier(c echo.Context) error {
	return r.draw(c, func(s *views.Sheet) (templ.Component, error) { return earlierPage(c, s) })
}

func (r *room) Whole(c echo.Context) error {
	return r.draw(c, func(s *views.Sheet) (templ.Component, error) {
		turn, part, err := partOf(c, s.Picture())
		return views.WholePage(s.Picture(), turn, part), err
	})
}

func (r *room) Files(c echo.Context) error { return r.server.showFiles(c, r.changes) }
func (r *room) File(c echo.Context) error  { return r.server.showFile(c, r.changes) }

func (r *room) changes(c echo.Context) (views.Changes, error) {
	seen, _, err := r.picture()
	if err != nil {
		return views.Changes{}, err
	}
	turn, part, err := partOf(c, seen)
	if err != nil {
		return views.Changes{}, err
	}
	ctx := r.context(c.Request().Context())
	c.SetRequest(c.Request().WithContext(ctx))
	return views.PartChanges(ctx, seen, turn, part), nil
}

// Locked compares in constant time.
func (r *room) Locked(key string) bool {
	return r.record.Passphrase != "" && !hmac.Equal([]byte(key), []byte(r.passKey()))
}

// passKey is what a guest has who knew the passphrase. It is worth nothing for another
// share, and cannot be made without what is kept here.
func (r *room) passKey() string {
	mac := hmac.New(sha256.New, []byte(r.record.Passphrase))
	_, _ = mac.Write([]byte(r.id)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

func (r *room) Unlock(c echo.Context, passphrase string) (string, error) {
	if !r.Locked("") {
		return "", nil
	}
	l := r.server.limiter
	giveBack, err := l.take(l.phrases.of(r.id+" "+network(reachOf(c.Request()).From).String()), l.allPhrases.of(r.id))
	if err != nil {
		return "", err
	}
	err = auth.CheckPassword(c.Request().Context(), r.record.Passphrase, passphrase)
	if errors.Is(err, auth.ErrBadProof) {
		return "", guests.ErrWrong
	} else if err != nil {
		return "", err
	}
	giveBack()
	return r.passKey(), nil
}

func (r *room) Lock(c echo.Context, status int, problem string) error {
	c.SetRequest(c.Request().WithContext(r.context(c.Request().Context())))
	return r.server.render(c, status, views.LockPage(r.guest, problem))
}

// Count has nobody wait, and keeps nobody out, if it cannot be written.
func (r *room) Count(ctx context.Context) {
	if err := r.server.Shares.ViewShare(ctx, r.id, time.Now().UnixMilli()); err != nil {
		r.server.Log.Warn("a view was not counted", "err", err)
	}
}

// Live streams what changes until the share ends.
func (r *room) Live(c echo.Context) error {
	s := r.server
	if !r.guest.Live {
		return guests.ErrNone
	}
	s.outside.known(c.Request())
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	at, leave := s.guestbook.enter(r.id, network(reachOf(c.Request()).From), s.Limits, cancel)
	if at == nil {
		return problemFull
	}
	defer leave()
	defer time.AfterFunc(time.Until(r.until), at.goodbye).Stop()
	// Whoever's share was ended between the check of the request and enter.
	if x, err := s.share(ctx, r.id); err != nil || !open(x, time.Now()) {
		return guests.ErrNone
	}
	return s.streams.serve(ctx, cancel, c, r, at)
}

// guestbook knows who looks at shares now.
type guestbook struct {
	mu   sync.Mutex
	here map[string]map[*seat]netip.Prefix // by share: from where
}

// enter gives a guest a seat, nil if there are too many.
func (b *guestbook) enter(id string, from netip.Prefix, l Limits, end context.CancelFunc) (at *seat, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	near := 0
	for _, x := range b.here[id] {
		if x == from {
			near++
		}
	}
	if len(b.here[id]) >= l.Guests || near >= l.Neighbours {
		return nil, nil
	}
	at = newSeat(end)
	if b.here[id] == nil {
		b.here[id] = map[*seat]netip.Prefix{}
	}
	b.here[id][at] = from
	return at, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.here[id], at); len(b.here[id]) == 0 {
			delete(b.here, id)
		}
	}
}

// cut ends what the guests of a share look at.
func (b *guestbook) cut(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.here[id] {
		at.goodbye()
	}
}

// count is how many look at a share.
func (b *guestbook) count(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.here[id])
}

// sharedSheet is the page of a share.
type sharedSheet struct {
	*views.Sheet
	room       *room
	projection *share.Projection
	wake       func()
	again      *time.Timer // runs while text is held back
}

func (s *sharedSheet) refresh(ctx context.Context) (bool, error) {
	r := s.room
	if r.record.Terms.Live && r.still == nil {
		is, err := r.server.Hub.Session(r.session)
		if err != nil {
			return false, err
		}
		seen, changed, again := s.projection.Take(is, time.Now())
		if s.again != nil {
			s.again.Stop()
		}
		if again > 0 {
			s.again = time.AfterFunc(again, s.wake)
		}
		return s.show(ctx, seen, changed), nil
	}
	if s.Shown() {
		return s.show(ctx, snapshot.Session{}, nil), nil
	}
	if r.still == nil {
		raw, err := r.server.Shares.Frozen(ctx, r.id)
		if err != nil {
			return false, err
		}
		seen, err := share.Thaw(raw)
		if err != nil {
			return false, err
		}
		r.still = &seen
	}
	return s.show(ctx, *r.still, []snapshot.Part{{Kind: snapshot.Root}}), nil
}

// show takes up a picture, if parts of it have changed, and reports whether anything
// looks different.
func (s *sharedSheet) show(ctx context.Context, seen snapshot.Session, changed []snapshot.Part) bool {
	if len(changed) > 0 {
		seen.ID = s.room.key().page()
		s.Show(ctx, seen, snapshot.Inbox{}, changed)
	}
	return s.Relight(ctx) || len(changed) > 0
}

func (s *sharedSheet) at(c views.Cursor) views.Position { return s.At(c) }

func (s *sharedSheet) since(ctx context.Context, b *bytes.Buffer, from views.Position) (views.Position, error) {
	return s.Here(), s.Since(ctx, b, from)
}

func (s *sharedSheet) here() views.Position { return s.Here() }
