package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// What nod keeps, so that it never grows without bound. Each cut is told on the
// page it concerns.
const (
	// maxText is what is kept of one message or of one run of output: more than
	// anybody reads, less than a runaway command writes in a minute.
	maxText = 16 << 20
	// maxEvents is how many events of a session are kept: a week of an agent that
	// never sleeps, some 20 MB. Beyond that the older half of its turns goes.
	maxEvents = 50_000
	// archiveAfter is when a session that nobody touched is put away.
	archiveAfter = 60 * 24 * time.Hour
	// deleteAfter is when what was put away is deleted.
	deleteAfter = 90 * 24 * time.Hour
	// keepUnknown and keepAudit bound what is only read when something went wrong.
	keepUnknown = 30 * 24 * time.Hour
	keepAudit   = 400 * 24 * time.Hour
	// maxLoaded is how many sessions are kept in memory without need.
	maxLoaded = 32
	// unloadAfter is long enough that nothing of an idle session is on its way to
	// the disk.
	unloadAfter = time.Minute
)

// Tell is what pages say about the limits above.
const (
	TellArchive = "Sessions here are deleted 90 days after they were put here. One that nobody touches for 60 days is put here by itself."
	tellText    = "\n\n[nod keeps 16 MiB of one text; what came after is not kept.]\n"
)

const (
	// retainEvery is how often old things are looked for; the first time comes
	// when the clock has been seen to run evenly for that long.
	retainEvery = time.Hour
	// recoverEvery is how soon a person sees that the disk has room again.
	recoverEvery = time.Second
	// maxUntidied is how many numbers may pass until deltas are merged: few
	// enough that nobody waits for it.
	maxUntidied = 1000
	// minLog is how many bytes of actions are worth a snapshot.
	minLog = 64 << 10
)

// upkeep is what the keeper has to know about a session's log.
type upkeep struct {
	tidied   uint64 // up to here deltas are merged
	snapshot int    // size of the newest snapshot
	since    int    // bytes of actions after it
}

// wantsSnapshot: a snapshot is due when what would have to be read after it is
// half as much as itself. So a long session is written out a few times, not at
// every turn, and opening it costs one and a half times its size at most.
func (u *upkeep) wantsSnapshot() bool { return u.since > max(minLog, u.snapshot/2) }

// tidyLater asks the keeper to look at a session. Call with its mu held.
func (h *Hub) tidyLater(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.queued {
		s.queued = true
		h.untidy = append(h.untidy, s)
		poke(h.untidied)
	}
}

// keep is the goroutine that does what nobody waits for.
func (h *Hub) keep() {
	defer close(h.stopped)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // what is long stops early
		<-h.stop
		cancel()
	}()
	h.checkAudit(ctx)
	old := time.NewTicker(retainEvery)
	defer old.Stop()
	again := time.NewTimer(0)
	again.Stop()
	began, beganWall := time.Now(), h.now()
	for {
		select {
		case <-h.stop:
			return
		case <-h.troubled:
			again.Reset(recoverEvery)
		case <-again.C:
			if !h.recovered(ctx) {
				again.Reset(recoverEvery)
			}
		case <-h.untidied:
			h.tidyAll(ctx)
		case <-old.C:
			// A clock that was set in between says nothing about age.
			if drift := time.Duration(h.now()-beganWall)*time.Millisecond - time.Since(began); drift.Abs() > time.Minute {
				h.log.Warn("the clock was set; nothing is deleted by age until nod has seen it run evenly for an hour")
				began, beganWall = time.Now(), h.now()
				continue
			}
			h.retain(ctx, time.Since(began))
		}
	}
}

// checkAudit has the pages say so if the audit is not as it was written. nod goes
// on: what it protects is what agents do, and that still needs a person.
func (h *Hub) checkAudit(ctx context.Context) {
	switch _, err := h.store.VerifyAudit(ctx); {
	case ctx.Err() != nil:
	case errors.Is(err, journal.ErrChain):
		h.log.Error("the audit is not as nod wrote it", "err", err)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tampered = "The record of who approved what was changed outside nod: who did that can write to your data folder. “nod audit check” says where."
		h.changed()
	case err != nil:
		h.log.Warn("the audit could not be looked through", "err", err)
	}
}

