package redact

import (
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/zricethezav/gitleaks/v8/config"
)

// rule finds secrets of one kind. Its pattern is compiled when a text first holds one
// of its keywords: of some 220 a session needs a few, and all of them would take 10 MB.
type rule struct {
	ID          string
	Regex       string
	SecretGroup int
	Entropy     float64
	Keywords    []string // in lower case; a text without any of them is not looked through
	Allowlists  []allowlist

	compiled func() *regexp.Regexp
}

// allowlist names what is no secret, though it looks like one.
type allowlist struct {
	RegexTarget string // "match": all that the rule has found, not the secret alone; "line": not used here
	Regexes     []string
	StopWords   []string

	compiled func() []*regexp.Regexp
}

// generic is the rule of gitleaks that finds any value next to a secret-like name. It
// alone needs its allowlist: what the others find has the shape of one provider's
// keys, and an example among them may be masked as well.
const generic = "generic-api-key"

// gitleaks are the rules of that program, and what all of them leave alone.
var gitleaks = sync.OnceValues(func() ([]*rule, allowlist) {
	var c struct {
		Rules     []*rule
		Allowlist allowlist
	}
	if _, err := toml.Decode(config.DefaultConfig, &c); err != nil {
		panic(err) // of a pinned version, and tested
	}
	rules := slices.DeleteFunc(c.Rules, func(r *rule) bool { return r.Regex == "" }) // about the names of files
	for _, r := range rules {
		r.compiled = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.Regex) })
		if r.ID != generic {
			r.Allowlists = nil
		}
		for i := range r.Allowlists {
			r.Allowlists[i].prepare()
		}
	}
	c.Allowlist.prepare()
	return rules, c.Allowlist
})

func (a *allowlist) prepare() {
	a.compiled = sync.OnceValue(func() (res []*regexp.Regexp) {
		for _, p := range a.Regexes {
			res = append(res, regexp.MustCompile(p))
		}
		return res
	})
}

// allows reports whether a secret, in the match around it, is none.
func (a *allowlist) allows(match, secret string) bool {
	switch a.RegexTarget {
	case "line":
		return false
	case "match":
	default:
		match = secret
	}
	if slices.ContainsFunc(a.compiled(), func(re *regexp.Regexp) bool { return re.MatchString(match) }) {
		return true
	}
	lower := strings.ToLower(secret)
	return slices.ContainsFunc(a.StopWords, func(w string) bool { return strings.Contains(lower, w) })
}

// find yields the places of secrets in a text; lower is the text in lower case.
func (r *rule) find(text, lower string, found func(start, end int)) {
	_, everywhere := gitleaks()
	for at := range matches(r.compiled, text, lower, r.Keywords, slices.Contains(blocks, r.ID)) {
		start, end := r.secret(at)
		secret, match := text[start:end], text[at[0]:at[1]]
		switch {
		case start == end, r.Entropy > 0 && entropy(secret) <= r.Entropy, everywhere.allows(match, secret):
		case slices.ContainsFunc(r.Allowlists, func(a allowlist) bool { return a.allows(match, secret) }):
		default:
			found(start, end)
		}
	}
}

// Lines that are looked at around one with a keyword. Rules for blocks look at all.
const linesBefore, linesAfter = 1, 8

// blocks are rules whose match may be of any number of lines.
var blocks = []string{"private-key", "kubernetes-secret-yaml"}

// matches yields the places of a pattern's matches and their groups, as regexp does,
// near any of the keywords; without keywords everywhere. Most texts are long and hold
// few keywords, so they cost little.
func matches(pattern func() *regexp.Regexp, text, lower string, keywords []string, block bool) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for start, end := range near(lower, keywords, block) {
			for _, at := range pattern().FindAllStringSubmatchIndex(text[start:end], -1) {
				for i := range at {
					if at[i] >= 0 {
						at[i] += start
					}
				}
				if !yield(at) {
					return
				}
			}
		}
	}
}

// near yields the parts of a text, in whole lines, that a keyword is in.
func near(text string, keywords []string, all bool) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		if len(keywords) == 0 {
			yield(0, len(text))
			return
		}
		next := make([]int, len(keywords)) // where each is next
		for i, k := range keywords {
			next[i] = index(text, 0, k)
		}
		seek := func(from int) int {
			for i, k := range keywords {
				if next[i] < from {
					next[i] = index(text, from, k)
				}
			}
			return slices.Min(next)
		}
		for at := seek(0); at < len(text); {
			if all {
				yield(0, len(text))
				return
			}
			start, end := before(text, at), 0
			for {
				line := min(index(text, at, "\n")+1, len(text))
				if end = line; line < len(text) {
					for range linesAfter {
						end = min(index(text, end, "\n")+1, len(text))
					}
				}
				if at = seek(line); at >= end {
					break
				}
			}
			if !yield(start, end) {
				return
			}
		}
	}
}

// before is the begin of the lines before a place.
func before(text string, at int) int {
	for range linesBefore + 1 {
		at = strings.LastIndexByte(text[:max(at-1, 0)], '\n') + 1
	}
	return at
}

// index is where something is next, or the end of the text.
func index(text string, from int, of string) int {
	if i := strings.Index(text[from:], of); i >= 0 {
		return from + i
	}
	return len(text)
}

// secret is the place of the secret in a match: the group that the rule names, else
// the first that took part.
func (r *rule) secret(at []int) (start, end int) {
	if g := r.SecretGroup; g > 0 && 2*g+1 < len(at) && at[2*g] >= 0 {
		return at[2*g], at[2*g+1]
	}
	return firstGroup(at)
}

// firstGroup is the place of the first group that took part in a match, or of the
// match if it has none.
func firstGroup(at []int) (start, end int) {
	for g := 2; g < len(at); g += 2 {
		if at[g] >= 0 && at[g] < at[g+1] {
			return at[g], at[g+1]
		}
	}
	return at[0], at[1]
}

// entropy is Shannon's, in bits per byte.
func entropy(s string) (bits float64) {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
