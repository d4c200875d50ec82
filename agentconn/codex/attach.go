package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"nod/agentconn/plain"
	"nod/state"
)

// uriScheme begins the URI of a session; the thread's id follows.
const uriScheme = state.SessionScheme

// threadID returns the thread that a session is.
func threadID(s *state.Session) string { return strings.TrimPrefix(s.Summary.Resource, uriScheme) }

const (
	// pageTurns is how many turns are asked for at once, and maxPages how many such
	// pages a session that nod sees for the first time begins with.
	pageTurns = 25
	maxPages  = 8
	// attachTries and attachPause are for a thread whose file is not written yet.
	attachTries = 6
	attachPause = 200 * time.Millisecond
)

// wireThread is a Thread of the schema, as far as nod needs it.
type wireThread struct {
	ID             string          `json:"id"`
	Preview        string          `json:"preview"` // the whole first message
	Name           string          `json:"name"`
	Cwd            string          `json:"cwd"`
	Model          string          `json:"model"`
	Ephemeral      bool            `json:"ephemeral"` // a helper of Codex's own
	ParentThreadID string          `json:"parentThreadId"`
	Source         json.RawMessage `json:"source"` // a word; an object for a sub-agent
	CreatedAt      int64           `json:"createdAt"`
	UpdatedAt      int64           `json:"updatedAt"`
	Status         threadStatus    `json:"status"`
	Turns          []historyTurn   `json:"turns"`
}

type threadStatus struct {
	Type string `json:"type"` // notLoaded, idle, systemError, active
}

type historyTurn struct {
	wireTurn
	StartedAt int64      `json:"startedAt"` // seconds
	Items     []wireItem `json:"items"`
}

// turnsPage is a page of thread/turns/list, the newest turn first.
type turnsPage struct {
	Data       []historyTurn `json:"data"`
	NextCursor string        `json:"nextCursor"`
}

// attached is what thread/start, thread/resume and thread/fork are answered with.
type attached struct {
	Thread           wireThread `json:"thread"`
	InitialTurnsPage *turnsPage `json:"initialTurnsPage"`
	inForce
}

// turns returns what came with the answer, the oldest turn first, and whether
// there are older ones.
func (a attached) turns() (ts []historyTurn, more bool) {
	if a.InitialTurnsPage == nil {
		return a.Thread.Turns, false
	}
	ts = slices.Clone(a.InitialTurnsPage.Data)
	slices.Reverse(ts)
	return ts, a.InitialTurnsPage.NextCursor != ""
}

// hidden reports whether a thread is no session of its own: a helper that Codex
// runs for itself, or a sub-agent, which begins with the call that started it.
func (w wireThread) hidden() bool {
	return w.Ephemeral || w.ParentThreadID != "" || len(w.Source) > 0 && w.Source[0] == '{'
}

func (w wireThread) title() string {
	if w.Name != "" {
		return plain.Shorten(w.Name, 200)
	}
	return state.TitleOf(w.Preview)
}

// begin makes a thread known to the hub as a session.
func (c *conn) begin(ctx context.Context, w wireThread, model string) (*state.Session, error) {
	m := &state.SessionSummary{
		Resource: uriScheme + w.ID, Provider: c.place.provider, Title: w.title(), Status: state.StatusIdle,
		CreatedAt: w.CreatedAt * 1000, ModifiedAt: w.UpdatedAt * 1000, WorkingDirectory: new(state.FileURI(w.Cwd)),
	}
	actions := []state.Action{&state.SessionReady{}}
	if model == "" {
		model = w.Model
	}
	if model != "" {
		actions = append(actions, &state.SessionModelChanged{Model: state.ModelSelection{ID: model}})
	}
	return c.sink.Begin(ctx, c.place.key, m, state.SessionConfig(c.version.settings(nil)), actions...)
}

