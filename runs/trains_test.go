package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// trainsOf returns a pair that has n trains. Its nodes are the nodes a and b of the run, and its
// first train is at the given time.
func trainsOf(t *testing.T, r Run, a, b int, at, n uint64) *tscratio.Pair {
	t.Helper()
	r.Nodes = []Node{r.Nodes[a], r.Nodes[b]}
	p := pairOf(t, r)
	for i := range n {
		sent := 1 << 40 * (at + i)
		if err := p.Add(tscratio.Train{Exchanges: []tscratio.Exchange{{
			Sent: tscratio.At(sent), Received: tscratio.At(sent + 1000),
			Answered: tscratio.At(sent + 2000), Returned: tscratio.At(sent + 3000),
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func threeNodes() Run {
	r := exampleRun()
	r.Missing = nil
	for i := range r.Nodes {
		r.Nodes[i].NoLogs = true
	}
	r.Nodes = append(r.Nodes, Node{Name: "C", Number: 3, Epoch: "boot-1", NoLogs: true})
	return r
}

// trainsIn returns the number of trains in each file of relations of a run.
func trainsIn(t *testing.T, path string) map[string]int {
	t.Helper()
	dir, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	pairs, missing := dir.Relations()
	if len(missing) > 0 {
		t.Error(missing)
	}
	got := map[string]int{}
	for _, p := range pairs {
		got[strings.TrimPrefix(dir.Run.PairPath(p.A, p.B), "relations/")] = p.Trains()
	}
	return got
}

// An earlier version of this package began a run. A writer adds trains to the run, and is killed.
// Another writer continues and completes the run.
func TestTrainsAreAppended(t *testing.T) {
	parent := t.TempDir()
	r := threeNodes()
	d, err := Create(parent, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.PutRelation(trainsOf(t, r, 0, 1, 1, 2)); err != nil {
		t.Fatal(err)
	}
	add := func(d *Draft, pairs ...*tscratio.Pair) {
		t.Helper()
		if err := d.AddTrains(pairs); err != nil {
			t.Fatal(err)
		}
	}
	add(d, trainsOf(t, r, 0, 1, 3, 1), trainsOf(t, r, 0, 2, 1, 1))
	wider := trainsOf(t, r, 0, 1, 4, 3)
	wider.A.CoreSlack_cycles = 99
	add(d, wider, trainsOf(t, r, 1, 2, 1, 0)) // nothing is known of B and C but what they are
	if pairs, trains := d.Gathered(); pairs != 3 || trains != 7 {
		t.Errorf("%d pairs, %d trains", pairs, trains)
	}
	want := map[string]int{"A--B.b_2.rel": 6, "A--C.rel": 1}
	if diff := cmp.Diff(want, trainsIn(t, d.Path())); diff != "" {
		t.Error("while the run is open:", diff)
	}
	d.Close()

	path := filepath.Join(parent, r.Name+incompleteEnd, journalFile)
	whole, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("torn")); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if diff := cmp.Diff(want, trainsIn(t, d.Path())); diff != "" {
		t.Error("with a torn end:", diff)
	}
	if d, err = Resume(parent, r.Name); err != nil || d.Cut() != 4 {
		t.Fatalf("%v, %d bytes are cut off", err, d.Cut())
	}
	if info, err := os.Stat(path); err != nil || info.Size() != whole.Size() {
		t.Errorf("%d bytes, then %v, %v", whole.Size(), info, err)
	}
	add(d, trainsOf(t, r, 0, 2, 2, 2))
	missing, err := d.Complete()
	if err != nil || len(missing) != 1 || missing[0].Part != "relations/B.b_2--C.rel" {
		t.Errorf("missing %v, %v", missing, err)
	}
	want["A--C.rel"] = 3
	if diff := cmp.Diff(want, trainsIn(t, d.Path())); diff != "" {
		t.Error("complete:", diff)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), journalFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal is still there: %v", err)
	}
	dir, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	pairs, _ := dir.Relations()
	if pairs[0].A.CoreSlack_cycles != 99 {
		t.Errorf("A is %+v", pairs[0].A)
	}
	last := uint64(0)
	for k := range pairs[0].Kept() {
		if k.B.Lo <= last {
			t.Errorf("the trains have another order than they were added in")
		}
		last = k.B.Lo
	}
}

// If a block of the journal names itself or a place without a block, Complete does not loop: it
// reports the relations as missing.
func TestHostileJournal(t *testing.T) {
	for name, change := range map[string]func(d *Draft){
		"a block that names itself": func(d *Draft) {
			g := d.gathered
			p := trainsOf(t, d.run, 0, 1, 1, 1)
			at := g.journal.Append(binary.LittleEndian.AppendUint64(nil, uint64(g.journal.Size())),
				p.Encode())
			g.pairs[countersOf(p)] = &chain{at}
		},
		"a block that names nothing": func(d *Draft) {
			g := d.gathered
			p := trainsOf(t, d.run, 0, 1, 1, 1)
			at := g.journal.Append(binary.LittleEndian.AppendUint64(nil, 13), p.Encode())
			g.pairs[countersOf(p)] = &chain{at}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := threeNodes()
			d, err := Create(t.TempDir(), r)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.AddTrains([]*tscratio.Pair{trainsOf(t, r, 0, 1, 1, 1),
				trainsOf(t, r, 0, 2, 1, 1)}); err != nil {
				t.Fatal(err)
			}
			change(d)
			if err := d.gathered.journal.Flush(); err != nil {
				t.Fatal(err)
			}
			missing, err := d.Complete()
			if err != nil || len(missing) != 2 || missing[0].Part != "relations/A--B.b_2.rel" {
				t.Errorf("missing %v, %v", missing, err)
			}
		})
	}
}

// A run of a large fleet lacks nothing if chains of relations lead from each node to all others.
// The run says which fleets are large.
func TestLargeRunLacks(t *testing.T) {
	t.Run("more than 30", func(t *testing.T) { wantLacks(t, 0) })
	t.Run("more than 5", func(t *testing.T) { wantLacks(t, 5) })
	r := threeNodes()
	r.AllPairs = 100
	d := largeRun(t, r)
	const pairs, related = 43 * 42 / 2, 40
	if missing, err := d.Complete(); err != nil || len(missing) != pairs-related {
		t.Errorf("in a fleet that is not large, %d relations are missing, want %d; %v",
			len(missing), pairs-related, err)
	}
}

// largeRun returns a run with 40 nodes more than r. Its relations connect the first 40 nodes in a
// chain, and two of the other nodes with each other.
func largeRun(t *testing.T, r Run) *Draft {
	t.Helper()
	for i := range 40 {
		r.Nodes = append(r.Nodes, Node{Name: fmt.Sprintf("n%02d", i), Number: 20 + i,
			Epoch: "e", NoLogs: true})
	}
	d, err := Create(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []*tscratio.Pair
	for i := 1; i < 40; i++ { // a chain of all but three
		pairs = append(pairs, trainsOf(t, r, i-1, i, 1, 1))
	}
	pairs = append(pairs, trainsOf(t, r, 40, 41, 1, 1))
	if err := d.AddTrains(pairs); err != nil {
		t.Fatal(err)
	}
	return d
}

func wantLacks(t *testing.T, allPairs int) {
	r := threeNodes()
	r.AllPairs = allPairs
	missing, err := largeRun(t, r).Complete()
	want := []Missing{
		{"node n37", "no relations lead from it to most other nodes"},
		{"node n38", "no relations lead from it to most other nodes"},
		{"node n39", "it was related to no other node"},
	}
	if diff := cmp.Diff(want, missing); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A run takes trains of a node, or of an epoch, as soon as the node has entered the run.
func TestARunTakesTrainsOfNodesThatEnter(t *testing.T) {
	r := threeNodes()
	late := r.Nodes[2]
	r.Nodes = r.Nodes[:2]
	d, err := Create(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	takes := func(epoch string) bool {
		return d.Takes(tscratio.Node{Name: r.Nodes[0].Name, Epoch: r.Nodes[0].Epoch},
			tscratio.Node{Name: late.Name, Epoch: epoch})
	}
	for _, epoch := range []string{late.Epoch, "boot-2"} {
		if takes(epoch) {
			t.Errorf("epoch %q is taken before it entered", epoch)
		}
		late.Epoch = epoch
		if err := d.Update(func(r *Run) { r.Enter(late) }); err != nil {
			t.Fatal(err)
		}
		if !takes(epoch) {
			t.Errorf("epoch %q is not taken", epoch)
		}
	}
}
