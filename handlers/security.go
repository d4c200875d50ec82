package handlers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"nod/handlers/auth"
	"nod/state/journal"
	"nod/views"
)

// knownHost refuses requests that were addressed to another name: a page
// elsewhere can point a name of its own at this machine, but not change what its
// visitors' browsers write into Host.
func (s *Server) knownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		port := "80"
		if r.TLS != nil {
			port = "443"
		}
		if !hostAllowed(r.Host, port, s.Port, local, s.PublicHosts) {
			s.refuse(problemHost).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed reports whether host, a Host header, names this server, which is at a
// port. usual is the port that a header leaves out.
func hostAllowed(host, usual string, port int, local net.Addr, public []string) bool {
	host = strings.ToLower(host)
	if name, p, ok := strings.Cut(host, ".:"); ok { // the last dot of a name says nothing
		host = name + ":" + p
	}
	host = strings.TrimSuffix(host, ".")
	if slices.ContainsFunc(public, func(p string) bool { return strings.ToLower(p) == host }) {
		return true
	}
	name, p, err := net.SplitHostPort(host)
	if err != nil {
		name, p = strings.Trim(host, "[]"), usual
	}
	if p != strconv.Itoa(port) {
		return false
	}
	if name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	if ip == nil {
		return false
	}
	tcp, ok := local.(*net.TCPAddr)
	return ip.IsLoopback() || ok && ip.Equal(tcp.IP)
}

// isolate keeps other sites from using what a browser knows about this one: from
// elsewhere one may follow a link to a page, and nothing more.
func (s *Server) isolate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "cross-site", "same-site":
			visit := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
			if !visit {
				s.refuse(problemCrossSite).ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxLogged is how many bytes of a stranger's word the log holds.
const maxLogged = 200

// refuse answers with a problem before any page is chosen.
func (s *Server) refuse(p *userError) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.limiter.logs.Allow() {
			begin := func(text string) string { return text[:min(len(text), maxLogged)] }
			s.Log.Warn("refused", "code", p.Code, "method", r.Method, "host", begin(r.Host), "origin", begin(r.Header.Get("Origin")), "site", begin(r.Header.Get("Sec-Fetch-Site")))
		}
		secureHeaders(w.Header(), "")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(p.Status)
		_, _ = fmt.Fprintf(w, "%s\n%s\n(%s)\n", p.Title, p.Next, p.Code)
	})
}

// secureHeaders sets what every response carries. The nonce is of the page's own
// script; "" allows none.
func secureHeaders(h http.Header, nonce string) {
	script := "'none'"
	if nonce != "" {
		script = "'nonce-" + nonce + "'"
	}
	h.Set("Content-Security-Policy", "default-src 'none'; script-src "+script+"; style-src 'self'; img-src 'self'; font-src 'self'; "+
		"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "+
		"require-trusted-types-for 'script'; trusted-types nod")
	h.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer a form would post "Origin: null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}

// page gives every request what its page needs: headers, nonce, base path.
func (s *Server) page(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		nonce := rand.Text()
		secureHeaders(c.Response().Header(), nonce)
		ctx := templ.WithNonce(s.pages(c.Request().Context()), nonce)
		if !reachOf(c.Request()).control() {
			ctx = views.WithViewOnly(ctx, onlyLook)
		}
		c.SetRequest(c.Request().WithContext(ctx))
		if c.Request().Method == http.MethodOptions {
			return echo.ErrMethodNotAllowed // echo itself would tell which methods there are
		}
		return next(c)
	}
}

// pages returns a context that pages can be drawn in.
func (s *Server) pages(ctx context.Context) context.Context {
	ctx = views.WithOwn(views.WithBase(ctx, s.BasePath), s.Own)
	if s.Redactor != nil {
		ctx = views.WithSharing(ctx)
	}
	return ctx
}

// onlyLook stands above every page that came over a network in the clear.
const onlyLook = "You can look on here, and nothing more: this connection is not encrypted. Others in the network can read what you see, and your login with it. " +
	"To approve and to write, open nod over https or through an SSH tunnel; docs/phone.md tells how."

type deviceKey struct{}

// device returns who sent the request, on routes that are not public.
func device(c echo.Context) journal.Device {
	d, _ := c.Request().Context().Value(deviceKey{}).(journal.Device)
	return d
}

// allow lets those in who may use a route.
func (s *Server) allow(who scope) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if r.Method == http.MethodPost {
				if err := checkForm(r, uploads(c)); err != nil {
					return err
				}
			}
			if who == public {
				return next(c)
			}
			d, err := s.Auth.Who(r)
			if err == nil && loads(r) && s.Auth.MayRenew(r, d) {
				var cookie *http.Cookie
				if cookie, d, err = s.Auth.Renew(r, d); err == nil {
					c.SetCookie(cookie)
				}
			}
			if errors.Is(err, auth.ErrNotLoggedIn) {
				return problemLogin
			} else if err != nil {
				return err
			}
			ctx := context.WithValue(r.Context(), deviceKey{}, d)
			switch {
			case who >= operate && !reachOf(r).control():
				return problemTLS
			case who >= operate && d.Scope != auth.ScopeOperate:
				return problemLooks
			case d.Scope != auth.ScopeOperate && views.ViewOnly(ctx) == "":
				ctx = views.WithViewOnly(ctx, "This browser may look and not touch. One that may operate can let it do more, under Devices.")
			case who == own && !s.Auth.MayChangeDoor(d):
				return s.goTo(c, "/verify?next="+url.QueryEscape(nextPage(r, s.BasePath)))
			}
			c.SetRequest(r.WithContext(ctx))
			return next(c)
		}
	}
}

// loads reports whether a request is for a page of its own, of which a browser
// makes one at a time. Older browsers, and all without TLS, do not say so, but ask
// for HTML.
func loads(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Method == http.MethodPost || mode == "navigate" || mode == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// nextPage is where a person goes on who was asked for a proof: to the page that
// they wanted, or to the one that led to what they did.
func nextPage(r *http.Request, base string) string {
	if r.Method == http.MethodGet {
		return strings.TrimPrefix(r.URL.Path, base)
	}
	return "/devices"
}

// checkForm takes only what a form of ours would send. A browser always says
// where a post comes from.
func checkForm(r *http.Request, upload bool) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" && !upload || r.Header.Get("Content-Encoding") != "" {
		return problemForm
	}
	if len(r.Cookies()) > 0 && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return problemCrossSite
	}
	return nil
}

// accessLog writes one line for each request: the route, never the address,
// which could hold somebody's secret.
func (s *Server) accessLog(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		level := slog.LevelDebug
		if c.Response().Status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
		s.Log.Log(c.Request().Context(), level, "request", "from", c.RealIP(), "method", c.Request().Method, "route", c.Path(),
			"status", c.Response().Status, "ms", time.Since(start).Milliseconds(), "bytes", c.Response().Size)
		return nil
	}
}

// recover turns a panic into an error with its place, which is logged and not shown.
// One that ends an answer in its middle goes on.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p) // it cuts the connection
			default:
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}
