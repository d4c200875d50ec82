package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nod/agentconn/plain"
	"nod/state"
)

// ---- what is in force ----

// workplace is where a session works.
type workplace struct {
	Cwd    string `json:"cwd"`
	Branch string `json:"branch"`
}

type openedData struct {
	Model   string    `json:"selectedModel"`
	Effort  string    `json:"reasoningEffort"`
	Context workplace `json:"context"`
}

// opened: a session was started, or opened again.
func (a *agent) opened(ctx context.Context, p openedData) {
	a.modelIs(p.Model)
	a.configure(map[string]string{settingEffort: p.Effort})
	a.folderChanged(ctx, p.Context)
}

// configure shows which settings are in force. A sub-agent has none of its own.
func (a *agent) configure(values map[string]string) {
	s := a.session
	changed := map[string]jsontext.Value{}
	for name, v := range values {
		if v = plain.Shorten(v, 100); v != "" && v != s.config[name] && a == s.main {
			changed[name] = plain.Value(v)
			s.config[name] = v
		}
	}
	if len(changed) > 0 {
		a.apply(&state.SessionConfigChanged{Config: changed})
	}
}

func (a *agent) modelIs(id string) {
	if id = plain.Shorten(id, 100); id != "" {
		a.configure(map[string]string{settingModel: id})
		a.apply(&state.SessionModelChanged{Model: state.ModelSelection{ID: id}})
	}
}

type modelChange struct {
	Previous string `json:"previousModel"`
	New      string `json:"newModel"`
	Effort   string `json:"reasoningEffort"`
	Cause    string `json:"cause"`
}

// modelChanged is told in words if it was not a person who has chosen the model.
func (a *agent) modelChanged(_ context.Context, p modelChange) {
	a.modelIs(p.New)
	a.configure(map[string]string{settingEffort: p.Effort})
	if p.Cause != "" && p.Cause != "initial_resolution" && p.Previous != "" && p.Previous != p.New {
		a.note(warnNote, "Another model answers: "+plain.Shorten(p.New, 100)+" in place of "+plain.Shorten(p.Previous, 100)+" ("+plain.Words(p.Cause)+").")
	}
}

type modelResolution struct {
	Chosen   string `json:"chosenModel"`
	Fallback bool   `json:"fallback"`
	Why      string `json:"fallbackReason"`
}

func (a *agent) modelResolved(_ context.Context, p modelResolution) {
	a.modelIs(p.Chosen)
	if p.Fallback {
		a.note(plainNote, "Auto could not choose a model"+inBrackets(plain.Words(p.Why))+", so "+plain.Shorten(p.Chosen, 100)+" answers.")
	}
}

func (a *agent) modeChanged(_ context.Context, p struct {
	Mode string `json:"newMode"`
}) {
	a.configure(map[string]string{settingMode: p.Mode})
}

type permissionsChange struct {
	Mode     string `json:"mode"`                // manual, assisted, allow-all
	AllowAll *bool  `json:"allowAllPermissions"` // of an older CLI
}

// permissionsChanged is told in words if nobody is asked any more.
func (a *agent) permissionsChanged(_ context.Context, p permissionsChange) {
	mode := p.Mode
	if mode == "" && p.AllowAll != nil {
		if mode = "manual"; *p.AllowAll {
			mode = allowAll
		}
	}
	if mode == allowAll && a.session.config[settingPermissions] != allowAll {
		a.note(warnNote, "From here on Copilot asks for no approval in this session: somebody has allowed everything.")
	}
	a.configure(map[string]string{settingPermissions: mode})
}

const allowAll = "allow-all"

// titled: Copilot has a title, or has been given one by a person.
func (a *agent) titled(_ context.Context, p struct {
	Title string `json:"title"`
}) {
	s := a.session
	title := state.TitleOf(p.Title)
	if a != s.main || title == "" || title == s.name {
		return
	}
	// The first one is made of the first message, as nod's is; a person may have given
	// the session another one since.
	first := s.name == ""
	s.name = title
	a.remember(nameKey, title)
	if first && s.titled {
		return
	}
	s.titled = true
	a.apply(&state.SessionTitleChanged{Title: title})
}

// nameKey is the key of that title in a session's _meta.
const nameKey = "nod.name"

