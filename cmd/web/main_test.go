package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nod/agentconn"
	"nod/agentconn/codex"
	"nod/state/journal"
)

func TestMain(m *testing.M) {
	if os.Getenv(asNod) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPrecedence: flag before file before default.
func TestPrecedence(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/xdg/data")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	parseOK := func(args ...string) config {
		t.Helper()
		_, _, cfg, err := parse(args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if c := parseOK(); c.Listen != defaultListen || c.Data != "/xdg/data/nod" || c.Codex.Command != "codex" || c.LogLevel != slog.LevelInfo {
		t.Errorf("defaults %+v", c)
	}
	file := write(t, "listen = \"127.0.0.1:9000\"\ndata = \"/file\"\nlog_level = \"warn\"\n[codex]\ncommand = \"/opt/codex\"\nenv = [\"KEY\"]\n")
	if c := parseOK("--config", file); c.Listen != "127.0.0.1:9000" || c.Data != "/file" || c.Codex.Command != "/opt/codex" || c.LogLevel != slog.LevelWarn || c.Codex.Env[0] != "KEY" {
		t.Errorf("from the file %+v", c)
	}
	if c := parseOK("--config", file, "--listen", "[::1]:9001", "--data", "/flag", "--log-level", "debug"); c.Listen != "[::1]:9001" || c.Data != "/flag" || c.LogLevel != slog.LevelDebug {
		t.Errorf("from flags %+v", c)
	}
}

func TestRefusedSettings(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for says, args := range map[string][]string{
		"not of the form host:port":        {"--listen", "8787"},
		"tls_cert and tls_key go together": {"--config", write(t, "tls_cert = \"x\"")},
		"no address and no network":        {"--config", write(t, "trusted_proxies = [\"proxy.example\"]")},
		"that is everybody":                {"--config", write(t, "trusted_proxies = [\"0.0.0.0/0\"]")},
		"none of debug, info":              {"--log-level", "loud"},
		"there is no configuration file":   {"--config", "/there/is/none"},
		"which nod does not know":          {"--config", write(t, "lissten = \"x\"")},
		"cannot be read":                   {"--config", write(t, "listen = ")},
		"must begin with a slash":          {"--config", write(t, "base_path = \"nod/\"")},
		"must be at least 1":               {"--config", write(t, "max_streams = 0")},
		"has no command “serve”":           {"serve"},
		"does not know what to do with":    {"--log-level", "info", "extra"},
		"needs a session":                  {"export"},
		"needs a file that nod export":     {"import", "--data", "/x"},
	} {
		if _, _, _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestHelpHelps(t *testing.T) {
	var out bytes.Buffer
	if _, _, _, err := parse([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"login-url", "-listen", "-data", "public_hosts", "A flag goes before"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help does not speak of %s", want)
		}
	}
}

func TestR23DataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	lock, err := openData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openData(dir); err == nil || !strings.Contains(err.Error(), "another nod is using") {
		t.Errorf("a second nod: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if lock, err = openData(dir); err != nil {
		t.Errorf("a folder that others may read: %v", err)
	}
	_ = lock.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it was not closed: %v %v", info.Mode(), err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(dir); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("a folder that others may write to: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(file); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// running is a nod in this process.
type running struct {
	out   safeBuffer
	log   safeBuffer
	end   context.CancelFunc
	ended chan error
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var link = regexp.MustCompile(`http://127\.0\.0\.1:(\d+)/login#k=(\S+)`)

func startNod(t *testing.T, args ...string) (r *running, port, token string) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	r = &running{end: end, ended: make(chan error, 1)}
	go func() { r.ended <- run(ctx, args, &r.out, &r.log) }()
	for {
		if m := link.FindStringSubmatch(r.out.String()); m != nil {
			return r, m[1], m[2]
		}
		select {
		case err := <-r.ended:
			t.Fatalf("nod ended: %v\n%s", err, r.log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.end()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("stopping: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not stop")
	}
}

// TestStartAndStop: a stream that is open does not keep nod from ending, and
// nothing that is secret is in its log or its files.
func TestStartAndStop(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	data := filepath.Join(t.TempDir(), "data")
	r, port, token := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--log-level", "debug", "--config", write(t, ""))
	base := "http://127.0.0.1:" + port
	post, err := http.NewRequest(http.MethodPost, base+"/login", strings.NewReader("token="+token))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if len(res.Cookies()) != 1 {
		t.Fatalf("login: %d", res.StatusCode)
	}
	cookie := res.Cookies()[0]
	get, err := http.NewRequest(http.MethodGet, base+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	get.AddCookie(cookie)
	stream, err := client.Do(get)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()

	if _, err := os.Stat(filepath.Join(data, journal.FileName)); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(data, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	r.stop(t) // fails if the server did not end within stopWithin
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream was torn off: %v", err)
	}
	files := []string{r.log.String()}
	for _, name := range []string{journal.FileName, journal.FileName + "-wal"} {
		if b, err := os.ReadFile(filepath.Join(data, name)); err == nil {
			files = append(files, string(b))
		}
	}
	for _, f := range files {
		if strings.Contains(f, token) || strings.Contains(f, cookie.Value) {
			t.Error("a secret is in the log or in a file")
		}
	}
}

func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = run(t.Context(), []string{"--listen", l.Addr().String(), "--data", filepath.Join(t.TempDir(), "d"), "--config", write(t, "")}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "another program listens on") {
		t.Errorf("got %v", err)
	}
}

// TestLoginURL mints a link for a nod that runs, and says when there is none.
func TestLoginURL(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	data, none := filepath.Join(t.TempDir(), "data"), write(t, "")
	args := []string{"login-url", "--listen", "127.0.0.1:8787", "--data", data, "--config", none}
	if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "start nod first") {
		t.Errorf("without a nod: %v", err)
	}
	r, port, first := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--config", none)
	defer r.stop(t)
	var out bytes.Buffer
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if m := link.FindStringSubmatch(out.String()); m == nil || m[2] == first || m[1] != port {
		t.Errorf("got %q", out.String())
	}
}

// TestKeepingCommands: what each says, and that a copy is made beside a nod that
// runs and put back only where none does.
func TestKeepingCommands(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	data, config := filepath.Join(t.TempDir(), "data"), write(t, "")
	say := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if err := run(t.Context(), append(args, "--data", data, "--config", config), &out, &errs); err != nil {
			return err.Error()
		}
		return out.String()
	}
	expect := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy")
	expect(say("backup", copied), "there is no data folder")
	r, _, _ := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--config", config)
	expect(say("backup", copied), "All sessions are in "+copied)
	expect(say("backup", copied), "no backup was made")
	expect(say("restore", copied), "another nod is using the data folder")
	expect(say("import", copied), "another nod is using the data folder")
	expect(say("export", "none"), "there is no session “none”")
	r.stop(t)
	expect(say("restore", config), "is empty, so it was not restored")
	expect(say("restore", filepath.Join(data, "nothing")), "no such file")
	expect(say("import", copied), "nothing was imported")
	expect(say("restore", copied), "What was here before is in "+data)
	expect(say("backup", filepath.Join(data, "again")), "All sessions are in")
}

// TestR11RestoreLogsOut: what was ended since the backup was made does not come back.
func TestR11RestoreLogsOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	data, none, copied := filepath.Join(t.TempDir(), "data"), write(t, ""), filepath.Join(t.TempDir(), "copy")
	r, port, token := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--config", none)
	c := loggedIn(t, port, token)
	do := func(command ...string) {
		t.Helper()
		if err := run(t.Context(), append(command, "--data", data, "--config", none), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	do("backup", copied)
	r.stop(t)
	do("restore", copied)
	r, again, _ := startNod(t, "--listen", "127.0.0.1:"+port, "--data", data, "--config", none)
	defer r.stop(t)
	if again != port {
		t.Fatalf("it listens on %s", again)
	}
	if status, at := visit(t, c, http.MethodGet, "http://127.0.0.1:"+port+"/", nil); status != http.StatusSeeOther || at != "/login" {
		t.Errorf("a browser of that time: %d %s", status, at)
	}
}

// TestR29RestoreEndsLinks: neither does a link to a session.
func TestR29RestoreEndsLinks(t *testing.T) {
	data, none, copied := filepath.Join(t.TempDir(), "data"), write(t, ""), filepath.Join(t.TempDir(), "copy")
	args := []string{"--data", data, "--config", none}
	r, _, _ := startNod(t, append(args, "--listen", "127.0.0.1:0")...)
	r.stop(t)
	with := func(do func(journal.Store) error) {
		t.Helper()
		store, err := journal.Open(t.Context(), data, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(do(store), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	with(func(store journal.Store) error {
		const uri = "ahp-session:/s"
		begun := journal.Batch{Sessions: []journal.Session{{URI: uri, Head: json.RawMessage(`{}`)}}, Snapshots: []journal.Snapshot{{Session: uri, Data: json.RawMessage(`[]`)}}}
		return errors.Join(store.Append(t.Context(), begun), store.PutShare(t.Context(), journal.Share{ID: "a", TokenHash: "h", Session: uri, Record: json.RawMessage(`{}`)}))
	})
	for _, command := range []string{"backup", "restore"} {
		if err := run(t.Context(), append([]string{command, copied}, args...), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	with(func(store journal.Store) error {
		x, err := store.Share(t.Context(), "a")
		if err == nil && x.EndedAt == 0 {
			t.Error("it can be looked at")
		}
		return err
	})
}

// TestR12Verify prints a code that shows a running nod who its owner is, once.
func TestR12Verify(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	data, none := filepath.Join(t.TempDir(), "data"), write(t, "")
	args := []string{"verify", "--data", data, "--config", none}
	if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "start nod first") {
		t.Errorf("without a nod: %v", err)
	}
	r, port, token := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--config", none)
	defer r.stop(t)
	c := loggedIn(t, port, token)
	var out bytes.Buffer
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`[A-Z2-7]{4}-[A-Z2-7]{4}`).FindString(out.String())
	for i, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		if status, _ := visit(t, c, http.MethodPost, "http://127.0.0.1:"+port+"/verify", url.Values{"code": {code}}); status != want {
			t.Errorf("time %d with %q: %d", i+1, code, status)
		}
	}
}

// TestR42AuditCommands prints the record and looks at it, also beside a nod that
// runs.
func TestR42AuditCommands(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	data, config := filepath.Join(t.TempDir(), "data"), write(t, "")
	r, _, _ := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--config", config)
	defer r.stop(t)
	store, err := journal.Open(t.Context(), data, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := store.Append(t.Context(), journal.Batch{Audit: []journal.AuditEntry{{Time: 1, Actor: "d", Name: "<Firefox>", What: "thing done", Detail: []byte(`{"a":"<b>"}`)}}}); err != nil {
		t.Fatal(err)
	}
	var printed, checked bytes.Buffer
	if err := run(t.Context(), []string{"audit", "--data", data, "--config", config}, &printed, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(printed.String(), `"name":"<Firefox>","address":"","what":"thing done","about":"","detail":{"a":"<b>"},"prev":"`) {
		t.Errorf("it prints %s", printed.String())
	}
	if err := run(t.Context(), []string{"audit", "check", "--data", data, "--config", config}, &checked, io.Discard); err != nil || !strings.Contains(checked.String(), "entries are as nod wrote them") {
		t.Errorf("%v: %s", err, checked.String())
	}
}

// TestR40MemoryCeiling: nod sets one for itself, unless its owner has.
func TestR40MemoryCeiling(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for set, want := range map[string]int64{"": memoryLimit, "1GiB": 1 << 30} {
		debug.SetMemoryLimit(1 << 30) // what the runtime has made of 1GiB when the process began
		t.Setenv("GOMEMLIMIT", set)
		r, _, _ := startNod(t, "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--config", write(t, ""))
		r.stop(t)
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("GOMEMLIMIT=%s: %d", set, got)
		}
	}
}

// loggedIn is a browser that has used a login token.
func loggedIn(t *testing.T, port, token string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if status, _ := visit(t, c, http.MethodPost, "http://127.0.0.1:"+port+"/login", url.Values{"token": {token}}); status != http.StatusSeeOther {
		t.Fatalf("login: %d", status)
	}
	return c
}

// visit makes a request as a browser does, and returns where it is led to.
func visit(t *testing.T, c *http.Client, method, address string, form url.Values) (status int, location string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("Location")
}

// TestFindAgents: the daemon of a terminal may come later, so it is kept. The demo is
// for whoever has no agent at all.
func TestFindAgents(t *testing.T) {
	home, err := os.MkdirTemp("", "nod-s-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	t.Setenv("CODEX_HOME", home)
	find := func(command string) (keys, links string) {
		t.Helper()
		known, err := codex.Adapters(codex.Config{Command: command, Data: home, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		found, list := findAgents(known...)
		for _, a := range found {
			keys += a.Key() + " "
		}
		for _, l := range list {
			links += l.Key + ":" + string(l.Status) + " "
		}
		return keys, links
	}
	expect := func(command, keys, links string) {
		t.Helper()
		if k, l := find(command); k != keys || l != links {
			t.Errorf("with %s: found %q, links %q", command, k, l)
		}
	}
	expect("no-such-codex", "codex@daemon demo ", "codex@daemon:idle codex:missing demo:idle ")
	expect("/bin/sh", "codex@daemon codex ", "codex@daemon:idle codex:idle ")
	if err := os.Mkdir(filepath.Join(home, "app-server-control"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(home, "app-server-control", "app-server-control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	expect("no-such-codex", "codex@daemon ", "codex@daemon:idle codex:missing ")
}

// TestAgents lists and ends what every owner has started; one that fails hides
// nobody else's.
func TestAgents(t *testing.T) {
	runs := true
	good := owner{"Copilot",
		func(context.Context) ([]agentconn.OwnServer, error) {
			if !runs {
				return nil, nil
			}
			return []agentconn.OwnServer{{PID: 7, Program: "/opt/copilot", Since: time.Now(), Memory: 9 << 20}}, nil
		},
		func(context.Context) (stopped bool, err error) { stopped, runs = runs, false; return stopped, nil },
	}
	bad := owner{"Codex",
		func(context.Context) ([]agentconn.OwnServer, error) { return nil, errors.New("unreadable") },
		func(context.Context) (bool, error) { return false, errors.New("unreadable") },
	}
	var out bytes.Buffer
	if err := listAgents(t.Context(), []owner{bad, good}, &out); err == nil || !regexp.MustCompile(`(?s)^AGENT.*\nCopilot +does not say +7 +0s +9 MB +/opt/copilot\n$`).MatchString(out.String()) {
		t.Errorf("listed %q, %v", out.String(), err)
	}
	out.Reset()
	if err := stopAgents(t.Context(), []owner{bad, good}, &out); err == nil || out.String() != "Copilot's server has ended. The next message in nod starts it again.\n" {
		t.Errorf("stopped %q, %v", out.String(), err)
	}
	for _, f := range []func(context.Context, []owner, io.Writer) error{listAgents, stopAgents} {
		out.Reset()
		if err := f(t.Context(), []owner{good}, &out); err != nil || out.String() != noAgents+"\n" {
			t.Errorf("got %q, %v", out.String(), err)
		}
	}
}

// TestKeepIsNotForPeople: nod starts it, and does not take its own flags for it.
func TestKeepIsNotForPeople(t *testing.T) {
	if err := run(t.Context(), []string{"keep", "--help"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "by nod itself") {
		t.Errorf("got %v", err)
	}
}
