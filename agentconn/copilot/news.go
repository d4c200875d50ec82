package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"nod/agentconn/plain"
	"nod/state"
)

// This file has the sentences: what Copilot tells and a person may want to know, in a
// line of the transcript. In a turn in which nothing is wrong there is none.

// quoted is a name that an agent says.
func quoted(s string) string { return "“" + plain.Shorten(s, 100) + "”" }

// ---- messages of the runtime ----

type remark struct {
	InfoType string `json:"infoType"`
	Message  string `json:"message"`
	URL      string `json:"url"`
	Tip      string `json:"tip"`
}

// info leaves out what other events say.
func info(p remark) (string, string) {
	switch p.InfoType {
	case "file_created", "file_updated", "file_deleted", "model_retry", "cancellation", "timing", "snapshot":
		return plainNote, ""
	case "warning":
		return warning(p)
	}
	return plainNote, plain.Joined("\n", p.Message, p.Tip, p.URL)
}

func warning(p remark) (string, string) { return warnNote, plain.Joined("\n", p.Message, p.URL) }

// ---- the conversation ----

func truncated(p struct {
	Removed int64 `json:"messagesRemovedDuringTruncation"`
}) (string, string) {
	if p.Removed <= 0 {
		return plainNote, ""
	}
	return warnNote, fmt.Sprintf("The conversation is longer than the model can read, so it does not read %d of the oldest messages.", p.Removed)
}

func cleared(struct{}) (string, string) {
	return plainNote, "The conversation was cleared: the model does not know what is above this."
}

func rewound(struct{}) (string, string) {
	return warnNote, "This session was taken back to an earlier point in another client. What is shown here still has what was taken back."
}

type compaction struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
	Why     string `json:"failureReason"`
	Before  int64  `json:"preCompactionTokens"`
	After   int64  `json:"postCompactionTokens"`
}

func compacted(p compaction) (string, string) {
	switch {
	case !p.Success:
		return warnNote, plain.Joined(": ", "Copilot could not sum up the conversation", cmp.Or(p.Error, plain.Words(p.Why)))
	case p.Before > 0 && p.After > 0:
		return plainNote, fmt.Sprintf("Copilot has summed up the conversation: %d tokens were %d.", p.After, p.Before)
	}
	return plainNote, "Copilot has summed up the conversation."
}

type handoff struct {
	Source     string `json:"sourceType"`
	Summary    string `json:"summary"`
	Repository struct {
		Owner  string `json:"owner"`
		Name   string `json:"name"`
		Branch string `json:"branch"`
	} `json:"repository"`
}

func handedOff(p handoff) (string, string) {
	where := plain.Joined(", ", plain.Joined("/", p.Repository.Owner, p.Repository.Name), p.Repository.Branch)
	return plainNote, plain.Joined("\n", "This session goes on with one that was "+plain.Words(p.Source)+inBrackets(plain.Shorten(where, 300))+".", p.Summary)
}

func steerable(p struct {
	Is bool `json:"remoteSteerable"`
}) (string, string) {
	if p.Is {
		return warnNote, "This session can be steered from GitHub, too."
	}
	return plainNote, "This session can no longer be steered from GitHub."
}

// ---- what it works with ----

type operation struct {
	Operation string `json:"operation"` // create, update, delete
	Path      string `json:"path"`
	Status    string `json:"status"`
}

func (p operation) verb() string {
	switch p.Operation {
	case "create":
		return "made"
	case "update":
		return "changed"
	case "delete":
		return "removed"
	}
	return plain.Words(p.Operation)
}

func planChanged(p operation) (string, string) {
	return plainNote, "Copilot has " + p.verb() + " the plan of this session."
}

func workspaceFile(p operation) (string, string) {
	return plainNote, "Copilot has " + p.verb() + " a file of the session's own: " + plain.Shorten(p.Path, 500)
}

func limitsChanged(p struct {
	Limits *struct {
		Credits *float64 `json:"maxAiCredits"`
	} `json:"sessionLimits"`
}) (string, string) {
	if p.Limits == nil || p.Limits.Credits == nil {
		return plainNote, "This session has no limit of AI credits."
	}
	return plainNote, fmt.Sprintf("This session may use %g AI credits.", *p.Limits.Credits)
}

type schedule struct {
	ID       int64  `json:"id"`
	Interval int64  `json:"intervalMs"`
	Cron     string `json:"cron"`
	At       int64  `json:"at"` // Unix milliseconds
	Prompt   string `json:"prompt"`
	Display  string `json:"displayPrompt"`
}

func scheduled(p schedule) (string, string) {
	when := "when Copilot thinks that it is time"
	switch {
	case p.Interval > 0:
		when = "every " + (time.Duration(p.Interval) * time.Millisecond).String()
	case p.Cron != "":
		when = "at “" + plain.Shorten(p.Cron, 100) + "”"
	case p.At > 0:
		when = "on " + time.UnixMilli(p.At).UTC().Format("2 January at 15:04 UTC")
	}
	return plainNote, fmt.Sprintf("Scheduled (number %d), %s: %s", p.ID, when, cmp.Or(p.Display, p.Prompt))
}

