package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nod/agentconn"
	"nod/state"
	"nod/state/hub"
	"nod/state/journal"
)

// answerer is a Codex that answers as a test says.
type answerer struct {
	version string
	out     chan string
	answers map[string]func(params map[string]any) (result string, more []string) // by method; an absent one refuses, "" answers later

	mu    sync.Mutex
	calls []string // method and parameters
	held  []string // ids of calls that wait for an answer
}

func (s *answerer) read(ctx context.Context) ([]byte, *agentconn.Outline, error) {
	select {
	case line := <-s.out:
		return []byte(line), nil, nil
	case <-ctx.Done():
		return nil, nil, io.EOF
	}
}

func (s *answerer) write(_ context.Context, msg []byte) error {
	var m struct {
		ID     json.RawMessage
		Method string
		Params map[string]any
	}
	if err := json.Unmarshal(msg, &m); err != nil || m.ID == nil {
		return err
	}
	params, _ := json.Marshal(m.Params)
	s.mu.Lock()
	s.calls = append(s.calls, m.Method+" "+string(params))
	s.mu.Unlock()
	var more []string
	result := `{}`
	switch answer := s.answers[m.Method]; {
	case answer != nil:
		result, more = answer(m.Params)
	case m.Method == "initialize":
		result = fmt.Sprintf(`{"userAgent":"nod/%s (x)"}`, s.version)
	case m.Method == "thread/loaded/list":
		result = `{"data":[]}`
	default:
		s.out <- fmt.Sprintf(`{"id":%s,"error":{"code":-32600,"message":"not in this play: %s"}}`, m.ID, m.Method)
		return nil
	}
	if result == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = append(s.held, string(m.ID))
		return nil
	}
	s.out <- fmt.Sprintf(`{"id":%s,"result":%s}`, m.ID, result)
	for _, line := range more {
		s.out <- line
	}
	return nil
}

func (s *answerer) end() (error, string) { return nil, "" }

// said returns the parameters of the calls of a method.
func (s *answerer) said(method string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if params, is := strings.CutPrefix(c, method+" "); is {
			out = append(out, params)
		}
	}
	return out
}

// linked is a real hub with a link to a server.
type linked struct {
	*answerer
	t    *testing.T
	hub  *hub.Hub
	conn *conn
}

// Dispatch and the others make it the hub's upstream.
func (l *linked) Dispatch(ctx context.Context, _ string, s *state.Session, a state.Action) error {
	return l.conn.Dispatch(ctx, s, a)
}
func (l *linked) CreateSession(ctx context.Context, n state.NewSession) (string, error) {
	return l.conn.CreateSession(ctx, n)
}
func (l *linked) Operate(ctx context.Context, _ string, s *state.Session, operation string, args map[string]string) (string, error) {
	return l.conn.Operate(ctx, s, operation, args)
}
func (l *linked) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	return l.conn.Answer(ctx, r, d)
}

type answers map[string]func(map[string]any) (string, []string)

func link(t *testing.T, version string, a answers) *linked {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	l := &linked{answerer: &answerer{version: version, out: make(chan string, 100), answers: a}, t: t, hub: h}
	l.conn = newConn(place{Provider, Provider, displayName, Config{Log: log}}, h, func(context.Context, *conn) (dialled, error) {
		return dialled{wire: l.answerer, epoch: "e"}, nil
	})
	h.SetUpstream(l, []state.Link{{Key: Provider, Provider: Provider, DisplayName: "Codex", Status: state.LinkUp, Epoch: "e"}})
	ready, ended := make(chan agentconn.Found, 1), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = l.conn.Run(ctx, func(f agentconn.Found) { ready <- f }) // it ends with the test
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-ready
	return l
}

func (l *linked) state(id string) *state.Session {
	l.t.Helper()
	v, err := l.hub.Session(id)
	if err != nil {
		l.t.Fatal(err)
	}
	return v.State
}

func say(result string, more ...string) func(map[string]any) (string, []string) {
	return func(map[string]any) (string, []string) { return result, more }
}

const startedThread = `{"thread":{"id":"th","cwd":"/w"},"model":"m1","reasoningEffort":"low","approvalPolicy":"never","sandbox":{"type":"readOnly"}}`

