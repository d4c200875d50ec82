package main

import (
	"fmt"
	"sync"
	"time"
)

// wire streams answers of three lengths at 200 tokens a second: to nobody, to a
// viewer that takes plain text, and to one that takes gzip, each at a nod of its
// own, at the same time.
func (b *bench) wire() ([]row, error) {
	var rows []row
	for _, tokens := range []int{400, 4000, 40_000} {
		tokens = b.shorter(tokens)
		var runs [3]answered
		var errs [3]error
		var busy sync.WaitGroup
		for i, crowd := range []audience{{}, {Viewers: 1}, {Viewers: 1, Gzip: true}} {
			busy.Go(func() { runs[i], errs[i] = b.answer(tokens, crowd) })
		}
		busy.Wait()
		for _, err := range errs {
			if err != nil {
				return rows, err
			}
		}
		alone, plain, zipped := runs[0], runs[1], runs[2]
		name := fmt.Sprintf("an answer of %d tokens: ", tokens)
		note := ""
		if !zipped.gzip {
			note = "nod did not compress it"
		}
		rows = append(rows,
			figure(name+"plain, per token", float64(plain.bytes)/float64(tokens), "B"),
			figure(name+"gzip, per token", float64(zipped.bytes)/float64(tokens), "B").atMost(40).noted(note),
		)
		if tokens < b.shorter(40_000) {
			continue
		}
		total := func(a answered) time.Duration { return a.cpu[0] + a.cpu[1] + a.cpu[2] + a.cpu[3] }
		perToken := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(tokens/4) }
		rows = append(rows,
			figure(name+"nod's CPU, one plain viewer", total(plain).Seconds(), "s"),
			figure(name+"nod's CPU, no viewer", total(alone).Seconds(), "s"),
			figure(name+"the difference", (total(plain)-total(alone)).Seconds(), "s").atMost(1),
			figure(name+"CPU per token, first quarter", perToken(plain.cpu[0]), "us"),
			figure(name+"CPU per token, last quarter", perToken(plain.cpu[3]), "us"),
			figure(name+"last quarter / first", plain.cpu[3].Seconds()/plain.cpu[0].Seconds(), "").atMost(1.25),
		)
	}
	return rows, nil
}

// answered is what an answer took.
type answered struct {
	bytes int // on the wire
	gzip  bool
	cpu   [4]time.Duration // of nod, for each quarter of the answer
}

// answer streams an answer to the viewers of an audience, or to nobody.
func (b *bench) answer(tokens int, viewers audience) (a answered, err error) {
	n, err := b.start()
	if err != nil {
		return a, err
	}
	defer n.stop()
	id, err := n.session(script{})
	if err != nil {
		return a, err
	}
	c, err := n.gather(id, viewers)
	if err != nil {
		return a, err
	}
	defer c.leave()
	if err := c.listen(); err != nil {
		return a, err
	}
	s := script{Tokens: tokens, Rate: 200}
	before, err := n.cpu()
	if err != nil {
		return a, err
	}
	began := time.Now()
	if err := n.say(id, s); err != nil {
		return a, err
	}
	for q := range a.cpu {
		b.pause(time.Until(began.Add(s.took() * time.Duration(q+1) / 4)))
		after, err := n.cpu()
		if err != nil {
			return a, err
		}
		a.cpu[q], before = after-before, after
	}
	b.pause(linger)
	h, err := c.tell()
	if err == nil && h.Lost > 0 {
		err = fmt.Errorf("nod ended the stream")
	}
	a.bytes, a.gzip = h.Bytes, h.Gzip
	return a, err
}
