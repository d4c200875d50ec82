// Package handlers is nod's door: HTTP in, pages out.
//
// The route table below is the map: what there is, and who may ask for it. Every
// handler goes the same way: who, what, check, do, answer. Handlers return
// errors; errors.go turns them into pages. Only stream.go knows how pages are
// kept live.
package handlers

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"nod/handlers/auth"
	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// Hub is what the handlers need of the live truth.
type Hub interface {
	Inbox() snapshot.Inbox
	Session(id string) (snapshot.Session, error)
	Since(id string, seq uint64) (snapshot.Session, []snapshot.Part, error)
	ApprovalView(ctx context.Context, id string) (*approvals.Approval, snapshot.Session, error)
	Watch(id string) (<-chan struct{}, func())
	Whole(ctx context.Context, id string, w state.Whole) (string, error)

	Create(ctx context.Context, n state.NewSession, prompt string) (id string, err error)
	Send(ctx context.Context, id string, m state.Message) error
	Steer(ctx context.Context, id string, m state.Message) error
	Queue(ctx context.Context, id string, m state.Message) error
	SendQueued(ctx context.Context, id, message string) error
	SteerQueued(ctx context.Context, id, message string) error
	Requeue(ctx context.Context, id, message, text string) error
	Unqueue(ctx context.Context, id, message string) error
	Rename(ctx context.Context, id, title string) error
	Operate(ctx context.Context, id, operation string, args map[string]string) (other string, err error)
	Stop(ctx context.Context, id string) error
	StopAll(ctx context.Context, id string) error
	Archived() []snapshot.Session
	Archive(ctx context.Context, id string, archived bool) error
	Delete(ctx context.Context, id string) error
	Readmit(uri string)
	Tell(sentence string)
	Hush()
	Decide(ctx context.Context, actor, approvalID, digest, nonce string, d state.Decision) (*approvals.Approval, error)
}

// Agents is what the handlers ask of agents themselves.
type Agents interface {
	// Settings describes what can be chosen for a new session of a provider.
	Settings(ctx context.Context, provider string) []state.Setting
	// Older returns a page of the sessions that a provider keeps, and Recall makes
	// one of them known to the hub.
	Older(ctx context.Context, provider, search, cursor string) (state.OlderPage, error)
	Recall(ctx context.Context, provider, uri string) error
	// Connect makes the link of that key, again if it is up and can be made again.
	Connect(ctx context.Context, key string) error
}

// Config is what a server is made of. All fields but PublicHosts, BasePath, Own
// and TrustedProxies are needed.
type Config struct {
	Hub         Hub
	Agents      Agents
	Epoch       string // of the Hub
	Auth        *auth.Auth
	Audit       Audit
	Log         *slog.Logger
	Port        int      // that the server listens on
	PublicHosts []string // further values of Host that are ours
	BasePath    string   // "" or a path that begins with a slash and does not end with one
	StartFolder string   // suggested for the first session
	Own         []string // files and folders of nod's own: a card says if a request names one
	Limits      Limits   // the zero Limits stand for DefaultLimits

	TrustedProxies []netip.Prefix // who may say for whom they ask, and whether over TLS
	Exposed        bool           // the internet may lead here, without TLS: only these and this machine are answered
}

// Server answers requests. It implements http.Handler.
type Server struct {
	Config
	echo    *echo.Echo
	handler http.Handler
	streams *streams
	feeds   *feeds
	limiter *limiter
	outside *strangers
	strange atomic.Pointer[netip.Addr] // of a proxy that was met and is not trusted
}

// scope says who may use a route.
type scope int

const (
	public  scope = iota // anybody who reaches the port
	look                 // a device that is in
	operate              // a device that is in and may operate
	own                  // the same, whose person has just proved to be there
)

type route struct {
	method, path string
	scope        scope
	handle       func(*Server, echo.Context) error
}

