package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// The tests named TestP1 to TestP10 show what nod promises about crashes, disks,
// clocks and slow readers; the other promises' tests are where they need least
// around them: P4 (as R5) and P5 also in state/approvals, P6 in state/journal, P8 in
// handlers, P9 in cmd/web.

// seed is of everything random here; a failure names the case it is in.
const seed = 20260823

// ---- helpers ----

// crash opens a copy of the files as they are now: what is only in memory is lost.
func (h *house) crash() {
	h.t.Helper()
	dir := h.t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(filepath.Join(h.dir, journal.FileName+suffix))
		if err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, journal.FileName+suffix), raw, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	h.leave()
	h.dir = dir
	h.open()
}

// end says goodbye, and opens the same folder anew.
func (h *house) end() {
	h.t.Helper()
	if err := errors.Join(h.hub.Close(h.t.Context()), h.store.Close()); err != nil {
		h.t.Fatal(err)
	}
	h.open()
}

func (h *house) session() *session {
	h.t.Helper()
	s, err := h.hub.find(h.id)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// alone does something while the keeper has nothing to do: it has taken one word
// after another, so it is done with what it was told before.
func (h *house) alone(f func()) {
	h.t.Helper()
	for range 3 { // the channel holds one, the keeper another
		h.hub.untidied <- struct{}{}
	}
	f()
}

// on puts the hub on another store.
func (h *house) on(store journal.Store) {
	h.t.Helper()
	h.alone(func() { h.hub.store = store })
}

// tidy does what the keeper does after a turn; with a snapshot if wanted.
func (h *house) tidy(withSnapshot bool) {
	h.t.Helper()
	h.alone(func() {
		s := h.session()
		if withSnapshot {
			s.mu.Lock()
			s.log.since = s.log.snapshot + minLog
			s.mu.Unlock()
		}
		if err := s.tidy(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	})
}

func (h *house) unload() {
	h.t.Helper()
	h.alone(func() {
		s := h.session()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unload()
	})
}

func (h *house) send(text string) {
	h.t.Helper()
	if err := h.hub.Send(h.t.Context(), h.id, state.UserMessage(text)); err != nil {
		h.t.Fatal(err)
	}
}

var fromSeq = regexp.MustCompile(`"fromSeq":\d+`)

// picture is all of a session's state as bytes that two houses can share.
func (h *house) picture() string {
	h.t.Helper()
	return strings.ReplaceAll(fromSeq.ReplaceAllString(h.channels(h.id), `"fromSeq":0`), h.uri, "S")
}

// events returns what the journal holds of the session now.
func (h *house) events() (out []journal.Event) {
	h.t.Helper()
	for e, err := range h.store.Events(h.t.Context(), h.uri, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// stored is what the journal alone makes of the session, read by nothing of the
// hub but its reducer.
func (h *house) stored() *state.Session {
	h.t.Helper()
	st, err := readStored(h.t.Context(), h.store, h.uri)
	if err != nil {
		h.t.Fatal(err)
	}
	return st
}

func readStored(ctx context.Context, store journal.Store, uri string) (*state.Session, error) {
	first, err := store.First(ctx, uri)
	if err != nil {
		return nil, err
	}
	var channels []state.Snapshot
	if err := state.Unmarshal(first.Data, &channels); err != nil {
		return nil, err
	}
	st := channels[0].State.(*state.Session)
	for e, err := range store.Events(ctx, uri, first.Seq) {
		if err != nil {
			return nil, err
		}
		a, err := state.UnmarshalAction(e.Action)
		if err != nil {
			return nil, err
		}
		if e.Channel == uri {
			st = state.ReduceSession(st, a, e.Time)
		}
	}
	return st, nil
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := state.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// gaps returns the gap parts of all turns.
func gaps(st *state.Session) (out []*state.NotificationPart) {
	for turn := range snapshot.TurnCount(st) {
		for i := range snapshot.PartCount(st, turn) {
			p := snapshot.PartAt(st, turn, i)
			if n, ok := p.(*state.NotificationPart); ok && n.Meta["nod.gap"] != nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// ---- P1 ----

// witness is a store that looks whether anybody is woken before a commit is over.
type witness struct {
	journal.Store
	t       *testing.T
	probe   <-chan struct{}
	appends int
	may     bool // something is on disk that nobody had been told of
}

// begin forgets what was told so far.
func (w *witness) begin() {
	w.may = false
	for len(w.probe) > 0 {
		<-w.probe
	}
}

func (w *witness) Append(ctx context.Context, b journal.Batch) error {
	w.appends++
	if len(w.probe) > 0 && !w.may {
		w.t.Errorf("something was shown before append %d", w.appends)
	}
	w.begin()
	err := w.Store.Append(ctx, b)
	if len(w.probe) > 0 {
		w.t.Errorf("something was shown before append %d was over", w.appends)
	}
	w.may = true
	return err
}

// TestP1CommitThenShow: nobody is woken before what there is to see is on disk,
// and whatever a reader sees when woken, the journal tells as well.
func TestP1CommitThenShow(t *testing.T) {
	h := newHouse(t)
	probe, done := h.hub.Watch(h.id)
	defer done()
	w := &witness{Store: h.store, t: t, probe: probe}
	h.on(w)
	var reading sync.WaitGroup
	woken, leave := h.hub.Watch(h.id)
	over := make(chan struct{})
	looked := 0
	reading.Go(func() {
		for {
			select {
			case <-woken:
			case <-over:
				return
			}
			looked++
			v, _, err := h.hub.Since(h.id, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if err := behind(h.store, h.uri, v); err != nil {
				t.Error(err)
				return
			}
		}
	})
	step := func(f func()) {
		w.begin()
		f()
		if len(probe) == 0 {
			t.Error("nobody was told")
		}
		if err := behind(h.store, h.uri, h.view()); err != nil {
			t.Error(err)
		}
	}
	for i := range 20 {
		turn := h.view().State.ActiveTurn.ID
		step(func() { h.apply(&state.SessionTitleChanged{Title: strconv.Itoa(i)}) })
		step(func() {
			h.apply(&state.SessionResponsePart{TurnID: turn, Part: &state.MarkdownPart{ID: "m", Content: state.NewText("x")}})
		})
		var a *approvals.Approval
		id := strconv.Itoa(i)
		step(func() { a = h.ask(id) })
		if i%3 != 0 {
			step(func() {
				if _, err := h.decide(a, []string{"accept", "decline"}[i%2]); err != nil {
					t.Error(err)
				}
			})
		}
		if i%4 != 0 {
			step(func() { h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage(id), state.EndedAnswered) })
		}
		step(func() { h.apply(&state.SessionTurnComplete{TurnID: turn}) })
		step(func() { h.send("more") })
	}
	leave()
	close(over)
	reading.Wait()
	if w.appends == 0 || looked == 0 {
		t.Errorf("%d appends, %d looks", w.appends, looked)
	}
}

// behind returns an error if the journal does not hold what a reader has seen. It
// may hold more.
func behind(store journal.Store, uri string, seen snapshot.Session) error {
	rank := map[string]int{"pending": 0, "decided": 1, "sent": 2}
	order := func(s string) int {
		if r, ok := rank[s]; ok {
			return r
		}
		return 3
	}
	for _, a := range seen.Approvals {
		on, err := store.Approval(context.Background(), a.ID)
		if err != nil {
			return fmt.Errorf("request %s is shown: %w", a.ID, err)
		}
		if order(on.State) < order(string(a.State)) || order(on.State) == 3 && order(string(a.State)) == 3 && on.State != string(a.State) {
			return fmt.Errorf("request %s is shown as %s and stored as %s", a.ID, a.State, on.State)
		}
	}
	st, err := readStored(context.Background(), store, uri)
	if err != nil {
		return err
	}
	number := func(s *state.Session) int {
		n, _ := strconv.Atoi(s.Summary.Title)
		return n
	}
	if number(seen.State) > number(st) {
		return fmt.Errorf("title %s is shown, %s is stored", seen.State.Summary.Title, st.Summary.Title)
	}
	shown, has := snapshot.TurnCount(seen.State), snapshot.TurnCount(st)
	if shown > has || len(seen.State.Turns) > len(st.Turns) {
		return fmt.Errorf("%d turns are shown, %d are stored", shown, has)
	}
	for turn := range shown {
		if a, b := snapshot.PartCount(seen.State, turn), snapshot.PartCount(st, turn); a > b {
			return fmt.Errorf("%d parts of turn %d are shown, %d are stored", a, turn, b)
		}
	}
	return nil
}

// TestP1GrowingTextInTime: text is shown at once, and is on disk 25 ms later.
func TestP1GrowingTextInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}})
		words := func(st *state.Session) string {
			return st.ActiveTurn.ResponseParts.At(0).(*state.MarkdownPart).Content.String()
		}
		for i := range 20 {
			h.apply(&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: fmt.Sprint(i, " ")})
			shown := words(h.view().State)
			if !strings.HasSuffix(shown, fmt.Sprint(i, " ")) {
				t.Fatalf("word %d is not shown: %q", i, shown)
			}
			time.Sleep(25 * time.Millisecond)
			synctest.Wait()
			if got := words(h.stored()); got != shown {
				t.Fatalf("25 ms after %q was shown, %q is on disk", shown, got)
			}
		}
	})
}

// TestP1Crash: after a crash everything is there that was shown, and the turn that
// was open says that it was cut off.
func TestP1Crash(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	h.send("more")
	h.apply(&state.SessionTitleChanged{Title: "seen"},
		&state.SessionResponsePart{TurnID: "turn-1", Part: &state.MarkdownPart{ID: "m", Content: state.NewText("I begin.")}})
	a := h.ask("7")
	before := h.view()
	h.crash()
	st := h.view().State
	if len(st.Turns) != 2 || st.Summary.Title != "seen" || text(t, st.Turns[0]) != text(t, before.State.Turns[0]) {
		t.Fatalf("after the crash %s", text(t, st))
	}
	cut := st.Turns[1]
	n := before.State.ActiveTurn.ResponseParts.Len()
	if cut.State != state.TurnError || cut.Error == nil || cut.Error.ErrorType != "nod.restart" || len(cut.ResponseParts) != n+1 {
		t.Errorf("the open turn is %s", text(t, cut))
	}
	if got, want := text(t, cut.ResponseParts[0]), text(t, before.State.ActiveTurn.ResponseParts.At(0)); got != want {
		t.Errorf("%s was shown, %s is left", want, got)
	}
	if g := gaps(st); len(g) != 1 || cut.ResponseParts[n] != state.ResponsePart(g[0]) {
		t.Errorf("%d gaps, or not at the end", len(g))
	}
	if s := h.approval(a.ID).State; s != approvals.Expired {
		t.Errorf("the request is %s", s)
	}
	h.crash() // nothing was open any more: nothing more is to be said
	if again := h.view().State; text(t, again) != text(t, st) {
		t.Errorf("the second crash made %s of %s", text(t, again), text(t, st))
	}
}

// TestP1CleanEnd: a turn that nod itself ended has no gap.
func TestP1CleanEnd(t *testing.T) {
	h := newHouse(t)
	h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}},
		&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: "all of it"})
	h.end()
	st := h.view().State
	if len(st.Turns) != 1 || st.Turns[0].State != state.TurnError {
		t.Fatalf("the open turn: %s", text(t, st))
	}
	if g := gaps(st); len(g) != 0 {
		t.Errorf("a gap is told although there is none: %s", text(t, g[0]))
	}
	if got := st.Turns[0].ResponseParts[0].(*state.MarkdownPart).Content.String(); got != "all of it" {
		t.Errorf("%q is left", got)
	}
}

