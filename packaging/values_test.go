package packaging

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the schema")

func TestCheckValues(t *testing.T) {
	for text, want := range map[string]string{
		string(defaults): "", "": "", "user: 1000\nagent: {nodeSelector: {pool: x}}\n": "",
		"agent:\n  tolerations: [{operator: Exists}]\n  resources: null\n": "",

		"image: x\n\nusr: 5\n":      `line 3: there is no key "usr": did you mean "user"?`,
		"agent:\n  namePod: true\n": `line 2: there is no key "namePod": did you mean "namePods"`,
		"other_words: 1\n":          `line 1: there is no key "other_words": use one of ["image"`,
		"user: me\n":                "line 1: user: want a whole number",
		"agent: {namePods: 1}\n":    "line 1: namePods: want true or false",
		"image: 5\n":                "line 1: image: want a text",
		"image: {a: b}\n":           "line 1: image: want a text",
		"server: 5\n":               "line 1: server: want keys and values",
		"- a\n":                     "line 1: the values: want keys and values",
		"a: [\n":                    "yaml",

		"server:\n  tolerations: {a: b}\n": "line 2: tolerations: want a list",
		"usr: 1\nagent: {namePod: true}\n": "namePods",

		"agent: {seccompProfile: {type: Localhost, localhostProfile: a}}\n": "",

		"agent: {seccompProfile: None}\n": "line 1: seccompProfile: want keys and values",
		"agent: {seccompProfle: {}}\n":    `did you mean "seccompProfile"`,
	} {
		err := CheckValues([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Helm and editors check values by values.schema.json. It has the keys, types and comments of
// values.yaml. Each key is used in a template.
func TestSchemaOfValues(t *testing.T) {
	var known yaml.Node
	if err := yaml.Unmarshal(defaults, &known); err != nil {
		t.Fatal(err)
	}
	schema := schemaOf(known.Content[0])
	schema["$schema"] = "http://json-schema.org/draft-07/schema#" // the newest that Helm 3 knows
	schema["title"] = "values.yaml of the Helm chart of Cloudprofiler"
	schema["properties"].(map[string]any)["global"] = map[string]any{"type": "object",
		"description": "Helm adds this key if the chart is a part of another chart."}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	const file = "helm/cloudprofiler/values.schema.json"
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%s is not what values.yaml says (%v): go test -update writes it", file, err)
	}
	var templates string
	files, err := filepath.Glob("helm/cloudprofiler/templates/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		templates += string(text)
	}
	used := map[string]bool{}
	values := regexp.MustCompile(`\.Values\.([\w.]+)`)
	for _, m := range values.FindAllStringSubmatch(templates, -1) {
		used[m[1]] = true
	}
	for _, key := range leaves(known.Content[0], "") {
		if !used[key] {
			t.Errorf("no template uses the value %s", key)
		}
		delete(used, key)
	}
	for key := range used {
		t.Errorf("a template uses %s, which values.yaml does not explain", key)
	}
}

// schemaOf returns the schema of a value that stands in for a default.
func schemaOf(n *yaml.Node) map[string]any {
	s := map[string]any{}
	switch n.Tag {
	case "!!map":
		s["type"], s["additionalProperties"] = "object", false
		properties := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			p := schemaOf(value)
			if slices.Contains(free, key.Value) {
				delete(p, "additionalProperties")
				delete(p, "properties")
			}
			if c := strings.ReplaceAll(key.HeadComment, "\n#", ""); c != "" {
				p["description"] = strings.TrimPrefix(c, "# ")
			}
			properties[key.Value] = p
		}
		s["properties"] = properties
	case "!!seq":
		s["type"] = "array"
	case "!!int":
		s["type"] = "integer"
	case "!!bool":
		s["type"] = "boolean"
	default:
		s["type"] = "string"
	}
	return s
}

// leaves returns the paths of all values that a template can use.
func leaves(n *yaml.Node, path string) (all []string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if value.Kind == yaml.MappingNode && !slices.Contains(free, key) {
			all = append(all, leaves(value, path+key+".")...)
		} else {
			all = append(all, path+key)
		}
	}
	return all
}
