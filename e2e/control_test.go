package e2e

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// begin starts a session with the real Codex and returns the path of its page.
func (w *world) begin(c *http.Client, prompt string, more ...string) string {
	w.t.Helper()
	f := url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {prompt}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	_, page := w.post(c, "/new", f)
	path := sessionPath.FindString(page)
	if path == "" {
		w.t.Fatalf("no session:\n%s", page)
	}
	return path
}

// TestNewSessionWithSettings starts with a model, an effort and another sandbox,
// and changes the effort with a message.
func TestNewSessionWithSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:hello"}, "set.codex.sandbox": {"danger-full-access"}})
	if !strings.Contains(page, "Tick the box") || !strings.Contains(page, "script:hello") {
		t.Fatalf("a risk is taken without a question:\n%s", page)
	}
	path := w.begin(c, "script:hello", "set.codex.model", "gpt-5.5", "set.codex.effort", "low", "set.codex.sandbox", "read-only", "set.codex.approvalPolicy", "never", "sure.codex.approvalPolicy", "never", "code", w.code())
	w.untilPage(c, path, ">Send<")
	_, page = w.get(c, path)
	for _, want := range []string{"gpt-5.5", "Reasoning effort: <bdi>low", "Sandbox: <bdi>Read only", "When it asks you: <bdi>Never"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}, "set.next.effort": {"high"}})
	w.untilPage(c, path, "Reasoning effort: <bdi>high")
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, "/new"); !strings.Contains(page, `<option value="gpt-5.5">`) {
		t.Errorf("the models are not offered")
	}
}

// TestSteer says something to a turn that runs.
func TestSteer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	path := w.begin(c, "script:steer", "set.codex.approvalPolicy", "never", "sure.codex.approvalPolicy", "never", "code", w.code())
	w.untilPage(c, path, "waiting 2")
	if _, page := w.post(c, path+"/messages", url.Values{"text": {"mind the gap"}, "how": {"steer"}}); !strings.Contains(page, "mind the gap") {
		t.Errorf("what was said is not shown:\n%s", page)
	}
	w.untilPage(c, path, "Meanwhile you said: mind the gap")
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, path); strings.Contains(page, "has not taken it yet") {
		t.Error("what was said still waits")
	}
	status, page := w.post(c, path+"/messages", url.Values{"text": {"too late"}, "how": {"steer"}})
	if status != http.StatusConflict || !strings.Contains(page, ">too late</textarea>") {
		t.Errorf("after the end: %d\n%s", status, page)
	}
}

// TestQueue has messages wait until the turn has completed; after one that was
// stopped they wait for a person, also over a restart.
func TestQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	path := w.begin(c, "script:slowcmd", "set.codex.approvalPolicy", "never", "sure.codex.approvalPolicy", "never", "code", w.code())
	w.untilPage(c, path, "tick 1")
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}, "how": {"queue"}})
	w.post(c, path+"/messages", url.Values{"text": {"script:slow"}, "how": {"queue"}})
	w.untilPage(c, path, "Hello from the")
	w.untilPage(c, path, "slow5 ")
	w.post(c, path+"/messages", url.Values{"text": {"script:hello once more"}, "how": {"queue"}})
	w.post(c, path+"/stop", url.Values{})
	w.untilPage(c, path, ">Send<")
	w.untilPage(c, path, "Stopped. 1 message waits below.")
	w.nod.kill(syscall.SIGTERM)
	w.start()
	c = w.client()
	w.untilPage(c, path, "so they wait for you")
	_, page := w.get(c, path)
	action := regexp.MustCompile(path + `/queued/\w+`).FindString(page)
	w.post(c, action, url.Values{"do": {"send"}})
	w.untilPage(c, path, ">Send<")
	_, page = w.get(c, path)
	if n := strings.Count(page, "Hello from the"); n != 2 || strings.Contains(page, "they wait") {
		t.Errorf("%d answers:\n%s", n, page)
	}
}