// ---- P2 ----

// upstream is one event of an agent's own log. Its actions are bytes, so that no
// two houses share memory.
type upstream struct {
	channels []string // "" is the session
	actions  []json.RawMessage
	idle     bool // no turn is open after it
}

// history makes an agent's log: turns with prose, thought, calls with output,
// ids used again, changes of everything else in between.
func history(t *testing.T, r *rand.Rand, turns int) (log []upstream) {
	t.Helper()
	for turn := range turns {
		id := fmt.Sprint("t", turn)
		add := func(idle bool, actions ...state.Envelope) {
			u := upstream{idle: idle}
			for _, e := range actions {
				raw, err := state.MarshalAction(e.Action)
				if err != nil {
					t.Fatal(err)
				}
				u.channels, u.actions = append(u.channels, e.Channel), append(u.actions, raw)
			}
			log = append(log, u)
		}
		add(false, on("", &state.SessionTurnStarted{TurnID: id, Message: state.UserMessage("go")}))
		for range 3 + r.IntN(25) {
			var es []state.Envelope
			for range 1 + r.IntN(4) {
				es = append(es, chance(r, id))
			}
			add(false, es...)
		}
		add(true, on("", []state.Action{
			&state.SessionTurnComplete{TurnID: id}, &state.SessionTurnCancelled{TurnID: id}, &state.SessionError{TurnID: id, Error: state.ErrorInfo{ErrorType: "x", Message: "y"}},
		}[r.IntN(3)]))
	}
	return log
}

