package markdown

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// ownLevels are the levels of headings that a document keeps for itself.
const ownLevels = 3

// maxRounds is how often a text is looked at again after it was changed: HTML that is
// made text may uncover what stood within it.
const maxRounds = 8

// Contained returns markdown that stays in its place below a heading of a larger
// document, whoever wrote it: what it opens it closes, its headings are below the
// document's three levels, and it has no HTML, no images, no footnotes and no link
// definitions, all of which could reach further. What cannot be made so is code.
func Contained(source string) string {
	source = strings.Trim(Visible(source), "\n")
	if out, ok := contained(source); ok {
		return out
	}
	return Fence("", source)
}

// Quote is Contained as a quotation.
func Quote(source string) string {
	source = strings.Trim(Visible(source), "\n")
	if out, ok := contained(quoted(source)); ok { // first quoted: tabs are less wide then
		return out
	}
	return quoted(Fence("", source))
}

func quoted(source string) string { return "> " + strings.ReplaceAll(source, "\n", "\n> ") }

// contained makes what has to be made of source, or returns false.
func contained(source string) (string, bool) {
	src := []byte(source)
	for range maxRounds {
		edits, ok := escapes(src)
		if !ok {
			break
		}
		if len(edits) == 0 {
			return string(src), true
		}
		src = apply(src, edits)
	}
	return "", false
}

// Fence returns text as code: nothing in it ends it.
func Fence(lang, source string) string {
	source = Visible(source)
	if source != "" && !strings.HasSuffix(source, "\n") {
		source += "\n"
	}
	mark := strings.Repeat("`", max(3, 1+longestRun(source)))
	return mark + lang + "\n" + source + mark
}

// Code returns one line as code within text.
func Code(line string) string {
	line = strings.ReplaceAll(Visible(line), "\n", " ")
	if strings.TrimSpace(line) == "" {
		return ""
	}
	mark := strings.Repeat("`", 1+longestRun(line))
	if strings.Trim(line, "` ") != line {
		line = " " + line + " "
	}
	return mark + line + mark
}

// longestRun is the length of the longest run of backticks.
func longestRun(s string) (longest int) {
	for at := strings.IndexByte(s, '`'); at >= 0; at = strings.IndexByte(s, '`') {
		rest := strings.TrimLeft(s[at:], "`")
		longest = max(longest, len(s)-at-len(rest))
		s = rest
	}
	return longest
}

