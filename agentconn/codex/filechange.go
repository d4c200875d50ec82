package codex

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"nod/state"
)

type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"` // add, delete, update
		MovePath string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"` // the whole text for add and delete, hunks for update
}

func fileNames(cs []fileChange) string {
	const most = 3
	var names []string
	for i, f := range cs {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(cs)-most))
			break
		}
		names = append(names, f.Path)
	}
	return strings.Join(names, ", ")
}

// unified makes one unified diff of Codex's changes: it sends hunks for an
// update, but the bare text of a file that is added or deleted.
func unified(cs []fileChange) string {
	var b strings.Builder
	for _, f := range cs {
		from, to := f.Path, f.Path
		if f.Kind.MovePath != "" {
			to = f.Kind.MovePath
		}
		switch f.Kind.Type {
		case "add":
			from = "/dev/null"
		case "delete":
			to = "/dev/null"
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", headerName(from), headerName(to))
		switch f.Kind.Type {
		case "add":
			whole(&b, "+", f.Diff)
		case "delete":
			whole(&b, "-", f.Diff)
		default:
			b.WriteString(f.Diff)
			if !strings.HasSuffix(f.Diff, "\n") {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// headerName quotes a name that could be taken for more than a name.
func headerName(path string) string {
	if strings.ContainsFunc(path, unicode.IsControl) || strings.HasPrefix(path, `"`) {
		return strconv.Quote(path)
	}
	return path
}

func whole(b *strings.Builder, sign, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if sign == "+" {
		fmt.Fprintf(b, "@@ -0,0 +1,%d @@\n", len(lines))
	} else {
		fmt.Fprintf(b, "@@ -1,%d +0,0 @@\n", len(lines))
	}
	for _, l := range lines {
		b.WriteString(sign + l + "\n")
	}
}

func fileEdits(cs []fileChange) []state.ToolResultContent {
	var out []state.ToolResultContent
	for _, f := range cs {
		e := state.ToolResultContent{Type: "fileEdit", Diff: diffSize(f)}
		side := func(path string) *state.FileSide {
			uri := state.FileURI(path)
			ref, _ := json.Marshal(map[string]string{"uri": uri}) // strings always encode
			return &state.FileSide{URI: uri, Content: ref}
		}
		if f.Kind.Type != "add" {
			e.Before = side(f.Path)
		}
		switch {
		case f.Kind.MovePath != "":
			e.After = side(f.Kind.MovePath)
		case f.Kind.Type != "delete":
			e.After = side(f.Path)
		}
		out = append(out, e)
	}
	return out
}

func diffSize(f fileChange) *state.DiffSize {
	n := int64(0)
	for range strings.Lines(f.Diff) {
		n++
	}
	switch f.Kind.Type {
	case "add":
		return &state.DiffSize{Added: &n}
	case "delete":
		return &state.DiffSize{Removed: &n}
	}
	var added, removed int64
	for l := range strings.Lines(f.Diff) {
		switch l[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return &state.DiffSize{Added: &added, Removed: &removed}
}
