package handlers

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"nod/agentconn"
	"nod/state"
)

var someSettings = []state.Setting{
	{Name: "model", Title: "Model", Open: true, Mutable: true, Choices: []state.Choice{{Value: "m1", Label: "Model one"}}},
	{Name: "box", Title: "Box", Default: "shut", Choices: []state.Choice{
		{Value: "shut", Label: "Shut", Description: "Nothing gets out."},
		{Value: "open", Label: "Open", Description: "Warning: all gets out.", Risky: true},
	}},
}

// TestNewSessionSettings: they reach the agent; a wrong one is said and nothing that
// was typed is lost; a risky one is asked for a second time.
func TestNewSessionSettings(t *testing.T) {
	s := newSite(t)
	s.agent.settings = someSettings
	if page := s.get(s.in, "/new").body; !strings.Contains(page, `<option value="m1">Model one`) || !strings.Contains(page, `value="shut" checked`) {
		t.Errorf("the form offers no settings:\n%s", page)
	}
	form := func(more ...string) url.Values {
		f := url.Values{"provider": {"codex"}, "folder": {t.TempDir()}, "prompt": {"what I typed"}, "set.codex.model": {"my own"}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	for name, c := range map[string]struct {
		form url.Values
		says string
	}{
		"no such choice":     {form("set.codex.box", "ajar"), "has no such choice"},
		"two lines":          {form("set.codex.model", "a\nb"), "must be one line"},
		"too long":           {form("set.codex.model", strings.Repeat("a", maxSetting+1)), "must be one line"},
		"a risk":             {form("set.codex.box", "open"), "Tick the box"},
		"a tick for another": {form("set.codex.box", "open", "sure.codex.box", "shut"), "Tick the box"},
	} {
		r := s.post(s.in, "/new", c.form)
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, c.says) || !strings.Contains(r.body, "what I typed") {
			t.Errorf("%s: %d\n%s", name, r.status, r.body)
		}
	}
	if len(s.agent.created) > 0 {
		t.Fatalf("started %+v", s.agent.created)
	}
	r := s.post(s.in, "/new", form("set.codex.box", "open", "sure.codex.box", "open", "code", s.code()))
	if r.status != http.StatusSeeOther || len(s.agent.created) != 1 {
		t.Fatalf("%d\n%s", r.status, r.body)
	}
	if c := s.agent.created[0].Config; c["model"] != "my own" || c["box"] != "open" {
		t.Errorf("the agent got %v", c)
	}
	s.apply(strings.TrimPrefix(r.header.Get("Location"), "/s/"), &state.SessionConfigChanged{Config: map[string]jsontext.Value{"box": jsontext.Value(`"open"`)}})
	if page := s.get(s.in, r.header.Get("Location")).body; !strings.Contains(page, "Box: <bdi>Open</bdi>") {
		t.Errorf("the page does not tell what is in force:\n%s", page)
	}
}

// TestSteerAndQueue without a script, and what becomes of them.
func TestSteerAndQueue(t *testing.T) {
	s := newSite(t)
	id := s.session()
	path := "/s/" + id
	if page := s.get(s.in, path).body; strings.Contains(page, ">Steer<") || !strings.Contains(page, ">Queue<") {
		t.Errorf("an agent that does not steer:\n%s", page)
	}
	s.offer(state.Offers{Steers: true})
	if page := s.get(s.in, path).body; !strings.Contains(page, ">Steer<") {
		t.Error("an agent that steers is not offered to")
	}
	s.post(s.in, path+"/messages", url.Values{"text": {"mind the gap"}, "how": {"steer"}})
	if page := s.get(s.in, path).body; !strings.Contains(page, "mind the gap") {
		t.Errorf("what was said is not shown:\n%s", page)
	}
	for _, text := range []string{"<b>one</b>", "two"} {
		if r := s.post(s.in, path+"/messages", url.Values{"text": {text}, "how": {"queue"}}); r.status != http.StatusSeeOther {
			t.Fatalf("queue: %d", r.status)
		}
	}
	if page := s.get(s.in, path).body; !strings.Contains(page, "&lt;b&gt;one&lt;/b&gt;") || strings.Contains(page, "Send now") {
		t.Errorf("the queue while a turn runs:\n%s", page)
	}
	s.post(s.in, path+"/stop", nil)
	page := s.get(s.in, path).body
	if !strings.Contains(page, "so they wait for you") || !strings.Contains(page, "Stopped. 3 messages wait below.") {
		t.Errorf("the queue after a stop:\n%s", page)
	}
	waiting := regexp.MustCompile(`/s/`+id+`/queued/\w+`).FindAllString(page, -1)
	if len(waiting) != 3 {
		t.Fatalf("%d wait", len(waiting))
	}
	if r := s.post(s.in, waiting[0], url.Values{"do": {"remove"}}); r.status != http.StatusSeeOther {
		t.Errorf("remove: %d", r.status)
	}
	if r := s.post(s.in, waiting[0], url.Values{"do": {"send"}}); r.status != http.StatusConflict || !strings.Contains(r.body, "sent or removed meanwhile") {
		t.Errorf("one that was removed: %d", r.status)
	}
	if r := s.post(s.in, waiting[0], url.Values{"do": {"frame"}}); r.status != http.StatusNotFound {
		t.Errorf("nothing to do: %d", r.status)
	}
	if r := s.post(s.in, waiting[1], url.Values{"do": {"send"}}); r.status != http.StatusSeeOther {
		t.Errorf("send: %d\n%s", r.status, r.body)
	}
	if page := s.get(s.in, path).body; !strings.Contains(page, `<div class="ask"><bdi>two`) {
		t.Errorf("the second is not sent:\n%s", page)
	}
	s.apply(id, &state.SessionTurnCancelled{TurnID: "t"})
	if r := s.post(s.in, path+"/messages", url.Values{"text": {"too late"}, "how": {"steer"}}); r.status != http.StatusConflict || !strings.Contains(r.body, ">too late</textarea>") {
		t.Errorf("steer after the end: %d\n%s", r.status, r.body)
	}
}

// TestQueueWhileATurnRuns is edited, said to the turn, and emptied with a stop.
func TestQueueWhileATurnRuns(t *testing.T) {
	s := newSite(t)
	id := s.session()
	path := "/s/" + id
	queued := regexp.MustCompile(`/s/` + id + `/queued/\w+`)
	for _, text := range []string{"one", "two", "three"} {
		s.post(s.in, path+"/messages", url.Values{"text": {text}, "how": {"queue"}})
	}
	page := s.get(s.in, path).body
	if strings.Contains(page, "Steer with it now") || !strings.Contains(page, "Stop and empty the queue") {
		t.Errorf("an agent that does not steer:\n%s", page)
	}
	s.offer(state.Offers{Steers: true})
	if page = s.get(s.in, path).body; !strings.Contains(page, "Steer with it now") {
		t.Error("an agent that steers is not offered to")
	}
	waiting := queued.FindAllString(page, -1)
	if r := s.post(s.in, waiting[0], url.Values{"do": {"edit"}, "text": {"one, <b>better</b>"}}); r.status != http.StatusSeeOther {
		t.Errorf("edit: %d\n%s", r.status, r.body)
	}
	if page := s.get(s.in, path).body; !strings.Contains(page, "one, &lt;b&gt;better&lt;/b&gt;") || strings.Join(queued.FindAllString(page, -1), " ") != strings.Join(waiting, " ") {
		t.Errorf("after the edit:\n%s", page)
	}
	if r := s.post(s.in, waiting[0], url.Values{"do": {"edit"}, "text": {"  "}}); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "needs some words") {
		t.Errorf("an empty edit: %d", r.status)
	}
	if r := s.post(s.in, waiting[0], url.Values{"do": {"steer"}}); r.status != http.StatusSeeOther {
		t.Errorf("steer: %d\n%s", r.status, r.body)
	}
	if r := s.post(s.in, waiting[0], url.Values{"do": {"edit"}, "text": {"too late"}}); r.status != http.StatusConflict {
		t.Errorf("an edit of one that is gone: %d", r.status)
	}
	if page := s.get(s.in, path).body; !strings.Contains(page, "has not taken it yet") || len(queued.FindAllString(page, -1)) != 2 {
		t.Errorf("after it was said:\n%s", page)
	}
	if r := s.post(s.in, path+"/stop", url.Values{"queue": {"empty"}}); r.status != http.StatusSeeOther {
		t.Errorf("stop: %d\n%s", r.status, r.body)
	}
	if page := s.get(s.in, path).body; len(queued.FindAllString(page, -1)) > 0 || !strings.Contains(page, ">Send<") {
		t.Errorf("after the stop:\n%s", page)
	}
}

