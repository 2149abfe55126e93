package vnode

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Editors use a JSON Schema to explain the keys of a virtual node's configuration. The schema has
// the keys that ParseConfig reads, with the explanations of FORMAT.md.
func TestSchema(t *testing.T) {
	format, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\w+ \\| *([^|]*?) *\\| (.*) \\|$")
	for _, row := range row.FindAllStringSubmatch(string(format), -1) {
		text := strings.ReplaceAll(row[3], "`", "")
		if row[2] != "" {
			text += " (" + row[2] + ")"
		}
		explained[strings.ReplaceAll(row[1], "[]", "")] = text
	}
	used := 0
	var schemaOf func(t reflect.Type, path string) map[string]any
	schemaOf = func(of reflect.Type, path string) map[string]any {
		switch of.Kind() {
		case reflect.Slice:
			return map[string]any{"type": "array", "items": schemaOf(of.Elem(), path)}
		case reflect.Int, reflect.Int64:
			return map[string]any{"type": "integer"}
		case reflect.Struct:
			properties := map[string]any{}
			for name, f := range fieldsByKey(of) {
				p := schemaOf(f.Type, path+name+".")
				if strings.HasSuffix(f.Tag.Get("json"), ",string") {
					p = map[string]any{"type": "string", "pattern": "^-?[0-9]+$"}
				}
				if p["type"] != "object" && p["type"] != "array" {
					if explained[path+name] == "" {
						t.Errorf("FORMAT.md does not explain %s", path+name)
					}
					used++
					p["description"] = explained[path+name]
				}
				properties[name] = p
			}
			return map[string]any{"type": "object", "additionalProperties": false,
				"properties": properties}
		}
		return map[string]any{"type": "string"}
	}
	schema := schemaOf(reflect.TypeFor[Config](), "")
	if used != len(explained) {
		t.Errorf("FORMAT.md explains %d keys, the code reads %d", len(explained), used)
	}
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "a virtual node of Cloudprofiler"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	const file = "../packaging/schemas/virtual-node.json"
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%s is not what the code reads (%v): go test -update writes it", file, err)
	}
}
