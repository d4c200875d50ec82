package views

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/dustin/go-humanize"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
	"nod/views/diff"
	"nod/views/reveal"
)

// Bounds of what one page shows of a diff. HTML is measured, in bytes, so that it
// does not matter what makes it long. What is not shown is counted, and one link
// away.
const (
	maxFiles     = 50        // more names are not read at once
	maxFileLines = 400       // ten screens; a larger file waits until it is asked for
	maxFileHTML  = 64 << 10  // the same in bytes
	maxListHTML  = 256 << 10 // all files of a page
	maxPageLines = 1000      // of a file's own page
	maxPageHTML  = 256 << 10
	// maxLineChars is more than anybody reads of one line; maxPageLineChars is
	// what a browser still lays out at once.
	maxLineChars     = 2000
	maxPageLineChars = 64 << 10
	maxNameChars     = 1000 // few systems allow as many for a path
)

// Changes is a diff, and where its pages are.
type Changes struct {
	text    string
	prefix  string        // of its elements' ids
	base    templ.SafeURL // what the addresses of its pages begin with
	whole   templ.SafeURL // all of it, as it came
	back    templ.SafeURL // where it stands
	request bool          // somebody decides on it: the way to all of it is always there
	uncut   bool          // nothing of it is left out
}

// PartChanges is the diff of a tool call. It is empty if the part is none.
func PartChanges(ctx context.Context, s snapshot.Session, n, i int) Changes {
	p, ok := snapshot.PartAt(s.State, n, i).(*state.ToolCallPart)
	if !ok || toolInputKind(&p.ToolCall) != "diff" {
		return Changes{}
	}
	id := partID(snapshot.Part{Kind: snapshot.Response, Turn: n, Index: i})
	whole := wholeURL(ctx, s, n, i)
	return Changes{text: state.Value(p.ToolCall.ToolInput), prefix: id, base: whole, whole: whole, back: sessionURL(ctx, s, "") + templ.SafeURL("#"+id)}
}

// RequestChanges is the diff that a request is about. It is empty if there is none.
func RequestChanges(ctx context.Context, a *approvals.Approval) Changes {
	base := URL(ctx, "/approvals/%s", a.ID)
	return Changes{text: a.Request.Diff, prefix: "a-" + a.ID, base: base, whole: base + "/raw", back: base, request: true}
}

// FilesPage is the page of the files from the given one on, counted from 0; false
// if there is no such file.
func (c Changes) FilesPage(from int) (templ.Component, bool) {
	v := c.list(from)
	return filesPage(v), len(v.files) > 0
}

// FilePage is the page of one file, from the given line of its diff on, both
// counted from 0; false if there is no such line.
func (c Changes) FilePage(file, from int) (templ.Component, bool) {
	files := diff.Parse(c.text, func(f, line int) bool { return f == file && line >= from && line < from+maxPageLines })
	if file >= len(files) || from > 0 && from >= files[file].Count {
		return nil, false
	}
	v := c.file(file, files[file])
	v.draw(from, maxPageLineChars, maxPageHTML)
	v.page = true
	return filePage(v), true
}

// filesView is a row of files of a diff.
type filesView struct {
	Changes
	files    []fileView
	from, of int
	part     bool // something of the files is not shown
}

// list returns the files from the given one on: as many as a page shows, with
// their lines unless there are too many.
func (c Changes) list(from int) filesView {
	files := diff.Parse(c.text, func(f, line int) bool { return f >= from && f < from+maxFiles && line < maxFileLines })
	v := filesView{Changes: c, from: from, of: len(files), part: len(files) > maxFiles}
	lines, bytes := 0, 0 // of what is drawn, shown in the end or not: that is the work
	for i := from; i < min(from+maxFiles, len(files)); i++ {
		f := c.file(i, files[i])
		patch := f.Kind == diff.Binary && f.Count > 1 // not for people
		if f.Count <= maxFileLines && !patch && lines <= maxDiffLines && bytes <= maxListHTML {
			f.draw(0, maxLineChars, maxFileHTML)
			lines += f.Count
			bytes += len(f.html)
			if f.to < f.Count || lines > maxDiffLines || bytes > maxListHTML {
				f.html, f.to, f.cut = "", 0, false
			}
		}
		v.part = v.part || f.to < f.Count || f.cut || shortName(f.Name) != f.Name || shortName(f.OldName) != f.OldName
		v.files = append(v.files, f)
	}
	return v
}

// all returns every file with every line, uncut: what somebody decides on.
func (c Changes) all() filesView {
	c.uncut = true
	files := diff.Parse(c.text, func(int, int) bool { return true })
	v := filesView{Changes: c, of: len(files)}
	for i := range files {
		f := c.file(i, files[i])
		f.draw(0, math.MaxInt, math.MaxInt)
		v.files = append(v.files, f)
	}
	return v
}

// OnCard reports whether a card shows all of the diff.
func (c Changes) OnCard() bool { return !c.list(0).part }

