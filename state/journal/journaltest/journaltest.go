// Package journaltest holds what every implementation of journal.Store must do.
// Run is called from the tests of each.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"nod/state/journal"
)

const (
	one   = "ahp-session:/1"
	other = "ahp-session:/2"

	// patience is how long a condition may take to come true on a busy machine.
	patience = 30 * time.Second
)

// Run tests the implementation that open opens. Opened again, a folder gives
// what was there. Run closes what it opens.
func Run(t *testing.T, open func(t *testing.T, folder string) journal.Store) {
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"ComesBack", comesBack},
		{"SessionsInOrder", sessionsInOrder},
		{"EventsInOrder", eventsInOrder},
		{"OneDecisionWins", oneDecisionWins},
		{"OtherDigestIsAConflict", otherDigestIsAConflict},
		{"AgainIsNoError", againIsNoError},
		{"ConflictLeavesNeighbours", conflictLeavesNeighbours},
		{"DuplicateSource", duplicateSource},
		{"DuplicateSourceWithoutEvents", duplicateSourceWithoutEvents},
		{"Sources", sources},
		{"FirstAndNewestSnapshot", firstAndNewestSnapshot},
		{"Compact", compact},
		{"CompactRefusesBadMerges", compactRefusesBadMerges},
		{"CompactWhileAppending", compactWhileAppending},
		{"CompactComesAfterBuffer", compactComesAfterBuffer},
		{"Cut", cut},
		{"CutBelowNewest", cutBelowNewest},
		{"Delete", deleteSessions},
		{"Prune", prune},
		{"R42AuditIsAChain", auditIsAChain},
		{"R42AuditPruned", auditPruned},
		{"R42AuditKeepsNames", auditKeepsNames},
		{"BeginTellsOfACrash", beginTellsOfACrash},
		{"BufferKeepsOrder", bufferKeepsOrder},
		{"BufferIsCommittedAlone", bufferIsCommittedAlone},
		{"EndedContext", endedContext},
		{"BackupWhileWriting", backupWhileWriting},
		{"BackupRefusesAFile", backupRefusesAFile},
		{"LoginWorksOnce", loginWorksOnce},
		{"Devices", devices},
		{"Passkeys", passkeys}, {"Door", door}, {"Shares", shares},
		{"UseAfterClose", useAfterClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{T: t, folder: t.TempDir(), open: open}
			b.Store = open(t, b.folder)
			defer b.close()
			c.test(b)
		})
	}
}

// bench is one store under test. What fails that the test only needs on its way
// ends the test.
type bench struct {
	*testing.T
	journal.Store
	folder string
	open   func(*testing.T, string) journal.Store
}

func (b *bench) close() {
	b.Helper()
	if err := b.Store.Close(); err != nil {
		b.Errorf("close: %v", err)
	}
}

func (b *bench) reopen() {
	b.Helper()
	b.close()
	b.Store = b.open(b.T, b.folder)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) append(batch journal.Batch) {
	b.Helper()
	b.must(b.Append(b.Context(), batch))
}

func (b *bench) fails(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("got %v, not %v", err, want)
	}
}

// begin creates sessions, each with its first snapshot.
func (b *bench) begin(uris ...string) {
	b.Helper()
	for _, uri := range uris {
		b.append(journal.Batch{
			Sessions:  []journal.Session{{URI: uri, Head: json.RawMessage(`{}`)}},
			Snapshots: []journal.Snapshot{snap(uri, 0)},
		})
	}
}

func (b *bench) events(uri string, after uint64) (out []journal.Event) {
	b.Helper()
	for e, err := range b.Events(b.Context(), uri, after) {
		b.must(err)
		out = append(out, e)
	}
	return out
}

// seqs expects a session's events to have these numbers.
func (b *bench) seqs(uri string, want ...uint64) {
	b.Helper()
	var got []uint64
	for _, e := range b.events(uri, 0) {
		got = append(got, e.Seq)
	}
	if !slices.Equal(got, want) {
		b.Errorf("events of %s: %v, not %v", uri, got, want)
	}
}

func (b *bench) snapshots(uri string, first, newest journal.Snapshot) {
	b.Helper()
	got, err := b.First(b.Context(), uri)
	b.must(err)
	b.equal("first snapshot", got, first)
	got, err = b.Newest(b.Context(), uri)
	b.must(err)
	b.equal("newest snapshot", got, newest)
}

func (b *bench) equal(what string, got, want any) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Errorf("%s: got %v, not %v", what, text(got), text(want))
	}
}

func text(x any) string {
	raw, _ := json.Marshal(x)
	return string(raw)
}

// eventually waits until a condition is true.
func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("it did not come to pass: %s", what)
		}
	}
}

func event(uri string, seq uint64) journal.Event {
	return journal.Event{Session: uri, Seq: seq, Time: 1000 + int64(seq), Channel: uri, Action: json.RawMessage(fmt.Sprintf(`{"n":%d}`, seq))}
}

func events(uri string, from, to uint64) (out []journal.Event) {
	for seq := from; seq <= to; seq++ {
		out = append(out, event(uri, seq))
	}
	return out
}

func snap(uri string, seq uint64) journal.Snapshot {
	return journal.Snapshot{Session: uri, Seq: seq, Data: json.RawMessage(fmt.Sprintf(`{"at":%d}`, seq))}
}

func approval(uri, id, state string) journal.Approval {
	return journal.Approval{ID: id, Session: uri, State: state, Digest: "d", Record: json.RawMessage(fmt.Sprintf(`{"state":%q}`, state))}
}

func asked(uri, id string) journal.ApprovalChange {
	return journal.ApprovalChange{Approval: approval(uri, id, "pending")}
}

