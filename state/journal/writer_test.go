package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// refuse lets the disk refuse whatever is written from here on, as it does when
// it is full; after allow it takes everything.
func refuse(t *testing.T, s *sqlite) {
	t.Helper()
	if _, err := s.write.ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
}

func allow(t *testing.T, s *sqlite) {
	t.Helper()
	if _, err := s.write.ExecContext(t.Context(), "PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
}

// refusing opens a store with one session whose disk refuses. What OnHealth is
// told comes into the slice; look at it after synctest.Wait.
func refusing(t *testing.T) (*sqlite, *[]error) {
	t.Helper()
	s := open(t, t.TempDir())
	told := &[]error{}
	s.OnHealth(func(err error) { *told = append(*told, err) })
	begin(t, s)
	refuse(t, s)
	return s, told
}

// numbered is a batch whose head shows which one came last.
func numbered(seq uint64) Batch {
	b := batch(seq)
	b.Sessions = []Session{{URI: uri, Head: json.RawMessage(fmt.Sprint(seq))}}
	return b
}

func head(t *testing.T, s *sqlite) string {
	t.Helper()
	sessions, err := s.Sessions(t.Context())
	if err != nil || len(sessions) == 0 {
		t.Fatalf("%d sessions (%v)", len(sessions), err)
	}
	return string(sessions[0].Head)
}

// later lets all timers that are due in d fire; the clock is the bubble's.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestBufferedIsCommittedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		defer closed(t, s)
		begin(t, s)
		synctest.Wait()
		s.Buffer(batch(1))
		later(flushAfter / 2)
		expect(t, "at first", len(seqs(t, s)), 0)
		s.Buffer(batch(2)) // does not put it off
		later(flushAfter / 2)
		expect(t, "then", seqs(t, s), upTo(2))
	})
}

// TestRefusedIsKeptInOrder is a full disk from its beginning to its end.
func TestRefusedIsKeptInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := refusing(t)
		defer closed(t, s)
		if err := s.Append(t.Context(), batch(1)); err == nil {
			t.Error("it was recorded")
		}
		synctest.Wait()
		expect(t, "told of what nobody keeps", len(*told), 0)
		const n = 3*maxGroup + 5 // more than one transaction takes
		for seq := uint64(1); seq <= n; seq++ {
			s.Buffer(numbered(seq))
		}
		later(10 * retryAfter)
		expect(t, "told", len(*told), 1)
		if len(*told) > 0 && (*told)[0] == nil {
			t.Error("told of no cause")
		}
		for range 3 {
			if err := s.Append(t.Context(), numbered(n+1)); err == nil {
				t.Error("it was recorded")
			}
		}
		expect(t, "recorded", len(seqs(t, s)), 0)
		allow(t, s)
		put(t, s, numbered(n+1)) // brings what waited before it
		expect(t, "recorded", seqs(t, s), upTo(n+1))
		expect(t, "head", head(t, s), n+1)
		synctest.Wait()
		expect(t, "told", len(*told), 2)
		expect(t, "told last", (*told)[len(*told)-1], nil)
		put(t, s, batch(n+2))
		synctest.Wait()
		expect(t, "told", len(*told), 2)
	})
}

// TestRecoversByItself needs nobody to come along.
func TestRecoversByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := refusing(t)
		defer closed(t, s)
		for range 2 {
			n := uint64(len(seqs(t, s)))
			refuse(t, s)
			s.Buffer(numbered(n + 1))
			later(flushAfter)
			s.Buffer(numbered(n + 2))
			later(5*retryAfter + retryAfter/2)
			expect(t, "recorded", seqs(t, s), upTo(n))
			allow(t, s)
			later(retryAfter)
			expect(t, "recorded", seqs(t, s), upTo(n+2))
			expect(t, "head", head(t, s), n+2)
		}
		expect(t, "told", len(*told), 4)
		for i, err := range *told {
			expect(t, "told well", err == nil, i%2 == 1)
		}
	})
}

// TestRefusedAtTheEnd says what was lost.
func TestRefusedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := refusing(t)
		s.Buffer(batch(1))
		if err := s.Close(); err == nil {
			t.Error("Close is content")
		}
	})
}

