package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPartsAreASlice: what is appended and replaced is what a slice would have,
// no older list changes, and Changed finds just what differs.
func TestPartsAreASlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var list Parts
	var want []ResponsePart
	var lists []Parts
	var wants [][]ResponsePart
	for i := range 400 {
		x := &NotificationPart{Content: Plain(fmt.Sprint(i))}
		if at := r.IntN(2 * (len(want) + 1)); at < len(want) {
			list, want = list.Replace(at, x), slices.Clone(want)
			want[at] = x
		} else {
			list, want = list.Append(x), append(slices.Clip(want), x)
		}
		lists, wants = append(lists, list), append(wants, want)
	}
	for i, l := range lists {
		if !slices.Equal(l.Slice(), wants[i]) || l.Len() != len(wants[i]) {
			t.Fatalf("list %d is not what it was", i)
		}
		old := r.IntN(i + 1)
		var differ []int
		for k, x := range wants[i] {
			if k >= len(wants[old]) || wants[old][k] != x {
				differ = append(differ, k)
			}
		}
		if got := slices.Collect(l.Changed(lists[old])); !slices.Equal(got, differ) {
			t.Errorf("from %d to %d %v changed, not %v", old, i, got, differ)
		}
		if again := PartsOf(wants[i]...); !slices.Equal(again.Slice(), wants[i]) {
			t.Errorf("%d parts made a list of %d", len(wants[i]), again.Len())
		}
	}
	back := slices.Clone(want)
	slices.Reverse(back)
	var got []ResponsePart
	for _, x := range list.Backward() {
		got = append(got, x)
	}
	if !slices.Equal(got, back) {
		t.Error("backward is not backward")
	}
}