// routes is the whole table. A test walks it and fails on a route that lets
// somebody in whom it should not.
var routes = []route{
	{"GET", "/healthz", public, (*Server).health},
	{"GET", "/static/:name", public, (*Server).static},
	{"GET", "/login", public, (*Server).loginForm},
	{"POST", "/login", public, (*Server).login},   // token, password or assertion
	{"GET", "/join", public, (*Server).joinForm},  // what a scanned code leads to
	{"POST", "/join", public, (*Server).join},     // token
	{"GET", "/join/wait", public, (*Server).wait}, // with the cookie of the one before
	{"POST", "/logout", look, (*Server).logout},

	{"GET", "/devices", operate, (*Server).devices},
	{"POST", "/devices/:id/end", operate, (*Server).endDevice},   // id: of a device
	{"POST", "/devices/:id/name", operate, (*Server).nameDevice}, // name
	{"POST", "/devices/:id/look", operate, (*Server).letLook},    // and no more
	{"POST", "/devices/:id/operate", own, (*Server).letOperate},
	{"POST", "/devices/end-others", operate, (*Server).endOthers},
	{"POST", "/pair", own, (*Server).offer},
	{"GET", "/pair/:offer", operate, (*Server).offered},
	{"POST", "/pair/:offer", operate, (*Server).confirmPair}, // number
	{"GET", "/verify", operate, (*Server).verifyForm},        // ?next=path
	{"POST", "/verify", operate, (*Server).verify},           // a proof; next
	{"GET", "/password", own, (*Server).passwordForm},
	{"POST", "/password", own, (*Server).setPassword}, // password, again
	{"GET", "/passkeys/new", own, (*Server).passkeyForm},
	{"POST", "/passkeys", own, (*Server).addPasskey}, // attestation, name
	{"POST", "/passkeys/:key/remove", own, (*Server).removePasskey},

	{"GET", "/audit", operate, (*Server).audit},          // ?before=id
	{"GET", "/audit/:id", operate, (*Server).auditEntry}, // id: of an entry that is a decision
	{"GET", "/audit.jsonl", operate, (*Server).auditExport},
	{"POST", "/notices/end", operate, (*Server).endNotices},

	{"GET", "/", look, (*Server).inbox},
	{"GET", "/live", look, (*Server).inboxLive},

	{"GET", "/new", operate, (*Server).newForm},
	{"POST", "/new", operate, (*Server).create},

	{"GET", "/s/:id", look, (*Server).session},                    // id: of a session
	{"GET", "/s/:id/live", look, (*Server).sessionLive},           // ?since=cursor
	{"POST", messagesPath, operate, (*Server).message},            // text, paths, images; how: steer, queue or nothing
	{"POST", "/s/:id/stop", operate, (*Server).stop},              // queue: empty or nothing
	{"POST", "/s/:id/queued/:message", operate, (*Server).queued}, // do: send, steer, remove or edit; text
	{"GET", "/s/:id/rename", operate, (*Server).renameForm},
	{"POST", "/s/:id/rename", operate, (*Server).rename},                            // title
	{"GET", "/s/:id/do/:operation", operate, (*Server).operationForm},               // operation: by its name
	{"POST", "/s/:id/do/:operation", operate, (*Server).operate},                    // what it asks for
	{"GET", "/s/:id/find", look, (*Server).find},                                    // ?q=text
	{"GET", "/s/:id/before/:turn/:part", look, (*Server).earlier},                   // both counted from 0
	{"GET", "/s/:id/turns/:turn/parts/:part", look, (*Server).whole},                // counted from 0
	{"GET", "/s/:id/texts/:event/:text", look, (*Server).text},                      // see state.Whole
	{"GET", "/s/:id/turns/:turn/parts/:part/files", look, (*Server).partFiles},      // ?from=file
	{"GET", "/s/:id/turns/:turn/parts/:part/files/:file", look, (*Server).partFile}, // ?from=line

	{"GET", "/older", operate, (*Server).older},   // ?agent=provider&q=text&cursor=
	{"POST", "/older", operate, (*Server).recall}, // agent, session: its URI

	{"POST", "/agents/connect", operate, (*Server).connect}, // agent: key of its link

	{"GET", "/archive", look, (*Server).archived},
	{"POST", "/s/:id/archive", operate, (*Server).archive},
	{"POST", "/s/:id/unarchive", operate, (*Server).unarchive},
	{"GET", "/s/:id/delete", operate, (*Server).deleteForm},
	{"POST", "/s/:id/delete", operate, (*Server).delete},

	{"GET", "/approvals/:id", look, (*Server).approval},                // id: of an approval
	{"POST", decidePath, operate, (*Server).decide},                    // option, digest, nonce
	{"GET", "/approvals/:id/files", look, (*Server).requestFiles},      // ?from=file
	{"GET", "/approvals/:id/files/:file", look, (*Server).requestFile}, // ?from=line
	{"GET", "/approvals/:id/raw", look, (*Server).requestRaw},
}

// decidePath is the one route that may be asked as often as one likes: to refuse.
const decidePath = "/approvals/:id"

// messagesPath is the one route that takes images, and has a limit of its own for them.
const messagesPath = "/s/:id/messages"

// New returns a server that is ready to answer.
func New(cfg Config) *Server {
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits
	}
	s := &Server{Config: cfg, echo: echo.New(), limiter: newLimiter(cfg.Limits), outside: newStrangers(cfg.Limits.Strangers)}
	s.streams, s.feeds = newStreams(s), newFeeds(s)
	e := s.echo
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.showError
	e.IPExtractor = func(r *http.Request) string { return reachOf(r).From.String() }
	e.Use(s.accessLog, s.recover, s.page, middleware.GzipWithConfig(middleware.GzipConfig{
		Skipper: func(c echo.Context) bool { return strings.HasSuffix(c.Path(), "/live") }, // streams see to it themselves
	}))
	g := e.Group(cfg.BasePath)
	for _, r := range routes {
		g.Add(r.method, r.path, func(c echo.Context) error { return r.handle(s, c) }, s.allow(r.scope), s.overNetwork(r), s.limit(r.scope, r.path))
	}
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(s.refuse(problemCrossSite))
	s.handler = s.reached(s.knownHost(s.isolate(cross.Handler(s.below(e)))))
	return s
}

// ServeHTTP checks who is addressed before it looks at what is asked.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends every stream. Register it with http.Server.RegisterOnShutdown.
func (s *Server) Close() {
	s.streams.close()
	s.feeds.close()
}

const (
	// readHeaderTimeout and idleTimeout end connections of clients that say
	// nothing. There is no WriteTimeout: it would cut streams, which set
	// deadlines of their own.
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewHTTPServer returns an http.Server with the limits that suit s. For TLS set its
// TLSConfig.
func NewHTTPServer(s *Server) *http.Server {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState:                    s.outside.went,
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return s.outside.came(limitUnsent(ctx, c), c) },
		DisableGeneralOptionsHandler: true, // it would answer to any Host
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(s.Close)
	return srv
}
