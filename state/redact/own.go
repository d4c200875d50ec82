package redact

import (
	"net/netip"
	"regexp"
	"strings"
	"unicode"
)

// own is a rule of nod's own.
type own struct {
	name     string
	kind     Kind
	keywords []string // in lower case; it looks near them only
	pattern  *regexp.Regexp
	is       func(match []string) bool // nil: every match
	block    bool                      // a match may be of any number of lines
}

// find yields the first group that took part in each match, or the match itself.
func (o own) find(text, lower string, found func(start, end int, k Kind, rule string)) {
	for at := range matches(func() *regexp.Regexp { return o.pattern }, text, lower, o.keywords, o.block) {
		start, end := firstGroup(at)
		if o.is != nil && !o.is(groups(text, at, start, end)) {
			continue
		}
		found(start, end, o.kind, o.name)
	}
}

// groups are what was found, and what stands before and behind it in the text.
func groups(text string, at []int, start, end int) []string {
	return []string{text[start:end], text[at[0]:start], text[end:at[1]], text[:start], text[end:]}
}

// secretWord are the words by which people call what they keep secret.
const secretWord = `(?:passw(?:or)?d|passphrase|passwd|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|credentials?|auth[_-]?key|client[_-]?secret|dsn)`

var (
	secretNames = regexp.MustCompile(`(?i)` + secretWord + `s?$|(?i)(?:^|_)(?:key|pass|auth|salt)$`)
	keywords    = []string{"passw", "passphrase", "pwd", "secret", "token", "key", "credential", "dsn", "_pass", "_auth", "_salt"}
)

// secretLike reports whether a variable of that name holds a secret.
func secretLike(name string) bool {
	return secretNames.MatchString(name) && name != "PWD" && name != "OLDPWD" // which are folders
}

// placeholder is what stands where a secret would, and is none.
var placeholder = regexp.MustCompile(`(?i)^(?:\$.*|<.*>?|\{\{?.*|%.*%|\*+|x+|\.{3}|…|null|nil|none|true|false|undefined|string|number|\d{1,8}|your[_-].*|change[_-]?me.*|redacted|‹.*|\[.*\]?)$`)

// chance is the entropy, in bits per byte, from which a value was made by chance and
// not by a person.
const chance = 3.0

// random reports whether a value next to a secret-like name is one: no word of a
// language, no name of a program's.
func random(v string) bool {
	if len(v) < 8 || placeholder.MatchString(v) {
		return false
	}
	digit, letter, other := false, false, false
	for _, c := range v {
		switch {
		case unicode.IsDigit(c):
			digit = true
		case unicode.IsLetter(c):
			letter = true
		case !strings.ContainsRune("_-./:", c):
			other = true
		}
	}
	return digit && letter && (entropy(v) >= chance || other) || other && letter && len(v) >= 12 && entropy(v) >= chance && !strings.ContainsAny(v, "()[]{}<>, ")
}

