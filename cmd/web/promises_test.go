package main

import (
	"bufio"
	"bytes"
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"nod/state"
	"nod/state/hub"
	"nod/state/journal"
)

// asNod is set for the processes that are this test's binary and play nod.
const asNod = "NOD_TEST_MAIN"

// shownBlock is a block of the first message: its number, and what is in it.
var shownBlock = regexp.MustCompile(`(?s)<div class="b" id="t0p0x(\d+)"[^>]*>(.*?)</div>`)

// letters leaves of a text, or of a piece of a page, what a reader reads.
func letters(s string) string {
	s = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(s, ""))
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

// TestP9GracefulStop ends a real nod by a signal while an agent streams into two
// open pages. It exits with 0, which it does only if the server could stop within
// stopWithin; both pages are told goodbye; what they had shown is on disk; and the
// journal knows that nothing is missing.
func TestP9GracefulStop(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nod := exec.CommandContext(ctx, os.Args[0], "--listen", "127.0.0.1:0", "--data", data, "--config", write(t, ""))
	nod.Env = []string{asNod + "=1", "HOME=" + t.TempDir(), "PATH=" + t.TempDir()} // no agents but the demo
	var log bytes.Buffer
	nod.Stderr = &log
	out, err := nod.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := nod.Start(); err != nil {
		t.Fatal(err)
	}
	var base, token string
	for lines := bufio.NewScanner(out); base == "" && lines.Scan(); {
		if m := link.FindStringSubmatch(lines.Text()); m != nil {
			base, token = "http://127.0.0.1:"+m[1], m[2]
		}
	}
	if base == "" {
		_ = nod.Wait()
		t.Fatalf("nod does not start: %s", log.String())
	}
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	var cookies []*http.Cookie
	do := func(method, path string, form url.Values) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	cookies = do(http.MethodPost, "/login", url.Values{"token": {token}}).Cookies()
	started := do(http.MethodPost, "/new", url.Values{"provider": {"demo"}, "folder": {t.TempDir()}, "prompt": {"go"}})
	id, ok := strings.CutPrefix(started.Header.Get("Location"), "/s/")
	if !ok {
		t.Fatalf("no session: %d", started.StatusCode)
	}
	inbox := do(http.MethodGet, "/live", nil)
	page := bufio.NewReader(do(http.MethodGet, "/s/"+id+"/live", nil).Body)

	// event reads one event of the session's page.
	event := func() (whole string, err error) {
		for {
			line, err := page.ReadString('\n')
			if line == "\n" && whole != "" || err != nil {
				return whole, err
			}
			if line != "\n" {
				whole += line
			}
		}
	}
	shown, blocks := "", map[string]string{}
	see := func(e string) {
		for _, m := range shownBlock.FindAllStringSubmatch(strings.ReplaceAll(e, "data: ", ""), -1) {
			blocks[m[1]] = m[2]
		}
		shown = ""
		for i := range len(blocks) {
			shown += letters(blocks[strconv.Itoa(i)])
		}
	}
	for len(shown) < 60 {
		e, err := event()
		if err != nil {
			t.Fatalf("the page ended: %v\n%s", err, log.String())
		}
		see(e)
	}
	if err := nod.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	last := ""
	for {
		e, err := event()
		if e != "" {
			last = e
			see(e)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the page was torn off: %v", err)
		}
	}
	rest, err := io.ReadAll(inbox.Body)
	if err != nil {
		t.Errorf("the inbox was torn off: %v", err)
	}
	events := strings.Split(strings.TrimSpace(string(rest)), "\n\n")
	for name, e := range map[string]string{"the page": last, "the inbox": events[len(events)-1]} {
		for _, want := range []string{"\nevent: bye\n", "\nid: ", "\nretry: "} {
			if !strings.Contains("\n"+e+"\n", want) {
				t.Errorf("%s ends with %q, without %q", name, e, want)
			}
		}
	}
	if err := nod.Wait(); err != nil {
		t.Errorf("nod ended with %v: %s", err, log.String())
	}

	store, err := journal.Open(t.Context(), data, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if info, err := os.Stat(filepath.Join(data, journal.FileName+"-wal")); err == nil && info.Size() > 0 {
		t.Errorf("%d bytes are left in the WAL", info.Size())
	}
	clean, err := store.Begin(t.Context())
	if err != nil || !clean {
		t.Errorf("clean %v, %v", clean, err)
	}
	if err := store.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(context.Background()) }()
	v, err := h.Session(id)
	if err != nil || len(v.State.Turns) != 1 {
		t.Fatalf("%+v, %v", v.State, err)
	}
	parts := v.State.Turns[0].ResponseParts
	stored := letters(parts[0].(*state.MarkdownPart).Content.String())
	if shown == "" || !strings.HasPrefix(stored, shown) {
		t.Errorf("shown was %q, on disk is %q", shown, stored)
	}
}
