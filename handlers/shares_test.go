package handlers

import (
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nod/state"
	"nod/state/journal"
)

var theLink = regexp.MustCompile(`value="(http://[^"]*)(/v/([a-z2-7]+)/k/[\w-]{43})"`)

// wanted is how a test shares: all of a session, live, for a day.
func wanted(change ...string) url.Values {
	f := url.Values{"live": {"yes"}, "reasoning": {"yes"}, "output": {"yes"}, "diffs": {"yes"}, "life": {"24h0m0s"}}
	for i := 0; i < len(change); i += 2 {
		f.Set(change[i], change[i+1])
	}
	return f
}

// previewed makes a preview, and returns its path.
func (s *site) previewed(id string, change ...string) string {
	s.t.Helper()
	r := s.post(s.in, s.base+"/s/"+id+"/share", wanted(change...))
	if r.status != http.StatusSeeOther {
		s.t.Fatalf("no preview: %d %s", r.status, r.body)
	}
	return r.header.Get("Location")
}

// share makes a link, and returns its path and the id of the share.
func (s *site) share(id string, change ...string) (path, share string) {
	s.t.Helper()
	r := s.post(s.in, s.previewed(id, change...), url.Values{"do": {"make"}, "code": {s.code()}})
	m := theLink.FindStringSubmatch(r.body)
	if m == nil {
		s.t.Fatalf("no link: %d %s", r.status, r.body)
	}
	return m[2], m[3]
}

// guest is a browser that has followed a link.
func (s *site) guest(link string) *http.Client {
	s.t.Helper()
	c := s.client()
	if r := s.get(c, link); r.status != http.StatusSeeOther || strings.Contains(r.header.Get("Location"), "/k/") {
		s.t.Fatalf("the link: %d %s", r.status, r.header.Get("Location"))
	}
	return c
}

// watch streams a share to a guest.
func (s *site) watch(c *http.Client, share string) *events {
	s.t.Helper()
	g := *s
	g.in = c
	return g.stream(s.base+"/v/"+share+"/live", "")
}

// said has the agent say something in a turn.
func (s *site) said(id, text string) {
	s.apply(id, &state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{ID: "m1", Content: state.NewText(text)}})
}

var nonce = regexp.MustCompile(`nonce="[^"]*"|data-rev="[^"]*"`)

// TestR31MakingALink asks who it is each time, shows the link once, and is recorded.
func TestR31MakingALink(t *testing.T) {
	s := newSite(t)
	id := s.session()
	p := s.previewed(id)
	for _, f := range []url.Values{{"do": {"make"}}, {"do": {"make"}, "code": {"AAAA-BBBB"}}} {
		if r := s.post(s.in, p, f); r.status < 400 || theLink.MatchString(r.body) {
			t.Errorf("%v: %d", f, r.status)
		}
	}
	if all, err := s.store.Shares(t.Context()); err != nil || len(all) > 0 {
		t.Fatalf("%v, %v", all, err)
	}
	link, share := s.share(id, "label", "For Grace")
	token := link[strings.LastIndex(link, "/")+1:]
	x, err := s.store.Share(t.Context(), share)
	if err != nil || strings.Contains(x.TokenHash+string(x.Record), token) || x.ExpiresAt-x.CreatedAt != (24*time.Hour).Milliseconds() {
		t.Errorf("kept: %+v, %v", x, err)
	}
	for _, path := range []string{"/shares", "/shares/" + share, "/audit"} {
		if page := s.get(s.in, path).body; strings.Contains(page, token) || !strings.Contains(page, "For Grace") {
			t.Errorf("%s: %s", path, page)
		}
	}
	if page := s.get(s.in, "/audit").body; !strings.Contains(page, "Made a link to look at a session") {
		t.Error(page)
	}
	if r := s.get(s.in, p); r.status != http.StatusOK {
		t.Errorf("a preview of which no link was made: %d", r.status)
	}
}

