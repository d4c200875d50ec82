package codex

import (
	"fmt"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/state"
)

// TestR20LongMessages: what is longer than nod reads takes nothing with it, be it told,
// asked or answered.
func TestR20LongMessages(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	long := strings.Repeat("x", agentconn.MaxMessage)
	o.server.mu.Lock()
	o.server.tell("item/agentMessage/delta", object{"threadId": id, "delta": long})
	for c := range o.server.conns {
		o.server.write(c, object{"id": 90, "method": "item/commandExecution/requestApproval", "params": object{"threadId": id, "command": long}})
		o.server.write(c, object{"id": 91, "result": object{"x": long}})
	}
	o.server.mu.Unlock()
	o.server.done(id, object{"type": "agentMessage", "id": "m", "text": "and so on"})
	o.until("what comes after", func() bool { return strings.Contains(o.text(id), "and so on") })
	if len(o.pending(id)) != 0 || o.link().Status != state.LinkUp {
		t.Errorf("%d requests, the link is %s", len(o.pending(id)), o.link().Status)
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
