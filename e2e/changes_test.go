package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// askToWrite begins a change of files and asks whether it may be made. Files are new,
// by name.
func (s *scene) askToWrite(id string, files ...[2]string) (answer <-chan json.RawMessage) {
	changes := []any{}
	for _, f := range files {
		changes = append(changes, object{"path": f[0], "kind": object{"type": "add"}, "diff": f[1]})
	}
	s.begin(object{"type": "fileChange", "id": id, "status": "inProgress", "changes": changes})
	answer, _ = s.ask("item/fileChange/requestApproval", object{"itemId": id})
	return answer
}

// TestR14Changes: a change of which the card does not show all is approved on a page
// that does, whole and above the button, even if the card was looked at to its end.
func TestR14Changes(t *testing.T) {
	t.Parallel()
	var files [][2]string
	for i := range 51 {
		files = append(files, [2]string{fmt.Sprintf("file-%d.txt", i), fmt.Sprintf("line of %d.\n", i)})
	}
	rows := ""
	for i := range 401 {
		rows += fmt.Sprintf("row %d.\n", i)
	}
	for name, c := range map[string]struct {
		files [][2]string
		ends  []string
	}{
		"51 files":    {files, []string{"+line of 0.", "+line of 50."}},
		"401 lines":   {[][2]string{{"rows.txt", rows}}, []string{"+row 0.", "+row 400."}},
		"a long line": {[][2]string{{"long.txt", "begin " + strings.Repeat("x", 50_000) + " the end\n"}}, []string{"+begin x", "x the end"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, b, s := onCards(t, desk)
			answer := s.askToWrite("one", c.files...)
			b.until("a card that stands still", "(b => b && !b.ariaDisabled)(document.querySelector('.card .approve[value=accept]'))")
			b.run("document.querySelectorAll('.card .diffs').forEach(e => { e.scrollTop = 1e9; }); document.querySelector('.card .end').scrollIntoView({block: 'center'})")
			b.run("window.calm = 0; new IntersectionObserver(() => setTimeout(() => { window.calm = 1; }, 1500)).observe(document.querySelector('.card .end'))")
			b.until("a while", "window.calm")
			b.click(".card .approve[value=accept]")
			b.until("the page that shows all of it", "document.querySelector('main.narrow .diffs')")
			unanswered(t, answer, "before all of it was seen")
			for _, text := range c.ends {
				if !eval[bool](b, fmt.Sprintf(`(text => {
					const line = [...document.querySelectorAll('main .diff .lines > div')].find(e => e.textContent.includes(text)), box = line?.parentElement;
					return Boolean(line) && box.scrollHeight <= box.clientHeight + 1 && box.scrollWidth <= box.clientWidth + 1 &&
						line.getBoundingClientRect().bottom <= document.querySelector('main .approve').getBoundingClientRect().top;
				})(%q)`, text)) {
					t.Errorf("%q is not above the button", text)
				}
			}
			b.until("a button that waited", "!document.querySelector('main .approve').ariaDisabled")
			b.click("main.narrow .approve[value=accept]")
			approved(t, answer)
		})
	}
}
