package copilot

// handlers are the events that change what a person sees.
var handlers map[string]handler

func init() { // it would refer to itself
	handlers = map[string]handler{
		"user.message":                  raw((*agent).said),
		"assistant.turn_start":          raw((*agent).step),
		"assistant.message_delta":       on((*agent).messageDelta),
		"assistant.message":             on((*agent).wrote),
		"assistant.reasoning_delta":     on((*agent).thoughtDelta),
		"assistant.reasoning":           on((*agent).thoughtOf),
		"assistant.turn_retry":          on((*agent).retried),
		"assistant.usage":               on((*agent).used),
		"session.idle":                  on((*agent).idle),
		"session.error":                 on((*agent).failed),
		"session.usage_info":            on((*agent).filled),
		"abort":                         on((*agent).abort),
		"tool.execution_start":          on((*agent).toolStarted),
		"tool.execution_complete":       on((*agent).toolEnded),
		"tool.execution_partial_result": on((*agent).partialOutput),
		"tool.execution_progress":       on((*agent).toolProgress),
		"tool.shell_output":             on((*agent).shellOutput),
		"subagent.started":              on((*agent).agentStarted),
		"subagent.completed":            on((*agent).agentEnded),
		"subagent.failed":               on((*agent).agentEnded),

		"permission.requested":               raw((*agent).requested),
		"permission.completed":               on((*agent).completed),
		"user_input.requested":               raw((*agent).requested),
		"user_input.completed":               on((*agent).completed),
		"elicitation.requested":              raw((*agent).requested),
		"elicitation.completed":              on((*agent).completed),
		"exit_plan_mode.requested":           raw((*agent).requested),
		"exit_plan_mode.completed":           on((*agent).completed),
		"auto_mode_switch.requested":         raw((*agent).requested),
		"auto_mode_switch.completed":         on((*agent).completed),
		"session_limits_exhausted.requested": raw((*agent).requested),
		"session_limits_exhausted.completed": on((*agent).completed),
		"sampling.requested":                 raw((*agent).requested),
		"sampling.completed":                 on((*agent).completed),
		"external_tool.requested":            raw((*agent).requested),
		"external_tool.completed":            on((*agent).completed),
		"command.queued":                     raw((*agent).requested),
		"command.execute":                    raw((*agent).requested),
		"command.completed":                  on((*agent).completed),
		"mcp.oauth_required":                 raw((*agent).requested),
		"mcp.oauth_completed":                on((*agent).completed),
		"mcp.headers_refresh_required":       raw((*agent).requested),
		"mcp.headers_refresh_completed":      on((*agent).completed),
	}
}

// Why an event is ignored.
const (
	otherPlace = "another event says it in a better form"
	prompts    = "it carries the vendor's prompts, and is never shown or shared"
)

// ignored are the events that a person need not see, and why.
var ignored = map[string]string{
	"system.message": prompts,

	"assistant.streaming_delta": otherPlace, "assistant.message_start": otherPlace, "assistant.turn_end": otherPlace,
	"assistant.idle": otherPlace, "assistant.tool_call_delta": otherPlace,
	"model.call_start": otherPlace, "model.call_finished": otherPlace, "model.call_final_result": otherPlace,
	"session.start": otherPlace, "session.resume": otherPlace, "session.background_tasks_changed": otherPlace, "pending_messages.modified": otherPlace,
	"session.skills_loaded": otherPlace, "session.mcp_servers_loaded": otherPlace, "session.tools_updated": otherPlace, "session.managed_settings_resolved": otherPlace,
}
