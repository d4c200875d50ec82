package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"nod/agentconn/codex"
	"nod/agentconn/copilot"
	"nod/handlers"
	"nod/handlers/auth"
	"nod/state/redact"
)

// config is what the owner may set. A flag goes before the file, the file before
// the default.
type config struct {
	Listen      string     `toml:"listen"`
	Data        string     `toml:"data"`
	LogLevel    slog.Level `toml:"log_level"`
	PublicHosts []string   `toml:"public_hosts"`

	VerifyEvery time.Duration `toml:"verify_every"`
	BasePath    string        `toml:"base_path"`
	MaxStreams  int           `toml:"max_streams"`
	Sharing     bool          `toml:"sharing"`
	MaxGuests   int           `toml:"max_guests"`
	MaxNear     int           `toml:"max_guests_per_address"`
	TLSCert     string        `toml:"tls_cert"`
	TLSKey      string        `toml:"tls_key"`
	Proxies     []string      `toml:"trusted_proxies"`
	file        string        // the configuration file, whether or not there is one
	Codex       struct {
		Command string         `toml:"command"`
		Env     []string       `toml:"env"`
		Servers []codex.Server `toml:"servers"`
	} `toml:"codex"`
	Copilot struct {
		Command string           `toml:"command"`
		Env     []string         `toml:"env"`
		Servers []copilot.Server `toml:"servers"`
	} `toml:"copilot"`
}

// codex returns what the room that knows Codex needs.
func (c config) codex(log *slog.Logger) codex.Config {
	return codex.Config{Command: c.Codex.Command, Env: c.Codex.Env, Servers: c.Codex.Servers, Data: c.Data, Log: log}
}

// copilot returns what the room that knows Copilot needs.
func (c config) copilot(log *slog.Logger) copilot.Config {
	return copilot.Config{Command: c.Copilot.Command, Env: c.Copilot.Env, Servers: c.Copilot.Servers, Data: c.Data, Log: log}
}

// limits returns how much nod takes.
func (c config) limits() handlers.Limits {
	l := handlers.DefaultLimits
	l.Streams, l.Guests, l.Neighbours = c.MaxStreams, c.MaxGuests, c.MaxNear
	return l
}

// redactor returns what finds the secrets of whoever runs nod; nil if nothing may be
// shared.
func (c config) redactor() *redact.Redactor {
	if !c.Sharing {
		return nil
	}
	o := redact.Owner{Environment: os.Environ()}
	o.Home, _ = os.UserHomeDir() // what is not known cannot be looked for
	if u, err := user.Current(); err == nil {
		o.User = u.Username
	}
	if name, err := os.Hostname(); err == nil {
		o.Hosts = append(o.Hosts, name)
	}
	for _, s := range c.Codex.Servers {
		if u, err := url.Parse(s.URL); err == nil {
			o.Hosts = append(o.Hosts, u.Hostname())
		}
	}
	for _, s := range c.Copilot.Servers {
		if host, _, err := net.SplitHostPort(s.Address); err == nil {
			o.Hosts = append(o.Hosts, host)
		}
	}
	o.Hosts = slices.DeleteFunc(o.Hosts, func(h string) bool { return net.ParseIP(h) != nil }) // addresses are found without
	return redact.New(o)
}

// trustedProxies returns the networks of trusted_proxies. The error is a sentence.
func (c config) trustedProxies() (out []netip.Prefix, err error) {
	for _, text := range c.Proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil {
				p, err = a.Prefix(a.BitLen())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("trusted_proxies has “%s”, which is no address and no network; write it like 127.0.0.1 or 10.0.0.0/29", text)
		}
		if p.Bits() == 0 {
			return nil, fmt.Errorf("trusted_proxies has “%s”: that is everybody, and everybody could claim to come over TLS; name the proxy alone", text)
		}
		out = append(out, p)
	}
	return out, nil
}

// address is where a browser finds nod that listens at an address, as well as nod can
// tell.
func (c config) address(at *net.TCPAddr) string {
	scheme, host := "http", at.String()
	if at.IP.IsUnspecified() || c.TLSCert == "" && !at.IP.IsLoopback() { // see serve
		host = fmt.Sprint("127.0.0.1:", at.Port)
	}
	if c.TLSCert != "" {
		scheme = "https"
		if len(c.PublicHosts) > 0 { // a certificate is for a name
			host = c.PublicHosts[0]
		}
	}
	return scheme + "://" + host + c.BasePath
}

