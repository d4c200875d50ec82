package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// certify writes a certificate for localhost that signs itself, and its key.
func certify(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// configured starts a nod with the demo agent and a configuration.
func configured(t *testing.T, config string) *world {
	t.Helper()
	w := &world{t: t, data: filepath.Join(t.TempDir(), "data"), folder: t.TempDir(), config: filepath.Join(t.TempDir(), "config.toml"), path: "/usr/bin:/bin", bare: true}
	if err := os.WriteFile(w.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// nginx is a reverse proxy with TLS.
type nginx struct {
	at  string // https://localhost:port
	log string // file of the requests
}

// freePort is one that nobody listens on, for who cannot take what there is.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// newNginx starts one whose server block ends with the given locations.
func newNginx(t *testing.T, port int, locations string) *nginx {
	t.Helper()
	program := nginxProgram()
	switch {
	case program == "" && os.Getenv("NOD_E2E") == "required":
		t.Fatal("nginx is not here; “make test” installs it")
	case program == "":
		t.Skip("nginx is not here; “make test” installs it")
	}
	dir := t.TempDir()
	cert, key := certify(t)
	n := &nginx{fmt.Sprintf("https://localhost:%d", port), filepath.Join(dir, "access.log")}
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log;
events {}
http {
	access_log %[1]s/access.log combined;
	client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server {
		listen 127.0.0.1:%[2]d ssl; server_name localhost; ssl_certificate %[3]s; ssl_certificate_key %[4]s;
		%[5]s
	}
}
`, dir, port, cert, key, locations)
	if os.Getuid() == 0 {
		text = "user root;\n" + text // its workers read what the test may read
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startBare(t, exec.Command(program, "-e", filepath.Join(dir, "error.log"), "-c", file))
	deadline := time.Now().Add(patience)
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// nginxProgram is where nginx is, "" if it is not there.
func nginxProgram() string {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// fromDocs is the block for a program in docs/phone.md, with nod at another address.
func fromDocs(t *testing.T, language, nod string) string {
	t.Helper()
	b, err := os.ReadFile("../docs/phone.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(b)
	if m == nil || !strings.Contains(string(m[1]), "127.0.0.1:8787") {
		t.Fatalf("docs/phone.md has no %s", language)
	}
	return strings.ReplaceAll(string(m[1]), "127.0.0.1:8787", nod)
}

// visitor is an HTTP client of another address of this machine's, which takes any
// certificate.
func visitor(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it signs itself
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return from.DialContext(ctx, "tcp4", address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestC56BehindNginx: behind a proxy as docs/phone.md sets it up, with TLS and below a
// path, everything works as it does without: a login, a live page, an answer. The
// proxy may take the path off, too.
func TestC56BehindNginx(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"as in docs":        func(s string) string { return s },
		"that takes it off": func(s string) string { return strings.Replace(s, ";", "/;", 1) },
		"that would buffer": func(s string) string { return strings.Replace(s, "proxy_buffering off;", "", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			w := configured(t, fmt.Sprintf("public_hosts = [\"localhost:%d\"]\ntrusted_proxies = [\"127.0.0.1\"]\nbase_path = \"/nod\"\n", port))
			nod := strings.TrimSuffix(strings.TrimPrefix(w.base, "http://"), "/nod")
			n := newNginx(t, port, change(fromDocs(t, "nginx", nod)))
			_, token, _ := strings.Cut(w.login, "#k=")
			w.base = n.at + "/nod"
			w.login = w.base + "/login#k=" + token

			var b *browser
			session := ""
			if name != "that would buffer" { // which differs in the stream alone
				b = newBrowser(t, look{width: phone.width, height: phone.height, anyCert: true})
				b.loggedIn(w, false)
				b.startSession(w, "show me")
				b.approveFirst()
				session = eval[string](b, "location.pathname")
				b.goTo(w.base + "/devices")
				b.click("form[action='/nod/logout'] button")
				b.until("the login page", "location.pathname === '/nod/login'")
				b.goTo(n.at + session)
				b.until("the login page again", "location.pathname === '/nod/login'")
				if c := b.complaints(); len(c) > 0 {
					t.Errorf("the browser complains: %q", c)
				}
			}

			// The address, the cookie and the stream, as a program sees them.
			c := visitor(t)
			if res := send(t, c, w.base+"/approvals/x", nil); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("an answer of nobody's, by a proxy on this machine: %d", res.StatusCode)
			}
			res := send(t, c, w.base+"/login", url.Values{"token": {w.mintLogin()}})
			if len(res.Cookies()) == 0 || res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/nod/" {
				t.Fatalf("login: %d to %q", res.StatusCode, res.Header.Get("Location"))
			}
			for _, k := range res.Cookies() {
				if !k.Secure || !k.HttpOnly || k.SameSite != http.SameSiteLaxMode {
					t.Errorf("a cookie is not Secure, HttpOnly and SameSite: %s", k.Raw)
				}
			}
			w.nod.untilSaid(t, "from=127.0.0.2 method=POST route=/nod/login status=303")
			if session == "" {
				session = newDemo(t, c, w)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.at+session+"/live", nil)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stream.Body.Close() }()
			events := bufio.NewScanner(stream.Body)
			events.Buffer(nil, 4<<20)
			until := func(text string) {
				t.Helper()
				for events.Scan() {
					if strings.Contains(events.Text(), text) {
						return
					}
				}
				t.Fatalf("%q did not come through: %v", text, events.Err())
			}
			until("event: hello") // it is still open: nothing has made it whole
			send(t, c, n.at+session+"/stop", nil)
			until("</span> stopped<")
			left := send(t, c, w.base+"/logout", nil)
			for events.Scan() { // its stream ends with it
			}
			out, err := c.Get(n.at + session)
			if err != nil {
				t.Fatal(err)
			}
			_ = out.Body.Close()
			if left.Header.Get("Location") != "/nod/login" || out.Header.Get("Location") != "/nod/login" {
				t.Errorf("logged out: to %q, then to %q", left.Header.Get("Location"), out.Header.Get("Location"))
			}
		})
	}
}

// approveFirst approves what the demo agent asks first, sees live what becomes of it,
// and stops the turn at what it asks next.
func (b *browser) approveFirst() {
	b.t.Helper()
	b.until("a card", "document.querySelector('.card form')")
	id := eval[string](b, "document.querySelector('.card').id")
	b.click(".card .approve:not(.more-than-once)")
	b.until("what becomes of it", "!document.getElementById('"+id+"')?.querySelector('form')")
	b.untilText(".card", "git switch")
	b.click(".halt .stop")
	b.sameAfterReload()
}

// newDemo starts a session and returns its path.
func newDemo(t *testing.T, c *http.Client, w *world) string {
	t.Helper()
	res := send(t, c, w.base+"/new", url.Values{"provider": {"demo"}, "folder": {w.folder}, "prompt": {"show me"}})
	path, _, _ := strings.Cut(res.Header.Get("Location"), "#")
	if !strings.HasPrefix(path, "/nod/s/") {
		t.Fatalf("no session: %d to %q", res.StatusCode, path)
	}
	return path
}

// send posts a form as a browser does, and follows nowhere.
func send(t *testing.T, c *http.Client, address string, form url.Values) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}

// TestC45NoSecretIsLeftLying: neither the login link's token nor the cookie is in what
// a proxy or nod logs, in what a browser tells the next page or remembers, or in what a
// page's own scripts can read.
func TestC45NoSecretIsLeftLying(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	w := configured(t, fmt.Sprintf("public_hosts = [\"localhost:%d\"]\ntrusted_proxies = [\"127.0.0.1\"]\nbase_path = \"/nod\"\n", port))
	nod := strings.TrimSuffix(strings.TrimPrefix(w.base, "http://"), "/nod")
	n := newNginx(t, port, fromDocs(t, "nginx", nod))
	_, token, _ := strings.Cut(w.login, "#k=")
	w.base = n.at + "/nod"
	w.login = w.base + "/login#k=" + token
	b := newBrowser(t, look{width: desk.width, height: desk.height, anyCert: true})
	b.loggedIn(w, false)
	if history := eval[string](b, "document.referrer + ' ' + location.href + ' ' + document.cookie"); strings.Contains(history, token) || strings.Contains(history, "nod=") {
		t.Errorf("the page can read %q", history)
	}
	b.startSession(w, "show me")
	b.untilText(".card", "")
	cookies, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{token}
	for _, c := range cookies.Cookies {
		if !c.Secure || !c.HTTPOnly {
			t.Errorf("the cookie %s is not Secure and HttpOnly", c.Name)
		}
		secrets = append(secrets, c.Value)
	}
	if len(secrets) < 2 {
		t.Fatal("there is no cookie")
	}
	entries, err := chromedp.Call(b.ctx, page.GetNavigationHistory, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{"the page": eval[string](b, "document.documentElement.outerHTML"), "the page's scripts": eval[string](b, "JSON.stringify([localStorage, sessionStorage, document.cookie, history.state, performance.getEntries()])")}
	for _, e := range entries.Entries {
		places["the history"] += e.URL + " " + e.UserTypedURL + "\n"
	}
	b.click("a.home, a.brand") // with a referrer
	b.untilText("h2.group", "Agents")
	places["nod's log"] = w.nod.said()
	access, err := os.ReadFile(n.log)
	if err != nil {
		t.Fatal(err)
	}
	places["nginx's log"] = string(access)
	if !strings.Contains(string(access), "POST /nod/login") || !strings.Contains(string(access), "/live?since=") || !strings.Contains(places["the history"], "/nod/s/") {
		t.Error("it was looked for in the wrong place")
	}
	for where, text := range places {
		for i, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s has secret %d", where, i)
			}
		}
	}
}

// TestR9OwnCertificateInTheBrowser: with nod's own TLS a browser comes in, looks on
// live, and approves, with a cookie that is sent over TLS alone.
func TestR9OwnCertificateInTheBrowser(t *testing.T) {
	t.Parallel()
	cert, key := certify(t)
	w := configured(t, fmt.Sprintf("tls_cert = %q\ntls_key = %q\n", cert, key))
	if !strings.HasPrefix(w.base, "https://127.0.0.1:") {
		t.Fatalf("it is at %s", w.base)
	}
	b := newBrowser(t, look{width: desk.width, height: desk.height, anyCert: true})
	b.loggedIn(w, false)
	b.startSession(w, "show me")
	b.approveFirst()
	if protocol := eval[string](b, "performance.getEntriesByType('navigation')[0].nextHopProtocol"); protocol != "h2" {
		t.Errorf("it speaks %s", protocol)
	}
	cookies, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies.Cookies {
		if !c.Secure || !c.HTTPOnly || !strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("the cookie %s is Secure %v, HttpOnly %v", c.Name, c.Secure, c.HTTPOnly)
		}
	}
	res, err := visitor(t).Get(w.base + "/login")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || !strings.HasPrefix(res.Header.Get("Strict-Transport-Security"), "max-age=") {
		t.Errorf("it does not ask for TLS from now on: %v", err)
	}
	if c := b.complaints(); len(c) > 0 {
		t.Errorf("the browser complains: %q", c)
	}
}
