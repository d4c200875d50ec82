// Package auth answers two questions: who is asking, and is it really they?
//
// A person gets in with a one-time token that nod prints in its terminal, with the
// password, with a passkey (login.go), or by a device that is in already (pair.go).
// The token travels in the fragment of a link, which browsers send to nobody, and
// is exchanged by POST for a session cookie. Only hashes of both are stored.
//
// What is risky asks for more than a cookie: a proof that the person is there
// (proof.go).
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"nod/state/journal"
)

const (
	// loginLife is how long a printed link works: long enough to walk to the
	// phone, short enough to be forgotten in a scrollback.
	loginLife = 10 * time.Minute
	// idleLife ends a session that nobody used: two weeks of holiday.
	idleLife = 14 * 24 * time.Hour
	// fullLife ends every session.
	fullLife = 90 * 24 * time.Hour
	// seenEvery bounds how often use of a session is written down.
	seenEvery = time.Hour
	// tokenBytes is the size of every secret.
	tokenBytes = 32
)

// ErrNotLoggedIn means that a request carries no valid session.
var ErrNotLoggedIn = errors.New("auth: not logged in")

// Store is what auth needs of the journal.
type Store interface {
	PutLogin(ctx context.Context, hash string, expires int64) error
	TakeLogin(ctx context.Context, hash string, now int64) error
	PutDevice(ctx context.Context, d journal.Device) error
	Device(ctx context.Context, tokenHash string) (journal.Device, error)
	Devices(ctx context.Context) ([]journal.Device, error)
	SeeDevice(ctx context.Context, id string, at int64) error
	VerifyDevice(ctx context.Context, id string, at int64) error
	RenameDevice(ctx context.Context, id, name string) error
	GrantDevice(ctx context.Context, id, scope string, now bool) error
	RenewDevice(ctx context.Context, id, tokenHash, newHash string) error
	DeleteDevice(ctx context.Context, id string) error
	PutPasskey(ctx context.Context, k journal.Passkey) error
	Passkeys(ctx context.Context) ([]journal.Passkey, error)
	DeletePasskey(ctx context.Context, id string) error
	PutDoor(ctx context.Context, key, value string) error
	Door(ctx context.Context, key string) (string, error)
}

// Scopes of a device. It may look at everything, or also decide, write and change.
const (
	ScopeView    = "view"
	ScopeOperate = "operate"
)

// Config is what an Auth is made of.
type Config struct {
	Store    Store
	Port     int    // that the server listens on: cookies do not tell ports apart by themselves
	BasePath string // "" or a path that begins with a slash
	// Secure reports whether a request came over TLS, from the browser to nod or
	// to the proxy before it.
	Secure func(*http.Request) bool
	// Private reports whether nobody on the way of a request could read it along.
	Private func(*http.Request) bool
	// VerifyEvery is how long a proof that the person is there suffices for what is
	// not risky by itself; 0 for MaxVerify.
	VerifyEvery time.Duration
}

// Auth knows who may come in.
type Auth struct {
	Config
	key  []byte // that challenges are signed with, of this process
	pair pairing

	// keys is held to read while a password or a passkey is looked at, until what it
	// leads to is on disk; and to write while one is changed. So nobody comes in with
	// one that is gone.
	keys sync.RWMutex

	mu    sync.Mutex
	holds map[string]map[*hold]struct{} // by device id: what ends with its session
	used  map[string]time.Time          // challenges that have been answered, and when they end
	door  map[string]time.Time          // by device id: when its person proved to be there to change the door
}

type hold struct{ end context.CancelFunc }

// New returns an Auth.
func New(cfg Config) *Auth {
	if cfg.VerifyEvery == 0 {
		cfg.VerifyEvery = MaxVerify
	}
	return &Auth{Config: cfg, key: random(), holds: map[string]map[*hold]struct{}{}, used: map[string]time.Time{}, door: map[string]time.Time{}}
}

func random() []byte {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	return b
}

func secret() string { return base64.RawURLEncoding.EncodeToString(random()) }

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// cookie is the session cookie for whoever sent r. Over TLS its name begins with
// __Host-, so that no neighbour on the same domain can set it. It is not Secure on
// loopback without TLS, where browsers disagree about Secure. The port keeps apart
// what is at one name.
func (a *Auth) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	c := &http.Cookie{Name: fmt.Sprintf("nod_%d", a.Port), Value: value, Path: a.BasePath + "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if a.Secure(r) {
		c.Name, c.Path, c.Secure = "__Host-"+c.Name, "/", true
	}
	return c
}

// Who returns the device that sent a request.
func (a *Auth) Who(r *http.Request) (journal.Device, error) {
	c, err := r.Cookie(a.cookie(r, "", 0).Name)
	if err != nil {
		return journal.Device{}, ErrNotLoggedIn
	}
	d, err := a.device(r.Context(), hash(c.Value))
	if errors.Is(err, journal.ErrNotFound) {
		return d, ErrNotLoggedIn
	} else if err != nil {
		return d, err
	}
	now := time.Now()
	if ended(d, now) { // it stays on record for some time: a clock that has jumped must log nobody out for good
		return d, ErrNotLoggedIn
	}
	if now.Sub(time.UnixMilli(d.SeenAt)) > seenEvery {
		// Only a label: a disk that is full must not lock anybody out.
		_ = a.Store.SeeDevice(r.Context(), d.ID, now.UnixMilli())
	}
	return d, nil
}

