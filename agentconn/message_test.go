package agentconn

import (
	"bufio"
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestR20LongMessages: of a message of a gigabyte the begin is kept, and its rest costs
// no memory. One that just fits comes whole.
func TestR20LongMessages(t *testing.T) {
	const most = 32 << 20 // of memory
	for name, read := range map[string]func(r io.Reader) ([]byte, bool, error){
		"a line":    func(r io.Reader) ([]byte, bool, error) { return ReadLine(bufio.NewReaderSize(r, 64<<10), MaxMessage) },
		"a message": func(r io.Reader) ([]byte, bool, error) { return ReadMessage(r, MaxMessage) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		msg, cut, err := read(io.MultiReader(strings.NewReader(`{"id":1,`), io.LimitReader(letters{}, 1<<30)))
		runtime.ReadMemStats(&after)
		if err != nil && err != io.EOF || !cut || len(msg) != MaxMessage || !bytes.HasPrefix(msg, []byte(`{"id":1,x`)) {
			t.Errorf("%s: %d bytes, cut %v, %v", name, len(msg), cut, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%s: it takes %d MiB", name, n>>20)
		}
		for _, size := range []int64{0, 1, 511, 512, 513, 64 << 10, 1 << 20, MaxMessage} {
			msg, cut, err := read(io.LimitReader(letters{}, size))
			if err != nil && err != io.EOF || cut || int64(len(msg)) != size {
				t.Errorf("%s of %d: %d bytes, cut %v, %v", name, size, len(msg), cut, err)
			}
		}
	}
}

// letters is an endless text.
type letters struct{}

var many = bytes.Repeat([]byte("x"), 64<<10)

func (letters) Read(p []byte) (int, error) { return copy(p, many), nil }
