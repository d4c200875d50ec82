package codex

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"nod/agentconn"
)

// helpTimeout bounds the question what a version can do: npm's wrapper takes 0.4 s,
// a cold disk some seconds.
const helpTimeout = 10 * time.Second

// folder holds what belongs to nod's own server.
func (cfg Config) folder() string { return filepath.Join(cfg.Data, "codex") }

func (cfg Config) socket() string { return cfg.server().Socket() }

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

// server is nod's own server.
func (cfg Config) server() agentconn.Daemon {
	return agentconn.Daemon{Folder: cfg.folder(), Name: "app-server", Of: displayName, Log: cfg.Log}
}

// startServer starts nod's own server and waits until it listens.
func (cfg Config) startServer(ctx context.Context, path string) error {
	d := cfg.server()
	err := d.Start(ctx, cfg.environ(), path, "app-server", "--listen", "unix://"+d.Socket())
	var silent *agentconn.Silent
	var public *agentconn.PublicError
	switch {
	case errors.As(err, &silent):
		return whyLost(err, nil, "", silent.LastWords)
	case err == nil, errors.As(err, &public):
		return err
	}
	return cannotStart(err)
}

// Own returns nod's own servers that run.
func (cfg Config) Own(ctx context.Context) ([]agentconn.OwnServer, error) {
	s, runs, err := cfg.server().Running()
	if !runs {
		return nil, err
	}
	if d, err := dialUnix(ctx, cfg.socket()); err == nil {
		s.Version, _ = askVersion(ctx, d) // "" where it does not answer
		_, _ = d.end()
	}
	return []agentconn.OwnServer{s}, nil
}

// StopOwn ends nod's own server. It reports whether there was one. What runs on it
// ends with it.
func (cfg Config) StopOwn(ctx context.Context) (bool, error) { return cfg.server().Stop(ctx) }