// TestQueueAtTheAgent is what others have queued there. It is shown while a turn runs.
func TestQueueAtTheAgent(t *testing.T) {
	s := newSite(t)
	s.offer(state.Offers{Steers: true})
	id := s.session()
	path := "/s/" + id
	s.apply(id, &state.SessionMetaChanged{Meta: state.Meta{state.MetaQueue: jsontext.Value(`[{"id":"7 <b>","text":"<i>theirs</i>"}]`)}})
	page := s.get(s.in, path).body
	if !strings.Contains(page, "&lt;i&gt;theirs") || !strings.Contains(page, path+"/queued/7%20%3Cb%3E") || !strings.Contains(page, "Stop and empty the queue") {
		t.Errorf("it is not shown:\n%s", page)
	}
	s.post(s.in, path+"/queued/7%20%3Cb%3E", url.Values{"do": {"steer"}})
	if page := s.get(s.in, path).body; !strings.Contains(page, "has not taken it yet") {
		t.Errorf("it is not said:\n%s", page)
	}
	s.post(s.in, path+"/stop", nil)
	if page := s.get(s.in, path).body; strings.Contains(page, "by another program") {
		t.Errorf("what is not known any more is shown:\n%s", page)
	}
}

// TestSettingsOfAMessage: one of fixed values stays as it is unless it is chosen, and a
// risk is asked for twice.
func TestSettingsOfAMessage(t *testing.T) {
	s := newSite(t)
	box := someSettings[1]
	box.Mutable = true
	s.agent.settings = []state.Setting{someSettings[0], box}
	id := s.session()
	path := "/s/" + id
	s.apply(id, &state.SessionConfigChanged{Config: map[string]jsontext.Value{"box": jsontext.Value(`"shut"`)}})
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	if page := s.get(s.in, path).body; !strings.Contains(page, `name="set.next.box" value="" checked`) || !strings.Contains(page, "Now: Shut") || !strings.Contains(page, "Warning: all gets out.") {
		t.Errorf("the form:\n%s", page)
	}
	r := s.post(s.in, path+"/messages", url.Values{"text": {"my draft"}, "set.next.box": {"open"}, "set.next.model": {"m7"}})
	for _, want := range []string{"Tick the box", `name="sure.next.box" value="open"`, `value="open" checked`, `value="m7"`, "my draft"} {
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, want) {
			t.Errorf("a risk: %d, no %s\n%s", r.status, want, r.body)
		}
	}
	r = s.post(s.in, path+"/messages", url.Values{"text": {"my draft"}, "set.next.box": {"open"}, "sure.next.box": {"open"}, "set.next.model": {""}, "code": {s.code()}})
	if r.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", r.status, r.body)
	}
	v, err := s.hub.Session(id)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(v.State.ActiveTurn.Message.Meta[state.MessageConfig]); got != `{"box":"open"}` {
		t.Errorf("the agent got %s", got)
	}
}

