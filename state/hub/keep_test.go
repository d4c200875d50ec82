package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// ---- merging ----

// reduced is what a log makes of a session, as bytes.
func reduced(t *testing.T, log []journal.Event) string {
	t.Helper()
	s := newSession(nil, "s:/1", nil)
	s.loaded = true
	n := &next{state: stub(&state.SessionSummary{Resource: s.uri, Provider: "p", Status: state.StatusIdle}, "")}
	for _, e := range log {
		if err := s.replay(n, e); err != nil {
			t.Fatal(err)
		}
	}
	s.state, s.terminals = n.state, n.terminals
	return text(t, channelsAt(s.uri, s.seq, s.state, s.terminals, s.changesets))
}

// TestMergeKeepsTheState of random logs, merged at once or bit by bit, with ids
// that are used again, by parts of both kinds, and several terminals.
func TestMergeKeepsTheState(t *testing.T) {
	fewer := 0
	for run := range 300 {
		r := rand.New(rand.NewPCG(seed, uint64(run)))
		var log []journal.Event
		for _, u := range history(t, r, 1+r.IntN(3)) {
			for i, raw := range u.actions {
				channel := u.channels[i]
				if channel == "" {
					channel = "s:/1"
				}
				seq := uint64(len(log)*2 + 1)
				log = append(log, journal.Event{Session: "s:/1", Seq: seq, Time: int64(seq), Channel: channel, Action: raw})
			}
		}
		want := reduced(t, log)
		merged := log
		for cut := 0; cut < len(merged); { // as the keeper does after each turn
			end := cut + 1 + r.IntN(len(merged)-cut)
			part, err := merge(append([]journal.Event{}, merged[cut:end]...))
			if err != nil {
				t.Fatal(err)
			}
			merged = append(append(append([]journal.Event{}, merged[:cut]...), part...), merged[end:]...)
			cut += len(part)
		}
		again, err := merge(append([]journal.Event{}, merged...))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range [][]journal.Event{merged, again} {
			if got := reduced(t, l); got != want {
				t.Fatalf("seed %d, run %d:\ngot  %s\nwant %s\nof %s", seed, run, got, want, lines(log))
			}
			for i := 1; i < len(l); i++ {
				if l[i].Seq <= l[i-1].Seq {
					t.Fatalf("run %d: number %d comes after %d", run, l[i].Seq, l[i-1].Seq)
				}
			}
		}
		fewer += len(log) - len(again)
	}
	if fewer == 0 {
		t.Error("nothing was merged")
	}
}

func lines(log []journal.Event) string {
	var b strings.Builder
	for _, e := range log {
		fmt.Fprintf(&b, "\n%d %s %s", e.Seq, e.Channel, e.Action)
	}
	return b.String()
}

// TestMergeMerges: what belongs to one text becomes one event.
func TestMergeMerges(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}})
	n := len(h.events())
	for range 100 {
		h.apply(&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: "x"})
		h.hub.Apply(t.Context(), h.uri, state.Source{}, on("ahp-terminal:/x", &state.TerminalData{Data: "y"}))
	}
	h.tidy(false)
	if got := len(h.events()); got != n+2 {
		t.Errorf("%d events are left of 200 that grow two texts", got-n)
	}
}

// ---- snapshots ----

// counting is a store that counts what is read of a log.
type counting struct {
	journal.Store
	after uint64
	read  int
}

