package handlers

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"nod/state"
)

// checkHeaders fails on an answer, of whatever kind, that lacks what every answer has,
// or that opens the door for another site.
func checkHeaders(t testing.TB, what string, h http.Header) {
	t.Helper()
	for k := range h {
		if strings.HasPrefix(k, "Access-Control-") {
			t.Errorf("%s: it has %s", what, k)
		}
	}
	for k, v := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
		"Strict-Transport-Security": "", // no test here has TLS
	} {
		if h.Get(k) != v {
			t.Errorf("%s: %s is %q", what, k, h.Get(k))
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'", "require-trusted-types-for 'script'", "trusted-types nod"} {
		if !slices.Contains(strings.Split(policy, "; "), want) {
			t.Errorf("%s: the policy has no %s: %s", what, want, policy)
		}
	}
	for _, bad := range []string{"unsafe", "*", "data:", "http:", "https:", "blob:"} {
		if strings.Contains(policy, bad) {
			t.Errorf("%s: the policy has %s: %s", what, bad, policy)
		}
	}
	if c := h.Get("Cache-Control"); !strings.Contains(c, "no-store") && !strings.Contains(c, "immutable") {
		t.Errorf("%s: it may be kept: %q", what, c)
	}
}

// paths fills a route's parameters: those of things that there are, and of none.
func (s *site) paths(r route, session, approval string) []string {
	real := session
	if strings.HasPrefix(r.path, "/approvals/") {
		real = approval
	}
	var out []string
	for _, id := range []string{real, "none"} {
		out = append(out, s.base+strings.NewReplacer(":id", id, ":name", "nod.css", ":turn", "0", ":part", "0", ":message", "m", ":operation", "fork", ":file", "0", ":event", "1", ":text", "0").Replace(r.path))
	}
	return slices.Compact(out)
}

// TestR18HeadersOfEveryRoute asks for each route, with and without a login, well and
// wrongly; site.do and site.stream look at what comes.
func TestR18HeadersOfEveryRoute(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	for _, r := range routes {
		for _, path := range s.paths(r, id, a.ID) {
			if strings.HasSuffix(r.path, "/live") && !strings.Contains(path, "none") {
				s.stream(path, "").next("hello")
			} else {
				s.do(s.in, r.method, path, nil)
			}
			s.do(s.out, r.method, path, nil)
			s.do(s.out, r.method, path, url.Values{"x": {"y"}})
			s.do(s.out, r.method, path, nil, header("Sec-Fetch-Site", "cross-site"))
			s.do(s.out, r.method, path, nil, header("Host", "evil.test"))
			s.do(s.out, r.method, path, nil, header("Origin", "http://evil.test"), header("Access-Control-Request-Method", "POST"))
			for _, method := range []string{"HEAD", "OPTIONS", "PUT", "PROPFIND"} {
				s.do(s.in, method, path, nil, header("Origin", "http://evil.test"), header("Access-Control-Request-Method", "POST"))
			}
		}
	}
}

// written sends a request as it is written here, with PORT in it replaced.
func (s *site) written(request string) *http.Response {
	s.t.Helper()
	c, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte(strings.ReplaceAll(request, "PORT", fmt.Sprint(s.port)))); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

// TestR2HostsAsWritten: hosts that no client library would send.
func TestR2HostsAsWritten(t *testing.T) {
	s := newSite(t, func(c *Config) { c.PublicHosts = []string{"nod.example"} })
	for host, ok := range map[string]bool{
		"127.0.0.1:PORT": true, "LOCALHOST:PORT": true, "localhost.:PORT": true, "[::1]:PORT": true, "nod.example": true, "Nod.Example": true, "nod.example.": true, "127.0.0.1.:PORT": true,
		"": false, " ": false, ":PORT": false, "0.0.0.0": false, "0.0.0.0:PORT": false, "[::]:PORT": false, "evil.test": false, "evil.test:PORT": false,
		"127.0.0.1.evil.test": false, "127.0.0.1.evil.test:PORT": false, "127.0.0.1@evil.test": false, "127.0.0.1:PORT@evil.test": false,
		"evil.test@127.0.0.1:PORT": false, "localhost:PORT.evil.test": false, "127.0.0.1:PORT, evil.test": false, "127.1:PORT": false,
		"2130706433:PORT": false, "0x7f.1:PORT": false, "localhost..:PORT": false, "[::1%25lo]:PORT": false, "nod.example:PORT": false, "nod.example..": false, ".": false, "nod.example.:PORT": false, "xnod.example": false,
	} {
		for _, request := range []string{"GET /login", "GET /static/nod.css", "GET /live", "POST /login", "HEAD /login", "OPTIONS *"} {
			res := s.written(request + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\nAccept: text/event-stream\r\n\r\n")
			if got := res.StatusCode != http.StatusMisdirectedRequest && res.StatusCode != http.StatusBadRequest; got != ok {
				t.Errorf("%s with Host %q: %d", request, host, res.StatusCode)
			}
		}
	}
	for _, request := range []string{"GET / HTTP/1.0\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nHost: evil.test\r\n\r\n"} {
		if res := s.written(request); res.StatusCode != http.StatusMisdirectedRequest && res.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d", request, res.StatusCode)
		}
	}
}