// TestR31Twice: of many posts at once one makes a link.
func TestR31Twice(t *testing.T) {
	s := newSite(t)
	p := s.previewed(s.session())
	var codes []string
	for range 6 {
		codes = append(codes, s.code())
	}
	var posts sync.WaitGroup
	for _, code := range codes {
		posts.Go(func() { s.post(s.in, p, url.Values{"do": {"make"}, "code": {code}}) })
	}
	posts.Wait()
	if all, err := s.store.Shares(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("%d links, %v", len(all), err)
	}
}

// TestR31Once: what was previewed makes one link, however often it is posted.
func TestR31Once(t *testing.T) {
	s := newSite(t)
	p := s.previewed(s.session())
	if r := s.post(s.in, p, url.Values{"do": {"make"}, "code": {s.code()}}); !theLink.MatchString(r.body) {
		t.Fatal(r.status)
	}
	if r := s.post(s.in, p, url.Values{"do": {"make"}, "code": {s.code()}}); r.status != http.StatusNotFound || !strings.Contains(r.body, "preview-over") {
		t.Errorf("again: %d %s", r.status, r.body)
	}
}

// subpages are all addresses of a share.
func subpages(share string) (paths []string) {
	v := "/v/" + share
	return []string{v, v + "/live", v + "/before/0/0", v + "/turns/0/parts/0", v + "/turns/0/parts/0/files", v + "/turns/0/parts/0/files/0"}
}

// TestR25NothingThere: whoever has no right to know is not told whether a share is
// unknown, over, ended or deleted, or only not theirs.
func TestR25NothingThere(t *testing.T) {
	s := newSite(t)
	id, gone := s.session(), s.session()
	change := func(share string, f func(*journal.Share)) {
		x, err := s.store.Share(t.Context(), share)
		if err != nil {
			t.Fatal(err)
		}
		f(&x)
		if err := s.store.ChangeShare(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	type visit struct {
		what, share, token string
		c                  *http.Client
	}
	var all []visit
	add := func(what string) string {
		of := id
		if what == "deleted" {
			of = gone
		}
		link, share := s.share(of)
		all = append(all, visit{what, share, link[strings.LastIndex(link, "/")+1:], s.guest(link)})
		return share
	}
	other := add("right")
	if r := s.get(all[0].c, "/v/"+other); r.status != http.StatusOK {
		t.Fatalf("the right one: %d", r.status)
	}
	change(add("over"), func(x *journal.Share) { x.ExpiresAt = time.Now().UnixMilli() })
	change(add("ended"), func(x *journal.Share) { x.EndedAt = 1 })
	add("deleted")
	s.apply(gone, &state.SessionTurnComplete{TurnID: "t"})
	if r := s.post(s.in, "/s/"+gone+"/delete", nil); r.status != http.StatusSeeOther {
		t.Fatalf("delete: %d %s", r.status, r.body)
	}
	all = append(all[1:], visit{"no cookie", other, "x", s.client()}, visit{"unknown", "abc", strings.Repeat("A", 43), s.client()},
		visit{"the pattern", ":share", ":token", s.client()}, visit{"another's cookie", other, all[1].token, all[1].c})
	want := nonce.ReplaceAllString(s.get(s.client(), "/no/such/page").body, "")
	for _, x := range all {
		for _, path := range append(subpages(x.share), "/v/"+x.share+"/k/"+x.token) {
			r := s.get(x.c, path, header("Accept", "text/event-stream"))
			if r.status != http.StatusNotFound || nonce.ReplaceAllString(r.body, "") != want || r.header.Get("Set-Cookie") != "" {
				t.Errorf("%s, %s: %d %q", x.what, path, r.status, r.header.Get("Set-Cookie"))
			}
		}
		if r := s.post(x.c, "/v/"+x.share, url.Values{"passphrase": {"x"}}, header("Origin", s.srv.URL)); r.status != http.StatusNotFound {
			t.Errorf("%s, a passphrase: %d", x.what, r.status)
		}
	}
}

// TestR33LostLinks: whoever tries addresses is slowed down.
func TestR33LostLinks(t *testing.T) {
	s := newSite(t, func(c *Config) { c.Limits.Lost = 3 })
	for range 3 {
		if r := s.get(s.out, "/v/a/k/b"); r.status != http.StatusNotFound {
			t.Fatal(r.status)
		}
	}
	if r := s.get(s.out, "/v/a/k/b"); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("%d", r.status)
	}
}

// TestR27ReadOnly: a guest asks for everything in every way, and changes nothing.
func TestR27ReadOnly(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	link, share := s.share(id)
	c := s.guest(link)
	for _, r := range s.server().echo.Routes() {
		if r.Method == "echo_route_not_found" {
			continue
		}
		mine := strings.HasPrefix(r.Path, "/v/")
		path := strings.NewReplacer(":share", share, ":token", "x", ":id", id, ":name", "nod.css", ":turn", "0", ":part", "0", ":file", "0").Replace(r.Path)
		if strings.HasPrefix(r.Path, "/approvals/") {
			path = strings.ReplaceAll(path, id, a.ID)
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
			if method == "GET" && (mine || slices.Contains([]string{"/healthz", "/static/:name", "/robots.txt", "/login", "/join"}, r.Path)) {
				continue
			}
			var f url.Values
			if method == "POST" {
				f = form(a, "accept", "text", "x", "title", "x")
			}
			got := s.do(c, method, path, f, header("Origin", s.srv.URL))
			login := got.status == http.StatusSeeOther && got.header.Get("Location") == "/login"
			if got.status < 400 && !login && !(method == "POST" && path == "/v/"+share) { // it has no passphrase, so any is right
				t.Errorf("%s %s: %d", method, path, got.status)
			}
		}
	}
	if v, err := s.hub.Session(id); err != nil || len(s.agent.answers) > 0 || !v.Approvals[0].Open() || v.State.Summary.Title == "x" {
		t.Errorf("%+v, %v, %v", v.State.Summary, s.agent.answers, err)
	}
	for _, path := range subpages(share)[:3] {
		if path == "/v/"+share+"/live" {
			continue
		}
		if page := s.get(c, path).body; strings.Contains(page, "<form") || strings.Contains(page, "<button") || strings.Contains(page, "<input") {
			t.Errorf("%s has a control", path)
		}
	}
}

// TestR27Imports: the door of guests knows of nothing that could change anything.
func TestR27Imports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "nod/handlers/guests").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if p := strings.TrimSpace(line); strings.HasPrefix(p, "nod/") && p != "nod/handlers/guests" {
			t.Errorf("it leads to %s", p)
		}
	}
}

