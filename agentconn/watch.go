package agentconn

import (
	"context"
	"time"
)

const (
	// askEvery is how often a runtime is asked whether it is still there, and
	// AnswerWithin how long it may take.
	askEvery     = 10 * time.Second
	AnswerWithin = 10 * time.Second
)

// Watch asks a runtime every now and then whether it is still there, until ctx ends,
// and tells when that changes (see Found.Stalled).
func Watch(ctx context.Context, stalled chan<- bool, ask func(context.Context) error) {
	look := time.NewTicker(askEvery)
	defer look.Stop()
	was := false
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, AnswerWithin)
		err := ask(asking)
		cancel()
		if is := err != nil; is != was {
			was = is
			select {
			case stalled <- is:
			case <-ctx.Done():
				return
			}
		}
	}
}
