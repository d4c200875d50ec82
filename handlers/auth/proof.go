package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"nod/state/journal"
)

const (
	// MaxVerify is a working day: whoever has proved in the morning to be there is not
	// asked again for what is not risky.
	MaxVerify = 12 * time.Hour
	// settingsVerify is how long a proof suffices to change the door itself.
	settingsVerify = 10 * time.Minute
	// codeLife is how long a code of “nod verify” works: time to type it.
	codeLife = 5 * time.Minute
)

// Errors of a proof.
var (
	// ErrNoProof: nothing was given.
	ErrNoProof = errors.New("auth: no proof was given")
	// ErrBadProof: what was given is wrong, used, or too old.
	ErrBadProof = errors.New("auth: the proof is no good")
)

// Proof is what a person gives to show that they are there: one of these.
type Proof struct {
	Password  string
	Code      string // of “nod verify” in the terminal
	Assertion string // JSON that a browser makes with a passkey
}

// given reports whether there is anything in it.
func (p Proof) given() bool { return p.Password != "" || p.Code != "" || p.Assertion != "" }

// Ways are the proofs that a browser can give where it is. A code of the terminal
// is always one; the password is none where there is a passkey, or somebody may read
// it along.
type Ways struct {
	Password bool
	Passkey  bool
	Possible bool // a passkey could be made here
}

// Ways returns the proofs that can be given to a request.
func (a *Auth) Ways(ctx context.Context, r *http.Request) (w Ways, err error) {
	w.Possible = a.site(r) != nil
	keys, err := a.keysOf(ctx, r)
	if err != nil {
		return w, err
	}
	w.Passkey = len(keys) > 0
	if !w.Passkey && a.Private(r) {
		w.Password, err = a.HasPassword(ctx)
	}
	return w, err
}

// Fresh reports whether a device's person has proved lately to be there, for what
// is not risky by itself.
func (a *Auth) Fresh(d journal.Device) bool {
	return within(time.UnixMilli(d.VerifiedAt), a.VerifyEvery)
}

// MayChangeDoor reports whether they have proved it just now, for what changes who
// can come in: by their login, or for that alone. What they prove for an agent opens
// nothing else.
func (a *Auth) MayChangeDoor(d journal.Device) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return within(a.door[d.ID], settingsVerify) || d.VerifiedAt == d.CreatedAt && within(time.UnixMilli(d.CreatedAt), settingsVerify)
}

func within(t time.Time, life time.Duration) bool {
	since := time.Since(t)
	return since >= 0 && since < life
}

// Verify takes a proof from a device, and remembers when it was given. challenge is
// what a passkey must have signed: what the person agrees to, or "" for a challenge
// of Challenge.
func (a *Auth) Verify(ctx context.Context, r *http.Request, d journal.Device, p Proof, challenge string) error {
	a.keys.RLock()
	defer a.keys.RUnlock()
	if err := a.check(ctx, r, p, challenge); err != nil {
		return err
	}
	return a.Store.VerifyDevice(ctx, d.ID, time.Now().UnixMilli())
}

// OpenDoor lets a device change the door for a while: its person has just given a proof
// for that.
func (a *Auth) OpenDoor(deviceID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.door, func(_ string, at time.Time) bool { return !within(at, settingsVerify) })
	a.door[deviceID] = time.Now()
}

func (a *Auth) check(ctx context.Context, r *http.Request, p Proof, challenge string) error {
	ways, err := a.Ways(ctx, r)
	switch {
	case err != nil:
		return err
	case !p.given():
		return ErrNoProof
	case p.Assertion != "":
		return a.checkAssertion(ctx, r, p.Assertion, challenge)
	case p.Code != "":
		return a.takeCode(ctx, p.Code)
	case ways.Password:
		return a.checkPassword(ctx, p.Password)
	}
	return ErrBadProof
}

// MintCode stores a fresh code and returns it, in two groups that are easy to type.
func MintCode(ctx context.Context, s Store) (string, error) {
	code := rand.Text()[:8]
	return code[:4] + "-" + code[4:], s.PutLogin(ctx, hashCode(code), time.Now().Add(codeLife).UnixMilli())
}

func (a *Auth) takeCode(ctx context.Context, code string) error {
	err := a.Store.TakeLogin(ctx, hashCode(code), time.Now().UnixMilli())
	if errors.Is(err, journal.ErrNotFound) {
		return ErrBadProof
	}
	return err
}

// hashCode keeps codes apart from login tokens: neither works for the other. People
// write a code as they like.
func hashCode(code string) string {
	return hash("code " + strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(strings.TrimSpace(code))))
}
