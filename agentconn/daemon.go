package agentconn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

const (
	// listenTimeout bounds how long a daemon may take until it listens. It ends
	// before the manager loses patience, and knows more.
	listenTimeout = 15 * time.Second
	// endTimeout is what a daemon gets between being asked to end and being killed:
	// Codex takes some seconds.
	endTimeout = 5 * time.Second
	// lastWordsWithin is how soon what a daemon has said on its way out is on disk.
	lastWordsWithin = time.Second
	// maxWords is how many characters of its last words are told.
	maxWords = 200
	// maxSocketName is what fits into a socket's address everywhere.
	maxSocketName = 100
)

// Daemon is a program that nod starts, that listens on a unix socket, and that goes
// on without nod.
type Daemon struct {
	Folder string // where its socket, its record and what it says are; made if it is not there
	Name   string // of these files
	Of     string // what people call whose program it is
	Log    *slog.Logger
}

// Socket is where it listens.
func (d Daemon) Socket() string { return d.file(".sock") }

// Fits reports whether the name of its socket fits into an address.
func (d Daemon) Fits() bool { return len(d.Socket()) <= maxSocketName }

func (d Daemon) file(kind string) string { return filepath.Join(d.Folder, d.Name+kind) }

// record is what nod remembers of a daemon that it has started.
type record struct {
	PID     int    `json:"pid"`     // of the program
	Run     string `json:"run"`     // names the process for good: see RunOf
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
umask "$2"
shift 2
"$@" </dev/null >/dev/null 3<&- & echo $!`

// Silent is the error of a daemon that does not listen.
type Silent struct {
	LastWords string // the begin of the last line that it has said; "" for none
}

func (s *Silent) Error() string { return "agentconn: the program does not listen: " + s.LastWords }

// Start starts it and waits until it listens. One that runs and cannot be reached
// is ended first: nobody would know of it any more. The error is a PublicError, a
// Silent, or says that the program cannot be run.
func (d Daemon) Start(ctx context.Context, env []string, path string, args ...string) error {
	if ended, err := d.Stop(ctx); err != nil {
		d.Log.Warn("whether an older server runs is not known", "err", err)
	} else if ended {
		d.Log.Warn("a server that could not be reached was ended", "socket", d.Socket())
	}
	if err := os.MkdirAll(d.Folder, 0o700); err != nil {
		return &PublicError{Message: "nod cannot make a folder for " + d.Of + " in its data folder.", Err: err}
	}
	if err := os.WriteFile(d.file(".log"), nil, 0o600); err != nil {
		return d.cannotWrite(err)
	}
	_ = os.Remove(d.Socket()) // of a server that has ended
	says, said, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", detach, "sh", d.file(".log"), umask, path}, args...)...)
	cmd.Env = env
	cmd.Dir = "/"
	cmd.Stderr, cmd.ExtraFiles = said, []*os.File{says}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	_, _ = says.Close(), said.Close() // the others have theirs
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return err
	}
	r, err := d.remember(pid, cmd.Process.Pid, path)
	if err != nil {
		r.kill(syscall.SIGKILL)
		return d.cannotWrite(err)
	}
	d.Log.Info("started", "program", path, "pid", pid, "group", r.Group, "socket", d.Socket())
	return d.untilListening(ctx, r)
}

// Remember records a program that somebody else has started, as the first of its
// process group, so that Running and Stop know it.
func (d Daemon) Remember(pid int, program string) error {
	_, err := d.remember(pid, pid, program)
	return err
}

func (d Daemon) remember(pid, group int, program string) (record, error) {
	r := record{PID: pid, Run: RunOf(pid), Group: group, Started: time.Now().UnixMilli(), Program: program}
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(d.file(".json"), raw, 0o600)
	}
	return r, err
}

func (d Daemon) cannotWrite(err error) error {
	return &PublicError{Message: "nod cannot write to its data folder, so it does not start " + d.Of + ".", Err: err}
}

func (d Daemon) untilListening(ctx context.Context, r record) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !Listening("unix", d.Socket()) {
		alive := r.alive()
		select {
		case <-look.C:
			if alive {
				continue
			}
		case <-ctx.Done():
		}
		said := d.lastWords(look.C)
		r.kill(syscall.SIGKILL)
		return &Silent{said}
	}
	return nil
}

// lastWords is the last line that a daemon has said, which may be on its way to the
// file still; "" for none.
func (d Daemon) lastWords(look <-chan time.Time) string {
	for patience := time.After(lastWordsWithin); ; {
		said, _ := os.ReadFile(d.file(".log"))
		if words := []rune(lastLine(said)); len(words) > maxWords {
			return string(words[:maxWords-1]) + "…"
		} else if len(words) > 0 {
			return string(words)
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
func (r record) alive() bool { return r.Run != "" && RunOf(r.PID) == r.Run }

func (r record) kill(s syscall.Signal) { _ = syscall.Kill(-r.Group, s) } // of a group that is gone nothing is left

// OwnServer is a server that nod has started and that goes on without it.
type OwnServer struct {
	PID     int
	Program string
	Version string // "" if it does not say
	Since   time.Time
	Memory  uint64 // of it and its children, bytes
}

// recorded returns what nod remembers of it, if it runs.
func (d Daemon) recorded() (r record, runs bool, err error) {
	raw, err := os.ReadFile(d.file(".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, false, fmt.Errorf("what nod remembers of its %s server cannot be read: %w", d.Of, err)
	}
	return r, r.alive(), nil
}

// Run names its process for good (see RunOf); "" if it does not run.
func (d Daemon) Run() string {
	r, runs, _ := d.recorded() // what cannot be read is not known to run
	if !runs {
		return ""
	}
	return r.Run
}

// Running returns it, if it runs.
func (d Daemon) Running() (OwnServer, bool, error) {
	r, runs, err := d.recorded()
	if !runs {
		return OwnServer{}, false, err
	}
	s := OwnServer{PID: r.PID, Program: r.Program, Since: time.UnixMilli(r.Started)}
	if p, err := process.NewProcess(int32(r.PID)); err == nil {
		s.Memory = memory(p)
	}
	return s, true, nil
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

// Stop ends it, politely and then not. It reports whether it ran.
func (d Daemon) Stop(ctx context.Context) (bool, error) {
	r, runs, err := d.recorded()
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
	return true, errors.Join(ignoreMissing(os.Remove(d.Socket())), ignoreMissing(os.Remove(d.file(".json"))))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Listening reports whether somebody listens: a socket's file may be left of one
// who did.
func Listening(network, address string) bool {
	host, _, _ := net.SplitHostPort(address) // a path has none
	d := Dialer(host)
	d.Timeout = 300 * time.Millisecond
	c, err := d.Dial(network, address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// EpochOf makes of the run of a process (see RunOf) a link's epoch.
func EpochOf(run string) string {
	sum := sha256.Sum256([]byte(run))
	return hex.EncodeToString(sum[:13])
}

// ReadToken reads the token for a server that people call by that name.
func ReadToken(name, file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", &PublicError{Message: "Others can read the token for " + name + ": chmod 600 " + file + ", and nod links to it."}
	}
	b, err := os.ReadFile(file)
	token := strings.TrimSpace(string(b))
	if err == nil && token == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", &PublicError{Message: "The token for " + name + " cannot be read from " + file + ".", Err: err}
	}
	return token, nil
}

// mine refuses a program of another user, be it root: it would see all that is said,
// and could show what nobody asked for.
func mine(uid uint32) error {
	if int(uid) == os.Geteuid() {
		return nil
	}
	return &PublicError{Message: fmt.Sprintf("The program at the other end of this socket belongs to another user (id %d), so nod does not link to it. End it, or start it as the user that nod runs as.", uid)}
}