// TestTasksWhileRefused: Compact, Cut and End do not overtake what waits.
func TestTasksWhileRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		defer closed(t, s)
		begin(t, s)
		put(t, s, Batch{Sessions: []Session{{URI: "s:/other"}}, Events: []Event{{Session: "s:/other", Seq: 1}, {Session: "s:/other", Seq: 2}}})
		put(t, s, batch(1, 2))
		full(t, s)
		s.Buffer(large(3))
		later(flushAfter)
		merge := func(es []Event) ([]Event, error) { return es[1:], nil }
		if err := s.Compact(t.Context(), uri, 1, 2, merge); err == nil {
			t.Error("Compact overtook what waits")
		}
		if err := s.Cut(t.Context(), Snapshot{Session: uri, Seq: 2}, Session{URI: uri}, nil); err == nil {
			t.Error("Cut overtook what waits")
		}
		if err := s.End(t.Context()); err == nil {
			t.Error("End, and not all is on disk")
		}
		expect(t, "events", seqs(t, s), upTo(2))
		if err := s.Compact(t.Context(), "s:/other", 1, 2, merge); err != nil {
			t.Errorf("a session that nothing waits for: %v", err)
		}
		if _, err := s.write.ExecContext(t.Context(), "PRAGMA max_page_count = 1000000"); err != nil {
			t.Fatal(err)
		}
		if err := s.Cut(t.Context(), Snapshot{Session: uri, Seq: 2}, Session{URI: uri}, nil); err != nil {
			t.Error(err)
		}
		expect(t, "events", seqs(t, s), []uint64{3})
	})
}

// full lets the file grow no more.
func full(t *testing.T, s *sqlite) {
	t.Helper()
	if _, err := s.write.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
}

// large is a batch that does not fit into what is left of a page.
func large(seq uint64) Batch {
	b := batch(seq)
	b.Events[0].Action = bytes.Repeat([]byte("x"), 20_000)
	return b
}

// TestDeleteMakesRoom: it goes ahead of what the disk refuses, and nothing that
// waits brings the session back.
func TestDeleteMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		defer closed(t, s)
		begin(t, s)
		old := large(1)
		old.Sessions = []Session{{URI: "s:/old"}}
		old.Events[0].Session = "s:/old"
		put(t, s, old)
		full(t, s)
		late := Batch{Sessions: old.Sessions, Events: []Event{{Session: "s:/old", Seq: 2, Action: bytes.Repeat([]byte("x"), 20_000)}}}
		mixed := large(1)
		mixed.Sessions = old.Sessions
		s.Buffer(late)
		s.Buffer(mixed)
		later(flushAfter)
		expect(t, "events", len(seqs(t, s)), 0)
		if err := s.Delete(t.Context(), 1, "s:/old"); err != nil {
			t.Fatal(err)
		}
		later(retryAfter)
		expect(t, "events", seqs(t, s), upTo(1))
		sessions, err := s.Sessions(t.Context())
		expect(t, "error", err, nil)
		expect(t, "sessions", len(sessions), 1)
		expect(t, "held", s.queue.held, 0)
		expect(t, "bytes", s.queue.bytes, 0)
	})
}

// TestNoRoomLeavesAPrefix: what there is no room for breaks the log off, and
// what comes later does not go on behind a hole.
func TestNoRoomLeavesAPrefix(t *testing.T) {
	for name, c := range map[string]struct {
		room  uint64
		batch func(seq uint64) Batch
	}{
		"number": {maxBuffered, func(seq uint64) Batch { return batch(seq) }},
		"bytes": {64, func(seq uint64) Batch {
			b := batch(seq)
			b.Events[0].Action = make(json.RawMessage, maxBufferedBytes/64-512)
			return b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := refusing(t)
				defer closed(t, s)
				put := func(b Batch) error { return s.Append(t.Context(), b) }
				s.Buffer(c.batch(1))
				later(flushAfter)
				for seq := uint64(2); seq <= c.room+3; seq++ {
					s.Buffer(c.batch(seq))
				}
				allow(t, s)
				later(retryAfter)
				n := uint64(len(seqs(t, s)))
				expect(t, "recorded", n, c.room)
				expect(t, "in order", seqs(t, s), upTo(n))
				// There is room again, but the log would have a hole.
				s.Buffer(batch(n + 4))
				if err := put(batch(n + 4)); err == nil {
					t.Error("it goes on behind a hole")
				}
				if err := put(Batch{Snapshots: []Snapshot{{Session: uri, Seq: n + 4}}}); err == nil {
					t.Error("a snapshot of what is not recorded was taken")
				}
				if err := put(Batch{Sessions: []Session{{URI: "s:/other"}}, Events: []Event{{Session: "s:/other", Seq: 1}}}); err != nil {
					t.Errorf("another session: %v", err)
				}
				expect(t, "recorded", seqs(t, s), upTo(n))
				if err := put(batch(n + 1)); !errors.Is(err, ErrBroken) {
					t.Errorf("the lost ones again: %v", err)
				}
				if err := s.Cut(t.Context(), Snapshot{Session: uri, Seq: n + 4}, Session{URI: uri}, nil); err != nil {
					t.Error(err)
				}
				if err := put(batch(n + 5)); err != nil {
					t.Error(err)
				}
				expect(t, "recorded", seqs(t, s), []uint64{n + 5})
			})
		})
	}
}

