package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn/forms"
	"nod/agentconn/plain"
	"nod/state"
)

// permission is what is asked for (schema PermissionPromptRequest, and below it, for
// what that leaves out, PermissionRequest).
type permission struct {
	Kind       string `json:"kind"`
	ToolCallID string `json:"toolCallId"`
	Intention  string `json:"intention"`

	CanOffer     bool      `json:"canOfferSessionApproval"`
	Managed      bool      `json:"managedApprovalRequired"` // a policy wants a person to decide each time
	Bypass       bool      `json:"requestSandboxBypass"`
	BypassReason string    `json:"requestSandboxBypassReason"`
	Permissive   bool      `json:"requestSandboxPermissive"`
	Assisted     *judgment `json:"assistedApproval"`
	Automatic    *judgment `json:"autoApproval"` // its older name
	Recommended  string    `json:"permissionRecommendation"`

	// A command.
	Command       string                 `json:"fullCommandText"`
	Identifiers   []string               `json:"commandIdentifiers"`
	Warning       string                 `json:"warning"`
	PossiblePaths []string               `json:"possiblePaths"`
	PossibleURLs  []struct{ URL string } `json:"possibleUrls"`
	Resolved      map[string]string      `json:"resolvedPaths"`
	Cwd           string                 `json:"resolvedWorkingDirectory"`
	Segments      []segment              `json:"commandSegments"`

	// Files.
	FileName     string   `json:"fileName"`
	Diff         string   `json:"diff"`
	NewContents  *string  `json:"newFileContents"`
	ResolvedPath string   `json:"resolvedPath"`
	Path         string   `json:"path"`
	AccessKind   string   `json:"accessKind"` // read, write, shell
	Paths        []string `json:"paths"`
	Edits        []struct {
		Before, After struct {
			Path    string
			Content *string
		}
	} `json:"fileEdits"`

	URL            string `json:"url"`
	RedirectedFrom string `json:"redirectedFrom"`

	// Tools.
	ServerName      string          `json:"serverName"`
	ToolName        string          `json:"toolName"`
	ToolTitle       string          `json:"toolTitle"`
	ToolDescription string          `json:"toolDescription"`
	Args            json.RawMessage `json:"args"`
	ToolArgs        json.RawMessage `json:"toolArgs"`
	ReadOnly        bool            `json:"readOnly"`
	ServerWide      *bool           `json:"canOfferServerWideApproval"` // nil: yes
	HookMessage     string          `json:"hookMessage"`

	// Memory.
	Action    string `json:"action"`
	Fact      string `json:"fact"`
	Subject   string `json:"subject"`
	Citations string `json:"citations"`
	Direction string `json:"direction"`
	Reason    string `json:"reason"`
	Scope     string `json:"scope"`
	Repo      string `json:"repoNwo"`

	// Extensions, factories and workflows.
	ExtensionName string   `json:"extensionName"`
	Operation     string   `json:"operation"`
	Capabilities  []string `json:"capabilities"`
	Variables     []string `json:"environmentVariables"`
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	ApprovalKey   string   `json:"approvalKey"`
	CanPersist    bool     `json:"canPersistApproval"`
	Phases        []struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	} `json:"phases"`
	MaxCredits    json.Number `json:"maxAiCredits"`
	MaxConcurrent json.Number `json:"maxConcurrentSubagents"`
	MaxTotal      json.Number `json:"maxTotalSubagents"`
	Timeout       json.Number `json:"timeoutSeconds"`
}

// segment is a part of a command.
type segment struct {
	Cwd string `json:"workingDirectory"`
}

// judgment is what Copilot's own check thinks of a request.
type judgment struct {
	Recommendation string `json:"recommendation"`
	Reason         string `json:"reason"`
}

