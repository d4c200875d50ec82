package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"

	"nod/state/journal"
)

const (
	// offerLife is how long a code on a screen can be scanned.
	offerLife = 90 * time.Second
	// confirmLife is how long whoever has scanned it waits to be let in.
	confirmLife = 3 * time.Minute
	// maxWrong is how often the number may be wrong. It has two digits.
	maxWrong = 3
)

// Errors of pairing.
var (
	// ErrNoOffer: there is no such code, or it was used, or it is too old.
	ErrNoOffer = errors.New("auth: no such pairing code")
	// ErrNumber: the number is not the one that the new device shows.
	ErrNumber = errors.New("auth: the number is wrong")
)

// pairing is the code that is on a screen now: one at a time. A device that is in
// shows it, never one that wants in: nobody can be led to scan a stranger's way in.
type pairing struct {
	mu    sync.Mutex
	offer *offer
}

type offer struct {
	id    string // public
	by    string // device that shows it
	token string // that the code holds
	ends  time.Time

	// Of who has scanned it:
	waits   string // hash of the cookie that the new device waits with; "" for nobody yet
	number  string // that it shows
	name    string
	address string
	wrong   int
	let     bool   // a person has let it in
	device  string // as which it came in
}

// Offer is what the device that shows a code sees of it.
type Offer struct {
	ID      string
	Token   string // for the code; "" once it was scanned
	Ends    time.Time
	Name    string // of who has scanned it; "" for nobody yet
	Address string
	Device  string // as which it came in; "" before
}

// Offer makes a code for a device to show. The one before is worth nothing then.
func (a *Auth) Offer(deviceID string) string {
	o := &offer{id: strings.ToLower(rand.Text()), by: deviceID, token: secret(), ends: time.Now().Add(offerLife)}
	a.pair.mu.Lock()
	defer a.pair.mu.Unlock()
	a.pair.offer = o
	return o.id
}

// with has do look at the offer of now, if it is one of these and has not ended.
func (p *pairing) with(is func(*offer) bool, do func(*offer) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.offer; o == nil || time.Now().After(o.ends) || !is(o) {
		return ErrNoOffer
	}
	return do(p.offer)
}

// withdraw ends the offer of a device, or of whichever if it is "": also what was
// let in with it and is not in yet.
func (p *pairing) withdraw(deviceID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offer != nil && p.offer.device == "" && (deviceID == "" || p.offer.by == deviceID) {
		p.offer = nil
	}
}

// Offered returns how it is with an offer of a device.
func (a *Auth) Offered(deviceID, id string) (out Offer, err error) {
	err = a.pair.with(func(o *offer) bool { return o.by == deviceID && o.id == id }, func(o *offer) error {
		out = Offer{ID: o.id, Ends: o.ends, Name: o.name, Address: o.address, Device: o.device}
		if o.waits == "" {
			out.Token = o.token
		}
		return nil
	})
	return out, err
}

// Join takes the token of a code, or a whole link of one, once. Whoever brings it
// waits with the cookie. address is where it comes from.
func (a *Auth) Join(r *http.Request, token, address string) (c *http.Cookie, err error) {
	if _, after, ok := strings.Cut(token, "#k="); ok {
		token = after
	}
	is := func(o *offer) bool {
		return o.waits == "" && subtle.ConstantTimeCompare([]byte(o.token), []byte(strings.TrimSpace(token))) == 1
	}
	err = a.pair.with(is, func(o *offer) error {
		n, err := rand.Int(rand.Reader, big.NewInt(90))
		if err != nil {
			return err
		}
		value := secret()
		o.waits, o.number, o.name, o.address = hash(value), n.Add(n, big.NewInt(10)).String(), deviceName(r.UserAgent()), address
		o.ends = time.Now().Add(confirmLife)
		c = a.waitCookie(r, value, int(confirmLife.Seconds()))
		return nil
	})
	return c, err
}

// waitCookie is of a device that is not in yet.
func (a *Auth) waitCookie(r *http.Request, value string, maxAge int) *http.Cookie {
	c := a.cookie(r, value, maxAge)
	c.Name += "_join"
	return c
}

// Confirm lets in who has scanned a device's code, if the number is the one that
// they are shown. The third wrong one ends the offer.
func (a *Auth) Confirm(deviceID, id, number string) error {
	return a.pair.with(func(o *offer) bool { return o.by == deviceID && o.id == id && o.waits != "" && !o.let }, func(o *offer) error {
		if subtle.ConstantTimeCompare([]byte(o.number), []byte(strings.TrimSpace(number))) == 1 {
			o.let = true
			return nil
		}
		if o.wrong++; o.wrong >= maxWrong {
			a.pair.offer = nil
			return ErrNoOffer
		}
		return ErrNumber
	})
}

// Await returns the number that a waiting device shows; once a person has let it
// in, its session instead, which may look and no more.
func (a *Auth) Await(ctx context.Context, r *http.Request) (number string, in []*http.Cookie, d journal.Device, err error) {
	c, err := r.Cookie(a.waitCookie(r, "", 0).Name)
	if err != nil {
		return "", nil, d, ErrNoOffer
	}
	err = a.pair.with(func(o *offer) bool { return o.waits == hash(c.Value) && o.device == "" }, func(o *offer) error {
		if !o.let {
			number = o.number
			return nil
		}
		var session *http.Cookie
		if session, d, err = a.enter(ctx, r, ScopeView); err != nil {
			return err
		}
		o.device, in = d.ID, []*http.Cookie{session, a.waitCookie(r, "", -1)}
		return nil
	})
	return number, in, d, err
}
