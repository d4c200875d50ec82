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
	epoch   string // no other sheet has it
	colours *markdown.Highlighter
	wake    func()

	view    sessionView
	edition uint64 // 0 before the first picture
	begin   snapshot.Part
	past    []past // the last editions, oldest first
	marks   []mark // what changed in them, oldest first
	pieces  map[snapshot.Part]*piece
	file    bool // it is drawn once: nothing is left out of it, and no piece kept
}

// past is an edition that pages out there may be of.
type past struct {
	seq, edition uint64
	end          snapshot.Part // of the page
}

// mark says that a part changed in an edition.
type mark struct {
	part    snapshot.Part
	edition uint64
}

// maxPast is how many editions are known, or half as many; a page that is further
// behind is drawn anew. The half is a minute of streaming.
const maxPast = 2400

// Position is how far one viewer's page is. The zero Position is of a page that
// is none of this sheet, or too old.
type Position struct {
	Cursor
	edition uint64
}

// NewSheet returns a sheet without a picture. epoch is in its cursors. wake is
// called, by another goroutine, when [Sheet.Relight] has something to do.
func NewSheet(epoch string, colours *markdown.Highlighter, wake func()) *Sheet {
	return &Sheet{epoch: epoch, colours: colours, wake: wake, pieces: map[snapshot.Part]*piece{}}
}

// Cursor returns where the sheet is.
func (s *Sheet) Cursor() Cursor {
	return Cursor{Epoch: s.epoch, Seq: s.view.Seq, Rev: s.view.inbox.Rev}
}

// Picture returns what the sheet shows.
func (s *Sheet) Picture() snapshot.Session { return s.view.Session }

// Shown reports whether the sheet has a picture.
func (s *Sheet) Shown() bool { return s.edition > 0 }

// Show takes up a new picture. changed are the parts that changed since the last
// one.
func (s *Sheet) Show(ctx context.Context, v snapshot.Session, in snapshot.Inbox, changed []snapshot.Part) {
	if s.Shown() && in.Rev != s.view.inbox.Rev { // the link is of the head
		changed = append(slices.Clip(changed), snapshot.Part{Kind: snapshot.Head})
	}
	s.view = sessionView{Session: v, inbox: in, sheet: s}
	s.next()
	for _, at := range changed {
		s.marks = append(s.marks, mark{at, s.edition})
		switch at.Kind {
		case snapshot.Root:
			clear(s.pieces)
			s.begin = snapshot.Part{}
		case snapshot.Turn: // perhaps in the place of another
			maps.DeleteFunc(s.pieces, func(p snapshot.Part, _ *piece) bool { return p.Turn == at.Turn })
			if s.begin.Turn == at.Turn && s.begin.Index > 0 {
				s.begin.Index = 0
				s.marks = append(s.marks, mark{earlierMark, s.edition})
			}
		case snapshot.Response:
			if p := s.pieces[at]; p != nil {
				p.update(ctx, s, at)
			}
		}
	}
	for at, p := range s.pieces {
		if p.open && !s.grows(at) { // another part has come behind it
			p.update(ctx, s, at)
		}
	}
	// A page that has lost some of its text does not get older parts for it.
	if begin := v.Before(v.End()); begin != s.begin && s.begin.Holds(begin) {
		s.begin = begin
		s.marks = append(s.marks, mark{earlierMark, s.edition})
		maps.DeleteFunc(s.pieces, func(at snapshot.Part, p *piece) bool { return !begin.Holds(at) && !p.running })
	}
}

// earlierMark is the row that leads to earlier turns. The hub knows of none.
var earlierMark = snapshot.Part{Kind: -1}

// next begins an edition.
func (s *Sheet) next() {
	s.edition++
	s.past = append(s.past, past{s.view.Seq, s.edition, s.view.End()})
	if len(s.past) > maxPast {
		s.past = slices.Delete(s.past, 0, maxPast/2)
		s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return m.edition <= s.past[0].edition })
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
			s.next()
			lit = true
		}
		p.take(ctx, s, p.prose, at)
	}
	return lit
}

// At returns the position of whoever comes with a cursor.
func (s *Sheet) At(c Cursor) Position {
	e := s.first(c.Seq)
	if c.Epoch != s.epoch || e == 0 {
		return Position{}
	}
	if c.Rev != s.view.inbox.Rev {
		c.Rev = 0 // whichever it is, the list is drawn anew
	}
	return Position{c, e}
}

// Here returns the position of a page that is drawn now.
func (s *Sheet) Here() Position { return Position{s.Cursor(), s.edition} }

