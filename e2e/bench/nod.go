package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds the waits for what should come soon.
const patience = 2 * time.Minute

// nod is one nod on fresh data.
type nod struct {
	bench   *bench
	agent   string // whose sessions are begun
	cmd     *exec.Cmd
	stderr  bytes.Buffer // to be read when nod has ended
	addr    string       // 127.0.0.1:port
	base    string       // http://127.0.0.1:port
	dir     string
	toReady time.Duration // CPU time until the login link was printed
	cookie  string        // "name=value" of the bench itself
}

var loginLine = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/login#k=\S+`)

// start starts nod and logs in. env are variables beyond those of the bench.
func (b *bench) start(env ...string) (*nod, error) {
	dir, err := os.MkdirTemp(b.dir, "nod-")
	if err != nil {
		return nil, err
	}
	n := &nod{bench: b, dir: dir, agent: "codex"}
	config := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(config, []byte("max_streams = 100000\nmax_guests = 100000\nmax_guests_per_address = 100000\n"), 0o600); err != nil { // the crowd is to be let in
		return nil, err
	}
	n.cmd = exec.CommandContext(b.ctx, b.binary, "--listen", "127.0.0.1:0", "--data", n.data(), "--log-level", "warn", "--config", config)
	n.cmd.Cancel = func() error { return n.cmd.Process.Signal(syscall.SIGTERM) } // so that it takes its agent along
	n.cmd.WaitDelay = 10 * time.Second
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C reaches it only through us
	n.cmd.Dir, n.cmd.Stderr = dir, &n.stderr
	n.cmd.Env = append(append(os.Environ(), "PATH="+b.agents+string(os.PathListSeparator)+os.Getenv("PATH")), env...)
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	var login string
	for lines := bufio.NewScanner(out); login == "" && lines.Scan(); {
		if m := loginLine.FindStringSubmatch(lines.Text()); m != nil {
			login, n.addr, n.base = m[0], m[1], "http://"+m[1]
		}
	}
	if login == "" {
		err := n.cmd.Wait()
		return nil, fmt.Errorf("nod did not start: %w\n%s", err, n.stderr.String())
	}
	n.toReady, err = n.cpu()
	if err == nil {
		n.cookie, err = n.exchange(login)
	}
	if err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

func (n *nod) data() string { return filepath.Join(n.dir, "data") }

// stop ends nod and frees its disk.
func (n *nod) stop() {
	_ = n.cmd.Cancel() // it may have ended
	late := time.AfterFunc(n.cmd.WaitDelay, func() { _ = n.cmd.Process.Kill() })
	_ = n.cmd.Wait()
	late.Stop()
	_ = os.RemoveAll(n.dir)
}

// ---- its pages ----

// noRedirect shows each answer as it is, and leaves nod no connection to hold.
var noRedirect = &http.Client{
	Timeout:       patience,
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask sends a request as the browser with that cookie does; a form makes it a
// post. Further headers are names and values.
func (n *nod) ask(ctx context.Context, path, cookie string, form url.Values, headers ...string) (*http.Response, []byte, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, n.base+path, body)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := noRedirect.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusSeeOther {
		err = fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return res, b, err
}

func (n *nod) get(path string) (string, error) {
	_, b, err := n.ask(n.bench.ctx, path, n.cookie, nil)
	return string(b), err
}

// exchange makes a cookie of a login link.
func (n *nod) exchange(link string) (cookie string, err error) {
	res, _, err := n.ask(n.bench.ctx, "/login", "", url.Values{"token": {link}})
	if err != nil {
		return "", err
	}
	if len(res.Cookies()) == 0 {
		return "", errors.New("the login gave no cookie")
	}
	c := res.Cookies()[0]
	return c.Name + "=" + c.Value, nil
}

// logins logs in so many further devices.
func (n *nod) logins(count int) ([]string, error) {
	cookies, errs := make([]string, count), make([]error, count)
	var busy sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range count {
		slots <- struct{}{}
		busy.Go(func() {
			defer func() { <-slots }()
			link, err := exec.CommandContext(n.bench.ctx, n.bench.binary, "login-url", "--data", n.data(), "--config", os.DevNull).Output()
			if err == nil {
				cookies[i], err = n.exchange(strings.TrimSpace(string(link)))
			}
			errs[i] = err
		})
	}
	busy.Wait()
	return cookies, errors.Join(errs...)
}

// session begins a session, plays a script in it, and returns its id.
func (n *nod) session(s script) (id string, err error) {
	res, _, err := n.ask(n.bench.ctx, "/new", n.cookie, url.Values{"provider": {n.agent}, "folder": {n.dir}, "prompt": {s.String()}})
	if err != nil {
		return "", err
	}
	id, ok := strings.CutPrefix(res.Header.Get("Location"), "/s/")
	if !ok {
		return "", fmt.Errorf("a new session was answered with %s", res.Status)
	}
	return id, n.untilIdle(id)
}

// say plays a script in a session and does not wait for its end.
func (n *nod) say(id string, s script) error {
	_, _, err := n.ask(n.bench.ctx, "/s/"+id+"/messages", n.cookie, url.Values{"text": {s.String()}})
	return err
}

// untilIdle waits until no turn runs: nothing can be stopped then.
func (n *nod) untilIdle(id string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && n.bench.ctx.Err() == nil; n.bench.pause(100 * time.Millisecond) {
		page, err := n.get("/s/" + id)
		if err != nil || !strings.Contains(page, `/stop"`) {
			return err
		}
	}
	return errors.New("a turn did not end")
}

var shownRev = regexp.MustCompile(`data-rev="([^"]*)"`)

// live is the stream of a page, from what the page shows.
func (n *nod) live(path, cookie string) (string, error) {
	_, page, err := n.ask(n.bench.ctx, path, cookie, nil)
	if err != nil {
		return "", err
	}
	m := shownRev.FindSubmatch(page)
	if m == nil {
		return "", errors.New("the page has no cursor")
	}
	return path + "/live?since=" + url.QueryEscape(html.UnescapeString(string(m[1]))), nil
}

// share makes a link to a session, follows it, and returns the path of what it leads to
// and the cookie of a guest.
func (n *nod) share(id string) (path, cookie string, err error) {
	ctx := n.bench.ctx
	res, _, err := n.ask(ctx, "/s/"+id+"/share", n.cookie, url.Values{"live": {"yes"}, "output": {"yes"}, "life": {"24h0m0s"}})
	if err != nil {
		return "", "", err
	}
	code, err := exec.CommandContext(ctx, n.bench.binary, "verify", "--data", n.data(), "--config", os.DevNull).Output()
	if err != nil {
		return "", "", err
	}
	_, page, err := n.ask(ctx, res.Header.Get("Location"), n.cookie, url.Values{"do": {"make"}, "code": {verifyCode.FindString(string(code))}})
	if err != nil {
		return "", "", err
	}
	link := shareLink.FindSubmatch(page)
	if link == nil {
		return "", "", errors.New("no link was made")
	}
	if res, _, err = n.ask(ctx, string(link[1]), "", nil); err != nil {
		return "", "", err
	}
	if len(res.Cookies()) == 0 {
		return "", "", errors.New("the link gave no cookie")
	}
	c := res.Cookies()[0]
	return res.Header.Get("Location"), c.Name + "=" + c.Value, nil
}

var (
	verifyCode = regexp.MustCompile(`[A-Z2-7]{4}-[A-Z2-7]{4}`)
	shareLink  = regexp.MustCompile(`value="http://[^/"]*(/v/[^"]*)"`)
)

// ---- its cost ----

// cpu is the CPU time that nod has used, its agent's not included: the sum of
// its threads, none of which Go ever ends. That of the process is in steps of
// 10 ms, which is more than nod takes to start.
func (n *nod) cpu() (total time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", n.cmd.Process.Pid))
	if err == nil && len(threads) == 0 {
		err = errors.New("the kernel does not tell what CPU time nod has used, or nod has ended")
	}
	for _, thread := range threads {
		b, readErr := os.ReadFile(thread)
		used, _, _ := strings.Cut(string(b), " ")
		ns, parseErr := strconv.ParseInt(used, 10, 64)
		total += time.Duration(ns)
		err = errors.Join(err, readErr, parseErr)
	}
	return total, err
}

var residentLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// rss is nod's resident memory in KiB.
func (n *nod) rss() (float64, error) { return resident(n.cmd.Process.Pid) }

// resident is the memory of a process in KiB.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := residentLine.FindSubmatch(b)
	if m == nil {
		return 0, errors.New("the process has ended")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// connections is how many sockets nod holds, the one that it listens on included.
func (n *nod) connections() (count int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid)
	fds, err := os.ReadDir(dir)
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join(dir, fd.Name())) // "" if it was closed meanwhile
		if strings.HasPrefix(to, "socket:") {
			count++
		}
	}
	return count, err
}
