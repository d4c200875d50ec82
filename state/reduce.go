package state

import "slices"

// ReduceRoot returns the state that follows r by a, and r itself for an action
// that changes nothing.
func ReduceRoot(r *Root, a Action) *Root {
	n := *r
	switch a := a.(type) {
	case *RootAgentsChanged:
		n.Agents = a.Agents
	case *RootActiveSessionsChanged:
		n.ActiveSessions = &a.ActiveSessions
	case *RootTerminalsChanged:
		n.Terminals = a.Terminals
	case *RootConfigChanged:
		if r.Config == nil {
			return r
		}
		c := *r.Config
		c.Values = merged(c.Values, a.Config, Value(a.Replace))
		n.Config = &c
	default:
		return r
	}
	return &n
}

// ReduceTerminal returns the state that follows t by a, and t itself for an
// action that changes nothing.
func ReduceTerminal(t *Terminal, a Action) *Terminal {
	n := *t
	switch a := a.(type) {
	case *TerminalData:
		n.Content = withOutput(t.Content, a.Data)
	case *TerminalResized:
		n.Cols, n.Rows = &a.Cols, &a.Rows
	case *TerminalClaimed:
		n.Claim = a.Claim
	case *TerminalTitleChanged:
		n.Title = a.Title
	case *TerminalCwdChanged:
		n.Cwd = &a.Cwd
	case *TerminalExited:
		n.ExitCode = a.ExitCode
	case *TerminalCleared:
		n.Content = []TerminalPart{}
	case *TerminalCommandDetectionAvailable:
		n.SupportsCommandDetection = new(true)
	case *TerminalCommandExecuted:
		n.SupportsCommandDetection = new(true)
		n.Content = appended(t.Content, TerminalPart(&CommandPart{
			CommandID: a.CommandID, CommandLine: a.CommandLine, Timestamp: a.Timestamp,
		}))
	case *TerminalCommandFinished:
		n.Content = slices.Clone(t.Content)
		for i, p := range n.Content {
			if c, ok := p.(*CommandPart); ok && c.CommandID == a.CommandID {
				done := *c
				done.IsComplete, done.ExitCode, done.DurationMs = true, a.ExitCode, a.DurationMs
				n.Content[i] = &done
			}
		}
	default:
		return t
	}
	return &n
}

// withOutput adds output to the tail: an open command's, else an unclassified
// part's, else a new part's.
func withOutput(parts []TerminalPart, data string) []TerminalPart {
	if last := len(parts) - 1; last >= 0 {
		switch p := parts[last].(type) {
		case *CommandPart:
			if !p.IsComplete {
				grown := *p
				grown.Output = p.Output.Append(data)
				return replaced(parts, last, TerminalPart(&grown))
			}
		case *UnclassifiedPart:
			return replaced(parts, last, TerminalPart(&UnclassifiedPart{p.Value.Append(data), p.Unknown}))
		}
	}
	return appended(parts, TerminalPart(&UnclassifiedPart{Value: NewText(data)}))
}

// ReduceChangeset returns the state that follows c by a, and c itself for an
// action that changes nothing.
func ReduceChangeset(c *Changeset, a Action) *Changeset {
	n := *c
	switch a := a.(type) {
	case *ChangesetStatusChanged:
		n.Status, n.Error = a.Status, nil
		if a.Status == ChangesetError {
			n.Error = a.Error
		}
	case *ChangesetFileSet:
		if i := c.file(a.File.ID); i >= 0 {
			n.Files = replaced(c.Files, i, a.File)
		} else {
			n.Files = appended(c.Files, a.File)
		}
	case *ChangesetFileRemoved:
		i := c.file(a.FileID)
		if i < 0 {
			return c
		}
		n.Files = slices.Delete(slices.Clone(c.Files), i, i+1)
	case *ChangesetOperationsChanged:
		n.Operations = a.Operations
	case *ChangesetOperationStatusChanged:
		i := slices.IndexFunc(c.Operations, func(o ChangesetOperation) bool { return o.ID == a.OperationID })
		if i < 0 {
			return c
		}
		o := c.Operations[i]
		o.Status, o.Error = a.Status, nil
		if a.Status == OperationError {
			o.Error = a.Error
		}
		n.Operations = replaced(c.Operations, i, o)
	case *ChangesetCleared:
		n.Files = []ChangesetFile{}
	default:
		return c
	}
	return &n
}

func (c *Changeset) file(id string) int {
	return slices.IndexFunc(c.Files, func(f ChangesetFile) bool { return f.ID == id })
}

// ReduceResourceWatch returns w: changes pass through a watch, which keeps none.
func ReduceResourceWatch(w *ResourceWatch, _ Action) *ResourceWatch { return w }
