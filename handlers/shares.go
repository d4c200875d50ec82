package handlers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/handlers/guests"
	"nod/state"
	"nod/state/journal"
	"nod/state/share"
	"nod/views"
)

// sharing are the routes of who shares; they are there if sharing is.
var sharing = []route{
	{"GET", "/s/:id/share", operate, (*Server).shareForm},
	{"POST", "/s/:id/share", operate, (*Server).preview},                                                    // live, from, reasoning, output, diffs, life, label, passphrase
	{"GET", "/previews/:preview", operate, (*Server).showPreview},                                           // what a guest would see
	{"POST", "/previews/:preview", operate, (*Server).endPreview},                                           // do: look, with shown; or make, with a proof
	{"GET", "/previews/:preview/before/:turn/:part", operate, inPreview(guests.Room.Earlier)},               // both counted from 0
	{"GET", "/previews/:preview/turns/:turn/parts/:part", operate, inPreview(guests.Room.Whole)},            // counted from 0
	{"GET", "/previews/:preview/turns/:turn/parts/:part/files", operate, inPreview(guests.Room.Files)},      // ?from=file
	{"GET", "/previews/:preview/turns/:turn/parts/:part/files/:file", operate, inPreview(guests.Room.File)}, // ?from=line
	{"GET", "/previews/:preview/take/:form", operate, (*Server).takePreview},                                // form: html, md or jsonl
	{"GET", "/shares", operate, (*Server).shares},
	{"GET", "/shares/:share", operate, (*Server).showShare},
	{"GET", "/shares/:share/take/:form", operate, (*Server).takeShare}, // form: html, md or jsonl
	{"POST", "/shares/:share/end", operate, (*Server).endShare},
	{"POST", "/shares/end", operate, (*Server).endShares},
}

// preview is what the owner of a session looks at before it is shared.
type preview struct {
	*room
	device string // that may look at it
	made   time.Time
	form   views.ShareForm
	found  []share.Found
}

const (
	// maxPreviews bounds the previews that are at hand: each holds a session.
	maxPreviews = 8
	// previewLife is how long one is.
	previewLife = 30 * time.Minute
	// Bounds of a passphrase, in characters.
	minPassphrase = 8
	maxPassphrase = 200
)

// previews are the last ones, by id.
type previews struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, *preview]
}

func newPreviews() *previews {
	known, err := simplelru.NewLRU[string, *preview](maxPreviews, nil)
	if err != nil {
		panic(err) // only of a size that is none
	}
	return &previews{known: known}
}

func (p *previews) add(id string, x *preview) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Add(id, x)
}

// take reports whether a preview is there, and takes it: one makes one share.
func (p *previews) take(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Remove(id)
}

func (p *previews) of(id, device string) (*preview, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x, ok := p.known.Get(id); ok && x.device == device && time.Since(x.made) < previewLife {
		return x, nil
	}
	return nil, problemPreview
}

func (s *Server) shareForm(c echo.Context) error {
	return s.showShareForm(c, http.StatusOK, views.ShareForm{
		Terms: share.Terms{Live: true, Output: true, Diffs: true}, Life: views.Lives[0],
	})
}

func (s *Server) showShareForm(c echo.Context, status int, f views.ShareForm) (err error) {
	if f.Session, err = s.Hub.Session(c.Param("id")); err != nil {
		return err
	}
	f.Public = s.publicAddress(c.Request())
	return s.render(c, status, views.ShareFormPage(f))
}

