package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"nod/state/crashpoint"
)

const (
	// flushAfter bounds what a crash can take of streaming text: 25 ms, of which
	// the rest is for the commit itself and for one that is under way.
	flushAfter = 10 * time.Millisecond
	// maxGroup bounds how many batches share one transaction, and with it how
	// long the first of them waits.
	maxGroup = 256
	// retryAfter is how soon a person sees that the disk has room again.
	retryAfter = time.Second
	// idleAfter is long enough that a pause for breath costs no checkpoint.
	idleAfter = 5 * time.Second
)

func (s *sqlite) Append(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.do(job{batch: b})
}

// do waits for a job whatever happens to its caller: it will be done, and the
// caller has to know.
func (s *sqlite) do(j job) error {
	j.result = make(chan error, 1)
	if err := s.queue.push(j); err != nil {
		return err
	}
	return <-j.result
}

func (s *sqlite) Buffer(b Batch) { s.queue.buffer(b) }

func (s *sqlite) OnHealth(f func(error)) {
	s.healthMu.Lock()
	defer s.healthMu.Unlock()
	s.health = f
}

// run is the one writer. Whatever arrives while a transaction is being
// committed goes into the next one.
func (s *sqlite) run() {
	defer close(s.done)
	var waiting []job
	var refused error // why waiting is kept; nil: it lingers for a group
	flush, idle := time.NewTimer(flushAfter), time.NewTimer(idleAfter)
	flush.Stop()
	idle.Stop()
	for {
		select {
		case <-s.queue.wake:
			idle.Reset(idleAfter)
			jobs, urgent := s.queue.take()
			lingers := len(waiting) > 0
			waiting = append(waiting, jobs...)
			if !urgent && (refused != nil || len(waiting) < maxGroup) {
				if !lingers && len(waiting) > 0 {
					flush.Reset(flushAfter)
				}
				continue
			}
		case <-flush.C:
		case <-idle.C:
			if s.tidy() {
				idle.Reset(idleAfter)
			}
			continue
		case <-s.quit:
			jobs, _ := s.queue.take()
			if left, err := s.work(append(waiting, jobs...)); len(left) > 0 {
				s.unsaved = fmt.Errorf("journal: %d changes could not be recorded: %w", len(left), err)
			}
			return
		}
		waiting, refused = s.work(waiting)
		if flush.Stop(); len(waiting) > 0 {
			flush.Reset(retryAfter)
		}
		s.tell(refused)
		idle.Reset(idleAfter)
	}
}

// tell passes on that the disk has begun or ceased to refuse.
func (s *sqlite) tell(refused error) {
	if !s.queue.refuse(refused != nil) {
		return
	}
	if refused != nil {
		s.log.Error("the journal cannot be written; changes are kept in memory", "err", refused)
	} else {
		s.log.Info("the journal is written again")
	}
	s.healthMu.Lock()
	f := s.health
	s.healthMu.Unlock()
	if f != nil {
		f(refused)
	}
}

// work does jobs in order. It returns the buffered ones that the disk refused,
// and if there are any, why.
func (s *sqlite) work(jobs []job) (left []job, err error) {
	for len(jobs) > 0 {
		if j := jobs[0]; j.task != nil {
			j.result <- j.task()
			jobs = jobs[1:]
			continue
		}
		n := 1
		for n < min(len(jobs), maxGroup) && jobs[n].task == nil {
			n++
		}
		if err := s.commit(jobs[:n]); err != nil {
			if left = s.refuse(jobs, err); len(left) == 0 {
				err = nil
			}
			return left, err
		}
		jobs = jobs[n:]
	}
	return nil, nil
}

// commit writes batches in one transaction and answers those who wait. Its error
// is the disk's; then nobody was answered and nothing written.
func (s *sqlite) commit(jobs []job) error {
	if err := s.queue.usable(); errors.Is(err, errDamaged) {
		return err
	}
	results, err := s.transact(jobs)
	if isDamage(err) {
		return s.damage(err)
	}
	if code(err)&0xff == sqliteFull {
		// The WAL holds a page once for each time it was written, the file
		// holds it once: to empty the WAL may be room enough.
		if empty, _ := s.emptyWAL(); empty {
			results, err = s.transact(jobs)
		}
	}
	if err != nil {
		return err
	}
	for i, j := range jobs {
		if !j.buffered() {
			j.result <- results[i]
		} else if err := results[i]; errors.Is(err, ErrDuplicate) || errors.Is(err, ErrNotFound) {
			s.log.Warn("what is recorded already, or deleted, is left out", "err", err)
		} else if err != nil {
			s.queue.dropped(j.batch, err)
		}
		s.queue.release(j)
	}
	return nil
}

// refuse answers those who wait, and keeps what nobody waits for. A task may go
// ahead of what does not concern it: to delete is how space is made.
func (s *sqlite) refuse(jobs []job, err error) (left []job) {
	for _, j := range jobs {
		switch {
		case j.buffered():
			left = append(left, j)
		case j.task == nil || overtakes(j, left):
			j.result <- err
		default:
			err := j.task()
			if err == nil && len(j.forgets) > 0 {
				left = s.forget(left, j.forgets)
			}
			j.result <- err
		}
	}
	return left
}

func overtakes(task job, left []job) bool {
	if task.after == nil {
		return false
	}
	for _, j := range left {
		if task.after(j.batch) {
			return true
		}
	}
	return false
}

func (s *sqlite) transact(jobs []job) (results []error, err error) {
	results = make([]error, len(jobs))
	err = s.inTx(func(tx *sql.Tx) error {
		for i, j := range jobs {
			var err error
			if results[i], err = s.writeOne(tx, j.batch); err != nil {
				return err
			}
		}
		return nil
	})
	return results, err
}

// writeOne writes a batch so that what is wrong with it (fault) undoes it and
// not its neighbours. What is wrong with the disk (err) concerns them all.
func (s *sqlite) writeOne(tx *sql.Tx, b Batch) (fault, err error) {
	ctx := context.Background()
	if _, err := tx.ExecContext(ctx, "SAVEPOINT job"); err != nil {
		return nil, err
	}
	if err := writeBatch(ctx, tx, b); err != nil {
		if fault = batchFault(err); fault == nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO job"); err != nil {
			return nil, err
		}
	}
	_, err = tx.ExecContext(ctx, "RELEASE job")
	return fault, err
}

// inTx commits what f writes, or nothing. A commit is never cut short.
func (s *sqlite) inTx(f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	crashpoint.At(crashpoint.BeforeCommit)
	err = tx.Commit()
	crashpoint.At(crashpoint.AfterCommit)
	return err
}

// emptyWAL moves what is in the WAL to the file, and tells whether it is empty
// now. A reader that is at it, a backup say, must not hold up the writer.
func (s *sqlite) emptyWAL() (empty bool, err error) {
	ctx := context.Background()
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return false, err
	}
	var busy, pages, moved int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	_, err2 := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()))
	return err == nil && busy == 0, errors.Join(err, err2)
}

// tidy empties the WAL while nothing else is to do, and tells whether to come
// again.
func (s *sqlite) tidy() (again bool) {
	if s.queue.usable() != nil {
		return false
	}
	empty, err := s.emptyWAL()
	if err != nil { // no harm: it is emptied some time later
		s.log.Warn("the journal's WAL could not be emptied", "err", err)
	}
	return !empty && err == nil
}
