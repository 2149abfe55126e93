package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// makeRings makes a directory with files of rings.
func makeRings(t *testing.T, parent, name string, files ...string) string {
	t.Helper()
	d := filepath.Join(parent, name)
	if err := os.Mkdir(d, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(d, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// If no channel logged to the agent, the agent names all directories with rings. If some channels
// logged to it, the agent names only directories of other users that have no agent, and in which a
// channel has a ring but logged nothing to this agent.
func TestRingsOfAnotherUserAreNamed(t *testing.T) {
	parent := t.TempDir()
	own := makeRings(t, parent, "cloudprofiler-1")
	makeRings(t, parent, "cloudprofiler-2", "a~x.0.1.ring", "b~y.0.ring")
	makeRings(t, parent, "cloudprofiler-3") // this directory has no rings
	makeRings(t, parent, "somebody-4", "a~x.0.1.ring")
	makeRings(t, parent, "cloudprofiler-5", "c~z.0.ring", SocketName)
	makeRings(t, parent, "cloudprofiler-test", "c~z.0.ring")
	owner := func(dir string) uint32 {
		id, _ := strconv.Atoi(dir[len(dir)-1:])
		return 4000 + uint32(max(id, 1)) // no user has this number
	}
	for _, test := range []struct {
		logged []string
		want   []string // for each directory that is named, how its remark begins
	}{
		{nil, []string{"no channel logged here, but programs of user '#4002' have or had",
			"no channel logged here, but programs of user '#4005'",
			"no channel logged here, but other programs have or had"}},
		{[]string{"a/x.0"}, []string{"b/y logged nothing here, but programs of user '#4002'"}},
		{[]string{"q/q"}, []string{"a/x.0, b/y logged nothing here, but programs of user"}},
		{[]string{"a/x.0", "b/y"}, nil},
	} {
		logged := map[string]bool{}
		for _, name := range test.logged {
			logged[name] = true
		}
		got := searchElsewhere(own, logged, owner)
		if len(got) != len(test.want) {
			t.Errorf("%v: %q, want %q", test.logged, got, test.want)
			continue
		}
		for i, begin := range test.want {
			if !strings.HasPrefix(got[i], begin) {
				t.Errorf("%v: %q, want %q", test.logged, got[i], begin)
			}
		}
	}
}

// A channel that was opened but logged nothing is not among the channels that logged.
func TestRingsBesideEmptyLogs(t *testing.T) {
	parent := t.TempDir()
	c := testConfig(t)
	c.Rings = makeRings(t, parent, "cloudprofiler-1")
	other := makeRings(t, parent, "cloudprofiler-2", "a~x.0.1.ring")
	a := startTest(t, c)
	for i, logs := range []bool{false, true} {
		name := fmt.Sprintf("run%d", i)
		if _, err := a.OpenRun(name); err != nil {
			t.Fatal(err)
		}
		ch := open(t, c, "b/y", handlers.Options{})
		if logs {
			logIDs(ch, 0, 10)
		}
		s, err := a.CloseRun(name)
		if err != nil {
			t.Fatal(err)
		}
		if named := len(s.Missing) == 1 && strings.Contains(s.Missing[0], other); s.Channels == 0 ||
			named == logs || logs && len(s.Missing) > 0 {
			t.Errorf("logs %v: %d channels, missing %q", logs, s.Channels, s.Missing)
		}
	}
}
