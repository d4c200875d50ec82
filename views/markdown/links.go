package markdown

import (
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// hrefKey names the node attribute that holds a checked address. goldmark's own
// renderers never see the nodes that carry it.
var hrefKey = []byte("href")

// addressKey names it on a node that becomes no a element in a document where none
// does. An autolink's text is its address.
var addressKey = []byte("address")

// bareKey is set in the context of such a document.
var bareKey = parser.NewContextKey()

// linker decides for every link, autolink and image of a document whether it
// becomes an a element. It does so in one pass before rendering because the
// answer depends on the nodes around: an a element must not hold another one.
type linker struct{}

func (linker) Transform(doc *ast.Document, reader text.Reader, pc parser.Context) {
	src := reader.Source()
	bare := pc.Get(bareKey) != nil
	inside := false
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if href(n) != nil {
				inside = false
			}
			return ast.WalkContinue, nil
		}
		if inside {
			return ast.WalkContinue, nil
		}
		var addr []byte
		switch n := n.(type) {
		case *ast.Link:
			addr = safeURL(util.URLEscape(n.Destination, true))
		case *ast.Image:
			addr = safeURL(util.URLEscape(n.Destination, true))
		case *ast.AutoLink:
			addr = safeURL(util.URLEscape(autoURL(n, src), false))
		}
		switch {
		case addr == nil:
		case bare:
			n.SetAttribute(addressKey, addr)
		default:
			n.SetAttribute(hrefKey, addr)
			inside = true
		}
		return ast.WalkContinue, nil
	})
}

func href(n ast.Node) []byte {
	v, _ := n.Attribute(hrefKey)
	addr, _ := v.([]byte)
	return addr
}

func autoURL(n *ast.AutoLink, src []byte) []byte {
	addr := n.URL(src)
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(string(addr)), "mailto:") {
		addr = append([]byte("mailto:"), addr...)
	}
	return addr
}

// safeURL returns the address ready to stand in an attribute, or nil if it is
// not an absolute http, https or mailto address. A relative one would let a
// model name our routes, any other scheme may start a program. The address is
// written from its parsed form, so that what was checked is what is used.
func safeURL(addr []byte) []byte {
	if len(addr) > maxURL {
		return nil
	}
	u, err := url.Parse(string(addr))
	if err != nil {
		return nil
	}
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" {
			return nil
		}
	case "mailto":
		if u.Opaque == "" {
			return nil
		}
	default:
		return nil
	}
	out := u.String()
	for _, c := range []byte(out) {
		if c <= ' ' || c > '~' {
			return nil
		}
	}
	return util.EscapeHTML([]byte(out))
}

func openLink(w util.BufWriter, addr []byte) {
	_, _ = w.WriteString(`<a href="`)
	_, _ = w.Write(addr)
	_, _ = w.WriteString(`" rel="nofollow noopener noreferrer" target="_blank">`)
}

func renderLink(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	addr := href(n)
	switch {
	case addr != nil && entering:
		openLink(w, addr)
	case addr != nil:
		_, _ = w.WriteString("</a>")
	case !entering:
		if addr, ok := n.Attribute(addressKey); ok {
			_, _ = w.WriteString(" (")
			_, _ = w.Write(addr.([]byte))
			_ = w.WriteByte(')')
		}
	}
	return ast.WalkContinue, nil
}

func renderAutoLink(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	addr := href(n)
	if addr != nil {
		openLink(w, addr)
	}
	_, _ = w.Write(util.EscapeHTML(n.(*ast.AutoLink).Label(src)))
	if addr != nil {
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

// renderImage shows words in place of the picture: fetching it would tell its
// host whatever the model put into the address.
func renderImage(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		if addr := href(n); addr != nil {
			openLink(w, addr)
		}
		_, _ = w.WriteString("image: ")
		if dest := n.(*ast.Image).Destination; !n.HasChildren() && len(dest) <= maxURL {
			_, _ = w.Write(util.EscapeHTML(dest))
		}
		return ast.WalkContinue, nil
	}
	if href(n) == nil && !n.HasChildren() { // its address is there
		return ast.WalkContinue, nil
	}
	return renderLink(w, src, n, entering)
}