// special are the characters that markdown, as it is read here and elsewhere, gives a
// meaning within a line.
var special = func() *strings.Replacer {
	var pairs []string
	for _, c := range "\\`*_~[]<>#|&$@" {
		pairs = append(pairs, string(c), `\`+string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// Escape returns one line as markdown that shows it as it is.
func Escape(line string) string {
	return special.Replace(strings.ReplaceAll(Visible(line), "\n", " "))
}

// Visible names the characters that act on the text around them instead of being seen.
// A newline is the one end of a line.
func Visible(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isControl(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// edit puts text in the place of some of a source.
type edit struct {
	from, to int
	text     string
}

// apply makes edits that do not overlap.
func apply(src []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range edits {
		if e.from < at { // of an element in another; the next round makes it
			continue
		}
		out = append(append(out, src[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, src[at:]...)
}

// escapes returns what has to be changed in src, or false if that is not known: where
// the parser's bounds are reached, another one may see something else.
func escapes(src []byte) (edits []edit, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if len(src) > maxSource || bytes.Count(src, nl) > maxLines || bytes.Count(src, []byte("|")) > maxCells {
		return nil, false
	}
	probe := len(src) + 2 // a heading of the document, which has to be one
	all := slices.Concat(src, []byte("\n\n# .\n"))
	doc := dialect.Parser().Parse(text.NewReader(all), parser.WithContext(newContext(nil, 0)))
	end := doc.LastChild()
	h, closed := end.(*ast.Heading)
	closed = closed && h.Pos() == probe
	if end.Kind() == ast.KindFencedCodeBlock { // it goes on
		line, _, _ := bytes.Cut(all[end.Pos():], nl)
		return []edit{{len(src), len(src), "\n" + string(fenceMark(line))}}, true
	}
	put := func(at int, text string) { edits = append(edits, edit{at, at, text}) }
	footnote := func(line int) { // others read them
		if s := bytes.TrimLeft(all[line:], " \t"); bytes.HasPrefix(s, []byte("[^")) {
			put(len(all)-len(s), `\`)
		}
	}
	depth := 0
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Kind() == ast.KindList || n.Kind() == ast.KindBlockquote {
			depth--
			if entering {
				depth += 2
			}
		}
		if !entering || closed && n == end {
			return ast.WalkContinue, nil
		}
		if depth >= maxDepth || n.Type() == ast.TypeBlock && tooMany(n, all) {
			return ast.WalkStop, errTooLong
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level <= ownLevels {
				edits = append(edits, lower(n, all)...)
			}
		case *ast.HTMLBlock:
			for _, line := range htmlLines(n) {
				for i, c := range line.Value(all) {
					if c == '<' {
						put(line.Start+i, `\`)
					}
				}
			}
		case *ast.RawHTML:
			put(n.Segments.At(0).Start, `\`)
		case *ast.Image:
			at := n.Pos()
			if all[at] == '[' {
				at--
			}
			put(at, `\`)
		case *ast.LinkReferenceDefinition:
			put(n.Lines().At(0).Start+bytes.IndexByte(all[n.Lines().At(0).Start:], '['), `\`)
		case *ast.Paragraph, *ast.TextBlock:
			for i := range n.Lines().Len() {
				footnote(n.Lines().At(i).Start)
			}
		case *extast.TableHeader, *extast.TableRow:
			footnote(n.Pos())
		}
		return ast.WalkContinue, nil
	})
	odd := slices.ContainsFunc(edits, func(e edit) bool { return e.from < 0 || e.to < e.from || e.to > len(src) })
	return edits, err == nil && !odd && (closed || len(edits) > 0)
}

// tooMany reports whether a block may have more in it than the parser looks at.
func tooMany(n ast.Node, src []byte) bool {
	if n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock || n.Kind() == extast.KindTable {
		return false
	}
	if n.Lines().Len() > maxDefs {
		return true
	}
	marks := 0
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		for _, c := range line.Value(src) {
			if bytes.IndexByte([]byte("`*_~[]<!"), c) >= 0 {
				marks++
			}
		}
	}
	return marks > maxMarks
}

func htmlLines(n *ast.HTMLBlock) []text.Segment {
	lines := n.Lines().Sliced(0, n.Lines().Len())
	if n.HasClosure() {
		lines = append(slices.Clone(lines), n.ClosureLine)
	}
	return lines
}

// lower puts a heading below those of the document.
func lower(h *ast.Heading, src []byte) []edit {
	level := strings.Repeat("#", min(6, h.Level+ownLevels))
	if h.Lines().Len() == 0 {
		at := lineStart(src, h.Pos())
		at += bytes.IndexByte(src[at:], '#')
		return []edit{{at, at, level[h.Level:]}}
	}
	line := lineStart(src, h.Lines().At(0).Start)
	before := bytes.TrimRight(src[line:h.Lines().At(0).Start], " \t")
	if at := line + len(before); bytes.HasSuffix(before, []byte(level[:h.Level])) {
		return []edit{{at, at, level[h.Level:]}}
	}
	// It is one by the line below it, and may have several.
	edits := []edit{{h.Lines().At(0).Start, h.Lines().At(0).Start, level + " "}}
	for i := range h.Lines().Len() {
		from := h.Lines().At(i).Start
		from += bytes.IndexByte(src[from:], '\n')
		if i+1 < h.Lines().Len() {
			edits = append(edits, edit{from, h.Lines().At(i + 1).Start, " "})
			continue
		}
		to := from + 1
		edits = append(edits, edit{from, to + bytes.IndexByte(src[to:], '\n'), ""})
	}
	return edits
}
