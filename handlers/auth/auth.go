// Package auth answers one question: who is asking?
//
// A person gets in with a one-time token that nod prints in its terminal. The
// token travels in the fragment of a link, which browsers send to nobody, and is
// exchanged by POST for a session cookie. Only hashes of both are stored.
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

// ErrBadToken means that a login token is unknown, used, or too old.
var ErrBadToken = errors.New("auth: the login token does not work")

// Store is what auth needs of the journal.
type Store interface {
	PutLogin(ctx context.Context, hash string, expires int64) error
	TakeLogin(ctx context.Context, hash string, now int64) error
	PutDevice(ctx context.Context, d journal.Device) error
	Device(ctx context.Context, tokenHash string) (journal.Device, error)
	Devices(ctx context.Context) ([]journal.Device, error)
	SeeDevice(ctx context.Context, id string, at int64) error
	DeleteDevice(ctx context.Context, id string) error
}

// Auth knows who may come in.
type Auth struct {
	store  Store
	cookie string // name
	path   string // that the cookie is sent to

	mu    sync.Mutex
	holds map[string]map[*hold]struct{} // by device id: what ends with its session
}

type hold struct{ end context.CancelFunc }

// New returns an Auth whose cookie belongs to one port and path: cookies do not
// tell ports apart by themselves.
func New(store Store, port int, basePath string) *Auth {
	return &Auth{store: store, cookie: fmt.Sprintf("nod_%d", port), path: basePath + "/", holds: map[string]map[*hold]struct{}{}}
}

// MintLogin stores a fresh one-time login token and returns it.
func MintLogin(ctx context.Context, s Store) (string, error) {
	token := secret()
	return token, s.PutLogin(ctx, hash(token), time.Now().Add(loginLife).UnixMilli())
}

// LoginFragment puts a token into the form that the login page reads.
func LoginFragment(token string) string { return "#k=" + token }

func secret() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Login exchanges a login token, or a whole login link that somebody has pasted,
// for a session. The name is the browser's own account of itself. An older
// session of the same browser ends.
func (a *Auth) Login(ctx context.Context, r *http.Request, token string) (*http.Cookie, error) {
	if _, after, ok := strings.Cut(token, "#k="); ok {
		token = after
	}
	now := time.Now()
	err := a.store.TakeLogin(ctx, hash(strings.TrimSpace(token)), now.UnixMilli())
	if errors.Is(err, journal.ErrNotFound) {
		return nil, ErrBadToken
	} else if err != nil {
		return nil, err
	}
	if old, err := a.Who(r); err == nil {
		if err := a.Revoke(ctx, old.ID); err != nil {
			return nil, err
		}
	}
	value := secret()
	d := journal.Device{ID: strings.ToLower(rand.Text()), TokenHash: hash(value), Name: deviceName(r.UserAgent()), CreatedAt: now.UnixMilli(), SeenAt: now.UnixMilli()}
	if err := a.store.PutDevice(ctx, d); err != nil {
		return nil, err
	}
	return a.newCookie(value, int(fullLife.Seconds())), nil
}

// newCookie is HttpOnly and SameSite, but not Secure: nod listens on loopback
// without TLS, where browsers disagree about Secure.
func (a *Auth) newCookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: a.cookie, Value: value, Path: a.path, MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// Who returns the device that sent a request.
func (a *Auth) Who(r *http.Request) (journal.Device, error) {
	c, err := r.Cookie(a.cookie)
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
	if ended(d, now) {
		return d, errors.Join(ErrNotLoggedIn, a.Revoke(r.Context(), d.ID))
	}
	if now.Sub(time.UnixMilli(d.SeenAt)) > seenEvery {
		// Only a label: a disk that is full must not lock anybody out.
		_ = a.store.SeeDevice(r.Context(), d.ID, now.UnixMilli())
	}
	return d, nil
}

// device asks the store on a stack of its own. SQLite's grows deep, and a stream's
// goroutine would keep that: 6 KiB for each of a thousand viewers.
func (a *Auth) device(ctx context.Context, hash string) (d journal.Device, err error) {
	var asking sync.WaitGroup
	asking.Go(func() { d, err = a.store.Device(ctx, hash) })
	asking.Wait()
	return d, err
}

// ended reports whether a device's session is over by its age.
func ended(d journal.Device, now time.Time) bool {
	return now.Sub(time.UnixMilli(d.SeenAt)) > idleLife || now.Sub(time.UnixMilli(d.CreatedAt)) > fullLife
}

// Devices returns the devices that are logged in, the one seen last first.
func (a *Auth) Devices(ctx context.Context) ([]journal.Device, error) {
	all, err := a.store.Devices(ctx)
	now := time.Now()
	return slices.DeleteFunc(all, func(d journal.Device) bool { return ended(d, now) }), err
}

// RevokeOthers ends the sessions of all devices but one.
func (a *Auth) RevokeOthers(ctx context.Context, keep string) error {
	all, err := a.store.Devices(ctx)
	for _, d := range all {
		if d.ID != keep {
			err = errors.Join(err, a.Revoke(ctx, d.ID))
		}
	}
	return err
}

// Revoke ends a device's session and everything held by it.
func (a *Auth) Revoke(ctx context.Context, deviceID string) error {
	err := a.store.DeleteDevice(ctx, deviceID)
	a.mu.Lock()
	defer a.mu.Unlock()
	for h := range a.holds[deviceID] {
		h.end()
	}
	return err
}

// Forget returns the cookie that makes a browser forget its session.
func (a *Auth) Forget() *http.Cookie { return a.newCookie("", -1) }

// Hold returns a context that ends with the device's session, for what outlives
// the check of a request. release must be called.
func (a *Auth) Hold(ctx context.Context, deviceID string) (held context.Context, release func()) {
	held, end := context.WithCancel(ctx)
	h := &hold{end}
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
