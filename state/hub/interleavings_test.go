package hub

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// counter is an agent that outlives nod and asks for one thing at a time. It counts
// what it runs, and asks again over each connection for what nobody has answered.
type counter struct {
	*agent

	mu      sync.Mutex
	up      bool
	over    bool // its turn has ended
	epoch   string
	request state.Request
	got     map[string][]string // option ids, by epoch of the request
}

// Answer takes the first answer in an epoch, as an agent does, and notes each.
func (r *counter) Answer(_ context.Context, asked state.Request, d state.Decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up || r.epoch != asked.Epoch {
		return errors.New("broken pipe")
	}
	if string(asked.UpstreamID) == string(r.request.UpstreamID) && !r.over {
		r.got[asked.Epoch] = append(r.got[asked.Epoch], d.OptionID)
	}
	return nil
}

// asks has it say what it waits for, if it can speak. Its words come one after another.
func (r *counter) asks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up {
		return
	}
	ctx, q := context.Background(), r.request
	if q.Epoch = r.epoch; r.over || len(r.got[q.Epoch]) > 0 {
		r.hub.Waiting(ctx, q.Session, q.Epoch, nil)
		return
	}
	r.hub.Ask(ctx, q)
	r.hub.Waiting(ctx, q.Session, q.Epoch, []json.RawMessage{q.UpstreamID})
}

// ends has it say that its turn has ended.
func (r *counter) ends() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.hub.Apply(context.Background(), r.request.Session, state.Source{}, on(r.request.Session, &state.SessionTurnComplete{TurnID: r.request.TurnID}))
}

// connects has the link be lost, and made again to this run of the agent; "" for no
// run: then it stays down.
func (r *counter) connects(epoch string) {
	r.mu.Lock()
	was := r.epoch
	r.up = false
	r.mu.Unlock()
	l := state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkLost, Epoch: was, Lasting: true}
	r.hub.LinkChanged(context.Background(), l)
	if epoch == "" {
		return
	}
	r.mu.Lock()
	r.up, r.epoch = true, epoch
	r.mu.Unlock()
	l.Status, l.Epoch = state.LinkUp, epoch
	r.hub.LinkChanged(context.Background(), l)
}

// joins has the agent be reached by the hub of the house, as after a start of nod.
func (r *counter) joins(h *house, epoch string) {
	h.t.Helper()
	r.agent = h.agent
	h.hub.SetUpstream(r, []state.Link{{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkLost, Lasting: true}})
	if _, err := h.hub.Begin(h.t.Context(), "codex", h.view().State.Summary, nil); err != nil {
		h.t.Fatal(err)
	}
	r.connects(epoch)
}

