package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

// request is how one kind of server request is asked and answered.
type request struct {
	// ask fills in the request and puts it before a person. It returns false,
	// having done nothing, if the request holds nothing that it can show.
	ask func(*conn, context.Context, *thread, requestParams, state.Request) bool
	// answer is the result for a decision; nil if nod has none to give.
	answer func(state.Request, requestParams, state.Decision) any
}

// requests are the server requests that nod knows. All others become a card that
// shows what came, and stay unanswered.
var requests = map[string]request{
	"item/commandExecution/requestApproval": {(*conn).askCommand, decision},
	"item/fileChange/requestApproval":       {(*conn).askFileChange, decision},
	"item/permissions/requestApproval":      {(*conn).askPermissions, grant},
	"item/tool/requestUserInput":            {(*conn).askQuestions, userInput},
	"mcpServer/elicitation/request":         {(*conn).askElicitation, elicited},
	"item/tool/call":                        {(*conn).askToolCall, nil},
	"account/chatgptAuthTokens/refresh":     {(*conn).askTokens, nil},
	"execCommandApproval":                   {(*conn).askLegacyCommand, decision},
	"applyPatchApproval":                    {(*conn).askLegacyPatch, decision},
}

// approvalOptions are the answers to an approval. what says how far one for the
// session goes. Codex names fewer in availableDecisions but takes them all.
func approvalOptions(what string) []state.ConfirmationOption {
	return []state.ConfirmationOption{
		{ID: "accept", Label: "Approve once", Kind: state.OptionApprove},
		{ID: "acceptForSession", Label: "Approve for this session: " + what, Kind: state.OptionApprove, Group: new(state.ForSession)},
		{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		{ID: "cancel", Label: "Deny and stop the turn", Kind: state.OptionDeny, Group: new(state.ForSession)},
	}
}

// legacyOptions are those words in the older protocol. Newer versions would have
// another one for "denied", and take this one for a denial too: so they do with
// all that they cannot read.
func legacyOptions(what string) []state.ConfirmationOption {
	options := approvalOptions(what)
	for i, word := range []string{"approved", "approved_for_session", "denied", "abort"} {
		options[i].ID = word
	}
	return options
}

type requestParams struct {
	ThreadID       string `json:"threadId"`
	ConversationID string `json:"conversationId"` // in the older protocol
	TurnID         string `json:"turnId"`
	ItemID         string `json:"itemId"`
	CallID         string `json:"callId"`
	Reason         string `json:"reason"`
	Cwd            string `json:"cwd"`
	Environment    string `json:"environmentId"`

	// Approvals.
	Kind                  string                  `json:"kind"`
	Command               json.RawMessage         `json:"command"` // a text; in the older protocol, a list of words
	CommandActions        []commandAction         `json:"commandActions"`
	GrantRoot             string                  `json:"grantRoot"`
	FileChanges           map[string]legacyChange `json:"fileChanges"`
	AvailableDecisions    []json.RawMessage       `json:"availableDecisions"`
	ExecpolicyAmendment   []string                `json:"proposedExecpolicyAmendment"`
	NetworkAmendments     []networkAmendment      `json:"proposedNetworkPolicyAmendments"`
	Network               json.RawMessage         `json:"networkApprovalContext"`
	AdditionalPermissions json.RawMessage         `json:"additionalPermissions"`
	Permissions           json.RawMessage         `json:"permissions"`
	Skill                 json.RawMessage         `json:"skillMetadata"`

	Questions        []wireQuestion `json:"questions"`
	IsBlocking       *bool          `json:"isBlocking"`
	AutoResolutionMs *float64       `json:"autoResolutionMs"`

	// An elicitation of an MCP server.
	ServerName      string          `json:"serverName"`
	Mode            string          `json:"mode"`
	Message         string          `json:"message"`
	URL             string          `json:"url"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
	Meta            json.RawMessage `json:"_meta"`

	// A call of a tool that a client has brought along.
	Namespace string          `json:"namespace"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

type networkContext struct {
	Host     string `json:"host"`
	Protocol string `json:"protocol"`
}

type networkAmendment struct {
	Host   string `json:"host"`
	Action string `json:"action"` // allow, deny
}

type legacyChange struct {
	Type        string `json:"type"`
	Content     string `json:"content"`
	UnifiedDiff string `json:"unified_diff"`
	MovePath    string `json:"move_path"`
}

// refusals are the answers that refuse a request by its id. What is not here can only be
// answered by who has read it.
var refusals = map[string][]state.ConfirmationOption{
	"item/commandExecution/requestApproval": approvalOptions("")[2:],
	"item/fileChange/requestApproval":       approvalOptions("")[2:],
	"item/permissions/requestApproval":      approvalOptions("")[2:3],
	"mcpServer/elicitation/request":         approvalOptions("")[2:3],
	"execCommandApproval":                   legacyOptions("")[2:],
	"applyPatchApproval":                    legacyOptions("")[2:],
}

// serverRequest turns a request of Codex into one that waits for a person. Of one that
// is longer than nod reads, m is the outline, and long says how long; else that is nil.
func (c *conn) serverRequest(ctx context.Context, m message, long *agentconn.Outline) {
	var p requestParams
	readable := json.Unmarshal(m.Params, &p) == nil
	if !readable { // for the thread alone
		var t struct {
			ThreadID       string `json:"threadId"`
			ConversationID string `json:"conversationId"`
		}
		_ = json.Unmarshal(m.Params, &t)
		p = requestParams{ThreadID: t.ThreadID, ConversationID: t.ConversationID}
	}
	threads := c.asking(cmp.Or(p.ThreadID, p.ConversationID))
	if len(threads) == 0 {
		c.log.Warn("a request for a thread that nod does not have stays unanswered", "method", plain.Shorten(m.Method, 80))
		raw, _ := json.Marshal(m) // it was JSON a moment ago
		c.sink.Opaque(ctx, "", raw)
		return
	}
	for _, th := range threads {
		if th.replaying {
			th.asked = append(th.asked, m.ID)
		}
		r := state.Request{
			Session: th.uri, TurnID: cmp.Or(p.TurnID, th.turn), Provider: Provider, Epoch: c.epoch,
			UpstreamID: m.ID, Method: m.Method, Params: m.Params, Reason: p.Reason, Cwd: p.Cwd,
		}
		if p.Environment != "local" {
			r.Environment = p.Environment
		}
		if long != nil {
			r.Title = "Codex asks something that is too long to be shown"
			c.askFree(ctx, th, long.Refusable(r, refusals[m.Method]))
			continue
		}
		if known, ok := requests[m.Method]; readable && ok && known.ask(c, ctx, th, p, r) {
			continue
		}
		r.Kind, r.Title = state.RequestUnknown, "Codex asks something that nod does not know"
		c.sink.Ask(ctx, r)
	}
}

// asking returns the thread of a request. One that names no thread may hold up
// any turn.
func (c *conn) asking(id string) []*thread {
	if th := c.threads[id]; th != nil {
		return []*thread{th}
	}
	var busy []*thread
	if id == "" {
		for _, id := range slices.Sorted(maps.Keys(c.threads)) {
			if th := c.threads[id]; th.turn != "" {
				busy = append(busy, th)
			}
		}
	}
	return busy
}

// cannotShow is a Caution.
func cannotShow(what string) string {
	return "This request holds something that nod cannot show as it should be shown (" + plain.Shorten(what, 60) + "), so it can only be refused here. The whole request stands here."
}

// caution tells what a request holds beside the fields that its card shows or
// that grant nothing.
func caution(raw []byte, shown ...string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return "The request cannot be read."
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if string(fields[name]) != "null" && !slices.Contains(shown, name) {
			return cannotShow(name)
		}
	}
	return ""
}

// envelope addresses an action to the session of a thread.
func (th *thread) envelope(a state.Action) state.Envelope {
	return state.Envelope{Channel: th.uri, Action: a}
}

// askAbout puts a request before a person that belongs to a tool call, which
// waits with it.
func (c *conn) askAbout(ctx context.Context, th *thread, item, invocation string, r state.Request) {
	r.ToolCallID = item
	title, input := state.Plain(r.Title), r.Input
	if r.Kind == state.RequestFileChange {
		input = r.Diff
	}
	c.sink.Ask(ctx, r, th.envelope(&state.SessionToolCallReady{
		TurnID: r.TurnID, ToolCallID: item, InvocationMessage: state.Plain(invocation),
		ToolInput: &input, ConfirmationTitle: &title, Options: r.Options,
	}))
}

// askFree puts a request before a person that belongs to no tool call. AHP shows
// it as a request for input.
func (c *conn) askFree(ctx context.Context, th *thread, r state.Request) {
	if r.Questions == nil {
		r.Questions = &state.InputRequest{Message: &r.Title}
	}
	r.Questions.ID = c.epoch + "/" + string(r.UpstreamID)
	c.sink.Ask(ctx, r, th.envelope(&state.SessionInputRequested{Request: *r.Questions}))
}

// ---- commands ----

func (c *conn) askCommand(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	var command string
	_ = json.Unmarshal(p.Command, &command) // a request about the network alone has none
	var network networkContext
	aboutNetwork := strictly(p.Network, &network) && network.Host != ""
	if command == "" && !aboutNetwork {
		return false
	}
	r.Kind, r.Title, r.Input = state.RequestCommand, "Run a command?", command
	r.Options, r.Explains = approvalOptions("the same command only"), "decline"
	r.Caution = caution(r.Params, "threadId", "turnId", "itemId", "approvalId", "startedAtMs", "environmentId", "kind", "reason", "command", "cwd",
		"commandActions", "availableDecisions", "proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments", "networkApprovalContext", "additionalPermissions", "skillMetadata")
	details, ok := permissionDetails(p.AdditionalPermissions)
	if !ok {
		r.Caution = cannotShow("additionalPermissions")
	}
	if len(details) > 0 {
		r.Title = "Run a command with more rights?"
	}
	r.Details = details
	if len(p.Skill) > 0 && string(p.Skill) != "null" {
		var skill struct {
			Path string `json:"pathToSkillsMd"`
		}
		if !strictly(p.Skill, &skill) {
			r.Caution = cannotShow("skillMetadata")
		}
		r.Details = append(r.Details, state.Detail{Label: "It belongs to the skill", Text: skill.Path})
	}
	switch {
	case !aboutNetwork && len(p.Network) > 0 && string(p.Network) != "null":
		r.Caution = cannotShow("networkApprovalContext")
	case aboutNetwork:
		r.Title, r.Options[1].Label = "Allow access to the network?", "Approve for this session: this host only"
		r.Details = append(r.Details, state.Detail{Label: "It wants to reach", Text: network.Host + " (" + protocolWords(network.Protocol) + ")"})
	case p.Kind == "writeStdin":
		r.Title, r.Options = "Type into a command that runs?", slices.Delete(r.Options, 1, 2)
	case p.Kind == "humanCommand":
		r.Title, r.Options = "Run a command that only a person may allow?", slices.Delete(r.Options, 1, 2)
	case p.Kind != "" && p.Kind != "command":
		r.Caution = cannotShow("kind: " + p.Kind)
	}
	if p.Kind == "" || p.Kind == "command" {
		offerAmendments(&r, p)
	}
	r.Options = p.inOrder(r.Options)
	if aboutNetwork || p.Kind == "writeStdin" || p.Kind == "humanCommand" { // none of these is the item's command
		c.askFree(ctx, th, r)
		return true
	}
	w := wireItem{Type: "commandExecution", ID: p.ItemID, Command: command, Cwd: p.Cwd, CommandActions: p.CommandActions}
	it := c.start(ctx, th, r.TurnID, p.ItemID, "commandExecution", w)
	r.Cwd = cmp.Or(r.Cwd, it.wire.Cwd)
	c.askAbout(ctx, th, it.id, w.summary(), r)
	return true
}

func protocolWords(protocol string) string {
	switch protocol {
	case "socks5Tcp":
		return "SOCKS5, TCP"
	case "socks5Udp":
		return "SOCKS5, UDP"
	}
	return strings.ToUpper(protocol)
}

// wireDecision is a decision that is more than a word: it writes a permanent rule.
type wireDecision struct {
	Execpolicy *struct {
		Prefix []string `json:"execpolicy_amendment"`
	} `json:"acceptWithExecpolicyAmendment,omitempty"`
	Network *struct {
		Amendment networkAmendment `json:"network_policy_amendment"`
	} `json:"applyNetworkPolicyAmendment,omitempty"`
}

// ruleOf reads a decision that writes a rule; others are words.
func ruleOf(raw json.RawMessage) (d wireDecision, rule bool) {
	rule = json.Unmarshal(raw, &d) == nil && (d.Execpolicy != nil || d.Network != nil)
	return d, rule
}

// amendments are the permanent rules that a request proposes. Where it lists the
// decisions that may be offered, those are meant.
func (p requestParams) amendments() []wireDecision {
	var out []wireDecision
	if p.AvailableDecisions != nil {
		for _, raw := range p.AvailableDecisions {
			if d, rule := ruleOf(raw); rule {
				out = append(out, d)
			}
		}
		return out
	}
	if len(p.ExecpolicyAmendment) > 0 {
		var d wireDecision
		d.Execpolicy = &struct {
			Prefix []string `json:"execpolicy_amendment"`
		}{p.ExecpolicyAmendment}
		out = append(out, d)
	}
	for _, a := range p.NetworkAmendments {
		var d wireDecision
		d.Network = &struct {
			Amendment networkAmendment `json:"network_policy_amendment"`
		}{a}
		out = append(out, d)
	}
	return out
}

// amendmentID is the id of the option for the n-th amendment.
func amendmentID(n int) string { return fmt.Sprint("amendment-", n) }

// offerAmendments adds the permanent rules to what a request offers, each behind its
// like.
func offerAmendments(r *state.Request, p requestParams) {
	for n, d := range p.amendments() {
		o := state.ConfirmationOption{ID: amendmentID(n), Kind: state.OptionApprove, Group: new(state.ForGood)}
		detail := state.Detail{Option: o.ID}
		switch {
		case d.Execpolicy != nil:
			o.Label = "Approve, and write the permanent rule"
			detail.Label, detail.Text = "The permanent rule: every session may run commands that begin with", plainJSON(d.Execpolicy.Prefix)
		case d.Network.Amendment.Action == "allow":
			o.Label = "Always allow this host (permanent rule)"
			detail.Label, detail.Text = "The permanent rule: every session may reach", d.Network.Amendment.Host
		case d.Network.Amendment.Action == "deny":
			o.Label, o.Kind = "Always deny this host (permanent rule)", state.OptionDeny
			detail.Label, detail.Text = "The permanent rule: no session may reach", d.Network.Amendment.Host
		default: // an action that nobody knows
			continue
		}
		r.Details = append(r.Details, detail)
		at := len(r.Options)
		if o.Kind == state.OptionApprove {
			at = slices.IndexFunc(r.Options, func(x state.ConfirmationOption) bool { return x.Kind == state.OptionDeny })
		}
		r.Options = slices.Insert(r.Options, at, o)
	}
}

// inOrder puts the options that a request lists into the order in which it lists them.
// What Codex takes without listing it stays where it is.
func (p requestParams) inOrder(options []state.ConfirmationOption) []state.ConfirmationOption {
	place, rules := map[string]int{}, 0
	for i, raw := range p.AvailableDecisions {
		var word string
		if _, rule := ruleOf(raw); rule {
			word = amendmentID(rules)
			rules++
		} else if json.Unmarshal(raw, &word) != nil {
			continue // nobody knows what it says
		}
		place[word] = i
	}
	isListed := func(o state.ConfirmationOption) bool { _, ok := place[o.ID]; return ok }
	listed := slices.DeleteFunc(slices.Clone(options), func(o state.ConfirmationOption) bool { return !isListed(o) })
	slices.SortStableFunc(listed, func(a, b state.ConfirmationOption) int { return place[a.ID] - place[b.ID] })
	out := slices.Clone(options)
	for i, o := range out {
		if isListed(o) {
			out[i], listed = listed[0], listed[1:]
		}
	}
	return out
}

// plainJSON is the text of a value, without the escapes that JSON does not need.
func plainJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings and what JSON was read into always encode
	return strings.TrimSuffix(b.String(), "\n")
}

