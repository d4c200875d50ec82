package main

import (
	"os"
	"path/filepath"
	"time"
)

const mib = 1 << 20

// size is what nod takes before anybody uses it.
func (b *bench) size() ([]row, error) {
	stripped := filepath.Join(b.dir, "nod-stripped")
	if err := b.build(stripped, "-trimpath", "-ldflags", "-s -w"); err != nil {
		return nil, err
	}
	small, err := os.Stat(stripped)
	if err != nil {
		return nil, err
	}
	plain, err := os.Stat(b.binary)
	if err != nil {
		return nil, err
	}
	n, err := b.start()
	if err != nil {
		return nil, err
	}
	defer n.stop()
	b.pause(5 * time.Second)
	rss, err := n.rss()
	if err != nil {
		return nil, err
	}
	return []row{
		figure("the program, stripped", float64(small.Size())/mib, "MiB").atMost(25),
		figure("the program as it is built", float64(plain.Size())/mib, "MiB"),
		figure("CPU until it is ready", n.toReady.Seconds(), "s"),
		figure("memory after 5 s without a viewer", rss/1024, "MiB").atMost(40),
	}, nil
}
