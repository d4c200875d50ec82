package agentconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// childEnv are the variables a child always gets. What else it needs its adapter
// or the owner's configuration names; nothing of nod's own reaches it.
var childEnv = []string{"PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TMPDIR", "SSH_AUTH_SOCK"}

// childEnvPrefixes are variables that come in families.
var childEnvPrefixes = []string{"LC_", "XDG_"}

const (
	// stopGrace is what a child gets between being asked to end and being killed.
	// The whole program has 5 s.
	stopGrace = 2 * time.Second
	// drainTime is what is left for reading what a program wrote before it ended.
	drainTime = 200 * time.Millisecond
	// writeTimeout bounds a write to a child that does not read.
	writeTimeout = 10 * time.Second
	// maxStderrLine cuts what a child can put into one line of our log.
	maxStderrLine = 2 << 10
)

// Process is an agent program that runs as a child of nod, in a process group of
// its own, and talks on its standard input and output.
type Process struct {
	Stdin  io.Writer // each Write is given up after 10 s
	Stdout io.Reader

	cmd     *exec.Cmd
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	exited  chan struct{} // closed when the program has ended
	ended   error         // how; after exited
	running sync.WaitGroup

	mu   sync.Mutex
	last string // newest line on stderr
}

// umask is the one that nod was started with. nod has another for its own files; what an
// agent makes in a person's folders is as they want it.
var umask = func() string {
	was := syscall.Umask(0o077)
	syscall.Umask(was)
	return fmt.Sprintf("%04o", was)
}()

// StartProcess starts path, an absolute path, with the allowed part of nod's
// environment; env names further variables to pass on. The program is ended when
// ctx ends. The caller reads Stdout to its end and then calls Wait.
func StartProcess(ctx context.Context, log *slog.Logger, path string, args, env []string) (*Process, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("agentconn: the path of a program must be absolute: " + path)
	}
	if _, err := exec.LookPath(path); err != nil { // or the shell would say so, in its own words
		return nil, err
	}
	stdinR, stdinW, err1 := os.Pipe()
	stdoutR, stdoutW, err2 := os.Pipe()
	stderrR, stderrW, err3 := os.Pipe()
	theirs, ours := []*os.File{stdinR, stdoutW, stderrW}, []*os.File{stdinW, stdoutR, stderrR}
	err := errors.Join(err1, err2, err3)
	cmd := exec.Command("/bin/sh", append([]string{"-c", `umask "$0" && exec "$@"`, umask, path}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdinR, stdoutW, stderrW
	cmd.Env = ChildEnv(env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err == nil {
		err = cmd.Start()
	}
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	p := &Process{Stdin: deadlineWriter{stdinW}, Stdout: stdoutR, cmd: cmd, stdin: stdinW, stdout: stdoutR, stderr: stderrR, exited: make(chan struct{})}
	p.running.Go(func() { p.logStderr(log, stderrR) })
	p.running.Go(func() { p.stopWith(ctx) })
	p.running.Go(p.reap)
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// ChildEnv returns the part of nod's environment that a child may see; names names
// further variables to pass on.
func ChildEnv(names []string) []string {
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(childEnv, name) || slices.Contains(names, name) ||
			slices.ContainsFunc(childEnvPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out = append(out, kv)
		}
	}
	return out
}

type deadlineWriter struct{ f *os.File }

func (w deadlineWriter) Write(p []byte) (int, error) {
	if err := w.f.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.f.Write(p)
}

func (p *Process) logStderr(log *slog.Logger, r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, _, err := ReadLine(in, maxStderrLine, 0)
		if text := strings.TrimSpace(string(line)); text != "" {
			log.Info("agent stderr", "program", filepath.Base(p.cmd.Path), "line", text)
			p.mu.Lock()
			p.last = text
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// PID returns the process id, which is the id of its group too.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// stopWith ends the program when ctx ends: politely, then not.
func (p *Process) stopWith(ctx context.Context) {
	select {
	case <-p.exited:
		return
	case <-ctx.Done():
	}
	_ = p.stdin.Close() // the polite way: end of input
	_ = p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopGrace):
		_ = p.signal(syscall.SIGKILL)
	}
}

// reap notices the end of the program, ends what it left in its group, and closes
// its output, which a descendant outside the group may still hold.
func (p *Process) reap() {
	state, err := p.cmd.Process.Wait()
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	p.ended = err
	_ = p.signal(syscall.SIGKILL)
	close(p.exited)
	time.AfterFunc(drainTime, func() {
		_ = p.stdout.Close()
		_ = p.stderr.Close()
	})
}

// Wait waits until the program has ended and leaves nothing of its process group
// behind. Stdout must have been read to its end before. It returns how the
// program ended and the last line it wrote to standard error.
func (p *Process) Wait() (ended error, lastWords string) {
	<-p.exited
	p.running.Wait()
	_ = p.stdin.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended, p.last
}

func (p *Process) signal(s syscall.Signal) error { return syscall.Kill(-p.PID(), s) }

// MaxMessage bounds, in bytes, one message of an agent. Lines of 1 MB are ordinary:
// Codex cuts a command's output there. The images that go along with a message of
// nod's come back in one of 14 MB.
const MaxMessage = 16 << 20

// ReadLine reads up to and including the next newline and returns the line
// without it. A line longer than limit is read to its end, but only its first
// limit bytes are returned, and long, which else is nil, is its outline of that depth.
// err is io.EOF at the end, where a last line without a newline may come with it.
func ReadLine(r *bufio.Reader, limit, depth int) (line []byte, long *Outline, err error) {
	for {
		chunk, err := r.ReadSlice('\n')
		if room := limit - len(line); len(chunk) > room+1 || long != nil {
			if long == nil {
				long = &Outline{Depth: depth}
				_, _ = long.Write(line) // it never fails
			}
			_, _ = long.Write(bytes.TrimSuffix(chunk, []byte("\n")))
			chunk = chunk[:min(max(0, room), len(chunk))]
		}
		line = append(grown(line, len(chunk), limit), chunk...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil && long == nil:
			line = line[:len(line)-1]
		}
		return line, long, err
	}
}

// ReadMessage reads to the end of r. Of a message longer than limit only its first
// limit bytes are returned, and long, which else is nil, is its outline of that depth.
func ReadMessage(r io.Reader, limit, depth int) (msg []byte, long *Outline, err error) {
	for len(msg) < limit {
		msg = grown(msg, 512, limit)
		n, err := r.Read(msg[len(msg):min(cap(msg), limit)])
		msg = msg[:len(msg)+n]
		if errors.Is(err, io.EOF) {
			return msg, nil, nil
		} else if err != nil {
			return nil, nil, err
		}
	}
	long = &Outline{Depth: depth}
	_, _ = long.Write(msg) // it never fails
	rest, err := io.Copy(long, r)
	if rest == 0 {
		long = nil
	}
	return msg, long, err
}

// grown makes room for n bytes more. It grows fourfold, up to limit, so that a message
// of any length costs no more than twice the limit.
func grown(b []byte, n, limit int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	more := make([]byte, len(b), len(b)+max(n, min(3*len(b), limit-len(b))))
	copy(more, b)
	return more
}
