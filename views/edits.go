package views

import (
	"context"
	"io"
	"math"
	"strings"

	"github.com/a-h/templ"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
	"nod/views/diff"
)

// editDiff shows what a person changed in a text, to the byte: on an approval it is
// never cut.
func editDiff(asked, edited string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		lines := diff.Lines(asked, edited)
		words := diff.Words(lines)
		var b strings.Builder
		b.WriteString(`<figure class="diff edits"><div class="lines" tabindex="0" aria-label="What was changed">`)
		for i, l := range lines {
			writeDiffLine(&b, l, words[i], math.MaxInt)
		}
		b.WriteString("</div></figure>")
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// editOf returns the approval with which a person changed a tool call before it
// ran, nil if nobody did.
func editOf(s snapshot.Session, t *state.ToolCall) *approvals.Approval {
	for _, a := range s.Approvals {
		if a.State == approvals.Confirmed && a.Decision.EditedInput != "" && a.Request.ToolCallID == t.ToolCallID && a.Request.Session == s.State.Summary.Resource {
			return a
		}
	}
	return nil
}