// folderChanged is told if it is not where the session was.
func (a *agent) folderChanged(_ context.Context, p workplace) {
	s := a.session
	was := s.works
	if s.works = p; was == (workplace{}) || a != s.main {
		return
	}
	if p.Cwd != was.Cwd && p.Cwd != "" {
		a.note(plainNote, "Copilot works in "+plain.Shorten(p.Cwd, 500)+" from here on.")
	}
	if p.Branch != was.Branch && p.Branch != "" {
		a.note(plainNote, "The folder is on the branch “"+plain.Shorten(p.Branch, 200)+"” from here on.")
	}
}

// ---- todos ----

// todosChanged: the todos are other ones, but it does not say which.
func (a *agent) todosChanged(context.Context, struct{}) {
	switch s := a.session; {
	case s.room.todos == nil:
	case s.catching:
		s.replans = true
	default:
		s.room.todos(s.id)
	}
}

// planned shows the todos.
func (a *agent) planned(raw json.RawMessage) error {
	var p struct {
		Rows []struct {
			ID          string `json:"id"`
			Title       string `json:"title"`
			Description string `json:"description"`
			Status      string `json:"status"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	type step struct {
		Step   string `json:"step"`
		Status string `json:"status"`
	}
	steps := []step{}
	for _, r := range p.Rows {
		status := "pending"
		switch r.Status {
		case "done":
			status = "completed"
		case "in_progress":
			status = "inProgress"
		}
		steps = append(steps, step{plain.Shorten(cmp.Or(r.Title, r.Description, r.ID), 300), status})
	}
	a.remember("nod.plan", steps)
	return nil
}

// ---- how much is used ----

// quota is how much of what an account may use is left.
type quota struct {
	Unlimited bool      `json:"isUnlimitedEntitlement"`
	Entitled  float64   `json:"entitlementRequests"`
	Left      float64   `json:"remainingPercentage"`
	GoesOn    bool      `json:"usageAllowedWithExhaustedQuota"`
	ResetAt   time.Time `json:"resetDate"`
}

// nearlyUsed is from how many percent on a quota is told.
const nearlyUsed = 90

// tellQuota says that a quota is nearly used up, and when it is. Of one
// period the words are the same, so that it is not told again.
func (a *agent) tellQuota(name string, q quota) {
	if q.Unlimited || q.Entitled <= 0 || q.Left > 100-nearlyUsed {
		return
	}
	sentence := "90 % or more is used of the quota of "
	if q.Left <= 0 {
		sentence = "All is used of the quota of "
	}
	sentence += plain.Shorten(plain.Words(name), 80)
	if q.Left <= 0 && q.GoesOn {
		sentence += ", and what comes is paid for"
	}
	if !q.ResetAt.IsZero() {
		sentence += ". It begins anew on " + q.ResetAt.UTC().Format("2 January at 15:04 UTC")
	}
	a.noteOnce(warnNote, sentence+".")
}

type quotaObservation struct {
	Observation struct {
		ID       string `json:"quotaId"`
		Capacity string `json:"capacityState"`
		Budget   *struct {
			Unlimited bool    `json:"unlimited"`
			Entitled  float64 `json:"entitlement"`
			Left      float64 `json:"remainingPercentage"`
			GoesOn    bool    `json:"usageAllowedWhenExhausted"`
			ResetAt   int64   `json:"resetAtEpochMs"`
		} `json:"budgetMetadata"`
	} `json:"observation"`
}

func (a *agent) quotaObserved(_ context.Context, p quotaObservation) {
	switch o := p.Observation; {
	case o.Budget != nil:
		q := quota{Unlimited: o.Budget.Unlimited, Entitled: o.Budget.Entitled, Left: o.Budget.Left, GoesOn: o.Budget.GoesOn}
		if o.Budget.ResetAt > 0 {
			q.ResetAt = time.UnixMilli(o.Budget.ResetAt)
		}
		a.tellQuota(o.ID, q)
	case o.Capacity == "exhausted":
		a.tellQuota(o.ID, quota{Entitled: 1})
	}
}

type totals struct {
	Type    string `json:"shutdownType"`
	Why     string `json:"errorReason"`
	Changes struct {
		Added   int64    `json:"linesAdded"`
		Removed int64    `json:"linesRemoved"`
		Files   []string `json:"filesModified"`
	} `json:"codeChanges"`
	Requests float64 `json:"totalPremiumRequests"`
}

// shutDown: the last client has left, and the session's work is dropped. What it has
// come to is kept.
func (a *agent) shutDown(_ context.Context, p totals) {
	if a != a.session.main {
		return
	}
	if p.Type == "error" {
		a.note(warnNote, plain.Joined(": ", "Copilot has closed this session because of an error", p.Why))
	}
	a.remember("nod.totals", struct {
		Added    int64   `json:"added"`
		Removed  int64   `json:"removed"`
		Files    int     `json:"files"`
		Requests float64 `json:"requests"`
	}{p.Changes.Added, p.Changes.Removed, len(p.Changes.Files), p.Requests})
	if len(a.session.asks) > 0 { // that is kept, and goes on when somebody comes
		return
	}
	for _, sub := range a.session.subs {
		sub.cancel()
	}
	if a.stepping {
		a.note(warnNote, "Copilot was left by its last client in the middle of this, and has dropped it.")
		a.cancel()
	}
	a.end()
}

// ---- right now ----

// activity handles an event that says what the agent does.
func activity(words string) handler {
	return on(func(a *agent, _ context.Context, _ struct{}) { a.activity(words) })
}

func (a *agent) intends(_ context.Context, p struct {
	Intent string `json:"intent"`
}) {
	if p.Intent == "" {
		a.quiet()
	}
	a.activity(p.Intent)
}

func (a *agent) serverToolRuns(_ context.Context, p struct {
	Kind   string `json:"kind"`
	Status string `json:"status"`
}) {
	a.activity("The model's provider runs a tool: " + plain.Joined(", ", plain.Words(p.Kind), plain.Words(p.Status)))
}

func (a *agent) compacts(context.Context, struct{}) {
	a.activity("Copilot sums up the conversation to make room")
}

func (a *agent) phaseStarted(_ context.Context, p struct {
	Model string `json:"model"`
	Role  string `json:"role"`
}) {
	a.activity(plain.Shorten(p.Model, 80) + " works on this" + inBrackets(plain.Words(p.Role)))
}

func (a *agent) hookProgress(_ context.Context, p struct {
	Message string `json:"message"`
}) {
	a.activity(p.Message)
}

func (a *agent) pluginsPrepared(_ context.Context, p struct {
	Phase   string   `json:"phase"`
	Plugins []string `json:"pluginSpecs"`
}) {
	if p.Phase == "complete" {
		a.quiet()
		return
	}
	a.activity("Prepares plugins of the organization: " + strings.Join(p.Plugins, ", "))
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// ---- attachments ----

// maxAttachments is how many attachments of a message are named.
const maxAttachments = 50

type attachment struct {
	Type     string `json:"type"`
	Name     string `json:"displayName"`
	Path     string `json:"path"`
	FilePath string `json:"filePath"`
	MimeType string `json:"mimeType"`
	Title    string `json:"title"`
	URL      string `json:"url"`
}

// attachments names what goes along with a message: nod loads nothing.
func attachments(raw json.RawMessage) (out []state.MessageAttachment) {
	var all []attachment
	_ = json.Unmarshal(raw, &all) // of what is odd there is less
	for _, x := range all[:min(len(all), maxAttachments)] {
		path, file := cmp.Or(x.Path, x.FilePath), ""
		if path != "" {
			file = filepath.Base(path)
		}
		a := state.MessageAttachment{
			Type: "simple", ContentType: state.Optional(plain.Shorten(x.MimeType, 100)),
			Label: plain.Shorten(cmp.Or(x.Name, x.Title, x.URL, file, plain.Words(x.Type)), 200),
		}
		switch {
		case filepath.IsAbs(path):
			a.Type, a.URI = "resource", new(state.FileURI(path))
		case strings.HasPrefix(x.URL, "https://"):
			a.Type, a.URI = "resource", new(plain.Shorten(x.URL, 1000))
		}
		switch {
		case strings.HasPrefix(x.MimeType, "image/"):
			a.DisplayKind = new("image")
		case x.Type == "directory" || x.Type == "selection":
			a.DisplayKind = new(x.Type)
		}
		out = append(out, a)
	}
	return out
}

// labels are the names of attachments, in a line.
func labels(raw json.RawMessage) string {
	var names []string
	for _, x := range attachments(raw) {
		names = append(names, x.Label)
	}
	return strings.Join(names, ", ")
}