// preview makes what a guest would see.
func (s *Server) preview(c echo.Context) error {
	is := func(name string) bool { return c.FormValue(name) == "yes" }
	f := views.ShareForm{
		Label: strings.TrimSpace(c.FormValue("label")), Life: views.Lives[0],
		Terms: share.Terms{Live: is("live"), Reasoning: is("reasoning"), Output: is("output"), Diffs: is("diffs")},
	}
	again := func(problem string) error {
		f.Problem = problem
		return s.showShareForm(c, http.StatusUnprocessableEntity, f)
	}
	f.Terms.From, _ = number(c.FormValue("from")) // what is no number is the begin
	life, err := time.ParseDuration(c.FormValue("life"))
	if err != nil || !slices.Contains(views.Lives, life) {
		return again("Choose from the list when it ends.")
	}
	f.Life = life
	if utf8.RuneCountInString(f.Label) > maxDeviceName || !utf8.ValidString(f.Label) {
		return again("A label may have up to sixty characters.")
	}
	record := shareRecord{Terms: f.Terms, Label: f.Label, By: device(c).Name}
	if phrase := c.FormValue("passphrase"); phrase != "" {
		if n := utf8.RuneCountInString(phrase); n < minPassphrase || n > maxPassphrase {
			return again("A passphrase has at least eight characters, and at most two hundred.")
		}
		if record.Passphrase, err = auth.HashPassword(c.Request().Context(), phrase); err != nil {
			return err
		}
		f.Secret = true
	}
	return s.makePreview(c, c.Param("id"), record, f)
}

// makePreview takes the picture of a session as it is now.
func (s *Server) makePreview(c echo.Context, session string, record shareRecord, f views.ShareForm) error {
	is, err := s.Hub.Session(session)
	if err != nil {
		return err
	}
	projection := share.New(record.Terms, s.Redactor)
	now := time.Now()
	seen := projection.Once(is, now)
	id := strings.ToLower(rand.Text())
	s.previews.add(id, &preview{
		room: &room{
			server: s, session: session, record: record, still: &seen,
			guest: views.Guest{Base: "/previews/" + id, Live: record.Terms.Live, Alone: true, At: now.UnixMilli(), Until: now.Add(f.Life).UnixMilli()},
		},
		device: device(c).ID, made: now, form: f, found: projection.Found(),
	})
	return s.goTo(c, "/previews/"+id)
}

// inPreview shows a page of a preview as a guest would see it.
func inPreview(show func(guests.Room, echo.Context) error) func(*Server, echo.Context) error {
	return func(s *Server, c echo.Context) error {
		p, err := s.previews.of(c.Param("preview"), device(c).ID)
		if err != nil {
			return err
		}
		return show(p.room, c)
	}
}

func (s *Server) showPreview(c echo.Context) error {
	p, err := s.previews.of(c.Param("preview"), device(c).ID)
	if err != nil {
		return err
	}
	return s.drawPreview(c, http.StatusOK, p, "")
}

func (s *Server) drawPreview(c echo.Context, status int, p *preview, problem string) error {
	asked, err := s.proofAsked(c, s.Auth.Challenge())
	if err != nil {
		return err
	}
	asked.Why, asked.Problem = "A link lets others see what agents do here, so a browser that is logged in is not enough.", problem
	v := views.Preview{ID: c.Param("preview"), Form: p.form, Found: p.found, Proof: asked, Guest: p.guest}
	v.Form.Public = s.publicAddress(c.Request())
	if v.Form.Session, err = s.Hub.Session(p.session); err != nil {
		return err
	}
	var b bytes.Buffer
	err = s.feeds.look(p.room, func(x sheet) error {
		v.Sheet = x.(*sharedSheet).Sheet
		return views.PreviewPage(v).Render(c.Request().Context(), &b)
	})
	if err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}

