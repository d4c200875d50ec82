package state

import "slices"

// ReduceSession returns the state that follows s by a at time now (Unix
// milliseconds). It returns s itself for an action that changes nothing: of an
// unknown type, for another turn, or for a tool call that is not in the state
// the action needs (AHP, section Actions of the pinned version).
func ReduceSession(s *Session, a Action, now int64) *Session {
	n := *s
	switch a := a.(type) {
	case *SessionReady:
		n.Lifecycle = LifecycleReady
	case *SessionCreationFailed:
		n.Lifecycle, n.CreationError = LifecycleCreationFailed, &a.Error
	case *SessionTurnStarted:
		n.ActiveTurn = &ActiveTurn{ID: a.TurnID, Message: a.Message, ResponseParts: []ResponsePart{}}
		n.Summary.Status &^= StatusIsRead
		n.Summary.ModifiedAt = now
		n.deriveStatus()
	case *SessionDelta:
		return n.replacePart(s, a.TurnID, func(p ResponsePart) ResponsePart {
			if m, ok := p.(*MarkdownPart); ok && m.ID == a.PartID {
				return &MarkdownPart{ID: m.ID, Content: m.Content.Append(a.Content)}
			}
			return nil
		})
	case *SessionReasoning:
		return n.replacePart(s, a.TurnID, func(p ResponsePart) ResponsePart {
			if r, ok := p.(*ReasoningPart); ok && r.ID == a.PartID {
				return &ReasoningPart{ID: r.ID, Content: r.Content.Append(a.Content)}
			}
			return nil
		})
	case *SessionResponsePart:
		if !n.appendPart(a.TurnID, a.Part) {
			return s
		}
	case *SessionToolCallStart:
		if !n.appendPart(a.TurnID, &ToolCallPart{ToolCall{
			ToolCallID: a.ToolCallID, ToolName: a.ToolName, DisplayName: a.DisplayName,
			ToolClientID: a.ToolClientID, Meta: a.Meta, Status: ToolStreaming,
		}}) {
			return s
		}
	case *SessionToolCallDelta:
		return n.reduceToolCall(s, a.TurnID, a.ToolCallID, a)
	case *SessionToolCallReady:
		return n.reduceToolCall(s, a.TurnID, a.ToolCallID, a)
	case *SessionToolCallConfirmed:
		return n.reduceToolCall(s, a.TurnID, a.ToolCallID, a)
	case *SessionToolCallContentChanged:
		return n.reduceToolCall(s, a.TurnID, a.ToolCallID, a)
	case *SessionToolCallComplete:
		return n.reduceToolCall(s, a.TurnID, a.ToolCallID, a)
	case *SessionUsage:
		if !n.inTurn(a.TurnID) {
			return s
		}
		t := *n.ActiveTurn
		t.Usage = &a.Usage
		n.ActiveTurn = &t
	case *SessionTurnComplete:
		return n.endTurn(s, a.TurnID, TurnComplete, nil, now)
	case *SessionTurnCancelled:
		return n.endTurn(s, a.TurnID, TurnCancelled, nil, now)
	case *SessionError:
		return n.endTurn(s, a.TurnID, TurnError, &a.Error, now)
	case *SessionInputRequested:
		r := a.Request
		n.InputRequests = slices.Clone(s.InputRequests)
		if i := s.inputRequest(r.ID); i >= 0 {
			if r.Answers == nil {
				r.Answers = n.InputRequests[i].Answers
			}
			n.InputRequests[i] = &r
		} else {
			n.InputRequests = append(n.InputRequests, &r)
		}
		n.Summary.Status &^= StatusIsRead
		n.Summary.ModifiedAt = now
		n.deriveStatus()
	case *SessionInputCompleted:
		i := s.inputRequest(a.RequestID)
		if i < 0 {
			return s
		}
		n.InputRequests = slices.Delete(slices.Clone(s.InputRequests), i, i+1)
		n.Summary.ModifiedAt = now
		n.deriveStatus()
	case *SessionTitleChanged:
		n.Summary.Title, n.Summary.ModifiedAt = a.Title, now
	case *SessionModelChanged:
		n.Summary.Model, n.Summary.ModifiedAt = &a.Model, now
	case *SessionActivityChanged:
		n.Summary.Activity = a.Activity
	case *SessionMetaChanged:
		n.Meta = a.Meta
	default:
		return s
	}
	return &n
}

func (s *Session) inTurn(id string) bool { return s.ActiveTurn != nil && s.ActiveTurn.ID == id }

func (s *Session) inputRequest(id string) int {
	return slices.IndexFunc(s.InputRequests, func(r *InputRequest) bool { return r.ID == id })
}

// appendPart copies the list, so that no older state sees the new part: parts
// are few beside deltas.
func (s *Session) appendPart(turn string, p ResponsePart) bool {
	if !s.inTurn(turn) {
		return false
	}
	t := *s.ActiveTurn
	t.ResponseParts = append(slices.Clip(t.ResponseParts), p)
	s.ActiveTurn = &t
	return true
}

// replacePart puts what f makes of the newest part it accepts in that part's
// place. It returns old if f accepts none.
func (s *Session) replacePart(old *Session, turn string, f func(ResponsePart) ResponsePart) *Session {
	if !s.inTurn(turn) {
		return old
	}
	for i, p := range slices.Backward(s.ActiveTurn.ResponseParts) {
		if q := f(p); q != nil {
			t := *s.ActiveTurn
			t.ResponseParts = slices.Clone(t.ResponseParts)
			t.ResponseParts[i] = q
			s.ActiveTurn = &t
			return s
		}
	}
	return old
}

