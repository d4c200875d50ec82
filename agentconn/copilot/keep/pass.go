package keep

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLooked is the size up to which a message is held whole, to be looked at. A
	// longer one streams through: what the keeper looks for is short.
	maxLooked = 16 << 20
	// maxHead is the size of the lines before a message: there is one, of 30 bytes.
	maxHead = 4 << 10
	// askTimeout bounds the keeper's own question to the server.
	askTimeout = 10 * time.Second
)

// errCut is the error of a connection that ended within a message of which the
// begin has been passed on.
var errCut = errors.New("keep: it ended within a message")

// pass passes messages between nod and the server until one of them ends the
// connection. If it is nod, the connection to the server stays until no session on
// it is at work: Copilot stops a session's turn when its last client leaves.
func (k *keeper) pass(nod net.Conn, in *bufio.Reader, server net.Conn) {
	w := newWork()
	var gone, cut atomic.Bool
	settle := func() {
		if !gone.Load() {
			return
		}
		if !cut.Load() {
			for _, q := range w.questions() {
				_ = server.SetWriteDeadline(time.Now().Add(askTimeout))
				_, _ = server.Write(q) // if it fails, the connection is about to end
			}
		}
		if !w.any() {
			_ = server.Close()
		}
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		err := relay(server, in, w.said)
		_ = nod.Close()
		cut.Store(errors.Is(err, errCut))
		gone.Store(true)
		if w.any() {
			k.log.Info("nod has left while a session is at work", "err", err)
		}
		settle()
	})
	err := relay(&toNod{Conn: nod}, bufio.NewReaderSize(server, 64<<10), func(m []byte) {
		w.heard(m)
		settle()
	})
	if err != io.EOF && !errors.Is(err, net.ErrClosed) {
		k.log.Warn("the server is lost", "err", err)
	}
	_, _ = nod.Close(), server.Close()
	sending.Wait()
}

// toNod writes to nod as long as it is there, and waits for it: so the server waits
// for a slow nod too.
type toNod struct {
	net.Conn
	gone bool
}

func (t *toNod) Write(p []byte) (int, error) {
	if !t.gone {
		_, err := t.Conn.Write(p)
		t.gone = err != nil
	}
	return len(p), nil
}

// relay passes whole messages on as they are, and shows each before it goes.
func relay(to io.Writer, from *bufio.Reader, look func([]byte)) error {
	for {
		head, n, err := readHead(from)
		switch {
		case err != nil:
			return err
		case n > maxLooked:
			if _, err := to.Write(head); err != nil {
				return err
			}
			if _, err := io.CopyN(to, from, n); err != nil {
				return errors.Join(errCut, err)
			}
			continue
		}
		whole := append(head, make([]byte, n)...)
		if _, err := io.ReadFull(from, whole[len(head):]); err != nil {
			return err
		}
		look(whole[len(head):])
		if _, err := to.Write(whole); err != nil {
			return err
		}
	}
}

// readHead reads the lines before a message, and how long it is.
func readHead(r *bufio.Reader) (head []byte, n int64, err error) {
	n = -1
	for {
		line, err := r.ReadSlice('\n')
		head = append(head, line...)
		if err != nil {
			return nil, 0, err
		}
		if len(head) > maxHead {
			return nil, 0, errors.New("keep: what should be a message has no begin")
		}
		name, value, _ := strings.Cut(string(bytes.TrimSpace(line)), ":")
		if strings.EqualFold(name, "Content-Length") {
			if n, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil || n < 0 {
				return nil, 0, fmt.Errorf("keep: a message of the length %.40q", value)
			}
		}
		if name == "" && n >= 0 {
			return head, n, nil
		} else if name == "" {
			return nil, 0, errors.New("keep: a message without a length")
		}
	}
}

// frame is a message as it is sent.
func frame(body []byte) []byte {
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
}
