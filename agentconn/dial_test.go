package agentconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestR21Addresses: where nod connects to, by what the owner has written and what it
// was resolved to.
func TestR21Addresses(t *testing.T) {
	for _, c := range []struct {
		host, address string
		ok            bool
	}{
		{"build.example", "93.184.215.14:443", true},
		{"build.example", "[2606:2800:21f:cb07::1]:443", true},
		{"build.example", "100.101.102.103:443", true}, // a private net of names, such as Tailscale's
		{"127.0.0.1", "127.0.0.1:4500", true},
		{"127.0.0.2", "127.0.0.2:4500", true},
		{"::1", "[::1]:4500", true},
		{"::ffff:127.0.0.1", "127.0.0.1:4500", true},
		{"localhost", "127.0.0.1:4500", true},
		{"LocalHost", "[::1]:4500", true},
		{"10.0.0.7", "10.0.0.7:443", true},
		{"fd12::7", "[fd12::7]:443", true},

		// names that lead where only an address may
		{"build.example", "127.0.0.1:443", false},
		{"build.example", "127.8.8.8:443", false},
		{"build.example", "[::1]:443", false},
		{"build.example", "10.0.0.7:443", false},
		{"build.example", "172.16.0.1:443", false},
		{"build.example", "192.168.0.1:443", false},
		{"build.example", "[fd12::7]:443", false},
		{"build.example", "[::ffff:127.0.0.1]:443", false},
		{"build.example", "[::ffff:a00:7]:443", false},
		{"build.example", "[64:ff9b::7f00:1]:443", false},
		{"localhost.evil.test", "127.0.0.1:443", false},
		{"localhost", "192.168.0.1:443", false},
		{"2130706433", "127.0.0.1:443", false}, // as some resolvers read numbers
		{"0x7f000001", "127.0.0.1:443", false},
		{"0177.0.0.1", "127.0.0.1:443", false},
		{"127.1", "127.0.0.1:443", false},
		{"10.0.0.7", "10.0.0.8:443", false},
		{"127.0.0.1", "127.0.0.2:443", false},

		// where there is never an agent, whatever is written
		{"169.254.169.254", "169.254.169.254:80", false},
		{"build.example", "169.254.169.254:80", false},
		{"build.example", "[::ffff:169.254.169.254]:80", false},
		{"build.example", "[64:ff9b::a9fe:a9fe]:80", false},
		{"fe80::1", "[fe80::1%lo]:80", false},
		{"fd00:ec2::254", "[fd00:ec2::254]:80", false},
		{"100.100.100.200", "100.100.100.200:80", false},
		{"192.0.0.192", "192.0.0.192:80", false},
		{"0.0.0.0", "0.0.0.0:80", false},
		{"0.0.0.1", "0.0.0.1:80", false},
		{"::", "[::]:80", false},
		{"224.0.0.1", "224.0.0.1:80", false},
		{"ff02::1", "[ff02::1]:80", false},
		{"255.255.255.255", "255.255.255.255:80", false},
	} {
		err := Dialer(c.host).ControlContext(t.Context(), "tcp4", c.address, nil)
		var p *PublicError
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &p) || p.Message == "") {
			t.Errorf("%s at %s: %v", c.host, c.address, err)
		}
	}
}

// TestR21Rebinding: whoever answers for a name may say another thing each time, and say
// that it is at this machine. It is looked at when the connection is made.
func TestR21Rebinding(t *testing.T) {
	var accepted atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = c.Close()
		}
	}()
	defer func() { _ = l.Close() }()
	dns, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dns.Close() }()
	go answerDNS(dns, [4]byte{127, 0, 0, 1})
	d := Dialer("build.example")
	d.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", dns.LocalAddr().String())
	}}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.DialContext(t.Context(), "tcp", "build.example.:"+port)
	if err == nil {
		_ = c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "leads to 127.0.0.1") || accepted.Load() != 0 {
		t.Errorf("it was reached: %v", err)
	}
}

// answerDNS says of every name that it is at that address.
func answerDNS(c net.PacketConn, at [4]byte) {
	b := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if m.Questions[0].Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: at}}}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = c.WriteTo(out, from)
		}
	}
}
