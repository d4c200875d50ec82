package copilot

import (
	"context"
	"encoding/json"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

// refusals are the answers that refuse a request by its id. What is not here can only be
// answered by who has read it.
var refusals = map[string]state.ConfirmationOption{
	"permission.requested":               {ID: rejectOption, Label: "Deny", Kind: state.OptionDeny},
	"elicitation.requested":              {ID: "decline", Label: "Decline", Kind: state.OptionDeny},
	"exit_plan_mode.requested":           {ID: "reject", Label: "Not yet: go on planning", Kind: state.OptionDeny},
	"auto_mode_switch.requested":         {ID: "no", Label: "Do not switch", Kind: state.OptionDeny},
	"session_limits_exhausted.requested": {ID: "cancel", Label: "Leave the limit, and stop here", Kind: state.OptionDeny},
	"sampling.requested":                 {ID: "reject", Label: "Refuse", Kind: state.OptionDeny},
	"command.queued":                     {ID: "pass", Label: "Go on without it", Kind: state.OptionDeny},
}

// heardLong takes the outline of an event that is longer than nod reads. A request is put
// before a person, who can only refuse it.
func (a *agent) heardLong(ctx context.Context, e event) {
	var p struct {
		RequestID      string `json:"requestId"`
		ResolvedByHook bool   `json:"resolvedByHook"`
	}
	_ = json.Unmarshal(e.Data, &p) // else it names no request
	if requests[e.Type].ask == nil || p.RequestID == "" {
		a.tellLong(e.long, e.Type)
		return
	}
	if p.ResolvedByHook { // it waits for nobody
		return
	}
	r := state.Request{UpstreamID: requestID(p.RequestID), Method: e.Type, Params: e.Data, Title: "Copilot asks something that is too long to be shown"}
	if !e.mayBeShared() {
		r.Params = plain.Value(map[string]string{"requestId": p.RequestID})
	}
	var options []state.ConfirmationOption
	if o, ok := refusals[e.Type]; ok {
		options = append(options, o)
	}
	a.askFree(ctx, e.long.Refusable(r, options))
}

// tellLong says on the page of a session that there was something which nod has not read.
func (a *agent) tellLong(long *agentconn.Outline, what string) {
	if a.unknown++; a.unknown <= maxUnknown {
		a.note(warnNote, long.Tell(displayName, plain.Shorten(what, 80)))
	}
}

// tellLong says so on the pages of all sessions that are at work, because it is not known
// whose it is.
func (c *conn) tellLong(long *agentconn.Outline) {
	for _, s := range c.sessions {
		if s.main.turn != "" {
			s.tellLong(c.recording(), long)
		}
	}
}

func (s *session) tellLong(ctx context.Context, long *agentconn.Outline) {
	s.from = state.Source{}
	s.main.tellLong(long, "")
	s.flush(ctx)
}
