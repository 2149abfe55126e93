package house

import (
	"maps"
	"slices"
	"testing"
	"testing/fstest"
)

// check applies a rule to this repository.
func check(t *testing.T, r rule) {
	t.Helper()
	for _, f := range r(t, realTree(t)) {
		t.Error(f)
	}
}

// A tree is a small repository: texts by path.
type tree map[string]string

type ruleTest struct {
	tree tree
	want []string // the places of all findings, in any order
}

// runRule tests a rule on small trees. This shows that the rule finds what it should find.
func runRule(t *testing.T, r rule, tests map[string]ruleTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"go.mod": {Data: []byte("module m.io/m\n\ngo 1.26\n")}}
			for path, text := range test.tree {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			got := map[string]bool{}
			for _, f := range r(t, readTree(t, root)) {
				t.Log(f)
				got[f.place] = true
			}
			places := slices.Sorted(maps.Keys(got))
			if !slices.Equal(places, slices.Sorted(slices.Values(test.want))) {
				t.Errorf("findings at %q, want %q", places, test.want)
			}
		})
	}
}
