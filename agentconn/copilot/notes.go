package copilot

import (
	"context"

	"nod/agentconn/plain"
	"nod/state"
)

const (
	maxWaiting = 20 // notes that wait for a turn; the newest are kept
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

// note shows something in the turn in progress, or in the next one.
func (a *agent) note(level, text string) {
	p := &state.NotificationPart{Content: state.Plain(plain.Shorten(text, plain.MaxNote))}
	if level != plainNote {
		p.Meta = state.Meta{"nod.level": plain.Value(level)}
	}
	a.notePart(p)
}

func (a *agent) notePart(p state.ResponsePart) {
	if s := a.session; a.turn == "" {
		if s.waiting = append(s.waiting, p); len(s.waiting) > maxWaiting {
			s.waiting = append([]state.ResponsePart(nil), s.waiting[1:]...)
		}
		return
	}
	a.apply(&state.SessionResponsePart{TurnID: a.turn, Part: p})
}

// unknownEvent shows an event that nod does not understand, as it came.
func (a *agent) unknownEvent(ctx context.Context, e event) {
	r := a.session.room
	if r.odd++; r.odd > maxOdd {
		return
	}
	r.log.Info("an event that nod does not understand", "type", plain.Shorten(e.Type, 80), "last", r.odd == maxOdd)
	r.sink.Opaque(ctx, a.uri, e.raw)
	if a.unknown++; a.unknown > maxUnknown || a.turn == "" {
		return
	}
	a.notePart(&state.NotificationPart{
		Content: state.Plain("Copilot says something that this nod does not understand: " + plain.Shorten(e.Type, 80)),
		Meta:    state.Meta{"nod.raw": plain.Value(plain.Cut(plain.Indented(e.raw), maxRaw))},
	})
}
