//go:build linux || darwin

package handlers

import (
	"context"
	"crypto/tls"
	"net"

	"golang.org/x/sys/unix"
)

// notSent is how many bytes the kernel takes for a connection before it sends
// them. It takes some 4 MiB otherwise: old frames that a slow browser would have
// to read before it sees what is true now.
const notSent = 16 << 10

// limitUnsent sets notSent on an accepted connection, which does not inherit it
// from the listener. It is for http.Server.ConnContext.
func limitUnsent(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { // without it streams work, only older
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSent)
			})
		}
	}
	return ctx
}
