package views

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/a-h/templ"

	"nod/state/snapshot"
	"nod/views/markdown"
)

// A Sheet draws the page of one session for everybody who looks at it. It
// remembers what it drew, so that a part is drawn once however many look, and so
// that of a growing part only the blocks go out that are new or still open.
//
// Its time is counted in editions: one for each new picture of the session, and
// one whenever colours of code have become ready. One goroutine at a time may
// use a Sheet.
type Sheet struct {
	colours *markdown.Highlighter
	wake    func()

	view    sessionView
	epoch   string
	edition uint64 // 0 before the first picture
	begin   snapshot.Part
	moved   uint64 // edition in which begin has changed
	pieces  map[snapshot.Part]*piece
	past    []past // the last editions, oldest first
}

// past is an edition that cursors out there may be of.
type past struct{ seq, edition uint64 }

const (
	// maxPast is how many editions a cursor may lie behind and still be known:
	// two minutes of streaming. An older one only costs a few bytes more.
	maxPast = 2400
	// maxPieces is how many drawn parts are kept that no page holds any more
	// but one on which a person has asked for earlier turns.
	maxPieces = 600
)

// Position is how far one viewer's page is. That of a viewer who comes with a
// cursor is made by [Sheet.At].
type Position struct {
	Cursor
	edition uint64 // up to which the viewer has what the sheet drew; 0: from before the sheet
	loose   bool   // the page may be another sheet's, equal but for the blocks of what grows
}

// NewSheet returns a sheet without a picture. wake is called, by another
// goroutine, when [Sheet.Relight] has something to do.
func NewSheet(epoch string, colours *markdown.Highlighter, wake func()) *Sheet {
	return &Sheet{epoch: epoch, colours: colours, wake: wake, pieces: map[snapshot.Part]*piece{}}
}

// Cursor returns where the sheet is.
func (s *Sheet) Cursor() Cursor {
	return Cursor{Epoch: s.epoch, Seq: s.view.Seq, Rev: s.view.inbox.Rev}
}

// Shown reports whether the sheet has a picture.
func (s *Sheet) Shown() bool { return s.edition > 0 }

// Show takes up a new picture. changed are the parts that changed since the last
// one.
func (s *Sheet) Show(ctx context.Context, v snapshot.Session, in snapshot.Inbox, changed []snapshot.Part) {
	s.next(v.Seq)
	s.view = sessionView{Session: v, inbox: in, sheet: s}
	if slices.Contains(changed, snapshot.Part{Kind: snapshot.Root}) {
		clear(s.pieces)
		s.begin = snapshot.Part{}
	}
	for _, at := range changed {
		if at.Kind == snapshot.Turn {
			s.forget(at.Turn)
		}
		if p := s.pieces[at]; p != nil {
			p.update(ctx, s, at)
		}
	}
	for at, p := range s.pieces {
		if p.open && !s.grows(at) { // another part has come behind it
			p.update(ctx, s, at)
		}
	}
	if begin := v.Before(v.End()); begin != s.begin && s.begin.Holds(begin) {
		s.begin, s.moved = begin, s.edition
	}
	if len(s.pieces) > maxPieces {
		for at := range s.pieces {
			if !s.begin.Holds(at) {
				delete(s.pieces, at)
			}
		}
	}
}

// forget drops what was drawn of a turn in whose place another has come.
func (s *Sheet) forget(turn int) {
	maps.DeleteFunc(s.pieces, func(at snapshot.Part, _ *piece) bool { return at.Turn == turn })
	if s.begin.Turn == turn {
		s.begin.Index = 0
	}
}

// next begins an edition.
func (s *Sheet) next(seq uint64) {
	s.edition++
	s.past = append(s.past, past{seq, s.edition})
	if len(s.past) > maxPast {
		s.past = slices.Delete(s.past, 0, maxPast/2)
	}
}

// Relight takes up colours that have become ready, and reports whether anything
// looks different now.
func (s *Sheet) Relight(ctx context.Context) (lit bool) {
	for at, p := range s.pieces {
		if p.prose == nil || !p.prose.Relight() {
			continue
		}
		if !lit {
			s.next(s.view.Seq)
			lit = true
		}
		p.take(ctx, s, p.prose, at)
	}
	return lit
}

// At returns the position of whoever comes with a cursor.
func (s *Sheet) At(c Cursor) Position {
	at := Position{Cursor: c}
	if e := s.first(c.Seq); c.Epoch == s.epoch && e > 0 {
		at.edition, at.loose = e, e == s.past[0].edition
	}
	return at
}

// Here returns the position of a page that was drawn now.
func (s *Sheet) Here() Position { return Position{Cursor: s.Cursor(), edition: s.edition} }

