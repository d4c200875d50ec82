package codex

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"nod/agentconn"
)

// TestServerOfAnotherUser is not linked to.
func TestServerOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	dir, err := os.MkdirTemp("", "nod-s-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	type listened struct {
		l   net.Listener
		err error
	}
	done := make(chan listened)
	go func() { // in a thread of its own, which is that user and ends with this
		runtime.LockOSThread()
		const nobody, same = 65534, ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same); errno != 0 {
			done <- listened{err: errno}
			return
		}
		l, err := net.Listen("unix", path)
		done <- listened{l, err}
	}()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer func() { _ = got.l.Close() }()
	_, err = dialUnix(t.Context(), path)
	if !strings.Contains(agentconn.Sentence(err), "belongs to another user (id 65534)") {
		t.Errorf("got %v", err)
	}
}
