package answers

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Where branches meet, the branch that came first waits for the other. The span of this wait has
// the same two ends as a transfer. So the tables also name the kind of the span, which is waiting.
func TestWaitingIsNamed(t *testing.T) {
	parent := t.TempDir()
	draw := seed.Random(t)
	for _, name := range []string{"forked", "again"} {
		if err := simrun.Forked(draw, parent, name, 500); err != nil {
			t.Fatal(err)
		}
	}
	run, again := filepath.Join(parent, "forked"), filepath.Join(parent, "again")
	for name, test := range map[string]struct {
		args []string
		rows string
		want []string
	}{
		"analyze": {[]string{"analyze", run}, `±.*  (left/send → sink/recv\S*( waiting)?)`,
			[]string{"left/send → sink/recv", "left/send → sink/recv, waiting"}},
		"diff": {[]string{"diff", run, again}, `(?m)^(left/send → sink/recv, \w+)$`,
			[]string{"left/send → sink/recv, transfer", "left/send → sink/recv, waiting"}},
	} {
		_, out, _ := cprof(test.args...)
		var names []string
		for _, row := range regexp.MustCompile(test.rows).FindAllStringSubmatch(out, -1) {
			names = append(names, row[1])
		}
		slices.Sort(names)
		if d := cmp.Diff(test.want, names); d != "" {
			t.Errorf("%s:\n%s\n%s", name, d, out)
		}
	}
}
