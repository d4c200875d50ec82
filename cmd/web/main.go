// Command nod lets a person watch coding agents in a browser and approve what
// they ask. This file only puts the rooms together: configuration, journal, hub,
// links to agents, web server.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"nod/agentconn"
	"nod/agentconn/codex"
	"nod/agentconn/copilot"
	"nod/agentconn/copilot/keep"
	"nod/agentconn/demo"
	"nod/handlers"
	"nod/handlers/auth"
	"nod/state"
	"nod/state/hub"
	"nod/state/journal"
)

// stopWithin bounds a graceful stop.
const stopWithin = 5 * time.Second

// memoryLimit is from where on nod collects garbage rather than grow, ten times what
// it needs with a day's sessions. GOMEMLIMIT sets another.
const memoryLimit = 512 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends nod at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "nod:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	if len(args) > 0 && args[0] == "keep" {
		return keep.Main(ctx, args[1:], newLog(os.Stderr, slog.LevelInfo))
	}
	command, argument, cfg, err := parse(args, errOut)
	if err != nil {
		return err
	}
	log := newLog(errOut, cfg.LogLevel)
	switch command {
	case "login-url":
		return loginURL(ctx, cfg, log, out)
	case "verify":
		return verify(ctx, cfg, log, out)
	case "backup":
		return backup(ctx, cfg, log, argument, out)
	case "restore":
		return restore(ctx, cfg, argument, out)
	case "export":
		return export(ctx, cfg, log, argument, out)
	case "import":
		return importFile(ctx, cfg, log, argument, out)
	case "audit":
		return writeAudit(ctx, cfg, log, out)
	case "audit check":
		return checkAudit(ctx, cfg, log, out)
	case "agents":
		return listAgents(ctx, owners(cfg, log), out)
	case "agents stop":
		return stopAgents(ctx, owners(cfg, log), out)
	}
	return serve(ctx, cfg, log, out)
}

// backup writes a copy of the journal, whether or not nod runs.
func backup(ctx context.Context, cfg config, log *slog.Logger, file string, out io.Writer) error {
	return withJournal(ctx, cfg, log, func(store journal.Store) error {
		if err := store.Backup(ctx, file); err != nil {
			return fmt.Errorf("no backup was made: %w", err)
		}
		_, err := fmt.Fprintln(out, "All sessions are in", file)
		return err
	})
}

// restore goes back to a backup. A running nod would write on into the old file.
func restore(ctx context.Context, cfg config, file string, out io.Writer) error {
	lock, err := openData(cfg.Data)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	aside, err := journal.Restore(ctx, cfg.Data, file)
	if err != nil {
		return err
	}
	if aside != "" {
		_, _ = fmt.Fprintln(out, "What was here before is in", aside+"; delete it when you are content.")
	}
	log := slog.New(slog.DiscardHandler)
	err = withJournal(ctx, cfg, log, func(store journal.Store) error {
		return errors.Join(auth.RevokeAll(ctx, store), store.EndShares(ctx, time.Now().UnixMilli()))
	})
	if err != nil {
		return fmt.Errorf("it is restored, but browsers and links of that time could come in with it: end them under Devices and Shared links: %w", err)
	}
	_, err = fmt.Fprintln(out, "Restored. Nothing that had been decided is sent again, no browser is logged in, and no link to a session works. Start nod to see the sessions.")
	return err
}

// export writes a session, whether or not nod runs.
func export(ctx context.Context, cfg config, log *slog.Logger, session string, out io.Writer) error {
	return withJournal(ctx, cfg, log, func(store journal.Store) error { return hub.Export(ctx, store, session, out) })
}

// importFile reads an export. A running nod would not see it, so there must be none.
func importFile(ctx context.Context, cfg config, log *slog.Logger, file string, out io.Writer) error {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("the file %s cannot be read: %w", file, err)
	}
	defer func() { _ = in.Close() }()
	lock, err := openData(cfg.Data)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return withJournal(ctx, cfg, log, func(store journal.Store) error {
		uris, err := hub.Import(ctx, store, in)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, "Imported", len(uris), "session(s). Start nod to see them.")
		return err
	})
}

// writeAudit prints the record of who did what, whether or not nod runs.
func writeAudit(ctx context.Context, cfg config, log *slog.Logger, out io.Writer) error {
	return withJournal(ctx, cfg, log, func(store journal.Store) error { return journal.WriteAudit(out, store.Audit(ctx, 0)) })
}