// TestOperations renames, forks, compacts and reviews, and archives.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	path := w.begin(c, "script:hello")
	w.untilPage(c, path, ">Send<")
	w.post(c, path+"/messages", url.Values{"text": {"script:messages"}})
	w.untilPage(c, path, "all in order")
	w.untilPage(c, path, ">Send<")

	w.post(c, path+"/rename", url.Values{"title": {"A better name"}})
	w.untilPage(c, path, "<bdi>A better name</bdi>")

	_, form := w.get(c, path+"/do/fork")
	turn := regexp.MustCompile(`<option value="([^"]+)"[^>]*>Turn 1`).FindStringSubmatch(form)
	if turn == nil {
		t.Fatalf("no turn to fork at:\n%s", form)
	}
	_, page := w.post(c, path+"/do/fork", url.Values{"set.fork.turn": {turn[1]}})
	fork := regexp.MustCompile(`data-session="([^"]+)"`).FindStringSubmatch(page)
	if fork == nil || "/s/"+fork[1] == path {
		t.Fatalf("no fork:\n%s", page)
	}
	w.untilPage(c, "/s/"+fork[1], "A better name (fork)")
	if _, page := w.get(c, "/s/"+fork[1]); !strings.Contains(page, "Hello from the") || strings.Contains(page, "all in order") {
		t.Errorf("the fork has something else:\n%s", page)
	}
	w.post(c, "/s/"+fork[1]+"/messages", url.Values{"text": {"script:messages"}})
	w.untilPage(c, "/s/"+fork[1], "all in order")
	w.untilPage(c, "/s/"+fork[1], ">Send<")

	w.post(c, path+"/do/compact", url.Values{})
	w.untilPage(c, path, ">Turn 3 · ")
	w.untilPage(c, path, ">Send<")

	_, page = w.post(c, path+"/do/review", url.Values{"set.review.of": {"commit"}})
	if !strings.Contains(page, "Say which one") {
		t.Errorf("a review of nothing:\n%s", page)
	}
	w.post(c, path+"/do/review", url.Values{"set.review.of": {"custom"}, "set.review.what": {"script:review"}})
	w.untilPage(c, path, "Review: as you describe it: script:review")
	w.untilPage(c, path, "The widget is never closed")
	w.untilPage(c, path, ">Send<")

	w.post(c, path+"/archive", url.Values{})
	if _, page := w.get(c, "/older?agent=codex"); strings.Contains(page, path) || !strings.Contains(page, fork[1]) {
		t.Errorf("Codex was not told:\n%s", page)
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, ">Turn 5 · ")
	w.untilPage(c, path, ">Send<")
}

// TestOlderSessions lists what Codex has kept, and opens one of it.
func TestOlderSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	path := w.begin(c, "script:command", "set.codex.approvalPolicy", "never", "sure.codex.approvalPolicy", "never", "code", w.code())
	w.untilPage(c, path, ">Send<")
	_, page := w.get(c, "/older?agent=codex")
	if !strings.Contains(page, "In nod") {
		t.Errorf("what nod has is not linked:\n%s", page)
	}
	// Another nod knows nothing of it.
	w.nod.kill(syscall.SIGKILL)
	w.stopAgents()
	w.data = filepath.Join(t.TempDir(), "other")
	w.start()
	c = w.client()
	_, page = w.get(c, "/older?agent=codex")
	if !strings.Contains(page, "script:command") || strings.Contains(page, "In nod") {
		t.Fatalf("the list:\n%s", page)
	}
	w.post(c, "/older", url.Values{"agent": {"codex"}, "session": {"ahp-session:/" + strings.TrimPrefix(path, "/s/")}})
	_, page = w.get(c, path)
	for _, want := range []string{"I will list the files first.", "out.txt", "finished"} {
		if !strings.Contains(page, want) {
			t.Errorf("the session does not show %q", want)
		}
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, ">Turn 2 · ")
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, "/older?agent=codex&q=nothing+like+that"); !strings.Contains(page, "No title has these words") {
		t.Errorf("a search for nothing:\n%s", page)
	}
}