// offer has the link offer something.
func (s *site) offer(o state.Offers) {
	s.hub.LinkChanged(s.t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkUp, Epoch: "e1", Offers: o})
}

// TestRename takes one line.
func TestRename(t *testing.T) {
	s := newSite(t)
	path := "/s/" + s.session()
	for _, title := range []string{"", "  ", "a\nb", strings.Repeat("a", maxTitle+1)} {
		if r := s.post(s.in, path+"/rename", url.Values{"title": {title}}); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d", title, r.status)
		}
	}
	if r := s.post(s.in, path+"/rename", url.Values{"title": {" <i>new</i> "}}); r.status != http.StatusSeeOther {
		t.Errorf("%d", r.status)
	}
	if page := s.get(s.in, path).body; !strings.Contains(page, "<bdi>&lt;i&gt;new&lt;/i&gt;</bdi></h1>") {
		t.Errorf("not renamed:\n%s", page)
	}
}

// TestOperations are those that the link offers, while it offers them.
func TestOperations(t *testing.T) {
	s := newSite(t)
	id := s.session()
	path := "/s/" + id
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	if r := s.get(s.in, path+"/do/split"); r.status != http.StatusConflict || !strings.Contains(r.body, "cannot do that now") {
		t.Errorf("not offered: %d", r.status)
	}
	s.offer(state.Offers{Terminal: "agent resume", Operations: []state.Operation{{Name: "split", Title: "Split", Description: "In two.", Params: []state.Setting{{Name: "at", Title: "At", Turns: true}, {Name: "how", Title: "How", Open: true}}}}})
	if page := s.get(s.in, path).body; !strings.Contains(page, ">Split …<") || !strings.Contains(page, "agent resume "+id) {
		t.Errorf("not on the page:\n%s", page)
	}
	if page := s.get(s.in, path+"/do/split").body; !strings.Contains(page, `<option value="t">Turn 1 · do it`) || !strings.Contains(page, "In two.") {
		t.Errorf("the form:\n%s", page)
	}
	if r := s.post(s.in, path+"/do/split", url.Values{"set.split.at": {"another"}, "set.split.how": {"kept"}}); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, `value="kept"`) {
		t.Errorf("a turn that is not there: %d", r.status)
	}
	other := s.session()
	s.agent.other = s.uri(other)
	if r := s.post(s.in, path+"/do/split", url.Values{"set.split.at": {"t"}}); r.status != http.StatusSeeOther || r.header.Get("Location") != "/s/"+other+"#now" {
		t.Errorf("done: %d, %s", r.status, r.header.Get("Location"))
	}
	if got := strings.Join(s.agent.operated, ";"); got != "split map[at:t]" {
		t.Errorf("the agent was asked for %q", got)
	}
	s.agent.fail = &agentconn.PublicError{Message: "It would not split."}
	if r := s.post(s.in, path+"/do/split", nil); r.status != http.StatusConflict || !strings.Contains(r.body, "It would not split.") {
		t.Errorf("refused: %d", r.status)
	}
}