// kind is how one kind of permission is shown.
type kind struct {
	// show fills in the request and says what an approval that lasts would allow, ""
	// if there is none.
	show func(p *permission, r *state.Request) (lasting string)
	// fields are those that the card shows or that grant nothing, beside those of
	// every kind.
	fields []string
	local  bool // an approval may be a permanent rule for a folder
}

// kinds are the permissions that nod knows. All others can only be refused.
var kinds = map[string]kind{
	"commands": {showCommand, []string{"fullCommandText", "commandIdentifiers", "commands", "commandSegments", "warning", "possiblePaths", "possibleUrls", "resolvedPaths",
		"resolvedWorkingDirectory", "hasWriteFileRedirection", "shellType", "requestSandboxPermissive"}, true},
	"write":                       {showWrite, []string{"fileName", "diff", "newFileContents", "fileEdits", "resolvedPath"}, true},
	"read":                        {showRead, []string{"path", "resolvedPath"}, false},
	"path":                        {showPaths, []string{"accessKind", "paths", "readOnlyDirectories"}, false}, // its request is of any kind
	"url":                         {showURL, []string{"url", "redirectedFrom"}, false},
	"mcp":                         {showMCP, []string{"serverName", "toolName", "toolTitle", "args", "readOnly", "canOfferServerWideApproval", "permissionRecommendation"}, true},
	"custom-tool":                 {showTool, []string{"toolName", "toolDescription", "args", "skipPermission"}, false},
	"hook":                        {showHook, []string{"toolName", "toolArgs", "hookMessage"}, false},
	"memory":                      {showMemory, []string{"action", "fact", "subject", "citations", "direction", "reason", "scope", "repoNwo"}, true},
	"extension-management":        {showManagement, []string{"operation", "extensionName"}, true},
	"extension-permission-access": {showCapabilities, []string{"extensionName", "capabilities"}, true},
	"extension-env-access":        {showVariables, []string{"extensionName", "environmentVariables"}, true},
	"factory":                     {showWorkflow, workflowFields, true},
	"workflow":                    {showWorkflow, workflowFields, true}, // its newer name
}

var workflowFields = []string{"operation", "name", "description", "phases", "approvalKey", "canPersistApproval", "maxAiCredits", "maxConcurrentSubagents", "maxTotalSubagents", "timeoutSeconds",
	"declaredMaxAiCredits", "declaredMaxConcurrentSubagents", "declaredMaxTotalSubagents", "declaredTimeoutSeconds"} // declared: what was wanted, before it was bounded

// everyKind are the fields that may be with any.
var everyKind = []string{"kind", "toolCallId", "intention", "canOfferSessionApproval", "managedApprovalRequired", "assistedApproval", "autoApproval",
	"requestSandboxBypass", "requestSandboxBypassReason", "sandboxPathGrant", "_permissionRequestSessionId"} // the grant is given by another call

// ids of the options, which are Copilot's own words but for those of two words more.
const (
	approveOnce        = "approve-once"
	approveForSession  = "approve-for-session"
	approveServer      = "approve-for-session-server"
	approveForLocation = "approve-for-location"
	approvePermanently = "approve-permanently"
	rejectOption       = "reject"
)

type permissionData struct {
	Request        json.RawMessage `json:"permissionRequest"`
	Prompt         json.RawMessage `json:"promptRequest"`
	ResolvedByHook bool            `json:"resolvedByHook"`
	Risk           json.RawMessage `json:"riskAssessment"`
}

// permission reads what is asked for. Older versions tell no prompt.
func (d permissionData) permission() (p permission, ok bool) {
	if json.Unmarshal(d.Request, &p) != nil || len(d.Prompt) > 0 && json.Unmarshal(d.Prompt, &p) != nil {
		return p, false
	}
	if p.Kind == "shell" {
		p.Kind = "commands"
	}
	return p, true
}