// TestR5TheHubInterleaved plays what people, the agent, the link and the machine do to a
// request in random orders and at once, against the hub and its journal: 120 rounds, for that
// is what takes up to 15 seconds under -race; the 120,000 games of
// TestR5EveryInterleaving have the steps without the hub. The agent counts.
func TestR5TheHubInterleaved(t *testing.T) {
	const rounds = 120
	rnd := rand.New(rand.NewPCG(seed, 5))
	if _, err := os.Stat("/dev/shm"); err == nil { // a disk in memory, where there is one
		t.Setenv("TMPDIR", "/dev/shm")
	}
	h := newHouse(t)
	r := &counter{got: map[string][]string{}}
	runs := 1
	r.joins(h, "e1")
	reached := map[approvals.State]int{}
	for round := range rounds {
		if h.view().State.ActiveTurn == nil {
			h.send("go")
		}
		turn := h.view().State.ActiveTurn.ID
		text := strconv.Itoa(round)
		first := "e" + strconv.Itoa(runs)
		r.mu.Lock()
		r.got, r.over = map[string][]string{}, false
		r.request = state.Request{
			Session: h.uri, TurnID: turn, Provider: "codex", Epoch: first, UpstreamID: []byte(text), Method: "ask", Params: []byte(`{"n":` + text + `}`),
			Kind: state.RequestCommand, Input: "ls " + text,
			Options: []state.ConfirmationOption{{ID: "accept", Kind: state.OptionApprove}, {ID: "decline", Kind: state.OptionDeny}},
		}
		r.mu.Unlock()
		if rnd.IntN(8) > 0 {
			r.connects(first)
		}
		r.asks()

		var mu sync.Mutex
		committed := map[string]int{} // decisions that were taken, by approval and option; each once however often it was given
		mine := func() (out []*approvals.Approval) {
			v, err := h.hub.Session(h.id)
			if err != nil {
				t.Error(err)
			}
			for _, a := range v.Approvals {
				if string(a.Request.UpstreamID) == text {
					out = append(out, a)
				}
			}
			return out
		}
		decide := func(actor, option string) func() {
			return func() {
				for _, a := range mine() {
					if _, err := h.hub.Decide(context.Background(), actor, a.ID, a.Digest, a.Nonce, state.Decision{OptionID: option}); err == nil {
						mu.Lock()
						committed[a.ID+" "+option] = 1
						mu.Unlock()
					}
				}
			}
		}
		var line sync.Mutex // the link is made by one at a time
		again := func(other bool) func() {
			return func() {
				line.Lock()
				defer line.Unlock()
				if other {
					runs++
				}
				r.connects("e" + strconv.Itoa(runs))
				r.asks()
			}
		}
		all := []func(){
			decide("phone", "accept"), decide("phone", "accept"), decide("desk", "decline"), decide("tablet", "accept"), decide("tablet", "decline"),
			again(false), again(false), again(true),
			func() { line.Lock(); defer line.Unlock(); r.connects("") },
			r.asks,
			func() { h.hub.Resolved(context.Background(), h.uri, first, []byte(text), state.EndedAnswered) },
			r.ends,
		}
		rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		all = all[:2+rnd.IntN(6)]
		at := -1 // where nod is killed between these; the agent goes on
		if round%15 == 14 {
			at = rnd.IntN(len(all))
		}
		together := func(fs []func()) {
			var wg sync.WaitGroup
			for _, f := range fs {
				wg.Go(f)
			}
			wg.Wait()
			h.hub.delivering.Wait()
		}
		if at >= 0 {
			together(all[:at])
			h.crash()
			if rnd.IntN(2) == 0 {
				runs++
			}
			r.joins(h, "e"+strconv.Itoa(runs))
			r.asks()
			together(all[at:])
		} else {
			together(all)
		}
		// The turn ends, and with it all that was asked in it.
		r.ends()
		late := len(r.flat())
		for _, option := range []string{"accept", "decline"} {
			decide("late", option)()
		}
		h.hub.delivering.Wait()

		recorded := map[string]int{} // as the journal has it
		for _, a := range mine() {
			reached[a.State]++
			if a.Open() {
				t.Errorf("round %d: it is %s at the end", round, a.State)
			}
			if a.Decision != nil {
				recorded[a.Decision.OptionID]++
			}
		}
		told := map[string]int{}
		for epoch, options := range r.got {
			for _, option := range options {
				told[option]++
			}
			allows := 0
			for _, option := range options {
				if option == "accept" {
					allows++
				}
			}
			if allows > 1 {
				t.Errorf("round %d: run twice in %s: %v", round, epoch, options)
			}
		}
		given := map[string]int{}
		for key := range committed {
			_, option, _ := strings.Cut(key, " ")
			given[option]++
		}
		for _, option := range []string{"accept", "decline"} {
			if told[option] > recorded[option] {
				t.Errorf("round %d: %d times %s, of which %d are on record", round, told[option], option, recorded[option])
			}
		}
		// A denial of before goes to what is asked anew; an allow never does.
		if told["accept"] > given["accept"] {
			t.Errorf("round %d: allowed %d times, %d were given", round, told["accept"], given["accept"])
		}
		if now := len(r.flat()); now != late {
			t.Errorf("round %d: an answer after the end", round)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d: the agent was told %v", seed, round, r.got)
		}
	}
	for _, s := range []approvals.State{approvals.AnsweredElsewhere, approvals.Expired, approvals.DeliveryUnknown} {
		if reached[s] == 0 {
			t.Errorf("no request ended as %s: %v", s, reached)
		}
	}
}

// flat are all answers that the agent was told in this round.
func (r *counter) flat() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, options := range r.got {
		out = append(out, options...)
	}
	return out
}
