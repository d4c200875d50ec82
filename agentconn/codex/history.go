package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"nod/state"
)

// olderPage is how many threads are listed at once: each carries its whole first
// message.
const olderPage = 20

// Older implements agentconn.Controller. One list at a time: a flood of them, with
// long first messages in it, makes a server useless.
func (c *conn) Older(ctx context.Context, search, cursor string) (out state.OlderPage, err error) {
	params := map[string]any{"limit": olderPage, "sortKey": "updated_at"}
	if cursor != "" {
		params["cursor"] = cursor
	}
	if search != "" {
		params["searchTerm"] = search
	}
	c.listing.Lock()
	defer c.listing.Unlock()
	err = c.call(ctx, "thread/list", params, func(r json.RawMessage) error {
		var page struct {
			Data       []wireThread `json:"data"`
			NextCursor string       `json:"nextCursor"`
		}
		err := json.Unmarshal(r, &page)
		out.Next = page.NextCursor
		for _, w := range page.Data {
			if !w.hidden() {
				out.Sessions = append(out.Sessions, state.Older{
					URI: uriScheme + w.ID, Title: w.title(), Folder: w.Cwd, ModifiedAt: 1000 * cmp.Or(w.UpdatedAt, w.CreatedAt),
				})
			}
		}
		return err
	})
	return out, publicly(err, "Codex did not list its sessions")
}

// Recall implements agentconn.Controller. It reads a thread and does not resume it,
// so that another program may have it; the next message does.
func (c *conn) Recall(ctx context.Context, uri string) error {
	return publicly(c.recallThread(ctx, strings.TrimPrefix(uri, uriScheme)), "Codex could not read that session")
}

func (c *conn) recallThread(ctx context.Context, id string) error {
	var before []historyTurn
	older := false
	if c.version.pages() {
		before, older = c.history(ctx, id)
	}
	forgotten := false
	err := c.call(ctx, "thread/read", map[string]any{"threadId": id, "includeTurns": !c.version.pages()}, func(r json.RawMessage) error {
		var res attached
		if err := json.Unmarshal(r, &res); err != nil {
			return err
		}
		w := res.Thread
		if w.ID == "" {
			return errors.New("codex: thread/read was answered without a thread")
		}
		st, err := c.begin(ctx, w, "")
		if err != nil {
			return err
		}
		if c.threads[id] != nil { // it is live here, and nod knows better, unless a person has deleted what it knew
			if forgotten = len(st.Turns) == 0 && st.ActiveTurn == nil; forgotten {
				c.forget(id)
			}
			return nil
		}
		turns := before
		if !c.version.pages() {
			turns = w.Turns
		}
		// What runs elsewhere is told when it has ended, and the session is opened again.
		turns = slices.DeleteFunc(turns, func(t historyTurn) bool { return t.Status == "inProgress" })
		th := newThread(id)
		th.remember(st)
		if st.ActiveTurn == nil {
			c.reconcile(ctx, th, st, w, turns, older)
		}
		return nil
	})
	if err == nil && forgotten {
		err = c.attach(ctx, id)
	}
	return err
}

// withoutGhosts takes the turns from a history that nod has under other ids: Codex
// 0.122 tells a review as two turns that never were. So where nod's newest turn is
// not in the history, what began before the session changed last is left out.
func (c *conn) withoutGhosts(st *state.Session, turns []historyTurn) []historyTurn {
	n := len(st.Turns)
	if c.version.pages() || n == 0 || slices.ContainsFunc(turns, func(t historyTurn) bool { return t.ID == st.Turns[n-1].ID }) {
		return turns
	}
	return slices.DeleteFunc(slices.Clone(turns), func(t historyTurn) bool {
		return !st.HasTurn(t.ID) && t.StartedAt*1000 <= st.Summary.ModifiedAt
	})
}
