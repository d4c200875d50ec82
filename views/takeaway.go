package views

import (
	"context"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"nod/state/snapshot"
	"nod/static"
)

// Takeaway is a session as its guests see it, as a file that needs nothing else: all
// of it is there, with its style, and nothing leads out of it. It is drawn part by
// part into its writer. at is when the session was so, in Unix milliseconds.
func Takeaway(s snapshot.Session, at int64) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		sheet := &Sheet{file: true}
		sheet.view = sessionView{Session: s, sheet: sheet}
		sheet.next()
		return takeawayPage(sheet.view, at).Render(context.WithValue(WithGuest(ctx, Guest{}), fileKey{}, true), w)
	})
}

type fileKey struct{}

// inFile reports whether what is drawn is a file, which has to hold all of it.
func inFile(ctx context.Context) bool { return ctx.Value(fileKey{}) != nil }

// shown is how much of something is shown of which a page shows so much.
func shown(ctx context.Context, page int) int {
	if inFile(ctx) {
		return math.MaxInt
	}
	return page
}

// notTaken begin the sections of the style sheet that are about what no file has.
var notTaken = []string{"buttons and fields", "the door", "what was found", "a row of the inbox", "composer", "settings", "sharing", "what became of", "what is approved"}

// style is the style sheet of a file: of that of the pages what it needs.
var style = func() string {
	sheet, err := fs.ReadFile(static.FS, "nod.css")
	if err != nil {
		panic(err) // it was embedded
	}
	var b strings.Builder
	for section := range strings.SplitSeq(string(sheet), "\n/* ") {
		if !slices.ContainsFunc(notTaken, func(heading string) bool { return strings.HasPrefix(section, heading) }) {
			b.WriteString("\n/* " + strings.TrimPrefix(section, "/* "))
		}
	}
	return b.String()
}()

// styleElement holds the style sheet, which is our own.
func styleElement() templ.Component { return unescaped("<style>" + style + "</style>") }

// date is a time in Unix milliseconds for somebody who may read it anywhere, and
// years later.
func date(ms int64) string { return time.UnixMilli(ms).UTC().Format("2 January 2006, 15:04 UTC") }
