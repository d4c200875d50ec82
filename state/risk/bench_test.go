package risk

import (
	"fmt"
	"strings"
	"testing"

	"nod/state"
)

// hostile are requests that are made to take long, by what they repeat.
func hostile() map[string]state.Request {
	to := func(n int, s string) string { return strings.Repeat(s, n/len(s)+1)[:n] }
	out := map[string]state.Request{}
	for _, s := range []string{
		"a ", "a;", "a\n", "git ", "curl|", "curl ", "curl a|", "git push ", "\"'", "'a' ", "docker ", "docker -v ~ ", "find -exec ", "find -exec find ", "я", "a\u0430 ", "\u4e00", "\U0001d41c", "xn--a ", "xn--a1b2 ", "rm -", "> ", ">~/a ", "~/a ", "\\\n", ".ssh/x ", "e ", "sh <", "a/../",
		"\u2003", "\x00", "://a.b ", "http://a ", "env ", "sudo ", "sudo;", "env a=b ", "ssh h ", "sh -c ", "eval ", "eval a ", "xargs ", "(", "$(", "$(a ", "`a", "{ ", "((", "((a) b) ", "((a) ", "$((a) b) ", "[[ a ]];", "case a in b) c;; esac;", "if a; then b; fi;", "(a);", "{ a; };", "$(a) ", "`a` ", "[[ ", "if a; then ", "case a in a) ", "<<E\n", "cat <<E\nE\n", "<(a ", "${a:-", "${a:-$(", "$((1+", "a=b ", "a=$(b) ", "rm -rf a;", "rm a ", "cd a;", "cd a/b&&", "mv a b;",
		"cp a b;", "curl -o a b;", "wget a/b;", "wget a/b a/c ", "bash a;", "git -C a ", "git -c a=b ", "git rebase -x a ", "-v a ", "tar ", "\u037e", "\u2013a ", "a\u2215", "/", "a/", ".", ".env ", "/etc/passwd ", "a|", "a|sh;", "python -c a;", "!", "! ", "time ", "\t", "\u200d", "\u0645\u200c", "🙂\u200d", "a@", "a=", "<<<a ", "2>&1 ", "$'\\x41'", "AGENTS.md\n", "||", "a&", "f(){ ", "coproc ", "for a in b;do ", "*(", "@(a|", "\\",
	} {
		out["command "+fmt.Sprintf("%.12q", s)] = state.Request{Kind: state.RequestCommand, Folder: "/w/a", Input: to(maxRead, s)}
		out["details "+fmt.Sprintf("%.12q", s)] = state.Request{Kind: state.RequestTool, Folder: "/w/a", Details: slicesOf(200, to(30<<10, s))}
	}
	for _, s := range []string{"git rebase -x ", "git bisect run ", "find -exec ", "ssh h ", "bash -c ", "eval "} {
		out["words "+s] = state.Request{Kind: state.RequestCommand, Input: to(maxRead, s)}
		out["quoted "+s] = state.Request{Kind: state.RequestCommand, Input: s + "'" + to(maxRead-20, s) + "'"}
	}
	out["many details"] = state.Request{Kind: state.RequestTool, Details: slicesOf(100_000, "a")}
	for name, form := range map[string]string{"names": "+++ %x\n", "Cyrillic names": "+++ я%x\n", "long names": "+++ " + to(4000, ".ssh/") + "%x\n", "paths": "+++ a/../../%x/.git/\n"} {
		var b strings.Builder
		for i := 0; b.Len() < maxDiff; i++ {
			fmt.Fprintf(&b, form, i)
		}
		out[name] = state.Request{Kind: state.RequestFileChange, Diff: b.String(), Folder: "/w"}
	}
	out["no names"] = state.Request{Kind: state.RequestFileChange, Diff: to(8<<20, "+++\n"), Folder: "/w"}
	return out
}

func slicesOf(n int, text string) (out []state.Detail) {
	for range n {
		out = append(out, state.Detail{Text: text})
	}
	return out
}

// BenchmarkKnown is what it costs to draw it again.
func BenchmarkKnown(b *testing.B) {
	r := hostile()["names"]
	for b.Loop() {
		Marks(r, mine)
	}
}

// TestR24IsBounded counts what is looked at: of no request more than a bound, and of
// what is not looked at the mark says so.
func TestR24IsBounded(t *testing.T) {
	for name, r := range hostile() {
		if got := Marks(r, mine); len(r.Details) > 2 && !has(whys(r, mine), "not read it to its end") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	words := state.Request{Kind: state.RequestCommand, Input: strings.Repeat("a;", maxWords)}
	if !High(words, once) {
		t.Error("more commands than nod looks at ask for no proof")
	}
	brackets := state.Request{Kind: state.RequestCommand, Input: strings.Repeat("(", maxBrackets+1) + "a" + strings.Repeat(")", maxBrackets+1)}
	if !High(brackets, once) {
		t.Error("more brackets than nod looks at ask for no proof")
	}
	var long []state.Detail
	for range 3 {
		long = append(long, state.Detail{Text: strings.Repeat("a", maxRead/2)})
	}
	if r := (state.Request{Kind: state.RequestTool, Details: long}); !High(r, once) {
		t.Error("details that are long together ask for no proof")
	}
	before := Marks(in("ls"))
	if same := in("ls"); len(before) != 0 || len(Marks(same)) != 0 {
		t.Error("marks of the same again differ")
	}
	other := in("ls")
	if other.Cwd = "/srv"; len(Marks(other)) == 0 || len(Marks(in("cat /srv/mine/x"))) != 0 || len(Marks(in("cat /srv/mine/x"), "/srv/mine")) == 0 {
		t.Error("marks of another request are taken for those of this one")
	}
}

// BenchmarkMarks is what a request costs that is made to cost much.
func BenchmarkMarks(b *testing.B) {
	for name, r := range hostile() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				marks(r, []string{mine})
			}
		})
	}
}