func moved(uri, id, from, to string) journal.ApprovalChange {
	return journal.ApprovalChange{From: from, Approval: approval(uri, id, to)}
}

func comesBack(b *bench) {
	session := journal.Session{URI: one, Head: json.RawMessage(`{"title":"one"}`), Open: true}
	b.append(journal.Batch{
		Source:    journal.Source{Session: one, Epoch: "e", ID: "1"},
		Sessions:  []journal.Session{session},
		Snapshots: []journal.Snapshot{snap(one, 0)},
		Events:    events(one, 1, 3),
		Approvals: []journal.ApprovalChange{asked(one, "a"), asked(one, "b")},
		Audit:     []journal.AuditEntry{{Time: 1, Actor: "me", What: "asked"}},
	})
	b.append(journal.Batch{Approvals: []journal.ApprovalChange{moved(one, "a", "pending", "decided")}})
	b.Buffer(journal.Batch{Events: events(one, 4, 4)}) // Close must not lose it
	b.reopen()
	b.equal("events", b.events(one, 0), events(one, 1, 4))
	b.equal("events after 2", b.events(one, 2), events(one, 3, 4))
	b.snapshots(one, snap(one, 0), snap(one, 0))
	ss, err := b.Sessions(b.Context())
	b.must(err)
	b.equal("sessions", ss, []journal.Session{session})
	as, err := b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", as, []journal.Approval{approval(one, "a", "decided"), approval(one, "b", "pending")})
	a, err := b.Approval(b.Context(), "a")
	b.must(err)
	b.equal("approval a", a, approval(one, "a", "decided"))
	_, err = b.Approval(b.Context(), "nobody's")
	b.fails(err, journal.ErrNotFound)
}

func sessionsInOrder(b *bench) {
	b.begin("s:/z", "s:/a", "s:/m")
	// What changes keeps its place.
	changed := journal.Session{URI: "s:/z", Head: json.RawMessage(`{"n":2}`), Open: true}
	b.append(journal.Batch{Sessions: []journal.Session{changed}})
	empty := journal.Session{Head: json.RawMessage(`{}`)}
	a, m := empty, empty
	a.URI, m.URI = "s:/a", "s:/m"
	got, err := b.Sessions(b.Context())
	b.must(err)
	b.equal("sessions", got, []journal.Session{changed, a, m})
	// A session is not a snapshot, and none is made up.
	b.snapshots("s:/z", snap("s:/z", 0), snap("s:/z", 0))
	_, err = b.First(b.Context(), "s:/none")
	b.fails(err, journal.ErrNotFound)
	_, err = b.Newest(b.Context(), "s:/none")
	b.fails(err, journal.ErrNotFound)
}

// eventsInOrder reads more than an implementation may want to keep in memory.
func eventsInOrder(b *bench) {
	const n = 2345
	b.begin(one, other)
	for from := uint64(1); from <= n; from += 100 {
		b.append(journal.Batch{Events: slices.Concat(events(one, from, min(from+99, n)), events(other, from, from))})
	}
	b.equal("events", b.events(one, 0), events(one, 1, n))
	b.equal("the last ones", b.events(one, n-2), events(one, n-1, n))
	b.equal("after the last", len(b.events(one, n)), 0)
	got, err := b.Count(b.Context(), one)
	b.must(err)
	b.equal("count", got, n)
	got, err = b.Count(b.Context(), "s:/none")
	b.must(err)
	b.equal("count of none", got, 0)
	// A reader may stop, look elsewhere and write while it reads, and begin again.
	all := b.Events(b.Context(), one, 0)
	for range 2 {
		read := 0
		for e, err := range all {
			b.must(err)
			if read++; e.Seq != uint64(read) {
				b.Fatalf("event %d at place %d", e.Seq, read)
			}
			if read == 700 {
				b.equal("while reading", len(b.events(other, 0)), 24)
				b.append(journal.Batch{Events: events(one, 1, 1)})
				break
			}
		}
	}
}