// disagrees names the field of which the request says something else than what a
// person is to be asked, "" if they agree.
func (d permissionData) disagrees() string {
	var request, prompt map[string]any
	_, _ = json.Unmarshal(d.Request, &request), json.Unmarshal(d.Prompt, &prompt) // they have been read before
	for _, name := range []string{"fullCommandText", "fileName", "path", "url"} {
		if a, b := request[name], prompt[name]; a != nil && b != nil && !reflect.DeepEqual(a, b) {
			return name
		}
	}
	return ""
}

func askPermission(ctx context.Context, a *agent, r state.Request) bool {
	d, ok := read[permissionData](r)
	if !ok {
		return false
	}
	if d.ResolvedByHook { // it waits for nobody
		return true
	}
	p, readable := d.permission()
	r.Kind, r.Title, r.Reason, r.Cwd, r.Explains = state.RequestPermissions, "Copilot asks for something that nod does not know", p.Intention, p.Cwd, rejectOption
	known, ok := kinds[p.Kind]
	if ok {
		r.Options = []state.ConfirmationOption{{ID: approveOnce, Label: "Approve once", Kind: state.OptionApprove}}
		lasting := known.show(&p, &r)
		r.Caution = cmp.Or(r.Caution, caution(r.Params, "requestId", "permissionRequest", "promptRequest", "resolvedByHook", "riskAssessment",
			"agentMode", "permissionMode", "ownerSessionId", "ownerAgentId", "recoveryEpisodeId", "fusion"))
		if p.Kind != "path" {
			r.Caution = cmp.Or(r.Caution, caution(d.Request, slices.Concat(everyKind, known.fields)...))
		}
		if len(d.Prompt) > 0 {
			r.Caution = cmp.Or(r.Caution, caution(d.Prompt, slices.Concat(everyKind, known.fields)...))
		}
		if name := d.disagrees(); name != "" {
			r.Caution = "Copilot says two different things of what it asks for (" + name + "), so it can only be refused here. The whole request stands here."
		}
		p.offer(&r, lasting, known.local, a.session.place)
		p.addDetails(&r, d.Risk)
	} else {
		r.Caution = cannotShow("kind: " + p.Kind)
	}
	if !readable {
		r.Caution = "The request cannot be read, so it can only be refused here. It is below."
	}
	r.Options = append(r.Options, state.ConfirmationOption{ID: rejectOption, Label: "Deny", Kind: state.OptionDeny})
	shown := row{tool: plain.Shorten(cmp.Or(p.ToolName, p.Kind, "tool"), 100), name: strings.TrimSuffix(plain.Shorten(r.Title, 80), "?"), does: plain.Shorten(cmp.Or(p.Intention, r.Title), plain.MaxNote)}
	switch {
	case r.Input != "":
		shown.input, shown.meta = plain.Cut(r.Input, maxShown), asCommand
	case r.Diff != "":
		shown.input, shown.meta = plain.Cut(r.Diff, maxShown), asDiff
	}
	a.askAbout(ctx, p.ToolCallID, shown, r)
	return true
}

// offer adds the approvals that last. lasting says what they allow. To read in a
// whole folder, which Copilot has a word for, is not offered: 1.0.102 takes it and
// asks again all the same.
func (p *permission) offer(r *state.Request, lasting string, local bool, place string) {
	if lasting == "" || p.Bypass || p.Managed {
		return
	}
	add := func(id, label string, group int64, detail state.Detail) {
		r.Options = append(r.Options, state.ConfirmationOption{ID: id, Label: label, Kind: state.OptionApprove, Group: new(group)})
		if detail.Option = id; detail.Text != "" {
			r.Details = append(r.Details, detail)
		}
	}
	short := plain.Shorten(lasting, 100)
	exact := map[string]string{"commands": strings.Join(p.Identifiers, "\n"), "url": lasting}[p.Kind] // a label may be cut
	add(approveForSession, "Approve for this session: "+short, state.ForSession, state.Detail{Label: "For this session, without asking", Text: exact})
	if p.Kind == "mcp" && (p.ServerWide == nil || *p.ServerWide) {
		add(approveServer, "Approve for this session: every tool of “"+plain.Shorten(p.ServerName, 100)+"”", state.ForSession, state.Detail{})
	}
	if p.Kind == "url" {
		add(approvePermanently, "Always approve: "+short+" (permanent rule)", state.ForGood, state.Detail{Label: "The permanent rule: without asking", Text: exact})
	}
	if local && place != "" {
		if exact != "" {
			r.Details = append(r.Details, state.Detail{Label: "The permanent rule: without asking", Text: exact, Option: approveForLocation})
		}
		add(approveForLocation, "Always approve in this folder: "+short+" (permanent rule)", state.ForGood, state.Detail{Label: placeLabel, Text: place})
	}
}

