package auth

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"nod/state/journal"
)

// challengeLife is how long a page may wait for a passkey.
const challengeLife = 5 * time.Minute

// doorHandle is where the name is kept that passkeys know nod's owner by.
const doorHandle = "passkey-handle"

// owner is who all passkeys belong to.
type owner struct {
	handle []byte
	keys   []webauthn.Credential
}

func (o owner) WebAuthnID() []byte                         { return o.handle }
func (o owner) WebAuthnName() string                       { return "nod" }
func (o owner) WebAuthnDisplayName() string                { return "nod" }
func (o owner) WebAuthnCredentials() []webauthn.Credential { return o.keys }

// site returns what passkeys need to know of the name that a request was sent to,
// nil where there can be none: they belong to a name, so not to an address, and
// want TLS, but for localhost.
func (a *Auth) site(r *http.Request) *webauthn.WebAuthn {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(host)
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	secure := a.Secure(r)
	if err == nil || strings.HasSuffix(host, ".local") || !secure && host != "localhost" {
		return nil
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	w, err := webauthn.New(&webauthn.Config{RPID: host, RPDisplayName: "nod", RPOrigins: []string{scheme + "://" + strings.ToLower(r.Host)}})
	if err != nil {
		return nil // not a name that a passkey can belong to
	}
	return w
}

// keysOf are the passkeys of the name that a request was sent to.
func (a *Auth) keysOf(ctx context.Context, r *http.Request) (out []webauthn.Credential, err error) {
	w := a.site(r)
	if w == nil {
		return nil, nil
	}
	all, err := a.Store.Passkeys(ctx)
	for _, k := range all {
		var c webauthn.Credential
		if k.Host == w.Config.RPID && json.Unmarshal(k.Record, &c) == nil {
			out = append(out, c)
		}
	}
	return out, err
}

// Passkeys returns all passkeys, oldest first.
func (a *Auth) Passkeys(ctx context.Context) ([]journal.Passkey, error) { return a.Store.Passkeys(ctx) }

// handle returns the random name of nod's owner, which is made once.
func (a *Auth) handle(ctx context.Context) ([]byte, error) {
	stored, err := a.Store.Door(ctx, doorHandle)
	if err == nil && stored == "" {
		stored = secret()
		err = a.Store.PutDoor(ctx, doorHandle, stored)
	}
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.DecodeString(stored)
}

// owner returns whose passkeys those of this name are.
func (a *Auth) owner(ctx context.Context, r *http.Request) (o owner, err error) {
	if o.keys, err = a.keysOf(ctx, r); err == nil {
		o.handle, err = a.handle(ctx)
	}
	return o, err
}

// Challenge returns what a passkey is to sign where there is nothing to agree to:
// random, of this process, good for a few minutes and once.
func (a *Auth) Challenge() string {
	b := make([]byte, 0, 24+sha256.Size)
	b = append(b, random()[:16]...)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().Add(challengeLife).UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(b, a.sign(b)...))
}

func (a *Auth) sign(b []byte) []byte {
	m := hmac.New(sha256.New, a.key)
	m.Write(b)
	return m.Sum(nil)
}

// use takes a challenge of Challenge, once.
func (a *Auth) use(challenge string) bool {
	b, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil || len(b) != 24+sha256.Size || !hmac.Equal(b[24:], a.sign(b[:24])) {
		return false
	}
	now, ends := time.Now(), time.UnixMilli(int64(binary.BigEndian.Uint64(b[16:24])))
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, end := range a.used {
		if now.After(end) {
			delete(a.used, c)
		}
	}
	if _, again := a.used[challenge]; again || now.After(ends) {
		return false
	}
	a.used[challenge] = ends
	return true
}

