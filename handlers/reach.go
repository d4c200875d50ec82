package handlers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"nod/views"
)

// reach says how a request came to nod. It lets nobody in: only a login does,
// also on this machine.
type reach struct {
	From   netip.Addr // who asks, as trusted proxies tell it; the zero Addr if nobody knows
	Secure bool       // the browser speaks TLS: with nod, or with a trusted proxy that says so
	Local  bool       // it has not left this machine, as far as can be told: nobody has passed it on
	Proxy  netip.Addr // who sent it and speaks for somebody else, without being trusted; mostly the zero Addr
}

// control reports whether somebody who is logged in may change anything. Over a
// network without TLS anybody on the way could read the login along and do the same.
func (r reach) control() bool { return r.Secure || r.Local }

// transportSecurity keeps a browser on TLS for half a year after it has seen nod
// there. Names below nod's own are not nod's.
const transportSecurity = "max-age=15552000"

type reachKey struct{}

// reachOf returns how a request came.
func reachOf(r *http.Request) reach {
	how, _ := r.Context().Value(reachKey{}).(reach)
	return how
}

// Secure reports whether the browser that sent a request speaks TLS, with nod or
// with a trusted proxy.
func Secure(r *http.Request) bool { return reachOf(r).Secure }

// Private reports whether nobody on the way of a request could read it along.
func Private(r *http.Request) bool { return reachOf(r).control() }

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
				how.Proxy, how.Local = peer, false
			}
		}
		if s.Exposed && !peer.IsLoopback() && !s.trusts(peer) {
			s.refuse(problemDirect).ServeHTTP(w, r)
			return
		}
		if name, _, _ := strings.Cut(strings.ToLower(r.Host), ":"); r.TLS != nil && name != "localhost" {
			// Not for a proxy, nor for localhost: what else is under that name, at any
			// port, is not ours to decide.
			w.Header().Set("Strict-Transport-Security", transportSecurity)
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

// strangeProxy is said to the owner, with the proxy's address.
const strangeProxy = "A proxy at %s passes on requests, and nod does not believe what it says of them: whose they are, and that they came over TLS. " +
	"If it is yours, name its address in trusted_proxies and start nod again; docs/phone.md tells more."

// overNetwork tells the owner of a proxy that nod does not trust, and only when
// somebody came through it who is logged in: anybody can claim to be one.
func (s *Server) overNetwork(r route) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			how := reachOf(c.Request())
			if how.Proxy.IsValid() && r.scope != public && s.strange.CompareAndSwap(nil, &how.Proxy) {
				s.Log.Warn("a proxy passes on requests and is not trusted: what it says of them is ignored", "proxy", how.Proxy, "setting", "trusted_proxies")
			}
			if p := s.strange.Load(); p != nil {
				c.SetRequest(c.Request().WithContext(views.WithNotice(c.Request().Context(), fmt.Sprintf(strangeProxy, *p))))
			}
			return next(c)
		}
	}
}

// below takes requests at BasePath, and those of a proxy that has taken it off.
func (s *Server) below(next http.Handler) http.Handler {
	if s.BasePath == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case path == s.BasePath:
			secureHeaders(w.Header(), "")
			http.Redirect(w, r, s.BasePath+"/", http.StatusSeeOther)
			return
		case !strings.HasPrefix(path, s.BasePath+"/"):
			r = r.Clone(r.Context())
			if r.URL.Path = s.BasePath + r.URL.Path; r.URL.RawPath != "" {
				r.URL.RawPath = s.BasePath + r.URL.RawPath
			}
		}
		next.ServeHTTP(w, r)
	})
}
