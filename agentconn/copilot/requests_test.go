package copilot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn/agenttest"
	"nod/agentconn/forms"
	"nod/state"
	"nod/state/approvals"
)

// waitsForNobody are event types that sound as if somebody had to answer.
var waitsForNobody = map[string]string{
	"tool.user_requested": "a person has started a tool: it runs at once",
}

// TestEveryRequestIsClassified fails on an event of the pinned schema or of the SDK
// that waits for somebody and of which nobody has thought, and on one that nothing
// ends.
func TestEveryRequestIsClassified(t *testing.T) {
	asks := regexp.MustCompile(`"([a-z_]+\.(?:[a-z_]+_)?(?:requested|required|queued|execute))"`)
	found := map[string]bool{}
	schema, err := os.ReadFile(agenttest.Shared("schemas", "copilot-session-events.schema.json"))
	if err != nil {
		t.Log("the schema of Copilot is not here; NOD_SHARED may name the folder that holds it")
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/github/copilot-sdk/go").Output()
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "rpc", "zsession_events.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range asks.FindAllStringSubmatch(string(schema)+string(sdk), -1) {
		found[m[1]] = true
	}
	if len(found) < 12 {
		t.Fatalf("only %v are found", found)
	}
	for kind := range found {
		known, ok := requests[kind]
		switch {
		case ok == (waitsForNobody[kind] != ""):
			t.Errorf("%s is not classified", kind)
		case ok && (handlers[kind] == nil || (known.method == "") != (known.answer == nil)):
			t.Errorf("%s is not handled, or half answered", kind)
		}
	}
	for kind := range requests {
		end := regexp.MustCompile(`(\.|_)(requested|required|queued|execute)$`).ReplaceAllString(kind, "${1}completed")
		if !found[kind] || handlers[end] == nil {
			t.Errorf("%s is no event of Copilot, or %s does not end it", kind, end)
		}
	}
}

