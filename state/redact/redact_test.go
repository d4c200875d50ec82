package redact

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// ada is the owner of all texts of these tests.
var ada = Owner{
	Home: "/home/ada", User: "ada", Hosts: []string{"engine-7.lovelace.example", "engine-7"},
	Environment: []string{"HOME=/home/ada", "LANG=en_GB.UTF-8", "PLAIN_TOKEN=correct horse battery staple", "SHORT_TOKEN=abc", "EDITOR=/usr/bin/some-long-editor"},
}

// planted are 60 texts with a secret each, between ⟦ and ⟧. They are in pieces, so that
// nobody takes this file for a leak.
var planted = strings.Split(strings.TrimSpace(strings.NewReplacer("~", "").Replace(`
export OPENAI_API_KEY=⟦s~k-proj-Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
the key is ⟦s~k-ant-api03-Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeUVb3kQ9xT2mLp⟧, use it
"apiKey": "⟦Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧",
git clone https://ada:⟦g~hp_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2⟧@github.com/x/y
remote: ⟦g~ithub_pat_11ABCDEFG0Vb3kQ9xT2mLp_8RzWn4Hc7YdJ6fGs1AeUVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
token ⟦g~ho_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2⟧
GITLAB_TOKEN="⟦g~lpat-Vb3kQ9xT2mLp8RzWn4Hc⟧"
aws_access_key_id = ⟦A~KIAQ7RT5WXYZ2LM4NPB⟧
aws_secret_access_key = ⟦wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz9KEYq2Lm⟧
AWS_SECRET_ACCESS_KEY=⟦wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz9KEYq2Lm⟧
{"AccessKeyId":"⟦A~SIAQ7RT5WXYZ2LM4NPB⟧"}
slack: ⟦x~oxb-2413579086-2413579087-Vb3kQ9xT2mLp8RzWn4Hc7YdJ⟧
SLACK=⟦x~oxp-2413579086-2413579087-2413579088-a1b2c3d4e5f60718293a4b5c6d7e8f90⟧ node bot.js
curl -X POST https://hooks.slack.com/services/⟦T02ABCDEF/B03GHIJKL/Vb3kQ9xT2mLp8RzWn4Hc7YdJ⟧
stripe.api_key = "⟦s~k_live_51Vb3kQ9xT2mLp8RzWn4Hc7YdJ⟧"
STRIPE=⟦r~k_live_51Vb3kQ9xT2mLp8RzWn4Hc7YdJ⟧
whsec: ⟦w~hsec_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
GOOGLE_MAPS = ⟦A~IzaSyBVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1Ae⟧
access ⟦y~a29.a0AfH6SMBVb3kQ9xT2mLp8RzWn4Hc7YdJ⟧
HF: ⟦h~f_VbTkQxTqmLpuRzWnxHcwYdJhfGsyAeUpq⟧
//registry.example/:_authToken=⟦n~pm_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2⟧
password = ⟦p~ypi-AgEIcHlwaS5vcmcCJGVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeUVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
SENDGRID_API_KEY=⟦S~G.Vb3kQ9xT2mLp8RzWn4Hc7Y.dJ6fGs1AeUVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
twilio: ⟦S~K0123456789abcdef0123456789abcdef⟧
mailgun: ⟦k~ey-0123456789abcdef0123456789abcdef⟧
DO_TOKEN=⟦d~op_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef⟧
shopify ⟦s~hpat_0123456789abcdef0123456789abcdef⟧
telegram bot ⟦2413579086:AAVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeUx⟧
discord https://discord.com/api/webhooks/⟦241357908641357908/Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
linear: ⟦l~in_api_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2abcd⟧
groq ⟦g~sk_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2abcd⟧
docker login -p ⟦d~ckr_pat_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fG⟧
tailscale up --authkey=⟦t~skey-auth-kVb3kQ9xT2CNTRL-mLp8RzWn4Hc7YdJ6fGs1AeU⟧
age: ⟦A~GE-SECRET-KEY-1QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE⟧
Authorization: Bearer ⟦Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU⟧
curl -H "Authorization: Basic ⟦YWRhOmNvcnJlY3QtaG9yc2U=⟧" https://api.example.com
curl -u ada:⟦hunter2isNotGood⟧ https://api.example.com
X-Api-Key: ⟦0123456789abcdef0123⟧
Cookie: ⟦session=Vb3kQ9xT2mLp8RzWn4Hc7YdJ; theme=dark⟧
jwt=⟦e~yJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e~yJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c⟧
DATABASE_URL=postgres://app:⟦s3cr3t-pw⟧@db.example.com:5432/app
redis://:⟦Vb3kQ9xT2mLp⟧@cache.example.com:6379
mongodb+srv://root:⟦Vb3kQ9xT2mLp⟧@cluster0.example.mongodb.net
DB_PASSWORD=⟦hunter2⟧
export MYSQL_PWD='⟦correct horse⟧'
SECRET_KEY="⟦django-insecure-9v$x2^b@7k!q⟧"
JWT_SECRET=⟦s⟧
password: "⟦Tr0ub4dor&3⟧"
"password": "⟦Tr0ub4dor&3xyz⟧",
db.connect(user="app", password='⟦Tr0ub4dor&3xyz⟧')
machine api.example.com login ada password ⟦Vb3kQ9xT2mLp⟧
mysql --password=⟦Vb3kQ9xT2mLp⟧ -u root
gh auth login --with-token ⟦Vb3kQ9xT2mLp8RzWn4Hc⟧
client_secret: ⟦Vb3kQ9xT2mLp8RzWn4Hc7YdJ⟧
https://store.blob.core.windows.net/a/b?sv=2024-11-04&sig=⟦Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU%3D⟧
https://b.s3.amazonaws.com/k?X-Amz-Signature=⟦0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef⟧
the passphrase of the backup is "⟦Tr0ub4dor&3-and-more⟧"
it answered ⟦correct horse battery staple⟧ and went on
vault: ⟦h~vs.CAESIVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeUVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeUVb3kQ9xT2mLp8RzWn4Hc7YdJ6fG⟧
notion ⟦n~tn_24135790864Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq⟧
`)), "\n")