func (c *counting) Events(ctx context.Context, session string, after uint64) iter.Seq2[journal.Event, error] {
	c.after, c.read = after, 0
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.Store.Events(ctx, session, after) {
			c.read++
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestSnapshotsBoundWhatIsRead: to open a session its newest snapshot is read, and
// only what came after.
func TestSnapshotsBoundWhatIsRead(t *testing.T) {
	h := idleHouse(t)
	for i := range 20 {
		h.send("go")
		turn := fmt.Sprint("turn-", i+1)
		h.apply(&state.SessionResponsePart{TurnID: turn, Part: &state.MarkdownPart{ID: "m", Content: state.NewText(strings.Repeat("word ", 2000))}},
			&state.SessionTurnComplete{TurnID: turn})
		h.tidy(i == 14)
	}
	newest, err := h.store.Newest(t.Context(), h.uri)
	if err != nil || newest.Seq == 0 {
		t.Fatalf("newest is of event %d, %v", newest.Seq, err)
	}
	all := h.events()
	later := 0
	for _, e := range all {
		if e.Seq > newest.Seq {
			later++
		}
	}
	want := h.picture()
	c := &counting{Store: h.store}
	h.on(c)
	h.unload()
	if got := h.picture(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c.after != newest.Seq || c.read != later || later >= len(all) {
		t.Errorf("%d events after %d were read; the newest snapshot is of %d, after it there are %d of %d", c.read, c.after, newest.Seq, later, len(all))
	}
}

// TestSnapshotsComeByThemselves: a session's log never grows to more than half as
// much again as its snapshot, without anybody asking.
func TestSnapshotsComeByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := idleHouse(t)
		for i := range 60 {
			h.send("go")
			turn := fmt.Sprint("turn-", i+1)
			h.apply(&state.SessionResponsePart{TurnID: turn, Part: &state.MarkdownPart{ID: "m", Content: state.NewText(strings.Repeat("word ", 1000))}},
				&state.SessionTurnComplete{TurnID: turn})
			synctest.Wait() // for the keeper
			newest, err := h.store.Newest(t.Context(), h.uri)
			if err != nil {
				t.Fatal(err)
			}
			after := 0
			for e, err := range h.store.Events(t.Context(), h.uri, newest.Seq) {
				if err != nil {
					t.Fatal(err)
				}
				after += len(e.Action)
			}
			if limit := max(minLog, len(newest.Data)/2); after > limit {
				t.Fatalf("turn %d: %d bytes of events after a snapshot of %d", i, after, len(newest.Data))
			}
		}
		if newest, err := h.store.Newest(t.Context(), h.uri); err != nil || newest.Seq == 0 {
			t.Errorf("no snapshot was made: %v", err)
		}
	})
}

// ---- limits ----

// TestR38ForgetTurns: the oldest turns go, the page says how many, and the journal
// agrees after a restart.
func TestR38ForgetTurns(t *testing.T) {
	h := idleHouse(t)
	for i := range 9 {
		h.send("go")
		turn, terminal := fmt.Sprint("turn-", i+1), fmt.Sprint("ahp-terminal:/", i)
		h.apply(&state.SessionToolCallStart{TurnID: turn, ToolCallID: "c", ToolName: "shell"},
			&state.SessionToolCallReady{TurnID: turn, ToolCallID: "c", Confirmed: state.ConfirmedNotNeeded},
			&state.SessionToolCallComplete{TurnID: turn, ToolCallID: "c", Result: state.ToolCallResult{Content: []state.ToolResultContent{state.TerminalContent(terminal, "x")}}})
		h.hub.Apply(t.Context(), h.uri, state.Source{}, on(terminal, &state.TerminalData{Data: "out"}))
		h.apply(&state.SessionTurnComplete{TurnID: turn})
	}
	cursor := h.view().Seq
	h.alone(func() {
		s := h.session()
		s.mu.Lock()
		defer s.mu.Unlock()
		st, cut := withoutOldest(s.state)
		if err := s.beginAnew(t.Context(), st, cut); err != nil {
			t.Fatal(err)
		}
	})
	check := func(when string) {
		t.Helper()
		v := h.view()
		if v.Cut != 5 || len(v.State.Turns) != 5 || v.State.Turns[0].ID != "turn-5" {
			t.Errorf("%s: %d cut, %d left, the first is %s", when, v.Cut, len(v.State.Turns), v.State.Turns[0].ID)
		}
		if v.Terminals.Get("ahp-terminal:/3") != nil || v.Terminals.Get("ahp-terminal:/4") == nil {
			t.Errorf("%s: the terminals are not those of the turns that are left", when)
		}
	}
	check("cut")
	if _, parts, err := h.hub.Since(h.id, cursor); err != nil || len(parts) != 1 || parts[0].Kind != snapshot.Root {
		t.Errorf("a page gets %v, %v", parts, err)
	}
	if n, err := h.store.Count(t.Context(), h.uri); err != nil || n != 0 {
		t.Errorf("%d events are kept, %v", n, err)
	}
	h.send("go on")
	h.apply(&state.SessionTurnComplete{TurnID: "turn-5"})
	want := h.picture()
	h.restart()
	if got := h.picture(); got != want {
		t.Errorf("after a restart\ngot  %s\nwant %s", got, want)
	}
	if v := h.view(); v.Cut != 5 || len(v.State.Turns) != 6 {
		t.Errorf("after a restart: %d cut, %d left", v.Cut, len(v.State.Turns))
	}
}