// Close ends the keeper and notes that nothing was left open. Nothing may be
// applied any more.
func (h *Hub) Close(ctx context.Context) error {
	close(h.stop)
	<-h.stopped
	h.delivering.Wait()
	return h.store.End(ctx)
}

// recovered reports whether the disk takes everything again, and sees to it that
// all that memory holds is on it.
func (h *Hub) recovered(ctx context.Context) bool {
	if h.store.Append(ctx, journal.Batch{}) != nil { // it comes after all that waits
		return false
	}
	for _, s := range h.all() {
		if err := s.recorded(ctx); err != nil {
			h.log.Warn("a session is not on disk yet", "session", s.uri, "err", err)
			return false
		}
	}
	h.noteJournal(nil)
	return true
}

func (h *Hub) tidyAll(ctx context.Context) {
	for ctx.Err() == nil {
		h.mu.Lock()
		if len(h.untidy) == 0 {
			h.mu.Unlock()
			break
		}
		s := h.untidy[0]
		h.untidy = h.untidy[1:]
		s.queued = false
		trouble := h.trouble != ""
		h.mu.Unlock()
		if trouble { // the disk has other worries; it is looked at again when they are over
			continue
		}
		if err := s.tidy(ctx); err != nil && !errors.Is(err, ErrNoSession) {
			h.log.Warn("a session's journal was not tidied", "session", s.uri, "err", err)
			poke(h.troubled) // what has to be written anew is tried again
		}
	}
	h.unloadIdle(ctx)
}

