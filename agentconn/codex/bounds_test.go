package codex

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/state"
	"nod/state/approvals"
)

// TestR20LongMessages: what is longer than nod reads takes nothing with it, be it told
// or answered, and the page says that there was something.
func TestR20LongMessages(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	long := strings.Repeat("x", agentconn.MaxMessage)
	o.server.mu.Lock()
	o.server.tell("item/agentMessage/delta", object{"threadId": id, "delta": long})
	for c := range o.server.conns {
		o.server.write(c, object{"id": 91, "result": object{"x": long}})
		o.server.write(c, object{"id": long, "method": "item/new/request", "params": object{"threadId": id}})
	}
	o.server.mu.Unlock()
	o.server.done(id, object{"type": "agentMessage", "id": "m", "text": "and so on"})
	o.until("what comes after", func() bool { return strings.Contains(o.text(id), "and so on") })
	if len(o.pending(id)) != 0 || o.link().Status != state.LinkUp {
		t.Errorf("%d requests, the link is %s", len(o.pending(id)), o.link().Status)
	}
	for _, what := range []string{"longer than nod reads (16.0 MiB, item/agentMessage/delta)", "longer than nod reads (16.0 MiB, item/new/request)"} {
		if !slices.ContainsFunc(o.view(id).State.ActiveTurn.ResponseParts.Slice(), func(p state.ResponsePart) bool {
			n, ok := p.(*state.NotificationPart)
			return ok && strings.Contains(n.Content.Text, what)
		}) {
			t.Errorf("the page does not say: %s", what)
		}
	}
}

// TestR20LongRequest: a request that is longer than nod reads is put before a person, who
// can refuse it where the protocol lets it be refused by its id, and nothing else.
func TestR20LongRequest(t *testing.T) {
	long := strings.Repeat("x", agentconn.MaxMessage)
	for method, want := range map[string]string{
		"item/commandExecution/requestApproval": `{"id":90,"result":{"decision":"decline"}}`,
		"item/fileChange/requestApproval":       `{"id":90,"result":{"decision":"decline"}}`,
		"item/permissions/requestApproval":      `{"id":90,"result":{"permissions":{},"scope":"turn"}}`,
		"mcpServer/elicitation/request":         `{"id":90,"result":{"_meta":null,"action":"decline","content":null}}`,
		"execCommandApproval":                   `{"id":90,"result":{"decision":"denied"}}`,
		"applyPatchApproval":                    `{"id":90,"result":{"decision":"denied"}}`,
		"item/tool/requestUserInput":            "",
		"item/new/request":                      "",
	} {
		s := newStage(t)
		s.begin()
		for _, said := range []string{ // whatever comes first
			`{"id":90,"method":"` + method + `","params":{"threadId":"th","turnId":"tu","x":{"y":"` + long + `"},"command":"` + long + `"}}`,
			`{"params":{"command":"` + long + `","threadId":"th"},"method":"` + method + `","id":90}`,
		} {
			s.conn.wire = &words{in: bufio.NewReader(strings.NewReader(said + "\n"))}
			_, _ = s.conn.read(t.Context())
			v := s.view()
			if len(v.Approvals) == 0 {
				t.Fatalf("%s: no card", method)
			}
			a := v.Approvals[len(v.Approvals)-1]
			if a.State != approvals.Pending || a.Request.Kind != state.RequestTooLong || a.Request.Method != method || !strings.Contains(a.Request.Caution, " MiB long") {
				t.Errorf("%s: %+v", method, a.Request)
			}
			if sent := s.conn.wire.(*words).String(); sent != "" {
				t.Errorf("%s: sent by itself: %s", method, sent)
			}
			for _, o := range a.Request.Options {
				if o.Kind != state.OptionDeny {
					t.Errorf("%s: it can be approved: %+v", method, o)
				}
			}
			if want == "" {
				if len(a.Request.Options) > 0 {
					t.Errorf("%s: %+v", method, a.Request.Options)
				}
				continue
			}
			if _, err := s.hub.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: a.Request.Options[0].ID}); err != nil {
				t.Fatal(method, err)
			}
			if sent := s.conn.wire.(*words).String(); sent != want+"\n" {
				t.Errorf("%s: sent %s", method, sent)
			}
		}
	}
}

// TestR20DeepMessages: what nests too deep is kept as it came. A request that does is
// shown, and can only be denied.
func TestR20DeepMessages(t *testing.T) {
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	s := newStage(t)
	s.begin()
	s.lines(
		fmt.Sprintf(`{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":{"type":"mcpToolCall","id":"x","tool":"t","server":"s","arguments":%s}}}`, deep),
		startCommand, strings.Replace(askCommand, `"cwd":"/w"`, `"cwd":"/w","kind":`+deep, 1),
		`{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"m","delta":"still here"}}`)
	v := s.view()
	parts := v.State.ActiveTurn.ResponseParts.Slice()
	if n, ok := parts[0].(*state.NotificationPart); !ok || !strings.Contains(string(n.Meta["nod.raw"]), "mcpToolCall") {
		t.Errorf("it is shown as %+v", parts[0])
	}
	if m, ok := parts[len(parts)-1].(*state.MarkdownPart); !ok || m.Content.String() != "still here" {
		t.Errorf("%+v", parts)
	}
	if len(v.Approvals) != 1 {
		t.Fatalf("%d cards", len(v.Approvals))
	}
	for _, o := range v.Approvals[0].Request.Options {
		if o.Kind == state.OptionApprove {
			t.Errorf("it can be approved: %+v", o)
		}
	}
	if s.sent.Len() > 0 {
		t.Errorf("sent %s", s.sent.String())
	}
}