// nearlyFull is a text that has room for n bytes more.
func nearlyFull(n int) state.Text { return state.NewText(strings.Repeat("x", maxText-n)) }

// TestR38MaxText, for each kind of text; what came before is kept, and the
// journal has what is shown. The long texts themselves are put in place without it.
func TestR38MaxText(t *testing.T) {
	const terminal = "ahp-terminal:/x"
	const euro = "€" // the limit falls within one
	for name, c := range map[string]struct {
		grow func(s string) state.Envelope
		text func(v snapshot.Session) string
	}{
		"prose": {
			func(s string) state.Envelope {
				return on("", &state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: s})
			},
			func(v snapshot.Session) string {
				return v.State.ActiveTurn.ResponseParts.At(0).(*state.MarkdownPart).Content.String()
			},
		},
		"thought": {
			func(s string) state.Envelope {
				return on("", &state.SessionReasoning{TurnID: "turn-0", PartID: "r", Content: s})
			},
			func(v snapshot.Session) string {
				return v.State.ActiveTurn.ResponseParts.At(1).(*state.ReasoningPart).Content.String()
			},
		},
		"output": {
			func(s string) state.Envelope { return on(terminal, &state.TerminalData{Data: s}) },
			func(v snapshot.Session) string { return v.Terminals.Get(terminal).Command().Output.String() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			s := h.session()
			s.mu.Lock()
			s.state = state.ReduceSession(s.state, &state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m", Content: nearlyFull(4)}}, 0)
			s.state = state.ReduceSession(s.state, &state.SessionResponsePart{TurnID: "turn-0", Part: &state.ReasoningPart{ID: "r", Content: nearlyFull(4)}}, 0)
			s.terminals = s.terminals.With(terminal, &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{Output: nearlyFull(4)}}})
			s.mu.Unlock()
			n := len(h.events())
			for range 5 {
				e := c.grow(euro)
				if e.Channel == "" {
					e.Channel = h.uri
				}
				h.hub.Apply(t.Context(), h.uri, state.Source{}, e)
			}
			got := c.text(h.view())
			if strings.Count(got, tellText) != 1 || !strings.HasSuffix(got, tellText) || !strings.Contains(got, "x"+euro) {
				t.Errorf("it ends with %q", got[maxText-10:])
			}
			if kept := len(got) - len(tellText); kept > maxText || kept < maxText-3 { // never half a character
				t.Errorf("%d bytes are kept", kept)
			}
			if err := h.store.Append(t.Context(), journal.Batch{}); err != nil { // after what is buffered
				t.Fatal(err)
			}
			if es := h.events(); len(es) != n+2 || !strings.Contains(string(es[n].Action), euro) || !strings.Contains(string(es[n+1].Action), "nod keeps 16 MiB") {
				t.Errorf("recorded are %s", lines(es[n:]))
			}
		})
	}
}

// TestMaxTextIsOfOneRun: after a command that wrote too much, others are kept whole.
func TestMaxTextIsOfOneRun(t *testing.T) {
	h := newHouse(t)
	const terminal = "ahp-terminal:/x"
	s := h.session()
	s.mu.Lock()
	s.terminals = s.terminals.With(terminal, &state.Terminal{Content: []state.TerminalPart{&state.CommandPart{CommandID: "a", Output: nearlyFull(1)}}})
	s.mu.Unlock()
	for _, a := range []state.Action{
		&state.TerminalData{Data: "too much"}, &state.TerminalCommandFinished{CommandID: "a"}, &state.TerminalData{Data: "prompt> "},
		&state.TerminalCommandExecuted{CommandID: "b"}, &state.TerminalData{Data: "fine"},
	} {
		h.hub.Apply(t.Context(), h.uri, state.Source{}, on(terminal, a))
	}
	content := h.view().Terminals.Get(terminal).Content
	if got := content[len(content)-1].(*state.CommandPart).Output.String(); got != "fine" {
		t.Errorf("the second command says %q", got)
	}
	if p, ok := content[1].(*state.UnclassifiedPart); !ok || p.Value.String() != "prompt> " {
		t.Errorf("what came between the commands is not kept: %d parts", len(content))
	}
}

