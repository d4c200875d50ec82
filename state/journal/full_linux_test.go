package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts one with little room.
func smallDisk(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=1500k"); err != nil {
		t.Skipf("a small disk cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// sized is a batch of one event of usual size.
func sized(seq uint64) Batch {
	b := batch(seq)
	b.Events[0].Action = bytes.Repeat([]byte("x"), 600)
	return b
}

// TestFullDisk fills a real one, and makes room again.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 500<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	told := make(chan error, 10)
	s.OnHealth(func(err error) { told <- err })
	begin(t, s)
	if _, err := s.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	acked := uint64(0)
	for {
		if err := s.Append(t.Context(), sized(acked+1)); err != nil {
			t.Logf("full after %d events: %v", acked, err)
			break
		}
		acked++
	}
	expect(t, "acked", seqs(t, s), upTo(acked))

	// More waits than fits into what a page has left.
	const waiting = 300
	for seq := acked + 1; seq <= acked+waiting; seq++ {
		s.Buffer(sized(seq))
	}
	if err := hear(t, told); err == nil {
		t.Error("it began to refuse for no cause")
	}
	for range 3 {
		if err := s.Append(t.Context(), sized(acked+waiting+1)); err == nil {
			t.Fatal("an append overtook what waits")
		}
	}
	// Reading goes on. Some of what waited may have fitted; no hole may be left.
	got := seqs(t, s)
	expect(t, "while full", got, upTo(uint64(len(got))))
	if n := uint64(len(got)); n < acked || n >= acked+waiting {
		t.Errorf("%d are recorded of %d, %d of them acked", n, acked+waiting, acked)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := hear(t, told); err != nil {
		t.Errorf("it ceased to refuse: %v", err)
	}
	expect(t, "what waited", seqs(t, s), upTo(acked+waiting))
	put(t, s, sized(acked+waiting+1))
	expect(t, "integrity", pragma(t, s, "integrity_check"), "ok")
	closed(t, s)
	s = open(t, dir)
	expect(t, "after opening again", seqs(t, s), upTo(acked+waiting+1))
	clean, err := s.Begin(t.Context())
	expect(t, "Begin", err, nil)
	expect(t, "clean", clean, false)
	closed(t, s)
	if len(told) > 0 {
		t.Errorf("told more: %v", <-told)
	}
}

// TestFullDiskWithRoomInTheFile: what was deleted left pages to write to, which
// only the WAL keeps from being used.
func TestFullDiskWithRoomInTheFile(t *testing.T) {
	s := open(t, smallDisk(t))
	defer closed(t, s)
	s.OnHealth(func(err error) { t.Errorf("told %v", err) })
	begin(t, s)
	old := Batch{Sessions: []Session{{URI: "s:/old"}}}
	for seq := uint64(1); seq <= 400; seq++ {
		b := sized(seq)
		b.Events[0].Session = "s:/old"
		old.Events = append(old.Events, b.Events...)
	}
	put(t, s, old)
	empty := func() {
		t.Helper()
		if empty, err := s.emptyWAL(); err != nil || !empty {
			t.Fatalf("the WAL is still in use (%v)", err)
		}
	}
	empty()
	if err := s.Delete(t.Context(), 1, "s:/old"); err != nil {
		t.Fatal(err)
	}
	empty()
	const n = 300
	for seq := uint64(1); seq <= n; seq++ {
		put(t, s, sized(seq))
	}
	expect(t, "events", seqs(t, s), upTo(n))
}

// hear waits for what OnHealth is told.
func hear(t *testing.T, told <-chan error) error {
	t.Helper()
	select {
	case err := <-told:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was told")
		return nil
	}
}
