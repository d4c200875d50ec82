package copilot

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/state"
)

// request is how one kind of request is answered.
type request struct {
	// answer sends a decision for the request of that id.
	answer func(ctx context.Context, s *sdk.Session, id string, r state.Request, d state.Decision) error
}

// requests are what can be answered, by the events that ask.
var requests = map[string]request{
	"permission.requested": {answerPermission},
}

type permissionData struct {
	RequestID      string          `json:"requestId"`
	Request        json.RawMessage `json:"permissionRequest"`
	Prompt         json.RawMessage `json:"promptRequest"`
	ResolvedByHook bool            `json:"resolvedByHook"`
}

type prompt struct {
	Kind            string `json:"kind"`
	ToolCallID      string `json:"toolCallId"`
	Intention       string `json:"intention"`
	FullCommandText string `json:"fullCommandText"`
	FileName        string `json:"fileName"`
	Diff            string `json:"diff"`
	Path            string `json:"path"`
}

func (a *agent) permissionRequested(ctx context.Context, e event) bool {
	var p permissionData
	var q prompt
	if json.Unmarshal(e.Data, &p) != nil || p.RequestID == "" || json.Unmarshal(p.Prompt, &q) != nil {
		return false
	}
	if p.ResolvedByHook {
		return true
	}
	r := state.Request{
		UpstreamID: requestID(p.RequestID), Method: e.Type, Params: e.Data, ToolCallID: q.ToolCallID, Reason: q.Intention,
		Kind: state.RequestCommand, Title: "Run a command?", Input: q.FullCommandText,
		Options: []state.ConfirmationOption{
			{ID: "approve-once", Label: "Approve once", Kind: state.OptionApprove},
			{ID: "reject", Label: "Deny", Kind: state.OptionDeny},
		}, Explains: "reject",
	}
	c := a.session.calls[q.ToolCallID]
	if c == nil {
		c = a.begins(q.ToolCallID, row{tool: q.Kind, name: "Run a command", does: q.Intention, input: q.FullCommandText, meta: asCommand})
	}
	title := state.Plain(r.Title)
	ready := c.ready()
	ready.Confirmed, ready.ConfirmationTitle, ready.Options = "", &title, r.Options
	a.ask(ctx, r, state.Envelope{Channel: a.uri, Action: ready})
	return true
}

func (a *agent) requestCompleted(ctx context.Context, p struct {
	RequestID string `json:"requestId"`
}) {
	a.session.answered(ctx, requestID(p.RequestID))
}

func answerPermission(ctx context.Context, s *sdk.Session, id string, _ state.Request, d state.Decision) error {
	var result rpc.PermissionDecision = &rpc.PermissionDecisionApproveOnce{ApprovedInteractively: sdk.Bool(true)}
	if d.OptionID == "reject" {
		result = &rpc.PermissionDecisionReject{Feedback: state.Optional(d.Reason)}
	}
	res, err := s.RPC.Permissions.HandlePendingPermissionRequest(ctx, &rpc.PermissionDecisionRequest{RequestID: id, Result: result})
	if err == nil && !res.Success {
		return fmt.Errorf("copilot: %s was answered by somebody else", id)
	}
	return err
}
