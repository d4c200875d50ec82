package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// instructions are the members that hold what the maker of Codex tells the
// model. No test needs them.
var instructions = []string{"baseInstructions", "developerInstructions", "developer_instructions"}

// scrubber knows what must not stand in a recording.
type scrubber struct {
	paths *strings.Replacer
	host  string // name of this machine
}

// scrub rewrites a message. The order of the members stays, and the numbers stay
// as they are written.
func (s scrubber) scrub(line []byte) ([]byte, error) {
	in := jsontext.NewDecoder(bytes.NewReader(line))
	var out bytes.Buffer
	to := jsontext.NewEncoder(&out)
	member := ""
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes()), nil
		} else if err != nil {
			return nil, err
		}
		if token.Kind() == '"' {
			text := token.String()
			if kind, n := in.StackIndex(in.StackDepth()); kind == '{' && n%2 == 1 {
				member = text
			} else {
				text = s.value(member, text)
			}
			token = jsontext.String(s.paths.Replace(text))
		}
		if err := to.WriteToken(token); err != nil {
			return nil, err
		}
	}
}

// value rewrites the text of a member, apart from paths.
func (s scrubber) value(member, text string) string {
	switch {
	case slices.Contains(instructions, member):
		return ""
	case member == "installationId":
		return "00000000-0000-4000-8000-000000000000"
	case member == "serverName" && text == s.host:
		return "host"
	case member == "userAgent": // nod/0.171.0 (system; machine) …
		agent, _, _ := strings.Cut(text, " ")
		return agent + " (Linux; x86_64)"
	}
	return text
}
