package markdown

import (
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// elsewhere reads markdown as others do: all of GitHub's, without bounds.
var elsewhere = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote))

func TestContained(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"ordinary text", "Two *words*, `<b>` and\n\n- a\n- b\n\n| x |\n|---|\n| y |\n", "Two *words*, `<b>` and\n\n- a\n- b\n\n| x |\n|---|\n| y |"},
		{"code stays as it is", "```html\n<b># x</b>\n```\n\n    <i>\n", "```html\n<b># x</b>\n```\n\n    <i>"},
		{"links stay", "[a](http://x.test) <http://y.test> [b]", "[a](http://x.test) <http://y.test> [b]"},
		{"headings", "# A\n\n## B ##\n\n#### D\n\n###### F\n#\n#no", "#### A\n\n##### B ##\n\n#### D\n\n###### F\n####\n#no"},
		{"headings by the line below", "A\n===\n\nB\nc\n---\n\n> D\n> ---", "#### A\n\n##### B c\n\n> ##### D"},
		{"a heading behind a tab", "*\n\t# 0", "*\n\t#### 0"},
		{"an open fence", "a\n\n```go\nx", "a\n\n```go\nx\n```"},
		{"an open fence with backticks", "```go\nx := `y`", "```go\nx := `y`\n```"},
		{"an open fence of tildes", "~~~~\n```\n~~~", "~~~~\n```\n~~~\n~~~~"},
		{"an open fence in a list ends with it", "- a\n  ```\n  x", "- a\n  ```\n  x"},
		{"HTML in a line", "Vec<T> and <br/> <!-- c -->", `Vec\<T> and \<br/> \<!-- c -->`},
		{"HTML", "<details>\n<b>x</b>\n\n<!-- open\n\n# y", "\\<details>\n\\<b>x\\</b>\n\n\\<!-- open\n\n#### y"},
		{"images", "![x](http://y.test/z) [![](http://y.test/1)](http://y.test)", `\![x](http://y.test/z) [\![](http://y.test/1)](http://y.test)`},
		{"definitions", "[a]: http://x.test\n[b]: <y> 'z'\n\n[a]", "\\[a]: http://x.test\n\\[b]: \\<y> 'z'\n\n[a]"},
		{"footnotes", "x[^1]\n\n[^1]: y", "x[^1]\n\n\\[^1]: y"},
		{"controls", "a\x1b[1m\u202e\rb\r\nc\x00", "a⟨U+001B⟩[1m⟨U+202E⟩⟨U+000D⟩b\nc⟨U+0000⟩"},
		{"what is too much to tell is code", strings.Repeat("*a", 1000), "```\n" + strings.Repeat("*a", 1000) + "\n```"},
		{"and too deep", strings.Repeat("> ", 20) + "<!-- x", "```\n" + strings.Repeat("> ", 20) + "<!-- x\n```"},
	} {
		if got := Contained(c.in); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestCodeAndEscape(t *testing.T) {
	for _, line := range []string{"x", "`", "a``b`", " a ", "` `", `*_[]()<b>#|~&amp; \! ![x](y) a@b.test ` + "\x1b", "a\nb"} {
		want := strings.ReplaceAll(Visible(line), "\n", " ")
		for how, made := range map[string]string{"code": Code(line), "escaped": Escape(line)} {
			doc := elsewhere.Parser().Parse(text.NewReader([]byte("### x" + made + "\n")))
			var b strings.Builder
			_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
				if x, ok := n.(*ast.Text); ok && entering {
					v := string(x.Segment.Value([]byte("### x" + made + "\n")))
					if how == "escaped" {
						for _, c := range "\\`*_~[]<>#|&$@" {
							v = strings.ReplaceAll(v, `\`+string(c), string(c))
						}
					}
					b.WriteString(v)
				} else if k := n.Kind(); k != ast.KindDocument && k != ast.KindHeading && k != ast.KindText && k != ast.KindCodeSpan {
					t.Errorf("%q has a %s", made, k)
				}
				return ast.WalkContinue, nil
			})
			if got := strings.TrimRight(strings.TrimPrefix(b.String(), "x"), " "); got != strings.TrimRight(want, " ") {
				t.Errorf("%s: %q shows %q", how, made, got)
			}
		}
	}
}

// stays fails unless a text stays where it is put, for whoever reads it.
func stays(t *testing.T, source string) {
	t.Helper()
	in := Contained(source)
	whole := []byte("# a\n\n### b\n\n" + in + "\n\n### c [x] [Turn 1] [^1]\n\n" + Fence("", source) + "\n\n" + Quote(source) + "\n\n## d\n")
	doc := elsewhere.Parser().Parse(text.NewReader(whole))
	var levels []int
	fences := 0
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level <= 3 {
				levels = append(levels, n.Level)
				if n.Parent() != doc {
					t.Errorf("a heading in something: %q", in)
				}
			}
		case *ast.HTMLBlock, *ast.RawHTML, *ast.Image, *ast.LinkReferenceDefinition, *extast.Footnote, *extast.FootnoteList, *extast.FootnoteLink:
			t.Errorf("a %s: %q", n.Kind(), in)
		case *ast.FencedCodeBlock:
			want := Visible(source)
			if want != "" && !strings.HasSuffix(want, "\n") {
				want += "\n"
			}
			if n.Parent() == doc && len(levels) == 3 && string(n.Lines().Value(whole)) == want {
				fences++
			}
		}
		return ast.WalkContinue, nil
	})
	if !slices.Equal(levels, []int{1, 3, 3, 2}) {
		t.Errorf("headings of levels %v in\n%q", levels, whole)
	}
	if last := doc.LastChild(); last.PreviousSibling().Kind() != ast.KindBlockquote || last.PreviousSibling().PreviousSibling().Kind() != ast.KindFencedCodeBlock {
		t.Errorf("the quotation is none, or more, in\n%q", whole)
	}
	if fences != 1 {
		t.Errorf("the code is not what it was in\n%q", whole)
	}
}

// TestContainedStays puts together what could break out, in every order of two.
func TestContainedStays(t *testing.T) {
	pieces := []string{
		"# Turn 1", "A\n===", "a\nb\n---", "```", "~~~~ x", "- a\n  ```", "> ```", "> # q", "<!--", "-->", "<details>", "</div>", "<pre>", "a <b\nc='d'> e", "<?", "<![CDATA[",
		"[x]: y", "[Turn 1]:\n  <z> 'open", "[^1]: note", "[^1]", "![x](y)", "![x]", "    code", "\tcode", "| a |\n|---|\n| <b> |", "1. a\n\n   <p>", "- [ ] x", "*a", "`", "``<b>", `\`, "\\<b>", "a\\",
		"<http://x.test>", "\r# b", "\x00", "\u2028# c", "", "  ", "&lt;b&gt;", "- # h", "-", "***", "+ > # x", "x\n  ---", "#no\n===", "a | b\n---|---\n===", "[a\n]: b\n===", "- a\n===",
	}
	for _, a := range pieces {
		for _, b := range pieces {
			for _, between := range []string{"\n", "\n\n", " ", "\n  ", "\n> "} {
				stays(t, a+between+b)
			}
		}
	}
}

func FuzzContained(f *testing.F) {
	for _, s := range examples(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 4<<10 {
			t.Skip()
		}
		stays(t, source)
	})
}

// TestR39ContainedIsBounded: no text costs more than its size allows.
func TestR39ContainedIsBounded(t *testing.T) {
	for _, unit := range []string{"<b>", "![", "[a]: b\n", "# a\n", "a\n===\n", "> ", "`", "```\n", "<!-- ", "[^1]: x\n", "- ", "|a", "*a_"} {
		if got := Contained(strings.Repeat(unit, 100_000/len(unit))); len(got) > 400_000 {
			t.Errorf("%q: %d bytes", unit, len(got))
		}
	}
}
