package copilot

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
	"go.yaml.in/yaml/v3"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

const (
	// lookForTerminals is how often nod looks for sessions of terminals, and
	// followEvery how often what it follows has grown.
	lookForTerminals = time.Second
	followEvery      = 250 * time.Millisecond
	// maxWorkspace bounds, in bytes, the file that describes a session.
	maxWorkspace = 64 << 10
	// olderPage is how many older sessions a page lists.
	olderPage = 30
)

// inTerminal is why nothing can be sent or answered there.
const inTerminal = "This session runs in a terminal of its own, so nod only looks on: write and answer there. Start it with “copilot --ui-server --port 4321” and name that address in nod's configuration, and it can be answered here, too."

// held are the sessions that links to servers hold: whoever follows files leaves them
// alone.
type held struct {
	mu sync.Mutex
	by map[string][]*conn
}

func (h *held) take(id string, c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string][]*conn{}
	}
	h.by[id] = append(h.by[id], c)
}

func (h *held) drop(id string, c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by[id] = slices.DeleteFunc(h.by[id], func(x *conn) bool { return x == c }); len(h.by[id]) == 0 {
		delete(h.by, id)
	}
}

func (h *held) has(id string) bool { return len(h.links(id)) > 0 }

func (h *held) links(id string) []*conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.by[id])
}

// folder of a session on disk.
func sessionFolder(id string) string { return filepath.Join(home(), "session-state", id) }

// workspace describes a session on disk.
type workspace struct {
	Cwd        string    `yaml:"cwd"`
	Name       string    `yaml:"name"`
	ClientName string    `yaml:"client_name"`
	CreatedAt  time.Time `yaml:"created_at"`
	UpdatedAt  time.Time `yaml:"updated_at"`
}

func readWorkspace(id string) (w workspace, err error) {
	f, err := openFile(filepath.Join(sessionFolder(id), "workspace.yaml"))
	if err != nil {
		return w, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxWorkspace))
	if err != nil {
		return w, err
	}
	return w, yaml.Unmarshal(raw, &w)
}

// openFile opens a regular file; it follows no link to another place.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("copilot: %s is no file", path))
	}
	return f, nil
}

// summary is what a list shows of it.
func (w workspace) summary(id string) *state.SessionSummary {
	return &state.SessionSummary{
		Resource: uriOf(id), Provider: Provider, Title: state.TitleOf(w.Name), Status: state.StatusIdle,
		CreatedAt: w.CreatedAt.UnixMilli(), ModifiedAt: w.UpdatedAt.UnixMilli(), WorkingDirectory: new(state.FileURI(w.Cwd)),
	}
}

// ---- terminals ----

// terminals are the sessions that run in terminals, as their files tell.
type terminals struct{ cfg Config }

const terminalsKey = Provider + "@terminals"

// Key implements agentconn.Adapter.
func (terminals) Key() string { return terminalsKey }

// Provider implements agentconn.Adapter. No session is started here; those that are
// seen here are nod's own server's once their terminal has closed.
func (terminals) Provider() string { return terminalsKey }

// DisplayName implements agentconn.Adapter.
func (terminals) DisplayName() string { return "Copilot in terminals" }

// Find looks for the program that terminals run.
func (t terminals) Find() (string, error) {
	_, err := t.cfg.program()
	return inTerminal, err
}

// Running reports whether Copilot has ever run here.
func (terminals) Running() bool {
	_, err := os.Stat(filepath.Join(home(), "session-state"))
	return err == nil
}

// Starts reports false.
func (terminals) Starts() bool { return false }

// NewConn returns a link that is not started yet.
func (t terminals) NewConn(sink agentconn.Sink) agentconn.Conn {
	log := t.cfg.Log.With("agent", terminalsKey)
	return &watcher{
		cfg: t.cfg, log: log, followed: map[string]*followed{}, looked: map[string]time.Time{},
		room: room{sink: sink, key: terminalsKey, provider: Provider, epoch: terminalsKey, log: log, elsewhere: inTerminal},
	}
}

// watcher follows the files of terminals. One goroutine does it.
type watcher struct {
	cfg      Config
	log      *slog.Logger
	room     room
	followed map[string]*followed
	looked   map[string]time.Time // when a session's folder had changed that was looked at
}

// followed is a session of a terminal.
type followed struct {
	session *session
	about   workspace
	pid     int32
	log     *logFile
}

// Run implements agentconn.Conn.
func (w *watcher) Run(ctx context.Context, ready func(agentconn.Found)) error {
	ready(agentconn.Found{Epoch: terminalsKey, Detail: "Looks on", Lasting: true, Offers: state.Offers{ReadOnly: inTerminal}})
	look, follow := time.NewTicker(lookForTerminals), time.NewTicker(followEvery)
	defer look.Stop()
	defer follow.Stop()
	defer func() {
		for _, f := range w.followed {
			f.log.close()
		}
	}()
	w.look(ctx)
	for _, st := range w.room.sink.Open(ctx, terminalsKey) { // of one that has closed while there was no nod
		if id := sessionID(st.Summary.Resource); w.followed[id] == nil {
			w.closed(ctx, st.Summary)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			w.look(ctx)
		case <-follow.C:
			for _, id := range slices.Sorted(maps.Keys(w.followed)) {
				w.follow(ctx, id)
			}
		}
	}
}

