package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// A marker is markLabel and a time in ns since 1970, of always as many digits.
// It is in a text when the agent writes that text, so whoever sees it knows how
// old it is.
const (
	markLabel  = "mark-"
	markDigits = 19
	markLen    = len(markLabel) + markDigits
)

func mark(at time.Time) string { return markLabel + strconv.FormatInt(at.UnixNano(), 10) }

// lastMark returns the time of the last whole marker in b, 0 if there is none.
func lastMark(b []byte) int64 {
	for {
		at := bytes.LastIndex(b, []byte(markLabel))
		if at < 0 {
			return 0
		}
		if len(b) >= at+markLen {
			if ns, err := strconv.ParseInt(string(b[at+len(markLabel):at+markLen]), 10, 64); err == nil {
				return ns
			}
		}
		b = b[:at]
	}
}

// tokenSize is the size in bytes of what we call a token.
const tokenSize = 8

var words = strings.Fields(`the a of to and in is it that for on with as this be are from or by an when which not its
test port value request handler server client session event stream state journal hub page browser agent command output
line file function package error message cursor frame buffer reader writer connection timeout deadline lock goroutine
channel context index key map slice string byte number digest table column row query record commit snapshot epoch revision
fails returns waits reads writes holds closes opens sends drops keeps starts ends blocks grows shrinks moves checks
because before after while until unless only always never still already again here there first last next old new small
large slow fast empty full stale fresh wrong right shared private public pending idle ready broken`)

// answer is a text as coding agents write it, of n tokens: headings, paragraphs,
// lists, code, now and then a table. It is ASCII and always the same.
func answer(n int) string {
	r := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	phrase := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = words[r.IntN(len(words))]
			switch r.IntN(25) {
			case 0:
				out[i] = "`" + out[i] + ".go`"
			case 1:
				out[i] = "**" + out[i] + "**"
			}
		}
		return strings.Join(out, " ")
	}
	for section := 1; b.Len() < n*tokenSize; section++ {
		fmt.Fprintf(&b, "## %d. %s\n\n", section, phrase(4))
		for range 2 + r.IntN(2) {
			for range 2 + r.IntN(4) {
				fmt.Fprintf(&b, "%s, %s. ", phrase(5+r.IntN(8)), phrase(4+r.IntN(6)))
			}
			b.WriteString("\n\n")
		}
		for range 3 + r.IntN(4) {
			fmt.Fprintf(&b, "- %s\n", phrase(6+r.IntN(8)))
		}
		b.WriteString("\n```go\n")
		for range 6 + r.IntN(8) {
			fmt.Fprintf(&b, "\tif err := %s.%s(%s); err != nil {\n\t\treturn err\n\t}\n", words[r.IntN(len(words))], words[r.IntN(len(words))], words[r.IntN(len(words))])
		}
		b.WriteString("```\n\n")
		if section%3 == 0 {
			b.WriteString("| what | ms | why |\n|---|---|---|\n")
			for range 4 {
				fmt.Fprintf(&b, "| %s | %d | %s |\n", phrase(2), r.IntN(500), phrase(4))
			}
			b.WriteString("\n")
		}
	}
	return b.String()[:n*tokenSize]
}
