//go:build crashpoint

package crashpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	chosen, times = choose(os.Getenv(Env))
	seen          atomic.Int64
)

// choose reads "label:n". What cannot be read chooses nothing: n counts from 1.
func choose(s string) (label string, n int64) {
	label, times, _ := strings.Cut(s, ":")
	n, _ = strconv.ParseInt(times, 10, 64)
	return label, n
}

// At ends this process as kill -9 does if this moment is the chosen one.
func At(label string) {
	if label != chosen || seen.Add(1) != times {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // ourselves: that cannot fail
	select {}                                      // not one step further
}
