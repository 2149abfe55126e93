package analysis

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The answer reports what is bad or missing, and uses the rest.
func TestBadInput(t *testing.T) {
	glob := func(t *testing.T, pattern string) string {
		t.Helper()
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) != 1 {
			t.Fatalf("%q: %v, %v", pattern, found, err)
		}
		return found[0]
	}
	for name, test := range map[string]struct {
		do    func(t *testing.T, dir string)
		word  string // text that the answer contains
		pairs int    // number of durations in the only span; -1: there is no span
	}{
		"no_logs_of_a_node": {func(t *testing.T, dir string) {
			os.RemoveAll(dir + "/logs/B")
		}, "logs/B", -1},
		"removed_log": {func(t *testing.T, dir string) {
			os.Remove(glob(t, dir+"/logs/B/*.cplog"))
		}, "it is gone", -1},
		"torn_log": {func(t *testing.T, dir string) {
			file := glob(t, dir+"/logs/B/*.cplog")
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, info.Size()-200); err != nil {
				t.Fatal(err)
			}
		}, "is damaged in 1 place: ", -1},
		"no_log_but_a_text": {func(t *testing.T, dir string) {
			if err := os.WriteFile(glob(t, dir+"/logs/B/*.cplog"), []byte("hello"),
				0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a log file", -1},
		"missing_relation": {func(t *testing.T, dir string) {
			os.Remove(dir + "/relations/A--B.rel")
		}, "were not related", 0},
		"torn_relation": {func(t *testing.T, dir string) {
			os.Truncate(dir+"/relations/A--B.rel", 100)
		}, "torn", 0},
		"two_epochs": {func(t *testing.T, dir string) {
			text, err := os.ReadFile(dir + "/run.yaml")
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(dir+"/run.yaml", bytes.Replace(text, []byte("epoch: epoch-B"),
				[]byte("epoch: after-boot"), 1), 0o600)
		}, "of epoch", -1},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := smallRun(t)
			test.do(t, path)
			dir.Close()
			dir, err := runs.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			a := analyze(t, dir, Options{})
			if !a.Partial || !mentions(a, test.word) {
				t.Errorf("partial %v, missing %v, findings %v: %q is not said", a.Partial,
					a.Missing, a.Findings, test.word)
			}
			if test.pairs == 0 { // without a relation, nothing shows the order of the points
				if len(a.Spans) > 0 || !mentions(a, "how long that took is not known") {
					t.Errorf("spans %+v, findings %v", a.Spans, a.Findings)
				}
				a = analyze(t, dir, Options{Edges: [][2]string{{"stage0/recv", "stage1/recv"}}})
			}
			switch {
			case test.pairs < 0 && len(a.Spans) > 0:
				t.Errorf("%d spans", len(a.Spans))
			case test.pairs >= 0 && (len(a.Spans) != 1 ||
				a.Spans[0].All.Count != uint64(test.pairs) || a.Spans[0].All.Unplaced != 1000):
				t.Errorf("spans %+v", a.Spans)
			}
			if a.Points[0].Events != 1000 {
				t.Errorf("%d events at %s", a.Points[0].Events, a.Points[0].Name)
			}
		})
	}
}

