package handlers

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nod/handlers/auth"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent plays an upstream whose turns the tests drive themselves.
type agent struct {
	hub     *hub.Hub
	answers []state.Decision
	fail    error
	deaf    error         // what Answer returns
	slow    chan struct{} // unless nil, Answer puts something in and waits until it can do so again

	created  []state.NewSession
	settings []state.Setting
	operated []string
	other    string // URI of the session that an operation makes
	older    state.OlderPage
	listed   []string
}

func (a *agent) CreateSession(ctx context.Context, n state.NewSession) (string, error) {
	if a.fail != nil {
		return "", a.fail
	}
	a.created = append(a.created, n)
	uri := "ahp-session:/" + strings.ToLower(rand.Text())
	_, err := a.hub.Begin(ctx, n.Provider, &state.SessionSummary{Resource: uri, Provider: n.Provider, WorkingDirectory: new(state.FileURI(n.Folder))}, state.SessionConfig(a.settings), &state.SessionReady{})
	return uri, err
}

func (a *agent) Dispatch(ctx context.Context, _ string, s *state.Session, act state.Action) error {
	if a.fail != nil {
		return a.fail
	}
	switch act := act.(type) {
	case *state.SessionTurnStarted:
		act.TurnID = "t"
	case *state.SessionTurnCancelled:
	}
	a.hub.Apply(ctx, s.Summary.Resource, state.Source{}, state.Envelope{Channel: s.Summary.Resource, Action: act})
	return nil
}

// Operate tells what it was asked for.
func (a *agent) Operate(ctx context.Context, _ string, s *state.Session, operation string, args map[string]string) (string, error) {
	a.operated = append(a.operated, operation+" "+fmt.Sprint(args))
	return a.other, a.fail
}

func (a *agent) Settings(context.Context, string) []state.Setting { return a.settings }

func (a *agent) Older(_ context.Context, _, search, cursor string) (state.OlderPage, error) {
	a.listed = append(a.listed, search+" "+cursor)
	return a.older, a.fail
}

func (a *agent) Recall(ctx context.Context, provider, uri string) error {
	if a.fail == nil {
		_, err := a.hub.Begin(ctx, provider, &state.SessionSummary{Resource: uri, Provider: provider, Title: "recalled"}, nil, &state.SessionReady{})
		return err
	}
	return a.fail
}

// Connect notes which link was wanted.
func (a *agent) Connect(_ context.Context, key string) error {
	a.listed = append(a.listed, "connect "+key)
	return a.fail
}

func (a *agent) Answer(_ context.Context, _ state.Request, d state.Decision) error {
	a.answers = append(a.answers, d)
	if a.slow != nil {
		a.slow <- struct{}{}
		a.slow <- struct{}{}
	}
	return a.deaf
}

// plenty is for tests of other things than limits.
var plenty = Limits{Door: 1 << 20, AllDoors: 1 << 20, Proofs: 1 << 20, Changes: 1 << 20, Allows: 1 << 20, Strangers: 1 << 20, Streams: 1 << 20, Device: 1 << 20}

// site is a server with everything below it, and a browser that has logged in.
type site struct {
	t     testing.TB
	leave func() // stops all of it
	srv   *httptest.Server
	port  int
	base  string // path
	store journal.Store
	hub   *hub.Hub
	auth  *auth.Auth
	agent *agent
	in    *http.Client // logged in
	out   *http.Client // not
}

func newSite(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	s := newSiteIn(t, t.TempDir(), change...)
	t.Cleanup(s.leave)
	return s
}