// enter notes that this link is subscribed to a thread. The reader calls it.
func (c *conn) enter(ctx context.Context, w wireThread, model string) (*thread, *state.Session, error) {
	if w.ID == "" {
		return nil, nil, errors.New("codex: an answer without a thread")
	}
	st, err := c.begin(ctx, w, model)
	if err != nil {
		return nil, nil, err
	}
	th := c.threads[w.ID]
	if th == nil {
		th = newThread(w.ID)
		c.threads[w.ID] = th
	}
	if !c.isLive(w.ID) {
		th.model = cmp.Or(model, th.model)
		th.remember(st)
	}
	c.mu.Lock()
	c.live[w.ID] = true
	c.mu.Unlock()
	return th, st, nil
}

func newThread(id string) *thread {
	return &thread{id: id, uri: uriScheme + id, items: map[string]*item{}, tools: map[string]json.RawMessage{}, past: map[string]bool{}, config: map[string]string{}}
}

// remember takes over what the session's state tells of the thread: turns that have
// ended, settings, and _meta, which is replaced as a whole.
func (th *thread) remember(st *state.Session) {
	th.untitled, th.config = st.Summary.Title == "", configOf(st)
	for _, t := range st.Turns {
		th.past[t.ID] = true
	}
	_ = json.Unmarshal(st.Meta["nod.plan"], &th.plan)       // none if there is none
	_ = json.Unmarshal(st.Meta["nod.planWhy"], &th.planWhy) // "" if there is none
	_ = json.Unmarshal(st.Meta["nod.context"], &th.context) // none
}

func (c *conn) isLive(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[id]
}

// discover looks what runs on a server that nod has just connected to, and looks
// after what was open there when nod heard of it last.
func (c *conn) discover() {
	loaded := map[string]bool{}
	cursor := ""
	for more := true; more; more = cursor != "" {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page struct {
			Data       []string `json:"data"`
			NextCursor string   `json:"nextCursor"`
		}
		err := c.call(c.ctx, "thread/loaded/list", params, func(r json.RawMessage) error { return json.Unmarshal(r, &page) })
		if err != nil {
			c.log.Warn("what runs on the server is not known", "err", err)
			break
		}
		for _, id := range page.Data {
			loaded[id] = true
		}
		cursor = page.NextCursor
	}
	open := map[string]bool{}
	for _, st := range c.sink.Open(c.ctx, c.place.key) {
		id := threadID(st)
		open[id] = true
		c.running.Go(func() { c.regain(id) })
	}
	for id := range loaded {
		if !open[id] {
			c.running.Go(func() { c.meet(id) })
		}
	}
}

// regain goes on with a session in which something was open when nod heard of it
// last. It is ended only if Codex cannot go on with it.
func (c *conn) regain(id string) {
	err := c.follow(id)
	var refused *rpcError
	switch {
	case err == nil, c.ctx.Err() != nil, errors.Is(err, errLost): // the next link looks after it
		return
	case errors.As(err, &refused):
		c.sink.Gone(c.ctx, uriScheme+id, "Codex cannot go on with this session: it says “"+plain.Shorten(refused.Message, 300)+"”.")
	default:
		c.sink.Gone(c.ctx, uriScheme+id, "Codex does not say how this session is, so nod has ended its turn here. Open it in a terminal to see.")
	}
	c.log.Warn("an open session cannot go on", "thread", id, "err", err)
}

// meet shows a thread that is loaded on the server.
func (c *conn) meet(id string) {
	w, err := c.look(c.ctx, id)
	if err != nil {
		c.log.Debug("a thread cannot be read", "thread", id, "err", err)
		return
	}
	c.welcome(w)
}

// welcome shows a thread and subscribes to it.
func (c *conn) welcome(w wireThread) {
	if w.hidden() || w.ID == "" || c.ctx.Err() != nil {
		return
	}
	if _, err := c.begin(c.ctx, w, ""); err != nil {
		c.log.Warn("a thread is not shown", "thread", w.ID, "err", err)
		return
	}
	if err := c.attach(c.ctx, w.ID); err != nil { // one without a first turn has no file; it is followed when it wakes up
		c.log.Debug("a thread cannot be subscribed to", "thread", w.ID, "err", err)
	}
}

