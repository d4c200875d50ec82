package copilot

import (
	"encoding/json"
	"strings"
	"time"

	"nod/agentconn"
)

// event is a session event (schema SessionEvent): what a session says in a live
// stream, in its log, and in its file on disk.
type event struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Timestamp string          `json:"timestamp"`
	AgentID   string          `json:"agentId"`   // of the sub-agent that it is about; "" for the main agent
	Ephemeral bool            `json:"ephemeral"` // it is in no file
	Data      json.RawMessage `json:"data"`

	raw  json.RawMessage
	long *agentconn.Outline // of which this was read, because the event is too long; else nil
}

// readEvent reads an event, and keeps it as it came.
func readEvent(raw json.RawMessage) (e event, err error) {
	err = json.Unmarshal(raw, &e)
	e.raw = raw
	return e, err
}

// at is when it was said, in Unix milliseconds; 0 if it does not say.
func (e event) at() int64 {
	t, err := time.Parse(time.RFC3339Nano, e.Timestamp)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

// barred reports whether an event is dropped at the door: the CLI passes on what
// its model layer says to itself, whole prompts among it, in no schema.
func (e event) barred() bool {
	return strings.HasPrefix(e.Type, "model.") && !strings.HasPrefix(e.Type, "model.call_")
}

// mayBeShared reports whether an event that nod could not read may be kept and shown
// as it came: not if the vendor's prompts or secrets may be in it.
func (e event) mayBeShared() bool {
	switch e.Type {
	case "user.message", "skill.invoked", "system.notification", "mcp.oauth_required", "mcp.headers_refresh_required":
		return false
	}
	return !e.barred() && ignored[e.Type] != prompts
}

// grows reports whether an event adds to what an earlier one began. How much of it
// nod has shows in the session's state, so it is not remembered by its id.
func (e event) grows() bool {
	switch e.Type {
	case "assistant.message_delta", "assistant.reasoning_delta", "tool.shell_output", "tool.execution_partial_result":
		return true
	}
	return false
}

// heard remembers the ids of events: the CLI sends some again in the same turn, in long
// ones ten thousand events later. Two generations of them are kept, and those of a turn
// until the end of the next one.
type heard struct {
	now, before map[string]bool
}

// generation is how many ids are remembered for certain.
const generation = 50_000

// again reports whether an id was heard before, and remembers it.
func (h *heard) again(id string) bool {
	if id == "" {
		return false
	}
	if h.now[id] || h.before[id] {
		return true
	}
	if len(h.now) >= generation || h.now == nil {
		h.now, h.before = map[string]bool{}, h.now
	}
	h.now[id] = true
	return false
}

// turned begins a generation, at the end of a turn.
func (h *heard) turned() { h.now, h.before = nil, h.now }
