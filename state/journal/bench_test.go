package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
)

func benchStore(b *testing.B) *sqlite {
	b.Helper()
	s, err := Open(b.Context(), b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := s.Append(b.Context(), Batch{Sessions: []Session{{URI: uri}}}); err != nil {
		b.Fatal(err)
	}
	return s.(*sqlite)
}

func benchBatch(from, n uint64) (b Batch) {
	for seq := from; seq < from+n; seq++ {
		e := event(seq)
		e.Action = bytes.Repeat([]byte("x"), 600)
		b.Events = append(b.Events, e)
	}
	return b
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []uint64{1, 32} {
		b.Run(fmt.Sprint("events=", size), func(b *testing.B) {
			s := benchStore(b)
			seq := uint64(1)
			for b.Loop() {
				if err := s.Append(b.Context(), benchBatch(seq, size)); err != nil {
					b.Fatal(err)
				}
				seq += size
			}
			b.ReportMetric(float64(seq-1)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	const n = 10_000
	s := benchStore(b)
	for seq := uint64(1); seq <= n; seq += 100 {
		if err := s.Append(b.Context(), benchBatch(seq, 100)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		read := 0
		for _, err := range s.Events(b.Context(), uri, 0) {
			if err != nil {
				b.Fatal(err)
			}
			read++
		}
		if read != n {
			b.Fatalf("%d events", read)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
}