// look finds sessions that a terminal has opened. A lock changes the time of its
// folder, so only folders that have changed are opened.
func (w *watcher) look(ctx context.Context) {
	root := filepath.Join(home(), "session-state")
	entries, err := os.ReadDir(root)
	if err != nil {
		w.log.Debug("the sessions of terminals are not known", "err", err)
		return
	}
	for _, e := range entries {
		id := e.Name()
		info, err := e.Info()
		if err != nil || !info.IsDir() || w.followed[id] != nil || !addressable(id) || w.looked[id].Equal(info.ModTime()) {
			continue
		}
		pid := holder(filepath.Join(root, id))
		if links := w.cfg.held.links(id); pid != 0 && len(links) > 0 {
			for _, c := range links {
				c.yield(id)
			}
			continue // it is looked at again
		}
		w.looked[id] = info.ModTime()
		if pid != 0 {
			w.begin(ctx, id, pid)
		}
	}
}

// holder is the process that has a session open in a terminal, 0 if there is none.
func holder(folder string) int32 {
	locks, _ := filepath.Glob(filepath.Join(folder, "inuse.*.lock")) // it is a good pattern
	for _, lock := range locks {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(lock), "inuse."), ".")
		pid, err := strconv.ParseInt(number, 10, 32)
		info, err2 := os.Lstat(lock)
		if err != nil || err2 != nil || !inTerminalBy(int32(pid), info.ModTime()) {
			continue
		}
		return int32(pid)
	}
	return 0
}

// clockSet is by how much a clock may be set, say after a sleep, before nod takes a
// terminal for another process: the begin of a process moves with the clock, and the
// time of its lock does not.
const clockSet = time.Minute

// inTerminalBy reports whether a process is a Copilot with a screen that was there
// when a lock was made: another one may have its number by now.
func inTerminalBy(pid int32, locked time.Time) bool {
	p, err := process.NewProcess(pid)
	if err != nil {
		return false
	}
	began, err := p.CreateTime()
	if err != nil || time.UnixMilli(began).After(locked.Add(clockSet)) {
		return false
	}
	words, err := p.CmdlineSlice()
	return err == nil && !slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains([]string{"--headless", "--server", "--managed-server", "--acp"}, word)
	})
}

// begin shows a session of a terminal with what was said in it.
func (w *watcher) begin(ctx context.Context, id string, pid int32) {
	about, err := readWorkspace(id)
	if err != nil {
		w.log.Debug("a session of a terminal cannot be read", "session", id, "err", err)
		delete(w.looked, id) // it may be being written
		return
	}
	f := &followed{session: newSession(&w.room, id), about: about, pid: pid, log: &logFile{path: filepath.Join(sessionFolder(id), "events.jsonl")}}
	if err := f.session.beginFrom(ctx, f.about.summary(id)); err != nil {
		w.log.Warn("a session of a terminal is not shown", "session", id, "err", err)
		return
	}
	w.followed[id] = f
	w.follow(ctx, id)
	f.session.caughtUp(ctx)
}

// beginFrom makes a session known to the hub, and prepares to read its file.
func (s *session) beginFrom(ctx context.Context, m *state.SessionSummary) error {
	s.catchUp()
	st, err := s.room.sink.Begin(ctx, s.room.key, m, state.SessionConfig(settings(nil)), &state.SessionReady{})
	if err != nil {
		return err
	}
	s.recall(st, s.room.sink.Open(ctx, s.room.key))
	s.gathers = len(st.Turns) == 0 && st.ActiveTurn == nil
	return nil
}

// follow reads what a session's file has grown by.
func (w *watcher) follow(ctx context.Context, id string) {
	f := w.followed[id]
	if w.cfg.held.has(id) { // a link has it now, and knows more
		f.log.close()
		delete(w.followed, id)
		return
	}
	over := f.session.caught() && holder(sessionFolder(id)) != f.pid // before the last of it is read
	err := f.log.read(func(e event, err error) {
		if err == nil {
			f.session.take(ctx, e)
		} else {
			f.session.unreadable(ctx, e, err)
		}
	})
	switch {
	case errors.Is(err, errReplaced): // it is read anew; what is known is not told twice
		f.log.close()
		delete(w.followed, id)
		delete(w.looked, id)
	case err != nil && !errors.Is(err, fs.ErrNotExist): // it comes with the first message
		w.log.Debug("a session's file cannot be read", "session", id, "err", err)
	}
	if over {
		f.log.close()
		delete(w.followed, id)
		delete(w.looked, id)
		w.closed(ctx, f.about.summary(id))
	}
}

// closed: the terminal is gone, and nod's own server goes on with its session when
// somebody writes to it.
func (w *watcher) closed(ctx context.Context, m *state.SessionSummary) {
	w.room.sink.Gone(ctx, m.Resource, "The terminal was closed while this turn ran.")
	if _, err := w.room.sink.Begin(ctx, Provider, m, nil); err != nil {
		w.log.Debug("a session of a terminal that has closed", "session", m.Resource, "err", err)
	}
}