// newSiteIn is newSite with a data folder of its own, for whoever starts another
// one there later.
func newSiteIn(t testing.TB, dir string, change ...func(*Config)) *site {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: store, hub: h, agent: &agent{hub: h}}
	h.SetUpstream(s.agent, []state.Link{{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkUp, Epoch: "e1"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	cfg := Config{Hub: h, Epoch: h.Epoch, Log: log, Port: s.port, StartFolder: "/", Limits: plenty}
	for _, f := range change {
		f(&cfg)
	}
	s.auth = auth.New(auth.Config{Store: store, Port: s.port, BasePath: cfg.BasePath, Secure: Secure, Private: Private})
	cfg.Auth, cfg.Agents, cfg.Audit = s.auth, s.agent, store
	server := New(cfg)
	s.srv = &httptest.Server{Listener: l, Config: NewHTTPServer(server)}
	s.srv.Start()
	s.leave = func() {
		server.Close()
		s.srv.Close()
		if err := errors.Join(h.Close(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
	}
	s.base = cfg.BasePath
	s.out, s.in = s.client(), s.login()
	return s
}

// login returns another browser that has logged in.
func (s *site) login(change ...func(*http.Request)) *http.Client {
	s.t.Helper()
	token, err := auth.MintLogin(s.t.Context(), s.store)
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.client()
	if r := s.post(c, s.base+"/login", url.Values{"token": {token}}, change...); r.status != http.StatusSeeOther {
		s.t.Fatalf("login: %d", r.status)
	}
	return c
}

func (s *site) client() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &http.Client{
		Jar: jar, Transport: s.srv.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (s *site) do(c *http.Client, method, path string, form url.Values, change ...func(*http.Request)) reply {
	s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.srv.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, f := range change {
		f(r)
	}
	res, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	checkHeaders(s.t, method+" "+path, res.Header)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

func (s *site) get(c *http.Client, path string, change ...func(*http.Request)) reply {
	s.t.Helper()
	return s.do(c, http.MethodGet, path, nil, change...)
}

func (s *site) post(c *http.Client, path string, form url.Values, change ...func(*http.Request)) reply {
	s.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	return s.do(c, http.MethodPost, path, form, change...)
}

func header(k, v string) func(*http.Request) {
	return func(r *http.Request) {
		if k == "Host" {
			r.Host = v
		}
		if v == "" {
			r.Header.Del(k)
		} else {
			r.Header.Set(k, v)
		}
	}
}

// session starts one and returns its id.
func (s *site) session() string {
	s.t.Helper()
	r := s.post(s.in, s.base+"/new", url.Values{"provider": {"codex"}, "folder": {s.t.TempDir()}, "prompt": {"do it"}})
	id, ok := strings.CutPrefix(r.header.Get("Location"), s.base+"/s/")
	if !ok {
		s.t.Fatalf("no session: %d %s", r.status, r.body)
	}
	return id
}

func (s *site) uri(id string) string { return "ahp-session:/" + id }

func (s *site) apply(id string, a state.Action) {
	s.hub.Apply(s.t.Context(), s.uri(id), state.Source{}, state.Envelope{Channel: s.uri(id), Action: a})
}

// ask has the agent ask for a command.
func (s *site) ask(id string, change ...func(*state.Request)) *approvals.Approval {
	s.t.Helper()
	r := state.Request{
		Session: s.uri(id), TurnID: "t", Provider: "codex", Epoch: "e1", UpstreamID: json.RawMessage("1"), Method: "m",
		Params: json.RawMessage(`{}`), Kind: state.RequestCommand, Title: "Run a command?", Input: "echo hi", Cwd: "/w",
		Options: []state.ConfirmationOption{
			{ID: "accept", Label: "Approve once", Kind: state.OptionApprove},
			{ID: "acceptForSession", Label: "Approve for this session", Kind: state.OptionApprove, Group: new(int64(1))},
			{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		},
	}
	for _, f := range change {
		f(&r)
	}
	s.hub.Ask(s.t.Context(), r)
	v, err := s.hub.Session(id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Approvals[len(v.Approvals)-1]
}

func form(a *approvals.Approval, option string, more ...string) url.Values {
	f := url.Values{"digest": {a.Digest}, "nonce": {a.Nonce}, "option": {option}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

// filledIn makes an address of a route's path.
func filledIn(path string) string {
	return strings.NewReplacer(":id", "x", ":name", "x", ":turn", "0", ":part", "0", ":file", "0").Replace(path)
}

// TestR1EveryRouteNeedsALogin walks the routes that echo really has.
func TestR1EveryRouteNeedsALogin(t *testing.T) {
	s := newSite(t)
	exempt := map[string]bool{
		"GET /healthz": true, "GET /static/:name": true, "GET /login": true, "POST /login": true,
		"GET /join": true, "POST /join": true, "GET /join/wait": true,
	}
	all := s.srv.Config.Handler.(*Server).echo.Routes()
	if len(all) < len(routes) {
		t.Fatalf("%d routes", len(all))
	}
	for _, r := range all {
		if exempt[r.Method+" "+r.Path] || r.Method == "echo_route_not_found" {
			continue
		}
		path := filledIn(r.Path)
		var got reply
		if r.Method == http.MethodPost {
			got = s.post(s.out, path, nil)
		} else {
			got = s.get(s.out, path)
		}
		refused := got.status == http.StatusUnauthorized || got.status == http.StatusSeeOther && got.header.Get("Location") == "/login"
		if !refused {
			t.Errorf("%s %s without a login: %d", r.Method, r.Path, got.status)
		}
	}
}

func TestR2Hosts(t *testing.T) {
	s := newSite(t, func(c *Config) { c.PublicHosts = []string{"nod.example:8443"} })
	port := fmt.Sprint(s.port)
	for host, ok := range map[string]bool{
		"127.0.0.1:" + port: true, "localhost:" + port: true, "LOCALHOST:" + port: true, "localhost.:" + port: true, "[::1]:" + port: true,
		"127.0.0.2:" + port: true, "nod.example:8443": true, "NOD.example:8443": true,
		"evil.test": false, "evil.test:" + port: false, "127.0.0.1.evil.test:" + port: false, "localhost": false, "127.0.0.1": false,
		"localhost:1": false, "0.0.0.0:" + port: false, "127.0.0.1@evil.test:" + port: false, "192.0.2.1:" + port: false,
		"nod.example": false, "nod.example:443": false, "localhost.evil.test:" + port: false,
	} {
		id := "x"
		for _, path := range []string{"/", "/static/nod.css", "/s/" + id + "/live"} {
			if got := s.get(s.in, path, header("Host", host)).status; (got != http.StatusMisdirectedRequest) != ok {
				t.Errorf("GET %s with Host %s: %d", path, host, got)
			}
		}
		if got := s.post(s.in, "/s/x/stop", nil, header("Host", host)).status; (got != http.StatusMisdirectedRequest) != ok {
			t.Errorf("POST with Host %s: %d", host, got)
		}
	}
}

// TestR3OtherSites tries what a page elsewhere could have a browser send.
func TestR3OtherSites(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session())
	type h = [2]string
	for _, c := range []struct {
		method, path string
		headers      []h
		want         int
	}{
		{"GET", "/", []h{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}, {"Sec-Fetch-Dest", "document"}}, 200}, // a link followed
		{"GET", "/", []h{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}, {"Sec-Fetch-Dest", "image"}}, 403},
		{"GET", "/", []h{{"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Mode", "cors"}, {"Sec-Fetch-Dest", "empty"}}, 403}, // another port of this machine
		{"GET", "/", []h{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}, {"Sec-Fetch-Dest", "iframe"}}, 403},
		{"GET", "/live", []h{{"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Mode", "cors"}, {"Sec-Fetch-Dest", "empty"}}, 403},
		{"POST", "/approvals/" + a.ID, []h{{"Sec-Fetch-Site", "cross-site"}}, 403},
		{"POST", "/approvals/" + a.ID, []h{{"Sec-Fetch-Site", "same-site"}}, 403},
		{"POST", "/approvals/" + a.ID, []h{{"Sec-Fetch-Site", ""}, {"Origin", "http://evil.test"}}, 403},
		{"POST", "/approvals/" + a.ID, []h{{"Sec-Fetch-Site", ""}, {"Origin", "null"}}, 403},
		{"POST", "/approvals/" + a.ID, []h{{"Sec-Fetch-Site", ""}}, 403}, // with a cookie a browser says where it comes from
		{"POST", "/approvals/" + a.ID, []h{{"Content-Type", "text/plain"}}, 415},
		{"POST", "/approvals/" + a.ID, []h{{"Content-Type", "multipart/form-data; boundary=x"}}, 415},
		{"PUT", "/approvals/" + a.ID, nil, 404},
		{"DELETE", "/s/x", nil, 404},
	} {
		var f url.Values
		if c.method != "GET" {
			f = form(a, "decline")
		}
		got := s.do(s.in, c.method, c.path, f, func(r *http.Request) {
			for _, x := range c.headers {
				header(x[0], x[1])(r)
			}
		})
		if got.status != c.want {
			t.Errorf("%s %s %v: %d, want %d", c.method, c.path, c.headers, got.status, c.want)
		}
	}
	if len(s.agent.answers) != 0 {
		t.Error("something reached the agent")
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	s := newSite(t)
	id := s.session()
	for _, path := range []string{"/", "/login", "/new", "/s/" + id, "/s/none", "/nothing", "/static/live.min.js"} {
		r := s.get(s.in, path)
		for k := range r.header {
			if strings.HasPrefix(k, "Access-Control-") {
				t.Errorf("%s: %s", path, k)
			}
		}
		csp := r.header.Get("Content-Security-Policy")
		nonce := regexp.MustCompile(`'nonce-(\w{16,})'`).FindStringSubmatch(csp)
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || nonce == nil {
			t.Errorf("%s: policy %q", path, csp)
		} else if again := s.get(s.in, path).header.Get("Content-Security-Policy"); again == csp {
			t.Errorf("%s: the nonce is not fresh", path)
		} else if strings.Contains(r.body, "<script") && !strings.Contains(r.body, `nonce="`+nonce[1]+`"`) {
			t.Errorf("%s: a script without the nonce", path)
		}
		for k, v := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if r.header.Get(k) != v {
				t.Errorf("%s: %s is %q", path, k, r.header.Get(k))
			}
		}
		if r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be kept", path)
		}
	}
}

func TestR10Login(t *testing.T) {
	s := newSite(t)
	token, err := auth.MintLogin(t.Context(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	c := s.client()
	// Whole links can be pasted.
	r := s.post(c, "/login", url.Values{"token": {" http://127.0.0.1:8787/login#k=" + token + "\n"}})
	if r.status != http.StatusSeeOther || r.header.Get("Location") != "/" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	cookie := r.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/", fmt.Sprintf("nod_%d=", s.port)} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie lacks %s: %s", want, cookie)
		}
	}
	if strings.Contains(cookie, token) {
		t.Error("the cookie is the login token")
	}
	if r := s.post(s.client(), "/login", url.Values{"token": {token}}); r.status != http.StatusUnauthorized || !strings.Contains(r.body, "nod login-url") {
		t.Errorf("a second time: %d", r.status)
	}
	for _, bad := range []string{"", "x", strings.Repeat("x", 4000)} {
		if r := s.post(s.client(), "/login", url.Values{"token": {bad}}); r.status != http.StatusUnauthorized {
			t.Errorf("token %.10q: %d", bad, r.status)
		}
	}
	if r := s.get(c, "/"); r.status != http.StatusOK {
		t.Errorf("the inbox afterwards: %d", r.status)
	}
}

// TestR11LogoutEndsEverything: the next request, and the stream that is open.
func TestR11LogoutEndsEverything(t *testing.T) {
	s := newSite(t)
	events := s.stream("/live", "")
	events.next("hello")
	if r := s.post(s.in, "/logout", nil); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	events.ends()
	if r := s.get(s.in, "/"); r.status != http.StatusSeeOther {
		t.Errorf("the inbox afterwards: %d", r.status)
	}
}

// TestR11Devices ends one session, and all others, with what they have open.
func TestR11Devices(t *testing.T) {
	s := newSite(t)
	phone := s.login(header("User-Agent", "Mozilla/5.0 (iPhone) Safari/604.1"))
	mine := s.in
	s.in = phone
	events := s.stream("/live", "")
	events.next("hello")
	s.in = mine
	page := s.get(s.in, "/devices").body
	if !strings.Contains(page, "Safari on iPhone") || strings.Count(page, "this one") != 1 {
		t.Errorf("the list: %s", page)
	}
	end := regexp.MustCompile(`/devices/\w+/end"`).FindString(page)
	if r := s.post(s.in, strings.TrimSuffix(end, `"`), nil); r.status != http.StatusSeeOther {
		t.Errorf("end: %d", r.status)
	}
	events.ends()
	if r := s.get(phone, "/"); r.status != http.StatusSeeOther {
		t.Errorf("the phone afterwards: %d", r.status)
	}
	a, b := s.login(), s.login()
	if r := s.post(s.in, "/devices/end-others", nil); r.status != http.StatusSeeOther {
		t.Errorf("end others: %d", r.status)
	}
	for _, c := range []*http.Client{a, b} {
		if r := s.get(c, "/"); r.status != http.StatusSeeOther {
			t.Errorf("another afterwards: %d", r.status)
		}
	}
	if r := s.get(s.in, "/"); r.status != http.StatusOK {
		t.Errorf("this one afterwards: %d", r.status)
	}
	if r := s.post(s.in, "/devices/none/end", nil); r.status != http.StatusSeeOther {
		t.Errorf("one that is gone: %d", r.status)
	}
}

// TestR11LoginEndsTheOldSession: a session that somebody planted dies at login.
func TestR11LoginEndsTheOldSession(t *testing.T) {
	s := newSite(t)
	u, _ := url.Parse(s.srv.URL)
	old := s.in.Jar.Cookies(u)
	token, err := auth.MintLogin(t.Context(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	s.post(s.in, "/login", url.Values{"token": {token}})
	c := s.client()
	c.Jar.SetCookies(u, old)
	if r := s.get(c, "/"); r.status != http.StatusSeeOther {
		t.Errorf("the old cookie: %d", r.status)
	}
	if r := s.get(s.in, "/"); r.status != http.StatusOK {
		t.Errorf("the new one: %d", r.status)
	}
}

func TestUnknownPages(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/s/none", "/approvals/none", "/nothing", "/static/none.js", "/static/..%2fstatic.go"} {
		if r := s.get(s.in, path); r.status != http.StatusNotFound || !strings.Contains(r.body, `href="/"`) {
			t.Errorf("%s: %d, without a way home or not", path, r.status)
		}
	}
	if r := s.get(s.in, "/s/none/live"); r.status != http.StatusOK || !strings.Contains(r.body, "event: gone") {
		t.Errorf("the stream of nothing: %d, and the page is not told to look again: %s", r.status, r.body)
	}
}

func TestNewSession(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ folder, prompt, says string }{
		{"/there/is/none", "do it", "There is no such folder. Nothing was started."},
		{"relative/path", "do it", "whole path"},
		{"", "do it", "whole path"},
		{file, "do it", "That is a file, not a folder."},
		{t.TempDir(), " \n ", "Say what should be done."},
	} {
		r := s.post(s.in, "/new", url.Values{"provider": {"codex"}, "folder": {c.folder}, "prompt": {c.prompt}})
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, c.says) {
			t.Errorf("%q: %d, without %q", c.folder, r.status, c.says)
		}
		if c.folder != "" && !strings.Contains(r.body, `value="`+c.folder+`"`) {
			t.Errorf("%q: what was typed is lost", c.folder)
		}
	}
	if n := len(s.hub.Inbox().Sessions); n != 0 {
		t.Errorf("%d sessions were started", n)
	}
	s.agent.fail = publicError("Codex is ill. Give it tea.")
	r := s.post(s.in, "/new", url.Values{"provider": {"codex"}, "folder": {t.TempDir()}, "prompt": {"keep <this>"}})
	if r.status != http.StatusBadGateway || !strings.Contains(r.body, "Give it tea") || !strings.Contains(r.body, "keep &lt;this&gt;") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

type publicError string

func (e publicError) Error() string  { return "cause" }
func (e publicError) Public() string { return string(e) }

func TestMessageAndStop(t *testing.T) {
	s := newSite(t)
	id := s.session()
	if r := s.post(s.in, "/s/"+id+"/messages", url.Values{"text": {"my <draft>"}}); r.status != http.StatusConflict || !strings.Contains(r.body, "still working") || !strings.Contains(r.body, "my &lt;draft&gt;") {
		t.Errorf("while working: %d", r.status)
	}
	if r := s.post(s.in, "/s/"+id+"/stop", nil); r.status != http.StatusSeeOther {
		t.Errorf("stop: %d", r.status)
	}
	if r := s.post(s.in, "/s/"+id+"/messages", url.Values{"text": {"  "}}); r.status != http.StatusUnprocessableEntity {
		t.Errorf("nothing: %d", r.status)
	}
	s.agent.fail = publicError("The link is down.")
	r := s.post(s.in, "/s/"+id+"/messages", url.Values{"text": {"my <draft>"}})
	if r.status != http.StatusBadGateway || !strings.Contains(r.body, "The link is down.") || !strings.Contains(r.body, "my &lt;draft&gt;") {
		t.Errorf("%d: the message is lost", r.status)
	}
	s.agent.fail = nil
	if r := s.post(s.in, "/s/"+id+"/messages", url.Values{"text": {"go on"}}); r.status != http.StatusSeeOther {
		t.Errorf("send: %d", r.status)
	}
	if r := s.post(s.in, "/s/"+id+"/messages", url.Values{"text": {strings.Repeat("x", 2<<20)}}); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("2 MB: %d", r.status)
	}
}

func TestDecide(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session())
	path := "/approvals/" + a.ID
	for name, c := range map[string]struct {
		form url.Values
		want int
		says string
	}{
		"other digest":   {url.Values{"digest": {strings.Repeat("0", 64)}, "nonce": {a.Nonce}, "option": {"decline"}}, 409, "is not what is asked"},
		"no nonce":       {url.Values{"digest": {a.Digest}, "option": {"decline"}}, 409, "is not what is asked"},
		"unknown option": {form(a, "always"), 400, "does not offer that answer"},
		"not seen":       {form(a, "accept"), 200, "echo hi"},
		"more than once": {form(a, "acceptForSession", "seen", "yes"), 200, "more than one run"},
	} {
		if r := s.post(s.in, path, c.form); r.status != c.want || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d, want %d and %q:\n%s", name, r.status, c.want, c.says, r.body)
		}
	}
	if len(s.agent.answers) != 0 {
		t.Fatal("something was sent already")
	}
	if r := s.post(s.in, path, form(a, "accept", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Fatalf("accept: %d %s", r.status, r.body)
	}
	if r := s.post(s.in, path, form(a, "accept", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Errorf("the same again: %d", r.status)
	}
	if r := s.post(s.in, path, form(a, "decline")); r.status != http.StatusConflict || !strings.Contains(r.body, "answered this already") {
		t.Errorf("the opposite: %d", r.status)
	}
	if len(s.agent.answers) != 1 {
		t.Errorf("%d answers were sent", len(s.agent.answers))
	}
}

// TestC15StaleCard answers a request that is over: nothing reaches the newer one.
func TestC15StaleCard(t *testing.T) {
	s := newSite(t)
	id := s.session()
	stale := s.ask(id)
	s.hub.Resolved(t.Context(), s.uri(id), "e1", json.RawMessage("1"), state.EndedAnswered)
	live := s.ask(id, func(r *state.Request) { r.UpstreamID = json.RawMessage("2") })
	if r := s.post(s.in, "/approvals/"+stale.ID, form(stale, "accept", "seen", "yes")); r.status != http.StatusConflict {
		t.Errorf("%d", r.status)
	}
	if a, _, err := s.hub.ApprovalView(s.t.Context(), live.ID); err != nil || a.State != approvals.Pending || len(s.agent.answers) != 0 {
		t.Error("the live request was touched")
	}
}

func TestEditedCommand(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) { r.Editable = true; r.Input = "echo one\necho two" })
	path := "/approvals/" + a.ID
	r := s.post(s.in, path, form(a, "accept", "seen", "yes", "edited", "echo one\r\necho three"))
	if r.status != http.StatusOK || !strings.Contains(r.body, "as you edited it") || !strings.Contains(r.body, "echo two") || !strings.Contains(r.body, "echo three") {
		t.Fatalf("an edit is not shown beside what was asked: %d", r.status)
	}
	if r := s.post(s.in, path, form(a, "accept", "confirmed", "yes", "edited", "echo one\r\necho three")); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	if got := s.agent.answers; len(got) != 1 || got[0].EditedInput != "echo one\necho three" {
		t.Errorf("%+v", got)
	}
}

func TestUneditedIsNoEdit(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) { r.Editable = true; r.Input = "echo one\necho two" })
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes", "edited", "echo one\r\necho two")); r.status != http.StatusSeeOther {
		t.Errorf("%d", r.status)
	}
}

