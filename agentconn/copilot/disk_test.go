package copilot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nod/agentconn"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/snapshot"
)

// disk is a Copilot's folder, with a nod that looks on.
type disk struct {
	*house
	root string
	cfg  Config
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	d := &disk{house: &house{t: t}, root: t.TempDir()}
	t.Setenv("COPILOT_HOME", d.root)
	if err := os.Mkdir(filepath.Join(d.root, "session-state"), 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if d.hub, err = hub.New(t.Context(), store, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.hub.Close(context.Background()) })
	d.cfg = Config{Log: log, held: &held{}}
	d.adapter = terminals{d.cfg}
	d.manager = agentconn.NewManager(d.hub, []agentconn.Adapter{d.adapter}, log)
	d.hub.SetUpstream(d.manager, []state.Link{{Key: d.adapter.Key(), Provider: d.adapter.Provider()}})
	d.manager.Start()
	t.Cleanup(d.manager.Close)
	return d
}

// write adds to a file of a session.
func (d *disk) write(id, file, text string) {
	d.t.Helper()
	path := filepath.Join(d.root, "session-state", id, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// terminal opens a session in a terminal, whose program is returned.
func (d *disk) terminal(id string, lines ...string) *exec.Cmd {
	d.t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	d.write(id, "workspace.yaml", "id: "+id+"\ncwd: /w\nname: From a terminal\ncreated_at: 2026-01-01T00:00:00Z\nupdated_at: 2026-01-02T00:00:00Z\n")
	d.write(id, "events.jsonl", strings.Join(lines, "\n")+"\n")
	d.write(id, fmt.Sprintf("inuse.%d.lock", cmd.Process.Pid), fmt.Sprint(cmd.Process.Pid))
	return cmd
}

// saysHello is a turn, as a file tells it.
func saysHello(n int) []string {
	return []string{
		event1(n, "user.message", fmt.Sprintf(`{"messageId":"m%d","content":"hello %d","delivery":"idle"}`, n, n)),
		event1(n, "assistant.turn_start", `{"turnId":"0"}`),
		event1(n, "assistant.message", fmt.Sprintf(`{"messageId":"a%d","content":"hi %d","toolRequests":[]}`, n, n)),
		event1(n, "assistant.turn_end", `{"turnId":"0"}`),
	}
}

// TestTerminalOnDisk: what runs in a terminal is there by itself, grows, waits where
// it waits, and goes on in nod once the terminal is closed.
func TestTerminalOnDisk(t *testing.T) {
	d := newDisk(t)
	cmd := d.terminal("t1", saysHello(1)...)
	v := d.until("t1", "the session", func(v snapshot.Session) bool { return len(v.State.Turns) == 1 })
	if shown(v) != "hi 1|" || v.State.Summary.Title != "From a terminal" || v.State.Summary.Provider != Provider || v.Link.Offers.ReadOnly == "" {
		t.Errorf("%q %+v %+v", shown(v), v.State.Summary, v.Link)
	}
	// It grows, by half a line first.
	line := event1(2, "user.message", `{"messageId":"m2","content":"and now run it","delivery":"idle"}`)
	d.write("t1", "events.jsonl", line[:20])
	d.write("t1", "events.jsonl", line[20:]+"\nthis is no JSON\n\n"+event1(2, "permission.requested", asksToRun)+"\n")
	v = d.until("t1", "a card", func(v snapshot.Session) bool { return len(v.Approvals) == 1 })
	if a := v.Approvals[0]; a.Request.Kind != state.RequestElsewhere || len(a.Request.Options) != 0 || a.Request.Input != "ls" || !strings.Contains(a.Request.Caution, "terminal") {
		t.Errorf("it asks %+v", a.Request)
	}
	if v.State.Summary.Status.Activity() != state.StatusInputNeeded {
		t.Errorf("its status is %d", v.State.Summary.Status)
	}
	if err := d.hub.Send(t.Context(), "t1", state.UserMessage("no")); err == nil {
		t.Error("a message was taken")
	}
	if err := d.hub.Stop(t.Context(), "t1"); err == nil {
		t.Error("it was stopped")
	}
	// It is answered there.
	d.write("t1", "events.jsonl", event1(2, "permission.completed", `{"requestId":"r1","toolCallId":"c1","result":{"kind":"approved"}}`)+"\n")
	d.until("t1", "the answer", func(v snapshot.Session) bool { return v.Approvals[0].State == approvals.AnsweredElsewhere })
	// The terminal is closed in the middle of the turn.
	_, _ = cmd.Process.Kill(), cmd.Wait()
	v = d.until("t1", "the end", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil && v.Link.Key != terminalsKey })
	if len(v.State.Turns) != 2 {
		t.Errorf("%d turns", len(v.State.Turns))
	}
}

// TestTerminalHeld: what a link to a server has is that link's.
func TestTerminalHeld(t *testing.T) {
	d := newDisk(t)
	link := &conn{terminal: true}
	d.cfg.held.take("t1", link)
	d.terminal("t1", saysHello(1)...)
	d.terminal("t2", saysHello(1)...)
	d.until("t2", "the other session", func(v snapshot.Session) bool { return len(v.State.Turns) == 1 })
	if _, err := d.hub.Session("t1"); err == nil {
		t.Error("it is followed twice")
	}
	d.cfg.held.drop("t1", link)
	d.until("t1", "the session that was left", func(v snapshot.Session) bool { return len(v.State.Turns) == 1 })
}

// TestOddFolders: what is odd on disk is passed over and takes nothing with it.
func TestOddFolders(t *testing.T) {
	d := newDisk(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Join(saysHello(7), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.terminal("link")
	if err := errors.Join(os.Remove(filepath.Join(d.root, "session-state", "link", "events.jsonl")), os.Symlink(secret, filepath.Join(d.root, "session-state", "link", "events.jsonl"))); err != nil {
		t.Fatal(err)
	}
	d.terminal("empty")
	d.terminal("UPPER", saysHello(1)...)
	d.write("nothing", "inuse.1.lock", "1")
	d.terminal("long", append(saysHello(1), `{"id":"big","type":"assistant.message","data":{"content":"`+strings.Repeat("x", agentconn.MaxMessage)+`"}}`)...)
	d.write("long", "events.jsonl", strings.Join(saysHello(2), "\n")+"\n")
	v := d.until("long", "what is behind a line that is too long", func(v snapshot.Session) bool { return len(v.State.Turns) == 2 })
	if shown(v) != "hi 1|hi 2|" {
		t.Errorf("%d bytes", len(shown(v)))
	}
	if v, err := d.hub.Session("link"); err == nil && shown(v) != "" {
		t.Error("a link was followed to another place")
	}
	if _, err := d.hub.Session("UPPER"); err == nil {
		t.Error("an id that is no address")
	}
}

// TestReplaced: a file that begins anew is read anew, and nothing is there twice.
func TestReplaced(t *testing.T) {
	d := newDisk(t)
	d.terminal("t1", append(saysHello(1), saysHello(2)...)...)
	d.until("t1", "two turns", func(v snapshot.Session) bool { return len(v.State.Turns) == 2 })
	path := filepath.Join(d.root, "session-state", "t1", "events.jsonl")
	if err := os.WriteFile(path+".new", []byte(strings.Join(append(saysHello(2), saysHello(3)...), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	v := d.until("t1", "the third turn", func(v snapshot.Session) bool { return len(v.State.Turns) >= 3 })
	if shown(v) != "hi 1|hi 2|hi 3|" {
		t.Errorf("%q", shown(v))
	}
}

// TestOlder: the sessions on disk are listed without a server, and one can be read
// without being woken.
func TestOlder(t *testing.T) {
	d := newDisk(t)
	for n := range olderPage + 5 {
		id := fmt.Sprintf("old-%d", n)
		d.write(id, "workspace.yaml", fmt.Sprintf("cwd: /w/%d\nname: Number %d\n", n, n))
		d.write(id, "events.jsonl", strings.Join(saysHello(1), "\n")+"\n"+event1(2, "user.message", `{"messageId":"m9","content":"open","delivery":"idle"}`)+"\n"+event1(2, "permission.requested", asksToRun)+"\n")
		at := time.Unix(int64(1_700_000_000+n), 0)
		if err := os.Chtimes(filepath.Join(d.root, "session-state", id, "events.jsonl"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	page, err := d.cfg.older("", "")
	if err != nil || len(page.Sessions) != olderPage || page.Sessions[0].Title != "Number 34" || page.Sessions[0].Folder != "/w/34" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := d.cfg.older("", page.Next)
	if err != nil || len(rest.Sessions) != 5 || rest.Next != "" || rest.Sessions[4].Title != "Number 0" {
		t.Errorf("%+v, %v", rest, err)
	}
	if found, err := d.cfg.older("NUMBER 12", ""); err != nil || len(found.Sessions) != 1 || found.Sessions[0].URI != uriOf("old-12") {
		t.Errorf("%+v, %v", found, err)
	}
	r := &room{sink: d.hub, key: Provider, provider: Provider, epoch: "e", log: d.cfg.Log}
	if err := r.recallFromDisk(t.Context(), "old-12"); err != nil {
		t.Fatal(err)
	}
	v := d.until("old-12", "what was said", func(v snapshot.Session) bool { return len(v.State.Turns) == 2 })
	if shown(v) != "hi 1|" || v.State.ActiveTurn != nil || len(v.Approvals) != 0 {
		t.Errorf("%q, %d approvals", shown(v), len(v.Approvals))
	}
	for _, odd := range []string{"../x", "", "none", "old-1/../old-2"} {
		if err := r.recallFromDisk(t.Context(), odd); err == nil {
			t.Errorf("%q was recalled", odd)
		}
	}
}

// TestRecallOfTerminal: to look at a session that a terminal has open ends nothing in it.
func TestRecallOfTerminal(t *testing.T) {
	d := newDisk(t)
	d.terminal("t1", event1(1, "user.message", `{"messageId":"m1","content":"hello","delivery":"idle"}`))
	d.until("t1", "the turn", func(v snapshot.Session) bool { return v.State.ActiveTurn != nil })
	r := &room{sink: d.hub, key: Provider, provider: Provider, epoch: "e", log: d.cfg.Log}
	if err := r.recallFromDisk(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if v, err := d.hub.Session("t1"); err != nil || v.State.ActiveTurn == nil || v.Link.Key != terminalsKey {
		t.Errorf("%v, the turn is %v, the link %s", err, v.State.ActiveTurn, v.Link.Key)
	}
}

// TestClockSet: a clock that is set does not close a terminal, and a process that has got
// the number of an older one is not a terminal.
func TestClockSet(t *testing.T) {
	d := newDisk(t)
	for id, age := range map[string]time.Duration{"t1": 30 * time.Second, "t2": time.Hour} {
		cmd := d.terminal(id, saysHello(1)...)
		at := time.Now().Add(-age)
		lock := filepath.Join(sessionFolder(id), fmt.Sprintf("inuse.%d.lock", cmd.Process.Pid))
		if err := os.Chtimes(lock, at, at); err != nil {
			t.Fatal(err)
		}
		if is := holder(sessionFolder(id)) != 0; is != (id == "t1") {
			t.Errorf("with a lock of %v before: open %v", age, is)
		}
	}
}
