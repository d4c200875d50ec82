package handlers

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nod/handlers/auth"
	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
)

// code is one that “nod verify” has printed.
func (s *site) code() string {
	s.t.Helper()
	code, err := auth.MintCode(s.t.Context(), s.store)
	if err != nil {
		s.t.Fatal(err)
	}
	return code
}

// who returns the device that a browser is.
func (s *site) who(c *http.Client) journal.Device {
	s.t.Helper()
	u, _ := url.Parse(s.srv.URL)
	r, _ := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.srv.URL, nil)
	for _, cookie := range c.Jar.Cookies(u) {
		r.AddCookie(cookie)
	}
	d, err := s.auth.Who(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// stale makes it long ago that a browser's person has proved to be there.
func (s *site) stale(c *http.Client) {
	s.t.Helper()
	if err := s.store.VerifyDevice(s.t.Context(), s.who(c).ID, time.Now().Add(-24*time.Hour).UnixMilli()); err != nil {
		s.t.Fatal(err)
	}
}

// looks returns a browser that may look and no more.
func (s *site) looks() *http.Client {
	s.t.Helper()
	c := s.login()
	if err := s.auth.Grant(s.t.Context(), s.who(c).ID, auth.ScopeView); err != nil {
		s.t.Fatal(err)
	}
	s.get(c, "/", header("Sec-Fetch-Mode", "navigate")) // brings the cookie
	return c
}

// TestR1Scopes walks all routes with each kind of browser. What changes something is
// for those that may operate, and what changes the door for those whose person is
// there.
func TestR1Scopes(t *testing.T) {
	s := newSite(t)
	looks, stale := s.looks(), s.login()
	s.stale(stale)
	for _, r := range everyRoute {
		if r.path == "/logout" {
			continue // which ends what the walk walks with
		}
		ask := func(c *http.Client) reply {
			if r.method == http.MethodPost {
				return s.post(c, filledIn(r.path), nil)
			}
			if strings.HasSuffix(r.path, "/live") {
				return reply{}
			}
			return s.get(c, filledIn(r.path))
		}
		if got := ask(looks); (got.status == http.StatusForbidden && strings.Contains(got.body, "may-only-look")) != (r.scope >= operate) {
			t.Errorf("%s %s by one that may look: %d", r.method, r.path, got.status)
		}
		if r.scope != own {
			continue
		}
		if got := ask(stale); got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/verify?next=") {
			t.Errorf("%s %s without a proof: %d %s", r.method, r.path, got.status, got.header.Get("Location"))
		}
	}
	for _, r := range everyRoute {
		if r.method == http.MethodPost && r.scope == look && r.path != "/logout" {
			t.Errorf("POST %s is for those that may look", r.path)
		}
	}
}

// TestR8OnlyWhoMayOperateDecides: with a login that may look nothing reaches the agent.
func TestR8OnlyWhoMayOperateDecides(t *testing.T) {
	s := newSite(t)
	a := s.ask(s.session())
	looks := s.looks()
	for _, option := range []string{"accept", "decline"} {
		if r := s.post(looks, "/approvals/"+a.ID, form(a, option, "seen", "yes", "confirmed", "yes")); r.status != http.StatusForbidden {
			t.Errorf("%s: %d", option, r.status)
		}
	}
	if len(s.agent.answers) > 0 {
		t.Error("the agent was answered")
	}
	page := s.get(looks, "/").body
	if !strings.Contains(page, "may look and not touch") || strings.Contains(page, "New session") {
		t.Error("the page does not say that it may only look")
	}
	if page := s.get(s.in, "/").body; strings.Contains(page, "may look and not touch") {
		t.Error("a page that may operate says that it may only look")
	}
}

