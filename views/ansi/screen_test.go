package ansi

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// show is all that a screen shows of some writes.
func show(writes ...string) string {
	s := NewScreen()
	for _, w := range writes {
		s.Write(w)
	}
	return strings.Join(s.Blocks(), "|")
}

// C38 is one of everything, and what is to be seen of it.
var c38 = []struct{ name, in, want string }{
	{"plain", "a\nb\r\nc <&>\"'/", "a\nb\nc &lt;&amp;&gt;\"'/"},
	{"blank lines", "a\n\n\nb", "a\n\n\nb"},
	{"16 colours", "\x1b[31mr\x1b[0m\x1b[92mg\x1b[39m\x1b[41;97mw\x1b[m.", `<span class="term-fg31">r</span><span class="term-fgi92">g</span><span class="term-fgi97 term-bg41">w</span>.`},
	{"styles", "\x1b[1;3;4;9mx\x1b[22;23;24;29my\x1b[2mz\x1b[0;21mu", `<span class="term-fg1 term-fg3 term-fg4 term-fg9">x</span>y<span class="term-fg2">z</span><span class="term-fg4">u</span>`},
	{"reverse, and no blink", "\x1b[7mx\x1b[27m\x1b[5my", `<span class="term-fg5">x</span>y`},
	{"256 colours", "\x1b[38;5;9ma\x1b[38;5;196mb\x1b[38;5;240mc\x1b[48;5;21md", `<span class="term-fgi91">a</span><span class="term-fg31">b</span><span class="term-fgi90">c</span><span class="term-fgi90 term-bg44">d</span>`},
	{"true colour", "\x1b[38;2;250;20;20ma\x1b[38;2;200;255;200;1mb\x1b[48:2::0:0:200mc\x1b[38:2:0:200:0md\x1b[38:5:3me", `<span class="term-fg31">a</span><span class="term-fgi92 term-fg1">b</span><span class="term-fgi92 term-bg44 term-fg1">c</span><span class="term-fg32 term-bg44 term-fg1">d</span><span class="term-fg33 term-bg44 term-fg1">e</span>`},
	{"lines of its own colour", "\x1b[4:3;58;2;255;0;0;31mx\x1b[4:0my", `<span class="term-fg31 term-fg4">x</span><span class="term-fg31">y</span>`},
	{"broken colours", "\x1b[38mx\x1b[38;5my\x1b[38;5;999mz\x1b[38;2;1m!\x1b[;m", "xyz!"},
	{"a style over lines", "\x1b[31ma\nb\x1b[0m\nc", "<span class=\"term-fg31\">a</span>\n<span class=\"term-fg31\">b</span>\nc"},
	{"OSC 8: the text stays", "\x1b]8;;http://evil.test/\x07link\x1b]8;;\x1b\\ text", "link text"},
	{"OSC 52, title, colours asked for", "\x1b]52;c;c2VjcmV0\x1b\\x\x1b]0;t\x07y\x1b]11;?\x1b\\z", "xyz"},
	{"OSC of the library", "a\x1b]1338;url='http://evil.test/x.png'\x07\x1b]1339;url='javascript:1';content='x'\x07\x1b]1337;File=inline=1:AAAA\x07b", "ab"},
	{"APC of the library", "\x1b_bk;t=1700000000000\x07x", "x"},
	{"DCS, PM, SOS", "\x1bPq#0;2;0;0;0\x1b\\a\x1b^pm\x1b\\b\x1bXsos\x1b\\c", "abc"},
	{"the eight-bit forms", "\u009b31mr\u009b0m\u009d0;title\u009cx\u0090dcs\u009cy", `<span class="term-fg31">r</span>xy`},
	{"progress", "10%\r50%\r100%\ndone", "100%\ndone"},
	{"progress that erases", "downloading\r\x1b[Kok\r\n", "ok"},
	{"two bars", "a 1\nb 1\x1b[1A\ra 2\x1b[1B\rb 2", "a 2\nb 2"},
	{"backspace", "ab\b \bc", "ac"},
	{"columns", "abc\x1b[2Gx\x1b[5Cy", "axc    y"},
	{"a screen drawn twice", "\x1b[H\x1b[2Jone\ntwo\x1b[H\x1b[2J1\n2", "1\n2"},
	{"a place on the screen", "a\nb\nc\x1b[2;3Hx", "a\nb x\nc"},
	{"saved and restored", "a\x1b[sbc\x1b[ux\x1b7yz\x1b8!", "ax!z"},
	{"private and unknown", "\x1b[?25l\x1b[?1049hx\x1b[4h\x1b[0 q\x1b[3Ly\x1b[>c\x1b=\x1b(B\x1b#8z\x1bc", "xyz"},
	{"an interrupted sequence", "\x1b[3\nx\x1b[1漢\x1b\x1b[31m\x1b[0m\x1b]0;t\x18y", "\nx漢y"},
	{"control characters", "a\x00\a\x05\x7f\x0b\x0cb\tc", "ab\tc"},
	{"runes and no runes", "ü漢🙂\xff\xc3(", "ü漢🙂\ufffd\ufffd("},
	{"an unfinished sequence", "x\x1b", "x"},
	{"an unfinished control sequence", "x\x1b[3", "x"},
	{"an unfinished string", "x\x1b]0;title", "x"},
	{"an unfinished rune", "x\xe6\xbc", "x"},
}

