package packaging

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

// defaults are the chart's own values. A user's values may replace them, but may have no other
// keys, except inside a value whose key is in the list free.
//
//go:embed helm/cloudprofiler/values.yaml
var defaults []byte

// free lists the keys whose values the chart does not check: Kubernetes defines what they may
// contain.
var free = []string{"nodeSelector", "resources", "seccompProfile", "tolerations"}

// CheckValues returns an error for each key that the chart does not know, and for each value of
// another type than the default. Each error names the line. If a key is unknown, the error also
// names the nearest known key, or all known keys.
func CheckValues(text []byte) error {
	var known, given yaml.Node
	if err := errors.Join(yaml.Unmarshal(defaults, &known),
		yaml.Unmarshal(text, &given)); err != nil {
		return err
	}
	if len(given.Content) == 0 {
		return nil // an empty file changes nothing
	}
	return errors.Join(compare(known.Content[0], given.Content[0], "the values")...)
}

// compare returns what is wrong with a value that stands in for a default.
func compare(known, given *yaml.Node, name string) (errs []error) {
	if given.Tag == "!!null" { // it removes the default
		return nil
	}
	if known.Kind != given.Kind || known.Tag != given.Tag {
		want := map[string]string{"!!map": "keys and values", "!!seq": "a list", "!!str": "a text",
			"!!int": "a whole number", "!!bool": "true or false"}[known.Tag]
		return []error{fmt.Errorf("line %d: %s: want %s", given.Line, name, want)}
	}
	if known.Kind != yaml.MappingNode || slices.Contains(free, name) {
		return nil
	}
	values := map[string]*yaml.Node{}
	var keys []string
	for i := 0; i+1 < len(known.Content); i += 2 {
		keys = append(keys, known.Content[i].Value)
		values[known.Content[i].Value] = known.Content[i+1]
	}
	for i := 0; i+1 < len(given.Content); i += 2 {
		key := given.Content[i]
		if value := values[key.Value]; value != nil {
			errs = append(errs, compare(value, given.Content[i+1], key.Value)...)
			continue
		}
		err := fmt.Errorf("line %d: there is no key %q: use one of %q", key.Line, key.Value, keys)
		if near := similar.Word(key.Value, slices.Values(keys)); near != "" {
			err = fmt.Errorf("line %d: there is no key %q: did you mean %q?", key.Line, key.Value,
				near)
		}
		errs = append(errs, err)
	}
	return errs
}