// checkAudit says whether it is as nod wrote it.
func checkAudit(ctx context.Context, cfg config, log *slog.Logger, out io.Writer) error {
	return withJournal(ctx, cfg, log, func(store journal.Store) error {
		n, err := store.VerifyAudit(ctx)
		if err != nil {
			return fmt.Errorf("%w (%d entries before that are good); who did it can write to %s", err, n, cfg.Data)
		}
		_, err = fmt.Fprintln(out, "All", n, "entries are as nod wrote them.")
		return err
	})
}

// withJournal opens the journal of the data folder for one command.
func withJournal(ctx context.Context, cfg config, log *slog.Logger, f func(journal.Store) error) (err error) {
	if err := checkData(cfg.Data, false); err != nil {
		return err
	}
	store, err := journal.Open(ctx, cfg.Data, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return f(store)
}

// loginURL prints a login link for the nod that uses the same data folder.
func loginURL(ctx context.Context, cfg config, log *slog.Logger, out io.Writer) error {
	if err := checkData(cfg.Data, false); err != nil {
		return err
	}
	address, err := runningAddress(cfg.Data)
	if err != nil {
		return err
	}
	return withJournal(ctx, cfg, log, func(store journal.Store) error {
		token, err := auth.MintLogin(ctx, store)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, address+"/login"+auth.LoginFragment(token))
		return err
	})
}

// verify prints a code for a nod that runs: who sees this terminal is its owner.
func verify(ctx context.Context, cfg config, log *slog.Logger, out io.Writer) error {
	if err := checkData(cfg.Data, false); err != nil {
		return err
	}
	if _, err := runningAddress(cfg.Data); err != nil {
		return err
	}
	return withJournal(ctx, cfg, log, func(store journal.Store) error {
		code, err := auth.MintCode(ctx, store)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "\n  %s\n\nType this where nod asks whether it is you. It works once, for five minutes.\n"+
			"Nothing but a page of nod that you have opened yourself should ask for it.\n", code)
		return err
	})
}

// owner has started servers that go on without nod.
type owner struct {
	name string
	own  func(context.Context) ([]agentconn.OwnServer, error)
	stop func(context.Context) (bool, error)
}

// owners are all who may have started one.
func owners(cfg config, log *slog.Logger) []owner {
	c := cfg.codex(log)
	out := []owner{{"Codex", c.Own, c.StopOwn}}
	for _, k := range keep.All(filepath.Join(cfg.Data, "copilot"), log) {
		out = append(out, owner{"Copilot", k.Own, k.Stop})
	}
	return out
}

const noAgents = "nod has started no agent that still runs."

// listAgents tells of the servers that nod has started and that go on without it.
func listAgents(ctx context.Context, owners []owner, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "AGENT\tVERSION\tPID\tRUNNING FOR\tMEMORY\tPROGRAM\n"
	var errs []error
	for _, o := range owners {
		servers, err := o.own(ctx)
		errs = append(errs, err)
		for _, s := range servers {
			_, _ = fmt.Fprintf(w, "%s%s\t%s\t%d\t%v\t%d MB\t%s\n", head, o.name, cmp.Or(s.Version, "does not say"), s.PID, time.Since(s.Since).Round(time.Second), s.Memory>>20, s.Program)
			head = ""
		}
	}
	err := errors.Join(errs...)
	if head != "" && err == nil {
		_, err = fmt.Fprintln(out, noAgents)
	}
	return errors.Join(err, w.Flush())
}

// stopAgents ends these servers, and with them whatever runs there.
func stopAgents(ctx context.Context, owners []owner, out io.Writer) error {
	var errs []error
	said := false
	for _, o := range owners {
		stopped, err := o.stop(ctx)
		errs = append(errs, err)
		if stopped {
			said = true
			_, _ = fmt.Fprintln(out, o.name+"'s server has ended. The next message in nod starts it again.")
		}
	}
	err := errors.Join(errs...)
	if !said && err == nil {
		_, err = fmt.Fprintln(out, noAgents)
	}
	return err
}

