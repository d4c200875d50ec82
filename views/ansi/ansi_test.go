package ansi

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ntext\n":                        "plain\ntext\n",
		"\x1b[31mred\x1b[0m":                   "red",
		"10%\r50%\r100%\n":                     "100%\n",
		"long line\rshort":                     "shortline",
		"a\r\nb":                               "a\nb",
		"ab\bc":                                "ac",
		"\x1b]8;;http://x\x07link\x1b]8;;\x07": "link",
		"\x1b]52;c;c2VjcmV0\x1b\\x":            "x",
		"\x1bPdcs\x1b\\y":                      "y",
		"cut \x1b[3":                           "cut ",
		"cut \x1b]0;title":                     "cut ",
		"bell\a nul\x00 c1\u009b31m":           "bell nul c131m",
		"tab\tstays":                           "tab\tstays",
		"\x1b[1;38;2;9;9;9mtrue\x1b[m colour":  "true colour",
		"wide ü 漢\x1b[0m":                      "wide ü 漢",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[31m\r\x1b]8;;x\x07\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Text(s) {
			if r != '\n' && isControl(r) {
				t.Fatalf("%q left %q", s, r)
			}
		}
		if strings.Count(Text(s), "\n") > strings.Count(s, "\n") {
			t.Fatal("more lines than before")
		}
	})
}
