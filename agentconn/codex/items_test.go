package codex

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"nod/state"
	"nod/state/snapshot"
)

// started, completed and delta are notifications of turn tu of thread th.
func started(item string) string {
	return `{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":` + item + `}}`
}
func completed(item string) string {
	return `{"method":"item/completed","params":{"threadId":"th","turnId":"tu","item":` + item + `}}`
}
func delta(kind, id, text string) string {
	return fmt.Sprintf(`{"method":"item/%s","params":{"threadId":"th","turnId":"tu","itemId":%q,"delta":%q}}`, kind, id, text)
}
func note(method, members string) string {
	return `{"method":"` + method + `","params":{"threadId":"th","turnId":"tu",` + members + `}}`
}

const endTurn = `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"completed"}}}`

// told is what a session shows, a line for each part: of texts those that still
// count.
func (s *stage) told() []string {
	s.t.Helper()
	v := s.view()
	var out []string
	for turn := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, turn) {
			if snapshot.Superseded(v.State, turn, i) {
				continue
			}
			out = append(out, tell(v, snapshot.PartAt(v.State, turn, i)))
		}
	}
	return out
}

func tell(v snapshot.Session, p state.ResponsePart) string {
	switch p := p.(type) {
	case *state.MarkdownPart:
		return "says " + p.Content.String()
	case *state.ReasoningPart:
		return "thinks " + p.Content.String()
	case *state.NotificationPart:
		return "note " + p.Content.Text
	case *state.ToolCallPart:
		c := p.ToolCall
		out := fmt.Sprintf("%s: %s", c.Status, c.InvocationMessage.Text)
		if input := state.Value(c.ToolInput); input != "" {
			out += " < " + strings.Join(strings.Fields(input), " ")
		}
		for _, x := range c.Content {
			switch x.Type {
			case state.ContentText:
				out += " > " + *x.Text
			case state.ContentTerminal:
				out += " > " + strings.Join(v.Terminals.Get(*x.Resource).Output(), "")
			case state.ContentSubagent:
				out += " > " + *x.Resource
			}
		}
		if c.Error != nil {
			out += " ! " + c.Error.Message
		}
		return out
	}
	return fmt.Sprintf("%T", p)
}