// pem is the sixty-first, which has several lines.
const pem = "⟦-----BEGIN OPENSSH PRI" + "VATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nQyNTUxOQAAACBVb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeUVb3kQ9xT2mL\n-----END OPENSSH PRI" + "VATE KEY-----⟧"

// split returns a planted text without its marks, and the secret in it.
func split(planted string) (text, secret string) {
	before, rest, _ := strings.Cut(planted, "⟦")
	secret, after, _ := strings.Cut(rest, "⟧")
	return before + secret + after, secret
}

// leaks reports whether what is shown tells anything of a secret: all of it if it is
// short, else any piece of a length that nobody writes by chance.
func leaks(shown, secret string) bool {
	const piece = 8
	for i := 0; i+piece <= len(secret); i++ {
		if strings.Contains(shown, secret[i:i+piece]) && !strings.Contains("-----BEGIN OPENSSH PRIVATE KEY----------END", secret[i:i+piece]) {
			return true
		}
	}
	return len(secret) > 2 && strings.Contains(shown, secret)
}

// TestC43Secrets masks every secret, and little around it.
func TestC43Secrets(t *testing.T) {
	r := New(ada)
	if len(planted) != 60 {
		t.Fatalf("%d secrets are planted", len(planted))
	}
	for _, p := range append(planted, pem) {
		text, secret := split(p)
		before, after, _ := strings.Cut(text, secret)
		got := Mask(text, r.Find(text))
		if leaks(got, secret) || len(secret) == 1 && got == text {
			t.Errorf("%q became %q", text, got)
		} else if !strings.Contains(got, before[:min(len(before), 3)]) || !strings.HasSuffix(got, after[max(0, len(after)-3):]) {
			t.Errorf("%q became %q: more than the secret is gone", text, got)
		}
	}
}

