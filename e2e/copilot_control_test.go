package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	sdk "github.com/github/copilot-sdk/go"
)

// beginFreely begins a session of Copilot that asks nothing.
func (w *world) beginFreely(c *http.Client, prompt string, more ...string) string {
	w.t.Helper()
	f := url.Values{"provider": {"copilot"}, "folder": {w.folder}, "prompt": {prompt}, "set.copilot.permissions": {"allow-all"}, "sure.copilot.permissions": {"allow-all"}, "code": {w.code()}}
	for i := 0; i+1 < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	_, page := w.post(c, "/new", f)
	path := sessionPath.FindString(page)
	if path == "" {
		w.t.Fatalf("no session began:\n%s", page)
	}
	return path
}

// TestCopilotSettings: a session takes what was chosen for it, and for a message.
func TestCopilotSettings(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	if _, page := w.get(c, "/new"); !strings.Contains(page, `name="set.copilot.model" value="gpt-5.4"`) {
		t.Errorf("the model of one's own is not offered:\n%s", page)
	}
	path := w.beginFreely(c, "script:shell", "set.copilot.effort", "low", "set.copilot.model", "gpt-5.5")
	w.untilPage(c, path, "The command has had its answer.")
	w.untilPage(c, path, ">Send<")
	_, page := w.get(c, path)
	for _, want := range []string{"gpt-5.5", "Reasoning effort: <bdi>low", "Mode: <bdi>Interactive", "When it asks you: <bdi>Never"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:exitplan"}, "set.next.mode": {"plan"}, "set.next.permissions": {"manual"}, "set.next.effort": {"high"}, "set.next.model": {"gpt-5.4"}})
	for _, want := range []string{"gpt-5.4", "Reasoning effort: <bdi>high", "Mode: <bdi>Plan", "When it asks you: <bdi>Before everything"} {
		w.untilPage(c, path, want)
	}
	// Nobody is logged in, so nobody judges requests.
	_, page = w.post(c, "/new", url.Values{"provider": {"copilot"}, "folder": {w.folder}, "prompt": {"x"}, "set.copilot.permissions": {"assisted"}})
	if !strings.Contains(page, "does not let you choose") {
		t.Errorf("a way of asking that there is not:\n%s", page)
	}
	if _, page := w.get(c, "/"); strings.Count(page, `href="/s/`) != 1 {
		t.Errorf("a session that did not begin is listed:\n%s", page)
	}
}

// TestCopilotQueue: what waits is edited, said to the turn, and sent when that has
// completed.
func TestCopilotQueue(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	path := w.beginFreely(c, "script:trickle")
	queued := regexp.MustCompile(path + `/queued/\w+`)
	w.untilPage(c, path, "drop1 ")
	for _, text := range []string{"script:nothing", "script:messages"} {
		w.post(c, path+"/messages", url.Values{"text": {text}, "how": {"queue"}})
	}
	_, page := w.get(c, path)
	waiting := queued.FindAllString(page, -1)
	if len(waiting) != 2 {
		t.Fatalf("%d wait:\n%s", len(waiting), page)
	}
	w.post(c, waiting[0], url.Values{"do": {"edit"}, "text": {"script:hello"}})
	w.untilPage(c, path, "Hello from the")
	w.untilPage(c, path, "all in order")
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, path); strings.Contains(page, "script:nothing") || len(queued.FindAllString(page, -1)) > 0 {
		t.Errorf("after all:\n%s", page)
	}
}

// TestCopilotSteer: what is said while a command runs reaches the model in the same turn.
func TestCopilotSteer(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	path := w.beginFreely(c, "script:steer")
	w.untilPage(c, path, "waiting 1")
	w.post(c, path+"/messages", url.Values{"text": {"mind the gap"}, "how": {"queue"}})
	_, page := w.get(c, path)
	if _, page = w.post(c, regexp.MustCompile(path+`/queued/\w+`).FindString(page), url.Values{"do": {"steer"}}); strings.Contains(page, "Queued:") {
		t.Errorf("it still waits:\n%s", page)
	}
	w.untilPage(c, path, "Meanwhile you said: mind the gap")
	w.untilPage(c, path, ">Send<")
	_, page = w.get(c, path)
	if strings.Contains(page, "has not taken it yet") || strings.Count(page, "Said while the turn ran") != 1 || strings.Contains(page, ">Turn 2 ·") {
		t.Errorf("after the turn:\n%s", page)
	}
}