// TestEveryFieldIsClassified fails on a field of a permission, in the pinned schema or
// in the SDK, of which nobody has thought: what has it could only be refused.
func TestEveryFieldIsClassified(t *testing.T) {
	known := func(kind, field string) bool {
		if kind == "shell" {
			kind = "commands"
		}
		k, ok := kinds[kind]
		return ok && (slices.Contains(everyKind, field) || slices.Contains(k.fields, field))
	}
	for _, v := range []interface {
		Kind() rpc.PermissionPromptRequestKind
	}{
		rpc.PermissionPromptRequestCommands{}, rpc.PermissionPromptRequestCustomTool{}, rpc.PermissionPromptRequestExtensionEnvAccess{}, rpc.PermissionPromptRequestExtensionManagement{},
		rpc.PermissionPromptRequestExtensionPermissionAccess{}, rpc.PermissionPromptRequestFactory{}, rpc.PermissionPromptRequestHook{}, rpc.PermissionPromptRequestMCP{},
		rpc.PermissionPromptRequestMemory{}, rpc.PermissionPromptRequestPath{}, rpc.PermissionPromptRequestRead{}, rpc.PermissionPromptRequestURL{}, rpc.PermissionPromptRequestWrite{},
	} {
		for _, f := range fieldsOf(v) {
			if !known(string(v.Kind()), f) {
				t.Errorf("SDK, %s: %s", v.Kind(), f)
			}
		}
	}
	for _, v := range []interface {
		Kind() rpc.PermissionRequestKind
	}{
		rpc.PermissionRequestCustomTool{}, rpc.PermissionRequestExtensionEnvAccess{}, rpc.PermissionRequestExtensionManagement{}, rpc.PermissionRequestExtensionPermissionAccess{},
		rpc.PermissionRequestFactory{}, rpc.PermissionRequestHook{}, rpc.PermissionRequestMCP{}, rpc.PermissionRequestMemory{}, rpc.PermissionRequestRead{}, rpc.PermissionRequestShell{},
		rpc.PermissionRequestURL{}, rpc.PermissionRequestWrite{},
	} {
		for _, f := range fieldsOf(v) {
			if !known(string(v.Kind()), f) {
				t.Errorf("SDK, %s: %s", v.Kind(), f)
			}
		}
	}
	raw, err := os.ReadFile(agenttest.Shared("schemas", "copilot-session-events.schema.json"))
	if err != nil {
		t.Skip("the schema of Copilot is not here; NOD_SHARED may name the folder that holds it")
	}
	var schema struct {
		Definitions map[string]struct {
			Properties map[string]struct{ Const json.RawMessage }
		}
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, d := range schema.Definitions {
		if kind, _ := forms.AsText(d.Properties["kind"].Const); kind != "" && (strings.HasPrefix(name, "PermissionPromptRequest") || strings.HasPrefix(name, "PermissionRequest")) {
			seen++
			for field := range d.Properties {
				if !known(kind, field) {
					t.Errorf("schema, %s: %s", name, field)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d permissions are in the schema", seen)
	}
}

func fieldsOf(v any) (out []string) {
	t := reflect.TypeOf(v)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// prompted is a permission as 1.0.102 asks for it.
func prompted(request, prompt string) string {
	return `"permissionRequest":{` + request + `},"promptRequest":{` + prompt + `},"agentMode":"interactive","permissionMode":"manual","ownerSessionId":"s"`
}

// usually are the answers to a permission of which an approval may last.
func usually(approval string) map[string]string {
	return map[string]string{
		"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`,
		"approve-for-session":  `{"kind":"approve-for-session","approval":` + approval + `}`,
		"approve-for-location": `{"kind":"approve-for-location","approval":` + approval + `,"locationKey":"/w"}`,
	}
}

const (
	permissionMethod = "session.permissions.handlePendingPermissionRequest"
	shellRequest     = `"kind":"shell","toolCallId":"c","fullCommandText":"rm -r x","shellType":"bash","intention":"Tidy up","commands":[{"identifier":"rm","readOnly":false}],"commandSegments":[{"identifier":"rm","workingDirectory":"/w"}],` +
		`"possiblePaths":["x","y"],"resolvedPaths":{"x":"/w/z"},"possibleUrls":[{"url":"https://a.b/"}],"hasWriteFileRedirection":false,"warning":"careful"`
	shellPrompt = `"kind":"commands","toolCallId":"c","fullCommandText":"rm -r x","intention":"Tidy up","commandIdentifiers":["rm","git push"],"warning":"careful"`
	diff        = `diff --git a/w/n b/w/n\nindex 0..1 100644\n--- a/w/n\n+++ b/w/n\n@@ -1 +1 @@\n-a\n+b\n`
	server1     = `"toolCallId":"m","serverName":"mock","toolTitle":"Echo it","args":{"text":"hi","deep":{"n":[1]}}`
)

// asked are requests, how their cards look, and what each answer is on the wire.
var asked = []struct {
	name    string
	kind    string // of the event; "" for a permission
	data    string
	as      state.RequestKind
	title   string
	details string            // "label: text", by "; "
	answers map[string]string // option id, and with it what is answered after a space; the answer
}{
	{
		name: "command", data: prompted(shellRequest+`,"canOfferSessionApproval":true`, shellPrompt+`,"canOfferSessionApproval":true`),
		as: state.RequestCommand, title: "Run a command?",
		details: "It may touch: x\n  which is /w/z\ny; It may reach: https://a.b/; For this session, without asking: rm\ngit push; The permanent rule: without asking: rm\ngit push; The permanent rule holds below: /w; Copilot warns: careful",
		answers: map[string]string{
			"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`, "reject! use ./out": `{"kind":"reject","feedback":"use ./out"}`,
			"approve-for-session":  `{"kind":"approve-for-session","approval":{"commandIdentifiers":["rm","git push"],"kind":"commands"}}`,
			"approve-for-location": `{"kind":"approve-for-location","approval":{"commandIdentifiers":["rm","git push"],"kind":"commands"},"locationKey":"/w"}`,
		},
	},
	{
		name: "command, of which none may last", data: prompted(shellRequest+`,"canOfferSessionApproval":false`, shellPrompt+`,"canOfferSessionApproval":false`),
		as: state.RequestCommand, title: "Run a command?", details: "It may touch: x\n  which is /w/z\ny; It may reach: https://a.b/; Copilot warns: careful",
		answers: map[string]string{"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "command, told without a prompt", data: `"permissionRequest":{` + shellRequest + `,"canOfferSessionApproval":true}`,
		as: state.RequestCommand, title: "Run a command?", details: "It may touch: x\n  which is /w/z\ny; It may reach: https://a.b/; Copilot warns: careful",
		answers: map[string]string{"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "command outside the sandbox", data: prompted(`"kind":"shell","fullCommandText":"ls","intention":"Look","requestSandboxBypass":true,"requestSandboxBypassReason":"it detaches","sandboxPathGrant":{"path":"/x"}`,
			`"kind":"commands","toolCallId":"c","fullCommandText":"ls","intention":"Look","commandIdentifiers":["ls"],"canOfferSessionApproval":true,"requestSandboxPermissive":true,"assistedApproval":{"recommendation":"requireApproval","reason":"it is new"}`),
		as: state.RequestCommand, title: "Run a command outside the sandbox?",
		details: "It would happen: in a sandbox that only notes down what it should keep it from, and outside the sandbox if that does not do; Because: it detaches; Copilot's own check says: require approval: it is new",
		answers: map[string]string{"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "write", data: prompted(`"kind":"write","toolCallId":"w","intention":"Edit","fileName":"/w/n","diff":"`+diff+`","canOfferSessionApproval":true`,
			`"kind":"write","toolCallId":"w","intention":"Edit","fileName":"/w/n","diff":"`+diff+`","newFileContents":null,"fileEdits":[],"canOfferSessionApproval":true`),
		as: state.RequestFileChange, title: "Change a file?", details: "File: /w/n; The permanent rule holds below: /w",
		answers: usually(`{"kind":"write"}`),
	},
	{
		name: "write, with all that two files hold then", data: prompted(`"kind":"write"`,
			`"kind":"write","toolCallId":"w","intention":"Edit","fileName":"/w/n","diff":"`+diff+`--- a/w/m\n+++ b/w/m\n@@ -9 +9 @@\n-a\n+b\n","newFileContents":"b\n$(x)\n","fileEdits":[{"before":{"path":"/w/n","content":"a\n"},"after":{"path":"/w/n","content":"b\n$(x)\n"}},{"after":{"path":"/w/m","content":""}}]`),
		as: state.RequestFileChange, title: "Change a file?", details: "File: /w/n; All of /w/n afterwards: b\n$(x)\n; Nothing is left in /w/m: ",
		answers: map[string]string{"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "move", data: prompted(`"kind":"write"`,
			`"kind":"write","toolCallId":"w","intention":"Move","fileName":"/w/n","diff":"diff --git a/w/old b/w/n\n--- a/w/old\n+++ b/w/n\n","fileEdits":[{"before":{"path":"/w/old","content":"a"},"after":{"path":"/w/n","content":"a"}}]`),
		as: state.RequestFileChange, title: "Change a file?", details: "File: /w/n; All of /w/n afterwards: a; It is moved from: /w/old",
		answers: map[string]string{"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "read, by a policy each time", data: prompted(`"kind":"read","path":"/w/a"`, `"kind":"read","toolCallId":"r","intention":"Read file: /w/a","path":"/w/a","resolvedPath":"/etc/shadow","managedApprovalRequired":true`),
		as: state.RequestRead, title: "Read a file?", details: "To read: /w/a\n  which is /etc/shadow",
		answers: map[string]string{"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "read", data: prompted(`"kind":"read","path":"/w/a"`, `"kind":"read","toolCallId":"r","intention":"Read file: /w/a","path":"/w/a"`),
		as: state.RequestRead, title: "Read a file?", details: "To read: /w/a",
		answers: map[string]string{"approve-for-session": `{"kind":"approve-for-session","approval":{"kind":"read"}}`, "approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`},
	},
	{
		name: "path", data: prompted(`"kind":"read","intention":"Read file: /etc/hostname","path":"/etc/hostname"`, `"kind":"path","accessKind":"read","paths":["/etc/hostname"],"readOnlyDirectories":["/etc"],"toolCallId":"r"`),
		as: state.RequestPermissions, title: "Leave the folders of this session?", details: "To read: /etc/hostname",
		answers: map[string]string{
			"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`, "approve-for-session": `{"kind":"approve-for-session"}`,
		},
	},
	{
		name: "url", data: prompted(`"kind":"url","url":"https://Example.org:443/a?b","intention":"Look"`, `"kind":"url","toolCallId":"u","url":"https://Example.org:443/a?b","intention":"Look","redirectedFrom":"https://x.y/"`),
		as: state.RequestRead, title: "Fetch a web page?", details: "Address: https://Example.org:443/a?b; Redirected from: https://x.y/; For this session, without asking: https://example.org; The permanent rule: without asking: https://example.org",
		answers: map[string]string{
			"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`,
			"approve-for-session": `{"kind":"approve-for-session","domain":"https://example.org"}`, "approve-permanently": `{"kind":"approve-permanently","domain":"https://example.org"}`,
		},
	},
	{
		name: "mcp", data: prompted(`"kind":"mcp","toolName":"mock-echo","readOnly":true,`+server1, `"kind":"mcp","toolName":"echo",`+server1),
		as: state.RequestTool, title: "Run the tool “Echo it” of “mock”?",
		details: `Parameter text: hi; Parameter deep: {"n":[1]}; MCP server and tool: mock · echo; The server says that this tool: only reads; The permanent rule holds below: /w`,
		answers: map[string]string{
			"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`,
			"approve-for-session":        `{"kind":"approve-for-session","approval":{"kind":"mcp","serverName":"mock","toolName":"echo"}}`,
			"approve-for-session-server": `{"kind":"approve-for-session","approval":{"kind":"mcp","serverName":"mock","toolName":null}}`,
			"approve-for-location":       `{"kind":"approve-for-location","approval":{"kind":"mcp","serverName":"mock","toolName":"echo"},"locationKey":"/w"}`,
		},
	},
	{
		name: "custom tool", data: prompted(`"kind":"custom-tool","toolName":"weather","toolDescription":"tells it"`, `"kind":"custom-tool","toolCallId":"t","toolName":"weather","toolDescription":"tells it","args":[1]`),
		as: state.RequestTool, title: "Run the tool “weather”?", details: "Parameters: [1]; Tool: weather; What it does, in its own words: tells it",
		answers: map[string]string{
			"approve-once": `{"kind":"approve-once","approvedInteractively":true}`, "reject": `{"kind":"reject"}`,
			"approve-for-session": `{"kind":"approve-for-session","approval":{"kind":"custom-tool","toolName":"weather"}}`,
		},
	},
	{
		name: "hook", data: prompted(`"kind":"hook","toolName":"bash"`, `"kind":"hook","toolCallId":"h","toolName":"bash","toolArgs":{"command":"ls"},"hookMessage":"sure?"`),
		as: state.RequestTool, title: "A hook wants you to look: run the tool “bash”?", details: "Parameter command: ls; Tool: bash",
		answers: map[string]string{"approve-once": `{"kind":"approved"}`, "reject! no": `{"kind":"denied-interactively-by-user","feedback":"no"}`, "reject": `{"kind":"denied-interactively-by-user"}`},
	},
	{
		name: "memory", data: prompted(`"kind":"memory","fact":"f","scope":"repository","repoNwo":"o/r"`, `"kind":"memory","action":"store","fact":"f","subject":"s","citations":"c"`),
		as: state.RequestPermissions, title: "Remember this?", details: "Fact: f; About: s; Sources: c; It counts: for everybody who works on o/r; The permanent rule holds below: /w",
		answers: usually(`{"kind":"memory"}`),
	},
	{
		name: "a vote on a memory", data: prompted(`"kind":"memory","fact":"f"`, `"kind":"memory","action":"vote","fact":"f","direction":"downvote","reason":"old","riskAssessment":null`),
		as: state.RequestPermissions, title: "Judge this memory?", details: "Fact: f; Vote: downvote; Because: old; The permanent rule holds below: /w",
		answers: usually(`{"kind":"memory"}`),
	},
	{
		name: "extension, reloaded", data: prompted(`"kind":"extension-management","operation":"reload"`, `"kind":"extension-management","operation":"reload"`),
		as: state.RequestPermissions, title: "Change Copilot's extensions?", details: "Operation: reload; The permanent rule holds below: /w",
		answers: usually(`{"kind":"extension-management","operation":"reload"}`),
	},
	{
		name: "extension, rights", data: prompted(`"kind":"extension-permission-access","extensionName":"x","capabilities":["a","b"]`, `"kind":"extension-permission-access","extensionName":"x","capabilities":["a","b"]`),
		as: state.RequestPermissions, title: "Give an extension more rights?", details: "Extension: x; It wants to: a\nb; The permanent rule holds below: /w",
		answers: usually(`{"extensionName":"x","kind":"extension-permission-access"}`),
	},
	{
		name: "extension, secrets", data: prompted(`"kind":"extension-env-access","extensionName":"x","environmentVariables":["KEY"]`, `"kind":"extension-env-access","extensionName":"x","environmentVariables":["KEY"]`),
		as: state.RequestPermissions, title: "Let an extension read secret environment variables?", details: "Extension: x; Variables: KEY; The permanent rule holds below: /w",
		answers: usually(`{"environmentVariables":["KEY"],"extensionName":"x","kind":"extension-env-access"}`),
	},
	{
		name: "workflow", data: prompted(`"kind":"workflow","operation":"run","name":"n","description":"d","phases":[],"approvalKey":"k","canPersistApproval":true`,
			`"kind":"workflow","operation":"run","name":"n","description":"d","phases":[{"title":"one","detail":"first"}],"approvalKey":"k","canPersistApproval":true,"maxAiCredits":2.5`),
		as: state.RequestPermissions, title: "Run a workflow?",
		details: "Workflow: n\nd; Steps: one: first; Limits: AI credits: 2.5\nsub-agents at once: no limit\nsub-agents in all: no limit\nseconds at work: no limit; The permanent rule holds below: /w",
		answers: usually(`{"approvalKey":"k","kind":"workflow"}`),
	},
	{
		name: "question", kind: "user_input.requested", data: `"question":"Which?","choices":["red","green","red"],"allowFreeform":true,"toolCallId":"q"`,
		as: state.RequestQuestion, title: "Copilot has a question",
		answers: map[string]string{`answer {"answer":{"selected":["green"]}}`: `{"answer":"green","wasFreeform":false}`, `answer {"answer":{"selected":["green"],"text":"blue"}}`: `{"answer":"green\nblue","wasFreeform":true}`},
	},
	{
		name: "question without choices", kind: "user_input.requested", data: `"question":"Which?"`, as: state.RequestQuestion, title: "Copilot has a question",
		answers: map[string]string{`answer {"answer":{"text":"<&>\n\"x\""}}`: `{"answer":"\u003c\u0026\u003e\n\"x\"","wasFreeform":true}`},
	},
	{
		name: "form", kind: "elicitation.requested", as: state.RequestQuestion, title: "The server “mock” asks",
		data: `"elicitationSource":"mock","message":"Please","requestedSchema":{"type":"object","properties":{"name":{"type":"string","minLength":2},"n":{"type":"integer","maximum":9},"ok":{"type":"boolean"},"many":{"type":"array","items":{"type":"string","enum":["p","q"]}}},"required":["name"]}`,
		answers: map[string]string{
			`accept {"name":{"text":"Ann"},"n":{"text":"3"},"ok":{"selected":["true"]},"many":{"selected":["p","q"]}}`: `{"action":"accept","content":{"many":["p","q"],"n":3,"name":"Ann","ok":true}}`,
			`accept {"name":{"text":"Ann"}}`: `{"action":"accept","content":{"name":"Ann"}}`, "decline": `{"action":"decline"}`, "cancel": `{"action":"cancel"}`,
		},
	},
	{
		name: "address", kind: "elicitation.requested", data: `"message":"Log in","mode":"url","url":"https://a.b/login"`, as: state.RequestQuestion, title: "Copilot asks you to fill in a form",
		answers: map[string]string{"accept": `{"action":"accept"}`, "decline": `{"action":"decline"}`},
	},
	{
		name: "plan", kind: "exit_plan_mode.requested", data: `"summary":"- A","planContent":"# Plan","actions":["autopilot","interactive","exit_only","autopilot_fleet","teleport"],"recommendedAction":"exit_only","toolCallId":"p","model":"m"`,
		as: state.RequestQuestion, title: "Is this plan good?", details: "In short: - A; The plan: # Plan",
		answers: map[string]string{
			"exit_only": `{"approved":true,"selectedAction":"exit_only"}`, "interactive": `{"approved":true,"selectedAction":"interactive"}`, "autopilot": `{"approved":true,"selectedAction":"autopilot"}`,
			"autopilot_fleet": `{"approved":true,"selectedAction":"autopilot_fleet"}`, "reject": `{"approved":false}`, "reject! test first": `{"approved":false,"feedback":"test first"}`,
		},
	},
	{
		name: "another model", kind: "auto_mode_switch.requested", data: `"errorCode":"rate_limited","retryAfterSeconds":90`, as: state.RequestQuestion, title: "Go on with a model that Copilot chooses?",
		details: "Copilot reports: rate_limited; The limit ends in: 90 s",
		answers: map[string]string{"yes": `"yes"`, "yes_always": `"yes_always"`, "no": `"no"`},
	},
	{
		name: "limits", kind: "session_limits_exhausted.requested", data: `"maxAiCredits":12.5,"usedAiCredits":13`, as: state.RequestQuestion, title: "The session's AI credits are used up", details: "Used: 13 of 12.5",
		answers: map[string]string{
			`add {"credits":{"text":"5"}}`: `{"action":"add","additionalAiCredits":5}`, `set {"credits":{"text":"20.5"}}`: `{"action":"set","maxAiCredits":20.5}`,
			`unset {"credits":{"text":"12.5"}}`: `{"action":"unset"}`, "cancel": `{"action":"cancel"}`,
		},
	},
	{
		name: "sampling", kind: "sampling.requested", data: `"serverName":"mock","mcpRequestId":7`, as: state.RequestElsewhere, title: "The server “mock” wants a model to be asked",
		answers: map[string]string{"reject": ``},
	},
	{
		name: "queued command", kind: "command.queued", data: `"command":"/clear"`, as: state.RequestElsewhere, title: "Copilot waits for another program to carry out a command",
		answers: map[string]string{"pass": `{"handled":false}`},
	},
}

// TestCards: a card shows all of what is asked, and its answers are on the wire as
// Copilot takes them.
func TestCards(t *testing.T) {
	l := newLink(t)
	n := 0
	for _, c := range asked {
		kind := c.kind
		if kind == "" {
			kind = "permission.requested"
		}
		for answer, want := range c.answers {
			n++
			id := fmt.Sprint("r-", n)
			// Each is about a tool call of its own.
			a := l.ask(id, kind, regexp.MustCompile(`"toolCallId":"\w"`).ReplaceAllString(c.data, fmt.Sprintf(`"toolCallId":"call-%d"`, n)))
			var details []string
			for _, d := range a.Request.Details {
				details = append(details, d.Label+": "+d.Text)
			}
			if r := a.Request; r.Input != "" && r.Input != "/clear" && !strings.Contains(c.name, "sandbox") && (r.Input != "rm -r x" || r.Cwd != "/w" || r.Reason != "Tidy up") {
				t.Errorf("%s: %q in %q, because %q", c.name, r.Input, r.Cwd, r.Reason)
			}
			if r := a.Request; r.Kind != c.as || r.Title != c.title || strings.Join(details, "; ") != c.details || r.Caution != "" && c.as != state.RequestElsewhere {
				t.Errorf("%s: %s %q, %q, details\n%s\n%s", c.name, r.Kind, r.Title, r.Caution, strings.Join(details, "; "), c.details)
			}
			for _, o := range a.Request.Options {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.answers)), func(answer string) bool { return strings.HasPrefix(answer+" ", o.ID+" ") }) && o.ID != "cancel" {
					t.Errorf("%s offers %s", c.name, o.ID)
				}
			}
			option, with, _ := strings.Cut(answer, " ")
			d := state.Decision{OptionID: strings.TrimSuffix(option, "!")}
			if option != d.OptionID {
				d.Reason = with
			} else if with != "" {
				if err := json.Unmarshal([]byte(with), &d.Answers); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.decide(a, d); err != nil {
				t.Errorf("%s, %s: %v", c.name, answer, err)
				continue
			}
			said := l.said(requests[kind].method)
			var p struct {
				RequestID, SessionID string
				Result, Response     json.RawMessage
			}
			if err := json.Unmarshal([]byte(said[len(said)-1]), &p); err != nil {
				t.Fatal(err)
			}
			if got := string(slices.Concat(p.Result, p.Response)); p.RequestID != id || p.SessionID != l.id || got != want {
				t.Errorf("%s, %s: sent %s", c.name, answer, said[len(said)-1])
			}
			end := regexp.MustCompile(`(requested|queued)$`).ReplaceAllString(kind, "completed")
			l.tell(l.id, end, `{"requestId":"`+id+`"}`)
			l.ends(a, approvals.Confirmed)
		}
	}
}

// TestWhoseAnswer: what a card says of its end is what happened, whoever was faster
// and in whatever order it is told.
func TestWhoseAnswer(t *testing.T) {
	const yes, no = `,"result":{"kind":"approved"}`, `,"result":{"kind":"denied-interactively-by-user","feedback":"no"}`
	for name, c := range map[string]struct {
		before string // told before nod answers
		during string // told while the answer is on its way to the adapter
		first  string // told before the server answers nod
		taken  bool   // what the server answers
		after  string // told then
		late   error  // what the person is told
		as     approvals.State
		call   state.ToolCallStatus
		sent   int
	}{
		"ours, as it comes":             {first: yes, taken: true, as: approvals.Confirmed, call: state.ToolRunning, sent: 1},
		"ours, told afterwards":         {taken: true, after: yes, as: approvals.Confirmed, call: state.ToolRunning, sent: 1},
		"another's, before":             {before: no, late: approvals.ErrNotPending, as: approvals.AnsweredElsewhere, call: state.ToolCancelled},
		"another's approval, before":    {before: yes, late: approvals.ErrNotPending, as: approvals.AnsweredElsewhere, call: state.ToolRunning},
		"another's, as ours leaves":     {during: no, late: state.ErrAnsweredElsewhere, as: approvals.AnsweredElsewhere, call: state.ToolCancelled},
		"another's, told first":         {first: no, late: state.ErrAnsweredElsewhere, as: approvals.AnsweredElsewhere, call: state.ToolCancelled, sent: 1},
		"another's approval":            {first: yes, late: state.ErrAnsweredElsewhere, as: approvals.AnsweredElsewhere, call: state.ToolRunning, sent: 1},
		"another's, told afterwards":    {after: no, late: state.ErrAnsweredElsewhere, as: approvals.AnsweredElsewhere, call: state.ToolCancelled, sent: 1},
		"ours, in words of its own":     {first: `,"result":{"kind":"approved-in-some-way"}`, taken: true, as: approvals.Confirmed, call: state.ToolRunning, sent: 1},
		"taken, and something else was": {first: no, taken: true, as: approvals.AnsweredElsewhere, call: state.ToolCancelled, sent: 1},
		"withdrawn":                     {before: `,"result":{"kind":"cancelled","reason":"Session aborted"}`, late: approvals.ErrNotPending, as: approvals.Expired, call: state.ToolPendingConfirmation},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(t)
			completed := func(result string) {
				if result != "" {
					l.tell(l.id, "permission.completed", `{"requestId":"r"`+result+`}`)
				}
			}
			l.peer.before = func(m message) any {
				if m.Method != permissionMethod {
					return nil
				}
				completed(c.first)
				return map[string]bool{"success": c.taken}
			}
			l.leaving = func() {
				if c.during != "" {
					completed(c.during)
					l.until("heard", func() bool {
						waits := true
						l.conn.alone(func() { waits = l.conn.waits(l.id, requestID("r")) != nil })
						return !waits
					})
				}
			}
			a := l.ask("r", "permission.requested", prompted(shellRequest, shellPrompt))
			if completed(c.before); c.before != "" {
				l.ends(a, c.as)
			}
			if err := l.decide(a, state.Decision{OptionID: approveOnce}); !errors.Is(err, c.late) {
				t.Errorf("the person is told %v", err)
			}
			if got := l.approval("r").State; got == approvals.Confirmed && c.as != approvals.Confirmed {
				t.Error("it is shown as taken")
			}
			completed(c.after)
			l.ends(a, c.as)
			l.until("the call shows it", func() bool { return l.call("c").Status == c.call })
			if sent := l.said(permissionMethod); len(sent) != c.sent {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

// TestAnswerGetsNoAnswer: nobody knows whose answer it was, but what it was shows in the
// call, whenever it is told.
func TestAnswerGetsNoAnswer(t *testing.T) {
	for name, early := range map[string]bool{"told before": true, "told afterwards": false} {
		t.Run(name, func(t *testing.T) {
			l := newLink(t)
			completed := func() {
				l.tell(l.id, "permission.completed", `{"requestId":"r","result":{"kind":"denied-interactively-by-user"}}`)
			}
			l.peer.before = func(m message) any {
				if m.Method != permissionMethod {
					return nil
				}
				if early {
					completed()
				}
				return "no answer"
			}
			a := l.ask("r", "permission.requested", prompted(shellRequest, shellPrompt))
			_ = l.decide(a, state.Decision{OptionID: approveOnce}) // the hub has noted what came of it
			if l.ends(a, approvals.DeliveryUnknown); !early {
				completed()
			}
			l.until("the call shows it", func() bool { return l.call("c").Status == state.ToolCancelled })
			l.conn.alone(func() {
				if l.conn.waits(l.id, requestID("r")) != nil {
					t.Error("it still waits")
				}
			})
		})
	}
}

// TestAnswerIsRefused: an answer that the server does not take loses no request. A person
// is asked again, and the next answer counts.
func TestAnswerIsRefused(t *testing.T) {
	l := newLink(t)
	refusing := true
	l.peer.before = func(m message) any {
		if m.Method == permissionMethod && refusing {
			refusing = false
			return errors.New("out of order")
		}
		return nil
	}
	a := l.ask("r", "permission.requested", prompted(shellRequest, shellPrompt))
	_ = l.decide(a, state.Decision{OptionID: approveOnce}) // the hub has noted what came of it
	l.ends(a, approvals.DeliveryUnknown)
	again := l.approval("r")
	if again == nil || again.ID == a.ID || again.State != approvals.Pending || again.Request.Input != a.Request.Input {
		t.Fatalf("it is not asked again: %+v", again)
	}
	if err := l.decide(again, state.Decision{OptionID: approveOnce}); err != nil {
		t.Fatal(err)
	}
	l.tell(l.id, "permission.completed", `{"requestId":"r","result":{"kind":"approved"}}`)
	l.ends(again, approvals.Confirmed)
	l.until("the call runs", func() bool { return l.call("c").Status == state.ToolRunning })
}

// TestOnlyRefused: what nod cannot show whole can be refused, and nothing else.
func TestOnlyRefused(t *testing.T) {
	l := newLink(t)
	for i, c := range []struct{ kind, data, options string }{
		{"permission.requested", prompted(`"kind":"teleport","where":"/"`, `"kind":"teleport","toolCallId":"x"`), "reject"},
		{"permission.requested", prompted(shellRequest, shellPrompt+`,"runsAs":"root"`), "reject"},
		{"permission.requested", prompted(shellRequest+`,"runsAs":"root"`, shellPrompt), "reject"},
		{"permission.requested", prompted(shellRequest, shellPrompt) + `,"alsoApproves":["x"]`, "reject"},
		{"permission.requested", prompted(`"kind":"shell"`, `"kind":"commands","fullCommandText":7`), "reject"},
		{"permission.requested", prompted(`"kind":"shell"`, `"kind":"commands"`), "reject"},
		{"permission.requested", prompted(`"kind":"write"`, `"kind":"write","fileName":"/w/a","diff":""`), "reject"},
		{"permission.requested", prompted(`"kind":"write"`, `"kind":"write","fileName":"/w/n","diff":"`+diff+`","fileEdits":[{"before":{"path":"/w/n"},"after":{"path":"/w/n"}},{"before":{"path":"/w/more"}}]`), "reject"},
		{"permission.requested", prompted(`"kind":"read"`, `"kind":"path","accessKind":"own","paths":["/"]`), "reject"},
		{"permission.requested", prompted(`"kind":"memory"`, `"kind":"memory","fact":"f","action":"forget"`), "reject"},
		{"permission.requested", prompted(`"kind":"workflow"`, `"kind":"workflow","operation":"sell"`), "reject"},
		{"permission.requested", prompted(`"kind":"shell","fullCommandText":"ls","fullCommandText":"rm"`, `"kind":"commands","fullCommandText":"ls"`), "reject"},
		{"permission.requested", `"permissionRequest":7`, "reject"},
		{"elicitation.requested", `"message":"m","mode":"form","requestedSchema":{"properties":{"x":{"type":"object"}}}`, "decline cancel"},
		{"elicitation.requested", `"message":"m","mode":"url","url":"javascript:alert(1)"`, "decline cancel"},
		{"elicitation.requested", `"message":"m","mode":"proof"`, "decline cancel"},
		{"elicitation.requested", `"message":"m","requestedSchema":{"properties":{}},"pays":1`, "decline cancel"},
		{"exit_plan_mode.requested", `"summary":"s","actions":["interactive"],"spends":1`, "reject"},
		{"user_input.requested", `"question":"q","choices":["a"],"for":"root"`, ""},
		{"user_input.requested", `"question":7`, ""},
		{"external_tool.requested", `"sessionId":"s","toolCallId":"x","toolName":"t","arguments":{}`, ""},
		{"command.execute", `"command":"/deploy","commandName":"deploy","args":""`, ""},
		{"mcp.oauth_required", `"serverName":"mock","serverUrl":"https://a.b","reason":"initial"`, ""},
		{"mcp.headers_refresh_required", `"serverName":"mock","serverUrl":"https://a.b","reason":"startup"`, ""},
	} {
		a := l.ask(fmt.Sprint("r-", i), c.kind, c.data)
		var options []string
		for _, o := range a.Request.Options {
			options = append(options, o.ID)
		}
		if strings.Join(options, " ") != c.options || a.Request.Caution == "" && a.Request.Kind != state.RequestUnknown {
			t.Errorf("%s %s: %q, %q", c.kind, c.data, options, a.Request.Caution)
		}
		if requests[c.kind].method == "" && l.conn.Answer(t.Context(), a.Request, state.Decision{OptionID: "reject"}) == nil {
			t.Errorf("%s was answered", c.kind)
		}
		if strings.Contains(c.options, "reject") && c.kind == "permission.requested" {
			if err := l.decide(a, state.Decision{OptionID: "reject", Reason: "no"}); err != nil {
				t.Errorf("%s %s cannot be refused: %v", c.kind, c.data, err)
			}
		}
	}
	for _, sent := range l.said(permissionMethod) {
		if !strings.Contains(sent, `"result":{"kind":"reject","feedback":"no"}`) {
			t.Errorf("sent %s", sent)
		}
	}
}

// TestHowFarAnApprovalReaches: Copilot keeps the approval of an extension's rights by the
// name of the extension alone.
func TestHowFarAnApprovalReaches(t *testing.T) {
	l := newLink(t)
	a := l.ask("r", "permission.requested", prompted(`"kind":"extension-permission-access","extensionName":"x","capabilities":["a"]`, `"kind":"extension-permission-access","extensionName":"x","capabilities":["a"]`))
	for _, id := range []string{approveForSession, approveForLocation} {
		if o, ok := a.Request.Option(id); !ok || !strings.Contains(o.Label, "whatever rights") {
			t.Errorf("%s: %q", id, o.Label)
		}
	}
}

// TestNoSecretIsKept: what a server sends along for a login stays with Copilot.
func TestNoSecretIsKept(t *testing.T) {
	l := newLink(t)
	a := l.ask("r", "mcp.oauth_required", `"serverName":"mock","serverUrl":"https://a.b","reason":"reauth","staticClientConfig":{"clientId":"i","clientSecret":"hunter2"},"httpResponse":{"headers":[{"name":"x","value":"hunter2"}]}`)
	raw, err := json.Marshal(a.Request)
	if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(a.Request.Params), "hunter2") || !strings.Contains(string(a.Request.Params), "mock") {
		t.Errorf("kept: %s, %s, %v", raw, a.Request.Params, err)
	}
	for i, odd := range []string{`"staticClientConfig":{"clientSecret":"hunter2"}`, `"serverName":["mock"],"staticClientConfig":{"clientSecret":"hunter2"}`} {
		if odd := l.ask(fmt.Sprint("odd-", i), "mcp.oauth_required", odd); strings.Contains(string(odd.Request.Params), "hunter2") || odd.Request.Kind != state.RequestElsewhere {
			t.Errorf("kept: %s %s", odd.Request.Kind, odd.Request.Params)
		}
	}
	l.tell(l.id, "mcp.oauth_required", `{"staticClientConfig":{"clientSecret":"hunter2"}}`)
	l.tell(l.id, "mcp.oauth_completed", `{"requestId":"r","outcome":"cancelled"}`)
	l.ends(a, approvals.AnsweredElsewhere)
	v, err := l.hub.Session(l.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range v.State.ActiveTurn.ResponseParts.All() {
		if n, ok := p.(*state.NotificationPart); ok && strings.Contains(string(n.Meta["nod.raw"]), "hunter2") {
			t.Errorf("shown: %s", n.Meta["nod.raw"])
		}
	}
}

// TestAskedTwice: a call that asks twice has two cards, and shows the newest.
func TestAskedTwice(t *testing.T) {
	l := newLink(t)
	path := l.ask("1", "permission.requested", prompted(`"kind":"read"`, `"kind":"path","accessKind":"read","paths":["/etc/x"],"toolCallId":"r"`))
	if err := l.decide(path, state.Decision{OptionID: approveOnce}); err != nil {
		t.Fatal(err)
	}
	l.tell(l.id, "permission.completed", `{"requestId":"1","result":{"kind":"approved"}}`)
	l.ends(path, approvals.Confirmed)
	file := l.ask("2", "permission.requested", prompted(`"kind":"read"`, `"kind":"read","path":"/etc/x","toolCallId":"r"`))
	if k := l.call("r"); k.Status != state.ToolPendingConfirmation || k.ConfirmationTitle.Text != "Read a file?" {
		t.Errorf("the call is %+v", k)
	}
	l.tell(l.id, "abort", `{"reason":"user_initiated"}`)
	l.ends(file, approvals.Expired)
	if got := l.approval("1").State; got != approvals.Confirmed {
		t.Errorf("the first is %s", got)
	}
	l.conn.alone(func() {
		if l.conn.waits(l.id, requestID("2")) != nil {
			t.Error("the second still waits, though its turn has ended")
		}
	})
}

// TestOfASubagent: its requests are its session's, and are answered in the session
// that it is part of.
func TestOfASubagent(t *testing.T) {
	l := newLink(t)
	l.tell(l.id, "tool.execution_start", `{"toolCallId":"task-1","toolName":"task","arguments":{"description":"look"}}`)
	about := func(kind, data string) {
		l.write(json.RawMessage(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"` + l.id + `","event":{"id":"s-` + kind + `","agentId":"sub1","type":"` + kind + `","data":` + data + `}}}`))
	}
	about("subagent.started", `{"toolCallId":"task-1","agentDisplayName":"Explorer"}`)
	about("user.message", `{"messageId":"t-2","content":"look"}`)
	about("permission.requested", `{"requestId":"r",`+prompted(shellRequest, shellPrompt)+`}`)
	sub := *l
	sub.id = l.id + subOf + "sub1"
	var a *approvals.Approval
	l.until("the sub-agent asks", func() bool {
		if _, err := l.hub.Session(sub.id); err != nil {
			return false
		}
		a = sub.approval("r")
		return a != nil
	})
	if err := sub.decide(a, state.Decision{OptionID: approveOnce}); err != nil {
		t.Fatal(err)
	}
	if said := l.said(permissionMethod); len(said) != 1 || !strings.Contains(said[0], `"sessionId":"`+l.id+`"`) {
		t.Errorf("sent %q", said)
	}
	about("permission.completed", `{"requestId":"r","result":{"kind":"approved"}}`)
	sub.ends(a, approvals.Confirmed)
}

// TestAnsweredUnheard: what was answered while nod did not listen ends as what it
// was, when the log tells.
func TestAnsweredUnheard(t *testing.T) {
	for kind, want := range map[string]struct {
		as   approvals.State
		call state.ToolCallStatus
	}{
		"approved":                     {approvals.AnsweredElsewhere, state.ToolRunning},
		"denied-interactively-by-user": {approvals.AnsweredElsewhere, state.ToolCancelled},
		"cancelled":                    {approvals.Expired, state.ToolPendingConfirmation},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLink(t)
			a := l.ask("r", "permission.requested", prompted(shellRequest, shellPrompt))
			l.conn.alone(func() {
				v, err := l.hub.Session(l.id)
				if err != nil {
					t.Fatal(err)
				}
				s := l.conn.enter(l.id)
				s.recall(v.State, nil)
				for i, e := range []event{
					{Type: "permission.requested", Data: json.RawMessage(`{"requestId":"r",` + prompted(shellRequest, shellPrompt) + `}`)},
					{Type: "permission.completed", Data: json.RawMessage(`{"requestId":"r","result":{"kind":"` + kind + `"}}`)},
				} {
					e.ID = fmt.Sprint("log-", i)
					s.take(t.Context(), e)
				}
				s.caughtUp(t.Context())
			})
			l.ends(a, want.as)
			if k := l.call("c"); k.Status != want.call {
				t.Errorf("the call is %s", k.Status)
			}
		})
	}
}

// TestR12Autopilot: what has Copilot go on without a person takes a proof; and the actions
// stand in Copilot's order.
func TestR12Autopilot(t *testing.T) {
	for _, o := range planOptions {
		if goes := strings.HasPrefix(o.ID, "autopilot"); goes != (state.Value(o.Group) > state.ForSession) {
			t.Errorf("%s is of group %d", o.ID, state.Value(o.Group))
		}
	}
}