func TestQuestions(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session(), func(r *state.Request) {
		r.Kind, r.Input = state.RequestQuestion, ""
		r.Questions = &state.InputRequest{ID: "q", Questions: []state.Question{
			{ID: "db", Kind: "single-select", Message: "Which?", Options: []state.QuestionOption{{ID: "a", Label: "A"}, {ID: "b", Label: "B"}}, AllowFreeformInput: new(true)},
			{ID: "why", Kind: "text", Message: "Why?"},
		}}
		r.Options = []state.ConfirmationOption{{ID: "answer", Label: "Answer", Kind: state.OptionApprove}}
	})
	page := s.get(s.in, "/s/"+s.hub.Inbox().Sessions[0].ID).body
	for _, want := range []string{`name="q.db"`, `name="t.db"`, `name="t.why"`, "Which?", "Why?"} {
		if !strings.Contains(page, want) {
			t.Errorf("the card lacks %s", want)
		}
	}
	// Without a script the answers survive the page in between.
	f := form(a, "answer", "q.db", "b", "t.why", "be<cause>")
	confirm := s.post(s.in, "/approvals/"+a.ID, f)
	if !strings.Contains(confirm.body, `name="q.db" value="b"`) || !strings.Contains(confirm.body, "be&lt;cause&gt;") {
		t.Errorf("answers are lost on the way: %s", confirm.body)
	}
	f.Set("confirmed", "yes")
	if r := s.post(s.in, "/approvals/"+a.ID, f); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	got := s.agent.answers[0].Answers
	if !slices.Equal(got["db"].Selected, []string{"b"}) || got["why"].Text != "be<cause>" {
		t.Errorf("%+v", got)
	}
}

