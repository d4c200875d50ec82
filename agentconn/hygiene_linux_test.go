package agentconn

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestR22DetachedSeesLittle: what goes on without nod has nothing of it: no variable
// that was not named, no file, no connection, no terminal.
func TestR22DetachedSeesLittle(t *testing.T) {
	t.Setenv("NOD_TEST_SECRET", "do not pass")
	t.Setenv("NOD_TEST_NAMED", "pass this")
	dir, err := os.MkdirTemp("", "nod-h-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	secret, err := os.Create(filepath.Join(dir, "secret.db")) // as the journal is open
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secret.Close() }()
	l, err := net.Listen("tcp", "127.0.0.1:0") // as nod listens
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	seen, program := filepath.Join(dir, "seen"), filepath.Join(dir, "program")
	script := "#!/bin/sh\n{ env; for f in /proc/self/fd/*; do echo \"fd $(readlink $f)\"; done; } > " + seen + "\ncat /proc/self/stat >> " + seen + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	d := Daemon{Folder: filepath.Join(dir, "d"), Name: "x", Of: "X", Log: slog.New(slog.DiscardHandler)}
	var silent *Silent
	if err := d.Start(t.Context(), ChildEnv([]string{"NOD_TEST_NAMED"}), program); !errors.As(err, &silent) { // it ends at once
		t.Fatal(err)
	}
	b, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"NOD_TEST_SECRET", "do not pass"} {
		if strings.Contains(string(b), word) {
			t.Errorf("it sees %q", word)
		}
	}
	if !strings.Contains(string(b), "NOD_TEST_NAMED=pass this") || !strings.Contains(string(b), "PATH=") {
		t.Errorf("it lacks what it needs:\n%s", b)
	}
	fds := 0
	for line := range strings.Lines(string(b)) {
		to, ok := strings.CutPrefix(strings.TrimSpace(line), "fd ")
		if !ok {
			continue
		}
		fds++
		if to != "" && to != os.DevNull && to != seen && to != program && !strings.HasPrefix(to, "pipe:") {
			t.Errorf("%s is open there", to)
		}
	}
	if fds < 3 {
		t.Errorf("only %d files are open there:\n%s", fds, b)
	}
}
