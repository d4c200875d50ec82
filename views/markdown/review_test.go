package markdown

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBlocksDoNotDependOnTheWay: a message is cut into the same blocks however it
// came, for a page that one stream drew may be kept current by another.
func TestBlocksDoNotDependOnTheWay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, text := range append(answers(t), examples(t)...) {
		slow, once := NewStream(nil, nil), NewStream(nil, nil)
		for i := 0; i < len(text); {
			i = min(len(text), i+1+r.IntN(12))
			slow.Update(text[:i], false)
		}
		slow.Update(text, true)
		once.Update(text, true)
		if !slices.Equal(once.Blocks(), slow.Blocks()) {
			t.Errorf("%.60q\n slow %.300q\n once %.300q", text, slow.Blocks(), once.Blocks())
		}
	}
}