// TestR20UnknownRequest shows what came, and offers no button.
func TestR20UnknownRequest(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) {
		r.Kind, r.Options, r.Input, r.Method, r.Params = state.RequestUnknown, nil, "", "item/new/thing", json.RawMessage(`{"what":"<b>this</b>"}`)
	})
	page := s.get(s.in, "/s/"+id).body
	if !strings.Contains(page, "item/new/thing") || !strings.Contains(page, "&lt;b&gt;this") {
		t.Error("what came is not shown")
	}
	if strings.Contains(page, `action="/approvals/`+a.ID) {
		t.Error("there is a form to answer it")
	}
}

// TestR20LongRequest shows what is known of a request that is too long, says why it cannot
// be approved, and offers to deny it and nothing else.
func TestR20LongRequest(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) {
		r.Kind, r.Input, r.Params, r.Caution = state.RequestTooLong, "", json.RawMessage(`{"cwd":"/<b>","command":""}`), "It is 16.0 MiB long."
	})
	page := s.get(s.in, "/s/"+id).body
	for _, want := range []string{"It is 16.0 MiB long", "/&lt;b&gt;", `value="decline"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the card lacks %s", want)
		}
	}
	if strings.Contains(page, `value="accept"`) {
		t.Error("it can be approved")
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "confirmed", "yes")); r.status < 400 || len(s.agent.answers) > 0 {
		t.Errorf("%d, and %d answers", r.status, len(s.agent.answers))
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline", "confirmed", "yes")); r.status != http.StatusSeeOther || len(s.agent.answers) != 1 {
		t.Errorf("%d, and %d answers", r.status, len(s.agent.answers))
	}
}

// TestR13HiddenCharacters makes every field of a card tell what it holds.
func TestR13HiddenCharacters(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.ask(id, func(r *state.Request) { r.Input = "echo \u202egnp.exe\u202c a\u200bb  c\td\x1b[31m" })
	page := s.get(s.in, "/s/"+id).body
	dock := page[strings.Index(page, `id="dock"`):]
	for _, want := range []string{"U+202E", "U+202C", "U+200B", "U+001B", "··", "→", "4 hidden characters"} {
		if !strings.Contains(dock, want) {
			t.Errorf("the card does not show %s", want)
		}
	}
	for _, hidden := range []string{"\u202e", "\u200b", "\x1b"} {
		if strings.Contains(dock, hidden) {
			t.Errorf("%q stands there as it is", hidden)
		}
	}
}

func TestBasePath(t *testing.T) {
	s := newSite(t, func(c *Config) { c.BasePath = "/nod" })
	page := s.get(s.in, "/nod/")
	if page.status != http.StatusOK {
		t.Fatalf("%d", page.status)
	}
	for _, m := range regexp.MustCompile(`(?:href|src|action|data-live)="([^"]*)"`).FindAllStringSubmatch(page.body, -1) {
		if !strings.HasPrefix(m[1], "/nod/") {
			t.Errorf("%s leads out of the base path", m[0])
		}
	}
	if r := s.get(s.out, "/nod/"); r.header.Get("Location") != "/nod/login" {
		t.Errorf("to %q", r.header.Get("Location"))
	}
}

