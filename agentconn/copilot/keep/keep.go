// Package keep is the process between nod and a Copilot server, which goes on when
// nod does not. Copilot's server stops a session's turn as soon as the last client
// leaves that holds the session; so a restart of nod would stop them all. The keeper
// is not restarted with nod, and leaves a session only when it is at rest.
//
// nod talks to the server through it as if it were not there: whole messages pass
// by unchanged. The keeper looks at them just enough to know which sessions are at
// work (work.go). There is no protocol of its own, so an older keeper serves a newer
// nod.
package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"nod/agentconn"
)

// Server says what a keeper keeps: a program that it starts, or a server that
// somebody else runs.
type Server struct {
	Program   string // an absolute path; it says on which port it listens
	Args      []string
	Address   string // host:port
	TokenFile string // of Address; "": none is asked for
}

// Keeper is the keeper of one server.
type Keeper struct {
	Folder string // its own
	Server Server
	Env    []string // the environment of keeper and program
	Log    *slog.Logger
}

const (
	keeperName  = "keep"
	programName = "copilot"
)

// keeper is the process of the keeper.
func (k Keeper) keeper() agentconn.Daemon {
	return agentconn.Daemon{Folder: k.Folder, Name: keeperName, Of: "Copilot", Log: k.Log}
}

// program is the process of the server that it has started.
func (k Keeper) program() agentconn.Daemon {
	return agentconn.Daemon{Folder: k.Folder, Name: programName, Of: "Copilot", Log: k.Log}
}

func (k Keeper) tokenFile() string { return filepath.Join(k.Folder, "token") }

// Running reports whether it listens.
func (k Keeper) Running() bool { return agentconn.Listening("unix", k.keeper().Socket()) }

// Start starts the keeper, and with it the program, and waits until it listens. What
// is left of one that was there before is ended.
func (k Keeper) Start(ctx context.Context) error {
	d := k.keeper()
	if !d.Fits() {
		return &agentconn.PublicError{Message: "The path of nod's data folder is too long for a socket in it, and nod reaches Copilot by one (" + d.Socket() + "). Name another folder with --data."}
	}
	self, err := os.Executable()
	if err != nil {
		return cannotStart(err)
	}
	if _, err := os.Stat(self); err != nil { // a newer nod has been put in its place
		self = fmt.Sprintf("/proc/%d/exe", os.Getpid())
	}
	if _, err := k.Stop(ctx); err != nil {
		k.Log.Warn("whether an older server runs is not known", "err", err)
	}
	args := []string{"keep", k.Folder, ofAddress, k.Server.Address}
	if k.Server.Program != "" {
		args = append([]string{"keep", k.Folder, ofProgram, k.Server.Program}, k.Server.Args...)
	}
	err = d.Start(ctx, k.Env, self, args...)
	var silent *agentconn.Silent
	var public *agentconn.PublicError
	switch {
	case err == nil, errors.As(err, &public):
		return err
	case !errors.As(err, &silent):
		return cannotStart(err)
	}
	_, stopped := k.program().Stop(context.WithoutCancel(ctx)) // a keeper that had to be killed has left it behind
	sentence := "Copilot did not come up as nod expects it."
	if silent.LastWords != "" {
		sentence += " Its last words: “" + silent.LastWords + "”."
	}
	if k.Server.Program != "" {
		sentence += " Run “" + strings.Join(append([]string{k.Server.Program}, k.Server.Args...), " ") + "” in a terminal to see what it says."
	}
	return &agentconn.PublicError{Message: sentence, Err: errors.Join(err, stopped)}
}

func cannotStart(err error) error {
	return &agentconn.PublicError{Message: "nod cannot start the process that holds its links to Copilot. Its log says why.", Err: err}
}

// Dial returns a connection to the server, through the keeper.
func (k Keeper) Dial(ctx context.Context) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", k.keeper().Socket())
	if err != nil {
		return nil, &agentconn.PublicError{Message: "Copilot cannot be reached. nod tries again by itself.", Err: err}
	}
	if _, err := agentconn.Peer(c.(*net.UnixConn), k.keeper().Socket()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Token returns the token that the server asks for; "" for none.
func (k Keeper) Token() (string, error) {
	switch {
	case k.Server.Program != "":
		return agentconn.ReadToken("Copilot", k.tokenFile())
	case k.Server.TokenFile != "":
		return agentconn.ReadToken("Copilot at "+k.Server.Address, k.Server.TokenFile)
	}
	return "", nil
}

// Epoch names the run of the program, or of the keeper where somebody else runs the
// server; "" if it does not run.
func (k Keeper) Epoch() string {
	run := k.keeper().Run()
	if k.Server.Program != "" {
		run = k.program().Run()
	}
	if run == "" {
		return ""
	}
	return agentconn.EpochOf(run)
}

// All returns the keepers that have been started with folders in that one, as far
// as Own and Stop need them.
func All(folder string, log *slog.Logger) (out []Keeper) {
	folders, _ := os.ReadDir(folder) // without one nothing has been started
	for _, f := range folders {
		out = append(out, Keeper{Folder: filepath.Join(folder, f.Name()), Log: log})
	}
	return out
}

// Own returns what runs of it: the server's program, or the keeper where there is
// none.
func (k Keeper) Own(context.Context) ([]agentconn.OwnServer, error) {
	keeper, kept, err := k.keeper().Running()
	server, runs, err2 := k.program().Running()
	switch {
	case runs:
		server.Memory = max(server.Memory, keeper.Memory) // the keeper's with its child's
		return []agentconn.OwnServer{server}, errors.Join(err, err2)
	case kept:
		return []agentconn.OwnServer{keeper}, errors.Join(err, err2)
	}
	return nil, errors.Join(err, err2)
}

// Stop ends keeper and program, politely and then not. It reports whether one of
// them ran. What runs on the server ends with it.
func (k Keeper) Stop(ctx context.Context) (bool, error) {
	kept, err := k.keeper().Stop(ctx)
	runs, err2 := k.program().Stop(ctx)
	if err = errors.Join(err, err2); err != nil {
		return kept || runs, fmt.Errorf("what runs of Copilot in %s is not known: %w", k.Folder, err)
	}
	return kept || runs, nil
}