// placeLabel says, above a folder, where a permanent rule holds: there is where an
// answer finds it.
const placeLabel = "The permanent rule holds below"

// addDetails shows what comes with any kind.
func (p *permission) addDetails(r *state.Request, risk json.RawMessage) {
	add := func(label, text string) {
		if text != "" {
			r.Details = append(r.Details, state.Detail{Label: label, Text: text})
		}
	}
	if p.Bypass {
		r.Title = strings.TrimSuffix(r.Title, "?") + " outside the sandbox?"
		how := "without the sandbox"
		if p.Permissive {
			how = "in a sandbox that only notes down what it should keep it from, and outside the sandbox if that does not do"
		}
		add("It would happen", how)
		add("Because", p.BypassReason)
	}
	add("Copilot warns", p.Warning)
	for _, j := range []*judgment{p.Assisted, p.Automatic} {
		if j != nil {
			add("Copilot's own check says", plain.Joined(": ", plain.Words(j.Recommendation), j.Reason))
		}
	}
	if p.Recommended != "" {
		add("Copilot's advice", p.Recommended)
	}
	if len(risk) > 0 && string(risk) != "null" {
		add("The host of the tool says of the risk", string(risk))
	}
}

// ---- each kind ----

func showCommand(p *permission, r *state.Request) string {
	r.Kind, r.Title, r.Input = state.RequestCommand, "Run a command?", p.Command
	if p.Command == "" {
		r.Caution = cannotShow("no command")
	}
	var paths, urls []string
	for _, path := range p.PossiblePaths {
		paths = append(paths, really(path, p.Resolved[path]))
	}
	for _, u := range p.PossibleURLs {
		urls = append(urls, u.URL)
	}
	if len(paths) > 0 {
		r.Details = append(r.Details, state.Detail{Label: "It may touch", Text: strings.Join(paths, "\n")})
	}
	if len(urls) > 0 {
		r.Details = append(r.Details, state.Detail{Label: "It may reach", Text: strings.Join(urls, "\n")})
	}
	if parts := p.Segments; len(parts) > 0 && !slices.ContainsFunc(parts, func(s segment) bool { return s != parts[0] }) {
		r.Cwd = cmp.Or(r.Cwd, parts[0].Cwd)
	}
	if !p.CanOffer || len(p.Identifiers) == 0 {
		return ""
	}
	return strings.Join(p.Identifiers, ", ")
}

// really says what a path leads to.
func really(path, to string) string {
	if to == "" || to == path {
		return path
	}
	return path + "\n  which is " + to
}

