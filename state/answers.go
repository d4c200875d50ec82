package state

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// FormatSecret is the Format of a question of which the answer is a secret. AHP
// leaves the words of Format open.
const FormatSecret = "password"

// Secret reports whether the answer must not be written down or shown.
func (q *Question) Secret() bool { return Value(q.Format) == FormatSecret }

// bound returns Min or Max. ok is false if there is none that is a number.
func bound(v jsontext.Value) (n float64, ok bool) {
	n, err := strconv.ParseFloat(string(v), 64)
	return n, err == nil
}

// Hint tells what form an answer must have, "" if any will do.
func (q *Question) Hint() string {
	var words []string
	switch Value(q.Format) {
	case "email":
		words = append(words, "An e-mail address.")
	case "uri":
		words = append(words, "A whole address, such as https://example.org/.")
	case "date":
		words = append(words, "A date, as year-month-day: 2026-01-31.")
	case "date-time":
		words = append(words, "A date and time with its zone: 2026-01-31T18:00:00Z, or +02:00 in place of Z.")
	}
	switch q.Kind {
	case "integer":
		words = append(words, "A whole number.")
	case "number":
		words = append(words, "A number.")
	}
	low, hasLow := bound(q.Min)
	_, hasHigh := bound(q.Max)
	hasLow = hasLow && (low > 0 || q.Kind == "number" || q.Kind == "integer")
	unit := ""
	switch q.Kind {
	case "text":
		unit = " character"
	case "multi-select":
		unit = " choice"
	}
	if last := q.Max; unit != "" && string(last) != "1" && (hasHigh || string(q.Min) != "1") {
		unit += "s"
	}
	switch {
	case hasLow && hasHigh:
		words = append(words, fmt.Sprintf("From %s to %s%s.", q.Min, q.Max, unit))
	case hasLow:
		words = append(words, fmt.Sprintf("At least %s%s.", q.Min, unit))
	case hasHigh:
		words = append(words, fmt.Sprintf("At most %s%s.", q.Max, unit))
	}
	return strings.Join(words, " ")
}

// Wrong returns a sentence for each question whose answer is not of the form
// that is asked for, by question id.
func (r *InputRequest) Wrong(answers map[string]Answer) map[string]string {
	if r == nil {
		return nil
	}
	wrong := map[string]string{}
	for _, q := range r.Questions {
		if sentence := q.wrong(answers[q.ID]); sentence != "" {
			wrong[q.ID] = sentence
		}
	}
	return wrong
}

func (q *Question) wrong(a Answer) string {
	given := a.Given()
	if len(given) == 0 {
		low, _ := bound(q.Min)
		switch {
		case !Value(q.Required), q.Kind == "multi-select" && low <= 0: // to choose nothing is an answer as well
			return ""
		case q.Kind == "multi-select":
			return q.Hint()
		}
		return "This needs an answer."
	}
	switch q.Kind {
	case "single-select", "multi-select":
		return q.wrongChoice(a, given)
	case "boolean":
		if len(given) > 1 || given[0] != "true" && given[0] != "false" {
			return "Choose yes or no."
		}
		return ""
	}
	if len(given) > 1 {
		return "This takes one answer."
	}
	switch text := given[0]; q.Kind {
	case "number", "integer":
		return q.wrongNumber(text)
	default:
		return q.wrongText(text)
	}
}

func (q *Question) wrongChoice(a Answer, given []string) string {
	chosen := a.Selected
	if q.Secret() {
		chosen = a.Secret
	}
	free := Value(q.AllowFreeformInput) || len(q.Options) == 0
	offered := func(id string) bool {
		return slices.ContainsFunc(q.Options, func(o QuestionOption) bool { return o.ID == id })
	}
	if !(free && q.Secret()) && slices.ContainsFunc(chosen, func(id string) bool { return !offered(id) }) || a.Text != "" && !free {
		return "Choose from what is offered."
	}
	if q.Kind == "single-select" {
		if len(a.Selected) > 1 {
			return "Choose one."
		}
		return ""
	}
	n := float64(len(given))
	low, hasLow := bound(q.Min)
	high, hasHigh := bound(q.Max)
	if hasLow && n < low || hasHigh && n > high {
		return q.Hint()
	}
	return ""
}

