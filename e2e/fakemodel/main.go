// Command fakemodel is a model server on loopback that speaks the OpenAI
// Responses API as server-sent events, scripted by a word in the prompt. With it
// the real Codex runs without an account: for tests, and for a person who wants
// to try nod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// defaultDelay is the pause between two pieces of text: about a fast model.
const defaultDelay = 10 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fakemodel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	fl := flag.NewFlagSet("fakemodel", flag.ContinueOnError)
	fl.SetOutput(errOut)
	addr := fl.String("addr", "127.0.0.1:18765", "`address` to listen on; loopback only")
	home := fl.String("codex-home", "", "write a config.toml that uses this model into this `folder`, for CODEX_HOME")
	delay := fl.Duration("delay", defaultDelay, "pause between two pieces of text")
	verbose := fl.Bool("v", false, "log each request")
	fl.Usage = func() {
		_, _ = fmt.Fprintf(errOut, "fakemodel: a scripted model for Codex.\n\nFlags:\n")
		fl.PrintDefaults()
		_, _ = fmt.Fprintf(errOut, "\n%s", scriptList())
	}
	if err := fl.Parse(args); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(*addr)
	if err != nil {
		return fmt.Errorf("the address %q is not of the form host:port", *addr)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not loopback: this server answers anybody, so it stays on this machine; use 127.0.0.1", *addr)
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	base := "http://" + listener.Addr().String() + "/v1"
	_, _ = fmt.Fprintf(out, "fakemodel listening on %s\n\n", base)
	if *home != "" {
		if err := writeConfig(*home, codexConfig(base)); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "Start nod with CODEX_HOME=%s and write one of these into a prompt:\n\n", *home)
	} else {
		_, _ = fmt.Fprintf(out, "Put this into config.toml of an empty folder, start nod with CODEX_HOME set to\nthat folder, and write one of the scripts below into a prompt:\n\n%s\n", codexConfig(base))
	}
	_, _ = io.WriteString(out, scriptList())

	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	srv := &http.Server{Handler: newServer(*delay, log), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return srv.Close()
	}
}

// codexConfig is a Codex configuration that needs no account. The model is a
// name that Codex knows, so that it offers its whole set of tools.
func codexConfig(base string) string {
	return `model = "gpt-5.5"
model_provider = "fakemodel"
model_reasoning_summary = "detailed"
check_for_update_on_startup = false

[model_providers.fakemodel]
name = "fakemodel"
base_url = "` + base + `"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false

[tools.update_plan]
enabled = true

[analytics]
enabled = false
`
}

// writeConfig never replaces a configuration that somebody has written.
func writeConfig(folder, config string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file := filepath.Join(folder, "config.toml")
	switch old, err := os.ReadFile(file); {
	case errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(file, []byte(config), 0o600)
	case err != nil:
		return err
	case string(old) != config:
		return fmt.Errorf("%s is there already and says something else; name an empty folder", file)
	}
	return nil
}