// TestR8OneDoor: only the hub's send has an agent answered, which follows a decision, and only a handler of
// one route calls that.
func TestR8OneDoor(t *testing.T) {
	callers := map[string][]string{}
	root := ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "node_modules" {
			return cmpErr(err, fs.SkipDir)
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join(root, "e2e")) {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if to, ok := call.Fun.(*ast.SelectorExpr); ok && (to.Sel.Name == "Answer" || to.Sel.Name == "Decide") {
					callers[to.Sel.Name] = append(callers[to.Sel.Name], filepath.ToSlash(filepath.Dir(path))+"."+fn.Name.Name)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The manager passes on what the hub tells it; the hub asks the pure rules, for
	// Ask only about a denial that a person gave before, and that the agent asks again.
	for name, want := range map[string]string{"Answer": "../agentconn.Answer ../state/hub.send", "Decide": "../handlers.decide ../state/hub.Ask ../state/hub.decide"} {
		if got := strings.Join(callers[name], " "); got != want {
			t.Errorf("%s is called by %s, not by %s", name, got, want)
		}
	}
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// TestR11AnotherCookieForMore: what a browser is granted comes with another cookie,
// and the one that it had is worth nothing then.
func TestR11AnotherCookieForMore(t *testing.T) {
	s := newSite(t)
	phone := s.looks()
	d := s.who(phone)
	u, _ := url.Parse(s.srv.URL)
	old := phone.Jar.Cookies(u)[0]
	s.in = phone
	events := s.stream("/live", "")
	events.next("hello")
	if err := s.auth.Grant(t.Context(), d.ID, auth.ScopeOperate); err != nil {
		t.Fatal(err)
	}
	events.ends()
	// A stream or a file is no page: the browser would not know which cookie is the newer.
	if s.get(phone, "/", header("Sec-Fetch-Mode", "cors")).header.Get("Set-Cookie") != "" {
		t.Error("what is no page brings a cookie")
	}
	if r := s.post(phone, "/new", nil, header("Cookie", old.String())); r.status == http.StatusForbidden || len(r.header["Set-Cookie"]) == 0 {
		t.Errorf("it does not get what it was granted: %d", r.status)
	}
	for _, c := range []*http.Client{phone} {
		if got := s.who(c); got.Scope != auth.ScopeOperate || got.ID != d.ID {
			t.Errorf("it is %+v", got)
		}
	}
	if r := s.get(s.client(), "/", header("Cookie", old.String())); r.status != http.StatusSeeOther {
		t.Errorf("with the old cookie: %d", r.status)
	}
}

// TestR11LessAtOnce: who may only look from now on may not use what it has open.
func TestR11LessAtOnce(t *testing.T) {
	s := newSite(t)
	phone := s.login()
	id := s.who(phone).ID
	if r := s.post(s.in, "/devices/"+id+"/look", nil); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	if r := s.post(phone, "/new", nil); r.status != http.StatusForbidden {
		t.Errorf("afterwards: %d", r.status)
	}
}

// TestR11PasswordEndsOthers: whoever knew the old one is out.
func TestR11PasswordEndsOthers(t *testing.T) {
	s := newSite(t)
	other := s.login()
	set := func(password, again string) reply {
		return s.post(s.in, "/password", url.Values{"password": {password}, "again": {again}})
	}
	for _, wrong := range [][2]string{{"", ""}, {"too short", "too short"}, {"long enough to be one", "another"}} {
		if r := set(wrong[0], wrong[1]); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d", wrong, r.status)
		}
	}
	if r := s.get(other, "/"); r.status != http.StatusOK {
		t.Error("what was refused has ended a session")
	}
	const password = "correct horse battery"
	if r := set(password, password); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := s.get(other, "/"); r.status != http.StatusSeeOther {
		t.Errorf("another afterwards: %d", r.status)
	}
	c := s.client()
	if r := s.post(c, "/login", url.Values{"password": {"wrong horse battery"}}); r.status != http.StatusUnauthorized {
		t.Errorf("a wrong one: %d", r.status)
	}
	if r := s.post(c, "/login", url.Values{"password": {password}}); r.status != http.StatusSeeOther {
		t.Errorf("the right one: %d", r.status)
	}
	if r := s.post(s.in, "/password", url.Values{"do": {"remove"}}); r.status != http.StatusSeeOther {
		t.Errorf("removing it: %d", r.status)
	}
	if r := s.post(s.client(), "/login", url.Values{"password": {password}}); r.status != http.StatusUnauthorized {
		t.Errorf("after it was removed: %d", r.status)
	}
}

// TestR11NothingUsableInTheFile: whoever reads the data folder cannot come in.
func TestR11NothingUsableInTheFile(t *testing.T) {
	dir := t.TempDir()
	s := newSiteIn(t, dir)
	const password = "correct horse battery"
	s.post(s.in, "/password", url.Values{"password": {password}, "again": {password}})
	unused, err := auth.MintLogin(t.Context(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(s.srv.URL)
	secrets := []string{password, unused, s.code(), s.in.Jar.Cookies(u)[0].Value}
	s.leave()
	seen := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		seen += len(b)
		for _, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds %q", path, secret)
			}
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d bytes seen: %v", seen, err)
	}
}

func rule(r *state.Request) {
	r.Options = append(r.Options, state.ConfirmationOption{ID: "rule", Label: "Write the rule", Kind: state.OptionApprove, Group: new(int64(2))})
}

// TestR12ProofForARisk: a rule that stays asks each time whether it is really the
// person, however lately they have shown it.
func TestR12ProofForARisk(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, rule)
	try := func(more ...string) reply {
		return s.post(s.in, "/approvals/"+a.ID, form(a, "rule", append(more, "seen", "yes")...))
	}
	if r := try(); r.status != http.StatusOK || !strings.Contains(r.body, "nod verify") {
		t.Fatalf("at first: %d %s", r.status, r.body)
	}
	login, err := auth.MintLogin(t.Context(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"", "0000-0000", login} {
		if r := try("confirmed", "yes", "code", no); r.status < 400 || !strings.Contains(r.body, `name="code"`) {
			t.Errorf("code %q: %d", no, r.status)
		}
	}
	if r := try("confirmed", "yes", "password", "there is none"); r.status != http.StatusForbidden {
		t.Errorf("a password, of which there is none: %d", r.status)
	}
	if len(s.agent.answers) > 0 {
		t.Fatal("it was sent")
	}
	code := s.code()
	if r := try("confirmed", "yes", "code", " "+strings.ToLower(code)); r.status != http.StatusSeeOther || len(s.agent.answers) != 1 {
		t.Fatalf("with a code: %d %s", r.status, r.body)
	}
	a = s.ask(id, rule, func(r *state.Request) { r.UpstreamID = []byte("2") })
	if r := try("confirmed", "yes", "code", code); r.status != http.StatusForbidden || len(s.agent.answers) != 1 {
		t.Errorf("with the same code again: %d", r.status)
	}
}

// TestR12PasswordForARisk: a password that is set takes the place of the terminal.
func TestR12PasswordForARisk(t *testing.T) {
	s := newSite(t)
	const password = "correct horse battery"
	s.post(s.in, "/password", url.Values{"password": {password}, "again": {password}})
	a := s.ask(s.session(), rule)
	r := s.post(s.in, "/approvals/"+a.ID, form(a, "rule", "seen", "yes"))
	if !strings.Contains(r.body, `type="password"`) {
		t.Errorf("it is not asked for: %s", r.body)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "rule", "confirmed", "yes", "password", "wrong horse battery")); r.status != http.StatusForbidden {
		t.Errorf("a wrong one: %d", r.status)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "rule", "confirmed", "yes", "password", password)); r.status != http.StatusSeeOther {
		t.Errorf("the right one: %d", r.status)
	}
}

