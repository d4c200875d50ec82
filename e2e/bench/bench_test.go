package main

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{{nil, 0.5, 0}, {[]float64{7}, 0.99, 7}, {[]float64{3, 1, 2}, 0.5, 2}, {hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("%v of %d values: %v, want %v", c.q, len(c.values), got, c.want)
		}
	}
}

func TestLastMark(t *testing.T) {
	one, two := time.Unix(1760000000, 1), time.Unix(1760000000, 2)
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"none", "text", 0},
		{"the last of two", mark(one) + " " + mark(two) + "</p>", two.UnixNano()},
		{"one that is cut", mark(one) + " " + mark(two)[:markLen-1], one.UnixNano()},
		{"only a cut one", mark(one)[:markLen-1], 0},
		{"no number", mark(one) + " mark-nnnnnnnnnnnnnnnnnnn", one.UnixNano()},
	} {
		if got := lastMark([]byte(c.text)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	text := answer(4000)
	if len(text) != 4000*tokenSize {
		t.Errorf("%d bytes", len(text))
	}
	if text != answer(4000) || text[:400*tokenSize] != answer(400) {
		t.Error("it is not always the same")
	}
	for _, part := range []string{"\n## ", "\n- ", "\n```go\n", "\n| ", "**", "`"} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q", part)
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > 126 }) {
		t.Error("it is not ASCII, so a token may end within a character")
	}
}

func TestMarked(t *testing.T) {
	for i, size := range []int{0, 60, 32 << 10} {
		text := marked(i, size)
		if !strings.HasPrefix(text, markLabel) || lastMark([]byte(text)) == 0 || len(text) < size {
			t.Errorf("%d bytes: %.60s", size, text)
		}
	}
}

// TestViewer: whatever pieces a stream comes in, a frame counts once, and is as
// old as its newest marker when it is whole.
func TestViewer(t *testing.T) {
	old := mark(time.Now().Add(-time.Hour))
	fresh := mark(time.Now().Add(-time.Minute))
	stream := "18\r\nid: 1\nevent: parts\ndata: <p>" + old + " " + fresh + "</p>\n\n\r\n"
	for cut := range len(stream) {
		ours, theirs := net.Pipe()
		v := &viewer{conn: ours}
		var counting atomic.Bool
		counting.Store(true)
		var reading sync.WaitGroup
		reading.Go(func() { v.read(&counting) })
		for _, piece := range []string{stream[:cut], stream[cut:]} {
			if _, err := theirs.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		_ = theirs.Close()
		reading.Wait()
		if v.frames != 1 || v.bytes != len(stream) || len(v.ages) == 0 || quantile(v.ages, 1) < 60_000 || v.ages[len(v.ages)-1] > 120_000 || !v.lost {
			t.Fatalf("cut at %d: %+v", cut, v)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	printTable(&b, []row{
		figure("age", 12.345, "ms").atMost(60).noted("peer: 15"),
		figure("bytes", 150, "kB").below(150),
		figure("shown", 1000, "").atLeast(1000),
		figure("deliveries", 18234.5, "/s"),
		{Name: "stalled", Error: "nod\nhas ended"},
	})
	const want = `figure      value     target
age         12.3 ms   <= 60    ok      peer: 15
bytes       150 kB    < 150    MISSED
shown       1000      >= 1000  ok
deliveries  18234 /s
stalled     -                  ERROR   nod has ended
`
	got := ""
	for l := range strings.Lines(b.String()) {
		got += strings.TrimRight(l, " \n") + "\n"
	}
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestTokenFrames(t *testing.T) {
	frames := tokenFrames("7")
	total := 0
	for i, f := range frames {
		total += len(f)
		if !strings.HasSuffix(f, "\n\n") || strings.Contains(f, lastToken) != (i == len(frames)-1) {
			t.Fatalf("frame %d: %s", i, f)
		}
	}
	if total < 2_000_000 || total > 4_000_000 {
		t.Errorf("%d bytes in all", total)
	}
}
