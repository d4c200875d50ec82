package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"nod/state"
)

// Answer writes a decision. The id goes back with its JSON type: Codex passes
// over "10" where it asked with 10. A reason goes before it as a message to the turn.
func (c *conn) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	if r.Epoch != c.epoch {
		return errors.New("codex: the request is of an earlier connection")
	}
	known := requests[r.Method]
	var p requestParams
	if known.answer == nil || json.Unmarshal(r.Params, &p) != nil {
		return fmt.Errorf("codex: nod does not answer %s", r.Method)
	}
	result := known.answer(r, p, d)
	if result == nil {
		return fmt.Errorf("codex: %s has no answer %q", r.Method, d.OptionID)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	lost := c.explain(ctx, p.ThreadID, r.TurnID, d.Reason)
	c.mu.Lock()
	c.ours[string(r.UpstreamID)] = true
	c.mu.Unlock()
	if err := c.write(message{ID: r.UpstreamID, Result: raw}); err != nil {
		return err
	}
	return lost
}

// explain says to a turn why something is denied. It does so before the denial: the
// model goes on at once with that.
func (c *conn) explain(ctx context.Context, thread, turn, reason string) error {
	if reason == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	err := c.call(ctx, "turn/steer", map[string]any{
		"threadId": thread, "expectedTurnId": turn, "input": []any{map[string]any{"type": "text", "text": reason}},
	}, nil)
	if err != nil {
		c.log.Warn("the reason of a denial did not reach Codex", "err", err)
		return fmt.Errorf("%w: %w", state.ErrReasonLost, err)
	}
	return nil
}

// explainTimeout is how long a denial may wait for its reason.
const explainTimeout = 5 * time.Second

// decision is the answer to an approval: a word, or a rule that was proposed.
func decision(_ state.Request, p requestParams, d state.Decision) any {
	for n, a := range p.amendments() {
		if d.OptionID == amendmentID(n) {
			return map[string]any{"decision": a}
		}
	}
	return map[string]any{"decision": d.OptionID}
}

// ---- questions ----

type wireQuestion struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	IsOther  bool   `json:"isOther"`
	IsSecret bool   `json:"isSecret"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

func (c *conn) askQuestions(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	q := &state.InputRequest{}
	for _, w := range p.Questions {
		if slices.ContainsFunc(q.Questions, func(x state.Question) bool { return x.ID == w.ID }) {
			return false // an answer could not say to which it belongs
		}
		x := state.Question{ID: w.ID, Kind: "text", Title: state.Optional(w.Header), Message: w.Question}
		if w.IsSecret {
			x.Format = new(state.FormatSecret)
		}
		if len(w.Options) > 0 {
			x.Kind, x.AllowFreeformInput = "single-select", &w.IsOther
			for _, o := range w.Options {
				x.Options = append(x.Options, state.QuestionOption{ID: o.Label, Label: o.Label, Description: state.Optional(o.Description)})
			}
		}
		q.Questions = append(q.Questions, x)
	}
	if len(q.Questions) == 0 {
		return false
	}
	switch {
	case p.AutoResolutionMs != nil:
		q.Message = new(fmt.Sprintf("Codex goes on by itself if nobody answers within %.0f s.", *p.AutoResolutionMs/1000))
	case p.IsBlocking != nil && !*p.IsBlocking:
		q.Message = new("Codex goes on meanwhile, and reads the answer when it comes.")
	}
	r.Kind, r.Title, r.Questions = state.RequestQuestion, "Codex has a question", q
	r.Options = []state.ConfirmationOption{{ID: "answer", Label: "Answer", Kind: state.OptionApprove}}
	c.askFree(ctx, th, r)
	return true
}

// userInput answers each question with the words that were chosen and typed.
func userInput(r state.Request, _ requestParams, d state.Decision) any {
	answers := map[string]any{}
	for _, q := range r.Questions.Questions {
		answers[q.ID] = map[string]any{"answers": append([]string{}, d.Answers[q.ID].Given()...)}
	}
	return map[string]any{"answers": answers}
}
