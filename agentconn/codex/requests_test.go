package codex

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"nod/agentconn/agenttest"
	"nod/agentconn/forms"
	"nod/state"
	"nod/state/approvals"
	"nod/state/schematest"
)

// unanswered are the server requests that no card of nod's can answer.
var unanswered = map[string]bool{
	"item/tool/call":                    true, // only the program that brought the tool can run it
	"account/chatgptAuthTokens/refresh": true, // only the program that logged in has tokens
	"attestation/generate":              true, // only for programs that asked to be asked
}

// TestEveryServerRequestIsClassified fails on a request of the pinned schema, or
// of a newer version, of which nobody has thought.
func TestEveryServerRequestIsClassified(t *testing.T) {
	methods := []string{"attestation/generate"} // of 0.171.0, the others are of both
	root := os.Getenv("NOD_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	raw, err := os.ReadFile(filepath.Join(root, "schemas", "codex-app-server-protocol.schema.json"))
	if err != nil {
		t.Skip("the schema of Codex is not here; NOD_SHARED may name the folder that holds it")
	}
	var schema struct {
		Definitions struct {
			ServerRequest struct {
				OneOf []struct {
					Properties struct{ Method struct{ Enum []string } }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	for _, one := range schema.Definitions.ServerRequest.OneOf {
		methods = append(methods, one.Properties.Method.Enum...)
	}
	if len(methods) < 10 {
		t.Fatalf("only %q are found", methods)
	}
	for _, m := range methods {
		known, ok := requests[m]
		if answers := ok && known.answer != nil; answers == unanswered[m] {
			t.Errorf("%s: nod answers it: %v, and the test thinks otherwise", m, answers)
		}
	}
	for m := range requests {
		if !slices.Contains(methods, m) {
			t.Errorf("%s is no request of Codex", m)
		}
	}
}

const (
	startFile = `{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":{"type":"fileChange","id":"f","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x\n"}]}}}`
	// profile is what 0.171.0 asks for: paths come twice.
	profile  = `{"network":{"enabled":true},"fileSystem":{"read":["/etc/ssl"],"write":["/srv/www"],"entries":[{"path":{"type":"path","path":"/etc/ssl"},"access":"read"},{"path":{"type":"path","path":"/srv/www"},"access":"write"}]}}`
	toolMeta = `{"codex_approval_kind":"mcp_tool_call","persist":["session","always"],"tool_name":"write_note","tool_annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true},"tool_description":"writes a note","tool_params":{"text":"hi","deep":{"n":[1]}},"tool_params_display":[{"name":"text","value":"hi","display_name":"The text"}]}`
	form     = `{"type":"object","properties":{"name":{"type":"string","title":"Name","description":"Yours","minLength":2,"maxLength":9,"default":"Ada"},` +
		`"mail":{"type":"string","format":"email"},"n":{"type":"integer","minimum":1,"maximum":10},"rate":{"type":"number","default":0.5},"ok":{"type":"boolean","default":true},` +
		`"one":{"type":"string","enum":["a","b"]},"titled":{"type":"string","oneOf":[{"const":"x","title":"The X"},{"const":"y","title":"The Y"}],"default":"y"},` +
		`"legacy":{"type":"string","enum":["1","2"],"enumNames":["One","Two"]},"many":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["p","q","r"]},"default":["p"]},` +
		`"manyTitled":{"type":"array","items":{"anyOf":[{"const":"k","title":"The K"}]}}},"required":["mail","many"]}`
)

// asks are server requests as both versions send them, what the card offers, and
// what each answer is on the wire.
var asks = []struct {
	name    string
	before  string // a notification
	method  string
	params  string // without the thread
	kind    state.RequestKind
	title   string
	details []state.Detail
	answers map[string]string // option id, and with it what is answered; the result
}{
	{
		name: "command, 0.122", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"c","command":"/bin/bash -lc 'git push'","cwd":"/w","commandActions":[{"type":"unknown","command":"git push"}],"proposedExecpolicyAmendment":["git","push"]`,
		kind:   state.RequestCommand, title: "Run a command?",
		details: []state.Detail{{Label: "The permanent rule: every session may run commands that begin with", Text: `["git","push"]`, Option: "amendment-0"}},
		answers: map[string]string{
			"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`,
			"amendment-0": `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["git","push"]}}}`,
		},
	},
	{
		name: "command, 0.171", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"kind":"command","threadId":"th","turnId":"tu","itemId":"c","startedAtMs":1796005061967,"environmentId":"local","command":"ls","cwd":"/w","commandActions":[],"proposedExecpolicyAmendment":["ls"],` +
			`"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["ls","<&>"]}},"cancel",{"newDecision":{}}]`,
		kind: state.RequestCommand, title: "Run a command?",
		details: []state.Detail{{Label: "The permanent rule: every session may run commands that begin with", Text: `["ls","<&>"]`, Option: "amendment-0"}},
		answers: map[string]string{
			"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`,
			"amendment-0": `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["ls","\u003c\u0026\u003e"]}}}`,
		},
	},
	{
		name: "command without a rule to offer", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"c","command":"ls","cwd":"/w","proposedExecpolicyAmendment":["ls"],"availableDecisions":["accept","cancel"]`,
		kind:   state.RequestCommand, title: "Run a command?",
		answers: map[string]string{"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`},
	},
	{
		name: "command with more rights, of a skill", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"c","command":"ls","cwd":"/w","skillMetadata":{"pathToSkillsMd":"/s/SKILL.md"},` +
			`"additionalPermissions":{"network":{"enabled":true},"fileSystem":{"read":["/etc"],"write":["/srv"],"entries":[{"access":"write","path":{"type":"path","path":"/srv"}},` +
			`{"access":"read","path":{"type":"special","value":{"kind":"project_roots","subpath":"docs"}}},{"access":"deny","path":{"type":"glob_pattern","pattern":"**/.env"}}],"globScanMaxDepth":3}}`,
		kind: state.RequestCommand, title: "Run a command with more rights?",
		details: []state.Detail{
			{Label: "To write, and read", Text: "/srv"}, {Label: "To read", Text: "/etc\nthe folders of the project: docs"}, {Label: "Not to touch", Text: "**/.env (a pattern)"},
			{Label: "Patterns look into folders", Text: "down to level 3"}, {Label: "To reach over the network", Text: "any host, without asking"},
			{Label: "It belongs to the skill", Text: "/s/SKILL.md"},
		},
		answers: map[string]string{"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`},
	},
	{
		name: "network", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"c","command":null,"cwd":null,"networkApprovalContext":{"host":"registry.example.org","protocol":"https"},` +
			`"proposedNetworkPolicyAmendments":[{"host":"registry.example.org","action":"allow"},{"host":"registry.example.org","action":"deny"},{"host":"x","action":"teleport"}]`,
		kind: state.RequestCommand, title: "Allow access to the network?",
		details: []state.Detail{
			{Label: "It wants to reach", Text: "registry.example.org (HTTPS)"},
			{Label: "The permanent rule: every session may reach", Text: "registry.example.org", Option: "amendment-0"},
			{Label: "The permanent rule: no session may reach", Text: "registry.example.org", Option: "amendment-1"},
		},
		answers: map[string]string{
			"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`,
			"amendment-0": `{"decision":{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"registry.example.org","action":"allow"}}}}`,
			"amendment-1": `{"decision":{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"registry.example.org","action":"deny"}}}}`,
		},
	},
	{
		name: "typing, 0.171", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"kind":"writeStdin","threadId":"th","turnId":"tu","itemId":"c","approvalId":"a","startedAtMs":1,"command":"write_stdin 7 'rm -rf /\n'","cwd":"/w"`,
		kind:   state.RequestCommand, title: "Type into a command that runs?",
		answers: map[string]string{"accept": `{"decision":"accept"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`},
	},
	{
		name: "for a person only, 0.171", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"kind":"humanCommand","threadId":"th","turnId":"tu","itemId":"c","startedAtMs":1,"command":"deploy","cwd":"/w","environmentId":"box-7"`,
		kind:   state.RequestCommand, title: "Run a command that only a person may allow?",
		answers: map[string]string{"accept": `{"decision":"accept"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`},
	},
	{
		name: "file change", before: startFile, method: "item/fileChange/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"f","startedAtMs":1796005432684,"reason":null,"grantRoot":"/srv"`,
		kind:   state.RequestFileChange, title: "Change files, and more below a folder?",
		details: []state.Detail{{Label: "Approving also allows it, for this session, to write below", Text: "/srv"}},
		answers: map[string]string{"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`},
	},
	{
		name: "permissions, 0.122", method: "item/permissions/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"p","reason":"to build","permissions":{"fileSystem":{"read":null,"write":["/var/cache"]},"network":null}`,
		kind:   state.RequestPermissions, title: "Allow more than this session may?",
		details: []state.Detail{{Label: "To write, and read", Text: "/var/cache"}},
		answers: map[string]string{
			"turn":    `{"permissions":{"fileSystem":{"read":null,"write":["/var/cache"]},"network":null},"scope":"turn"}`,
			"session": `{"permissions":{"fileSystem":{"read":null,"write":["/var/cache"]},"network":null},"scope":"session"}`,
			"decline": `{"permissions":{},"scope":"turn"}`,
		},
	},
	{
		name: "permissions, 0.171", method: "item/permissions/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"p","environmentId":"local","startedAtMs":1796047380329,"cwd":"/w","reason":"to build","permissions":` + profile,
		kind:   state.RequestPermissions, title: "Allow more than this session may?",
		details: []state.Detail{{Label: "To write, and read", Text: "/srv/www"}, {Label: "To read", Text: "/etc/ssl"}, {Label: "To reach over the network", Text: "any host, without asking"}},
		answers: map[string]string{
			"turn": `{"permissions":` + profile + `,"scope":"turn"}`, "session": `{"permissions":` + profile + `,"scope":"session"}`, "decline": `{"permissions":{},"scope":"turn"}`,
		},
	},
	{
		name: "permissions in words", method: "item/permissions/requestApproval",
		params: `"threadId":"th","turnId":"tu","itemId":"p","startedAtMs":1,"cwd":"/w","permissions":{"fileSystem":{"entries":[{"access":"read","path":{"type":"special","value":{"kind":"root"}}}]},"network":{"enabled":false}}`,
		kind:   state.RequestPermissions, title: "Allow more than this session may?",
		details: []state.Detail{{Label: "To read", Text: "the whole disk, /"}, {Label: "To reach over the network", Text: "nothing"}},
		answers: map[string]string{
			"turn":    `{"permissions":{"fileSystem":{"entries":[{"access":"read","path":{"type":"special","value":{"kind":"root"}}}]},"network":{"enabled":false}},"scope":"turn"}`,
			"session": `{"permissions":{"fileSystem":{"entries":[{"access":"read","path":{"type":"special","value":{"kind":"root"}}}]},"network":{"enabled":false}},"scope":"session"}`,
			"decline": `{"permissions":{},"scope":"turn"}`,
		},
	},
	{
		name: "command with more rights, 0.171", before: startCommand, method: "item/commandExecution/requestApproval",
		params: `"kind":"command","threadId":"th","turnId":"tu","itemId":"c","startedAtMs":1796047381501,"environmentId":"local","reason":"May I?","command":"/bin/bash -lc 'touch /srv/x'","cwd":"/w","commandActions":[{"type":"unknown","command":"touch /srv/x"}],` +
			`"additionalPermissions":{"network":{"enabled":true},"fileSystem":{"read":null,"write":["/srv/www"],"entries":[{"path":{"type":"path","path":"/srv/www"},"access":"write"}]}},"proposedExecpolicyAmendment":["touch","/srv/x"],"availableDecisions":["accept","cancel"]`,
		kind: state.RequestCommand, title: "Run a command with more rights?",
		details: []state.Detail{{Label: "To write, and read", Text: "/srv/www"}, {Label: "To reach over the network", Text: "any host, without asking"}},
		answers: map[string]string{"accept": `{"decision":"accept"}`, "acceptForSession": `{"decision":"acceptForSession"}`, "decline": `{"decision":"decline"}`, "cancel": `{"decision":"cancel"}`},
	},
	{
		name: "questions", method: "item/tool/requestUserInput",
		params: `"threadId":"th","turnId":"tu","itemId":"q","questions":[{"id":"db","header":"Database","question":"Which?","isOther":true,"isSecret":false,"options":[{"label":"SQLite (Recommended)","description":"single file"},{"label":"Postgres","description":"server"}]},` +
			`{"id":"key","header":"Key","question":"Which key?","isSecret":true,"options":null}],"isBlocking":true,"autoResolutionMs":null`,
		kind: state.RequestQuestion, title: "Codex has a question",
		answers: map[string]string{
			`answer {"db":{"selected":["Postgres"]}}`:                    `{"answers":{"db":{"answers":["Postgres"]},"key":{"answers":[]}}}`,
			`answer {"db":{"selected":["Postgres"],"text":"but newer"}}`: `{"answers":{"db":{"answers":["Postgres","but newer"]},"key":{"answers":[]}}}`,
			`answer {}`:                             `{"answers":{"db":{"answers":[]},"key":{"answers":[]}}}`,
			`answer {"key":{"secret":["hunter2"]}}`: `{"answers":{"db":{"answers":[]},"key":{"answers":["hunter2"]}}}`,
		},
	},
	{
		name: "MCP form", method: "mcpServer/elicitation/request",
		params: `"threadId":"th","turnId":null,"serverName":"demo","mode":"form","message":"Who are you?","requestedSchema":` + form,
		kind:   state.RequestQuestion, title: "The server “demo” asks",
		answers: map[string]string{
			"decline": `{"_meta":null,"action":"decline","content":null}`, "cancel": `{"_meta":null,"action":"cancel","content":null}`,
			`accept {"mail":{"text":"a@b.c"},"many":{"selected":["q","r"]}}`: `{"_meta":null,"action":"accept","content":{"mail":"a@b.c","many":["q","r"]}}`,
			`accept {"name":{"text":"Bo"},"mail":{"text":"a@b.c"},"n":{"text":"7"},"rate":{"text":"1.50"},"ok":{"selected":["false"]},"one":{"selected":["b"]},"titled":{"selected":["x"]},"legacy":{"selected":["2"]},"many":{"selected":["q"]},"manyTitled":{"selected":["k"]}}`: `{"_meta":null,"action":"accept","content":{"legacy":"2","mail":"a@b.c","many":["q"],"manyTitled":["k"],"n":7,"name":"Bo","ok":false,"one":"b","rate":1.50,"titled":"x"}}`,
		},
	},
	{
		name: "MCP form with more", method: "mcpServer/elicitation/request",
		params: `"threadId":"th","serverName":"demo","mode":"form","message":"","_meta":{"trace_id":"7"},"requestedSchema":{"type":"object","properties":{}}`,
		kind:   state.RequestQuestion, title: "The server “demo” asks", details: []state.Detail{{Label: "trace id", Text: "7"}},
		answers: map[string]string{
			"accept": `{"_meta":null,"action":"accept","content":{}}`, "decline": `{"_meta":null,"action":"decline","content":null}`, "cancel": `{"_meta":null,"action":"cancel","content":null}`,
		},
	},
	{
		name: "MCP address", method: "mcpServer/elicitation/request",
		params: `"threadId":"th","turnId":"tu","serverName":"demo","environmentId":null,"mode":"url","message":"Log in there","elicitationId":"e","url":"https://example.org/login?a=b"`,
		kind:   state.RequestQuestion, title: "The server “demo” asks",
		answers: map[string]string{
			"accept": `{"_meta":null,"action":"accept","content":null}`, "decline": `{"_meta":null,"action":"decline","content":null}`, "cancel": `{"_meta":null,"action":"cancel","content":null}`,
		},
	},
	{
		name: "MCP tool", method: "mcpServer/elicitation/request",
		params: `"threadId":"th","turnId":"tu","serverName":"demo","environmentId":null,"mode":"form","_meta":` + toolMeta + `,"message":"Allow the demo MCP server to run tool \"write_note\"?","requestedSchema":{"type":"object","properties":{}}`,
		kind:   state.RequestTool, title: "Run the tool “write_note” of “demo”?",
		details: []state.Detail{
			{Label: "Parameter text (The text)", Text: "hi"}, {Label: "Parameter deep", Text: `{"n":[1]}`}, {Label: "MCP server", Text: "demo"},
			{Label: "The server says that this tool", Text: "may destroy or overwrite, reaches beyond this machine"}, {Label: "tool description", Text: "writes a note"},
		},
		answers: map[string]string{
			"accept": `{"_meta":null,"action":"accept","content":{}}`, "session": `{"_meta":{"persist":"session"},"action":"accept","content":{}}`, "always": `{"_meta":{"persist":"always"},"action":"accept","content":{}}`,
			"decline": `{"_meta":null,"action":"decline","content":null}`, "cancel": `{"_meta":null,"action":"cancel","content":null}`,
		},
	},
	{
		name: "MCP tool without a name, once only", method: "mcpServer/elicitation/request",
		params: `"threadId":"th","turnId":"tu","serverName":"demo","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call","tool_params":7},"message":"?","requestedSchema":{"type":"object","properties":{}}`,
		kind:   state.RequestTool, title: "Run a tool of “demo”?",
		details: []state.Detail{{Label: "Parameter all of it", Text: "7"}, {Label: "MCP server", Text: "demo"}},
		answers: map[string]string{
			"accept": `{"_meta":null,"action":"accept","content":{}}`, "decline": `{"_meta":null,"action":"decline","content":null}`, "cancel": `{"_meta":null,"action":"cancel","content":null}`,
		},
	},
	{
		name: "older command", method: "execCommandApproval",
		params: `"conversationId":"th","callId":"old","approvalId":null,"command":["bash","-lc","it's"],"cwd":"/w","parsedCmd":[{"type":"unknown","cmd":"it's"}],"reason":null`,
		kind:   state.RequestCommand, title: "Run a command?",
		answers: map[string]string{"approved": `{"decision":"approved"}`, "approved_for_session": `{"decision":"approved_for_session"}`, "denied": `{"decision":"denied"}`, "abort": `{"decision":"abort"}`},
	},
	{
		name: "older patch", method: "applyPatchApproval",
		params: `"conversationId":"th","callId":"old","fileChanges":{"/w/b":{"type":"update","unified_diff":"@@ -1 +1 @@\n-a\n+b\n","move_path":"/w/c"},"/w/a":{"type":"add","content":"x\n"}},"reason":"r","grantRoot":null`,
		kind:   state.RequestFileChange, title: "Change files?",
		answers: map[string]string{"approved": `{"decision":"approved"}`, "approved_for_session": `{"decision":"approved_for_session"}`, "denied": `{"decision":"denied"}`, "abort": `{"decision":"abort"}`},
	},
}

// put begins a turn and asks.
func put(t *testing.T, before, method, id, params string) (*stage, *approvals.Approval) {
	t.Helper()
	s := newStage(t)
	s.begin()
	if before != "" {
		s.lines(before)
	}
	s.lines(`{"method":"` + method + `","id":` + id + `,"params":{` + params + `}}`)
	as := s.view().Approvals
	if len(as) != 1 {
		t.Fatalf("%d cards", len(as))
	}
	return s, as[0]
}

func (s *stage) decide(a *approvals.Approval, d state.Decision) {
	s.t.Helper()
	if _, err := s.hub.Decide(s.t.Context(), "me", a.ID, a.Digest, a.Nonce, d); err != nil {
		s.t.Fatal(err)
	}
}

// decisionOf reads an option and answers.
func decisionOf(t *testing.T, text string) state.Decision {
	t.Helper()
	option, rest, _ := strings.Cut(text, " ")
	d := state.Decision{OptionID: option}
	var answers map[string]struct {
		Selected, Secret []string
		Text             string
	}
	if rest != "" {
		if err := json.Unmarshal([]byte(rest), &answers); err != nil {
			t.Fatal(err)
		}
		d.Answers = map[string]state.Answer{}
		for id, a := range answers {
			d.Answers[id] = state.Answer{Selected: a.Selected, Text: a.Text, Secret: a.Secret}
		}
	}
	return d
}

// TestEveryAnswer gives each answer to each request and reads it on the wire to the
// byte. The id goes back as it came, a text or a number of any size.
func TestEveryAnswer(t *testing.T) {
	ids := []string{`0`, `10`, `"10"`, `"a b"`, `9007199254740993`}
	for _, c := range asks {
		t.Run(c.name, func(t *testing.T) {
			offered := map[string]bool{}
			n := 0
			for answer, want := range c.answers {
				id := ids[n%len(ids)]
				n++
				s, a := put(t, c.before, c.method, id, c.params)
				r := a.Request
				if r.Kind != c.kind || r.Title != c.title || r.Caution != "" || !reflect.DeepEqual(r.Details, c.details) {
					t.Fatalf("the card: %s %q, caution %q, details %+v", r.Kind, r.Title, r.Caution, r.Details)
				}
				if s.sent.Len() > 0 {
					t.Fatalf("sent before anybody answered: %s", s.sent.String())
				}
				d := decisionOf(t, answer)
				offered[d.OptionID] = true
				s.decide(a, d)
				if got := s.sent.String(); got != `{"id":`+id+`,"result":`+want+"}\n" {
					t.Errorf("%s was sent as %s", answer, got)
				}
				s.lines(`{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":` + id + `}}`)
				v := s.view()
				if v.Approvals[0].State != approvals.Confirmed || len(v.State.InputRequests) > 0 {
					t.Errorf("after it was resolved: %s, %d questions", v.Approvals[0].State, len(v.State.InputRequests))
				}
			}
			_, a := put(t, c.before, c.method, "1", c.params)
			for _, o := range a.Request.Options {
				if !offered[o.ID] {
					t.Errorf("%s is offered and not tried", o.ID)
				}
			}
		})
	}
}

// TestCardsGoAway: what AHP is told of a card is valid, and a turn's end takes every card along, of each kind.
func TestCardsGoAway(t *testing.T) {
	schema := schematest.Pinned(t)
	for _, c := range asks {
		s, _ := put(t, c.before, c.method, "1", c.params)
		agenttest.CheckValid(t, schema, s.view())
		if s.view().State.Summary.Status.Activity() != state.StatusInputNeeded {
			t.Errorf("%s: AHP does not say that input is needed", c.name)
		}
		s.lines(`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted"}}}`,
			`{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":1}}`)
		v := s.view()
		if v.Approvals[0].State != approvals.Expired || len(v.State.InputRequests) > 0 {
			t.Errorf("%s is %s", c.name, v.Approvals[0].State)
		}
	}
}

// TestPermanentIsAskedTwice: what reaches further than the one request is of a group.
func TestPermanentIsAskedTwice(t *testing.T) {
	for _, c := range asks {
		_, a := put(t, c.before, c.method, "1", c.params)
		for _, o := range a.Request.Options {
			once := slices.Contains([]string{"accept", "approved", "turn", "answer", "decline", "denied"}, o.ID)
			once = once && (a.Request.Kind != state.RequestFileChange || o.Kind == state.OptionDeny || len(a.Request.Details) == 0) // a folder to write below lasts, too
			if (state.Value(o.Group) == 0) != once {
				t.Errorf("%s: %s has group %d", c.name, o.ID, state.Value(o.Group))
			}
		}
	}
}

// TestOlderRequests shows what the older protocol says in its own way.
func TestOlderRequests(t *testing.T) {
	for _, c := range asks {
		_, a := put(t, c.before, c.method, "1", c.params)
		switch c.name {
		case "older command":
			if a.Request.Input != `bash -lc 'it'\''s'` || a.Request.ToolCallID != "old" {
				t.Errorf("%+v", a.Request)
			}
		case "older patch":
			if want := "--- /dev/null\n+++ /w/a\n@@ -0,0 +1,1 @@\n+x\n--- /w/b\n+++ /w/c\n@@ -1 +1 @@\n-a\n+b\n"; a.Request.Diff != want {
				t.Errorf("%s", a.Request.Diff)
			}
		case "for a person only, 0.171":
			if a.Request.Environment != "box-7" {
				t.Errorf("it happens in %q", a.Request.Environment)
			}
		}
	}
}

// TestNobodyHereCanAnswer: such requests are shown, say who can, and stay open;
// what can be refused is refused by a person only.
func TestNobodyHereCanAnswer(t *testing.T) {
	for _, c := range []struct {
		method, params string
		kind           state.RequestKind
		options        string
	}{
		{"item/tool/call", `"threadId":"th","turnId":"tu","callId":"c","tool":"look","namespace":"cam","arguments":{"at":"sky"}`, state.RequestElsewhere, ""},
		{"account/chatgptAuthTokens/refresh", `"reason":"unauthorized","previousAccountId":null`, state.RequestElsewhere, ""},
		{"attestation/generate", ``, state.RequestUnknown, ""},
		{"item/new/request", `"threadId":"th"`, state.RequestUnknown, ""},
		{"mcpServer/elicitation/request", `"threadId":"th","serverName":"s","mode":"openai/userVerification","challenge":"c","description":"d","title":"t"`, state.RequestElsewhere, "decline cancel"},
		{"mcpServer/elicitation/request", `"threadId":"th","serverName":"s","mode":"openai/form","message":"m","requestedSchema":{"any":1}`, state.RequestElsewhere, "decline cancel"},
		{"mcpServer/elicitation/request", `"threadId":"th","serverName":"s","mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"x":{"type":"file"}}}`, state.RequestQuestion, "decline cancel"},
		{"mcpServer/elicitation/request", `"threadId":"th","serverName":"s","mode":"form","_meta":{"codex_approval_kind":"plugin_install"},"message":"m","requestedSchema":{"type":"object","properties":{}}`, state.RequestQuestion, "decline cancel"},
		{"mcpServer/elicitation/request", `"threadId":"th","serverName":"s","mode":"url","message":"m","elicitationId":"e","url":"javascript:alert(1)"`, state.RequestQuestion, "decline cancel"},
	} {
		s, a := put(t, "", c.method, "1", c.params)
		var options []string
		for _, o := range a.Request.Options {
			options = append(options, o.ID)
		}
		if a.Request.Kind != c.kind || strings.Join(options, " ") != c.options || a.Request.Kind != state.RequestUnknown && a.Request.Caution == "" {
			t.Errorf("%s %s: %s, %q, %q", c.method, c.params, a.Request.Kind, options, a.Request.Caution)
		}
		if s.sent.Len() > 0 {
			t.Errorf("%s was answered by itself", c.method)
		}
		if err := s.conn.Answer(t.Context(), a.Request, state.Decision{OptionID: "accept"}); c.options == "" && (err == nil || s.sent.Len() > 0) {
			t.Errorf("%s: %v, sent %q", c.method, err, s.sent.String())
		}
	}
}

// TestFormOfAServer keeps the order of its fields, and what each may hold.
func TestFormOfAServer(t *testing.T) {
	qs, ok := forms.Questions([]byte(form))
	got, err := state.Marshal(qs)
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	var short []string
	for _, q := range qs {
		short = append(short, q.ID+":"+q.Kind)
	}
	if want := "name:text mail:text n:integer rate:number ok:boolean one:single-select titled:single-select legacy:single-select many:multi-select manyTitled:multi-select"; strings.Join(short, " ") != want {
		t.Errorf("%s", short)
	}
	for _, want := range []string{`"title":"Name","message":"Yours","required":false,"min":2,"max":9,"defaultValue":"Ada"`, `"message":"mail","required":true,"format":"email"`,
		`{"id":"1","label":"One"`, `{"id":"x","label":"The X"`, `"min":1,"max":2,"defaultValue":["p"]`, `{"id":"k","label":"The K"`} {
		if !strings.Contains(strings.ReplaceAll(string(got), `,"Unknown":null`, ""), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	for _, bad := range []string{``, `[]`, `{"properties":{"x":{"type":"array"}}}`, `{"properties":{"x":7}}`, `{"required":7}`, `{"properties":{"x":{"type":"string"},"x":{"type":"string"}}}`} {
		if _, ok := forms.Questions([]byte(bad)); ok {
			t.Errorf("%s is taken for a form", bad)
		}
	}
}

// TestAnsweredFirst: an answer that had not left when somebody else's was taken is not
// shown as taken.
func TestAnsweredFirst(t *testing.T) {
	s, a := put(t, startCommand, "item/commandExecution/requestApproval", "1", `"threadId":"th","turnId":"tu","itemId":"c","command":"ls","cwd":"/w"`)
	s.leaving = func() { s.lines(`{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":1}}`) }
	s.decide(a, state.Decision{OptionID: "accept"})
	if got := s.view().Approvals[0].State; got != approvals.AnsweredElsewhere {
		t.Errorf("it is %s", got)
	}
}

// TestSecretIsNotKept: it reaches Codex, and nothing else.
func TestSecretIsNotKept(t *testing.T) {
	s, a := put(t, "", "item/tool/requestUserInput", "1", `"threadId":"th","turnId":"tu","itemId":"q","questions":[{"id":"key","header":"Key","question":"Which key?","isSecret":true}]`)
	s.decide(a, state.Decision{OptionID: "answer", Answers: map[string]state.Answer{"key": {Secret: []string{"hunter2"}}}})
	if !strings.Contains(s.sent.String(), `["hunter2"]`) {
		t.Errorf("sent %s", s.sent.String())
	}
	s.lines(`{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":1}}`)
	if a := s.view().Approvals[0]; len(a.Decision.Answers["key"].Given()) > 0 {
		t.Errorf("it is kept in memory: %+v", a.Decision)
	}
	files, _ := filepath.Glob(filepath.Join(s.data, "*"))
	journaled := ""
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil { // others are folders
			journaled += string(b)
		}
	}
	if strings.Contains(journaled, "hunter2") || !strings.Contains(journaled, `"optionId":"answer"`) {
		t.Errorf("the journal holds the secret: %v", strings.Contains(journaled, "hunter2"))
	}
}

// steered plays a Codex that answers turn/steer.
type steered struct {
	paper
	s      *stage
	answer string // a message without its id
	said   []string
}

func (w *steered) write(_ context.Context, b []byte) error {
	w.said = append(w.said, string(b))
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if m.Method == "turn/steer" {
		line := []byte(`{"id":` + string(m.ID) + `,` + w.answer + `}`)
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		m.Method, m.Params = "", nil
		go w.s.conn.receive(w.s.t.Context(), m, line) // as the reader would
	}
	return nil
}

// TestDenyWithAReason says why, and then sends the denial.
func TestDenyWithAReason(t *testing.T) {
	for _, c := range asks {
		for answer, lost := range map[string]bool{`"result":{"turnId":"tu"}`: false, `"error":{"code":-32600,"message":"no active turn to steer"}`: true} {
			s, a := put(t, c.before, c.method, "1", c.params)
			if a.Request.Explains == "" {
				continue
			}
			w := &steered{s: s, answer: answer}
			s.conn.wire = w
			_, err := s.hub.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "decline", Reason: "not <this>"})
			if lost != errors.Is(err, state.ErrReasonLost) || !lost && err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if len(w.said) != 2 || w.said[1] != `{"id":1,"result":`+c.answers["decline"]+"}" ||
				!strings.Contains(w.said[0], `"method":"turn/steer","params":{"expectedTurnId":"tu","input":[{"text":"not \u003cthis\u003e","type":"text"}],"threadId":"th"}`) {
				t.Errorf("%s: said %q", c.name, w.said)
			}
			s.lines(`{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":1}}`)
			v := s.view()
			if a := v.Approvals[0]; a.State != approvals.Confirmed || a.Decision.Reason != "not <this>" {
				t.Errorf("%s: %s, %+v", c.name, a.State, a.Decision)
			}
			if a.Request.ToolCallID == "" {
				continue
			}
			parts := v.State.ActiveTurn.ResponseParts.Slice()
			call := parts[len(parts)-1].(*state.ToolCallPart).ToolCall
			if call.Reason != state.CancelledDenied || call.ReasonMessage == nil || call.ReasonMessage.Text != "not <this>" {
				t.Errorf("%s: the call is %+v", c.name, call)
			}
		}
	}
}

// TestOptionsInOrder: what Codex lists stands in its order, rules among it; what it takes
// without listing it stands beside its like, and one can always deny.
func TestOptionsInOrder(t *testing.T) {
	rule := `{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["ls"]}}`
	for listed, want := range map[string]string{
		`null`:                                 "accept acceptForSession decline cancel",
		`["accept","cancel"]`:                  "accept acceptForSession decline cancel",
		`["accept",` + rule + `,"cancel"]`:     "accept acceptForSession amendment-0 decline cancel",
		`["cancel","accept"]`:                  "cancel acceptForSession decline accept",
		`["decline",` + rule + `,"accept"]`:    "decline acceptForSession amendment-0 accept cancel",
		`["accept",{"meditate":{}},"decline"]`: "accept acceptForSession decline cancel",
	} {
		var p requestParams
		if err := json.Unmarshal([]byte(`{"availableDecisions":`+listed+`}`), &p); err != nil {
			t.Fatal(err)
		}
		r := state.Request{Options: approvalOptions("the same")}
		offerAmendments(&r, p)
		var ids []string
		for _, o := range p.inOrder(r.Options) {
			ids = append(ids, o.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s", listed, got)
		}
	}
}
