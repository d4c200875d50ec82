// Package schematest holds documents against the schema of the Agent Host
// Protocol, version 0.3.0-dev. Only tests import it.
//
// The schema file is generated, and the generator lost things. What it lost is
// filled in by gaps.go and nowhere else; Compile fails when a gap is no longer
// there, so that a newer file is not patched by old knowledge.
package schematest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location is the name under which the schema is compiled. Nothing is fetched
// from it.
const location = "https://ahp.invalid/state.schema.json"

// Validator checks documents against the definitions of one schema file. It may
// be shared by parallel tests.
type Validator struct {
	definitions map[string]*jsonschema.Schema
}

// Compile reads the schema file, fills its gaps and compiles every definition,
// so that a reference into nowhere is found here and not by a document.
func Compile(schemaFile string) (*Validator, error) {
	b, err := os.ReadFile(schemaFile)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	root, _ := doc.(map[string]any)
	defs, ok := root["$defs"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: no $defs", schemaFile)
	}
	if err := fill(defs); err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	delete(root, "$id") // references are relative; the file's own name is on the web

	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // knows no scheme: nothing is loaded
	if err := c.AddResource(location, root); err != nil {
		return nil, err
	}
	v := &Validator{definitions: make(map[string]*jsonschema.Schema, len(defs))}
	for name := range defs {
		if v.definitions[name], err = c.Compile(location + "#/$defs/" + name); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Validate reports why doc is not what the definition (SessionState, RootState,
// Snapshot and so on) says. A member that is null is not an absent one: the
// protocol's fixtures need theirs dropped first.
func (v *Validator) Validate(definition string, doc []byte) error {
	s, ok := v.definitions[definition]
	if !ok {
		return fmt.Errorf("the schema has no definition %q", definition)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if err := s.Validate(value); err != nil {
		return fmt.Errorf("not a valid %s: %w", definition, err)
	}
	return nil
}

// Pinned returns the validator of the pinned schema, or nil where the schema is
// not at hand: it is not part of this module. NOD_SHARED may name the folder that
// holds it; otherwise it is looked for beside the module.
func Pinned(t testing.TB) *Validator {
	t.Helper()
	file := filepath.Join(os.Getenv("NOD_SHARED"), "schemas", "ahp-state.schema.json")
	if os.Getenv("NOD_SHARED") == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for dir != "/" {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		file = filepath.Join(filepath.Dir(dir), "shared", "schemas", "ahp-state.schema.json")
	}
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	v, err := Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
