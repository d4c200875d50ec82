package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// secrets are canaries: what must stand in clear neither in nod's data folder nor
// in what it logs, after any test.
type secrets struct {
	nods []*process // every nod that knew them

	mu    sync.Mutex
	words map[string]string // what each is, by the secret
}

// secret makes a word one of them.
func (w *world) secret(what, word string) {
	w.secrets.mu.Lock()
	defer w.secrets.mu.Unlock()
	if word = strings.TrimSpace(word); word != "" {
		w.secrets.words[word] = what
	}
}

// watched begins to look, with the world's first nod: the last thing that the test
// does, when all nods have ended.
func (w *world) watched() {
	if w.secrets != nil {
		return
	}
	w.secrets = &secrets{words: map[string]string{}}
	w.t.Cleanup(func() {
		for _, found := range w.inClear() {
			w.t.Errorf("R35: in clear stands %s", found)
		}
		for _, found := range w.forOthers() {
			w.t.Errorf("R23: others may use %s", found)
		}
	})
	key := rand.Text()
	w.secret("the key of a provider in the environment", key)
	w.env = append(w.env, "NOD_E2E_API_KEY="+key)
	config, _ := os.ReadFile(w.config) // most worlds have none
	for _, m := range regexp.MustCompile(`(?m)^\s*token_file\s*=\s*"(.+)"`).FindAllSubmatch(config, -1) {
		token, _ := os.ReadFile(string(m[1])) // some tests name one that is not there
		w.secret("a token from a file", string(token))
	}
}

// loginSecret is the token of a login link.
func (w *world) loginSecret(link string) {
	_, token, _ := strings.Cut(link, "#k=")
	w.secret("the token of a login link", token)
}

// cookieSecrets are what a client was given.
func (w *world) cookieSecrets(c *http.Client) {
	u, err := url.Parse(w.base)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, x := range c.Jar.Cookies(u) {
		w.secret("the cookie "+x.Name, x.Value)
	}
}

// cookieSecrets are what a browser was given.
func (b *browser) cookieSecrets(w *world) {
	b.t.Helper()
	got, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, x := range got.Cookies {
		w.secret("the cookie "+x.Name, x.Value)
	}
}

// inClear tells where a secret stands.
func (w *world) inClear() (found []string) {
	w.secrets.mu.Lock()
	defer w.secrets.mu.Unlock()
	look := func(where string, b []byte) {
		for word, what := range w.secrets.words {
			if bytes.Contains(b, []byte(word)) {
				found = append(found, what+" in "+where)
			}
		}
	}
	for _, p := range w.secrets.nods {
		look("what nod logs", []byte(p.said()))
	}
	err := filepath.WalkDir(w.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		look(path, b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // some nods are to fail before they make it
		w.t.Errorf("the data folder cannot be searched: %v", err)
	}
	return found
}

// forOthers lists what of the data folder other users may use: files, folders, sockets.
// What is gone meanwhile is none of it.
func (w *world) forOthers() (found []string) {
	_ = filepath.WalkDir(w.data, func(path string, _ fs.DirEntry, _ error) error {
		// What a link leads to counts: Codex's socket may be elsewhere, for its name's length.
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			found = append(found, path+" "+info.Mode().String())
		}
		return nil
	})
	return found
}

// TestR23TheHarnessFinds: the look at modes that all tests end with can fail.
func TestR23TheHarnessFinds(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, t.TempDir())
	w.client()
	if found := w.forOthers(); len(found) > 0 {
		t.Errorf("it finds %q", found)
	}
	file := filepath.Join(w.data, "left")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if found := w.forOthers(); len(found) != 1 {
		t.Errorf("it finds %q", found)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// TestR35CommandsAreNotLogged: what an agent wants to run, and what a person says to it,
// is in the log of no level that one runs nod with.
func TestR35CommandsAreNotLogged(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.client()
	w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"say-canary"}})
	s := p.scene()
	session := newest(t, w, c)
	answer, resolved := s.askToRun("c1", "echo command-canary")
	w.untilPage(c, session, "command-canary")
	_, page := w.get(c, session)
	form := url.Values{"option": {"decline"}, "confirmed": {"yes"}, "seen": {"yes"}, "reason": {"reason-canary"}}
	for _, name := range []string{"digest", "nonce"} {
		form.Set(name, regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(page)[1])
	}
	if status, page := w.post(c, regexp.MustCompile(`action="(/approvals/[^"]+)"`).FindStringSubmatch(page)[1], form); status != http.StatusOK {
		t.Fatalf("%d %s", status, page)
	}
	<-answer
	resolved()
	w.untilPage(c, "/audit", "confirmed by the agent")
	if log := w.nod.said(); strings.Contains(log, "-canary") || !strings.Contains(log, "started") && !strings.Contains(log, "msg=") {
		t.Errorf("it logs:\n%s", log)
	}
}

// TestR35SecretAnswer gives an agent a secret, with everything logged: it reaches
// the agent, and the harness finds it nowhere, like the login and the cookies.
func TestR35SecretAnswer(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	key := "c4n4ry-" + rand.Text()
	w.secret("the answer to a secret question", key)
	c := w.client()
	status, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"ask me"}})
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, page)
	}
	s := p.scene()
	answer, resolved := s.ask("item/tool/requestUserInput", object{"itemId": "q", "questions": []object{{"id": "key", "header": "Key", "question": "Which key?", "isSecret": true}}})
	session := newest(t, w, c)
	w.untilPage(c, session, "Which key?")
	_, page = w.get(c, session)
	form := url.Values{"t.key": {key}, "confirmed": {"yes"}, "option": {"answer"}}
	for _, name := range []string{"digest", "nonce"} {
		m := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("the card has no %s", name)
		}
		form.Set(name, m[1])
	}
	action := regexp.MustCompile(`action="(/approvals/[^"]+)"`).FindStringSubmatch(page)
	if status, page := w.post(c, action[1], form); status != http.StatusOK {
		t.Fatalf("%d: %s", status, page)
	}
	select {
	case got := <-answer:
		if !strings.Contains(string(got), key) {
			t.Errorf("the agent got %s", got)
		}
	case <-time.After(patience):
		t.Fatal("the agent got no answer")
	}
	resolved()
	s.end("completed")
	w.untilPage(c, "/audit", "confirmed by the agent")
	for _, path := range []string{session, "/audit.jsonl"} {
		if _, page := w.get(c, path); strings.Contains(page, key) {
			t.Errorf("%s shows the secret", path)
		}
	}
}

// newest returns the path of the session that the inbox lists first.
func newest(t *testing.T, w *world, c *http.Client) string {
	t.Helper()
	_, page := w.get(c, "/")
	m := regexp.MustCompile(`href="(/s/[^"#]+)`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the inbox lists no session:\n%s", page)
	}
	return m[1]
}

// TestR35TheHarnessFinds: the search that all tests end with can fail.
func TestR35TheHarnessFinds(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, t.TempDir())
	c := w.client()
	w.nod.kill(syscall.SIGTERM)
	if found := w.inClear(); len(found) > 0 {
		t.Errorf("it finds %q", found)
	}
	u, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(w.login, "#k=")
	for what, secret := range map[string]string{"the cookie": c.Jar.Cookies(u)[0].Value, "the token": token} {
		file := filepath.Join(w.data, "left")
		if err := os.WriteFile(file, []byte("x"+secret+"x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if found := w.inClear(); len(found) != 1 || !strings.HasPrefix(found[0], what) {
			t.Errorf("of %s it finds %q", what, found)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
