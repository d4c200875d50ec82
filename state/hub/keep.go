package hub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"nod/state"
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
	TellArchive = "Sessions here are deleted 90 days after they were last active. A session that nobody touches for 60 days is put here."
	tellText    = "\n\n[nod keeps 16 MiB of one text; what came after is not kept.]\n"
)

const (
	// retainEvery is how often old things are looked for; the first time comes
	// when the clock has been seen to run evenly for that long.
	retainEvery = time.Hour
	// minLog is how many bytes of actions are worth a snapshot.
	minLog = 64 << 10
)

// upkeep is what the keeper has to know about a session's log.
type upkeep struct {
	tidied   uint64 // up to here deltas are merged
	snapshot int    // size of the newest snapshot
	since    int    // bytes of actions after it
}

func (u *upkeep) grown(bytes int) { u.since += bytes }

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
	old := time.NewTicker(retainEvery)
	defer old.Stop()
	began, beganWall := time.Now(), h.now()
	for {
		select {
		case <-h.stop:
			return
		case <-h.healed:
			h.recorded()
		case <-h.untidied:
			h.tidyAll()
		case <-old.C:
			// A clock that was set in between says nothing about age.
			if drift := time.Duration(h.now()-beganWall)*time.Millisecond - time.Since(began); drift.Abs() > time.Minute {
				h.log.Warn("the clock was set; nothing is deleted by age until nod has seen it run evenly for an hour")
				began, beganWall = time.Now(), h.now()
				continue
			}
			h.retain(context.Background())
		}
	}
}

// Close ends the keeper and notes that nothing was left open. Nothing may be
// applied any more.
func (h *Hub) Close(ctx context.Context) error {
	close(h.stop)
	<-h.stopped
	return h.store.End(ctx)
}

// recorded is called when the disk takes everything again.
func (h *Hub) recorded() {
	h.mu.Lock()
	order := slices.Clone(h.order)
	h.mu.Unlock()
	for _, s := range order {
		s.recorded()
	}
}

func (h *Hub) tidyAll() {
	for {
		h.mu.Lock()
		if len(h.untidy) == 0 {
			h.mu.Unlock()
			break
		}
		s := h.untidy[0]
		h.untidy = h.untidy[1:]
		s.queued = false
		h.mu.Unlock()
		if err := s.tidy(context.Background()); err != nil && !errors.Is(err, ErrNoSession) {
			h.log.Warn("a session's journal was not tidied", "session", s.uri, "err", err)
		}
	}
	h.unloadIdle()
}

