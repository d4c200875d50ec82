package main

import (
	"strings"
	"testing"
)

const run = `{"Action":"start","Package":"nod/a"}
{"Action":"run","Package":"nod/a","Test":"TestR1Login"}
{"Action":"output","Package":"nod/a","Test":"TestR1Login","Output":"nobody needs this\n"}
{"Action":"pass","Package":"nod/a","Test":"TestR1Login/sub"}
{"Action":"pass","Package":"nod/a","Test":"TestR1Login"}
{"Action":"pass","Package":"nod/b","Test":"TestR1EveryRoute"}
{"Action":"pass","Package":"nod/b","Test":"TestR12Proof"}
{"Action":"output","Package":"nod/b","Test":"TestR12Other","Output":"what went wrong\n"}
{"Action":"fail","Package":"nod/b","Test":"TestR12Other"}
{"Action":"skip","Package":"nod/b","Test":"TestC01Cold"}
{"Action":"fail","Package":"nod/b"}
{"Action":"pass","Package":"nod/a"}
`

// TestVerdicts: passed, failed, and what was skipped or is not there.
func TestVerdicts(t *testing.T) {
	var said, table strings.Builder
	r := read(strings.NewReader(run), &said)
	kept := r.print(&table, []promise{{"R1", "one"}, {"R2", "two"}, {"R12", "twelve"}, {"C01", "case"}})
	want := "R1   pass       2  one\nR2   missing    0  two\nR12  FAIL       2  twelve\nC01  missing    0  case\n\n4 promises: 1 pass, 1 fail, 2 missing\n"
	if kept || table.String() != want {
		t.Errorf("it prints\n%s", table.String())
	}
	if said.String() != "what went wrong\n" {
		t.Errorf("it says %q", said.String())
	}
	if !r.print(&table, []promise{{"R1", "one"}}) {
		t.Error("what is kept is not")
	}
}

// TestEveryPromiseOnce: each has a number of its own, and a sentence.
func TestEveryPromiseOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range promises {
		if seen[p.number] || p.says == "" || ofPromise.FindString("Test"+p.number) != "Test"+p.number {
			t.Errorf("%+v", p)
		}
		seen[p.number] = true
	}
}
