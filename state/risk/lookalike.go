package risk

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// Lookalikes returns the words of a text that may read as something else: words in
// which letters of another alphabet pass for Latin ones (also where a host's name
// spells them in ASCII), letters in disguise, and signs that look like those which
// shells and addresses are made of. What people write in their own languages, and how
// they set it, is none; where that cannot be told apart the mark is mild.
func Lookalikes(text string) (marks []Mark) {
	m := marker{}
	for _, label := range punycode.FindAllString(text, maxLabels) {
		if reads, err := idna.Punycode.ToUnicode(strings.ToLower(label)); err == nil {
			m.disguisedWords(reads, nil)
		}
	}
	if isASCII(text) {
		return m.list
	}
	m.disguisedWords(text, genuine(text))
	if s := signs.FindString(text); s != "" {
		m.add(disguise, s)
	} else if s := typeset.FindString(text); s != "" {
		m.mild(disguise, s)
	}
	return m.list
}

const (
	disguise  = "it holds letters or signs in disguise, which are not the ones that they look like"
	maxLabels = 100 // of hosts
)

// genuine are the alphabets of which a text holds a letter that looks like no Latin
// one: so somebody writes in them.
func genuine(text string) map[string]bool {
	in := map[string]bool{}
	for _, r := range text {
		if r >= 0x80 && !passes(r) {
			if name := alphabet(r); name != "" {
				in[name] = true
			}
		}
	}
	return in
}

// disguisedWords marks the words of a text by their letters.
func (m *marker) disguisedWords(text string, in map[string]bool) {
	for _, at := range word.FindAllStringIndex(text, -1) {
		w := text[at[0]:at[1]]
		if isASCII(w) {
			continue
		}
		latin, passing, other, letters := false, "", false, 0
		for _, r := range w {
			switch {
			case disguised(r) && !(in["wide"] && r >= 0xff00):
				m.add(disguise, w)
			case passes(r):
				if name := alphabet(r); passing == "" {
					passing = name
				}
			case r < 0x80 && unicode.IsLetter(r) || unicode.Is(unicode.Latin, r):
				latin = true
			case unicode.IsLetter(r):
				other = true
			}
			letters++
		}
		if passing == "" || other || !latin && letters == 1 {
			continue
		}
		why := "it holds a word of " + passing + " letters that all look like Latin ones"
		if latin {
			why = "it holds a word of Latin and " + passing + " letters, which may not be what it looks like"
		}
		// Who writes in that alphabet has such words, too; but hardly in an address.
		named := at[0] > 0 && strings.ContainsRune("/@", rune(text[at[0]-1])) || at[1] < len(text) && strings.ContainsRune("/@", rune(text[at[1]])) || host.MatchString(text[at[1]:min(len(text), at[1]+8)])
		m.note(Mark{why, shorten(w), in[passing] && !named})
	}
}

// host is how a host's name goes on after a word.
var host = regexp.MustCompile(`^\.[a-z]{2,6}\b`)

// punycode is a part of a host's name that stands for letters beyond ASCII.
var punycode = regexp.MustCompile(`(?i)\bxn--[a-z0-9-]{1,59}`)

// word is letters, what belongs to them, and digits.
var word = regexp.MustCompile(`[\p{L}\p{M}\p{Nd}\x{1D400}-\x{1D7FF}\x{FF10}-\x{FF19}]+`)

// likeLatin are letters of other alphabets that look like Latin ones.
const likeLatin = "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u04cf\u04af\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u051a\u051c\u04c0\u04ae" + // Cyrillic
	"\u03bf\u03bd\u03c1\u03c5\u03b9\u03ba\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f2\u03f3" + // Greek
	"\u0585\u057d\u0578\u0570\u0581\u0584\u053c\u0555\u054f" + // Armenian
	"\u13aa\u13ac\u13a5\u13b3\u13b7\u13bb\u13c3\u13c6\u13d2\u13de\u13df\u13e2\u13f4" // Cherokee

// passes reports whether a letter of another alphabet looks like a Latin one.
func passes(r rune) bool { return r >= 0x370 && r < 0x1400 && strings.ContainsRune(likeLatin, r) }

// alphabet names the alphabets that matter here, "" for all others; those of which
// the wide letters and digits are at home go together.
func alphabet(r rune) string {
	switch {
	case unicode.Is(unicode.Cyrillic, r):
		return "Cyrillic"
	case unicode.Is(unicode.Greek, r):
		return "Greek"
	case unicode.Is(unicode.Armenian, r):
		return "Armenian"
	case unicode.Is(unicode.Cherokee, r):
		return "Cherokee"
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return "wide"
	}
	return ""
}

// signs are what looks like signs of shells and addresses and stands where these do:
// a slash, a dot or a colon within a name, the dash of an option, the end of a
// command; typeset is what may as well be how somebody sets a text.
var (
	signs = regexp.MustCompile(`[^\s\d][\x{2044}\x{2215}\x{29f8}\x{29f5}\x{fe68}\x{2024}\x{2025}\x{2236}\x{a789}\x{fe13}]+\S*` +
		`|[^\s\p{Greek}][\x{37e}\x{fe14}]` +
		`|(^|[\s'"=])[\x{2010}-\x{2013}\x{2212}\x{2043}\x{fe63}]+[a-zA-Z][a-zA-Z-]*($|[\s='"])`)
	typeset = regexp.MustCompile(`(^|\s)\x{2014}[a-z]\S*|[a-z][\x{2223}\x{1c0}\x{2502}][a-z]`)
)

// disguised reports whether a letter, digit or sign is a typeface of an ASCII one.
func disguised(r rune) bool { return r >= 0xff01 && r <= 0xff5e || r >= 0x1d400 && r <= 0x1d7ff }

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
