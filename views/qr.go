package views

import (
	"context"
	"fmt"
	"image/color"
	"io"
	"strings"

	"github.com/a-h/templ"
	"github.com/boombuler/barcode/qr"
)

// quiet is the margin of a QR code, in its own squares, that scanners need.
const quiet = 4

// qrCode draws a text as a QR code: black on white in any scheme of colours, or a
// scanner would not see it.
func qrCode(text string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		code, err := qr.Encode(text, qr.M, qr.Auto)
		if err != nil {
			return err
		}
		size := code.Bounds().Dx()
		var path strings.Builder
		for y := range size {
			for x := range size {
				if code.At(x, y) == color.Black {
					fmt.Fprintf(&path, "M%d %dh1v1h-1z", x, y)
				}
			}
		}
		_, err = fmt.Fprintf(w, `<svg class="qr" role="img" aria-label="QR code" viewBox="%d %d %d %d"><path d="%s"/></svg>`,
			-quiet, -quiet, size+2*quiet, size+2*quiet, path.String())
		return err
	})
}