// first returns the first edition that showed the session at a number, or 0.
func (s *Sheet) first(seq uint64) uint64 {
	i, ok := slices.BinarySearchFunc(s.past, seq, func(p past, seq uint64) int { return cmp.Compare(p.seq, seq) })
	if !ok {
		return 0
	}
	return s.past[i].edition
}

// grows reports whether text may still come to a response part: it is the newest
// of a turn that is open.
func (s *Sheet) grows(p snapshot.Part) bool {
	t := s.view.State.ActiveTurn
	return t != nil && p.Turn == len(s.view.State.Turns) && p.Index == t.ResponseParts.Len()-1
}

// Page is the whole page. draft is what was typed and could not be sent, and
// problem why.
func (s *Sheet) Page(draft, problem string) templ.Component {
	v := s.view
	v.draft, v.problem = draft, problem
	return sessionPage(v, s.Cursor())
}

// Earlier is a page of what stands before a response part. It takes whatever
// numbers an address has, and shows what is nearest to them.
func (s *Sheet) Earlier(turn, part int) templ.Component {
	turn, part = max(0, turn), max(0, part)
	end := s.view.End()
	if turn < end.Turn {
		end.Turn, end.Index = turn, snapshot.PartCount(s.view.State, turn)
	}
	end.Index = min(end.Index, part)
	return earlierPage(s.view, s.view.Before(end), end)
}

// Since draws, in page order, what is new to a viewer. changed are the parts that
// have changed since the viewer's cursor.
func (s *Sheet) Since(ctx context.Context, w io.Writer, from Position, changed []snapshot.Part) error {
	draw := func(c templ.Component) error {
		err := c.Render(ctx, w)
		_, _ = io.WriteString(w, "\n") // what it is for cannot fail
		return err
	}
	if from.Epoch != s.epoch || from.Seq > s.view.Seq || len(changed) > 0 && changed[0].Kind == snapshot.Root {
		return draw(sessionRoot(s.view))
	}
	if from.Rev != s.view.inbox.Rev { // of the title bar the link, of the list everything
		if err := draw(sideList(s.view.inbox, s.view.ID)); err != nil {
			return err
		}
		changed = append(slices.Clip(changed), snapshot.Part{Kind: snapshot.Head})
	}
	if s.moved > from.edition {
		if err := draw(earlierRow(s.view.Session, s.begin)); err != nil {
			return err
		}
	}
	for _, p := range s.newer(from, changed) {
		switch {
		case p.Kind == snapshot.Response:
			if err := s.piece(ctx, p).since(w, from.edition, s.begin.Holds(p)); err != nil {
				return err
			}
		case s.begin.Holds(p):
			if err := draw(part(s.view, p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// newer returns the parts of which a viewer lacks something, in page order.
func (s *Sheet) newer(from Position, changed []snapshot.Part) []snapshot.Part {
	turns := snapshot.TurnCount(s.view.State)
	parts := changed[:0:0]
	whole := map[int]bool{} // turns that go out whole
	for _, p := range changed {
		if p.Turn >= turns && (p.Kind == snapshot.Turn || p.Kind == snapshot.Response || p.Kind == snapshot.Foot) {
			continue // of a later picture
		}
		if p.Kind == snapshot.Response && p.Index >= snapshot.PartCount(s.view.State, p.Turn) {
			continue
		}
		if p.Kind == snapshot.Turn {
			whole[p.Turn] = true
		}
		parts = append(parts, p)
		// The part before may have ended with this one, which shows in no number.
		if p.Kind == snapshot.Response && p.Index > 0 && from.edition == 0 {
			parts = append(parts, snapshot.Part{Kind: snapshot.Response, Turn: p.Turn, Index: p.Index - 1})
		}
	}
	if from.edition > 0 {
		for at, p := range s.pieces {
			if !whole[at.Turn] && (p.newest > from.edition || from.loose && (p.open || p.running)) {
				parts = append(parts, at)
			}
		}
	}
	if t := s.view.State.ActiveTurn; t != nil && from.loose && t.ResponseParts.Len() > 0 && !whole[turns-1] {
		parts = append(parts, snapshot.Part{Kind: snapshot.Response, Turn: turns - 1, Index: t.ResponseParts.Len() - 1})
	}
	slices.SortFunc(parts, func(a, b snapshot.Part) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	return slices.Compact(parts)
}

// piece returns a response part as it is drawn now.
func (s *Sheet) piece(ctx context.Context, at snapshot.Part) *piece {
	p := s.pieces[at]
	if p == nil {
		p = &piece{}
		p.update(ctx, s, at)
		p.date(s.first(s.view.Seq)) // it is so since the picture is
		s.pieces[at] = p
	}
	return p
}