// page is the address of the files from the given one on.
func (v filesView) page(from int) templ.SafeURL {
	return templ.SafeURL(fmt.Sprintf("%s/files?from=%d", v.base, max(0, from)))
}

// fileView is a file of a diff, with some of its lines or none.
type fileView struct {
	Changes
	diff.File
	index    int
	page     bool   // it stands on its own page
	from, to int    // the lines that are shown, counted from 0
	html     string // of them
	cut      bool   // some of these are not shown to their end
}

func (c Changes) file(i int, f diff.File) fileView { return fileView{Changes: c, File: f, index: i} }

// id is the same wherever the file stands, so that a script can put one for the
// other.
func (v fileView) id() string { return v.prefix + "d" + strconv.Itoa(v.index) }

// at is the address of the file's page from a line on.
func (v fileView) at(line int) templ.SafeURL {
	u := fmt.Sprintf("%s/files/%d", v.base, v.index)
	if line > 0 {
		u += "?from=" + strconv.Itoa(line)
	}
	return templ.SafeURL(u)
}

// draw makes HTML of the lines that were kept, which begin with the given one, and
// of each line so many characters; it ends when there is enough of it.
func (v *fileView) draw(from, chars, enough int) {
	var b strings.Builder
	words := diff.Words(v.Lines)
	v.from, v.to = from, from
	for i, l := range v.Lines {
		if b.Len() > enough {
			break
		}
		v.cut = writeDiffLine(&b, l, words[i], chars) || v.cut
		v.to++
	}
	v.html = b.String()
}

// writeDiffLine writes one line, of which so many characters, and what changed in
// it. What is not plain text in it shows as in revealed, but spaces and tabs stay
// what they are: code is full of them.
func writeDiffLine(b *strings.Builder, l diff.Line, changed []diff.Span, chars int) (cut bool) {
	class, sign := "", " "
	switch l.Kind {
	case diff.Plus:
		class, sign = "a", "+"
	case diff.Minus:
		class, sign = "d", "-"
	case diff.Hunk, diff.Note:
		class, sign = "h", ""
	}
	b.WriteString(`<div class="` + class + `">` + sign)
	text, more := firstChars(l.Text, chars)
	at := 0
	for _, s := range changed { // a line whose words were compared is not cut
		writeDiffText(b, text[at:s.From])
		b.WriteString(`<span class="w">`)
		writeDiffText(b, text[s.From:s.To])
		b.WriteString("</span>")
		at = s.To
	}
	writeDiffText(b, text[at:])
	if more > 0 {
		b.WriteString(`<small> … ` + comma(more) + ` characters more</small>`)
	}
	b.WriteString("</div>")
	return more > 0
}

func writeDiffText(b *strings.Builder, text string) {
	for _, r := range reveal.Reveal(text)[0] { // a line has no newline
		switch r.Kind {
		case reveal.Hidden:
			b.WriteString(`<span class="hid">` + templ.EscapeString(r.Text) + `</span>`)
		case reveal.Space:
			b.WriteString(strings.Repeat(" ", utf8.RuneCountInString(r.Text)))
		case reveal.Tab:
			b.WriteByte('\t')
		default:
			b.WriteString(templ.EscapeString(r.Text))
		}
	}
}

// firstChars returns the first n characters of s, and how many more there are.
func firstChars(s string, n int) (first string, more int) {
	if len(s) <= n {
		return s, 0
	}
	for i := range s {
		if n == 0 {
			return s[:i], utf8.RuneCountInString(s[i:])
		}
		n--
	}
	return s, 0
}

// diffLines shows drawn lines to the byte.
func diffLines(v fileView) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, `<div class="lines" tabindex="0" aria-label="Changes">`+v.html+"</div>")
		return err
	})
}

func comma(n int) string { return humanize.Comma(int64(n)) }

// commaPlural is plural for what there can be thousands of.
func commaPlural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}

// diffName names a file, and where it came from.
func diffName(v fileView) string {
	old, name := v.OldName, v.Name
	if !v.uncut {
		old, name = shortName(old), shortName(name)
	}
	if v.OldName != "" && v.OldName != v.Name {
		return old + " → " + name
	}
	return name
}

func shortName(s string) string {
	s, more := firstChars(s, maxNameChars)
	if more > 0 {
		s += " … " + commaPlural(more, "character", "characters") + " more"
	}
	return s
}

// diffWords tell what happens to a file, and how much of it there is if that is
// not to be seen.
func diffWords(v fileView) string {
	words := "+" + comma(v.Added) + " −" + comma(v.Removed)
	switch v.Kind {
	case diff.Add:
		words = "new, +" + comma(v.Added)
	case diff.Delete:
		words = "deleted, −" + comma(v.Removed)
	case diff.Rename:
		words = "moved, " + words
	case diff.Binary:
		words = "binary"
	}
	if v.to-v.from < v.Count || v.cut {
		words += ", " + size(v.Size)
	}
	return words
}
