package copilot

// handlers are the events that change what a person sees: the transcript and its
// calls, what is in force, or a sentence of news.go.
var handlers map[string]handler

func init() { // it would refer to itself
	handlers = map[string]handler{
		// Turns, and what is said in them.
		"user.message":         raw((*agent).said),
		"assistant.turn_start": raw((*agent).step),
		"assistant.turn_end":   on((*agent).stepEnded),
		"assistant.turn_retry": on((*agent).retried),
		"assistant.idle":       on((*agent).waits),
		"session.idle":         on((*agent).idle),
		"session.error":        on((*agent).failed),
		"session.shutdown":     on((*agent).shutDown),
		"abort":                on((*agent).abort),

		"assistant.message_start":   on((*agent).messageStarted),
		"assistant.message_delta":   on((*agent).messageDelta),
		"assistant.message":         on((*agent).wrote),
		"assistant.reasoning_delta": on((*agent).thoughtDelta),
		"assistant.reasoning":       on((*agent).thoughtOf),

		// Calls.
		"tool.user_requested":           raw((*agent).userRan),
		"assistant.tool_call_delta":     on((*agent).callWritten),
		"tool.execution_start":          on((*agent).toolStarted),
		"tool.execution_complete":       on((*agent).toolEnded),
		"tool.execution_partial_result": on((*agent).partialOutput),
		"tool.execution_progress":       on((*agent).toolProgress),
		"tool.shell_output":             on((*agent).shellOutput),
		"system.notification":           on((*agent).notified),

		// Sub-agents, which are sessions.
		"subagent.started":    on((*agent).agentStarted),
		"subagent.configured": on((*agent).agentConfigured),
		"subagent.completed":  on((*agent).agentEnded),
		"subagent.failed":     on((*agent).agentEnded),

		// What waits for a person.
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

		// What is in force: the model, settings, the title, and nod's own _meta.
		"session.start":                on((*agent).opened),
		"session.resume":               on((*agent).opened),
		"session.title_changed":        on((*agent).titled),
		"session.model_change":         on((*agent).modelChanged),
		"session.auto_mode_resolved":   on((*agent).modelResolved),
		"session.mode_changed":         on((*agent).modeChanged),
		"session.permissions_changed":  on((*agent).permissionsChanged),
		"pending_messages.modified":    on((*agent).queueChanged),
		"session.context_changed":      on((*agent).folderChanged),
		"session.usage_info":           on((*agent).filled),
		"session.todos_changed":        on((*agent).todosChanged),
		"assistant.usage":              on((*agent).used),
		"session.quota_observation":    on((*agent).quotaObserved),
		"session.compaction_start":     on((*agent).compacts),
		"session.compaction_complete":  says(compacted),
		"session.fusion_route_started": activity("Copilot chooses the models that answer"),

		// What the agent does right now.
		"assistant.intent":                on((*agent).intends),
		"assistant.server_tool_progress":  on((*agent).serverToolRuns),
		"assistant.fusion_phase_started":  on((*agent).phaseStarted),
		"hook.progress":                   on((*agent).hookProgress),
		"session.managed_plugin_progress": on((*agent).pluginsPrepared),

		// Sentences.
		"session.info":                          says(info),
		"session.warning":                       saysOnce(warning),
		"session.truncation":                    says(truncated),
		"session.context_cleared":               says(cleared),
		"session.snapshot_rewind":               says(rewound),
		"session.handoff":                       says(handedOff),
		"session.plan_changed":                  saysOnce(planChanged),
		"session.workspace_file_changed":        saysOnce(workspaceFile),
		"session.session_limits_changed":        says(limitsChanged),
		"session.schedule_created":              says(scheduled),
		"session.schedule_cancelled":            says(unscheduled),
		"session.remote_steerable_changed":      says(steerable),
		"session.autopilot_objective_changed":   says(objective),
		"session.autopilot_stopped":             says(autopilotStopped),
		"session.task_complete":                 raw((*agent).taskDone),
		"session.permission_recovery":           saysOnce(recovery),
		"session.managed_settings_enforced":     says(enforced),
		"session.model_deselected":              says(modelDeselected),
		"session.auto_tier_switch_failed":       says(tierFailed),
		"session.fusion_route_failed":           says(routeFailed),
		"session.fusion_completed":              says(fusionDone),
		"assistant.fusion_phase_failed":         says(phaseFailed),
		"session.custom_agents_updated":         on((*agent).agentsLoaded),
		"session.mcp_servers_loaded":            on((*agent).serversLoaded),
		"session.mcp_server_status_changed":     saysOnce(serverStatus),
		"session.mcp_server_needs_reconnect":    saysOnce(serverLost),
		"session.mcp_server_removed":            says(serverRemoved),
		"mcp.oauth_recovery_completed":          says(oauthRecovered),
		"session.extensions_loaded":             on((*agent).extensionsLoaded),
		"session.extensions.attachments_pushed": says(attached),
		"session.canvas.opened":                 says(canvasOpened),
		"mcp_app.tool_call_complete":            says(appCalled),
		"subagent.selected":                     on((*agent).agentSelected),
		"subagent.deselected":                   on((*agent).agentDeselected),
		"skill.invoked":                         says(skillUsed),
		"hook.end":                              says(hookEnded),
		"sandbox.decision":                      says(sandboxed),
		"factory.run_started":                   says(runStarted),
		"factory.run_settled":                   says(runSettled),
		"workflow.run_started":                  says(runStarted),
		"workflow.run_settled":                  says(runSettled),
	}
}

