package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) Store {
	t.Helper()
	s, err := Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

const uri = "ahp-session:/1"

func event(seq uint64) Event {
	return Event{Session: uri, Seq: seq, Time: int64(seq), Channel: uri, Action: json.RawMessage(fmt.Sprintf(`{"n":%d}`, seq))}
}

func begin(t *testing.T, s Store) {
	t.Helper()
	if err := s.Append(t.Context(), Batch{Sessions: []Session{{URI: uri, Initial: json.RawMessage(`{}`)}}}); err != nil {
		t.Fatal(err)
	}
}

func seqs(t *testing.T, s Store, after uint64) (out []uint64) {
	t.Helper()
	for e, err := range s.Events(t.Context(), uri, after) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Seq)
	}
	return out
}

// TestComesBack writes, closes, opens, reads.
func TestComesBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	begin(t, s)
	s.Buffer(Batch{Events: []Event{event(1)}})
	if err := s.Append(t.Context(), Batch{Events: []Event{event(2), event(3)}}); err != nil {
		t.Fatal(err)
	}
	s.Buffer(Batch{Events: []Event{event(4)}}) // Close must not lose it
	closed(t, s)
	s = open(t, dir)
	defer closed(t, s)
	if got := fmt.Sprint(seqs(t, s, 0)); got != "[1 2 3 4]" {
		t.Errorf("events %s", got)
	}
	if got := fmt.Sprint(seqs(t, s, 2)); got != "[3 4]" {
		t.Errorf("events after 2: %s", got)
	}
	ss, err := s.Sessions(t.Context())
	if err != nil || len(ss) != 1 || ss[0].URI != uri {
		t.Errorf("sessions %v, %v", ss, err)
	}
}

// TestOneDecisionWins has many writers move one approval; one may.
func TestOneDecisionWins(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	a := Approval{ID: "a", Session: uri, State: "pending", Digest: "d", Record: json.RawMessage(`{}`)}
	if err := s.Append(t.Context(), Batch{Approvals: []ApprovalChange{{Approval: a}}}); err != nil {
		t.Fatal(err)
	}
	var won, lost sync.Map
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c := ApprovalChange{From: "pending", Approval: a}
			c.State = fmt.Sprint("decided-", i)
			// What shares a batch with a lost change must not happen either.
			err := s.Append(t.Context(), Batch{Events: []Event{event(uint64(i) + 1)}, Approvals: []ApprovalChange{c}})
			if err == nil {
				won.Store(i, c.State)
			} else if errors.Is(err, ErrConflict) {
				lost.Store(i, true)
			} else {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(_, _ any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d writers won", n)
	}
	if got := seqs(t, s, 0); len(got) != 1 {
		t.Errorf("%d events of lost batches are there", len(got)-1)
	}
}

// TestOneBadEventHoldsNobodyUp: a number that is taken stays with who had it.
func TestOneBadEventHoldsNobodyUp(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	s.Buffer(Batch{Events: []Event{event(1)}})
	s.Buffer(Batch{Events: []Event{event(1)}})
	if err := s.Append(t.Context(), Batch{Events: []Event{event(2)}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), Batch{Events: []Event{event(2)}}); err == nil {
		t.Error("a number was given twice")
	}
	if err := s.Append(t.Context(), Batch{Events: []Event{event(3)}}); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(seqs(t, s, 0)); got != "[1 2 3]" {
		t.Errorf("events %s", got)
	}
}

func TestOtherDigestIsAConflict(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	begin(t, s)
	a := Approval{ID: "a", Session: uri, State: "pending", Digest: "d", Record: json.RawMessage(`{}`)}
	if err := s.Append(t.Context(), Batch{Approvals: []ApprovalChange{{Approval: a}}}); err != nil {
		t.Fatal(err)
	}
	a.State, a.Digest = "decided", "other"
	if err := s.Append(t.Context(), Batch{Approvals: []ApprovalChange{{From: "pending", Approval: a}}}); !errors.Is(err, ErrConflict) {
		t.Errorf("got %v", err)
	}
}

func TestLoginWorksOnce(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	ctx := t.Context()
	for _, h := range []string{"once", "late"} {
		if err := s.PutLogin(ctx, h, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.TakeLogin(ctx, "once", 1000); !errors.Is(err, ErrNotFound) {
		t.Errorf("at its end: %v", err)
	}
	if err := s.TakeLogin(ctx, "late", 999); err != nil {
		t.Errorf("in time: %v", err)
	}
	if err := s.TakeLogin(ctx, "late", 999); !errors.Is(err, ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
}

func TestDevices(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	ctx := t.Context()
	d := Device{ID: "d", TokenHash: "h", Name: "Firefox on Linux", CreatedAt: 1, SeenAt: 1}
	if err := s.PutDevice(ctx, d); err != nil {
		t.Fatal(err)
	}
	if err := s.SeeDevice(ctx, "d", 5); err != nil {
		t.Fatal(err)
	}
	d.SeenAt = 5
	if got, err := s.Device(ctx, "h"); err != nil || got != d {
		t.Errorf("got %v, %v", got, err)
	}
	newer := Device{ID: "n", TokenHash: "m", SeenAt: 9}
	if err := s.PutDevice(ctx, newer); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Devices(ctx); err != nil || !slices.Equal(got, []Device{newer, d}) {
		t.Errorf("all: %v, %v", got, err)
	}
	if err := s.DeleteDevice(ctx, "d"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Device(ctx, "h"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
}

// TestNewerFileIsRefused leaves a file alone that it does not understand.
func TestNewerFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	closed(t, open(t, dir))
	db, err := sql.Open("sqlite", filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "newer nod") {
		t.Errorf("got %v", err)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, FileName)
	damaged := []byte(strings.Repeat("this is no database ", 500))
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it was opened")
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(damaged) {
		t.Errorf("it was changed (%v)", err)
	}
}

func TestUseAfterClose(t *testing.T) {
	s := open(t, t.TempDir())
	closed(t, s)
	if err := s.Append(t.Context(), Batch{}); err == nil {
		t.Error("an append after Close was accepted")
	}
	s.Buffer(Batch{Events: []Event{event(1)}}) // must not block
}
