package copilot

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nod/agentconn"
	"nod/state"
	"nod/state/hub"
	"nod/state/journal"
)

func TestDev(t *testing.T) {
	if os.Getenv("DEV") == "" {
		t.Skip()
	}
	cmd := exec.Command("/tmp/cpcache/pkg/linux-x64/1.0.102/prebuilds/linux-x64/copilot-runtime", "--headless", "--no-auto-update", "--port", "0")
	cmd.Env = append(os.Environ(), "COPILOT_CONNECTION_TOKEN=tok", "COPILOT_HOME="+t.TempDir(), "COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:18999/v1", "COPILOT_MODEL=gpt-5.4", "COPILOT_OFFLINE=true")
	cmd.Stderr = os.Stderr
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	r := bufio.NewReader(out)
	port := ""
	for port == "" {
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		fmt.Print(l)
		if _, p, ok := strings.Cut(l, "on port "); ok {
			port = strings.TrimSpace(p)
		}
	}
	tok := filepath.Join(t.TempDir(), "tok")
	os.WriteFile(tok, []byte("tok"), 0o600)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	as, err := Adapters(Config{Servers: []Server{{Address: "127.0.0.1:" + port, TokenFile: tok}}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	m := agentconn.NewManager(h, as, log)
	h.SetUpstream(m, nil)
	m.Start()
	dir := t.TempDir()
	uri, err := m.CreateSession(t.Context(), state.NewSession{Provider: as[0].Provider(), Folder: dir})
	fmt.Println(uri, err)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(uri, "ahp-session:/")
	script := os.Getenv("DEV")
	if err := h.Send(t.Context(), id, state.UserMessage("SCRIPT:"+script+" please")); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		v, _ := h.Session(id)
		for _, a := range v.Approvals {
			if a.State == "pending" {
				fmt.Println("APPROVE", a.Request.Title, a.Request.Input, string(a.Request.Params))
				_, err := h.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: a.Request.Options[0].ID})
				fmt.Println(err)
			}
		}
		if v.State.ActiveTurn == nil && len(v.State.Turns) > 0 {
			break
		}
	}
	v, _ := h.Session(id)
	raw, _ := state.Marshal(v.State)
	fmt.Println(string(raw))
	for _, a := range v.Approvals {
		fmt.Println(a.State)
	}
	m.Close()
	h.Close(context.Background())
	store.Close()
}
