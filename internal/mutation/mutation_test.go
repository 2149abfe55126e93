package mutation

import (
	"os"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := parse("# a comment\n# of two " +
		"lines\n\nfirst\na.go\n\told\n\tnew\n\nsecond\nb.go\nx\ny\n^TestB$\n")
	want := []mutation{{"first", "a.go", "\told", "\tnew", ""}, {"second", "b.go", "x", "y",
		"^TestB$"}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"one\ntwo\nthree", "1\n2\n3\n4\n5\n6"} {
		if got, err := parse(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// The list has four mutations. The test above notices the first. The second changes nothing, so no
// test notices it. The third is not valid Go. With the fourth, the tests end without a result.
func TestRun(t *testing.T) {
	source, err := os.ReadFile("mutation.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, old, new   string
		noticed, answers bool
	}{
		{"noticed", "len(lines) > 5", "len(lines) > 6", true, true},
		{"unnoticed", "wants its", "wants its", false, true},
		{"not Go", "func parse(", "func (", false, false},
		{"no test that failed", "var mutate = ", "func init() { os.Exit(3) }\nvar mutate = ",
			false, false},
	} {
		noticed, out, err := run(t, mutation{file: "mutation.go", run: "^TestParse$"},
			strings.ReplaceAll(string(source), tc.old, tc.new))
		if noticed != tc.noticed || (err == nil) != tc.answers {
			t.Errorf("%s: noticed %v, %v\n%s", tc.name, noticed, err, out)
		}
	}
	if _, _, err := run(t, mutation{file: "mutation.go", run: "^TestNone$"},
		string(source)); err == nil {
		t.Error("a pattern that matches no test notices nothing, and nobody is told")
	}
}
