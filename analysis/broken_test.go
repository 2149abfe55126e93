package analysis

import (
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// A tuple's path breaks off where a timer makes new tuples of it, or where a Storm bolt sends on
// tuples that are not connected with a tuple of the spout ("not anchored"), and thus have no id. A
// finding says where.
func TestWhereIDsBreakOff(t *testing.T) {
	for name, tc := range map[string]struct {
		timers   []uint64 // ids of what a timer makes
		counted  uint64   // tuples that are not anchored
		findings []string
	}{
		"nowhere":    {nil, 0, nil},
		"timers":     {[]uint64{70, 71, 72}, 0, []string{"3 tuples at b/unlinked were made"}},
		"unanchored": {nil, 5, []string{"b sent tuples that are not anchored"}},
		"both": {[]uint64{70}, 1, []string{"1 tuples at b/unlinked were made",
			"b sent tuples that are not anchored"}},
	} {
		rng := seed.Random(t)
		nodes := simrun.Nodes(rng, 2)
		parent := t.TempDir()
		d, err := simrun.Begin(rng, parent, "r", nodes, simrun.Hz, 4*simrun.Hz)
		if err != nil {
			t.Fatal(err)
		}
		at := uint64(2 * simrun.Hz)
		for i, c := range []struct {
			name    string
			handler string
			ids     []uint64
		}{
			{"a/send", "id", []uint64{1, 2, 3}}, {"b/recv", "id", []uint64{1, 2, 3}},
			{"b#0/unlinked", "id", tc.timers}, {"c/recv", "id", tc.timers},
			{"b#0/unanchored", "counter", nil},
		} {
			l, err := simrun.OpenLog(d, &nodes[i%2], c.name, c.handler, i)
			if err != nil {
				t.Fatal(err)
			}
			for k, id := range c.ids {
				if err := l.Event(at+uint64(i*500_000+k*1000), id); err != nil {
					t.Fatal(err)
				}
			}
			if c.handler == "counter" {
				if err := l.Append(logstore.Block{Samples: []logstore.Sample{
					{Counter: nodes[i%2].Reading(at), Count: tc.counted}}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Complete(); err != nil {
			t.Fatal(err)
		}
		a := analyze(t, openRun(t, parent, "r"), Options{})
		var found []string
		for _, f := range a.Findings {
			if f.Kind == FindUndecided && (strings.Contains(f.Text, "no link says") ||
				strings.Contains(f.Text, "not anchored")) {
				found = append(found, f.Text)
			}
		}
		if len(found) != len(tc.findings) {
			t.Fatalf("%s: %q", name, found)
		}
		for i, want := range tc.findings {
			if !strings.HasPrefix(found[i], want) {
				t.Errorf("%s: %q, want %q", name, found[i], want)
			}
		}
	}
}
