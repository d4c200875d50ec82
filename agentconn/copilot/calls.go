package copilot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nod/agentconn/plain"
	"nod/state"
)

// call is a tool call. A command may say something after its call has ended: then it
// runs on in the background.
type call struct {
	id       string
	agent    *agent
	turn     string
	since    int64 // Unix milliseconds
	row      row
	recalled bool // from the session's state: another link, or another nod, has heard of it
	done     bool
	content  []state.ToolResultContent
	terminal string // URI
	written  int    // bytes to the terminal
	partial  string // the newest output that was told as a whole
	streams  bool   // its output is told as it comes, too
	shell    string // of a command in the background, Copilot's own id of it
	child    *agent // that it has started
}

// row is how a call is shown.
type row struct {
	tool, name string
	does       string // one line
	input      string
	meta       state.Meta
}

// terminal is the URI of what a call writes.
func (a *agent) terminal(id string) string {
	return "ahp-terminal:/" + strings.TrimPrefix(a.uri, state.SessionScheme) + "/" + id
}

type toolStart struct {
	ToolCallID    string          `json:"toolCallId"`
	ToolName      string          `json:"toolName"`
	ToolTitle     string          `json:"toolTitle"`
	Arguments     json.RawMessage `json:"arguments"` // an object; a text for a tool that takes a text
	MCPServerName string          `json:"mcpServerName"`
	MCPToolName   string          `json:"mcpToolName"`
	ShellToolInfo struct {
		PossiblePaths []string `json:"possiblePaths"`
	} `json:"shellToolInfo"`
}

// arguments of Copilot's own tools.
type arguments struct {
	Command     string `json:"command"`
	Description string `json:"description"`
	Path        string `json:"path"`
	FileText    string `json:"file_text"`
	Old         string `json:"old_str"`
	New         string `json:"new_str"`
	Line        int    `json:"insert_line"` // after which something is inserted
	URL         string `json:"url"`
	Pattern     string `json:"pattern"`
	Question    string `json:"question"`
	Summary     string `json:"summary"`
	Intent      string `json:"intent"`
	Query       string `json:"query"`
	Name        string `json:"name"`
	Prompt      string `json:"prompt"`
	ShellID     string `json:"shellId"`
	Skill       string `json:"skill"`
}

var (
	asCommand = state.Meta{"nod.input": plain.Value("command")}
	asDiff    = state.Meta{"nod.input": plain.Value("diff")}
	asJSON    = state.Meta{"nod.input": plain.Value("json")}
)

