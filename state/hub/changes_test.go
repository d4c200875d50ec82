package hub

import (
	"math/rand/v2"
	"slices"
	"testing"

	"nod/state/snapshot"
)

// TestSinceCostsWhatChanged: of a session with very many parts, only those that
// are newer than the cursor are looked at, and the first one that is not. All
// others are spoilt here: to look at one panics.
func TestSinceCostsWhatChanged(t *testing.T) {
	const parts, newer = 10_000, 7
	var c changes
	seq := uint64(0)
	for i := range parts {
		seq++
		c.note(snapshot.Part{Kind: snapshot.Response, Turn: i / 100, Index: i % 100}, seq)
	}
	cursor := seq
	var want []snapshot.Part
	for i := range newer { // old ones that change again
		seq++
		p := snapshot.Part{Kind: snapshot.Response, Turn: i, Index: i}
		c.note(p, seq)
		want = append(want, p)
	}
	e := c.order.Back()
	for range newer + 1 {
		e = e.Prev()
	}
	spoilt := 0
	for ; e != nil; e = e.Prev() {
		e.Value = nil
		spoilt++
	}
	if spoilt != parts-newer-1 || c.order.Len() != parts {
		t.Fatalf("%d of %d parts are spoilt", spoilt, c.order.Len())
	}
	got := c.since(cursor)
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := c.since(seq); len(got) != 0 {
		t.Errorf("nothing is newer, but %v came", got)
	}
}

// TestSinceAgreesWithAllMarks compares it with a reading of every mark.
func TestSinceAgreesWithAllMarks(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		var c changes
		marks := map[snapshot.Part]uint64{}
		n := uint64(1 + r.IntN(60))
		for seq := uint64(1); seq <= n; seq++ {
			if r.IntN(30) == 0 {
				c.reset(seq)
				marks = map[snapshot.Part]uint64{{Kind: snapshot.Root}: seq}
				continue
			}
			p := snapshot.Part{Kind: []snapshot.PartKind{snapshot.Head, snapshot.Turn, snapshot.Response, snapshot.Foot, snapshot.Dock}[r.IntN(5)]}
			if p.Kind == snapshot.Turn || p.Kind == snapshot.Response || p.Kind == snapshot.Foot {
				p.Turn = r.IntN(3)
			}
			if p.Kind == snapshot.Response {
				p.Index = r.IntN(4)
			}
			c.note(p, seq)
			marks[p] = seq
		}
		for cursor := range n + 1 {
			want := map[snapshot.Part]bool{}
			for p, at := range marks {
				within := p.Kind == snapshot.Response || p.Kind == snapshot.Foot
				if at > cursor && !(within && marks[snapshot.Part{Kind: snapshot.Turn, Turn: p.Turn}] > cursor) {
					want[p] = true
				}
			}
			if root := (snapshot.Part{Kind: snapshot.Root}); want[root] {
				want = map[snapshot.Part]bool{root: true}
			}
			got := c.since(cursor)
			if len(got) != len(want) {
				t.Fatalf("after %d of %d: %v, not %v", cursor, n, got, want)
			}
			for _, p := range got {
				if !want[p] {
					t.Fatalf("after %d of %d: %v, not %v", cursor, n, got, want)
				}
			}
		}
	}
}
