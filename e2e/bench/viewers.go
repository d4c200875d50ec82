package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// viewersPerLogin is how many event streams share one device's cookie: nod may
// answer more than these in another way.
const viewersPerLogin = 4

// audience is what a crowd of viewers is told, as a line of JSON.
type audience struct {
	Addr    string   `json:"addr"`
	Path    string   `json:"path"`    // of the event stream
	Cookies []string `json:"cookies"` // one for each viewersPerLogin viewers
	Viewers int      `json:"viewers"`
	Gzip    bool     `json:"gzip"`  // ask for it
	Stall   bool     `json:"stall"` // read nothing after the headers
	Guests  bool     `json:"-"`     // of a share of the session
}

// heard is what a crowd tells in the end, of the time since its start.
type heard struct {
	Frames int     `json:"frames"`
	Bytes  int     `json:"bytes"` // on the wire, without TCP's own
	P50    float64 `json:"p50"`   // age in ms of the newest marker in a frame
	P99    float64 `json:"p99"`
	Gzip   bool    `json:"gzip"` // the answer was compressed
	Lost   int     `json:"lost"` // streams that nod has ended
}

// ---- the bench's side ----

// crowd is a process of viewers that are all connected.
type crowd struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	before float64 // nod's memory in KiB, when they had logged in and not come yet
}

// gather connects viewers to a session.
func (n *nod) gather(id string, a audience) (*crowd, error) {
	a.Addr = n.addr
	path, guest := "/s/"+id, ""
	var err error
	logins := (a.Viewers + viewersPerLogin - 1) / viewersPerLogin
	if a.Guests {
		path, guest, err = n.share(id)
		a.Cookies = slices.Repeat([]string{guest}, logins)
	} else {
		a.Cookies, err = n.logins(logins)
	}
	if err != nil {
		return nil, err
	}
	if a.Path, err = n.live(path, cmp.Or(guest, n.cookie)); err != nil {
		return nil, err
	}
	c := &crowd{cmd: exec.CommandContext(n.bench.ctx, n.bench.self, "viewers")}
	if c.before, err = n.rss(); err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	c.cmd.Stderr = &stderr
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	err = json.NewEncoder(in).Encode(a)
	if err == nil {
		_, err = c.out.ReadString('\n') // all are there
	}
	if err != nil {
		c.leave()
		return nil, fmt.Errorf("the viewers: %w\n%s", err, stderr.String())
	}
	return c, nil
}

// listen makes the viewers begin to count.
func (c *crowd) listen() error {
	_, err := io.WriteString(c.in, "listen\n")
	return err
}

// tell ends the crowd and returns what it heard.
func (c *crowd) tell() (h heard, err error) {
	if _, err := io.WriteString(c.in, "tell\n"); err != nil {
		return h, err
	}
	err = json.NewDecoder(c.out).Decode(&h)
	return h, err
}