// strictly decodes a value, and reports whether v now holds all of it.
func strictly(raw json.RawMessage, v any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v) == nil
}

func (c *conn) askLegacyCommand(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	var argv []string
	if json.Unmarshal(p.Command, &argv) != nil || len(argv) == 0 {
		return false
	}
	r.Kind, r.Title, r.Input, r.Options = state.RequestCommand, "Run a command?", shellWords(argv), legacyOptions("the same command only")
	r.Caution = caution(r.Params, "conversationId", "callId", "approvalId", "command", "cwd", "parsedCmd", "reason")
	w := wireItem{Type: "commandExecution", ID: p.CallID, Command: r.Input, Cwd: p.Cwd}
	it := c.start(ctx, th, r.TurnID, p.CallID, "commandExecution", w)
	c.askAbout(ctx, th, it.id, w.summary(), r)
	return true
}

// shellWords writes a list of words as a shell would have to be told them.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+/.,:@%") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// ---- files ----

func (c *conn) askFileChange(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	it := th.items[p.ItemID]
	if it == nil || it.turn != r.TurnID || len(it.wire.Changes) == 0 && !it.recalled {
		return false
	}
	r.Explains, r.Options = "decline", approvalOptions("these files only")
	r.Caution = caution(r.Params, "threadId", "turnId", "itemId", "startedAtMs", "environmentId", "reason", "grantRoot")
	r.Diff = unified(it.wire.Changes)
	about := "Edit " + fileNames(it.wire.Changes)
	if len(it.wire.Changes) == 0 { // Codex 0.122 does not tell them again
		r.Diff, about = it.row.input, it.row.does
	}
	if r.Diff == "" {
		return false
	}
	c.askToWrite(ctx, th, it.id, about, p.GrantRoot, r)
	return true
}