// TestR12ProofAfterAWhile: who has not shown for half a day that they are there is
// asked for what is not risky, too; to deny needs nothing.
func TestR12ProofAfterAWhile(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	s.stale(s.in)
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusOK || !strings.Contains(r.body, `name="code"`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "confirmed", "yes", "code", s.code())); r.status != http.StatusSeeOther {
		t.Fatalf("with a code: %d", r.status)
	}
	b := s.ask(id, func(r *state.Request) { r.UpstreamID = []byte("2") })
	if r := s.post(s.in, "/approvals/"+b.ID, form(b, "accept", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Errorf("right after it: %d", r.status)
	}
	s.stale(s.in)
	c := s.ask(id, func(r *state.Request) { r.UpstreamID = []byte("3") })
	if r := s.post(s.in, "/approvals/"+c.ID, form(c, "decline")); r.status != http.StatusSeeOther {
		t.Errorf("to deny: %d", r.status)
	}
}

// TestR12DoorAsksFirst: what changes who can come in leads over a proof, and from
// there back to a page of ours only.
func TestR12DoorAsksFirst(t *testing.T) {
	s := newSite(t)
	s.stale(s.in)
	r := s.get(s.in, "/password")
	if r.header.Get("Location") != "/verify?next=%2Fpassword" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	for next, want := range map[string]string{"/password": "/password", "//evil.test": "/devices", "https://evil.test": "/devices", `/\evil.test`: "/devices", "": "/devices", "/\t/evil.test": "/devices", "/\x00/evil.test": "/devices", "/pair/../%2f": "/devices"} {
		if r := s.post(s.in, "/verify", url.Values{"code": {s.code()}, "next": {next}}); r.header.Get("Location") != want {
			t.Errorf("next %q: %d %s", next, r.status, r.header.Get("Location"))
		}
	}
	if r := s.post(s.in, "/verify", url.Values{"code": {"wrong"}}); r.status != http.StatusForbidden {
		t.Errorf("a wrong code: %d", r.status)
	}
	if r := s.get(s.in, "/password"); r.status != http.StatusOK {
		t.Errorf("after it: %d", r.status)
	}
}

