package codex

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nod/agentconn"
)

// ownServerOf returns a configuration in which a shell script is Codex.
func ownServerOf(t *testing.T, script string) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod s-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "codex")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{Command: program, Data: filepath.Join(dir, "d"), Log: slog.New(slog.DiscardHandler)}
}

// TestServerOutOfReachIsEnded: nod's own server runs and its socket is gone, as when
// somebody cleans up. It is not forgotten when another one is started.
func TestServerOutOfReachIsEnded(t *testing.T) {
	cfg := ownServerOf(t, "exit\n")
	sleeper := exec.Command("sleep", "60")
	sleeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	pid := sleeper.Process.Pid
	run := agentconn.RunOf(pid)
	raw, err := json.Marshal(map[string]any{"pid": pid, "run": run, "group": pid, "program": cfg.Command})
	if err := errors.Join(err, os.MkdirAll(cfg.folder(), 0o700), os.WriteFile(filepath.Join(cfg.folder(), "app-server.json"), raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	if list, err := cfg.Own(t.Context()); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := cfg.startServer(t.Context(), cfg.Command); err == nil {
		t.Error("a program that does not listen was taken for a server")
	}
	if agentconn.RunOf(pid) == run {
		t.Error("it still runs, and “nod agents stop” will not know it")
	}
}

// TestLastWordsOfAServer that does not come up are told.
func TestLastWordsOfAServer(t *testing.T) {
	cfg := ownServerOf(t, "echo 'first words' >&2; echo 'no licence' >&2; exit 3\n")
	if err := cfg.startServer(t.Context(), cfg.Command); !strings.Contains(agentconn.Sentence(err), "“no licence”") {
		t.Errorf("got %v", err)
	}
}

// TestTalkativeServer: what a server says fills no disk, and does not stop it. It
// sees nothing of nod.
func TestTalkativeServer(t *testing.T) {
	cfg := ownServerOf(t, `env > "$0.env"; head -c 3000000 /dev/zero >&2 && touch "$0.said"; exec sleep 60`)
	t.Setenv("NOD_TEST_SECRET", "do not pass")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cfg.startServer(ctx, cfg.Command) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(cfg.Command + ".said"); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("it was stopped by what it says")
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("it was taken for a server that listens")
	}
	info, err := os.Stat(filepath.Join(cfg.folder(), "app-server.log"))
	if err != nil || info.Size() == 0 || info.Size() > 300_000 {
		t.Errorf("the log: %v, %v", info, err)
	}
	env, err := os.ReadFile(cfg.Command + ".env")
	if err != nil || !strings.Contains(string(env), "PATH=") || strings.Contains(string(env), "NOD_") {
		t.Errorf("it sees %s, %v", env, err)
	}
}