// tidy merges the deltas of the log and, when it has grown enough, writes a
// snapshot. Deltas are merged up to a number and snapshots taken at one, never
// across: what is read after a snapshot must not hold text that is in it.
func (s *session) tidy(ctx context.Context) error {
	s.mu.Lock()
	if !s.loaded {
		s.mu.Unlock()
		return nil
	}
	if s.broken {
		s.mu.Unlock()
		return s.forgetTurns(ctx, 0)
	}
	from, to, due := s.log.tidied+1, s.seq, s.log.wantsSnapshot()
	var channels []state.Snapshot
	if due {
		channels = s.channels()
		s.log.since = 0
	}
	s.mu.Unlock()
	store := s.hub.store
	if err := store.Compact(ctx, s.uri, from, to, merge); err != nil {
		return err
	}
	if due {
		raw, err := state.Marshal(channels)
		if err != nil {
			return err
		}
		if err := store.Append(ctx, journal.Batch{Snapshots: []journal.Snapshot{{Session: s.uri, Seq: to, Data: raw}}}); err != nil {
			return err
		}
		s.mu.Lock()
		s.log.snapshot = len(raw)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.log.tidied = to
	s.mu.Unlock()
	if n, err := store.Count(ctx, s.uri); err != nil || n <= maxEvents {
		return err
	}
	s.mu.Lock()
	older := len(s.state.Turns) / 2
	s.mu.Unlock()
	if older == 0 {
		return nil
	}
	return s.forgetTurns(ctx, older)
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

// forgetTurns drops the oldest k turns, and makes what is left the journal's
// begin of the session. With none to drop it only does the latter: so a log that
// has a hole goes on.
func (s *session) forgetTurns(ctx context.Context, k int) error {
	s.mu.Lock()
	n := *s.state
	n.Turns = slices.Clone(s.state.Turns[k:])
	s.state, s.cut = &n, s.cut+k
	s.shownIn = map[string]snapshot.Part{}
	shown := snapshot.Terminals{}
	for uri, t := range s.terminals.All() {
		if _, ok := s.whereShown(uri); ok {
			shown = shown.With(uri, t)
		}
	}
	s.terminals = shown
	s.seq++
	s.changes.reset(s.seq)
	wake(s.watchers)
	cut := journal.Snapshot{Session: s.uri, Seq: s.seq}
	channels := s.channels()
	row, err := s.row(s.state.Summary, s.open, s.lastEvent, s.cut)
	s.log.tidied, s.log.since, s.broken = s.seq, 0, false
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if cut.Data, err = state.Marshal(channels); err != nil {
		return err
	}
	s.hub.log.Info("the journal of a session begins anew", "session", s.uri, "turns", k)
	if err := s.hub.store.Cut(ctx, cut); err != nil {
		return err
	}
	return s.hub.store.Append(ctx, journal.Batch{Sessions: []journal.Session{row}})
}

// bounded cuts a text that grows beyond maxText, and says so in it once. It
// reports false for what is dropped.
func (s *session) bounded(n *next, e state.Envelope) (state.Envelope, bool) {
	cut := func(has int, more string) int { // how much of more is kept; -1: the limit was passed before
		if has > maxText {
			return -1
		}
		k := min(len(more), maxText-has)
		for k > 0 && k < len(more) && !utf8.RuneStart(more[k]) {
			k--
		}
		return k
	}
	switch a := e.Action.(type) {
	case *state.SessionDelta:
		if k := cut(n.textLen(a.TurnID, a.PartID), a.Content); k < 0 {
			return e, false
		} else if k < len(a.Content) {
			e.Action = &state.SessionDelta{TurnID: a.TurnID, PartID: a.PartID, Content: a.Content[:k] + tellText}
		}
	case *state.SessionReasoning:
		if k := cut(n.textLen(a.TurnID, a.PartID), a.Content); k < 0 {
			return e, false
		} else if k < len(a.Content) {
			e.Action = &state.SessionReasoning{TurnID: a.TurnID, PartID: a.PartID, Content: a.Content[:k] + tellText}
		}
	case *state.TerminalData:
		if k := cut(n.outputLen(e.Channel), a.Data); k < 0 {
			return e, false
		} else if k < len(a.Data) {
			e.Action = &state.TerminalData{Data: a.Data[:k] + tellText}
		}
	}
	return e, true
}

// textLen returns the length of a text of the turn in progress.
func (n *next) textLen(turn, part string) int {
	if t := n.state.ActiveTurn; t != nil && t.ID == turn {
		for _, p := range slices.Backward(t.ResponseParts) {
			switch p := p.(type) {
			case *state.MarkdownPart:
				if p.ID == part {
					return p.Content.Len()
				}
			case *state.ReasoningPart:
				if p.ID == part {
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
func (h *Hub) unloadIdle() {
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
		if !oldest.open && len(oldest.watchers) == 0 && h.store.Append(context.Background(), journal.Batch{}) == nil {
			oldest.unload()
		}
		oldest.mu.Unlock()
	}
}

// retain puts away and deletes what is too old.
func (h *Hub) retain(ctx context.Context) {
	at := h.now()
	before := func(d time.Duration) int64 { return at - d.Milliseconds() }
	if err := h.store.Prune(ctx, before(keepUnknown), before(keepAudit)); err != nil {
		h.log.Warn("old entries were not pruned", "err", err)
	}
	h.mu.Lock()
	order := slices.Clone(h.order)
	h.mu.Unlock()
	for _, s := range order {
		s.mu.Lock()
		archived, last, busy := s.state.Summary.Status.Archived(), s.lastEvent, s.open || s.parent != nil
		s.mu.Unlock()
		var err error
		switch {
		case busy:
		case archived && last < before(deleteAfter):
			h.log.Info("a session is deleted, because it was archived long ago", "session", s.uri)
			err = h.Delete(ctx, s.id)
		case !archived && last < before(archiveAfter):
			err = h.Archive(ctx, s.id, true)
		}
		if err != nil {
			h.log.Warn("an old session stays", "session", s.uri, "err", err)
		}
	}
	h.unloadIdle()
}

// Archive puts a session away, or brings it back.
func (h *Hub) Archive(ctx context.Context, id string, archived bool) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.open && archived {
		return ErrTurnOpen
	}
	return s.commit(ctx, state.Source{}, []state.Envelope{{Channel: s.uri, Action: &state.SessionIsArchivedChanged{IsArchived: archived}}}, nil)
}

// Delete forgets a session and its sub-agents for good.
func (h *Hub) Delete(ctx context.Context, id string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	h.mu.Lock()
	gone := append([]*session{s}, s.below()...)
	h.mu.Unlock()
	var uris []string
	for _, x := range gone {
		x.mu.Lock()
		open := x.open
		x.mu.Unlock()
		if open {
			return ErrTurnOpen
		}
		uris = append(uris, x.uri)
	}
	if err := h.store.Delete(ctx, uris...); err != nil {
		return err
	}
	h.mu.Lock()
	for _, x := range gone {
		delete(h.sessions, x.id)
	}
	isGone := func(x *session) bool { return slices.Contains(gone, x) }
	h.order = slices.DeleteFunc(h.order, isGone)
	if s.parent != nil {
		s.parent.children = slices.DeleteFunc(s.parent.children, isGone)
	}
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
