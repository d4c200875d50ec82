package state

import (
	"maps"
	"slices"
)

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
		n.ActiveTurn = &ActiveTurn{ID: a.TurnID, Message: a.Message}
		if a.QueuedMessageID != nil {
			n.takePending(*a.QueuedMessageID)
		}
		n.change(func(m *SessionSummary) { m.Status, m.ModifiedAt = n.derived()&^StatusIsRead, now })
	case *SessionDelta:
		return n.replacePart(s, a.TurnID, func(p ResponsePart) ResponsePart {
			if m, ok := p.(*MarkdownPart); ok && m.ID == a.PartID {
				return &MarkdownPart{m.ID, m.Content.Append(a.Content), m.Meta, m.Unknown}
			}
			return nil
		})
	case *SessionReasoning:
		return n.replacePart(s, a.TurnID, func(p ResponsePart) ResponsePart {
			if r, ok := p.(*ReasoningPart); ok && r.ID == a.PartID {
				return &ReasoningPart{r.ID, r.Content.Append(a.Content), r.Meta, r.Unknown}
			}
			return nil
		})
	case *SessionResponsePart:
		if !n.appendPart(a.TurnID, a.Part) {
			return s
		}
	case *SessionToolCallStart:
		if !n.appendPart(a.TurnID, &ToolCallPart{ToolCall: ToolCall{
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
	case *SessionToolCallResultConfirmed:
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
		if i := s.inputRequest(r.ID); i >= 0 {
			if r.Answers == nil {
				r.Answers = s.InputRequests[i].Answers
			}
			n.InputRequests = replaced(s.InputRequests, i, &r)
		} else {
			n.InputRequests = appended(s.InputRequests, &r)
		}
		n.change(func(m *SessionSummary) { m.Status, m.ModifiedAt = n.derived()&^StatusIsRead, now })
	case *SessionInputAnswerChanged:
		i := s.inputRequest(a.RequestID)
		if i < 0 {
			return s
		}
		r := *s.InputRequests[i]
		r.Answers = maps.Clone(r.Answers)
		if a.Answer == nil {
			delete(r.Answers, a.QuestionID)
		} else {
			put(&r.Answers, a.QuestionID, *a.Answer)
		}
		if len(r.Answers) == 0 {
			r.Answers = nil
		}
		n.InputRequests = replaced(s.InputRequests, i, &r)
		n.change(func(m *SessionSummary) { m.ModifiedAt = now })
	case *SessionInputCompleted:
		i := s.inputRequest(a.RequestID)
		if i < 0 {
			return s
		}
		n.InputRequests = removed(s.InputRequests, i)
		n.change(func(m *SessionSummary) { m.Status, m.ModifiedAt = n.derived(), now })
	case *SessionPendingMessageSet:
		p := PendingMessage{ID: a.ID, Message: a.Message}
		if a.Kind == PendingSteering {
			n.SteeringMessage = &p
		} else if i := pendingAt(s.QueuedMessages, a.ID); i >= 0 {
			n.QueuedMessages = replaced(s.QueuedMessages, i, p)
		} else {
			n.QueuedMessages = appended(s.QueuedMessages, p)
		}
	case *SessionPendingMessageRemoved:
		if a.Kind == PendingSteering {
			if s.SteeringMessage == nil || s.SteeringMessage.ID != a.ID {
				return s
			}
			n.SteeringMessage = nil
		} else if i := pendingAt(s.QueuedMessages, a.ID); i >= 0 {
			n.QueuedMessages = removed(s.QueuedMessages, i)
		} else {
			return s
		}
	case *SessionQueuedMessagesReordered:
		if s.QueuedMessages == nil {
			return s
		}
		n.QueuedMessages = reordered(s.QueuedMessages, a.Order)
	case *SessionTruncated:
		if a.TurnID == nil {
			n.Turns = []*Turn{}
		} else if i := slices.IndexFunc(s.Turns, func(t *Turn) bool { return t.ID == *a.TurnID }); i >= 0 {
			n.Turns = slices.Clip(s.Turns[:i+1])
		} else {
			return s
		}
		n.ActiveTurn, n.InputRequests = nil, nil
		n.change(func(m *SessionSummary) { m.Status, m.ModifiedAt = n.derived(), now })
	case *SessionTitleChanged:
		n.change(func(m *SessionSummary) { m.Title, m.ModifiedAt = a.Title, now })
	case *SessionModelChanged:
		n.change(func(m *SessionSummary) { m.Model, m.ModifiedAt = &a.Model, now })
	case *SessionAgentChanged:
		n.change(func(m *SessionSummary) { m.Agent, m.ModifiedAt = a.Agent, now })
	case *SessionIsReadChanged:
		n.change(func(m *SessionSummary) { m.Status = m.Status.with(StatusIsRead, a.IsRead) })
	case *SessionIsArchivedChanged:
		n.change(func(m *SessionSummary) { m.Status = m.Status.with(StatusIsArchived, a.IsArchived) })
	case *SessionActivityChanged:
		n.change(func(m *SessionSummary) { m.Activity = a.Activity })
	case *SessionChangesetsChanged:
		n.change(func(m *SessionSummary) { m.Changesets = a.Changesets })
	case *SessionConfigChanged:
		if s.Config == nil {
			return s
		}
		c := *s.Config
		c.Values = merged(c.Values, a.Config, Value(a.Replace))
		n.Config = &c
		n.change(func(m *SessionSummary) { m.ModifiedAt = now })
	case *SessionMetaChanged:
		n.Meta = a.Meta
	case *SessionServerToolsChanged:
		n.ServerTools = a.Tools
	case *SessionActiveClientChanged:
		n.ActiveClient = a.ActiveClient
	case *SessionActiveClientToolsChanged:
		if s.ActiveClient == nil {
			return s
		}
		c := *s.ActiveClient
		c.Tools = a.Tools
		n.ActiveClient = &c
	case *SessionCustomizationsChanged:
		n.Customizations = a.Customizations
	case *SessionCustomizationToggled:
		i := customizationAt(s.Customizations, a.ID)
		if i < 0 {
			return s
		}
		c := *s.Customizations[i]
		c.Enabled = &a.Enabled
		n.Customizations = replaced(s.Customizations, i, &c)
	case *SessionCustomizationUpdated:
		if i := customizationAt(s.Customizations, a.Customization.ID); i >= 0 {
			n.Customizations = replaced(s.Customizations, i, &a.Customization)
		} else {
			n.Customizations = appended(s.Customizations, &a.Customization)
		}
	case *SessionCustomizationRemoved:
		var ok bool
		if n.Customizations, ok = withoutCustomization(s.Customizations, a.ID); !ok {
			return s
		}
	default:
		return s
	}
	return &n
}

// change replaces the summary by a changed copy.
func (s *Session) change(f func(*SessionSummary)) {
	m := *s.Summary
	f(&m)
	s.Summary = &m
}

func (s *Session) inTurn(id string) bool { return s.ActiveTurn != nil && s.ActiveTurn.ID == id }

func (s *Session) inputRequest(id string) int {
	return slices.IndexFunc(s.InputRequests, func(r *InputRequest) bool { return r.ID == id })
}

func pendingAt(list []PendingMessage, id string) int {
	return slices.IndexFunc(list, func(p PendingMessage) bool { return p.ID == id })
}

// takePending removes the pending message that became a turn.
func (s *Session) takePending(id string) {
	if s.SteeringMessage != nil && s.SteeringMessage.ID == id {
		s.SteeringMessage = nil
	}
	if i := pendingAt(s.QueuedMessages, id); i >= 0 {
		s.QueuedMessages = removed(s.QueuedMessages, i)
	}
}

// reordered puts the messages that order names first, the others behind them.
func reordered(list []PendingMessage, order []string) []PendingMessage {
	left := slices.Clone(list)
	out := make([]PendingMessage, 0, len(list))
	for _, id := range order {
		if i := pendingAt(left, id); i >= 0 {
			out = append(out, left[i])
			left = slices.Delete(left, i, i+1)
		}
	}
	return append(out, left...)
}

func customizationAt(list []*Customization, id string) int {
	return slices.IndexFunc(list, func(c *Customization) bool { return c.ID == id })
}

// withoutCustomization removes a container, or else the first child of that id
// in each container. It reports whether there was one.
func withoutCustomization(list []*Customization, id string) (out []*Customization, found bool) {
	if i := customizationAt(list, id); i >= 0 {
		return slices.Delete(slices.Clone(list), i, i+1), true
	}
	out = slices.Clone(list)
	for i, c := range out {
		if k := customizationAt(c.Children, id); k >= 0 {
			n := *c
			n.Children = slices.Delete(slices.Clone(c.Children), k, k+1)
			out[i], found = &n, true
		}
	}
	return out, found
}

// appendPart adds a part to the turn in progress.
func (s *Session) appendPart(turn string, p ResponsePart) bool {
	if !s.inTurn(turn) {
		return false
	}
	t := *s.ActiveTurn
	t.ResponseParts = t.ResponseParts.Append(p)
	s.ActiveTurn = &t
	return true
}

// replacePart puts what f makes of the newest part it accepts in that part's
// place. It returns old if f accepts none.
func (s *Session) replacePart(old *Session, turn string, f func(ResponsePart) ResponsePart) *Session {
	if !s.inTurn(turn) {
		return old
	}
	for i, p := range s.ActiveTurn.ResponseParts.Backward() {
		if q := f(p); q != nil {
			t := *s.ActiveTurn
			t.ResponseParts = t.ResponseParts.Replace(i, q)
			s.ActiveTurn = &t
			return s
		}
	}
	return old
}

func (s *Session) reduceToolCall(old *Session, turn, id string, a Action) *Session {
	asked, asks := false, false
	n := s.replacePart(old, turn, func(p ResponsePart) ResponsePart {
		c, ok := p.(*ToolCallPart)
		if !ok || c.ToolCall.ToolCallID != id {
			return nil
		}
		t := c.ToolCall
		if !t.reduce(a) {
			return nil
		}
		asked, asks = c.ToolCall.asks(), t.asks()
		return &ToolCallPart{t, c.Unknown}
	})
	switch a.(type) {
	case *SessionToolCallDelta, *SessionToolCallContentChanged: // of these the status does not depend
		return n
	}
	// To look through all calls is only needed if this one has changed the answer.
	if n == old || asked == asks && n.Summary.Status.Activity()&StatusInProgress != 0 {
		return n
	}
	if status := n.derived(); status != n.Summary.Status {
		n.change(func(m *SessionSummary) { m.Status = status })
	}
	return n
}

// reduce changes t by a and reports whether t was in a state that a applies to.
// Each new state is built from the fields that the schema gives it.
func (t *ToolCall) reduce(a Action) bool {
	next := t.base()
	next.SelectedOption = t.SelectedOption
	switch a := a.(type) {
	case *SessionToolCallDelta:
		if t.Status != ToolStreaming {
			return false
		}
		t.PartialInput = t.PartialInput.Append(a.Content)
		if a.InvocationMessage != nil {
			t.InvocationMessage = a.InvocationMessage
		}
		return true
	case *SessionToolCallReady:
		if t.Status != ToolStreaming && t.Status != ToolRunning {
			return false
		}
		next.InvocationMessage, next.ToolInput, next.SelectedOption = &a.InvocationMessage, a.ToolInput, nil
		if a.Confirmed != "" {
			next.Status, next.Confirmed = ToolRunning, a.Confirmed
		} else {
			next.Status = ToolPendingConfirmation
			next.ConfirmationTitle, next.Edits, next.Editable, next.Options = a.ConfirmationTitle, a.Edits, a.Editable, a.Options
		}
	case *SessionToolCallConfirmed:
		if t.Status != ToolPendingConfirmation {
			return false
		}
		if a.SelectedOptionID != nil {
			if i := slices.IndexFunc(t.Options, func(o ConfirmationOption) bool { return o.ID == *a.SelectedOptionID }); i >= 0 {
				next.SelectedOption = &t.Options[i]
			}
		}
		if a.Approved {
			next.Status, next.Confirmed = ToolRunning, a.Confirmed
			if a.EditedToolInput != nil {
				next.ToolInput = a.EditedToolInput
			}
		} else {
			next.Status = ToolCancelled
			next.Reason, next.ReasonMessage, next.UserSuggestion = a.Reason, a.ReasonMessage, a.UserSuggestion
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
			next.Confirmed = t.Confirmed
		case ToolPendingConfirmation:
			next.Confirmed = ConfirmedNotNeeded
		default:
			return false
		}
		next.Status = ToolCompleted
		if Value(a.RequiresResultConfirmation) {
			next.Status = ToolPendingResult
		}
		r := &a.Result
		next.Success, next.PastTenseMessage, next.Content, next.StructuredContent, next.Error =
			&r.Success, &r.PastTenseMessage, r.Content, r.StructuredContent, r.Error
		next.Unknown = carried[ToolCall](t.Unknown, r.Unknown)
	case *SessionToolCallResultConfirmed:
		if t.Status != ToolPendingResult {
			return false
		}
		if a.Approved {
			t.Status = ToolCompleted
			return true
		}
		next.Status, next.Reason = ToolCancelled, CancelledResultDenied
	}
	*t = next
	return true
}

// base returns a call with what all of its states have.
func (t *ToolCall) base() ToolCall {
	return ToolCall{
		ToolCallID: t.ToolCallID, ToolName: t.ToolName, DisplayName: t.DisplayName,
		ToolClientID: t.ToolClientID, Meta: t.Meta,
		InvocationMessage: t.InvocationMessage, ToolInput: t.ToolInput, Unknown: t.Unknown,
	}
}

func (s *Session) endTurn(old *Session, id string, how TurnState, e *ErrorInfo, now int64) *Session {
	if !s.inTurn(id) {
		return old
	}
	t := s.ActiveTurn
	parts := t.ResponseParts.Slice()
	for i, p := range parts {
		c, ok := p.(*ToolCallPart)
		if !ok || !c.ToolCall.Open() {
			continue
		}
		skipped := c.ToolCall.base()
		skipped.Status, skipped.Reason = ToolCancelled, CancelledSkipped
		if skipped.InvocationMessage == nil {
			skipped.InvocationMessage = new(StringOrMarkdown)
		}
		parts[i] = &ToolCallPart{skipped, c.Unknown}
	}
	s.Turns = appended(s.Turns, &Turn{t.ID, t.Message, parts, t.Usage, how, e, carried[Turn](t.Unknown)})
	s.ActiveTurn, s.InputRequests = nil, nil
	s.change(func(m *SessionSummary) {
		m.Status, m.ModifiedAt = s.derived(), now
		if e != nil {
			m.Status = m.Status&^statusActivity | StatusError
		}
	})
	return s
}

// derived returns the status with its activity bits as the state says they are;
// the flags above them stay.
func (s *Session) derived() Status {
	activity := StatusIdle
	if s.ActiveTurn != nil {
		activity = StatusInProgress
		for _, p := range s.ActiveTurn.ResponseParts.All() {
			if c, ok := p.(*ToolCallPart); ok && c.ToolCall.asks() {
				activity = StatusInputNeeded
			}
		}
	}
	if len(s.InputRequests) > 0 {
		activity = StatusInputNeeded
	}
	return s.Summary.Status&^statusActivity | activity
}

func (s Status) with(flag Status, on bool) Status {
	if on {
		return s | flag
	}
	return s &^ flag
}

// merged returns the values after a configuration's change.
func merged[V any](values, changes map[string]V, replace bool) map[string]V {
	if replace {
		return changes
	}
	out := maps.Clone(values)
	for k, v := range changes {
		put(&out, k, v)
	}
	return out
}

func put[V any](m *map[string]V, k string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[k] = v
}

// appended, replaced and removed leave the list they are given as it is. An
// empty list that was there becomes nil, which is absent, in removed.
func appended[T any](list []T, x T) []T { return append(slices.Clip(list), x) }

func replaced[T any](list []T, i int, x T) []T {
	out := slices.Clone(list)
	out[i] = x
	return out
}

func removed[T any](list []T, i int) []T {
	if len(list) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}