// TestR28Waiting: a guest sees that the agent waits, and not for what.
func TestR28Waiting(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionToolCallStart{TurnID: "t", ToolCallID: "c1", ToolName: "shell", DisplayName: "Shell"})
	s.apply(id, &state.SessionToolCallReady{TurnID: "t", ToolCallID: "c1", InvocationMessage: state.Plain("cat plan.txt"), ToolInput: new("cat plan.txt")})
	a := s.ask(id, func(r *state.Request) { r.ToolCallID, r.Input = "c1", "cat plan.txt" })
	link, share := s.share(id)
	c := s.guest(link)
	page := s.get(c, "/v/"+share).body
	if !strings.Contains(page, "waits for its owner") || strings.Contains(page, "plan.txt") || strings.Contains(page, "Run a command") || strings.Contains(page, a.ID) {
		t.Error(page)
	}
	live := s.watch(c, share)
	live.next("hello")
	if r := s.post(s.in, "/approvals/"+a.ID, form(a, "accept", "seen", "yes")); r.status != http.StatusSeeOther {
		t.Fatal(r.status, r.body)
	}
	s.apply(id, &state.SessionToolCallConfirmed{TurnID: "t", ToolCallID: "c1", Approved: true})
	s.hub.Resolved(t.Context(), s.uri(id), "e1", []byte("1"), state.EndedAnswered)
	seen := ""
	for !strings.Contains(seen, "cat plan.txt") { // the test's timeout ends it
		_, data := live.next("parts")
		seen += data
	}
}

