package approvals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep a request's JSON may nest.
const maxDepth = 64

// maxExact is the first integer that not every JSON reader holds exactly.
const maxExact = 1 << 53

// Faithful returns an error if two readers could understand raw differently, so
// that what is shown need not be what takes effect: a key that comes twice, text
// that is not UTF-8, a number beyond 2^53, or nesting beyond reason. The error
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
	return nil
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