// TestSettingsTravel to Codex in its own words, and what it says is in force is
// shown.
func TestSettingsTravel(t *testing.T) {
	l := link(t, "0.171.0", answers{"thread/start": say(startedThread), "turn/start": say(`{"turn":{"id":"tu"}}`)})
	id, err := l.hub.Create(t.Context(), state.NewSession{Provider: Provider, Folder: "/w", Config: map[string]string{"model": "m1", "effort": "low", "sandbox": "read-only"}}, "go")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"approvalPolicy":"untrusted","config":{"model_reasoning_effort":"low"},"cwd":"/w","model":"m1","sandbox":"read-only"}`
	if got := l.said("thread/start"); len(got) != 1 || got[0] != want {
		t.Errorf("asked for %q, want %s", got, want)
	}
	got := configOf(l.state(id))
	for name, v := range map[string]string{"model": "m1", "effort": "low", "sandbox": "read-only", "approvalPolicy": "never"} {
		if got[name] != v {
			t.Errorf("%s is shown as %q, want %q", name, got[name], v)
		}
	}
	if m := l.state(id).Summary.Model; m == nil || m.ID != "m1" {
		t.Errorf("model %+v", m)
	}
}

// TestMessageChangesEffort for itself and those after it.
func TestMessageChangesEffort(t *testing.T) {
	l := link(t, "0.171.0", answers{"thread/start": say(startedThread), "turn/start": say(`{"turn":{"id":"tu"}}`, `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"completed"}}}`)})
	id, err := l.hub.Create(t.Context(), state.NewSession{Provider: Provider, Folder: "/w"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	l.until("the end", func() bool { return l.state(id).ActiveTurn == nil })
	l.answers["turn/start"] = say(`{"turn":{"id":"tu2"}}`)
	m := state.UserMessage("harder")
	m.Meta = state.Meta{state.MessageConfig: []byte(`{"effort":"high","sandbox":"danger-full-access"}`)}
	if err := l.hub.Send(t.Context(), id, m); err != nil {
		t.Fatal(err)
	}
	got := l.said("turn/start")
	if len(got) != 2 || strings.Contains(got[0], "effort") || !strings.Contains(got[1], `"effort":"high"`) || strings.Contains(got[1], "danger") {
		t.Errorf("sent %q", got)
	}
	if c := configOf(l.state(id)); c["effort"] != "high" || c["sandbox"] != "read-only" {
		t.Errorf("in force: %v", c)
	}
}

func (l *linked) until(what string, is func() bool) {
	l.t.Helper()
	woken, done := l.hub.Watch("th")
	defer done()
	for !is() {
		select {
		case <-woken:
		case <-l.t.Context().Done():
			l.t.Fatalf("waiting for: %s", what)
		}
	}
}

const taken = `{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":{"type":"userMessage","id":"u-%s","content":[{"type":"text","text":"%s"}]}}}`

// TestSteering waits in the session until Codex tells of it, and is refused with
// the turn that it was for.
func TestSteering(t *testing.T) {
	l := link(t, "0.171.0", answers{"thread/start": say(startedThread), "turn/start": say(`{"turn":{"id":"tu"}}`), "turn/steer": say(`{"turnId":"tu"}`)})
	id, err := l.hub.Create(t.Context(), state.NewSession{Provider: Provider, Folder: "/w"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.hub.Steer(t.Context(), id, state.UserMessage("mind the gap")); err != nil {
		t.Fatal(err)
	}
	if got := l.said("turn/steer"); len(got) != 1 || !strings.Contains(got[0], `"expectedTurnId":"tu"`) || !strings.Contains(got[0], `"mind the gap"`) {
		t.Errorf("sent %q", got)
	}
	if err := l.hub.Steer(t.Context(), id, state.UserMessage("and the train")); err != nil {
		t.Fatal(err)
	}
	if m := l.state(id).SteeringMessage; m == nil || m.Message.Text != "mind the gap\n\nand the train" {
		t.Errorf("waiting: %+v", m)
	}
	l.out <- strings.ReplaceAll(taken, "%s", "mind the gap")
	l.until("the first to be taken", func() bool { return l.state(id).SteeringMessage.Message.Text == "and the train" })
	l.out <- strings.ReplaceAll(taken, "%s", "and the train")
	l.until("it to be taken", func() bool { return l.state(id).SteeringMessage == nil })
	delete(l.answers, "turn/steer")
	if err := l.hub.Steer(t.Context(), id, state.UserMessage("again")); err == nil || !strings.Contains(agentconn.Sentence(err), "did not take it into the turn") {
		t.Errorf("refused: %v", err)
	}
	if m := l.state(id).SteeringMessage; m != nil {
		t.Errorf("what was refused waits: %+v", m)
	}
}

// TestOlderOneAtATime: a second list is asked for when the first has come.
func TestOlderOneAtATime(t *testing.T) {
	l := link(t, "0.171.0", answers{"thread/list": say("")})
	const lists = 4
	var all sync.WaitGroup
	for range lists {
		all.Go(func() {
			if _, err := l.conn.Older(t.Context(), "", ""); err != nil {
				t.Error(err)
			}
		})
	}
	for n := range lists {
		var held string
		for held == "" {
			time.Sleep(time.Millisecond)
			l.mu.Lock()
			if len(l.held) > n {
				held = l.held[n]
			}
			if len(l.held) > n+1 {
				t.Errorf("%d lists at once", len(l.held)-n)
			}
			l.mu.Unlock()
		}
		l.out <- `{"id":` + held + `,"result":{"data":[]}}`
	}
	all.Wait()
}

// TestOlder leaves helpers out, and cuts previews.
func TestOlder(t *testing.T) {
	long, _ := json.Marshal(strings.Repeat("long ", 100_000) + "\nmore")
	l := link(t, "0.171.0", answers{"thread/list": say(fmt.Sprintf(`{"data":[{"id":"a","preview":%s,"cwd":"/w","updatedAt":7},{"id":"b","ephemeral":true},{"id":"c","parentThreadId":"a"},{"id":"d","source":{"subAgent":"review"}},{"id":"e","name":"n","source":"cli"}],"nextCursor":"next"}`, long))})
	page, err := l.conn.Older(t.Context(), "words", "here")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, o := range page.Sessions {
		ids = append(ids, o.URI)
		if len(o.Title) > 4*state.MaxTitle {
			t.Errorf("a title of %d bytes", len(o.Title))
		}
	}
	if !slices.Equal(ids, []string{uriScheme + "a", uriScheme + "e"}) || page.Next != "next" {
		t.Errorf("%v, %q", ids, page.Next)
	}
	if got := l.said("thread/list"); len(got) != 1 || got[0] != `{"cursor":"here","limit":20,"searchTerm":"words","sortKey":"updated_at"}` {
		t.Errorf("asked %q", got)
	}
}

// TestRecallReadsAndDoesNotResume: both versions, in their ways.
func TestRecallReadsAndDoesNotResume(t *testing.T) {
	const turn = `{"id":"t1","status":"completed","items":[{"type":"userMessage","id":"u","content":[{"type":"text","text":"go"}]},{"type":"agentMessage","id":"%s","text":"an answer"}]}`
	const running = `{"id":"t2","status":"inProgress","items":[]}`
	for version, a := range map[string]answers{
		"0.171.0": {
			"thread/read":       say(`{"thread":{"id":"th","cwd":"/w","preview":"go"}}`),
			"thread/turns/list": say(`{"data":[` + running + `,` + fmt.Sprintf(turn, "m") + `]}`),
		},
		"0.122.0": {"thread/read": say(`{"thread":{"id":"th","cwd":"/w","preview":"go","turns":[` + fmt.Sprintf(turn, "item-1") + `,` + running + `]}}`)},
	} {
		l := link(t, version, a)
		for range 2 { // the second time nothing comes twice
			if err := l.conn.Recall(t.Context(), uriScheme+"th"); err != nil {
				t.Fatal(version, err)
			}
		}
		st := l.state("th")
		if len(st.Turns) != 1 || st.ActiveTurn != nil || len(st.Turns[0].ResponseParts) != 1 || st.Turns[0].Message.Text != "go" || st.Summary.Title != "go" {
			t.Errorf("%s: %+v", version, st)
		}
		if got := l.said("thread/resume"); len(got) > 0 {
			t.Errorf("%s: resumed %q", version, got)
		}
	}
}

// TestGhostsOfAReview: where the history has other turns than nod saw, what nod saw
// stands, and what came later is added.
func TestGhostsOfAReview(t *testing.T) {
	l := link(t, "0.122.0", answers{
		"thread/start": say(startedThread), "turn/start": say(`{"turn":{"id":"mine"}}`, `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"mine","status":"completed"}}}`),
		"thread/resume": say(`{"thread":{"id":"th","cwd":"/w","turns":[{"id":"ghost","status":"completed","startedAt":5,"items":[]},{"id":"later","status":"completed","startedAt":9999999999,"items":[]}]}}`),
	})
	id, err := l.hub.Create(t.Context(), state.NewSession{Provider: Provider, Folder: "/w"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	l.until("the end", func() bool { return l.state(id).ActiveTurn == nil })
	l.out <- `{"method":"thread/closed","params":{"threadId":"th"}}`
	for l.conn.isLive("th") {
		time.Sleep(time.Millisecond)
	}
	if err := l.conn.attach(t.Context(), "th"); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, turn := range l.state(id).Turns {
		ids = append(ids, turn.ID)
	}
	if got := strings.Join(ids, " "); got != "mine later" {
		t.Errorf("turns %s", got)
	}
}

// TestForkOfAVersion says up to where only where that is understood.
func TestForkOfAVersion(t *testing.T) {
	for version, want := range map[string]string{"0.171.0": `{"excludeTurns":true,"lastTurnId":"t1","threadId":"th"}`, "0.122.0": `{"threadId":"th"}`} {
		l := link(t, version, answers{
			"thread/start": say(startedThread), "turn/start": say(`{"turn":{"id":"t1"}}`, `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"t1","status":"completed"}}}`),
			"thread/fork": say(`{"thread":{"id":"fo","cwd":"/w"}}`), "thread/name/set": say(`{}`), "thread/resume": say(`{"thread":{"id":"fo","name":"go (fork)","cwd":"/w"},"model":"m1"}`),
		})
		id, err := l.hub.Create(t.Context(), state.NewSession{Provider: Provider, Folder: "/w"}, "go")
		if err != nil {
			t.Fatal(err)
		}
		l.until("the end", func() bool { return l.state(id).ActiveTurn == nil })
		other, err := l.hub.Operate(t.Context(), id, opFork, map[string]string{forkTurn: "t1"})
		if err != nil || other != "fo" {
			t.Fatalf("%s: %q, %v", version, other, err)
		}
		if got := l.said("thread/fork"); len(got) != 1 || got[0] != want {
			t.Errorf("%s: asked %q, want %s", version, got, want)
		}
		if got := l.state("fo").Summary.Title; got != "go (fork)" {
			t.Errorf("%s: title %q", version, got)
		}
	}
}

// TestReviewTargets are those of Codex, and each says which one.
func TestReviewTargets(t *testing.T) {
	for of, want := range map[string]string{
		"uncommittedChanges": `{"type":"uncommittedChanges"}`, "baseBranch": `{"branch":"x","type":"baseBranch"}`,
		"commit": `{"sha":"x","type":"commit"}`, "custom": `{"instructions":"x","type":"custom"}`,
	} {
		target, words, err := reviewTarget(map[string]string{reviewOf: of, reviewWhat: " x "})
		got, _ := json.Marshal(target)
		if err != nil || string(got) != want || !strings.HasPrefix(words, "Review: ") {
			t.Errorf("%s: %s, %q, %v", of, got, words, err)
		}
		if _, _, err := reviewTarget(map[string]string{reviewOf: of}); (err == nil) != (of == "uncommittedChanges") {
			t.Errorf("%s of nothing: %v", of, err)
		}
	}
	if _, _, err := reviewTarget(map[string]string{reviewOf: "all"}); err == nil {
		t.Error("a review of what nobody knows")
	}
}

// TestApprovalWordsOfAVersion: 0.171 refuses on-failure.
func TestApprovalWordsOfAVersion(t *testing.T) {
	for v, want := range map[version]string{{numbers: [3]int{0, 122, 0}}: "untrusted on-failure on-request never", {numbers: [3]int{0, 171, 0}}: "untrusted on-request never"} {
		var words []string
		for _, s := range v.settings(nil) {
			for _, c := range s.Choices {
				if s.Name == settingApproval {
					words = append(words, c.Value)
				}
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// TestJoinCommands are words that a shell takes as they are meant.
func TestJoinCommands(t *testing.T) {
	for address, want := range map[string]string{
		"unix:///run/a.sock":   "codex resume --remote unix:///run/a.sock",
		"unix:///my data/it's": `codex resume --remote 'unix:///my data/it'\''s'`,
		"ws://127.0.0.1:4500":  "codex resume --remote ws://127.0.0.1:4500",
	} {
		if got := joins(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