// open reports whether anybody may come to an address: it stands for all that the
// machine has, or the internet leads to it.
func open(ip net.IP) bool {
	a, _ := netip.AddrFromSlice(ip)
	a = a.Unmap()
	return !a.IsLoopback() && !a.IsPrivate() && !a.IsLinkLocalUnicast() && !slices.ContainsFunc(inward, func(p netip.Prefix) bool { return p.Contains(a) })
}

// inward are further networks that the internet does not lead to: what providers and
// Tailscale give out on their own side, and what is for tests and examples.
var inward = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
}

// defaultListen is loopback: nothing beyond this machine can reach it.
const defaultListen = "127.0.0.1:8787"

// commands are what nod does, and what each needs to be told.
var commands = map[string]string{
	"":          "",
	"login-url": "",
	"verify":    "",
	"backup":    "a file to write, which is not there yet",
	"restore":   "a file that nod backup has written",
	"export":    "a session; the address of its page ends with its id",
	"import":    "a file that nod export has written",

	"audit":       "",
	"audit check": "",
	"agents":      "",
	"agents stop": "",
}

const usage = `nod: watch your coding agents in a browser and approve what they ask.

Usage:
  nod [flags]            start, and print a link to log in with
  nod login-url [flags]  print another login link for a nod that runs
  nod verify [flags]     print a code that shows a page of nod that it is you
  nod backup FILE [flags]
                         copy all of it into a file, also while nod runs
  nod restore FILE [flags]
                         go back to such a copy; nod must be stopped
  nod export SESSION [flags]
                         write a session to standard output as JSON lines
  nod import FILE [flags]
                         read such a session into a nod that is stopped
  nod audit [flags]      print who did what, and what was approved, as JSON lines
  nod audit check [flags]
                         tell whether that is as nod wrote it
  nod agents [flags]     list the agents that nod has started and that go on
                         when it is stopped
  nod agents stop [flags]
                         end them, and whatever they are doing
  nod keep               not for people: nod itself starts it, so that Copilot
                         goes on when nod is stopped

Flags:
`

const usageEnd = `
A flag goes before the configuration file, the file before the default. The file
is TOML and may set:

  listen = "127.0.0.1:8787"      # without TLS another address must be one of your own
                                 # network, and can only be looked at
  tls_cert = ""                  # file of a certificate of your own, and its chain
  tls_key = ""                   # file of its key
  data = "/home/me/.local/share/nod"
  log_level = "info"             # debug, info, warn, error
  public_hosts = []              # further names of nod, as an address bar shows them:
                                 # "nod.example", or "nod.example:8443"
  trusted_proxies = []           # addresses of proxies of yours, such as "127.0.0.1"
                                 # or "10.0.0.0/29": their X-Forwarded-For and
                                 # X-Forwarded-Proto are believed
  base_path = ""                 # "/nod" behind a proxy that serves it there
  verify_every = "12h"           # how often one shows that it is oneself, at most half a day; what
                                 # is risky asks each time
  max_streams = 200              # live pages at once, of all browsers
  sharing = true                 # false: no session can be shared, and no link works
  max_guests = 50                # live pages at once of those who have one link
  max_guests_per_address = 5     # of these, from one address

  [codex]
  command = "codex"              # program to start, looked up on PATH
  env = ["OPENAI_API_KEY"]       # further variables that Codex may see

  [[codex.servers]]              # an app-server that you run yourself
  url = "ws://127.0.0.1:4500"    # or unix:///PATH, or wss://HOST
  token_file = "/home/me/.codex-token"

  [copilot]
  command = "copilot"            # program to start, looked up on PATH
  env = []                       # further variables that Copilot may see

  [[copilot.servers]]            # a server that you run yourself: copilot --headless --port 4321
  address = "127.0.0.1:4321"     # without token_file: a terminal, copilot --ui-server --port 4321
  token_file = "/home/me/.copilot-token"
`