// tidy merges the deltas of the log and, when it has grown enough, writes a
// snapshot. Deltas are merged up to a number and snapshots taken at one, never
// across: what is read after a snapshot must not hold text that is in it.
func (s *session) tidy(ctx context.Context) error {
	s.mu.Lock()
	if !s.loaded || s.deleted || s.damaged {
		s.mu.Unlock()
		return nil
	}
	if s.broken {
		defer s.mu.Unlock()
		return s.beginAnew(ctx, s.state, 0)
	}
	from, to, due := s.log.tidied+1, s.seq, s.log.wantsSnapshot()
	var channels []state.Snapshot
	if due {
		channels = channelsAt(s.uri, s.seq, s.state, s.terminals, s.changesets)
	}
	was := s.log.since
	s.mu.Unlock()
	store := s.hub.store
	if err := store.Compact(ctx, s.uri, from, to, merge); err != nil {
		return err
	}
	size := 0
	if due {
		raw, err := state.Marshal(channels)
		if err != nil {
			return err
		}
		size = len(raw)
		if err := store.Append(ctx, journal.Batch{Snapshots: []journal.Snapshot{{Session: s.uri, Seq: to, Data: raw}}}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.tidied = to
	if due {
		s.log.snapshot, s.log.since = size, s.log.since-was
	}
	if n, err := store.Count(ctx, s.uri); err != nil || n <= maxEvents {
		return err
	}
	st, turns := withoutOldest(s.state)
	s.hub.log.Info("the oldest part of a session is cut", "session", s.uri, "turns", turns)
	return s.beginAnew(ctx, st, turns)
}

// merge makes one event of the deltas of one text, in the place of the first.
// Deltas change nothing but their text, so they may move ahead of others; but not
// of what decides which text they go to.
func merge(events []journal.Event) ([]journal.Event, error) {
	type text struct{ kind, channel, turn, part string } // prose and thought may share an id
	type growth struct {
		at      int // in out
		content strings.Builder
		action  func(content string) state.Action
	}
	var out []journal.Event
	var all []*growth
	open := map[text]*growth{}
	for _, e := range events {
		a, err := state.UnmarshalAction(e.Action)
		if err != nil {
			return nil, err
		}
		var key text
		var content string
		var action func(string) state.Action
		switch a := a.(type) {
		case *state.SessionDelta:
			key, content = text{a.Type(), e.Channel, a.TurnID, a.PartID}, a.Content
			action = func(s string) state.Action { n := *a; n.Content = s; return &n }
		case *state.SessionReasoning:
			key, content = text{a.Type(), e.Channel, a.TurnID, a.PartID}, a.Content
			action = func(s string) state.Action { n := *a; n.Content = s; return &n }
		case *state.TerminalData:
			key, content = text{channel: e.Channel}, a.Data
			action = func(s string) state.Action { n := *a; n.Data = s; return &n }
		case *state.SessionToolCallDelta, *state.SessionUsage:
		default: // may begin or end a text of its channel
			maps.DeleteFunc(open, func(k text, _ *growth) bool { return k.channel == e.Channel })
		}
		g := open[key]
		if action != nil && g == nil {
			g = &growth{at: len(out), action: action}
			open[key], all = g, append(all, g)
			out = append(out, e)
		} else if action == nil {
			out = append(out, e)
			continue
		}
		g.content.WriteString(content)
	}
	for _, g := range all {
		raw, err := state.MarshalAction(g.action(g.content.String()))
		if err != nil {
			return nil, err
		}
		out[g.at].Action = raw
	}
	return out, nil
}

// withoutOldest drops the older half of the turns, or of one that is very long
// the older half of its parts.
func withoutOldest(st *state.Session) (*state.Session, int) {
	n := *st
	if k := len(st.Turns); k > 1 || k == 1 && st.ActiveTurn != nil {
		k = max(k/2, 1)
		n.Turns = slices.Clone(st.Turns[k:])
		return &n, k
	}
	half := func(parts []state.ResponsePart) []state.ResponsePart {
		k := len(parts) / 2
		note := &state.NotificationPart{Content: state.Plain(fmt.Sprintf("The oldest %d parts of this turn were cut: nod keeps the newest %d events of a session, more or less.", k, maxEvents))}
		return append([]state.ResponsePart{note}, parts[k:]...)
	}
	if st.ActiveTurn != nil {
		t := *st.ActiveTurn
		t.ResponseParts = state.PartsOf(half(t.ResponseParts.Slice())...)
		n.ActiveTurn = &t
	} else if len(st.Turns) == 1 {
		t := *st.Turns[0]
		t.ResponseParts = half(t.ResponseParts)
		n.Turns = []*state.Turn{&t}
	}
	return &n, 0
}

// beginAnew makes a state the journal's begin of the session, with as many turns
// more cut as it lacks. So a log that has a hole goes on, too. Call with mu held:
// nothing may happen between the snapshot and its row.
func (s *session) beginAnew(ctx context.Context, st *state.Session, cut int) error {
	seq := s.seq + 1
	terminals := s.terminals
	if st != s.state { // those that nothing shows any more go, too
		terminals = snapshot.Terminals{}
		for uri, t := range s.terminals.All() {
			if _, ok := find(st, uri); ok {
				terminals = terminals.With(uri, t)
			}
		}
	}
	kept := slices.DeleteFunc(slices.Clone(s.approvals), func(a *approvals.Approval) bool {
		return !a.Open() && a.Request.TurnID != "" && !st.HasTurn(a.Request.TurnID)
	})
	rows := make([]journal.Approval, len(kept))
	for i, a := range kept {
		w, err := approvalRow(s.uri, a)
		if err != nil {
			return err
		}
		rows[i] = w
	}
	raw, err := state.Marshal(channelsAt(s.uri, seq, st, terminals, s.changesets))
	if err != nil {
		return err
	}
	row, err := s.row(st, s.open, s.lastEvent, s.cut+cut)
	if err != nil {
		return err
	}
	if err := s.hub.store.Cut(ctx, journal.Snapshot{Session: s.uri, Seq: seq, Data: raw}, row, rows); err != nil {
		return err
	}
	s.seq, s.state, s.terminals, s.approvals, s.cut, s.broken = seq, st, terminals, kept, s.cut+cut, false
	s.log = upkeep{tidied: seq, snapshot: len(raw)}
	s.shownIn = map[string]snapshot.Part{}
	s.changes.reset(seq)
	wake(s.watchers)
	return nil
}

// bounded cuts a text that grows beyond maxText, and says so in it once. It
// reports false for what is dropped.
func (s *session) bounded(n *next, e state.Envelope) (state.Envelope, bool) {
	switch a := e.Action.(type) {
	case *state.SessionDelta:
		text, ok := within(n.textLen(a.TurnID, a.PartID, false), a.Content)
		if len(text) != len(a.Content) {
			e.Action = &state.SessionDelta{TurnID: a.TurnID, PartID: a.PartID, Content: text}
		}
		return e, ok
	case *state.SessionReasoning:
		text, ok := within(n.textLen(a.TurnID, a.PartID, true), a.Content)
		if len(text) != len(a.Content) {
			e.Action = &state.SessionReasoning{TurnID: a.TurnID, PartID: a.PartID, Content: text}
		}
		return e, ok
	case *state.TerminalData:
		text, ok := within(n.outputLen(e.Channel), a.Data)
		if len(text) != len(a.Data) {
			e.Action = &state.TerminalData{Data: text}
		}
		return e, ok
	case *state.SessionResponsePart:
		switch p := a.Part.(type) {
		case *state.MarkdownPart:
			if text, _ := within(0, p.Content.String()); len(text) != p.Content.Len() {
				e.Action = &state.SessionResponsePart{TurnID: a.TurnID, Part: &state.MarkdownPart{ID: p.ID, Content: state.NewText(text), Meta: p.Meta}}
			}
		case *state.ReasoningPart:
			if text, _ := within(0, p.Content.String()); len(text) != p.Content.Len() {
				e.Action = &state.SessionResponsePart{TurnID: a.TurnID, Part: &state.ReasoningPart{ID: p.ID, Content: state.NewText(text), Meta: p.Meta}}
			}
		}
	case *state.SessionToolCallContentChanged:
		c := *a
		c.Content = boundedContent(a.Content)
		e.Action = &c
	case *state.SessionToolCallComplete:
		c := *a
		c.Result.Content = boundedContent(a.Result.Content)
		e.Action = &c
	}
	return e, true
}

func boundedContent(content []state.ToolResultContent) []state.ToolResultContent {
	out := slices.Clone(content)
	for i, c := range out {
		if c.Text != nil {
			text, _ := within(0, *c.Text)
			out[i].Text = &text
		}
	}
	return out
}

// within returns what is kept of more text behind a text of that length. It
// reports false if the limit was passed before.
func within(length int, more string) (string, bool) {
	k := maxText - length
	switch {
	case len(more) <= k:
		return more, true
	case k < 0:
		return "", false
	}
	for k > 0 && !utf8.RuneStart(more[k]) {
		k--
	}
	return more[:k] + tellText, true
}

// textLen returns the length of a text of the turn in progress.
func (n *next) textLen(turn, part string, thought bool) int {
	if t := n.state.ActiveTurn; t != nil && t.ID == turn {
		for _, p := range t.ResponseParts.Backward() {
			switch p := p.(type) {
			case *state.MarkdownPart:
				if p.ID == part && !thought {
					return p.Content.Len()
				}
			case *state.ReasoningPart:
				if p.ID == part && thought {
					return p.Content.Len()
				}
			}
		}
	}
	return 0
}

// outputLen returns the length of the run of output that a terminal's next
// output goes to.
func (n *next) outputLen(uri string) int {
	if t := n.terminals.Get(uri); t != nil && len(t.Content) > 0 {
		switch p := t.Content[len(t.Content)-1].(type) {
		case *state.CommandPart:
			if !p.IsComplete { // else it goes to a run of its own
				return p.Output.Len()
			}
		case *state.UnclassifiedPart:
			return p.Value.Len()
		}
	}
	return 0
}

// unloadIdle forgets the sessions that were wanted least lately.
func (h *Hub) unloadIdle(ctx context.Context) {
	h.mu.Lock()
	order, trouble := slices.Clone(h.order), h.trouble != ""
	h.mu.Unlock()
	if trouble { // memory holds what the disk does not
		return
	}
	idle := map[*session]int64{}
	loaded := 0
	for _, s := range order {
		s.mu.Lock()
		if s.loaded {
			loaded++
			if used := max(s.lastUsed, s.lastEvent); !s.open && len(s.watchers) == 0 && h.now()-used > unloadAfter.Milliseconds() {
				idle[s] = used
			}
		}
		s.mu.Unlock()
	}
	for ; loaded > maxLoaded && len(idle) > 0; loaded-- {
		var oldest *session
		for s, used := range idle {
			if oldest == nil || used < idle[oldest] {
				oldest = s
			}
		}
		delete(idle, oldest)
		oldest.mu.Lock()
		// The empty batch comes after what is buffered, whatever the clock says.
		if !oldest.open && len(oldest.watchers) == 0 && !oldest.broken && h.store.Append(ctx, journal.Batch{}) == nil {
			oldest.unload()
		}
		oldest.mu.Unlock()
	}
}

// retain puts away and deletes what is too old. Age is counted to the newest
// thing that nod has seen, so that neither a wrong clock at its start nor a long
// absence makes everything old.
func (h *Hub) retain(ctx context.Context, up time.Duration) {
	order := h.all()
	newest := int64(0)
	for _, s := range order {
		s.mu.Lock()
		newest = max(newest, s.lastEvent)
		s.mu.Unlock()
	}
	at := min(h.now(), newest+up.Milliseconds())
	before := func(d time.Duration) int64 { return at - d.Milliseconds() }
	if err := h.store.Prune(ctx, before(keepUnknown), before(keepAudit)); err != nil {
		h.log.Warn("old entries were not pruned", "err", err)
	}
	for _, s := range order {
		s.mu.Lock()
		archived, last, busy := s.state.Summary.Status.Archived(), s.lastEvent, s.parent != nil || s.damaged
		s.mu.Unlock()
		for _, c := range h.below(s) {
			c.mu.Lock()
			last = max(last, c.lastEvent)
			c.mu.Unlock()
		}
		var err error
		switch {
		case busy:
		case archived && last < before(deleteAfter):
			h.log.Info("a session is deleted, because it was archived long ago", "session", s.uri)
			err = h.Delete(ctx, s.id)
		case !archived && last < before(archiveAfter):
			err = h.archive(ctx, s.id, true)
		}
		if err != nil && !errors.Is(err, ErrTurnOpen) {
			h.log.Warn("an old session stays", "session", s.uri, "err", err)
		}
	}
	h.unloadIdle(ctx)
}

// atRest returns a session whose sending lock is held, if neither it nor one of
// its sub-agents is at work or about to be, and it is nobody's sub-agent.
func (h *Hub) atRest(id string) (*session, []*session, error) {
	s, err := h.find(id)
	if err != nil {
		return nil, nil, err
	}
	if s.parent != nil {
		return nil, nil, ErrSubagent
	}
	if !s.sending.TryLock() {
		return nil, nil, ErrTurnOpen
	}
	all := append([]*session{s}, h.below(s)...)
	for _, x := range all {
		x.mu.Lock()
		open := x.open
		x.mu.Unlock()
		if open {
			s.sending.Unlock()
			return nil, nil, ErrTurnOpen
		}
	}
	return s, all, nil
}

// archive puts a session away, or brings it back.
func (h *Hub) archive(ctx context.Context, id string, archived bool) error {
	s, _, err := h.atRest(id)
	if err != nil {
		return err
	}
	defer s.sending.Unlock()
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return h.notRecorded(s.commit(ctx, state.Source{}, []state.Envelope{{Channel: s.uri, Action: &state.SessionIsArchivedChanged{IsArchived: archived}}}, nil))
}

// Delete forgets a session and its sub-agents for good. Their agents may have them
// still, and bring none of them back, unless a person wants it: see Readmit.
func (h *Hub) Delete(ctx context.Context, id string) error {
	s, gone, err := h.atRest(id)
	if err != nil {
		return err
	}
	defer s.sending.Unlock()
	var uris []string
	mark := func(deleted bool) { // whoever comes now comes too late
		for _, x := range gone {
			x.mu.Lock()
			x.deleted = deleted
			x.mu.Unlock()
		}
	}
	for _, x := range gone {
		uris = append(uris, x.uri)
	}
	mark(true)
	if err := h.store.Delete(ctx, h.now(), uris...); err != nil {
		mark(false)
		return h.notRecorded(err)
	}
	h.mu.Lock()
	for _, x := range gone {
		delete(h.sessions, x.id)
		h.removed[x.id] = true
	}
	isGone := func(x *session) bool { return slices.Contains(gone, x) }
	h.order = slices.DeleteFunc(h.order, isGone)
	for approval, x := range h.asked {
		if isGone(x) {
			delete(h.asked, approval)
		}
	}
	h.changed()
	h.mu.Unlock()
	for _, x := range gone {
		x.mu.Lock()
		wake(x.watchers)
		x.mu.Unlock()
	}
	return nil
}

// Readmit lets an agent make a session known again that a person has deleted: its
// own part of it, for what nod had is gone.
func (h *Hub) Readmit(uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.removed, strings.TrimPrefix(uri, uriScheme))
}
