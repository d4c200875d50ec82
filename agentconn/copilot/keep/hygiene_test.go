package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"nod/agentconn"
)

// dump writes what this process can see of whoever started it.
func dump(file string) error {
	var b strings.Builder
	for _, kv := range os.Environ() {
		b.WriteString("env " + kv + "\n")
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // its own: what was passed on has lost that mark
		}
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			b.WriteString("fd " + to + "\n")
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// TestR22CopilotSeesLittle: through the keeper, too, nothing of nod's own reaches the
// server but what it needs, and nothing of the keeper's but the token.
func TestR22CopilotSeesLittle(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not tell what a program has open")
	}
	t.Setenv("NOD_TEST_SECRET", "do not pass")
	t.Setenv("COPILOT_MODEL", "pass this")
	secret, err := os.Create(filepath.Join(t.TempDir(), "secret.db")) // as the journal is open
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secret.Close() }()
	seen := filepath.Join(t.TempDir(), "seen")
	s := played(t)
	s.Args = append(s.Args, "--dump", seen)
	k := newKeeper(t, s)
	k.Env = agentconn.ChildEnv([]string{"COPILOT_MODEL"})
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{tokenVariable: true, "COPILOT_MODEL": true, "PWD": true, "OLDPWD": true, "SHLVL": true, "_": true} // the last ones are a shell's
	for _, kv := range agentconn.ChildEnv(nil) {
		name, _, _ := strings.Cut(kv, "=")
		allowed[name] = true
	}
	for line := range strings.Lines(string(b)) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(value, "=")
		switch {
		case what == "env" && !allowed[name]:
			t.Errorf("it gets %s", name)
		case what == "fd" && value != os.DevNull && !strings.HasPrefix(value, "pipe:"):
			t.Errorf("%s is open there:\n%s", value, b)
		}
	}
	for _, want := range []string{"env COPILOT_MODEL=pass this\n", "env " + tokenVariable + "=", "env PATH=", "fd pipe:"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("it lacks %q:\n%s", want, fmt.Sprintf("%.2000s", b))
		}
	}
}