// ---- streams ----

type events struct {
	t     testing.TB
	res   *http.Response
	lines *bufio.Scanner
}

func (s *site) stream(path, lastID string, change ...func(*http.Request)) *events {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.srv.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	for _, f := range change {
		f(r)
	}
	res, err := s.in.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d", path, res.StatusCode)
	}
	checkHeaders(s.t, path, res.Header)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	return &events{s.t, res, lines}
}

// next returns the next event, which must be of that name.
func (e *events) next(name string) (id, data string) {
	e.t.Helper()
	got := ""
	for e.lines.Scan() {
		switch k, v, _ := strings.Cut(e.lines.Text(), ": "); k {
		case "id":
			id = v
		case "event":
			got = v
		case "data":
			data += v + "\n"
		case "":
			if got == "" || got == "beat" { // which comes if the machine is slow
				id, got, data = "", "", ""
				continue
			}
			if got != name && !strings.HasPrefix(got, name+"-") {
				e.t.Fatalf("event %s, want %s", got, name)
			}
			return id, data
		}
	}
	e.t.Fatalf("the stream ended before %s: %v", name, e.lines.Err())
	return "", ""
}

func (e *events) ends() {
	e.t.Helper()
	for e.lines.Scan() {
	}
	if err := e.lines.Err(); err != nil {
		e.t.Errorf("the stream did not end: %v", err)
	}
}

