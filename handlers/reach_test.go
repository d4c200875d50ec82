package handlers

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestR34Proxies: only a proxy that the owner has named is believed, and only as far
// as it was asked itself.
func TestR34Proxies(t *testing.T) {
	type h = [2]string
	for name, c := range map[string]struct {
		peer, at string // addresses of the connection's two ends
		trusted  string
		tls      bool
		headers  []h
		want     reach
	}{
		"this machine":               {"127.0.0.1:5", "127.0.0.1:80", "", false, nil, reach{From: netip.MustParseAddr("127.0.0.1"), Local: true}},
		"this machine over IPv6":     {"[::1]:5", "[::1]:80", "", false, nil, reach{From: netip.MustParseAddr("::1"), Local: true}},
		"a network":                  {"192.0.2.9:5", "192.0.2.1:80", "", false, nil, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"a network on both stacks":   {"[::ffff:192.0.2.9]:5", "[::ffff:192.0.2.1]:80", "", false, nil, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"a zone":                     {"[fe80::1%eth0]:5", "[fe80::2%eth0]:80", "", false, nil, reach{From: netip.MustParseAddr("fe80::1")}},
		"this machine by its LAN":    {"192.0.2.1:5", "192.0.2.1:80", "", false, nil, reach{From: netip.MustParseAddr("192.0.2.1")}},
		"own TLS":                    {"192.0.2.9:5", "192.0.2.1:80", "", true, nil, reach{From: netip.MustParseAddr("192.0.2.9"), Secure: true}},
		"nobody is trusted":          {"127.0.0.1:5", "127.0.0.1:80", "", false, []h{{"X-Forwarded-For", "192.0.2.9"}, {"X-Forwarded-Proto", "https"}}, reach{From: netip.MustParseAddr("127.0.0.1"), Proxy: netip.MustParseAddr("127.0.0.1")}},
		"Forwarded":                  {"192.0.2.9:5", "192.0.2.1:80", "", false, []h{{"Forwarded", "for=127.0.0.1;proto=https"}}, reach{From: netip.MustParseAddr("192.0.2.9"), Proxy: netip.MustParseAddr("192.0.2.9")}},
		"another one is trusted":     {"192.0.2.9:5", "192.0.2.1:80", "192.0.2.8/32", false, []h{{"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-Proto", "https"}}, reach{From: netip.MustParseAddr("192.0.2.9"), Proxy: netip.MustParseAddr("192.0.2.9")}},
		"trusted":                    {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "192.0.2.9"}, {"X-Forwarded-Proto", "https"}}, reach{From: netip.MustParseAddr("192.0.2.9"), Secure: true}},
		"trusted and plain":          {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "192.0.2.9"}, {"X-Forwarded-Proto", "http"}}, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"trusted and silent":         {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "192.0.2.9"}}, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"trusted on the same side":   {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "127.0.0.1"}}, reach{From: netip.MustParseAddr("127.0.0.1")}},
		"trusted and not asked":      {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, nil, reach{From: netip.MustParseAddr("127.0.0.1"), Local: true}},
		"a spoofed begin":            {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "127.0.0.1, 192.0.2.9"}}, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"two headers":                {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-For", "192.0.2.9"}}, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"two proxies":                {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.0/8", false, []h{{"X-Forwarded-For", "192.0.2.9, 127.0.0.2"}, {"X-Forwarded-Proto", "https, https"}}, reach{From: netip.MustParseAddr("192.0.2.9"), Secure: true}},
		"plain before the last one":  {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.0/8", false, []h{{"X-Forwarded-For", "192.0.2.9, 127.0.0.2"}, {"X-Forwarded-Proto", "https, http"}}, reach{From: netip.MustParseAddr("192.0.2.9")}},
		"what is no address":         {"127.0.0.1:5", "127.0.0.1:80", "127.0.0.1/32", false, []h{{"X-Forwarded-For", "localhost"}}, reach{From: netip.MustParseAddr("127.0.0.1")}},
		"other words for the client": {"192.0.2.9:5", "192.0.2.1:80", "192.0.2.9/32", false, []h{{"X-Real-Ip", "127.0.0.1"}, {"True-Client-Ip", "127.0.0.1"}, {"X-Forwarded-Scheme", "https"}, {"X-Forwarded-Ssl", "on"}}, reach{From: netip.MustParseAddr("192.0.2.9")}},
	} {
		s := &Server{}
		if c.trusted != "" {
			s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.trusted)}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		at, err := net.ResolveTCPAddr("tcp", c.at)
		if err != nil {
			t.Fatal(err)
		}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at)))
		for _, x := range c.headers {
			r.Header.Add(x[0], x[1])
		}
		var got reach
		s.reached(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = reachOf(r) })).ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// logged collects what a server logs, also after it has answered.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestR34StrangeProxy: a proxy that nobody has named is told once in the log, and to
