package risk

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// Lookalikes returns the words of a text that may read as something else: letters
// of several alphabets in one word (also where a host's name spells them in ASCII), a word of another alphabet of which every
// letter looks like a Latin one, letters in disguise, and signs that look like those
// which shells and addresses are made of.
func Lookalikes(text string) (marks []Mark) {
	for _, label := range punycode.FindAllString(text, -1) {
		if reads, err := idna.Punycode.ToUnicode(strings.ToLower(label)); err == nil {
			text += " " + reads
		}
	}
	if isASCII(text) {
		return nil
	}
	add := func(why, what string) {
		if !slices.ContainsFunc(marks, func(m Mark) bool { return m.Why == why }) {
			marks = append(marks, Mark{Why: why, What: shorten(what)})
		}
	}
	for _, w := range word.FindAllString(text, -1) {
		switch names := alphabets(w); {
		case isASCII(w):
		case strings.ContainsFunc(w, disguised):
			add("it holds letters or signs in disguise, which are not the ones that they look like", w)
		case len(names) > 1:
			add("it holds a word of "+strings.Join(names, " and ")+" letters, which may not be what it looks like", w)
		case len(names) == 1 && names[0] != "Latin" && !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) && !strings.ContainsRune(likeLatin, r) }):
			add("it holds a word of "+names[0]+" letters that all look like Latin ones", w)
		}
	}
	for _, w := range strings.Fields(text) {
		if strings.ContainsAny(w, likeSigns) {
			add("it holds letters or signs in disguise, which are not the ones that they look like", w)
		}
	}
	return marks
}

// punycode is a part of a host's name that stands for letters beyond ASCII.
var punycode = regexp.MustCompile(`(?i)\bxn--[a-z0-9-]+`)

// word is letters, what belongs to them, and digits.
var word = regexp.MustCompile(`[\p{L}\p{M}\p{Nd}\x{1D400}-\x{1D7FF}\x{FF10}-\x{FF19}]+`)

// likeLatin are letters of other alphabets that look like Latin ones.
const likeLatin = "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u04cf\u04af\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u051a\u051c\u04c0\u04ae" + // Cyrillic
	"\u03bf\u03bd\u03c1\u03c5\u03b9\u03ba\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f2\u03f3" + // Greek
	"\u0585\u057d\u0578\u0570\u0581\u0584\u053c\u0555\u054f" + // Armenian
	"\u13aa\u13ac\u13a5\u13b3\u13b7\u13bb\u13c3\u13c6\u13d2\u13de\u13df\u13e2\u13f4" // Cherokee

// likeSigns look like signs that shells and addresses are made of: - / \ . : ; | & ' " ` < > = $ ~
const likeSigns = "\u2010\u2011\u2012\u2013\u2014\u2212\u2043\ufe63\u2044\u2215\u29f8\u29f5\ufe68\u2024\u2025\u02d0\u2236\ua789\ufe13\u037e\ufe14\u2223\u01c0\u2502\u2039\u203a\uff07\u02b9\u02bc\u223c\u02dc\u01c3"

// disguised reports whether a letter, digit or sign is a typeface of an ASCII one.
func disguised(r rune) bool { return r >= 0xff01 && r <= 0xff5e || r >= 0x1d400 && r <= 0x1d7ff }

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// together are alphabets that one word may be written in; see UTS 39, “highly
// restrictive”.
var together = []string{"Latin", "Han", "Hiragana", "Katakana", "Hangul", "Bopomofo"}

// alphabets are the names of the alphabets that a word is written in, in the order
// in which they come; one if they go together.
func alphabets(w string) (names []string) {
	for _, r := range w {
		if !unicode.IsLetter(r) {
			continue
		}
		for name, table := range unicode.Scripts {
			if name != "Common" && name != "Inherited" && unicode.Is(table, r) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(together, n) }) {
		return names[:min(1, len(names))]
	}
	return names
}
