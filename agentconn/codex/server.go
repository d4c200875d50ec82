package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"nod/agentconn"
)

const (
	// helpTimeout bounds the question what a version can do: npm's wrapper takes
	// 0.4 s, a cold disk some seconds.
	helpTimeout = 10 * time.Second
	// listenTimeout bounds how long the server may take until it listens. It ends
	// before the manager loses patience, and knows more.
	listenTimeout = 15 * time.Second
	// endTimeout is what a server gets between being asked to end and being killed:
	// Codex takes some seconds.
	endTimeout = 5 * time.Second
	// lastWordsWithin is how soon what a server has said on its way out is on disk.
	lastWordsWithin = time.Second
	// maxSocketName is what fits into a socket's address everywhere.
	maxSocketName = 100
)

// folder holds what belongs to nod's own server.
func (cfg Config) folder() string { return filepath.Join(cfg.Data, "codex") }

func (cfg Config) socket() string { return filepath.Join(cfg.folder(), "app-server.sock") }

func (cfg Config) record() string { return filepath.Join(cfg.folder(), "app-server.json") }

func (cfg Config) errors() string { return filepath.Join(cfg.folder(), "app-server.log") }

// canListen reports whether this version of Codex listens on a socket.
func (cfg Config) canListen(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, helpTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "app-server", "--help")
	cmd.Env = cfg.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &head{most: 64 << 10, full: cancel}
	cmd.Stdout = out
	_ = cmd.Run() // a program that fails at this has not said that it can
	return bytes.Contains(out.Bytes(), []byte("unix://"))
}

// head keeps the begin of what a program says, and ends one that says too much.
type head struct {
	bytes.Buffer
	most int
	full func()
}

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	if room := h.most - h.Len(); len(p) > room {
		h.full()
		h.Buffer.Write(p[:max(0, room)])
		return len(p), nil
	}
	return h.Buffer.Write(p)
}

func (cfg Config) environ() []string {
	return agentconn.ChildEnv(append([]string{"CODEX_HOME"}, cfg.Env...))
}

// record is what nod remembers of a server that it has started.
type record struct {
	PID     int    `json:"pid"`     // of the program
	Run     string `json:"run"`     // names the process for good: see runOf
	Group   int    `json:"group"`   // of its process group
	Started int64  `json:"started"` // Unix milliseconds
	Program string `json:"program"`
}

// detach has a shell start the program in a session of its own and go away, so
// that the program is nobody's child: nod's end does not reach it, and its end
// leaves no zombie here. It prints the program's process id. What the program says
// comes in at 3: the begin of it goes to the file that is named first, the rest is
// read and forgotten, so that no disk is filled and no write fails. The reader ends
// with the program, so not when both are asked to end.
const detach = `{ trap "" TERM; dd bs=4096 count=64 of="$1"; cat; } <&3 >/dev/null 2>&1 &
shift
"$@" </dev/null >/dev/null 3<&- & echo $!`

// startServer starts nod's own server and waits until it listens. One that runs and
// cannot be reached is ended first: nobody would know of it any more.
func (cfg Config) startServer(ctx context.Context, path string) error {
	if ended, err := cfg.StopOwn(ctx); err != nil {
		cfg.Log.Warn("whether an older server runs is not known", "err", err)
	} else if ended {
		cfg.Log.Warn("a server that could not be reached was ended", "socket", cfg.socket())
	}
	if err := os.MkdirAll(cfg.folder(), 0o700); err != nil {
		return &agentconn.PublicError{Message: "nod cannot make a folder for Codex in its data folder.", Err: err}
	}
	if err := os.WriteFile(cfg.errors(), nil, 0o600); err != nil {
		return &agentconn.PublicError{Message: "nod cannot write to its data folder, so it does not start Codex.", Err: err}
	}
	_ = os.Remove(cfg.socket()) // of a server that has ended
	says, said, err := os.Pipe()
	if err != nil {
		return cannotStart(err)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", detach, "sh", cfg.errors(), path, "app-server", "--listen", "unix://"+cfg.socket())
	cmd.Env = cfg.environ()
	cmd.Dir = "/"
	cmd.Stderr, cmd.ExtraFiles = said, []*os.File{says}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	_, _ = says.Close(), said.Close() // the others have theirs
	if err != nil {
		return cannotStart(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return cannotStart(err)
	}
	r := record{PID: pid, Run: runOf(pid), Group: cmd.Process.Pid, Started: time.Now().UnixMilli(), Program: path}
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(cfg.record(), raw, 0o600)
	}
	if err != nil {
		r.kill(syscall.SIGKILL)
		return &agentconn.PublicError{Message: "nod cannot write to its data folder, so it does not start Codex.", Err: err}
	}
	cfg.Log.Info("started", "program", path, "pid", pid, "group", r.Group, "socket", cfg.socket())
	return cfg.untilListening(ctx, r)
}

func (cfg Config) untilListening(ctx context.Context, r record) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !listening("unix", cfg.socket()) {
		alive := r.alive()
		select {
		case <-look.C:
			if alive {
				continue
			}
		case <-ctx.Done():
		}
		said := cfg.lastWords(look.C)
		r.kill(syscall.SIGKILL)
		return whyLost(errors.New("codex: the server does not listen"), nil, "", said)
	}
	return nil
}

