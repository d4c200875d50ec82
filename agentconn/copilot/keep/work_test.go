package keep

import (
	"bufio"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestRecordings: in every recording a session is at work from what a person sends
// to session.idle, and nothing is at work after the last of these.
func TestRecordings(t *testing.T) {
	shared := cmp.Or(os.Getenv("NOD_SHARED"), filepath.Join("..", "..", "..", "..", "shared"))
	recordings := filepath.Join(shared, "recordings", "copilot")
	files, _ := filepath.Glob(filepath.Join(recordings, "*.rpc.jsonl"))
	deeper, _ := filepath.Glob(filepath.Join(recordings, "*", "*.rpc.jsonl"))
	if files = append(files, deeper...); len(files) == 0 {
		t.Skip("the recordings of Copilot are not here; NOD_SHARED may name the folder that holds them")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	type seen struct {
		work *work
		last map[string]string // kind of the newest event that begins or ends something, by session
	}
	connections := map[int]*seen{}
	lines := bufio.NewScanner(in)
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var l struct {
			Conn int             `json:"conn"`
			Dir  string          `json:"dir"`
			Msg  json.RawMessage `json:"msg"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		c := connections[l.Conn]
		if c == nil {
			c = &seen{newWork(), map[string]string{}}
			connections[l.Conn] = c
		}
		var m message
		_ = json.Unmarshal(l.Msg, &m)
		switch {
		case m.Method == "session.detach": // it would hide what was missed
		case l.Dir == "c2s":
			c.work.said(l.Msg)
		case l.Dir == "s2c":
			c.work.heard(l.Msg)
		}
		id, kind := m.Params.SessionID, m.Params.Event.Type
		switch {
		case m.Method == "session.send", kind == "user.message", kind == "permission.requested", kind == "assistant.idle", kind == "tool.execution_complete":
			if c.work.sessions[id] == 0 {
				t.Errorf("not at work after %s %s", m.Method, kind)
			}
			c.last[id] = m.Method + kind
		case kind == "session.idle", kind == "session.shutdown":
			c.last[id] = ""
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range connections {
		for id, how := range c.work.sessions {
			if c.last[id] == "" && how != left {
				t.Errorf("session %s stands at %d after its end", id, how)
			}
		}
	}
}

// TestWork: what is at work after what has been said (>) and heard (<).
func TestWork(t *testing.T) {
	event := func(kind string) string {
		return `<{"method":"session.event","params":{"sessionId":"s","event":{"type":"` + kind + `"}}}`
	}
	const (
		send    = `>{"id":"1","method":"session.send","params":{"sessionId":"s","prompt":"x"}}`
		sent    = `<{"id":"1","result":{"messageId":"m"}}`
		refused = `<{"id":"1","error":{"code":-32000,"message":"no"}}`
		resume  = `>{"id":"1","method":"session.resume","params":{"sessionId":"s","continuePendingWork":true}}`
		detach  = `>{"id":"2","method":"session.detach","params":{"sessionId":"s"}}`
	)
	for name, c := range map[string]struct {
		wire []string
		want standing
	}{
		"sent":                        {[]string{send}, called},
		"accepted":                    {[]string{send, sent}, busy},
		"accepted and done at once":   {[]string{send, event("session.idle"), sent}, 0},
		"refused":                     {[]string{send, refused}, 0},
		"refused, but it works":       {[]string{send, event("assistant.turn_start"), refused}, busy},
		"resumed":                     {[]string{resume, `<{"id":"1","result":{"sessionId":"s"}}`}, resumed},
		"resumed without a wish":      {[]string{`>{"id":"1","method":"session.resume","params":{"sessionId":"s"}}`}, 0},
		"not resumed":                 {[]string{resume, refused}, 0},
		"a form":                      {[]string{event("elicitation.requested")}, busy},
		"in the background":           {[]string{send, event("assistant.idle")}, busy},
		"ended":                       {[]string{send, event("session.shutdown")}, 0},
		"left while at work":          {[]string{send, detach, event("assistant.message_delta")}, left},
		"come back to":                {[]string{send, detach, `>{"id":"3","method":"session.resume","params":{"sessionId":"s"}}`, event("tool.execution_start")}, busy},
		"not the keeper's to judge":   {[]string{event("session.title_changed"), event("pending_messages.modified"), event("session.usage_info")}, 0},
		"neither object nor sessions": {[]string{`<[1]`, `<{"method":"session.event","params":[1]}`, `>null`, `>{"method":7}`, `<rubbish`}, 0},
	} {
		w := newWork()
		for _, line := range c.wire {
			if line[0] == '>' {
				w.said([]byte(line[1:]))
			} else {
				w.heard([]byte(line[1:]))
			}
		}
		if got := w.sessions["s"]; got != c.want || w.any() != (c.want != 0 && c.want != left) {
			t.Errorf("%s: stands at %d, any %v; want %d", name, got, w.any(), c.want)
		}
	}
}
