package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Where npm puts Copilot, and where it is unpacked: once for everybody, since it
// is large. The program in there that serves clients starts at once.
const (
	copilotProgram = "e2e/node_modules/@github/copilot-*/copilot"
	copilotCache   = "e2e/node_modules/.cache/copilot"
	copilotRuntime = copilotCache + "/pkg/*/*/prebuilds/*/copilot-runtime"
)

// unpacked has Copilot unpack itself, unless it has.
func unpacked(ctx context.Context) (string, error) {
	if program, err := installed(copilotRuntime); err == nil {
		return program, nil
	}
	program, err := installed(copilotProgram)
	if err != nil {
		return "", err
	}
	cache, err := filepath.Abs(copilotCache)
	if err != nil {
		return "", err
	}
	home, err := os.MkdirTemp("", "record-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(home) }()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = []string{"HOME=" + home, "COPILOT_HOME=" + home, "COPILOT_CACHE_HOME=" + cache, "COPILOT_AUTO_UPDATE=false"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking Copilot: %w\n%s", err, out)
	}
	return installed(copilotRuntime)
}

// stage is what the clients of a scenario share: the folders, the model, the
// recording.
type stage struct {
	copilot, home, folder, model, mcp string
	scrubber
	ctx  context.Context
	tape *tape
	port string // of a Copilot that many connect to; otherwise each client has its own
	cmd  *exec.Cmd
}

// token lets clients in.
const token = "of-the-recorder"

func (s *stage) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.copilot, append([]string{"--headless", "--no-auto-update", "--no-auto-login"}, args...)...)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.home), "COPILOT_HOME=" + s.home, "COPILOT_CACHE_HOME=" + filepath.Join(s.home, "cache"),
		"TMPDIR=" + filepath.Join(filepath.Dir(s.home), "scratch"), "LANG=C.UTF-8", "TERM=xterm", "USER=me"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it has started
	return cmd
}

// listen starts a Copilot that many clients can connect to.
func (s *stage) listen() error {
	s.cmd = s.command("--port", "0")
	s.cmd.Env = append(s.cmd.Env, "COPILOT_CONNECTION_TOKEN="+token)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("Copilot did not say where it listens: %w", err)
		}
		if _, port, ok := strings.Cut(line, "listening on port "); ok {
			s.port = strings.TrimSpace(port)
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return nil
		}
	}
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// framed carries messages as Copilot does: each after a header with its length.
type framed struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func (f framed) read() ([]byte, error) {
	header, err := textproto.NewReader(f.out).ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		return nil, fmt.Errorf("a message without a length: %w", err)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(f.out, b)
	return b, err
}

func (f framed) write(b []byte) error {
	_, err := fmt.Fprintf(f.in, "Content-Length: %d\r\n\r\n%s", len(b), b)
	return err
}

func (f framed) close() error { return f.in.Close() }

// wire connects to the Copilot of everybody, or starts one.
func (s *stage) wire() (wire, error) {
	if s.port != "" {
		conn, err := (&net.Dialer{}).DialContext(s.ctx, "tcp", "127.0.0.1:"+s.port)
		return framed{conn, bufio.NewReader(conn)}, err
	}
	s.cmd = s.command("--stdio")
	s.tape.add(fmt.Appendf(nil, `{"dir":"start","msg":{"args":["%s"]},"t":%q}`, strings.Join(s.cmd.Args[1:], `","`), now()))
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return framed{in, bufio.NewReader(out)}, s.cmd.Start()
}

// guest is one connection to Copilot.
type guest struct {
	*link
	stage   *stage
	session string
}

// sessionID is that of every scenario, so that recordings differ in little.
const sessionID = "5e551044-0000-4000-8000-000000000001"

// join connects and says hello. Where many connect, conn tells them apart.
func (s *stage) join(conn int) *guest {
	g := &guest{stage: s, session: sessionID}
	w, err := s.wire()
	if err != nil {
		g.link = &link{err: err}
		return g
	}
	line := func(in bool, message []byte) ([]byte, error) {
		dir := "c2s"
		if in {
			dir = "s2c"
		}
		scrubbed, err := s.scrubCopilot(message)
		which := ""
		if s.port != "" {
			which = fmt.Sprintf(`"conn":%d,`, conn)
		}
		return fmt.Appendf(nil, `{%s"dir":%q,"msg":%s,"t":%q}`, which, dir, scrubbed, now()), err
	}
	g.link = newLink(w, s.tape, line, func(m object) {
		m["jsonrpc"] = "2.0"
		if n, ok := m["id"].(int); ok {
			m["id"] = fmt.Sprintf("c%d-%d", conn, n)
		}
	})
	params := object{"supportedTaskKinds": []string{"agent", "client", "shell"}}
	if s.port != "" {
		params["token"] = token
	}
	g.call("connect", params)
	return g
}

// create starts a session. more changes what it is like.
func (g *guest) create(more object) {
	params := object{"clientName": "nod", "workingDirectory": g.stage.folder}
	maps.Copy(params, more)
	g.call("session.create", g.settings(params))
}

// resume takes a session over, or joins those who have it.
func (g *guest) resume(more object) { g.call("session.resume", g.settings(maps.Clone(more))) }

func (g *guest) settings(more object) object {
	params := object{
		"model": "gpt-5.4", "sessionId": g.session, "toolFilterPrecedence": "excluded", "requestPermission": true, "streaming": true,
		"includeSubAgentStreamingEvents": true, "envValueMode": "direct",
		"provider": object{"type": "openai", "wireApi": "completions", "baseUrl": g.stage.model, "apiKey": "none"},
	}
	maps.Copy(params, more)
	return params
}

// ask calls a method of the session.
func (g *guest) ask(method string, params object) json.RawMessage {
	params["sessionId"] = g.session
	return g.call("session."+method, params)
}

func (g *guest) prompt(text string) { g.ask("send", object{"prompt": text}) }

// event waits for the next event of a kind, and returns its data.
func (g *guest) event(kind string) json.RawMessage {
	var p struct {
		Event struct {
			Type string
			Data json.RawMessage
		}
	}
	_, i := g.wait("event "+kind, g.seen, func(m message) bool {
		return m.Method == "session.event" && json.Unmarshal(m.Params, &p) == nil && p.Event.Type == kind
	})
	g.seen = i + 1
	return p.Event.Data
}

// fail ends a scenario that did not go as it should.
func (g *guest) fail(format string, more ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, more...)
	}
}

func (g *guest) idle() { g.event("session.idle") }

// asked waits for an event that asks, and returns by which id it is answered.
func (g *guest) asked(kind string) string {
	var p struct {
		RequestID string `json:"requestId"`
	}
	g.read(kind, g.event(kind), &p)
	return p.RequestID
}

// decide answers the next question for permission.
func (g *guest) decide(decision object) { g.decided(g.asked("permission.requested"), decision) }

func (g *guest) decided(id string, decision object) {
	g.ask("permissions.handlePendingPermissionRequest", object{"requestId": id, "result": decision})
}

// leave ends a connection as the SDK does.
func (g *guest) leave() {
	g.ask("detach", object{})
	if g.stage.port == "" {
		g.call("runtime.shutdown", object{})
	}
	if g.wire != nil {
		_ = g.wire.close() // nothing is waited for any more
	}
}
