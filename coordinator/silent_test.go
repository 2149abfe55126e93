package coordinator

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// In a large fleet with a small job, most nodes log nothing. If such a node itself says that it
// logged nothing, its logs do not count as missing. In all other cases, the run says that the logs
// of such a node are missing.
func TestNodesThatLoggedNothing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *fleet, idle *fakeClient)
		silent bool
	}{
		"says so": {func(*fleet, *fakeClient) {}, true},
		"has a truth": {
			func(_ *fleet, c *fakeClient) { c.files["truth.json"] = []byte("{}") }, true},
		"logged one channel": {
			func(_ *fleet, c *fakeClient) { c.channels = 1 }, false},
		"lacks records": {
			func(_ *fleet, c *fakeClient) { c.missing = []string{"actor/x: 3 records"} }, false},
		"is still writing": {func(_ *fleet, c *fakeClient) {
			c.instead = func(m control.Message) control.Message {
				if m, ok := m.(*control.Files); ok {
					m.More = true
				}
				return m
			}
		}, false},
		"has no such run": {func(_ *fleet, c *fakeClient) {
			c.instead = func(m control.Message) control.Message {
				if _, ok := m.(*control.Files); ok {
					return control.Refuse(control.NotFound, "no such run")
				}
				return m
			}
		}, false},
		"stays away": {func(_ *fleet, c *fakeClient) {
			c.state = clientKilled
			c.life++
		}, false},
		"one of its logs is damaged": {func(f *fleet, c *fakeClient) {
			file, content := logFile(f.t, f, "n03", "a/x")
			c.files["logs/n03/"+file] = content[:20]
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := withLogs(t)
			idle := f.join("n03")
			f.run(time.Second, nil)
			f.ask(AskStartRun, RunRequest{Name: "r"})
			if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
				t.Fatal(f.phase())
			}
			test.change(f, idle)
			f.ask(AskStopRun, nil)
			f.waitComplete()
			dir, err := runs.Open(filepath.Join(f.store.runs, "r"))
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			if n, ok := dir.Run.Node("n03"); !ok || n.NoLogs != test.silent {
				t.Errorf("in the run it is %+v", n)
			}
			if n, _ := dir.Run.Node("n00"); n.NoLogs {
				t.Error("a node with logs has none in the run")
			}
			status := f.core.lastRun
			if slices.Equal(status.NoLogs, []string{"n03"}) != test.silent ||
				!test.silent && len(status.NoLogs) > 0 {
				t.Errorf("the status names %v", status.NoLogs)
			}
			lacks := slices.ContainsFunc(status.Missing, func(m runs.Missing) bool {
				return strings.Contains(m.Part, "n03")
			})
			if lacks == test.silent {
				t.Errorf("missing: %v", status.Missing)
			}
		})
	}
}

// A node was away when its run ended. When the run is collected once more, the node says that it
// logged nothing, and then nothing is missing.
func TestANodeSaysLaterThatItLoggedNothing(t *testing.T) {
	f, c := fleetWithoutNode(t)
	clear(c.files)
	c.comeBack()
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	missing, _ := f.waitComplete()
	if len(missing) > 0 || !slices.Equal(f.core.lastRun.NoLogs, []string{"n00"}) {
		t.Errorf("missing: %v, logged nothing: %v", missing, f.core.lastRun.NoLogs)
	}
}
