package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn/forms"
	"nod/agentconn/plain"
	"nod/state"
)

// request is how one kind of request is asked and answered.
type request struct {
	// ask fills in the request and puts it before a person. It returns false, having
	// done nothing, if the request holds nothing that it can show.
	ask func(context.Context, *agent, state.Request) bool
	// method is the call that answers; "" if nod has no answer to give.
	method string
	// answer makes that call for the request of that id.
	answer func(ctx context.Context, s *sdk.Session, id string, r state.Request, d state.Decision) error
}

// requests are what waits for somebody, by the events that ask. What nod cannot
// answer is shown, with whom it waits for.
var requests = map[string]request{
	"permission.requested":               {askPermission, "session.permissions.handlePendingPermissionRequest", answerPermission},
	"user_input.requested":               {askQuestion, "session.ui.handlePendingUserInput", answerQuestion},
	"elicitation.requested":              {askElicitation, "session.ui.handlePendingElicitation", answerElicitation},
	"exit_plan_mode.requested":           {askPlan, "session.ui.handlePendingExitPlanMode", answerPlan},
	"auto_mode_switch.requested":         {askSwitch, "session.ui.handlePendingAutoModeSwitch", answerSwitch},
	"session_limits_exhausted.requested": {askLimits, "session.ui.handlePendingSessionLimitsExhausted", answerLimits},
	"sampling.requested":                 {askSampling, "session.ui.handlePendingSampling", refuseSampling},
	"command.queued":                     {askQueuedCommand, "session.commands.respondToQueuedCommand", passQueuedCommand},
	"command.execute":                    {ask: askCommand},
	"external_tool.requested":            {ask: askExternalTool},
	"mcp.oauth_required":                 {ask: askLogin},
	"mcp.headers_refresh_required":       {ask: askHeaders},
}

// requested puts a request before a person.
func (a *agent) requested(ctx context.Context, e event) bool {
	var p struct {
		RequestID string `json:"requestId"`
	}
	if json.Unmarshal(e.Data, &p) != nil || p.RequestID == "" {
		return false
	}
	r := state.Request{UpstreamID: requestID(p.RequestID), Method: e.Type, Params: e.Data}
	if !requests[e.Type].ask(ctx, a, r) {
		r.Kind, r.Title = state.RequestUnknown, "Copilot asks something that nod cannot read"
		a.askFree(ctx, r)
	}
	return true
}

type requestEnd struct {
	RequestID string `json:"requestId"`
	Result    struct {
		Kind string `json:"kind"`
	} `json:"result"` // of a permission
}

// completed ends a request.
func (a *agent) completed(ctx context.Context, p requestEnd) {
	var o outcome
	switch kind := p.Result.Kind; {
	case kind == "cancelled":
		o.withdrawn = true
	case strings.HasPrefix(kind, "approved"): // and for how long
		o.option = state.OptionApprove
	case strings.HasPrefix(kind, "denied"): // and by whom
		o.option = state.OptionDeny
	}
	a.session.answered(ctx, requestID(p.RequestID), o)
}

// askAbout puts a request before a person that belongs to a tool call, which waits
// with it. The call may not have been told yet.
func (a *agent) askAbout(ctx context.Context, call string, shown row, r state.Request) {
	c := a.session.calls[call]
	if a.turn == "" || call == "" || c != nil && c.done {
		a.askFree(ctx, r)
		return
	}
	if c == nil {
		c = a.begins(call, shown)
	}
	if c.row.input == "" {
		c.row.input, c.row.meta = shown.input, shown.meta
	}
	r.TurnID, r.ToolCallID = c.turn, c.id
	title, ready := state.Plain(r.Title), c.ready()
	ready.Confirmed, ready.ConfirmationTitle, ready.Options = "", &title, r.Options
	a.ask(ctx, r, state.Envelope{Channel: a.uri, Action: ready})
}

// askFree puts a request before a person that belongs to no tool call. AHP shows it
// as a request for input.
func (a *agent) askFree(ctx context.Context, r state.Request) {
	if r.Questions == nil {
		r.Questions = &state.InputRequest{Message: &r.Title}
	}
	r.Questions.ID = a.session.id + "/" + string(r.UpstreamID)
	a.ask(ctx, r, state.Envelope{Channel: a.uri, Action: &state.SessionInputRequested{Request: *r.Questions}})
}

// cannotShow is a Caution.
func cannotShow(what string) string {
	return "This request holds something that nod cannot show as it should be shown (" + plain.Shorten(what, 60) + "), so it can only be refused here. The whole request stands here."
}

// caution tells what a request holds beside the fields that its card shows or that
// grant nothing.
func caution(raw []byte, shown ...string) string {
	fields := forms.Members(raw)
	if fields == nil {
		return "The request cannot be read, so it can only be refused here."
	}
	for _, m := range fields {
		if string(m.Value) != "null" && !slices.Contains(shown, m.Name) {
			return cannotShow(m.Name)
		}
	}
	return ""
}

