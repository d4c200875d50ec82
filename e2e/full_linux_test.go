package e2e

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cantWrite is how pages begin to say that the disk is full.
const cantWrite = "nod cannot write to its data folder"

var cardForm = regexp.MustCompile(`action="/approvals/(\w+)"[^>]*>\s*(?:<button disabled hidden></button>\s*)?<input type="hidden" name="from" value="\w+">\s*<input type="hidden" name="digest" value="(\w+)">\s*<input type="hidden" name="nonce" value="(\w+)"`)

// pending returns the form of the first card of a page.
func (w *world) pending(c *http.Client, path string) (address string, form url.Values) {
	w.t.Helper()
	w.untilPage(c, path, `name="option"`)
	_, page := w.get(c, path)
	m := cardForm.FindStringSubmatch(page)
	if m == nil {
		w.t.Fatalf("a card without a form:\n%s", page)
	}
	return "/approvals/" + m[1], url.Values{"digest": {m[2]}, "nonce": {m[3]}, "seen": {"yes"}}
}

// TestP7DiskFull fills the disk below a nod at work: everything can be read, denied
// and stopped, nothing can be approved, each page says why, and when there is room
// again all of it is recorded, without a restart.
func TestP7DiskFull(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1500k"); err != nil {
		t.Skipf("a small disk cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, data: filepath.Join(disk, "data"), folder: t.TempDir(), path: "/usr/bin:/bin"}
	w.start()
	t.Cleanup(func() { w.nod.kill(syscall.SIGTERM) })
	c := w.client()
	status, page := w.post(c, "/new", url.Values{"provider": {"demo"}, "folder": {w.folder}, "prompt": {"fill it"}})
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, page)
	}
	session := regexp.MustCompile(`data-session="(\w+)"`).FindStringSubmatch(page)[1]
	path := "/s/" + session

	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	address, form := w.pending(c, path)
	// What is not full yet is the room that SQLite has for itself: answers take it.
	answer := func(option string) (int, string) {
		form.Set("option", option)
		return w.post(c, address, form)
	}
	for {
		status, page = answer("accept")
		if status != http.StatusOK {
			break
		}
		if _, now := w.get(c, path); !strings.Contains(now, "Stop") {
			t.Fatal("the turn ended and the disk is not full")
		}
		address, form = w.pending(c, path)
	}
	if status != http.StatusServiceUnavailable || !strings.Contains(page, "so your answer was not sent") {
		t.Errorf("an approval on a full disk: %d %s", status, page)
	}
	w.untilPage(c, path, cantWrite)
	w.untilPage(c, "/", cantWrite)
	if again, _ := w.pending(c, path); again != address {
		t.Errorf("the request %s does not wait any more", address)
	}
	if status, page = answer("decline"); status != http.StatusOK || !strings.Contains(page, "You chose “") && !strings.Contains(page, "not yet recorded") {
		t.Errorf("a denial on a full disk: %d %s", status, page)
	}
	w.untilPage(c, path, "You denied it") // the agent has it
	if status, page = w.post(c, path+"/stop", url.Values{}); status != http.StatusOK {
		t.Errorf("stop on a full disk: %d %s", status, page)
	}
	w.untilPage(c, path, "· stopped")

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, page = w.get(c, path); !strings.Contains(page, cantWrite) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the page still says that nothing can be written")
		}
	}
	if status, page = w.post(c, path+"/messages", url.Values{"text": {"go on"}}); status != http.StatusOK {
		t.Fatalf("a message after that: %d %s", status, page)
	}
	address, form = w.pending(c, path)
	if status, page = answer("accept"); status != http.StatusOK {
		t.Errorf("an approval after that: %d %s", status, page)
	}
	w.untilPage(c, path, "Turn 2 · ")
	w.untilPage(c, path, "It passed")
	w.untilPage(c, path, `<button class="primary">Send</button>`)
	before, err := textOf(bodyOf(w.get(c, path)))
	if err != nil {
		t.Fatal(err)
	}
	w.nod.kill(syscall.SIGKILL)
	w.start()
	after, err := textOf(bodyOf(w.get(w.client(), path)))
	if err != nil {
		t.Fatal(err)
	}
	if turns := func(s string) string { text, _, _ := strings.Cut(s, "\n"); return text }; turns(before) != turns(after) {
		t.Errorf("before the restart\n%s\nafter\n%s", turns(before), turns(after))
	}
}

func bodyOf(_ int, body string) string { return body }

// fill writes a file until the disk is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for page := make([]byte, 4096); ; {
		if _, err := f.Write(page); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
