package codex

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"nod/agentconn"
)

// TestR21Configured: which servers the owner may name, and what is said of others.
func TestR21Configured(t *testing.T) {
	for _, c := range []struct {
		server   Server
		key, say string
	}{
		{Server{URL: "unix:///run/codex.sock"}, "codex@unix:///run/codex.sock", ""},
		{Server{URL: "ws://127.0.0.1:4500"}, "codex@ws://127.0.0.1:4500", ""},
		{Server{URL: "ws://[::1]:4500", TokenFile: "/t"}, "codex@ws://[::1]:4500", ""},
		{Server{URL: "ws://localhost:4500/"}, "codex@ws://localhost:4500/", ""},
		{Server{URL: "wss://build.example:443", TokenFile: "/t"}, "codex@wss://build.example:443", ""},
		{Server{URL: "ws://build.example:4500"}, "", "use wss://"},
		{Server{URL: "ws://10.0.0.1:4500"}, "", "use wss://"},
		{Server{URL: "ws://2130706433:4500"}, "", "use wss://"},
		{Server{URL: "ws://[::ffff:10.0.0.1]:4500"}, "", "use wss://"},
		{Server{URL: "wss://build.example#secret"}, "", "an address alone"},
		{Server{URL: "wss://169.254.169.254"}, "", "there can be no agent"},
		{Server{URL: "ws://0.0.0.0:4500"}, "", "there can be no agent"},
		{Server{URL: "ws://127.0.0.1.evil.example:4500"}, "", "use wss://"},
		{Server{URL: "unix://relative"}, "", "absolute path"},
		{Server{URL: "unix:///s", TokenFile: "/t"}, "", "without a token"},
		{Server{URL: "wss://me:secret@build.example"}, "", "token_file"},
		{Server{URL: "wss://build.example?token=secret"}, "", "token_file"},
		{Server{URL: "http://127.0.0.1"}, "", "none of"},
		{Server{URL: ""}, "", "none of"},
		{Server{URL: "::"}, "", "not an address"},
	} {
		as, err := Adapters(Config{Servers: []Server{c.server}})
		switch {
		case c.say == "" && (err != nil || as[1].Key() != c.key || as[1].Provider() != c.key):
			t.Errorf("%+v: %v, %v", c.server, as, err)
		case c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "secret@")):
			t.Errorf("%+v: %v, want %q", c.server, err, c.say)
		}
	}
}

// TestServerNamedTwice: what a server says would be there twice.
func TestServerNamedTwice(t *testing.T) {
	t.Setenv("CODEX_HOME", "/codex")
	for _, list := range [][]Server{
		{{URL: "ws://127.0.0.1:1"}, {URL: "ws://127.0.0.1:1/"}},
		{{URL: "unix:///codex/app-server-control/app-server-control.sock"}},
		{{URL: "unix:///data/codex/app-server.sock"}},
	} {
		if _, err := Adapters(Config{Data: "/data", Servers: list}); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%v: %v", list, err)
		}
	}
}

// TestToken: the token comes from a file that nobody else can read, anew for each
// connection; no browser's header goes along.
func TestToken(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if c, err := websocket.Accept(w, r, nil); err == nil {
			_ = c.CloseNow()
		}
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "token")
	a, err := configured(Config{Log: slog.New(slog.DiscardHandler)}, Server{URL: "ws" + strings.TrimPrefix(s.URL, "http"), TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if !a.Running() || a.Starts() {
		t.Error("it does not run, or nod would start it")
	}
	try := func(text string, mode os.FileMode) string {
		t.Helper()
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		return agentconn.Sentence(a.NewConn(nil).Run(t.Context(), nil))
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		say  string
	}{
		{"right\n", 0o644, "chmod 600"},
		{" \n", 0o600, "cannot be read"},
		{"wrong\n", 0o600, "refuses nod's token"},
		{"right\n", 0o600, "has closed the connection"},
	} {
		if got := try(c.text, c.mode); !strings.Contains(got, c.say) {
			t.Errorf("%q, %o: %s", c.text, c.mode, got)
		}
	}
	if got.Get("Authorization") != "Bearer right" || got.Get("Origin") != "" || got.Get("Cookie") != "" {
		t.Errorf("it got %v", got)
	}
}

// TestStaleSocket: a socket's file without anybody behind it is no server.
func TestStaleSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "nod-s-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	a := socket{place{Provider, Provider, displayName, Config{Command: "no-such-codex"}}, path}
	if !a.Running() {
		t.Error("a server that listens is not seen")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if a.Running() {
		t.Error("a stale socket is taken for a server")
	}
	if _, err := a.Find(); err == nil {
		t.Error("there is neither a server nor a program, and nobody says so")
	}
}

// TestR21NoRedirectIsFollowed: the owner has named an address on this machine; a redirect
// must not lead beyond it, and not take the token along.
func TestR21NoRedirectIsFollowed(t *testing.T) {
	var led atomic.Bool
	var token atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		led.Store(true)
		token.Store(r.Header.Get("Authorization"))
		c, err := websocket.Accept(w, r, nil)
		if err == nil {
			_ = c.CloseNow()
		}
	}))
	defer other.Close()
	for _, to := range []string{other.URL, "http://169.254.169.254/latest/meta-data/", "/elsewhere"} {
		looked := 0
		first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			looked++
			http.Redirect(w, r, to, http.StatusFound)
		}))
		d, err := dialWeb(t.Context(), "ws"+strings.TrimPrefix(first.URL, "http"), "secret")
		if err == nil {
			_, _ = d.end()
			t.Errorf("a redirect to %s is a link", to)
		}
		first.Close()
		if looked != 1 {
			t.Errorf("a redirect to %s was followed", to)
		}
	}
	if led.Load() {
		t.Errorf("nod was led to another server, with the token %q", token.Load())
	}
}

// TestRemoteIsLookedForSeldom: each look is a connection.
func TestRemoteIsLookedForSeldom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a, err := configured(Config{}, Server{URL: "ws://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if !a.Running() {
		t.Error("a server that listens is not seen")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !a.Running() {
		t.Error("it was looked for again at once")
	}
	a.(*remote).looked = time.Now().Add(-remoteEvery)
	if a.Running() {
		t.Error("it is not looked for any more")
	}
}