// TestCutMendsALog: with a snapshot from behind the hole nothing before it is
// needed.
func TestCutMendsALog(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	put(t, s, batch(1))
	s.queue.mu.Lock()
	s.queue.lose(batch(2), errors.New("no room"))
	s.queue.lose(batch(3), errors.New("no room"))
	s.queue.mu.Unlock()
	if err := s.Cut(t.Context(), Snapshot{Session: uri, Seq: 1}, Session{URI: uri}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), batch(4)); err == nil {
		t.Error("it goes on behind a hole")
	}
	if err := s.Cut(t.Context(), Snapshot{Session: uri, Seq: 3}, Session{URI: uri}, nil); err != nil {
		t.Fatal(err)
	}
	put(t, s, batch(4))
	expect(t, "events", seqs(t, s), []uint64{4})
}

// TestSlowDiskHoldsBufferUp: what is not refused is not lost either.
func TestSlowDiskHoldsBufferUp(t *testing.T) {
	const n = maxBuffered + 500
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	tx, err := s.write.BeginTx(t.Context(), nil) // the writer waits for it
	if err != nil {
		t.Fatal(err)
	}
	buffered := make(chan struct{})
	go func() {
		defer close(buffered)
		for seq := uint64(1); seq <= n; seq++ {
			s.Buffer(batch(seq))
		}
	}()
	end := time.Now().Add(30 * time.Second)
	for held := 0; held < maxBuffered; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they are not held")
		}
		s.queue.mu.Lock()
		held = s.queue.held
		s.queue.mu.Unlock()
	}
	select {
	case <-buffered:
		t.Error("more is held than there is room for")
	default:
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	<-buffered
	put(t, s, batch(n+1))
	expect(t, "count", len(seqs(t, s)), n+1)
}

// TestPoisonHoldsNobodyUp: what SQLite will never take is not tried again.
func TestPoisonHoldsNobodyUp(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	s.OnHealth(func(err error) { t.Errorf("told %v", err) })
	bad := batch(1)
	bad.Events[0].Seq = 1 << 63
	s.Buffer(bad)
	s.Buffer(Batch{Snapshots: []Snapshot{{Session: uri, Seq: 1 << 63}}})
	s.Buffer(Batch{Events: []Event{{Session: "s:/none", Seq: 1}}})
	put(t, s, Batch{})
	if err := s.Cut(t.Context(), Snapshot{Session: uri}, Session{URI: uri}, nil); err != nil {
		t.Error(err)
	}
	put(t, s, batch(1))
	if err := s.Append(t.Context(), bad); !errors.Is(err, errBatch) {
		t.Errorf("got %v", err)
	}
	if err := s.Append(t.Context(), Batch{Events: []Event{{Session: "s:/none", Seq: 1}}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	expect(t, "events", seqs(t, s), upTo(1))
}

// TestIdleWriterEmptiesTheWAL once, and not under a reader.
func TestIdleWriterEmptiesTheWAL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir)
		defer closed(t, s)
		size := func() int64 {
			info, err := os.Stat(filepath.Join(dir, FileName+"-wal"))
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		begin(t, s)
		later(idleAfter / 2)
		put(t, s, batch(1))
		later(idleAfter - time.Millisecond)
		expect(t, "there is a WAL", size() > 0, true)
		later(time.Millisecond)
		expect(t, "bytes in the WAL", size(), 0)

		// What is written beside the writer counts too.
		if err := s.PutLogin(t.Context(), "h", 1); err != nil {
			t.Fatal(err)
		}
		expect(t, "there is a WAL", size() > 0, true)
		later(idleAfter)
		expect(t, "bytes in the WAL", size(), 0)

		rows, err := s.read.QueryContext(t.Context(), "SELECT seq FROM events UNION ALL SELECT 2")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "a row", rows.Next(), true)
		put(t, s, batch(2))
		later(2 * idleAfter)
		expect(t, "there is a WAL under a reader", size() > 0, true)
		expect(t, "patience", pragma(t, s, "busy_timeout"), busyTimeout.Milliseconds())
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		later(idleAfter)
		expect(t, "bytes in the WAL", size(), 0)
	})
}