// chance returns an action of a turn, now and then of another one.
func chance(r *rand.Rand, turn string) state.Envelope {
	if r.IntN(12) == 0 {
		turn = "other"
	}
	id := string("abc"[r.IntN(3)])
	word := fmt.Sprint("w", r.IntN(1000), " ")
	terminal := "ahp-terminal:/" + string("xy"[r.IntN(2)])
	session := func(a state.Action) state.Envelope { return on("", a) }
	switch r.IntN(22) {
	case 0, 1, 2, 3:
		return session(&state.SessionDelta{TurnID: turn, PartID: id, Content: word})
	case 4, 5, 6:
		return session(&state.SessionReasoning{TurnID: turn, PartID: id, Content: word})
	case 7, 8:
		return session(&state.SessionResponsePart{TurnID: turn, Part: &state.MarkdownPart{ID: id, Content: state.NewText(word)}})
	case 9:
		return session(&state.SessionResponsePart{TurnID: turn, Part: &state.ReasoningPart{ID: id}})
	case 10:
		return session(&state.SessionToolCallStart{TurnID: turn, ToolCallID: id, ToolName: "shell", DisplayName: "Shell"})
	case 11:
		return session(&state.SessionToolCallDelta{TurnID: turn, ToolCallID: id, Content: word})
	case 12:
		return session(&state.SessionToolCallReady{TurnID: turn, ToolCallID: id, InvocationMessage: state.Plain("ls"), Confirmed: state.ConfirmedNotNeeded})
	case 13:
		return session(&state.SessionToolCallContentChanged{TurnID: turn, ToolCallID: id, Content: []state.ToolResultContent{state.TerminalContent(terminal, "Output")}})
	case 14:
		return session(&state.SessionToolCallComplete{TurnID: turn, ToolCallID: id, Result: state.ToolCallResult{Success: true, PastTenseMessage: state.Plain("ran")}})
	case 15:
		return session(&state.SessionUsage{TurnID: turn, Usage: state.UsageInfo{InputTokens: new(int64(r.IntN(1000)))}})
	case 16:
		return session([]state.Action{
			&state.SessionTitleChanged{Title: word}, &state.SessionActivityChanged{Activity: &word},
			&state.SessionMetaChanged{Meta: state.Meta{"nod.plan": []byte(`[1]`)}},
			&state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: id, Message: state.Message{Text: word, Origin: state.MessageOrigin{Kind: "user"}, Meta: state.Meta{triedKey: []byte(`""`)}}},
		}[r.IntN(4)])
	case 17, 18:
		return on(terminal, &state.TerminalData{Data: word})
	case 19:
		return on(terminal, &state.TerminalCommandExecuted{CommandID: id, CommandLine: word, Timestamp: 5})
	case 20:
		return on(terminal, []state.Action{
			&state.TerminalCommandFinished{CommandID: id, ExitCode: new(int64(0))}, &state.TerminalTitleChanged{Title: word},
			&state.TerminalExited{ExitCode: new(int64(1))}, &state.TerminalCleared{},
		}[r.IntN(4)])
	default:
		return on("ahp-changeset:/z", []state.Action{
			&state.ChangesetFileSet{File: state.ChangesetFile{ID: id}}, &state.ChangesetFileRemoved{FileID: id},
			&state.ChangesetStatusChanged{Status: state.ChangesetReady},
		}[r.IntN(3)])
	}
}

// receive has the hub get event i of an agent's log.
func (h *house) receive(log []upstream, i int) {
	h.t.Helper()
	u := log[i]
	es := make([]state.Envelope, len(u.actions))
	for k, raw := range u.actions {
		a, err := state.UnmarshalAction(raw)
		if err != nil {
			h.t.Fatal(err)
		}
		channel := u.channels[k]
		if channel == "" {
			channel = h.uri
		}
		es[k] = on(channel, a)
	}
	h.hub.Apply(h.t.Context(), h.uri, state.Source{Epoch: "thread", ID: fmt.Sprint(i)}, es...)
}

// idleHouse is a house whose first turn is over.
func idleHouse(t *testing.T) *house {
	h := newHouse(t)
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	return h
}

