package codex

import (
	"context"
	"encoding/json"

	"nod/agentconn"
	"nod/agentconn/plain"
)

// receiveLong takes the outline of a message that is longer than nod reads. A call ends;
// a request is put before a person, who can only refuse it.
func (c *conn) receiveLong(ctx context.Context, m message, long *agentconn.Outline) {
	c.log.Warn("a message is longer than nod reads", "size", long.Size(), "method", plain.Shorten(m.Method, 80))
	switch id := string(m.ID); {
	case m.Method == "":
		c.answered(message{ID: m.ID, Error: errTooLong})
	case id != "" && id != `""`: // an id that is too long is not known
		c.serverRequest(ctx, m, long)
	case ignored[m.Method] == "":
		c.tellLong(ctx, m, long)
	}
}

// tellLong says on the page of a session that there was a message which nod has not read;
// on those of all that are at work, if it is not known whose it is.
func (c *conn) tellLong(ctx context.Context, m message, long *agentconn.Outline) {
	var at at
	_ = json.Unmarshal(m.Params, &at) // for the thread, if it names one
	for _, th := range c.asking(at.ThreadID) {
		if th.unknown++; th.unknown <= maxUnknown {
			c.note(ctx, th, notePart(warnNote, long.Tell(displayName, plain.Shorten(m.Method, 80))))
		}
	}
}