// TestC38 holds what is seen of an output to what it should be, and to be the
// same when it arrives in two pieces, wherever it is cut.
func TestC38(t *testing.T) {
	for _, c := range c38 {
		t.Run(c.name, func(t *testing.T) {
			if got := show(c.in); got != c.want {
				t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
			}
			for i := range c.in {
				if got := show(c.in[:i], c.in[i:]); got != c.want {
					t.Errorf("%q cut at %d:\n got %q\nwant %q", c.in, i, got, c.want)
				}
			}
		})
	}
}

// TestNothingIsSwallowedForEver: what never ends is given up, after a stated
// number of bytes.
func TestNothingIsSwallowedForEver(t *testing.T) {
	for _, begin := range []string{"\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX"} {
		if got := show(begin + strings.Repeat("x", maxString) + "seen"); got != "seen" {
			t.Errorf("%q: %d bytes are seen", begin, len(got))
		}
	}
	if got := show("\x1b[" + strings.Repeat("1", maxSequence) + "seen"); got != "1seen" {
		t.Errorf("a control sequence: %q", got)
	}
}

// TestR39HostileMoves go no further than the screen, whatever they ask for.
func TestR39HostileMoves(t *testing.T) {
	for _, move := range []string{"\x1b[9999999B", "\x1b[99999999C", "\x1b[9223372036854775807B", "\x1b[9223372036854775807C", "\x1b[999;999H", "\x1b[9999999A", "\x1b[99999999999999999999D", "\x1b[99999G"} {
		got := show(strings.Repeat(move+"x", 1000))
		if n := utf8.RuneCountInString(got); n > 2*columns*keptRows {
			t.Errorf("%q: %d characters", move, n)
		}
	}
}

// TestLongLine: a line without an end is broken, and all of it is counted.
func TestLongLine(t *testing.T) {
	const size = 2 << 20
	s := NewScreen()
	for range size / 4096 {
		s.Write(strings.Repeat("x", 4096))
	}
	shown := strings.ReplaceAll(strings.Join(s.Blocks(), ""), "\n", "")
	breaks := size / (columns * (keptRows - rows)) // each a byte of text more
	if n := len(shown) + s.LeftOut(); n < size || n > size+breaks {
		t.Errorf("%d bytes shown and %d left out, of %d", len(shown), s.LeftOut(), size)
	}
	for _, line := range strings.Split(s.Blocks()[0], "\n")[:1] {
		if len(line) < columns*(keptRows-rows) {
			t.Errorf("a piece has %d characters", len(line))
		}
	}
}