// TestP2ReplayAppliesOnce: connections that are cut anywhere, and replay from
// anywhere before, give what one undisturbed connection gives, to the last byte;
// so they do with restarts, compaction, snapshots and unloading in between.
func TestP2ReplayAppliesOnce(t *testing.T) {
	for run := range 15 {
		synctest.Test(t, func(t *testing.T) { // for its clock, which stands still
			r := rand.New(rand.NewPCG(seed, uint64(run)))
			log := history(t, r, 1+r.IntN(4))
			once := idleHouse(t)
			for i := range log {
				once.receive(log, i)
			}
			want := once.picture()

			h := idleHouse(t)
			did := []string{}
			for at := 0; at < len(log); {
				from, to := r.IntN(at+1), at+1+r.IntN(len(log)-at)
				if r.IntN(4) == 0 {
					from = 0
				}
				for i := from; i < to; i++ {
					h.receive(log, i)
					if r.IntN(8) == 0 {
						h.tidy(r.IntN(2) == 0)
						did = append(did, fmt.Sprint("tidy at ", i))
					}
				}
				at = max(at, to)
				did = append(did, fmt.Sprint(from, "-", to))
				if r.IntN(2) == 0 {
					withSnapshot := r.IntN(2) == 0
					h.tidy(withSnapshot)
					did = append(did, fmt.Sprint("tidy ", withSnapshot))
				}
				if !log[at-1].idle {
					continue
				}
				switch r.IntN(4) {
				case 0:
					h.restart()
					did = append(did, "restart")
				case 1:
					h.crash()
					did = append(did, "crash")
				case 2:
					h.unload()
					did = append(did, "unload")
				}
			}
			if r.IntN(2) == 0 {
				h.tidy(true)
			}
			for _, again := range []string{"live", "restart"} {
				if got := h.picture(); got != want {
					t.Fatalf("run %d (%s), %s:\ngot  %s\nwant %s", run, strings.Join(did, ", "), again, got, want)
				}
				h.restart()
			}
			for _, x := range []*house{once, h} {
				for i, e := range x.events()[1:] {
					if last := x.events()[i].Seq; e.Seq <= last {
						t.Fatalf("run %d: number %d comes after %d", run, e.Seq, last)
					}
				}
			}
		})
	}
}

// TestP2NumbersGoOn: no restart, and no step of an approval, has a number used
// twice.
func TestP2NumbersGoOn(t *testing.T) {
	h := newHouse(t)
	for i := range 6 {
		if h.view().State.ActiveTurn == nil {
			h.send("go")
		}
		a := h.ask(strconv.Itoa(i))
		if _, err := h.decide(a, "accept"); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			h.apply(&state.SessionTurnComplete{TurnID: h.view().State.ActiveTurn.ID})
		}
		n := len(h.events())
		if i%3 == 2 {
			h.restart()
		}
		es := h.events()
		if len(es) < n {
			t.Fatalf("%d events became %d", n, len(es))
		}
		for k := 1; k < len(es); k++ {
			if es[k].Seq <= es[k-1].Seq {
				t.Fatalf("number %d comes after %d", es[k].Seq, es[k-1].Seq)
			}
		}
		if st := h.stored(); text(t, st) != text(t, h.view().State) {
			t.Fatalf("shown  %s\nstored %s", text(t, h.view().State), text(t, st))
		}
	}
}

// ---- P3 ----

// TestP3GapsAreStated: where something may be missing, the transcript says so, and
// the journal says from where to where and why.
func TestP3GapsAreStated(t *testing.T) {
	for reason, end := range map[string]func(h *house){
		"restart": func(h *house) { h.crash() },
		"linkLost": func(h *house) {
			h.hub.LinkChanged(h.t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkLost, Epoch: "e1", Detail: "It was killed."})
		},
	} {
		t.Run(reason, func(t *testing.T) {
			h := newHouse(t)
			h.apply(&state.SessionToolCallStart{TurnID: "turn-0", ToolCallID: "c", ToolName: "shell"},
				&state.SessionToolCallReady{TurnID: "turn-0", ToolCallID: "c", Confirmed: state.ConfirmedNotNeeded},
				&state.SessionToolCallContentChanged{TurnID: "turn-0", ToolCallID: "c", Content: []state.ToolResultContent{state.TextContent("half")}})
			last := h.events()[len(h.events())-1].Seq
			end(h)
			g := gaps(h.view().State)
			if len(g) != 1 || g[0].Content.Text == "" {
				t.Fatalf("%d gaps: %s", len(g), text(t, h.view().State))
			}
			var told struct {
				From, To uint64
				Reason   string
			}
			if err := json.Unmarshal(g[0].Meta["nod.gap"], &told); err != nil {
				t.Fatal(err)
			}
			journaled := uint64(0)
			for _, e := range h.events() {
				if strings.Contains(string(e.Action), "nod.gap") {
					journaled = e.Seq
				}
			}
			if told.Reason != reason || told.From != last || told.To != journaled {
				t.Errorf("told %+v; the last event before it is %d, its own number %d", told, last, journaled)
			}
			// Said once, and kept.
			h.crash()
			if again := gaps(h.view().State); len(again) != 1 || text(t, again[0]) != text(t, g[0]) {
				t.Errorf("%d gaps after another crash", len(again))
			}
		})
	}
}

// TestP3NoGapWhereNothingIsMissing: an idle session loses nothing by a crash or by
// a link that is lost.
func TestP3NoGapWhereNothingIsMissing(t *testing.T) {
	h := idleHouse(t)
	before := h.picture()
	h.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Provider: "codex", Status: state.LinkLost, Epoch: "e1"})
	h.crash()
	if got := h.picture(); got != before {
		t.Errorf("%s became %s", before, got)
	}
}

// ---- P4 ----

// desk is an upstream that notes what reaches it by request.
type desk struct {
	*agent

	mu      sync.Mutex
	got     map[string][]string // option ids, by upstream id
	failing map[string]bool     // requests whose answers cannot be delivered
	stopped int
}

