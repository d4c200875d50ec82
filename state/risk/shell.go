package risk

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// flow tells what comes out of a program or lies in a file, the worse the greater.
type flow int

const (
	nothing flow = iota
	shown        // what the command shows, or a file of before
	private      // what this machine holds, in bulk
	unseen       // what was unpacked from text
	fetched      // what somebody on the network has sent
)

// maxDeep is how many texts within texts are read: a shell in a shell in a shell;
// maxBrackets how many brackets may be open at once, and maxWords how many words of
// commands are looked at, where each command counts for five more.
const (
	maxDeep     = 6
	maxBrackets = 50
	maxWords    = 4000
)

const tooDeep = "it hides commands in commands, deeper than nod reads"

// command marks a command by what a shell would make of it.
func (m *marker) command(text string) {
	if unfolds.MatchString(text) {
		m.add("it runs or unpacks text that is not shown here as it will be", unfolds.FindString(text))
	}
	if a := address.FindString(text); a != "" {
		m.mild(reaches, a)
	}
	m.script(text, nothing)
}

// unfolds is a variable that is read as if it were written in the command.
var unfolds = regexp.MustCompile(`\$\{\w+@P\}`)

// script marks what a text does as a program of a shell, and returns what comes out.
func (m *marker) script(text string, in flow) flow {
	if m.deep == maxDeep || brackets(text) > maxBrackets {
		m.add(tooDeep, "")
		return unseen
	}
	m.deep++
	defer func() { m.deep-- }()
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		if f, err = syntax.NewParser(syntax.Variant(syntax.LangZsh)).Parse(strings.NewReader(text), ""); err != nil {
			m.add("it is written in a way that nod cannot read", "")
			return unseen
		}
	}
	return m.statements(f, in)
}

// brackets returns how many are open at once, at most.
func brackets(text string) (most int) {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			open++
			most = max(most, open)
		case ')', '}', ']':
			open = max(0, open-1)
		}
	}
	return most
}

// statements marks those in a part of a program.
func (m *marker) statements(n syntax.Node, in flow) (out flow) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			out = max(out, m.statement(n, in))
			return false
		case *syntax.Assign:
			m.assigns(n)
		}
		return true
	})
	return out
}

func (m *marker) statement(s *syntax.Stmt, in flow) (out flow) {
	code := "" // what stands in the command and goes into its program
	var targets []string
	for _, r := range s.Redirs {
		within := max(m.statements(r.Word, nothing), nothing)
		if r.Hdoc != nil {
			within = max(within, m.statements(r.Hdoc, nothing))
		}
		switch name := literal(r.Word); r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = within
			if r.Hdoc != nil {
				code = literal(r.Hdoc)
			}
		case syntax.WordHdoc:
			in, code = within, name
		case syntax.RdrIn:
			m.path(name, false)
			in = max(shown, within, m.made[m.absolute(name)])
		case syntax.DplIn:
		default:
			if r.Op == syntax.DplOut && (name == "-" || strings.Trim(name, "0123456789") == "") {
				continue
			}
			targets = append(targets, name)
		}
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		out = m.call(c, in, code, targets)
	case *syntax.BinaryCmd:
		if out = m.statement(c.X, in); c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			return m.statement(c.Y, max(out, shown))
		}
		out = max(out, m.statement(c.Y, in))
	case *syntax.Subshell:
		at := m.cwd
		for _, s := range c.Stmts {
			out = max(out, m.statement(s, in))
		}
		m.cwd = at
	default:
		out = m.statements(c, in)
	}
	for _, name := range targets {
		if strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/") {
			m.mild(reaches, name)
			continue
		}
		m.path(name, true)
		m.writes(name)
		m.makes(name, out)
	}
	return out
}

// makes notes what a file holds that the command itself makes.
func (m *marker) makes(name string, what flow) {
	if what >= unseen {
		m.made[m.absolute(name)] = what
	}
}

// runs marks that something is run that nobody has seen.
func (m *marker) runs(what flow, words string) {
	switch what {
	case fetched:
		m.add(straight, words)
	case unseen, private, shown:
		m.add(notShown, words)
	}
}

// assigns marks variables that have programs run others.
func (m *marker) assigns(a *syntax.Assign) {
	if a.Name == nil || a.Value == nil {
		return
	}
	value := literal(a.Value)
	m.assigned(a.Name.Value, value)
	m.path(value, false)
}