var offerPath = regexp.MustCompile(`^/pair/\w+$`)

// pairing begins one, and returns its page and the token of its code.
func (s *site) pairing() (path, token string) {
	s.t.Helper()
	path = s.post(s.in, "/pair", nil).header.Get("Location")
	if !offerPath.MatchString(path) {
		s.t.Fatalf("no offer: %q", path)
	}
	o, err := s.auth.Offered(s.who(s.in).ID, strings.TrimPrefix(path, "/pair/"))
	if err != nil {
		s.t.Fatal(err)
	}
	return path, o.Token
}

var shownNumber = regexp.MustCompile(`class="bignumber">(\d\d)<`)

// TestR11OldBrowser: one that does not say what it loads gets what it was granted with its
// next page, and its page does not load again and again.
func TestR11OldBrowser(t *testing.T) {
	s := newSite(t)
	old := s.login(header("Sec-Fetch-Mode", ""), header("Sec-Fetch-Site", ""))
	id := s.who(old).ID
	if err := s.auth.Grant(t.Context(), id, auth.ScopeView); err != nil {
		t.Fatal(err)
	}
	if err := s.auth.Grant(t.Context(), id, auth.ScopeOperate); err != nil {
		t.Fatal(err)
	}
	if r := s.get(old, "/", header("Accept", "text/html"), header("Sec-Fetch-Mode", "")); len(r.header.Values("Set-Cookie")) != 1 {
		t.Errorf("%d %v", r.status, r.header)
	}
	if d := s.who(old); d.Scope != auth.ScopeOperate || d.Granted != "" {
		t.Errorf("%+v", d)
	}
}

// TestR32Pairing: a screen that is in shows a code; the phone that scanned it shows a
// number; that is typed on the screen; the phone may look, and operate when somebody
// says so.
func TestR32Pairing(t *testing.T) {
	s := newSite(t, func(c *Config) { c.PublicHosts = []string{"nod.example"}; c.BasePath = "" })
	path, token := s.pairing()
	page := s.get(s.in, path).body
	if !strings.Contains(page, `<svg class="qr"`) || !strings.Contains(page, "https://nod.example/join#k="+token) {
		t.Fatalf("the page of the screen: %s", page)
	}
	phone := s.client()
	iphone := header("User-Agent", "Mozilla/5.0 (iPhone) Safari/604.1")
	if r := s.post(phone, "/join", url.Values{"token": {token}}, iphone); r.header.Get("Location") != "/join/wait" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := s.post(s.client(), "/join", url.Values{"token": {token}}); r.status != http.StatusNotFound {
		t.Errorf("the same code by another phone: %d", r.status)
	}
	number := shownNumber.FindStringSubmatch(s.get(phone, "/join/wait", iphone).body)
	if number == nil {
		t.Fatal("the phone shows no number")
	}
	if r := s.get(phone, "/"); r.status != http.StatusSeeOther {
		t.Errorf("it is in before anybody let it in: %d", r.status)
	}
	page = s.get(s.in, path).body
	if !strings.Contains(page, "Safari on iPhone") || !strings.Contains(page, "127.0.0.1") || strings.Contains(page, token) || strings.Contains(page, number[1]+"<") {
		t.Errorf("the page of the screen after the scan: %s", page)
	}
	// Another device that is in cannot let it in.
	if r := s.post(s.login(), path, url.Values{"number": {number[1]}}); r.status != http.StatusNotFound {
		t.Errorf("confirmed by another: %d", r.status)
	}
	if r := s.post(s.in, path, url.Values{"number": {"00"}}); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong number: %d", r.status)
	}
	if r := s.post(s.in, path, url.Values{"number": {number[1]}}); r.status != http.StatusSeeOther {
		t.Fatalf("the number: %d", r.status)
	}
	if r := s.get(phone, "/join/wait", iphone); r.header.Get("Location") != "/" {
		t.Fatalf("the phone afterwards: %d", r.status)
	}
	if r := s.get(phone, "/"); r.status != http.StatusOK || !strings.Contains(r.body, "may look and not touch") {
		t.Errorf("the phone's first page: %d", r.status)
	} else if strings.Contains(r.body, "A new device is in") {
		t.Error("it is warned of itself")
	}
	if r := s.post(phone, "/new", nil); r.status != http.StatusForbidden {
		t.Errorf("it may operate: %d", r.status)
	}
	let := ""
	for x, err := range s.store.Audit(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if x.What == "was let in by its number" && strings.Contains(string(x.Detail), "Safari on iPhone") {
			let = x.Actor
		}
	}
	if let != s.who(s.in).ID {
		t.Errorf("%q has let it in, says the audit", let)
	}
	if page := s.get(s.in, "/").body; !strings.Contains(page, "A new device is in and may look: Safari on iPhone") {
		t.Error("the others are not told")
	}
	if r := s.post(s.in, "/devices/"+s.who(phone).ID+"/operate", nil); r.status != http.StatusSeeOther {
		t.Errorf("let it operate: %d", r.status)
	}
	if r := s.post(phone, "/new", nil); r.status == http.StatusForbidden {
		t.Error("it may not operate after it was let")
	}
}

