package agentconn_test

import (
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"nod/agentconn"
)

// TestR23AgentsUmask: an agent has the umask that nod was started with, whatever nod has
// for its own files.
func TestR23AgentsUmask(t *testing.T) {
	was := syscall.Umask(0o077)
	syscall.Umask(was)
	defer syscall.Umask(was)
	syscall.Umask(was ^ 0o055)
	p, err := agentconn.StartProcess(t.Context(), slog.New(slog.DiscardHandler), "/bin/sh", []string{"-c", "umask"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = p.Wait()
	syscall.Umask(was)
	var want strings.Builder
	want.WriteString("0")
	for shift := 6; shift >= 0; shift -= 3 {
		want.WriteByte(byte('0' + was>>shift&7))
	}
	if got := strings.TrimSpace(string(b)); got != want.String() {
		t.Errorf("it has %s, nod was started with %s", got, want.String())
	}
}
