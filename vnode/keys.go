package vnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

// checkKeys reads a configuration that is valid JSON, with values of the right types. It returns an
// error for the first key that is unknown, or whose number lacks the quotes that the format
// demands. The error names the key's line and, for an unknown key, the nearest known key.
func checkKeys(text []byte) error {
	k := keys{json.NewDecoder(bytes.NewReader(text)), text}
	return k.value(reflect.TypeFor[Config](), "")
}

type keys struct {
	*json.Decoder
	text []byte
}

// value reads the next value. Type t describes the value, and path names it.
func (k keys) value(t reflect.Type, path string) error {
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Slice {
		var any json.RawMessage
		return k.Decode(&any)
	}
	open, err := k.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return err // null
	}
	for k.More() {
		if t.Kind() == reflect.Slice {
			err = k.value(t.Elem(), path)
		} else {
			err = k.field(t, path)
		}
		if err != nil {
			return err
		}
	}
	_, err = k.Token()
	return err
}

// field reads a key and its value.
func (k keys) field(t reflect.Type, path string) error {
	token, err := k.Token()
	if err != nil {
		return err
	}
	key, _ := token.(string)
	for name, field := range fields(t) {
		if !strings.EqualFold(name, key) {
			continue
		}
		if !strings.HasSuffix(field.Tag.Get("json"), ",string") {
			return k.value(field.Type, path+name+".")
		}
		var quoted json.RawMessage
		if err := k.Decode(&quoted); err != nil {
			return err
		}
		if quoted[0] != '"' {
			return fmt.Errorf("line %d: %s%s is %.40s: write the number in quotes", k.line(), path,
				name, quoted)
		}
		return nil
	}
	near := func(yield func(string) bool) {
		for name := range fields(t) {
			if !yield(name) {
				return
			}
		}
	}
	if best := similar.Word(key, near); best != "" {
		return fmt.Errorf("line %d: there is no key %q: did you mean %q?", k.line(), path+key,
			path+best)
	}
	return fmt.Errorf("line %d: there is no key %q: FORMAT.md lists all keys", k.line(), path+key)
}

// line returns the line of what was read last.
func (k keys) line() int { return lineAt(k.text, k.InputOffset()) }

func lineAt(text []byte, offset int64) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

// fields returns the fields of a struct by the names of their keys.
func fields(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if !yield(name, t.Field(i)) {
				return
			}
		}
	}
}
