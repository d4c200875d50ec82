package handlers

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"nod/handlers/auth"
	"nod/state"
)

// limited is a site with the limits that people get, and a clock that stands still.
func limited(t *testing.T, change ...func(*Config)) (s *site, tick func(time.Duration)) {
	t.Helper()
	s = newSite(t, append([]func(*Config){func(c *Config) { c.Limits = Limits{} }}, change...)...)
	var mu sync.Mutex
	now := time.Now()
	s.server().limiter.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	return s, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
}

func (s *site) server() *Server { return s.srv.Config.Handler.(*Server) }

// guess tries to come in with a wrong token.
func (s *site) guess(change ...func(*http.Request)) reply {
	s.t.Helper()
	return s.post(s.out, "/login", url.Values{"token": {"wrong"}}, change...)
}

// guesses tries until it is refused to.
func (s *site) guesses(change ...func(*http.Request)) (tries int) {
	s.t.Helper()
	for s.guess(change...).status == http.StatusUnauthorized {
		tries++
		if tries > 1000 {
			s.t.Fatal("there is no end")
		}
	}
	return tries
}

// TestR33Login: five wrong tries, then a sentence that says how long to wait, and no
// password is looked at until then; a try that succeeds costs none. Nobody keeps out by
// guessing who has what cannot be guessed.
func TestR33Login(t *testing.T) {
	s, tick := limited(t)
	for range 10 {
		s.login()
	}
	if n := s.guesses(); n != DefaultLimits.Door {
		t.Errorf("%d tries", n)
	}
	r := s.guess()
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || err != nil || wait != 60/DefaultLimits.Door || !strings.Contains(r.body, fmt.Sprintf("Try again in %d seconds.", wait)) {
		t.Errorf("%d, Retry-After %q: %s", r.status, r.header.Get("Retry-After"), r.body)
	}
	const password = "correct horse battery"
	if err := s.auth.SetPassword(t.Context(), "", password); err != nil {
		t.Fatal(err)
	}
	if r := s.post(s.out, "/login", url.Values{"password": {password}}); r.status != http.StatusTooManyRequests {
		t.Errorf("the password, too soon: %d", r.status)
	}
	s.login()
	tick(time.Duration(wait) * time.Second)
	if r := s.post(s.out, "/login", url.Values{"password": {password}}); r.status != http.StatusSeeOther {
		t.Errorf("the password, in time: %d", r.status)
	}
	tick(time.Hour)
	if n := s.guesses(); n != DefaultLimits.Door {
		t.Errorf("%d tries an hour later", n)
	}
}

// TestR33SpoofedAddress: what a request says of where it comes from gives it no
// further tries.
func TestR33SpoofedAddress(t *testing.T) {
	s, _ := limited(t)
	tries := 0
	for i := range 3 * DefaultLimits.Door {
		address := fmt.Sprintf("192.0.2.%d", i)
		if s.guess(header("X-Forwarded-For", address), header("X-Real-Ip", address), header("Forwarded", "for="+address)).status == http.StatusUnauthorized {
			tries++
		}
	}
	if tries != DefaultLimits.Door {
		t.Errorf("%d tries", tries)
	}
}

// TestR33EveryAddress has a trusted proxy tell addresses: each has tries of its
// own, those of one IPv6 network share them, and all together have a bound.
func TestR33EveryAddress(t *testing.T) {
	s, tick := limited(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	from := func(address string) func(*http.Request) { return header("X-Forwarded-For", address) }
	if a, b := s.guesses(from("192.0.2.1")), s.guesses(from("192.0.2.2")); a != DefaultLimits.Door || b != DefaultLimits.Door {
		t.Errorf("%d and %d tries", a, b)
	}
	if a, b, c := s.guesses(from("2001:db8::1")), s.guesses(from("2001:db8::ffff:2")), s.guesses(from("2001:db8:0:1::1")); a != DefaultLimits.Door || b != 0 || c != DefaultLimits.Door {
		t.Errorf("IPv6: %d, %d in the same network, %d in another", a, b, c)
	}
	tick(time.Hour)
	tries := 0
	for i := range 2 * DefaultLimits.AllDoors {
		if s.guess(from(fmt.Sprintf("198.51.100.%d", i))).status == http.StatusUnauthorized {
			tries++
		}
	}
	if tries != DefaultLimits.AllDoors {
		t.Errorf("%d tries of all together", tries)
	}
}

// TestR33AMillionAddresses are not all remembered.
func TestR33AMillionAddresses(t *testing.T) {
	b := newBuckets[netip.Prefix](5)
	for i := range 1_000_000 {
		b.of(network(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 16), byte(i >> 8), byte(i)})))
	}
	if n := b.known.Len(); n != maxBuckets {
		t.Errorf("%d are remembered", n)
	}
}

