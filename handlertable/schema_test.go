package handlertable

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Editors use the schema to explain the keys of a table. The schema must have the handlers that
// Parse knows, and the keys that Parse reads. For an unknown key, Parse returns an error that lists
// the keys that Parse reads. The test learns them from there.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("../packaging/schemas/handlers.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Version any `json:"version"`
			Rules   struct {
				Items struct {
					Properties map[string]struct {
						Enum []any `json:"enum"`
					} `json:"properties"`
				} `json:"items"`
			} `json:"rules"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	rule := schema.Properties.Rules.Items.Properties
	_, err = Parse([]byte("version: 1\nrules:\n- {unknown: 1}\n"), "t")
	_, takes, _ := strings.Cut(fmt.Sprint(err), "it takes ")
	takes, _, _ = strings.Cut(takes, ": ")
	if known := slices.Sorted(strings.SplitSeq(takes, ", ")); !slices.Equal(known,
		slices.Sorted(maps.Keys(rule))) {
		t.Errorf("a rule takes %q, the schema has %q", known, slices.Sorted(maps.Keys(rule)))
	}
	for _, handler := range rule["handler"].Enum {
		if handler == nil {
			handler = "null" // in YAML, both are the same word
		}
		table := fmt.Sprintf("version: 1\nrules:\n- {channel: x, handler: %v}\n", handler)
		if _, err := Parse([]byte(table), "t"); err != nil &&
			strings.Contains(err.Error(), "unknown handler") {
			t.Errorf("handler %v: %v", handler, err)
		}
	}
	if _, err := Parse([]byte("version: 1\nrules:\n- {channel: x, handler: none}\n"),
		"t"); err == nil {
		t.Error("handler none is accepted")
	}
}