// TestJoinFromATerminal types the command that the session's page shows.
func TestJoinFromATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trust(w.folder)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:hello")
	b.until("the end", "document.querySelector('.send button')")
	b.click(".joins summary")
	command := eval[string](b, "document.querySelector('.joins pre').textContent")
	script := filepath.Join(t.TempDir(), "typed")
	if err := os.WriteFile(script, []byte("PATH="+codexDir+":$PATH\n"+command+"\nsleep 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newTerminal(t, w.folder, []string{"CODEX_HOME=" + w.codex}, "sh", script)
	x.until("Hello from the")
	b.fill(".send textarea", "script:messages")
	b.do(chromedp.Click(chromedp.CSS(".send button.primary")))
	x.until("all in order")
}

// oldWorld is a world whose Codex is 0.122.
func oldWorld(t *testing.T) *world {
	t.Helper()
	old, err := filepath.Glob("node_modules/codex-0.122/vendor/*/codex")
	if err != nil || len(old) != 1 {
		t.Fatalf("Codex 0.122 is not below node_modules: %v %v", old, err)
	}
	dir, err := filepath.Abs(old[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, data: filepath.Join(t.TempDir(), "data"), folder: t.TempDir(), codex: filepath.Join(t.TempDir(), "codex-home"),
		path: dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	model := exec.Command(modelBinary, "-addr", "127.0.0.1:0", "-codex-home", w.codex)
	start(t, model, regexp.MustCompile(`listening on (\S+)`))
	w.start()
	return w
}

// TestControlOfOldCodex does with 0.122 what it can do.
func TestControlOfOldCodex(t *testing.T) {
	t.Parallel()
	w := oldWorld(t)
	c := w.client()
	path := w.begin(c, "script:steer", "set.codex.effort", "low", "set.codex.approvalPolicy", "never", "sure.codex.approvalPolicy", "never", "code", w.code())
	w.untilPage(c, path, "waiting 3") // of the first it may say nothing
	w.post(c, path+"/messages", url.Values{"text": {"mind the gap"}, "how": {"steer"}})
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}, "how": {"queue"}})
	w.untilPage(c, path, "Meanwhile you said: mind the gap")
	w.untilPage(c, path, "Hello from the")
	w.untilPage(c, path, ">Send<")
	_, page := w.get(c, path)
	for _, want := range []string{"Reasoning effort: <bdi>low", "When it asks you: <bdi>Never"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "has not taken it yet") || strings.Contains(page, "Go on in a terminal") {
		t.Errorf("the page offers what is not:\n%s", page)
	}
	w.post(c, path+"/rename", url.Values{"title": {"A better name"}})
	if _, form := w.get(c, path+"/do/fork"); strings.Contains(form, "<option") {
		t.Errorf("a fork in the middle is offered:\n%s", form)
	}
	_, page = w.post(c, path+"/do/fork", url.Values{})
	fork := regexp.MustCompile(`data-session="([^"]+)"`).FindStringSubmatch(page)
	if fork == nil || "/s/"+fork[1] == path || !strings.Contains(page, "Hello from the") {
		t.Fatalf("no fork:\n%s", page)
	}
	w.post(c, path+"/do/compact", url.Values{})
	w.untilPage(c, path, ">Turn 3 · ")
	w.untilPage(c, path, ">Send<")
	w.post(c, path+"/do/review", url.Values{"set.review.of": {"custom"}, "set.review.what": {"script:review"}})
	w.untilPage(c, path, "The widget is never closed")
	w.untilPage(c, path, ">Send<")
	w.post(c, path+"/archive", url.Values{})
	_, page = w.get(c, "/older?agent=codex")
	if strings.Contains(page, path) || !strings.Contains(page, fork[1]) {
		t.Errorf("the list:\n%s", page)
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, ">Turn 5 · ")
	w.untilPage(c, path, ">Send<")

	// Another nod reads what this one has left, as far as Codex tells it.
	w.nod.kill(syscall.SIGTERM)
	w.data = filepath.Join(t.TempDir(), "other")
	w.start()
	c = w.client()
	_, page = w.post(c, "/older", url.Values{"agent": {"codex"}, "session": {"ahp-session:/" + strings.TrimPrefix(path, "/s/")}})
	for _, want := range []string{"A better name", "Meanwhile you said: mind the gap", "Hello from the"} {
		if !strings.Contains(page, want) {
			t.Errorf("the session does not show %q:\n%s", want, page)
		}
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:messages"}})
	w.untilPage(c, path, "all in order")
	w.untilPage(c, path, ">Send<")
}