// TestR33Changes: a device has its posts a minute, whatever others do; it can look
// and deny all the same.
func TestR33Changes(t *testing.T) {
	s, tick := limited(t)
	id := s.session()
	a := s.ask(id)
	other := s.login()
	stop := func(c *http.Client) int { return s.post(c, "/s/"+id+"/archive", nil).status }
	done := 1 // the session
	for stop(s.in) != http.StatusTooManyRequests {
		done++
	}
	if done != DefaultLimits.Changes {
		t.Errorf("%d changes", done)
	}
	if got := stop(other); got == http.StatusTooManyRequests {
		t.Error("another device is refused too")
	}
	if r := s.get(s.in, "/s/"+id); r.status != http.StatusOK {
		t.Errorf("looking: %d", r.status)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline")); r.status != http.StatusSeeOther {
		t.Errorf("denying: %d", r.status)
	}
	tick(2 * time.Second)
	if got := stop(s.in); got == http.StatusTooManyRequests {
		t.Error("it is refused when time has passed")
	}
}

// TestR33Allows: a device may allow so often, and deny as often as it likes.
func TestR33Allows(t *testing.T) {
	s, tick := limited(t)
	id := s.session()
	answer := func(n int, option string) int {
		a := s.ask(id, func(r *state.Request) { r.UpstreamID = json.RawMessage(strconv.Itoa(n)) })
		return s.post(s.in, "/approvals/"+a.ID, form(a, option, "seen", "yes")).status
	}
	for n := range 2 * DefaultLimits.Allows {
		if got := answer(n, "decline"); got != http.StatusSeeOther {
			t.Fatalf("denial %d: %d", n, got)
		}
	}
	for n := range DefaultLimits.Allows {
		if got := answer(1000+n, "accept"); got != http.StatusSeeOther {
			t.Fatalf("approval %d: %d", n, got)
		}
	}
	sent := len(s.agent.answers)
	if got := answer(2000, "accept"); got != http.StatusTooManyRequests || len(s.agent.answers) != sent {
		t.Errorf("one more: %d, %d sent", got, len(s.agent.answers)-sent)
	}
	if got := answer(2001, "decline"); got != http.StatusSeeOther {
		t.Errorf("a denial after that: %d", got)
	}
	tick(2 * time.Second)
	if got := answer(2002, "accept"); got != http.StatusSeeOther {
		t.Errorf("when time has passed: %d", got)
	}
}

// TestR37Bodies: each form has its bound, said by its length or found while it is
// read.
func TestR37Bodies(t *testing.T) {
	s := newSite(t)
	id := s.session()
	card := s.ask(id)
	editable := s.ask(id, func(r *state.Request) { r.Editable, r.UpstreamID = true, json.RawMessage("2") })
	unsaid := func(r *http.Request) { r.ContentLength = -1 }
	for name, c := range map[string]struct {
		client *http.Client
		path   string
		form   url.Values
		size   int
		want   int
	}{
		"login, small":         {s.out, "/login", url.Values{}, maxStranger - 100, http.StatusUnauthorized},
		"login, large":         {s.out, "/login", url.Values{}, maxStranger + 1, http.StatusRequestEntityTooLarge},
		"a card, its reason":   {s.in, "/approvals/" + card.ID, form(card, "nothing"), 3 * 4 * state.MaxReason, http.StatusBadRequest},
		"a card, large":        {s.in, "/approvals/" + card.ID, form(card, "nothing"), maxCard + 1, http.StatusRequestEntityTooLarge},
		"an edit":              {s.in, "/approvals/" + editable.ID, form(editable, "nothing"), 900_000, http.StatusBadRequest},
		"an edit, large":       {s.in, "/approvals/" + editable.ID, form(editable, "nothing"), maxForm + 1, http.StatusRequestEntityTooLarge},
		"another route, large": {s.in, "/s/" + id + "/rename", url.Values{}, maxForm + 1, http.StatusRequestEntityTooLarge},
	} {
		for how, change := range map[string]func(*http.Request){"its length said": func(*http.Request) {}, "not said": unsaid} {
			c.form.Set("reason", strings.Repeat("x", c.size))
			if r := s.post(c.client, c.path, c.form, change); r.status != c.want {
				t.Errorf("%s, %s: %d, not %d", name, how, r.status, c.want)
			}
		}
	}
	if len(s.agent.answers) != 0 {
		t.Error("something was sent")
	}
}

