package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// TestP7RealFullDisk fills a disk under the real journal, and makes room again. The
// journal finds out by itself, within a second.
func TestP7RealFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small disk cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir}
	h.open()
	t.Cleanup(h.leave)
	id, err := h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "fill it")
	if err != nil {
		t.Fatal(err)
	}
	h.id, h.uri = id, uriScheme+id
	d := h.desk()
	allow, deny := h.ask("1"), h.ask("2")
	before := h.hub.Epoch

	said := []string{}
	say := func() {
		word := fmt.Sprintf("%d %s ", len(said), strings.Repeat("x", 20_000))
		said = append(said, word)
		h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m", Content: state.NewText(word)}})
	}
	// At first there is room again now and then, as SQLite moves what it has written.
	for refused := 0; refused < 20; refused++ {
		if len(said) > 1000 {
			t.Fatal("it is never full")
		}
		say()
		if h.hub.Inbox().Trouble == "" {
			refused = 0
		}
	}
	if n := h.view().State.ActiveTurn.ResponseParts.Len(); n != len(said)+2 {
		t.Errorf("%d parts are shown", n)
	}
	if _, err := h.decide(allow, "accept"); err == nil || len(d.answers("1")) != 0 {
		t.Errorf("an allow: %v, sent %v", err, d.answers("1"))
	}
	got, err := h.decide(deny, "decline")
	if err != nil || got.State != approvals.Sent || !got.Unrecorded || !slices.Equal(d.answers("2"), []string{"decline"}) {
		t.Errorf("a denial: %+v, %v, sent %v", got, err, d.answers("2"))
	}
	if err := h.hub.Stop(t.Context(), h.id); err != nil || d.stopped != 1 {
		t.Errorf("stop: %v", err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	h.until("all of it is recorded", func() bool {
		return h.hub.Inbox().Trouble == "" && !slices.ContainsFunc(h.view().Approvals, func(a *approvals.Approval) bool { return a.Unrecorded })
	})
	if h.hub.Epoch != before {
		t.Error("it took a restart")
	}
	want := h.picture()
	h.crash()
	if got := h.picture(); got != want {
		t.Errorf("after a crash\ngot  %.2000s\nwant %.2000s", got, want)
	}
	for a, want := range map[*approvals.Approval]approvals.State{allow: approvals.Expired, deny: approvals.DeliveryUnknown} {
		if got := h.approval(a.ID).State; got != want {
			t.Errorf("request %s is %s", a.Request.UpstreamID, got)
		}
	}
	if len(d.answers("1")) != 0 {
		t.Error("the allow was sent after all")
	}
}
