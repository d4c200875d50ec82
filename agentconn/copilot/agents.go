package copilot

import (
	"cmp"
	"context"
	"slices"

	"nod/agentconn/plain"
	"nod/state"
)

type subagent struct {
	ToolCallID  string `json:"toolCallId"`
	Name        string `json:"agentName"`
	DisplayName string `json:"agentDisplayName"`
	Description string `json:"agentDescription"`
	Model       string `json:"model"`
	Parent      string `json:"parentId"`
	Error       string `json:"error"`
	Cancelled   bool   `json:"cancelled"`
}

// agentStarted: the call that has started a sub-agent refers to its session, which
// begins with that. One that no call in progress has started gets a row of its own.
func (a *agent) agentStarted(_ context.Context, p subagent) {
	s := a.session
	if a == s.main {
		return
	}
	a.title = cmp.Or(p.DisplayName, p.Name)
	title := plain.Shorten(cmp.Or(p.DisplayName, p.Description, p.Name, "Sub-agent"), 200)
	c := s.calls[p.ToolCallID]
	if c == nil || c.agent == a || c.done {
		if c = s.calls[a.row()]; c == nil {
			parent := s.subs[p.Parent]
			if parent == nil || parent.turn == "" || parent == a {
				parent = s.main
			}
			if parent.turn == "" {
				parent.beginAlone(cmp.Or(s.from.ID, a.row()))
			}
			c = parent.begins(a.row(), row{tool: "task", name: "Sub-agent", does: title})
		}
	}
	c.child = a
	if !slices.ContainsFunc(c.content, func(x state.ToolResultContent) bool { return state.Value(x.Resource) == a.uri }) {
		c.content = append(c.content, state.SubagentContent(a.uri, title))
		c.agent.apply(c.contentAction())
	}
}

// row is the id of the row of a sub-agent that no call has started.
func (a *agent) row() string { return "agent-" + a.id }

func (a *agent) agentConfigured(_ context.Context, p subagent) { a.modelIs(p.Model) }

func (a *agent) agentEnded(_ context.Context, p subagent) {
	if a == a.session.main {
		return
	}
	if p.Cancelled {
		a.cancel()
	}
	a.ends(p.Error)
}

// ends ends the turn of a sub-agent, and its row.
func (a *agent) ends(why string) {
	if why != "" {
		a.failure = &state.ErrorInfo{ErrorType: "copilot.subagent", Message: plain.Shorten(why, plain.MaxNote)}
	}
	a.end()
	a.failure = nil
	if c := a.session.calls[a.row()]; c != nil && !c.done {
		c.done = true
		c.agent.apply(&state.SessionToolCallComplete{TurnID: c.turn, ToolCallID: c.id, Result: state.ToolCallResult{
			Success: why == "", PastTenseMessage: state.Plain(c.row.does), Content: slices.Clone(c.content),
		}})
	}
}

// named returns the sub-agent that Copilot calls so.
func (s *session) named(name string) *agent {
	for id, sub := range s.subs {
		if name != "" && (id == name || sub.title == name) {
			return sub
		}
	}
	return nil
}

type selected struct {
	Name        string `json:"agentName"`
	DisplayName string `json:"agentDisplayName"`
}

// agentSelected: another agent answers. A sub-agent has selected what it is.
func (a *agent) agentSelected(_ context.Context, p selected) {
	if a == a.session.main {
		a.note(plainNote, "The agent “"+plain.Shorten(cmp.Or(p.DisplayName, p.Name), 100)+"” answers from here on.")
	}
}

func (a *agent) agentDeselected(context.Context, struct{}) {
	if a == a.session.main {
		a.note(plainNote, "Copilot's own agent answers again.")
	}
}

// notification is what the runtime says to the model when something has happened
// beside the turn. What it says in words is for the model.
type notification struct {
	Kind struct {
		Type        string `json:"type"`
		AgentID     string `json:"agentId"`
		Status      string `json:"status"` // completed, failed, …
		Description string `json:"description"`
		ShellID     string `json:"shellId"`
		ExitCode    *int64 `json:"exitCode"`
		SenderName  string `json:"senderName"`
		Summary     string `json:"summary"`
		SourcePath  string `json:"sourcePath"`
	} `json:"kind"`
}

func (a *agent) notified(_ context.Context, p notification) {
	s, k := a.session, p.Kind
	switch k.Type {
	case "shell_completed", "shell_detached_completed":
		s.shellEnded(k.ShellID, k.ExitCode)
	case "agent_idle", "agent_completed":
		sub, why := s.named(k.AgentID), ""
		if k.Status == "failed" {
			why = "The sub-agent has failed."
			a.note(warnNote, plain.Joined(": ", "A sub-agent in the background has failed", k.Description))
		}
		if sub != nil {
			sub.ends(why)
		}
	case "new_inbox_message":
		a.note(plainNote, plain.Joined(": ", "A message of “"+plain.Shorten(k.SenderName, 100)+"” has come", k.Summary))
	case "instruction_discovered":
		a.note(plainNote, "Copilot follows the instructions that it has found: "+cmp.Or(k.Description, k.SourcePath))
	}
}
