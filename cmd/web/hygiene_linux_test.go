package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestR22OwnFilesStayHere: of all that nod has open, its journal, its lock and its
// connections, nothing is passed on to a program that it starts.
func TestR22OwnFilesStayHere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	data := filepath.Join(t.TempDir(), "data")
	r, _, _ := startNod(t, "--listen", "127.0.0.1:0", "--data", data, "--config", write(t, ""))
	defer r.stop(t)
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || !strings.HasPrefix(to, data) && !strings.HasPrefix(to, "socket:") {
			continue // of the test itself
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			continue // closed meanwhile
		}
		if strings.HasPrefix(to, data) {
			ours++
		}
		if flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s would be passed on", to)
		}
	}
	if ours < 3 { // the lock, the journal, its log
		t.Errorf("only %d files of the data folder are open", ours)
	}
}
