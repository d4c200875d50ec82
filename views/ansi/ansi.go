// Package ansi makes readable what a program wrote to a terminal: [Screen] shows
// it in colours while it grows, [Text] makes plain text of all of it. In both,
// carriage returns and backspaces do what they do on a screen, and no control
// character is left.
package ansi

import (
	"strings"
	"unicode/utf8"
)

// Text returns the readable text of terminal output. A sequence that is cut off
// at the end is left out.
func Text(s string) string {
	var out strings.Builder
	out.Grow(len(s))
	for line := range strings.Lines(s) {
		writeLine(&out, line)
	}
	return out.String()
}

// writeLine plays one line on a screen one line high.
func writeLine(out *strings.Builder, line string) {
	body, newline := strings.CutSuffix(line, "\n")
	body = strings.TrimSuffix(body, "\r") // \r\n
	if !strings.ContainsFunc(body, isControl) {
		out.WriteString(body)
	} else {
		var cells []rune
		at := 0
		for rest := body; rest != ""; {
			if n := escapeLen(rest); n > 0 {
				rest = rest[n:]
				continue
			}
			r, n := utf8.DecodeRuneInString(rest)
			rest = rest[n:]
			switch {
			case r == '\r':
				at = 0
			case r == '\b':
				at = max(0, at-1)
			case r == '\t' || !isControl(r):
				if at < len(cells) {
					cells[at] = r
				} else {
					cells = append(cells, r)
				}
				at++
			}
		}
		out.WriteString(string(cells))
	}
	if newline {
		out.WriteByte('\n')
	}
}

func isControl(r rune) bool { return r < 0x20 && r != '\t' || r >= 0x7f && r < 0xa0 }

// escapeLen returns the length of the escape sequence that s begins with, or 0.
// Strings (OSC, DCS, APC, PM, SOS) end at BEL or ST, control sequences at their
// final byte; what does not end takes the rest.
func escapeLen(s string) int {
	if s[0] != 0x1b {
		return 0
	}
	if len(s) == 1 {
		return 1
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']', 'P', '_', '^', 'X':
		for i := 2; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
		return len(s)
	case '(', ')', '*', '+', '#', '%', ' ':
		return min(3, len(s))
	}
	return 2
}
