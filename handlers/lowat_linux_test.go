package handlers

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimitUnsent looks at what the kernel says of an accepted connection.
func TestLimitUnsent(t *testing.T) {
	s := newSite(t)
	got := make(chan int, 1)
	was := s.srv.Config.ConnContext
	s.srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		ctx = was(ctx, c)
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Error(err)
		}
		err = raw.Control(func(fd uintptr) {
			n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
			if err != nil {
				t.Error(err)
			}
			select {
			case got <- n:
			default:
			}
		})
		if err != nil {
			t.Error(err)
		}
		return ctx
	}
	s.in.CloseIdleConnections()
	s.get(s.in, "/")
	if n := <-got; n != notSent {
		t.Errorf("%d bytes", n)
	}
}
