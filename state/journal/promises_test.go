package journal

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// otherProcess is set for the process that TestP6AnotherProcessFindsIt starts; it
// holds the folder to open.
const otherProcess = "NOD_TEST_P6"

// A power cut cannot be played here: what was written lives on in the page cache
// whether or not it was synced, and a store on top of one that forgets unsynced
// writes (LazyFS, dm-flakey) needs more than a test may ask for. What can be shown
// is that SQLite is told to sync before it acknowledges, on the connection that
// writes, and that nothing acknowledged is anywhere but in the two files.

// TestP6AcknowledgedIsSynced: the writing connection waits for the disk at every
// commit, and no other one writes.
func TestP6AcknowledgedIsSynced(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	const full = "2"
	expect(t, "journal_mode", pragma(t, s, "journal_mode"), "wal")
	expect(t, "synchronous", pragma(t, s, "synchronous"), full)
	expect(t, "fullfsync", pragma(t, s, "fullfsync"), "1")
	expect(t, "writing connections", s.write.Stats().MaxOpenConnections, 1)
	// A connection that database/sql opens anew has the same.
	conn, err := s.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Raw(func(any) error { return fmt.Errorf("broken: %w", errClosed) })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s.write.SetMaxIdleConns(0) // closes it
	s.write.SetMaxIdleConns(1)
	expect(t, "synchronous anew", pragma(t, s, "synchronous"), full)
}

// TestP6AcknowledgedIsInTheFiles: a copy of the files that is made right after
// Append has returned holds the batch, all of it and what was buffered before it.
func TestP6AcknowledgedIsInTheFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closed(t, s)
	begin(t, s)
	for seq := uint64(1); seq <= 20; seq += 2 {
		s.Buffer(batch(seq))
		b := batch(seq + 1)
		b.Source = Source{Session: uri, Epoch: "e", ID: fmt.Sprint(seq)}
		b.Approvals = []ApprovalChange{{Approval: Approval{ID: fmt.Sprint(seq), Session: uri, State: "pending", Digest: "d", Record: []byte(`{}`)}}}
		put(t, s, b)
		copied := open(t, crashed(t, dir))
		expect(t, "events", seqs(t, copied), upTo(seq+1))
		a, err := copied.Approval(t.Context(), fmt.Sprint(seq))
		expect(t, "error", err, nil)
		expect(t, "request", a.State, "pending")
		expect(t, "integrity", pragma(t, copied, "integrity_check"), "ok")
		closed(t, copied)
	}
}

// TestP6AnotherProcessFindsIt in a copy of the files, with nothing of this process.
func TestP6AnotherProcessFindsIt(t *testing.T) {
	if folder := os.Getenv(otherProcess); folder != "" {
		s := open(t, folder)
		defer closed(t, s)
		fmt.Println("found", len(seqs(t, s)))
		return
	}
	dir := t.TempDir()
	s := open(t, dir)
	defer closed(t, s)
	begin(t, s)
	put(t, s, batch(1, 2, 3))
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestP6AnotherProcessFindsIt$", "-test.count=1")
	other.Env = append(os.Environ(), otherProcess+"="+crashed(t, dir))
	out, err := other.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("found 3\n")) {
		t.Errorf("%v: %s", err, out)
	}
}