func (c *conn) askLegacyPatch(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	var changes []fileChange
	for _, path := range slices.Sorted(maps.Keys(p.FileChanges)) {
		l := p.FileChanges[path]
		f := fileChange{Path: path, Diff: l.Content}
		f.Kind.Type, f.Kind.MovePath = l.Type, l.MovePath
		switch l.Type {
		case "add", "delete":
		case "update":
			f.Diff = l.UnifiedDiff
		default:
			return false
		}
		changes = append(changes, f)
	}
	if len(changes) == 0 {
		return false
	}
	r.Options = legacyOptions("these files only")
	r.Caution = caution(r.Params, "conversationId", "callId", "reason", "grantRoot", "fileChanges")
	it := c.start(ctx, th, r.TurnID, p.CallID, "fileChange", wireItem{Type: "fileChange", ID: p.CallID, Changes: changes})
	r.Diff = unified(changes)
	c.askToWrite(ctx, th, it.id, "Edit "+fileNames(changes), p.GrantRoot, r)
	return true
}

func (c *conn) askToWrite(ctx context.Context, th *thread, item, about, grantRoot string, r state.Request) {
	r.Kind, r.Title = state.RequestFileChange, "Change files?"
	if grantRoot != "" {
		r.Title = "Change files, and more below a folder?"
		r.Options[0].Label, r.Options[0].Group = "Approve, and allow that folder", new(state.ForSession)
		r.Details = []state.Detail{{Label: "Approving also allows it, for this session, to write below", Text: grantRoot}}
	}
	c.askAbout(ctx, th, item, about, r)
}