// TestOlderSessions links what nod has, and opens what it has not.
func TestOlderSessions(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.agent.older = state.OlderPage{Next: "n&xt", Sessions: []state.Older{{URI: s.uri(id), Title: "known"}, {URI: s.uri("old"), Title: "<i>old</i>\nmore", Folder: "/w/shop"}}}
	page := s.get(s.in, "/older?agent=codex&q=w+x").body
	for _, want := range []string{`href="/s/` + id + `#now"`, "&lt;i&gt;old", "shop", "/older?agent=codex&amp;cursor=n%26xt&amp;q=w+x"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s:\n%s", want, page)
		}
	}
	s.get(s.in, "/older?agent=codex&q=+w&cursor=c")
	if got := strings.Join(s.agent.listed, ";"); got != "w x ;w c" {
		t.Errorf("the agent was asked for %q", got)
	}
	if r := s.post(s.in, "/older", url.Values{"agent": {"codex"}, "session": {s.uri("old")}}); r.status != http.StatusSeeOther || r.header.Get("Location") != "/s/old#now" {
		t.Errorf("open: %d %s", r.status, r.body)
	}
	for _, f := range []url.Values{{"agent": {"codex"}, "session": {"http://evil.test/"}}, {"agent": {"codex"}}} {
		if r := s.post(s.in, "/older", f); r.status != http.StatusNotFound {
			t.Errorf("%v: %d", f, r.status)
		}
	}
	if r := s.get(s.in, "/older?agent=nobody"); r.status != http.StatusNotFound {
		t.Errorf("nobody's: %d", r.status)
	}
	s.agent.fail = &agentconn.PublicError{Message: "It has no memory."}
	if r := s.get(s.in, "/older?agent=codex"); r.status != http.StatusBadGateway || !strings.Contains(r.body, "It has no memory.") {
		t.Errorf("refused: %d", r.status)
	}
}

// TestLineEnds of forms are not those of what a person has typed.
func TestLineEnds(t *testing.T) {
	s := newSite(t)
	r := s.post(s.in, "/new", url.Values{"provider": {"codex"}, "folder": {t.TempDir()}, "prompt": {"one\r\ntwo"}})
	path := r.header.Get("Location")
	s.post(s.in, path+"/messages", url.Values{"text": {"three\r\nfour"}, "how": {"queue"}})
	v, err := s.hub.Session(strings.TrimPrefix(path, "/s/"))
	if err != nil {
		t.Fatal(err)
	}
	if text := v.State.ActiveTurn.Message.Text; text != "one\ntwo" {
		t.Errorf("begun with %q", text)
	}
	if text := v.State.QueuedMessages[0].Message.Text; text != "three\nfour" {
		t.Errorf("queued is %q", text)
	}
	s.post(s.in, path+"/queued/"+v.State.QueuedMessages[0].ID, url.Values{"do": {"edit"}, "text": {"five\r\nsix"}})
	if v, err = s.hub.Session(v.ID); err != nil {
		t.Fatal(err)
	}
	if text := v.State.QueuedMessages[0].Message.Text; text != "five\nsix" {
		t.Errorf("edited to %q", text)
	}
}
