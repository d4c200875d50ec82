package agentconn

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"

	"nod/state"
)

const (
	// maxWord bounds, in bytes, a text that an outline keeps: ids and names are shorter.
	maxWord = 512
	// maxOutline bounds an outline as a whole.
	maxOutline = 64 << 10
)

// Outline is what nod keeps of a message that is longer than it reads: who says what,
// but not what it is. It is written the message, and needs no more memory than its own
// bounds, however long that is.
type Outline struct {
	Depth int // of what nests deeper, and of each list, null is kept

	size   int64
	sum    hash.Hash // of all that was written
	out    []byte
	open   int  // brackets
	over   int  // how many were, at the one that began what is left out; 0: nothing is
	text   bool // within one
	escape bool // within a text, after a backslash
	begin  int  // of the text, in out
	cut    bool // the text is too long
	full   bool // the outline is
}

// Write takes the next piece of the message.
func (o *Outline) Write(p []byte) (int, error) {
	if o.sum == nil {
		o.sum = sha256.New()
	}
	_, _ = o.sum.Write(p) // it never fails
	o.size += int64(len(p))
	for rest := p; len(rest) > 0 && !o.full; rest = rest[1:] {
		if o.text && !o.escape && (o.cut || o.over > 0) { // the long way is fast
			i := bytes.IndexAny(rest, `"\`)
			if i < 0 {
				break
			}
			rest = rest[i:]
		}
		o.next(rest[0])
	}
	return len(p), nil
}

func (o *Outline) next(c byte) {
	switch {
	case o.text:
		ends := c == '"' && !o.escape
		o.escape = c == '\\' && !o.escape
		o.text = !ends
		if !o.cut || ends {
			o.keep(c)
		}
		if !o.cut && len(o.out)-o.begin > maxWord {
			o.out, o.cut = append(o.out[:o.begin], '"'), !ends
			if ends {
				o.keep('"')
			}
		}
	case c == '"':
		o.text, o.cut, o.begin = true, false, len(o.out)
		o.keep(c)
	case c == '{', c == '[':
		if o.open++; o.over == 0 && (o.open > o.Depth || c == '[') {
			o.out, o.over = append(o.out, "null"...), o.open
		}
		o.keep(c)
	case c == '}', c == ']':
		o.keep(c)
		if o.open == o.over {
			o.over = 0
		}
		o.open--
	case c == ' ', c == '\t', c == '\n', c == '\r':
	default:
		o.keep(c)
	}
	if len(o.out) > maxOutline {
		o.out, o.full = nil, true
	}
}

func (o *Outline) keep(c byte) {
	if o.over == 0 {
		o.out = append(o.out, c)
	}
}

// Bytes is the message without what is long in it: a long text is empty, what nests deep
// and every list is null. It is JSON if the message is; nil if nod can make nothing of it.
func (o *Outline) Bytes() []byte { return o.out }

// Size says how long the message is.
func (o *Outline) Size() string { return fmt.Sprintf("%.1f MiB", float64(o.size)/(1<<20)) }

// Refusable makes r a request of which nod has only the outline. Nothing of it can be
// approved; options are those that refuse it, if it can be refused by its id alone.
func (o *Outline) Refusable(r state.Request, options []state.ConfirmationOption) state.Request {
	r.Kind, r.Options = state.RequestTooLong, options
	r.Caution = fmt.Sprintf("It is %s long, and nod reads no more than %d MiB of one request, so it cannot be approved here. ", o.Size(), MaxMessage>>20)
	if len(options) > 0 {
		r.Caution += "Refuse it and ask for smaller steps, or answer it where the agent runs."
	} else {
		r.Caution += "Answer it where the agent runs, or stop the turn."
	}
	// The outline of another one may be the same.
	r.Details = []state.Detail{{Label: "SHA-256 of all of it", Text: fmt.Sprintf("%x", o.sum.Sum(nil))}}
	return r
}

// Tell is what the page of a session says of a message that is no request, or of which
// nobody can say which one. name is what the protocol calls it, "" if that is not known.
func (o *Outline) Tell(agent, name string) string {
	if name != "" {
		name = ", " + name
	}
	return fmt.Sprintf("%s has said something that is longer than nod reads (%s%s), so it does not show here. If %s waits for an answer now, give it where it runs, or stop the turn.", agent, o.Size(), name, agent)
}
