package e2e

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// killAgent kills a server that nod has started.
func (w *world) killAgent(name string) {
	w.t.Helper()
	out, err := exec.Command(nodBinary, "agents", "--data", w.data, "--config", "/dev/null").CombinedOutput()
	m := regexp.MustCompile(`(?m)^` + name + `\s+.*?\s(\d+)\s`).FindSubmatch(out)
	if err != nil || m == nil {
		w.t.Fatalf("nod agents: %v\n%s", err, out)
	}
	pid, err := strconv.Atoi(string(m[1]))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestCopilotKilled: its server is killed in the middle of two turns. Both end and say
// so, and the sessions go on with the next message, which starts it again.
func TestCopilotKilled(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	asks := w.beginWith(c, "copilot", "script:shell")
	w.untilPage(c, asks, "Run a command?")
	says := w.beginWith(c, "copilot", "script:slow")
	w.untilPage(c, says, "slow5 ")
	w.killAgent("Copilot")
	for _, path := range []string{asks, says} {
		w.untilPage(c, path, "The link to Copilot was lost while this turn ran")
		page := w.untilIdle(c, path)
		if strings.Contains(page, `class="approve"`) {
			t.Errorf("something can still be approved:\n%s", page)
		}
	}
	for _, path := range []string{asks, says} {
		if status, page := w.post(c, path+"/messages", url.Values{"text": {"script:hello"}}); status != 200 {
			t.Errorf("%d\n%s", status, page)
		}
		page := w.untilIdle(c, path)
		if strings.Contains(page, `class="approve"`) || strings.Count(page, `class="turn`) < 2 {
			t.Errorf("it did not go on:\n%s", page)
		}
	}
	if _, err := os.Stat(filepath.Join(w.folder, "hello.txt")); err == nil {
		t.Error("what had expired ran")
	}
}

// TestCopilotTrust: the hooks of a folder run only if a person has told Copilot to trust
// it.
func TestCopilotTrust(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	hooks := filepath.Join(w.folder, ".github", "hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", w.folder).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	hook := `{"version":1,"hooks":{"sessionStart":[{"type":"command","bash":"touch ` + ran + `"}],"userPromptSubmitted":[{"type":"command","bash":"touch ` + ran + `"}]}}`
	if err := os.WriteFile(filepath.Join(hooks, "hook.json"), []byte(hook), 0o644); err != nil {
		t.Fatal(err)
	}
	w.start()
	c := w.client()
	w.untilIdle(c, w.beginWith(c, "copilot", "script:hello"))
	if _, err := os.Stat(ran); err == nil {
		t.Error("a hook of a folder that nobody trusts has run")
	}
	home := strings.TrimPrefix(w.env[0], "COPILOT_HOME=")
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"trustedFolders":["`+w.folder+`"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.untilIdle(c, w.beginWith(c, "copilot", "script:hello"))
	if _, err := os.Stat(ran); err != nil {
		t.Error("a hook of a folder that is trusted has not run")
	}
}
