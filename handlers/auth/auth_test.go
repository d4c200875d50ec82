package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nod/state/journal"
)

// memory is a Store without a disk.
type memory struct {
	mu    sync.Mutex
	asked chan struct{} // told of each time that the door is asked

	logins  map[string]int64
	devices map[string]journal.Device // by token hash

	passkeys map[string]journal.Passkey
	door     map[string]string
}

func newMemory() *memory {
	return &memory{asked: make(chan struct{}, 100), logins: map[string]int64{}, devices: map[string]journal.Device{}, passkeys: map[string]journal.Passkey{}, door: map[string]string{}}
}

// newAuth returns an Auth of a nod without TLS.
func newAuth(m *memory) *Auth {
	return New(Config{Store: m, Port: 1, Secure: func(r *http.Request) bool { return r.TLS != nil }, Private: func(r *http.Request) bool { return r.Header.Get("In-The-Clear") == "" }})
}

func (m *memory) PutLogin(_ context.Context, hash string, expires int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logins[hash] = expires
	return nil
}

func (m *memory) TakeLogin(_ context.Context, hash string, now int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.logins[hash]; !ok || e <= now {
		return journal.ErrNotFound
	}
	delete(m.logins, hash)
	return nil
}

func (m *memory) PutDevice(_ context.Context, d journal.Device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.devices[d.TokenHash] = d
	return nil
}

func (m *memory) Device(_ context.Context, hash string) (journal.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.devices[hash]
	if !ok {
		return d, journal.ErrNotFound
	}
	return d, nil
}

func (m *memory) Devices(context.Context) ([]journal.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.devices)), nil
}

// change does something to a known device.
func (m *memory) change(id string, do func(*journal.Device)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h, d := range m.devices {
		if d.ID == id {
			do(&d)
			delete(m.devices, h)
			m.devices[d.TokenHash] = d
			return nil
		}
	}
	return journal.ErrNotFound
}

func (m *memory) SeeDevice(_ context.Context, id string, at int64) error {
	return m.change(id, func(d *journal.Device) { d.SeenAt = at })
}

func (m *memory) VerifyDevice(_ context.Context, id string, at int64) error {
	return m.change(id, func(d *journal.Device) { d.VerifiedAt = at })
}

func (m *memory) RenameDevice(_ context.Context, id, name string) error {
	return m.change(id, func(d *journal.Device) { d.Name = name })
}

func (m *memory) GrantDevice(_ context.Context, id, scope string, now bool) error {
	return m.change(id, func(d *journal.Device) {
		if d.Granted = scope; now {
			d.Scope = scope
		}
	})
}

func (m *memory) RenewDevice(_ context.Context, id, hash, newHash string) error {
	if d, err := m.Device(context.Background(), hash); err != nil || d.ID != id || d.Granted == "" {
		return journal.ErrNotFound
	}
	return m.change(id, func(d *journal.Device) { d.TokenHash, d.Scope, d.Granted = newHash, d.Granted, "" })
}

func (m *memory) PutPasskey(_ context.Context, k journal.Passkey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passkeys[k.ID] = k
	return nil
}

func (m *memory) Passkeys(context.Context) ([]journal.Passkey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.passkeys)), nil
}

func (m *memory) DeletePasskey(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.passkeys, id)
	return nil
}

func (m *memory) PutDoor(_ context.Context, key, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.door[key] = value
	return nil
}

func (m *memory) Door(_ context.Context, key string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked <- struct{}{}
	return m.door[key], nil
}

func (m *memory) DeleteDevice(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h, d := range m.devices {
		if d.ID == id {
			delete(m.devices, h)
		}
	}
	return nil
}

func request(t *testing.T, cookies ...*http.Cookie) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

func login(t *testing.T, a *Auth, m *memory) *http.Cookie {
	t.Helper()
	token, err := MintLogin(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := a.Login(t.Context(), request(t), token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoginLinkExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := newAuth(m)
		token, err := MintLogin(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(loginLife)
		if _, _, err := a.Login(t.Context(), request(t), token); !errors.Is(err, ErrBadToken) {
			t.Errorf("after its time: %v", err)
		}
	})
}

// TestSessionsEnd: after two weeks without use, and after ninety days in any case.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := newAuth(m)
		c := login(t, a, m)
		for range 8 { // used every ten days
			time.Sleep(10 * 24 * time.Hour)
			if _, err := a.Who(request(t, c)); err != nil {
				t.Fatalf("in use: %v", err)
			}
		}
		time.Sleep(10*24*time.Hour + time.Second)
		if _, err := a.Who(request(t, c)); !errors.Is(err, ErrNotLoggedIn) {
			t.Errorf("after ninety days: %v", err)
		}
		c = login(t, a, m)
		time.Sleep(idleLife + time.Second)
		if _, err := a.Who(request(t, c)); !errors.Is(err, ErrNotLoggedIn) {
			t.Errorf("idle: %v", err)
		}
	})
}