// TestReadersHoldNothing: while a caller looks at what it was yielded, the WAL
// can be emptied and no connection is in use.
func TestReadersHoldNothing(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	const n = 2*pageRows + 1
	for seq := uint64(1); seq <= n; seq++ {
		b := batch(seq)
		b.Source = Source{Session: uri, Epoch: "e", ID: string(rune(seq))}
		s.Buffer(b)
	}
	put(t, s, Batch{})
	read := 0
	for _, err := range s.Events(t.Context(), uri, 0) {
		expect(t, "error", err, nil)
		expect(t, "readers", s.read.Stats().InUse, 0)
		read++
	}
	for _, err := range s.Sources(t.Context(), uri) {
		expect(t, "error", err, nil)
		expect(t, "readers", s.read.Stats().InUse, 0)
		read++
	}
	expect(t, "read", read, 2*n)
}

// TestLargeEventsAreReadInPages of bounded size: what goes while the first page
// is looked at is not read.
func TestLargeEventsAreReadInPages(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	for seq := uint64(1); seq <= 5; seq++ {
		b := batch(seq)
		b.Events[0].Action = make(json.RawMessage, pageBytes/2)
		put(t, s, b)
	}
	expect(t, "events", seqs(t, s), upTo(5))
	var got []uint64
	for e, err := range s.Events(t.Context(), uri, 0) {
		expect(t, "error", err, nil)
		if got = append(got, e.Seq); e.Seq == 1 {
			if err := s.Cut(t.Context(), Snapshot{Session: uri, Seq: 4}, Session{URI: uri}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(t, "events of two pages", got, []uint64{1, 2, 5})
}

// TestCloseTakesWhatIsQueued, whether or not the writer has seen it yet.
func TestCloseTakesWhatIsQueued(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	begin(t, s)
	for seq := uint64(1); seq <= 20; seq++ {
		s.Buffer(batch(seq))
		closed(t, s)
		s = open(t, dir)
		expect(t, "events", seqs(t, s), upTo(seq))
	}
	closed(t, s)
}

// TestNothingIsLeftBehind looks where no method of a Store does.
func TestNothingIsLeftBehind(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	rows := func(table string) (n int) {
		if err := s.read.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for seq := uint64(1); seq <= 5; seq++ {
		put(t, s, Batch{Snapshots: []Snapshot{{Session: uri, Seq: seq}}})
		expect(t, "snapshots", rows("snapshots"), 2)
	}
	if err := s.Opaque(t.Context(), uri, 1, json.RawMessage(`?`)); err != nil {
		t.Fatal(err)
	}
	put(t, s, Batch{Audit: []AuditEntry{{Actor: "me"}}})
	if err := s.Delete(t.Context(), 1, uri); err != nil {
		t.Fatal(err)
	}
	expect(t, "unknown messages", rows("opaque"), 0)
	expect(t, "snapshots", rows("snapshots"), 0)
	expect(t, "audit entries", rows("audit"), 1)
}

// TestWithoutLeavesTheCallersBatchAlone, since a Buffer does not copy.
func TestWithoutLeavesTheCallersBatchAlone(t *testing.T) {
	b := batch(1, 2)
	b.Events[0].Session = "s:/old"
	before := slices.Clone(b.Events)
	got := without(b, []string{"s:/old"})
	expect(t, "kept", got.Events, before[1:])
	expect(t, "the caller's", b.Events, before)
}
