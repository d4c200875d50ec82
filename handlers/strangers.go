package handlers

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// strangers are the connections on which nobody has logged in, in the order in
// which they came. Of too many the oldest is closed: whoever opens connections and
// says nothing makes room for those who do.
type strangers struct {
	most int

	mu    sync.Mutex
	order *list.List // of net.Conn
	at    map[net.Conn]*list.Element
}

func newStrangers(most int) *strangers {
	return &strangers{most: most, order: list.New(), at: map[net.Conn]*list.Element{}}
}

type connectionKey struct{}

// came is http.Server's ConnContext.
func (s *strangers) came(ctx context.Context, c net.Conn) context.Context {
	if oldest := s.add(c); oldest != nil {
		// A farewell over TLS could wait for whoever does not read, and with it all who
		// come after.
		if over, ok := oldest.(interface{ NetConn() net.Conn }); ok {
			oldest = over.NetConn()
		}
		_ = oldest.Close()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// add returns the connection that has to go for another one, nil if there is room.
func (s *strangers) add(c net.Conn) (oldest net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[c] = s.order.PushBack(c)
	if s.order.Len() > s.most {
		oldest = s.order.Remove(s.order.Front()).(net.Conn)
		delete(s.at, oldest)
	}
	return oldest
}

// went is its ConnState.
func (s *strangers) went(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		s.forget(c)
	}
}

// known says that whoever sends this request has logged in.
func (s *strangers) known(r *http.Request) {
	if c, ok := r.Context().Value(connectionKey{}).(net.Conn); ok {
		s.forget(c)
	}
}

func (s *strangers) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.at[c]; e != nil {
		s.order.Remove(e)
		delete(s.at, c)
	}
}

// count is how many there are.
func (s *strangers) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}