// TestC43Title: what is found in a title is in the turn with which the share begins.
func TestC43Title(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.apply(id, &state.SessionTitleChanged{Title: "Mend /home/ada/work"})
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	s.apply(id, &state.SessionTurnStarted{TurnID: "t2", Message: state.UserMessage("More.")})
	if r := s.get(s.in, s.previewed(id, "from", "1")); r.status != http.StatusOK || !strings.Contains(r.body, ">turn 2<") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestC43Masked: keys, paths and addresses do not reach a guest, not even in pieces.
func TestC43Masked(t *testing.T) {
	s := newSite(t)
	id := s.session()
	key := "gh" + "p_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2"
	s.said(id, "It lies in /home/ada/work on engine-7. ")
	link, share := s.share(id)
	c := s.guest(link)
	live := s.watch(c, share)
	live.next("hello")
	all := ""
	for i, piece := range []string{"The key is " + key[:7], key[7:21], key[21:] + " and so on.\n", "The end.\n"} {
		s.apply(id, &state.SessionDelta{TurnID: "t", PartID: "m1", Content: piece})
		if i == 1 {
			all += s.get(c, "/v/"+share).body // in the middle of it
		}
	}
	for !strings.Contains(all, "The end.") {
		_, data := live.next("parts")
		all += data
	}
	all += s.get(c, "/v/"+share).body
	for _, bad := range []string{key, key[:7], key[7:21], key[21:], "/home/ada", "engine-7"} {
		if strings.Contains(all, bad) {
			t.Errorf("a guest sees %s", bad)
		}
	}
	if !strings.Contains(all, "‹secret›") {
		t.Error(all)
	}
	if page := s.get(s.in, "/shares/"+share).body; !strings.Contains(page, key) || !strings.Contains(page, "found after you made the link") {
		t.Error("its owner is not told", page)
	}
}

// TestC43Preview: before there is a link its owner sees what a guest will see, and what
// was masked, and lets through what they like.
func TestC43Preview(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.said(id, "It lies in /home/ada/work on engine-7.\n")
	p := s.previewed(id)
	page := s.get(s.in, p).body
	if !strings.Contains(page, "/home/ada") || !strings.Contains(page, "~/work on ‹host") || theLink.MatchString(page) {
		t.Fatal(page)
	}
	box := regexp.MustCompile(`name="shown" value="(\w+)"[^>]*> <span><span class="mono found"><bdi>engine-7`).FindStringSubmatch(page)
	if box == nil {
		t.Fatal("no box", page)
	}
	r := s.post(s.in, p, url.Values{"do": {"look"}, "shown": {box[1]}})
	again := r.header.Get("Location")
	if page := s.get(s.in, again).body; !strings.Contains(page, "~/work on engine-7") || !strings.Contains(page, "checked") {
		t.Error(page)
	}
	if r := s.get(s.login(), again); r.status != http.StatusNotFound {
		t.Errorf("another device sees it: %d", r.status)
	}
	m := theLink.FindStringSubmatch(s.post(s.in, again, url.Values{"do": {"make"}, "code": {s.code()}}).body)
	if page := s.get(s.guest(m[2]), "/v/"+m[3]).body; !strings.Contains(page, "~/work on engine-7") || strings.Contains(page, "/home/ada") {
		t.Error(page)
	}
}

// TestFrozenShare shows what its owner was shown, whatever has happened since.
func TestFrozenShare(t *testing.T) {
	dir := t.TempDir()
	s := newSiteIn(t, dir)
	id := s.session()
	s.said(id, "Then.\n")
	p := s.previewed(id, "live", "no")
	s.apply(id, &state.SessionDelta{TurnID: "t", PartID: "m1", Content: "Now.\n"})
	m := theLink.FindStringSubmatch(s.post(s.in, p, url.Values{"do": {"make"}, "code": {s.code()}}).body)
	look := func(s *site) {
		t.Helper()
		c := s.guest(m[2])
		if page := s.get(c, "/v/"+m[3]).body; !strings.Contains(page, "Then.") || strings.Contains(page, "Now.") || strings.Contains(page, "refresh") {
			t.Error(page)
		}
		live := s.watch(c, m[3])
		live.next("hello")
		s.apply(id, &state.SessionDelta{TurnID: "t", PartID: "m1", Content: "Later.\n"})
		if _, data := live.next("parts"); strings.Contains(data, "Now.") || strings.Contains(data, "Later.") {
			t.Error(data)
		}
	}
	look(s)
	s.leave()
	s = newSiteIn(t, dir)
	defer s.leave()
	look(s)
}

// TestShareFromATurn leaves out what was before.
func TestShareFromATurn(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.said(id, "The first answer.\n")
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	s.apply(id, &state.SessionTurnStarted{TurnID: "t2", Message: state.UserMessage("More.")})
	link, share := s.share(id, "from", "1")
	if page := s.get(s.guest(link), "/v/"+share).body; strings.Contains(page, "The first answer.") || strings.Contains(page, "<bdi>do it</bdi></div>") || !strings.Contains(page, "More.") {
		t.Error(page)
	}
}

// TestR29Ended: guests are cut when their share ends, in whichever way.
func TestR29Ended(t *testing.T) {
	for name, end := range map[string]func(s *site, id, share string) reply{
		"one":     func(s *site, _, share string) reply { return s.post(s.in, "/shares/"+share+"/end", nil) },
		"all":     func(s *site, _, _ string) reply { return s.post(s.in, "/shares/end", nil) },
		"deleted": func(s *site, id, _ string) reply { return s.post(s.in, "/s/"+id+"/delete", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			id := s.session()
			s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
			link, share := s.share(id)
			c := s.guest(link)
			live := s.watch(c, share)
			live.next("hello")
			live.next("parts")
			if page := s.get(s.in, "/shares").body; !strings.Contains(page, "1 guest now") {
				t.Error(page)
			}
			if page := s.get(s.in, "/s/"+id+"/delete").body; !strings.Contains(page, "It is shared.") {
				t.Error(page)
			}
			if r := end(s, id, share); r.status != http.StatusSeeOther {
				t.Fatal(r.status)
			}
			live.next("gone")
			live.ends()
			if r := s.get(c, "/v/"+share); r.status != http.StatusNotFound {
				t.Error(r.status)
			}
			if page := s.get(s.in, "/shares").body; strings.Contains(page, "1 guest now") {
				t.Error(page)
			}
		})
	}
}

// TestR29Expiry: a page that is open when its share is over ends then.
func TestR29Expiry(t *testing.T) {
	s := newSite(t)
	link, share := s.share(s.session())
	c := s.guest(link)
	x, err := s.store.Share(t.Context(), share)
	if err != nil {
		t.Fatal(err)
	}
	x.ExpiresAt = time.Now().Add(time.Second).UnixMilli()
	if err := s.store.ChangeShare(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	live := s.watch(c, share)
	live.next("hello")
	live.next("parts")
	live.next("gone")
	live.ends()
}

// TestR29Deaf: whoever does not read is cut as well.
func TestR29Deaf(t *testing.T) {
	s := newSite(t)
	id := s.session()
	link, share := s.share(id)
	c := s.guest(link)
	conn := s.raw(c, "/v/"+share+"/live")
	defer func() { _ = conn.Close() }()
	s.until("somebody looks", func() bool { return s.server().guestbook.count(share) == 1 })
	s.said(id, strings.Repeat("A long line of text that nobody reads.\n\n", 1<<16))
	if r := s.post(s.in, "/shares/"+share+"/end", nil); r.status != http.StatusSeeOther {
		t.Fatal(r.status)
	}
	s.until("nobody looks", func() bool { return s.server().guestbook.count(share) == 0 })
}

// TestR29Limits: guests have limits of their own, of one share and of one address.
func TestR29Limits(t *testing.T) {
	for name, change := range map[string]func(*Limits){
		"guests": func(l *Limits) { l.Guests = 2 }, "address": func(l *Limits) { l.Neighbours = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, func(c *Config) { change(&c.Limits); c.Limits.Streams = 1 })
			id := s.session()
			link, share := s.share(id)
			other, another := s.share(id)
			c := s.guest(link)
			for range 2 {
				s.watch(c, share).next("hello")
			}
			if r := s.get(c, "/v/"+share+"/live"); r.status != http.StatusServiceUnavailable {
				t.Errorf("a third one: %d", r.status)
			}
			s.watch(s.guest(other), another).next("hello")
			s.stream("/s/"+id+"/live", "").next("hello") // its owner
		})
	}
}

