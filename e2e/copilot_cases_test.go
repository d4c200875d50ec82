package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// decide answers each card that comes on a page, in its order, with one option after
// the other, and each of the rest with the last.
func (w *world) decide(c *http.Client, path string, options ...string) {
	w.t.Helper()
	answered := map[string]bool{}
	deadline := time.Now().Add(patience)
	for {
		_, page := w.get(c, path)
		for _, card := range cards.FindAllString(page, -1) {
			action := approvalPath.FindString(card)
			if action == "" || answered[action] || !strings.Contains(card, "<button") {
				continue
			}
			answered[action] = true
			form := url.Values{"option": {options[0]}, "seen": {"1"}, "confirmed": {"1"}}
			if options[0] == "reject" {
				form.Set("reason", "put it into ./out")
			}
			if len(options) > 1 {
				options = options[1:]
			}
			for _, m := range hiddenField.FindAllStringSubmatch(card, -1) {
				form.Set(m[1], m[2])
			}
			status, page := w.post(c, action, form)
			if strings.Contains(page, `name="code"`) {
				form.Set("code", w.code())
				status, page = w.post(c, action, form)
			}
			if status != http.StatusOK {
				w.t.Fatalf("%s: %d %s", action, status, page)
			}
		}
		if !strings.Contains(page, `id="halt"`) && strings.Contains(page, `id="write"`) && len(answered) > 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the turn does not end:\n%s", page)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

var cards = regexp.MustCompile(`(?s)<form[^>]*action="/approvals/.*?</form>`)

// untilIdle waits for the end of the turn, and returns the page.
func (w *world) untilIdle(c *http.Client, path string) string {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, page := w.get(c, path)
		if !strings.Contains(page, `id="halt"`) && strings.Contains(page, `id="write"`) {
			return page
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the turn does not end:\n%s", page)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// exported are the messages of a session, as its export tells them.
func (w *world) exported(id string) []string {
	w.t.Helper()
	out, err := exec.Command(nodBinary, "export", id, "--data", w.data, "--config", os.DevNull).Output()
	if err != nil {
		w.t.Fatal(err)
	}
	texts := map[string]string{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			id, _ := cmp.Or(v["partId"], v["id"]).(string)
			content, isText := v["content"].(string)
			switch {
			case v["type"] == "session/delta":
				texts[id] += content
			case v["kind"] == "markdown" && isText:
				texts[id] = content
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	for line := range bytes.Lines(out) {
		var v any
		if err := json.Unmarshal(line, &v); err != nil {
			w.t.Fatal(err)
		}
		walk(v)
	}
	return slices.Collect(maps.Values(texts))
}

// TestCopilotCases goes through what the real CLI does, on one nod.
func TestCopilotCases(t *testing.T) {
	t.Parallel()
	requests := filepath.Join(t.TempDir(), "requests.jsonl")
	w := copilotWorld(t, "-requests", requests)
	mcp := filepath.Join(t.TempDir(), "fakemcp")
	if out, err := exec.Command("go", "build", "-o", mcp, "nod/e2e/fakemcp").CombinedOutput(); err != nil {
		t.Fatalf("fakemcp: %v\n%s", err, out)
	}
	home := strings.TrimPrefix(w.env[0], "COPILOT_HOME=")
	if err := os.WriteFile(filepath.Join(home, "mcp-config.json"), []byte(`{"mcpServers":{"fakemcp":{"type":"local","command":"`+mcp+`","args":[],"tools":["*"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	c := w.client()
	if err := os.WriteFile(filepath.Join(w.folder, "README.md"), []byte("read me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := func(t *testing.T, file, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(w.folder, file)); want == "" && err == nil || want != "" && string(got) != want {
			t.Errorf("%s holds %q, %v", file, got, err)
		}
	}
	shows := func(t *testing.T, path string, texts ...string) {
		t.Helper()
		_, page := w.get(c, path)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%q is not shown:\n%s", text, page)
			}
		}
	}

	t.Run("denied with a reason", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:shell")
		w.decide(c, path, "reject")
		left(t, "hello.txt", "")
		shows(t, path, "put it into ./out")
		if b, err := os.ReadFile(requests); err != nil || !strings.Contains(string(b), "put it into ./out") {
			t.Errorf("the model was not told why: %v", err)
		}
	})
	t.Run("for this session", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:twice")
		w.decide(c, path, "approve-once", "approve-for-session", "reject") // the third is not asked
		for _, file := range []string{"a.txt", "b.txt"} {
			if _, err := os.Stat(filepath.Join(w.folder, file)); err != nil {
				t.Errorf("%s is not there", file)
			}
		}
	})
	t.Run("a question", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:choose")
		w.untilPage(c, path, "Which colour should the button be?")
		_, page := w.get(c, path)
		form := url.Values{"option": {"answer"}, "seen": {"1"}}
		for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
			form.Set(m[1], m[2])
		}
		field := regexp.MustCompile(`name="([^"]+)" value="green"`).FindStringSubmatch(page)
		if field == nil {
			t.Fatalf("there is no such choice:\n%s", page)
		}
		form.Set(field[1], "green")
		if status, page := w.post(c, approvalPath.FindString(page), form); status != http.StatusOK {
			t.Fatalf("%d %s", status, page)
		}
		w.untilIdle(c, path)
		shows(t, path, "User selected: green")
	})
	t.Run("a form of an MCP server", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:form")
		w.untilPage(c, path, "fakemcp")
		b := newBrowser(t, phone)
		w.login = w.mintLogin()
		b.loggedIn(w, false)
		b.goTo(w.base + path)
		b.until("a card", "document.querySelector('.card button.approve')")
		b.click(".card button.approve")
		b.until("the form", "document.querySelector('.card button.approve') && document.querySelector('.card input:not([type=hidden])')")
		b.click(".card button.deny")
		w.untilIdle(c, path)
	})
	t.Run("a plan", func(t *testing.T) {
		path := w.begin(c, "script:exitplan", "provider", "copilot", "set.copilot.mode", "plan")
		w.untilPage(c, path, "Read the **code**")
		w.decide(c, path, "interactive")
		shows(t, path, "The plan has had its answer.", "Mode: <bdi>Interactive")
	})
	t.Run("files, by a model without patches", func(t *testing.T) {
		path := w.begin(c, "script:create", "provider", "copilot", "set.copilot.model", "claude-sonnet-4.5")
		w.untilPage(c, path, "- second line")
		w.decide(c, path, "approve-once")
		left(t, "notes.md", "# Notes\n\n- first line\n- second line, changed\n- one more\n- third line\n")
	})
	t.Run("a patch", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:patch")
		w.decide(c, path, "approve-once")
		shows(t, path, "class=\"diff")
	})
	t.Run("all at once", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:mixed")
		w.decide(c, path, "approve-once")
		shows(t, path, "All four have had their answer.", "second")
	})
	t.Run("a sub-agent", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:delegate")
		w.decide(c, path, "approve-once")
		shows(t, path, "The sub-agent is done.", "look-around")
	})
	t.Run("a command that fails", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:fail")
		w.decide(c, path, "approve-once")
		shows(t, path, "exit 3")
	})
	t.Run("stopped in the middle", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:slow")
		w.untilPage(c, path, "slow5 ")
		w.post(c, path+"/stop", nil)
		w.untilIdle(c, path)
		shows(t, path, "stopped")
		w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
		w.untilIdle(c, path)
	})
	t.Run("an answer of 12,000 pieces", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:verylong")
		w.untilIdle(c, path)
		var want strings.Builder
		for i := range 12_000 {
			fmt.Fprintf(&want, "word%d ", i)
		}
		if got := w.exported(strings.TrimPrefix(path, "/s/")); !slices.Contains(got, want.String()) {
			t.Errorf("no message of %d says exactly that", len(got))
		}
	})
	t.Run("a model that fails", func(t *testing.T) {
		path := w.beginWith(c, "copilot", "script:err400")
		w.untilIdle(c, path)
		shows(t, path, "failed")
		path = w.beginWith(c, "copilot", "script:err500") // it asks five times more
		w.untilIdle(c, path)
		shows(t, path, "failed", "500")
		path = w.beginWith(c, "copilot", "script:cut")
		w.untilIdle(c, path)
		shows(t, path, "failed")
	})
}