// CreateSession implements agentconn.Conn: none is started here.
func (w *watcher) CreateSession(context.Context, state.NewSession) (string, error) {
	return "", errInTerminal
}

// Dispatch implements agentconn.Conn: nod only looks on.
func (w *watcher) Dispatch(context.Context, *state.Session, state.Action) error { return errInTerminal }

// Answer implements agentconn.Conn: nod only looks on.
func (w *watcher) Answer(context.Context, state.Request, state.Decision) error { return errInTerminal }

var errInTerminal = &agentconn.PublicError{Message: inTerminal}

// ---- files ----

// logFile is a session's events.jsonl, read as it grows.
type logFile struct {
	path string
	file *os.File
	in   *bufio.Reader
	at   int64              // bytes that were read
	part []byte             // of a line that is not all there yet
	long *agentconn.Outline // of such a line, once it is longer than nod reads
}

// errReplaced: it is another file now, or shorter than what was read of it.
var errReplaced = errors.New("copilot: a session's file was replaced")

// read hands over the events that have come. It returns nil at their end.
func (l *logFile) read(hear func(event, error)) error {
	if l.file == nil {
		f, err := openFile(l.path)
		if err != nil {
			return err
		}
		l.file, l.in = f, bufio.NewReaderSize(f, 64<<10)
	}
	is, err := l.file.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Lstat(l.path); err != nil || !os.SameFile(is, named) || is.Size() < l.at {
		return errReplaced
	}
	for {
		chunk, err := l.in.ReadSlice('\n')
		l.at += int64(len(chunk))
		if l.long == nil && len(l.part)+len(chunk) > agentconn.MaxMessage {
			l.long = &agentconn.Outline{Depth: outlined - 2} // the event lies that deep in a message
			_, _ = l.long.Write(l.part)                      // it never fails
			l.part = nil
		}
		if l.long != nil {
			_, _ = l.long.Write(chunk)
		} else {
			l.part = append(l.part, chunk...)
		}
		switch {
		case err == nil:
			text := l.part
			if l.long != nil {
				text = l.long.Bytes()
			}
			if l.long != nil || len(strings.TrimSpace(string(text))) > 0 {
				e, err := readEvent(text)
				e.long = l.long
				hear(e, err)
			}
			l.part, l.long = nil, nil
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

func (l *logFile) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// ---- older sessions ----

// older lists the sessions on disk, the newest first. The cursor is how many came
// before.
func (cfg Config) older(search, cursor string) (page state.OlderPage, err error) {
	entries, err := os.ReadDir(filepath.Join(home(), "session-state"))
	if errors.Is(err, fs.ErrNotExist) {
		return page, nil
	}
	if err != nil {
		return page, &agentconn.PublicError{Message: "Copilot's sessions in " + home() + " cannot be read.", Err: err}
	}
	type found struct {
		id string
		at time.Time
	}
	var all []found
	for _, e := range entries {
		info, err := os.Lstat(filepath.Join(home(), "session-state", e.Name(), "events.jsonl")) // without one nothing was said
		if err == nil && info.Mode().IsRegular() && addressable(e.Name()) {
			all = append(all, found{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.id, b.id)) })
	from, _ := strconv.Atoi(cursor) // 0 for the first page
	for n := max(0, from); n < len(all); n++ {
		w, err := readWorkspace(all[n].id)
		if err != nil || search != "" && !strings.Contains(strings.ToLower(w.Name+"\n"+w.Cwd), strings.ToLower(search)) {
			continue
		}
		if len(page.Sessions) == olderPage {
			page.Next = strconv.Itoa(n)
			break
		}
		page.Sessions = append(page.Sessions, state.Older{
			URI: uriOf(all[n].id), Title: cmp.Or(state.TitleOf(w.Name), "Without a title"), Folder: plain.Shorten(w.Cwd, 1000), ModifiedAt: all[n].at.UnixMilli(),
		})
	}
	return page, nil
}

// recallFromDisk makes a session on disk known, with what was said in it. It wakes
// nothing.
func (r *room) recallFromDisk(ctx context.Context, id string) error {
	if !addressable(id) {
		return errNoSession
	}
	about, err := readWorkspace(id)
	if err != nil {
		return errNoSession
	}
	if holder(sessionFolder(id)) != 0 {
		return nil // it is followed, with what goes on in it
	}
	s := newSession(r, id)
	if err := s.beginFrom(ctx, about.summary(id)); err != nil {
		return err
	}
	log := &logFile{path: filepath.Join(sessionFolder(id), "events.jsonl")}
	defer log.close()
	err = log.read(func(e event, err error) {
		if err == nil && ctx.Err() == nil {
			s.take(ctx, e)
		}
	})
	s.asks = nil // nobody waits for an answer
	s.main.end()
	s.caughtUp(ctx)
	return err
}

var errNoSession = &agentconn.PublicError{Message: "Copilot does not have this session any more."}
