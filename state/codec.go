package state

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Meta holds what a provider adds under namespaced keys (schema _meta).
type Meta = map[string]jsontext.Value

// lenient is how agents' text is read: a lone surrogate becomes U+FFFD, because
// an agent that cuts its text between the halves of one must not lose the rest.
var lenient = jsontext.AllowInvalidUTF8(true)

// options are how every AHP document is read and written. Field names are exact,
// a key that comes twice is an error, the order of maps is fixed.
var options = json.JoinOptions(
	lenient,
	json.Deterministic(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(unmarshalPart),
		json.UnmarshalFromFunc(unmarshalTerminalPart),
	)),
)

// Marshal writes a state, an action's part or any other value of this package.
// The same value always gives the same bytes.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, options) }

// Unmarshal reads what Marshal writes, and what a host of the protocol writes.
// Members that this program does not know are kept and written again. It is an
// error if a required member is missing or null, if one has a wrong JSON type,
// or if a key comes twice: then v must not be used.
func Unmarshal(b []byte, v any) error {
	if jsontext.Value(b).Kind() == 'n' {
		return errors.New("null where a value is due")
	}
	if err := checkMembers(reflect.TypeOf(v).Elem(), b); err != nil {
		return err
	}
	return json.Unmarshal(b, v, options)
}

// tagged puts a discriminant before the members of a union's variant.
type tagged[T any] struct {
	Kind string `json:"kind"`
	Body *T     `json:",embed"`
}

// typed is tagged for the unions whose discriminant is called type.
type typed[T any] struct {
	Type string `json:"type"`
	Body *T     `json:",embed"`
}

// carried returns unknown members for an object of another type: those that its
// type knows by name are left out, since there they would mean something.
func carried[T any](unknown ...*jsontext.Value) *jsontext.Value {
	out := map[string]jsontext.Value{}
	for _, u := range unknown {
		if u != nil {
			// It was read by Unmarshal, so it is an object.
			_ = json.Unmarshal(*u, &out, options)
		}
	}
	for name := range members(reflect.TypeFor[T]()) {
		delete(out, name)
	}
	if len(out) == 0 {
		return nil
	}
	raw, _ := json.Marshal(out, options)
	return (*jsontext.Value)(&raw)
}

// discriminant reads a union's discriminant: "" if it is missing.
func discriminant(key string, raw jsontext.Value) (string, error) {
	var kind string
	d := jsontext.NewDecoder(bytes.NewReader(raw), lenient)
	if d.PeekKind() != '{' {
		return "", errors.New("not an object")
	}
	_, _ = d.ReadToken()
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		if name.String() == key {
			err := json.UnmarshalDecode(d, &kind)
			return kind, err
		}
		if err := d.SkipValue(); err != nil {
			return "", err
		}
	}
	return "", nil
}

// member is what checkMembers knows of a struct field.
type member struct {
	t        reflect.Type
	required bool // must not be missing
	notNull  bool // must not be null
}

// members returns the members of a struct type: a field without omitzero is
// neither missing nor null. With the tag ahp:"nullable" it may be null; with
// ahp:"notnull" one that may be missing must not be null, because that would
// mean another thing.
var members = func() func(reflect.Type) map[string]member {
	var known sync.Map
	return func(t reflect.Type) map[string]member {
		if m, ok := known.Load(t); ok {
			return m.(map[string]member)
		}
		m := map[string]member{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			rule := f.Tag.Get("ahp")
			required := opts != "omitzero"
			m[name] = member{t: f.Type, required: required, notNull: required && rule != "nullable" || rule == "notnull"}
		}
		known.Store(t, m)
		return m
	}
}()

// variants chooses the type that a union's value is read into: nil for one that
// this program does not know.
var variants = map[reflect.Type]func(jsontext.Value) (reflect.Type, error){}

// checkMembers is what the JSON package leaves out: it takes null and a missing
// member for the zero value, so that a message without its text would be an
// empty message. A value of a wrong type is for the JSON package to find.
func checkMembers(t reflect.Type, raw []byte) error {
	return checkValue(t, jsontext.NewDecoder(bytes.NewReader(raw), lenient))
}

func checkValue(t reflect.Type, d *jsontext.Decoder) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if choose := variants[t]; choose != nil {
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		v, err := choose(raw)
		if err != nil || v == nil {
			return err
		}
		return checkMembers(v, raw)
	}
	switch kind := d.PeekKind(); {
	case t.Kind() == reflect.Struct && kind == '{':
		return checkObject(members(t), d)
	case t.Kind() == reflect.Slice && kind == '[':
		return checkEach(t.Elem(), d, ']')
	case t.Kind() == reflect.Map && kind == '{':
		return checkEach(t.Elem(), d, '}')
	}
	return d.SkipValue()
}

func checkObject(known map[string]member, d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	missing := map[string]bool{}
	for name, m := range known {
		if m.required {
			missing[name] = true
		}
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		m, ok := known[name]
		null := d.PeekKind() == 'n'
		if null && m.notNull {
			return fmt.Errorf("%s is null", d.StackPointer())
		}
		delete(missing, name)
		if !ok || null {
			err = d.SkipValue()
		} else {
			err = checkValue(m.t, d)
		}
		if err != nil {
			return err
		}
	}
	for name := range missing {
		return fmt.Errorf("%s is missing in the object that ends at byte %d", name, d.InputOffset())
	}
	_, err := d.ReadToken()
	return err
}

// checkEach checks the elements of an array or of a map.
func checkEach(elem reflect.Type, d *jsontext.Decoder, end jsontext.Kind) error {
	if elem == reflect.TypeFor[byte]() || elem == reflect.TypeFor[jsontext.Value]() {
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != end {
		if end == '}' {
			if _, err := d.ReadToken(); err != nil {
				return err
			}
		}
		if d.PeekKind() == 'n' {
			return fmt.Errorf("an element of %s is null", d.StackPointer())
		}
		if err := checkValue(elem, d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}
