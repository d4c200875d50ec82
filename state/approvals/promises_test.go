package approvals

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"nod/state"
)

// seed is of everything random here; a failure names the case it is in.
const seed = 20260823

// world is one request, the hub's way with it, and a tiny model of what may be.
type world struct {
	a *Approval

	sent []string // what reached the agent: the only thing that counts

	// The model: it knows nothing of states, only what people and the agent did.
	given  string // who gave the first good answer, and which; "" for none
	ended  bool   // the agent no longer waits, or nobody is left who does
	marked bool   // the answer was marked as sent
	spoken bool   // the agent said so itself, after the answer was marked as sent
	steps  []string
}

// moves are all that can happen. Each returns what is wrong, "" for nothing.
var moves = map[string]func(w *world) string{
	"me: allow":        func(w *world) string { return w.decide("me", "y", w.a.Digest, w.a.Nonce, true) },
	"me: deny":         func(w *world) string { return w.decide("me", "n", w.a.Digest, w.a.Nonce, true) },
	"you: allow":       func(w *world) string { return w.decide("you", "y", w.a.Digest, w.a.Nonce, true) },
	"you: deny":        func(w *world) string { return w.decide("you", "n", w.a.Digest, w.a.Nonce, true) },
	"the same again":   func(w *world) string { return w.again() },
	"wrong digest":     func(w *world) string { return w.decide("me", "y", strings.Repeat("0", 64), w.a.Nonce, false) },
	"wrong nonce":      func(w *world) string { return w.decide("me", "y", w.a.Digest, "x", false) },
	"no such option":   func(w *world) string { return w.decide("me", "always", w.a.Digest, w.a.Nonce, false) },
	"the hub sends":    func(w *world) string { return w.send(true) },
	"the sending ends": func(w *world) string { return w.send(false) },
	"resolved": func(w *world) string {
		w.spoken = w.spoken || w.marked && !w.ended
		w.a, w.ended = Resolve(w.a, state.EndedAnswered, 3), true
		return ""
	},
	"turn ends": func(w *world) string { w.a, w.ended = Sweep(w.a, 3), true; return "" },
	"link lost": func(w *world) string { w.a, w.ended = Sweep(w.a, 3), true; return "" },
	"reconnect": func(w *world) string { return w.reconnect() },
	"kill": func(w *world) string {
		again, err := stored(w.a)
		if err != nil {
			return err.Error()
		}
		w.a, w.ended = Sweep(again, 3), true
		return ""
	},
}

// loaded are the records that were written and read once; all others like them
// are, too.
var loaded = map[string]*Approval{}

// stored returns a record as it comes back from the journal.
func stored(a *Approval) (*Approval, error) {
	key := fmt.Sprint(a.State, a.Actor, a.Decision)
	if again := loaded[key]; again != nil {
		return again, nil
	}
	raw, err := state.Marshal(a)
	if err != nil {
		return nil, err
	}
	again := new(Approval)
	if err := state.Unmarshal(raw, again); err != nil {
		return nil, err
	}
	if text, err := state.Marshal(again); err != nil || string(text) != string(raw) {
		return nil, fmt.Errorf("%s became %s, %v", raw, text, err)
	}
	loaded[key] = again
	return again, nil
}

func (w *world) decide(actor, option, digest, nonce string, right bool) string {
	was := *w.a
	got, err := Decide(w.a, actor, digest, nonce, state.Decision{OptionID: option}, 2)
	answer := actor + " " + option
	switch {
	case !right && err == nil:
		return "a wrong answer was taken"
	case !right:
	case w.given == "" && !w.ended:
		if err != nil || got.State != Decided || got.Decision.OptionID != option || got.Actor != actor {
			return fmt.Sprintf("the first answer: %+v, %v", got, err)
		}
		w.given = answer
	case w.given == answer:
		if err != nil || got != w.a {
			return fmt.Sprintf("the same answer again: %+v, %v", got, err)
		}
	case !errors.Is(err, ErrNotPending):
		return fmt.Sprintf("another answer: %+v, %v", got, err)
	}
	if w.a.State != was.State || w.a.Decision != was.Decision {
		return "a record changed under its reader"
	}
	if err == nil {
		w.a = got
	}
	return ""
}

func (w *world) again() string {
	actor, option, ok := strings.Cut(w.given, " ")
	if !ok {
		return ""
	}
	return w.decide(actor, option, w.a.Digest, w.a.Nonce, true)
}