// TestBlocks: what is final never changes but to become empty, the begin and the
// end are shown, and nothing between them is lost count of.
func TestBlocks(t *testing.T) {
	s := NewScreen()
	if b := s.Blocks(); len(b) != 1 || b[0] != "" {
		t.Errorf("an empty screen has %q", b)
	}
	var before []string
	all := 0
	for i := range 20_000 {
		line := fmt.Sprintf("line %d\n", i)
		all += len(line)
		s.Write(line)
		if i%100 > 0 {
			continue
		}
		now := s.Blocks()
		for j, b := range before[:max(0, len(before)-1)] {
			if now[j] != b && now[j] != "" {
				t.Fatalf("block %d has changed from %q to %q", j, b, now[j])
			}
		}
		before = now
		if n := len(strings.Join(now, "")); n > headSize+tailSize+tailStep+2*blockSize {
			t.Fatalf("%d bytes are shown", n)
		}
	}
	shown := strings.Join(s.Blocks(), "")
	if !strings.HasPrefix(shown, "line 0\n") || !strings.HasSuffix(shown, "line 19999") || len(shown) < headSize+tailSize-blockSize {
		t.Errorf("%d bytes are shown: %.20q to %q", len(shown), shown, shown[len(shown)-20:])
	}
	if n := len(shown) + len("\n") + s.LeftOut(); n != all {
		t.Errorf("%d bytes shown and left out, of %d", n, all)
	}
	emptied := 0
	for i, b := range s.Blocks() {
		if b == "" {
			emptied++
			if i < headSize/blockSize-1 {
				t.Errorf("block %d of the head is gone", i)
			}
		}
	}
	if emptied == 0 {
		t.Error("no block was emptied")
	}
}

// allowed is all the HTML there may be.
var allowed = regexp.MustCompile(`^(?:[^<>&\x00-\x08\x0b-\x1f\x7f-\x9f]|&(?:amp|lt|gt);|<span class="` + class + `(?: ` + class + `)*">(?:[^<>&\x00-\x08\x0a-\x1f\x7f-\x9f]|&(?:amp|lt|gt);)+</span>)*$`)

const class = `term-(?:fg[1-59]|fg3[0-7]|fgi9[0-7]|bg4[0-7]|bgi10[0-7])`

func FuzzScreen(f *testing.F) {
	for i, c := range c38 {
		f.Add(c.in, uint64(i))
	}
	f.Add(strings.Repeat("\x1b[31mlong ", 5000), uint64(7))
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		whole := NewScreen()
		whole.Write(in)
		pieces := NewScreen()
		random := rand.New(rand.NewPCG(seed, 0))
		for rest := in; rest != ""; {
			n := 1 + random.IntN(min(len(rest), 1+int(seed%100)))
			pieces.Write(rest[:n])
			if seed%2 == 0 {
				pieces.Blocks() // looking changes nothing
			}
			rest = rest[n:]
		}
		want, got := whole.Blocks(), pieces.Blocks()
		if strings.Join(want, "|") != strings.Join(got, "|") || whole.LeftOut() != pieces.LeftOut() {
			t.Fatalf("%q\n in pieces %q\n in one %q", in, got, want)
		}
		for _, b := range want {
			if !allowed.MatchString(b) {
				t.Fatalf("%q made %q", in, b)
			}
		}
	})
}

// output is what a build writes: lines with some colour.
func output(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "\x1b[32mok\x1b[0m  \texample.org/module/package%d\t0.%03ds\r\n", i, i%1000)
	}
	return b.String()[:size]
}

const piece = 4 << 10 // bytes that arrive together

// BenchmarkScreen feeds 2 MB in pieces of 4 KiB and looks after each.
func BenchmarkScreen(b *testing.B) {
	text := output(2 << 20)
	for b.Loop() {
		s := NewScreen()
		for i := 0; i < len(text); i += piece {
			s.Write(text[i : i+piece])
			s.Blocks()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
}

// BenchmarkTailAnew is what a Screen is compared with: of the same output the last
// 64 KiB are drawn anew after each piece.
func BenchmarkTailAnew(b *testing.B) {
	text := output(2 << 20)
	for b.Loop() {
		for i := 0; i < len(text); i += piece {
			s := NewScreen()
			s.Write(text[max(0, i+piece-(64<<10)) : i+piece])
			s.Blocks()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
}
