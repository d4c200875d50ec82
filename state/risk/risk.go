// Package risk names what deserves a second look in something that an agent asks
// for. It reads text, as a careful person would, and knows nothing else: an absent
// mark does not mean that a request is safe, and nobody may take it for that.
package risk

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"nod/state"
)

// Mark is one reason to look twice.
type Mark struct {
	Why  string // a clause: "it asks for the rights of root"
	What string // the agent's words that it is about; "" for the whole request
	Mild bool   // everyday work does it, too: it deserves a look, and no proof of who looks
}

// Marks returns the reasons to look twice at a request, each once. own are folders
// of nod's own, which no agent has any business with. What it costs is bounded,
// whatever the request; and less if it was asked before, as a page is drawn again and
// again.
func Marks(r state.Request, own ...string) []Mark {
	key := keyOf(r, own)
	known.Lock()
	list, ok := known.marks[key]
	known.Unlock()
	if ok {
		return list
	}
	list = marks(r, own)
	known.Lock()
	defer known.Unlock()
	if len(known.marks) >= maxKnown {
		clear(known.marks)
	}
	known.marks[key] = list
	return list
}

// maxKnown is of how many requests the marks are remembered.
const maxKnown = 256

// known are marks by what was read for them.
var known = struct {
	sync.Mutex
	marks map[[sha256.Size]byte][]Mark
}{marks: map[[sha256.Size]byte][]Mark{}}

