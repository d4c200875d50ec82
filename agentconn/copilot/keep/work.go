package keep

import (
	"encoding/json"
	"strings"
	"sync"
)

// message is the little that the keeper reads of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		SessionID           string `json:"sessionId"`
		ContinuePendingWork bool   `json:"continuePendingWork"`
		Event               struct {
			Type string `json:"type"`
		} `json:"event"`
	} `json:"params"`
	Result struct {
		HasActiveWork bool `json:"hasActiveWork"`
	} `json:"result"`
}

// standing is how a session stands that is not at rest.
type standing int

const (
	called  standing = iota + 1 // asked to work, and not answered yet
	resumed                     // it goes on with its pending work, if it has any
	asked                       // and the keeper has asked which
	busy                        // at work: session.idle will come
	left                        // by nod; what is heard of it is no longer nod's
)

// work is what is known of the sessions of one connection: which are at work. It is
// learned from what passes by.
type work struct {
	mu       sync.Mutex
	sessions map[string]standing // those at rest are not in here
	calls    map[string]call     // without an answer, by id
}

type call struct{ method, session string }

func newWork() *work {
	return &work{sessions: map[string]standing{}, calls: map[string]call{}}
}

// activity is the method that tells whether a session is at work.
const activity = "session.metadata.activity"

// said looks at what goes to the server.
func (w *work) said(raw []byte) {
	var m message
	_ = json.Unmarshal(raw, &m) // what has another form is none of those below
	w.mu.Lock()
	defer w.mu.Unlock()
	id := m.Params.SessionID
	switch m.Method {
	case "session.detach", "session.destroy", "session.delete":
		w.sessions[id] = left
		return
	case "session.create", "session.resume":
		if w.sessions[id] == left {
			delete(w.sessions, id)
		}
		if !m.Params.ContinuePendingWork {
			return
		}
	case "session.send":
	default:
		return
	}
	if w.sessions[id] == 0 {
		w.sessions[id] = called
		w.calls[string(m.ID)] = call{m.Method, id}
	}
}

// heard looks at what comes from the server.
func (w *work) heard(raw []byte) {
	var m message
	_ = json.Unmarshal(raw, &m) // what has another form is none of those below
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Method == "" {
		w.answered(m)
		return
	}
	id := m.Params.SessionID
	if m.Method != "session.event" || w.sessions[id] == left {
		return
	}
	switch kind := m.Params.Event.Type; {
	case kind == "session.idle", kind == "session.shutdown": // the first comes when nothing in the background is left either
		delete(w.sessions, id)
	case kind == "user.message", strings.HasPrefix(kind, "assistant."), strings.HasPrefix(kind, "tool."), strings.HasSuffix(kind, ".requested"):
		w.sessions[id] = busy
	}
}

// answered follows a call of nod's or of the keeper's. An event that has come in
// between knows better.
func (w *work) answered(m message) {
	c, mine := w.calls[string(m.ID)]
	if !mine {
		return
	}
	delete(w.calls, string(m.ID))
	switch now := w.sessions[c.session]; {
	case now != called && now != asked:
	case m.Error != nil, now == asked && !m.Result.HasActiveWork:
		delete(w.sessions, c.session)
	case c.method == "session.resume":
		w.sessions[c.session] = resumed
	default:
		w.sessions[c.session] = busy
	}
}

// questions returns what the keeper has to ask once nod has left: a session that was
// resumed and has nothing to do tells of no end.
func (w *work) questions() (frames [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for session, how := range w.sessions {
		if how != resumed {
			continue
		}
		w.sessions[session] = asked
		id, _ := json.Marshal("nod keep " + session) // a string always has a JSON form
		w.calls[string(id)] = call{activity, session}
		body, _ := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": json.RawMessage(id), "method": activity, "params": map[string]string{"sessionId": session},
		})
		frames = append(frames, frame(body))
	}
	return frames
}

// any reports whether a session is at work, or may be.
func (w *work) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, how := range w.sessions {
		if how != left {
			return true
		}
	}
	return false
}
