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
	for name, read := range map[string]func(r io.Reader) ([]byte, *Outline, error){
		"a line": func(r io.Reader) ([]byte, *Outline, error) {
			return ReadLine(bufio.NewReaderSize(r, 64<<10), MaxMessage, 2)
		},
		"a message": func(r io.Reader) ([]byte, *Outline, error) { return ReadMessage(r, MaxMessage, 2) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		msg, long, err := read(io.MultiReader(strings.NewReader(`{"x":"`), io.LimitReader(letters{}, 1<<30), strings.NewReader(`","id":1}`)))
		runtime.ReadMemStats(&after)
		if err != nil && err != io.EOF || len(msg) != MaxMessage || !bytes.HasPrefix(msg, []byte(`{"x":"xxx`)) {
			t.Errorf("%s: %d bytes, %v", name, len(msg), err)
		}
		if long == nil || string(long.Bytes()) != `{"x":"","id":1}` || long.Size() != "1024.0 MiB" {
			t.Errorf("%s: the outline is %+v", name, long)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%s: it takes %d MiB", name, n>>20)
		}
		for _, size := range []int64{0, 1, 511, 512, 513, 64 << 10, 1 << 20, MaxMessage} {
			msg, long, err := read(io.LimitReader(letters{}, size))
			if err != nil && err != io.EOF || long != nil || int64(len(msg)) != size {
				t.Errorf("%s of %d: %d bytes, an outline %v, %v", name, size, len(msg), long != nil, err)
			}
		}
	}
}

// letters is an endless text.
type letters struct{}

var many = bytes.Repeat([]byte("x"), 64<<10)

func (letters) Read(p []byte) (int, error) { return copy(p, many), nil }
