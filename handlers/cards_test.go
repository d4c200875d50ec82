package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// aChange asks to write a diff.
func aChange(diff string) func(*state.Request) {
	return func(r *state.Request) {
		r.Kind, r.Title, r.Input, r.Diff = state.RequestFileChange, "Change files?", "", diff
		r.Cwd = "" // as agents tell of a change
	}
}

// newFile is the diff of a file with the given lines.
func newFile(name string, lines ...string) string {
	return fmt.Sprintf("--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n+%s\n", name, len(lines), strings.Join(lines, "\n+"))
}

// largeChanges are changes of which a card does not draw all, and texts that stand
// at their begins and ends.
func largeChanges() map[string]struct {
	diff  string
	holds []string
} {
	rows := make([]string, 401)
	for i := range rows {
		rows[i] = fmt.Sprintf("row-%d.", i)
	}
	files := ""
	for i := range 51 {
		files += newFile(fmt.Sprintf("file-%d.txt", i), fmt.Sprintf("line-of-%d.", i))
	}
	name := strings.Repeat("n", 3000) + "-the-end"
	return map[string]struct {
		diff  string
		holds []string
	}{
		"51 files":         {files, []string{"file-0.txt", "line-of-0.", "file-50.txt", "line-of-50."}},
		"401 lines":        {newFile("a", rows...), []string{"row-0.", "row-400."}},
		"a long line":      {newFile("a", "begin "+strings.Repeat("x", 100_000)+" the-end"), []string{"begin x", "x the-end"}},
		"many bytes":       {newFile("a", strings.Repeat("<", 30_000), "the-end"), []string{"&lt;&lt;", "the-end"}},
		"a long name":      {newFile(name, "x"), []string{"nnn-the-end"}},
		"a patch of bytes": {"diff --git a/x b/x\nGIT binary patch\nliteral 5\nMcmZ\n", []string{"literal 5", "McmZ"}},
	}
}

// TestR14WholeChange: a change of which a card does not draw all is approved on the
// page that does, above the button, whatever the form says was seen.
func TestR14WholeChange(t *testing.T) {
	for name, c := range largeChanges() {
		for _, seen := range []string{"yes", ""} {
			s := newSite(t)
			a := s.ask(s.session(), aChange(c.diff))
			r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", seen))
			if r.status != http.StatusOK || len(s.agent.answers) > 0 {
				t.Fatalf("%s, seen %q: %d, %d sent", name, seen, r.status, len(s.agent.answers))
			}
			above, _, ok := strings.Cut(r.body, `name="confirmed"`)
			for _, want := range c.holds {
				if !ok || !strings.Contains(above, want) {
					t.Errorf("%s: the page that asks once more lacks %q", name, want)
				}
			}
			for _, not := range []string{"characters more", "more file", "Show ", "Later lines"} {
				if strings.Contains(r.body, not) {
					t.Errorf("%s: that page says %q", name, not)
				}
			}
			if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "confirmed", "yes", "code", s.code())); r.status != http.StatusSeeOther || len(s.agent.answers) != 1 {
				t.Errorf("%s: %d after all of it was shown", name, r.status)
			}
		}
	}
	s := newSite(t)
	a := s.ask(s.session(), aChange(newFile("a", "x")))
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Errorf("a change that the card shows as a whole: %d", r.status)
	}
}

// TestR14TooLarge: what no page can show can only be denied, and the card says what
// to do instead.
func TestR14TooLarge(t *testing.T) {
	for name, c := range map[string]struct {
		diff string
		deny bool
	}{
		"many lines":     {newFile("a", strings.Split(strings.Repeat("x\n", approvals.MaxDiffLines-10), "\n")...), false},
		"too many lines": {newFile("a", strings.Split(strings.Repeat("x\n", approvals.MaxDiffLines), "\n")...), true},
		"too many bytes": {newFile("a", strings.Repeat("x", approvals.MaxDiff)), true},
	} {
		s := newSite(t)
		id := s.session()
		a := s.ask(id, aChange(c.diff))
		page := s.get(s.in, "/s/"+id).body
		if got := strings.Contains(page, "too large for a page that shows all of it"); got != c.deny || strings.Contains(page, `value="accept"`) == c.deny || !strings.Contains(page, `value="decline"`) {
			t.Errorf("%s: it says that it can only be denied: %v", name, got)
		}
		want := http.StatusOK
		if c.deny {
			want = http.StatusBadRequest
		}
		if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != want || len(s.agent.answers) > 0 {
			t.Errorf("%s: approved: %d", name, r.status)
		}
		if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline")); r.status != http.StatusSeeOther {
			t.Errorf("%s: denied: %d", name, r.status)
		}
	}
}

// TestR4EmptyEdit: who takes everything out of a command does not run the original,
// and a command that begins with a new line is not edited by a browser that shows it.
func TestR4EmptyEdit(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, func(r *state.Request) { r.Editable, r.Input = true, "\nrm -rf build" })
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "edited", "", "seen", "yes")); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "nothing left to run") || len(s.agent.answers) > 0 {
		t.Errorf("%d, %d sent", r.status, len(s.agent.answers))
	}
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, ">\n\nrm -rf build</textarea>") {
		t.Error("a browser takes the first line end of the field away")
	}
}

// TestR12LinkDown: a proof is not used up for what cannot be sent.
func TestR12LinkDown(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.link(state.LinkLost, "e1")
	a := s.ask(id)
	code := s.code()
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "acceptForSession", "confirmed", "yes", "code", code)); r.status != http.StatusServiceUnavailable {
		t.Fatalf("while the link is down: %d", r.status)
	}
	s.link(state.LinkUp, "e1")
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "acceptForSession", "confirmed", "yes", "code", code)); r.status != http.StatusSeeOther {
		t.Errorf("with the same code, when it is back: %d", r.status)
	}
}

// TestR6SendAgain: a decision that is recorded and was not sent goes out as it was
// recorded, from whichever device.
func TestR6SendAgain(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id, aForm, func(r *state.Request) { r.Explains = "decline" })
	link := func(status state.LinkStatus) {
		s.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: status, Epoch: "e1", Lasting: true})
	}
	link(state.LinkLost)
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "decline", "reason", "not now")); r.status != http.StatusSeeOther {
		t.Fatalf("%d", r.status)
	}
	link(state.LinkUp)
	if page := s.get(s.in, "/s/"+id).body; !strings.Contains(page, `name="again"`) || !strings.Contains(page, "Send it now") {
		t.Error("the card does not offer it")
	}
	other := s.login()
	if r := s.post(other, "/approvals/"+a.ID, form(a, "decline", "again", "yes")); r.status != http.StatusSeeOther || len(s.agent.answers) != 1 {
		t.Fatalf("%d, %d sent", r.status, len(s.agent.answers))
	}
	if got := s.agent.answers[0]; got.Reason != "not now" {
		t.Errorf("%+v", got)
	}
}
