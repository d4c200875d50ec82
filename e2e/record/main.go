// Command record writes down what a real agent says to a client, and the client
// to it: for each scenario a file of lines {"dir","t","msg"}. Of Codex, dir is in
// for what comes from it, and t counts milliseconds. Of Copilot, dir is s2c for
// what comes from it, t is the time, and conn tells clients of one server apart.
// The model is e2e/fakemodel. What names this machine is replaced, and what its
// maker tells the model is left out; the ids stay.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `usage: go run ./e2e/record codex|copilot SCENARIO

SCENARIO is one of these, or all.

codex:
%s
copilot:
%s`

// recorded is a scenario of either agent.
type recorded struct {
	name, file string
	record     func(ctx context.Context, work string) ([]byte, error)
}

// Where the tests of the adapters look for the recordings.
const (
	recordings        = "agentconn/codex/testdata/recordings"
	copilotRecordings = "agentconn/copilot/testdata/recordings"
)

func agents() map[string][]recorded {
	all := map[string][]recorded{}
	for _, s := range scenarios {
		all["codex"] = append(all["codex"], recorded{s.name, filepath.Join(recordings, s.name+".jsonl"), s.record})
	}
	for _, s := range copilotScenarios {
		all["copilot"] = append(all["copilot"], recorded{s.name, filepath.Join(copilotRecordings, s.name+".rpc.jsonl"), s.record})
	}
	return all
}

// Where npm puts the two versions of Codex. The older one has no wrapper, only
// the program for this machine.
const (
	newCodex = "e2e/node_modules/.bin/codex"
	oldCodex = "e2e/node_modules/codex-0.122/vendor/*/codex/codex"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	all := agents()
	flag.Usage = func() {
		names := func(agent string) string {
			var b strings.Builder
			for _, s := range all[agent] {
				fmt.Fprintln(&b, "  "+s.name)
			}
			return b.String()
		}
		fmt.Fprintf(os.Stderr, usage, names("codex"), names("copilot"))
	}
	flag.Parse()
	var chosen []recorded
	for _, s := range all[flag.Arg(0)] {
		if flag.Arg(1) == s.name || flag.Arg(1) == "all" {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 || flag.NArg() != 2 {
		flag.Usage()
		return errors.New("name an agent and a scenario of it")
	}
	work, err := os.MkdirTemp("", "record-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, name := range []string{"fakemodel", "fakemcp"} {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(work, name), "nod/e2e/"+name).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	var failed error
	for _, s := range chosen {
		lines, err := s.record(ctx, work)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(s.file, lines, 0o644); err != nil {
			return err
		}
		fmt.Printf("%-20s %7d bytes\n", s.name, len(lines))
	}
	return failed
}

// installed finds a program that npm has installed.
func installed(pattern string) (string, error) {
	found, _ := filepath.Glob(pattern) // the patterns are well formed
	if len(found) == 0 {
		return "", fmt.Errorf("there is no %s; run make tools, and record from the folder that holds the Makefile", pattern)
	}
	return filepath.Abs(found[0])
}

// model starts the scripted model and waits until it can be asked.
func model(ctx context.Context, work string, more ...string) (base string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(work, "fakemodel"), append([]string{"-addr", "127.0.0.1:0"}, more...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // says that it was killed
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("fakemodel says %q: %w", line, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "fakemodel listening on ")), stop, nil
}