// row says how a call is shown. A tool that nod does not know is shown with what it
// was given.
func (p toolStart) row() row {
	var in arguments
	_ = json.Unmarshal(p.Arguments, &in) // of what is odd there is less
	title := plain.Shorten(cmp.Or(p.ToolTitle, plain.Words(p.ToolName)), 80)
	r := row{tool: plain.Shorten(p.ToolName, 100), name: title, does: title}
	switch p.ToolName {
	case "bash", "powershell", "local_shell":
		r.name, r.does, r.input, r.meta = "Run a command", cmp.Or(plain.Shorten(in.Description, plain.MaxNote), in.Command), in.Command, state.Meta{}
		r.meta["nod.input"] = asCommand["nod.input"]
		if n := len(p.ShellToolInfo.PossiblePaths); n > 0 {
			r.meta["nod.about"] = plain.Value(plain.Shorten("may touch "+strings.Join(p.ShellToolInfo.PossiblePaths, ", "), plain.MaxNote))
		}
	case "read_bash", "write_bash", "stop_bash", "list_bash":
		r.name = cmp.Or(p.ToolTitle, map[string]string{"read_bash": "Read shell output", "stop_bash": "Stop shell"}[p.ToolName], r.name)
		r.does = plain.Joined(" · ", r.name, in.ShellID)
		if p.ToolName == "write_bash" {
			r.input, r.meta = plain.Indented(p.Arguments), asJSON
		}
	case "create", "write":
		r.name, r.does, r.input, r.meta = "Create a file", "Create "+in.Path, added(in.Path, in.FileText), asDiff
	case "edit", "str_replace", "str_replace_editor":
		r.name, r.does, r.input, r.meta = "Edit a file", "Edit "+in.Path, change(in.Path, in.Path, "", in.Old, in.New), asDiff
	case "insert":
		r.name, r.does, r.input, r.meta = "Edit a file", "Edit "+in.Path, change(in.Path, in.Path, fmt.Sprintf("@@ -%d,0 +%d", in.Line, in.Line+1), "", in.New), asDiff
	case "apply_patch":
		r.name, r.does, r.meta = "Edit files", "Apply a patch", asDiff
		_ = json.Unmarshal(p.Arguments, &r.input) // a text
	case "view", "read", "show_file":
		r.does = "Read " + in.Path
	case "grep", "rg", "glob":
		r.does, r.input, r.meta = plain.Joined(" for ", "Search", plain.Shorten(in.Pattern, 300)), plain.Indented(p.Arguments), asJSON
	case "web_fetch":
		r.does = "Fetch " + plain.Shorten(in.URL, plain.MaxNote)
	case "web_search":
		r.does = plain.Joined(" for ", "Search the web", plain.Shorten(in.Query, plain.MaxNote))
	case "ask_user":
		r.does = plain.Joined(": ", "Ask", plain.Shorten(in.Question, plain.MaxNote))
	case "task_complete": // the summary is shown as what is said
	case "exit_plan_mode":
		r.input = plain.Cut(in.Summary, plain.MaxInput)
	case "report_intent", "update_intent":
		r.does = plain.Joined(": ", title, plain.Shorten(in.Intent, plain.MaxNote))
	case "task":
		r.name, r.does, r.input = "Sub-agent", plain.Joined(": ", "Start a sub-agent", plain.Shorten(cmp.Or(in.Description, in.Name), 200)), plain.Cut(in.Prompt, plain.MaxInput)
	case "read_agent":
		r.name = "Read a sub-agent"
		r.does = "Read what the sub-agent has found"
	case "skill":
		r.does = plain.Joined(" ", "Use the skill", plain.Shorten(in.Skill, 200))
	default:
		if p.MCPServerName != "" {
			r.tool, r.name = plain.Shorten(cmp.Or(p.MCPToolName, p.ToolName), 100), "Tool of an MCP server"
			r.does = plain.Shorten(p.MCPServerName, 100) + " · " + r.tool
		} else if in.Description != "" {
			r.does = plain.Shorten(in.Description, plain.MaxNote)
		}
		if r.meta = asJSON; string(p.Arguments) != "{}" {
			r.input = plain.Indented(p.Arguments)
		}
	}
	r.does, r.input = plain.Shorten(r.does, plain.MaxNote), plain.Cut(r.input, maxShown)
	return r
}

// maxShown bounds, in bytes, what is shown of a command, a file or a diff. A request
// to approve one is not cut.
const maxShown = 1 << 20

// change is a diff of one piece: lines that go, and lines that come.
func change(from, to, head, old, new string) string {
	var b strings.Builder
	b.WriteString("--- " + inOneLine.Replace(from) + "\n+++ " + inOneLine.Replace(to) + "\n")
	gone, come := lines("-", old), lines("+", new)
	switch {
	case len(gone)+len(come) == 0:
	case head == "":
		b.WriteString("@@\n")
	default:
		b.WriteString(head + "," + strconv.Itoa(len(come)) + " @@\n")
	}
	return b.String() + strings.Join(gone, "") + strings.Join(come, "")
}

// added is the diff of a new file.
func added(path, content string) string { return change("/dev/null", path, "@@ -0,0 +1", "", content) }

// inOneLine: a file's name cannot begin another file in a diff.
var inOneLine = strings.NewReplacer("\n", "␊", "\r", "␍")