// AssertOptions returns, as JSON, what a browser needs to ask for a passkey that
// signs the challenge. They are no secret.
func (a *Auth) AssertOptions(ctx context.Context, r *http.Request, challenge string) (string, error) {
	w := a.site(r)
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	if w == nil || err != nil {
		return "", err
	}
	o, err := a.owner(ctx, r)
	if err != nil {
		return "", err
	}
	options, _, err := w.BeginLogin(o, webauthn.WithChallenge(raw), webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(options.Response)
	return string(b), err
}

// checkAssertion checks what a browser has made with a passkey. The person must
// have shown themselves to it, by a finger, a face or a PIN.
func (a *Auth) checkAssertion(ctx context.Context, r *http.Request, assertion, challenge string) error {
	w := a.site(r)
	if w == nil {
		return ErrBadProof
	}
	given, err := protocol.ParseCredentialRequestResponseBytes([]byte(assertion))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	o, err := a.owner(ctx, r)
	if err != nil {
		return err
	}
	free := challenge == ""
	if free {
		challenge = given.Response.CollectedClientData.Challenge
	}
	key, err := w.ValidateLogin(o, webauthn.SessionData{Challenge: challenge, UserID: o.handle, UserVerification: protocol.VerificationRequired}, given)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	if key.Authenticator.CloneWarning || free && !a.use(challenge) {
		return ErrBadProof
	}
	return a.keep(ctx, *key, w.Config.RPID, "")
}

// keep stores a passkey that was made or used now. name is "" for one that is known.
func (a *Auth) keep(ctx context.Context, c webauthn.Credential, host, name string) error {
	record, err := json.Marshal(c)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	k := journal.Passkey{ID: base64.RawURLEncoding.EncodeToString(c.ID), Host: host, Name: name, Record: record, CreatedAt: now, UsedAt: now}
	if name == "" {
		all, err := a.Store.Passkeys(ctx)
		if err != nil {
			return err
		}
		for _, known := range all {
			if known.ID == k.ID {
				k.Name, k.CreatedAt = known.Name, known.CreatedAt
			}
		}
	}
	return a.Store.PutPasskey(ctx, k)
}

// CreateOptions returns, as JSON, what a browser needs to make a passkey here.
func (a *Auth) CreateOptions(ctx context.Context, r *http.Request) (string, error) {
	w := a.site(r)
	if w == nil {
		return "", nil
	}
	o, err := a.owner(ctx, r)
	if err != nil {
		return "", err
	}
	var known []protocol.CredentialDescriptor
	for _, k := range o.keys {
		known = append(known, k.Descriptor())
	}
	options, _, err := w.BeginRegistration(o, webauthn.WithExclusions(known), webauthn.WithAuthenticatorSelection(protocol.AuthenticatorSelection{
		ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationRequired,
	}))
	if err != nil {
		return "", err
	}
	if options.Response.Challenge, err = base64.RawURLEncoding.DecodeString(a.Challenge()); err != nil {
		return "", err
	}
	b, err := json.Marshal(options.Response)
	return string(b), err
}

// AddPasskey keeps a passkey that a browser has made.
func (a *Auth) AddPasskey(ctx context.Context, r *http.Request, attestation, name string) error {
	w := a.site(r)
	if w == nil {
		return ErrBadProof
	}
	given, err := protocol.ParseCredentialCreationResponseBytes([]byte(attestation))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	o, err := a.owner(ctx, r)
	if err != nil {
		return err
	}
	challenge := given.Response.CollectedClientData.Challenge
	key, err := w.CreateCredential(o, webauthn.SessionData{
		Challenge: challenge, UserID: o.handle, UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersDefault(),
	}, given)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	if !a.use(challenge) {
		return ErrBadProof
	}
	for _, k := range o.keys {
		if bytes.Equal(k.ID, key.ID) {
			return ErrBadProof
		}
	}
	return a.keep(ctx, *key, w.Config.RPID, name)
}

// RemovePasskey forgets a passkey, and ends the sessions of all devices but the one
// that did: whoever has the key may have come in with it.
func (a *Auth) RemovePasskey(ctx context.Context, deviceID, id string) error {
	a.keys.Lock()
	defer a.keys.Unlock()
	a.pair.withdraw("")
	if err := a.Store.DeletePasskey(ctx, id); err != nil {
		return err
	}
	return a.RevokeOthers(ctx, deviceID)
}
