package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nod/agentconn"
	"nod/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listener is a sink that remembers what it heard of the link.
type listener struct {
	mu    sync.Mutex
	links []state.Link
	lost  chan struct{}
}

func (l *listener) Begin(_ context.Context, _ string, m *state.SessionSummary, _ *state.SessionConfigState, _ ...state.Action) (*state.Session, error) {
	return &state.Session{Summary: m}, nil
}
func (l *listener) Open(context.Context, string) []*state.Session                           { return nil }
func (l *listener) Gone(context.Context, string, string)                                    {}
func (l *listener) Waiting(context.Context, string, string, []json.RawMessage)              {}
func (l *listener) Apply(context.Context, string, state.Source, ...state.Envelope)          {}
func (l *listener) Ask(context.Context, state.Request, ...state.Envelope)                   {}
func (l *listener) Resolved(context.Context, string, string, json.RawMessage, state.Ending) {}
func (l *listener) Opaque(context.Context, string, json.RawMessage)                         {}
func (l *listener) LinkChanged(_ context.Context, link state.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = append(l.links, link)
	if link.Status == state.LinkLost {
		select {
		case l.lost <- struct{}{}:
		default:
		}
	}
}

// program writes a shell script and returns a manager that takes it for Codex.
func program(t *testing.T, script string) (*agentconn.Manager, *listener) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n[ \"$2\" = --help ] && exit\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	l := &listener{lost: make(chan struct{}, 1)}
	m := agentconn.NewManager(l, []agentconn.Adapter{ownOf(Config{Command: file, Data: t.TempDir(), Log: log})}, log)
	m.Start()
	t.Cleanup(m.Close)
	return m, l
}

// ownOf returns the adapter of nod's own server.
func ownOf(cfg Config) agentconn.Adapter { return own{place{Provider, Provider, displayName, cfg}} }

// greets answers as Codex does, until a thread has been started.
const greets = `read line
echo '{"id":1,"result":{"userAgent":"nod/0.171.0 (test)"}}'
started=
while [ -z "$started" ]; do
	read line || exit 1
	id=${line#*\"id\":}
	id=${id%%,*}
	case $line in
	*thread/loaded*) echo '{"id":'$id',"result":{"data":[]}}' ;;
	*thread/start*) started=1 ;;
	esac
done
` + begins

// begins answers thread/start.
const begins = `echo '{"id":'$id',"result":{"thread":{"id":"th"},"model":"m"}}'
`

func TestWrongPrograms(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"dies at once":      {"echo 'no licence' >&2; exit 3", "Its last words: “no licence”"},
		"prints rubbish":    {"while echo 'Welcome to the other codex!'; do :; done", "is not Codex's protocol (“Welcome to the other codex!”)"},
		"binary rubbish":    {"head -c 40000000 /dev/zero; echo; sleep 60", "is not Codex's protocol"},
		"answers an error":  {`read l; echo '{"id":1,"error":{"code":-32600,"message":"what?"}}'; sleep 60`, "did not come up as nod expects it"},
		"names no version":  {`read l; echo '{"id":1,"result":{"hello":"there"}}'; sleep 60`, "did not come up as nod expects it"},
		"goes after asking": {"read l; exit 0", "did not come up as nod expects it"},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := program(t, c.script)
			_, err := m.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/"})
			var p *agentconn.PublicError
			if !errors.As(err, &p) || !strings.Contains(p.Message, c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if last := l.links[len(l.links)-1]; last.Status != state.LinkLost || last.Detail != p.Message {
				t.Errorf("the link is shown as %+v", last)
			}
		})
	}
}

func TestMissingProgram(t *testing.T) {
	a := ownOf(Config{Command: "no-such-codex", Log: slog.New(slog.DiscardHandler)})
	if _, err := a.Find(); err == nil || !strings.Contains(agentconn.Sentence(err), "Install it") {
		t.Errorf("got %v", err)
	}
}

// TestR22ChildSeesLittle dumps what a child can see of nod.
func TestR22ChildSeesLittle(t *testing.T) {
	t.Setenv("NOD_TEST_SECRET", "do not pass")
	t.Setenv("CODEX_HOME", "/pass/this")
	dir := t.TempDir()
	secret, err := os.Create(filepath.Join(dir, "secret.db")) // as our journal is open
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secret.Close() }()
	out := filepath.Join(dir, "seen")
	m, _ := program(t, `{ env; ls -l /proc/self/fd; } > `+out+"\n"+greets+"\ncat >/dev/null")
	if _, err := m.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"NOD_TEST_SECRET", "do not pass", "secret.db"} {
		if strings.Contains(string(b), word) {
			t.Errorf("the child sees %q:\n%s", word, b)
		}
	}
	if !strings.Contains(string(b), "CODEX_HOME=/pass/this") || !strings.Contains(string(b), "PATH=") {
		t.Errorf("the child lacks what it needs:\n%s", b)
	}
}

// TestR22NothingIsLeft stops an agent that has started something of its own and
// does not listen.
func TestR22NothingIsLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	m, _ := program(t, "trap '' TERM\nsleep 1000 & echo $! > "+file+"\n"+greets+"while :; do sleep 1; done")
	if _, err := m.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m.Close()
	t.Logf("stopping took %v of the 5 s that the whole program has", time.Since(start).Round(time.Millisecond))
	var pid int
	if err := json.Unmarshal(b, &pid); err != nil {
		t.Fatal(err)
	}
	for alive(pid) { // it was killed; the kernel takes its moment
		if time.Since(start) > 10*time.Second {
			t.Fatalf("process %d is left", pid)
		}
		runtime.Gosched()
	}
}

// alive reports whether a process runs; one that waits to be buried does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(b), ") Z ")
}

// TestLongLines reads a message of several megabytes, and passes over one that
// is beyond all bounds.
func TestLongLines(t *testing.T) {
	m, _ := program(t, strings.TrimSuffix(greets, begins)+`printf '{"method":"x","params":{"a":"'; head -c 3000000 /dev/zero | tr '\0' a; echo '"}}'
head -c 40000000 /dev/zero | tr '\0' b; echo
`+begins+"cat >/dev/null")
	if _, err := m.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/"}); err != nil {
		t.Fatal(err)
	}
}

// TestStartsAgain: a link that was lost comes back with the next session.
func TestStartsAgain(t *testing.T) {
	m, l := program(t, greets+"exit 0")
	for range 2 {
		if _, err := m.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/"}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.lost:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody noticed that it ended")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var got []string
	epochs := map[string]bool{}
	for _, x := range l.links {
		got = append(got, string(x.Status))
		epochs[x.Epoch] = true
	}
	if want := "connecting up lost connecting up lost"; strings.TrimPrefix(strings.Join(got, " "), "idle ") != want || len(epochs) != 3 {
		t.Errorf("the link went %s over %d epochs", got, len(epochs))
	}
}

// TestDescendantHidesNothing: a process that left the group and holds the output
// open does not hide that Codex has ended.
func TestDescendantHidesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	m, l := program(t, greets+"setsid sh -c 'echo $$ > "+file+"; exec sleep 1000' &\nwhile [ ! -s "+file+" ]; do :; done\nexit 0")
	if _, err := m.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.lost:
	case <-time.After(20 * time.Second):
		t.Error("nobody noticed that it ended")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := json.Unmarshal(b, &pid); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it is ours, though nod may not know it
}
