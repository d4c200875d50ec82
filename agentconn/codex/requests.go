package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"nod/state"
)

// decisions are the answers to both kinds of approval (schema
// CommandExecutionApprovalDecision, FileChangeApprovalDecision). Codex names
// fewer in availableDecisions but takes them all.
func decisions(what string) []state.ConfirmationOption {
	return []state.ConfirmationOption{
		{ID: "accept", Label: "Approve once", Kind: state.OptionApprove},
		{ID: "acceptForSession", Label: "Approve for this session: " + what, Kind: state.OptionApprove, Group: new(int64(1))},
		{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		{ID: "cancel", Label: "Deny and stop the turn", Kind: state.OptionDeny, Group: new(int64(1))},
	}
}

type requestParams struct {
	ThreadID       string          `json:"threadId"`
	TurnID         string          `json:"turnId"`
	ItemID         string          `json:"itemId"`
	Reason         string          `json:"reason"`
	Command        string          `json:"command"`
	Cwd            string          `json:"cwd"`
	GrantRoot      string          `json:"grantRoot"`
	CommandActions []commandAction `json:"commandActions"`
	Questions      []wireQuestion  `json:"questions"`
}

type wireQuestion struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	IsOther  bool   `json:"isOther"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// serverRequest turns a request of Codex into one that waits for a person.
func (c *conn) serverRequest(ctx context.Context, m message) {
	var p requestParams
	readable := json.Unmarshal(m.Params, &p) == nil
	if !readable { // for the thread alone
		var t struct {
			ThreadID string `json:"threadId"`
		}
		_ = json.Unmarshal(m.Params, &t)
		p = requestParams{ThreadID: t.ThreadID}
	}
	th := c.threads[p.ThreadID]
	if th == nil {
		c.log.Warn("a request for a thread that nod does not have stays unanswered", "method", shorten(m.Method, 80))
		raw, _ := json.Marshal(m) // it was JSON a moment ago
		c.sink.Opaque(ctx, "", raw)
		return
	}
	if th.replaying {
		th.asked = append(th.asked, m.ID)
	}
	r := state.Request{
		Session: th.uri, TurnID: p.TurnID, Provider: Provider, Epoch: c.epoch,
		UpstreamID: m.ID, Method: m.Method, Params: m.Params,
		Reason: p.Reason, Cwd: p.Cwd,
	}
	if r.TurnID == "" {
		r.TurnID = th.turn
	}
	switch {
	case readable && m.Method == "item/commandExecution/requestApproval" && p.Command != "":
		c.askCommand(ctx, th, p, r)
	case readable && m.Method == "item/fileChange/requestApproval" && len(th.changes(p.ItemID)) > 0:
		c.askFileChange(ctx, th, p, r)
	case readable && m.Method == "item/tool/requestUserInput" && len(p.Questions) > 0:
		c.askQuestions(ctx, th, p, r)
	default:
		r.Kind, r.Title = state.RequestUnknown, "Codex asks something that nod does not know"
		c.sink.Ask(ctx, r)
	}
}

// changes returns what a file change would change, nil if the item is none.
func (th *thread) changes(itemID string) []fileChange {
	if it := th.items[itemID]; it != nil && it.kind == "fileChange" {
		return it.wire.Changes
	}
	return nil
}

// shownFields are the parameters of an approval that a card shows or that grant
// nothing. A request with any other asks for more than nod can show.
var shownFields = map[string]bool{
	"threadId": true, "turnId": true, "itemId": true, "startedAtMs": true, "environmentId": true, "kind": true, "reason": true,
	"command": true, "cwd": true, "commandActions": true, "proposedExecpolicyAmendment": true, "availableDecisions": true,
	"grantRoot": true, "approvalId": true,
}

// caution tells what a request holds that its card does not show.
func caution(raw []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return "The request cannot be read."
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		if !shownFields[name] && value != "null" || name == "kind" && value != `"command"` && value != "null" {
			return "This request holds something that nod cannot show as it should be shown (" + shorten(name, 60) + "), so it can only be refused here. The whole request is below."
		}
	}
	return ""
}

func (c *conn) askCommand(ctx context.Context, th *thread, p requestParams, r state.Request) {
	w := wireItem{Type: "commandExecution", ID: p.ItemID, Command: p.Command, Cwd: p.Cwd, CommandActions: p.CommandActions}
	it := c.start(ctx, th, r.TurnID, p.ItemID, "commandExecution", w)
	r.ToolCallID, r.Kind, r.Title, r.Input = p.ItemID, state.RequestCommand, "Run a command?", p.Command
	if r.Cwd == "" {
		r.Cwd = it.wire.Cwd
	}
	r.Options = decisions("the same command only")
	c.ask(ctx, th, r, w.summary())
}

func (c *conn) askFileChange(ctx context.Context, th *thread, p requestParams, r state.Request) {
	changes := th.changes(p.ItemID)
	r.ToolCallID, r.Kind, r.Title = p.ItemID, state.RequestFileChange, "Change files?"
	r.Diff = unified(changes)
	if p.GrantRoot != "" {
		r.Title = "Change files, and allow writing below " + p.GrantRoot + " for this session?"
	}
	r.Options = decisions("these files only")
	c.ask(ctx, th, r, "Edit "+fileNames(changes))
}

// ask records the request and puts its tool call into pending-confirmation.
func (c *conn) ask(ctx context.Context, th *thread, r state.Request, invocation string) {
	title := state.Plain(r.Title)
	r.Caution = caution(r.Params)
	input := r.Input
	if r.Kind == state.RequestFileChange {
		input = r.Diff
	}
	c.sink.Ask(ctx, r, state.Envelope{Channel: th.uri, Action: &state.SessionToolCallReady{
		TurnID: r.TurnID, ToolCallID: r.ToolCallID, InvocationMessage: state.Plain(invocation),
		ToolInput: &input, ConfirmationTitle: &title, Options: r.Options,
	}})
}

func (c *conn) askQuestions(ctx context.Context, th *thread, p requestParams, r state.Request) {
	q := &state.InputRequest{ID: c.epoch + "/" + string(r.UpstreamID)}
	for _, w := range p.Questions {
		x := state.Question{ID: w.ID, Kind: "text", Title: state.Optional(w.Header), Message: w.Question}
		if len(w.Options) > 0 {
			x.Kind, x.AllowFreeformInput = "single-select", &w.IsOther
			for _, o := range w.Options {
				x.Options = append(x.Options, state.QuestionOption{ID: o.Label, Label: o.Label, Description: state.Optional(o.Description)})
			}
		}
		q.Questions = append(q.Questions, x)
	}
	r.Kind, r.Title, r.Questions = state.RequestQuestion, "Codex has a question", q
	r.Options = []state.ConfirmationOption{{ID: "answer", Label: "Answer", Kind: state.OptionApprove}}
	c.sink.Ask(ctx, r, state.Envelope{Channel: th.uri, Action: &state.SessionInputRequested{Request: *q}})
}

// Answer writes a decision. The id goes back with its JSON type: Codex passes
// over "10" where it asked with 10.
func (c *conn) Answer(_ context.Context, r state.Request, d state.Decision) error {
	if r.Epoch != c.epoch {
		return errors.New("codex: the request is of an earlier connection")
	}
	var result any
	switch r.Kind {
	case state.RequestCommand, state.RequestFileChange:
		result = map[string]string{"decision": d.OptionID}
	case state.RequestQuestion:
		answers := map[string]any{}
		for _, q := range r.Questions.Questions {
			a := d.Answers[q.ID]
			given := append([]string{}, a.Selected...)
			if a.Text != "" {
				given = append(given, a.Text)
			}
			answers[q.ID] = map[string]any{"answers": given}
		}
		result = map[string]any{"answers": answers}
	default:
		return fmt.Errorf("codex: nod does not answer %s", r.Method)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return c.write(message{ID: r.UpstreamID, Result: raw})
}

func (c *conn) resolved(ctx context.Context, th *thread, p params) {
	c.sink.Resolved(ctx, th.uri, c.epoch, p.RequestID)
}