// read decodes what a request holds.
func read[P any](r state.Request) (p P, ok bool) {
	return p, json.Unmarshal(r.Params, &p) == nil
}

// ---- what waits for another program ----

type elsewhere struct {
	ServerName string          `json:"serverName"`
	ServerURL  string          `json:"serverUrl"`
	Reason     string          `json:"reason"`
	Command    string          `json:"command"`
	ToolName   string          `json:"toolName"`
	Arguments  json.RawMessage `json:"arguments"`
	Cwd        string          `json:"workingDirectory"`
}

// askSampling: an MCP server wants the model asked. That costs, and only a program
// with a model of its own can do it.
func askSampling(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[elsewhere](r)
	if !ok || p.ServerName == "" {
		return false
	}
	r.Kind, r.Title = state.RequestElsewhere, "The server “"+p.ServerName+"” wants a model to be asked"
	r.Caution = "nod asks no models for others: answer it where Copilot runs in a terminal, or refuse it here."
	r.Options = []state.ConfirmationOption{{ID: "reject", Label: "Refuse", Kind: state.OptionDeny}}
	a.askFree(ctx, r)
	return true
}

func refuseSampling(ctx context.Context, s *sdk.Session, id string, _ state.Request, _ state.Decision) error {
	_, err := s.RPC.UI.HandlePendingSampling(ctx, &rpc.UIHandlePendingSamplingRequest{RequestID: id})
	return err
}

func askQueuedCommand(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[elsewhere](r)
	if !ok || p.Command == "" {
		return false
	}
	r.Kind, r.Title, r.Input = state.RequestElsewhere, "Copilot waits for another program to carry out a command", p.Command
	r.Caution = "Only a program that knows this command can carry it out, and nod is not one: open that program, or let Copilot go on without it."
	r.Options = []state.ConfirmationOption{{ID: "pass", Label: "Go on without it", Kind: state.OptionDeny}}
	a.askFree(ctx, r)
	return true
}

func passQueuedCommand(ctx context.Context, s *sdk.Session, id string, _ state.Request, _ state.Decision) error {
	_, err := s.RPC.Commands.RespondToQueuedCommand(ctx, &rpc.CommandsRespondToQueuedCommandRequest{RequestID: id, Result: &rpc.QueuedCommandNotHandled{}})
	return err
}

func askCommand(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[elsewhere](r)
	if !ok || p.Command == "" {
		return false
	}
	r.Kind, r.Title, r.Input = state.RequestElsewhere, "Copilot waits for another program", p.Command
	r.Caution = "Only the program that gave Copilot this command can carry it out: open that program, or stop the turn here."
	a.askFree(ctx, r)
	return true
}

func askExternalTool(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[elsewhere](r)
	if !ok || p.ToolName == "" {
		return false
	}
	r.Kind, r.Title, r.Cwd = state.RequestElsewhere, "Copilot waits for another program", p.Cwd
	r.Caution = "Only the program that gave Copilot this tool can run it: open that program, or stop the turn here."
	r.Details = append([]state.Detail{{Label: "Tool", Text: p.ToolName}}, parameters(p.Arguments)...)
	a.askFree(ctx, r)
	return true
}

// askLogin: an MCP server wants a login that some program was to give. What else the
// event holds may be secret, so it is not kept.
func askLogin(ctx context.Context, a *agent, r state.Request) bool {
	return askServer(ctx, a, r, "The server “%s” wants you to log in",
		"nod keeps no logins of MCP servers: run “copilot” in a terminal on that machine, log in there with /mcp, and send your message again. If nothing happens meanwhile, stop the turn.")
}

// askHeaders: an MCP server wants new headers of the program that has set it up.
func askHeaders(ctx context.Context, a *agent, r state.Request) bool {
	return askServer(ctx, a, r, "The server “%s” wants to know again who you are",
		"Only the program that has set this server up can give Copilot new headers for it: open that program. If nothing happens, stop the turn.")
}

func askServer(ctx context.Context, a *agent, r state.Request, title, caution string) bool {
	p, _ := read[elsewhere](r) // what is odd is not kept either
	p.ServerName = cmp.Or(p.ServerName, "without a name")
	r.Params = plain.Value(struct {
		ID        json.RawMessage `json:"requestId"`
		Name      string          `json:"serverName"`
		URL       string          `json:"serverUrl"`
		Reason    string          `json:"reason"`
		Redaction string          `json:"nod"`
	}{r.UpstreamID, p.ServerName, p.ServerURL, p.Reason, "what may be secret was left out"})
	r.Kind, r.Title, r.Caution = state.RequestElsewhere, fmt.Sprintf(title, p.ServerName), caution
	r.Details = []state.Detail{{Label: "Server", Text: p.ServerURL}, {Label: "Because", Text: plain.Words(p.Reason)}}
	a.askFree(ctx, r)
	return true
}
