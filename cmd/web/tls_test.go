package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// certify writes a certificate for 127.0.0.1 and its key, and returns the pool that
// holds it.
func certify(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "nod"}, NotAfter: time.Now().Add(time.Hour), // from year 1
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

var secureLink = regexp.MustCompile(`(https://127\.0\.0\.1:\d+)/login#k=(\S+)`)

// TestR9OwnCertificate: with a certificate nod speaks TLS alone and says so for good,
// streams come over it, and a renewed one is used without a restart.
func TestR9OwnCertificate(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := certify(t, cert, key, 1)
	config := write(t, "tls_cert = \""+cert+"\"\ntls_key = \""+key+"\"\n")
	ctx, end := context.WithCancel(t.Context())
	r := &running{end: end, ended: make(chan error, 1)}
	go func() {
		r.ended <- run(ctx, []string{"--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--config", config}, &r.out, &r.log)
	}()
	var m []string
	for m == nil {
		if m = secureLink.FindStringSubmatch(r.out.String()); m == nil {
			select {
			case err := <-r.ended:
				t.Fatalf("nod ended: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	defer r.stop(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.PostForm(m[1]+"/login", url.Values{"token": {m[2]}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Strict-Transport-Security") == "" || res.TLS.PeerCertificates[0].SerialNumber.Int64() != 1 {
		t.Errorf("login: %d, %v", res.StatusCode, res.Header)
	}
	shared, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m[1]+"/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	shared.Host = "localhost:" + shared.URL.Port()
	if res, err := client.Do(shared); err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Strict-Transport-Security") != "" {
		t.Errorf("at localhost, where other programs are: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	live, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m[1]+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	live.AddCookie(res.Cookies()[0])
	stream, err := client.Do(live)
	if err != nil {
		t.Fatal(err)
	}
	begin := make([]byte, len("id: "))
	if _, err := io.ReadFull(stream.Body, begin); err != nil || stream.ProtoMajor != 2 {
		t.Errorf("the stream: %v, %s", err, stream.Proto)
	}
	_ = stream.Body.Close()

	if res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(strings.Replace(m[1], "https", "http", 1) + "/login"); err == nil {
		if res.StatusCode == http.StatusOK {
			t.Error("it speaks without TLS, too")
		}
		_ = res.Body.Close()
	}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(m[1], "https://"), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		_ = c.Close()
		t.Error("it speaks TLS 1.1")
	}
	var minted bytes.Buffer
	if err := run(t.Context(), []string{"login-url", "--data", filepath.Join(dir, "data"), "--config", config}, &minted, io.Discard); err != nil || !secureLink.MatchString(minted.String()) {
		t.Errorf("another link: %q, %v", minted.String(), err)
	}

	serial := func(pool *x509.CertPool) int64 {
		t.Helper()
		c, err := tls.Dial("tcp", strings.TrimPrefix(m[1], "https://"), &tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if err := os.WriteFile(cert, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := serial(pool); n != 1 {
		t.Errorf("while it is renewed: number %d", n)
	}
	if n := serial(certify(t, cert, key, 2)); n != 2 {
		t.Errorf("renewed: number %d", n)
	}
}

// TestR9WrongCertificate: what does not fit is a sentence, and nod does not start.
func TestR9WrongCertificate(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	certify(t, file("a.pem"), file("a.key"), 1)
	certify(t, file("b.pem"), file("b.key"), 2)
	for _, c := range []struct{ cert, key string }{{"a.pem", "b.key"}, {"a.key", "a.pem"}, {"none", "a.key"}, {"a.pem", "none"}} {
		err := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--data", file("data"), "--config", write(t, "tls_cert = \""+file(c.cert)+"\"\ntls_key = \""+file(c.key)+"\"\n")}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "the key must be the certificate's own") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestC46OpenBind: without TLS nod does not start where anybody may come to, unless a
// proxy is named that speaks it.
func TestC46OpenBind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if defaultListen != "127.0.0.1:8787" {
		t.Errorf("it listens on %s by default", defaultListen)
	}
	data := filepath.Join(t.TempDir(), "data")
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		err := run(t.Context(), []string{"--listen", address, "--data", data, "--config", write(t, "")}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "without TLS") || !strings.Contains(err.Error(), "tls_cert and tls_key") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, want := range map[string]bool{
		"0.0.0.0": true, "::": true, "192.0.3.7": true, "::ffff:192.0.3.7": true, "2001:db8::1": true, "100.128.0.1": true, "172.32.0.1": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.20": false, "::ffff:192.168.1.20": false, "169.254.1.1": false,
		"100.64.0.1": false, "192.0.2.2": false, "fd00::1": false, "fe80::1": false,
	} {
		if got := open(net.ParseIP(address)); got != want {
			t.Errorf("%s is open to all: %v", address, got)
		}
	}
	own := ownAddress(t)
	r, port, _ := startNod(t, "--listen", "0.0.0.0:0", "--data", data, "--config", write(t, "trusted_proxies = [\"10.0.0.2\"]\n"))
	defer r.stop(t)
	for host, past := range map[string]bool{own: true, "127.0.0.1": false} {
		for _, path := range []string{"/login", "/healthz", "/static/nod.css"} {
			if got := status(t, net.JoinHostPort(host, port)+path); (got == http.StatusForbidden) != past {
				t.Errorf("%s at %s: %d", path, host, got)
			}
		}
	}
}

// TestC46ProxyElsewhere: where a proxy is named, nod listens on this machine as well, and
// answers the proxy at its address in the network.
func TestC46ProxyElsewhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	own := ownAddress(t)
	for name, config := range map[string]string{"another one": "trusted_proxies = [\"10.0.0.2\"]\n", "this one": "trusted_proxies = [\"" + own + "\"]\n"} {
		r, port, _ := startNod(t, "--listen", net.JoinHostPort(own, "0"), "--data", filepath.Join(t.TempDir(), "data"), "--config", write(t, config))
		for _, host := range []string{own, "127.0.0.1"} {
			if got := status(t, net.JoinHostPort(host, port)+"/login"); got != http.StatusOK {
				t.Errorf("%s, at %s: %d", name, host, got)
			}
		}
		r.stop(t)
	}
}

// status is that of a page that is asked for in the clear.
func status(t *testing.T, address string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// TestC46PlainNetwork: nod starts on an address of one's own network without TLS, says
// that it can only be looked at there, and a login that came over the network changes
// nothing. On this machine it does.
func TestC46PlainNetwork(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	own := ownAddress(t)
	data := filepath.Join(t.TempDir(), "data")
	r, port, token := startNod(t, "--listen", net.JoinHostPort(own, "0"), "--data", data, "--config", write(t, ""))
	defer r.stop(t)
	if !strings.Contains(r.out.String(), "Without TLS nod can only be looked at over the network") {
		t.Errorf("it says only %q", r.out.String())
	}
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	do := func(method, host, path string, form url.Values, cookie *http.Cookie, headers ...string) (int, string, []*http.Cookie) {
		t.Helper()
		q, err := http.NewRequest(method, "http://"+net.JoinHostPort(host, port)+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			q.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		for i := 0; i < len(headers); i += 2 {
			if q.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
				q.Host = headers[i+1]
			}
		}
		if cookie != nil {
			q.AddCookie(cookie)
		}
		res, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b), res.Cookies()
	}
	for what, c := range map[string]struct{ want, got int }{
		"no login":               {401, first(do("POST", own, "/new", nil, nil))},
		"no login, an approval":  {401, first(do("POST", own, "/approvals/x", nil, nil))},
		"another name":           {421, first(do("GET", own, "/login", nil, nil, "Host", "evil.test:"+port))},
		"another name, a stream": {421, first(do("GET", own, "/live", nil, nil, "Host", "evil.test:"+port))},
		"a form elsewhere":       {403, first(do("POST", own, "/login", nil, nil, "Sec-Fetch-Site", "cross-site", "Origin", "http://evil.test"))},
		"Origin null":            {403, first(do("POST", own, "/login", nil, nil, "Sec-Fetch-Site", "", "Origin", "null"))},
		"another Origin":         {403, first(do("POST", own, "/login", nil, nil, "Sec-Fetch-Site", "", "Origin", "http://evil.test"))},
		"a GET that changes":     {404, first(do("GET", own, "/logout", nil, nil))},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, not %d", what, c.got, c.want)
		}
	}
	status, _, cookies := do("POST", own, "/login", url.Values{"token": {token}}, nil)
	if status != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("login over the network: %d", status)
	}
	new := url.Values{"provider": {"demo"}, "folder": {t.TempDir()}, "prompt": {"do it"}}
	if status, body, _ := do("POST", own, "/new", new, cookies[0]); status != http.StatusForbidden || !strings.Contains(body, "tls_required") {
		t.Errorf("a session over the network: %d", status)
	}
	if status, body, _ := do("GET", own, "/", nil, cookies[0]); status != http.StatusOK || !strings.Contains(body, "this connection is not encrypted") {
		t.Errorf("looking on: %d", status)
	}
	// Whoever has read that cookie along can do no more with it on this machine; who logs
	// in there can.
	if status, body, _ := do("POST", "127.0.0.1", "/new", new, cookies[0]); status != http.StatusForbidden || !strings.Contains(body, "may-only-look") {
		t.Errorf("a session on this machine, with a login of the network: %d %s", status, body)
	}
	var link strings.Builder
	if err := run(t.Context(), []string{"login-url", "--data", data, "--config", write(t, "")}, &link, io.Discard); err != nil {
		t.Fatal(err)
	}
	_, _, cookies = do("POST", "127.0.0.1", "/login", url.Values{"token": {strings.TrimSpace(link.String())}}, nil)
	if status, body, _ := do("POST", "127.0.0.1", "/new", new, cookies[0]); status != http.StatusSeeOther {
		t.Errorf("a session on this machine: %d %s", status, body)
	}
}

func first(status int, _ string, _ []*http.Cookie) int { return status }

// ownAddress is one of this machine's that others reach.
func ownAddress(t *testing.T) string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !open(n.IP) && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address in a network of its owner's")
	return ""
}
