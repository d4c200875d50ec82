package copilot

import (
	"context"
	"encoding/json"
	"slices"

	"nod/agentconn/plain"
	"nod/state"
)

const (
	maxWaiting = 20 // notes that wait for a turn; the newest are kept
	maxTold    = 50 // sentences that are not told again
	// maxUnknown is how many events that nod does not understand a turn shows, and
	// maxOdd how many a link keeps and logs.
	maxUnknown = 20
	maxOdd     = 1000
	// maxRaw bounds, in bytes, what a note shows of such an event.
	maxRaw = 16 << 10
)

// levels of a note.
const (
	plainNote = ""
	warnNote  = "warning" // a person may want to do something
)

// says handles an event that is told in a sentence, "" for none.
func says[P any](f func(P) (level, sentence string)) handler {
	return on(func(a *agent, _ context.Context, p P) { a.note(f(p)) })
}

// saysOnce handles one that Copilot tells again and again.
func saysOnce[P any](f func(P) (level, sentence string)) handler {
	return on(func(a *agent, _ context.Context, p P) { a.noteOnce(f(p)) })
}

// noteOnce shows something that the session has not been told yet.
func (a *agent) noteOnce(level, text string) {
	s := a.session
	if text = plain.Shorten(text, plain.MaxNote); text == "" || slices.Contains(s.told, text) {
		return
	}
	s.told = newest(append(s.told, text), maxTold)
	a.note(level, text)
}

func newest[T any](list []T, n int) []T { return slices.Clone(list[max(0, len(list)-n):]) }

// note shows something in the turn in progress, or in the next one.
func (a *agent) note(level, text string) {
	if text == "" {
		return
	}
	p := &state.NotificationPart{Content: state.Plain(plain.Shorten(text, plain.MaxNote))}
	if level != plainNote {
		p.Meta = state.Meta{"nod.level": plain.Value(level)}
	}
	a.notePart(p)
}

func (a *agent) notePart(p state.ResponsePart) {
	if s := a.session; a.turn == "" {
		s.waiting = newest(append(s.waiting, p), maxWaiting)
		return
	}
	a.apply(&state.SessionResponsePart{TurnID: a.turn, Part: p})
}

// unknownEvent shows an event that nod does not understand, as it came, unless the
// vendor's prompts may be in it.
func (a *agent) unknownEvent(ctx context.Context, e event) {
	r := a.session.room
	if r.odd++; r.odd > maxOdd {
		return
	}
	r.log.Info("an event that nod does not understand", "type", plain.Shorten(e.Type, 80), "last", r.odd == maxOdd)
	if !e.mayBeShared() {
		return
	}
	r.sink.Opaque(ctx, a.uri, e.raw)
	if a.unknown++; a.unknown > maxUnknown || a.turn == "" {
		return
	}
	a.notePart(&state.NotificationPart{
		Content: state.Plain("Copilot says something that this nod does not understand: " + plain.Shorten(e.Type, 80)),
		Meta:    state.Meta{"nod.raw": plain.Value(plain.Cut(plain.Indented(e.raw), maxRaw))},
	})
}

// unreadable keeps an event that cannot be read at all, unless the vendor's prompts
// may be in it.
func (s *session) unreadable(ctx context.Context, e event, err error) {
	var is struct {
		Type string `json:"type"`
	}
	typed := json.Unmarshal(e.raw, &is) == nil && is.Type != ""
	s.room.log.Warn("an event that cannot be read", "session", s.id, "type", plain.Shorten(is.Type, 80), "err", err)
	switch {
	case e.long != nil:
		s.tellLong(ctx, e.long)
	case typed && (event{Type: is.Type}).mayBeShared():
		s.room.sink.Opaque(ctx, s.main.uri, e.raw)
	}
}