// TestR37OtherBodies: no route but that of messages reads files, and none unpacks.
func TestR37OtherBodies(t *testing.T) {
	s := newSite(t)
	for _, route := range everyRoute {
		if route.method != http.MethodPost {
			continue
		}
		path := strings.NewReplacer(":id", "x", ":message", "x", ":operation", "x").Replace(route.path)
		if route.path != messagesPath {
			if r := s.post(s.in, path, nil, header("Content-Type", "multipart/form-data; boundary=x")); r.status != http.StatusUnsupportedMediaType {
				t.Errorf("files to %s: %d", route.path, r.status)
			}
		}
		if r := s.post(s.in, path, nil, header("Content-Encoding", "gzip")); r.status != http.StatusUnsupportedMediaType {
			t.Errorf("a packed form to %s: %d", route.path, r.status)
		}
	}
	token, err := auth.MintLogin(t.Context(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("token=" + token))
	_ = z.Close()
	r := s.post(s.out, "/login", nil, func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(&packed), int64(packed.Len())
		r.Header.Set("Content-Encoding", "gzip")
	})
	if r.status != http.StatusUnsupportedMediaType {
		t.Errorf("it was unpacked: %d", r.status)
	}
}

// TestR36HalfOpenConnections: a thousand who say nothing keep nobody out, and few
// of them are kept. That none leaves a goroutine, TestMain sees to.
func TestR36HalfOpenConnections(t *testing.T) {
	s, _ := limited(t)
	address := s.srv.Listener.Addr().String()
	stream := s.stream("/live", "")
	stream.next("hello")
	stream.next("parts")
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range 1000 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if i%2 == 0 {
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: ")) // and no more
		}
	}
	fresh := s.login()
	if r := s.get(fresh, "/"); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
	if n := s.server().outside.count(); n > DefaultLimits.Strangers {
		t.Errorf("%d connections of strangers are open", n)
	}
	s.session()
	stream.next("parts")
}

// TestR36Streams: of too many pages some ask again and again; none is kept out.
func TestR36Streams(t *testing.T) {
	for name, c := range map[string]struct {
		limits  Limits
		clients int
		stay    int
	}{
		"of all devices": {Limits{Door: 99, AllDoors: 99, Proofs: 99, Changes: 99, Allows: 99, Strangers: 99, Streams: 3, Device: 99}, 5, 3},
		"of one device":  {Limits{Door: 99, AllDoors: 99, Proofs: 99, Changes: 99, Allows: 99, Strangers: 99, Streams: 99, Device: 2}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, func(cfg *Config) { cfg.Limits = c.limits })
			clients := []*http.Client{s.in}
			for len(clients) < c.clients {
				clients = append(clients, s.login())
			}
			for i := range 5 {
				s.in = clients[i%len(clients)]
				e := s.stream("/live", "")
				e.next("hello")
				e.next("parts")
				if i >= c.stay {
					e.ends()
				}
			}
			if n := s.seats(); n != c.stay {
				t.Errorf("%d stay open", n)
			}
		})
	}
}

// TestR33Proofs: whoever holds a browser that is logged in cannot try codes on it.
func TestR33Proofs(t *testing.T) {
	s, tick := limited(t)
	verify := func(code string) int { return s.post(s.in, "/verify", url.Values{"code": {code}}).status }
	right := func() string {
		t.Helper()
		code, err := auth.MintCode(t.Context(), s.store)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	for range 2 * DefaultLimits.Proofs {
		if got := verify(right()); got != http.StatusSeeOther {
			t.Fatalf("a right one: %d", got)
		}
	}
	for range DefaultLimits.Proofs {
		if got := verify("000000"); got != http.StatusForbidden {
			t.Fatalf("a wrong one: %d", got)
		}
	}
	if got := verify("000000"); got != http.StatusTooManyRequests {
		t.Errorf("one more: %d", got)
	}
	code := right()
	if got := verify(code); got != http.StatusTooManyRequests {
		t.Errorf("a right one, too soon: %d", got)
	}
	tick(time.Minute)
	if got := verify(code); got != http.StatusSeeOther {
		t.Errorf("in time: %d", got)
	}
}