// ---- unloading ----

// TestUnloadAndReload gives the same state, requests and pages.
func TestUnloadAndReload(t *testing.T) {
	h := newHouse(t)
	h.lived()
	a := h.ask("7")
	if _, err := h.decide(a, "accept"); err != nil {
		t.Fatal(err)
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-1"})
	s := h.session()
	before := h.view()
	want := h.picture()
	s.mu.Lock()
	s.unload()
	s.mu.Unlock()
	if in := h.hub.Inbox(); len(in.Sessions) != 1 || text(t, in.Sessions[0].State.Summary) != text(t, before.State.Summary) || h.session().loaded {
		t.Errorf("the inbox shows %+v, loaded %v", in.Sessions, h.session().loaded)
	}
	if got := h.picture(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	after := h.view()
	if mustJSON(t, after.Approvals) != mustJSON(t, before.Approvals) || after.LastEvent != before.LastEvent || len(after.Children) != len(before.Children) {
		t.Errorf("requests %s, last event %d, %d sub-agents", mustJSON(t, after.Approvals), after.LastEvent, len(after.Children))
	}
	if got, err := h.hub.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "decline"}); !errors.Is(err, approvals.ErrNotPending) {
		t.Errorf("a late answer: %v, %v", got, err)
	}
}

// TestNoCursorMissesAnythingAfterAReload: a browser that was away while the session
// was unloaded gets what has changed since.
func TestNoCursorMissesAnythingAfterAReload(t *testing.T) {
	h := newHouse(t)
	h.ask("7")
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"}) // ends the request, too: a number without an event
	cursor := h.view().Seq
	h.unload()
	h.send("go on")
	v, parts, err := h.hub.Since(h.id, cursor)
	if err != nil || !contains(parts, snapshot.Turn) && !contains(parts, snapshot.Root) {
		t.Errorf("at %d, the browser at %d gets %v, %v", v.Seq, cursor, parts, err)
	}
	if v.Seq <= cursor {
		t.Errorf("number %d follows %d", v.Seq, cursor)
	}
}

// TestUnloadIdle forgets what nobody uses, and nothing else.
func TestUnloadIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t) // its turn is open
		var ids []string
		for range maxLoaded + 5 {
			id, err := h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "x")
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			h.hub.Apply(t.Context(), uriScheme+id, state.Source{}, on(uriScheme+id, &state.SessionTurnComplete{TurnID: "turn-0"}))
			time.Sleep(time.Second)
		}
		_, leave := h.hub.Watch(ids[0])
		time.Sleep(unloadAfter + time.Second)
		h.hub.unloadIdle(t.Context())
		loaded := func(id string) bool {
			s, err := h.hub.find(id)
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.loaded
		}
		n := 0
		for _, id := range append([]string{h.id}, ids...) {
			if loaded(id) {
				n++
			}
		}
		if n != maxLoaded || !loaded(h.id) || !loaded(ids[0]) || loaded(ids[1]) || !loaded(ids[len(ids)-1]) {
			t.Errorf("%d are loaded; the open one %v, the watched one %v, the oldest %v, the newest %v", n, loaded(h.id), loaded(ids[0]), loaded(ids[1]), loaded(ids[len(ids)-1]))
		}
		leave()
	})
}

// ---- archive and delete ----

func TestArchive(t *testing.T) {
	h := newHouse(t)
	if err := h.hub.Archive(t.Context(), h.id, true); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("while it works: %v", err)
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	shown := func(want string) {
		t.Helper()
		in := h.hub.Inbox()
		if got := fmt.Sprintf("%d shown, %d archived", len(in.Sessions), len(h.hub.Archived())); got != want || in.Archived != len(h.hub.Archived()) {
			t.Errorf("%s (%d), not %s", got, in.Archived, want)
		}
	}
	archive := func(yes bool) {
		t.Helper()
		if err := h.hub.Archive(t.Context(), h.id, yes); err != nil {
			t.Fatal(err)
		}
	}
	shown("1 shown, 0 archived")
	archive(true)
	shown("0 shown, 1 archived")
	h.restart()
	shown("0 shown, 1 archived")
	archive(false)
	shown("1 shown, 0 archived")
	archive(true)
	h.send("I want it back")
	shown("1 shown, 0 archived")
	if err := h.hub.Archive(t.Context(), "none", true); !errors.Is(err, ErrNoSession) {
		t.Errorf("none: %v", err)
	}
}

