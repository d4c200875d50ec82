package agentconn

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Dialer returns a dialer for a server that the owner has named by that host. It looks
// at each address that it is about to connect to, after names were resolved: a name
// must not lead to where the owner would not send nod, whoever answers for it. An
// address of this machine or of a private network is reached only if the owner has
// named it, or localhost, itself.
func Dialer(host string) *net.Dialer {
	return &net.Dialer{ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil // a socket has a path and no name
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return mayReach(host, plainAddr(at.Addr()))
	}}
}

// CheckHost refuses a host that nod would never connect to. The error is a
// [PublicError].
func CheckHost(host string) error {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil // a name leads somewhere when it is resolved
	}
	return mayReach(host, plainAddr(ip))
}

func mayReach(host string, ip netip.Addr) error {
	if forbidden(ip) {
		return &PublicError{Message: fmt.Sprintf("nod does not link to %s: at %s there can be no agent.", host, ip)}
	}
	if !ip.IsLoopback() && !ip.IsPrivate() {
		return nil
	}
	named, err := netip.ParseAddr(host)
	if err == nil && plainAddr(named) == ip || strings.EqualFold(host, "localhost") && ip.IsLoopback() {
		return nil
	}
	return &PublicError{Message: fmt.Sprintf("The name %s leads to %s, an address of this machine or of a private network. If that is right, name the address itself in the configuration.", host, ip)}
}

// metadata are the addresses at which clouds give a machine its credentials.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("fd00:ec2::254"),
}

// forbidden reports whether there is never an agent at an address.
func forbidden(ip netip.Addr) bool {
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return slices.Contains(metadata, ip) || !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == broadcast || ip.Is4() && ip.As4()[0] == 0
}

// nat64 is where a translator puts IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// plainAddr is an address without its disguises: IPv4 within IPv6, and a zone.
func plainAddr(ip netip.Addr) netip.Addr {
	ip = ip.WithZone("").Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}
