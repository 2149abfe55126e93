package answers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
)

// If a part of a run is missing or damaged, cprof paths answers from the rest, and says what is
// missing.
func TestPathsOfASpoiltRun(t *testing.T) {
	logOf := func(dir, node string) string {
		all, err := filepath.Glob(filepath.Join(dir, "logs", node, "*.cplog"))
		if err != nil || len(all) != 1 {
			t.Fatalf("%v: %v", all, err)
		}
		return all[0]
	}
	cut := func(file string, keep int64) error {
		about, err := os.Stat(file)
		if err == nil {
			err = os.Truncate(file, about.Size()*keep/10)
		}
		return err
	}
	const damaged = `parts of its log are missing or damaged: "cprof log check" names them`
	for name, c := range map[string]struct {
		spoil func(dir string) error
		says  []string
	}{
		"torn log": {func(dir string) error { return cut(logOf(dir, "B"), 6) },
			[]string{"200 requests of ", "node B: " + damaged, "it is another file than it was"}},
		"empty log": {func(dir string) error { return cut(logOf(dir, "A"), 0) },
			[]string{" reservation:80 on B ", "node A: " + damaged}},
		"no log": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "logs", "B")) },
			[]string{"200 requests of ", "logs/B: no log of this node was collected"}},
		"log of another node": {func(dir string) error {
			file := logOf(dir, "B")
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "logs", "A", filepath.Base(file)), text, 0o644)
		}, []string{"200 requests of ", `node A: a log of node "B" lies among its logs`,
			"reservation:80 on B "}},
		// The caller's wait for a program is known, even if the times in the program are not.
		"no relation": {func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, "relations", "A--B.rel"))
		}, []string{"200 requests of ", "reservation:80 on B  31.",
			"the two nodes were not related"}},
	} {
		dir := hotelRun(t)
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := commandtest.Run(Commands(), "paths", dir)
		if code != 3 {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %q in\n%s%s", name, want, stdout, stderr)
			}
		}
	}
}
