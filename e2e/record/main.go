// Command record writes down what the real Codex says to a client, and the
// client to it: for each scenario a file of lines {"dir","t","msg"}, where dir
// is in for what comes from Codex and t counts milliseconds. The model is
// e2e/fakemodel. What names this machine is replaced, and what its maker tells
// the model is left out; the ids stay.
package main

import (
	"bufio"
	"cmp"
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

const usage = `usage: go run ./e2e/record [-codex PROGRAM] codex SCENARIO [OUTFILE]

SCENARIO is one of these, or all; without OUTFILE it is written into %s.

%s`

// recordings is where the tests of the adapter look for them.
const recordings = "agentconn/codex/testdata/recordings"

// Where npm puts the two versions. The older one has no wrapper, only the
// program for this machine.
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
	program := flag.String("codex", "", "another Codex than the one that npm has installed")
	flag.Usage = func() {
		var names strings.Builder
		for _, s := range scenarios {
			fmt.Fprintln(&names, "  "+s.name)
		}
		fmt.Fprintf(os.Stderr, usage, recordings, names.String())
	}
	flag.Parse()
	if flag.NArg() < 2 || flag.NArg() > 3 || flag.Arg(0) != "codex" {
		flag.Usage()
		return errors.New("name the agent, codex, and a scenario")
	}
	var chosen []scenario
	for _, s := range scenarios {
		if flag.Arg(1) == s.name || flag.Arg(1) == "all" {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 || len(chosen) > 1 && flag.NArg() == 3 {
		flag.Usage()
		return fmt.Errorf("%s is no scenario that goes into one file", flag.Arg(1))
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
		codex := *program
		if codex == "" {
			if codex, err = installed(s.old); err != nil {
				return err
			}
		}
		lines, err := s.record(ctx, codex, work)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		if err := os.WriteFile(cmp.Or(flag.Arg(2), filepath.Join(recordings, s.name+".jsonl")), lines, 0o644); err != nil {
			return err
		}
		fmt.Printf("%-20s %7d bytes\n", s.name, len(lines))
	}
	return failed
}

func installed(old bool) (string, error) {
	pattern := newCodex
	if old {
		pattern = oldCodex
	}
	found, _ := filepath.Glob(pattern) // the patterns are well formed
	if len(found) == 0 {
		return "", fmt.Errorf("there is no %s; run make tools, and record from the folder that holds the Makefile", pattern)
	}
	return filepath.Abs(found[0])
}

// model starts the scripted model, which writes a configuration for Codex into
// home, and waits until both are there.
func model(ctx context.Context, work, home string) (stop func(), err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(work, "fakemodel"), "-addr", "127.0.0.1:0", "-codex-home", home, "-mcp", filepath.Join(work, "fakemcp"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // says that it was killed
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
		return nil, fmt.Errorf("fakemodel says %q: %w", line, err)
	}
	return stop, nil
}
