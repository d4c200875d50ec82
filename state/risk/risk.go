// Package risk names what deserves a second look in something that an agent asks
// for. It reads text, as a careful person would, and knows nothing else: an absent
// mark does not mean that a request is safe, and nobody may take it for that.
package risk

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"nod/state"
)

// Mark is one reason to look twice.
type Mark struct {
	Why  string // a clause: "it asks for the rights of root"
	What string // the agent's words that it is about; "" for the whole request
	Mild bool   // everyday work does it, too: it deserves a look, and no proof of who looks
}

// Marks returns the reasons to look twice at a request, each once. own are folders
// of nod's own, which no agent has any business with.
func Marks(r state.Request, own ...string) []Mark {
	m := marker{cwd: cmp.Or(r.Cwd, "/"), own: own}
	read := func(text string) string {
		if len(text) > maxRead {
			m.add("it is so long that nod has not read it to its end", "")
		}
		return text[:min(len(text), maxRead)]
	}
	input, diff := read(r.Input), read(r.Diff)
	words := []string{input, r.Cwd} // all that is shown of it but the changes
	var details []string
	for _, d := range r.Details {
		details = append(details, read(d.Text))
	}
	words = append(words, details...)
	if r.Questions != nil {
		words = append(words, state.Value(r.Questions.URL))
	}
	switch r.Kind {
	case state.RequestPermissions:
		m.add("it asks for more than this session may", "")
	case state.RequestCommand:
		m.command(input)
	}
	if strings.Contains(strings.ToLower(r.Title), "network") {
		m.add(reaches, "")
	}
	for _, text := range details {
		if address.MatchString(text) {
			m.add(reaches, address.FindString(text))
		}
		for line := range strings.Lines(text) {
			m.path(strings.TrimRight(line, "\n"))
		}
	}
	for _, name := range files(diff) {
		words = append(words, name)
		m.path(name)
		if at, out := m.outside(name); out {
			m.add(writesOutside, at)
		}
	}
	for _, text := range words {
		if hidden.MatchString(joined.ReplaceAllString(text, "")) {
			m.add("it holds characters that cannot be seen", "")
		}
	}
	if turned.MatchString(diff) {
		m.add("it holds characters that turn text around, so that it reads as another", "")
	}
	for _, text := range words {
		for _, l := range Lookalikes(text) {
			m.add(l.Why, l.What)
		}
	}
	if n := padding(input); n >= maxPadding {
		m.add("it holds a long run of blanks, which could push what follows out of sight", "")
	}
	return m.list
}

// High reports whether an answer to a request lets so much happen that whoever gives
// it has to prove each time to be there: it approves, and either writes a rule that
// stays or is given to a request that has a mark which is not mild.
func High(r state.Request, o state.ConfirmationOption, own ...string) bool {
	return o.Kind == state.OptionApprove && (state.Value(o.Group) > 1 || slices.ContainsFunc(Marks(r, own...), func(m Mark) bool { return !m.Mild }))
}

// mild are the reasons of marks that are mild: to fetch something, or to clean up in
// the folder. Who were asked for a proof of each would soon give it without a look.
var mild = []string{reaches, deletes, discards}

const (
	reaches       = "it reaches the network"
	deletes       = "it deletes files for good"
	discards      = "it throws away work that is not committed"
	writesOutside = "it may write outside the folder"
)

// maxRead is how many bytes of a request are read: a page is drawn meanwhile.
const maxRead = 256 << 10

