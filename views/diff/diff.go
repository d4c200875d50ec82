// Package diff reads unified diffs so that a page can show them file by file
// and line by line. Agents and models write diffs by hand: headers are missing,
// counts are wrong, a hunk is a bare "@@". So [Parse] never fails and hides
// nothing a reader would miss; what it cannot place it keeps as a note. It is for
// looking, not for applying.
//
// A diff says twice where a hunk ends, by its counts and by what comes next.
// Here what comes next decides. The counts are asked only where a header could
// as well be a changed line: "--- x" is also how the removal of "-- x" looks.
package diff

import (
	"strconv"
	"strings"
)

// FileKind says what happens to a file.
type FileKind string

// What can happen to a file. A copy is an Add that has an OldName.
const (
	Update FileKind = "update"
	Add    FileKind = "add"
	Delete FileKind = "delete"
	Rename FileKind = "rename" // with or without changes inside
	Binary FileKind = "binary" // changed in any way, but not shown
)

// LineKind says what a line is.
type LineKind string

// The kinds of lines.
const (
	Hunk    LineKind = "hunk"
	Plus    LineKind = "add"
	Minus   LineKind = "del"
	Context LineKind = "ctx"
	Note    LineKind = "note" // not part of either file: modes, "\ No newline", whatever does not fit
)

// File is what a diff says about one file.
type File struct {
	Name    string // where it is afterwards, or was if it is deleted; "" if the diff does not say
	OldName string // where it came from, if that is another name
	Kind    FileKind
	Added   int // lines added and removed, kept or not
	Removed int
	Count   int    // lines, kept or not
	Size    int    // bytes of them, with their signs and ends
	Lines   []Line // those that are kept
}

// Line is one line of a diff.
type Line struct {
	Kind LineKind
	Text string // without the sign in front; the whole line for Hunk and Note
	Old  int    // line number before and after, or 0 if there is none
	New  int
}

// Parse reads s and keeps the lines for which keep says so, which is asked about
// each line of each file in order, both counted from 0. Those it does not keep are
// counted. The texts are parts of s, not copies. If the first line ends with CRLF
// all line ends are taken to; else a CR belongs to its line.
func Parse(s string, keep func(file, line int) bool) []File {
	p := parser{rest: s, keep: keep}
	if first, _, ok := strings.Cut(s, "\n"); ok && strings.HasSuffix(first, "\r") {
		p.eol = "\r"
	}
	for p.rest != "" {
		p.line(p.next())
	}
	return p.files
}

type parser struct {
	rest  string // not read yet
	eol   string // what to take off the end of every line
	keep  func(file, line int) bool
	files []File

	// of the last file
	header bool // its header may go on
	binary bool // the lines of a binary patch follow

	// of the last hunk
	hunk             bool // there is one
	counted          bool // it came with counts
	old, new         int  // next line numbers, 0 if unknown
	oldLeft, newLeft int  // lines that are to come by the counts
}

func (p *parser) next() string {
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	return strings.TrimSuffix(line, p.eol)
}