func (h *house) desk() *desk {
	d := &desk{agent: h.agent, got: map[string][]string{}, failing: map[string]bool{}}
	h.hub.SetUpstream(d, []state.Link{{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkUp, Epoch: "e1"}})
	return d
}

func (d *desk) Dispatch(ctx context.Context, link string, s *state.Session, a state.Action) error {
	if c, ok := a.(*state.SessionTurnCancelled); ok {
		d.mu.Lock()
		d.stopped++
		d.mu.Unlock()
		d.hub.Apply(ctx, s.Summary.Resource, state.Source{}, on(s.Summary.Resource, c))
		return nil
	}
	return d.agent.Dispatch(ctx, link, s, a)
}

func (d *desk) Answer(_ context.Context, r state.Request, dec state.Decision) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := string(r.UpstreamID)
	d.got[id] = append(d.got[id], dec.OptionID)
	if d.failing[id] {
		return errors.New("broken pipe")
	}
	return nil
}

func (d *desk) answers(id string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.got[id])
}

// TestP4AtMostOneAnswer has people, the agent, the link and the disk do everything
// at once, and counts what reaches the agent.
func TestP4AtMostOneAnswer(t *testing.T) {
	const rounds = 300
	r := rand.New(rand.NewPCG(seed, 4))
	h := newHouse(t)
	d := h.desk()
	for round := range rounds {
		if h.view().State.ActiveTurn == nil {
			h.send("go")
		}
		turn := h.view().State.ActiveTurn.ID
		id := strconv.Itoa(round)
		d.mu.Lock()
		d.failing[id] = r.IntN(6) == 0
		d.mu.Unlock()
		a := h.ask(id)

		var ended atomic.Bool // something that ends the request has returned
		type try struct {
			name, option string
			late         bool // it began after the end
			got          *approvals.Approval
			err          error
		}
		var mu sync.Mutex
		var tries []try
		decide := func(actor, option, digest, nonce, name string) func() {
			return func() {
				late := ended.Load()
				got, err := h.hub.Decide(context.Background(), actor, a.ID, digest, nonce, state.Decision{OptionID: option})
				mu.Lock()
				defer mu.Unlock()
				tries = append(tries, try{name, option, late, got, err})
			}
		}
		ends := func(f func()) func() {
			return func() {
				f()
				ended.Store(true)
			}
		}
		all := []func(){
			decide("me", "accept", a.Digest, a.Nonce, "right"),
			decide("me", "accept", a.Digest, a.Nonce, "right"),
			decide("you", "decline", a.Digest, a.Nonce, "right"),
			decide("you", "accept", a.Digest, a.Nonce, "right"),
			decide("he", "accept", strings.Repeat("0", 64), a.Nonce, "other digest"),
			decide("he", "accept", a.Digest, "x", "other nonce"),
			decide("he", "always", a.Digest, a.Nonce, "no such option"),
			ends(func() { h.hub.Resolved(context.Background(), h.uri, "e1", json.RawMessage(id), state.EndedAnswered) }),
			ends(func() {
				h.hub.Apply(context.Background(), h.uri, state.Source{}, on(h.uri, &state.SessionTurnComplete{TurnID: turn}))
			}),
			ends(func() {
				h.hub.LinkChanged(context.Background(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkLost, Epoch: "e1"})
			}),
		}
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		all = all[:2+r.IntN(len(all)-1)]
		start := make(chan struct{})
		var wg sync.WaitGroup
		for _, f := range all {
			wg.Go(func() {
				<-start
				f()
			})
		}
		close(start)
		wg.Wait()

		fail := func(format string, args ...any) {
			t.Helper()
			t.Errorf("seed %d, round %d: %s; %v reached the agent; tried: %+v", seed, round, fmt.Sprintf(format, args...), d.answers(id), tries)
		}
		answers := d.answers(id)
		if len(answers) > 1 {
			fail("more than one answer")
		}
		given := func(option string) bool {
			return slices.ContainsFunc(tries, func(x try) bool {
				return x.name == "right" && x.option == option && !x.late && x.err == nil
			})
		}
		for _, option := range answers {
			if !given(option) {
				fail("nobody gave the answer %s in time", option)
			}
		}
		for _, x := range tries {
			if x.name != "right" && x.err == nil {
				fail("%s was taken", x.name)
			}
			if x.err == nil && x.got.State == approvals.Sent && !slices.Equal(answers, []string{x.option}) {
				fail("%s is shown as sent", x.option)
			}
		}
		end := h.approval(a.ID)
		if len(answers) == 1 && (end.Decision == nil || end.Decision.OptionID != answers[0]) {
			fail("recorded is %+v", end.Decision)
		}
		if ended.Load() && end.Open() {
			fail("it is %s after its end", end.State)
		}
		if round%20 == 19 {
			h.crash()
			n := d.got
			d = h.desk()
			d.got = n
		}
		if round%20 == 19 || ended.Load() {
			for _, option := range []string{"accept", "decline"} {
				_, _ = h.hub.Decide(t.Context(), "late", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: option})
			}
			if again := d.answers(id); !slices.Equal(again, answers) {
				fail("an answer was sent after the end")
			}
		}
		if t.Failed() {
			return
		}
	}
}

// ---- P5 ----