var revision = regexp.MustCompile(`data-rev="([^"]+)"`)

func TestStream(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m"}})
	page := s.get(s.in, "/s/"+id).body
	at := revision.FindStringSubmatch(page)[1]
	e := s.stream("/s/"+id+"/live?since="+at, "")
	if got, _ := e.next("hello"); got != at {
		t.Errorf("it begins at %s, the page is at %s", got, at)
	}
	s.apply(id, &state.SessionDelta{TurnID: "t", PartID: "m", Content: "one\r\rtwo"})
	next, data := e.next("parts")
	if !strings.HasPrefix(data, `<div class="b" id="t0p0x0"`) || strings.Count(data, " id=") != 1 {
		t.Errorf("not just what changed: %s", data)
	}
	// Reconnecting with that id brings nothing twice, and what came meanwhile.
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	e = s.stream("/s/"+id+"/live?since="+at, next)
	e.next("hello")
	if _, data := e.next("parts"); strings.Contains(data, `id="t0p0`) || !strings.Contains(data, `id="t0f"`) || !strings.Contains(data, `id="composer"`) {
		t.Errorf("after reconnecting: %s", data)
	}
}

// TestC25AnyCursor: whatever a browser says it has, it ends with all there is.
func TestC25AnyCursor(t *testing.T) {
	s := newSite(t)
	id := s.session()
	for _, last := range []string{"", "old.1.1", "garbage", "..", "x.-1.2", s.hub.Epoch + ".x.y", strings.Repeat("9", 5000)} {
		e := s.stream("/s/"+id+"/live", last)
		e.next("hello")
		if at, data := e.next("parts"); !strings.HasPrefix(data, `<div id="page"`) || !strings.HasPrefix(at, s.hub.Epoch) {
			t.Errorf("cursor %.20q: not the whole page", last)
		}
	}
	// A cursor of this process that is ahead of it cannot be; it gets what comes.
	e := s.stream("/s/"+id+"/live", s.hub.Epoch+".999999.0")
	e.next("hello")
	e.next("parts")
}

func TestInboxStream(t *testing.T) {
	s := newSite(t)
	at := revision.FindStringSubmatch(s.get(s.in, "/").body)[1]
	e := s.stream("/live?since="+at, "")
	e.next("hello")
	id := s.session()
	for { // creating makes several changes; frames may hold any number of them
		if _, data := e.next("parts"); strings.Contains(data, "/s/"+id) && strings.Contains(data, "working") {
			break
		}
	}
	s.ask(id)
	for {
		if _, data := e.next("parts"); strings.Contains(data, "Needs you") && strings.Contains(data, "(1) Sessions") {
			break
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	s := newSite(t)
	e := s.stream("/live", "")
	e.next("hello")
	s.srv.Config.Handler.(*Server).Close()
	e.ends()
}
