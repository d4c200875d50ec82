package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nod/state"
)

func (c *conn) askPermissions(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	details, ok := permissionDetails(p.Permissions)
	if ok && len(details) == 0 {
		return false
	}
	r.Kind, r.Title, r.Details, r.Explains = state.RequestPermissions, "Allow more than this session may?", details, "decline"
	r.Options = []state.ConfirmationOption{
		{ID: "turn", Label: "Allow for this turn", Kind: state.OptionApprove},
		{ID: "session", Label: "Allow for this session", Kind: state.OptionApprove, Group: new(state.ForSession)},
		{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
	}
	r.Caution = caution(r.Params, "threadId", "turnId", "itemId", "startedAtMs", "environmentId", "reason", "cwd", "permissions")
	if !ok {
		r.Caution = cannotShow("permissions")
	}
	c.askFree(ctx, th, r)
	return true
}

// grant gives what was asked for, to the byte, or nothing.
func grant(_ state.Request, p requestParams, d state.Decision) any {
	if d.OptionID == "decline" {
		return map[string]any{"permissions": struct{}{}, "scope": "turn"}
	}
	return map[string]any{"permissions": p.Permissions, "scope": d.OptionID}
}

// permissionProfile is what Codex may be granted beyond its sandbox.
type permissionProfile struct {
	FileSystem *struct {
		Read    []string          `json:"read"`
		Write   []string          `json:"write"`
		Entries []permissionEntry `json:"entries"` // the same, in newer versions
		Depth   *int              `json:"globScanMaxDepth"`
	} `json:"fileSystem"`
	Network *struct {
		Enabled *bool `json:"enabled"`
	} `json:"network"`
}

type permissionEntry struct {
	Access string `json:"access"` // read, write, deny
	Path   struct {
		Type    string `json:"type"` // path, glob_pattern, special
		Path    string `json:"path"`
		Pattern string `json:"pattern"`
		Value   struct {
			Kind    string `json:"kind"`
			Path    string `json:"path"`
			Subpath string `json:"subpath"`
		} `json:"value"`
	} `json:"path"`
}

// specialPaths are folders that Codex knows by a word.
var specialPaths = map[string]string{
	"root": "the whole disk, /", "minimal": "what every program needs of the system", "project_roots": "the folders of the project",
	"tmpdir": "the folder for temporary files, $TMPDIR", "slash_tmp": "/tmp",
}

// place is where an entry points to, "" if nod does not know.
func (e permissionEntry) place() string {
	switch e.Path.Type {
	case "path":
		return e.Path.Path
	case "glob_pattern":
		return e.Path.Pattern + " (a pattern)"
	case "special":
		if words := specialPaths[e.Path.Value.Kind]; words != "" && e.Path.Value.Subpath != "" {
			return words + ": " + e.Path.Value.Subpath
		}
		return specialPaths[e.Path.Value.Kind]
	}
	return ""
}

// permissionDetails tells a profile in words. ok is false if that is not all of it.
func permissionDetails(raw json.RawMessage) (details []state.Detail, ok bool) {
	var p permissionProfile
	if len(raw) == 0 {
		return nil, true
	}
	if !strictly(raw, &p) {
		return nil, false
	}
	places := map[string][]string{}
	add := func(access, place string) {
		if !slices.Contains(places[access], place) {
			places[access] = append(places[access], place)
		}
	}
	if fs := p.FileSystem; fs != nil {
		for _, path := range fs.Read {
			add("read", path)
		}
		for _, path := range fs.Write {
			add("write", path)
		}
		for _, e := range fs.Entries {
			if e.place() == "" || !slices.Contains([]string{"read", "write", "deny"}, e.Access) {
				return nil, false
			}
			add(e.Access, e.place())
		}
		for _, access := range []struct{ word, label string }{{"write", "To write, and read"}, {"read", "To read"}, {"deny", "Not to touch"}} {
			if list := places[access.word]; len(list) > 0 {
				details = append(details, state.Detail{Label: access.label, Text: strings.Join(list, "\n")})
			}
		}
		if fs.Depth != nil {
			details = append(details, state.Detail{Label: "Patterns look into folders", Text: fmt.Sprintf("down to level %d", *fs.Depth)})
		}
	}
	if p.Network != nil && p.Network.Enabled != nil {
		text := "any host, without asking"
		if !*p.Network.Enabled {
			text = "nothing"
		}
		details = append(details, state.Detail{Label: "To reach over the network", Text: text})
	}
	return details, true
}