// follow subscribes to a thread that works. Its file may not be written yet, or the
// server be slow, so it tries some times.
func (c *conn) follow(id string) (err error) {
	for try := range attachTries {
		err = c.attach(c.ctx, id)
		if err == nil || c.ctx.Err() != nil || errors.Is(err, errLost) {
			return err
		}
		c.log.Debug("a thread cannot be subscribed to", "thread", id, "err", err)
		select {
		case <-time.After(attachPause << try):
		case <-c.ctx.Done():
		}
	}
	return err
}

// attach subscribes to a thread, if this link is not yet, and brings its session
// up to what has happened. Codex then asks again what it waits for.
func (c *conn) attach(ctx context.Context, id string) error {
	if c.isLive(id) {
		return nil
	}
	_, err, _ := c.attaching.Do(id, func() (any, error) { return nil, c.subscribe(ctx, id) })
	return err
}

func (c *conn) subscribe(ctx context.Context, id string) error {
	if c.isLive(id) {
		return nil
	}
	before, older := c.unseen(ctx, id)
	var th *thread
	resume := func(turns int) error {
		params := map[string]any{"threadId": id}
		if c.version.pages() {
			params["excludeTurns"] = true
		}
		if c.version.pages() && turns > 0 {
			params["initialTurnsPage"] = map[string]any{"limit": turns, "itemsView": "full"}
		}
		return c.call(ctx, "thread/resume", params, func(r json.RawMessage) error {
			var a attached
			if err := json.Unmarshal(r, &a); err != nil {
				return err
			}
			if a.Thread.Ephemeral {
				return errors.New("codex: a helper thread of Codex's own")
			}
			turns, more := a.turns()
			t, st, err := c.enter(ctx, a.Thread, a.Model)
			if err != nil {
				return err
			}
			th = t
			c.configure(ctx, th, a.values())
			th.replaying = true
			c.reconcile(ctx, th, st, a.Thread, united(before, turns), older || more && len(before) == 0)
			return nil
		})
	}
	err := resume(pageTurns)
	for _, turns := range []int{1, 0} { // they may hold more than nod reads
		if errors.Is(err, errTooLong) {
			err = resume(turns)
		}
	}
	if err != nil {
		return err
	}
	// What is waited for is asked again right after the answer, so before the answer
	// to another call.
	waiting := func(json.RawMessage) error {
		c.sink.Waiting(ctx, th.uri, c.epoch, th.asked)
		th.replaying, th.asked = false, nil
		return nil
	}
	if err := c.call(ctx, "thread/loaded/list", map[string]any{}, waiting); err != nil {
		c.log.Warn("what is waited for is not known", "thread", id, "err", err)
	}
	return nil
}

// unseen returns the history of a thread that nod sees for the first time. It is
// read before the thread is subscribed to, so that what happens then comes after it.
func (c *conn) unseen(ctx context.Context, id string) (turns []historyTurn, older bool) {
	if !c.version.pages() {
		return nil, false
	}
	w, err := c.look(ctx, id)
	if err != nil || w.hidden() {
		return nil, false
	}
	st, err := c.begin(ctx, w, "")
	if err != nil || len(st.Turns) > 0 || st.ActiveTurn != nil {
		return nil, false
	}
	return c.history(ctx, id)
}

// look reads a thread without its turns.
func (c *conn) look(ctx context.Context, id string) (wireThread, error) {
	var res struct {
		Thread wireThread `json:"thread"`
	}
	err := c.call(ctx, "thread/read", map[string]any{"threadId": id}, func(r json.RawMessage) error { return json.Unmarshal(r, &res) })
	return res.Thread, err
}