// lastWords is the last line that a server has said, which may be on its way to the
// file still; "" for none.
func (cfg Config) lastWords(look <-chan time.Time) string {
	for patience := time.After(lastWordsWithin); ; {
		said, _ := os.ReadFile(cfg.errors())
		if words := lastLine(said); words != "" {
			return words
		}
		select {
		case <-look:
		case <-patience:
			return ""
		}
	}
}

func lastLine(b []byte) string {
	b = bytes.TrimSpace(b)
	return string(bytes.TrimSpace(b[bytes.LastIndexByte(b, '\n')+1:]))
}

// alive reports whether the program runs. Another one may have its id by now.
func (r record) alive() bool { return r.Run != "" && runOf(r.PID) == r.Run }

func (r record) kill(s syscall.Signal) { _ = syscall.Kill(-r.Group, s) } // of a group that is gone nothing is left

// OwnServer is a server that nod has started and that goes on without it.
type OwnServer struct {
	PID     int
	Program string
	Version string // "" if it does not say
	Since   time.Time
	Memory  uint64 // of it and its children, bytes
}

// ownServer returns nod's own server and what nod remembers of it, if it runs.
func (cfg Config) ownServer(ctx context.Context) (OwnServer, record, bool, error) {
	var r record
	raw, err := os.ReadFile(cfg.record())
	if errors.Is(err, fs.ErrNotExist) {
		return OwnServer{}, r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return OwnServer{}, r, false, fmt.Errorf("what nod remembers of its Codex server cannot be read: %w", err)
	}
	if !r.alive() {
		return OwnServer{}, r, false, nil
	}
	s := OwnServer{PID: r.PID, Program: r.Program, Since: time.UnixMilli(r.Started)}
	if p, err := process.NewProcess(int32(r.PID)); err == nil {
		s.Memory = memory(p)
	}
	if d, err := dialUnix(ctx, cfg.socket()); err == nil {
		s.Version, _ = askVersion(ctx, d) // "" where it does not answer
		_, _ = d.end()
	}
	return s, r, true, nil
}

// memory returns what a process and its children hold.
func memory(p *process.Process) (sum uint64) {
	if m, err := p.MemoryInfo(); err == nil {
		sum = m.RSS
	}
	children, _ := p.Children() // none
	for _, c := range children {
		sum += memory(c)
	}
	return sum
}

// Own returns nod's own servers that run.
func (cfg Config) Own(ctx context.Context) ([]OwnServer, error) {
	s, _, runs, err := cfg.ownServer(ctx)
	if !runs {
		return nil, err
	}
	return []OwnServer{s}, nil
}

// StopOwn ends nod's own server, politely and then not. It reports whether there
// was one. What runs on it ends with it.
func (cfg Config) StopOwn(ctx context.Context) (bool, error) {
	_, r, runs, err := cfg.ownServer(ctx)
	if !runs {
		return false, err
	}
	r.kill(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if !r.alive() {
			break
		}
		select {
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	r.kill(syscall.SIGKILL)
	return true, errors.Join(ignoreMissing(os.Remove(cfg.socket())), ignoreMissing(os.Remove(cfg.record())))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
