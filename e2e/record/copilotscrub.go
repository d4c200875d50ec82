package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// cut stands for what a recording leaves out.
const cut = "(cut)"

// prompts are the members that hold what the maker of Copilot tells the model.
var prompts = []string{"transformedContent", "transformedPrompt"}

// scrubCopilot rewrites a message of Copilot. The order of the members stays, and
// the numbers stay as they are written.
func (s scrubber) scrubCopilot(line []byte) ([]byte, error) {
	in := jsontext.NewDecoder(bytes.NewReader(line))
	var out bytes.Buffer
	to := jsontext.NewEncoder(&out)
	var members, kinds []string // of the objects and lists that are open: the last member, and the member type
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes()), nil
		} else if err != nil {
			return nil, err
		}
		switch token.Kind() {
		case '{', '[':
			members, kinds = append(members, ""), append(kinds, "")
		case '}', ']':
			members, kinds = members[:len(members)-1], kinds[:len(kinds)-1]
		case '"':
			text, deepest := token.String(), len(members)-1
			if kind, n := in.StackIndex(in.StackDepth()); kind == '{' && n%2 == 1 {
				members[deepest] = text
				break
			}
			if deepest >= 0 && members[deepest] == "type" {
				kinds[deepest] = text
			}
			if isPrompt(members, kinds) {
				text = cut
			}
			token = jsontext.String(s.paths.Replace(text))
		}
		if err := to.WriteToken(token); err != nil {
			return nil, err
		}
	}
}

// isPrompt tells whether the text of the last member is not to be shared.
func isPrompt(members, kinds []string) bool {
	if len(members) == 0 {
		return false
	}
	member := members[len(members)-1]
	if slices.Contains(prompts, member) {
		return true
	}
	for i, kind := range kinds[:len(kinds)-1] {
		if members[i] != "data" {
			continue
		}
		if strings.HasPrefix(kind, "model.") && !strings.HasPrefix(kind, "model.call_") ||
			(kind == "system.message" || kind == "session.mode_notice_delivered") && member == "content" || kind == "session.skills_loaded" && member == "description" {
			return true
		}
	}
	return false
}