// send is the outbox: what is decided and nothing else is marked and sent.
func (w *world) send(delivered bool) string {
	if w.a.State != Decided {
		return ""
	}
	w.a = MarkSent(w.a)
	w.marked = true
	w.sent = append(w.sent, w.a.Decision.OptionID)
	if w.ended {
		return "an answer was sent after the end"
	}
	if !delivered {
		w.a, w.ended = Sweep(w.a, 3), true
	}
	return ""
}

// reconnect has the agent ask the same over another link: only a denial that it has
// not heard goes along.
func (w *world) reconnect() string {
	r := w.a.Request
	r.Epoch += "'"
	anew := New(r, 4)
	switch {
	case w.ended || !w.a.Held():
		return ""
	case Supersede(w.a).Open():
		return "what another request has taken the place of is open"
	case w.a.Decision.OptionID != "n":
		return "an allow is carried over"
	}
	denied, err := Decide(anew, w.a.Actor, anew.Digest, anew.Nonce, *w.a.Decision, 4)
	if err != nil {
		return err.Error()
	}
	w.a = denied
	return ""
}

// wrong returns what must never be so.
func (w *world) wrong() string {
	_, option, _ := strings.Cut(w.given, " ")
	switch d := w.a.Decision; {
	case len(w.sent) > 1:
		return "more than one answer was sent"
	case len(w.sent) == 1 && w.sent[0] != option:
		return "an answer was sent that nobody gave"
	case w.a.State == Confirmed && !w.spoken:
		return "it is confirmed, and not by the agent"
	case w.spoken && w.a.State != Confirmed:
		return "the agent confirmed it, and it is not"
	case w.ended && w.a.Open():
		return "it is open after its end"
	case !w.ended && !w.a.Open():
		return "it ended by itself"
	case (d == nil) != (w.given == "") || d != nil && d.OptionID != option:
		return "another decision is recorded than was given"
	}
	return ""
}

// TestR5EveryInterleaving plays random orders of everything that can happen to a
// request against the model, for P4, too: at most one answer is sent, never an allow
// that nobody gave, never one after the end.
func TestR5EveryInterleaving(t *testing.T) {
	const games = 120_000
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range moves {
			if !yield(name) {
				return
			}
		}
	})
	r := rand.New(rand.NewPCG(seed, 0))
	asked := New(request(), 1)
	reached := map[State]int{}
	for game := range games {
		w := &world{a: asked}
		for range 2 + r.IntN(8) {
			name := names[r.IntN(len(names))]
			w.steps = append(w.steps, name)
			wrong := moves[name](w)
			if wrong == "" {
				wrong = w.wrong()
			}
			if wrong != "" {
				t.Fatalf("seed %d, game %d: %s after: %s", seed, game, wrong, strings.Join(w.steps, "; "))
			}
		}
		reached[w.a.State]++
	}
	for _, s := range []State{Pending, Decided, Sent, Confirmed, AnsweredElsewhere, Expired, DeliveryUnknown} {
		if reached[s] == 0 {
			t.Errorf("no game ended in %s", s)
		}
	}
}

// TestP5NothingElseConfirms walks every state that can be reached, and finds one
// step to Confirmed: the agent's word about what was sent.
func TestP5NothingElseConfirms(t *testing.T) {
	steps := map[string]func(a *Approval) *Approval{
		"decide": func(a *Approval) *Approval {
			if n, err := Decide(a, "me", a.Digest, a.Nonce, state.Decision{OptionID: "y"}, 2); err == nil {
				return n
			}
			return a
		},
		"send": func(a *Approval) *Approval {
			if a.State == Decided { // what the hub's step asks for
				return MarkSent(a)
			}
			return a
		},
		"resolve": func(a *Approval) *Approval { return Resolve(a, state.EndedAnswered, 3) },
		"sweep":   func(a *Approval) *Approval { return Sweep(a, 3) },
		"lose":    func(a *Approval) *Approval { return Resolve(a, state.EndedElsewhere, 3) },
		"take":    func(a *Approval) *Approval { return Resolve(a, state.EndedWithdrawn, 3) },
	}
	found := []*Approval{New(request(), 1)}
	known := map[State]bool{Pending: true}
	ways := map[string]bool{}
	for len(found) > 0 {
		a := found[0]
		found = found[1:]
		for name, step := range steps {
			b := step(a)
			if b.State == Confirmed && a.State != Confirmed {
				ways[fmt.Sprint(a.State, " ", name)] = true
			}
			if !known[b.State] {
				known[b.State] = true
				found = append(found, b)
			}
		}
	}
	if len(ways) != 1 || !ways["sent resolve"] || len(known) != 7 {
		t.Errorf("ways to confirmed: %v; states reached: %v", ways, known)
	}
}
