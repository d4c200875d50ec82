package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/journal"
	"nod/views"
)

// risks are the entries of the audit about risky settings.
func (s *site) risks() (out []journal.AuditEntry) {
	s.t.Helper()
	for x, err := range s.store.Audit(s.t.Context(), 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if x.What == views.AuditRisky {
			out = append(out, x)
		}
	}
	return out
}

// TestR12RiskySettingsOfANewSession need a proof each time, also just after one: without,
// or with a wrong one, nothing is started and nothing that was typed is lost. The
// record tells who, what and where.
func TestR12RiskySettingsOfANewSession(t *testing.T) {
	s := newSite(t)
	s.agent.settings = someSettings
	folder := t.TempDir()
	with := func(more ...string) url.Values {
		f := url.Values{"provider": {"codex"}, "folder": {folder}, "prompt": {"what I typed"}, "set.codex.model": {"my own"}, "set.codex.box": {"open"}, "sure.codex.box": {"open"}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	first := s.post(s.in, "/new", with("sure.codex.box", ""))
	if first.status != http.StatusUnprocessableEntity || !strings.Contains(first.body, `name="code"`) || !strings.Contains(first.body, "Show that it is you") {
		t.Errorf("the page that asks twice asks for no proof: %d\n%s", first.status, first.body)
	}
	for name, c := range map[string]struct {
		form   url.Values
		status int
		says   string
	}{
		"no proof":    {with(), http.StatusUnprocessableEntity, "Nothing was sent: show first that it is you."},
		"a wrong one": {with("code", "AAAA-AAAA"), http.StatusForbidden, "That does not show that it is you"},
	} {
		r := s.post(s.in, "/new", c.form)
		if r.status != c.status {
			t.Errorf("%s: %d", name, r.status)
		}
		for _, want := range []string{c.says, "what I typed", folder, `value="my own"`, `value="open" checked`, `name="sure.codex.box" value="open" checked`, `name="code"`} {
			if !strings.Contains(r.body, want) {
				t.Errorf("%s: the page has no %s\n%s", name, want, r.body)
			}
		}
	}
	if len(s.agent.created) > 0 || len(s.risks()) > 0 {
		t.Fatalf("without a proof: started %v, recorded %v", s.agent.created, s.risks())
	}
	used := s.code()
	r := s.post(s.in, "/new", with("code", used))
	if r.status != http.StatusSeeOther || len(s.agent.created) != 1 || s.agent.created[0].Config["box"] != "open" {
		t.Fatalf("with a proof: %d, %v\n%s", r.status, s.agent.created, r.body)
	}
	id := strings.TrimPrefix(r.header.Get("Location"), "/s/")
	if all := s.risks(); len(all) != 1 || all[0].Name != s.who(s.in).Name || all[0].Actor != s.who(s.in).ID || all[0].About != id || all[0].Address != "127.0.0.1" {
		t.Errorf("recorded %+v", all)
	}
	if page := s.get(s.in, "/audit").body; !strings.Contains(page, "Chose what is risky: Box: Open") || !strings.Contains(page, folder) {
		t.Errorf("the record does not tell:\n%s", page)
	}
	for name, form := range map[string]url.Values{"fresh": with(), "the same code again": with("code", used)} {
		if r := s.post(s.in, "/new", form); r.status < 400 || len(s.agent.created) != 1 {
			t.Errorf("%s: %d", name, r.status)
		}
	}
	if r := s.post(s.in, "/new", with("set.codex.box", "shut")); r.status != http.StatusSeeOther {
		t.Errorf("what is not risky: %d", r.status)
	}
}

// TestR12RiskySettingsSpareTheProof for a form that is wrong in another way: a code
// works once.
func TestR12RiskySettingsSpareTheProof(t *testing.T) {
	s := newSite(t)
	s.agent.settings = someSettings
	form := url.Values{"provider": {"codex"}, "folder": {"/no/such/folder"}, "prompt": {"do it"}, "set.codex.box": {"open"}, "sure.codex.box": {"open"}, "code": {s.code()}}
	if r := s.post(s.in, "/new", form); r.status != http.StatusUnprocessableEntity {
		t.Fatalf("a wrong folder: %d", r.status)
	}
	form.Set("folder", t.TempDir())
	if r := s.post(s.in, "/new", form); r.status != http.StatusSeeOther {
		t.Errorf("the code is gone: %d", r.status)
	}
}

// TestR12RiskySettingsTogether: of several each is ticked, all on one page, and one proof
// is for all.
func TestR12RiskySettingsTogether(t *testing.T) {
	s := newSite(t)
	lid := someSettings[1]
	lid.Name, lid.Title = "lid", "Lid"
	s.agent.settings = append(someSettings, lid)
	form := url.Values{"provider": {"codex"}, "folder": {t.TempDir()}, "prompt": {"do it"}, "set.codex.box": {"open"}, "set.codex.lid": {"open"}}
	r := s.post(s.in, "/new", form)
	if !strings.Contains(r.body, `name="sure.codex.box" value="open"`) || !strings.Contains(r.body, `name="sure.codex.lid" value="open"`) {
		t.Errorf("not both are asked for:\n%s", r.body)
	}
	form.Set("sure.codex.box", "open")
	form.Set("code", s.code())
	if r := s.post(s.in, "/new", form); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, `name="sure.codex.box" value="open" checked`) {
		t.Errorf("one is not ticked: %d\n%s", r.status, r.body)
	}
	form.Set("sure.codex.lid", "open")
	if r := s.post(s.in, "/new", form); r.status != http.StatusSeeOther {
		t.Errorf("both: %d\n%s", r.status, r.body)
	}
	if all := s.risks(); len(all) != 1 || !strings.Contains(string(all[0].Detail), "Box: Open, Lid: Open") {
		t.Errorf("recorded %+v", all)
	}
}

// TestR12RiskySettingsOfAMessage need a proof, and none where the session runs with them
// already. Images have to be chosen again, and the page says so.
func TestR12RiskySettingsOfAMessage(t *testing.T) {
	s := newSite(t)
	box := someSettings[1]
	box.Mutable = true
	s.agent.settings = []state.Setting{box}
	id := s.session()
	s.offer(state.Offers{Attaches: true})
	path := "/s/" + id
	set := func(v string) {
		s.apply(id, &state.SessionConfigChanged{Config: map[string]jsontext.Value{"box": jsontext.Value(`"` + v + `"`)}})
	}
	set("shut")
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	form := url.Values{"text": {"my draft"}, "set.next.box": {"open"}, "sure.next.box": {"open"}}
	r := s.upload(path+"/messages", form, "a.png", dot)
	for _, want := range []string{"show first that it is you", `name="code"`, "my draft", `name="sure.next.box" value="open" checked`, "Choose the images again."} {
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, want) {
			t.Errorf("no proof: %d, no %s\n%s", r.status, want, r.body)
		}
	}
	form.Set("code", "AAAA-AAAA")
	if r := s.post(s.in, path+"/messages", form); r.status != http.StatusForbidden || !strings.Contains(r.body, "my draft") {
		t.Errorf("a wrong one: %d\n%s", r.status, r.body)
	}
	if v, _ := s.hub.Session(id); v.State.ActiveTurn != nil {
		t.Fatal("sent without a proof")
	}
	form.Set("code", s.code())
	if r := s.upload(path+"/messages", form, "a.png", dot); r.status != http.StatusSeeOther {
		t.Fatalf("with a proof: %d\n%s", r.status, r.body)
	}
	if all := s.risks(); len(all) != 1 || all[0].About != id || !strings.Contains(string(all[0].Detail), "Box: Open, for “do it”") {
		t.Errorf("recorded %+v", all)
	}
	set("open")
	v, err := s.hub.Session(id)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(id, &state.SessionTurnComplete{TurnID: v.State.ActiveTurn.ID})
	if r := s.post(s.in, path+"/messages", url.Values{"text": {"more"}, "set.next.box": {"open"}}); r.status != http.StatusSeeOther {
		t.Errorf("a session that runs with it: %d\n%s", r.status, r.body)
	}
	if n := len(s.risks()); n != 1 {
		t.Errorf("%d entries", n)
	}
}