// the owner; what a stranger claims is not.
func TestR34StrangeProxy(t *testing.T) {
	var log logged
	s := newSite(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	claims := header("X-Forwarded-For", "192.0.2.9")
	s.get(s.out, "/", claims)
	s.post(s.out, "/login", url.Values{"token": {"x"}}, claims)
	if r := s.get(s.in, "/"); strings.Contains(r.body, "trusted_proxies") {
		t.Error("a stranger has made nod say so")
	}
	for range 3 {
		if r := s.get(s.in, "/", claims); !strings.Contains(r.body, "A proxy at 127.0.0.1") || !strings.Contains(r.body, "trusted_proxies") {
			t.Error("the first page does not say so")
		}
	}
	if r := s.get(s.in, "/devices"); !strings.Contains(r.body, "A proxy at 127.0.0.1") {
		t.Error("the list of devices does not say so")
	}
	if n := strings.Count(log.String(), "is not trusted"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, log.String())
	}
}

// TestR9UnnamedProxyOnThisMachine: what it passes on may come from a network in the clear,
// so behind it one can look and no more, whatever it says.
func TestR9UnnamedProxyOnThisMachine(t *testing.T) {
	for _, proto := range []string{"http", "https", ""} {
		s := newSite(t)
		a := s.ask(s.session())
		via := func(r *http.Request) {
			r.Header.Set("X-Forwarded-For", "192.0.2.9")
			r.Header.Set("X-Forwarded-Proto", proto)
		}
		if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes"), via); r.status != http.StatusForbidden || len(s.agent.answers) > 0 {
			t.Errorf("approved behind %q: %d", proto, r.status)
		}
		if r := s.get(s.in, "/", via); r.status != http.StatusOK || !strings.Contains(r.body, "this connection is not encrypted") {
			t.Errorf("to look behind %q: %d", proto, r.status)
		}
	}
}

// TestR34Echo: older ones let a client choose its own address.
func TestR34Echo(t *testing.T) {
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`labstack/echo/v4 v4\.(\d+)\.(\d+)\n`).FindSubmatch(b)
	if m == nil {
		t.Fatal("echo is not there")
	}
	minor, _ := strconv.Atoi(string(m[1]))
	patch, _ := strconv.Atoi(string(m[2]))
	if minor < 16 || minor == 16 && patch < 4 {
		t.Errorf("echo is %s", m[0])
	}
}

// TestC56SubPath: below a path nod answers to a proxy that passes it on, and to one
// that takes it off; what it says leads to the path in either case.
func TestC56SubPath(t *testing.T) {
	s := newSite(t, func(c *Config) { c.BasePath = "/nod" })
	id := s.session()
	for _, prefix := range []string{"/nod", ""} {
		page := s.get(s.in, prefix+"/s/"+id, withCookies(s))
		if page.status != http.StatusOK {
			t.Errorf("%s: %d", prefix, page.status)
		}
		for _, m := range regexp.MustCompile(`(?:href|src|action|data-live)="([^"#][^"]*)"`).FindAllStringSubmatch(page.body, -1) {
			if !strings.HasPrefix(m[1], "/nod/") {
				t.Errorf("%s: %s leads out of the path", prefix, m[0])
			}
		}
		if r := s.get(s.out, prefix+"/"); r.status != http.StatusSeeOther || r.header.Get("Location") != "/nod/login" {
			t.Errorf("%s without a login: %d to %q", prefix, r.status, r.header.Get("Location"))
		}
		if r := s.post(s.in, prefix+"/s/"+id+"/rename", url.Values{"title": {"x"}}, withCookies(s)); r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), "/nod/s/"+id) {
			t.Errorf("%s: a post: %d to %q", prefix, r.status, r.header.Get("Location"))
		}
		e := s.stream(prefix+"/s/"+id+"/live", "", withCookies(s))
		e.next("hello")
		if r := s.get(s.in, prefix+"/static/nod.css"); r.status != http.StatusOK {
			t.Errorf("%s: a file: %d", prefix, r.status)
		}
		if r := s.get(s.in, prefix+"/static/..%2fstatic.go"); r.status != http.StatusNotFound {
			t.Errorf("%s: a file elsewhere: %d", prefix, r.status)
		}
	}
	if r := s.get(s.in, "/nod"); r.status != http.StatusSeeOther || r.header.Get("Location") != "/nod/" {
		t.Errorf("without the last slash: %d to %q", r.status, r.header.Get("Location"))
	}
}

// withCookies sends the cookies that a browser sends to a proxy, which knows the path
// as the browser does.
func withCookies(s *site) func(*http.Request) {
	return func(r *http.Request) {
		u := *r.URL
		u.Path = "/nod/"
		if len(r.Cookies()) == 0 {
			for _, c := range s.in.Jar.Cookies(&u) {
				if !strings.HasPrefix(r.URL.Path, "/nod/") {
					r.AddCookie(c)
				}
			}
		}
	}
}