// TestP5OnlyTheAgentConfirms: nothing else makes a decision look as if it had
// arrived.
func TestP5OnlyTheAgentConfirms(t *testing.T) {
	for name, c := range map[string]struct {
		before string // the decision; "" for none
		do     func(h *house)
		want   approvals.State
	}{
		"the agent's word":                {"accept", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered) }, approvals.Confirmed},
		"the agent's word about a denial": {"decline", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered) }, approvals.Confirmed},
		"the agent's word, nothing sent":  {"", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered) }, approvals.AnsweredElsewhere},
		"somebody else's was taken":       {"accept", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedElsewhere) }, approvals.AnsweredElsewhere},
		"the agent has withdrawn it":      {"accept", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedWithdrawn) }, approvals.DeliveryUnknown},
		"another link's word":             {"accept", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e2", json.RawMessage("7"), state.EndedAnswered) }, approvals.Sent},
		"about another request":           {"accept", func(h *house) { h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("8"), state.EndedAnswered) }, approvals.Sent},
		"the call runs": {"accept", func(h *house) {
			h.apply(&state.SessionToolCallConfirmed{TurnID: "turn-0", ToolCallID: "call-7", Approved: true, Confirmed: state.ConfirmedUserAction})
		}, approvals.Sent},
		"the turn ends": {"accept", func(h *house) { h.apply(&state.SessionTurnComplete{TurnID: "turn-0"}) }, approvals.DeliveryUnknown},
		"the turn ends, then the agent's word": {"accept", func(h *house) {
			h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
			h.hub.Resolved(h.t.Context(), h.uri, "e1", json.RawMessage("7"), state.EndedAnswered)
		}, approvals.DeliveryUnknown},
		"the link is lost": {"accept", func(h *house) {
			h.hub.LinkChanged(h.t.Context(), state.Link{Key: "codex", Provider: "codex", Status: state.LinkLost, Epoch: "e1"})
		}, approvals.DeliveryUnknown},
		"a crash":     {"accept", func(h *house) { h.crash() }, approvals.DeliveryUnknown},
		"a clean end": {"accept", func(h *house) { h.end() }, approvals.DeliveryUnknown},
		"the same answer again": {"accept", func(h *house) {
			if _, err := h.decide(h.view().Approvals[0], "accept"); err != nil {
				h.t.Error(err)
			}
		}, approvals.Sent},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			a := h.ask("7")
			if c.before != "" {
				if got, err := h.decide(a, c.before); err != nil || got.State != approvals.Sent {
					t.Fatalf("%v, %v", got, err)
				}
			}
			c.do(h)
			if got := h.approval(a.ID).State; got != c.want {
				t.Errorf("it is %s, not %s", got, c.want)
			}
		})
	}
}

// TestP5TimeConfirmsNothing: a day passes.
func TestP5TimeConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.ask("7")
		if _, err := h.decide(a, "accept"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := h.approval(a.ID).State; got != approvals.Sent {
			t.Errorf("it is %s", got)
		}
	})
}

// ---- P7 ----

var errFull = errors.New("the disk is full")

// disk is a store that can refuse like a full disk: nothing is appended, and what
// is buffered waits in order until there is room.
type disk struct {
	journal.Store
	t    *testing.T
	tell func(error)

	mu      sync.Mutex
	full    bool
	waiting []journal.Batch
}

func (h *house) disk() *disk {
	d := &disk{Store: h.store, t: h.t, tell: h.hub.health}
	h.on(d)
	return d
}

func (d *disk) Append(ctx context.Context, b journal.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return errFull
	}
	return d.Store.Append(ctx, b)
}

func (d *disk) Buffer(b journal.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.full {
		d.Store.Buffer(b)
		return
	}
	if d.waiting = append(d.waiting, b); len(d.waiting) == 1 {
		d.tell(errFull)
	}
}

func (d *disk) fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = true
}

// room writes what has waited, and says so as the journal's writer does.
func (d *disk) room() {
	d.t.Helper()
	d.mu.Lock()
	d.full = false
	for _, b := range d.waiting {
		if err := d.Store.Append(context.Background(), b); err != nil {
			d.t.Errorf("what had waited is refused: %v", err)
		}
	}
	d.waiting = nil
	d.mu.Unlock()
	d.tell(nil)
}

// until waits for something to show, woken as a page is.
func (h *house) until(what string, is func() bool) {
	h.t.Helper()
	woken, done := h.hub.Watch(h.id)
	defer done()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !is() {
		select {
		case <-woken:
		case <-limit.C:
			h.t.Fatalf("waiting for: %s", what)
		}
	}
}

