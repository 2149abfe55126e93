package daemon

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// schemaURL says which rules of JSON Schema a schema follows.
const schemaURL = "https://json-schema.org/draft/2020-12/schema"

// property is the description of a key in a JSON Schema.
type property struct {
	Type        any       `json:"type"`
	Items       *property `json:"items,omitempty"`
	Description string    `json:"description,omitempty"`
	Default     any       `json:"default,omitempty"`
	Pattern     string    `json:"pattern,omitempty"`
}

// schema returns a JSON Schema of the daemon's configuration, with which an editor completes and
// explains keys. Types are those of the configuration, and texts are those of the flags.
func (d Daemon[C]) schema(cmd *cobra.Command) ([]byte, error) {
	properties := map[string]property{}
	t := reflect.TypeFor[C]()
	for i, key := range Keys[C]() {
		f := cmd.Flags().Lookup(flagOf(key))
		if f == nil {
			return nil, fmt.Errorf("schema: key %q has no flag", key)
		}
		p := property{Description: f.Usage}
		switch field := t.Field(i).Type; {
		case field == reflect.TypeFor[time.Duration]():
			p.Type, p.Default = []string{"string", "integer"}, f.DefValue
			p.Pattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
		case field.Kind() == reflect.Bool:
			p.Type, p.Default = "boolean", f.DefValue == "true"
		case field.Kind() == reflect.String:
			p.Type = []string{"string", "number", "boolean"} // YAML reads 5 as a number
			if f.DefValue != "" {
				p.Default = f.DefValue
			}
		case field == reflect.TypeFor[[]string]():
			p.Type, p.Items = "array", &property{Type: "string"}
		default:
			p.Type = "integer"
			if field.Kind() == reflect.Float64 {
				p.Type = "number"
			}
			n, err := strconv.ParseFloat(f.DefValue, 64)
			if err != nil {
				return nil, fmt.Errorf("schema: default of key %q: %w", key, err)
			}
			p.Default = n
		}
		properties[key] = p
	}
	return json.MarshalIndent(map[string]any{
		"$schema": schemaURL, "title": d.Name + ".yaml", "description": d.Short,
		"type": "object", "additionalProperties": false, "properties": properties,
	}, "", "  ")
}