// TestR32WrongNumbers: the third ends the offer.
func TestR32WrongNumbers(t *testing.T) {
	s := newSite(t)
	path, token := s.pairing()
	phone := s.client()
	s.post(phone, "/join", url.Values{"token": {token}})
	number := shownNumber.FindStringSubmatch(s.get(phone, "/join/wait").body)[1]
	for i, want := range []int{http.StatusUnprocessableEntity, http.StatusUnprocessableEntity, http.StatusNotFound} {
		if r := s.post(s.in, path, url.Values{"number": {"9"}}); r.status != want {
			t.Errorf("wrong number %d: %d", i+1, r.status)
		}
	}
	if r := s.post(s.in, path, url.Values{"number": {number}}); r.status != http.StatusNotFound {
		t.Errorf("the right one after that: %d", r.status)
	}
	if r := s.get(phone, "/join/wait"); r.status != http.StatusNotFound {
		t.Errorf("the phone after that: %d", r.status)
	}
}

// TestR32Unreachable: without an address that another device can reach there is no
// code, and the page says what to do.
func TestR32Unreachable(t *testing.T) {
	s := newSite(t)
	path, _ := s.pairing()
	if page := s.get(s.in, path).body; strings.Contains(page, "<svg") || !strings.Contains(page, "public_hosts") {
		t.Errorf("%s", page)
	}
}

// TestR12ChallengeBindsEverything: what a passkey signs is one decision on one card.
func TestR12ChallengeBindsEverything(t *testing.T) {
	base := func() (*approvals.Approval, state.Decision) {
		return &approvals.Approval{ID: "a", Nonce: "n", Request: state.Request{Input: "x", Params: []byte(`{}`)}},
			state.Decision{OptionID: "accept", EditedInput: "e", Answers: map[string]state.Answer{"q": {Text: "t", Secret: []string{"s"}}}}
	}
	a, d := base()
	want := approvals.Challenge(a, d)
	for name, change := range map[string]func(*approvals.Approval, *state.Decision){
		"id":     func(a *approvals.Approval, _ *state.Decision) { a.ID = "b" },
		"nonce":  func(a *approvals.Approval, _ *state.Decision) { a.Nonce = "m" },
		"input":  func(a *approvals.Approval, _ *state.Decision) { a.Request.Input = "y" },
		"params": func(a *approvals.Approval, _ *state.Decision) { a.Request.Params = []byte(`[]`) },
		"option": func(_ *approvals.Approval, d *state.Decision) { d.OptionID = "rule" },
		"edit":   func(_ *approvals.Approval, d *state.Decision) { d.EditedInput = "f" },
		"reason": func(_ *approvals.Approval, d *state.Decision) { d.Reason = "r" },
		"answer": func(_ *approvals.Approval, d *state.Decision) { d.Answers["q"] = state.Answer{Text: "u"} },
	} {
		a, d := base()
		if change(a, &d); approvals.Challenge(a, d) == want {
			t.Errorf("another %s has the same challenge", name)
		}
	}
	a, d = base()
	d.Answers["q"] = state.Answer{Text: "t", Secret: []string{"other"}}
	if approvals.Challenge(a, d) != want {
		t.Error("a secret is part of the challenge")
	}
}