// endPreview makes another preview, or the share.
func (s *Server) endPreview(c echo.Context) error {
	p, err := s.previews.of(c.Param("preview"), device(c).ID)
	if err != nil {
		return err
	}
	if c.FormValue("do") != "make" {
		record := p.record
		record.Terms.Shown = c.Request().PostForm["shown"]
		return s.makePreview(c, p.session, record, p.form)
	}
	if _, err := s.Hub.Session(p.session); err != nil { // it may be deleted
		return err
	}
	err = s.prove(c, "")
	if status, problem := s.refused(c, err, "route", c.Path()); status > 0 {
		return s.drawPreview(c, status, p, problem)
	} else if often, ok := errors.AsType[*tooOften](err); ok {
		u := often.told(c.Response().Header())
		return s.drawPreview(c, u.Status, p, u.Title+". "+u.Next)
	} else if err != nil {
		return err
	}
	id := c.Param("preview")
	if !s.previews.take(id) { // it was sent twice
		return problemPreview
	}
	err = s.makeShare(c, p)
	if err != nil {
		s.previews.add(id, p)
	}
	return err
}

// makeShare makes of a preview what others can look at. It knows the token only now.
func (s *Server) makeShare(c echo.Context, p *preview) error {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	token := base64.RawURLEncoding.EncodeToString(raw)
	record := p.record
	for _, f := range p.found {
		record.Known = append(record.Known, f.ID)
	}
	now := time.Now()
	x := journal.Share{
		ID: strings.ToLower(rand.Text()), TokenHash: hashToken(token), Session: state.SessionScheme + p.session,
		CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(p.form.Life).UnixMilli(),
	}
	var err error
	if x.Record, err = json.Marshal(record); err != nil {
		return err
	}
	if !record.Terms.Live {
		if x.Frozen, err = share.Freeze(*p.still); err != nil {
			return err
		}
	}
	if err := s.Shares.PutShare(c.Request().Context(), x); err != nil {
		return err
	}
	v, err := s.listed(x)
	if err != nil {
		return err
	}
	s.record(c, device(c), views.AuditShared, x.ID, views.ShareWords(v))
	at, public := s.publicAddress(c.Request()), true
	if at == "" {
		at, public = "http://"+c.Request().Host, false
		if reachOf(c.Request()).Secure {
			at = "https://" + c.Request().Host
		}
	}
	return s.render(c, http.StatusOK, views.ShareMadePage(v, at+s.BasePath+"/v/"+x.ID+"/k/"+token, public))
}

// listed is a share as its owner sees it.
func (s *Server) listed(x journal.Share) (views.Share, error) {
	r, err := s.room(x)
	if err != nil {
		return views.Share{}, err
	}
	v := views.Share{
		ID: x.ID, Session: r.session, Label: r.record.Label, Terms: r.record.Terms, Secret: r.record.Passphrase != "", By: r.record.By,
		Made: x.CreatedAt, Until: x.ExpiresAt, Ended: x.EndedAt, Views: x.Views, ViewedAt: x.ViewedAt,
		Now: s.guestbook.count(x.ID), Over: !open(x, time.Now()),
	}
	if is, err := s.Hub.Session(r.session); err == nil {
		v.Title = views.Title(is)
	}
	return v, nil
}

func (s *Server) shares(c echo.Context) error {
	all, err := s.Shares.Shares(c.Request().Context())
	if err != nil {
		return err
	}
	list := make([]views.Share, len(all))
	for i, x := range all {
		if list[i], err = s.listed(x); err != nil {
			return err
		}
	}
	return s.render(c, http.StatusOK, views.SharesPage(list))
}

func (s *Server) showShare(c echo.Context) error {
	x, err := s.Shares.Share(c.Request().Context(), c.Param("share"))
	if err != nil {
		return err
	}
	v, err := s.listed(x)
	if err != nil {
		return err
	}
	var found []share.Found
	fresh := 0
	if !v.Over && v.Terms.Live {
		r, err := s.room(x)
		if err != nil {
			return err
		}
		if _, found, err = r.picture(); err != nil {
			return err
		}
		known := func(f share.Found) int { // new ones go first
			if slices.Contains(r.record.Known, f.ID) {
				return 1
			}
			fresh++
			return 0
		}
		rank := map[string]int{}
		for _, f := range found {
			rank[f.ID] = known(f)
		}
		slices.SortStableFunc(found, func(a, b share.Found) int { return rank[a.ID] - rank[b.ID] })
	}
	return s.render(c, http.StatusOK, views.SharePage(v, found, fresh))
}