// ---- what Codex asks of other programs ----

func (c *conn) askToolCall(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	if p.Tool == "" {
		return false
	}
	r.Kind, r.Title = state.RequestElsewhere, "Codex waits for another program"
	r.Caution = "Only the program that gave Codex this tool can run it: open that program, or stop the turn here."
	r.Details = []state.Detail{{Label: "Tool", Text: strings.TrimPrefix(p.Namespace+"."+p.Tool, ".")}, {Label: "With", Text: string(p.Arguments)}}
	th.tools[p.CallID] = r.UpstreamID
	c.askFree(ctx, th, r)
	return true
}

func (c *conn) askTokens(ctx context.Context, th *thread, _ requestParams, r state.Request) bool {
	r.Kind, r.Title, r.Reason = state.RequestElsewhere, "Codex is no longer logged in", ""
	r.Caution = "The program that logged Codex in has to hand it new tokens, and nod is not that program. If nothing happens, stop the turn, run “codex login” in a terminal on that machine, and send your message again."
	c.askFree(ctx, th, r)
	return true
}

func (c *conn) resolved(ctx context.Context, th *thread, p params) {
	c.mu.Lock()
	how := state.EndedElsewhere
	if c.ours[string(p.RequestID)] {
		how = state.EndedAnswered // or somebody was faster by less than the way there
	}
	delete(c.ours, string(p.RequestID))
	c.mu.Unlock()
	c.sink.Resolved(ctx, th.uri, c.epoch, p.RequestID, how)
}