// history returns the newest turns of a thread, the oldest of them first, and
// whether there are older ones.
func (c *conn) history(ctx context.Context, id string) (turns []historyTurn, older bool) {
	cursor := ""
	for range maxPages {
		params := map[string]any{"threadId": id, "limit": pageTurns, "itemsView": "full"}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page turnsPage
		if err := c.call(ctx, "thread/turns/list", params, func(r json.RawMessage) error { return json.Unmarshal(r, &page) }); err != nil {
			c.log.Debug("older turns are not read", "thread", id, "err", err)
			break
		}
		turns = append(turns, page.Data...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	slices.Reverse(turns)
	return turns, cursor != ""
}

// united puts the newer list behind the older, once where they overlap.
func united(older, newer []historyTurn) []historyTurn {
	for i, t := range older {
		if len(newer) > 0 && t.ID == newer[0].ID {
			older = older[:i]
			break
		}
	}
	return append(older, newer...)
}

// renumbered are the ids that Codex 0.122 gives to items in a history, where they
// are not what they were when the items ran.
var renumbered = regexp.MustCompile(`^item-\d+$`)

// reconcile brings a session up to what a thread's history tells: turns that nod
// has not seen, and the rest of one that it has seen the begin of. skipped says
// that there are turns in between which were not read.
func (c *conn) reconcile(ctx context.Context, th *thread, st *state.Session, w wireThread, turns []historyTurn, skipped bool) {
	turns = slices.DeleteFunc(turns, func(t historyTurn) bool {
		return t.RootTurnID != "" && t.RootTurnID != t.ID && hasTurn(st, turns, t.RootTurnID)
	}) // part of that one
	if title := w.title(); title != "" && (w.Name != "" || st.Summary.Title == "") && title != st.Summary.Title {
		c.apply(ctx, th, &state.SessionTitleChanged{Title: title})
		th.untitled = false
	}
	turns = c.withoutGhosts(st, turns)
	// Whatever is before the newest turn that is known has been seen, or was put away.
	from := 0
	for i, t := range turns {
		if st.HasTurn(t.ID) {
			from, skipped = i, false
		}
	}
	active := st.ActiveTurn
	if active != nil && !slices.ContainsFunc(turns, func(t historyTurn) bool { return t.ID == active.ID }) {
		if len(turns) == 0 && w.Status.Type == "active" { // it was not asked for
			if th.turn != active.ID { // else this link has heard it
				th.recall(st)
				c.apply(ctx, th, listened(active.ID))
			}
			return
		}
		c.sink.Gone(ctx, th.uri, "Codex does not know this turn any more.")
		active = nil
	}
	for i, t := range turns[from:] {
		switch {
		case active != nil && active.ID == t.ID:
			heard := th.turn == t.ID // over this link
			if !heard {
				th.recall(st)
			}
			if t.Status == "inProgress" && !heard {
				c.apply(ctx, th, listened(t.ID))
			}
			c.catchUp(ctx, th, t, true)
		case st.HasTurn(t.ID): // it has ended
		default:
			if i == 0 && skipped {
				th.begin(ctx, c, t.ID, state.UserMessage(t.message()))
				c.apply(ctx, th, gap("Before this turn there were others, which nod did not read. Codex still has them.", t.ID))
			}
			c.catchUp(ctx, th, t, false)
		}
	}
	c.settle(ctx)
}

// hasTurn reports whether a turn is one of the thread's own: that of a sub-agent is
// part of one of its parent.
func hasTurn(st *state.Session, turns []historyTurn, id string) bool {
	return st.HasTurn(id) || slices.ContainsFunc(turns, func(t historyTurn) bool { return t.ID == id })
}

// gap is a line of nod's own in the transcript: something may be missing there.
func gap(text, turn string) *state.SessionResponsePart {
	return &state.SessionResponsePart{TurnID: turn, Part: &state.NotificationPart{
		Content: state.Plain(text), Meta: state.Meta{"nod.gap": []byte(`{"reason":"linkLost"}`)},
	}}
}

// listened says that nod has come back.
func listened(turn string) *state.SessionResponsePart {
	return gap("nod did not listen for a while here. What came meanwhile is filled in as far as Codex still tells it.", turn)
}

// message is the text that a turn began with.
func (t historyTurn) message() string {
	if len(t.Items) > 0 && t.Items[0].Type == "userMessage" {
		return t.Items[0].message()
	}
	return ""
}

// catchUp tells of a turn what its items tell. partly says that nod has seen some
// of it before.
func (c *conn) catchUp(ctx context.Context, th *thread, t historyTurn, partly bool) {
	items := t.Items
	if t.Status == "inProgress" && len(items) == 0 && !partly { // its message is still to come
		th.foreign = t.ID
		return
	}
	ended := t.Status != "inProgress"
	if ended && !partly && c.gather == nil {
		c.gather = &gathered{th: th}
		defer c.settle(ctx)
	}
	th.begin(ctx, c, t.ID, state.UserMessage(t.message()))
	if !ended { // its items are told again after a reconnect, and each must be known by then
		c.settle(ctx)
	}
	th.heard = true
	if len(items) > 0 && items[0].Type == "userMessage" {
		items = items[1:]
	}
	for _, w := range items {
		if partly && renumbered.MatchString(w.ID) && !th.lacks(w) {
			continue // nod's own is better
		}
		p := params{ThreadID: th.id, TurnID: t.ID, Item: w}
		if w.Status == "inProgress" {
			c.itemStarted(ctx, th, p)
		} else {
			c.itemCompleted(ctx, th, p)
		}
	}
	if ended {
		if partly { // its end goes with what came after it: a queued message would be taken into that
			c.gather = &gathered{th: th}
		}
		c.turnCompleted(ctx, th, params{ThreadID: th.id, TurnID: t.ID, Turn: t.wireTurn})
	}
}

// recall takes from a session's state what this link has not heard itself of the
// turn in progress.
func (th *thread) recall(st *state.Session) {
	t := st.ActiveTurn
	if m := st.SteeringMessage; m != nil {
		th.steering = []state.SessionPendingMessageSet{{Kind: state.PendingSteering, ID: m.ID, Message: m.Message}}
	}
	th.turn, th.foreign, th.message, th.heard = t.ID, "", t.Message.Text, true
	of := func(part string) *item {
		id, _, again := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(part, "/completed"), "/thoughts"), "#")
		it := th.items[id]
		if it == nil || again {
			it = &item{id: part, turn: t.ID, recalled: true}
			th.items[id] = it
		}
		return it
	}
	for _, p := range t.ResponseParts.All() {
		switch p := p.(type) {
		case *state.MarkdownPart:
			it := of(p.ID)
			it.said, it.unheard = growing{part: p.ID, bytes: []byte(p.Content.String())}, p.Meta["nod.joined"] != nil
		case *state.ReasoningPart:
			it, has := of(p.ID), growing{part: p.ID, bytes: []byte(p.Content.String())}
			it.unheard = p.Meta["nod.joined"] != nil
			if p.Meta["nod.thoughts"] != nil {
				it.thoughts = has
			} else {
				it.said = has
			}
		case *state.ToolCallPart:
			call := p.ToolCall
			it := of(call.ToolCallID)
			it.done = !call.Open()
			it.row = row{input: state.Value(call.ToolInput)}
			if call.InvocationMessage != nil {
				it.row.does = call.InvocationMessage.Text
			}
			it.content, it.terminal = call.Content, th.terminal(it)
			if slices.ContainsFunc(call.Content, func(c state.ToolResultContent) bool { return c.Type == state.ContentTerminal }) {
				it.written = -1
			}
		}
	}
}

