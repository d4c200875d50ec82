package plain

import (
	"strings"
	"testing"
)

// TestR20TooDeep counts what nests, and not what a text holds.
func TestR20TooDeep(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + `"]}"` + strings.Repeat(`]}`, n/2) }
	for raw, want := range map[string]bool{
		"": false, "7": false, nested(MaxDepth): false, nested(MaxDepth + 2): true,
		`["` + strings.Repeat("[", 100) + `"]`: false, `["\"` + strings.Repeat("[", 100) + `"]`: false,
		`["\\",` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]`: true, "[" + strings.Repeat("[],", 100) + "7]": false,
	} {
		if got := TooDeep([]byte(raw)); got != want {
			t.Errorf("%.40s: %v", raw, got)
		}
	}
}
