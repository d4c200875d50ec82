package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/journal"
)

// An export is JSON lines: for each session, first the one that was asked for and
// then its sub-agents, a snapshot of every channel as it was at the first number
// that is kept, and then AHP envelopes. What AHP has no word for is in _meta.

// envelopeLine is an AHP ActionEnvelope.
type envelopeLine struct {
	Channel   string         `json:"channel"`
	Action    jsontext.Value `json:"action"`
	ServerSeq uint64         `json:"serverSeq"`
	Meta      envelopeMeta   `json:"_meta"`
}

type envelopeMeta struct {
	Time int64 `json:"nod.time"` // Unix milliseconds
}

// Keys of a session's snapshot line.
const (
	metaParent = "nod.parent" // URI of the session whose sub-agent this is
	metaCut    = "nod.cut"    // turns that had been forgotten
)

// Export writes a session, given by id or URI, and its sub-agents. The store may
// be in use.
func Export(ctx context.Context, store journal.Store, session string, w io.Writer) error {
	rows, err := store.Sessions(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	taken := map[string]bool{}
	for _, row := range rows { // parents come before their sub-agents
		var h head
		if err := state.Unmarshal(row.Head, &h); err != nil {
			h = head{} // of another session, or of an older nod: the export does not need it
		}
		if row.URI != session && row.URI != uriScheme+session && !taken[h.Parent] {
			continue
		}
		parent := h.Parent
		if len(taken) == 0 {
			parent = "" // a sub-agent that is exported by itself
		}
		taken[row.URI] = true
		if err := exportOne(ctx, store, row.URI, parent, h.Cut, out); err != nil {
			return err
		}
	}
	if len(taken) == 0 {
		return fmt.Errorf("there is no session “%s” here; the address of its page ends with its id", session)
	}
	return out.Flush()
}

func exportOne(ctx context.Context, store journal.Store, uri, parent string, cut int, w io.Writer) error {
	first, events, err := settled(ctx, store, uri)
	if err != nil {
		return err
	}
	channels, err := channelsOf(first.Data, uri)
	if err != nil {
		return err
	}
	for i, c := range channels {
		c.FromSeq = first.Seq
		if i == 0 {
			raw, err := state.Marshal(parent)
			if err != nil {
				return err
			}
			c.Meta = state.Meta{metaParent: raw, metaCut: fmt.Append(nil, cut)}
		}
		if err := writeLine(w, c); err != nil {
			return err
		}
	}
	for _, e := range events {
		if err := writeLine(w, envelopeLine{e.Channel, jsontext.Value(e.Action), e.Seq, envelopeMeta{e.Time}}); err != nil {
			return err
		}
	}
	return nil
}

// settled reads the begin of a session and its events until two readings agree:
// while one reads, a running nod may merge what lies across the page between, or
// cut the begin.
func settled(ctx context.Context, store journal.Store, uri string) (journal.Snapshot, []journal.Event, error) {
	same := func(a, b journal.Event) bool { return a.Seq == b.Seq && bytes.Equal(a.Action, b.Action) }
	var begin journal.Snapshot
	var before []journal.Event
	for try := range 5 {
		first, err := store.First(ctx, uri)
		if err != nil {
			return first, nil, err
		}
		var now []journal.Event
		for e, err := range store.Events(ctx, uri, first.Seq) {
			if err != nil {
				return first, nil, err
			}
			now = append(now, e)
		}
		if try > 0 && first.Seq == begin.Seq && len(now) >= len(before) && slices.EqualFunc(before, now[:len(before)], same) {
			return begin, before, nil
		}
		begin, before = first, now
	}
	return begin, nil, errors.New("the session changes too fast to be exported now; try again when its turn has ended")
}

func writeLine(w io.Writer, v any) error {
	raw, err := state.Marshal(v)
	if err == nil {
		_, err = w.Write(append(raw, '\n'))
	}
	return err
}

// channelsOf reads the data of a journal's snapshot.
func channelsOf(raw json.RawMessage, uri string) ([]state.Snapshot, error) {
	if len(raw) > 0 && raw[0] == '{' { // of an older nod: the session's state alone
		st := new(state.Session)
		err := state.Unmarshal(raw, st)
		return []state.Snapshot{{Resource: uri, State: st}}, err
	}
	var list []state.Snapshot
	err := state.Unmarshal(raw, &list)
	return list, err
}

// imported is one session that is being read.
type imported struct {
	session  *session
	cut      int
	channels []state.Snapshot
	events   []journal.Event
}

// Import reads what Export has written into a store that nobody uses, and returns
// the URIs of the sessions. All of it is taken, or nothing.
func Import(ctx context.Context, store journal.Store, r io.Reader) ([]string, error) {
	var all []*imported
	known := map[string]*session{}
	d := jsontext.NewDecoder(r)
	for n := 1; ; n++ {
		raw, err := d.ReadValue()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			all, err = importLine(all, known, raw)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d is not of an export of nod: %w; nothing was imported", n, err)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is nothing in it; nothing was imported")
	}
	var batch journal.Batch
	var uris []string
	for _, x := range all {
		if err := x.into(&batch); err != nil {
			return nil, fmt.Errorf("%s cannot be brought back: %w; nothing was imported", x.session.uri, err)
		}
		if _, err := store.Newest(ctx, x.session.uri); err == nil {
			return nil, fmt.Errorf("the session %s is here already; delete it first, or import into another data folder", x.session.id)
		} else if !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		uris = append(uris, x.session.uri)
	}
	return uris, store.Append(ctx, batch)
}