// TestR26Views: loading the page counts, and nothing that a program does by itself.
func TestR26Views(t *testing.T) {
	s := newSite(t)
	link, share := s.share(s.session())
	c := s.guest(link)
	s.get(s.client(), link)                                           // a preview in a chat
	s.get(s.client(), "/v/"+share)                                    // another
	s.get(s.client(), "/v/"+share, header("Sec-Purpose", "prefetch")) // a browser
	s.get(c, "/v/"+share, header("Sec-Fetch-Mode", "cors"))           // a script
	s.get(c, "/v/"+share+"?again")                                    // a page that loads itself again
	s.get(c, "/v/"+share+"/before/0/0", header("Sec-Fetch-Mode", "navigate"))
	if x, err := s.store.Share(t.Context(), share); err != nil || x.Views != 0 || x.ViewedAt != 0 {
		t.Fatalf("%+v, %v", x, err)
	}
	s.get(c, "/v/"+share, header("Sec-Fetch-Mode", "navigate"))
	s.get(c, "/v/"+share)
	if page := s.get(s.in, "/shares").body; !strings.Contains(page, "2 views") {
		t.Error(page)
	}
}

// TestR30Previews: search engines and programs that make previews learn nothing.
func TestR30Previews(t *testing.T) {
	s := newSite(t)
	id := s.session()
	link, share := s.share(id)
	c := s.guest(link)
	for _, path := range []string{link, "/v/" + share, "/v/" + share + "/before/0/0", "/v/none"} {
		r := s.get(c, path)
		if r.header.Get("X-Robots-Tag") != "noindex, nofollow, noarchive" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, r.header)
		}
	}
	page := s.get(c, "/v/"+share).body
	head, _, _ := strings.Cut(page, "<body")
	if strings.Contains(head, "do it") || !strings.Contains(head, `<meta property="og:title" content="nod"`) || !strings.Contains(head, "noindex") {
		t.Error(head)
	}
	if strings.Contains(page, "<img") || strings.Contains(page, "https://") || strings.Contains(page, `src="http`) {
		t.Error("something comes from elsewhere", page)
	}
	if r := s.get(s.out, "/robots.txt"); r.body != "User-agent: *\nDisallow: /\n" {
		t.Error(r.body)
	}
}

