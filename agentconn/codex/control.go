package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

// CreateSession starts a thread. Unless a person wants it otherwise, it asks
// before everything that Codex does not know to be safe.
func (c *conn) CreateSession(ctx context.Context, n state.NewSession) (uri string, err error) {
	params := map[string]any{"cwd": n.Folder}
	for _, s := range c.version.settings(nil) {
		if v := n.Config[s.Name]; v != "" {
			params[s.Name] = v
		} else if s.Default != "" {
			params[s.Name] = s.Default
		}
	}
	if effort, ok := params[settingEffort]; ok { // turn/start and config.toml know it, thread/start does not
		delete(params, settingEffort)
		params["config"] = map[string]any{"model_reasoning_effort": effort}
	}
	err = c.call(ctx, "thread/start", params, func(r json.RawMessage) error {
		var res attached
		if err := json.Unmarshal(r, &res); err != nil {
			return err
		}
		res.Thread.Cwd = cmp.Or(res.Thread.Cwd, n.Folder)
		th, _, err := c.enter(ctx, res.Thread, res.Model)
		if err == nil {
			uri = th.uri
			c.configure(ctx, th, res.values())
		}
		return err
	})
	return uri, publicly(err, "Codex could not start a session in that folder")
}

func textInput(text string) []any {
	return []any{map[string]any{"type": "text", "text": text, "text_elements": []any{}}}
}

// Dispatch implements agentconn.Conn.
func (c *conn) Dispatch(ctx context.Context, s *state.Session, a state.Action) error {
	id := threadID(s)
	switch a := a.(type) {
	case *state.SessionTurnStarted:
		if s.Summary.Status.Archived() { // Codex resumes none that is
			_ = c.call(ctx, "thread/unarchive", map[string]any{"threadId": id}, nil) // it may be so in nod alone
		}
		// A thread that was opened in a terminal has no file before its first turn.
		var refused *rpcError
		if err := c.attach(ctx, id); err != nil && !(errors.As(err, &refused) && len(s.Turns) == 0) {
			return publicly(err, "Codex could not go on with this session")
		}
		params := map[string]any{"threadId": id, "input": textInput(a.Message.Text)}
		values := chosen(a.Message, params)
		return publicly(c.startTurn(ctx, s, "turn/start", params, a.Message, values), "Codex did not take the message")
	case *state.SessionTurnCancelled:
		err := c.call(ctx, "turn/interrupt", map[string]any{"threadId": id, "turnId": a.TurnID}, nil)
		if err == nil && c.version.pages() {
			c.endCommands(ctx, s)
		}
		return publicly(err, "Codex did not stop")
	case *state.SessionPendingMessageSet:
		return publicly(c.steer(ctx, s, a), "Codex did not take it into the turn")
	case *state.SessionTitleChanged:
		return c.call(ctx, "thread/name/set", map[string]any{"threadId": id, "name": a.Title}, nil)
	case *state.SessionIsArchivedChanged:
		method := "thread/unarchive"
		if a.IsArchived {
			method = "thread/archive"
		}
		return c.call(ctx, method, map[string]any{"threadId": id}, nil)
	}
	return fmt.Errorf("codex: cannot dispatch %s", a.Type())
}

// endCommands ends the commands of the turn in progress, which Codex leaves running
// when it stops the turn. Codex 0.122 has no word for it.
func (c *conn) endCommands(ctx context.Context, s *state.Session) {
	if s.ActiveTurn == nil {
		return
	}
	mine := map[string]bool{}
	for _, p := range s.ActiveTurn.ResponseParts.All() {
		if call, ok := p.(*state.ToolCallPart); ok && call.ToolCall.Status == state.ToolRunning {
			id, _, _ := strings.Cut(call.ToolCall.ToolCallID, "#")
			mine[id] = true
		}
	}
	if len(mine) == 0 {
		return
	}
	thread := map[string]any{"threadId": threadID(s)}
	var running struct {
		Data []struct {
			ItemID    string `json:"itemId"`
			ProcessID string `json:"processId"`
		} `json:"data"`
	}
	err := c.call(ctx, "thread/backgroundTerminals/list", thread, func(r json.RawMessage) error { return json.Unmarshal(r, &running) })
	for _, p := range running.Data {
		if mine[p.ItemID] {
			err = errors.Join(err, c.call(ctx, "thread/backgroundTerminals/terminate", map[string]any{"threadId": threadID(s), "processId": p.ProcessID}, nil))
		}
	}
	if err != nil {
		c.log.Warn("a command of a turn that was stopped may still run", "thread", threadID(s), "err", err)
	}
}