// first returns the first edition that showed the session at a number, or 0.
func (s *Sheet) first(seq uint64) uint64 {
	i, ok := slices.BinarySearchFunc(s.past, seq, func(p past, seq uint64) int { return cmp.Compare(p.seq, seq) })
	if !ok || i == 0 && s.past[0].edition > 1 { // there were some before it that are forgotten
		return 0
	}
	return s.past[i].edition
}

// drawnSince returns the first edition that is known to have shown the picture.
func (s *Sheet) drawnSince() uint64 {
	i, _ := slices.BinarySearchFunc(s.past, s.view.Seq, func(p past, seq uint64) int { return cmp.Compare(p.seq, seq) })
	return s.past[i].edition
}

// follows reports whether a page of an edition can be brought up to date: it is
// known, and the newest page begins before it ends, or there would be a hole.
func (s *Sheet) follows(edition uint64) bool {
	i, ok := slices.BinarySearchFunc(s.past, edition, func(p past, e uint64) int { return cmp.Compare(p.edition, e) })
	return ok && s.begin.Holds(s.past[i].end)
}

// grows reports whether text may still come to a response part: it is the newest
// of a turn that is open.
func (s *Sheet) grows(p snapshot.Part) bool {
	t := s.view.State.ActiveTurn
	return t != nil && p.Turn == len(s.view.State.Turns) && p.Index == t.ResponseParts.Len()-1
}

// Page is the whole page.
func (s *Sheet) Page(draft Draft) templ.Component {
	v := s.view
	v.draft = draft
	return sessionPage(v, s.Cursor())
}

// Earlier is a page of what stands before a response part. It takes whatever
// numbers an address has, and shows what is nearest to them.
func (s *Sheet) Earlier(turn, part int) templ.Component {
	end := s.view.End()
	if turn < end.Turn {
		end.Turn, end.Index = turn, snapshot.PartCount(s.view.State, turn)
	}
	end.Index = min(end.Index, part)
	return earlierPage(s.view, s.view.Before(end), end)
}

// Since draws, in page order, what is new to a viewer.
func (s *Sheet) Since(ctx context.Context, w io.Writer, from Position) error {
	draw := func(c templ.Component) error {
		err := c.Render(ctx, w)
		_, _ = io.WriteString(w, "\n") // what it is for cannot fail
		return err
	}
	parts := s.newer(from.edition)
	if from.Epoch != s.epoch || !s.follows(from.edition) || slices.Contains(parts, snapshot.Part{Kind: snapshot.Root}) {
		return draw(sessionRoot(s.view))
	}
	if from.Rev != s.view.inbox.Rev {
		if err := draw(sideList(s.view.inbox, s.view.ID)); err != nil {
			return err
		}
	}
	for _, p := range parts {
		var err error
		switch {
		case p.Kind == snapshot.Response:
			err = s.piece(ctx, p).since(w, from.edition, s.begin.Holds(p))
		case s.begin.Holds(p):
			err = draw(s.part(p))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newer returns the parts that changed after an edition, in page order. A part of
// a turn that is itself among them is left out.
func (s *Sheet) newer(edition uint64) (parts []snapshot.Part) {
	turns := map[int]bool{}
	for _, m := range slices.Backward(s.marks) {
		if m.edition <= edition {
			break
		}
		parts = append(parts, m.part)
		turns[m.part.Turn] = turns[m.part.Turn] || m.part.Kind == snapshot.Turn
	}
	for at, p := range s.pieces { // colours, and what ended with the part behind it
		if p.newest > edition {
			parts = append(parts, at)
		}
	}
	parts = slices.DeleteFunc(parts, func(p snapshot.Part) bool {
		return (p.Kind == snapshot.Response || p.Kind == snapshot.Foot) && turns[p.Turn]
	})
	slices.SortFunc(parts, func(a, b snapshot.Part) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	return slices.Compact(parts)
}

// part draws a part of the page other than a response part.
func (s *Sheet) part(p snapshot.Part) templ.Component {
	v := s.view
	switch p.Kind {
	case earlierMark.Kind:
		return earlierRow(v.Session, s.begin)
	case snapshot.Head:
		return headPart(v)
	case snapshot.Turn:
		return turnPart(v, p.Turn, s.begin, v.End())
	case snapshot.Foot:
		return footPart(v.Session, p.Turn)
	case snapshot.Plan:
		return planPart(v.Session)
	case snapshot.Dock:
		return dockPart(v.Session)
	}
	return endPart(v)
}

// piece returns a response part as it is drawn now. What is only on a page of
// earlier turns is not kept.
func (s *Sheet) piece(ctx context.Context, at snapshot.Part) *piece {
	p := s.pieces[at]
	if p == nil {
		p = &piece{}
		p.update(ctx, s, at)
		p.date(s.drawnSince()) // it is so since the picture is
		if !s.file && (s.begin.Holds(at) || p.running) {
			s.pieces[at] = p
		}
	}
	return p
}