// leave ends the process, whatever it does.
func (c *crowd) leave() {
	_ = c.in.Close()
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

// ---- the viewers' side ----

// runViewers is the process. It ends with its input, so with the bench.
func runViewers(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var a audience
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		return err
	}
	all, err := connect(a)
	if err != nil {
		return err
	}
	var counting atomic.Bool
	var reading sync.WaitGroup
	for _, v := range all {
		if !a.Stall {
			reading.Go(func() { v.read(&counting) })
		}
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	for {
		switch line, err := lines.ReadString('\n'); {
		case err != nil:
			return nil
		case line == "listen\n":
			counting.Store(true)
		case line == "tell\n":
			h := heard{}
			for _, v := range all {
				_ = v.conn.Close() // ends its reader
			}
			reading.Wait()
			sum(&h, all)
			return json.NewEncoder(out).Encode(h)
		}
	}
}

// connect opens all streams, some at a time.
func connect(a audience) ([]*viewer, error) {
	all, errs := make([]*viewer, a.Viewers), make([]error, a.Viewers)
	var busy sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range all {
		slots <- struct{}{}
		busy.Go(func() {
			all[i], errs[i] = open(a, a.Cookies[i/viewersPerLogin])
			<-slots
		})
	}
	busy.Wait()
	return all, errors.Join(errs...)
}

func sum(h *heard, all []*viewer) {
	var ages []float64
	for _, v := range all {
		h.Frames += v.frames
		h.Bytes += v.bytes
		h.Gzip = v.gzip
		if v.lost {
			h.Lost++
		}
		ages = append(ages, v.ages...)
	}
	h.P50, h.P99 = quantile(ages, 0.50), quantile(ages, 0.99)
}

// viewer is one event stream. It speaks HTTP by hand: thousands of them share
// two cores with what they measure.
type viewer struct {
	conn   net.Conn
	gzip   bool
	newest int64 // marker
	frames int
	bytes  int
	ages   []float64 // ms
	lost   bool
}

// open asks for the stream and reads the headers of the answer.
func open(a audience, cookie string) (*viewer, error) {
	conn, err := net.DialTimeout("tcp", a.Addr, patience)
	if err != nil {
		return nil, err
	}
	encoding := ""
	if a.Gzip {
		encoding = "Accept-Encoding: gzip\r\n"
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nAccept: text/event-stream\r\nSec-Fetch-Site: same-origin\r\n%s\r\n", a.Path, a.Addr, cookie, encoding)
	if err != nil {
		return nil, err
	}
	// Byte by byte, so that nothing of the stream is taken.
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one...) {
		if _, err := conn.Read(one); err != nil {
			return nil, err
		}
	}
	text := strings.ToLower(string(head))
	if !strings.HasPrefix(text, "http/1.1 200 ") || !strings.Contains(text, "text/event-stream") {
		return nil, fmt.Errorf("no event stream: %.200s", head)
	}
	return &viewer{conn: conn, gzip: strings.Contains(text, "\r\ncontent-encoding: gzip")}, nil
}

// frameStart begins a frame with changes, whatever comes after it in the name.
const frameStart = "event: parts"

// read reads until the stream ends.
func (v *viewer) read(counting *atomic.Bool) {
	// Its begin repeats the end of what was read before: enough for a marker or
	// the begin of a frame that came in two halves.
	buf := make([]byte, 16<<10)
	kept := 0
	told := int64(0)
	for {
		n, err := v.conn.Read(buf[kept:])
		now := time.Now().UnixNano()
		if err != nil {
			v.lost = !errors.Is(err, net.ErrClosed)
			return
		}
		known, all := buf[:kept], buf[:kept+n]
		if counting.Load() {
			v.bytes += n
			v.frames += bytes.Count(all, []byte(frameStart)) - bytes.Count(known, []byte(frameStart))
			v.newest = max(v.newest, lastMark(all))
			// An empty line ends a frame; another line end is that of HTTP's chunk.
			if v.newest > told && bytes.HasSuffix(bytes.TrimSuffix(all, []byte("\r\n")), []byte("\n\n")) {
				v.ages = append(v.ages, float64(now-v.newest)/1e6)
				told = v.newest
			}
		}
		kept = copy(buf, all[max(0, len(all)-markLen+1):])
	}
}

// ---- what is measured with them ----

// viewers streams 100 updates a second to so many viewers, or guests of a share.
func (b *bench) viewers(count int, guests bool) ([]row, error) {
	const rate, perMessage = 100, 100
	n, err := b.start()
	if err != nil {
		return nil, err
	}
	defer n.stop()
	id, err := n.session(script{})
	if err != nil {
		return nil, err
	}
	c, err := n.gather(id, audience{Viewers: count, Guests: guests})
	if err != nil {
		return nil, err
	}
	defer c.leave()
	b.pause(time.Duration(b.shorter(60)) * time.Second)
	idle, err := n.rss()
	if err != nil {
		return nil, err
	}
	s := script{Marks: b.shorter(20 * rate), Rate: rate, PerItem: perMessage}
	h, used, err := n.stream(id, c, s)
	if err != nil {
		return nil, err
	}
	after, err := n.rss()
	if err != nil {
		return nil, err
	}
	if h.Lost > 0 || h.Frames == 0 {
		return nil, fmt.Errorf("%d streams were ended by nod; %d frames came", h.Lost, h.Frames)
	}
	name := fmt.Sprint(count, " viewers, 100 updates/s: ")
	if guests {
		name = fmt.Sprint(count, " guests of a share, 100 updates/s: ")
	}
	p99 := figure(name+"age p99", h.P99, "ms")
	perFrame := figure(name+"nod's CPU per delivery", float64(used.Microseconds())/float64(h.Frames), "us")
	perViewer := figure(name+"memory per viewer, idle", (idle-c.before)/float64(count), "KiB")
	if count == 1000 {
		p99, perFrame, perViewer = p99.atMost(60), perFrame.atMost(45), perViewer.atMost(48)
	}
	return []row{
		figure(name+"age p50", h.P50, "ms"), p99, perFrame,
		figure(name+"deliveries", float64(h.Frames)/s.took().Seconds(), "/s"),
		perViewer,
		figure(name+"memory per viewer, after the updates", (after-c.before)/float64(count), "KiB"),
	}, nil
}

// stream plays a script before a crowd and returns what it heard, and nod's CPU
// time meanwhile.
func (n *nod) stream(id string, c *crowd, s script) (h heard, used time.Duration, err error) {
	if err := c.listen(); err != nil {
		return h, 0, err
	}
	before, err := n.cpu()
	if err != nil {
		return h, 0, err
	}
	if err := n.say(id, s); err != nil {
		return h, 0, err
	}
	n.bench.pause(s.took() + linger)
	after, err := n.cpu()
	if err != nil {
		return h, 0, err
	}
	h, err = c.tell()
	return h, after - before, err
}

// linger is what the last update of a script gets to arrive.
const linger = time.Second

// ---- viewers that do not read ----

// stalled streams more than sockets hold to viewers of whom some never read.
func (b *bench) stalled() ([]row, error) {
	const healthy, stuck = 100, 20
	without, err := b.beside(healthy, 0)
	if err != nil {
		return nil, err
	}
	with, err := b.beside(healthy, stuck)
	if err != nil {
		return nil, err
	}
	return []row{
		figure("20 viewers that never read: memory for each", (with.rss-without.rss)/stuck, "KiB").below(256),
		figure("20 viewers that never read: the other 100, p99", with.heard.P99, "ms"),
		figure("20 viewers that never read: the same without them", without.heard.P99, "ms"),
		figure("20 viewers that never read: p99 grows by", 100*(with.heard.P99/without.heard.P99-1), "%").atMost(5),
		figure("20 viewers that never read: all are gone after", with.gone.Seconds(), "s").atMost(15),
	}, nil
}

type besides struct {
	heard heard         // by those who read
	rss   float64       // KiB, mean while those who do not read were still there
	gone  time.Duration // since the first update; patience if some stayed
}

// beside streams 24 MiB in large updates to viewers that read and to some that
// do not. A quick run takes as long: nod waits no shorter for who does not read.
func (b *bench) beside(healthy, stuck int) (m besides, err error) {
	const size, rate, total = 32 << 10, 20, 24 << 20
	n, err := b.start()
	if err != nil {
		return m, err
	}
	defer n.stop()
	id, err := n.session(script{})
	if err != nil {
		return m, err
	}
	c, err := n.gather(id, audience{Viewers: healthy})
	if err != nil {
		return m, err
	}
	defer c.leave()
	b.pause(linger) // until connections that only logged in are closed
	streams, err := n.connections()
	if err != nil {
		return m, err
	}
	s, err := n.gather(id, audience{Viewers: stuck, Stall: true})
	if err != nil {
		return m, err
	}
	defer s.leave()

	began := time.Now()
	var watching sync.WaitGroup
	var watchErr error
	stop := make(chan struct{})
	watching.Go(func() { m.rss, m.gone, watchErr = n.watch(streams, began, stop) })
	m.heard, _, err = n.stream(id, c, script{Marks: total / size, Rate: rate, Size: size, PerItem: 1})
	close(stop)
	watching.Wait()
	if m.heard.Lost > 0 {
		err = fmt.Errorf("%d of the viewers that do read were ended", m.heard.Lost)
	}
	return m, errors.Join(err, watchErr)
}

// watch looks at nod until it is told to stop: at its memory for the time in
// which viewers that do not read are still there, and for when no more than so
// many streams are left.
func (n *nod) watch(streams int, began time.Time, stop <-chan struct{}) (rss float64, gone time.Duration, err error) {
	const from, to = 2 * time.Second, 9 * time.Second // nod ends a stream that stands still for 10 s
	gone = patience
	samples := 0
	for {
		select {
		case <-stop:
			return rss / float64(max(samples, 1)), gone, nil
		case <-time.After(100 * time.Millisecond):
		}
		at := time.Since(began)
		if at > from && at < to {
			now, err := n.rss()
			if err != nil {
				return 0, 0, err
			}
			rss += now
			samples++
		}
		open, err := n.connections()
		if err != nil {
			return 0, 0, err
		}
		if gone == patience && at > from && open <= streams {
			gone = at
		}
	}
}