// jsonNumber is what JSON takes for a number.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (q *Question) wrongNumber(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case !jsonNumber.MatchString(text):
		return "Write a number in digits, with a dot before decimals: 12 or 0.5."
	case err != nil:
		return "That number is too large."
	case q.Kind == "integer" && strings.ContainsAny(text, ".eE"):
		return "Write a whole number, without a dot."
	}
	low, hasLow := bound(q.Min)
	high, hasHigh := bound(q.Max)
	if hasLow && n < low || hasHigh && n > high {
		return q.Hint()
	}
	return ""
}

func (q *Question) wrongText(text string) string {
	ok := true
	switch Value(q.Format) {
	case "email":
		address, err := mail.ParseAddress(text)
		ok = err == nil && address.Address == text
	case "uri":
		u, err := url.Parse(text)
		ok = err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "" || u.Path != "")
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		ok = err == nil
	case "date-time":
		_, err := time.Parse(time.RFC3339, text)
		ok = err == nil
	}
	n := float64(utf8.RuneCountInString(text))
	low, hasLow := bound(q.Min)
	high, hasHigh := bound(q.Max)
	if !ok || hasLow && n < low || hasHigh && n > high {
		return q.Hint()
	}
	return ""
}

// JSON returns an answer that is not wrong as a value of the type that its
// question asks for. ok is false if there is no answer.
func (q *Question) JSON(a Answer) (v jsontext.Value, ok bool) {
	given := a.Given()
	if len(given) == 0 && (q.Kind != "multi-select" || !Value(q.Required)) {
		return nil, false
	}
	switch q.Kind {
	case "multi-select":
		v, _ = json.Marshal(append([]string{}, given...)) // strings always encode
		return v, true
	case "number", "integer", "boolean":
		return jsontext.Value(given[0]), true
	}
	v, _ = json.Marshal(given[len(given)-1])
	return v, true
}

// Answered returns what AHP calls the answers of a decision, nil if there are
// none. Secrets are left out.
func (r *InputRequest) Answered(answers map[string]Answer) map[string]InputAnswer {
	var out map[string]InputAnswer
	for _, q := range r.Questions {
		a := answers[q.ID]
		if q.Secret() || len(a.Given()) == 0 {
			continue
		}
		if out == nil {
			out = map[string]InputAnswer{}
		}
		value := &InputAnswerValue{Kind: q.Kind}
		switch q.Kind {
		case "single-select", "multi-select":
			if a.Text != "" {
				value.FreeformValues = []string{a.Text}
			}
			if q.Kind == "multi-select" {
				value.Kind = "selected-many"
				value.Value, _ = json.Marshal(append([]string{}, a.Selected...))
			} else {
				value.Kind = "selected"
				value.Value, _ = json.Marshal(strings.Join(a.Selected, "")) // one, or none beside a free text
			}
		default:
			if q.Kind == "integer" {
				value.Kind = "number"
			}
			value.Value, _ = q.JSON(a)
		}
		out[q.ID] = InputAnswer{State: AnswerSubmitted, Value: value}
	}
	return out
}

// WebAddress reports whether a text is an address that a browser may open for a
// person who has read it: http or https, to a host that stands in it as it is.
func WebAddress(text string) bool {
	before, host, _ := AddressParts(text)
	return before != "" && host != ""
}

// AddressParts cuts a web address around its host, to show whose it is. before is
// "" if it is none.
func AddressParts(text string) (before, host, after string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return "", "", ""
	}
	start := strings.Index(text, "//") + len("//")
	if u.User != nil {
		start += strings.LastIndex(text[start:start+strings.IndexAny(text[start:]+"/", "/?#")], "@") + 1
	}
	if !strings.HasPrefix(text[start:], u.Host) {
		return "", "", ""
	}
	return text[:start], u.Host, text[start+len(u.Host):]
}