// oneDecisionWins has many writers move one approval; one may.
func oneDecisionWins(b *bench) {
	const writers = 100
	b.begin(one)
	b.append(journal.Batch{Approvals: []journal.ApprovalChange{asked(one, "a")}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := []uint64{}
	for i := range uint64(writers) {
		wg.Go(func() {
			// What shares a batch with a lost change must not happen either.
			err := b.Append(b.Context(), journal.Batch{
				Source:    journal.Source{Session: one, Epoch: "e", ID: fmt.Sprint(i)},
				Events:    events(one, i+1, i+1),
				Approvals: []journal.ApprovalChange{moved(one, "a", "pending", fmt.Sprint("decided-", i))},
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, i+1)
			} else if !errors.Is(err, journal.ErrConflict) {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		b.Fatalf("%d writers won", len(won))
	}
	b.seqs(one, won...)
	as, err := b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", as, []journal.Approval{approval(one, "a", fmt.Sprint("decided-", won[0]-1))})
	b.equal("sources", b.sourceIDs(one), []string{fmt.Sprint(won[0] - 1)})
}

func otherDigestIsAConflict(b *bench) {
	b.begin(one)
	b.append(journal.Batch{Approvals: []journal.ApprovalChange{asked(one, "a")}})
	for name, spoil := range map[string]func(*journal.ApprovalChange){
		"digest":  func(c *journal.ApprovalChange) { c.Digest = "other" },
		"state":   func(c *journal.ApprovalChange) { c.From = "other" },
		"request": func(c *journal.ApprovalChange) { c.ID = "none" },
	} {
		c := moved(one, "a", "pending", "decided")
		spoil(&c)
		if err := b.Append(b.Context(), journal.Batch{Approvals: []journal.ApprovalChange{c}}); !errors.Is(err, journal.ErrConflict) {
			b.Errorf("other %s: got %v", name, err)
		}
	}
	again := asked(one, "a")
	again.Record = json.RawMessage(`"other"`)
	b.fails(b.Append(b.Context(), journal.Batch{Approvals: []journal.ApprovalChange{again}}), journal.ErrConflict)
	as, err := b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", as, []journal.Approval{approval(one, "a", "pending")})
}

// againIsNoError repeats batches as somebody does who does not know whether the
// first try succeeded.
func againIsNoError(b *bench) {
	b.begin(one)
	for _, batch := range []journal.Batch{
		{},
		{Sessions: []journal.Session{{URI: other, Head: json.RawMessage(`{"n":1}`), Open: true}}},
		{Events: events(one, 1, 3)},
		{Snapshots: []journal.Snapshot{snap(one, 3)}},
		{Approvals: []journal.ApprovalChange{asked(one, "a")}},
		{Approvals: []journal.ApprovalChange{moved(one, "a", "pending", "decided")}},
		{Audit: []journal.AuditEntry{{Time: 5, Actor: "me", What: "decided", Detail: json.RawMessage(`{}`)}}},
		{
			Source:    journal.Source{Session: one, Epoch: "e", ID: "1"},
			Sessions:  []journal.Session{{URI: one, Head: json.RawMessage(`{"n":2}`)}},
			Snapshots: []journal.Snapshot{snap(one, 5)},
			Events:    events(one, 4, 5),
			Approvals: []journal.ApprovalChange{asked(one, "b"), moved(one, "b", "pending", "decided")},
			Audit:     []journal.AuditEntry{{Time: 6, Actor: "me", What: "asked"}},
		},
	} {
		for range 3 {
			if err := b.Append(b.Context(), batch); err != nil {
				b.Errorf("%s: %v", text(batch), err)
			}
		}
	}
	// Part of a batch may be there: what was buffered and is now appended.
	b.append(journal.Batch{Events: events(one, 5, 7)})
	b.seqs(one, 1, 2, 3, 4, 5, 6, 7)
	b.snapshots(one, snap(one, 0), snap(one, 5))
	as, err := b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", as, []journal.Approval{approval(one, "a", "decided"), approval(one, "b", "decided")})
}

func conflictLeavesNeighbours(b *bench) {
	b.begin(one, other)
	b.append(journal.Batch{Events: events(one, 1, 1)})
	for name, spoil := range map[string]func(*journal.Event){
		"action":  func(e *journal.Event) { e.Action = json.RawMessage(`{"n":9}`) },
		"channel": func(e *journal.Event) { e.Channel = "ahp-terminal:/1" },
		"time":    func(e *journal.Event) { e.Time = 9 },
	} {
		e := event(one, 1)
		spoil(&e)
		err := b.Append(b.Context(), journal.Batch{
			Source:    journal.Source{Session: one, Epoch: "e", ID: "1"},
			Sessions:  []journal.Session{{URI: "s:/new"}},
			Snapshots: []journal.Snapshot{snap(one, 1)},
			Events:    []journal.Event{event(one, 2), e},
			Approvals: []journal.ApprovalChange{asked(one, "a")},
		})
		if !errors.Is(err, journal.ErrConflict) {
			b.Errorf("other %s: got %v", name, err)
		}
	}
	// In one group with good ones.
	bad := event(one, 1)
	bad.Time = 9
	b.Buffer(journal.Batch{Events: events(other, 1, 1)})
	b.Buffer(journal.Batch{Events: []journal.Event{event(one, 2), bad}})
	b.Buffer(journal.Batch{Events: events(other, 2, 2)})
	b.append(journal.Batch{Events: events(other, 3, 3)})
	// Nothing follows what nobody could be told was dropped, until the log begins anew.
	b.fails(b.Append(b.Context(), journal.Batch{Events: events(one, 3, 3)}), journal.ErrBroken)
	if err := b.End(b.Context()); err == nil {
		b.Error("End, although something was dropped")
	}
	b.equal("events", b.events(other, 0), events(other, 1, 3))
	b.equal("events", b.events(one, 0), events(one, 1, 1))
	b.snapshots(one, snap(one, 0), snap(one, 0))
	b.equal("sources", b.sourceIDs(one), []string(nil))
	as, err := b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", len(as), 0)
	ss, err := b.Sessions(b.Context())
	b.must(err)
	b.equal("sessions", len(ss), 2)
	if err := b.Append(b.Context(), journal.Batch{Events: events("s:/none", 1, 1)}); err == nil {
		b.Error("an event of no session was taken")
	}
	b.append(journal.Batch{Events: events(other, 4, 4)})
	b.must(b.Cut(b.Context(), snap(one, 2), ss[0], []journal.Approval{approval(one, "c", "pending")}))
	b.append(journal.Batch{Events: events(one, 3, 3)})
	b.seqs(one, 3)
	as, err = b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", as, []journal.Approval{approval(one, "c", "pending")})
	b.must(b.End(b.Context()))
}

func duplicateSource(b *bench) {
	b.begin(one, other)
	src := journal.Source{Session: one, Epoch: "e", ID: "1"}
	first := journal.Batch{Source: src, Events: events(one, 1, 2)}
	b.append(first)
	b.append(journal.Batch{Events: events(one, 3, 3)})
	// The replay of a reconnect comes with new numbers.
	replay := journal.Batch{
		Source: src, Sessions: []journal.Session{{URI: one, Head: json.RawMessage(`"replay"`)}},
		Events: events(one, 4, 5), Approvals: []journal.ApprovalChange{asked(one, "a")},
	}
	b.fails(b.Append(b.Context(), replay), journal.ErrDuplicate)
	// It is no neighbour's matter.
	b.Buffer(replay)
	b.Buffer(journal.Batch{Events: events(other, 1, 1)})
	b.append(journal.Batch{Events: events(other, 2, 2)})
	b.append(first) // the very same batch
	half := first
	half.Events = events(one, 2, 4)
	b.fails(b.Append(b.Context(), half), journal.ErrDuplicate)
	b.seqs(one, 1, 2, 3)
	b.seqs(other, 1, 2)
	as, err := b.Approvals(b.Context(), one)
	b.must(err)
	b.equal("approvals", len(as), 0)
	ss, err := b.Sessions(b.Context())
	b.must(err)
	b.equal("head", string(ss[0].Head), `{}`)
	// Another epoch and another session number anew.
	b.append(journal.Batch{Source: journal.Source{Session: one, Epoch: "f", ID: "1"}, Events: events(one, 4, 4)})
	b.append(journal.Batch{Source: journal.Source{Session: other, Epoch: "e", ID: "1"}, Events: events(other, 3, 3)})
	b.reopen()
	b.fails(b.Append(b.Context(), replay), journal.ErrDuplicate)
}

// duplicateSourceWithoutEvents: no error means that the batch is on disk, also
// of one that only asks.
func duplicateSourceWithoutEvents(b *bench) {
	b.begin(one)
	batch := journal.Batch{Source: journal.Source{Session: one, Epoch: "e", ID: "1"}, Approvals: []journal.ApprovalChange{asked(one, "a")}}
	b.append(batch)
	b.append(batch)
	batch.Approvals = []journal.ApprovalChange{asked(one, "b")}
	b.fails(b.Append(b.Context(), batch), journal.ErrDuplicate)
}

func (b *bench) sourceIDs(uri string) (ids []string) {
	b.Helper()
	for x, err := range b.Sources(b.Context(), uri) {
		b.must(err)
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids
}

func sources(b *bench) {
	b.begin(one, other)
	want := map[journal.Source]bool{}
	seq := uint64(0)
	for _, epoch := range []string{"", "a", "b"} {
		for i := range 555 {
			seq++
			src := journal.Source{Session: one, Epoch: epoch, ID: fmt.Sprint(i)}
			want[src] = true
			b.Buffer(journal.Batch{Source: src, Events: events(one, seq, seq)})
		}
	}
	b.append(journal.Batch{Source: journal.Source{Session: other, Epoch: "a", ID: "x"}})
	for src, err := range b.Sources(b.Context(), one) {
		b.must(err)
		if !want[src] {
			b.Errorf("%v is no source, or comes twice", src)
		}
		delete(want, src)
	}
	b.equal("missing", len(want), 0)
	b.equal("of the other", b.sourceIDs(other), []string{"x"})
}

func firstAndNewestSnapshot(b *bench) {
	b.begin(one)
	b.append(journal.Batch{Snapshots: []journal.Snapshot{snap(one, 10)}})
	b.snapshots(one, snap(one, 0), snap(one, 10))
	b.append(journal.Batch{Snapshots: []journal.Snapshot{snap(one, 20)}})
	b.snapshots(one, snap(one, 0), snap(one, 20))
	late := snap(one, 20)
	late.Data = json.RawMessage(`"another"`)
	b.append(journal.Batch{Snapshots: []journal.Snapshot{snap(one, 15), late}})
	b.snapshots(one, snap(one, 0), snap(one, 20))
	b.append(journal.Batch{Snapshots: []journal.Snapshot{snap(one, 30), snap(one, 40)}})
	b.reopen()
	b.snapshots(one, snap(one, 0), snap(one, 40))
	// That there is nothing between them shows when the newest goes.
	b.must(b.Cut(b.Context(), snap(one, 45), journal.Session{URI: one, Head: json.RawMessage(`{"cut":1}`)}, nil))
	b.snapshots(one, snap(one, 45), snap(one, 45))
}

func compact(b *bench) {
	b.begin(one, other)
	b.append(journal.Batch{Events: slices.Concat(events(one, 1, 10), events(other, 1, 10))})
	merged := event(one, 6)
	merged.Action = json.RawMessage(`{"n":"3 to 6"}`)
	b.must(b.Compact(b.Context(), one, 3, 7, func(got []journal.Event) ([]journal.Event, error) {
		b.equal("given", got, events(one, 3, 7))
		return []journal.Event{merged, event(one, 7)}, nil
	}))
	b.equal("events", b.events(one, 0), slices.Concat(events(one, 1, 2), []journal.Event{merged}, events(one, 7, 10)))
	b.equal("events of the other", b.events(other, 0), events(other, 1, 10))
	b.must(b.Compact(b.Context(), one, 1, 2, func([]journal.Event) ([]journal.Event, error) { return nil, nil }))
	b.append(journal.Batch{Events: events(one, 11, 11)})
	b.reopen()
	b.seqs(one, 6, 7, 8, 9, 10, 11)
	n, err := b.Count(b.Context(), one)
	b.must(err)
	b.equal("count", n, 6)
}

func compactRefusesBadMerges(b *bench) {
	b.begin(one, other)
	b.append(journal.Batch{Events: slices.Concat(events(one, 1, 6), events(other, 1, 6))})
	mine := errors.New("mine")
	for name, merge := range map[string]func([]journal.Event) ([]journal.Event, error){
		"a number from outside": func(es []journal.Event) ([]journal.Event, error) { return events(one, 2, 6), nil },
		"a new number":          func(es []journal.Event) ([]journal.Event, error) { return append(es, event(one, 9)), nil },
		"a wrong order": func(es []journal.Event) ([]journal.Event, error) {
			return []journal.Event{es[1], es[0]}, nil
		},
		"a number twice": func(es []journal.Event) ([]journal.Event, error) {
			return []journal.Event{es[0], es[0]}, nil
		},
		"another session": func(es []journal.Event) ([]journal.Event, error) { return events(other, 2, 2), nil },
		"an error":        func(es []journal.Event) ([]journal.Event, error) { return es[:1], mine },
	} {
		err := b.Compact(b.Context(), one, 2, 4, merge)
		if err == nil || name == "an error" && !errors.Is(err, mine) {
			b.Errorf("%s: got %v", name, err)
		}
	}
	b.equal("events", b.events(one, 0), events(one, 1, 6))
	b.equal("events of the other", b.events(other, 0), events(other, 1, 6))
}

// compactWhileAppending merges pairs behind a writer, and loses nothing.
func compactWhileAppending(b *bench) {
	const n = 400
	b.begin(one)
	progress := make(chan uint64, n)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(progress)
		for seq := uint64(1); seq <= n; seq++ {
			if seq%3 == 0 {
				b.Buffer(journal.Batch{Events: events(one, seq, seq)})
			} else if err := b.Append(b.Context(), journal.Batch{Events: events(one, seq, seq)}); err != nil {
				b.Error(err)
				return
			}
			progress <- seq
		}
	})
	sum := func(es []journal.Event) (total int) {
		for _, e := range es {
			var a struct{ N int }
			b.must(json.Unmarshal(e.Action, &a))
			total += a.N
		}
		return total
	}
	for seq := range progress {
		if seq%10 != 0 {
			continue
		}
		b.must(b.Compact(b.Context(), one, seq-9, seq, func(es []journal.Event) ([]journal.Event, error) {
			if len(es) != 10 {
				b.Errorf("%d events up to %d, not 10", len(es), seq)
			}
			e := es[len(es)-1]
			e.Action = json.RawMessage(fmt.Sprintf(`{"n":%d}`, sum(es)))
			return []journal.Event{e}, nil
		}))
	}
	wg.Wait()
	got := b.events(one, 0)
	b.equal("count", len(got), n/10)
	b.equal("sum", sum(got), n*(n+1)/2)
	if !slices.IsSortedFunc(got, func(x, y journal.Event) int { return int(x.Seq) - int(y.Seq) }) {
		b.Error("the order is lost")
	}
}

func compactComesAfterBuffer(b *bench) {
	b.begin(one)
	b.Buffer(journal.Batch{Events: events(one, 1, 2)})
	b.must(b.Compact(b.Context(), one, 1, 2, func(es []journal.Event) ([]journal.Event, error) {
		b.equal("given", es, events(one, 1, 2))
		return es[1:], nil
	}))
	b.seqs(one, 2)
	b.Buffer(journal.Batch{Events: events(one, 3, 4)})
	b.must(b.Cut(b.Context(), snap(one, 3), journal.Session{URI: one, Head: json.RawMessage(`{"cut":1}`)}, nil))
	b.seqs(one, 4)
}

func cut(b *bench) {
	b.begin(one, other)
	b.append(journal.Batch{Events: slices.Concat(events(one, 1, 10), events(other, 1, 10)), Snapshots: []journal.Snapshot{snap(one, 5)}})
	for range 2 { // again is no error
		b.must(b.Cut(b.Context(), snap(one, 8), journal.Session{URI: one, Head: json.RawMessage(`{"cut":1}`)}, nil))
		b.snapshots(one, snap(one, 8), snap(one, 8))
		b.seqs(one, 9, 10)
	}
	b.snapshots(other, snap(other, 0), snap(other, 0))
	b.equal("events of the other", b.events(other, 0), events(other, 1, 10))
	// What is gone cannot be gone back to.
	b.fails(b.Cut(b.Context(), snap(one, 3), journal.Session{URI: one, Head: json.RawMessage(`{"cut":1}`)}, nil), journal.ErrConflict)
	b.snapshots(one, snap(one, 8), snap(one, 8))
	b.append(journal.Batch{Events: events(one, 11, 12), Snapshots: []journal.Snapshot{snap(one, 12)}})
	b.reopen()
	b.snapshots(one, snap(one, 8), snap(one, 12))
	b.seqs(one, 9, 10, 11, 12)
}

func cutBelowNewest(b *bench) {
	b.begin(one)
	b.append(journal.Batch{Events: events(one, 1, 10), Snapshots: []journal.Snapshot{snap(one, 8)}})
	b.must(b.Cut(b.Context(), snap(one, 4), journal.Session{URI: one, Head: json.RawMessage(`{"cut":1}`)}, nil))
	b.snapshots(one, snap(one, 4), snap(one, 8))
	b.seqs(one, 5, 6, 7, 8, 9, 10)
	if err := b.Cut(b.Context(), snap("s:/none", 1), journal.Session{URI: "s:/none"}, nil); err == nil {
		b.Error("a snapshot of no session was taken")
	}
}

func deleteSessions(b *bench) {
	third := "ahp-session:/3"
	b.begin(one, other, third)
	for _, uri := range []string{one, other, third} {
		b.append(journal.Batch{
			Source: journal.Source{Session: uri, Epoch: "e", ID: "1"}, Events: events(uri, 1, 3),
			Approvals: []journal.ApprovalChange{asked(uri, "of "+uri)},
		})
		b.must(b.Opaque(b.Context(), uri, 1, json.RawMessage(`?`)))
	}
	// What was buffered before does not bring a session back.
	b.Buffer(journal.Batch{Sessions: []journal.Session{{URI: one, Head: json.RawMessage(`"late"`)}}, Events: events(one, 4, 4)})
	b.must(b.Delete(b.Context(), 7, one, third, "s:/none"))
	b.deleted(one, third, "s:/none")
	b.reopen()
	ss, err := b.Sessions(b.Context())
	b.must(err)
	b.equal("sessions", ss, []journal.Session{{URI: other, Head: json.RawMessage(`{}`)}})
	for _, uri := range []string{one, third} {
		b.seqs(uri)
		b.equal("sources", b.sourceIDs(uri), []string(nil))
		as, err := b.Approvals(b.Context(), uri)
		b.must(err)
		b.equal("approvals", len(as), 0)
		_, err = b.First(b.Context(), uri)
		b.fails(err, journal.ErrNotFound)
	}
	b.seqs(other, 1, 2, 3)
	b.equal("sources", b.sourceIDs(other), []string{"1"})
	b.deleted(one, third, "s:/none")
	// The name is free again.
	b.begin(one)
	b.deleted(third, "s:/none")
	b.append(journal.Batch{Source: journal.Source{Session: one, Epoch: "e", ID: "1"}, Events: events(one, 1, 1)})
	b.seqs(one, 1)
}

// deleted looks which names are known as those of deleted sessions.
func (b *bench) deleted(want ...string) {
	b.Helper()
	got, err := b.Deleted(b.Context())
	b.must(err)
	b.equal("deleted", got, want)
}

func prune(b *bench) {
	b.begin(one)
	b.append(journal.Batch{Events: events(one, 1, 3), Audit: []journal.AuditEntry{{Time: 10, Actor: "me", What: "old"}, {Time: 20, Actor: "me", What: "new"}}})
	b.must(b.Opaque(b.Context(), "", 10, json.RawMessage(`?`)))
	b.must(b.Delete(b.Context(), 10, "s:/old"))
	b.must(b.Delete(b.Context(), 20, "s:/new"))
	b.must(b.Prune(b.Context(), 15, 15))
	b.must(b.Prune(b.Context(), 15, 15))
	b.deleted("s:/new")
	b.seqs(one, 1, 2, 3)
	b.snapshots(one, snap(one, 0), snap(one, 0))
}

// audited adds an entry for each time, in a batch of its own.
func (b *bench) audited(times ...int64) {
	b.Helper()
	for _, at := range times {
		b.append(journal.Batch{Audit: []journal.AuditEntry{{Time: at, Actor: "d", Address: "127.0.0.1", What: "did", About: fmt.Sprint("it", at%2), Detail: json.RawMessage(`{"at":1}`)}}})
	}
}

// chain returns all audit entries, and expects the chain to hold.
func (b *bench) chain(want int) (out []journal.AuditEntry) {
	b.Helper()
	n, err := b.VerifyAudit(b.Context())
	b.must(err)
	b.equal("entries of the chain", n, want)
	for x, err := range b.Audit(b.Context(), 0) {
		b.must(err)
		out = append(out, x)
	}
	b.equal("entries", len(out), want)
	return out
}

func auditIDs(xs []journal.AuditEntry) (ids []int64) {
	for _, x := range xs {
		ids = append(ids, x.ID)
	}
	return ids
}

func auditIsAChain(b *bench) {
	b.chain(0)
	b.audited(1, 2, 3)
	b.append(journal.Batch{Audit: []journal.AuditEntry{{Time: 4, What: "one of two"}, {Time: 4, What: "two of two"}}})
	b.reopen()
	b.audited(4)
	all := b.chain(6)
	for i, x := range all {
		b.equal("id", x.ID, int64(i+1))
		if i > 0 {
			b.equal("previous hash", x.Prev, all[i-1].Hash)
		}
	}
	x := all[0]
	x.Prev, x.Hash = "", ""
	b.equal("entry", x, journal.AuditEntry{ID: 1, Time: 1, Actor: "d", Address: "127.0.0.1", What: "did", About: "it1", Detail: json.RawMessage(`{"at":1}`)})

	page := func(before int64, n int) []int64 {
		xs, err := b.AuditBefore(b.Context(), before, n)
		b.must(err)
		return auditIDs(xs)
	}
	b.equal("the newest", page(0, 2), []int64{6, 5})
	b.equal("before them", page(5, 9), []int64{4, 3, 2, 1})
	about, err := b.AuditAbout(b.Context(), "it0")
	b.must(err)
	b.equal("about one thing", auditIDs(about), []int64{2, 6})
	for it, want := range map[string]string{"it0": about[1].What, "nothing": ""} {
		what, err := b.AuditFate(b.Context(), it)
		b.must(err)
		b.equal("what became of "+it, what, want)
	}
}

// auditPruned forgets a beginning, and never what lies behind something young.
func auditPruned(b *bench) {
	b.audited(10, 20, 5, 30)
	b.must(b.Prune(b.Context(), 0, 15))
	b.equal("left", auditIDs(b.chain(3)), []int64{2, 3, 4})
	b.must(b.Prune(b.Context(), 0, 15))
	b.chain(3)
	b.must(b.Prune(b.Context(), 0, 99))
	b.chain(0)
	b.reopen()
	b.audited(40)
	b.equal("goes on", auditIDs(b.chain(1)), []int64{5})
}

func auditKeepsNames(b *bench) {
	b.must(b.PutDevice(b.Context(), journal.Device{ID: "d", TokenHash: "h", Name: "Firefox on Linux"}))
	b.audited(1)
	b.must(b.DeleteDevice(b.Context(), "d"))
	b.audited(2)
	all := b.chain(2)
	b.equal("names", []string{all[0].Name, all[1].Name}, []string{"Firefox on Linux", ""})
}

func beginTellsOfACrash(b *bench) {
	begin := func(want bool, when string) {
		b.Helper()
		clean, err := b.Store.Begin(b.Context())
		b.must(err)
		b.equal(when, clean, want)
	}
	begin(true, "a new store")
	b.append(journal.Batch{Sessions: []journal.Session{{URI: one}}})
	b.Buffer(journal.Batch{Events: events(one, 1, 1)})
	b.must(b.End(b.Context()))
	b.seqs(one, 1)
	b.reopen()
	begin(true, "after an end")
	b.reopen()
	begin(false, "after none")
	b.must(b.End(b.Context()))
	b.reopen()
	begin(true, "after an end that followed a crash")
}

// bufferKeepsOrder: an Append brings what was buffered before it, and comes
// after it.
func bufferKeepsOrder(b *bench) {
	b.begin(one)
	numbered := func(seq uint64) journal.Batch {
		head := json.RawMessage(fmt.Sprint(seq)) // the last one stays
		return journal.Batch{Sessions: []journal.Session{{URI: one, Head: head}}, Events: events(one, seq, seq)}
	}
	seq := uint64(0)
	for range 50 {
		for range 7 {
			seq++
			b.Buffer(numbered(seq))
		}
		seq++
		b.append(numbered(seq))
		b.equal("events", b.events(one, 0), events(one, 1, seq))
		ss, err := b.Sessions(b.Context())
		b.must(err)
		b.equal("head", string(ss[0].Head), fmt.Sprint(seq))
	}
}

func bufferIsCommittedAlone(b *bench) {
	b.begin(one)
	b.Buffer(journal.Batch{Events: events(one, 1, 1)})
	b.eventually("what is buffered is on disk", func() bool { return len(b.events(one, 0)) == 1 })
}

func endedContext(b *bench) {
	b.begin(one)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	b.fails(b.Append(ctx, journal.Batch{Events: events(one, 1, 1)}), context.Canceled)
	b.append(journal.Batch{Events: events(one, 2, 2)})
	b.seqs(one, 2)
	for _, err := range b.Events(ctx, one, 0) {
		b.fails(err, context.Canceled)
	}
	if _, err := b.Sessions(ctx); err == nil {
		b.Error("a reader whose caller has gone went on")
	}
}

// backupWhileWriting opens a copy that was made while events came.
func backupWhileWriting(b *bench) {
	const n = 300
	b.begin(one)
	folder := b.TempDir()
	half := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for seq := uint64(1); seq <= n; seq++ {
			err := b.Append(b.Context(), journal.Batch{Source: journal.Source{Session: one, Epoch: "e", ID: fmt.Sprint(seq)}, Events: events(one, seq, seq)})
			if err != nil {
				b.Error(err)
			}
			if seq == n/2 {
				close(half)
			}
		}
	})
	<-half
	// The copy takes the place of the file in a folder of its own.
	names, err := os.ReadDir(b.folder)
	b.must(err)
	file := filepath.Join(folder, names[0].Name())
	err = b.Backup(b.Context(), file)
	wg.Wait()
	b.must(err)
	info, err := os.Stat(file)
	b.must(err)
	b.equal("who may read it", info.Mode().Perm(), os.FileMode(0o600))
	left, err := os.ReadDir(folder)
	b.must(err)
	b.equal("files", len(left), 1)

	c := &bench{T: b.T, Store: b.open(b.T, folder), folder: folder, open: b.open}
	defer c.close()
	got := c.events(one, 0)
	if len(got) < n/2 {
		b.Errorf("%d events are in the copy", len(got))
	}
	c.equal("events", got, events(one, 1, uint64(len(got))))
	c.equal("sources", len(c.sourceIDs(one)), len(got))
	_, err = c.Store.Begin(c.Context())
	c.must(err)
	c.append(journal.Batch{Events: events(one, uint64(len(got))+1, n+1)})
}

func backupRefusesAFile(b *bench) {
	b.begin(one)
	for _, content := range []string{"precious", ""} {
		file := filepath.Join(b.TempDir(), "copy")
		b.must(os.WriteFile(file, []byte(content), 0o600))
		if err := b.Backup(b.Context(), file); err == nil {
			b.Error("a file was written over")
		}
		got, err := os.ReadFile(file)
		b.must(err)
		b.equal("content", string(got), content)
	}
	file := filepath.Join(b.TempDir(), "none", "copy")
	if err := b.Backup(b.Context(), file); err == nil {
		b.Error("a folder that is not there was no error")
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	file = filepath.Join(b.TempDir(), "copy")
	if err := b.Backup(ctx, file); err == nil {
		b.Error("a backup whose caller has gone was made")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		b.Errorf("half a backup is left (%v)", err)
	}
}

func loginWorksOnce(b *bench) {
	ctx := b.Context()
	for _, h := range []string{"once", "late"} {
		b.must(b.PutLogin(ctx, h, 1000))
	}
	b.fails(b.TakeLogin(ctx, "once", 1000), journal.ErrNotFound)
	b.must(b.TakeLogin(ctx, "late", 999))
	b.fails(b.TakeLogin(ctx, "late", 999), journal.ErrNotFound)
	b.fails(b.TakeLogin(ctx, "none", 999), journal.ErrNotFound)
}

func devices(b *bench) {
	ctx := b.Context()
	d := journal.Device{ID: "d", TokenHash: "h", Name: "Firefox on Linux", CreatedAt: 1, SeenAt: 1}
	b.must(b.PutDevice(ctx, d))
	b.must(b.SeeDevice(ctx, "d", 5))
	d.SeenAt = 5
	got, err := b.Device(ctx, "h")
	b.must(err)
	b.equal("device", got, d)
	newer := journal.Device{ID: "n", TokenHash: "m", SeenAt: 9}
	b.must(b.PutDevice(ctx, newer))
	b.reopen()
	all, err := b.Store.Devices(ctx)
	b.must(err)
	b.equal("devices", all, []journal.Device{newer, d})
	b.must(b.VerifyDevice(ctx, "d", 7))
	b.must(b.RenameDevice(ctx, "d", "phone"))
	b.must(b.GrantDevice(ctx, "d", "operate", false))
	d.VerifiedAt, d.Name, d.Granted = 7, "phone", "operate"
	got, err = b.Device(ctx, "h")
	b.must(err)
	b.equal("changed device", got, d)
	b.must(b.RenewDevice(ctx, "d", "h", "h2"))
	d.TokenHash, d.Scope, d.Granted = "h2", "operate", ""
	got, err = b.Device(ctx, "h2")
	b.must(err)
	b.equal("renewed device", got, d)
	b.fails(b.RenewDevice(ctx, "d", "h2", "h3"), journal.ErrNotFound) // nothing is granted
	b.must(b.GrantDevice(ctx, "d", "view", true))
	b.fails(b.RenewDevice(ctx, "d", "h", "h3"), journal.ErrNotFound) // its cookie is not that one any more
	got, err = b.Device(ctx, "h2")
	b.must(err)
	d.Scope, d.Granted = "view", "view"
	b.equal("device that looks", got, d)
	for _, err := range []error{b.VerifyDevice(ctx, "none", 1), b.RenameDevice(ctx, "none", "x"), b.GrantDevice(ctx, "none", "view", true)} {
		b.fails(err, journal.ErrNotFound)
	}
	b.must(b.DeleteDevice(ctx, "d"))
	_, err = b.Device(ctx, "h2")
	b.fails(err, journal.ErrNotFound)
	b.fails(b.DeleteDevice(ctx, "d"), journal.ErrNotFound)
	b.fails(b.SeeDevice(ctx, "d", 9), journal.ErrNotFound)
}

func passkeys(b *bench) {
	ctx := b.Context()
	k := journal.Passkey{ID: "k", Host: "nod.example", Name: "phone", Record: json.RawMessage(`{"n":1}`), CreatedAt: 2, UsedAt: 2}
	older := journal.Passkey{ID: "o", Host: "localhost", Record: json.RawMessage(`{}`), CreatedAt: 1}
	b.must(b.PutPasskey(ctx, k))
	b.must(b.PutPasskey(ctx, older))
	k.Record, k.UsedAt = json.RawMessage(`{"n":2}`), 3
	b.must(b.PutPasskey(ctx, k))
	b.reopen()
	all, err := b.Passkeys(ctx)
	b.must(err)
	b.equal("passkeys", all, []journal.Passkey{older, k})
	b.must(b.DeletePasskey(ctx, "k"))
	b.fails(b.DeletePasskey(ctx, "k"), journal.ErrNotFound)
}

func shares(b *bench) {
	ctx := b.Context()
	b.begin(one, other)
	live := journal.Share{ID: "live", TokenHash: "h", Session: one, Record: json.RawMessage(`{"live":true}`), CreatedAt: 1, ExpiresAt: 9}
	still := journal.Share{ID: "still", TokenHash: "i", Session: other, Record: json.RawMessage(`{}`), Frozen: json.RawMessage(`{"a":1}`), CreatedAt: 2, ExpiresAt: 9}
	b.must(b.PutShare(ctx, live))
	b.must(b.PutShare(ctx, still))
	if err := b.PutShare(ctx, journal.Share{ID: "x", TokenHash: "j", Session: "ahp-session:/none"}); err == nil {
		b.Error("there is a share of a session that there is not")
	}
	live.Record, live.ExpiresAt, live.EndedAt = json.RawMessage(`{"live":true,"n":2}`), 8, 5
	b.must(b.ChangeShare(ctx, live))
	b.must(b.ViewShare(ctx, "still", 4))
	b.must(b.ViewShare(ctx, "still", 3))
	still.Views, still.ViewedAt = 2, 4
	b.reopen()
	frozen, err := b.Frozen(ctx, "still")
	b.must(err)
	b.equal("frozen", frozen, still.Frozen)
	still.Frozen = nil
	got, err := b.Share(ctx, "still")
	b.must(err)
	b.equal("share", got, still)
	all, err := b.Store.Shares(ctx)
	b.must(err)
	b.equal("shares", all, []journal.Share{still, live})
	b.must(b.EndShares(ctx, 6))
	still.EndedAt = 6
	all, err = b.Store.Shares(ctx)
	b.must(err)
	b.equal("shares that have ended", all, []journal.Share{still, live})
	b.must(b.Delete(ctx, 7, other))
	_, err = b.Share(ctx, "still")
	b.fails(err, journal.ErrNotFound)
	b.fails(b.ViewShare(ctx, "still", 4), journal.ErrNotFound)
	b.fails(b.ChangeShare(ctx, still), journal.ErrNotFound)
}

func door(b *bench) {
	ctx := b.Context()
	for _, want := range []string{"", "one", "two", ""} {
		b.must(b.PutDoor(ctx, "password", want))
		b.must(b.PutDoor(ctx, "other", "kept"))
		b.reopen()
		got, err := b.Door(ctx, "password")
		b.must(err)
		b.equal("what the door keeps", got, want)
	}
}

func useAfterClose(b *bench) {
	b.begin(one)
	b.close()
	if err := b.Append(b.Context(), journal.Batch{}); err == nil {
		b.Error("an append after Close was accepted")
	}
	b.Buffer(journal.Batch{Events: events(one, 1, 1)}) // must not block
	if err := b.Compact(b.Context(), one, 1, 1, nil); err == nil {
		b.Error("after Close it was compacted")
	}
	b.Store = b.open(b.T, b.folder)
	b.seqs(one)
}
