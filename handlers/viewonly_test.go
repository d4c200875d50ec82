package handlers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nod/handlers/auth"
	"nod/state"
)

// newLAN is a site that listens on an address that is not loopback, as a phone in the
// same network sees it.
func newLAN(t *testing.T, change ...func(*Config)) *site {
	t.Helper()
	s := newSite(t, change...)
	// Whoever comes from there shows in a header of the test's own, since a machine
	// need not have another address than loopback.
	inner := s.srv.Config.Handler
	s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Test-Lan") != "" {
			r.RemoteAddr = "192.0.2.9:5000"
			at := net.Addr(&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: s.port})
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
			r.Host = "192.0.2.1:" + strings.TrimPrefix(s.srv.URL, "http://127.0.0.1:")
			r.Header.Del("X-Test-Lan")
		}
		inner.ServeHTTP(w, r)
	})
	return s
}

var overLAN = header("X-Test-Lan", "yes")

// TestR9PlainNetworkLooksOn: over a network in the clear one can log in, look and log
// out, and nothing else: every other route that changes something says what to do.
func TestR9PlainNetworkLooksOn(t *testing.T) {
	s := newLAN(t)
	id := s.session()
	a := s.ask(id)
	phone := s.login(overLAN)
	if r := s.get(phone, "/s/"+id, overLAN); r.status != http.StatusOK || !strings.Contains(r.body, "this connection is not encrypted") || !strings.Contains(r.body, "echo hi") {
		t.Errorf("looking on: %d\n%s", r.status, r.body)
	}
	for _, r := range everyRoute {
		if r.method == http.MethodGet || slices.Contains([]string{"/login", "/logout"}, r.path) {
			continue
		}
		path := strings.NewReplacer(":id", id, ":message", "m", ":operation", "fork").Replace(r.path)
		if r.path == "/approvals/:id" {
			path = "/approvals/" + a.ID
		}
		got := s.post(phone, path, form(a, "accept", "seen", "yes", "text", "do it", "title", "x", "provider", "codex", "folder", "/", "prompt", "do it"), overLAN)
		if r.scope == public {
			continue
		}
		if got.status != http.StatusForbidden || !strings.Contains(got.body, "tls_required") || !strings.Contains(got.body, "Open nod over https") {
			t.Errorf("%s %s over a network: %d", r.method, r.path, got.status)
		}
	}
	if len(s.agent.answers) != 0 || len(s.agent.created) != 1 {
		t.Error("something reached the agent")
	}
	for _, path := range []string{"/new", "/s/" + id + "/rename", "/s/" + id + "/delete"} {
		if r := s.get(phone, path, overLAN); r.status != http.StatusForbidden {
			t.Errorf("%s, which is nothing but a form: %d", path, r.status)
		}
	}
	// Whoever has read its cookie along can do no more with it on this machine.
	if r := s.post(phone, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusForbidden || len(s.agent.answers) != 0 {
		t.Errorf("on this machine: %d", r.status)
	}
	if r := s.post(phone, "/logout", nil, overLAN); r.status != http.StatusSeeOther {
		t.Errorf("leaving: %d", r.status)
	}
}

// TestR9NoFormsToLookAt: neither a page nor its stream has a form that would be
// refused.
func TestR9NoFormsToLookAt(t *testing.T) {
	s := newLAN(t)
	id := s.session()
	a := s.ask(id)
	s.apply(id, &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: "m", Message: state.Message{Text: "later"}})
	forms := regexp.MustCompile(`<form[^>]*method="post"[^>]*action="([^"]*)"`)
	offers := func(what, body string) {
		t.Helper()
		for _, m := range forms.FindAllStringSubmatch(body, -1) {
			if m[1] != "/logout" {
				t.Errorf("%s has a form for %s", what, m[1])
			}
		}
		if strings.Contains(body, `href="/new"`) {
			t.Errorf("%s leads to the form for a session", what)
		}
	}
	for _, path := range []string{"/", "/s/" + id, "/archive", "/s/" + id + "/before/0/0"} {
		r := s.get(s.in, path, overLAN)
		if r.status != http.StatusOK {
			t.Errorf("%s: %d", path, r.status)
		}
		offers(path, r.body)
	}
	e := s.stream("/s/"+id+"/live", "", overLAN)
	e.next("hello")
	_, whole := e.next("parts")
	offers("the stream", whole)
	if !strings.Contains(whole, "echo hi") || !strings.Contains(whole, "later") {
		t.Error("it does not show what waits")
	}
	s.hub.Resolved(t.Context(), s.uri(id), "e1", a.Request.UpstreamID, state.EndedAnswered)
	s.ask(id, func(r *state.Request) { r.UpstreamID, r.Input = []byte("2"), "echo again" })
	for {
		_, data := e.next("parts")
		if offers("the stream", data); strings.Contains(data, "echo again") {
			break
		}
	}
	// Who may change something still can.
	if page := s.get(s.in, "/s/"+id).body; !forms.MatchString(page) {
		t.Error("this machine is offered nothing either")
	}
}

// TestR9ProxyOnThisMachine: that a request comes from this machine lets nobody in.
func TestR9ProxyOnThisMachine(t *testing.T) {
	for name, trusted := range map[string][]netip.Prefix{"trusted": {netip.MustParsePrefix("127.0.0.0/8")}, "not": nil} {
		s := newSite(t, func(c *Config) { c.TrustedProxies = trusted })
		a := s.ask(s.session())
		for _, headers := range [][]string{
			{}, {"X-Forwarded-For", "127.0.0.1", "X-Forwarded-Proto", "https"}, {"X-Real-Ip", "127.0.0.1"}, {"Forwarded", "for=127.0.0.1"},
			{"X-Forwarded-User", "owner", "Tailscale-User-Login", "owner", "Remote-User", "owner"},
		} {
			behind := func(r *http.Request) {
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
			}
			if r := s.post(s.out, "/approvals/"+a.ID, form(a, "accept", "seen", "yes"), behind); r.status != http.StatusUnauthorized {
				t.Errorf("%s, %v: %d", name, headers, r.status)
			}
			if r := s.get(s.out, "/", behind); r.status != http.StatusSeeOther {
				t.Errorf("%s, %v: %d", name, headers, r.status)
			}
		}
	}
}

// TestR9ProxyWithoutTLS: a proxy that the owner trusts says that the browser does not
// speak TLS, or does not say that it does.
func TestR9ProxyWithoutTLS(t *testing.T) {
	s := newSite(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	a := s.ask(s.session())
	token, err := auth.MintLogin(t.Context(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	far := header("X-Forwarded-For", "192.0.2.9")
	login := s.post(s.client(), "/login", url.Values{"token": {token}}, far, header("X-Forwarded-Proto", "https"))
	cookie, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	if !strings.HasPrefix(cookie, fmt.Sprintf("__Host-nod_%d=", s.port)) || !strings.Contains(login.header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("the cookie over TLS: %v", login.header)
	}
	for _, c := range []struct {
		proto, cookie string
		want          int
	}{{"http", "", 403}, {"", "", 403}, {"https", "", 401}, {"https", cookie, 303}} {
		change := []func(*http.Request){far, header("X-Forwarded-Proto", c.proto)}
		if c.cookie != "" {
			change = append(change, header("Cookie", c.cookie))
		}
		r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline"), change...)
		if r.status != c.want {
			t.Errorf("X-Forwarded-Proto %q: %d", c.proto, r.status)
		}
	}
}