// TestR2OwnAddress: the address at which a connection has arrived is ours, no other
// one is.
func TestR2OwnAddress(t *testing.T) {
	local := net.Addr(&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 8787})
	for host, ok := range map[string]bool{"192.0.2.1:8787": true, "[::ffff:192.0.2.1]:8787": true, "192.0.2.2:8787": false, "192.0.2.1:80": false, "192.0.2.1": false} {
		if hostAllowed(host, "80", 8787, local, nil) != ok {
			t.Errorf("%s: %v", host, !ok)
		}
	}
	for host, ok := range map[string]bool{"localhost": true, "192.0.2.1": true, "[::1]": true, "192.0.2.1:443": true, "evil.test": false, "192.0.2.1:80": false} {
		if hostAllowed(host, "443", 443, local, nil) != ok {
			t.Errorf("%s at the usual port: %v", host, !ok)
		}
	}
}

// TestR3Table goes through all that a browser says of where a request comes from,
// with a login, against what the rule says in words: nothing from elsewhere but a link
// that is followed, and a form only where it says that it is our own.
func TestR3Table(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	own := s.srv.URL
	type request struct{ host, site, mode, dest, origin, kind, method string }
	want := func(r request) int {
		elsewhere := r.site == "cross-site" || r.site == "same-site"
		switch {
		case r.host == "evil.test":
			return http.StatusMisdirectedRequest
		case elsewhere && !(r.method == "GET" && r.mode == "navigate" && r.dest == "document"):
			return http.StatusForbidden
		case r.method == "GET":
			return http.StatusOK
		case r.method == "HEAD": // which is not there
			return http.StatusNotFound
		case r.method == "OPTIONS":
			return http.StatusNoContent
		case r.site == "" && (r.origin == "null" || r.origin == "http://evil.test"):
			return http.StatusForbidden
		case r.method != "POST":
			return http.StatusNotFound
		case r.kind != "application/x-www-form-urlencoded":
			return http.StatusUnsupportedMediaType
		case r.site == "" && r.origin == "":
			return http.StatusForbidden
		}
		return http.StatusSeeOther
	}
	var allowed []request
	try := func(r request) {
		path := "/s/" + id
		if r.method != "GET" && r.method != "HEAD" {
			path = "/approvals/" + a.ID
		}
		var f url.Values
		if r.method != "GET" && r.method != "HEAD" && r.method != "OPTIONS" {
			f = form(a, "accept", "seen", "yes")
		}
		got := s.do(s.in, r.method, path, f, func(q *http.Request) {
			for k, v := range map[string]string{"Host": r.host, "Sec-Fetch-Site": r.site, "Sec-Fetch-Mode": r.mode, "Sec-Fetch-Dest": r.dest, "Origin": r.origin, "Content-Type": r.kind} {
				header(k, v)(q)
			}
		})
		if got.status != want(r) {
			t.Errorf("%+v: %d, want %d", r, got.status, want(r))
		}
	}
	host := strings.TrimPrefix(own, "http://")
	for _, h := range []string{host, "evil.test"} {
		for _, site := range []string{"", "none", "same-origin", "same-site", "cross-site"} {
			for _, how := range [][2]string{{"navigate", "document"}, {"navigate", "iframe"}, {"cors", "empty"}, {"no-cors", "image"}, {"", ""}} {
				for _, origin := range []string{"", own, "null", "http://evil.test"} {
					for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain", "application/json", "multipart/form-data; boundary=x", ""} {
						for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"} {
							r := request{h, site, how[0], how[1], origin, kind, method}
							if kind != "application/x-www-form-urlencoded" && method != "POST" {
								continue // the same again
							}
							if want(r) == http.StatusSeeOther {
								allowed = append(allowed, r)
							} else {
								try(r)
							}
						}
					}
				}
			}
		}
	}
	if len(s.agent.answers) != 0 {
		t.Fatal("something reached the agent")
	}
	for _, r := range allowed {
		try(r)
	}
	if len(s.agent.answers) != 1 || len(allowed) == 0 {
		t.Errorf("%d answers to %d posts of one decision", len(s.agent.answers), len(allowed))
	}
}

