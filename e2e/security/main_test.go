package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// TestEveryPromiseHasATest walks the sources: what “make security” would call missing
// is found by each run of the tests.
func TestEveryPromiseHasATest(t *testing.T) {
	tests := regexp.MustCompile(`(?m)^func (?:Test|Fuzz)([RC][0-9]+)\w*\(\w+ \*testing\.[TF]\)`)
	proven := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range tests.FindAllSubmatch(source, -1) {
			proven[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range promises {
		if !proven[p.number] {
			t.Errorf("no test begins with %s: %s", p.number, p.says)
		}
	}
}

// TestR46SecurityInPlainWords: the project's SECURITY.md names every promise, and none
// that nobody proves; it and the README say what an approval is not, and the README
// leads to it.
func TestR46SecurityInPlainWords(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	security, readme := read("docs/SECURITY.md"), read("README.md")
	for name, text := range map[string]string{"docs/SECURITY.md": security, "README.md": readme} {
		if !strings.Contains(text, "n approval is your consent, not a sandbox") {
			t.Errorf("%s does not say what an approval is", name)
		}
	}
	if !strings.Contains(readme, "](docs/SECURITY.md)") {
		t.Error("the README does not lead to it")
	}
	for _, part := range []string{"## What nod protects", "## What nod does not protect", "## Telling of a fault"} {
		if !strings.Contains(security, "\n"+part+"\n") {
			t.Errorf("there is no %q", part)
		}
	}
	named := regexp.MustCompile(`\bR[0-9]+\b`).FindAllString(security, -1)
	for _, p := range promises {
		if strings.HasPrefix(p.number, "R") && !slices.Contains(named, p.number) {
			t.Errorf("docs/SECURITY.md does not name %s: %s", p.number, p.says)
		}
	}
	for _, n := range named {
		if !slices.ContainsFunc(promises, func(p promise) bool { return p.number == n }) {
			t.Errorf("docs/SECURITY.md names %s, which nobody proves", n)
		}
	}
}