func unscheduled(p schedule) (string, string) {
	return plainNote, fmt.Sprintf("What was scheduled as number %d is cancelled.", p.ID)
}

// ---- autopilot ----

func objective(p operation) (string, string) {
	if p.Status == "cap_reached" {
		return warnNote, "Autopilot has reached the limit of its objective."
	}
	return plainNote, "The objective of autopilot was " + p.verb() + inBrackets(plain.Words(p.Status)) + "."
}

func autopilotStopped(p struct {
	Reason string `json:"reason"`
}) (string, string) {
	if p.Reason == "task_complete" || p.Reason == "aborted" { // which show
		return plainNote, ""
	}
	return warnNote, "Autopilot has stopped" + inBrackets(plain.Words(p.Reason)) + "."
}

// taskDone: the model has said what it has done. That is the answer.
func (a *agent) taskDone(_ context.Context, e event) bool {
	var p struct {
		Summary string `json:"summary"`
		Success *bool  `json:"success"`
		Outcome string `json:"outcome"`
		Reason  string `json:"reason"`
	}
	if json.Unmarshal(e.Data, &p) != nil {
		return false
	}
	if p.Success != nil && !*p.Success || p.Outcome != "" && p.Outcome != "completed" {
		a.note(warnNote, plain.Joined(": ", "Copilot says that the task is not done"+inBrackets(plain.Words(p.Outcome)), plain.Words(p.Reason)))
	}
	if a.turn != "" && p.Summary != "" {
		a.apply(&state.SessionResponsePart{TurnID: a.turn, Part: &state.MarkdownPart{ID: "task/" + e.ID, Content: state.NewText(p.Summary)}})
	}
	return true
}

func recovery(p struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}) (string, string) {
	if p.Status != "blocked" {
		return plainNote, ""
	}
	return warnNote, "Autopilot cannot go on without an approval" + inBrackets(plain.Words(p.Reason)) + "."
}

// ---- rules and models ----

func enforced(p remark) (string, string) {
	return warnNote, cmp.Or(p.Message, "A rule of the organization does not allow this.")
}

func modelDeselected(p struct {
	Previous string `json:"previousModel"`
}) (string, string) {
	return warnNote, "The model " + quoted(p.Previous) + " is not there any more. Copilot chooses another one for the next turn."
}

func tierFailed(p struct {
	Reason string `json:"reason"`
}) (string, string) {
	return warnNote, "Copilot could not change what Auto prefers" + inBrackets(plain.Words(p.Reason)) + ". It stays as it was."
}

func routeFailed(p struct {
	Reason   string `json:"reason"`
	Fallback string `json:"fallbackModel"`
}) (string, string) {
	return warnNote, "Copilot could not choose models for this" + inBrackets(plain.Words(p.Reason)) + ", so " + plain.Shorten(p.Fallback, 100) + " answers."
}

func phaseFailed(p struct {
	Role    string `json:"role"`
	Model   string `json:"model"`
	Reason  string `json:"reason"`
	Message string `json:"errorMessage"`
}) (string, string) {
	return warnNote, plain.Joined(": ", plain.Shorten(p.Model, 100)+" could not do its part"+inBrackets(plain.Words(p.Role)), cmp.Or(p.Message, plain.Words(p.Reason)))
}

func fusionDone(p struct {
	Degraded string `json:"degradedReason"`
}) (string, string) {
	if p.Degraded == "" {
		return plainNote, ""
	}
	return warnNote, "Not all models have taken part in this answer" + inBrackets(plain.Words(p.Degraded)) + "."
}

// ---- MCP servers, extensions, skills, hooks ----

type mcpServer struct {
	Name   string `json:"name"`
	Server string `json:"serverName"`
	Status string `json:"status"` // connected, failed, needs-auth, pending, disabled, stopped, not_configured
	Error  string `json:"error"`
}

func serverStatus(p mcpServer) (string, string) {
	name := "The MCP server " + quoted(cmp.Or(p.Name, p.Server))
	switch p.Status {
	case "failed":
		return warnNote, plain.Joined(": ", name+" did not start", p.Error)
	case "needs-auth":
		return warnNote, name + " wants a login. Log in to it in a terminal: copilot, then /mcp."
	}
	return plainNote, ""
}

func (a *agent) serversLoaded(_ context.Context, p struct {
	Servers []mcpServer `json:"servers"`
}) {
	for _, s := range p.Servers {
		a.noteOnce(serverStatus(s))
	}
}

func serverLost(p mcpServer) (string, string) {
	return warnNote, "The connection to the MCP server " + quoted(p.Server) + " is lost. Copilot makes it anew when it needs it."
}

