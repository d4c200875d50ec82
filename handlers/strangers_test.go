package handlers

import (
	"net"
	"testing"
	"testing/synctest"
)

// deaf is a connection over TLS whose other end does not read: its farewell waits.
type deaf struct {
	net.Conn
	under net.Conn
	heard chan struct{}
}

func (d deaf) NetConn() net.Conn { return d.under }

func (d deaf) Close() error {
	<-d.heard
	return nil
}

// TestR36StrangersDoNotWait: to close one who does not read holds up nobody, and closes
// what is below it.
func TestR36StrangersDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStrangers(1)
		under, other := net.Pipe()
		d := deaf{under: under, heard: make(chan struct{})}
		s.came(t.Context(), d)
		a, _ := net.Pipe()
		came := false
		go func() {
			s.came(t.Context(), a)
			came = true
		}()
		synctest.Wait()
		if !came {
			t.Error("the next one waits")
		}
		if s.mu.TryLock() {
			s.mu.Unlock()
		} else {
			t.Error("everybody waits")
		}
		if _, err := other.Read(make([]byte, 1)); err == nil {
			t.Error("it is open")
		}
		close(d.heard)
		synctest.Wait()
	})
}