// lacks reports whether an item that has another id now than when it ran is one of
// the turn in progress that nod has not heard: a message of the agent's, or one that
// nod has sent to it.
func (th *thread) lacks(w wireItem) bool {
	switch w.Type {
	case "agentMessage":
		for _, it := range th.items {
			if string(it.said.bytes) == w.Text {
				return false
			}
		}
		return true
	case "userMessage":
		return slices.ContainsFunc(th.steering, func(a state.SessionPendingMessageSet) bool { return a.Message.Text == w.message() })
	}
	return false
}

// ---- what a server tells everybody of its threads ----

// told is what a server tells every client of a thread, without a subscription.
type told struct {
	ThreadID string       `json:"threadId"`
	Thread   wireThread   `json:"thread"`
	Status   threadStatus `json:"status"`

	Settings threadSettings `json:"threadSettings"`
}

// broadcast handles what every client is told.
func broadcast(f func(*conn, context.Context, told)) handler {
	return func(c *conn, ctx context.Context, raw json.RawMessage) bool {
		var p told
		if json.Unmarshal(raw, &p) != nil {
			return false
		}
		f(c, ctx, p)
		return true
	}
}

func (c *conn) threadStarted(_ context.Context, p told) {
	if !c.isLive(p.Thread.ID) {
		c.running.Go(func() { c.welcome(p.Thread) })
	}
}

