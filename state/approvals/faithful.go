package approvals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a request's JSON may nest.
const maxDepth = 64

// maxExact is the first integer that not every JSON reader holds exactly.
const maxExact = 1 << 53

// Faithful returns an error if two readers could understand raw differently, so
// that what is shown need not be what takes effect: a key that comes twice, text
// that is not Unicode, a number beyond 2^53, or nesting beyond reason. The error
// is a clause for a person.
func Faithful(raw json.RawMessage) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil // no parameters at all
	}
	if !utf8.Valid(raw) {
		return errors.New("it is not valid UTF-8 text")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := faithfulValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("it holds more than one value")
	}
	if halfPair(raw) {
		return errors.New("it holds half of a character")
	}
	return nil
}

// halfPair reports whether JSON escapes one half of a surrogate pair without the
// other: some readers keep it, others put another character there.
func halfPair(raw []byte) bool {
	for i := bytes.IndexByte(raw, '\\'); i >= 0; i = bytes.IndexByte(raw, '\\') {
		r := escaped(raw[i:])
		raw = raw[i+2:]
		if utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escaped(raw[4:])) == utf8.RuneError {
				return true
			}
			raw = raw[10:]
		}
	}
	return false
}

// escaped returns the number that valid JSON begins with as \u and four digits, else 0.
func escaped(raw []byte) rune {
	if !bytes.HasPrefix(raw, []byte(`\u`)) {
		return 0
	}
	n, _ := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n)
}

func faithfulValue(d *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return errors.New("it is not valid JSON")
	}
	switch t := t.(type) {
	case json.Number:
		if _, err := t.Float64(); err != nil {
			return fmt.Errorf("the number %.40s is too large to be exact", t)
		}
		if !strings.ContainsAny(t.String(), ".eE") {
			if n, err := t.Int64(); err != nil || n >= maxExact || n <= -maxExact {
				return fmt.Errorf("the number %.40s is too large to be exact", t)
			}
		}
	case json.Delim:
		seen := map[string]bool{}
		for d.More() {
			if t == '{' {
				k, err := d.Token()
				if err != nil {
					return errors.New("it is not valid JSON")
				}
				// encoding/json takes keys that differ in case for one.
				key := strings.ToLower(strings.ToUpper(k.(string)))
				if seen[key] {
					return fmt.Errorf("the key %.40q comes twice", k)
				}
				seen[key] = true
			}
			if err := faithfulValue(d, depth+1); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return errors.New("it is not valid JSON")
		}
	}
	return nil
}
