package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
)

// gone stands in the log where something secret stood.
const gone = "[redacted]"

// newLog returns the log of nod: text that a person can read, and pass on. Agents'
// words and errors of all sorts come into it, so it takes secrets out of every
// message and attribute, by their shape; and by their value those that nod was
// started with.
func newLog(out io.Writer, level slog.Leveler) *slog.Logger {
	r := newRedactor(os.Environ())
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: r.attr}))
}

// redactor takes out what must not be in a log.
type redactor struct{ values *strings.Replacer }

// secretName is what variables, headers and fields are called that hold a secret.
const secretName = `(?:[\w-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|private[_-]?key|credential)|(?:set-|proxy-)?(?:cookie|authorization))`

var secretNames = regexp.MustCompile(`(?i)^` + secretName + `s?$`)

// minSecret is the length from which the value of a variable is worth looking for:
// a shorter one stands in half of all words.
const minSecret = 8

func newRedactor(environment []string) redactor {
	var values []string
	for _, kv := range environment {
		if name, value, _ := strings.Cut(kv, "="); len(value) >= minSecret && (secretNames.MatchString(name) || strings.HasSuffix(name, "_KEY")) {
			values = append(values, value)
		}
	}
	// Of two that begin alike the longer one goes first.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, gone)
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// shapes are what secrets look like wherever they stand. What is to stay comes first.
var shapes = []struct {
	of *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), gone},
	// A whole header, since a cookie has many parts.
	{regexp.MustCompile(`(?im)\b((?:set-|proxy-)?(?:cookie|authorization)"?\s*[:=]\s*)[^\r\n]+`), "${1}" + gone},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{6,}`), "${1}" + gone},
	{regexp.MustCompile(`\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"'<>]+@`), "${1}" + gone + "@"},
	{regexp.MustCompile(`\b([a-zA-Z][a-zA-Z0-9+.-]*://[^\s?#"'<>]*)[?#][^\s"'<>]+`), "${1}?" + gone},
	{regexp.MustCompile(`(/[^\s?#"'<>]*)[?#][\w.%-]+=[^\s"'<>]*`), "${1}?" + gone},
	{regexp.MustCompile(`(?i)(#k=)[\w-]+`), "${1}" + gone},
	{regexp.MustCompile(`(?i)\b(` + secretName + `\\?"?\s*[:=]\s*\\?["']?)[^\s"'\\,;&]*[^\s"'\\,;&\d][^\s"'\\,;&]*`), "${1}" + gone}, // a number is a count
	{regexp.MustCompile(`\b(?:sk-|gh[pousr]_|github_pat_|xox[abprs]-|glpat-|hf_)[\w-]{12,}|\bA[KS]IA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*`), gone},
}

// ours is the shape of nod's own tokens and cookies: 32 bytes in base64url.
var ours = regexp.MustCompile(`[A-Za-z0-9_-]{43,}`)

func (r redactor) text(s string) string {
	s = r.values.Replace(s)
	for _, shape := range shapes {
		s = shape.of.ReplaceAllString(s, shape.to)
	}
	return ours.ReplaceAllStringFunc(s, func(word string) string {
		if len(word) == 43 {
			return gone
		}
		return word
	})
}

// attr is slog's ReplaceAttr. The message comes here, too.
func (r redactor) attr(_ []string, a slog.Attr) slog.Attr {
	if secretNames.MatchString(a.Key) {
		return slog.String(a.Key, gone)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(r.text(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case slog.Level, *slog.Source, nil: // of slog itself
		case []byte:
			a.Value = slog.StringValue(r.text(string(v)))
		default:
			a.Value = slog.StringValue(r.text(fmt.Sprintf("%+v", v)))
		}
	}
	return a
}
