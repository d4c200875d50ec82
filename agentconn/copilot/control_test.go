package copilot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nod/state"
	"nod/state/snapshot"
)

// params are those of a call.
func params(t *testing.T, m message) (p map[string]any) {
	t.Helper()
	if err := json.Unmarshal(m.Params, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// word is a setting that is in force.
func word(v snapshot.Session, name string) (out string) {
	_ = json.Unmarshal(v.State.Config.Values[name], &out) // "" if none is
	return out
}

// idle begins a session and ends its first turn.
func (h *house) idle() string {
	h.t.Helper()
	id := h.session()
	h.server.happens(id, true, event1(1, "session.idle", `{}`))
	h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	return id
}

// TestSettings: a new session takes those that were chosen, and asks before everything
// unless that was. What is in force shows, also what another client has chosen.
func TestSettings(t *testing.T) {
	h := newHouse(t)
	uri, err := h.manager.CreateSession(t.Context(), state.NewSession{Provider: h.adapter.Provider(), Folder: "/w", Config: map[string]string{
		settingModel: "m1", settingEffort: "low", settingMode: "plan",
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := sessionID(uri)
	if p := params(t, h.server.called("session.create", 1)); p["model"] != "m1" || p["reasoningEffort"] != "low" {
		t.Errorf("created with %v", p)
	}
	if p := params(t, h.server.called("session.mode.set", 1)); p["mode"] != "plan" {
		t.Errorf("the mode: %v", p)
	}
	if p := params(t, h.server.called("session.permissions.setMode", 1)); p["mode"] != "manual" {
		t.Errorf("the permissions: %v", p)
	}
	v := h.until(id, "what is in force", func(v snapshot.Session) bool { return word(v, settingPermissions) != "" })
	if got := []string{v.State.Summary.Model.ID, word(v, settingModel), word(v, settingEffort), word(v, settingMode), word(v, settingPermissions)}; !slices.Equal(got, []string{"m", "m", "medium", "interactive", "manual"}) {
		t.Errorf("in force are %v", got)
	}
	if p := v.State.Config.Schema.Properties[settingPermissions]; len(p.Choices()) != 3 || !p.Choices()[2].Risky || p.Choices()[0].Risky || p.Choices()[0].Description == "" {
		t.Errorf("a message may choose of %+v", p.Choices())
	}
	h.server.happens(id, true,
		event1(1, "session.mode_changed", `{"newMode":"autopilot","previousMode":"interactive"}`),
		event1(1, "session.permissions_changed", `{"mode":"allow-all","previousMode":"manual"}`),
		event1(1, "session.model_change", `{"newModel":"m2","reasoningEffort":"high"}`))
	v = h.until(id, "the changes", func(v snapshot.Session) bool { return word(v, settingEffort) == "high" })
	if word(v, settingMode) != "autopilot" || word(v, settingPermissions) != "allow-all" || word(v, settingModel) != "m2" || v.State.Summary.Model.ID != "m2" {
		t.Errorf("in force are %v", v.State.Config.Values)
	}
	h.server.happens(id, true, event1(2, "session.permissions_changed", `{"previousAllowAllPermissions":true,"allowAllPermissions":false}`))
	h.until(id, "an older word", func(v snapshot.Session) bool { return word(v, settingPermissions) == "manual" })
}

// TestSettingsOfAMessage: those that differ are taken before it is sent; if one is
// refused, it is not sent.
func TestSettingsOfAMessage(t *testing.T) {
	h := newHouse(t)
	id := h.idle()
	m := state.UserMessage("go on")
	m.Meta = state.Meta{state.MessageConfig: []byte(`{"model":"m2","effort":"high","mode":"interactive","permissions":"allow-all"}`)}
	if err := h.hub.Send(t.Context(), id, m); err != nil {
		t.Fatal(err)
	}
	if p := params(t, h.server.called("session.model.switchTo", 1)); p["modelId"] != "m2" || p["reasoningEffort"] != "high" {
		t.Errorf("the model: %v", p)
	}
	if p := params(t, h.server.called("session.permissions.setMode", 2)); p["mode"] != "allow-all" {
		t.Errorf("the permissions: %v", p)
	}
	if n := h.server.count("session.mode.set"); n != 0 {
		t.Errorf("what is in force was chosen %d times", n)
	}
	h.server.happens(id, true, event1(2, "session.idle", `{}`))
	h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	sent := h.server.count("session.send")
	for config, says := range map[string]string{`{"permissions":"assisted"}`: "does not let you choose", `{"model":"none"}`: "No such model"} {
		m.Meta = state.Meta{state.MessageConfig: []byte(config)}
		if err := h.hub.Send(t.Context(), id, m); err == nil || !strings.Contains(public(err), says) {
			t.Errorf("%s: %v", config, err)
		}
	}
	if n := h.server.count("session.send"); n != sent {
		t.Error("it was sent all the same")
	}
}

// public is what a person reads of an error.
func public(err error) string {
	if p, ok := err.(interface{ Public() string }); ok {
		return p.Public()
	}
	return fmt.Sprint("not public: ", err)
}

// TestRefusedAtFirst: a session that does not take what was chosen does not come to be.
func TestRefusedAtFirst(t *testing.T) {
	h := newHouse(t)
	_, err := h.manager.CreateSession(t.Context(), state.NewSession{Provider: h.adapter.Provider(), Folder: "/w", Config: map[string]string{settingPermissions: "assisted"}})
	if err == nil || !strings.Contains(public(err), "does not let you choose") {
		t.Errorf("%v", err)
	}
	h.server.called("session.delete", 1)
	if in := h.hub.Inbox(); len(in.Sessions) != 0 {
		t.Errorf("%d sessions are there", len(in.Sessions))
	}
}

// TestModels are offered where Copilot knows them.
func TestModels(t *testing.T) {
	t.Setenv("COPILOT_PROVIDER_BASE_URL", "")
	h := newHouse(t)
	h.session()
	s := h.manager.Settings(t.Context(), h.adapter.Provider())
	if c, ok := s[0].Choice("m1"); !ok || c.Label != "Model one" || !s[0].Open {
		t.Errorf("%+v", s[0])
	}
	if len(s[1].Choices) != 2 || s[1].Choices[1].Value != "max" {
		t.Errorf("%+v", s[1])
	}
}

// TestSteer: what is said to a turn waits in the session's state until Copilot has taken
// it; what it takes too late begins a turn.
func TestSteer(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`))
	for _, text := range []string{"mind", "the gap"} {
		if err := h.hub.Steer(t.Context(), id, state.UserMessage(text)); err != nil {
			t.Fatal(err)
		}
	}
	if p := params(t, h.server.called("session.send", 2)); p["mode"] != "immediate" || p["prompt"] != "mind" {
		t.Errorf("sent: %v", p)
	}
	if m := h.view(id).State.SteeringMessage; m == nil || m.Message.Text != "mind\n\nthe gap" {
		t.Errorf("waiting: %+v", m)
	}
	h.server.happens(id, true, event1(2, "user.message", `{"messageId":"m2-`+id+`","content":"mind","delivery":"steering"}`))
	h.until(id, "the second alone", func(v snapshot.Session) bool {
		return v.State.SteeringMessage != nil && v.State.SteeringMessage.Message.Text == "the gap"
	})
	// The turn ends before the other one is taken, which Copilot begins a turn with then.
	h.server.happens(id, true, event1(3, "user.message", `{"messageId":"m3-`+id+`","content":"the gap","delivery":"queued"}`))
	v := h.until(id, "another turn", func(v snapshot.Session) bool {
		return v.State.ActiveTurn != nil && v.State.ActiveTurn.Message.Text == "the gap"
	})
	if v.State.SteeringMessage != nil || len(v.State.Turns) != 1 {
		t.Errorf("%+v, %d turns", v.State.SteeringMessage, len(v.State.Turns))
	}
	// In the next turn nothing of it is left.
	if err := h.hub.Steer(t.Context(), id, state.UserMessage("new")); err != nil {
		t.Fatal(err)
	}
	if m := h.view(id).State.SteeringMessage; m == nil || m.Message.Text != "new" {
		t.Errorf("waiting: %+v", m)
	}
}

func (h *house) view(id string) snapshot.Session {
	h.t.Helper()
	return h.until(id, "it", func(snapshot.Session) bool { return true })
}

// TestStop drops nothing that others have queued at Copilot, unless a person wants that.
func TestStop(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	if err := h.hub.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.server.called("session.abort", 1)
	h.server.waits(id, `{"id":"7","messageId":"x","kind":"message","displayText":"theirs"}`, `{"id":"8","messageId":"y","kind":"message","displayText":"more"}`)
	v := h.until(id, "what waits", func(v snapshot.Session) bool { return len(state.Waits(v.State.Meta)) == 2 })
	if w := state.Waits(v.State.Meta); w[0] != (state.Waiting{ID: "7", Text: "theirs", Editable: true}) {
		t.Errorf("%+v", w)
	}
	if err := h.hub.Steer(t.Context(), id, state.UserMessage("mind the gap")); err != nil {
		t.Fatal(err)
	}
	if err := h.hub.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if p := params(t, h.server.called("session.interruptMainTurn", 1)); p["flushQueued"] != true {
		t.Errorf("stopped with %v", p)
	}
	if m := h.view(id).State.SteeringMessage; m != nil {
		t.Errorf("Copilot says it next, and nod would say it again: %+v", m)
	}
	if err := h.hub.SteerQueued(t.Context(), id, "7"); err != nil {
		t.Fatal(err)
	}
	if p := params(t, h.server.called("session.queue.sendNow", 1)); p["id"] != "7" {
		t.Errorf("said: %v", p)
	}
	if m := h.view(id).State.SteeringMessage; m == nil || m.Message.Text != "theirs" {
		t.Errorf("waiting: %+v", m)
	}
	h.server.waits(id, `{"id":"8","messageId":"y","kind":"message","displayText":"more"}`)
	h.until(id, "one", func(v snapshot.Session) bool { return len(state.Waits(v.State.Meta)) == 1 })
	if err := h.hub.StopAll(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if p := params(t, h.server.called("session.queue.removeAt", 1)); p["id"] != "8" {
		t.Errorf("removed: %v", p)
	}
	h.server.waits(id)
	h.until(id, "none", func(v snapshot.Session) bool { return len(state.Waits(v.State.Meta)) == 0 })
}

// TestAttach: files and images go to Copilot; of an image the session's state keeps the name.
func TestAttach(t *testing.T) {
	h := newHouse(t)
	id := h.idle()
	m := state.UserMessage("look")
	m.Attachments = []state.MessageAttachment{
		{Type: "resource", Label: "a b.txt", URI: new(state.FileURI("/w/a b.txt")), SizeHint: new(int64(5))},
		{Type: "embeddedResource", Label: "dot.png", ContentType: new("image/png"), Data: new("AAAA")},
	}
	if err := h.hub.Send(t.Context(), id, m); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(params(t, h.server.called("session.send", 2))["attachments"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"displayName":"a b.txt","path":"/w/a b.txt","type":"file"},{"data":"AAAA","displayName":"dot.png","mimeType":"image/png","type":"blob"}]`
	if string(raw) != want {
		t.Errorf("sent %s", raw)
	}
	v := h.until(id, "the turn", func(v snapshot.Session) bool { return v.State.ActiveTurn != nil })
	if a := v.State.ActiveTurn.Message.Attachments; len(a) != 2 || a[1].Data != nil || a[1].Size() != 3 || a[0].Size() != 5 {
		t.Errorf("kept are %+v", a)
	}
}

// TestOperations forks, compacts, renames and deletes.
func TestOperations(t *testing.T) {
	h := newHouse(t)
	id := h.idle()
	if err := h.hub.Rename(t.Context(), id, strings.Repeat("long", 40)); err != nil {
		t.Fatal(err)
	}
	if name := params(t, h.server.called("session.name.set", 1))["name"].(string); len([]rune(name)) != maxName {
		t.Errorf("the name has %d characters", len([]rune(name)))
	}
	other, err := h.hub.Operate(t.Context(), id, opFork, nil)
	if err != nil || other != "f0" {
		t.Errorf("forked: %q, %v", other, err)
	}
	if p := params(t, h.server.called("sessions.fork", 1)); p["sessionId"] != id || len([]rune(p["name"].(string))) > maxName {
		t.Errorf("forked: %v", p)
	}
	if v := h.view("f0"); v.State.Lifecycle != state.LifecycleReady {
		t.Errorf("the fork is %s", v.State.Lifecycle)
	}
	if _, err := h.hub.Operate(t.Context(), id, opCompact, nil); err != nil {
		t.Error(err)
	}
	h.server.called("session.history.compact", 1)
	if _, err := h.hub.Operate(t.Context(), id, opDelete, nil); err != nil {
		t.Error(err)
	}
	h.server.called("session.delete", 1)
	if v := h.view(id); len(v.State.Turns) != 1 {
		t.Errorf("nod has %d turns of it", len(v.State.Turns))
	}
}

// TestStopKeepsWhatWasSaid whole: what Copilot has not taken into the turn waits for a
// person with all that went along.
func TestStopKeepsWhatWasSaid(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`))
	for _, name := range []string{"a.png", "b.png"} {
		m := state.UserMessage("look at " + name)
		m.Attachments = []state.MessageAttachment{{Type: "embeddedResource", Label: name, ContentType: new("image/png"), Data: new("AAAA")}}
		if err := h.hub.Steer(t.Context(), id, m); err != nil {
			t.Fatal(err)
		}
	}
	h.server.happens(id, true, event1(2, "abort", `{"reason":"user_initiated"}`), event1(2, "session.idle", `{"aborted":true}`))
	v := h.until(id, "the message", func(v snapshot.Session) bool { return len(v.State.QueuedMessages) == 1 })
	if a := v.State.QueuedMessages[0].Message.Attachments; len(a) != 2 || a[0].Label != "a.png" || state.Value(a[1].Data) != "AAAA" {
		t.Errorf("along with it wait %+v", a)
	}
}

// TestSteerWithAFile names it where what was said stands in the turn.
func TestSteerWithAFile(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`),
		event1(2, "user.message", `{"messageId":"x","content":"look","delivery":"steering","attachments":[{"type":"file","displayName":"a.txt","path":"/w/a.txt"},{"type":"blob","displayName":"b.png","mimeType":"image/png"}]}`),
		event1(1, "session.idle", `{}`))
	v := h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	if got := v.State.Turns[0].ResponseParts[0].(*state.NotificationPart).Content.Text; got != "look\n\nWith it: a.txt, b.png" {
		t.Errorf("%q", got)
	}
}

// TestSteerWithALongMessage that another client has queued: it is shown cut, and known by
// its id when Copilot takes it.
func TestSteerWithALongMessage(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`))
	long := strings.Repeat("long ", 1000)
	h.server.waits(id, `{"id":"7","messageId":"x","kind":"message","displayText":"`+long+`"}`)
	h.until(id, "what waits", func(v snapshot.Session) bool { return len(state.Waits(v.State.Meta)) == 1 })
	if err := h.hub.SteerQueued(t.Context(), id, "7"); err != nil {
		t.Fatal(err)
	}
	h.server.waits(id)
	h.server.happens(id, true, event1(2, "user.message", `{"messageId":"x","content":"`+long+`","delivery":"steering"}`))
	h.server.happens(id, true, event1(2, "abort", `{"reason":"user_initiated"}`), event1(2, "session.idle", `{"aborted":true}`))
	v := h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	if q := v.State.QueuedMessages; len(q) != 0 {
		t.Errorf("what was taken waits again, cut to %d characters", len(q[0].Message.Text))
	}
}

// TestStopEmptiesALongQueue: more waits than is shown.
func TestStopEmptiesALongQueue(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	var items []string
	for i := range maxQueue + 5 {
		items = append(items, fmt.Sprintf(`{"id":"%d","messageId":"x%d","kind":"message","displayText":"theirs"}`, i, i))
	}
	h.server.waits(id, items...)
	h.until(id, "what waits", func(v snapshot.Session) bool { return len(state.Waits(v.State.Meta)) == maxQueue })
	if err := h.hub.StopAll(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := h.server.count("session.queue.removeAt"); n != maxQueue+5 {
		t.Errorf("%d were removed", n)
	}
	if n := h.server.count("session.abort"); n != 1 {
		t.Error("what waits comes next")
	}
}

// TestLongTitle: Copilot takes the begin of it, and nod keeps all.
func TestLongTitle(t *testing.T) {
	h := newHouse(t)
	id := h.idle()
	h.server.happens(id, true, event1(0, "session.title_changed", `{"title":"hello"}`))
	title := strings.Repeat("long", 40)
	if err := h.hub.Rename(t.Context(), id, title); err != nil {
		t.Fatal(err)
	}
	name := params(t, h.server.called("session.name.set", 1))["name"].(string)
	h.server.happens(id, true, event1(1, "session.title_changed", `{"title":"`+name+`"}`), event1(2, "user.message", `{"messageId":"x","content":"more"}`))
	v := h.until(id, "the next turn", func(v snapshot.Session) bool { return v.State.ActiveTurn != nil })
	if v.State.Summary.Title != title {
		t.Errorf("%q", v.State.Summary.Title)
	}
}

// TestOthersQueue is edited and emptied at Copilot. What has begun meanwhile cannot be, and
// the person is told.
func TestOthersQueue(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.waits(id, `{"id":"7","messageId":"x","kind":"message","displayText":"theirs"}`, `{"id":"8","kind":"command","displayText":"/compact"}`,
		`{"id":"9","messageId":"y","kind":"message","displayText":"`+strings.Repeat("long ", 1000)+`"}`)
	v := h.until(id, "what waits", func(v snapshot.Session) bool { return len(state.Waits(v.State.Meta)) == 3 })
	if w := state.Waits(v.State.Meta); !w[0].Editable || w[1].Editable || w[2].Editable {
		t.Errorf("a command, or what is shown cut, can be edited: %+v", w)
	}
	if err := h.hub.Requeue(t.Context(), id, "7", "mine"); err != nil {
		t.Fatal(err)
	}
	if p := params(t, h.server.called("session.queue.updateText", 1)); p["id"] != "7" || p["prompt"] != "mine" {
		t.Errorf("edited: %v", p)
	}
	if w := state.Waits(h.view(id).State.Meta); w[0].Text != "mine" {
		t.Errorf("after that waits %+v", w)
	}
	if err := h.hub.Requeue(t.Context(), id, "9", "mine"); err == nil || !strings.Contains(public(err), "cannot be edited") {
		t.Errorf("one that is shown cut: %v", err)
	}
	h.server.mu.Lock()
	h.server.queue = nil
	h.server.mu.Unlock()
	if err := h.hub.Unqueue(t.Context(), id, "7"); err == nil || !strings.Contains(public(err), "may have begun") {
		t.Errorf("it has begun: %v", err)
	}
}