// If a log is damaged in the middle, or torn, the rest of the log is used. Rows that are gone are
// counted. The answer says why it is not known whether tuples without a later event are lost.
func TestRestOfADamagedLogIsUsed(t *testing.T) {
	const blocks = 4
	for name, test := range map[string]struct {
		damage func(log []byte) []byte
		left   uint64 // number of durations; the torn log ends in its second block
		gap    uint64 // number of rows that must be gone
	}{
		"bit": {func(log []byte) []byte {
			log[len(log)*3/8] ^= 1
			return log
		}, (blocks - 1) * logstore.MaxRows, logstore.MaxRows},
		"torn": {func(log []byte) []byte {
			return log[:len(log)*3/8]
		}, logstore.MaxRows, logstore.MaxRows},
	} {
		parent := t.TempDir()
		if err := simrun.Chain(9, parent, "long", 2, blocks*logstore.MaxRows, 100_000); err != nil {
			t.Fatal(err)
		}
		dir := openRun(t, parent, "long")
		found, err := filepath.Glob(filepath.Join(dir.Path, "logs/B/*.cplog"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		log, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(found[0], test.damage(log), 0o600); err != nil {
			t.Fatal(err)
		}
		a := analyze(t, dir, Options{})
		var c Channel
		for _, of := range a.Channels {
			if of.Node == "B" {
				c = of
			}
		}
		if len(a.Spans) != 1 || a.Spans[0].All.Count != test.left || a.Spans[0].All.After > 0 ||
			c.Damage != 1 || c.Unaccounted != test.gap || !a.Partial ||
			!mentions(a, "is damaged in 1 place") {
			t.Errorf("%s: spans %d, channel %+v, findings %v", name, len(a.Spans), c, a.Findings)
		}
		if p := a.Points[0]; p.Lost+p.InFlight != blocks*logstore.MaxRows-test.left ||
			!strings.Contains(p.Undecided, "the log of stage1/recv is not whole") {
			t.Errorf("%s: at %s %d are lost and %d in flight, undecided %q", name, p.Name, p.Lost,
				p.InFlight, p.Undecided)
		}
	}
}

func TestIDsThatNeverMatch(t *testing.T) {
	a := analyze(t, write(t, channelsOf([]uint64{1, 2, 3}, []uint64{11, 12})...), Options{})
	if len(a.Spans) > 0 || a.Work.Tuples != 5 || !mentions(a, "match those of no other point") {
		t.Errorf("%+v", a)
	}
}

// There is nothing to report about a channel that received only the end of the stream.
func TestAChannelWithoutEvents(t *testing.T) {
	channels := append(channelsOf([]uint64{1, 2, 3}, []uint64{1, 2, 3}), simrun.Channel{
		Node: 0, Name: "error/recv", Records: []simrun.Record{{Time: simrun.Hz, ID: poison}},
	})
	if a := analyze(t, write(t, channels...), Options{}); a.Partial || len(a.Spans) != 1 ||
		len(a.Channels) != 3 {
		t.Errorf("partial %v, findings %v, %d spans, %d channels", a.Partial, a.Findings,
			len(a.Spans), len(a.Channels))
	}
}

func TestNoTuples(t *testing.T) {
	a := analyze(t, write(t), Options{})
	if len(a.Spans) > 0 || a.Work.Tuples != 0 || !a.Partial || !mentions(a, "logs/A") {
		t.Errorf("%+v", a)
	}
	a = analyze(t, write(t, channelsOf([]uint64{poison}, []uint64{poison})...), Options{})
	if a.Work.Tuples != 0 || len(a.Channels) != 2 || a.Channels[0].Poison != 1 {
		t.Errorf("of poison alone: %+v", a)
	}
}

// If a log is absent, cannot be used or was not chosen, the tuples that seem lost may be in that
// log. The answer says so beside its count of lost tuples.
func TestLostOrNotLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		do     func(logs string)
		filter Filter
		lost   uint64
		why    string
		end    string // Point.Undecided of the last point
	}{
		"all": {nil, Filter{}, 1, "", ""},
		"no log": {func(logs string) {
			os.RemoveAll(logs + "/B")
		}, Filter{}, 3, "no log of node B is there", "no log of node B is there"},
		"bad log": {func(logs string) {
			spoil(t, logs+"/B/b#1*")
		}, Filter{}, 3, "not all logs of b/recv can be used", ""},
		"node": {nil, Filter{Nodes: []string{"A"}}, 3,
			"not all channels of b/recv were chosen", ""},
		"channel": {nil, Filter{Channels: []string{"a#0/*", "b#0/*"}}, 3,
			"not all channels of b/recv were chosen", ""},
		"channel before": {nil, Filter{Channels: []string{"a#0/*", "b*/*"}}, 1, "", ""},
	} {
		channels := channelsOf([]uint64{7, 1, 2, 3, 4, 5}, []uint64{2, 4}, []uint64{1, 3, 5},
			[]uint64{11, 12})
		for i, c := range []struct {
			node int
			name string
		}{{0, "a#0/recv"}, {1, "b#1/recv"}, {0, "b#0/recv"}, {1, "a#1/recv"}} {
			channels[i].Node, channels[i].Name = c.node, c.name
		}
		dir := write(t, channels...)
		if test.do != nil {
			test.do(filepath.Join(dir.Path, "logs"))
		}
		a := analyze(t, dir, Options{Edges: [][2]string{{"a/recv", "b/recv"}}, Filter: test.filter})
		if p := a.Points[0]; p.Name != "a/recv" || p.Lost != test.lost || p.Undecided != test.why ||
			a.Points[1].Undecided != test.end {
			t.Errorf("%s: %d lost at %s, undecided %q, at the end %q", name, p.Lost, p.Name,
				p.Undecided, a.Points[1].Undecided)
		}
	}
}

// spoil overwrites the one file that matches a pattern.
func spoil(t *testing.T, pattern string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%q: %v, %v", pattern, found, err)
	}
	if err := os.WriteFile(found[0], []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestASuspectRelationIsMarked(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "suspect")
	a := analyze(t, dir, Options{})
	if a.Length == nil || a.Length.Verdict != "suspect" {
		t.Errorf("run length %+v", a.Length)
	}
	if a.Pairs[0].Verdict != "suspect" || a.Spans[0].All.Suspect != 100 || !a.Partial ||
		!mentions(a, "is suspect") {
		t.Errorf("pair %+v, suspect %d, findings %v", a.Pairs[0], a.Spans[0].All.Suspect,
			a.Findings)
	}
	if a := analyze(
		t, dir, Options{Wander: 10 * tscratio.PPM}); a.Pairs[0].Verdict != "consistent" ||
		a.Spans[0].All.Suspect != 0 || a.Partial {
		t.Errorf("with enough wander: pair %+v, suspect %d, findings %v", a.Pairs[0],
			a.Spans[0].All.Suspect, a.Findings)
	}
}

// A run of one node needs no relation.
func TestOneNode(t *testing.T) {
	rng := seed.Random(t)
	parent := t.TempDir()
	nodes := simrun.Nodes(rng, 1)
	channels := []simrun.Channel{{Name: "a/start"}, {Name: "a/end"}}
	for id := range uint64(100) {
		channels[0].Records = append(channels[0].Records, simrun.Record{
			Time: simrun.Hz + id*1000, ID: id,
		})
		channels[1].Records = append(channels[1].Records, simrun.Record{
			Time: simrun.Hz + id*1000 + 500, ID: id,
		})
	}
	if err := simrun.Write(rng, parent, "one", nodes, channels); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "one"), Options{})
	if a.Partial || len(a.Spans) != 1 || a.Spans[0].All.Count != 100 ||
		a.Spans[0].All.Scenarios["trivial"] != 100 {
		t.Errorf("partial %v, findings %v, missing %v, spans %+v", a.Partial, a.Findings, a.Missing,
			a.Spans)
	}
	if m := a.Spans[0].All.Max; m.Lo_cycles > 500 || m.Hi_cycles < 500 ||
		m.Hi_cycles-m.Lo_cycles > 4 {
		t.Errorf("500 cycles are %v", m)
	}
}