// ownRules are nod's own rules for texts of an owner.
func ownRules(o Owner) []own {
	var rules []own
	if o.User != "" {
		rules = append(rules, own{"login", User, []string{"@"}, regexp.MustCompile(`(?:^|[^\w.+-])(` + regexp.QuoteMeta(o.User) + `@[\w.-]+)`), nil, false})
	}
	for _, h := range o.Hosts {
		rules = append(rules, own{"login", User, []string{"@"}, regexp.MustCompile(`(?i)([\w.+-]+@` + regexp.QuoteMeta(h) + `)\b`), nil, false})
	}
	return append(rules, []own{
		{"private key", Secret, []string{"private key"}, regexp.MustCompile(`(?s)-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)`), nil, true},
		// A line of a file of variables, or of a shell. The name is in capitals, so the value is what it says, short or long.
		{"variable", Secret, keywords, regexp.MustCompile(`(?m)(?:^|[\s"'` + "`" + `;({,+:|#>-]|\\[nrt])(?:export\s+|set\s+|-e\s+|ENV\s+)?[A-Z][A-Z0-9_]*(?:PASSW(?:OR)?D|PASSPHRASE|PWD|SECRET|TOKEN|KEY|CREDENTIALS?|DSN|PASS|AUTH|SALT)S?\s?=\s?(?:\\+"([^"\\\r\n]+)|"([^"\r\n]+)"|'([^'\r\n]+)'|([^\s"'` + "`" + `;]+))`), notPlaceholder, false},
		{"value next to a name", Secret, keywords, regexp.MustCompile(`(?i)\b[\w.-]*` + secretWord + `s?[\w-]{0,12}\\?["'` + "`" + `]?\]?(?:\s{0,3}(?::=|=>|[:=])|(?:\s+\w+){0,4}\s+is\b)\s{0,3}\\?(?:"((?:[^"\r\n\\]|\\u[0-9a-fA-F]{4}){6,200})|'((?:[^'\r\n\\]|\\u[0-9a-fA-F]{4}){6,200})|` + "`([^`\\r\\n\\\\]{6,200})" + `|([^\s"'` + "`" + `,;\\<>(){}]{8,400}))`), isRandom, false},
		{"option of a command", Secret, []string{"--"}, regexp.MustCompile(`(?i)(?:^|\s)--(?:[\w-]*-)?(?:` + secretWord + `|pass|auth)[=\s]["']?([^\s"']{6,})`), isRandomOrQuoted, false},
		{"header", Secret, []string{"authorization", "api-key", "x-auth", "cookie", "bearer"}, regexp.MustCompile(`(?i)\b(?:(?:proxy-)?authorization|x-api-key|api-key|x-auth-token)\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic|token|digest)\s+)?([^\s"'\\,]{6,})`), notPlaceholder, false},
		{"bearer token", Secret, []string{"bearer "}, regexp.MustCompile(`(?i)\bbearer\s+([\w.~+/=-]{12,})`), isRandom, false},
		{"cookie", Secret, []string{"cookie"}, regexp.MustCompile(`(?i)(?:\b|\\[nrt])(?:set-)?cookie\\?["']?\s*:\s*\\?["']?([^\r\n"'\\]{4,})`), func(g []string) bool { return strings.Contains(g[0], "=") }, false},
		{"password in an address", Secret, []string{"://"}, regexp.MustCompile(`\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@"'<>]{0,80}:([^\s/@"'<>]{1,200})@`), notPlaceholder, false},
		{"login of curl", Secret, []string{"curl"}, regexp.MustCompile(`(?:\b|\\[nrt])curl\b[^\r\n]*?\s(?:-u|--user)[=\s]?["']?[^\s:"']+:([^\s"']{3,})`), notPlaceholder, false},
		{"login of .netrc", Secret, []string{"machine "}, regexp.MustCompile(`(?:\b|\\[nrt])machine\s+\S+\s+(?:login\s+\S+\s+)?password\s+(\S+)`), notPlaceholder, false},
		{"key of a provider", Secret, []string{"sk-", "sk_", "rk_", "pk_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "hf_", "npm_", "pypi-", "aiza", "ya29.", "shp", "do_v1_", "dop_v1_", "dor_v1_", "doo_v1_", "sg.", "akia", "asia", "a3t", "abia", "acca", "age-secret-key-", "lin_api_", "nvapi-", "gsk_", "r8_", "tskey-", "dckr_pat_", "eyj"}, regexp.MustCompile(`\b(?:sk-[\w-]{16,}|(?:sk|rk|pk)_(?:live|test)_\w{10,}|whsec_[\w+/=]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}|xox[abeprs]-[\w-]{10,}|xapp-[\w-]{10,}|hf_\w{16,}|npm_\w{16,}|pypi-[\w-]{16,}|AIza[\w-]{20,}|ya29\.[\w-]{16,}|shp(?:at|ca|pa|ss)_\w{16,}|do[opr]_v1_\w{16,}|SG\.[\w-]{10,}\.[\w-]{10,}|A(?:KI|SI|3T|BI|CC)A[A-Z0-9]{16}|AGE-SECRET-KEY-1\w{20,}|lin_api_\w{16,}|nvapi-[\w-]{16,}|gsk_\w{16,}|r8_\w{16,}|tskey-[\w-]{10,}|dckr_pat_[\w-]{10,}|eyJ[\w-]{8,}\.eyJ?[\w-]{4,}(?:\.[\w-]*)?)`), nil, false},
		{"webhook", Secret, []string{"hooks.", "webhook"}, regexp.MustCompile(`\bhttps://(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|[\w.-]+\.webhook\.office\.com/)([\w/@.-]{8,})`), nil, false},
		{"bot of Telegram", Secret, nil, regexp.MustCompile(`\b(\d{8,10}:[\w-]{35})\b`), nil, false},
		{"signed address", Secret, []string{"sig=", "signature=", "x-amz-", "x-goog-"}, regexp.MustCompile(`(?i)(?:[?&]|\\u0026)(?:sig|signature|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential))=([\w%+/=.-]{8,})`), nil, false},

		{"name in a path", User, []string{"/home/", "/users/", `\users\`, `\\users`}, regexp.MustCompile(`(?:/home/|/Users/|\\{1,2}Users\\{1,2})([\w][\w.-]*)`), nil, false},
		{"mail address", Mail, []string{"@"}, regexp.MustCompile(`\b([\w.+-]+@(?:[\w-]+\.)+[a-zA-Z]{2,})\b`), isMail, false},
		{"address", Address, nil, regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}\b`), isAddress, false},
		{"address", Address, []string{":"}, regexp.MustCompile(`[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:\d{0,3}(?:\.\d{1,3}){3})?`), isAddress, false},
		{"name of a host", Host, []string{".local", ".internal", ".lan", ".corp", ".intranet", ".home.arpa", ".ts.net"}, regexp.MustCompile(`\b((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:local|internal|lan|corp|intranet|home\.arpa|ts\.net))\b`), isHost, false},
	}...)
}

func notPlaceholder(g []string) bool { return !placeholder.MatchString(g[0]) }

// isRandom: what is called is no value.
func isRandom(g []string) bool { return random(g[0]) && !strings.HasPrefix(g[4], "(") }

func isRandomOrQuoted(g []string) bool {
	return isRandom(g) || strings.HasSuffix(g[1], `"`) || strings.HasSuffix(g[1], `'`)
}

// isMail leaves alone what everybody has: the login of a forge, and examples.
func isMail(g []string) bool {
	name, host, _ := strings.Cut(strings.ToLower(g[0]), "@")
	if word := g[3][strings.LastIndexAny(g[3], " \t\r\n\"'")+1:]; strings.Contains(word, "//") { // the login in an address
		return false
	}
	return name != "git" && !strings.HasPrefix(name, "noreply") && host != "example.com" && host != "example.org" && host != "users.noreply.github.com" &&
		!strings.HasPrefix(g[4], "/") // a package of a registry, or a path
}

// isAddress leaves alone what is no address of anybody's: of the machine itself, of
// examples, and versions that look like one.
func isAddress(g []string) bool {
	a, err := netip.ParseAddr(g[0])
	if err != nil {
		return false
	}
	if before := g[3]; before != "" && (wordly(before[len(before)-1]) || strings.HasSuffix(before, ".") || strings.HasSuffix(before, ":") || strings.HasSuffix(before, "ection ")) {
		return false
	}
	if after := g[4]; after != "" && (after[0] == '.' && len(after) > 1 && after[1] >= '0' && after[1] <= '9' || wordly(after[0])) {
		return false
	}
	if a.Is6() && !strings.ContainsAny(g[0], "0123456789") { // C++ and others write :: between names
		return false
	}
	for _, p := range everybodys {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// everybodys are the addresses that say nothing of anybody.
var everybodys = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("255.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("::/127"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("ff00::/8"),
}

// isHost leaves alone what is called, and what is a folder.
func isHost(g []string) bool {
	return !strings.HasPrefix(g[4], "(") && (!strings.HasPrefix(g[4], "/") || strings.HasSuffix(g[3], "//"))
}