func TestHoldEndsWithTheSession(t *testing.T) {
	m := newMemory()
	a := newAuth(m)
	d, err := a.Who(request(t, login(t, a, m)))
	if err != nil {
		t.Fatal(err)
	}
	other, releaseOther := a.Hold(t.Context(), journal.Device{ID: "other", CreatedAt: time.Now().UnixMilli()})
	defer releaseOther()
	held, release := a.Hold(t.Context(), d)
	if err := a.Revoke(t.Context(), d.ID); err != nil {
		t.Fatal(err)
	}
	if held.Err() == nil || other.Err() != nil {
		t.Errorf("held %v, another's %v", held.Err(), other.Err())
	}
	release()
	if len(a.holds) != 1 {
		t.Errorf("%d holds are kept", len(a.holds))
	}
}

func TestDeviceName(t *testing.T) {
	for ua, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0":                                                    "Firefox on Linux",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36":              "Chrome on Android",
		"curl/8": "A browser on a device",
	} {
		if got := deviceName(ua); got != want {
			t.Errorf("%s: %s", ua, got)
		}
	}
}

// TestR11ScopeComesWithAnotherCookie: what somebody granted is not there before the
// device has another cookie.
func TestR11ScopeComesWithAnotherCookie(t *testing.T) {
	m := newMemory()
	a := newAuth(m)
	old := login(t, a, m)
	d, err := a.Who(request(t, old))
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{ScopeView, ScopeOperate} {
		if err := a.Grant(t.Context(), d.ID, scope); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = a.Who(request(t, old)); err != nil || d.Scope != ScopeView || d.Granted != ScopeOperate {
		t.Fatalf("before: %+v, %v", d, err)
	}
	fresh, d, err := a.Renew(request(t, old), d)
	if err != nil || d.Scope != ScopeOperate {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := a.Who(request(t, old)); !errors.Is(err, ErrNotLoggedIn) {
		t.Errorf("with the old cookie: %v", err)
	}
	if d, err := a.Who(request(t, fresh)); err != nil || d.Scope != ScopeOperate || d.Granted != "" {
		t.Errorf("with the new one: %+v, %v", d, err)
	}
}

// TestR11Cookies: over TLS no neighbour of the same domain can set or read it.
func TestR11Cookies(t *testing.T) {
	a := newAuth(newMemory())
	r := request(t)
	plain := a.cookie(r, "x", 1)
	r.TLS = &tls.ConnectionState{}
	safe := a.cookie(r, "x", 1)
	if plain.Secure || plain.Name != "nod_1" || !safe.Secure || safe.Name != "__Host-nod_1" || safe.Path != "/" || safe.Domain != "" {
		t.Errorf("%+v, %+v", plain, safe)
	}
	for _, c := range []*http.Cookie{plain, safe} {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			t.Errorf("%+v", c)
		}
	}
}

// slowly has somebody give the password, and do something else happen while it is looked
// at.
func slowly(t *testing.T, m *memory, give func(Proof) error, meanwhile func()) error {
	t.Helper()
	for len(m.asked) > 0 {
		<-m.asked
	}
	given := make(chan error, 1)
	go func() { given <- give(Proof{Password: "correct horse battery"}) }()
	<-m.asked // whether there is one
	<-m.asked // which it is
	meanwhile()
	return <-given
}

// TestR11PasswordInFlight: whoever comes in with a password while it is taken away is out.
func TestR11PasswordInFlight(t *testing.T) {
	m := newMemory()
	a := newAuth(m)
	if err := a.SetPassword(t.Context(), "", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	var c *http.Cookie
	err := slowly(t, m, func(p Proof) (err error) {
		c, _, err = a.LoginByProof(t.Context(), request(t), p)
		return err
	}, func() {
		if err := a.SetPassword(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		_, err = a.Who(request(t, c))
	}
	if !errors.Is(err, ErrNotLoggedIn) && !errors.Is(err, ErrBadProof) {
		t.Errorf("they are in: %v", err)
	}
}

// TestR11LessStays: a proof that was on its way when a device was told to look only does
// not undo that.
func TestR11LessStays(t *testing.T) {
	m := newMemory()
	a := newAuth(m)
	if err := a.SetPassword(t.Context(), "", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	c := login(t, a, m)
	d, err := a.Who(request(t, c))
	if err != nil {
		t.Fatal(err)
	}
	err = slowly(t, m, func(p Proof) error { return a.Verify(t.Context(), request(t, c), d, p, "") }, func() {
		if err := a.Grant(t.Context(), d.ID, ScopeView); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := a.Who(request(t, c)); err != nil || d.Scope != ScopeView || !a.Fresh(d) {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestR9InTheClear: where others can read along a login is good to look, no password is
// taken, and nothing more is given.
func TestR9InTheClear(t *testing.T) {
	m := newMemory()
	a := newAuth(m)
	if err := a.SetPassword(t.Context(), "", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	clear := func(cookies ...*http.Cookie) *http.Request {
		r := request(t, cookies...)
		r.Header.Set("In-The-Clear", "yes")
		return r
	}
	if _, _, err := a.LoginByProof(t.Context(), clear(), Proof{Password: "correct horse battery"}); !errors.Is(err, ErrBadProof) {
		t.Errorf("the password: %v", err)
	}
	if w, err := a.Ways(t.Context(), clear()); err != nil || w.Password {
		t.Errorf("%+v, %v", w, err)
	}
	token, err := MintLogin(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	c, d, err := a.Login(t.Context(), clear(), token)
	if err != nil || d.Scope != ScopeView || a.Fresh(d) || a.MayChangeDoor(d) {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := a.Grant(t.Context(), d.ID, ScopeOperate); err != nil {
		t.Fatal(err)
	}
	if d, err = a.Who(request(t, c)); err != nil || a.MayRenew(clear(), d) || !a.MayRenew(request(t), d) {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestR32Withdrawn: a device that is out, or a door that was changed, lets nobody else in.
func TestR32Withdrawn(t *testing.T) {
	for name, end := range map[string]func(a *Auth, by string) error{
		"its device is out":     func(a *Auth, by string) error { return a.Revoke(t.Context(), by) },
		"another password":      func(a *Auth, _ string) error { return a.SetPassword(t.Context(), "other", "") },
		"a passkey was removed": func(a *Auth, _ string) error { return a.RemovePasskey(t.Context(), "other", "k") },
	} {
		a := newAuth(newMemory())
		id := a.Offer("screen")
		o, err := a.Offered("screen", id)
		if err != nil {
			t.Fatal(err)
		}
		waits, err := a.Join(request(t), o.Token, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		number, _, _, err := a.Await(t.Context(), request(t, waits))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Confirm("screen", id, number); err != nil {
			t.Fatal(err)
		}
		if err := end(a, "screen"); err != nil {
			t.Fatal(err)
		}
		if _, in, _, err := a.Await(t.Context(), request(t, waits)); in != nil || !errors.Is(err, ErrNoOffer) {
			t.Errorf("%s: %v, %v", name, in, err)
		}
	}
}

// TestR12ProofForAnAgent opens nothing else.
func TestR12ProofForAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := newAuth(m)
		c := login(t, a, m)
		time.Sleep(settingsVerify)
		d, err := a.Who(request(t, c))
		if err != nil {
			t.Fatal(err)
		}
		code, err := MintCode(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Verify(t.Context(), request(t, c), d, Proof{Code: code}, "what is agreed to"); err != nil {
			t.Fatal(err)
		}
		if d, err = a.Who(request(t, c)); err != nil || !a.Fresh(d) || a.MayChangeDoor(d) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestR12ProofOfANewDevice: one that was let in by a scanned code has not shown who it is,
// and what it proves for an agent opens nothing else.
func TestR12ProofOfANewDevice(t *testing.T) {
	now := time.Now().UnixMilli()
	a := newAuth(newMemory())
	for verified, opens := range map[int64]bool{0: false, now: true, now + 1: false} {
		if a.MayChangeDoor(journal.Device{ID: "d", CreatedAt: now, VerifiedAt: verified}) != opens {
			t.Errorf("verified %d ms after it came: it may change the door: %v", verified-now, !opens)
		}
	}
}

// TestR11ClockAhead: a clock that is ahead for a moment logs nobody out for good.
func TestR11ClockAhead(t *testing.T) {
	m := newMemory()
	a := newAuth(m)
	c := login(t, a, m)
	d, err := a.Who(request(t, c))
	if err != nil {
		t.Fatal(err)
	}
	seen := d.SeenAt
	if err := m.SeeDevice(t.Context(), d.ID, seen-(idleLife+time.Hour).Milliseconds()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Who(request(t, c)); !errors.Is(err, ErrNotLoggedIn) {
		t.Errorf("meanwhile: %v", err)
	}
	if err := m.SeeDevice(t.Context(), d.ID, seen); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Who(request(t, c)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestR12ProofsGrowOld: a code after five minutes, a challenge after as many, what was
// shown this morning after a working day, and for the door after ten minutes.
func TestR12ProofsGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := newAuth(m)
		c := login(t, a, m)
		who := func() journal.Device {
			d, err := a.Who(request(t, c))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		code, err := MintCode(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		once, late := a.Challenge(), a.Challenge()
		if !a.use(once) || a.use(once) {
			t.Error("a challenge is not good once")
		}
		if newAuth(m).use(late) {
			t.Error("a challenge of another process is taken")
		}
		if !a.Fresh(who()) || !a.MayChangeDoor(who()) {
			t.Error("who has just logged in is asked")
		}
		time.Sleep(challengeLife + time.Second)
		if a.use(late) {
			t.Error("a challenge is good for ever")
		}
		if err := a.Verify(t.Context(), request(t, c), who(), Proof{Code: code}, ""); !errors.Is(err, ErrBadProof) {
			t.Errorf("a code after its time: %v", err)
		}
		time.Sleep(settingsVerify - challengeLife)
		if !a.Fresh(who()) || a.MayChangeDoor(who()) {
			t.Error("after ten minutes")
		}
		time.Sleep(MaxVerify)
		if a.Fresh(who()) {
			t.Error("after half a day")
		}
		if code, err = MintCode(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := a.Verify(t.Context(), request(t, c), who(), Proof{Code: code}, ""); err != nil || a.MayChangeDoor(who()) {
			t.Errorf("with a code: %v", err)
		}
		if a.OpenDoor(who().ID); !a.MayChangeDoor(who()) {
			t.Error("with a code for the door")
		}
		// A clock that was set back makes nothing fresh.
		d := who()
		d.VerifiedAt = time.Now().Add(time.Hour).UnixMilli()
		if a.Fresh(d) {
			t.Error("a proof of the future is taken")
		}
		if _, _, err := a.Login(t.Context(), request(t), code); !errors.Is(err, ErrBadToken) {
			t.Errorf("a code as a login: %v", err)
		}
	})
}

// TestR32CodesGrowOld: one on a screen after a minute and a half, one that was scanned
// when nobody lets its device in, and any when there is a newer one.
func TestR32CodesGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuth(newMemory())
		token := func() (id, token string) {
			id = a.Offer("screen")
			o, err := a.Offered("screen", id)
			if err != nil {
				t.Fatal(err)
			}
			return id, o.Token
		}
		_, old := token()
		_, late := token()
		if _, err := a.Join(request(t), old, ""); !errors.Is(err, ErrNoOffer) {
			t.Errorf("the one before: %v", err)
		}
		time.Sleep(offerLife + time.Second)
		if _, err := a.Join(request(t), late, ""); !errors.Is(err, ErrNoOffer) {
			t.Errorf("after its time: %v", err)
		}
		id, late := token()
		c, err := a.Join(request(t), "https://nod.example/join#k="+late, "")
		if err != nil {
			t.Fatal(err)
		}
		number, _, _, err := a.Await(t.Context(), request(t, c))
		if err != nil || len(number) != 2 {
			t.Fatalf("%q, %v", number, err)
		}
		time.Sleep(confirmLife + time.Second)
		if err := a.Confirm("screen", id, number); !errors.Is(err, ErrNoOffer) {
			t.Errorf("let in after its time: %v", err)
		}
		if _, _, _, err := a.Await(t.Context(), request(t, c)); !errors.Is(err, ErrNoOffer) {
			t.Errorf("waiting for ever: %v", err)
		}
	})
}
