// Package copilot links nod to the GitHub Copilot CLI through its official SDK
// (protocol 3; tested with CLI 1.0.102 and SDK 1.0.14).
//
// There may be several servers, each an adapter of its own: nod's own, which a
// keeper holds (package keep), those that the owner has configured, and terminals
// that were started with --ui-server. What plain terminals do is read from disk.
// places.go and disk.go know them.
//
// The SDK makes the calls. What a server says by itself comes in beside it, as it
// came, through tap.go: an event goes to session.go, which keeps what is known of a
// session, and through the table in events.go to what makes AHP actions of it
// (turns.go, texts.go, calls.go, agents.go, facts.go, news.go) or a request that waits
// for a person (requests.go, with permissions.go and questions.go). attach.go joins
// sessions and brings nod's up to what happened while it did not listen, from the
// session's own log; because events have ids, the same handlers read a log, a live
// stream and a file on disk.
package copilot

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"

	sdk "github.com/github/copilot-sdk/go"

	"nod/state"
)

// Provider is the key of the sessions of this machine's Copilot.
const Provider = "copilot"

const displayName = "Copilot"

// Config is what the owner has set.
type Config struct {
	Command string   // program to look up; "copilot" unless configured
	Env     []string // names of further variables to pass on to nod's own server
	Servers []Server // further servers
	Data    string   // nod's data folder; what belongs to its own server has a folder there
	Log     *slog.Logger

	held *held // of all adapters that are made of it
}

// Server is a Copilot server that somebody else runs.
type Server struct {
	Address   string `toml:"address"`    // host:port
	TokenFile string `toml:"token_file"` // holds the connection token; "": a terminal started with --ui-server, which takes none
}

// home is Copilot's own folder.
func home() string {
	if dir := os.Getenv("COPILOT_HOME"); dir != "" {
		return dir
	}
	dir, _ := os.UserHomeDir() // without one there is no Copilot either
	return filepath.Join(dir, ".copilot")
}

// create is how a new session is opened: as one in a terminal would be, but so that
// everything is asked.
func (cfg Config) create(n state.NewSession) *sdk.SessionConfig {
	provider, model := byok()
	trust := trusted(n.Folder)
	return &sdk.SessionConfig{
		Provider: provider, ClientName: clientName, WorkingDirectory: n.Folder, Streaming: sdk.Bool(true), EnableConfigDiscovery: &trust, EnableFileHooks: &trust,
		Model: cmp.Or(n.Config[settingModel], model), ReasoningEffort: n.Config[settingEffort],
		OnPermissionRequest: nobody, OnUserInputRequest: noInput, OnElicitationRequest: noForm,
		OnExitPlanModeRequest: noPlan, OnAutoModeSwitchRequest: noSwitch,
	}
}

// clientName is nod's, by which Copilot remembers who has begun a session.
const clientName = "nod"

// join is how a session is joined that runs, or that is on disk. One of a terminal or of
// another client has what it needs.
func (cfg Config) join(others bool, folder string) *sdk.ResumeSessionConfig {
	out := &sdk.ResumeSessionConfig{
		ClientName: clientName, Streaming: sdk.Bool(true),
		OnPermissionRequest: nobody, OnUserInputRequest: noInput, OnElicitationRequest: noForm,
		OnExitPlanModeRequest: noPlan, OnAutoModeSwitchRequest: noSwitch,
	}
	if others {
		out.SuppressResumeEvent = true
		return out
	}
	trust := trusted(folder)
	out.EnableConfigDiscovery, out.EnableFileHooks = &trust, &trust
	out.Provider, _ = byok()
	return out
}
