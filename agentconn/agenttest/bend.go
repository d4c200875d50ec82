package agenttest

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// odd is what comes where something else is expected.
var odd = []any{
	nil, true, 0, -1, 1 << 60, 0.5, "", "x", "\x00\u202e\u200b\x1b[31m", strings.Repeat("a", 5000), "../../etc", "file:///etc", "2026-13-99T99:00:00Z",
	[]any{}, []any{nil}, map[string]any{}, map[string]any{"": nil}, json.RawMessage(strings.Repeat("[", 70) + strings.Repeat("]", 70)),
}

// Bend returns a JSON text in which some values are others, or missing. Which, the seed
// says. What is no JSON stays as it is.
func Bend(raw []byte, seed uint64) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if seed == 0 || d.Decode(&v) != nil {
		return raw
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for range 1 + r.IntN(3) {
		v = bend(r, v)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

func bend(r *rand.Rand, v any) any {
	switch x := v.(type) {
	case map[string]any:
		if keys := slices.Sorted(maps.Keys(x)); len(keys) > 0 && r.IntN(12) > 0 {
			k := keys[r.IntN(len(keys))]
			if r.IntN(8) == 0 {
				delete(x, k)
			} else {
				x[k] = bend(r, x[k])
			}
			return x
		}
	case []any:
		if len(x) > 0 && r.IntN(8) > 0 {
			i := r.IntN(len(x))
			x[i] = bend(r, x[i])
			return x
		}
	}
	return odd[r.IntN(len(odd))]
}
