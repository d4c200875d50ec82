// Package redact takes out of a text what must not leave the house: keys and
// passwords, and who and where its owner is. It is pure.
//
// The kinds of keys are those of gitleaks, whose rules are kept up by many; what that
// misses because it reads files of code, and not what people and programs say, is in
// own.go.
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Kind says what stood where something was masked.
type Kind string

// The kinds, each the word that stands in the place of what was masked, save Home,
// in whose place stands ~.
const (
	Secret  Kind = "secret"
	Home    Kind = "home folder"
	User    Kind = "user"
	Host    Kind = "host"
	Address Kind = "address"
	Mail    Kind = "mail address"
)

// Mask is what stands in the place of something of this kind. No program that reads
// markdown takes it for anything.
func (k Kind) Mask() string {
	if k == Home {
		return "~"
	}
	return "‹" + string(k) + "›"
}

// Finding is one place of a text that must not leave the house.
type Finding struct {
	Start, End int // bytes
	Kind       Kind
	Rule       string // which rule has found it, for the owner to judge
	Value      string
	ID         string // of the value: the same value has the same one everywhere
}

// Owner is what is known of whom the texts are of.
type Owner struct {
	Home        string   // home folder
	User        string   // login name
	Hosts       []string // names of the machine, and of those that it links to
	Environment []string // NAME=value, as of os.Environ
}

// Redactor finds what must not leave the house. It does not change, and any number
// may use it at once.
type Redactor struct {
	values []value
	own    []own
}

// value is a text that is looked for as it is.
type value struct {
	text string
	kind Kind
	rule string
	word bool // it counts as a word of its own only
}

// minValue is the length from which the value of a variable is looked for, in bytes:
// a shorter one stands in half of all words.
const minValue = 12

// New returns a redactor for what one owner has.
func New(o Owner) *Redactor {
	r := &Redactor{own: ownRules(o)}
	add := func(v value) {
		if !slices.ContainsFunc(r.values, func(x value) bool { return x.text == v.text }) {
			r.values = append(r.values, v)
		}
	}
	for _, kv := range o.Environment {
		if name, v, _ := strings.Cut(kv, "="); len(v) >= minValue && secretLike(name) {
			add(value{v, Secret, "value of " + name, false})
		}
	}
	if home := strings.TrimRight(o.Home, `/\`); len(home) > 1 {
		add(value{home, Home, "home folder", true})
	}
	for _, h := range o.Hosts {
		if h = strings.TrimSuffix(h, "."); len(h) > 2 && !strings.EqualFold(h, "localhost") {
			add(value{h, Host, "name of this machine", true})
			if short, _, dotted := strings.Cut(h, "."); dotted && len(short) > 2 && !isNumber(short) {
				add(value{short, Host, "name of this machine", true})
			}
		}
	}
	slices.SortStableFunc(r.values, func(a, b value) int { return len(b.text) - len(a.text) }) // of two that begin alike the longer one
	return r
}

// Find returns what must not leave the house, in the order of the text; no two of
// them overlap.
func (r *Redactor) Find(text string) []Finding {
	var all []Finding
	add := func(start, end int, k Kind, rule string) {
		all = append(all, Finding{Start: start, End: end, Kind: k, Rule: rule})
	}
	text, place := plain(text)
	for _, v := range r.values {
		v.find(text, func(start, end int) { add(start, end, v.kind, v.rule) })
	}
	lower := asciiLower(text)
	for _, o := range r.own {
		o.find(text, lower, add)
	}
	rules, _ := gitleaks()
	for _, k := range rules {
		k.find(text, lower, func(start, end int) { add(start, end, Secret, k.ID) })
	}
	all = settle(text, all)
	for i, f := range all {
		all[i].Start, all[i].End = place(f.Start), place(f.End-1)+1
	}
	return all
}

// settle joins what overlaps, of which the kind that says least stays.
func settle(text string, all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	out := all[:0]
	for _, f := range all {
		if n := len(out); n > 0 && f.Start < out[n-1].End {
			last := &out[n-1]
			if f.Kind == Secret && last.Kind != Secret {
				last.Kind, last.Rule = f.Kind, f.Rule
			}
			last.End = max(last.End, f.End)
			continue
		}
		out = append(out, f)
	}
	for i := range out {
		out[i].Value = text[out[i].Start:out[i].End]
		out[i].ID = id(out[i].Value)
	}
	return out
}

// id names a value without telling it.
func id(value string) string {
	sum := sha256.Sum256([]byte("nod-redact-1\x00" + value))
	return hex.EncodeToString(sum[:12])
}

// Mask returns the text with the mask of each finding in its place. Findings are in
// order and do not overlap.
func Mask(text string, findings []Finding) string {
	if len(findings) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, f := range findings {
		b.WriteString(text[at:f.Start])
		b.WriteString(f.Kind.Mask())
		at = f.End
	}
	b.WriteString(text[at:])
	return b.String()
}

func (v value) find(text string, found func(start, end int)) {
	for at := 0; ; {
		i := strings.Index(text[at:], v.text)
		if i < 0 {
			return
		}
		start := at + i
		end := start + len(v.text)
		if !v.word || edge(text, start, end) {
			found(start, end)
		}
		at = end
	}
}

// edge reports whether a place is a word of its own, or the begin of a path.
func edge(text string, start, end int) bool {
	return (start == 0 || !wordly(text[start-1]) || !wordly(text[start])) && (end == len(text) || !wordly(text[end]))
}

func wordly(b byte) bool {
	return b == '_' || b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

func isNumber(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// asciiLower is a text in lower case, of the same length.
func asciiLower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