// startTurn makes a call that is answered with a turn, and begins it.
func (c *conn) startTurn(ctx context.Context, s *state.Session, method string, params map[string]any, m state.Message, values map[string]string) error {
	return c.call(ctx, method, params, func(r json.RawMessage) error {
		var res struct {
			Turn struct {
				ID string `json:"id"`
			} `json:"turn"`
		}
		if err := json.Unmarshal(r, &res); err != nil || res.Turn.ID == "" {
			return fmt.Errorf("codex: %s was answered without a turn: %w", method, err)
		}
		th := c.threads[threadID(s)]
		if th == nil { // without a file it cannot be followed before; or it was left a moment ago
			th = newThread(threadID(s))
			th.remember(s)
			c.threads[th.id] = th
			c.running.Go(func() { _ = c.follow(th.id) }) // it is logged
		}
		th.begin(ctx, c, res.Turn.ID, m)
		c.configure(ctx, th, values)
		return nil
	})
}

// steer says something to the turn in progress. It waits in the session's state
// until Codex tells it as an item of the turn.
func (c *conn) steer(ctx context.Context, s *state.Session, a *state.SessionPendingMessageSet) error {
	id := threadID(s)
	params := map[string]any{"threadId": id, "expectedTurnId": s.ActiveTurn.ID, "input": textInput(a.Message.Text)}
	return c.call(ctx, "turn/steer", params, func(json.RawMessage) error {
		th := c.threads[id]
		if th == nil || th.turn != s.ActiveTurn.ID {
			return errLost
		}
		th.steering = append(th.steering, *a)
		c.apply(ctx, th, th.steers(a.ID))
		return nil
	})
}

// taken follows a message that Codex has taken into a turn. The reader calls it.
func (c *conn) taken(ctx context.Context, th *thread, text string) {
	for i, a := range th.steering {
		if a.Message.Text == text {
			newest := th.steering[len(th.steering)-1].ID
			th.steering = slices.Delete(th.steering, i, i+1)
			c.apply(ctx, th, th.steers(newest))
			return
		}
	}
}

// steers shows what Codex has not taken yet. AHP has room for one such message, so
// several are shown as one, under the id of the newest.
func (th *thread) steers(id string) state.Action {
	if len(th.steering) == 0 {
		return &state.SessionPendingMessageRemoved{Kind: state.PendingSteering, ID: id}
	}
	var texts []string
	for _, a := range th.steering {
		texts = append(texts, a.Message.Text)
	}
	return &state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: id, Message: state.UserMessage(strings.Join(texts, "\n\n"))}
}

// ---- operations ----

// Names of the operations and of what they want to know.
const (
	opFork    = "fork"
	opCompact = "compact"
	opReview  = "review"

	forkTurn   = "turn"
	reviewOf   = "of"
	reviewWhat = "what"
)

// reviewTargets are what can be reviewed: the type of a ReviewTarget, and the
// field of it that says which one.
var reviewTargets = []struct{ kind, field, title string }{
	{"uncommittedChanges", "", "Uncommitted changes"},
	{"baseBranch", "branch", "All since a base branch"},
	{"commit", "sha", "One commit"},
	{"custom", "instructions", "As you describe it"},
}

