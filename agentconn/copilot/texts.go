package copilot

import (
	"context"
	"strconv"
	"strings"

	"nod/agentconn/plain"
	"nod/state"
)

// text is a message or a thought that grows.
type text struct {
	part     string // that shows it; "" before there is one
	bytes    []byte
	shown    int // bytes that the session's state had of it when nod came back
	thoughts bool
	whole    bool
	phase    string // of the answer: commentary, final_answer
}

type messageData struct {
	MessageID     string     `json:"messageId"`
	ReasoningID   string     `json:"reasoningId"`
	Delta         string     `json:"deltaContent"`
	Content       string     `json:"content"`
	ReasoningText string     `json:"reasoningText"`
	Phase         string     `json:"phase"`
	ChunkIndex    int        `json:"chunkIndex"` // of an answer that comes as several messages
	ToolRequests  []struct{} `json:"toolRequests"`
}

// messageStarted: a message begins, of which only the phase is of interest.
func (a *agent) messageStarted(_ context.Context, p messageData) {
	if a.turn != "" && p.Phase != "" && a.texts[p.MessageID] == nil {
		a.texts[p.MessageID] = &text{phase: p.Phase}
	}
}

func (a *agent) messageDelta(_ context.Context, p messageData) { a.grow(p.MessageID, p.Delta, false) }

func (a *agent) thoughtDelta(_ context.Context, p messageData) { a.grow(p.ReasoningID, p.Delta, true) }

// grow adds to a text. The part that shows it begins with the first of it.
func (a *agent) grow(id, delta string, thoughts bool) {
	if a.turn == "" || id == "" || delta == "" {
		return
	}
	t := a.texts[id]
	if t == nil {
		t = &text{thoughts: thoughts}
		a.texts[id] = t
	}
	if t.whole {
		return
	}
	if t.part == "" {
		t.part = id
		a.shows(t, "", nil)
	}
	before := len(t.bytes)
	t.bytes = append(t.bytes, delta...)
	if rest := t.bytes[max(before, min(t.shown, len(t.bytes))):]; len(rest) > 0 {
		a.adds(t, string(rest))
	}
}

// shows begins the part that shows a text. It takes the place of one that a retry has
// made void.
func (a *agent) shows(t *text, content string, meta state.Meta) {
	if old := a.void[t.thoughts]; old != "" && meta["nod.supersedes"] == nil {
		if meta == nil {
			meta = state.Meta{}
		}
		meta["nod.supersedes"] = plain.Value(old)
		delete(a.void, t.thoughts)
	}
	if t.phase != "" {
		if meta == nil {
			meta = state.Meta{}
		}
		meta["nod.phase"] = plain.Value(plain.Shorten(t.phase, 40))
	}
	var p state.ResponsePart = &state.MarkdownPart{ID: t.part, Content: state.NewText(content), Meta: meta}
	if t.thoughts {
		p = &state.ReasoningPart{ID: t.part, Content: state.NewText(content), Meta: meta}
	}
	a.apply(&state.SessionResponsePart{TurnID: a.turn, Part: p})
}

func (a *agent) adds(t *text, delta string) {
	if t.thoughts {
		a.apply(&state.SessionReasoning{TurnID: a.turn, PartID: t.part, Content: delta})
	} else {
		a.apply(&state.SessionDelta{TurnID: a.turn, PartID: t.part, Content: delta})
	}
}

// wrote: a whole message, which is the truth. It tells its thoughts too, which
// alone are in the log. Copilot may say one by itself, when something in the background
// has ended.
func (a *agent) wrote(_ context.Context, p messageData) {
	if a.turn == "" && (p.Content != "" || len(p.ToolRequests) > 0) {
		a.beginAlone(p.MessageID)
	}
	if a.turn == "" {
		return
	}
	a.quiet()
	if p.ChunkIndex > 0 { // it may have the id of the first one
		if t := a.texts[p.MessageID]; t != nil && t.whole {
			p.MessageID += "/" + strconv.Itoa(p.ChunkIndex)
		}
	}
	if t := a.texts[p.MessageID]; t == nil && p.Phase != "" {
		a.texts[p.MessageID] = &text{phase: p.Phase}
	}
	a.concluded = len(p.ToolRequests) == 0
	if p.ReasoningText != "" {
		a.thought = p.ReasoningText
		streamed := false
		for _, t := range a.texts {
			streamed = streamed || t.thoughts && (string(t.bytes) == p.ReasoningText || len(t.bytes) == 0 && t.shown == len(p.ReasoningText))
		}
		if !streamed {
			a.finish(p.MessageID+"/thoughts", p.ReasoningText, true)
		}
	}
	a.finish(p.MessageID, p.Content, false)
}

func (a *agent) thoughtOf(_ context.Context, p messageData) {
	if a.turn != "" && (a.texts[p.ReasoningID] != nil || p.Content != a.thought) {
		a.finish(p.ReasoningID, p.Content, true)
	}
}

// finish makes a text whole. What was streamed gives way to it if it is another one.
func (a *agent) finish(id, whole string, thoughts bool) {
	t := a.texts[id]
	if t == nil {
		t = &text{thoughts: thoughts}
		a.texts[id] = t
	}
	if t.whole {
		return
	}
	rest, goesOn := strings.CutPrefix(whole, string(t.bytes))
	switch known := max(len(t.bytes), t.shown); {
	case t.part == "" && whole == "":
	case t.part == "":
		t.part = id
		a.shows(t, whole, nil)
	case len(t.bytes) < t.shown && len(whole) >= t.shown: // the begin of it was shown before nod came back
		if rest := whole[t.shown:]; rest != "" {
			a.adds(t, rest)
		}
	case !goesOn || len(whole) < known:
		old := t.part
		t.part += "/whole"
		a.shows(t, whole, state.Meta{"nod.supersedes": plain.Value(old)})
	case rest != "":
		a.adds(t, rest)
	}
	*t = text{part: t.part, thoughts: thoughts, whole: true, phase: t.phase}
}

// retried: the answer broke off, so what was streamed of it is void.
func (a *agent) retried(_ context.Context, p struct {
	Reason string `json:"reason"`
}) {
	for _, t := range a.texts {
		if !t.whole && t.part != "" {
			a.void[t.thoughts] = t.part
			t.whole = true
		}
	}
	a.activity("The answer broke off (" + plain.Words(p.Reason) + "), so Copilot asks the model again")
}