// Why an event is ignored.
const (
	otherPlace = "another event says it in a better form"
	prompts    = "it carries the vendor's prompts, and is never shown or shared"
	records    = "a record for the runtime itself or for telemetry: nothing happens by it"
	lists      = "it says that a list of what there is has changed, which nod does not show"
	programs   = "it is for programs that know who says it"
	canvases   = "it is about what a canvas shows, and nod shows none"
)

// ignored are the events that a person need not see, and why.
var ignored = map[string]string{
	"system.message": prompts, "session.mode_notice_delivered": prompts, "skill.context_delivered": prompts, "session.fusion_handoff": prompts,

	"assistant.streaming_delta":        otherPlace,                                     // the deltas
	"agent.interrupted":                otherPlace,                                     // abort
	"model.call_failure":               otherPlace,                                     // assistant.turn_retry and session.error
	"tool_search.activated":            otherPlace,                                     // the call
	"session.memory_changed":           otherPlace,                                     // the call
	"session.schedule_rearmed":         otherPlace,                                     // the message, when it is time
	"session.binary_asset":             otherPlace,                                     // what refers to it is named there
	"session.background_tasks_changed": otherPlace,                                     // the calls and the sub-agents
	"session.fusion_resolved":          otherPlace,                                     // the phases, when they begin
	"assistant.fusion_phase_activity":  otherPlace,                                     // the phase
	"assistant.fusion_phase_completed": otherPlace,                                     // assistant.message
	"hook.start":                       otherPlace,                                     // hook.end, if there is something to say
	"skill.invoked_ref":                otherPlace,                                     // skill.invoked
	"session.usage_record":             otherPlace,                                     // assistant.usage
	"factory.run_updated":              otherPlace, "workflow.run_updated": otherPlace, // that it has ended
	"session.mcp_server_tools_loaded": otherPlace, // the status of the server

	"model.call_start": records, "model.call_finished": records, "model.call_final_result": records,
	"session.usage_checkpoint": records, "session.completion_receipt": records, "session.fusion_change_checkpoint": records, "session.fusion_commit_started": records,
	"session.request_body_compression_disabled": records, "session.indexed_search": records, "skill.context_delivered_ref": records, "prompt_cache_break": records,
	"session.auto_tier_recommendation": records, "human_response.recorded": records, "session.managed_settings_resolved": records,
	"permission.assentDetected": records, "permission.carriedForward": records, "permission.contextualAuthorization": records,
	"permission.messageAuthorization": records, "permission.messageAuthorizationDegraded": records, "permission.messageAuthorizationRead": records,

	"session.skills_loaded": lists, "session.tools_updated": lists, "commands.changed": lists, "capabilities.changed": lists,
	"mcp.tools.list_changed": lists, "mcp.resources.list_changed": lists, "mcp.prompts.list_changed": lists,

	"session.custom_notification": programs,
	"ui.ephemeral_query":          programs, // a question aside, of another client

	"session.canvas.registry_changed": canvases, "session.canvas.closed": canvases, "session.canvas.unavailable": canvases,
	"session.canvas.recorded": canvases, "session.canvas.removed": canvases,
}