// TestR3ReadingChangesNothing: no address, whatever is asked along with it, does more
// than show something.
func TestR3ReadingChangesNothing(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	s.apply(id, &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: "m", Message: state.Message{Text: "later"}})
	picture := func() string {
		v, err := s.hub.Session(id)
		if err != nil {
			t.Fatal(err)
		}
		devices, err := s.store.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(v.Seq, s.hub.Inbox().Rev, len(devices), len(s.agent.answers), len(s.agent.created), len(s.agent.operated))
	}
	before := picture()
	ask := "?" + form(a, "accept", "seen", "yes", "confirmed", "yes", "text", "x", "title", "x", "do", "remove", "queue", "empty", "_method", "POST", "provider", "codex", "folder", "/", "prompt", "x").Encode()
	for _, r := range routes {
		if strings.HasSuffix(r.path, "/live") {
			continue
		}
		for _, path := range s.paths(r, id, a.ID) {
			for _, method := range []string{"GET", "HEAD"} {
				s.do(s.in, method, path+ask, nil, header("X-Http-Method-Override", "POST"))
				if after := picture(); after != before {
					t.Errorf("%s %s has changed something: %s, was %s", method, path, after, before)
					before = after
				}
			}
		}
	}
}

// TestR19NoFilesOfAgents: what a route answers is a page that nod has drawn, a stream of
// such parts, a file of nod's own, or else text that may do nothing, or a file to keep.
func TestR19NoFilesOfAgents(t *testing.T) {
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>`
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) { r.Kind, r.Input, r.Diff = state.RequestFileChange, "", svg })
	texts := 0
	for _, r := range routes {
		if r.method != "GET" || strings.HasSuffix(r.path, "/live") || r.path == "/static/:name" {
			continue
		}
		for _, path := range s.paths(r, id, a.ID) {
			got := s.get(s.in, path)
			kind := got.header.Get("Content-Type")
			switch {
			case kind == "text/html; charset=UTF-8":
				if strings.Contains(got.body, "<svg") {
					t.Errorf("%s shows a picture of the agent's", path)
				}
			case got.status == http.StatusNoContent || got.status == http.StatusSeeOther:
			case strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment"):
			case kind == "text/plain; charset=utf-8" && strings.HasSuffix(got.header.Get("Content-Security-Policy"), "; sandbox"):
				if texts++; !strings.Contains(got.body, svg) {
					t.Errorf("%s is not what came: %q", path, got.body)
				}
			default:
				t.Errorf("%s answers with %q, policy %q", path, kind, got.header.Get("Content-Security-Policy"))
			}
		}
	}
	if texts != 1 {
		t.Errorf("%d routes show something as it came", texts)
	}
}

// TestR19NoFileByItsPath: a name in an address never is one on disk.
func TestR19NoFileByItsPath(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{
		"../static.go", "..%2fstatic.go", "%2e%2e/static.go", "..%5cstatic.go", "....//static.go", "/etc/passwd", "%2fetc%2fpasswd", "..%2f..%2f..%2fetc%2fpasswd",
		"nod.css%00.go", "nod.css/", "nod.css/..", ".", "..", "%00", "static.go", "live.js", "C:%5cx", "nod.css%3f",
	} {
		if r := s.get(s.in, "/static/"+name); r.status == http.StatusOK || strings.Contains(r.body, "package static") || strings.Contains(r.body, "root:") {
			t.Errorf("%s: %d %.50q", name, r.status, r.body)
		}
	}
}