func serve(ctx context.Context, cfg config, log *slog.Logger, out io.Writer) (err error) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	lock, err := openData(cfg.Data)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if why := misplaced(cfg.Data); why != "" {
		log.Warn("the data folder is in a bad place: "+why, "folder", cfg.Data)
		_, _ = fmt.Fprintf(out, "The data folder %s is in a bad place: %s. Name another one with --data.\n", cfg.Data, why)
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program listens on %s already; end it, or name another address with --listen", cfg.Listen)
	} else if err != nil {
		return fmt.Errorf("nod cannot listen on %s: %w", cfg.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	var secure *tls.Config
	if cfg.TLSCert != "" {
		certificate, err := handlers.LoadCertificate(cfg.TLSCert, cfg.TLSKey, log)
		if err != nil {
			return err
		}
		secure = certificate.Config()
	}
	proxies, err := cfg.trustedProxies()
	if err != nil {
		return err
	}
	at := listener.Addr().(*net.TCPAddr)
	listeners := []net.Listener{listener}
	exposed := secure == nil && open(at.IP)
	if exposed && len(proxies) == 0 {
		return fmt.Errorf("nod does not listen on %s without TLS: whoever can reach this machine could read along, and what they read contains your login; "+
			"name the machine's own address in your network instead, to look on from there, or set tls_cert and tls_key, or a proxy in trusted_proxies; docs/phone.md tells more", cfg.Listen)
	}
	if secure == nil && !at.IP.IsLoopback() && !at.IP.IsUnspecified() {
		here, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", at.Port)) // from the other address one can only look on
		if err != nil {
			return fmt.Errorf("nod cannot listen on this machine's own address as well: %w", err)
		}
		defer func() { _ = here.Close() }()
		listeners = append(listeners, here)
	}
	if err := noteAddress(lock, cfg.address(at)); err != nil {
		return fmt.Errorf("the data folder %s cannot be written: %w", cfg.Data, err)
	}

	store, err := journal.Open(ctx, cfg.Data, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	h, err := hub.New(ctx, store, log)
	if err != nil {
		return fmt.Errorf("the sessions in %s cannot be read: %w", cfg.Data, err)
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	codexes, err := codex.Adapters(cfg.codex(log))
	if err != nil {
		return err
	}
	copilots, err := copilot.Adapters(cfg.copilot(log))
	if err != nil {
		return err
	}
	adapters, links := findAgents(slices.Concat(codexes, copilots)...)
	manager := agentconn.NewManager(h, adapters, log)
	h.SetUpstream(manager, links)
	manager.Start()

	server := handlers.New(handlers.Config{
		Hub: h, Agents: manager, Epoch: h.Epoch, Audit: store, Shares: store, Log: log, Redactor: cfg.redactor(),
		Auth: auth.New(auth.Config{Store: store, Port: at.Port, BasePath: cfg.BasePath, Secure: handlers.Secure, Private: handlers.Private, VerifyEvery: cfg.VerifyEvery}),
		Port: at.Port, PublicHosts: cfg.PublicHosts, BasePath: cfg.BasePath, StartFolder: startFolder(), TrustedProxies: proxies, Exposed: exposed, Limits: cfg.limits(),
		Own: []string{cfg.Data, cfg.file},
	})
	token, err := auth.MintLogin(ctx, store)
	if err != nil {
		return err
	}
	http := handlers.NewHTTPServer(server)
	http.TLSConfig = secure
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() {
			if secure != nil {
				failed <- http.ServeTLS(l, "", "")
			} else {
				failed <- http.Serve(l)
			}
		}()
	}
	if secure == nil && !at.IP.IsLoopback() {
		_, _ = fmt.Fprintln(out, "Without TLS nod can only be looked at over the network: whoever is in it could read along. docs/phone.md tells how to do more.")
	}
	_, _ = fmt.Fprintf(out, "nod is running. Open this link to log in (once, within ten minutes):\n\n  %s\n\n",
		cfg.address(at)+"/login"+auth.LoginFragment(token))

	select {
	case err = <-failed:
	case <-ctx.Done():
		log.Info("stopping")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	var stopping sync.WaitGroup
	stopping.Go(manager.Close)
	err = errors.Join(err, http.Shutdown(ctx))
	stopping.Wait()
	return err
}

// findAgents looks for what is installed or runs. What others start is kept in any
// case: it may come at any time. Where there is nothing, the demo agent shows what
// nod does.
func findAgents(known ...agentconn.Adapter) (found []agentconn.Adapter, links []state.Link) {
	at := time.Now().UnixMilli()
	here := false
	link := func(a agentconn.Adapter) {
		l := state.Link{Key: a.Key(), Provider: a.Provider(), DisplayName: a.DisplayName(), Status: state.LinkIdle, Since: at}
		_, l.Keeps = a.(agentconn.Controllable)
		var err error
		l.Description, err = a.Find()
		here = here || err == nil
		if err == nil || !a.Starts() {
			found = append(found, a)
		} else {
			l.Status, l.Detail = state.LinkMissing, agentconn.Sentence(err)
		}
		links = append(links, l)
	}
	for _, a := range known {
		link(a)
	}
	if !here {
		link(demo.New())
	}
	return found, links
}

// startFolder is where nod was started: most likely the project at hand.
func startFolder() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}
