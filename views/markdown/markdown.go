// Package markdown turns what a model wrote into HTML that is safe to place in
// a page: nothing in it runs, fetches, posts or leads to one of our own routes.
//
// The way through: a [Stream] cuts the text, while it is written, where a block
// ends for certain (stream.go, blocks.go); [HTML] is a stream that is fed once.
// Each piece is parsed as GitHub flavoured markdown with goldmark, whose parsers
// are wrapped so that no input costs more than its size allows (bounds.go). One
// pass decides for every link whether it may be one (links.go),
// the renderers here and goldmark's own write the elements, and a last pass over
// the finished HTML makes control characters visible. Code is coloured later, by
// a [Highlighter] (highlight.go). What the result may hold
// is a closed list; the tests check it against hostile and random input.
package markdown

import (
	"errors"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

var dialect = goldmark.New(
	goldmark.WithParser(newParser()),
	goldmark.WithRenderer(renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(safe{}, 100),
		util.Prioritized(extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), 500),
		util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500),
		util.Prioritized(gmhtml.NewRenderer(), 1000),
	))),
)

// HTML renders source as a [Stream] does, but leaves nothing out and has no
// colours. It never fails: what is too large or too odd to render comes back as
// escaped text in a pre element. The result is well-formed HTML in valid UTF-8.
// Several goroutines may call it at once.
func HTML(source string) string { return (&Stream{whole: true}).all(source) }

// Unlinked is HTML in which nothing leads anywhere: the address of a link stands
// behind its text.
func Unlinked(source string) string { return (&Stream{whole: true, bare: true}).all(source) }

func (s *Stream) all(source string) string {
	s.Update(source, true)
	if s.declined {
		return showControls(plain(s.src))
	}
	return strings.Join(s.blocks, "")
}

// renderOr falls back to plain text when render declines the source, or panics:
// a mistake in the parser must cost one message its looks, not everyone the server.
func renderOr(source []byte, render func() (string, bool)) (out string) {
	defer func() {
		if recover() != nil {
			out = plain(source)
		}
	}()
	if out, ok := render(); ok {
		return out
	}
	return plain(source)
}

func plain(source []byte) string {
	return "<pre><code>" + html.EscapeString(string(source)) + fenceEnd
}

// showControls names the characters that act on the text around them instead of
// being seen; neighbours share one element. It may work on finished HTML because
// they can only stand in text: attribute values are printable ASCII.
func showControls(out string) string {
	var b strings.Builder
	for {
		i := strings.IndexFunc(out, isControl)
		if i < 0 {
			break
		}
		b.WriteString(out[:i])
		b.WriteString(`<span class="hid">`)
		for sep := ""; i < len(out); sep = " " {
			r, size := utf8.DecodeRuneInString(out[i:])
			if !isControl(r) {
				break
			}
			fmt.Fprintf(&b, "%sU+%04X", sep, r)
			i += size
		}
		b.WriteString("</span>")
		out = out[i:]
	}
	b.WriteString(out)
	return b.String()
}

// isControl reports C0, DEL and C1 controls other than tab and newline, and the
// nine characters that turn the direction of text after them. Direction marks
// and joiners stay: ordinary right-to-left prose and emoji need them.
func isControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// bounded is a buffer that refuses to grow past max bytes.
type bounded struct {
	strings.Builder
	max int
}

var errTooLong = errors.New("markdown: output too long")

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// safe renders the nodes for which goldmark's own output is not acceptable.
type safe struct{}

func (safe) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindRawHTML, renderRawHTML)
	reg.Register(ast.KindHTMLBlock, renderHTMLBlock)
	reg.Register(ast.KindFencedCodeBlock, renderFence)
	reg.Register(ast.KindLink, renderLink)
	reg.Register(ast.KindAutoLink, renderAutoLink)
	reg.Register(ast.KindImage, renderImage)
	reg.Register(extast.KindTable, renderTable)
	reg.Register(extast.KindTaskCheckBox, renderTask)
}

func renderRawHTML(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.Write(util.EscapeHTML(n.(*ast.RawHTML).Segments.Value(src)))
	}
	return ast.WalkSkipChildren, nil
}

func renderHTMLBlock(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString("<pre><code>")
	_, _ = w.Write(util.EscapeHTML(n.Lines().Value(src)))
	if b := n.(*ast.HTMLBlock); b.HasClosure() {
		_, _ = w.Write(util.EscapeHTML(b.ClosureLine.Value(src)))
	}
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkSkipChildren, nil
}

func renderFence(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString("<pre><code")
	if lang := language(n.(*ast.FencedCodeBlock), src); lang != "" {
		_, _ = w.WriteString(` class="language-` + lang + `"`)
	}
	_ = w.WriteByte('>')
	if colours, ok := n.Attribute(coloursKey); ok {
		_, _ = w.WriteString(colours.(string))
	} else {
		_, _ = w.Write(util.EscapeHTML(n.Lines().Value(src)))
	}
	_, _ = w.WriteString(fenceEnd)
	return ast.WalkSkipChildren, nil
}

// coloursKey names the node attribute that holds the coloured HTML of a fence.
var coloursKey = []byte("colours")

// language returns the name of a fence's language, or "" if it is not one of ours.
func language(n *ast.FencedCodeBlock, src []byte) string {
	if lang := strings.ToLower(string(n.Language(src))); languages[lang] {
		return lang
	}
	return ""
}

// renderTable puts the table into a box of its own that can scroll, or a wide
// table would make the whole page scroll sideways on a phone.
func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"scroll\"><table>\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// renderTask writes a sign and not an input: a transcript has no controls.
func renderTask(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		sign := "☐ "
		if n.(*extast.TaskCheckBox).IsChecked {
			sign = "☑ "
		}
		_, _ = w.WriteString(sign)
	}
	return ast.WalkContinue, nil
}

// languages are the names that may become a class of a code element. The list
// is fixed so that no text of a model ever reaches an attribute.
var languages = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(`
		ada apache asm awk bash bat c c# c++ clj clojure cmake cmd coffeescript cpp cs csharp css csv cuda
		d dart diff dockerfile elisp elixir elm erl erlang ex f# fish fortran fsharp gherkin git-commit
		gitignore glsl go go-mod golang gomod gradle graphql groovy h haskell hcl hpp hs html http ini
		java javascript jinja js json json5 jsonc jsonl jsx julia kotlin kt latex less lisp log lua
		make makefile markdown matlab md mermaid nginx nim nix objective-c objc ocaml pascal patch perl
		php pl plaintext powershell prisma prolog proto protobuf ps1 purescript py python python3 r racket
		rb regex rs rst ruby rust sass scala scheme scss sh shell shell-session solidity sql starlark
		svelte svg swift systemd tcl templ terraform tex text tf toml ts tsx txt typescript v vb verilog
		vhdl vim vue wasm wat xml yaml yml zig zsh`) {
		m[name] = true
	}
	return m
}()
