package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// A run in which nobody logged to the agent names the rings of other users. A run in which somebody
// logged does not name them: an agent of the other user may drain them.
func TestRingsOfAnotherUserAreNamed(t *testing.T) {
	parent := t.TempDir()
	dir := func(name string, rings ...string) string {
		d := filepath.Join(parent, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, r := range rings {
			if err := os.WriteFile(filepath.Join(d, r), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return d
	}
	c := testConfig(t)
	c.Rings = dir("cloudprofiler-1")
	other := dir("cloudprofiler-2", "a~x.0.1.ring")
	dir("cloudprofiler-3") // has no rings
	dir("somebody-4", "a~x.0.1.ring")
	a := startTest(t, c)
	for _, logs := range []bool{false, true} {
		if logs {
			logIDs(open(t, c, "a/x", handlers.Options{}), 0, 10)
		}
		if _, err := a.OpenRun("run" + map[bool]string{true: "1"}[logs]); err != nil {
			t.Fatal(err)
		}
		s, err := a.CloseRun("run" + map[bool]string{true: "1"}[logs])
		if err != nil {
			t.Fatal(err)
		}
		if named := len(s.Missing) == 1 && strings.Contains(s.Missing[0], other); named == logs ||
			logs && len(s.Missing) > 0 {
			t.Errorf("logs %v: missing %q", logs, s.Missing)
		}
	}
}