// peek reports whether the lines to come begin with the given prefixes.
func (p *parser) peek(prefixes ...string) bool {
	rest := p.rest
	for _, prefix := range prefixes {
		if !strings.HasPrefix(rest, prefix) {
			return false
		}
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return true
}

func (p *parser) line(s string) {
	switch {
	case strings.HasPrefix(s, "diff -"):
		p.start(s)
	case strings.HasPrefix(s, "Binary files ") && strings.HasSuffix(s, " differ"):
		p.binaryFiles(s)
	case p.header && p.extended(s):
	case p.isNames(s):
		p.names(s)
	case strings.HasPrefix(s, "@@"):
		p.openHunk(s)
	case p.binary:
		p.note(s)
	case s == "-- " && p.complete(): // a mail's signature follows
		p.endHunk()
		p.note(s)
	default:
		p.body(s)
	}
}

// file returns the file that lines go to.
func (p *parser) file() *File {
	if len(p.files) == 0 {
		p.add(File{Kind: Update})
	}
	return &p.files[len(p.files)-1]
}

func (p *parser) add(f File) {
	p.files = append(p.files, f)
	p.header, p.binary = false, false
	p.endHunk()
}

func (p *parser) endHunk() {
	p.hunk, p.counted = false, false
	p.old, p.new, p.oldLeft, p.newLeft = 0, 0, 0, 0
}

func (p *parser) put(l Line) {
	f := p.file()
	f.Size += len(l.Text) + len("\n")
	switch l.Kind {
	case Plus:
		f.Added++
		f.Size++
	case Minus:
		f.Removed++
		f.Size++
	case Context:
		f.Size++
	}
	if p.keep(len(p.files)-1, f.Count) {
		f.Lines = append(f.Lines, l)
	}
	f.Count++
}

func (p *parser) note(s string) { p.put(Line{Kind: Note, Text: s}) }

// complete reports whether the counts say that the hunk is at its end.
func (p *parser) complete() bool {
	return p.hunk && p.counted && p.oldLeft <= 0 && p.newLeft <= 0
}

// body reads a line by its sign, in a hunk or where there should be one.
func (p *parser) body(s string) {
	if s == "" {
		if !p.hunk || p.complete() {
			return // a gap between files
		}
		s = " " // a blank line of context that lost its sign
	}
	sign, text := s[0], s[1:]
	switch {
	case sign == '+':
		p.put(Line{Kind: Plus, Text: text, New: count(&p.new)})
		p.newLeft--
	case sign == '-':
		p.put(Line{Kind: Minus, Text: text, Old: count(&p.old)})
		p.oldLeft--
	case sign == ' ' && p.hunk:
		p.put(Line{Kind: Context, Text: text, Old: count(&p.old), New: count(&p.new)})
		p.oldLeft--
		p.newLeft--
	default:
		p.note(s)
	}
}

// count returns *n and moves it on, unless it is 0 for unknown.
func count(n *int) int {
	v := *n
	if v > 0 {
		*n++
	}
	return v
}

func (p *parser) openHunk(s string) {
	p.file() // a file begun later would forget the hunk
	p.endHunk()
	p.header, p.binary, p.hunk = false, false, true
	if f := strings.SplitN(s, " ", 4); len(f) > 2 && f[0] == "@@" {
		old, oldLeft, ok1 := span(f[1], "-")
		new, newLeft, ok2 := span(f[2], "+")
		if ok1 && ok2 {
			p.old, p.oldLeft, p.new, p.newLeft, p.counted = old, oldLeft, new, newLeft, true
		}
	}
	p.put(Line{Kind: Hunk, Text: s, Old: p.old, New: p.new})
}

// span reads "-12,3": where a hunk begins and how many lines it has.
func span(s, sign string) (start, n int, ok bool) {
	s, ok = strings.CutPrefix(s, sign)
	first, num, more := strings.Cut(s, ",")
	if !more {
		num = "1"
	}
	a, err1 := strconv.ParseUint(first, 10, 31)
	b, err2 := strconv.ParseUint(num, 10, 31)
	return int(a), int(b), ok && err1 == nil && err2 == nil
}

// isNames reports whether s is the first line of "--- old", "+++ new".
func (p *parser) isNames(s string) bool {
	old, new := strings.HasPrefix(s, "--- "), strings.HasPrefix(s, "+++ ")
	switch {
	case !old && !new:
		return false
	case !p.hunk && p.header: // expected here, even one alone
		return true
	case new:
		return !p.hunk && p.peek("@@")
	case !p.hunk:
		return p.peek("+++ ") || p.peek("@@")
	case p.oldLeft == 1 && p.newLeft == 1: // both lines still belong to the hunk
		return false
	case p.complete():
		return p.peek("+++ ")
	}
	return p.peek("+++ ", "@@")
}

// names reads the header lines with the names, and begins a file unless one has
// just begun.
func (p *parser) names(s string) {
	old, new := "", ""
	if rest, ok := strings.CutPrefix(s, "--- "); ok {
		old = name(rest)
		if p.peek("+++ ") {
			new = name(p.next()[len("+++ "):])
		}
	} else {
		new = name(s[len("+++ "):])
	}
	old, new = unprefix(old, new)
	if !p.header || p.file().Kind == Rename && p.file().Name != new { // a rename ends without names
		p.add(File{Kind: Update})
	}
	f := p.file()
	switch {
	case old == null && new == null:
	case old == null:
		f.Name = new
		if f.Kind == Update {
			f.Kind = Add
		}
	case new == null:
		f.Name = old
		if f.Kind == Update {
			f.Kind = Delete
		}
	case new == "":
		f.Name = old
	default:
		f.Name = new
		if old != "" && old != new && f.OldName == "" {
			f.OldName = old
		}
	}
	p.header = false
}

const null = "/dev/null"

// name reads a file name as the headers have it: quoted if it holds odd
// characters, and with a time behind a tab.
func name(s string) string {
	if q, err := strconv.QuotedPrefix(s); err == nil && s[0] == '"' {
		if u, err := strconv.Unquote(q); err == nil {
			return u
		}
	}
	s, _, _ = strings.Cut(s, "\t")
	return strings.TrimRight(s, " \r")
}

// unprefix takes a/ and b/ off, if they are what git puts before the names.
func unprefix(old, new string) (string, string) {
	o, okOld := strings.CutPrefix(old, "a/")
	n, okNew := strings.CutPrefix(new, "b/")
	switch {
	case okOld && okNew:
		return o, n
	case okOld && (new == null || new == ""):
		return o, new
	case okNew && (old == null || old == ""):
		return old, n
	}
	return old, new
}

// start begins a file with a "diff" line.
func (p *parser) start(s string) {
	f := File{Kind: Update}
	if rest, ok := strings.CutPrefix(s, "diff --git "); ok {
		old, new := gitNames(rest)
		f.Name = new
		if old != new {
			f.OldName = old
		}
	} else if i := strings.LastIndexByte(s, ' '); i > 0 { // diff -u old new, diff --cc name
		f.Name = name(s[i+1:])
	}
	p.add(f)
	p.header = true
}

// gitNames reads "a/x b/y". The names may hold spaces; then only equal ones
// tell where the first ends. A rename says its names again further down.
func gitNames(s string) (old, new string) {
	if q, err := strconv.QuotedPrefix(s); err == nil && s[0] == '"' {
		return unprefix(name(q), name(strings.TrimPrefix(s[len(q):], " ")))
	}
	if i := len(s) / 2; len(s)%2 == 1 && s[i] == ' ' {
		if old, new = unprefix(s[:i], s[i+1:]); old == new {
			return old, new
		}
	}
	i := strings.Index(s, " b/")
	if i < 0 {
		i = strings.Index(s, ` "b/`)
	}
	if i < 0 {
		i = strings.IndexByte(s, ' ')
	}
	if i < 0 {
		return name(s), name(s)
	}
	return unprefix(s[:i], name(s[i+1:]))
}

// headers are the lines git puts between "diff" and the names.
var headers = []string{
	"new file mode ", "deleted file mode ", "old mode ", "new mode ", "rename from ", "rename to ", "copy from ", "copy to ",
	"index ", "similarity index ", "dissimilarity index ", "GIT binary patch",
}

// extended reads one of them.
func (p *parser) extended(s string) bool {
	f := p.file()
	for _, h := range headers {
		rest, ok := strings.CutPrefix(s, h)
		if !ok {
			continue
		}
		switch h {
		case "new file mode ":
			f.Kind = Add
			if strings.TrimSpace(rest) != "100644" { // a program or a symbolic link
				p.note(s)
			}
		case "deleted file mode ":
			f.Kind = Delete
		case "old mode ", "new mode ":
			p.note(s)
		case "rename from ":
			f.Kind, f.OldName = Rename, name(rest)
		case "rename to ":
			f.Kind, f.Name = Rename, name(rest)
		case "copy from ":
			f.Kind, f.OldName = Add, name(rest)
		case "copy to ":
			f.Kind, f.Name = Add, name(rest)
		case "GIT binary patch":
			f.Kind = Binary
			p.header, p.binary = false, true
			p.note(s)
		}
		return true
	}
	return false
}

// binaryFiles reads "Binary files x and y differ", which ends a git header or
// stands alone.
func (p *parser) binaryFiles(s string) {
	if !p.header {
		names := strings.TrimSuffix(strings.TrimPrefix(s, "Binary files "), " differ")
		old, new, _ := strings.Cut(names, " and ")
		old, new = unprefix(name(old), name(new))
		f := File{Name: new}
		switch {
		case new == null || new == "":
			f.Name = old
		case old != new && old != null:
			f.OldName = old
		}
		p.add(f)
	}
	p.file().Kind = Binary
	p.note(s)
}