// TestR12RiskySettingsOfAnOperation need a proof.
func TestR12RiskySettingsOfAnOperation(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	s.offer(state.Offers{Operations: []state.Operation{{Name: "split", Title: "Split", Params: []state.Setting{someSettings[1]}}}})
	form := url.Values{"set.split.box": {"open"}, "sure.split.box": {"open"}}
	if r := s.post(s.in, "/s/"+id+"/do/split", form); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, `name="code"`) || len(s.agent.operated) > 0 {
		t.Errorf("no proof: %d, %v\n%s", r.status, s.agent.operated, r.body)
	}
	form.Set("code", "AAAA-AAAA")
	if r := s.post(s.in, "/s/"+id+"/do/split", form); r.status != http.StatusForbidden || len(s.agent.operated) > 0 {
		t.Errorf("a wrong one: %d, %v", r.status, s.agent.operated)
	}
	s.agent.other = s.uri(id)
	form.Set("code", s.code())
	if r := s.post(s.in, "/s/"+id+"/do/split", form); r.status != http.StatusSeeOther || len(s.agent.operated) != 1 || len(s.risks()) != 1 {
		t.Errorf("with a proof: %d, %v, recorded %v", r.status, s.agent.operated, s.risks())
	}
}

// TestR12RiskySettingsTriedTooOften: who guesses codes has to wait, and keeps what was
// typed.
func TestR12RiskySettingsTriedTooOften(t *testing.T) {
	s, _ := limited(t)
	s.agent.settings = someSettings
	form := url.Values{"provider": {"codex"}, "folder": {t.TempDir()}, "prompt": {"what I typed"}, "set.codex.box": {"open"}, "sure.codex.box": {"open"}, "code": {"AAAA-AAAA"}}
	for range DefaultLimits.Proofs {
		if r := s.post(s.in, "/new", form); r.status != http.StatusForbidden {
			t.Fatalf("a guess: %d", r.status)
		}
	}
	form.Set("code", s.code())
	r := s.post(s.in, "/new", form)
	if r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "what I typed") || len(s.agent.created) > 0 {
		t.Errorf("one guess more: %d\n%s", r.status, r.body)
	}
}