// lines are those of a text, with a mark before each.
func lines(mark, text string) (out []string) {
	for l := range strings.Lines(text) {
		out = append(out, mark+strings.TrimSuffix(l, "\n")+"\n")
	}
	return out
}

// diffOf returns a diff as the CLI tells it, with the name that others have for
// the missing side of a new file. "" for what is none.
func diffOf(told string) string {
	told = strings.Trim(told, "\n")
	if !strings.HasPrefix(told, "diff --git ") && !strings.HasPrefix(told, "--- ") {
		return ""
	}
	told = strings.ReplaceAll(told, "\n--- a/dev/null\n", "\n--- /dev/null\n")
	return strings.ReplaceAll(told, "\n+++ b/dev/null\n", "\n+++ /dev/null\n") + "\n"
}

// start shows a call. A request about it may have come first.
func (a *agent) toolStarted(_ context.Context, p toolStart) {
	a.quiet()
	c := a.session.calls[p.ToolCallID]
	if a.turn == "" || p.ToolCallID == "" || c != nil && (c.done || c.recalled) {
		return
	}
	r := p.row()
	if c != nil { // a request has told more
		if c.row.input == "" {
			c.row.input, c.row.meta = r.input, r.meta
			a.apply(c.ready())
		}
		return
	}
	a.begins(p.ToolCallID, r)
}

// begins shows a call that runs.
func (a *agent) begins(id string, r row) *call {
	c := &call{id: id, agent: a, turn: a.turn, since: a.session.at, row: r, terminal: a.terminal(id)}
	a.session.calls[id] = c
	a.apply(&state.SessionToolCallStart{TurnID: a.turn, ToolCallID: id, ToolName: r.tool, DisplayName: r.name, Meta: r.meta}, c.ready())
	return c
}

// ready is the action that describes a call that runs.
func (c *call) ready() *state.SessionToolCallReady {
	return &state.SessionToolCallReady{
		TurnID: c.turn, ToolCallID: c.id, InvocationMessage: state.Plain(c.row.does), ToolInput: state.Optional(c.row.input),
		Confirmed: state.ConfirmedNotNeeded, Meta: c.row.meta,
	}
}

func (c *call) contentAction() state.Action {
	return &state.SessionToolCallContentChanged{TurnID: c.turn, ToolCallID: c.id, Content: slices.Clone(c.content)}
}

// ---- what it says ----

type toolOutput struct {
	ToolCallID    string `json:"toolCallId"`
	PartialOutput string `json:"partialOutput"` // all of it so far
	Text          string `json:"text"`          // what is new
	Message       string `json:"progressMessage"`
}

func (a *agent) shellOutput(_ context.Context, p toolOutput) {
	if c := a.session.calls[p.ToolCallID]; c != nil {
		if c.recalled && !c.streams { // what was shown of it is told again
			c.rewrite("")
		}
		c.streams = true
		c.write(p.Text)
	}
}

// partialOutput is all that a call has said so far. A server that tells its output as
// it comes says it there, too.
func (a *agent) partialOutput(_ context.Context, p toolOutput) {
	c := a.session.calls[p.ToolCallID]
	switch {
	case c == nil || c.streams && len(p.PartialOutput) <= c.written:
	case !c.streams && !c.recalled && strings.HasPrefix(p.PartialOutput, c.partial):
		c.write(p.PartialOutput[len(c.partial):])
		c.partial = p.PartialOutput
	default:
		c.rewrite(p.PartialOutput)
		c.partial, c.recalled = p.PartialOutput, false
	}
}

func (a *agent) toolProgress(_ context.Context, p toolOutput) {
	if c := a.session.calls[p.ToolCallID]; c != nil && !c.done {
		c.write(plain.Shorten(p.Message, plain.MaxNote) + "\n")
	}
}

// write adds to the terminal of a call, and shows it.
func (c *call) write(data string) {
	if data == "" {
		return
	}
	c.show()
	c.written += len(data)
	c.agent.tell(state.Envelope{Channel: c.terminal, Action: &state.TerminalData{Data: data}})
}

