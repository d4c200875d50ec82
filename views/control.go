package views

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"

	"nod/state"
	"nod/state/snapshot"
)

// query makes the query of an address of names and values.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q.Encode()
}

// sessionID is the last part of a session's URI.
func sessionID(uri string) string { return uri[strings.LastIndexByte(uri, '/')+1:] }

// property is a setting of a session and the word that is in force.
type property struct {
	name, title, word string
	mutable           bool
	choices           []state.Choice // the only values, nil if there are others
}

// configOf lists the settings of a session in the order of their titles.
func configOf(s *state.Session) (out []property) {
	if s.Config == nil {
		return nil
	}
	for name, p := range s.Config.Schema.Properties {
		x := property{name: name, title: p.Title, mutable: state.Value(p.SessionMutable), choices: p.Choices()}
		_ = json.Unmarshal(s.Config.Values[name], &x.word) // none is in force
		if i := slices.Index(p.Enum, x.word); i >= 0 && i < len(p.EnumLabels) {
			x.word = p.EnumLabels[i]
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b property) int { return cmp.Or(cmp.Compare(a.title, b.title), cmp.Compare(a.name, b.name)) })
	return out
}

// queueWords stand above the messages that wait.
func queueWords(s *state.Session) string {
	switch {
	case s.ActiveTurn != nil:
		return "Queued: sent, one after the other, when this turn has completed."
	case len(s.Turns) > 0 && s.Turns[len(s.Turns)-1].State != state.TurnComplete:
		return "Queued. The last turn did not complete, so they wait for you:"
	}
	return "Queued. They wait for you:"
}

// queuedID is the id of a queued message's form: what is typed into it stays there
// when another one is gone.
func queuedID(message string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(message)) // it never fails
	return fmt.Sprintf("q%x", h.Sum64())
}

// triedWords tell what became of a queued message that nod has tried to send.
func triedWords(m state.PendingMessage) string {
	raw, is := m.Message.Meta["nod.tried"]
	if !is {
		return ""
	}
	var sentence string
	if json.Unmarshal(raw, &sentence) != nil || sentence == "" {
		sentence = "nod was about to send this when it ended."
	}
	return sentence + " Is it above already? If not, send it again."
}

// joins is the command that opens a session in a terminal, "" if none does.
func joins(s snapshot.Session) string {
	if s.Link.Offers.Terminal == "" || s.Parent != "" {
		return ""
	}
	return s.Link.Offers.Terminal + " " + s.ID
}

// keepers are the agents that have older sessions to show: one for each provider.
func keepers(links []state.Link) []state.Link {
	return slices.DeleteFunc(Offered(links), func(l state.Link) bool { return !l.Keeps })
}

// queues reports whether something waits, here or at the agent.
func queues(s *state.Session) bool {
	return len(s.QueuedMessages) > 0 || s.SteeringMessage != nil || len(state.Waits(s.Meta)) > 0
}

// maxAttached is how many attachments of a message are named.
const maxAttached = 20

// next are the fields of the settings of the next message.
func (v sessionView) next() Fields {
	if len(v.draft.Next.Settings) > 0 {
		return v.draft.Next
	}
	return MessageFields(v.State)
}

// nextWords lead to the settings of the next message.
func nextWords(f Fields) string {
	if len(f.Settings) > 2 {
		return "Other settings from here on"
	}
	titles := make([]string, len(f.Settings))
	for i, s := range f.Settings {
		titles[i] = strings.ToLower(s.Title)
	}
	return "Another " + strings.Join(titles, " or ")
}