// sharedServer is a Copilot server that nod and others use.
type sharedServer struct {
	*world
	provider string // of its sessions
	port     string
}

const sharedToken = "secret-of-the-test"

func newSharedServer(t *testing.T) sharedServer {
	t.Helper()
	w := copilotWorld(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(sharedToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(codexDir, "copilot"), "--headless", "--no-auto-update", "--port", "0")
	server.Env = append(append(os.Environ(), w.env...), "COPILOT_CONNECTION_TOKEN="+sharedToken)
	_, m := start(t, server, regexp.MustCompile(`listening on port (\d+)`))
	w.config = filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(w.config, []byte("[[copilot.servers]]\naddress = \"127.0.0.1:"+m[1]+"\"\ntoken_file = \""+token+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	return sharedServer{w, "copilot@127.0.0.1:" + m[1], m[1]}
}

// join has another client join a session.
func (s sharedServer) join(ctx context.Context, path string) *sdk.Session {
	s.t.Helper()
	client := sdk.NewClient(&sdk.ClientOptions{Connection: sdk.URIConnection{URL: "127.0.0.1:" + s.port, ConnectionToken: sharedToken}})
	if err := client.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.ForceStop)
	other, err := client.ResumeSession(ctx, strings.TrimPrefix(path, "/s/"), &sdk.ResumeSessionConfig{
		OnPermissionRequest: func(sdk.PermissionRequest, sdk.PermissionInvocation) (rpc.PermissionDecision, error) {
			return &rpc.PermissionDecisionNoResult{}, nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return other
}

// TestCopilotSecondClient: another client of the same server answers first, and the
// card says so.
func TestCopilotSecondClient(t *testing.T) {
	t.Parallel()
	w := newSharedServer(t)
	c := w.client()
	w.untilPage(c, "/", "Copilot at 127.0.0.1:"+w.port)
	path := w.beginWith(c, w.provider, "script:shell")
	w.untilPage(c, path, "Run a command?")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := w.join(ctx, path)
	events, err := s.GetEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if asked, ok := e.Data.(*sdk.PermissionRequestedData); ok {
			res, err := s.RPC.Permissions.HandlePendingPermissionRequest(ctx, &rpc.PermissionDecisionRequest{RequestID: asked.RequestID, Result: &rpc.PermissionDecisionReject{}})
			if err != nil || !res.Success {
				t.Errorf("the other client is refused: %+v, %v", res, err)
			}
		}
	}
	w.untilPage(c, path, "Answered in another client")
	w.untilIdle(c, path)
	if _, err := os.Stat(filepath.Join(w.folder, "hello.txt")); err == nil {
		t.Error("it ran all the same")
	}
}