// rewrite puts a text in the place of all that the terminal of a call shows.
func (c *call) rewrite(data string) {
	if c.show(); c.written > 0 || c.recalled {
		c.agent.tell(state.Envelope{Channel: c.terminal, Action: &state.TerminalCleared{}}, c.executed())
	}
	c.written = 0
	c.write(data)
}

func (c *call) executed() state.Envelope {
	return state.Envelope{Channel: c.terminal, Action: &state.TerminalCommandExecuted{CommandID: c.id, CommandLine: c.row.input, Timestamp: c.since}}
}

// show puts a call's terminal into it.
func (c *call) show() {
	if slices.ContainsFunc(c.content, func(x state.ToolResultContent) bool { return state.Value(x.Resource) == c.terminal }) {
		return
	}
	c.content = append(c.content, state.TerminalContent(c.terminal, "Output"))
	c.agent.apply(c.contentAction())
	if c.isCommand() {
		c.agent.tell(c.executed())
	}
}

func (c *call) isCommand() bool { return bytes.Equal(c.row.meta["nod.input"], asCommand["nod.input"]) }

// ---- how it ends ----

type toolEnd struct {
	ToolCallID     string `json:"toolCallId"`
	Success        bool   `json:"success"`
	ShellExecution *struct {
		ExitCode *int64 `json:"exitCode"`
	} `json:"shellExecution"`
	Result struct {
		Content         string  `json:"content"`
		DetailedContent string  `json:"detailedContent"`
		Contents        []block `json:"contents"`
		Binaries        []block `json:"binaryResultsForLlm"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	} `json:"error"`
}

// block is a piece of a result (schemas ToolExecutionCompleteContent and
// PersistedBinaryResult).
type block struct {
	resource
	Type          string   `json:"type"`
	Name          string   `json:"name"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Resource      resource `json:"resource"`
	ShellID       string   `json:"shellId"`
	ExitCode      *int64   `json:"exitCode"`
	OutputPreview string   `json:"outputPreview"`
}

type resource struct {
	Text     string `json:"text"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
}

// said is the text of a block, "" if it has none.
func (b block) said() string { return cmp.Or(b.Text, b.Resource.Text, b.OutputPreview) }

var (
	// shellIDs finds the id of a command that runs on, in what is said to the model:
	// it comes after what the command has written.
	shellIDs = regexp.MustCompile(`shellId: ([0-9A-Za-z_-]+)`)
	// stopped finds that of a command that the model has ended.
	stopped = regexp.MustCompile(`^<command with id: ([0-9A-Za-z_-]+) stopped>`)
)

func (a *agent) toolEnded(_ context.Context, p toolEnd) {
	s := a.session
	c := s.calls[p.ToolCallID]
	said := cmp.Or(p.Result.DetailedContent, p.Result.Content)
	exit, exited := p.exit()
	runsOn := c != nil && c.isCommand() && p.Success && !exited && p.ShellExecution == nil
	if runsOn {
		if all := shellIDs.FindAllStringSubmatch(said, -1); all != nil {
			c.shell = all[len(all)-1][1]
		}
	}
	if c == nil || c.done || a.turn == "" {
		return
	}
	c.done = true
	result := state.ToolCallResult{Success: p.Success, PastTenseMessage: state.Plain(c.row.does)}
	switch {
	case c.isCommand() && p.Error != nil && c.written == 0 && !c.recalled: // it did not run
	case c.isCommand():
		c.show()
		if c.written == 0 && !c.recalled {
			c.write(exit.OutputPreview)
		}
		if runsOn {
			result.PastTenseMessage = state.Plain(c.row.does + " (runs on in the background)")
			break
		}
		result.Success = p.Success && (exit.ExitCode == nil || *exit.ExitCode == 0)
		a.tell(c.finished(exit.ExitCode))
	case diffOf(said) != "" && bytes.Equal(c.row.meta["nod.input"], asDiff["nod.input"]) && p.Success: // what it has really changed
		c.row.input = plain.Cut(diffOf(said), maxShown)
		a.apply(c.ready())
	case c.child == nil:
		if text := p.text(c.row.tool); text != "" {
			c.content = append(c.content, state.TextContent(plain.Cut(text, plain.MaxInput)))
		}
	}
	if exited { // it may be another one's, which ran in the background
		s.shellEnded(exit.ShellID, exit.ExitCode)
	}
	if m := stopped.FindStringSubmatch(said); m != nil && c.row.tool == "stop_bash" {
		s.shellEnded(m[1], nil)
	}
	if p.Error != nil {
		result.Error = &state.ToolError{Message: plain.Shorten(p.Error.Message, plain.MaxNote), Code: state.Optional(plain.Shorten(p.Error.Code, 80))}
	}
	result.Content = slices.Clone(c.content)
	a.apply(&state.SessionToolCallComplete{TurnID: c.turn, ToolCallID: c.id, Result: result})
	c.partial = ""
	if c.shell == "" {
		delete(s.calls, c.id)
		s.calls[c.id] = &call{id: c.id, agent: a, turn: c.turn, done: true} // it may be told again
	}
	if a.own == c.id {
		a.end()
	}
}

// shellEnded ends a command that ran in the background.
func (s *session) shellEnded(shell string, code *int64) {
	for _, c := range s.calls {
		if shell != "" && c.shell == shell {
			c.shell = ""
			c.agent.tell(c.finished(code))
		}
	}
}

// text is what a call has returned. What is read from a file the CLI tells to people
// as a diff, what a sub-agent has found not at all, and what is no text only in blocks.
func (p toolEnd) text(tool string) string {
	r := p.Result
	said := cmp.Or(r.DetailedContent, r.Content)
	if tool == "view" || tool == "read_agent" {
		said = cmp.Or(r.Content, r.DetailedContent)
	}
	others := slices.DeleteFunc(append(slices.Clone(r.Contents), r.Binaries...), func(b block) bool { return b.said() != "" && said != "" })
	return plain.Joined("\n", said, texts(others))
}

// exit is how a command has ended, if it has.
func (p toolEnd) exit() (block, bool) {
	i := slices.IndexFunc(p.Result.Contents, func(b block) bool { return b.Type == "shell_exit" })
	var b block
	if i >= 0 {
		b = p.Result.Contents[i]
	}
	if p.ShellExecution != nil {
		b.ExitCode = p.ShellExecution.ExitCode
	}
	return b, i >= 0
}

func (c *call) finished(code *int64) state.Envelope {
	return state.Envelope{Channel: c.terminal, Action: &state.TerminalCommandFinished{CommandID: c.id, ExitCode: code}}
}

// texts is what blocks say. Of what is no text they have the name: nod loads nothing.
func texts(blocks []block) string {
	var out []string
	for _, b := range blocks {
		name := plain.Joined(" ", b.Type, cmp.Or(b.MimeType, b.Resource.MimeType), cmp.Or(b.Title, b.Name, b.Description), cmp.Or(b.URI, b.Resource.URI))
		out = append(out, cmp.Or(b.said(), plain.Shorten("["+name+"]", 300)))
	}
	return strings.Join(out, "\n")
}

// ---- before it begins ----

type callDelta struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
}

// callWritten: the model writes what it asks for. It is shown when it is whole, and a
// long file takes a while.
func (a *agent) callWritten(_ context.Context, p callDelta) {
	if p.ToolCallID != a.writing && p.ToolName != "" {
		a.writing = p.ToolCallID
		a.activity("The model writes a call of " + p.ToolName)
	}
}

// userRan: a person has run a tool in another client, which is a turn if there is none.
func (a *agent) userRan(_ context.Context, e event) bool {
	var p toolStart
	if json.Unmarshal(e.Data, &p) != nil {
		return false
	}
	if a.turn == "" {
		r := p.row()
		a.begin(e.ID, state.UserMessage(cmp.Or(r.input, r.does)))
		a.own = p.ToolCallID
	}
	return true
}
