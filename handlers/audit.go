package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/views"
)

// Audit is the record of who did what.
type Audit interface {
	Append(ctx context.Context, b journal.Batch) error
	Buffer(b journal.Batch)
	Audit(ctx context.Context, after int64) iter.Seq2[journal.AuditEntry, error]
	AuditBefore(ctx context.Context, id int64, n int) ([]journal.AuditEntry, error)
	AuditAbout(ctx context.Context, about string) ([]journal.AuditEntry, error)
	AuditFate(ctx context.Context, about string) (what string, err error)
}

// auditPage is how many entries a page shows: some screens of a phone.
const auditPage = 50

// record notes what a device has done at the door, and to which device or passkey: its
// id, and what it is called. Where the disk refuses, it waits in memory.
func (s *Server) record(c echo.Context, by journal.Device, what, about, called string) {
	e := journal.AuditEntry{Time: time.Now().UnixMilli(), Actor: by.ID, Name: by.Name, Address: reachOf(c.Request()).From.String(), What: what, About: about}
	if called != "" {
		e.Detail, _ = json.Marshal(map[string]string{"title": called}) // strings always encode
	}
	b := journal.Batch{Audit: []journal.AuditEntry{e}}
	if err := s.Audit.Append(context.WithoutCancel(c.Request().Context()), b); err != nil {
		s.Log.Error("an entry of the audit is not on disk yet", "what", what, "err", err)
		s.Audit.Buffer(b)
	}
}

// deviceName is what a device is called, "" if it is not in any more.
func (s *Server) deviceName(c echo.Context, id string) string {
	all, _ := s.Auth.Devices(c.Request().Context()) // without, it is called by its id
	for _, d := range all {
		if d.ID == id {
			return d.Name
		}
	}
	return ""
}

func (s *Server) audit(c echo.Context) error {
	before, _ := strconv.ParseInt(c.QueryParam("before"), 10, 64) // what is no number is the newest
	entries, err := s.Audit.AuditBefore(c.Request().Context(), before, auditPage)
	if err != nil {
		return err
	}
	list, older := make([]views.AuditEntry, len(entries)), int64(0)
	for i, x := range entries {
		list[i] = auditEntry(x)
		if list[i].Decided != nil {
			if list[i].Fate, err = s.Audit.AuditFate(c.Request().Context(), x.About); err != nil {
				return err
			}
		}
		older = x.ID
	}
	if older == 1 || len(entries) == 0 {
		older = 0
	}
	return s.render(c, http.StatusOK, views.AuditPage(list, older))
}

// auditEntry shows a decision, and what came after it.
func (s *Server) auditEntry(c echo.Context) error {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || id < 1 {
		return problemNoPage
	}
	found, err := s.Audit.AuditBefore(c.Request().Context(), id+1, 1)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].ID != id {
		return problemNoPage
	}
	e := auditEntry(found[0])
	if e.Decided == nil {
		return problemNoPage
	}
	about, err := s.Audit.AuditAbout(c.Request().Context(), found[0].About)
	if err != nil {
		return err
	}
	var after []views.AuditEntry
	for _, x := range about {
		if x.ID > id {
			after = append(after, auditEntry(x))
		}
	}
	return s.render(c, http.StatusOK, views.AuditEntryPage(e, after))
}

// auditEntry makes of an entry what a page shows. What a former nod has written
// into one tells less.
func auditEntry(x journal.AuditEntry) views.AuditEntry {
	e := views.AuditEntry{ID: x.ID, Time: x.Time, Who: x.Name, Address: x.Address, What: x.What}
	if e.Who == "" {
		e.Who = x.Actor
	}
	var a approvals.Approval
	if state.Unmarshal(x.Detail, &a) == nil && a.Decision != nil && a.Request.Session != "" {
		e.Decided, e.Title = &a, a.Request.Title
		return e
	}
	var of struct{ Title string }
	if json.Unmarshal(x.Detail, &of) == nil {
		e.Title = of.Title
	}
	return e
}

// auditExport sends all of it, one entry a line, as long as the device may see it.
// A browser sees that one which was cut is not whole.
func (s *Server) auditExport(c echo.Context) error {
	return s.download(c, "nod-audit.jsonl", jsonLines, func(ctx context.Context, w io.Writer) error {
		return journal.WriteAudit(w, s.Audit.Audit(ctx, 0))
	})
}

const jsonLines = "application/jsonl; charset=utf-8"

// download sends a file to keep, as long as its device is logged in.
func (s *Server) download(c echo.Context, name, kind string, write func(context.Context, io.Writer) error) error {
	ctx, release := s.Auth.Hold(c.Request().Context(), device(c))
	defer release()
	if _, err := s.Auth.Who(c.Request()); err != nil { // who was logged out before Hold
		return problemLogin
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, kind)
	h.Set(echo.HeaderContentDisposition, `attachment; filename="`+name+`"`)
	c.Response().WriteHeader(http.StatusOK)
	w := &frameWriter{ctx: ctx, ResponseWriter: c.Response(), control: http.NewResponseController(c.Response())}
	defer w.guard()()
	only := struct{ io.Writer }{w} // templ would call Flush, which is for events
	if err := cmp.Or(write(ctx, only), w.send()); err != nil {
		s.Log.Warn("a download was cut", "file", name, "err", err)
		panic(http.ErrAbortHandler) // or it would look whole
	}
	return nil
}