// TestP7FullDisk: with a full disk one can read, deny and stop, and not allow; what
// was done then is recorded in order when there is room, without a restart.
func TestP7FullDisk(t *testing.T) {
	h := newHouse(t)
	d, disk := h.desk(), h.disk()
	allow, deny, before := h.ask("1"), h.ask("2"), h.ask("3")
	disk.fill()

	// The agent's events are shown.
	h.apply(&state.SessionTitleChanged{Title: "still here"},
		&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m", Content: state.NewText("on I go")}})
	late := h.ask("4")
	if v := h.view(); v.State.Summary.Title != "still here" || !strings.Contains(text(t, v.State), "on I go") || len(v.Approvals) != 4 {
		t.Errorf("shown is %s", text(t, v.State))
	}
	if h.hub.Inbox().Trouble == "" {
		t.Error("nobody is told")
	}

	// An allow is refused, and nothing of it is sent.
	for _, a := range []*approvals.Approval{allow, late} {
		if _, err := h.decide(a, "accept"); err == nil {
			t.Error("an allow was taken that cannot be recorded")
		}
		if got := h.approval(a.ID).State; got != approvals.Pending || len(d.answers(string(a.Request.UpstreamID))) != 0 {
			t.Errorf("the refused request is %s, sent: %v", got, d.answers(string(a.Request.UpstreamID)))
		}
	}
	// A denial is sent, and says that it is not recorded.
	for _, a := range []*approvals.Approval{deny, late} {
		got, err := h.decide(a, "decline")
		if err != nil || got.State != approvals.Sent || !got.Unrecorded {
			t.Fatalf("deny: %+v, %v", got, err)
		}
		if !slices.Equal(d.answers(string(a.Request.UpstreamID)), []string{"decline"}) {
			t.Errorf("sent: %v", d.answers(string(a.Request.UpstreamID)))
		}
		if shown := h.approval(a.ID); !shown.Unrecorded || shown.State != approvals.Sent {
			t.Errorf("shown: %+v", shown)
		}
		if on, err := h.store.Approval(t.Context(), a.ID); err == nil && on.State != "pending" {
			t.Errorf("stored is %s", on.State)
		}
	}
	h.hub.Resolved(t.Context(), h.uri, "e1", json.RawMessage("2"), state.EndedAnswered)
	if got := h.approval(deny.ID); got.State != approvals.Confirmed || !got.Unrecorded {
		t.Errorf("confirmed: %+v", got)
	}
	// To stop works, and ends what was open.
	if err := h.hub.Stop(t.Context(), h.id); err != nil || d.stopped != 1 || h.view().State.ActiveTurn != nil {
		t.Errorf("stop: %v, %d", err, d.stopped)
	}

	disk.room()
	h.until("no decision is unrecorded any more, and no trouble is told", func() bool {
		return h.hub.Inbox().Trouble == "" && !slices.ContainsFunc(h.view().Approvals, func(a *approvals.Approval) bool { return a.Unrecorded })
	})
	want := map[*approvals.Approval]approvals.State{allow: approvals.Expired, deny: approvals.Confirmed, before: approvals.Expired, late: approvals.DeliveryUnknown}
	for a, s := range want {
		if got := h.approval(a.ID).State; got != s {
			t.Errorf("request %s is %s, not %s", a.Request.UpstreamID, got, s)
		}
		if on, err := h.store.Approval(t.Context(), a.ID); err != nil || on.State != string(s) {
			t.Errorf("request %s is stored as %v, %v", a.Request.UpstreamID, on.State, err)
		}
	}
	if got, want := text(t, h.stored()), text(t, h.view().State); got != want {
		t.Errorf("stored %s\nshown  %s", got, want)
	}
	// It works again without a restart.
	h.send("and now?")
	again := h.ask("5")
	if got, err := h.decide(again, "accept"); err != nil || got.State != approvals.Sent || got.Unrecorded {
		t.Errorf("with room again: %+v, %v", got, err)
	}
}

// TestP7DenialHalfRecorded: the disk fills up between recording a denial and
// noting that it is sent. It is sent all the same.
func TestP7DenialHalfRecorded(t *testing.T) {
	h := newHouse(t)
	d := h.desk()
	a := h.ask("7")
	h.on(&fullDisk{h.store, 1})
	got, err := h.decide(a, "decline")
	if err != nil || got.State != approvals.Sent || !slices.Equal(d.answers("7"), []string{"decline"}) {
		t.Errorf("%+v, %v, sent %v", got, err, d.answers("7"))
	}
}

// TestP7AllowHalfRecorded: the same with an allow, which is not sent, not even
// after a crash; the same answer again sends it when there is room.
func TestP7AllowHalfRecorded(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := newHouse(t)
		d := h.desk()
		a := h.ask("7")
		h.on(&fullDisk{h.store, 1})
		if _, err := h.decide(a, "accept"); err == nil {
			t.Error("no error")
		}
		h.on(h.store)
		if len(d.answers("7")) != 0 {
			t.Errorf("sent %v", d.answers("7"))
		}
		want := []string{"accept"}
		if crash {
			h.crash()
			d = h.desk()
			want = nil
		}
		_, _ = h.decide(a, "accept")
		if !slices.Equal(d.answers("7"), want) {
			t.Errorf("crash %v: sent %v", crash, d.answers("7"))
		}
	}
}

// TestP7CrashWhileFull: what was only in memory is gone, as the page said it would
// be; no allow was sent, and none is sent now.
func TestP7CrashWhileFull(t *testing.T) {
	h := newHouse(t)
	d, disk := h.desk(), h.disk()
	allow, deny := h.ask("1"), h.ask("2")
	disk.fill()
	if _, err := h.decide(allow, "accept"); err == nil {
		t.Error("an allow was taken")
	}
	if _, err := h.decide(deny, "decline"); err != nil {
		t.Error(err)
	}
	if got := h.hub.Inbox().Trouble; !strings.Contains(got, "would be gone after a restart") {
		t.Errorf("the page says %q", got)
	}
	h.crash()
	after := h.desk()
	for id, want := range map[string][]string{"1": nil, "2": {"decline"}} {
		if got := d.answers(id); !slices.Equal(got, want) {
			t.Errorf("before the crash %v was sent of %s", got, id)
		}
		if got := after.answers(id); len(got) != 0 {
			t.Errorf("after the crash %v was sent of %s", got, id)
		}
	}
	for _, a := range []*approvals.Approval{allow, deny} {
		if got := h.approval(a.ID).State; got != approvals.Expired {
			t.Errorf("request %s is %s", a.Request.UpstreamID, got)
		}
	}
}

// ---- P10 ----

// clock is a wall clock that can be set. Call it in a synctest bubble.
type clock struct{ off atomic.Int64 }

func (c *clock) set(d time.Duration) { c.off.Store(int64(d)) }

// drive gives the hub this clock.
func (c *clock) drive(h *house) {
	synctest.Wait() // the keeper has looked at the old one
	h.hub.wall = func() int64 { return time.Now().Add(time.Duration(c.off.Load())).UnixMilli() }
	poke(h.hub.troubled) // so that it is known to see the new one
	synctest.Wait()
}

const year = 365 * 24 * time.Hour

var jumps = []time.Duration{time.Hour, -time.Hour, -year, 10 * year, 0, -10 * year}

