package e2e

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nod/state/crashpoint"
)

// TestR6CrashPoints: nod dies at each moment of an allow, from before it is recorded
// to after the agent's word is. The agent runs the command once if the bytes were out,
// and never without a decision on disk; the next nod sends nothing by itself, says
// what is known, and cannot be made to send the same allow again.
func TestR6CrashPoints(t *testing.T) {
	t.Parallel()
	nod, agent := buildCrashing(t)
	for label, want := range map[string]struct {
		runs  int      // how often the agent was told to
		audit []string // what the record may say of the request in the end
	}{
		crashpoint.BeforeCommit: {0, []string{"expired"}},
		crashpoint.AfterCommit:  {0, []string{"delivery-unknown"}},
		crashpoint.BeforeWrite:  {0, []string{"delivery-unknown"}},
		crashpoint.AfterWrite:   {1, []string{"delivery-unknown", "confirmed"}}, // the agent may be faster than the crash
		crashpoint.BeforeAck:    {1, []string{"delivery-unknown"}},
		crashpoint.AfterAck:     {1, []string{"confirmed"}},
	} {
		t.Run(label, func(t *testing.T) {
			arm := filepath.Join(t.TempDir(), "armed")
			c := &crasher{t: t, dice: rand.New(rand.NewPCG(1, 2)), nodBinary: nod, agentBinary: agent, sum: &summary{kills: map[string]int{}}}
			c.settle(label + ":1:" + arm)

			// The agent waits for an answer now, and all that it has said is on disk.
			var id string
			var asks card
			for deadline := time.Now().Add(patience); id == ""; time.Sleep(10 * time.Millisecond) {
				p := newPicture()
				c.must(p.read(c.look()))
				for at, k := range p.cards {
					id, asks = at, k
				}
				if time.Now().After(deadline) {
					c.fatal("nothing is asked")
				}
			}
			allow := url.Values{"digest": {asks.digest}, "nonce": {asks.nonce}, "seen": {"yes"}, "option": {"accept"}}
			c.must(os.WriteFile(arm, nil, 0o600))
			_, _, _ = c.post("/approvals/"+id, allow) // nod dies meanwhile
			select {
			case <-c.nod.ended:
			case <-time.After(patience):
				c.fatal("nod lives")
			}
			c.must(os.Remove(arm))
			c.integrity()
			c.agentGone()
			c.readLog()
			told := func() int {
				n := 0
				for ask, got := range c.log.decisions {
					if c.log.asked[ask].command == asks.command {
						n += len(got)
					}
				}
				return n
			}
			if n := told(); n != want.runs {
				t.Errorf("the agent was told %d times before the crash, want %d", n, want.runs)
			}

			c.start("")
			status, _, err := c.post("/approvals/"+id, allow)
			c.must(err)
			if status != http.StatusConflict && status != http.StatusSeeOther { // refused, or the same answer again
				t.Errorf("the same answer again: %d", status)
			}
			audit, err := c.load("/audit.jsonl")
			c.must(err)
			var steps []string
			for line := range strings.Lines(audit) {
				if _, step, ok := strings.Cut(line, `"what":"request `); ok && strings.Contains(line, id) {
					step, _, _ = strings.Cut(step, `"`)
					steps = append(steps, step)
				}
			}
			if len(steps) == 0 || !slices.Contains(want.audit, steps[len(steps)-1]) || want.runs > 0 && !slices.Contains(steps, "sent") {
				t.Errorf("recorded are %q, want %s at last", steps, want.audit)
			}
			c.nod.kill(syscall.SIGTERM)
			c.agentGone()
			c.readLog()
			if n := told(); n != want.runs {
				t.Errorf("the agent was told %d times in the end, want %d", n, want.runs)
			}
		})
	}
}
