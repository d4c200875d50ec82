package codex

import (
	"fmt"
	"strings"
	"testing"

	"nod/state"
)

// TestNotes: what a notification about a thread says to a person.
func TestNotes(t *testing.T) {
	for line, want := range map[string]string{
		note("warning", `"message":"odd setting"`):                                                                                                    "note odd setting",
		note("guardianWarning", `"message":"careful"`):                                                                                                "note careful",
		note("model/rerouted", `"fromModel":"a","toModel":"b","reason":"highRiskCyberActivity"`):                                                      "note Another model answers: b in place of a (high risk cyber activity).",
		note("model/verification", `"verifications":["trustedAccessForCyber"]`):                                                                       "note The provider wants the account to be verified (trusted access for cyber).",
		note("hook/completed", `"run":{"eventName":"preToolUse","status":"completed","entries":[]}`):                                                  "",
		note("hook/completed", `"run":{"eventName":"preToolUse","status":"blocked","statusMessage":"no","entries":[{"kind":"stop","text":"never"}]}`): "note Hook pre tool use blocked: no\nstop: never",
		note("item/autoApprovalReview/completed", `"reviewId":"r","decisionSource":"agent","review":{"status":"denied","riskLevel":"high","rationale":"It deletes."},"action":{"type":"command","command":"rm x","cwd":"/w","source":"shell"}`): "note A model has reviewed this, and nobody was asked (denied, high risk): command: rm x\nIt deletes.",
		note("autoApprovalReview/strictReviewRequired", `"startedAtMs":1`):                                                                "note From here on a model reviews everything that this turn wants to do.",
		note("thread/goal/updated", `"goal":{"objective":"ship it","status":"active","tokensUsed":1}`):                                    "note Goal (active): ship it",
		note("thread/environment/disconnected", `"environmentId":"box"`):                                                                  "note The environment “box” is disconnected: what runs there cannot be reached.",
		note("thread/realtime/transcript/done", `"role":"user","text":"hello"`):                                                           "note Spoken (user): hello",
		note("mcpServer/startupStatus/updated", `"name":"demo","status":"failed","error":"no program"`):                                   "note The MCP server “demo” did not start (failed): no program",
		note("mcpServer/startupStatus/updated", `"name":"demo","status":"ready"`):                                                         "",
		note("mcpServer/startupStatus/updated", `"name":"demo","status":"dreaming"`):                                                      "note The MCP server “demo”: dreaming",
		note("mcpServer/oauthLogin/completed", `"name":"demo","success":false,"error":"denied"`):                                          "note The login to the MCP server “demo” failed: denied",
		`{"method":"error","params":{"threadId":"th","turnId":"other","willRetry":false,"error":{"message":"lost"}}}`:                     "note Codex reports an error: lost",
		`{"method":"deprecationNotice","params":{"summary":"old","details":"use new"}}`:                                                   "note Deprecated: old\nuse new",
		`{"method":"account/gatewayOAuth/changed","params":{"providerId":"p","status":"failed","error":"e"}}`:                             "note The login to “p” failed: e",
		`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","primary":null,"secondary":null}}}`:             "",
		`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","rateLimitReachedType":"rate_limit_reached"}}}`: "note A limit of codex is reached (rate limit reached).",
	} {
		s := newStage(t)
		s.begin()
		s.lines(line)
		if want == "" {
			s.wants()
		} else {
			s.wants(want)
		}
		if t.Failed() {
			t.Fatal(line)
		}
	}
}

// TestNotesWithoutAThread go to each session in which a turn runs, and else wait
// for the next one. They are told once.
func TestNotesWithoutAThread(t *testing.T) {
	config := `{"method":"configWarning","params":{"summary":"No bubblewrap.","details":null}}`
	s := newStage(t)
	s.lines(config)
	s.begin()
	s.lines(config)
	s.wants("note No bubblewrap.")
	s.lines(`{"method":"deprecationNotice","params":{"summary":"old"}}`, endTurn, note("warning", `"message":"between turns"`))
	s.wants("note No bubblewrap.", "note Deprecated: old")
	s.lines(`{"method":"turn/started","params":{"threadId":"th","turn":{"id":"next"}}}`, strings.ReplaceAll(delta("agentMessage/delta", "m", "x"), `"tu"`, `"next"`))
	s.wants("note No bubblewrap.", "note Deprecated: old", "note between turns", "says x")
}

// TestRateLimits are told when they are nearly used up and when they are reached,
// once for each window.
func TestRateLimits(t *testing.T) {
	s := newStage(t)
	s.begin()
	used := func(percent int, resets int) string {
		return fmt.Sprintf(`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","primary":{"usedPercent":%d,"windowDurationMins":300,"resetsAt":%d},"secondary":{"usedPercent":10,"windowDurationMins":10080}}}}`, percent, resets)
	}
	s.lines(used(89, 1796005200), used(91, 1796005200), used(95, 1796005200), used(100, 1796005200), used(92, 1796023200))
	s.wants("note 90 % or more is used of the limit of codex for each 5 hours. It begins anew on 30 November at 02:20 UTC.",
		"note All is used of the limit of codex for each 5 hours. It begins anew on 30 November at 02:20 UTC.",
		"note 90 % or more is used of the limit of codex for each 5 hours. It begins anew on 30 November at 07:20 UTC.")
}

// TestErrors: one that is tried again is an activity until something comes; one
// that is not is why the turn fails.
func TestErrors(t *testing.T) {
	s := newStage(t)
	s.begin()
	activity := func() string { return state.Value(s.view().State.Summary.Activity) }
	s.lines(note("error", `"willRetry":true,"error":{"message":"Reconnecting 1/5","additionalDetails":"429"}`))
	if activity() != "Reconnecting 1/5: 429" {
		t.Errorf("%q", activity())
	}
	s.lines(started(`{"type":"agentMessage","id":"m","text":""}`))
	if activity() != "" {
		t.Errorf("still %q", activity())
	}
	s.lines(note("error", `"willRetry":false,"error":{"message":"gone"}`), `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"failed","error":null}}}`)
	if e := s.view().State.Turns[0].Error; e == nil || e.Message != "gone" {
		t.Errorf("%+v", e)
	}
}

// TestBrokenOff: an answer that breaks off is told anew, as another message.
func TestBrokenOff(t *testing.T) {
	s := newStage(t)
	s.begin()
	again := note("error", `"willRetry":true,"error":{"message":"Reconnecting 1/5"}`)
	s.lines(delta("agentMessage/delta", "a", "It br"), again, again, delta("agentMessage/delta", "b", "It broke."))
	s.wants("says It br", "note This answer broke off, so Codex asks the model again.", "says It broke.")
}

// TestModelChanged elsewhere shows.
func TestModelChanged(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(note("thread/settings/updated", `"threadSettings":{"model":"gpt-6"}`))
	if m := s.view().State.Summary.Model; m == nil || m.ID != "gpt-6" {
		t.Errorf("%+v", m)
	}
}

// TestManyUnknown notifications are not all shown.
func TestManyUnknown(t *testing.T) {
	s := newStage(t)
	s.begin()
	for range 3 * maxUnknown {
		s.lines(note("thread/newThing", `"text":"`+strings.Repeat("x", maxRaw)+`"`))
	}
	if got := s.told(); len(got) != maxUnknown {
		t.Errorf("%d rows", len(got))
	}
	p := s.view().State.ActiveTurn.ResponseParts.At(0).(*state.NotificationPart)
	if n := len(p.Meta["nod.raw"]); n > maxRaw+100 {
		t.Errorf("a row holds %d bytes", n)
	}
}