func (m *marker) assigned(name, value string) {
	switch {
	case strings.HasPrefix(name, "GIT_SSH"), strings.HasPrefix(name, "GIT_CONFIG"), name == "GIT_PROXY_COMMAND", name == "GIT_EXTERNAL_DIFF",
		(name == "GIT_EDITOR" || name == "GIT_SEQUENCE_EDITOR" || name == "GIT_PAGER") && !harmless(value):
		m.add(gitRuns, name+"="+value)
	case name == "LD_PRELOAD", name == "DYLD_INSERT_LIBRARIES", name == "BASH_ENV", name == "PROMPT_COMMAND", name == "PYTHONSTARTUP", name == "PERL5OPT", name == "RUBYOPT":
		m.add("it has programs run another along with them", name+"="+value)
	}
}

// harmless reports whether a setting of git names a program that only shows text.
func harmless(value string) bool {
	return slices.Contains([]string{"", "cat", "less", "more", "true", ":", "false"}, value)
}

// literal is the text of a word as a program would get it, as far as can be told:
// "$NAME" stands for what a variable holds, "$(…)" for what another command prints.
func literal(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range w.Parts {
		literalPart(&b, p, false)
	}
	return b.String()
}

func literalPart(b *strings.Builder, p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.WriteString(unescape(p.Value, quoted))
	case *syntax.SglQuoted:
		if said, err := strconv.Unquote(`"` + strings.NewReplacer(`"`, `\"`, `\'`, `'`, "\n", `\n`).Replace(p.Value) + `"`); p.Dollar && err == nil {
			b.WriteString(said)
		} else {
			b.WriteString(p.Value)
		}
	case *syntax.DblQuoted:
		for _, x := range p.Parts {
			literalPart(b, x, true)
		}
	case *syntax.ParamExp:
		b.WriteString("$")
		if p.Param != nil {
			b.WriteString(p.Param.Value)
		}
	case *syntax.CmdSubst:
		if len(p.Stmts) == 1 {
			if c, ok := p.Stmts[0].Cmd.(*syntax.CallExpr); ok && len(c.Args) == 1 && c.Args[0].Lit() == "pwd" {
				b.WriteString("$PWD")
				return
			}
		}
		b.WriteString("$(…)")
	case *syntax.ProcSubst:
		b.WriteString("/dev/fd/63")
	case *syntax.ExtGlob:
		b.WriteString("*")
	}
}

// unescape takes away the backslashes that a shell takes away.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// call marks a simple command.
func (m *marker) call(c *syntax.CallExpr, in flow, code string, targets []string) flow {
	for _, a := range c.Assigns {
		m.assigns(a)
		if a.Value != nil {
			m.statements(a.Value, nothing)
		}
	}
	var words []string
	within := nothing // the worst that comes out of commands in the words
	for i, w := range c.Args {
		what := m.statements(w, nothing)
		within = max(within, what)
		words = append(words, literal(w))
		if words[i] == "$(…)" && i == 0 {
			m.runs(max(what, unseen), "$(…)")
		}
	}
	return m.simple(words, in, within, code, targets)
}

// program is a command without what stands before it, as its parts ask for it.
type program struct {
	name   string   // without its folder
	words  []string // what follows
	in     flow
	within flow
	code   string
	xargs  bool // further words come from in
}

func (p program) String() string {
	return shorten(p.name + " " + strings.Join(p.words[:min(len(p.words), 10)], " "))
}

// plain are the words that are no options.
func (p program) plain() (out []string) {
	for _, w := range p.words {
		if !strings.HasPrefix(w, "-") {
			out = append(out, w)
		}
	}
	return out
}

// first is the first of them, "" if there is none.
func (p program) first() string {
	if plain := p.plain(); len(plain) > 0 {
		return plain[0]
	}
	return ""
}

// has reports whether one of the words is one of these.
func (p program) has(options ...string) bool {
	return slices.ContainsFunc(p.words, func(w string) bool { return slices.Contains(options, w) })
}

// option returns what options of these names are given: -o x, -ox, --name x, --name=x.
func (p program) option(letter byte, names ...string) (values []string) {
	for i, w := range p.words {
		rest := ""
		switch name, value, given := strings.Cut(w, "="); {
		case strings.HasPrefix(w, "--"):
			if !slices.Contains(names, name) {
				continue
			}
			if given {
				values = append(values, value)
				continue
			}
		case strings.HasPrefix(w, "-"):
			at := strings.IndexByte(w, letter)
			if at < 1 || strings.Trim(w[1:at], letters) != "" {
				continue
			}
			rest = w[at+1:]
		default:
			continue
		}
		if rest != "" {
			values = append(values, rest)
		} else if i+1 < len(p.words) {
			values = append(values, p.words[i+1])
		}
	}
	return values
}

