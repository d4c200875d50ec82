package copilot

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"

	"nod/agentconn"
	"nod/agentconn/plain"
)

// outlined is how deep the words lie that say who asks what kind of thing.
const outlined = 5

// maxCall bounds, in bytes, a call that nod makes: a text, and images.
const maxCall = 64 << 20

// message is any JSON-RPC message, as far as nod looks at it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`

	long *agentconn.Outline // of which this was read, because the message is too long; else nil
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// tap stands between the SDK and the server, because the SDK tells less than what
// comes: it passes over fields and events that it does not know, and an answer that
// holds one such event is an error to it. Whatever the server says by itself goes to
// nod alone, as it came; the SDK makes calls and gets their answers. Of some answers
// nod reads what came, too.
type tap struct {
	server net.Conn
	sdk    net.Conn
	log    *slog.Logger
	// onMessage gets what the server says by itself, in the order of the wire.
	onMessage func(message)

	writing sync.Mutex // to sdk

	mu       sync.Mutex
	wanted   []*wanted          // answers that nod reads, and whose calls have not been made yet
	inFlight map[string]*wanted // calls that wait, by id; nil for an answer that only the SDK reads
	lost     bool
}

// wanted is an answer that nod reads before the SDK gets it.
type wanted struct {
	method, about string
	read          func(json.RawMessage) error
	done          bool
	err           error
}

// want has the answer to the next call of a method, about the session or the request
// of that id, read on the reader's goroutine, in the order of the wire.
func (t *tap) want(method, about string, read func(json.RawMessage) error) *wanted {
	w := &wanted{method: method, about: about, read: read}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = append(t.wanted, w)
	return w
}

// forget gives an answer up, and reports whether it was read, and how.
func (t *tap) forget(w *wanted) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, x := range t.wanted {
		if x == w {
			t.wanted = append(t.wanted[:i:i], t.wanted[i+1:]...)
			break
		}
	}
	for id, x := range t.inFlight {
		if x == w {
			t.inFlight[id] = nil
		}
	}
	return w.done, w.err
}

// listen takes the one connection of the SDK, on a port of this machine.
func listen(ctx context.Context) (address string, accept func() (net.Conn, error), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	return l.Addr().String(), func() (net.Conn, error) {
		defer stop()
		c, err := l.Accept()
		_ = l.Close() // nobody else is let in
		return c, err
	}, nil
}

// readFrame reads a message with its header. A body that is longer than most is nil: it
// lies in the reader still.
func readFrame(r *bufio.Reader, most int64) (body []byte, length int64, err error) {
	length = -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, 0, err
		}
		text := strings.TrimSpace(string(line))
		if text == "" && length >= 0 {
			break
		}
		if name, value, ok := strings.Cut(text, ":"); ok && strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil || length < 0 {
				return nil, 0, fmt.Errorf("copilot: a message without a length: %q", text)
			}
		} else if text != "" && !ok {
			return nil, 0, errors.New("copilot: what comes is not JSON-RPC")
		}
	}
	if length > most {
		return nil, length, nil
	}
	body = make([]byte, length)
	_, err = io.ReadFull(r, body)
	return body, length, err
}

// answer passes an answer on to the SDK.
func (t *tap) answer(body []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return writeFrame(t.sdk, body)
}

// passOver reads the outline of what is too long to be read. If it is an answer, its call
// ends; nothing that the server asks is answered.
func (t *tap) passOver(r *bufio.Reader, length int64) error {
	m, long := message{}, &agentconn.Outline{Depth: outlined}
	if _, err := io.CopyN(long, r, length); err != nil {
		return err
	}
	err := json.Unmarshal(long.Bytes(), &m)
	t.log.Warn("a message is longer than nod reads", "bytes", length, "method", plain.Shorten(m.Method, 80), "err", err)
	if m.Method != "" || m.ID == nil {
		m.long = long
		t.onMessage(m)
		return nil
	}
	if w := t.taken(string(m.ID)); w != nil {
		t.mu.Lock()
		w.done, w.err = true, &longAnswer{m.Result, long}
		t.mu.Unlock()
	}
	t.refuse(string(m.ID), errTooLong.Error())
	return nil
}

// taken returns who reads the answer to a call, nil if nobody does. It has come now.
func (t *tap) taken(id string) *wanted {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.inFlight[id]
	delete(t.inFlight, id)
	return w
}

// refuse ends a call in the server's place. The SDK itself would wait for ever.
func (t *tap) refuse(id, why string) {
	_ = t.answer(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%q}}`, id, why)) // it may be gone, too
}

// lostLink is why a call ends that the server cannot answer.
const lostLink = "the link is lost"

// lose ends all calls that wait, and those that come.
func (t *tap) lose() {
	t.mu.Lock()
	waiting := t.inFlight
	t.lost, t.inFlight = true, nil
	t.mu.Unlock()
	for id := range waiting {
		t.refuse(id, lostLink)
	}
}

func writeFrame(w io.Writer, body []byte) error {
	_, err := w.Write(append(fmt.Appendf(make([]byte, 0, len(body)+32), "Content-Length: %d\r\n\r\n", len(body)), body...))
	return err
}

// fromServer reads what the server says until its end.
func (t *tap) fromServer() error {
	r := bufio.NewReaderSize(t.server, 64<<10)
	for {
		body, length, err := readFrame(r, agentconn.MaxMessage)
		if err != nil {
			return err
		}
		if body == nil {
			if err := t.passOver(r, length); err != nil {
				return err
			}
			continue
		}
		var m message
		if json.Unmarshal(body, &m) != nil {
			return errors.New("copilot: a message that is no JSON")
		}
		if m.Method != "" {
			t.onMessage(m)
			continue
		}
		if w := t.taken(string(m.ID)); w != nil && m.Error == nil {
			err := w.read(m.Result)
			t.mu.Lock()
			w.done, w.err = true, err
			t.mu.Unlock()
		}
		if err := t.answer(body); err != nil {
			return err
		}
	}
}

// fromSDK passes calls on until the SDK is done.
func (t *tap) fromSDK() error {
	r := bufio.NewReaderSize(t.sdk, 64<<10)
	for {
		body, length, err := readFrame(r, maxCall)
		if err != nil {
			return err
		}
		if body == nil {
			return fmt.Errorf("copilot: a call of %d bytes is too long", length)
		}
		id, lost := t.note(body)
		if !lost && writeFrame(t.server, body) != nil {
			lost = true
		}
		if lost && id != "" {
			t.refuse(id, lostLink)
		}
	}
}

// note remembers a call, and looks whether its answer is wanted.
func (t *tap) note(body []byte) (id string, lost bool) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			SessionID string `json:"sessionId"`
			RequestID string `json:"requestId"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &m) != nil || m.Method == "" {
		return "", false
	}
	id = string(m.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost {
		return id, true
	}
	t.inFlight[id] = nil
	for i, w := range t.wanted {
		if w.method == m.Method && (w.about == m.Params.SessionID || w.about == m.Params.RequestID) {
			t.wanted = append(t.wanted[:i:i], t.wanted[i+1:]...)
			t.inFlight[id] = w
			break
		}
	}
	return id, false
}
