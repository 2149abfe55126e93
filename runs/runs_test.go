package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func exampleRun() Run {
	return Run{
		Version: Version, Name: "tuesday-1.b", Note: "two nodes: one virtual",
		Begun:     UTC{1700000000000000001, 1700000000000000002},
		Ended:     UTC{1700000000000000003, 1700000000000000004},
		Reference: "A", Wander_ppt: 5, Window_ns: 6,
		Nodes: []Node{
			{
				ID: "machine-7", Name: "A", Number: 8, Epoch: "boot-9", Quantum_cycles: 10,
				CoreSlack_cycles: 11, FrequencyLo_hz: 12.5, FrequencyHi_hz: 13.25,
				FrequencySource: "CLOCK_MONOTONIC_RAW", Facts: map[string]string{"kernel": "6.1"},
			},
			{Name: "B.b_2", Number: 14, Epoch: "boot-15", Virtual: true, Left: "killed"},
		},
		Missing: []Missing{{"relations/A--B.b_2.rel", "why not"}},
	}
}

func pairOf(t *testing.T, r Run) *tscratio.Pair {
	t.Helper()
	node := func(n Node) tscratio.Node {
		return tscratio.Node{Name: n.Name, Epoch: n.Epoch, Nominal_hz: 1e9, Quantum_cycles: 1}
	}
	p, err := tscratio.NewPair(node(r.Nodes[0]), node(r.Nodes[1]), tscratio.DefaultAssumptions())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func segment(t *testing.T) (string, []byte) {
	t.Helper()
	name, err := channel.ParseName("map#3/start")
	if err != nil {
		t.Fatal(err)
	}
	h := logstore.Header{
		Node: "A", Epoch: "boot-9", Channel: name, Incarnation: logstore.Incarnation{1, 2},
		UTCHi_ns: 1,
	}
	h.Settings.Kind = channel.Buffered
	dir := t.TempDir()
	file := logstore.SegmentName(name, h.Incarnation, 0)
	w, err := logstore.Create(nil, filepath.Join(dir, file), h)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(&logstore.Block{Incarnation: h.Incarnation,
		Events: []logstore.Event{{Counter: 3, ID: 4}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return file, text
}

func TestARunFromItsBeginningToItsEnd(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "runs")
	r := exampleRun()
	r.Missing = nil
	d, err := Create(parent, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(parent, r.Name+".part", "run.yaml")); err != nil {
		t.Error("while it is written:", err)
	}
	if _, err := Create(parent, r); !errors.Is(err, ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Resume(parent, r.Name); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, d.Run()); diff != "" {
		t.Error("resumed:", diff)
	}
	if err := d.PutRelation(pairOf(t, r)); err != nil {
		t.Fatal(err)
	}
	file, log := segment(t)
	if err := d.AddLog("A", file, bytes.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"version: 1\n", "version: 1\nrules: []\n# end"} {
		if err := d.AddTable(TableChange{Served_utc_ns: int64(len(table)), By: "me: myself",
			Table: table}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.PutTruth("B.b_2", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := d.AddBaseline("A", strings.NewReader("claims")); err != nil {
		t.Fatal(err)
	}
	if err := d.Update(func(r *Run) { r.Note, r.Name = "changed", "cannot change" }); err != nil {
		t.Fatal(err)
	}
	missing, err := d.Complete()
	if err != nil {
		t.Fatal(err)
	}
	want := []Missing{{"logs/B.b_2", "no log of this node was collected: killed"}}
	if diff := cmp.Diff(want, missing); diff != "" {
		t.Error("missing:", diff)
	}
	if _, err := os.Stat(filepath.Join(parent, r.Name+".part")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part is still there: %v", err)
	}

	got, err := Open(filepath.Join(parent, r.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	r.Note, r.Missing = "changed", want
	if diff := cmp.Diff(r, got.Run); diff != "" {
		t.Error("run:", diff)
	}
	if !got.Complete {
		t.Error("not complete")
	}
	pairs, lost := got.Relations()
	if len(pairs) != 1 || pairs[0].A.Name != "A" || pairs[0].B.Name != "B.b_2" || len(lost) > 0 {
		t.Errorf("relations: %v, missing %v", pairs, lost)
	}
	logs, lost := got.Logs()
	if len(logs) != 1 || logs[0].Node != "A" || len(logs[0].Segments) != 1 ||
		logs[0].Segments[0].Channel.String() != "map#3/start" || len(lost) > 0 {
		t.Errorf("logs: %v, missing %v", logs, lost)
	}
	table, err := got.Table()
	if err != nil || len(table) != 2 ||
		table[1] != (TableChange{26, "me: myself", "version: 1\nrules: []\n# end"}) {
		t.Errorf("table: %+v, %v", table, err)
	}
	if truth, err := got.Truth("B.b_2"); err != nil || string(truth) != "{}" {
		t.Errorf("truth: %q, %v", truth, err)
	}
	if truth, err := got.Truth("A"); err != nil || truth != nil {
		t.Errorf("truth of a physical node: %q, %v", truth, err)
	}
	f, err := got.OpenBaseline("A")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()

	entries, err := List(parent)
	if err != nil || len(entries) != 1 || entries[0].Name != r.Name || !entries[0].Complete ||
		entries[0].Err != nil {
		t.Errorf("list: %+v, %v", entries, err)
	}
	if err := Remove(parent, r.Name); err != nil {
		t.Error(err)
	}
	if entries, err := List(parent); err != nil || len(entries) != 0 {
		t.Errorf("list after remove: %+v, %v", entries, err)
	}
}

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "A-1_b.c": true, "_x": true, strings.Repeat("x", 100): true,
		"": false, ".": false, "..": false, ".a": false, "-a": false, "a/b": false, "a\\b": false,
		"a b": false, "é": false, "a\x00": false,
		strings.Repeat("x", 101): false, "../a": false, "/a": false, "a.part": false,
	} {
		if err := CheckName(name); (err == nil) != good || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("run %q: %v", name, err)
		}
		if err := CheckNodeName(name); (err == nil) != (good || name == "a.part") {
			t.Errorf("node %q: %v", name, err)
		}
	}
}

// Names may come from elsewhere. Whatever they are, the package writes and removes nothing outside
// the run.
func TestNoPathLeadsOut(t *testing.T) {
	parent := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	r := exampleRun()
	d, err := Create(parent, r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	file, log := segment(t)
	for _, name := range []string{"../" + file, "x/" + file, "/" + file, "map~start.cplog",
		"run.yaml", ""} {
		if err := d.AddLog("A", name, bytes.NewReader(log)); err == nil {
			t.Errorf("log %q was added", name)
		}
	}
	for _, node := range []string{"..", "../A", "C", "", "."} {
		if err := d.AddLog(node, file, bytes.NewReader(log)); err == nil {
			t.Errorf("log of node %q was added", node)
		}
		if _, err := d.LogDirectory(node); err == nil {
			t.Errorf("node %q got a directory", node)
		}
		if err := d.PutTruth(node, nil); err == nil {
			t.Errorf("node %q got a truth", node)
		}
	}
	for _, name := range []string{"..", "a/b", ""} {
		bad := r
		bad.Name = name
		if _, err := Create(parent, bad); !errors.Is(err, ErrName) {
			t.Errorf("run %q: %v", name, err)
		}
		if err := Remove(parent, name); !errors.Is(err, ErrName) {
			t.Errorf("remove %q: %v", name, err)
		}
		if _, err := Resume(parent, name); !errors.Is(err, ErrName) {
			t.Errorf("resume %q: %v", name, err)
		}
	}
	// Now links in the run lead out of it.
	if err := os.Symlink(outside, filepath.Join(d.Path(), "logs", "A")); err != nil {
		t.Fatal(err)
	}
	if err := d.AddLog("A", file, bytes.NewReader(log)); err == nil {
		t.Error("a log was written through a link")
	}
	if err := os.Symlink(outside, filepath.Join(parent, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := Remove(parent, "linked"); !errors.Is(err, ErrNotRun) {
		t.Errorf("remove a link: %v", err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("outside there is now %v", entries)
	}
	if err := Remove(parent, "nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove nothing: %v", err)
	}
	if err := os.Mkdir(filepath.Join(parent, "photos"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Remove(parent, "photos"); !errors.Is(err, ErrNotRun) {
		t.Errorf("remove a directory that is no run: %v", err)
	}
}

// For a torn or hostile directory, the package returns an error that names the bad part, and never
// panics. All other parts can still be read.
func TestBadDirectories(t *testing.T) {
	file, log := segment(t)
	for name, test := range map[string]struct {
		do   func(dir string) error
		open error  // the error that Open's error must wrap
		part string // the part that must be missing if Open succeeds
		why  string
	}{
		"no_run_yaml": {func(dir string) error {
			return os.Remove(dir + "/run.yaml")
		}, ErrNotRun, "", ""},
		"empty_run_yaml": {func(dir string) error {
			return os.WriteFile(dir+"/run.yaml", nil, 0o600)
		}, ErrRun, "", ""},
		"torn_run_yaml": {func(dir string) error {
			return os.Truncate(dir+"/run.yaml", 150)
		}, ErrRun, "", ""},
		"run_yaml_is_a_dir": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/run.yaml"), os.Mkdir(dir+"/run.yaml", 0o700))
		}, errAny, "", ""},
		"run_yaml_is_a_link": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/run.yaml"),
				os.Symlink("/etc/hostname", dir+"/run.yaml"))
		}, errAny, "", ""},
		"newer_version": {func(dir string) error {
			return os.WriteFile(dir+"/run.yaml", []byte("version: 2\nmore: 1\n"), 0o600)
		}, ErrVersion, "", ""},
		"torn_relation": {func(dir string) error {
			return os.Truncate(dir+"/relations/A--B.b_2.rel", 20)
		}, nil, "relations/A--B.b_2.rel", "torn"},
		"no_relation": {func(dir string) error {
			return os.Remove(dir + "/relations/A--B.b_2.rel")
		}, nil, "relations/A--B.b_2.rel", "not related"},
		"relation_of_others": {func(dir string) error {
			return os.Rename(dir+"/relations/A--B.b_2.rel", dir+"/relations/A--C.rel")
		}, nil, "relations/A--C.rel", "belongs in"},
		"relation_both_ways": {func(dir string) error {
			r := exampleRun()
			r.Nodes[0], r.Nodes[1] = r.Nodes[1], r.Nodes[0]
			return os.WriteFile(dir+"/relations/B.b_2--A.rel", pairOf(t, r).Encode(), 0o600)
		}, nil, "relations/B.b_2--A.rel", "same nodes"},
		"relation_of_another_epoch": {func(dir string) error {
			r := exampleRun()
			r.Nodes[0].Epoch = "boot-10"
			return os.WriteFile(dir+"/relations/A--B.b_2.rel", pairOf(t, r).Encode(), 0o600)
		}, nil, "relations/A--B.b_2.rel", "belongs to another run"},
		"logs_of_a_node_are_a_file": {func(dir string) error {
			return os.WriteFile(dir+"/logs/B.b_2", nil, 0o600)
		}, nil, "logs/B.b_2", "not a directory"},
		"logs_are_a_link": {func(dir string) error {
			return os.Symlink("/etc", dir+"/logs/B.b_2")
		}, nil, "logs/B.b_2", "not a directory"},
		"no_logs_at_all": {func(dir string) error {
			return os.RemoveAll(dir + "/logs")
		}, nil, "logs/A", "no log"},
		"relations_are_a_file": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/relations"),
				os.WriteFile(dir+"/relations", nil, 0o600))
		}, nil, "relations", "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			r := exampleRun()
			d, err := Create(parent, r)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.PutRelation(pairOf(t, r)),
				d.AddLog("A", file, bytes.NewReader(log)), test.do(d.Path()),
				d.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := Open(d.Path())
			if test.open != nil {
				if err == nil || test.open != errAny && !errors.Is(err, test.open) ||
					!strings.Contains(err.Error(), d.Path()) {
					t.Errorf("open: %v, want %v with the path", err, test.open)
				}
				entries, err := List(parent)
				if err != nil || len(entries) != 1 || entries[0].Err == nil {
					t.Errorf("list: %+v, %v", entries, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			for _, m := range got.Lacks() {
				if m.Part == test.part && strings.Contains(m.Reason, test.why) {
					return
				}
			}
			t.Errorf("lacks %v, want %q because of %q", got.Lacks(), test.part, test.why)
		})
	}
}

var errAny = errors.New("any error")

func TestOpenOfAnUnfinishedRunSaysSo(t *testing.T) {
	parent := t.TempDir()
	d, err := Create(parent, exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if _, err := Open(filepath.Join(parent, "tuesday-1.b")); err == nil ||
		!strings.Contains(err.Error(), "not complete") {
		t.Error(err)
	}
}

// A complete run can be continued, and can then be completed again.
func TestReopen(t *testing.T) {
	parent := t.TempDir()
	d, err := Create(parent, exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	name := d.Run().Name
	if _, err := Reopen(parent, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not complete: %v", err)
	}
	before, err := d.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if d, err = Reopen(parent, name); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(parent, name)); err == nil {
		t.Error("it has its name while it is gone on with")
	}
	after, err := d.Complete()
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("missing %v, then %v, %v", before, after, err)
	}
	if err := os.WriteFile(filepath.Join(parent, name, "run.yaml"), []byte("nonsense"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(parent, name); !errors.Is(err, ErrRun) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(parent, name)); err != nil {
		t.Errorf("one that cannot be gone on with has lost its name: %v", err)
	}
}

// If two frequencies of one epoch were measured, the narrower interval is kept. A nominal
// frequency, which nobody measured, never replaces a measured one, however narrow it is.
func TestEnterKeepsTheBetterFrequency(t *testing.T) {
	node := func(epoch string, lo, hi float64) Node {
		return Node{
			Name: "A", Epoch: epoch, FrequencyLo_hz: lo, FrequencyHi_hz: hi,
			FrequencySource: fmt.Sprint(lo, hi),
		}
	}
	over := node("e", 99, 101)
	for name, test := range map[string]struct{ was, now, want Node }{
		"wider":         {over, node("e", 90, 110), over},
		"narrower":      {over, node("e", 99.5, 100), node("e", 99.5, 100)},
		"nominal":       {over, node("e", 98, 98), over},
		"of nominal":    {node("e", 98, 98), over, over},
		"not known":     {over, node("e", 0, 0), over},
		"another epoch": {over, node("f", 90, 110), node("f", 90, 110)},
	} {
		r := Run{Nodes: []Node{test.was}}
		r.Enter(test.now)
		got := r.Nodes[0]
		if got.FrequencyLo_hz != test.want.FrequencyLo_hz ||
			got.FrequencyHi_hz != test.want.FrequencyHi_hz ||
			got.FrequencySource != test.want.FrequencySource {
			t.Errorf("%s: %+v, want the frequency of %+v", name, got, test.want)
		}
	}
}
