package handlers

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimitUnsent looks at what the kernel says of an accepted connection.
func TestLimitUnsent(t *testing.T) {
	got := make(chan int, 1)
	look := func(ctx context.Context, c net.Conn) context.Context {
		ctx = limitUnsent(ctx, c)
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
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnContext = look
	s.Start()
	defer s.Close()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if n := <-got; n != notSent {
		t.Errorf("%d bytes", n)
	}
}
