package keep

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nod/agentconn"
)

// TestMain plays nod keep, and the program that it starts, when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keep" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Main(ctx, os.Args[2:], slog.New(slog.DiscardHandler)); err != nil {
			fmt.Fprintln(os.Stderr, "nod:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "--headless" {
		playServer()
		return
	}
	goleak.VerifyTestMain(m)
}

// playServer is a Copilot that knows connect, by a token, and runtime.shutdown.
func playServer() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if i := slices.Index(os.Args, "--dump"); i > 0 {
		if err := dump(os.Args[i+1]); err != nil {
			panic(err)
		}
	}
	fmt.Println("A banner.")
	fmt.Println("CLI server listening on port", l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			in := bufio.NewReader(c)
			_ = relay(c, in, func(raw []byte) {
				if strings.Contains(string(raw), "runtime.shutdown") {
					os.Exit(0)
				} else if !strings.Contains(string(raw), os.Getenv(tokenVariable)) {
					_ = c.Close()
				}
			})
		}()
	}
}

func newKeeper(t *testing.T, s Server) Keeper {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod k-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	k := Keeper{Folder: filepath.Join(dir, "copilot", "own"), Server: s, Env: agentconn.ChildEnv(nil), Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		if _, err := k.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return k
}

// played is the server that this test's binary plays.
func played(t *testing.T) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Server{Program: self, Args: []string{"--headless", "--port", "0"}}
}

// dial links to the server, without connect.
func dial(t *testing.T, k Keeper) *end {
	t.Helper()
	c, err := k.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newEnd(t, c)
}

// connect reports whether the server takes a client with that token.
func connect(t *testing.T, k Keeper, token string) bool {
	t.Helper()
	c := dial(t, k)
	defer func() { _ = c.Close() }()
	answer, err := c.call("connect", map[string]any{"token": token})
	return err == nil && !strings.Contains(answer, `"error"`)
}

// call returns the answer to a call; what comes in between is passed over.
func (e *end) call(method string, params map[string]any) (string, error) {
	e.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": method, "method": method, "params": params})
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.Write(frame(body)); err != nil {
		return "", err
	}
	for {
		raw, err := e.next()
		var m message
		if _ = json.Unmarshal([]byte(raw), &m); err != nil || string(m.ID) == `"`+method+`"` {
			return raw, err
		}
	}
}

// until waits for what another process does.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen: ", what)
		}
	}
}