// TestP10ClockJumps: a clock that is set decides nothing, ends nothing and orders
// nothing.
func TestP10ClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		var c clock
		c.drive(h)
		idle, err := h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "idle")
		if err != nil {
			t.Fatal(err)
		}
		h.hub.Apply(t.Context(), uriScheme+idle, state.Source{}, on(uriScheme+idle, &state.SessionTurnComplete{TurnID: "turn-0"}))
		var open []*approvals.Approval
		h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}})
		want := ""
		said := func() string {
			return h.view().State.ActiveTurn.ResponseParts.At(0).(*state.MarkdownPart).Content.String()
		}
		cursor := h.view().Seq
		for i, jump := range jumps {
			c.set(jump)
			open = append(open, h.ask(strconv.Itoa(i)))
			for k := range 5 {
				word := fmt.Sprint(i, ".", k, " ")
				want += word
				h.apply(&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: word})
			}
			if got := said(); got != want {
				t.Errorf("after %s it says %q, not %q", jump, got, want)
			}
			if seq := h.view().Seq; seq <= cursor {
				t.Errorf("after %s number %d follows %d", jump, seq, cursor)
			} else {
				cursor = seq
			}
			time.Sleep(retainEvery) // the keeper looks
			synctest.Wait()
			for _, a := range open {
				if got := h.approval(a.ID); got.State != approvals.Pending || got.Decision != nil {
					t.Errorf("after %s request %s is %s", jump, a.Request.UpstreamID, got.State)
				}
			}
			if in := h.hub.Inbox(); len(in.Sessions) != 2 || in.Archived != 0 {
				t.Errorf("after %s %d sessions are shown, %d are archived", jump, len(in.Sessions), in.Archived)
			}
		}
		if len(h.agent.answers) != 0 {
			t.Errorf("%d decisions were made", len(h.agent.answers))
		}
		if got, err := h.decide(open[0], "accept"); err != nil || got.State != approvals.Sent {
			t.Errorf("an answer after all that: %v, %v", got, err)
		}
		back := 0
		es := h.events()
		for i, e := range es[1:] {
			if e.Seq <= es[i].Seq {
				t.Errorf("number %d comes after %d", e.Seq, es[i].Seq)
			}
			if e.Time < es[i].Time {
				back++
			}
		}
		if back == 0 {
			t.Error("the clock did not go back: this test shows nothing")
		}
		order := func() (ids []string) {
			for _, s := range h.hub.Inbox().Sessions {
				ids = append(ids, s.ID)
			}
			return ids
		}
		before := order()
		h.restart()
		c.drive(h)
		time.Sleep(retainEvery)
		synctest.Wait()
		if got := h.view().State.Turns[0].ResponseParts[0].(*state.MarkdownPart).Content.String(); got != want {
			t.Errorf("after a restart it says %q", got)
		}
		if got := order(); !slices.Equal(got, before) {
			t.Errorf("the sessions are %v, not %v", got, before)
		}
	})
}

// TestP10AnEvenHour: nothing is archived or deleted by age before the clock has
// been seen to run evenly for an hour.
func TestP10AnEvenHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := idleHouse(t)
		other, err := h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "used all the time")
		if err != nil {
			t.Fatal(err)
		}
		h.hub.Apply(t.Context(), uriScheme+other, state.Source{}, on(uriScheme+other, &state.SessionTurnComplete{TurnID: "turn-0"}))
		use := func() {
			h.hub.Apply(t.Context(), uriScheme+other, state.Source{}, on(uriScheme+other, &state.SessionTitleChanged{Title: "used"}))
		}
		var c clock
		c.drive(h)
		hour := func() (where string) {
			time.Sleep(retainEvery)
			synctest.Wait()
			in := h.hub.Inbox()
			return fmt.Sprintf("%d shown, %d archived", len(in.Sessions), in.Archived)
		}
		is := func(got, want, when string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, not %s", when, got, want)
			}
		}
		for _, jump := range jumps {
			if jump != 0 {
				c.set(jump)
				is(hour(), "2 shown, 0 archived", fmt.Sprint("within an hour of ", jump))
			}
		}
		c.set(10 * year)
		use()
		is(hour(), "2 shown, 0 archived", "the clock was set")
		is(hour(), "1 shown, 1 archived", "an even hour later")
		c.set(20 * year)
		is(hour(), "1 shown, 1 archived", "the clock was set again")
		is(hour(), "1 shown, 1 archived", "a long absence makes nothing old")
		use()
		is(hour(), "1 shown, 0 archived", "an even hour later")
		if _, err := h.hub.Session(h.id); !errors.Is(err, ErrNoSession) {
			t.Errorf("it is not deleted: %v", err)
		}
	})
}

// TestP10UnloadingWaitsForTheDisk: what is on its way to the disk stays in memory,
// even if the clock says that it went there an hour ago.
func TestP10UnloadingWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := idleHouse(t)
		var c clock
		c.drive(h)
		var others []string
		for range maxLoaded {
			id, err := h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "another")
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, id)
			uri := uriScheme + id
			h.hub.Apply(t.Context(), uri, state.Source{}, on(uri, &state.SessionTurnComplete{TurnID: "turn-0"}))
		}
		synctest.Wait()
		said := func() string {
			return h.view().Terminals.Get("ahp-terminal:/x").Content[0].(*state.UnclassifiedPart).Value.String()
		}
		output := func(s string) {
			h.hub.Apply(t.Context(), h.uri, state.Source{}, on("ahp-terminal:/x", &state.TerminalData{Data: s}))
		}
		output("one ")
		time.Sleep(time.Second) // it is on disk
		output("two ")
		time.Sleep(time.Millisecond)
		for _, id := range others { // so that it is the one that was used least lately
			if _, err := h.hub.Session(id); err != nil {
				t.Fatal(err)
			}
		}
		c.set(time.Hour)
		h.hub.unloadIdle(t.Context())
		if got := said(); got != "one two " {
			t.Errorf("after the clock was set it says %q", got)
		}
		output("three")
		if got := said(); got != "one two three" {
			t.Errorf("then it says %q", got)
		}
		time.Sleep(time.Second)
		h.restart()
		if got := said(); got != "one two three" {
			t.Errorf("after a restart it says %q", got)
		}
	})
}