// TestC45Token: the token is in the link alone; the cookie is for the share's own pages.
func TestC45Token(t *testing.T) {
	s := newSite(t)
	link, share := s.share(s.session())
	token := link[strings.LastIndex(link, "/")+1:]
	c := s.client()
	r := s.get(c, link)
	cookie, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
	if err != nil || cookie.Path != "/v/"+share || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Value != token {
		t.Errorf("%+v, %v", cookie, err)
	}
	if strings.Contains(r.header.Get("Location")+r.body+s.get(c, "/v/"+share).body, token) {
		t.Error("the token is still to be seen")
	}
	for _, path := range []string{"/", "/shares"} {
		if r := s.get(c, path); r.status != http.StatusSeeOther || r.header.Get("Location") != "/login" {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

// TestC47Off: without sharing there is nothing of it, not even for who has a link.
func TestC47Off(t *testing.T) {
	dir := t.TempDir()
	s := newSiteIn(t, dir)
	id := s.session()
	link, share := s.share(id)
	s.leave()
	s = newSiteIn(t, dir, func(c *Config) { c.Redactor = nil })
	defer s.leave()
	for _, r := range s.server().echo.Routes() {
		if strings.Contains(r.Path, "share") || strings.HasPrefix(r.Path, "/v/") || strings.HasPrefix(r.Path, "/previews") {
			t.Errorf("there is %s %s", r.Method, r.Path)
		}
	}
	for _, path := range []string{link, "/v/" + share, "/shares", "/s/" + id + "/share"} {
		if r := s.get(s.in, path); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	for _, path := range []string{"/", "/s/" + id} {
		if page := s.get(s.in, path).body; strings.Contains(page, "/share") {
			t.Errorf("%s leads to it", path)
		}
	}
}

// TestSharePassphrase: without it there is a question and nothing else; five wrong ones
// have to wait.
func TestSharePassphrase(t *testing.T) {
	s := newSite(t, func(c *Config) { c.Limits.Door = 5 })
	id := s.session()
	s.said(id, "For few.\n")
	link, share := s.share(id, "passphrase", "open sesame")
	c := s.guest(link)
	if r := s.post(s.in, "/s/"+id+"/share", wanted("passphrase", "short")); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "at least eight") {
		t.Errorf("a short one: %d", r.status)
	}
	ask := func(c *http.Client, phrase string) reply {
		return s.post(c, "/v/"+share, url.Values{"passphrase": {phrase}})
	}
	if page := s.get(c, "/v/"+share).body; strings.Contains(page, "For few.") || strings.Contains(page, "do it") || !strings.Contains(page, `name="passphrase"`) {
		t.Fatal(page)
	}
	for _, path := range subpages(share)[1:] {
		if r := s.get(c, path); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if r := ask(c, "open sesame"); r.status != http.StatusSeeOther {
		t.Fatal(r.status, r.body)
	}
	s.get(c, link) // once more
	if page := s.get(c, "/v/"+share).body; !strings.Contains(page, "For few.") {
		t.Error(page)
	}
	wrong := s.guest(link)
	for range 5 {
		if r := ask(wrong, "open barley"); r.status != http.StatusForbidden || !strings.Contains(r.body, "That is not the passphrase") {
			t.Fatal(r.status)
		}
	}
	if r := ask(wrong, "open sesame"); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("a sixth: %d", r.status)
	}
	if x, err := s.store.Share(t.Context(), share); err != nil || strings.Contains(string(x.Record), "sesame") || x.Views != 1 {
		t.Errorf("%s, %v", x.Record, err)
	}
}

// TestC52Attribution: what a share says of itself: live or not, until when; and its
// owner, who made it.
func TestC52Attribution(t *testing.T) {
	s := newSite(t)
	link, share := s.share(s.session())
	if page := s.get(s.guest(link), "/v/"+share).body; !strings.Contains(page, "Shared to be read, live") || !strings.Contains(page, "until <time") {
		t.Error(page)
	}
	if page := s.get(s.in, "/shares/"+share).body; !strings.Contains(page, "made by <bdi>"+s.who(s.in).Name) {
		t.Error(page)
	}
}

// TestTakeaway: what a guest would see comes as a file, and what they would not does
// not, neither of a preview nor of a share.
func TestTakeaway(t *testing.T) {
	s := newSite(t)
	id := s.session()
	s.said(id, "It lies in /home/ada/work.\n")
	p := s.previewed(id)
	_, live := s.share(id)
	_, still := s.share(id, "live", "no")
	for _, at := range []string{p, "/shares/" + live, "/shares/" + still} {
		for form, kind := range map[string]string{"html": "text/html", "md": "text/markdown", "jsonl": "application/jsonl"} {
			r := s.get(s.in, at+"/take/"+form)
			if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), kind) || r.header.Get("Content-Disposition") != `attachment; filename="session.`+form+`"` {
				t.Errorf("%s, %s: %d %v", at, form, r.status, r.header)
			}
			if !strings.Contains(r.body, "/work") || strings.Contains(r.body, "/home/ada") || strings.Contains(r.body, id) {
				t.Errorf("%s, %s: %s", at, form, r.body)
			}
		}
		if r := s.get(s.in, at+"/take/exe"); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", at, r.status)
		}
	}
	if r := s.get(s.in, "/shares/none/take/md"); r.status != http.StatusNotFound {
		t.Error(r.status)
	}
}
