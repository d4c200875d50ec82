package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"nod/state/journal"
)

// ErrBadToken means that a login token is unknown, used, or too old.
var ErrBadToken = errors.New("auth: the login token does not work")

// MintLogin stores a fresh one-time login token and returns it.
func MintLogin(ctx context.Context, s Store) (string, error) {
	token := secret()
	return token, s.PutLogin(ctx, hash(token), time.Now().Add(loginLife).UnixMilli())
}

// LoginFragment puts a token into the form that the login page reads.
func LoginFragment(token string) string { return "#k=" + token }

// Login exchanges a login token, or a whole login link that somebody has pasted,
// for a session that may operate: who sees nod's terminal is its owner.
func (a *Auth) Login(ctx context.Context, r *http.Request, token string) (*http.Cookie, journal.Device, error) {
	if _, after, ok := strings.Cut(token, "#k="); ok {
		token = after
	}
	err := a.Store.TakeLogin(ctx, hash(strings.TrimSpace(token)), time.Now().UnixMilli())
	if errors.Is(err, journal.ErrNotFound) {
		return nil, journal.Device{}, ErrBadToken
	} else if err != nil {
		return nil, journal.Device{}, err
	}
	return a.enter(ctx, r, ScopeOperate)
}

// LoginByProof exchanges the password or a passkey for a session that may operate.
func (a *Auth) LoginByProof(ctx context.Context, r *http.Request, p Proof) (*http.Cookie, journal.Device, error) {
	p.Code = "" // is for who is in
	a.keys.RLock()
	defer a.keys.RUnlock()
	if err := a.check(ctx, r, p, ""); err != nil {
		return nil, journal.Device{}, err
	}
	return a.enter(ctx, r, ScopeOperate)
}

// enter makes a session. The name is the browser's own account of itself. An older
// session of the same browser ends: what a stranger may have put there is worth
// nothing. A cookie that others may have read along is good to look and nothing more,
// also where nobody could.
func (a *Auth) enter(ctx context.Context, r *http.Request, scope string) (*http.Cookie, journal.Device, error) {
	if old, err := a.Who(r); err == nil {
		if err := a.Revoke(ctx, old.ID); err != nil {
			return nil, journal.Device{}, err
		}
	}
	if !a.Private(r) {
		scope = ScopeView
	}
	value, now := secret(), time.Now().UnixMilli()
	d := journal.Device{ID: strings.ToLower(rand.Text()), TokenHash: hash(value), Name: deviceName(r.UserAgent()), Scope: scope, CreatedAt: now, SeenAt: now}
	if scope == ScopeOperate { // whoever has come in like that has just shown that it is they
		d.VerifiedAt = now
	}
	if err := a.Store.PutDevice(ctx, d); err != nil {
		return nil, journal.Device{}, err
	}
	return a.cookie(r, value, int(fullLife.Seconds())), d, nil
}