func showWrite(p *permission, r *state.Request) string {
	r.Kind, r.Title = state.RequestFileChange, "Change a file?"
	r.Details = []state.Detail{{Label: "File", Text: really(p.FileName, p.ResolvedPath)}}
	switch r.Diff = diffOf(p.Diff); {
	case r.Diff != "":
	case p.Diff == "" && p.NewContents != nil:
		r.Diff = added(p.FileName, *p.NewContents)
	case p.Diff != "":
		r.Details = append(r.Details, state.Detail{Label: "What changes", Text: p.Diff})
	default:
		r.Caution = cannotShow("no diff")
	}
	if p.Diff != "" {
		showAfter(r, p.FileName, p.NewContents)
		for _, e := range p.Edits {
			showAfter(r, e.After.Path, e.After.Content)
		}
	}
	for _, e := range p.Edits {
		switch from, to := e.Before.Path, e.After.Path; {
		case len(p.Edits) > 1 && !strings.Contains(p.Diff, cmp.Or(to, from)):
			r.Caution = cannotShow("a change of " + cmp.Or(to, from))
		case from != "" && to != "" && from != to:
			r.Details = append(r.Details, state.Detail{Label: "It is moved from", Text: from})
		}
	}
	if !p.CanOffer {
		return ""
	}
	return "to write any file"
}

// showAfter shows, once, all that a file will hold: a diff tells only what changes.
func showAfter(r *state.Request, name string, text *string) {
	if text == nil {
		return
	}
	d := state.Detail{Label: "All of " + name + " afterwards", Text: *text, File: true}
	if d.Text == "" {
		d.Label = "Nothing is left in " + name
	}
	if !slices.Contains(r.Details, d) {
		r.Details = append(r.Details, d)
	}
}

func showRead(p *permission, r *state.Request) string {
	r.Kind, r.Title, r.Details = state.RequestRead, "Read a file?", []state.Detail{{Label: "To read", Text: really(p.Path, p.ResolvedPath)}}
	if p.Path == "" {
		r.Caution = cannotShow("no path")
	}
	return "to read any file"
}

func showPaths(p *permission, r *state.Request) string {
	words := map[string]string{"read": "To read", "write": "To write", "shell": "For a command, to read or write"}
	r.Title, r.Details = "Leave the folders of this session?", []state.Detail{{Label: words[p.AccessKind], Text: strings.Join(p.Paths, "\n")}}
	if words[p.AccessKind] == "" || len(p.Paths) == 0 {
		r.Caution = cannotShow("accessKind: " + p.AccessKind)
	}
	if p.Command != "" {
		r.Details = append(r.Details, state.Detail{Label: "The command, which may be asked about, too", Text: p.Command})
	}
	if len(p.Paths) == 1 {
		return "this path"
	}
	return "these paths"
}

func showURL(p *permission, r *state.Request) string {
	r.Kind, r.Title, r.Details = state.RequestRead, "Fetch a web page?", []state.Detail{{Label: "Address", Text: p.URL}}
	if p.RedirectedFrom != "" {
		r.Details = append(r.Details, state.Detail{Label: "Redirected from", Text: p.RedirectedFrom})
	}
	if p.URL == "" {
		r.Caution = cannotShow("no url")
	}
	return origin(p.URL)
}

// origin is what Copilot calls the domain of an address, "" if it is no plain one.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || !state.WebAddress(address) {
		return ""
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return scheme + "://" + strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
}

func showMCP(p *permission, r *state.Request) string {
	r.Kind, r.Title = state.RequestTool, "Run the tool “"+plain.Shorten(cmp.Or(p.ToolTitle, p.ToolName), 100)+"” of “"+plain.Shorten(p.ServerName, 100)+"”?"
	r.Details = append(parameters(p.Args), state.Detail{Label: "MCP server and tool", Text: p.ServerName + " · " + p.ToolName})
	if p.ReadOnly {
		r.Details = append(r.Details, state.Detail{Label: "The server says that this tool", Text: "only reads"})
	}
	if p.ServerName == "" || p.ToolName == "" {
		r.Caution = cannotShow("no tool")
	}
	return "this tool, with whatever parameters"
}

// parameters are what a tool is given.
func parameters(raw json.RawMessage) []state.Detail {
	members := forms.Members(raw)
	switch {
	case members == nil && len(raw) > 0 && string(raw) != "null":
		return []state.Detail{{Label: "Parameters", Text: forms.Member{Value: raw}.Words()}}
	case len(members) == 0:
		return []state.Detail{{Label: "Parameters", Text: "none"}}
	}
	var out []state.Detail
	for _, m := range members {
		out = append(out, state.Detail{Label: "Parameter " + m.Name, Text: m.Words()})
	}
	return out
}

