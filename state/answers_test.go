package state

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestWrongAnswers holds answers of every kind of question against what is asked
// for, and writes those that are right as JSON.
func TestWrongAnswers(t *testing.T) {
	text := func(format, min, max string) Question {
		return Question{Kind: "text", Format: Optional(format), Min: jsontext.Value(min), Max: jsontext.Value(max)}
	}
	number := func(kind, min, max string) Question {
		return Question{Kind: kind, Min: jsontext.Value(min), Max: jsontext.Value(max)}
	}
	options := []QuestionOption{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	one := Question{Kind: "single-select", Options: options}
	free := Question{Kind: "single-select", Options: options, AllowFreeformInput: new(true)}
	many := Question{Kind: "multi-select", Options: options, Min: jsontext.Value("1"), Max: jsontext.Value("2")}
	needed := func(q Question) Question { q.Required = new(true); return q }
	typed := func(s string) Answer { return Answer{Text: s} }
	chosen := func(s ...string) Answer { return Answer{Selected: s} }
	for _, c := range []struct {
		name string
		q    Question
		a    Answer
		want string // as JSON; "" if there is no answer; "wrong"
	}{
		{"text", text("", "", ""), typed("x\"<\n"), `"x\"\u003c\n"`},
		{"no text", text("", "", ""), typed(""), ""},
		{"no text, and it is needed", needed(text("", "", "")), typed(""), "wrong"},
		{"too short", text("", "2", ""), typed("é"), "wrong"},
		{"long enough", text("", "2", "2"), typed("éé"), `"éé"`},
		{"too long", text("", "", "2"), typed("ééé"), "wrong"},
		{"email", text("email", "", ""), typed("a@b.c"), `"a@b.c"`},
		{"email with a name", text("email", "", ""), typed("A <a@b.c>"), "wrong"},
		{"no email", text("email", "", ""), typed("a at b"), "wrong"},
		{"uri", text("uri", "", ""), typed("https://a/b"), `"https://a/b"`},
		{"urn", text("uri", "", ""), typed("mailto:a@b.c"), `"mailto:a@b.c"`},
		{"no uri", text("uri", "", ""), typed("a.b/c"), "wrong"},
		{"date", text("date", "", ""), typed("2024-02-29"), `"2024-02-29"`},
		{"no such day", text("date", "", ""), typed("2023-02-29"), "wrong"},
		{"date-time", text("date-time", "", ""), typed("2024-02-29T10:00:00+02:00"), `"2024-02-29T10:00:00+02:00"`},
		{"date-time without a zone", text("date-time", "", ""), typed("2024-02-29T10:00:00"), "wrong"},
		{"a format nobody knows", text("colour", "", ""), typed("red"), `"red"`},
		{"integer", number("integer", "1", "10"), typed("10"), "10"},
		{"integer, too large", number("integer", "1", "10"), typed("11"), "wrong"},
		{"integer, too small", number("integer", "1", "10"), typed("0"), "wrong"},
		{"no integer", number("integer", "", ""), typed("1.0"), "wrong"},
		{"integer to the digit", number("integer", "", ""), typed("9007199254740993"), "9007199254740993"},
		{"number", number("number", "-1.5", ""), typed("-1.50"), "-1.50"},
		{"number, too small", number("number", "-1.5", ""), typed("-1.6"), "wrong"},
		{"number with a comma", number("number", "", ""), typed("1,5"), "wrong"},
		{"no number", number("number", "", ""), typed("NaN"), "wrong"},
		{"hexadecimal", number("number", "", ""), typed("0x10"), "wrong"},
		{"no JSON", number("number", "", ""), typed("01"), "wrong"},
		{"beyond all numbers", number("number", "", ""), typed("1e999"), "wrong"},
		{"code", number("number", "", ""), typed(`1,"x":2`), "wrong"},
		{"yes", Question{Kind: "boolean"}, chosen("true"), "true"},
		{"no", Question{Kind: "boolean"}, chosen("false"), "false"},
		{"perhaps", Question{Kind: "boolean"}, chosen("perhaps"), "wrong"},
		{"neither, and it is needed", needed(Question{Kind: "boolean"}), chosen(), "wrong"},
		{"one", one, chosen("b"), `"b"`},
		{"two of one", one, chosen("a", "b"), "wrong"},
		{"not offered", one, chosen("z"), "wrong"},
		{"free where it is not", one, typed("z"), "wrong"},
		{"free", free, typed("z"), `"z"`},
		{"many", many, chosen("a", "c"), `["a","c"]`},
		{"too many", many, chosen("a", "b", "c"), "wrong"},
		{"none of many", many, chosen(), ""},
		{"none of many, and it is needed", needed(many), chosen(), "wrong"},
		{"none, which is enough", needed(Question{Kind: "multi-select", Options: options}), chosen(), "[]"},
		{"not one of many", many, chosen("a", "z"), "wrong"},
		{"secret", text(FormatSecret, "", ""), Answer{Secret: []string{"s"}}, `"s"`},
		{"secret that is needed", needed(text(FormatSecret, "", "")), Answer{}, "wrong"},
	} {
		c.q.ID = "q"
		r := &InputRequest{Questions: []Question{c.q}}
		wrong := r.Wrong(map[string]Answer{"q": c.a})["q"]
		if (wrong != "") != (c.want == "wrong") {
			t.Errorf("%s: %q", c.name, wrong)
		}
		if c.want == "wrong" {
			continue
		}
		if v, ok := c.q.JSON(c.a); string(v) != c.want || ok != (c.want != "") {
			t.Errorf("%s: %s", c.name, v)
		}
	}
	if wrong := (*InputRequest)(nil).Wrong(nil); len(wrong) > 0 {
		t.Errorf("no question: %v", wrong)
	}
}

// TestAnswered tells AHP what was answered, in its words, and no secret.
func TestAnswered(t *testing.T) {
	r := InputRequest{Questions: []Question{
		{ID: "t", Kind: "text"}, {ID: "n", Kind: "integer"}, {ID: "b", Kind: "boolean"}, {ID: "s", Kind: "single-select"}, {ID: "m", Kind: "multi-select"},
		{ID: "f", Kind: "single-select", AllowFreeformInput: new(true)}, {ID: "none", Kind: "text"}, {ID: "secret", Kind: "text", Format: new(FormatSecret)},
	}}
	got, err := Marshal(r.Answered(map[string]Answer{
		"t": {Text: "x"}, "n": {Text: "7"}, "b": {Selected: []string{"true"}}, "s": {Selected: []string{"a"}}, "m": {Selected: []string{"a", "b"}},
		"f": {Text: "other"}, "secret": {Secret: []string{"hunter2"}},
	}))
	const want = `{"b":{"state":"submitted","value":{"kind":"boolean","value":true}},"f":{"state":"submitted","value":{"kind":"selected","value":"","freeformValues":["other"]}},` +
		`"m":{"state":"submitted","value":{"kind":"selected-many","value":["a","b"]}},"n":{"state":"submitted","value":{"kind":"number","value":7}},` +
		`"s":{"state":"submitted","value":{"kind":"selected","value":"a"}},"t":{"state":"submitted","value":{"kind":"text","value":"x"}}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestHints(t *testing.T) {
	for want, q := range map[string]Question{
		"":                              {Kind: "text"},
		"From 2 to 9 characters.":       {Kind: "text", Min: jsontext.Value("2"), Max: jsontext.Value("9")},
		"At least 1 character.":         {Kind: "text", Min: jsontext.Value("1")},
		"At most 2 choices.":            {Kind: "multi-select", Min: jsontext.Value("0"), Max: jsontext.Value("2")},
		"A whole number. From 0 to 10.": {Kind: "integer", Min: jsontext.Value("0"), Max: jsontext.Value("10")},
		"A number. At least -0.5.":      {Kind: "number", Min: jsontext.Value("-0.5")},
		"An e-mail address. At most 1 character.": {Kind: "text", Format: new("email"), Max: jsontext.Value("1")},
	} {
		if got := q.Hint(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWebAddress: whose an address is, is what a browser would make of it.
func TestWebAddress(t *testing.T) {
	for text, host := range map[string]string{
		"https://example.org":                  "example.org",
		"http://example.org:8080/a?b#c":        "example.org:8080",
		"HTTPS://Example.org/":                 "Example.org",
		"https://good.org@evil.org/":           "evil.org",
		"https://a:b@evil.org/@good.org":       "evil.org",
		"https://good.org@evil.org?x=@y":       "evil.org",
		"https://[::1]:80/":                    "[::1]:80",
		"javascript:alert(1)":                  "",
		"JAVASCRIPT://example.org/%0aalert(1)": "",
		"data:text/html,x":                     "",
		"//example.org":                        "",
		"https:example.org":                    "",
		"https:///example.org":                 "",
		"https://evil.org\\@good.org/":         "",
		" https://example.org":                 "",
		"https://example.org/\u202e":           "",
		"https://ex\u0430mple.org":             "",
		"https://exa\tmple.org":                "",
		"https://ex%61mple.org/":               "",
		"":                                     "",
	} {
		before, got, after := AddressParts(text)
		if got != host || host != "" && before+got+after != text || WebAddress(text) != (host != "") {
			t.Errorf("%q is of %q (%q, %q)", text, got, before, after)
		}
	}
}
