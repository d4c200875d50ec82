package share

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"nod/state"
	"nod/state/schematest"
	"nod/state/snapshot"
)

// twoTurns has everything that a guest may see, and in every id a word that none may.
func twoTurns() snapshot.Session {
	command := call(state.ToolCompleted, "go test ./...").ToolCall
	command.ToolCallID, command.Success, command.PastTenseMessage = "home-call", new(true), new(state.Plain("ran it"))
	command.Confirmed = state.ConfirmedNotNeeded
	command.Content = []state.ToolResultContent{state.TerminalContent("ahp-terminal:/home-session/1", "Output"), state.TextContent("ok \xff\u2028\n\x1b[1m")}
	again := command
	again.Content = command.Content[:1]
	s := session(prose("still at it"), &state.ToolCallPart{ToolCall: again})
	s.Cut = 4
	s.State.ActiveTurn.ID = "home-turn"
	s.State.Meta = state.Meta{"nod.plan": []byte(`[{"step":"Test","status":"completed"}]`)}
	s.State.Turns = []*state.Turn{{
		ID: "home-turn-1", Message: state.UserMessage("Do \"it\".\n"), State: state.TurnError, Error: &state.ErrorInfo{ErrorType: "x", Message: "lost"},
		Usage: &state.UsageInfo{InputTokens: new(int64(5)), Meta: state.Meta{"nod.durationMs": []byte("12")}},
		ResponseParts: []state.ResponsePart{
			&state.MarkdownPart{ID: "home-old", Content: state.NewText("first words")},
			&state.NotificationPart{Content: state.Plain("?"), Meta: state.Meta{"nod.raw": []byte(`"home"`)}},
			&state.ReasoningPart{ID: "home-thought", Content: state.NewText("hm"), Meta: state.Meta{"nod.thoughts": []byte(`"raw"`)}},
			&state.MarkdownPart{ID: "home-new", Content: state.NewText("first words, and last"), Meta: state.Meta{"nod.supersedes": []byte(`"home-old"`)}},
			&state.ToolCallPart{ToolCall: command},
			&state.NotificationPart{Content: state.StringOrMarkdown{Text: "*note*", Markdown: true}},
		},
	}}
	s.Terminals = s.Terminals.With("ahp-terminal:/home-session/1", &state.Terminal{Claim: state.TerminalClaim{Kind: "session"}, Content: []state.TerminalPart{
		&state.UnclassifiedPart{Value: state.NewText("$ ")},
		&state.CommandPart{CommandID: "home-command", CommandLine: "go test", Output: state.NewText("ok\n"), IsComplete: true, ExitCode: new(int64(0))},
	}})
	v, _, _ := New(all, ada).Take(s, time.Unix(0, 0))
	return v
}

// TestLines: each line is read again as what it was, and together they are the picture.
func TestLines(t *testing.T) {
	v := twoTurns()
	var b bytes.Buffer
	if err := Lines(&b, v, true, 7); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "home") {
		t.Errorf("an id of the session is in\n%s", b.String())
	}
	first, rest, _ := strings.Cut(b.String(), "\n")
	var head headLine
	if err := state.Unmarshal([]byte(first), &head); err != nil {
		t.Fatal(err)
	}
	if head.Form != "nod-share/1" || !head.Live || head.At != 7 || head.Summary.Title != "A title" || head.Summary.Provider != "demo" {
		t.Errorf("the first line is %s", first)
	}
	schema := schematest.Pinned(t)
	read := &state.Session{Summary: head.Summary, Lifecycle: state.LifecycleReady, Meta: head.Meta}
	var terminals snapshot.Terminals
	var open *state.Turn
	for text := range strings.Lines(rest) {
		var x turnLine
		if err := state.Unmarshal([]byte(text), &x); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if again, err := state.Marshal(x); err != nil || string(again)+"\n" != text {
			t.Errorf("%s is read as %s", text, again)
		}
		switch {
		case x.Message != nil:
			open = &state.Turn{Message: *x.Message}
			read.Turns = append(read.Turns, open)
		case x.Terminal != nil:
			terminals = terminals.With(x.Terminal.Resource, x.Terminal.State)
		case x.Part != nil:
			open.ResponseParts = append(open.ResponseParts, x.Part)
		case x.End != nil:
			open.State, open.Usage, open.Error = x.End.State, x.End.Usage, x.End.Error
			open = nil
		default:
			t.Errorf("a line of nothing: %s", text)
		}
		if x.Turn != 4+len(read.Turns) {
			t.Errorf("turn %d after %d", x.Turn, len(read.Turns))
		}
	}
	last := read.Turns[1]
	read.Turns = read.Turns[:1]
	read.ActiveTurn = &state.ActiveTurn{Message: last.Message, ResponseParts: state.PartsOf(last.ResponseParts...)}

	want := *v.State
	turn, now := *want.Turns[0], *want.ActiveTurn
	turn.ID, now.ID = "", ""
	turn.ResponseParts = slices.DeleteFunc(slices.Clone(turn.ResponseParts), func(x state.ResponsePart) bool { return x == leftOut })[1:]
	want.Turns, want.ActiveTurn = []*state.Turn{&turn}, &now
	ids := strings.NewReplacer(
		"home-thought", "5.3", "home-new", "5.4", `"home-call"`, `"5.5"`, `,"_meta":{"nod.supersedes":"home-old"}`, "",
		"ahp-terminal:/home-session/1", "ahp-terminal:/shared/1", `"id":"m"`, `"id":"6.1"`,
	)
	if got, want := written(t, read), ids.Replace(written(t, &want)); strings.Replace(got, `"6.2"`, `"5.5"`, 1) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	terminal := written(t, v.Terminals.Get("ahp-terminal:/home-session/1"))
	if got, want := written(t, terminals.Get("ahp-terminal:/shared/1")), strings.Replace(terminal, "home-command", "2", 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if schema != nil {
		if err := schema.Validate("SessionState", []byte(written(t, read))); err != nil {
			t.Error(err)
		}
	}
}

func written(t *testing.T, x any) string {
	t.Helper()
	raw, err := state.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestLinesOfThawed: a picture that was kept gives the same lines.
func TestLinesOfThawed(t *testing.T) {
	v := twoTurns()
	raw, err := Freeze(v)
	if err != nil {
		t.Fatal(err)
	}
	thawed, err := Thaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := errors.Join(Lines(&a, v, false, 7), Lines(&b, thawed, false, 7)); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Errorf("got\n%s\nwant\n%s", b.String(), a.String())
	}
}

// TestLinesEndWithTheirWriter: a reader that has gone ends them.
func TestLinesEndWithTheirWriter(t *testing.T) {
	if err := Lines(gone{}, twoTurns(), false, 0); err == nil {
		t.Error("no error")
	}
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("the reader has gone") }