func showTool(p *permission, r *state.Request) string {
	r.Kind, r.Title, r.Details = state.RequestTool, "Run the tool “"+plain.Shorten(p.ToolName, 100)+"”?", append(parameters(p.Args), state.Detail{Label: "Tool", Text: p.ToolName})
	if p.ToolDescription != "" {
		r.Details = append(r.Details, state.Detail{Label: "What it does, in its own words", Text: p.ToolDescription})
	}
	if p.ToolName == "" {
		r.Caution = cannotShow("no tool")
	}
	return "this tool, with whatever parameters"
}

func showHook(p *permission, r *state.Request) string {
	r.Kind, r.Title, r.Details = state.RequestTool, "A hook wants you to look: run the tool “"+plain.Shorten(p.ToolName, 100)+"”?", append(parameters(p.ToolArgs), state.Detail{Label: "Tool", Text: p.ToolName})
	r.Reason = cmp.Or(p.HookMessage, p.Intention)
	if p.ToolName == "" {
		r.Caution = cannotShow("no tool")
	}
	return ""
}

func showMemory(p *permission, r *state.Request) string {
	r.Title = "Remember this?"
	switch p.Action {
	case "", "store":
	case "vote":
		r.Title = "Judge this memory?"
	default:
		r.Caution = cannotShow("action: " + p.Action)
	}
	who := map[string]string{"user": "in all your repositories", "repository": "for everybody who works on " + cmp.Or(p.Repo, "this repository")}
	for _, d := range []state.Detail{
		{Label: "Fact", Text: p.Fact}, {Label: "About", Text: p.Subject}, {Label: "Sources", Text: p.Citations}, {Label: "Vote", Text: p.Direction},
		{Label: "Because", Text: p.Reason}, {Label: "It counts", Text: cmp.Or(who[p.Scope], p.Scope)},
	} {
		if d.Text != "" {
			r.Details = append(r.Details, d)
		}
	}
	return "to remember anything"
}

func showManagement(p *permission, r *state.Request) string {
	r.Title, r.Details = "Change Copilot's extensions?", []state.Detail{{Label: "Operation", Text: p.Operation}}
	if p.ExtensionName != "" {
		r.Details = append(r.Details, state.Detail{Label: "Extension", Text: p.ExtensionName})
	}
	if p.Operation == "" {
		r.Caution = cannotShow("no operation")
		return ""
	}
	return p.Operation + " of extensions"
}

func showCapabilities(p *permission, r *state.Request) string {
	r.Title = "Give an extension more rights?"
	r.Details = []state.Detail{{Label: "Extension", Text: p.ExtensionName}, {Label: "It wants to", Text: strings.Join(p.Capabilities, "\n")}}
	if slices.Contains(p.Capabilities, "observe permission requests") { // for good it could see what others are asked
		return ""
	}
	return "this extension, with whatever rights it wants" // it is kept by its name
}

func showVariables(p *permission, r *state.Request) string {
	r.Title = "Let an extension read secret environment variables?"
	r.Details = []state.Detail{{Label: "Extension", Text: p.ExtensionName}, {Label: "Variables", Text: strings.Join(p.Variables, "\n")}}
	return "this extension, these variables"
}

