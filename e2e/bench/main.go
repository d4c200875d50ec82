// Command bench measures nod from outside, as browsers and agents meet it, and
// prints each figure beside its target. It builds nod, starts it with an agent
// at a set pace, and reads its pages with processes of their own and Chromium.
//
// The one binary plays three parts: the bench, the agent (when it is called
// codex), and a crowd of viewers (when its first argument is viewers), so that
// their CPU time is not nod's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// measures are what can be measured, in the order in which it is.
var measures = []struct {
	name string
	run  func(*bench) ([]row, error)
}{
	{"size", (*bench).size},
	{"open", (*bench).open},
	{"cold", (*bench).cold},
	{"replay", (*bench).replay},
	{"tab-5", func(b *bench) ([]row, error) { return b.tab(pace5) }},
	{"tab-50", func(b *bench) ([]row, error) { return b.tab(pace50) }},
	{"tab-50-crowd", func(b *bench) ([]row, error) { return b.tab(pace50Crowd) }},
	{"copilot-tab", (*bench).copilotTab},
	{"copilot-50", (*bench).copilotSessions},
	{"viewers-100", func(b *bench) ([]row, error) { return b.viewers(100, false) }},
	{"viewers-1000", func(b *bench) ([]row, error) { return b.viewers(1000, false) }},
	{"guests-1000", func(b *bench) ([]row, error) { return b.viewers(1000, true) }},
	{"viewers-5000", func(b *bench) ([]row, error) { return b.viewers(5000, false) }},
	{"stalled", (*bench).stalled},
	{"wire", (*bench).wire},
}

// bench is one run.
type bench struct {
	ctx    context.Context
	quick  bool
	dir    string // for everything that is gone afterwards
	binary string // nod
	agents string // a folder with our codex in it, for PATH
	self   string // this program
}

func main() {
	var err error
	switch {
	case filepath.Base(os.Args[0]) == "codex":
		err = runAgent(os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == "viewers":
		err = runViewers(os.Stdin, os.Stdout)
	default:
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("run", "", "measure only what matches this `regexp`")
	quick := flag.Bool("quick", false, "a tenth of most times; the figures are rough")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "nod-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{ctx: ctx, quick: *quick, dir: dir, binary: "tmp/nod", agents: filepath.Join(dir, "agents")}
	if err := b.prepare(); err != nil {
		return err
	}
	var rows []row
	for _, m := range measures {
		if !wanted.MatchString(m.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", m.name)
		got, err := m.run(b)
		rows = append(rows, got...)
		if err != nil {
			rows = append(rows, row{Name: m.name, Error: err.Error()})
		}
	}
	printTable(os.Stdout, rows)
	return errors.Join(writeJSON("bench.json", *quick, rows), ctx.Err())
}

// prepare builds nod and puts the agent where nod finds it.
func (b *bench) prepare() (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.binary, err = filepath.Abs(b.binary); err != nil {
		return err
	}
	if err := b.build(b.binary); err != nil {
		return err
	}
	if err := os.Mkdir(b.agents, 0o755); err != nil {
		return err
	}
	return os.Symlink(b.self, filepath.Join(b.agents, "codex"))
}

func (b *bench) build(target string, flags ...string) error {
	args := append([]string{"build", "-o", target}, flags...)
	if out, err := exec.CommandContext(b.ctx, "go", append(args, "nod/cmd/web")...).CombinedOutput(); err != nil {
		return fmt.Errorf("nod does not build: %w\n%s", err, out)
	}
	return nil
}

// shorter is a tenth of n in a quick run.
func (b *bench) shorter(n int) int {
	if b.quick {
		return n / 10
	}
	return n
}

// pause waits, less long if the bench is interrupted.
func (b *bench) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-b.ctx.Done():
	}
}