// device asks the store on a stack of its own. SQLite's grows deep, and a stream's
// goroutine would keep that: 6 KiB for each of a thousand viewers.
func (a *Auth) device(ctx context.Context, hash string) (d journal.Device, err error) {
	var asking sync.WaitGroup
	asking.Go(func() { d, err = a.Store.Device(ctx, hash) })
	asking.Wait()
	return d, err
}

// ended reports whether a device's session is over by its age.
func ended(d journal.Device, now time.Time) bool {
	return now.Sub(time.UnixMilli(d.SeenAt)) > idleLife || now.Sub(time.UnixMilli(d.CreatedAt)) > fullLife
}

// Devices returns the devices that are logged in, the one seen last first.
func (a *Auth) Devices(ctx context.Context) ([]journal.Device, error) {
	all, err := a.Store.Devices(ctx)
	now := time.Now()
	return slices.DeleteFunc(all, func(d journal.Device) bool { return ended(d, now) }), err
}

// RevokeOthers ends the sessions of all devices but one.
func (a *Auth) RevokeOthers(ctx context.Context, keep string) error {
	all, err := a.Store.Devices(ctx)
	for _, d := range all {
		if d.ID != keep {
			err = errors.Join(err, a.Revoke(ctx, d.ID))
		}
	}
	return err
}

// RevokeAll ends the sessions of all devices of a store that no Auth uses.
func RevokeAll(ctx context.Context, s Store) error {
	all, err := s.Devices(ctx)
	for _, d := range all {
		err = errors.Join(err, s.DeleteDevice(ctx, d.ID))
	}
	return err
}

// Revoke ends a device's session and everything held by it.
func (a *Auth) Revoke(ctx context.Context, deviceID string) error {
	err := a.Store.DeleteDevice(ctx, deviceID)
	a.release(deviceID)
	a.pair.withdraw(deviceID)
	return err
}

// release ends what a device holds.
func (a *Auth) release(deviceID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for h := range a.holds[deviceID] {
		h.end()
	}
}

// Forget returns the cookie that makes the browser that sent r forget its session.
func (a *Auth) Forget(r *http.Request) *http.Cookie { return a.cookie(r, "", -1) }

// Grant changes what a device may do. To look is all it may do at once; to operate
// it needs another cookie, which it gets with its next page (see Renew), so that
// nobody who knows the one it has gains by it. Its open pages load again.
func (a *Auth) Grant(ctx context.Context, deviceID, scope string) error {
	if err := a.Store.GrantDevice(ctx, deviceID, scope, scope == ScopeView); err != nil {
		return err
	}
	a.release(deviceID)
	return nil
}

// MayRenew reports whether a device has been granted something that it can be given
// in answer to r: another cookie, which must not be read along.
func (a *Auth) MayRenew(r *http.Request, d journal.Device) bool {
	return d.Granted != "" && (d.Granted == ScopeView || a.Private(r))
}

// Renew gives a device the scope that it was granted, and another cookie. The old
// one is worth nothing any more. It must be called for one request of d at a time
// that stands for a page, and if MayRenew.
func (a *Auth) Renew(r *http.Request, d journal.Device) (*http.Cookie, journal.Device, error) {
	value, old := secret(), d.TokenHash
	d.TokenHash, d.Scope, d.Granted = hash(value), d.Granted, ""
	err := a.Store.RenewDevice(r.Context(), d.ID, old, d.TokenHash)
	if errors.Is(err, journal.ErrNotFound) {
		err = ErrNotLoggedIn
	}
	return a.cookie(r, value, int(fullLife.Seconds())), d, err
}

// Rename gives a device the name that its person knows it by.
func (a *Auth) Rename(ctx context.Context, deviceID, name string) error {
	return a.Store.RenameDevice(ctx, deviceID, name)
}

// Hold returns a context that ends with the device's session, for what outlives
// the check of a request. release must be called.
func (a *Auth) Hold(ctx context.Context, d journal.Device) (held context.Context, release func()) {
	held, end := context.WithDeadline(ctx, time.UnixMilli(d.CreatedAt).Add(fullLife))
	h, deviceID := &hold{end}, d.ID
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds[deviceID] == nil {
		a.holds[deviceID] = map[*hold]struct{}{}
	}
	a.holds[deviceID][h] = struct{}{}
	return held, func() {
		end()
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.holds[deviceID], h); len(a.holds[deviceID]) == 0 {
			delete(a.holds, deviceID)
		}
	}
}

// deviceName makes a short name of a user agent: enough to tell a phone from a
// laptop in a list.
func deviceName(userAgent string) string {
	system, browser := "a device", "A browser"
	for _, k := range []struct{ has, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Mac OS X", "Mac"}, {"Windows", "Windows"}, {"Linux", "Linux"},
	} {
		if strings.Contains(userAgent, k.has) {
			system = k.name
			break
		}
	}
	for _, k := range []struct{ has, name string }{{"Firefox/", "Firefox"}, {"Edg/", "Edge"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}} {
		if strings.Contains(userAgent, k.has) {
			browser = k.name
			break
		}
	}
	return browser + " on " + system
}
