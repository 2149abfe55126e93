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
	k := keyReader{json.NewDecoder(bytes.NewReader(text)), text}
	return k.readValue(reflect.TypeFor[Config](), "")
}

type keyReader struct {
	*json.Decoder
	text []byte
}

// readValue reads the next value. Type t describes the value, and path names it.
func (k keyReader) readValue(t reflect.Type, path string) error {
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
			err = k.readValue(t.Elem(), path)
		} else {
			err = k.readField(t, path)
		}
		if err != nil {
			return err
		}
	}
	_, err = k.Token()
	return err
}

// readField reads a key and its value.
func (k keyReader) readField(t reflect.Type, path string) error {
	token, err := k.Token()
	if err != nil {
		return err
	}
	key, _ := token.(string)
	for name, field := range fieldsByKey(t) {
		if !strings.EqualFold(name, key) {
			continue
		}
		if !strings.HasSuffix(field.Tag.Get("json"), ",string") {
			return k.readValue(field.Type, path+name+".")
		}
		var quoted json.RawMessage
		if err := k.Decode(&quoted); err != nil {
			return err
		}
		if quoted[0] != '"' {
			return fmt.Errorf("line %d: %s%s is %.40s: write the number in quotes", k.lastLine(),
				path,
				name, quoted)
		}
		return nil
	}
	near := func(yield func(string) bool) {
		for name := range fieldsByKey(t) {
			if !yield(name) {
				return
			}
		}
	}
	if best := similar.Word(key, near); best != "" {
		return fmt.Errorf("line %d: there is no key %q: did you mean %q?", k.lastLine(), path+key,
			path+best)
	}
	return fmt.Errorf("line %d: there is no key %q: FORMAT.md lists all keys", k.lastLine(),
		path+key)
}

// lastLine returns the line of what was read last.
func (k keyReader) lastLine() int { return lineAt(k.text, k.InputOffset()) }

func lineAt(text []byte, offset int64) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

// fieldsByKey returns the fields of a struct by the names of their keys.
func fieldsByKey(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if !yield(name, t.Field(i)) {
				return
			}
		}
	}
}
