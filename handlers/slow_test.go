package handlers

import (
	"bytes"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestR36OneByteASecond: a browser that reads a byte a second never lets a write
// finish in time. Its stream ends, with all that runs for it.
func TestR36OneByteASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		browser, server := net.Pipe()
		began, ended := time.Now(), make(chan time.Time, 1)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f := &frameWriter{ctx: r.Context(), ResponseWriter: w, control: http.NewResponseController(w), ready: make(chan struct{}, 1)}
			defer f.guard()()
			for frame := bytes.Repeat([]byte("x"), 10_000); ; {
				_, _ = f.Write(frame)
				f.Flush()
				<-f.ready
				if f.send() != nil {
					ended <- time.Now()
					return
				}
			}
		})}
		go func() { _ = srv.Serve(&single{conn: server, closed: make(chan struct{})}) }()
		_, _ = browser.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		read := 0
		for one := make([]byte, 1); ; read++ {
			if _, err := browser.Read(one); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if after := (<-ended).Sub(began); after > 15*time.Second || read == 0 {
			t.Errorf("it ends after %v and %d bytes", after, read)
		}
		_ = srv.Close()
	})
}

// single is a listener with one connection to give.
type single struct {
	conn   net.Conn
	closed chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	if c := s.conn; c != nil {
		s.conn = nil
		return c, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

func (s *single) Close() error { close(s.closed); return nil }

func (s *single) Addr() net.Addr { return &net.TCPAddr{} }
