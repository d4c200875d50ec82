// Command security runs the tests that prove what nod promises about security, and
// prints the promises, each with what came of it. It is “make security”.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	// e2e runs the built program, of whose sources the cache knows nothing.
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=20m", "-run="+ofPromise.String(), "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := read(out, os.Stdout)
	err = cmd.Wait()
	kept := r.print(os.Stdout, promises)
	if err != nil && kept { // what failed is no test: it does not build, say
		fmt.Println("go test:", err)
	}
	if err != nil || !kept {
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// tally counts what came of the tests of one promise.
type tally struct{ passed, failed, skipped int }

type results map[string]*tally // by the promise's number

// ofPromise finds the number in the name of a test. Of what is fuzzed go test runs
// the seeds.
var ofPromise = regexp.MustCompile(`^(?:Test|Fuzz)([RC][0-9]+)`)

// read counts, and passes on what failing tests and packages say.
func read(in io.Reader, say io.Writer) results {
	out, said := results{}, map[string][]string{} // by package and test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			out.count(e, said, say)
		} else {
			_, _ = say.Write(line) // not an event: it goes wrong before there are tests
		}
		if err != nil {
			return out
		}
	}
}

func (r results) count(e event, said map[string][]string, say io.Writer) {
	test, _, sub := strings.Cut(e.Test, "/")
	key := e.Package + " " + test
	switch e.Action {
	case "output", "build-output":
		said[key] = append(said[key], e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if sub {
		return // its test tells
	}
	if e.Action == "fail" {
		_, _ = io.WriteString(say, strings.Join(said[key], ""))
	}
	delete(said, key)
	m := ofPromise.FindStringSubmatch(test)
	if m == nil {
		return
	}
	if r[m[1]] == nil {
		r[m[1]] = &tally{}
	}
	switch t := r[m[1]]; e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
	case "skip":
		t.skipped++
	}
}

// verdict is what a promise is worth. A test that was not run proves nothing.
func (t *tally) verdict() string {
	switch {
	case t == nil || t.passed+t.failed == 0:
		return "missing"
	case t.failed > 0:
		return "FAIL"
	}
	return "pass"
}

// print writes the list, and reports whether all of it is kept.
func (r results) print(w io.Writer, list []promise) (kept bool) {
	sum := map[string]int{}
	for _, p := range list {
		t := r[p.number]
		verdict := t.verdict()
		sum[verdict]++
		n := 0
		if t != nil {
			n = t.passed + t.failed
		}
		_, _ = fmt.Fprintf(w, "%-4s %-8s %3d  %s\n", p.number, verdict, n, p.says)
	}
	_, _ = fmt.Fprintf(w, "\n%d promises: %d pass, %d fail, %d missing\n", len(list), sum["pass"], sum["FAIL"], sum["missing"])
	return sum["pass"] == len(list)
}