func (s *Session) reduceToolCall(old *Session, turn, id string, a Action) *Session {
	n := s.replacePart(old, turn, func(p ResponsePart) ResponsePart {
		c, ok := p.(*ToolCallPart)
		if !ok || c.ToolCall.ToolCallID != id {
			return nil
		}
		t := c.ToolCall
		if !t.reduce(a) {
			return nil
		}
		return &ToolCallPart{t}
	})
	if n != old {
		n.deriveStatus()
	}
	return n
}

// reduce changes t by a and reports whether t was in a state that a applies to.
// Each new state is built from the fields that the schema gives it.
func (t *ToolCall) reduce(a Action) bool {
	base := ToolCall{
		ToolCallID: t.ToolCallID, ToolName: t.ToolName, DisplayName: t.DisplayName,
		ToolClientID: t.ToolClientID, Meta: t.Meta,
		InvocationMessage: t.InvocationMessage, ToolInput: t.ToolInput, SelectedOption: t.SelectedOption,
	}
	switch a := a.(type) {
	case *SessionToolCallDelta:
		if t.Status != ToolStreaming {
			return false
		}
		t.PartialInput += a.Content
		if a.InvocationMessage != nil {
			t.InvocationMessage = a.InvocationMessage
		}
		return true
	case *SessionToolCallReady:
		if t.Status != ToolStreaming && t.Status != ToolRunning {
			return false
		}
		base.InvocationMessage, base.ToolInput, base.SelectedOption = &a.InvocationMessage, a.ToolInput, nil
		if a.Confirmed != "" {
			base.Status, base.Confirmed = ToolRunning, a.Confirmed
		} else {
			base.Status = ToolPendingConfirmation
			base.ConfirmationTitle, base.Edits, base.Editable, base.Options = a.ConfirmationTitle, a.Edits, a.Editable, a.Options
		}
	case *SessionToolCallConfirmed:
		if t.Status != ToolPendingConfirmation {
			return false
		}
		if i := slices.IndexFunc(t.Options, func(o ConfirmationOption) bool { return o.ID == a.SelectedOptionID }); i >= 0 {
			base.SelectedOption = &t.Options[i]
		}
		if a.Approved {
			base.Status, base.Confirmed = ToolRunning, a.Confirmed
			if a.EditedToolInput != "" {
				base.ToolInput = a.EditedToolInput
			}
		} else {
			base.Status = ToolCancelled
			base.Reason, base.ReasonMessage, base.UserSuggestion = a.Reason, a.ReasonMessage, a.UserSuggestion
		}
	case *SessionToolCallContentChanged:
		if t.Status != ToolRunning {
			return false
		}
		t.Content = a.Content
		return true
	case *SessionToolCallComplete:
		switch t.Status {
		case ToolRunning:
			base.Confirmed = t.Confirmed
		case ToolPendingConfirmation:
			base.Confirmed = ConfirmedNotNeeded
		default:
			return false
		}
		base.Status = ToolCompleted
		if a.RequiresResultConfirmation {
			base.Status = ToolPendingResult
		}
		r := a.Result
		base.Success, base.PastTenseMessage, base.Content, base.StructuredContent, base.Error =
			&r.Success, &r.PastTenseMessage, r.Content, r.StructuredContent, r.Error
	}
	*t = base
	return true
}

func (s *Session) endTurn(old *Session, id string, how TurnState, e *ErrorInfo, now int64) *Session {
	if !s.inTurn(id) {
		return old
	}
	t := s.ActiveTurn
	parts := slices.Clone(t.ResponseParts)
	for i, p := range parts {
		c, ok := p.(*ToolCallPart)
		if !ok || !c.ToolCall.Open() {
			continue
		}
		was := c.ToolCall
		skipped := ToolCall{
			ToolCallID: was.ToolCallID, ToolName: was.ToolName, DisplayName: was.DisplayName,
			ToolClientID: was.ToolClientID, Meta: was.Meta, Status: ToolCancelled, Reason: CancelledSkipped,
			InvocationMessage: was.InvocationMessage, ToolInput: was.ToolInput,
		}
		if skipped.InvocationMessage == nil {
			skipped.InvocationMessage = new(StringOrMarkdown)
		}
		parts[i] = &ToolCallPart{skipped}
	}
	s.Turns = append(slices.Clip(s.Turns), &Turn{ID: t.ID, Message: t.Message, ResponseParts: parts, Usage: t.Usage, State: how, Error: e})
	s.ActiveTurn, s.InputRequests = nil, nil
	s.Summary.ModifiedAt = now
	s.deriveStatus()
	if e != nil {
		s.Summary.Status = s.Summary.Status&^statusActivity | StatusError
	}
	return s
}

// deriveStatus recomputes the activity bits; the flags above them stay.
func (s *Session) deriveStatus() {
	activity := StatusIdle
	if s.ActiveTurn != nil {
		activity = StatusInProgress
		for _, p := range s.ActiveTurn.ResponseParts {
			if c, ok := p.(*ToolCallPart); ok && (c.ToolCall.Status == ToolPendingConfirmation || c.ToolCall.Status == ToolPendingResult) {
				activity = StatusInputNeeded
			}
		}
	}
	if len(s.InputRequests) > 0 {
		activity = StatusInputNeeded
	}
	s.Summary.Status = s.Summary.Status&^statusActivity | activity
}