// TestCopilotStop: what waits stays for a person, unless the stop is for all of it. What
// was said to the turn and not taken waits too.
func TestCopilotStop(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	path := w.beginFreely(c, "script:slow")
	w.untilPage(c, path, "slow3 ")
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}, "how": {"queue"}})
	w.post(c, path+"/messages", url.Values{"text": {"mind the gap"}, "how": {"steer"}})
	w.post(c, path+"/stop", url.Values{})
	w.untilPage(c, path, "Stopped. 2 messages wait below.")
	w.post(c, path+"/messages", url.Values{"text": {"script:slow once more"}})
	w.untilPage(c, path, "slow3 ")
	w.untilPage(c, path, "Stop and empty the queue")
	w.post(c, path+"/stop", url.Values{"queue": {"empty"}})
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, path); strings.Contains(page, path+"/queued/") {
		t.Errorf("something still waits:\n%s", page)
	}
}

// TestCopilotOthersQueue: what another client has queued at Copilot shows, and can be
// taken out or said to the turn. A stop does not drop it, unless it is for all of it.
func TestCopilotOthersQueue(t *testing.T) {
	t.Parallel()
	w := newSharedServer(t)
	c := w.client()
	path := w.beginWith(c, w.provider, "script:slow")
	w.untilPage(c, path, "slow3 ")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	other := w.join(ctx, path)
	queue := func(text string) {
		t.Helper()
		if _, err := other.Send(ctx, sdk.MessageOptions{Prompt: text}); err != nil {
			t.Fatal(err)
		}
		w.untilPage(c, path, text)
	}
	queued := regexp.MustCompile(path + `/queued/\w+`)
	act := func(do string) {
		t.Helper()
		_, page := w.get(c, path)
		w.post(c, queued.FindString(page), url.Values{"do": {do}})
	}
	queue("edit me")
	_, page := w.get(c, path)
	w.post(c, queued.FindString(page), url.Values{"do": {"edit"}, "text": {"take me out"}})
	w.untilNot(c, path, "edit me")
	w.untilPage(c, path, "take me out")
	if items, err := other.RPC.Queue.PendingItems(ctx); err != nil || len(items.Items) != 1 || items.Items[0].DisplayText != "take me out" {
		t.Errorf("at Copilot wait %+v, %v", items, err)
	}
	act("remove")
	w.untilNot(c, path, "take me out")
	queue("script:slow as their own")
	w.post(c, path+"/stop", url.Values{})
	w.untilPage(c, path, "Turn 2 · ")
	w.untilPage(c, path, "slow3 ")
	queue("script:slow mind the gap")
	act("steer")
	w.untilPage(c, path, "has not taken it yet")
	queue("drop me, too")
	w.post(c, path+"/stop", url.Values{}) // what it has not taken comes next, and is not said a second time
	w.untilPage(c, path, "Turn 3 · ")
	queue("drop me")
	w.post(c, path+"/stop", url.Values{"queue": {"empty"}})
	w.untilPage(c, path, ">Send<")
	_, page = w.get(c, path)
	if len(queued.FindAllString(page, -1)) > 0 || strings.Contains(page, "drop me") || strings.Contains(page, "Turn 4 · ") || strings.Count(page, "mind the gap") != 1 {
		t.Errorf("after the stop:\n%s", page)
	}
	items, err := other.RPC.Queue.PendingItems(ctx)
	if err != nil || len(items.Items)+len(items.SteeringMessages) > 0 {
		t.Errorf("at Copilot still wait %+v, %v", items, err)
	}
}

// untilNot loads a page until it does not contain something any more.
func (w *world) untilNot(c *http.Client, path, text string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, page := w.get(c, path)
		if !strings.Contains(page, text) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%q is still on %s:\n%s", text, path, page)
		}
	}
}

// TestCopilotOperations renames, compacts, forks and deletes.
func TestCopilotOperations(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	path := w.beginWith(c, "copilot", "script:hello")
	w.untilPage(c, path, ">Send<")
	w.post(c, path+"/rename", url.Values{"title": {"A better name"}})
	w.untilPage(c, path, "<bdi>A better name</bdi>")
	w.post(c, path+"/messages", url.Values{"text": {"script:messages"}})
	w.untilPage(c, path, "all in order")
	w.untilPage(c, path, ">Send<")
	_, page := w.post(c, path+"/do/fork", url.Values{})
	fork := regexp.MustCompile(`data-session="([^"]+)"`).FindStringSubmatch(page)
	if fork == nil || "/s/"+fork[1] == path || !strings.Contains(page, "A better name (fork)") || !strings.Contains(page, "all in order") {
		t.Fatalf("no fork:\n%s", page)
	}
	w.post(c, "/s/"+fork[1]+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, "/s/"+fork[1], ">Turn 3 · ")
	if _, page := w.post(c, path+"/do/compact", url.Values{}); strings.Contains(page, "did not compact") {
		t.Errorf("not compacted:\n%s", page)
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, ">Turn 3 · ")
	w.untilPage(c, path, ">Send<")
	w.post(c, path+"/do/delete", url.Values{})
	if _, page := w.get(c, "/older?agent=copilot"); strings.Contains(page, path) || !strings.Contains(page, fork[1]) {
		t.Errorf("Copilot still has it:\n%s", page)
	}
	if _, page := w.post(c, path+"/messages", url.Values{"text": {"are you there?"}}); !strings.Contains(page, "could not go on") {
		t.Errorf("it goes on:\n%s", page)
	}
}

