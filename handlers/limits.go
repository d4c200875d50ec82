package handlers

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"nod/handlers/auth"
	"nod/state"
)

// Limits bound how often somebody may ask, each a number a minute that may come at
// once, and how much may be open.
type Limits struct {
	Door     int // tries to come in that fail, from one address
	AllDoors int // such tries from anywhere
	Proofs   int // proofs of one device that are wrong: it may be in the hands of somebody else
	Changes  int // posts of one device, its answers to agents left out
	Allows   int // answers of one device that let an agent do something; one may refuse as often as one likes

	Lost int // addresses of shares that are none, from one address

	Guests     int // live pages of one share
	Neighbours int // of them, from one address

	Strangers int // connections on which nobody has logged in
	Streams   int // live pages of all devices
	Device    int // live pages of one device
}

// DefaultLimits are what a person does not reach: somebody who tries passwords, or
// a page gone wild, does.
var DefaultLimits = Limits{Door: 5, AllDoors: 30, Proofs: 5, Changes: 60, Allows: 30, Lost: 20, Guests: 50, Neighbours: 5, Strangers: 50, Streams: 200, Device: 20}

// maxBuckets bounds what is remembered of addresses and devices: some 2 MB. Of more
// the ones that were not heard of for longest are forgotten; the bound on all
// addresses together stays.
const maxBuckets = 10_000

// maxForm bounds every form but those with images; a prompt with a pasted log fits,
// and a command that was edited.
const maxForm = 1 << 20

// maxStranger bounds the form of somebody who has not logged in: a token, a
// password or a passkey's signature.
const maxStranger = 4 << 10

// maxCard bounds the answer to a request that can neither be edited nor asks for
// text: a reason, each byte of which a form may write as three, and a proof.
const maxCard = state.MaxReason*4*3 + 8<<10

// maxLines is how many lines a minute strangers cause in the log.
const maxLines = 60

// limiter counts. Its buckets are filled at an even rate.
type limiter struct {
	now     func() time.Time
	all     *rate.Limiter // every stranger
	logs    *rate.Limiter // lines that strangers cause in the log
	doors   *buckets[netip.Prefix]
	proofs  *buckets[string] // by device, as are the rest
	changes *buckets[string]
	allows  *buckets[string]
	lost    *buckets[netip.Prefix]

	phrases    *buckets[string] // by share and network
	allPhrases *buckets[string] // by share
}

func newLimiter(l Limits) *limiter {
	return &limiter{
		now: time.Now, all: perMinute(l.AllDoors), logs: perMinute(maxLines), doors: newBuckets[netip.Prefix](l.Door),
		proofs: newBuckets[string](l.Proofs), changes: newBuckets[string](l.Changes), allows: newBuckets[string](l.Allows),
		lost: newBuckets[netip.Prefix](l.Lost), phrases: newBuckets[string](l.Door), allPhrases: newBuckets[string](l.AllDoors),
	}
}

func perMinute(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(n)/60), n) }

// buckets are limiters of one size, made when they are needed.
type buckets[K comparable] struct {
	size int

	mu    sync.Mutex
	known *simplelru.LRU[K, *rate.Limiter]
}

func newBuckets[K comparable](size int) *buckets[K] {
	known, err := simplelru.NewLRU[K, *rate.Limiter](maxBuckets, nil)
	if err != nil {
		panic(err) // only of a size that is none
	}
	return &buckets[K]{size: size, known: known}
}

func (b *buckets[K]) of(key K) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.known.Get(key)
	if !ok {
		l = perMinute(b.size)
		b.known.Add(key, l)
	}
	return l
}

// take takes one out of each bucket, or nothing and says so. What was taken can be
// given back.
func (l *limiter) take(from ...*rate.Limiter) (giveBack func(), err error) {
	now := l.now()
	var taken []*rate.Reservation
	giveBack = func() {
		for _, r := range taken {
			r.CancelAt(now)
		}
	}
	for _, b := range from {
		r := b.ReserveN(now, 1)
		taken = append(taken, r)
		if wait := r.DelayFrom(now); wait > 0 {
			giveBack()
			return nil, &tooOften{problemTooOften, wait}
		}
	}
	return giveBack, nil
}

// tooOften is problemTooOften, and how long to wait.
type tooOften struct {
	*userError
	wait time.Duration
}

func (e *tooOften) Unwrap() error { return e.userError }

// seconds rounds up.
func (e *tooOften) seconds() int { return int(math.Ceil(e.wait.Seconds())) }

// told returns the problem with the time in it, and tells it to the browser.
func (e *tooOften) told(h http.Header) *userError {
	h.Set("Retry-After", fmt.Sprint(e.seconds()))
	u := *e.userError
	u.Next += fmt.Sprintf(" Try again in %d seconds.", e.seconds())
	return &u
}

// network is what counts as one address: whoever has one of IPv6 mostly has all of
// its /64.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.WithZone("").Prefix(bits) // an address that is not known is one, too
	return p
}

// limit bounds what a route changes, and by whom. A try to come in that succeeds
// is given back, so that it costs only those who guess.
func (s *Server) limit(who scope, path string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if who != public {
				s.outside.known(c.Request())
			}
			if c.Request().Method != http.MethodPost || path == decidePath { // which counts itself
				return next(c)
			}
			if who != public {
				if _, err := s.limiter.take(s.limiter.changes.of(device(c).ID)); err != nil {
					return err
				}
				if !uploads(c) { // which are read where they are understood
					if err := bounded(c, maxForm); err != nil {
						return err
					}
				}
				return next(c)
			}
			if err := bounded(c, maxStranger); err != nil {
				return err
			}
			giveBack, often := s.limiter.take(s.limiter.doors.of(network(reachOf(c.Request()).From)), s.limiter.all)
			if often != nil {
				if s.limiter.logs.Allow() {
					s.Log.Warn("somebody tries to come in too often", "address", reachOf(c.Request()).From)
				}
				// Only a password can be guessed. Everything else is looked at all the same, so
				// that nobody keeps the owner out by guessing.
				if c.FormValue("password") != "" {
					return often
				}
				c.Set(tooOftenKey, often)
			}
			err := next(c)
			switch {
			case err == nil && c.Response().Status < http.StatusBadRequest && often == nil:
				giveBack()
			case err != nil && often != nil:
				return often
			}
			return err
		}
	}
}

// tooOftenKey is where a request has the error of its limit, if what it brings is
// looked at all the same.
const tooOftenKey = "too often"

// prove asks for a proof that a person is there. One that is right costs nothing.
func (s *Server) prove(c echo.Context, challenge string) error {
	giveBack, err := s.limiter.take(s.limiter.proofs.of(device(c).ID))
	if err != nil {
		return err
	}
	err = s.Auth.Verify(c.Request().Context(), c.Request(), device(c), proof(c), challenge)
	if err == nil || errors.Is(err, auth.ErrNoProof) {
		giveBack()
	}
	return err
}

// bounded reads a form, unless it is larger than it may be.
func bounded(c echo.Context, most int64) error {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, most)
	err := r.ParseForm()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problemTooLarge
	case err != nil:
		return problemForm
	}
	return nil
}
