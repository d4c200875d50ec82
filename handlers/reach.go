package handlers

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// reach says how a request came to nod. It lets nobody in: only a login does,
// also on this machine.
type reach struct {
	From   netip.Addr // who asks, as trusted proxies tell it; the zero Addr if nobody knows
	Secure bool       // the browser speaks TLS: with nod, or with a trusted proxy that says so
	Local  bool       // it has not left this machine, as far as can be told
	Proxy  netip.Addr // who sent it and speaks for somebody else, without being trusted; mostly the zero Addr
}

// control reports whether somebody who is logged in may change anything. Over a
// network without TLS anybody on the way could read the login along and do the same.
func (r reach) control() bool { return r.Secure || r.Local }

type reachKey struct{}

// reachOf returns how a request came.
func reachOf(r *http.Request) reach {
	how, _ := r.Context().Value(reachKey{}).(reach)
	return how
}

// reached finds out how a request came, before anything else is asked of it.
func (s *Server) reached(next http.Handler) http.Handler {
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range s.TrustedProxies {
		_, ipNet, err := net.ParseCIDR(p.Masked().String())
		if err != nil {
			panic(err) // a prefix is one
		}
		trust = append(trust, echo.TrustIPRange(ipNet))
	}
	from := echo.ExtractIPFromXFFHeader(trust...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := addressOf(echo.ExtractIPDirect()(r))
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		tcp, ok := local.(*net.TCPAddr)
		how := reach{From: addressOf(from(r)), Secure: r.TLS != nil, Local: ok && tcp.IP.IsLoopback() && peer.IsLoopback()}
		if proto := r.Header.Values(echo.HeaderXForwardedProto); len(proto) > 0 || r.Header.Get(echo.HeaderXForwardedFor) != "" || r.Header.Get("Forwarded") != "" {
			if s.trusts(peer) {
				how.Secure, how.Local = how.Secure || saysTLS(proto), false
			} else {
				how.Proxy = peer
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), reachKey{}, how)))
	})
}

// trusts reports whether a proxy at that address is believed.
func (s *Server) trusts(peer netip.Addr) bool {
	for _, p := range s.TrustedProxies {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// saysTLS reports whether every proxy on the way was spoken to over TLS.
func saysTLS(protos []string) bool {
	for p := range strings.SplitSeq(strings.Join(protos, ","), ",") {
		if !strings.EqualFold(strings.TrimSpace(p), "https") {
			return false
		}
	}
	return true
}

// addressOf reads an address; what is none is the zero Addr.
func addressOf(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a.Unmap()
}