// flag reports whether a letter is among the options.
func (p program) flag(letter string) bool {
	return slices.ContainsFunc(p.words, func(w string) bool {
		return len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.Contains(w, letter) && strings.Trim(w[1:], letters) == ""
	})
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// oneOf makes a set of names.
func oneOf(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

// Programs by what they do. Those that no line here names may write what they are told of.
var (
	wrappers = oneOf("env sudo doas pkexec run0 nohup time nice ionice xargs command exec builtin stdbuf setsid timeout busybox")
	roots    = oneOf("sudo doas su pkexec run0")
	shells   = oneOf("sh bash zsh dash ksh fish csh tcsh ash")
	coders   = regexp.MustCompile(`^(python[\d.]*|pypy[\d.]*|node|nodejs|perl|ruby|php|pwsh|deno|bun|lua)$`)
	net      = oneOf("curl wget fetch aria2c nc ncat netcat socat telnet ssh ssh-copy-id mosh scp sftp ftp rsync ping dig nslookup gh glab iwr invoke-webrequest")
	readers  = oneOf("cat less more head tail ls grep egrep fgrep rg ag wc diff cmp stat file find fd tree bat jq yq sort uniq awk cut nl strings xxd od hexdump md5sum sha1sum sha256sum readlink realpath basename dirname echo printf test [ [[ cd pushd column tac systemctl which type")
	namers   = oneOf("ls stat file find tree test [ [[ cd pushd echo printf which dirname basename realpath readlink")
	speakers = oneOf("git echo printf grep egrep fgrep rg ag gh glab") // their words may be sentences
	writers  = oneOf("tee touch mkdir rm rmdir unlink chmod chown chgrp truncate shred mv patch")
	copiers  = oneOf("cp install ln rsync scp")
	movers   = oneOf("cd pushd")
	killers  = oneOf("killall pkill reboot shutdown halt poweroff")
	holders  = oneOf("docker podman nerdctl")
	packers  = oneOf("printenv set export history zip declare")

	managers  = oneOf("npm pnpm yarn bun pip pipx uv poetry cargo gem bundle composer brew apt apt-get dnf yum apk pacman nix go conda")
	installs  = oneOf("i install add ci get update upgrade publish sync download fetch create dlx exec")
	removes   = oneOf("uninstall remove rm un link unlink")
	wide      = oneOf("pipx cargo gem brew apt apt-get dnf yum") // what they install is for more than a folder
	runners   = oneOf("npx uvx bunx pnpx")
	number    = regexp.MustCompile(`^\d+(\.\d+)?[smhd]?$`)
	assigning = regexp.MustCompile(`^(\w+)=(.*)$`)
)

// simple marks a command of these words.
func (m *marker) simple(words []string, in, within flow, code string, targets []string) flow {
	p := program{in: in, within: within, code: code}
	if m.words += 5 + len(words); m.words > maxWords {
		m.add(tooLong, "")
		return unseen
	}
	for len(words) > 0 {
		p.name = strings.ToLower(path.Base(words[0]))
		if roots[p.name] {
			m.add("it asks for the rights of root", strings.Join(words[:min(len(words), 6)], " "))
		}
		if !wrappers[p.name] || p.name == "env" && len(words) == 1 {
			break
		}
		p.xargs = p.xargs || p.name == "xargs"
		words = words[1:]
		for len(words) > 0 {
			w := words[0]
			if set := assigning.FindStringSubmatch(w); set != nil {
				m.assigned(set[1], set[2])
			} else if slices.Contains([]string{"-u", "-n", "-I", "-k", "-P", "-g", "-L", "-c", "-s", "-S", "-d"}, w) && len(words) > 2 {
				words = words[1:]
			} else if !strings.HasPrefix(w, "-") && !number.MatchString(w) {
				break
			}
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return in
	}
	p.words = words[1:]
	if what := m.made[m.absolute(words[0])]; what > nothing {
		m.runs(what, words[0])
	}
	if strings.HasPrefix(words[0], "{") && strings.Contains(words[0], ",") {
		m.runs(unseen, words[0])
	}
	shell := shells[p.name]
	if shell && slices.ContainsFunc(targets, func(t string) bool { return strings.HasPrefix(t, "/dev/tcp/") || strings.HasPrefix(t, "/dev/udp/") }) {
		m.add(opensShell, p.String())
	}
	m.path(words[0], false)
	out := max(in, shown)
	switch {
	case coders.MatchString(p.name) && !(p.name == "bun" && installs[p.first()]), shell:
		out = max(m.interpreter(p, shell), out)
	case p.name == "eval":
		m.add("it runs or unpacks text that is not shown here as it will be", p.String())
		if within == fetched {
			m.runs(fetched, p.String())
		}
		return max(out, m.script(strings.Join(p.words, " "), in))
	case p.name == "source" || p.name == ".":
		m.runsFile(p)
	case p.name == "iex" || p.name == "invoke-expression":
		m.runs(fetched, p.String())
	case p.name == "base64" && (p.flag("d") || p.flag("D") || p.has("--decode")), p.name == "xxd" && p.flag("r"):
		out = max(out, unseen)
	case p.name == "git":
		m.git(p)
		return out
	case holders[p.name]:
		m.container(p)
	case net[p.name]:
		out = m.network(p)
	case p.name == "find":
		m.find(p)
	case packers[p.name], p.name == "env", p.name == "tar" && len(p.words) > 0 && strings.Contains(p.words[0], "c"):
		out = max(out, private)
	default:
		m.others(p)
	}
	m.paths(p)
	return out
}

const opensShell = "it lets somebody on the network give commands here"

// interpreter marks what runs a program.
func (m *marker) interpreter(p program, shell bool) (out flow) {
	text, given := p.code, p.code != ""
	var rest []string
	module := false
	for i := 0; i < len(p.words); i++ {
		w := p.words[i]
		switch {
		case shell && len(w) > 1 && (w[0] == '-' || w[0] == '+') && w[1] != '-' && strings.HasSuffix(w, "c"),
			!shell && inline.MatchString(w):
			given = true
			if i++; i < len(p.words) {
				text += "\n" + p.words[i]
			} else if p.xargs {
				m.runs(max(p.in, unseen), p.String())
			}
		case w == "-m":
			module = true
			if i++; i < len(p.words) && p.words[i] == "pip" {
				m.others(program{name: "pip", words: p.words[i+1:]})
			}
		case w == "-s" && shell:
			rest = nil
			i = len(p.words)
		case w == "-" || !strings.HasPrefix(w, "-"):
			rest = append(rest, w)
		}
	}
	switch {
	case p.within == fetched, p.code != "" && p.in == fetched:
		m.runs(fetched, p.String())
	case p.xargs && given && p.in >= unseen:
		m.runs(p.in, p.String())
	}
	named := len(rest) > 0 && rest[0] != "-"
	if named {
		m.runsFile(program{words: rest, within: p.within})
	}
	switch {
	case shell && given:
		return m.script(m.again(text), p.in)
	case given:
		m.code(text)
		if slices.ContainsFunc(p.words, inPlace.MatchString) {
			for _, f := range rest {
				m.path(f, true)
				m.writes(f)
			}
		}
	case !named && !module && p.in > nothing:
		m.runs(p.in, p.String())
	}
	return shown
}

// again takes a text that is read once more from what may be read.
func (m *marker) again(text string) string {
	if m.deep == 1 { // the whole may be one text in another
		return text
	}
	return m.read(text)
}

// code marks what a program in another language does, by its words.
func (m *marker) code(text string) {
	if a := webWords.FindString(text); a != "" {
		m.mild(reaches, a)
		if runWords.MatchString(text) {
			m.runs(fetched, text)
		}
	}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`()[]{},;=", r) }) {
		m.path(w, true)
	}
	m.places(text)
}

const cannotTell = "it runs a program given on the command line, and nod cannot tell what that writes outside the folder"

// places marks a program that changes files, or runs what may, and names a place that
// does not lie in the folder.
func (m *marker) places(text string) {
	if !changeWords.MatchString(streams.ReplaceAllString(text, "")) {
		return
	}
	if a := homeWords.FindString(text); a != "" {
		m.add(cannotTell, a)
	}
	for _, at := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\n\"'`", r) }) {
		at = strings.TrimLeft(at, " +<>|")
		if placeWords.MatchString(at) {
			if _, out := m.outside(at); out {
				m.add(cannotTell, at)
			}
		}
	}
}

var (
	// inline is an option of which the next word is a program, inPlace one by which that
	// changes the files that follow.
	inline  = regexp.MustCompile(`^(-c|-r|-p|-E|--eval|--print|-\w{0,4}e)$`)
	inPlace = regexp.MustCompile(`^-\w*i(\.\S*|\w*)$`)

	// placeWords begin what is a path and not, as in many programs, an address of a site.
	changeWords = regexp.MustCompile(`(?i)write|appendFile|put_contents|unlink|rmtree|rmdir|\brm(Sync)?\(|os\.(remove|replace)|rename|shutil|copyFile|FileUtils|mkdir|makedirs|symlink|chmod|chown|\btouch|truncate|,\s*(mode\s*=\s*)?["']([wax]b?\+?|r\+b?)["']|["']\s*\+?>|\bsystem\b|popen|subprocess|child_process|\beval\b`)
	placeWords  = regexp.MustCompile(`^(~|\.\./|/(etc|usr|bin|sbin|lib\w*|opt|srv|var|home|root|boot|dev|mnt|media|Users|Library|Applications|System|private|Volumes)(/|$))`)
	homeWords   = regexp.MustCompile(`\bHOME\b|\.home\(|\bhomedir\b`)
	streams     = regexp.MustCompile(`(?i)std(out|err)\.\w+`)

	webWords = regexp.MustCompile(`(?i)https?://|\burlopen\b|\burllib\b|\brequests\.|\bfetch\(|\bLWP\b|Net::HTTP`)
	runWords = regexp.MustCompile(`(?i)\b(exec|eval|system|popen|subprocess|child_process|spawn|Function)\b`)
)

// runsFile marks that a file is run which the command itself has made.
func (m *marker) runsFile(p program) {
	if p.within == fetched {
		m.runs(fetched, p.String())
	}
	if len(p.words) > 0 {
		if what := m.made[m.absolute(p.words[0])]; what > nothing {
			m.runs(what, p.String())
		}
	}
}

// local is a host of this machine.
var local = regexp.MustCompile(`(?i)^(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)([:/]|$)`)

// remote is a file of another machine: host:path, or an address.
var remote = regexp.MustCompile(`^[^/]+:`)

// network marks what speaks with others, and returns what comes from them.
func (m *marker) network(p program) flow {
	if p.name == "rsync" && slices.ContainsFunc(p.words, func(w string) bool { return strings.HasPrefix(w, "--delete") }) {
		m.add(byRule, p.String())
	}
	if (p.name == "rsync" || p.name == "scp") && !slices.ContainsFunc(p.plain(), remote.MatchString) {
		return shown
	}
	m.mild(reaches, p.String())
	if p.in == private {
		m.add("it sends what this machine holds over the network", p.String())
	}
	plain := p.plain()
	got := fetched
	if slices.ContainsFunc(plain, local.MatchString) && !slices.ContainsFunc(plain, func(w string) bool { return address.MatchString(w) && !local.MatchString(w) }) {
		got = shown
	}
	save := func(names ...string) {
		for _, n := range names {
			m.path(n, true)
			m.writes(n)
			m.makes(n, got)
		}
	}
	named := func(folders []string) {
		for _, a := range plain {
			if name := path.Base(a); strings.Contains(a, "/") && name != "." && name != "/" {
				name, _, _ = strings.Cut(name, "?")
				save(path.Join(append(folders[max(0, len(folders)-1):], name)...))
			}
		}
	}
	switch p.name {
	case "curl":
		folders := p.option(0, "--output-dir")
		switch to := p.option('o', "--output"); {
		case len(to) > 0 && !slices.Contains(to, "-"):
			save(to...)
			return shown
		case p.flag("O") || p.has("--remote-name"):
			named(folders)
			return shown
		}
		if len(p.option('K', "--config")) > 0 {
			m.add("it runs or unpacks text that is not shown here as it will be", p.String())
		}
	case "wget":
		switch to := p.option('O', "--output-document"); {
		case slices.Contains(to, "-"):
		case len(to) > 0:
			save(to...)
			return shown
		default:
			folders := p.option('P', "--directory-prefix")
			for _, f := range folders {
				m.writes(f)
			}
			named(folders)
			return shown
		}
	case "nc", "ncat", "netcat":
		if p.flag("e") || p.flag("c") || p.has("--exec", "--sh-exec") {
			m.add(opensShell, p.String())
		}
	case "socat":
		if slices.ContainsFunc(p.words, func(w string) bool {
			w = strings.ToLower(w)
			return strings.HasPrefix(w, "exec:") || strings.HasPrefix(w, "system:") || strings.HasPrefix(w, "shell:")
		}) {
			m.add(opensShell, p.String())
		}
	case "ssh":
		if i := slices.IndexFunc(p.words, func(w string) bool { return !strings.HasPrefix(w, "-") && !number.MatchString(w) }); i >= 0 && i+1 < len(p.words) {
			m.script(m.read(strings.Join(p.words[i+1:], " ")), p.in)
		}
	case "gh", "glab":
		if len(plain) > 1 && plain[1] == "delete" {
			m.add(elsewhere, p.String())
		}
		return shown
	}
	return got
}

const (
	byRule    = "it deletes files for good, or overwrites a disk, by rule and not by name"
	elsewhere = "it publishes, or changes what runs elsewhere"
	wipes     = "it deletes the folder or its history, not only files in it"
	moreHold  = "it gives a container hold of this machine"
)

// find marks what is done with files by rule.
func (m *marker) find(p program) {
	narrow := slices.ContainsFunc(p.words, func(w string) bool {
		return strings.HasSuffix(w, "name") || w == "-path" || w == "-regex" || w == "-empty" || w == "-mtime" || w == "-size"
	})
	doing := p.has("-delete")
	end := 0
	for i, w := range p.words {
		if i < end || w != "-exec" && w != "-execdir" && w != "-ok" {
			continue
		}
		for end = i + 1; end < len(p.words) && p.words[end] != ";" && p.words[end] != "+"; {
			end++
		}
		if run := p.words[i+1 : end]; len(run) > 0 && m.deep < maxDeep {
			m.deep++
			m.read(strings.Join(run, " "))
			m.simple(run, nothing, nothing, "", nil)
			m.deep--
			doing = doing || writers[path.Base(run[0])]
		}
	}
	if !doing {
		return
	}
	m.mild(deletes, p.String())
	for _, w := range p.words {
		if strings.HasPrefix(w, "-") {
			break
		}
		m.writes(w)
	}
	if p.has("-delete") && !narrow {
		m.add(byRule, p.String())
	}
}

// others marks programs that are known by their name, and a word or two.
func (m *marker) others(p program) {
	plain := p.plain()
	first := p.first()
	name := strings.TrimRight(p.name, ".0123456789")
	switch {
	case p.name == "rm":
		recursive := p.flag("r") || p.flag("R") || p.has("--recursive")
		if recursive || p.flag("f") || p.has("--force") {
			m.mild(deletes, p.String())
		}
		for _, w := range plain {
			at := m.absolute(w)
			if recursive && (m.root != "" && within(m.root, at) || at == m.cwd || path.Base(at) == ".git" || strings.HasSuffix(at, "/.git/*") || (strings.HasPrefix(path.Base(at), "*") || path.Base(at) == ".*") && (path.Dir(at) == m.cwd || m.root != "" && within(m.root, path.Dir(at)))) {
				m.add(wipes, p.String())
			}
		}
	case p.name == "shred", strings.HasPrefix(p.name, "mkfs"), p.name == "wipefs", p.name == "truncate",
		p.name == "dd" && slices.ContainsFunc(p.words, func(w string) bool { return strings.HasPrefix(w, "of=") }):
		m.add(byRule, p.String())
	case p.name == "chmod":
		if strings.HasSuffix(first, "777") || plusS.MatchString(first) {
			m.add(moreRights, p.String())
		}
		if strings.Contains(first, "x") || strings.Trim(first, "01234567") == "" {
			for _, w := range plain[min(1, len(plain)):] {
				m.runs(m.made[m.absolute(w)], p.String())
			}
		}
	case p.name == "setcap", p.name == "chattr":
		m.add(moreRights, p.String())
	case p.name == "crontab" && !p.has("-l"), p.name == "at" && len(p.words) > 0 && !p.has("-l"), p.name == "batch", p.name == "launchctl" && first != "list" && first != "print",
		p.name == "systemd-run", p.name == "update-rc.d", p.name == "schtasks":
		m.add(machineRuns, p.String())
	case p.name == "systemctl":
		if !slices.Contains([]string{"", "status", "show", "cat", "is-active", "is-enabled", "is-failed", "list-units", "list-timers", "list-unit-files"}, first) {
			m.add(machineRuns, p.String())
		}
	case killers[p.name], p.name == "kill" && p.has("-1"):
		m.add("it ends other programs, or the machine", p.String())
	case slices.Contains([]string{"npm", "pnpm", "yarn", "cargo", "poetry", "uv", "bun"}, p.name) && first == "publish", p.name == "gem" && first == "push", p.name == "twine" && first == "upload",
		(p.name == "terraform" || p.name == "tofu") && (first == "apply" || first == "destroy"), p.name == "kubectl" && (first == "delete" || first == "drain"), p.name == "dropdb":
		m.add(elsewhere, p.String())
	case managers[p.name] || managers[name]:
		if installs[first] || first == "mod" && p.has("download") {
			m.mild(reaches, p.String())
		}
		if p.widely(name, first) {
			m.mild(reaches, p.String())
			m.add(writesOutside, p.String())
		}
		for _, f := range p.option('C', "--prefix", "--cwd", "--directory") {
			m.goes(f, false)
		}
	case runners[p.name]:
		m.mild(reaches, p.String())
	case p.name == "make":
		for _, f := range p.option('C', "--directory") {
			m.goes(f, false)
		}
	case movers[p.name]:
		if first != "" {
			m.goes(first, true)
		}
	case p.name == "mv" || p.name == "cp":
		if p.name == "mv" && slices.ContainsFunc(plain, func(w string) bool { return path.Base(m.absolute(w)) == ".git" }) {
			m.add(wipes, p.String())
		}
		if len(plain) > 1 {
			for _, w := range plain[:len(plain)-1] {
				m.makes(plain[len(plain)-1], m.made[m.absolute(w)])
			}
		}
	case strings.HasSuffix(p.name, "awk") && p.in >= unseen && strings.Contains(first, "system("):
		m.runs(p.in, p.String())
	case p.name == "tee":
		for _, w := range plain {
			m.makes(w, p.in)
		}
	}
}

// widely reports whether a package manager of that name installs or removes, by its first
// word, for more than a folder.
func (p program) widely(name, first string) bool {
	switch name {
	case "npm", "pnpm", "yarn", "bun":
		return first == "global" || (installs[first] || removes[first]) && (p.flag("g") || p.has("--global", "--location=global"))
	case "pip":
		return installs[first] && p.has("--user")
	case "uv":
		return first == "tool" && p.has("install", "uninstall", "upgrade")
	case "go":
		return first == "install" && slices.ContainsFunc(p.words, func(w string) bool { return strings.Contains(w, "@") })
	}
	return wide[name] && slices.Contains([]string{"install", "uninstall", "upgrade"}, first)
}

const moreRights = "it opens files to everybody, or gives them more rights"

var plusS = regexp.MustCompile(`^[ugoa]*\+\w*s|^[2467]\d{3}$`)

// goes has what follows happen in another folder.
func (m *marker) goes(to string, stays bool) {
	at := m.absolute(to)
	if strings.HasPrefix(at, "$") || to == "-" {
		return
	}
	if name, out := m.outside(to); out {
		m.mild(worksOutside, name)
	}
	if stays && len(at) <= maxPath/8 {
		m.cwd = at
	}
}

// paths marks the paths that a program is told of, and those that it writes.
func (m *marker) paths(p program) {
	reads := readers[p.name] && !(p.name == "find" && p.has("-delete", "-exec", "-execdir"))
	if p.name == "sed" {
		reads = !p.flag("i") && !p.has("--in-place")
	}
	for _, w := range p.words {
		m.word(w, p.name, !reads)
	}
	var to []string
	plain := p.plain()
	switch {
	case p.name == "sed" && !reads:
		to = plain
	case writers[p.name]:
		if to = plain; p.name == "chmod" || p.name == "chown" || p.name == "chgrp" {
			to = plain[min(1, len(plain)):]
		}
	case copiers[p.name]:
		if to = p.option('t', "--target-directory"); len(to) == 0 && len(plain) > 0 && !strings.Contains(plain[len(plain)-1], ":") {
			to = plain[len(plain)-1:]
		}
	case p.name == "dd":
		for _, w := range p.words {
			if name, ok := strings.CutPrefix(w, "of="); ok {
				to = append(to, name)
			}
		}
	case p.name == "tar":
		to = p.option('C', "--directory")
		if len(p.words) > 0 && strings.Contains(p.words[0], "c") && len(p.words) > 1 && strings.Contains(p.words[0], "f") {
			to = append(to, p.words[1])
		}
	case p.name == "unzip":
		to = p.option('d')
	}
	for _, name := range to {
		m.writes(name)
	}
}

// word marks a word of a program by the paths that it names.
func (m *marker) word(w, program string, written bool) {
	if strings.ContainsAny(w, " \t\n") {
		if !speakers[program] {
			for f := range strings.FieldsSeq(w) {
				m.path(f, written)
			}
		}
		return
	}
	if namers[program] && !slices.ContainsFunc(m.own, func(folder string) bool { return within(m.absolute(w), folder) }) {
		before := slices.Clone(m.list)
		if m.path(w, written); len(m.list) > len(before) || Grave(m.list) != Grave(before) { // to name a secret tells nothing of it
			for i := range m.list {
				if i >= len(before) && m.list[i].Why != ownWhy {
					m.list[i].Mild = true
				}
			}
		}
		return
	}
	m.path(w, written)
	for _, sign := range []string{"@", "=", "<"} { // f=@.env, --prefix=/usr
		if _, value, ok := strings.Cut(w, sign); ok {
			m.path(strings.TrimLeft(value, "@<"), written)
		}
	}
}

// ---- git ----

// gitSettings are those by which git runs a program.
var gitSettings = regexp.MustCompile(`(?i)^(core\.(hookspath|fsmonitor|sshcommand|pager|editor|gitproxy|askpass)|sequence\.editor|gpg\.(\w+\.)?program|diff\.external|(diff|merge)\.\S+\.(command|driver|textconv)|uploadpack\.\S+|protocol\.ext\.\S+|alias\.\S+|credential\.\S+|filter\.\S+|include(if)?\.\S*path)$`)

func (m *marker) git(p program) {
	i := 0
	at := m.cwd
	defer func() { m.cwd = at }()
	for ; i < len(p.words) && strings.HasPrefix(p.words[i], "-"); i++ {
		switch w := p.words[i]; {
		case (w == "-C" || w == "-c" || w == "--git-dir" || w == "--work-tree") && i+1 < len(p.words):
			i++
			if key, value, _ := strings.Cut(p.words[i], "="); w == "-c" {
				if gitSettings.MatchString(key) && !harmless(value) {
					m.add(gitRuns, p.words[i])
				}
			} else {
				m.goes(p.words[i], w == "-C")
			}
		case strings.HasPrefix(w, "--exec-path="), strings.HasPrefix(w, "--config-env="):
			m.add(gitRuns, w)
		}
	}
	if i >= len(p.words) {
		return
	}
	sub := p.words[i]
	p.words = p.words[i+1:]
	plain := p.plain()
	first := ""
	if len(plain) > 0 {
		first = plain[0]
	}
	says := "git " + sub + " " + strings.Join(p.words[:min(10, len(p.words))], " ")
	written := false
	switch sub {
	case "commit", "tag", "log", "show", "diff", "status", "blame", "grep", "ls-files", "add", "rev-parse", "cat-file", "check-ignore", "describe":
	case "push":
		if p.flag("f") || p.flag("d") || p.has("--mirror", "--delete", "--prune") || slices.ContainsFunc(p.words, func(w string) bool {
			return strings.HasPrefix(w, "--force") || strings.HasPrefix(w, "+") || strings.HasPrefix(w, ":")
		}) {
			m.add("it overwrites or deletes what others have fetched (a forced push)", says)
		}
		m.mild(reaches, says)
	case "clone", "fetch", "pull", "ls-remote", "submodule":
		m.mild(reaches, says)
		if len(p.option('u', "--upload-pack")) > 0 && sub != "submodule" || slices.ContainsFunc(plain, func(w string) bool { return strings.HasPrefix(w, "ext::") }) {
			m.add(gitRuns, says)
		}
		if sub == "clone" && len(plain) > 1 {
			m.writes(plain[1])
		}
		if sub == "submodule" && first == "foreach" {
			m.script(m.read(strings.Join(plain[1:], " ")), nothing)
		}
	case "reset":
		if p.has("--hard") {
			m.mild(discards, says)
		}
	case "clean":
		if p.flag("f") || p.has("--force") {
			m.mild(discards, says)
		}
	case "checkout", "restore":
		if slices.Contains(plain, ".") || p.flag("f") {
			m.mild(discards, says)
		}
		written = true
	case "stash":
		if first == "drop" || first == "clear" {
			m.mild(discards, says)
		}
	case "branch":
		if p.flag("D") {
			m.mild(discards, says)
		}
	case "config":
		if k := slices.IndexFunc(plain, gitSettings.MatchString); k >= 0 && !p.has("--get", "--get-all", "--list", "-l") && first != "get" && (k+1 < len(plain) && !harmless(plain[k+1]) || p.has("--unset")) {
			m.add(gitRuns, says)
		}
		return
	case "rebase":
		for _, x := range p.option('x', "--exec") {
			m.script(m.read(x), nothing)
		}
	case "bisect":
		if first == "run" && m.deep < maxDeep {
			m.deep++
			m.read(says)
			m.simple(p.words[slices.Index(p.words, "run")+1:], nothing, nothing, "", nil)
			m.deep--
		}
	case "filter-branch":
		m.add("it overwrites or deletes what others have fetched (a forced push)", says)
	default:
		written = true
	}
	if sub == "commit" || sub == "tag" { // whose words are sentences
		return
	}
	for _, w := range p.words {
		m.word(w, "git", written)
		if sub == "mv" || sub == "init" || sub == "worktree" || sub == "rm" {
			if rooted(w) || strings.HasPrefix(w, "..") || strings.HasPrefix(w, "$HOME") {
				m.writes(w)
			}
		}
	}
}

// container marks what a container is let have of this machine.
func (m *marker) container(p program) {
	if p.has("--privileged", "--pid=host") || slices.Contains(p.option(0, "--pid"), "host") || slices.ContainsFunc(p.words, func(w string) bool { return strings.Contains(w, "docker.sock") }) {
		m.add(moreHold, p.String())
	}
	holds := func(name string) {
		if at, out := m.outside(name); out {
			m.add(moreHold, at)
		}
		m.path(name, true)
	}
	for _, v := range p.option('v', "--volume") {
		if name, _, ok := strings.Cut(v, ":"); ok && strings.ContainsAny(name[:min(1, len(name))], "/.~$") {
			holds(name)
		}
	}
	for _, v := range p.option(0, "--mount") {
		for part := range strings.SplitSeq(v, ",") {
			if key, name, _ := strings.Cut(part, "="); key == "source" || key == "src" {
				if rooted(name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "$") {
					holds(name)
				}
			}
		}
	}
	plain := p.plain()
	if len(plain) > 0 && (plain[0] == "pull" || plain[0] == "push" || plain[0] == "login") {
		m.mild(reaches, p.String())
	}
}