// TestCopilotAttachments: files and images reach the model, chosen in a browser.
func TestCopilotAttachments(t *testing.T) {
	t.Parallel()
	requests := filepath.Join(t.TempDir(), "requests")
	w := copilotWorld(t, "-requests", requests)
	w.start()
	c := w.client()
	path := w.beginWith(c, "copilot", "script:hello")
	w.untilPage(c, path, ">Send<")
	if err := os.WriteFile(filepath.Join(w.folder, "notes.txt"), []byte("notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.login = w.mintLogin()
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.goTo(w.base + path + "#now")
	b.click("#attach summary")
	dot := filepath.Join(t.TempDir(), "dot.png")
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dot, drawn.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b.fill("#paths", "notes.txt")
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#images"), []string{dot}))
	b.fill("#text", "script:messages look at these")
	pasted := eval[int](b, `(() => {
		const d = new DataTransfer();
		d.items.add(new File([Uint8Array.from(atob("`+base64.StdEncoding.EncodeToString(drawn.Bytes())+`"), c => c.charCodeAt())], "pasted.png", {type: "image/png"}));
		document.getElementById("text").dispatchEvent(new ClipboardEvent("paste", {clipboardData: d, bubbles: true}));
		return document.getElementById("images").files.length;
	})()`)
	if pasted != 2 {
		t.Errorf("%d images are chosen", pasted)
	}
	b.click(".send button.primary")
	b.untilText(".attached", "dot.png")
	b.untilText(".attached", "pasted.png")
	b.untilText(".attached", "notes.txt")
	b.until("the end", "document.querySelectorAll('.end').length === 2 && document.querySelector('.send button')")
	b.sameAfterReload()
	raw, err := os.ReadFile(requests)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), "data:image/png;base64,") || !strings.Contains(string(raw), filepath.Join(w.folder, "notes.txt")) {
		t.Error("they did not reach the model")
	}
}

// TestCopilotControlPictures draws the pages by which a person controls Copilot.
func TestCopilotControlPictures(t *testing.T) {
	t.Parallel()
	dir := picturesFolder(t)
	w := copilotWorld(t)
	w.start()
	a := openAlbum(t, w, dir)
	w.login = w.mintLogin()
	c := w.client()
	path := w.beginFreely(c, "script:hello Find out why the invoice of a customer who has moved is sent to the old address")
	w.untilPage(c, path, ">Send<")
	a.all("copilot-next", func(tab *browser) {
		tab.goTo(w.base + path + "#now")
		tab.click("#next summary")
		tab.click("#attach summary")
		eval[bool](tab, "document.querySelector('#attach').scrollIntoView({block: 'end'}) === undefined")
	})
	a.all("copilot-sure", func(tab *browser) {
		tab.goTo(w.base + path)
		tab.click("#next summary")
		tab.fill("#text", "x")
		tab.click("input[value=allow-all]")
		tab.click(".send button.primary")
		tab.untilText(".problem", "Tick the box")
		eval[bool](tab, "document.querySelector('.send .problem').scrollIntoView({block: 'center'}) === undefined")
	})
	if err := os.WriteFile(filepath.Join(w.folder, "notes.txt"), []byte("notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:slow"}, "paths": {"notes.txt"}})
	w.untilPage(c, path, "slow3 ")
	w.post(c, path+"/messages", url.Values{"text": {"Then run the tests of the whole module, and not only those of the package that you have changed; write what fails into a table.\nAnd be quick."}, "how": {"queue"}, "paths": {"notes.txt"}})
	w.post(c, path+"/messages", url.Values{"text": {"Then commit it."}, "how": {"queue"}})
	a.all("copilot-busy", func(tab *browser) {
		tab.goTo(w.base + path)
		tab.click(".pending .edit summary")
		eval[bool](tab, "document.querySelector('.halt').scrollIntoView({block: 'end'}) === undefined")
	})
	w.post(c, path+"/stop", url.Values{})
	w.untilPage(c, path, ">Send<")
	a.all("copilot-new", func(tab *browser) {
		tab.goTo(w.base + "/new")
		tab.click("input[value=copilot]")
		eval[bool](tab, "[...document.querySelectorAll('.more-settings')].at(-1).open = true")
	})
	a.all("copilot-delete", func(tab *browser) { tab.goTo(w.base + path + "/do/delete") })
}
