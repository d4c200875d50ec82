package demo

// The files that the script speaks of would compile and behave as it says: the
// outputs are what the tools print for them.

const (
	grepLine   = `grep -n 'order\.' cache/cache.go`
	grepOutput = `32:	return c.order.Len()
43:	c.order.MoveToFront(e)
51:	c.items[key] = c.order.PushFront(entry{key, value})
`

	testLine   = "go test ./cache/..."
	testOutput = `--- FAIL: TestBound (0.00s)
    cache_test.go:22: Len() = 1001, want 1000
FAIL
FAIL	example.com/shop/cache	0.002s
FAIL
`

	branchLine   = "git switch -c bound-cache"
	branchOutput = "Switched to a new branch 'bound-cache'\n"

	againLine   = "go test -run TestGet ./cache"
	againOutput = "ok  \texample.com/shop/cache\t0.002s\n"
)

// editedOutput is what an edited command prints. Nobody can know what it would
// have printed, so it says what was received.
func editedOutput(line string) string {
	return "The demo pretends to run this, as you edited it:\n" + line + "\n"
}

const patch = `--- a/cache/cache.go
+++ b/cache/cache.go
@@ -44,9 +44,18 @@ func (c *Cache) Get(key string) ([]byte, bool) {
 	return e.Value.(entry).value, true
 }
 
-// Put stores value under key.
+// Put stores value under key. A full cache drops the entry not used for longest.
 func (c *Cache) Put(key string, value []byte) {
 	c.mu.Lock()
 	defer c.mu.Unlock()
+	if e, ok := c.items[key]; ok {
+		e.Value = entry{key, value}
+		c.order.MoveToFront(e)
+		return
+	}
 	c.items[key] = c.order.PushFront(entry{key, value})
+	if c.order.Len() > c.max {
+		oldest := c.order.Remove(c.order.Back()).(entry)
+		delete(c.items, oldest.key)
+	}
 }
--- a/cache/cache_test.go
+++ b/cache/cache_test.go
@@ -22,3 +22,12 @@ func TestBound(t *testing.T) {
 		t.Errorf("Len() = %d, want 1000", n)
 	}
 }
+
+func TestPutReplaces(t *testing.T) {
+	c := New(2)
+	c.Put("a", []byte("1"))
+	c.Put("a", []byte("2"))
+	if v, _ := c.Get("a"); c.Len() != 1 || string(v) != "2" {
+		t.Errorf("%d entries, a = %q; want one, 2", c.Len(), v)
+	}
+}
`

// closing ends the summary of the first turn.
const closing = "The whole bound is these lines of `Put`:\n\n" +
	"```go\n" +
	`c.items[key] = c.order.PushFront(entry{key, value})
if c.order.Len() > c.max {
	oldest := c.order.Remove(c.order.Back()).(entry)
	delete(c.items, oldest.key)
}
` + "```\n\n" +
	"Both the map and the list lose the entry, so neither can grow alone. The list is the one of [container/list](https://pkg.go.dev/container/list): " +
	"moving an entry to its front and taking one off its back cost the same however long it is.\n"

// longText streams for about ten seconds, so that a person can watch text grow,
// scroll away from it, and stop it. What it says of nod must be true.
const longText = `### While this streams

This last part is long on purpose: about four hundred words, forty a second. Time to try three things.

**Scroll up.** The page follows the text only as long as you are at its end. As soon as you scroll away it stays where you read, and a link at the bottom takes you back to the newest line. A block that you have opened stays open.

**Stop it.** The button below ends this turn. What was written until then stays, and the page says that the turn was stopped. A real agent is asked in the same way, and only its own word ends the turn: until it has answered, nod shows that it is still at work.

**Leave and come back.** Close this tab and open it again. The page is whole at once and goes on from where the agent is now, not from where you left. Another browser that is logged in shows the same, and what you answer in one of them is seen in the other.

Now a word about what is kept. Every event of a session is written to disk before it is shown; only text that is still growing may be shown a moment earlier. Your decisions are recorded before they are sent. So after a crash nod knows what you approved, and where it cannot know whether an answer arrived, it says so instead of guessing.

And a word about what is asked. Requests stand in a place of their own, outside of the agent's text, so no agent can write something into its answer that looks like a button of nod. Each card is bound to the bytes that the agent sent. An answer that was given to other bytes is refused, and characters that cannot be seen are shown in red. A request that was answered elsewhere, or whose turn has ended, says what became of it and can no longer be answered.

Two of the answers that you saw reach further than one request. “Approve for this session” allows the same thing again without asking, and nod lets you look at it a second time before it is sent. “Deny and stop the turn” does what it says: the agent does not look for another way, it waits for your next message.

That is all there is to see here. Send another message to this session, or start one with a real agent, in a folder of your own, with something that you would like to have done.
`