// keyOf returns a hash of all that a request says to marks, whether or not it is read to
// its end.
func keyOf(r state.Request, own []string) [sha256.Size]byte {
	texts := []string{string(r.Kind), r.Folder, r.Title, r.Input, r.Cwd, r.Diff}
	if r.Questions != nil {
		texts = append(texts, state.Value(r.Questions.URL))
	}
	for _, d := range r.Details {
		texts = append(texts, d.Text, strconv.FormatBool(d.File))
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %d", len(texts), len(r.Details))
	for _, text := range slices.Concat(texts, own) {
		fmt.Fprintf(h, " %d ", len(text))
		io.WriteString(h, text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func marks(r state.Request, own []string) []Mark {
	if len(r.Folder)+len(r.Title) > maxRead || len(r.Cwd) > maxPath { // which are none
		return []Mark{{Why: tooLong}}
	}
	root := cmp.Or(r.Folder, r.Cwd)
	m := marker{root: root, cwd: cmp.Or(r.Cwd, root), own: own, left: maxRead, made: map[string]flow{}}
	if m.cwd != "" {
		m.root, m.cwd = path.Clean(m.root), path.Clean(m.cwd)
	}
	input, cwd := m.read(r.Input), m.read(r.Cwd)
	words := []string{input, cwd} // all that is shown of it but the changes
	if len(r.Details) > maxDetails {
		m.add(tooLong, "")
	}
	turns := false
	for _, d := range r.Details[:min(len(r.Details), maxDetails)] {
		if d.File {
			turns = turns || turned.MatchString(d.Text)
		} else {
			words = append(words, m.read(d.Text))
		}
	}
	details := words[2:]
	if r.Questions != nil {
		words = append(words, m.read(state.Value(r.Questions.URL)))
	}
	diff := r.Diff[:min(len(r.Diff), maxDiff)]
	names, all := files(diff)
	if !all || len(diff) < len(r.Diff) {
		m.add(tooLong, "")
	}
	switch r.Kind {
	case state.RequestPermissions:
		m.add("it asks for more than this session may", "")
	case state.RequestCommand:
		if _, out := m.outside("."); out {
			m.mild(worksOutside, m.cwd)
		}
		m.command(input)
	}
	if strings.Contains(strings.ToLower(r.Title), "network") {
		m.mild(reaches, "")
	}
	for _, text := range details {
		if a := address.FindString(text); a != "" {
			m.mild(reaches, a)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			name, really := strings.CutPrefix(line, "which is ")
			// What a command writes, its words tell; but for where a link leads.
			m.path(name, really && r.Kind != state.RequestRead || r.Kind != state.RequestRead && r.Kind != state.RequestCommand)
			if r.Kind == state.RequestFileChange && strings.HasPrefix(path.Clean(name)+"/", "../") || r.Kind == state.RequestFileChange && rooted(name) {
				m.writes(name)
			}
		}
	}
	for _, name := range names {
		words = append(words, name)
		m.path(name, true)
		m.writes(name)
	}
	for _, text := range words {
		if !isASCII(text) {
			text = joined.ReplaceAllString(text, "")
		}
		if hidden.MatchString(text) {
			m.add("it holds characters that cannot be seen", "")
		}
		for _, l := range Lookalikes(text) {
			m.add(l.Why, l.What)
		}
	}
	if turns || turned.MatchString(diff) {
		m.add("it holds characters that turn text around, so that it reads as another", "")
	}
	if n := padding(input); n >= maxPadding {
		m.add("it holds a long run of blanks, which could push what follows out of sight", "")
	}
	return m.list
}

// High reports whether an answer to a request lets so much happen that whoever gives
// it has to prove each time to be there: it approves, and either writes a rule that
// stays or is given to a request with marks that are Grave.
func High(r state.Request, o state.ConfirmationOption, own ...string) bool {
	return o.Kind == state.OptionApprove && (state.Value(o.Group) > state.ForSession || Grave(Marks(r, own...)))
}

// Grave reports whether a mark is not mild.
func Grave(marks []Mark) bool {
	return slices.ContainsFunc(marks, func(m Mark) bool { return !m.Mild })
}

// Reasons that several things have.
const (
	reaches       = "it reaches the network"
	deletes       = "it deletes files for good"
	discards      = "it throws away work that is not committed"
	worksOutside  = "it works outside the folder"
	writesOutside = "it may write outside the folder"
	tooLong       = "it is so long that nod has not read it to its end"
	ownWhy        = "it touches nod's own files"
	gitRuns       = "it changes what git runs by itself"
	machineRuns   = "it changes what this machine runs by itself"
	straight      = "it runs a program straight from the network, which nobody has read"
	notShown      = "it runs text as a program that is not shown here"
)

// maxRead is how many bytes are read of a request, of at most maxDetails, maxDiff of
// its change, of which the names of the files matter alone, and maxNames of these: a
// page is drawn meanwhile.
const (
	maxRead    = 32 << 10
	maxDetails = 1000
	maxDiff    = 512 << 10
	maxNames   = 16 << 10
)

// hidden are characters that show nothing, or change how others show; joined are
// those of pictures that are made of several, and of words of which some alphabets
// join the letters by them. In a file more of them are at home, so there only those
// count that turn text around.
var (
	hidden = regexp.MustCompile(`[\p{Cf}\p{Co}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\x{34f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{2028}\x{2029}\x{3164}\x{ffa0}\x{fe00}-\x{fe0e}\x{e0100}-\x{e01ef}]`)
	joined = regexp.MustCompile(`([\x{2600}-\x{27bf}\x{1f000}-\x{1faff}]\x{fe0f}?|[\p{Arabic}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}]\x{200c}?)\x{200d}|[\p{Arabic}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}]\x{200c}`)
	turned = regexp.MustCompile(`[\x{202a}-\x{202e}\x{2066}-\x{2069}]`)
)

// maxPadding is more blanks in a row than code is indented by.
const maxPadding = 60

// padding returns the length of the longest run of white space.
func padding(s string) (longest int) {
	for _, run := range blanks.FindAllString(s, -1) {
		longest = max(longest, len([]rune(run)))
	}
	return longest
}

var blanks = regexp.MustCompile(`[\s\p{Z}]+`)

// marker collects the marks of one request.
type marker struct {
	root  string // the folder that the session works in; "" if nobody knows
	cwd   string // where names begin: changes as a command goes from folder to folder
	own   []string
	left  int             // bytes that may still be read
	deep  int             // texts that are within texts
	words int             // of commands that were looked at
	made  map[string]flow // files that the command itself fetches or unpacks
	list  []Mark
}

// read takes a text from what may be read, and returns as much of it as that is.
func (m *marker) read(text string) string {
	if len(text) > m.left {
		m.add(tooLong, "")
		text = text[:m.left]
	}
	m.left -= len(text)
	return text
}

// add takes a mark that is grave, mild one that is not. Of one reason the first words
// are enough, and one that is grave makes it so.
func (m *marker) add(why, what string)  { m.note(Mark{Why: why, What: shorten(what)}) }
func (m *marker) mild(why, what string) { m.note(Mark{why, shorten(what), true}) }

func (m *marker) note(n Mark) {
	switch i := slices.IndexFunc(m.list, func(x Mark) bool { return x.Why == n.Why }); {
	case i < 0:
		m.list = append(m.list, n)
	case m.list[i].Mild && !n.Mild:
		m.list[i] = n
	}
}

// pattern is a text that makes a mark.
type pattern struct {
	re  *regexp.Regexp
	why string
}

func list(pairs ...string) (out []pattern) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, pattern{regexp.MustCompile(pairs[i]), pairs[i+1]})
	}
	return out
}

var address = regexp.MustCompile(`(?i)\b(https?|ftp|wss?|ssh|git)://\S+`)

// secrets are places of what nobody should even read.
var secrets = list(
	`(^|/)\.ssh(/|$)|(^|/)(id_(rsa|dsa|ecdsa|ed25519)\S*|authorized_keys|known_hosts)$|(^|/)etc/ssh(/|$)`, "it touches keys for other machines",
	`(^|/)\.(gnupg|aws|azure|kube|docker|password-store|netrc|npmrc|pypirc|git-credentials|pgpass|vault-token)(/|$)|(^|/)\.config/(gcloud|gh|op)(/|$)|(^|/)\.env(\.[\w.-]+)?$|(^|/)etc/(shadow|passwd|sudoers\S*)(/|$)|(^|/)\.cargo/credentials`, "it touches passwords or keys",
	`(^|/)(\.config|\.local/share)/nod(/|$)|(^|/)nod/config\.toml$|(^|/)nod\.db(-wal|-shm)?$`, ownWhy,
)

// example is the name of a file of secrets that holds none.
var example = regexp.MustCompile(`(^|/)\.env(\.\w+)*\.(example|sample|template|dist|defaults?)$|(^|/)etc/passwd$`)

// places are paths that mean more than a file of the project does, if they are written.
var places = list(
	`(^|/)\.?(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|cshrc|tcshrc|kshrc|inputrc|envrc|xprofile|xinitrc)$|(^|/)fish/(config\.fish|conf\.d/|functions/)|(^|/)etc/(profile|bash\.bashrc|zsh|environment)`, "it touches what every new shell runs",
	`(^|/)\.git/(hooks(/|$)|config$|info/attributes$)|(^|/)\.(husky|githooks)(/|$)|(^|/)\.(pre-commit-config\.ya?ml|lefthook\.ya?ml|gitconfig|gitattributes|gitmodules)$|(^|/)lefthook\.ya?ml$|(^|/)git/(config|hooks)(/|$)`, "it touches what git runs by itself",
	`(^|/)\.(github/(workflows|actions)|circleci|buildkite|woodpecker|gitea|forgejo|ci)(/|$)|(^|/)\.(gitlab-ci|travis|drone|appveyor)\.ya?ml$|(^|/)(Jenkinsfile|azure-pipelines\.ya?ml|bitbucket-pipelines\.ya?ml|cloudbuild\.ya?ml)$`, "it touches what the CI runs",
	`(?i)(^|/)\.(codex|claude|copilot|gemini|cursor|windsurf|continue|opencode|roo|agents)(/|$)|(^|/)\.?mcp(-config)?\.json$|(^|/)(AGENTS|CLAUDE|GEMINI|COPILOT)(\.[\w-]+)?\.md$|(^|/)\.(cursorrules|clinerules|windsurfrules|aider\.conf\.ya?ml|claude\.json)$|(^|/)\.github/(copilot-\S+|hooks(/|$)|instructions(/|$)|agents(/|$)|prompts(/|$)|mcp\.json$)|(^|/)(github-copilot|opencode|codex)/[\w.-]*(config|settings|hosts)`, "it touches what tells agents what they may do",
	`(^|/)\.vscode/(settings|tasks|launch|mcp|extensions)\.json$|(^|/)\.idea/|(^|/)\.devcontainer(/|$)|\.code-workspace$`, "it touches what an editor runs or allows",
	`(^|/)(LaunchAgents|LaunchDaemons)(/|$)|(^|/)(etc/(cron\S*|init\.d|systemd|rc\.local|ld\.so\.preload)|systemd/(user|system)|var/spool/cron|\.config/autostart)(/|$)`, machineRuns,
)

// maxPath is more bytes than the name of a file can have.
const maxPath = 4096

// path marks a path by its name. To read what holds no secrets is everyday work.
func (m *marker) path(name string, written bool) {
	if name = strings.Trim(name, `"'`); len(name) < 3 || len(name) > maxPath {
		return
	}
	for _, p := range secrets {
		if p.re.MatchString(name) && !example.MatchString(name) {
			m.add(p.why, name)
		}
	}
	for _, p := range places {
		if p.re.MatchString(name) {
			m.note(Mark{p.why, shorten(name), !written})
		}
	}
	for _, folder := range m.own {
		if within(m.absolute(name), folder) {
			m.add(ownWhy, name)
		}
	}
}

// writes marks a path that is written if it does not lie in the folder.
func (m *marker) writes(name string) {
	if at, out := m.outside(name); out {
		m.add(writesOutside, at)
	}
}

// home is the home of whoever has a folder there.
var home = regexp.MustCompile(`^(/home/[^/]+|/Users/[^/]+|/root)(/|$)`)

// rooted reports whether a path does not begin where the command is.
func rooted(name string) bool { return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") }

// absolute returns a path from the root on, as far as can be told. "~" stays where
// nobody knows where that is.
func (m *marker) absolute(name string) string {
	if rest, ok := strings.CutPrefix(name, "$PWD"); ok {
		name = "." + rest
	}
	if rest, ok := strings.CutPrefix(name, "$HOME"); ok {
		name = "~" + rest
	}
	if at := home.FindStringSubmatch(m.root); at != nil && (name == "~" || strings.HasPrefix(name, "~/")) {
		name = at[1] + name[1:]
	}
	if rooted(name) || strings.HasPrefix(name, "$") {
		return path.Clean(name)
	}
	return path.Join(m.cwd, name)
}

// within reports whether a clean path is a folder or lies in it.
func within(at, folder string) bool {
	return at == folder || strings.HasPrefix(at, strings.TrimSuffix(folder, "/")+"/")
}

// outside returns a path that does not lie in the folder. Where all may write, what
// is no file, and what a variable names do not count.
func (m *marker) outside(name string) (string, bool) {
	if len(name) > maxPath {
		return "", false
	}
	at := m.absolute(name)
	switch {
	case strings.HasPrefix(at, "$"), within(at, "/tmp"), within(at, "/dev/fd"), slices.Contains([]string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"}, at):
		return at, false
	case m.root == "":
		return name, rooted(at) || within(at, "..")
	}
	return name, !within(at, m.root)
}

// files are the names of the files that a diff writes, moves or deletes, and whether
// they are all.
func files(diff string) (names []string, all bool) {
	seen, left := map[string]bool{}, maxNames
	for line := range strings.Lines(diff) {
		for _, head := range []string{"+++ ", "--- ", "rename to ", "rename from ", "copy to "} {
			name, ok := strings.CutPrefix(line, head)
			if !ok {
				continue
			}
			name, _, _ = strings.Cut(strings.TrimRight(name, "\r\n"), "\t")
			for _, side := range []string{"a/", "b/"} {
				name = strings.TrimPrefix(strings.Trim(name, `"`), side)
			}
			if name == "/dev/null" || seen[name] {
				continue
			}
			if left -= len(name) + 16; left < 0 {
				return names, false
			}
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, true
}

// shorten keeps the begin of what is quoted in a sentence.
func shorten(s string) string {
	const most = 60
	s = strings.TrimSpace(s)
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
