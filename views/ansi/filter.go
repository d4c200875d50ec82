package ansi

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxSequence is how long a control sequence may be, in bytes: a colour for
	// everything there is needs fifty.
	maxSequence = 256
	// maxString is how long a string (OSC, DCS, APC, PM, SOS) may be, in bytes.
	// A longer one has lost its end, or is a picture; what follows is text again.
	maxString = 4 << 10
	// maxMove bounds the numbers of a control sequence: more than any screen has
	// lines, and far from where the library's sums would overflow.
	maxMove = 9999
)

// filter lets of a program's output only that through which the library plays
// well: text, \n, \r, \b, tabs, and complete control sequences that move, erase
// or colour. The library makes pictures and links of some strings and dates of
// others, keeps an unterminated one for ever, and shows the sequences that it
// does not know as text.
//
// What has begun and is not over is kept for the next write. A string, a control
// sequence or an escape sequence that is too long, or that a control character
// interrupts, is given up: its part so far is dropped, and what follows is read
// as if it had ended.
type filter struct {
	mode   mode
	begun  []byte // of a rune that is not whole yet
	params []byte // of a control sequence
	taken  int    // bytes of the sequence so far
}

type mode int

const (
	text    mode = iota
	escape       // after ESC
	charset      // after ESC and an intermediate byte
	control      // after ESC [
	str          // in a string, to be dropped
)

// next appends to out what s lets through.
func (f *filter) next(out []byte, s string) []byte {
	if len(f.begun) > 0 {
		s = string(f.begun) + s
		f.begun = f.begun[:0]
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 && !utf8.FullRuneInString(s[i:]) {
			f.begun = append(f.begun, s[i:]...)
			break
		}
		out = f.rune(out, r)
		f.taken += n
		i += n
	}
	return out
}

func (f *filter) begin(m mode) {
	f.mode, f.taken, f.params = m, 0, f.params[:0]
}