func showWorkflow(p *permission, r *state.Request) string {
	r.Title = map[string]string{"run": "Run a workflow?", "author": "Write a workflow?"}[p.Operation]
	if r.Title == "" {
		r.Title, r.Caution = "A workflow?", cannotShow("operation: "+p.Operation)
	}
	var phases []string
	for _, phase := range p.Phases {
		phases = append(phases, plain.Joined(": ", phase.Title, phase.Detail))
	}
	limit := func(n json.Number) string { return cmp.Or(n.String(), "no limit") }
	r.Details = []state.Detail{
		{Label: "Workflow", Text: plain.Joined("\n", p.Name, p.Description)}, {Label: "Steps", Text: cmp.Or(strings.Join(phases, "\n"), "none named")},
		{Label: "Limits", Text: fmt.Sprintf("AI credits: %s\nsub-agents at once: %s\nsub-agents in all: %s\nseconds at work: %s", limit(p.MaxCredits), limit(p.MaxConcurrent), limit(p.MaxTotal), limit(p.Timeout))},
	}
	if !p.CanPersist {
		return ""
	}
	return "this workflow, within these limits"
}

// ---- answers ----

// approval is what an approval that lasts is for (schema UserToolSessionApproval),
// nil for what has no such word.
func (p *permission) approval(option string) json.RawMessage {
	fields := map[string]any{"kind": p.Kind}
	switch p.Kind {
	case "commands":
		fields["commandIdentifiers"] = p.Identifiers
	case "read", "write", "memory":
	case "mcp":
		fields["serverName"], fields["toolName"] = p.ServerName, p.ToolName
		if option == approveServer {
			fields["toolName"] = nil
		}
	case "custom-tool":
		fields["toolName"] = p.ToolName
	case "extension-management":
		fields["operation"] = p.Operation
	case "extension-permission-access":
		fields["extensionName"] = p.ExtensionName
	case "extension-env-access":
		fields["extensionName"], fields["environmentVariables"] = p.ExtensionName, p.Variables
	case "factory", "workflow":
		fields["approvalKey"] = p.ApprovalKey
	default:
		return nil
	}
	return json.RawMessage(plain.Value(fields))
}

// decision is the answer to a permission. A hook's takes other words.
func (p *permission) decision(r state.Request, d state.Decision) rpc.PermissionDecision {
	switch hook := p.Kind == "hook"; d.OptionID {
	case approveOnce:
		if hook {
			return &rpc.PermissionDecisionApproved{}
		}
		return &rpc.PermissionDecisionApproveOnce{ApprovedInteractively: new(true)}
	case rejectOption:
		if hook {
			return &rpc.PermissionDecisionDeniedInteractivelyByUser{Feedback: state.Optional(d.Reason)}
		}
		return &rpc.PermissionDecisionReject{Feedback: state.Optional(d.Reason)}
	case approveForSession, approveServer:
		switch p.Kind {
		case "path":
			return &rpc.PermissionDecisionApproveForSession{}
		case "url":
			return &rpc.PermissionDecisionApproveForSession{Domain: new(origin(p.URL))}
		}
		return &rpc.PermissionDecisionApproveForSession{Approval: rpc.RawPermissionDecisionApproveForSessionApprovalData{Raw: p.approval(d.OptionID)}}
	case approvePermanently:
		return &rpc.PermissionDecisionApprovePermanently{Domain: origin(p.URL)}
	case approveForLocation:
		i := slices.IndexFunc(r.Details, func(x state.Detail) bool { return x.Option == approveForLocation && x.Label == placeLabel })
		if i < 0 {
			return nil
		}
		return &rpc.PermissionDecisionApproveForLocation{Approval: rpc.RawPermissionDecisionApproveForLocationApprovalData{Raw: p.approval(d.OptionID)}, LocationKey: r.Details[i].Text}
	}
	return nil
}

func answerPermission(ctx context.Context, s *sdk.Session, id string, r state.Request, d state.Decision) error {
	data, _ := read[permissionData](r)
	p, _ := data.permission() // one that cannot be read is only refused
	result := p.decision(r, d)
	if result == nil {
		return fmt.Errorf("copilot: a permission has no answer %q", d.OptionID)
	}
	_, err := s.RPC.Permissions.HandlePendingPermissionRequest(ctx, &rpc.PermissionDecisionRequest{RequestID: id, Result: result})
	return err
}
