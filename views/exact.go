package views

import (
	"context"
	"io"
	"strings"

	"github.com/a-h/templ"

	"nod/views/reveal"
)

// Components in this file write text to the byte: a template may add or take
// white space between elements, and here white space is part of what is approved.

// end marks the end of a text, for the script that sees whether it was in view.
const end = `<i class="end"></i>`

// revealed shows text in a box, everything hidden in it made visible, line by line.
func revealed(class, text string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<pre class="` + templ.EscapeString(class) + `" tabindex="0">`)
		for _, line := range reveal.Reveal(text) {
			b.WriteString(`<bdi class="line" dir="ltr">`)
			writeRuns(&b, line)
			b.WriteString("</bdi>")
		}
		b.WriteString(end + "</pre>")
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// revealedAddress is revealed for an address, its host emphasised. Where there is
// no host, all of the text is shown alike.
func revealedAddress(text, before, host, after string) templ.Component {
	if host == "" {
		return revealed("bytes", text)
	}
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		// An address of which the host is known holds nothing that is hidden.
		_, err := io.WriteString(w, `<pre class="bytes" tabindex="0"><bdi class="line" dir="ltr">`+
			templ.EscapeString(before)+`<b class="host">`+templ.EscapeString(host)+`</b>`+templ.EscapeString(after)+`</bdi>`+end+`</pre>`)
		return err
	})
}

// told is revealed for text within a sentence.
func told(text string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<bdi class="told" dir="ltr">`)
		for i, line := range reveal.Reveal(text) {
			if i > 0 {
				b.WriteString("<br>")
			}
			writeRuns(&b, line)
		}
		b.WriteString("</bdi>")
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func writeRuns(b *strings.Builder, line reveal.Line) {
	for _, r := range line {
		switch r.Kind {
		case reveal.Text:
			b.WriteString(templ.EscapeString(r.Text))
		case reveal.Hidden:
			b.WriteString(`<span class="hid">` + templ.EscapeString(r.Text) + `</span>`)
		default:
			b.WriteString(`<span class="sp">` + templ.EscapeString(r.Text) + `</span>`)
		}
	}
}