// statusChanged subscribes to a thread that wakes up.
func (c *conn) statusChanged(_ context.Context, p told) {
	if p.Status.Type == "active" && !c.isLive(p.ThreadID) {
		c.running.Go(func() { c.awake(p.ThreadID) })
	}
}

// awake follows a thread that works, if it is one to be shown: a session, or a
// sub-agent of one.
func (c *conn) awake(id string) {
	var w wireThread
	shown := false
	err := c.call(c.ctx, "thread/read", map[string]any{"threadId": id}, func(r json.RawMessage) error {
		res := struct{ Thread *wireThread }{&w}
		_, known := c.threads[id]
		err := json.Unmarshal(r, &res)
		shown = known || !w.hidden()
		return err
	})
	// One that has no file yet cannot be read everywhere.
	if err == nil && !(shown && w.Status.Type == "active") {
		return
	}
	if err == nil && !w.hidden() { // one that a person has deleted here is left to others
		if _, err := c.begin(c.ctx, w, ""); err != nil {
			c.log.Debug("a thread is not shown", "thread", id, "err", err)
			return
		}
	}
	_ = c.follow(id) // it is logged
}

// threadClosed ends what is open in a thread that the server has let go. A server
// keeps one that works, unless somebody deletes it.
func (c *conn) threadClosed(ctx context.Context, p told) {
	if c.threads[p.ThreadID] == nil { // it is live elsewhere, or rests
		return
	}
	c.forget(p.ThreadID)
	c.sink.Gone(ctx, uriScheme+p.ThreadID, "Codex has closed this session.")
}

// threadArchived and threadUnarchived follow what was done in another client.
// Codex unloads what is archived, without another word.
func (c *conn) threadArchived(ctx context.Context, p told) {
	c.archived(ctx, p.ThreadID, true)
	if th := c.threads[p.ThreadID]; th != nil && th.turn == "" {
		c.forget(p.ThreadID)
	}
}

func (c *conn) threadUnarchived(ctx context.Context, p told) { c.archived(ctx, p.ThreadID, false) }

func (c *conn) archived(ctx context.Context, id string, is bool) {
	uri := uriScheme + id
	c.sink.Apply(ctx, uri, state.Source{}, state.Envelope{Channel: uri, Action: &state.SessionIsArchivedChanged{IsArchived: is}})
}

func (c *conn) forget(id string) {
	delete(c.threads, id)
	c.mu.Lock()
	delete(c.live, id)
	c.mu.Unlock()
}

// resting returns the threads that nod may leave. The reader calls it.
func (c *conn) resting() (out []string) {
	for id, th := range c.threads {
		busy := th.turn != "" || !c.isLive(id)
		for _, it := range th.items {
			busy = busy || it.kind == "commandExecution" && !it.done
		}
		switch {
		case busy:
			th.rests = time.Time{}
		case th.rests.IsZero():
			th.rests = time.Now()
		case time.Since(th.rests) > restFor:
			out = append(out, id)
		}
	}
	return out
}

// leave ends the subscription to a thread.
func (c *conn) leave(id string) {
	err := c.call(c.ctx, "thread/unsubscribe", map[string]any{"threadId": id}, func(json.RawMessage) error {
		th := c.threads[id]
		c.forget(id)
		if th != nil && (th.turn != "" || th.foreign != "") { // it has woken up meanwhile
			c.running.Go(func() { _ = c.follow(id) }) // it is logged
		}
		return nil
	})
	if err != nil && c.ctx.Err() == nil {
		c.log.Warn("a thread is not left", "thread", id, "err", err)
	}
}

// terminal is the URI of a call's terminal.
func (th *thread) terminal(it *item) string {
	return "ahp-terminal:/" + th.id + "/" + it.turn + "/" + it.id
}