// rune reads one more character.
func (f *filter) rune(out []byte, r rune) []byte {
	switch {
	case r == 0x1b: // also the first half of the ST that ends a string
		f.begin(escape)
		return out
	case r >= 0x80 && r < 0xa0: // the eight-bit form of ESC and a letter
		f.begin(escape)
		r -= 0x40
	case f.mode == str:
		if r == 0x07 || r == 0x18 || r == 0x1a || f.taken >= maxString {
			f.begin(text)
		}
		return out
	case r < 0x20 || r == 0x7f:
		if r != 0x7f {
			f.begin(text)
		}
		if r == '\n' || r == '\r' || r == '\b' || r == '\t' {
			out = append(out, byte(r))
		}
		return out
	}
	switch f.mode {
	case text:
		return utf8.AppendRune(out, r)
	case escape:
		switch {
		case r == '[':
			f.begin(control)
		case strings.ContainsRune("]P_^X", r):
			f.begin(str)
		case r >= 0x20 && r < 0x30:
			f.begin(charset)
		case r == '7' || r == '8' || r == 'M': // save, restore, up
			out = append(out, 0x1b, byte(r))
			fallthrough
		default:
			f.begin(text)
		}
	case charset:
		if r < 0x20 || r >= 0x30 || f.taken >= maxSequence {
			f.begin(text)
		}
	case control:
		switch {
		case r >= 0x20 && r < 0x40 && f.taken < maxSequence:
			f.params = append(f.params, byte(r))
		case r >= 0x40 && r < 0x7f:
			out = appendControl(out, string(f.params), r)
			f.begin(text)
		default:
			f.begin(text)
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// appendControl appends a control sequence in the library's words, or nothing.
func appendControl(out []byte, params string, final rune) []byte {
	if strings.Trim(params, "0123456789;:") != "" {
		return out // private, or with an intermediate byte
	}
	switch p := strings.Split(params, ";"); final {
	case 'A', 'B', 'C', 'D', 'E', 'F', 'G':
		return appendMove(out, number(p[0], 1), final)
	case 'J', 'K':
		return appendMove(out, number(p[0], 0), final)
	case 'H', 'f':
		// To the library H begins a new line; to a program that draws the same
		// screen again and again it is the screen's corner.
		out = append(out, '\r')
		out = appendMove(out, maxMove, 'A')
		if row := number(p[0], 1); row > 1 {
			out = appendMove(out, row-1, 'B')
		}
		if len(p) > 1 {
			out = appendMove(out, number(p[1], 1), 'G')
		}
	case 's':
		return append(out, "\x1b7"...)
	case 'u':
		return append(out, "\x1b8"...)
	case 'm':
		return appendColours(out, p)
	}
	return out
}

func appendMove(out []byte, n int, final rune) []byte {
	out = append(out, "\x1b["...)
	return append(strconv.AppendInt(out, int64(n), 10), byte(final))
}

// number reads a parameter; unset is what an empty one stands for.
func number(s string, unset int) int {
	if s == "" {
		return unset
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > maxMove {
		return maxMove
	}
	return n
}

// appendColours brings colours and styles down to what there are classes for:
// sixteen colours, bold, faint, italic, underlined, struck. The library does not
// know reverse; its blink is that here, since nothing blinks.
func appendColours(out []byte, params []string) []byte {
	out = append(out, "\x1b["...)
	for i := 0; i < len(params); i++ {
		sub := strings.Split(params[i], ":")
		n := number(sub[0], 0)
		switch n {
		case 4: // 4:3 is a curly line, 4:0 none
			if len(sub) > 1 && number(sub[1], 0) == 0 {
				n = 24
			}
		case 5, 6, 25:
			continue
		case 7:
			n = 5
		case 21: // two lines; to the library the end of bold
			n = 4
		case 27:
			n = 25
		case 38, 48, 58:
			args := sub[1:]
			if len(sub) == 1 {
				args = params[i+1:]
			}
			c, used := colour(args)
			if len(sub) == 1 {
				i += used
			}
			if c < 0 || n == 58 { // of the line under a text
				continue
			}
			n += c - 8 // 30 to 37, 40 to 47
			if c > 7 {
				n += 60 - 8 // 90 to 97, 100 to 107
			}
		}
		out = strconv.AppendInt(out, int64(n), 10)
		out = append(out, ';')
	}
	if out[len(out)-1] == '[' { // all of it was dropped, and an empty one means reset
		return out[:len(out)-len("\x1b[")]
	}
	out[len(out)-1] = 'm'
	return out
}

// colour reads what comes after 38 or 48 and returns one of the sixteen colours,
// or -1, and how many parameters that were. With colons a colour space may stand
// before the three parts, which are the last ones then.
func colour(args []string) (c, used int) {
	at := func(i int) int { return number(args[i], 0) }
	switch {
	case len(args) >= 2 && at(0) == 5:
		return of256(at(1)), 2
	case len(args) == 5 && at(0) == 2 && args[1] == "":
		return nearest(at(2), at(3), at(4)), 5
	case len(args) >= 4 && at(0) == 2:
		return nearest(at(1), at(2), at(3)), 4
	}
	return -1, len(args)
}

// of256 returns the one of sixteen colours that stands for one of 256: the first
// sixteen, a cube of six levels a side, 24 greys.
func of256(n int) int {
	level := func(i int) int { return [...]int{0, 95, 135, 175, 215, 255}[i%6] }
	switch {
	case n < 16:
		return n
	case n < 232:
		return nearest(level((n-16)/36), level((n-16)/6), level(n-16))
	case n < 256:
		grey := 8 + 10*(n-232)
		return nearest(grey, grey, grey)
	}
	return -1
}

// nearest returns the one of sixteen colours that is nearest by hue, for hue is
// what a program means something with. What has nearly none is a grey.
func nearest(r, g, b int) int {
	low, high := min(r, g, b), max(r, g, b)
	if high-low < 48 {
		switch {
		case high < 48:
			return 0
		case high < 144:
			return 8
		case high < 224:
			return 7
		}
		return 15
	}
	c, middle := 0, (low+high)/2
	for i, part := range []int{r, g, b} {
		if part > middle {
			c |= 1 << i
		}
	}
	if low+high > 340 {
		c += 8
	}
	return c
}