func TestDelete(t *testing.T) {
	h := newHouse(t)
	a := h.ask("7")
	if err := h.hub.Delete(t.Context(), h.id); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("while it works: %v", err)
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	woken, done := h.hub.Watch(h.id)
	defer done()
	if err := h.hub.Delete(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	if len(woken) == 0 {
		t.Error("no page is told")
	}
	gone := func() {
		t.Helper()
		if _, err := h.hub.Session(h.id); !errors.Is(err, ErrNoSession) {
			t.Errorf("it is still there: %v", err)
		}
		if _, err := h.decide(a, "accept"); !errors.Is(err, ErrNoApproval) {
			t.Errorf("its request is still there: %v", err)
		}
		if in := h.hub.Inbox(); len(in.Sessions) != 0 || in.Archived != 0 {
			t.Errorf("%d are shown", len(in.Sessions))
		}
	}
	gone()
	h.apply(&state.SessionTitleChanged{Title: "an agent goes on"})
	h.restart()
	gone()
	if err := h.hub.Delete(t.Context(), h.id); !errors.Is(err, ErrNoSession) {
		t.Errorf("again: %v", err)
	}
}

// TestDeletedStaysAway: an agent that has the session still does not bring it back,
// not even to a nod that starts again. A person does.
func TestDeletedStaysAway(t *testing.T) {
	h := idleHouse(t)
	m := h.view().State.Summary
	if err := h.hub.Delete(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	begin := func() error {
		_, err := h.hub.Begin(t.Context(), "codex", m, nil)
		return err
	}
	for range 2 {
		if err := begin(); !errors.Is(err, ErrDeleted) {
			t.Errorf("it may begin: %v", err)
		}
		h.restart()
	}
	h.hub.Readmit(h.uri)
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if err := begin(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// during is a store that does something right after sessions were deleted.
type during struct {
	journal.Store
	do func()
}

func (d *during) Delete(ctx context.Context, at int64, sessions ...string) error {
	err := d.Store.Delete(ctx, at, sessions...)
	d.do()
	return err
}

// TestNothingBringsADeletedSessionBack, not even what its agent says at that moment.
func TestNothingBringsADeletedSessionBack(t *testing.T) {
	h := idleHouse(t)
	h.on(&during{h.store, func() {
		h.apply(&state.SessionTurnStarted{TurnID: "x", Message: state.UserMessage("meanwhile")})
	}})
	if err := h.hub.Delete(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	if in := h.hub.Inbox(); len(in.Sessions) != 0 || in.Trouble != "" {
		t.Errorf("%d are shown, trouble %q", len(in.Sessions), in.Trouble)
	}
	h.restart()
	if in := h.hub.Inbox(); len(in.Sessions) != 0 {
		t.Errorf("after a restart there is %q", in.Sessions[0].State.Summary.Title)
	}
}

// ---- what cannot be read ----

// TestUnreadableSessions are shown as that, and take no other along.
func TestUnreadableSessions(t *testing.T) {
	h := idleHouse(t)
	good := h.picture()
	head, err := state.Marshal(head{Summary: &state.SessionSummary{Resource: uriScheme + "x", Provider: "codex", Title: "Good head", Status: state.StatusIdle}})
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]journal.Session{}
	add := func(id, head string, open bool, data, action string) {
		row := journal.Session{URI: uriScheme + id, Head: json.RawMessage(head), Open: open}
		broken[id] = row
		b := journal.Batch{Sessions: []journal.Session{row}}
		if data != "" {
			b.Snapshots = []journal.Snapshot{{Session: row.URI, Data: json.RawMessage(data)}}
		}
		if action != "" {
			b.Events = []journal.Event{{Session: row.URI, Seq: 1, Channel: row.URI, Action: json.RawMessage(action)}}
		}
		if err := h.store.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	whole := fmt.Sprintf(`[{"resource":"s","state":{"summary":%s,"lifecycle":"ready","turns":[]},"fromSeq":0}]`, `{"resource":"s","provider":"p","title":"T","status":1,"createdAt":1,"modifiedAt":1}`)
	add("head", `{"summary":17}`, false, whole, "")
	add("null", `null`, false, whole, "")
	add("nothing", `{}`, false, "", "")
	add("snapshot", string(head), true, `{"summary":`, "")
	add("empty", string(head), true, `[]`, "")
	add("event", string(head), true, whole, `{"type":"session/titleChanged","title":7}`)
	add("later", string(head), false, `{`, "") // not looked at before somebody wants it
	h.restart()
	if got := h.picture(); got != good {
		t.Errorf("the good one is %s", got)
	}
	if in := h.hub.Inbox(); len(in.Sessions) != len(broken)+1 {
		t.Errorf("%d are shown", len(in.Sessions))
	}
	for id, row := range broken {
		v, err := h.hub.Session(id)
		if err != nil || v.State.Lifecycle != state.LifecycleCreationFailed || v.State.CreationError == nil || v.State.CreationError.ErrorType != "nod.unreadable" {
			t.Errorf("%s is shown as %+v, %v", id, v.State, err)
		}
		_ = row
	}
	// The good one lives on, and nothing was written over the others.
	h.send("go on")
	rows, err := h.store.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if was, ok := broken[strings.TrimPrefix(row.URI, uriScheme)]; ok && (!bytes.Equal(row.Head, was.Head) || row.Open != was.Open) {
			t.Errorf("%s: %s became %s, open %v", row.URI, was.Head, row.Head, row.Open)
		}
	}
}

// TestAnUnreadableSessionIsLeftAlone by a person's verbs, by its agent, and by the
// keeper: a later nod, or a person, may still read it.
func TestAnUnreadableSessionIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := idleHouse(t)
		row := journal.Session{URI: uriScheme + "x", Head: json.RawMessage(`{"summary":17}`)}
		if err := h.store.Append(t.Context(), journal.Batch{
			Sessions: []journal.Session{row}, Snapshots: []journal.Snapshot{{Session: row.URI, Seq: 40, Data: json.RawMessage(`{"from":"a later nod"}`)}},
		}); err != nil {
			t.Fatal(err)
		}
		h.restart()
		untouched := func(after string) {
			t.Helper()
			rows, err := h.store.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n, err := h.store.Count(t.Context(), row.URI)
			if err != nil || n != 0 || string(rows[len(rows)-1].Head) != string(row.Head) {
				t.Errorf("%s: %d events, %v; its row is %s", after, n, err, rows[len(rows)-1].Head)
			}
		}
		h.hub.Apply(t.Context(), row.URI, state.Source{}, on(row.URI, &state.SessionTitleChanged{Title: "new"}))
		untouched("an event")
		_ = h.hub.Send(t.Context(), "x", state.UserMessage("hello?"))
		untouched("a message")
		_ = h.hub.Archive(t.Context(), "x", true)
		untouched("archived")
		time.Sleep(3 * retainEvery)
		synctest.Wait()
		untouched("hours later")
	})
}

// TestNewTakesAJournalOfAnOlderNod, whose rows have no head.
func TestNewTakesAJournalOfAnOlderNod(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	const uri = uriScheme + "old"
	if err := store.Append(t.Context(), journal.Batch{
		Sessions:  []journal.Session{{URI: uri, Head: json.RawMessage(`{}`), Open: true}},
		Snapshots: []journal.Snapshot{{Session: uri, Data: json.RawMessage(`{"summary":{"resource":"` + uri + `","provider":"codex","title":"Old","status":1,"createdAt":1,"modifiedAt":1},"lifecycle":"ready","turns":[]}`)}},
		Events: []journal.Event{
			{Session: uri, Seq: 1, Time: 5, Channel: uri, Action: json.RawMessage(`{"type":"session/turnStarted","turnId":"t","message":{"text":"go","origin":{"kind":"user"}}}`)},
		},
	}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, id: "old", uri: uri}
	h.open()
	t.Cleanup(h.leave)
	if st := h.view().State; st.Summary.Title != "Old" || len(st.Turns) != 1 || st.Turns[0].State != state.TurnError {
		t.Errorf("%s", text(t, st))
	}
}