func importLine(all []*imported, known map[string]*session, raw jsontext.Value) ([]*imported, error) {
	var kind struct {
		Resource string `json:"resource"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, err
	}
	if kind.Resource != "" {
		var line state.Snapshot
		if err := state.Unmarshal(raw, &line); err != nil {
			return nil, err
		}
		if st, ok := line.State.(*state.Session); ok {
			x := new(imported)
			var parent string
			for key, into := range map[string]any{metaParent: &parent, metaCut: &x.cut} {
				if m := line.Meta[key]; m != nil {
					if err := json.Unmarshal(m, into); err != nil {
						return nil, err
					}
				}
			}
			if !goodURI(line.Resource) || st.Summary.Resource != line.Resource {
				return nil, fmt.Errorf("“%.80s” is no session of nod", line.Resource)
			}
			if known[line.Resource] != nil {
				return nil, fmt.Errorf("%s comes twice", line.Resource)
			}
			x.session = newSession(nil, line.Resource, known[parent])
			known[line.Resource] = x.session
			all = append(all, x)
		}
		if len(all) == 0 {
			return nil, errors.New("it does not begin with a session")
		}
		x := all[len(all)-1]
		line.Meta = nil
		x.channels = append(x.channels, line)
		return all, nil
	}
	var line envelopeLine
	if err := state.Unmarshal(raw, &line); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it does not begin with a session")
	}
	x := all[len(all)-1]
	last := x.channels[0].FromSeq
	if n := len(x.events); n > 0 {
		last = x.events[n-1].Seq
	}
	if line.ServerSeq <= last {
		return nil, fmt.Errorf("number %d comes after number %d", line.ServerSeq, last)
	}
	x.events = append(x.events, journal.Event{
		Session: x.session.uri, Seq: line.ServerSeq, Time: line.Meta.Time, Channel: line.Channel, Action: json.RawMessage(line.Action),
	})
	return all, nil
}

// into adds the rows of a session to a batch.
func (x *imported) into(batch *journal.Batch) error {
	raw, err := state.Marshal(x.channels)
	if err != nil {
		return err
	}
	s, first := x.session, x.channels[0].FromSeq
	n := &next{seq: first, at: x.channels[0].State.(*state.Session).Summary.CreatedAt}
	if err := s.decode(n, raw); err != nil {
		return err
	}
	for _, e := range x.events {
		if err := s.replay(n, e); err != nil {
			return err
		}
	}
	row, err := s.row(n.state, n.state.ActiveTurn != nil, n.at, x.cut)
	if err != nil {
		return err
	}
	batch.Sessions = append(batch.Sessions, row)
	batch.Snapshots = append(batch.Snapshots, journal.Snapshot{Session: s.uri, Seq: first, Data: raw})
	batch.Events = append(batch.Events, x.events...)
	return nil
}
