package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Growing masks a text while it grows, so that nothing is seen of a secret that is not
// all there yet. Lines are seen when they are whole.
type Growing struct {
	Redactor *Redactor
	Shown    func(Finding) bool // asked of each finding that is all there: whether its owner lets it be seen; nil for none

	text string // as it was taken last
	from int    // what is before it does not change any more
	end  int    // what is before it was seen while the text grew
	done string // that, masked
}

// lookBack is how much of a text is looked at again when it has grown, in bytes at
// least: more than any one line that a rule reads.
const lookBack = 2 << 10

// longLine is from what length on a line is not looked at as a whole, in bytes.
const longLine = 8 * lookBack

// Take returns what may be seen of a text now, which has grown since it was taken last
// or, if it begins otherwise, is another one; and whether that is all of it. A line that
// has no end is held back; hurry shows of it what cannot be a part of a secret. All of a
// text that is closed is shown.
func (g *Growing) Take(text string, closed, hurry bool) (seen string, all bool) {
	if closed || !strings.HasPrefix(text, g.text[:g.end]) {
		g.text, g.from, g.end, g.done = "", 0, 0, ""
	}
	end := len(text)
	if !closed {
		end = max(g.end, g.safe(text, hurry))
		g.end = end
	}
	from := min(g.from, end)
	before := text[:from][context(text[:from]):] // by which something behind it is found
	window := text[from:end]
	var found []Finding
	for _, f := range g.find(before+window, closed) {
		if f.End > len(before) {
			f.Start, f.End = max(0, f.Start-len(before)), f.End-len(before)
			found = append(found, f)
		}
	}
	seen = g.done + Mask(window, found)
	g.text = text
	g.settle(window, found)
	return seen, end == len(text)
}

// context is where to begin to look at the end of a text for what names the value that
// comes behind it.
func context(text string) int {
	const most = 512
	return max(strings.LastIndexByte(text[:max(0, len(text)-most)], '\n')+1, len(text)-2*lookBack)
}

// find returns what is masked of a text. What ends with it may be the begin of another
// finding, unless the text is closed.
func (g *Growing) find(text string, closed bool) []Finding {
	all := g.Redactor.Find(text)
	if g.Shown == nil {
		return all
	}
	return slices.DeleteFunc(all, func(f Finding) bool { return (closed || f.End < len(text)) && g.Shown(f) })
}

// suspect is what a secret may come after, or begins with.
var suspect = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|cred|auth|dsn|salt|cookie|bearer|basic|login|machine|curl|-----|://|\b-u\b|=|["'` + "`" + `]`)

// safe is how much of a text may be seen that grows.
func (g *Growing) safe(text string, hurry bool) int {
	line := strings.LastIndexAny(text, "\r\n") + 1
	if !hurry {
		return line
	}
	open := text[line : line+g.Redactor.begun(text[line:])]
	if at := suspect.FindStringIndex(open); at != nil {
		open = open[:at[0]]
	}
	for at := len(open); at > 0; {
		r, n := utf8.DecodeLastRuneInString(open[:at])
		if unicode.IsSpace(r) {
			return line + at
		}
		at -= n
	}
	return line
}

// begun is how much of a line stands before what may be the begin of a value.
func (r *Redactor) begun(line string) int {
	for i := range line {
		for _, v := range r.values {
			if strings.HasPrefix(v.text, line[i:]) {
				return i
			}
		}
	}
	return len(line)
}

// settle moves on over what no further text can change.
func (g *Growing) settle(window string, found []Finding) {
	if len(window) <= 2*lookBack {
		return
	}
	cut := func(text string) int { // a line that goes on and on is cut at a space
		at := strings.LastIndexAny(text, "\r\n") + 1
		if at == 0 && len(window) > longLine {
			at = strings.LastIndexAny(text, " \t") + 1
		}
		return at
	}
	at := cut(window[:len(window)-lookBack])
	for _, f := range found {
		if f.Start < at && f.End >= at || f.Start < at && f.End == len(window) {
			at = f.Start
			break
		}
	}
	at = cut(window[:at])
	before := found[:0]
	for _, f := range found {
		if f.End <= at {
			before = append(before, f)
		}
	}
	g.done += Mask(window[:at], before)
	g.from += at
}

// unseen is what a terminal does not show, what has no width, and the backslash with
// which markdown and JSON escape: a secret can be broken by it, as by a program that
// colours what it has found.
var unseen = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x{AD}\x{180E}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{206F}\x{FEFF}]|(\\)[_.+=~:@*/#-]`)

// plain takes out of a text what is not seen. at returns the place in the text of one in
// what is left.
func plain(text string) (left string, at func(int) int) {
	cuts := unseen.FindAllStringSubmatchIndex(text, -1)
	if cuts == nil {
		return text, func(i int) int { return i }
	}
	for i, c := range cuts {
		if c[2] >= 0 { // only what escapes
			cuts[i] = c[2:4]
		}
	}
	var b strings.Builder
	last := 0
	for _, c := range cuts {
		b.WriteString(text[last:c[0]])
		last = c[1]
	}
	b.WriteString(text[last:])
	return b.String(), func(i int) int {
		for _, c := range cuts {
			if c[0] > i {
				break
			}
			i += c[1] - c[0]
		}
		return i
	}
}