// TestC43Owner masks who and where the owner is.
func TestC43Owner(t *testing.T) {
	r := New(ada)
	for text, want := range map[string]string{
		"cd /home/ada/work/nod":                       "cd ~/work/nod",
		"/home/adam/x":                                "/home/‹user›/x",
		"/Users/grace/src and C:\\Users\\grace\\src":  "/Users/‹user›/src and C:\\Users\\‹user›\\src",
		"ada@engine-7:~$ ls":                          "‹user›:~$ ls",
		"ssh ada@build.example.net":                   "ssh ‹user›",
		"mail ada.l@lovelace.io today":                "mail ‹mail address› today",
		"git clone git@github.com:x/y.git":            "git clone git@github.com:x/y.git",
		"go get github.com/a-h/templ@v0.3.1":          "go get github.com/a-h/templ@v0.3.1",
		"npm i @openai/codex@0.171.0":                 "npm i @openai/codex@0.171.0",
		"on engine-7 and engine-7.lovelace.example":   "on ‹host› and ‹host›",
		"engine-75 is another":                        "engine-75 is another",
		"ping 192.168.178.20 from 10.0.0.7":           "ping ‹address› from ‹address›",
		"listens on 127.0.0.1:7777 and [::1]:7777":    "listens on 127.0.0.1:7777 and [::1]:7777",
		"version 1.2.3.4.5, v1.2.3.4":                 "version 1.2.3.4.5, v1.2.3.4",
		"route fe80::1ff:fe23:4567:890a dev eth0":     "route ‹address› dev eth0",
		"std::vector<a::b>, at 12:34:56, dead::beef":  "std::vector<a::b>, at 12:34:56, dead::beef",
		"open http://nas.local:8080/ or db.corp.lan":  "open http://‹host›:8080/ or ‹host›",
		"the word ada alone stays, as does Lovelace":  "the word ada alone stays, as does Lovelace",
		"wrote to noreply@github.com, a@example.com.": "wrote to noreply@github.com, a@example.com.",
	} {
		if got := Mask(text, r.Find(text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestC43Plain leaves alone what is no secret.
func TestC43Plain(t *testing.T) {
	r := New(ada)
	for _, text := range []string{
		"password := getPassword(ctx)", "token: string;", "const apiKey = process.env.OPENAI_API_KEY", "TOKEN=$GITHUB_TOKEN make", "MAX_TOKENS=4096",
		"API_KEY=<your key>", "if token == \"\" {", "The secret is to listen.", "key: value", "primaryKey: user_id", "func (s *Server) token(r *http.Request) string {",
		"SHA-256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "commit 4684826f3b1c", "PASSWORD=", "export EDITOR=/usr/bin/some-long-editor",
		"\"token_count\": 128000", "csrf_token", "tokens: 12,345", "keyboard: qwerty", "author: Ada Lovelace", "access: read-write",
	} {
		if f := r.Find(text); len(f) > 0 {
			t.Errorf("%q became %q (%s)", text, Mask(text, f), f[0].Rule)
		}
	}
}

// TestC43Ordinary reads more than 5,000 lines of code and prose, of which less than one
// word in two hundred may be lost.
func TestC43Ordinary(t *testing.T) {
	r := New(ada)
	lines, words, lost := 0, 0, 0
	var what []string
	read := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		lines += strings.Count(text, "\n")
		words += len(strings.Fields(text))
		for _, f := range r.Find(text) {
			lost += max(1, len(strings.Fields(text[f.Start:f.End])))
			what = append(what, fmt.Sprintf("%s: %s: %.60q", filepath.Base(path), f.Rule, text[f.Start:f.End]))
		}
	}
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../*.go", "../../handlers/*.go", "../../static/live.js", "../../static/nod.css",
		filepath.Join(runtime.GOROOT(), "src/net/http/*.go"), filepath.Join(runtime.GOROOT(), "src/crypto/tls/*.go"), filepath.Join(runtime.GOROOT(), "doc/*.html")} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if !strings.HasSuffix(p, "_test.go") {
				read(p)
			}
		}
	}
	t.Logf("%d lines, %d words, %d lost (%.2f%%)\n%s", lines, words, lost, 100*float64(lost)/float64(words), strings.Join(what, "\n"))
	if lines < 5000 || lost*200 >= words {
		t.Errorf("of %d words in %d lines %d are lost", words, lines, lost)
	}
}

// TestC43Growing cuts each text everywhere, and looks at what is seen of it then by
// somebody who is in a hurry, who sees the most.
func TestC43Growing(t *testing.T) {
	r := New(ada)
	for _, p := range append(planted, pem) {
		text, secret := split(p)
		text = "It ran, and said:\n" + text + "\nThat was all of it, a line without an end"
		want := Mask(text, r.Find(text))
		g := Growing{Redactor: r}
		for cut := range len(text) { // a text of this length is looked at as a whole each time
			if seen, _ := g.Take(text[:cut], false, true); leaks(seen, secret) {
				t.Fatalf("at byte %d %q was seen", cut, seen)
			}
		}
		if got, _ := g.Take(text, true, false); got != want {
			t.Errorf("it became %q, want %q", got, want)
		}
	}
}

// TestC43Long has a text grow that is much longer than what is looked at again.
func TestC43Long(t *testing.T) {
	r := New(ada)
	var text strings.Builder
	g := Growing{Redactor: r}
	for i := range 150 {
		p, secret := split(append(planted, pem)[i%61])
		fmt.Fprintf(&text, "line %d of an ordinary length, and a path: /home/ada/work\n%s\n", i, p)
		if seen, _ := g.Take(text.String(), false, i%2 == 0); leaks(seen, secret) {
			t.Fatalf("after %d: a secret was seen: %s", i, secret)
		}
	}
	if g.from == 0 {
		t.Error("all of it is looked at again and again")
	}
	before, _ := g.Take(text.String(), false, false)
	if got, _ := g.Take(text.String(), true, false); got != before {
		t.Error("it is another text when it is closed")
	}
}

// TestC43Open shows of a line without an end what is no secret, if it is long in coming.
func TestC43Open(t *testing.T) {
	g := Growing{Redactor: New(ada)}
	for _, c := range []struct {
		text  string
		hurry bool
		want  string
	}{
		{"First line\nthen som", false, "First line\n"},
		{"First line\nthen some more of i", true, "First line\nthen some more of "},
		{"First line\nthen some more of it. The password is hun", true, "First line\nthen some more of it. The "},
		{"Another text", true, "Another "},
	} {
		if got, _ := g.Take(c.text, false, c.hurry); got != c.want {
			t.Errorf("of %q is seen %q, want %q", c.text, got, c.want)
		}
	}
}

// TestC43Coloured finds what a program has coloured in the middle.
func TestC43Coloured(t *testing.T) {
	r := New(ada)
	for _, p := range planted {
		text, secret := split(p)
		broken := strings.Replace(text, secret, secret[:len(secret)/2]+"\x1b[01;31m"+secret[len(secret)/2:]+"\x1b[0m\u200b", 1)
		got := Mask(broken, r.Find(broken))
		if half := secret[:len(secret)/2]; len(half) > 2 && strings.Contains(got, half) || strings.Contains(got, secret[len(secret)/2:]) && len(secret) > 4 {
			t.Errorf("%q became %q", broken, got)
		}
	}
}

// TestC43Shown lets be seen what the owner lets be seen, wherever it stands.
func TestC43Shown(t *testing.T) {
	r := New(ada)
	text, _ := split(planted[0])
	found := r.Find(text)
	g := Growing{Redactor: r, Shown: func(f Finding) bool { return f.ID == found[0].ID }}
	text += " and once more: " + text
	if got, _ := g.Take(text, true, false); got != text {
		t.Errorf("%q is seen", got)
	}
}

// TestC43Written: markdown's and JSON's backslashes, and the signs of a diff, hide no
// secret.
func TestC43Written(t *testing.T) {
	r := New(ada)
	for text, secret := range map[string]string{
		"the key gh" + `p\_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2.`: "Vb3kQ9xT2mLp",
		"@@ -1 +1 @@\n-DB_PASSWORD=hunter2\n+DB_PASSWORD=hunter3": "hunter",
		`"url": "postgres:\/\/ada:Vb3kQ9xT2mLp@db\/x"`:            "Vb3kQ9xT2mLp",
	} {
		if seen := Mask(text, r.Find(text)); strings.Contains(seen, secret) {
			t.Errorf("%q is seen as %q", text, seen)
		}
	}
}

// TestFolders: where the shell is, is no secret.
func TestFolders(t *testing.T) {
	r := New(Owner{Environment: []string{"PWD=/srv/projects/shop", "OLDPWD=/usr/local/bin"}})
	const text = "cd /srv/projects/shop/cache && /usr/local/bin/make"
	if seen := Mask(text, r.Find(text)); seen != text {
		t.Error(seen)
	}
}

// TestC43Settled: what was masked stays so, when what names it is not looked at any more.
func TestC43Settled(t *testing.T) {
	const value = "Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU"
	g := Growing{Redactor: New(ada)}
	text := strings.Repeat("A line of ordinary words.\n", 300) + "password:\n  " + value + strings.Repeat(" and more words", 250) + "\n"
	for range 20 {
		if seen, _ := g.Take(text, false, false); strings.Contains(seen, value) {
			t.Fatalf("it is seen with %d bytes behind it", len(text)-strings.Index(text, value))
		}
		text += strings.Repeat("More of it.\n", 40)
	}
	if g.from <= strings.Index(text, value) {
		t.Error("it is looked at again and again")
	}
}

// TestLongLine: not all of a line that goes on and on is looked at each time.
func TestLongLine(t *testing.T) {
	g, text := Growing{Redactor: New(ada)}, ""
	for range 50 {
		text += strings.Repeat(" and then some ordinary words, and more of them, about the work in /home/ada/work", 8)
		if seen, _ := g.Take(text, false, true); strings.Contains(seen, "/home/ada") {
			t.Fatal(seen)
		}
	}
	if len(text)-g.from > longLine+2*lookBack {
		t.Errorf("%d bytes are looked at", len(text)-g.from)
	}
}

// TestC43Prefixed: what programs write before a line hides no secret.
func TestC43Prefixed(t *testing.T) {
	r := New(ada)
	for name, write := range map[string]func(string) string{
		"added": func(s string) string { return "+" + s }, "taken away": func(s string) string { return "-" + s },
		"grep": func(s string) string { return "app/.env:12:" + s }, "numbered": func(s string) string { return "3:" + s },
		"a column": func(s string) string { return "|" + s }, "a comment": func(s string) string { return "#" + s }, "quoted": func(s string) string { return ">" + s },
		"JSON": func(s string) string { b, _ := json.Marshal("x\n" + s); return string(b) },
	} {
		for _, p := range append(planted, pem) {
			text, secret := split(p)
			in := write(text)
			if b, _ := json.Marshal(secret); name == "JSON" {
				secret = strings.Trim(string(b), `"`)
			}
			if seen := Mask(in, r.Find(in)); leaks(seen, secret) {
				t.Errorf("%s: %q is seen as %q", name, in, seen)
			}
		}
	}
}
