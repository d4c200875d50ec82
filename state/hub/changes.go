package hub

import (
	"container/list"

	"nod/state/snapshot"
)

// changes knows for every part of a page the number at which it last changed, in
// the order of these numbers: so that asking what is newer than a cursor costs
// what is newer. The zero value is ready to use.
type changes struct {
	order list.List // of mark, oldest first
	at    map[snapshot.Part]*list.Element
}

type mark struct {
	part snapshot.Part
	seq  uint64
}

// note says that a part changed at seq, which is none before the newest.
func (c *changes) note(p snapshot.Part, seq uint64) {
	if e := c.at[p]; e != nil {
		e.Value = mark{p, seq}
		c.order.MoveToBack(e)
		return
	}
	if c.at == nil {
		c.at = map[snapshot.Part]*list.Element{}
	}
	c.at[p] = c.order.PushBack(mark{p, seq})
}

// reset forgets all parts: the whole page changed at seq.
func (c *changes) reset(seq uint64) {
	c.order.Init()
	c.at = nil
	c.note(snapshot.Part{Kind: snapshot.Root}, seq)
}

// since returns the parts that changed after seq. A part of a turn that is itself
// among them is left out, and every part beside the whole page.
func (c *changes) since(seq uint64) (parts []snapshot.Part) {
	newer := func(p snapshot.Part) bool {
		e := c.at[p]
		return e != nil && e.Value.(mark).seq > seq
	}
	if root := (snapshot.Part{Kind: snapshot.Root}); newer(root) {
		return []snapshot.Part{root}
	}
	for e := c.order.Back(); e != nil && e.Value.(mark).seq > seq; e = e.Prev() {
		p := e.Value.(mark).part
		inTurn := p.Kind == snapshot.Response || p.Kind == snapshot.Foot
		if !inTurn || !newer(snapshot.Part{Kind: snapshot.Turn, Turn: p.Turn}) {
			parts = append(parts, p)
		}
	}
	return parts
}
