package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/journal"
)

// maxString bounds, in bytes, one text of an action in a session's state. The journal
// keeps all of it, and the page leads there.
const maxString = 4 << 20

// perform makes an action, which the journal has as raw, part of what the session will
// be. Of a text that is longer than maxString the state gets the begin, and the turn in
// progress a note that leads to the whole.
func (s *session) perform(n *next, e state.Envelope, raw []byte) error {
	if len(raw) <= maxString || bounds(e.Action) {
		s.reduce(n, e)
		return nil
	}
	short, texts, err := shorten(raw)
	if err != nil {
		return err
	}
	if e.Action, err = state.UnmarshalAction(short); err != nil {
		return err
	}
	s.reduce(n, e)
	if _, more := e.Action.(*state.SessionToolCallContentChanged); more || n.state.ActiveTurn == nil {
		return nil // the whole comes again when the call has ended
	}
	for i, text := range texts {
		w := state.Whole{Event: n.seq, Text: i, Bytes: len(text), Sum: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
		if leadsTo(n.state.ActiveTurn, w.Sum) { // an agent says what a call is given several times
			continue
		}
		meta, err := state.Marshal(w)
		if err != nil {
			return err
		}
		s.reduce(n, state.Envelope{Channel: s.uri, Action: &state.SessionResponsePart{TurnID: n.state.ActiveTurn.ID, Part: &state.NotificationPart{
			Content: state.Plain("A text was too long to be shown as a whole."), Meta: state.Meta{state.WholeKey: meta},
		}}})
	}
	return nil
}

// leadsTo reports whether a note of a turn leads to the text of that sum.
func leadsTo(t *state.ActiveTurn, sum string) bool {
	for _, p := range t.ResponseParts.Backward() {
		if n, ok := p.(*state.NotificationPart); ok && n.Meta[state.WholeKey] != nil {
			var w state.Whole
			if state.Unmarshal(n.Meta[state.WholeKey], &w) == nil && w.Sum == sum {
				return true
			}
		}
	}
	return false
}

// bounds reports whether an action adds to a text that grows, which has a bound of its
// own: see maxText.
func bounds(a state.Action) bool {
	if p, ok := a.(*state.SessionResponsePart); ok {
		switch p.Part.(type) {
		case *state.MarkdownPart, *state.ReasoningPart:
			return true
		}
	}
	return growing(a)
}

// shorten returns JSON with the begin of each text in it that is longer than maxString,
// and those texts. What is called data stays: half of it would be of no use.
func shorten(raw []byte) (short []byte, texts []string, err error) {
	lenient := jsontext.AllowInvalidUTF8(true)
	var out bytes.Buffer
	d, e := jsontext.NewDecoder(bytes.NewReader(raw), lenient), jsontext.NewEncoder(&out, lenient)
	for {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), texts, nil
		} else if err != nil {
			return nil, nil, err
		}
		if t.Kind() == '"' {
			in, count := d.StackIndex(d.StackDepth())
			isName := in == '{' && count%2 == 1
			if text := t.String(); len(text) > maxString && !isName && !strings.HasSuffix(string(d.StackPointer()), "/data") {
				texts = append(texts, text)
				t = jsontext.String(begin(text))
			}
		}
		if err := e.WriteToken(t); err != nil {
			return nil, nil, err
		}
	}
}

// begin is what a state keeps of a text that is longer than maxString.
func begin(text string) string {
	k := maxString
	for !utf8.RuneStart(text[k]) && k > maxString-utf8.UTFMax {
		k--
	}
	return text[:k] + fmt.Sprintf("\n\n[nod shows the first 4 MiB of this; %d bytes more are kept.]\n", len(text)-k)
}

// Whole returns a text of which a session's state has the begin.
func (h *Hub) Whole(ctx context.Context, id string, w state.Whole) (string, error) {
	s, err := h.find(id)
	if err != nil {
		return "", err
	}
	for e, err := range h.store.Events(ctx, s.uri, max(w.Event, 1)-1) {
		if err != nil {
			return "", err
		}
		if e.Seq != w.Event {
			break
		}
		if _, texts, err := shorten(e.Action); err != nil {
			return "", err
		} else if w.Text < len(texts) {
			return texts[w.Text], nil
		}
		break
	}
	return "", fmt.Errorf("text %d of event %d: %w", w.Text, w.Event, journal.ErrNotFound)
}