// programOf returns what the keeper's program is.
func programOf(t *testing.T, k Keeper) agentconn.OwnServer {
	t.Helper()
	list, err := k.Own(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

// TestKeeper: it is started, found again by another nod, and ended with its program.
func TestKeeper(t *testing.T) {
	k := newKeeper(t, played(t))
	if k.Running() || k.Epoch() != "" {
		t.Fatal("it runs before it is started")
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, err := k.Token()
	if err != nil || len(token) < 20 {
		t.Fatalf("the token is %q, %v", token, err)
	}
	if !k.Running() || !connect(t, k, token) || connect(t, k, "wrong") {
		t.Error("it does not listen, or not to the token alone")
	}
	for _, file := range []string{k.tokenFile(), k.keeper().Socket(), filepath.Join(k.Folder, "keep.json"), filepath.Join(k.Folder, "copilot.json"), k.Folder} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	others := All(filepath.Dir(k.Folder), k.Log)
	if len(others) != 1 {
		t.Fatalf("found %+v", others)
	}
	s := programOf(t, others[0])
	run := agentconn.RunOf(s.PID)
	if s.Program != k.Server.Program || s.Memory == 0 || run == "" || k.Epoch() != agentconn.EpochOf(run) {
		t.Errorf("%+v, run %q", s, run)
	}
	if stopped, err := others[0].Stop(t.Context()); !stopped || err != nil {
		t.Errorf("stopped %v, %v", stopped, err)
	}
	if agentconn.RunOf(s.PID) != "" || k.Running() || k.Epoch() != "" {
		t.Error("it still runs")
	}
	if stopped, err := k.Stop(t.Context()); stopped || err != nil {
		t.Errorf("stopped again: %v, %v", stopped, err)
	}
	if _, err := k.Dial(t.Context()); err == nil {
		t.Error("it still takes connections")
	}
}

// TestSignals: a terminal that ends is nothing to a keeper. To be asked to end is.
func TestSignals(t *testing.T) {
	k := newKeeper(t, played(t))
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	keeper, _, _ := k.keeper().Running()
	s := programOf(t, k)
	token, _ := k.Token()
	if err := syscall.Kill(keeper.PID, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !connect(t, k, token) {
		t.Error("a hangup has ended it")
	}
	if err := syscall.Kill(keeper.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "keeper and program end", func() bool { return agentconn.RunOf(keeper.PID)+agentconn.RunOf(s.PID) == "" })
}

// TestKeeperKilled: what it has left behind is known, and ended by the next one.
func TestKeeperKilled(t *testing.T) {
	k := newKeeper(t, played(t))
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	keeper, _, _ := k.keeper().Running()
	first, epoch := programOf(t, k), k.Epoch()
	if err := syscall.Kill(keeper.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the keeper ends", func() bool { return !k.Running() }) // its socket's file is still there
	if s := programOf(t, k); s.PID != first.PID {
		t.Errorf("its program is %+v now, was %+v", s, first)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if agentconn.RunOf(first.PID) != "" || k.Epoch() == epoch || !k.Running() {
		t.Error("the program of the killed keeper still runs")
	}
}

// TestProgramEnds: then the keeper does too.
func TestProgramEnds(t *testing.T) {
	k := newKeeper(t, played(t))
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := k.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(frame([]byte(`{"method":"runtime.shutdown"}`))); err != nil {
		t.Fatal(err)
	}
	until(t, "the keeper ends", func() bool { return k.keeper().Run() == "" })
}

// TestProgramDoesNotCome: its last words are told, and nothing is left.
func TestProgramDoesNotCome(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"says why":          {"echo hello; echo 'no licence' >&2; exit 3", "Its last words: “no licence”."},
		"says it elsewhere": {"echo 'no room'; exit 3", "Its last words: “no room”."},
		"says nothing":      {"exit 3", "Its last words: “it ended: exit status 3”."},
		"says too much":     {"head -c 3000 /dev/zero | tr '\\0' x >&2; exit 3", "xxx…”."},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, Server{Program: "/bin/sh", Args: []string{"-c", c.script}})
			err := k.Start(t.Context())
			if !strings.Contains(agentconn.Sentence(err), c.says) {
				t.Errorf("got %v", err)
			}
			if list, err := k.Own(t.Context()); len(list) > 0 || err != nil {
				t.Errorf("left: %+v, %v", list, err)
			}
		})
	}
	k := newKeeper(t, Server{Program: "/nowhere/copilot"})
	if err := k.Start(t.Context()); !strings.Contains(agentconn.Sentence(err), "no such file") {
		t.Errorf("got %v", err)
	}
}

// TestPatience: a program that runs and never listens is not left behind.
func TestPatience(t *testing.T) {
	k := newKeeper(t, Server{Program: "/bin/sh", Args: []string{"-c", "exec sleep 600"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Start(ctx) }()
	until(t, "the program runs", func() bool { return k.program().Run() != "" })
	cancel()
	if err := <-done; err == nil {
		t.Error("it was taken for a server")
	}
	until(t, "nothing is left", func() bool {
		list, err := k.Own(t.Context())
		return err == nil && len(list) == 0
	})
}

// TestConfigured: a server that somebody else runs is only connected to.
func TestConfigured(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	k := newKeeper(t, Server{Address: server.Addr().String()})
	if token, err := k.Token(); token != "" || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
	k.Server.TokenFile = filepath.Join(t.TempDir(), "token")
	if _, err := k.Token(); !strings.Contains(agentconn.Sentence(err), "cannot be read from "+k.Server.TokenFile) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(k.Server.TokenFile, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Token(); !strings.Contains(agentconn.Sentence(err), "chmod 600") {
		t.Errorf("got %v", err)
	}
	if err := os.Chmod(k.Server.TokenFile, 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := k.Token(); token != "secret" || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := k.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	want := frame([]byte(`{"id":1}`))
	if _, err := c.Write(want); err != nil {
		t.Fatal(err)
	}
	s, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, err := bufio.NewReader(s).Peek(len(want))
	if err != nil || string(got) != string(want) {
		t.Errorf("got %q, %v", got, err)
	}
	keeper := programOf(t, k)
	if run := agentconn.RunOf(keeper.PID); run == "" || k.Epoch() != agentconn.EpochOf(run) {
		t.Errorf("%+v, run %q", keeper, run)
	}
}

// TestLongPath: a socket's name has a limit.
func TestLongPath(t *testing.T) {
	k := Keeper{Folder: filepath.Join(t.TempDir(), strings.Repeat("long", 30)), Server: played(t), Log: slog.New(slog.DiscardHandler)}
	if err := k.Start(t.Context()); !strings.Contains(agentconn.Sentence(err), "--data") {
		t.Errorf("got %v", err)
	}
}

// TestByHand says what it is.
func TestByHand(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"/tmp", "x", "y"}} {
		if err := Main(t.Context(), args, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "by nod itself") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestRealCopilot: the real program asks for the token; its turn goes on when nod
// leaves in the middle; and it is ended with all that it has started.
func TestRealCopilot(t *testing.T) {
	program, err := filepath.Abs(cmp.Or(os.Getenv("NOD_COPILOT"), filepath.Join("..", "..", "..", "e2e", "node_modules", ".bin", "copilot")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("the real Copilot is not here; NOD_COPILOT may name it: ", err)
	}
	goOn := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := func(text, reason string) {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5.4\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":%s}]}\n\n", text, reason)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk("Hello ", "null")
		select {
		case <-goOn:
		case <-r.Context().Done():
			return
		}
		chunk("world.", `"stop"`)
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer model.Close()
	k := newKeeper(t, Server{Program: program, Args: []string{"--headless", "--no-auto-update", "--port", "0", "--no-auto-login"}})
	t.Setenv("HOME", t.TempDir())
	k.Env = append(agentconn.ChildEnv(nil), "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL="+model.URL, "COPILOT_MODEL=gpt-5.4")
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { // before the model ends, which waits for it
		s := programOf(t, k)
		if stopped, err := k.Stop(context.WithoutCancel(t.Context())); !stopped || err != nil {
			t.Error(stopped, err)
		}
		until(t, "its group is gone", func() bool { return syscall.Kill(-s.PID, 0) != nil })
	}()
	token, err := k.Token()
	if err != nil {
		t.Fatal(err)
	}
	if connect(t, k, "wrong") {
		t.Error("it takes any token")
	}
	hold := func(method string) *end {
		c := dial(t, k)
		if answer, err := c.call("connect", map[string]any{"token": token}); err != nil || !strings.Contains(answer, "protocolVersion") {
			t.Fatal(answer, err)
		}
		if answer, err := c.call(method, map[string]any{
			"sessionId": "s", "model": "gpt-5.4", "streaming": true, "requestPermission": true, "workingDirectory": t.TempDir(),
			"provider": map[string]string{"type": "openai", "wireApi": "completions", "baseUrl": model.URL, "apiKey": "key"},
		}); err != nil || strings.Contains(answer, `"error"`) {
			t.Fatal(answer, err)
		}
		return c
	}
	nod := hold("session.create")
	if answer, err := nod.call("session.send", map[string]any{"sessionId": "s", "prompt": "Say hello."}); err != nil || strings.Contains(answer, `"error"`) {
		t.Fatal(answer, err)
	}
	for raw := ""; !strings.Contains(raw, "assistant.message_delta"); {
		if raw, err = nod.next(); err != nil {
			t.Fatal(err)
		}
	}
	_ = nod.Close()
	if !connect(t, k, token) { // without holding the session, so that nobody but the keeper does
		t.Error("it does not take the token")
	}
	close(goOn)
	again := hold("session.resume")
	until(t, "the turn ends as if nod had been there", func() bool {
		history, err := again.call("session.getMessages", map[string]any{"sessionId": "s"})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(history, `"Hello world."`)
	})
}