// offers returns what this version can do.
func (c *conn) offers(terminal string) state.Offers {
	review := state.Operation{Name: opReview, Title: "Review", Description: "Codex reads changes and says what is wrong with them. It changes nothing.", Params: []state.Setting{
		{Name: reviewOf, Title: "What to review", Default: reviewTargets[0].kind},
		{Name: reviewWhat, Title: "Which", Open: true, Description: "The base branch, the commit, or what to look at. Not needed for uncommitted changes."},
	}}
	for _, t := range reviewTargets {
		review.Params[0].Choices = append(review.Params[0].Choices, state.Choice{Value: t.kind, Label: t.title})
	}
	fork := state.Operation{Name: opFork, Title: "Fork", Description: "A new session that begins with what was said here. This one stays as it is, and both work in the same folder."}
	if c.version.pages() {
		fork.Params = []state.Setting{{Name: forkTurn, Title: "Up to", Turns: true}}
	}
	return state.Offers{
		Steers: true, Terminal: terminal,
		Operations: []state.Operation{
			fork, review,
			{Name: opCompact, Title: "Compact", Description: "Codex puts a summary in the place of what it remembers of this session, so that more fits. What you see here stays."},
		},
	}
}

// Operate implements agentconn.Controller.
func (c *conn) Operate(ctx context.Context, s *state.Session, operation string, args map[string]string) (string, error) {
	id := threadID(s)
	switch operation {
	case opFork:
		uri, err := c.fork(ctx, s, args[forkTurn])
		return uri, publicly(err, "Codex could not fork this session")
	case opCompact:
		err := c.attach(ctx, id)
		if err == nil {
			err = c.call(ctx, "thread/compact/start", map[string]any{"threadId": id}, nil)
		}
		return "", publicly(err, "Codex did not compact this session")
	case opReview:
		target, words, err := reviewTarget(args)
		if err != nil {
			return "", err
		}
		if err := c.attach(ctx, id); err != nil {
			return "", publicly(err, "Codex could not go on with this session")
		}
		params := map[string]any{"threadId": id, "target": target, "delivery": "inline"}
		return "", publicly(c.startTurn(ctx, s, "review/start", params, state.UserMessage(words), nil), "Codex did not begin a review")
	}
	return "", fmt.Errorf("codex: no operation %q", operation)
}

// reviewTarget makes a ReviewTarget, and a message that says what it is.
func reviewTarget(args map[string]string) (target map[string]any, words string, err error) {
	for _, t := range reviewTargets {
		if t.kind != args[reviewOf] {
			continue
		}
		target, words = map[string]any{"type": t.kind}, "Review: "+strings.ToLower(t.title[:1])+t.title[1:]
		if t.field != "" {
			what := strings.TrimSpace(args[reviewWhat])
			if what == "" {
				return nil, "", &agentconn.PublicError{Message: "Say which one is to be reviewed. Nothing was started."}
			}
			target[t.field], words = what, words+": "+what
		}
		return target, words, nil
	}
	return nil, "", &agentconn.PublicError{Message: "Choose what is to be reviewed. Nothing was started."}
}

// fork makes a thread that begins as another did, and subscribes to it.
func (c *conn) fork(ctx context.Context, s *state.Session, last string) (uri string, err error) {
	params := map[string]any{"threadId": threadID(s)}
	if c.version.pages() {
		params["excludeTurns"] = true
		if last != "" {
			params["lastTurnId"] = last
		}
	}
	var res attached
	if err := c.call(ctx, "thread/fork", params, func(r json.RawMessage) error { return json.Unmarshal(r, &res) }); err != nil {
		return "", err
	}
	id := res.Thread.ID
	if id == "" {
		return "", errors.New("codex: thread/fork was answered without a thread")
	}
	name := plain.Shorten(s.Summary.Title, state.MaxTitle) + " (fork)"
	if err := c.call(ctx, "thread/name/set", map[string]any{"threadId": id, "name": name}, nil); err != nil {
		c.log.Warn("a fork keeps the name of what it was made of", "thread", id, "err", err)
	}
	return uriScheme + id, c.attach(ctx, id)
}

// publicly puts what Codex said behind a sentence of ours.
func publicly(err error, sentence string) error {
	var p *agentconn.PublicError
	var r *rpcError
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.As(err, &r):
		return &agentconn.PublicError{Message: sentence + ". It says: “" + plain.Shorten(r.Message, 300) + "”.", Err: err}
	}
	return &agentconn.PublicError{Message: sentence + ". The log says why; try again.", Err: err}
}