func serverRemoved(p mcpServer) (string, string) {
	return plainNote, "The MCP server " + quoted(p.Server) + " was removed."
}

func oauthRecovered(p struct {
	Server  string `json:"serverName"`
	Outcome string `json:"outcome"`
}) (string, string) {
	if p.Outcome == "succeeded" {
		return plainNote, ""
	}
	return warnNote, "The login to the MCP server " + quoted(p.Server) + " has ended without success" + inBrackets(plain.Words(p.Outcome)) + "."
}

func (a *agent) agentsLoaded(_ context.Context, p struct {
	Warnings []string `json:"warnings"`
	Errors   []string `json:"errors"`
}) {
	for _, text := range append(p.Errors, p.Warnings...) {
		a.noteOnce(warnNote, "A custom agent: "+text)
	}
}

func (a *agent) extensionsLoaded(_ context.Context, p struct {
	Extensions []mcpServer `json:"extensions"`
}) {
	for _, x := range p.Extensions {
		if x.Status == "failed" {
			a.noteOnce(warnNote, "The extension "+quoted(x.Name)+" did not start.")
		}
	}
}

func attached(p struct {
	Attachments json.RawMessage `json:"attachments"`
}) (string, string) {
	return plainNote, "An extension adds to the next message in its own client: " + labels(p.Attachments)
}

func canvasOpened(p struct {
	Title  string `json:"title"`
	Canvas string `json:"canvasId"`
	URL    string `json:"url"`
}) (string, string) {
	return plainNote, plain.Joined("\n", "Copilot has opened "+quoted(cmp.Or(p.Title, p.Canvas))+" in its own client, which nod does not show.", plain.Shorten(p.URL, 500))
}

func appCalled(p struct {
	Server  string `json:"serverName"`
	Tool    string `json:"toolName"`
	Success bool   `json:"success"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}) (string, string) {
	what := "An app of the MCP server " + quoted(p.Server) + " has called its tool " + quoted(p.Tool)
	if !p.Success {
		return warnNote, plain.Joined(": ", what+", which failed", p.Error.Message)
	}
	return plainNote, what + "."
}

// skillUsed is told of a skill that a person has chosen: of others there is a call.
func skillUsed(p struct {
	Name    string `json:"name"`
	Trigger string `json:"trigger"`
}) (string, string) {
	if p.Trigger != "user-invoked" {
		return plainNote, ""
	}
	return plainNote, "The skill " + quoted(p.Name) + " is used."
}

type hookEnd struct {
	Type    string          `json:"hookType"`
	Success bool            `json:"success"`
	Output  json.RawMessage `json:"output"` // an object, if it has said something
	Error   struct {
		Message string `json:"message"`
		Source  string `json:"source"`
	} `json:"error"`
}

// hookEnded is told if the hook has failed, or said something that is not only for
// the model.
func hookEnded(p hookEnd) (string, string) {
	hook := "Hook " + plain.Words(p.Type)
	if !p.Success {
		return warnNote, plain.Joined(": ", hook+" failed"+inBrackets(plain.Shorten(p.Error.Source, 100)), p.Error.Message)
	}
	var out struct {
		Decision   string `json:"decision"`
		Permission string `json:"permissionDecision"`
		Why        string `json:"permissionDecisionReason"`
		Reason     string `json:"reason"`
		StopReason string `json:"stopReason"`
		Message    string `json:"systemMessage"`
	}
	_ = json.Unmarshal(p.Output, &out) // most say nothing
	decided := plain.Words(cmp.Or(out.Permission, out.Decision))
	if said := plain.Joined("\n", decided, cmp.Or(out.Why, out.Reason), out.StopReason, out.Message); said != "" {
		return plainNote, hook + ": " + said
	}
	return plainNote, ""
}

// sandboxed is told if something was denied.
func sandboxed(p struct {
	Kind    string `json:"kind"`
	Control string `json:"control"`
	Outcome string `json:"outcome"`
	Class   string `json:"denialClass"`
}) (string, string) {
	if p.Kind != "access_denied" && p.Outcome != "denied" {
		return plainNote, ""
	}
	return warnNote, "The sandbox has denied something" + inBrackets(plain.Joined(", ", plain.Words(p.Control), plain.Words(p.Class))) + "."
}

// ---- runs of workflows and factories ----

type run struct {
	Factory  string `json:"factoryName"`
	Workflow string `json:"workflowName"`
	Status   string `json:"status"`
	Failure  string `json:"failureType"`
}

func runStarted(p run) (string, string) {
	return plainNote, quoted(cmp.Or(p.Factory, p.Workflow)) + " has begun to run."
}

func runSettled(p run) (string, string) {
	level := warnNote
	if p.Status == "completed" {
		level = plainNote
	}
	return level, "The run has ended" + inBrackets(plain.Joined(", ", plain.Words(p.Status), plain.Words(p.Failure))) + "."
}