func (s *Server) takePreview(c echo.Context) error {
	p, err := s.previews.of(c.Param("preview"), device(c).ID)
	if err != nil {
		return err
	}
	return s.take(c, p.room)
}

func (s *Server) takeShare(c echo.Context) error {
	x, err := s.Shares.Share(c.Request().Context(), c.Param("share"))
	if err != nil {
		return err
	}
	r, err := s.room(x)
	if err != nil {
		return err
	}
	return s.take(c, r)
}

// take sends what guests see as a file.
func (s *Server) take(c echo.Context, r *room) error {
	seen, _, err := r.picture()
	if err != nil {
		return err
	}
	at := time.Now().UnixMilli()
	if r.still != nil || !r.guest.Live {
		at = r.guest.At
	}
	switch c.Param("form") {
	case "html":
		return s.download(c, "session.html", "text/html; charset=utf-8", func(ctx context.Context, w io.Writer) error { return views.Takeaway(seen, at).Render(ctx, w) })
	case "md":
		return s.download(c, "session.md", "text/markdown; charset=utf-8", func(_ context.Context, w io.Writer) error { return views.Transcript(w, seen, at) })
	case "jsonl":
		return s.download(c, "session.jsonl", jsonLines, func(_ context.Context, w io.Writer) error { return share.Lines(w, seen, r.guest.Live, at) })
	}
	return problemNoPage
}

// endShare has nobody look any more. One that has ended meanwhile is no error.
func (s *Server) endShare(c echo.Context) error {
	ctx := c.Request().Context()
	x, err := s.Shares.Share(ctx, c.Param("share"))
	if err != nil {
		return err
	}
	if x.EndedAt == 0 {
		x.EndedAt = time.Now().UnixMilli()
		if err := s.Shares.ChangeShare(ctx, x); err != nil {
			return err
		}
		s.guestbook.cut(x.ID)
		v, err := s.listed(x)
		if err != nil {
			return err
		}
		s.record(c, device(c), views.AuditUnshared, x.ID, views.ShareWords(v))
	}
	return s.goTo(c, "/shares")
}

func (s *Server) endShares(c echo.Context) error {
	ctx := c.Request().Context()
	if err := s.Shares.EndShares(ctx, time.Now().UnixMilli()); err != nil {
		return err
	}
	all, err := s.Shares.Shares(ctx) // after that, or one that is made meanwhile would be missed
	if err != nil {
		return err
	}
	for _, x := range all {
		s.guestbook.cut(x.ID)
	}
	s.record(c, device(c), views.AuditUnsharedAll, "", "")
	return s.goTo(c, "/shares")
}

// sharesOf are the shares of a session that can be looked at.
func (s *Server) sharesOf(c echo.Context, session string) (ids []string, err error) {
	if s.Redactor == nil {
		return nil, nil
	}
	all, err := s.Shares.Shares(c.Request().Context())
	for _, x := range all {
		if x.Session == state.SessionScheme+session && open(x, time.Now()) {
			ids = append(ids, x.ID)
		}
	}
	return ids, err
}

// asGuest is around all that guests may ask for.
func (s *Server) asGuest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("X-Robots-Tag", "noindex, nofollow, noarchive")
		if c.Request().Method == http.MethodPost {
			if err := bounded(c, maxStranger); err != nil {
				return err
			}
		}
		err := next(c)
		if errors.Is(err, guests.ErrNone) {
			if _, often := s.limiter.take(s.limiter.lost.of(network(reachOf(c.Request()).From))); often != nil {
				return often
			}
		}
		return err
	}
}

// robots keeps search engines out of everything.
func (s *Server) robots(c echo.Context) error {
	return c.String(http.StatusOK, "User-agent: *\nDisallow: /\n")
}
