package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

const (
	// maxBuffered bounds the batches kept in memory: some minutes of streaming
	// while the disk refuses them.
	maxBuffered = 10_000
	// maxBufferedBytes bounds them too, since one output of a tool can be large.
	maxBufferedBytes = 64 << 20
)

var errClosed = errors.New("journal: closed")

// job is a batch for the writer, or a task between batches.
type job struct {
	batch  Batch
	size   int
	result chan error // nil: nobody waits, the batch may linger

	task    func() error     // nil: it is a batch
	after   func(Batch) bool // the batches that the task must not overtake
	forgets []string         // the sessions that no waiting batch may bring back
}

// buffered reports whether the job is kept until the disk takes it.
func (j job) buffered() bool { return j.result == nil }

// queue is what waits for the writer. mu guards all but wake.
type queue struct {
	log  *slog.Logger
	wake chan struct{} // holds one: there is work, or the WAL has grown

	mu       sync.Mutex
	room     sync.Cond // held has shrunk, or refusing or closed has changed
	jobs     []job     // not taken by the writer yet
	held     int       // buffered batches that are not on disk, taken or not
	bytes    int       // their size
	refusing bool      // the disk has refused buffered batches
	closed   error     // why nothing more is taken; nil: it is

	// lost holds the sessions of which something was dropped, with the newest
	// event among it (0: it had none). What follows is not taken either, until a
	// Cut: a log that ends early can be read, one with a hole cannot.
	lost map[string]uint64
}

func newQueue(log *slog.Logger) *queue {
	q := &queue{log: log, wake: make(chan struct{}, 1), lost: map[string]uint64{}}
	q.room.L = &q.mu
	return q
}

// poke lets the writer look.
func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) usable() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close takes nothing more, for the first reason given.
func (q *queue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = why
	}
	q.room.Broadcast()
}

// push queues a job that somebody waits for.
func (q *queue) push(j job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	if err := q.goesOn(j.batch); err != nil {
		return err
	}
	q.jobs = append(q.jobs, j)
	q.poke()
	return nil
}

// buffer queues a batch that nobody waits for. A slow disk holds it up until the
// writer comes round; a refusing one does not.
func (q *queue) buffer(b Batch) {
	j := job{batch: b, size: size(b)}
	q.mu.Lock()
	defer q.mu.Unlock()
	full := func() bool { return q.held > 0 && (q.held >= maxBuffered || q.bytes+j.size > maxBufferedBytes) }
	for full() && !q.refusing && q.closed == nil {
		q.room.Wait()
	}
	switch {
	case q.closed != nil:
		q.lose(b, q.closed)
	case full():
		q.lose(b, errors.New("the disk refuses it and there is no room left in memory"))
	default:
		if err := q.goesOn(b); err != nil {
			q.lose(b, err)
			return
		}
		q.held++
		q.bytes += j.size
		q.jobs = append(q.jobs, j)
		q.poke()
	}
}

// lose remembers what was dropped.
func (q *queue) lose(b Batch, why error) {
	for uri := range touched(b) {
		if _, known := q.lost[uri]; !known {
			q.log.Error("a session is not recorded from here on", "session", uri, "err", why)
			q.lost[uri] = 0
		}
	}
	for _, e := range b.Events {
		if number(e.Seq) == nil { // else it was no event of a log
			q.lost[e.Session] = max(q.lost[e.Session], e.Seq)
		}
	}
	if len(touched(b)) == 0 {
		q.log.Error("a change was not recorded", "err", why)
	}
}

// dropped is lose for the writer.
func (q *queue) dropped(b Batch, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lose(b, why)
}

// whole returns an error if something was dropped.
func (q *queue) whole() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for uri := range q.lost {
		return fmt.Errorf("%w: %s", ErrBroken, uri)
	}
	return nil
}

// goesOn refuses what would leave a hole in a log.
func (q *queue) goesOn(b Batch) error {
	for uri := range touched(b) {
		if _, broken := q.lost[uri]; broken {
			return fmt.Errorf("%w: %s", ErrBroken, uri)
		}
	}
	return nil
}

// mend lets a session's log go on after an event, since nothing before it is
// needed any more.
func (q *queue) mend(session string, after uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost[session] <= after {
		delete(q.lost, session)
	}
}

// take hands the queued jobs over, and tells whether somebody waits for one.
func (q *queue) take() (jobs []job, urgent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs, q.jobs = q.jobs, nil
	for _, j := range jobs {
		urgent = urgent || !j.buffered()
	}
	return jobs, urgent
}

// release gives the room of a job back.
func (q *queue) release(j job) {
	if !j.buffered() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held--
	q.bytes -= j.size
	q.room.Broadcast()
}

// refuse notes whether the disk refuses, and tells whether that is new.
func (q *queue) refuse(refusing bool) (changed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed = q.refusing != refusing
	q.refusing = refusing
	q.room.Broadcast()
	return changed
}

// touched is the set of sessions that a batch belongs to.
func touched(b Batch) map[string]bool {
	set := map[string]bool{}
	if b.Source != (Source{}) {
		set[b.Source.Session] = true
	}
	for _, x := range b.Sessions {
		set[x.URI] = true
	}
	for _, x := range b.Snapshots {
		set[x.Session] = true
	}
	for _, x := range b.Events {
		set[x.Session] = true
	}
	for _, x := range b.Approvals {
		set[x.Session] = true
	}
	return set
}

// size is about what a batch takes in memory.
func size(b Batch) int {
	n := 256
	for _, x := range b.Sessions {
		n += 64 + len(x.Head)
	}
	for _, x := range b.Snapshots {
		n += 64 + len(x.Data)
	}
	for _, x := range b.Events {
		n += 64 + len(x.Action)
	}
	for _, x := range b.Approvals {
		n += 64 + len(x.Record)
	}
	for _, x := range b.Audit {
		n += 64 + len(x.Detail)
	}
	return n
}