// parse reads flags and file. It writes help to out and returns flag.ErrHelp for
// it; any other error is a sentence.
func parse(args []string, out io.Writer) (command, argument string, cfg config, err error) {
	cfg = config{
		Listen: defaultListen, MaxStreams: handlers.DefaultLimits.Streams, Sharing: true, MaxGuests: handlers.DefaultLimits.Guests, MaxNear: handlers.DefaultLimits.Neighbours, VerifyEvery: auth.MaxVerify,
		Data: filepath.Join(xdg("XDG_DATA_HOME", ".local/share"), "nod"),
	}
	cfg.Codex.Command, cfg.Copilot.Command = "codex", "copilot"
	file := filepath.Join(xdg("XDG_CONFIG_HOME", ".config"), "nod", "config.toml")

	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
		if len(args) > 0 {
			if _, two := commands[command+" "+args[0]]; two {
				command, args = command+" "+args[0], args[1:]
			}
		}
	}
	what, known := commands[command]
	if !known {
		return "", "", cfg, fmt.Errorf("nod has no command “%s”; nod --help lists them", command)
	}
	if what != "" {
		if len(args) == 0 || strings.HasPrefix(args[0], "-") {
			return "", "", cfg, fmt.Errorf("nod %s needs %s; nod --help tells more", command, what)
		}
		argument, args = args[0], args[1:]
	}
	fl := flag.NewFlagSet("nod", flag.ContinueOnError)
	fl.SetOutput(out)
	listen := fl.String("listen", "", "`address` to listen on (default "+defaultListen+")")
	data := fl.String("data", "", "data `folder` (default "+cfg.Data+")")
	given := fl.String("config", "", "configuration `file` (default "+file+", if it is there)")
	level := fl.String("log-level", "", "debug, info, warn or error (default info)")
	fl.Usage = func() {
		_, _ = io.WriteString(out, usage)
		fl.PrintDefaults()
		_, _ = io.WriteString(out, usageEnd)
	}
	if err := fl.Parse(args); err != nil {
		return "", "", cfg, err
	}
	if fl.NArg() > 0 {
		return "", "", cfg, fmt.Errorf("nod does not know what to do with “%s”; nod --help tells what there is", fl.Arg(0))
	}
	if *given != "" {
		file = *given
	}
	if cfg.file, err = filepath.Abs(file); err != nil {
		return "", "", cfg, err
	}
	if err := cfg.read(file, *given != ""); err != nil {
		return "", "", cfg, err
	}
	if *listen != "" {
		cfg.Listen = *listen
	}
	if *data != "" {
		cfg.Data = *data
	}
	if *level != "" {
		if err := cfg.LogLevel.UnmarshalText([]byte(*level)); err != nil {
			return "", "", cfg, fmt.Errorf("the log level “%s” is none of debug, info, warn, error", *level)
		}
	}
	return command, argument, cfg, cfg.check()
}

func (c *config) read(file string, must bool) error {
	meta, err := toml.DecodeFile(file, c)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !must:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no configuration file %s", file)
	case err != nil:
		return fmt.Errorf("the configuration file %s cannot be read: %w", file, err)
	}
	if odd := meta.Undecoded(); len(odd) > 0 {
		return fmt.Errorf("the configuration file %s sets “%s”, which nod does not know; nod --help lists what there is", file, odd[0])
	}
	return nil
}

func (c *config) check() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("the address to listen on, “%s”, is not of the form host:port", c.Listen)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("tls_cert and tls_key go together: name a file for each, or for none")
	}
	if _, err := c.trustedProxies(); err != nil {
		return err
	}
	if c.BasePath != "" && (!strings.HasPrefix(c.BasePath, "/") || strings.HasSuffix(c.BasePath, "/")) {
		return fmt.Errorf("base_path, “%s”, must begin with a slash and not end with one", c.BasePath)
	}
	if c.VerifyEvery <= 0 || c.VerifyEvery > auth.MaxVerify {
		return fmt.Errorf("verify_every, “%s”, must be more than nothing and at most %s", c.VerifyEvery, auth.MaxVerify)
	}
	for name, n := range map[string]int{"max_streams": c.MaxStreams, "max_guests": c.MaxGuests, "max_guests_per_address": c.MaxNear} {
		if n < 1 {
			return fmt.Errorf("%s must be at least 1", name)
		}
	}
	if !filepath.IsAbs(c.Data) {
		abs, err := filepath.Abs(c.Data)
		if err != nil {
			return err
		}
		c.Data = abs
	}
	return nil
}

// xdg returns a base folder of the XDG specification.
func xdg(variable, below string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "." // as a last resort, where nod was started
	}
	return filepath.Join(home, below)
}
