package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"nod/agentconn"
	"nod/state"
)

// CreateSession starts a thread that asks before everything that Codex does not
// know to be safe.
func (c *conn) CreateSession(ctx context.Context, n state.NewSession) (uri string, err error) {
	err = c.call(ctx, "thread/start", map[string]any{"cwd": n.Folder, "approvalPolicy": "untrusted", "sandbox": "workspace-write"}, func(r json.RawMessage) error {
		var res attached
		if err := json.Unmarshal(r, &res); err != nil {
			return err
		}
		th, _, err := c.enter(ctx, res.Thread, res.Model)
		if err == nil {
			uri = th.uri
		}
		return err
	})
	return uri, publicly(err, "Codex could not start a session in that folder")
}

// Dispatch sends a message or stops a turn.
func (c *conn) Dispatch(ctx context.Context, s *state.Session, a state.Action) error {
	id := threadID(s)
	switch a := a.(type) {
	case *state.SessionTurnStarted:
		if err := c.attach(ctx, id); err != nil {
			return publicly(err, "Codex could not go on with this session")
		}
		params := map[string]any{"threadId": id, "input": []any{map[string]any{"type": "text", "text": a.Message.Text, "text_elements": []any{}}}}
		err := c.call(ctx, "turn/start", params, func(r json.RawMessage) error {
			var res struct {
				Turn struct {
					ID string `json:"id"`
				} `json:"turn"`
			}
			if err := json.Unmarshal(r, &res); err != nil || res.Turn.ID == "" {
				return fmt.Errorf("codex: turn/start was answered without a turn: %w", err)
			}
			th := c.threads[id]
			if th == nil {
				return errLost
			}
			th.begin(ctx, c, res.Turn.ID, a.Message)
			return nil
		})
		return publicly(err, "Codex did not take the message")
	case *state.SessionTurnCancelled:
		return publicly(c.call(ctx, "turn/interrupt", map[string]any{"threadId": id, "turnId": a.TurnID}, nil), "Codex did not stop")
	}
	return fmt.Errorf("codex: cannot dispatch %s", a.Type())
}

// publicly puts what Codex said behind a sentence of ours.
func publicly(err error, sentence string) error {
	var p *agentconn.PublicError
	var r *rpcError
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.As(err, &r):
		return &agentconn.PublicError{Message: sentence + ". It says: “" + shorten(r.Message, 300) + "”.", Err: err}
	}
	return &agentconn.PublicError{Message: sentence + ". The log says why; try again.", Err: err}
}