func (s *stage) wants(want ...string) {
	s.t.Helper()
	got := s.told()
	if len(got) != len(want) {
		s.t.Errorf("%d parts, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			s.t.Errorf("part %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

// TestItems plays one item of each type, of both versions, and says what a person
// reads.
func TestItems(t *testing.T) {
	const agent = "01a22a3d-cb8f-7ee1-878a-000000000001"
	for name, play := range map[string]struct {
		lines []string
		want  []string
	}{
		"an image and a mention": {
			[]string{started(`{"type":"userMessage","id":"u","content":[{"type":"text","text":"look"},{"type":"image","url":"data:image/png;base64,AAAA"},{"type":"localImage","path":"/w/shot.png"},{"type":"mention","name":"main.go","path":"/w/main.go"}]}`)},
			[]string{"note look\n[image]\n[image: /w/shot.png]\n[mention: main.go /w/main.go]"},
		},
		"a message with questions": {
			[]string{
				started(`{"type":"agentMessage","id":"m","text":"","phase":"commentary","questions":null}`), delta("agentMessage/delta", "m", "Which"),
				completed(`{"type":"agentMessage","id":"m","text":"Which?","phase":"commentary","delivery":"async","questions":[{"title":"Database","options":["SQLite","Postgres"]},{"title":"Why?","options":null}]}`),
			},
			[]string{"says Which?", "note Database\n• SQLite\n• Postgres\nWhy?\n"},
		},
		"thoughts, summed up and raw": {
			[]string{
				started(`{"type":"reasoning","id":"r","summary":[],"content":[]}`),
				`{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"th","turnId":"tu","itemId":"r","summaryIndex":0,"delta":"one"}}`,
				`{"method":"item/reasoning/textDelta","params":{"threadId":"th","turnId":"tu","itemId":"r","contentIndex":0,"delta":"raw"}}`,
				`{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"th","turnId":"tu","itemId":"r","summaryIndex":1,"delta":"tw"}}`,
				completed(`{"type":"reasoning","id":"r","summary":["one","two"],"content":["raw","more"]}`),
			},
			[]string{"thinks one\n\ntwo", "thinks raw\n\nmore"},
		},
		"thoughts that are empty": {[]string{started(`{"type":"reasoning","id":"r"}`), completed(`{"type":"reasoning","id":"r","summary":[],"content":[]}`)}, nil},
		"a plan":                  {[]string{delta("plan/delta", "p", "1. a"), completed(`{"type":"plan","id":"p","text":"1. a\n2. b"}`)}, []string{"says 1. a\n2. b"}},
		"a command and what was typed into it": {
			[]string{
				started(`{"type":"commandExecution","id":"c","command":"/bin/bash -lc 'read x'","cwd":"/w","status":"inProgress","commandActions":[{"type":"unknown","command":"read x"}]}`),
				note("item/commandExecution/terminalInteraction", `"itemId":"c","processId":"1","stdin":""`),
				note("item/commandExecution/terminalInteraction", `"itemId":"c","processId":"1","stdin":"yes\n"`),
				delta("commandExecution/outputDelta", "c", "yes\r\n"),
				completed(`{"type":"commandExecution","id":"c","command":"/bin/bash -lc 'read x'","cwd":"/w","status":"completed","exitCode":0,"durationMs":7,"commandActions":[{"type":"unknown","command":"read x"}]}`),
			},
			[]string{"completed: read x < /bin/bash -lc 'read x' > yes\r\n", "completed: Typed into a command: read x < yes"},
		},
		"a patch that fails": {
			[]string{
				started(`{"type":"fileChange","id":"f","status":"inProgress","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x\n"}]}`),
				delta("fileChange/outputDelta", "f", "no room"), completed(`{"type":"fileChange","id":"f","status":"failed","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x\n"}]}`),
			},
			[]string{"completed: Edit /w/a < --- /dev/null +++ /w/a @@ -0,0 +1,1 @@ +x > no room"},
		},
		"an MCP call": {
			[]string{
				started(`{"type":"mcpToolCall","id":"t","server":"demo","tool":"write_note","status":"inProgress","arguments":{"text":"hi"},"result":null,"error":null}`),
				note("item/mcpToolCall/progress", `"itemId":"t","message":"half"`),
				completed(`{"type":"mcpToolCall","id":"t","server":"demo","tool":"write_note","status":"completed","arguments":{"text":"hi"},"result":{"content":[{"type":"text","text":"wrote"},{"type":"image","mimeType":"image/png","data":"AAAA"}],"structuredContent":null,"_meta":null},"error":null,"durationMs":6}`),
			},
			[]string{`completed: demo · write_note < { "text": "hi" } > half` + "\n > wrote\n[image image/png]"},
		},
		"an MCP call that fails": {
			[]string{completed(`{"type":"mcpToolCall","id":"t","server":"demo","tool":"x","status":"failed","arguments":null,"error":{"message":"no such tool"}}`)},
			[]string{"completed: demo · x ! no such tool"},
		},
		"a dynamic call": {
			[]string{completed(`{"type":"dynamicToolCall","id":"t","tool":"look","status":"completed","arguments":{"a":1},"contentItems":[{"type":"inputText","text":"seen"},{"type":"inputImage","imageUrl":"data:x"}],"success":true}`)},
			[]string{`completed: look < { "a": 1 } > seen` + "\n[inputImage]"},
		},
		"an output": {
			[]string{completed(`{"type":"functionCallOutput","id":"t","name":"look","namespace":"n","output":"seen"}`), completed(`{"type":"functionCallOutput","id":"t2","name":"look","output":[{"type":"input_text","text":"again"}]}`)},
			[]string{"completed: n · look > seen", "completed: look > again"},
		},
		"a search": {
			[]string{
				started(`{"type":"webSearch","id":"s","query":"","action":null}`),
				completed(`{"type":"webSearch","id":"s","query":"go generics","action":{"type":"search","query":"go generics","queries":null},"results":[{"title":"A","url":"https://a.example"}]}`),
				completed(`{"type":"webSearch","id":"s2","query":"","action":{"type":"openPage","url":"https://b.example"}}`),
				completed(`{"type":"webSearch","id":"s3","query":"","action":{"type":"levitate"}}`),
			},
			[]string{"completed: Search the web for go generics > A — https://a.example", "completed: Open the page https://b.example", "completed: Search the web"},
		},
		"images": {
			[]string{
				completed(`{"type":"imageView","id":"i","path":"/w/a.png"}`),
				completed(`{"type":"imageGeneration","id":"g","status":"completed","revisedPrompt":"a cat","result":"AAAA","savedPath":"/w/cat.png"}`),
			},
			[]string{"completed: Look at /w/a.png", "completed: Make an image: a cat > Saved as /w/cat.png"},
		},
		"a wait": {[]string{completed(`{"type":"sleep","id":"z","durationMs":1500}`)}, []string{"completed: Wait for 1.5s"}},
		"a review": {
			[]string{started(`{"type":"enteredReviewMode","id":"v","review":"current changes"}`), completed(`{"type":"enteredReviewMode","id":"v","review":"current changes"}`), completed(`{"type":"exitedReviewMode","id":"x","review":"All **good**."}`)},
			[]string{"note A review begins: current changes", "note The review has ended", "says All **good**."},
		},
		"a hook's prompt": {[]string{completed(`{"type":"hookPrompt","id":"h","fragments":[{"text":"be kind","hookRunId":"1"}]}`)}, []string{"note A hook says to the agent: be kind"}},
		"compaction": {
			[]string{started(`{"type":"contextCompaction","id":"k"}`), completed(`{"type":"contextCompaction","id":"k"}`)},
			[]string{"completed: Make room: sum up what was said"},
		},
		"sub-agents": {
			[]string{
				started(`{"type":"collabAgentToolCall","id":"a","tool":"spawnAgent","status":"inProgress","prompt":"Look around\nwell","senderThreadId":"th","receiverThreadIds":[],"agentsStates":{}}`),
				completed(`{"type":"collabAgentToolCall","id":"a","tool":"spawnAgent","status":"completed","prompt":"Look around\nwell","senderThreadId":"th","receiverThreadIds":["` + agent + `"],"agentsStates":{"` + agent + `":{"status":"running","message":null}}}`),
				completed(`{"type":"subAgentActivity","id":"b","agentPath":"/a","agentThreadId":"` + agent + `","kind":"completed"}`),
				completed(`{"type":"collabAgentToolCall","id":"d","tool":"juggle","status":"failed","senderThreadId":"th","receiverThreadIds":["../x"],"agentsStates":{}}`),
			},
			[]string{
				"completed: Start a sub-agent: Look around < Look around well > ahp-session:/" + agent + " > running",
				"completed: Sub-agent /a completed > ahp-session:/" + agent, "completed: Sub-agents: juggle",
			},
		},
		"a word that nobody knows": {
			[]string{completed(`{"type":"commandExecution","id":"c","command":"ls","cwd":"/w","status":"evaporated","commandActions":[{"type":"hum"}]}`)},
			[]string{"completed: ls < ls > "},
		},
		"an item of which a member is odd": {
			[]string{completed(`{"type":"commandExecution","id":"c","command":7}`)},
			[]string{"note Codex says something that this nod does not understand: item/completed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.begin()
			s.lines(play.lines...)
			s.wants(play.want...)
			s.lines(endTurn)
			s.wants(play.want...)
			if s.errors.Len() > 0 {
				t.Error(s.errors.String())
			}
		})
	}
}

// TestChildThread: what a sub-agent does is in a session of its own.
func TestChildThread(t *testing.T) {
	const agent = "01a22a3d-cb8f-7ee1-878a-000000000001"
	s := newStage(t)
	s.begin()
	s.lines(completed(`{"type":"collabAgentToolCall","id":"a","tool":"spawnAgent","status":"completed","prompt":"Look","senderThreadId":"th","receiverThreadIds":["`+agent+`"],"agentsStates":{}}`),
		`{"method":"turn/started","params":{"threadId":"`+agent+`","turn":{"id":"k"}}}`,
		`{"method":"item/started","params":{"threadId":"`+agent+`","turnId":"k","item":{"type":"userMessage","id":"u","content":[{"type":"text","text":"Look"}]}}}`,
		`{"method":"item/agentMessage/delta","params":{"threadId":"`+agent+`","turnId":"k","itemId":"m","delta":"I see."}}`)
	s.wants("completed: Start a sub-agent: Look < Look > ahp-session:/" + agent)
	child := s.session(agent)
	if child.Parent != s.id || child.State.ActiveTurn == nil || child.State.ActiveTurn.Message.Text != "Look" {
		t.Fatalf("%+v", child.State)
	}
	if id := threadID(child.State); id != agent {
		t.Errorf("its thread is %q", id)
	}
	s.id = agent
	s.wants("says I see.")
}

// TestChildThatBeganBefore its parent told of it is shown from what is heard on.
func TestChildThatBeganBefore(t *testing.T) {
	const agent = "01a22a3d-cb8f-7ee1-878a-000000000001"
	s := newStage(t)
	s.begin()
	of := func(line string) string {
		return strings.Replace(strings.Replace(line, `"th"`, `"`+agent+`"`, 1), `"tu"`, `"k"`, 1)
	}
	s.lines(`{"method":"turn/started","params":{"threadId":"`+agent+`","turn":{"id":"k"}}}`,
		completed(`{"type":"subAgentActivity","id":"b","agentPath":"/root/look","agentThreadId":"`+agent+`","kind":"started"}`),
		of(completed(`{"type":"agentMessage","id":"m","text":"I see."}`)), of(endTurn))
	s.id = agent
	s.wants("says I see.")
}

// TestSteer shows what was said to a turn that runs where it came, and once; what
// the turn began with is not said again.
func TestSteer(t *testing.T) {
	s := newStage(t)
	s.begin()
	said := func(id, text string) string {
		return started(`{"type":"userMessage","id":"` + id + `","content":[{"type":"text","text":"` + text + `"}]}`)
	}
	s.lines(said("u1", "first"), strings.Replace(said("u1", "first"), "started", "completed", 1), delta("agentMessage/delta", "m1", "I will"),
		said("u2", "first"), strings.Replace(said("u2", "first"), "started", "completed", 1), completed(`{"type":"agentMessage","id":"m2","text":"Done."}`), endTurn)
	s.wants("says I will", "note first", "says Done.")
	if p := s.view().State.Turns[0].ResponseParts[1].(*state.NotificationPart); string(p.Meta["nod.said"]) != `"user"` {
		t.Errorf("%s", p.Meta)
	}
}

// TestJoined: a message that is heard of in its middle says so, and gives way to
// the whole of it.
func TestJoined(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(delta("agentMessage/delta", "m", "of the middle"))
	p := s.view().State.ActiveTurn.ResponseParts.At(0).(*state.MarkdownPart)
	if string(p.Meta["nod.joined"]) != "true" {
		t.Errorf("%s", p.Meta)
	}
	s.lines(completed(`{"type":"agentMessage","id":"m","text":"The begin of the middle."}`))
	s.wants("says The begin of the middle.")
	if parts := s.view().State.ActiveTurn.ResponseParts; parts.Len() != 2 || string(parts.At(1).(*state.MarkdownPart).Meta["nod.supersedes"]) != `"m"` {
		t.Errorf("%d parts", parts.Len())
	}
	s.lines(started(`{"type":"agentMessage","id":"n","text":""}`), delta("agentMessage/delta", "n", "streamed"), completed(`{"type":"agentMessage","id":"n","text":"another"}`))
	s.wants("says The begin of the middle.", "says another")
}

// TestJoinedCommand takes what it is from its end.
func TestJoinedCommand(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(delta("commandExecution/outputDelta", "c", "tick\n"))
	s.wants("running:  > tick\n")
	s.lines(strings.Replace(startCommand, "item/started", "item/completed", 1))
	s.wants("completed: ls < /bin/sh -c ls > tick\n")
}

// TestCutOutput: of much output Codex tells the end of the item without its middle,
// and does not stream what was written at once.
func TestCutOutput(t *testing.T) {
	s := newStage(t)
	s.begin()
	streamed := strings.Repeat("more\n", maxAggregated/5)
	s.lines(startCommand, delta("commandExecution/outputDelta", "c", "second\n"+streamed))
	done := strings.Replace(strings.Replace(startCommand, "item/started", "item/completed", 1), `"id":"c"`,
		`"id":"c","aggregatedOutput":"first\nsecond\n`+strings.Repeat(`more\n`, maxAggregated/10)+`…`+strings.Repeat(`more\n`, maxAggregated/10)+`"`, 1)
	s.lines(done)
	v := s.view()
	for _, terminal := range v.Terminals.All() {
		if got := strings.Join(terminal.Output(), ""); got != "first\nsecond\n"+streamed {
			t.Errorf("it has %d bytes and begins with %.30q", len(got), got)
		}
	}
}

// TestJoinedTurn: the turn that ran when nod came begins with the first that is
// heard of it.
func TestJoinedTurn(t *testing.T) {
	s := newStage(t)
	s.said([]byte(`{"id":2,"method":"thread/resume","params":{}}`))
	s.in([]byte(`{"id":2,"result":{"thread":{"id":"th","status":{"type":"active","activeFlags":[]}},"model":"m"}}`))
	s.lines(delta("agentMessage/delta", "m", "half"), endTurn)
	s.wants("says half")
	if turns := s.view().State.Turns; len(turns) != 1 || turns[0].ID != "tu" {
		t.Errorf("%+v", turns)
	}
}

// TestC42ReusedID (claudecodeui#573, agentapi#205): what is said under an id that was used
// before is shown as well, in the order of arrival, and overwrites nothing.
func TestC42ReusedID(t *testing.T) {
	message := func(text string) string {
		return completed(`{"type":"agentMessage","id":"m","text":"` + text + `"}`)
	}
	s := newStage(t)
	s.begin()
	s.lines(message("first"), message("first"), message("second"), delta("agentMessage/delta", "m", "thi"), message("third"),
		completed(`{"type":"mcpToolCall","id":"m","server":"s","tool":"t","status":"completed","arguments":null}`))
	s.wants("says first", "says second", "says third", "completed: s · t")
	s.lines(endTurn, `{"method":"turn/started","params":{"threadId":"th","turn":{"id":"next"}}}`,
		strings.Replace(message("fourth"), `"tu"`, `"next"`, 1))
	s.wants("says first", "says second", "says third", "completed: s · t", "says fourth")
}

// TestC42ReusedCommand writes to a terminal of its own.
func TestC42ReusedCommand(t *testing.T) {
	s := newStage(t)
	s.begin()
	run := func(turn string, command string) {
		s.lines(strings.ReplaceAll(started(`{"type":"commandExecution","id":"c","command":"`+command+`","cwd":"/w","status":"inProgress","commandActions":[]}`), `"tu"`, turn),
			strings.ReplaceAll(delta("commandExecution/outputDelta", "c", "of "+command), `"tu"`, turn),
			strings.ReplaceAll(completed(`{"type":"commandExecution","id":"c","command":"`+command+`","cwd":"/w","status":"completed","exitCode":0,"commandActions":[]}`), `"tu"`, turn))
	}
	run(`"tu"`, "a")
	run(`"tu"`, "b")
	s.lines(endTurn, `{"method":"turn/started","params":{"threadId":"th","turn":{"id":"next"}}}`)
	run(`"next"`, "d")
	s.wants("completed: a < a > of a", "completed: b < b > of b", "completed: d < d > of d")
}

// TestC42OutOfOrder: what is said of an item before it starts stays its own.
func TestC42OutOfOrder(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(delta("commandExecution/outputDelta", "c2", "two\n"), startCommand,
		strings.Replace(strings.Replace(startCommand, `"id":"c"`, `"id":"c2"`, 1), "ls", "pwd", 2),
		delta("commandExecution/outputDelta", "c", "one\n"))
	s.wants("running: pwd < /bin/sh -c pwd > two\n", "running: ls < /bin/sh -c ls > one\n")
}

// TestInterruptedCall: a call that an interrupt leaves open keeps what it has
// shown.
func TestInterruptedCall(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(started(`{"type":"mcpToolCall","id":"t","server":"s","tool":"t","status":"inProgress","arguments":null}`),
		note("item/mcpToolCall/progress", `"itemId":"t","message":"half"`), started(`{"type":"sleep","id":"z","durationMs":9}`),
		strings.Replace(endTurn, "completed\"}}}", "interrupted\"}}}", 1))
	s.wants("completed: s · t > half\n", "cancelled: Wait for 9ms", "note Stopped while this ran: “s · t”, “Wait for 9ms”.")
}

// TestMetaOfParts: where a command runs, what it does, and which phase a message is
// of is in the state.
func TestMetaOfParts(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(started(`{"type":"commandExecution","id":"c","command":"cat a","cwd":"/w/sub","status":"inProgress","commandActions":[{"type":"read","command":"cat a","name":"a","path":"/w/sub/a"},{"type":"search","command":"rg x","query":"x","path":null}]}`),
		started(`{"type":"agentMessage","id":"m","text":"","phase":"final_answer"}`), delta("agentMessage/delta", "m", "x"),
		note("thread/tokenUsage/updated", `"tokenUsage":{"total":{},"last":{"totalTokens":500,"inputTokens":400,"outputTokens":100},"modelContextWindow":1000}`),
		note("turn/plan/updated", `"explanation":"because","plan":[{"step":"a","status":"pending"}]`))
	v := s.view().State
	call := v.ActiveTurn.ResponseParts.At(0).(*state.ToolCallPart).ToolCall
	for got, want := range map[string]string{
		string(call.Meta["nod.cwd"]):   `"/w/sub"`,
		string(call.Meta["nod.about"]): `"reads /w/sub/a, searches for x"`,
		string(v.ActiveTurn.ResponseParts.At(1).(*state.MarkdownPart).Meta["nod.phase"]): `"final_answer"`,
		string(v.Meta["nod.context"]): `{"tokens":500,"window":1000}`,
		string(v.Meta["nod.planWhy"]): `"because"`,
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLongMessage: a message of many deltas costs what it holds, not its square.
func TestLongMessage(t *testing.T) {
	s := newStage(t)
	s.begin()
	s.lines(started(`{"type":"agentMessage","id":"m","text":""}`))
	d := []byte(delta("agentMessage/delta", "m", strings.Repeat("x", 100)))
	for range 2000 {
		s.in(d)
	}
	it := s.conn.threads["th"].items["m"]
	if len(it.said.bytes) != 200_000 || cap(it.said.bytes) > 400_000 {
		t.Errorf("%d bytes in %d", len(it.said.bytes), cap(it.said.bytes))
	}
	text, _ := json.Marshal(strings.Repeat("x", 200_000))
	s.lines(completed(`{"type":"agentMessage","id":"m","text":` + string(text) + `}`))
	if it.said.bytes != nil {
		t.Error("what was streamed is kept though it is done")
	}
}