// hidden are characters that show nothing, or change how others show; joined are
// those of pictures that are made of several. In a file more of them are at home, so
// there only those count that turn text around.
var (
	hidden = regexp.MustCompile(`[\p{Cf}\p{Co}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\x{34f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{2028}\x{2029}\x{3164}\x{ffa0}\x{fe00}-\x{fe0e}\x{e0100}-\x{e01ef}]`)
	joined = regexp.MustCompile(`[\x{2600}-\x{27bf}\x{1f000}-\x{1faff}]\x{fe0f}?\x{200d}`)
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

type marker struct {
	cwd  string
	own  []string
	list []Mark
}

// add takes a mark once: of one reason the first words are enough.
func (m *marker) add(why, what string) {
	if !slices.ContainsFunc(m.list, func(x Mark) bool { return x.Why == why }) {
		m.list = append(m.list, Mark{why, what, slices.Contains(mild, why)})
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

const (
	shells = `(env\s+)?(\S*/)?(ba|z|da|k|fi|c|tc)?sh\b`
	code   = `(env\s+)?(\S*/)?(python[\d.]*|node|perl|ruby|php|pwsh|deno|bun)\b`
	begins = `(^|[\s;&|(` + "`" + `'"])` // of a word that a shell would run, wherever it stands
)

// commands are what a command does by its words, the worst first.
var commands = list(
	`(?is)\b(curl|wget|fetch|aria2c|iwr|invoke-webrequest)\b(\\\n|[^;\n])*\|(\\\n|[^;\n])*\b(`+shells+`|`+code+`|source\b|eval\b|iex\b|sudo\b)`, "it runs a program straight from the network, which nobody has read",
	`(?is)(`+shells+`|`+code+`|\beval|\bsource|(^|\s)\.)\s+[^\n]*([$<]\(|`+"`"+`)\s*(curl|wget|fetch)\b`, "it runs a program straight from the network, which nobody has read",
	`(?i)\b(iex|invoke-expression)\b`, "it runs a program straight from the network, which nobody has read",
	`(?is)\|\s*(sudo\s+)?(`+shells+`|`+code+`)\s*(-\s*)?($|[;&|\n'")])`, "it runs text as a program that is not shown here",
	`(?i)\beval\b|\bbase64\s+(-d|-D|--decode)\b|\bxxd\s+-r\b|\$\{\w+@P\}`, "it runs or unpacks text that is not shown here as it will be",
	begins+`(sudo|doas|su|pkexec|run0)(\s|$)`, "it asks for the rights of root",
	`\bgit\b[^;|&\n]*\bpush\b[^;|&\n]*(\s--force\S*|\s-\w*f\w*\b|\s--mirror\b|\s--delete\b|\s-d\b|\s\+\S+|\s:\S+)`, "it overwrites or deletes what others have fetched (a forced push)",
	`\bgit\b[^;|&\n]*\b(reset\b[^;|&\n]*--hard|clean\b[^;|&\n]*\s-\w*f|checkout\s+(--\s+)?\.(\s|$)|restore\s+\.(\s|$)|stash\s+(drop|clear)|branch\s+-D)\b?`, discards,
	begins+`rm\s+(-\S+\s+)*-(\w*[rRf]|-recursive|-force)`, deletes,
	begins+`(find\b[^;|\n]*\s-delete\b|shred\b|mkfs\S*|wipefs\b|dd\b[^;|\n]*\bof=|truncate\b|rsync\b[^;|\n]*\s--delete)`, "it deletes files for good, or overwrites a disk, by rule and not by name",
	begins+`(chmod\b[^;|&\n]*\b[0-7]*777\b|chmod\b[^;|&\n]*\+s\b|setcap\b|chattr\b)`, "it opens files to everybody, or gives them more rights",
	begins+`(crontab|at|launchctl|systemctl|systemd-run|update-rc\.d|schtasks)\b`, "it changes what this machine runs by itself",
	`(?i)\bgit\b[^;|&\n]*\bconfig\b[^;|&\n]*\b(core\.(hookspath|fsmonitor|sshcommand|pager|editor)|alias\.|credential\.|filter\.|include\.path)`, "it changes what git runs by itself",
	begins+`(killall|pkill|reboot|shutdown|halt|poweroff)\b`, "it ends other programs, or the machine",
	begins+`(docker|podman|nerdctl)\b[^;|&\n]*(--privileged|-v\s*/|--volume[= ]/|docker\.sock|--pid[= ]host)`, "it gives a container hold of this machine",
	`(?i)`+begins+`(curl|wget|fetch|aria2c|nc|ncat|netcat|socat|telnet|ssh|scp|sftp|ftp|rsync|ping|dig|nslookup|gh|glab|iwr)(\s|$)`, reaches,
	`(?i)\bgit\s+(-\S+\s+(\S+\s+)?)*(clone|fetch|pull|push|ls-remote|submodule)\b`, reaches,
	`(?i)`+begins+`(npm|pnpm|yarn|bun|pip[\d.]*|pipx|uv|poetry|cargo|gem|bundle|composer|brew|apt|apt-get|dnf|yum|apk|pacman|nix|go|conda)\s+(-\S+\s+)*(i|install|add|ci|get|update|upgrade|publish|sync|download|fetch|mod\s+download|create|dlx|exec)\b`, reaches,
	`(?i)`+begins+`(npx|uvx|bunx|pnpx)\s`, reaches,
	`(?i)/dev/(tcp|udp)/`, reaches,
)

// places are paths that mean more than a file of the project does.
var places = list(
	`(^|/)\.ssh(/|$)|(^|/)(id_(rsa|dsa|ecdsa|ed25519)\S*|authorized_keys|known_hosts)$|(^|/)etc/ssh(/|$)`, "it touches keys for other machines",
	`(^|/)\.(gnupg|aws|azure|kube|docker|password-store|netrc|npmrc|pypirc|git-credentials|pgpass|vault-token)(/|$)|(^|/)\.config/(gcloud|gh|op)(/|$)|(^|/)\.env(\.[\w.-]+)?$|(^|/)etc/(shadow|passwd|sudoers\S*)(/|$)|(^|/)\.cargo/credentials`, "it touches passwords or keys",
	`(^|/)\.?(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|cshrc|tcshrc|kshrc|inputrc|envrc|xprofile|xinitrc)$|(^|/)fish/(config\.fish|conf\.d/|functions/)|(^|/)etc/(profile|bash\.bashrc|zsh|environment)`, "it touches what every new shell runs",
	`(^|/)\.git/(hooks(/|$)|config$|info/attributes$)|(^|/)\.(husky|githooks)(/|$)|(^|/)\.(pre-commit-config\.ya?ml|lefthook\.ya?ml|gitconfig|gitattributes|gitmodules)$|(^|/)lefthook\.ya?ml$|(^|/)git/(config|hooks)(/|$)`, "it touches what git runs by itself",
	`(^|/)\.(github/(workflows|actions)|circleci|buildkite|woodpecker|gitea|forgejo|ci)(/|$)|(^|/)\.(gitlab-ci|travis|drone|appveyor)\.ya?ml$|(^|/)(Jenkinsfile|azure-pipelines\.ya?ml|bitbucket-pipelines\.ya?ml|cloudbuild\.ya?ml)$`, "it touches what the CI runs",
	`(?i)(^|/)\.(codex|claude|copilot|gemini|cursor|windsurf|continue|opencode|roo|agents)(/|$)|(^|/)\.?mcp(-config)?\.json$|(^|/)(AGENTS|CLAUDE|GEMINI|COPILOT)(\.[\w-]+)?\.md$|(^|/)\.(cursorrules|clinerules|windsurfrules|aider\.conf\.ya?ml|claude\.json)$|(^|/)\.github/(copilot-\S+|hooks(/|$)|instructions(/|$)|agents(/|$)|prompts(/|$)|mcp\.json$)|(^|/)(github-copilot|opencode|codex)/[\w.-]*(config|settings|hosts)`, "it touches what tells agents what they may do",
	`(^|/)\.vscode/(settings|tasks|launch|mcp|extensions)\.json$|(^|/)\.idea/|(^|/)\.devcontainer(/|$)|\.code-workspace$`, "it touches what an editor runs or allows",
	`(^|/)(LaunchAgents|LaunchDaemons)(/|$)|(^|/)(etc/(cron\S*|init\.d|systemd|rc\.local|ld\.so\.preload)|systemd/(user|system)|var/spool/cron|\.config/autostart)(/|$)`, "it changes what this machine runs by itself",
	`(^|/)(\.config|\.local/share)/nod(/|$)|(^|/)nod/config\.toml$|(^|/)nod\.db(-wal|-shm)?$`, ownWhy,
)

const ownWhy = "it touches nod's own files"

// path marks a path by its name.
func (m *marker) path(name string) {
	name = strings.Trim(name, `"'`)
	for _, p := range places {
		if p.re.MatchString(name) {
			m.add(p.why, name)
		}
	}
	at := m.absolute(name)
	for _, folder := range m.own {
		if at == folder || strings.HasPrefix(at, strings.TrimSuffix(folder, "/")+"/") {
			m.add(ownWhy, name)
		}
	}
}

// absolute returns a path from the root on; what lies at home keeps its "~".
func (m *marker) absolute(name string) string {
	switch {
	case strings.HasPrefix(name, "~"), strings.HasPrefix(name, "$"), path.IsAbs(name):
		return path.Clean(name)
	}
	return path.Join(m.cwd, name)
}

// outside returns a path that does not lie in the folder. Where all may write, and
// what is no file, does not count.
func (m *marker) outside(name string) (string, bool) {
	at := m.absolute(name)
	if at == m.cwd || strings.HasPrefix(at, strings.TrimSuffix(m.cwd, "/")+"/") || strings.HasPrefix(at, "/tmp/") || at == "/tmp" || at == "/dev/null" || at == "/dev/stdout" || at == "/dev/stderr" {
		return at, false
	}
	return name, true
}

// command marks a command by its words, and by the paths in them.
func (m *marker) command(text string) {
	for _, p := range commands {
		if p.re.MatchString(text) {
			m.add(p.why, strings.TrimSpace(shorten(p.re.FindString(text))))
		}
	}
	if address.MatchString(text) {
		m.add(reaches, address.FindString(text))
	}
	// Whether a word is quoted makes no difference to what it may be.
	bare := strings.NewReplacer(`"`, " ", "'", " ", "`", ";", "$(", ";", "(", ";", ")", ";", "{", " ", "}", " ", "\\\n", " ").Replace(text)
	bare = strings.ReplaceAll(bare, "$ HOME ", "$HOME") // which was ${HOME}
	for _, step := range regexp.MustCompile(`[;|&\n]+`).Split(redirections.ReplaceAllString(bare, " > "), -1) {
		m.step(strings.Fields(step))
	}
}

var redirections = regexp.MustCompile(`(\d|&)?>{1,2}[|&]?`)

// wrappers run the command that follows them; writers write to the paths that they
// are given, or go to a folder where others do.
var (
	wrappers = strings.Fields("env sudo doas nohup time nice xargs command exec builtin bash sh zsh dash ksh fish then do else if while ! stdbuf setsid timeout")
	writers  = strings.Fields("cp mv install ln tee touch mkdir rm rmdir unlink chmod chown chgrp dd sed truncate rsync tar unzip patch shred cd pushd git make npm go cargo")
)

// step looks at the words of one simple command.
func (m *marker) step(words []string) {
	i := 0
	for i < len(words) && (slices.Contains(wrappers, path.Base(words[i])) || strings.HasPrefix(words[i], "-") || assignment.MatchString(words[i])) {
		i++
	}
	writes := i < len(words) && slices.Contains(writers, path.Base(words[i]))
	for k, w := range words {
		if _, value, ok := strings.Cut(w, "="); ok && k > i { // of=/etc/x, --prefix=/usr
			w = value
		}
		m.path(w)
		into := k > 0 && words[k-1] == ">"
		if !into && !(writes && k > i && (strings.ContainsAny(w[:min(1, len(w))], "/~$") || strings.HasPrefix(w, ".."))) {
			continue
		}
		if at, out := m.outside(w); out && !variable.MatchString(w) {
			m.add(writesOutside, at)
		}
	}
}

var (
	assignment = regexp.MustCompile(`^\w+=`)
	variable   = regexp.MustCompile(`^\$(\d|[^H]|\w*$)`) // which could be anywhere, but for $HOME and what is below it
)

// files are the names of the files that a diff writes, moves or deletes.
func files(diff string) (names []string) {
	for line := range strings.Lines(diff) {
		for _, head := range []string{"+++ ", "--- ", "rename to ", "rename from ", "copy to "} {
			name, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), head)
			if !ok || name == "/dev/null" {
				continue
			}
			name, _, _ = strings.Cut(name, "\t")
			for _, side := range []string{"a/", "b/"} {
				name = strings.TrimPrefix(strings.Trim(name, `"`), side)
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// shorten keeps the begin of what is quoted in a sentence.
func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
