package codex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nod/agentconn/plain"
	"nod/state"
)

// item is one thread item of the turn in progress, or a command that outlives its
// turn.
type item struct {
	id       string // of the part that shows it; not Codex's, if that was used before
	kind     string
	turn     string
	wire     wireItem
	unheard  bool // its start was not heard
	recalled bool // from the session's state: another connection, or another nod, has heard of it
	done     bool
	sum      [sha256.Size]byte // of what it was when it was done
	again    int               // how many items had its id before it
	said     growing           // of a message, or of a summary of thoughts
	thoughts growing           // of the thoughts themselves
	row      row               // of a tool call, as it is shown
	terminal string            // URI
	written  int               // bytes to the terminal; -1: not known
	kept     []byte            // of a command, what was written first, up to maxKept
	content  []state.ToolResultContent
}

// growing is a text of an item that grows.
type growing struct {
	part    string // that shows it; "" before there is one
	bytes   []byte
	section int
}

// wireItem holds the fields of every ThreadItem that nod shows.
type wireItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"`
	Text             string          `json:"text"`      // agentMessage, plan
	Phase            string          `json:"phase"`     // agentMessage: commentary, partial_answer, final_answer
	Questions        []question      `json:"questions"` // agentMessage
	Content          json.RawMessage `json:"content"`   // userMessage, reasoning
	Summary          []string        `json:"summary"`   // reasoning
	Status           string          `json:"status"`    // inProgress, completed, failed, declined, interrupted
	DurationMs       *float64        `json:"durationMs"`
	StartedAtMs      int64           `json:"startedAtMs"`
	Command          string          `json:"command"`
	Cwd              string          `json:"cwd"`
	Source           string          `json:"source"` // of a command: agent, userShell, ...
	CommandActions   []commandAction `json:"commandActions"`
	AggregatedOutput string          `json:"aggregatedOutput"`
	ExitCode         *int64          `json:"exitCode"`
	Changes          []fileChange    `json:"changes"`
	Server           string          `json:"server"` // mcpToolCall
	Tool             string          `json:"tool"`   // mcpToolCall, dynamicToolCall, collabAgentToolCall
	Namespace        string          `json:"namespace"`
	Arguments        json.RawMessage `json:"arguments"`
	Result           json.RawMessage `json:"result"` // mcpToolCall; of imageGeneration the image, which is not read
	Error            *wireError      `json:"error"`
	ContentItems     json.RawMessage `json:"contentItems"` // dynamicToolCall
	Success          *bool           `json:"success"`      // dynamicToolCall
	Name             string          `json:"name"`         // functionCallOutput
	Output           json.RawMessage `json:"output"`       // functionCallOutput
	Query            string          `json:"query"`        // webSearch
	Action           searchAction    `json:"action"`
	Results          json.RawMessage `json:"results"`
	Path             string          `json:"path"` // imageView
	RevisedPrompt    string          `json:"revisedPrompt"`
	SavedPath        string          `json:"savedPath"`
	Review           string          `json:"review"`
	Fragments        []fragment      `json:"fragments"` // hookPrompt
	Prompt           string          `json:"prompt"`    // collabAgentToolCall
	Receivers        []string        `json:"receiverThreadIds"`
	AgentsStates     map[string]struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"agentsStates"`
	AgentPath     string `json:"agentPath"` // subAgentActivity
	AgentThreadID string `json:"agentThreadId"`
	ActivityKind  string `json:"kind"` // of subAgentActivity: started, interacted, interrupted, completed

	raw []byte // of an item that nod has no form for
}

type (
	question struct {
		Title   string   `json:"title"`
		Options []string `json:"options"`
	}
	commandAction struct {
		Type    string `json:"type"` // read, listFiles, search, unknown
		Command string `json:"command"`
		Name    string `json:"name"`
		Path    string `json:"path"`
		Query   string `json:"query"`
	}
	searchAction struct {
		Type    string   `json:"type"` // search, openPage, findInPage, other
		Query   string   `json:"query"`
		Queries []string `json:"queries"`
		URL     string   `json:"url"`
		Pattern string   `json:"pattern"`
	}
	fragment struct {
		Text string `json:"text"`
	}
)

// UnmarshalJSON also keeps an item of an unknown type as it came.
func (w *wireItem) UnmarshalJSON(b []byte) error {
	type members wireItem
	if err := json.Unmarshal(b, (*members)(w)); err != nil {
		return err
	}
	if _, known := kinds[w.Type]; !known {
		w.raw = bytes.Clone(b)
	}
	return nil
}

// kind says how items of a type are shown: by what is done when one is heard of
// and when it is done, or, if row is not nil, by a tool call.
type kind struct {
	begin, finish func(*conn, context.Context, *thread, *item, wireItem)
	row           func(wireItem) row
}

var kinds map[string]kind

func init() { // it would refer to itself
	kinds = map[string]kind{
		"userMessage":         {begin: (*conn).userSaid},
		"agentMessage":        {finish: (*conn).finishMessage},
		"plan":                {finish: (*conn).finishMessage},
		"reasoning":           {finish: (*conn).finishReasoning},
		"enteredReviewMode":   {begin: (*conn).reviewBegins},
		"exitedReviewMode":    {finish: (*conn).reviewEnds},
		"hookPrompt":          {finish: (*conn).hookPrompt},
		"commandExecution":    {row: commandRow, finish: (*conn).finishCommand},
		"fileChange":          {row: changeRow, finish: (*conn).finishChange},
		"mcpToolCall":         {row: mcpRow, finish: (*conn).finishCall},
		"dynamicToolCall":     {row: dynamicRow, finish: (*conn).finishTool},
		"functionCallOutput":  {row: outputRow, finish: (*conn).finishCall},
		"collabAgentToolCall": {row: collabRow, finish: (*conn).finishCall},
		"subAgentActivity":    {row: activityRow, finish: (*conn).finishCall},
		"webSearch":           {row: searchRow, finish: (*conn).finishCall},
		"imageView":           {row: imageRow, finish: (*conn).finishCall},
		"imageGeneration":     {row: imageRow, finish: (*conn).finishCall},
		"sleep":               {row: sleepRow, finish: (*conn).finishCall},
		"contextCompaction":   {row: compactionRow, finish: (*conn).finishCall},
	}
}

// kindOf returns how items of a type are shown. Of an unknown type they are shown
// as they came.
func kindOf(name string) kind {
	if k, known := kinds[name]; known {
		return k
	}
	return kind{row: unknownRow, finish: (*conn).finishCall}
}

// open are the items of a turn that are not done.
func (th *thread) open(turn string) (out []*item) {
	for _, id := range slices.Sorted(maps.Keys(th.items)) {
		if it := th.items[id]; it.turn == turn && !it.done {
			out = append(out, it)
		}
	}
	return out
}

// start returns the item of that id and makes it if it is new: a delta may be the
// first that is heard of an item. An id that comes back after its item is done, or
// in another turn, or for something else, is of another item.
func (c *conn) start(ctx context.Context, th *thread, turn, id, name string, w wireItem) *item {
	it := th.items[id]
	if it != nil && it.recalled && it.turn == turn {
		it.kind = name
	}
	if it != nil && !it.done && it.turn == turn && it.kind == name {
		if w.Type != "" {
			it.wire = w
			c.describe(ctx, th, it)
		}
		return it
	}
	message := ""
	if name == "userMessage" {
		message = w.message()
	}
	c.admit(ctx, th, turn, message)
	fresh := &item{id: id, kind: name, turn: turn, wire: w, unheard: w.Type == ""}
	if it != nil && it.turn == turn {
		fresh.again = it.again + 1
		fresh.id = fmt.Sprintf("%s#%d", id, fresh.again+1)
	}
	it = fresh
	th.items[id] = it
	k := kindOf(name)
	if k.row != nil {
		c.startCall(ctx, th, it, k.row(w))
	}
	if k.begin != nil {
		k.begin(c, ctx, th, it, w)
	}
	return it
}

func (c *conn) itemStarted(ctx context.Context, th *thread, p params) {
	if th.active { // what it said is over
		th.active = false
		c.apply(ctx, th, &state.SessionActivityChanged{})
	}
	c.start(ctx, th, p.TurnID, p.Item.ID, p.Item.Type, p.Item)
}

func (c *conn) itemCompleted(ctx context.Context, th *thread, p params) {
	w, sum := p.Item, p.Item.sum()
	if it := th.items[w.ID]; it != nil && it.done && it.turn == p.TurnID && (it.recalled || it.kind == w.Type && it.sum == sum) {
		return // said again
	}
	it := c.start(ctx, th, p.TurnID, w.ID, w.Type, w)
	if finish := kindOf(w.Type).finish; finish != nil {
		finish(c, ctx, th, it, w)
	}
	// What is kept of it tells whether it is said again, and no more.
	*it = item{id: it.id, kind: it.kind, turn: it.turn, again: it.again, done: true, sum: sum, wire: wireItem{Changes: w.Changes}}
}

// sum tells items apart that have the same id.
func (w wireItem) sum() [sha256.Size]byte {
	h := sha256.New()
	if k := kindOf(w.Type); k.row != nil {
		r := k.row(w)
		fmt.Fprintf(h, "%q %q", r.does, r.input)
	} else {
		fmt.Fprintf(h, "%q %q %q %q %q", w.Text, w.Summary, w.Content, w.Review, w.Fragments)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// ---- what a person says ----

// message is the text of a userMessage. Of what is no text it has the name: nod
// loads no image.
func (w wireItem) message() string {
	var inputs []struct {
		Type   string `json:"type"` // text, image, localImage, audio, localAudio, skill, mention
		Text   string `json:"text"`
		URL    string `json:"url"`
		FileID string `json:"fileId"`
		Path   string `json:"path"`
		Name   string `json:"name"`
	}
	_ = json.Unmarshal(w.Content, &inputs) // of what is odd there is less
	var lines []string
	for _, in := range inputs {
		if in.Type == "text" || in.Text != "" {
			lines = append(lines, in.Text)
			continue
		}
		name := in.URL
		if strings.HasPrefix(name, "data:") { // the image itself
			name = ""
		}
		kind := strings.ToLower(strings.TrimPrefix(in.Type, "local"))
		lines = append(lines, plain.Shorten("["+plain.Joined(": ", kind, plain.Joined(" ", in.Name, in.Path, name, in.FileID))+"]", 300))
	}
	return plain.Joined("\n", lines...)
}

// userSaid shows what was said to a turn that runs. The message that a turn began
// with is there already. What a review is told is Codex's own.
func (c *conn) userSaid(ctx context.Context, th *thread, it *item, w wireItem) {
	if th.reviews {
		return
	}
	message := w.message()
	c.taken(ctx, th, message)
	if first := !th.heard && strings.TrimSpace(message) == strings.TrimSpace(th.message); first || message == "" {
		th.heard = true
		return
	}
	th.heard = true
	c.applyOnce(ctx, th, th.started(it.turn, it.id), &state.SessionResponsePart{TurnID: it.turn, Part: &state.NotificationPart{
		Content: state.Plain(message), Meta: state.Meta{"nod.said": plain.Value("user")},
	}})
}

// ---- what the agent says and thinks ----

func (c *conn) messageDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "agentMessage", wireItem{})
	c.grow(ctx, th, it, &it.said, it.id, p.Delta)
}

func (c *conn) planDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "plan", wireItem{})
	c.grow(ctx, th, it, &it.said, it.id, p.Delta)
}

func (c *conn) summaryDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "reasoning", wireItem{})
	c.growSection(ctx, th, it, &it.said, it.id, p.SummaryIndex, p.Delta)
}

func (c *conn) thoughtDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "reasoning", wireItem{})
	c.growSection(ctx, th, it, &it.thoughts, it.id+"/thoughts", p.ContentIndex, p.Delta)
}

func (c *conn) growSection(ctx context.Context, th *thread, it *item, t *growing, part string, section int, delta string) {
	if section != t.section && len(t.bytes) > 0 {
		delta = sectionBreak + delta
	}
	t.section = section
	c.grow(ctx, th, it, t, part, delta)
}

const sectionBreak = "\n\n"

// grow adds to a text. The part that shows it begins with the first of it.
func (c *conn) grow(ctx context.Context, th *thread, it *item, t *growing, part, delta string) {
	if t.part == "" {
		t.part = part
		meta := state.Meta{}
		if it.unheard {
			meta["nod.joined"] = plain.Value(true)
		}
		c.applyOnce(ctx, th, th.started(it.turn, part), it.shows(part, "", meta))
	}
	t.bytes = append(t.bytes, delta...)
	c.apply(ctx, th, it.adds(part, delta))
}

// shows is the action that shows a text of the item.
func (it *item) shows(part, content string, meta state.Meta) state.Action {
	if it.wire.Phase != "" {
		meta["nod.phase"] = plain.Value(it.wire.Phase)
	}
	if strings.HasSuffix(part, "/thoughts") {
		meta["nod.thoughts"] = plain.Value("raw")
	}
	if len(meta) == 0 {
		meta = nil
	}
	var p state.ResponsePart = &state.MarkdownPart{ID: part, Content: state.NewText(content), Meta: meta}
	if it.kind == "reasoning" {
		p = &state.ReasoningPart{ID: part, Content: state.NewText(content), Meta: meta}
	}
	return &state.SessionResponsePart{TurnID: it.turn, Part: p}
}

func (it *item) adds(part, delta string) state.Action {
	if it.kind == "reasoning" {
		return &state.SessionReasoning{TurnID: it.turn, PartID: part, Content: delta}
	}
	return &state.SessionDelta{TurnID: it.turn, PartID: part, Content: delta}
}

// finished returns the actions that make a text whole. The completed text is the
// truth: what was streamed gives way to it if it is another one, or has no begin.
func (it *item) finished(t *growing, part, whole string) []state.Action {
	rest, goesOn := strings.CutPrefix(whole, string(t.bytes))
	switch {
	case t.part == "" && whole == "":
		return nil
	case t.part == "":
		return []state.Action{it.shows(part, whole, state.Meta{})}
	case !goesOn || it.unheard && whole != "":
		return []state.Action{it.shows(part+"/completed", whole, state.Meta{"nod.supersedes": plain.Value(t.part)})}
	case rest != "":
		return []state.Action{it.adds(part, rest)}
	}
	return nil
}

func (c *conn) finishMessage(ctx context.Context, th *thread, it *item, w wireItem) {
	if it.said.part == "" && w.Text != "" && w.Text == th.review { // said again as a message
		return
	}
	actions := it.finished(&it.said, it.id, w.Text)
	if len(w.Questions) > 0 {
		actions = append(actions, &state.SessionResponsePart{TurnID: it.turn, Part: questionsPart(w.Questions)})
	}
	c.applyOnce(ctx, th, th.finished(it.turn, it.id), actions...)
}

// questionsPart shows questions that came with a message. They are no request:
// the answer is the next message.
func questionsPart(qs []question) state.ResponsePart {
	var b strings.Builder
	for _, q := range qs {
		b.WriteString(q.Title + "\n")
		for _, o := range q.Options {
			b.WriteString("• " + o + "\n")
		}
	}
	return &state.NotificationPart{Content: state.Plain(b.String()), Meta: state.Meta{"nod.questions": plain.Value(qs)}}
}

func (c *conn) finishReasoning(ctx context.Context, th *thread, it *item, w wireItem) {
	var content []string
	_ = json.Unmarshal(w.Content, &content) // of what is odd there is none
	actions := it.finished(&it.said, it.id, strings.Join(w.Summary, sectionBreak))
	actions = append(actions, it.finished(&it.thoughts, it.id+"/thoughts", strings.Join(content, sectionBreak))...)
	c.applyOnce(ctx, th, th.finished(it.turn, it.id), actions...)
}

func (c *conn) reviewBegins(ctx context.Context, th *thread, it *item, w wireItem) {
	th.reviews = true
	c.applyOnce(ctx, th, th.started(it.turn, it.id), &state.SessionResponsePart{TurnID: it.turn, Part: &state.NotificationPart{
		Content: state.Plain(plain.Joined(": ", "A review begins", plain.Shorten(w.Review, plain.MaxNote))), Meta: state.Meta{"nod.review": plain.Value("begin")},
	}})
}

// reviewEnds shows what a review found.
func (c *conn) reviewEnds(ctx context.Context, th *thread, it *item, w wireItem) {
	actions := []state.Action{&state.SessionResponsePart{TurnID: it.turn, Part: &state.NotificationPart{
		Content: state.Plain("The review has ended"), Meta: state.Meta{"nod.review": plain.Value("end")},
	}}}
	if th.review, th.reviews = w.Review, false; w.Review != "" {
		actions = append(actions, it.shows(it.id, w.Review, state.Meta{}))
	}
	c.applyOnce(ctx, th, th.finished(it.turn, it.id), actions...)
}

func (c *conn) hookPrompt(ctx context.Context, th *thread, it *item, w wireItem) {
	var texts []string
	for _, f := range w.Fragments {
		texts = append(texts, f.Text)
	}
	c.applyOnce(ctx, th, th.finished(it.turn, it.id), &state.SessionResponsePart{TurnID: it.turn, Part: &state.NotificationPart{
		Content: state.Plain(plain.Joined(": ", "A hook says to the agent", plain.Shorten(strings.Join(texts, "\n"), plain.MaxNote))),
	}})
}
