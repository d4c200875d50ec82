// Command fakemodel is a model server on loopback that speaks the OpenAI
// Responses API and Chat Completions as server-sent events, scripted by a word in
// the prompt. With it the real Codex and the real Copilot run without an account:
// for tests, and for a person who wants to try nod.
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
	"slices"
	"strings"
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
	fl.SetOutput(out)
	addr := fl.String("addr", "127.0.0.1:18765", "`address` to listen on; loopback only, port 0 takes a free one")
	home := fl.String("codex-home", "", "write a config.toml that uses this model into this `folder`, for CODEX_HOME")
	mcp := fl.String("mcp", "", "with -codex-home: the `program` of an MCP server that Codex is to use as "+mcpServer)
	delay := fl.Duration("delay", defaultDelay, "pause between two pieces of text")
	requests := fl.String("requests", "", "append each request for an answer to this `file`, a line of JSON each; it holds what the agents' makers tell the model")
	verbose := fl.Bool("v", false, "log each request")
	fl.Usage = func() {} // only who asks for it gets it
	if err := fl.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = io.WriteString(out, "fakemodel is a scripted model for the real Codex and Copilot: no account, no network.\n\nFlags:\n")
			fl.PrintDefaults()
			_, _ = fmt.Fprintf(out, "\nScripts, each chosen by its word in a prompt:\n\n%s", scriptList())
		}
		return err
	}
	if fl.NArg() > 0 {
		return fmt.Errorf("%q is no flag; --help lists them", fl.Arg(0))
	}
	host, _, err := net.SplitHostPort(*addr)
	if err != nil {
		return fmt.Errorf("the address %q is not of the form host:port", *addr)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not the number of a loopback address: this server answers anybody, so it stays on this machine; use 127.0.0.1", *addr)
	}
	kept := io.Discard
	if *requests != "" {
		file, err := os.OpenFile(*requests, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		kept = file
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("%w; with -addr 127.0.0.1:0 it takes a free port", err)
	}
	base := "http://" + listener.Addr().String() + "/v1"
	folder := *home
	if folder != "" {
		// Before the first line: who waits for that line may start Codex at once.
		if folder, err = filepath.Abs(folder); err == nil {
			err = writeConfig(folder, codexConfig(base)+mcpConfig(*mcp))
		}
		if err != nil {
			_ = listener.Close() // nobody has connected yet
			return err
		}
	}
	_, _ = io.WriteString(out, welcome(base, folder))

	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	srv := &http.Server{Handler: newServer(*delay, log, kept), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// The streams end by themselves, since their contexts are done.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if srv.Shutdown(ending) != nil {
		return srv.Close()
	}
	return nil
}

// welcome is for a person who wants to try nod. Its first line is for programs:
// it names the port.
func welcome(base, folder string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "fakemodel listening on %s\n\n", base)
	if folder == "" {
		folder = "FOLDER"
		fmt.Fprintf(&b, "Put this into config.toml in an empty folder (-codex-home FOLDER does it for you):\n\n%s\n", codexConfig(base))
	}
	fmt.Fprintf(&b, "Leave this running. In another terminal, start nod with that Codex configuration:\n\n"+
		"  CODEX_HOME=%s make run\n\n"+
		"Then start a session with Codex and write one of these words into the prompt:\n\n%s", folder, scriptList())
	return b.String()
}

// codexConfig is a Codex configuration that needs no account. The model is a
// name that Codex knows, so that it offers its whole set of tools, and one that
// takes plain tool calls; the notice keeps the terminal from suggesting another.
func codexConfig(base string) string {
	return `model = "gpt-5.5"
model_provider = "fakemodel"
model_reasoning_summary = "detailed"
show_raw_agent_reasoning = true
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

[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
`
}

// mcpServer is the name that the scripts know for the server of e2e/fakemcp.
const mcpServer = "fakemcp"

// mcpConfig is what a Codex configuration says of an MCP server, if there is one.
func mcpConfig(program string) string {
	if program == "" {
		return ""
	}
	return fmt.Sprintf("\n[mcp_servers.%s]\ncommand = %q\n", mcpServer, program)
}

// writeConfig never replaces a configuration that somebody has written. One that
// says all this and more is good as it is: Codex adds lines of its own.
func writeConfig(folder, config string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	name := filepath.Join(folder, "config.toml")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !saysAll(string(old), config) {
			return fmt.Errorf("%s is there already and says something else; name an empty folder", name)
		}
		return nil
	} else if err != nil {
		return err
	}
	_, err = file.WriteString(config)
	return errors.Join(err, file.Close())
}

// saysAll reports whether the lines of want stand in have, in their order.
func saysAll(have, want string) bool {
	lines := strings.Split(have, "\n")
	for line := range strings.Lines(want) {
		i := slices.Index(lines, strings.TrimSuffix(line, "\n"))
		if i < 0 {
			return false
		}
		lines = lines[i+1:]
	}
	return true
}
