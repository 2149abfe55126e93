package export

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// job collects the records of channels. The field index has the place of each channel by its name.
type job struct {
	channels []simrun.Channel
	index    map[string]int
}

func (j *job) log(node int, name string, time, id uint64) {
	at, known := j.index[name]
	if !known {
		at = len(j.channels)
		if j.index == nil {
			j.index = map[string]int{}
		}
		j.index[name] = at
		j.channels = append(j.channels, simrun.Channel{Node: node, Name: name})
	}
	j.channels[at].Records = append(j.channels[at].Records, simrun.Record{Time: time, ID: id})
}

// logLink logs that a tuple was made of another.
func (j *job) logLink(parent, child uint64) {
	const name = "window/link"
	j.log(0, name, 0, parent)
	c := &j.channels[j.index[name]]
	c.Handler = "link"
	r := &c.Records[len(c.Records)-1]
	r.Child, r.IsLink = child, true
}

// write makes a run of the job, and returns its directory.
func (j *job) write(t *testing.T, rng *rand.Rand, nodes []simrun.Node) string {
	t.Helper()
	for i := range j.channels {
		simrun.InOrder(j.channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, j.channels); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "r")
}

// forkingJob is a job that forks into two branches of equal speed, which join again. Tuples with
// ids from 1000 on show in which order tuples pass the points. Each tuple with an id below 1000 is
// a separate case.
func forkingJob(t *testing.T) string {
	rng := rand.New(rand.NewPCG(1, 1))
	var j job
	now := uint64(simrun.Hz)
	tuple := func(id uint64, points ...string) {
		now += 3_000_000
		for i, p := range points {
			at := now + uint64(i)*100_000
			j.log(map[byte]int{'s': 0, 'l': 1, 'r': 2, 'j': 0}[p[0]], p, at, id)
		}
	}
	all := []string{"source/send", "left/recv", "right/recv", "left/send", "right/send",
		"join/recv", "join/send"}
	other := []string{"source/send", "right/recv", "left/recv", "right/send", "left/send",
		"join/recv", "join/send"}
	for id := range uint64(200) {
		tuple(1000+id, [][]string{all, other}[id%2]...)
	}
	tuple(1, all...)
	tuple(2, other...)
	tuple(3, "source/send", "left/recv", "left/send", "join/recv", "join/send") // only one branch
	tuple(4, "source/send", "left/recv", "right/recv", "left/send", "join/recv", "join/send")
	tuple(5, "source/send", "left/recv", "right/recv") // lost on both branches
	tuple(6, "source/send", "left/recv", "right/recv", "left/recv", "left/send", "right/send",
		"left/send", "join/recv", "join/send") // sent again
	tuple(7, all...)
	tuple(7, other...)                                            // the same id again
	tuple(8, "left/recv", "left/send", "right/send", "join/recv") // no source
	tuple(9, "source/send", "join/send")                          // no event in between
	tuple(10, "source/send")
	tuple(11, "source/send", "left/recv", "left/send", "join/recv", "left/recv", "left/send",
		"join/recv", "join/send") // twice through a branch
	return j.write(t, rng, simrun.Nodes(rng, 3))
}

// randomJob is a random graph of operators: forks, joins, instances, losses, events that are sent
// again, ids that are used again or by two sources, loops of several edges, and windows of windows.
// Two of the nodes may have a poor relation or none (relateLess).
func randomJob(t *testing.T, rng *rand.Rand) (string, analysis.Options) {
	nodes := simrun.Nodes(rng, 3)
	operators := 4 + rng.IntN(4)
	after := make([][]int, operators)
	for to := 1; to < operators; to++ {
		for from := range to {
			if from == to-1 && rng.IntN(3) > 0 || rng.IntN(4) == 0 {
				after[from] = append(after[from], to)
			}
		}
	}
	nodeOf, instances := make([]int, operators), make([]uint64, operators)
	for i := range nodeOf {
		nodeOf[i], instances[i] = rng.IntN(len(nodes)), 1+rng.Uint64N(2)
	}
	loop, windows := rng.IntN(4) == 0, rng.IntN(2) == 0
	var j job
	begin := uint64(simrun.Hz)
	var pass func(id, at uint64, o, depth int)
	pass = func(id, at uint64, o, depth int) {
		instance := id % instances[o]
		node := (nodeOf[o] + int(instance)) % len(nodes)
		name := func(point string) string { return fmt.Sprintf("op%d#%d/%s", o, instance, point) }
		at += 100 + rng.Uint64N(1<<rng.UintN(20))
		j.log(node, name("recv"), at, id)
		for rng.IntN(30) == 0 {
			j.log(node, name("recv"), at+rng.Uint64N(1<<20), id)
		}
		if rng.IntN(20) == 0 { // lost
			return
		}
		at += 100 + rng.Uint64N(1<<rng.UintN(20))
		j.log(node, name("send"), at, id)
		for _, to := range after[o] {
			if rng.IntN(10) > 0 && depth < 12 {
				pass(id, at, to, depth+1)
			}
		}
		if loop && o > 1 && depth < 12 && rng.IntN(10) == 0 {
			pass(id, at, rng.IntN(o), depth+3)
		}
	}
	const tuples = 300
	for id := range uint64(tuples) {
		begin += rng.Uint64N(simrun.Hz / tuples)
		pass(id, begin, 0, 0)
		if windows && id%5 == 4 { // five tuples become one, and five of those become one again
			made := 1<<40 | id/5
			for of := id - 4; of <= id; of++ {
				j.logLink(of, made)
			}
			pass(made, begin+simrun.Hz/tuples, operators-1, 0)
			j.logLink(made, 1<<41|id/25)
			if id%25 == 24 {
				pass(1<<41|id/25, begin+2*simrun.Hz/tuples, operators-1, 0)
			}
		}
		if rng.IntN(20) == 0 { // the same id again, from the same source or another
			pass(id, begin+rng.Uint64N(1<<24), rng.IntN(2), 0)
		}
	}
	run := j.write(t, rng, nodes)
	o := analysis.Options{Reference: nodes[rng.IntN(3)].Name,
		ThirdNodes: tscratio.ThirdNodes(rng.IntN(3))}
	if from, to := rng.IntN(3), rng.IntN(3); from != to {
		relateLess(t, rng, run, &nodes[min(from, to)], &nodes[max(from, to)])
	}
	return run, o
}

// relateLess removes the relation of two nodes, or replaces it by one that was measured only before
// the job began.
func relateLess(t *testing.T, rng *rand.Rand, run string, a, b *simrun.Node) {
	t.Helper()
	path := filepath.Join(run, "relations", a.Name+"--"+b.Name+".rel")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if rng.IntN(2) == 0 {
		return
	}
	relateBefore(t, rng, run, a, b)
}

// relateBefore replaces the relation of two nodes by one that was measured only before the job
// began. The job begins when the true clock reads simrun.Hz. The trains end half a second before.
func relateBefore(t *testing.T, rng *rand.Rand, run string, a, b *simrun.Node) {
	t.Helper()
	path := filepath.Join(run, "relations", a.Name+"--"+b.Name+".rel")
	pair, err := simrun.Relate(rng, a, b, simrun.Hz/4, simrun.Hz/2)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pair.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair identifies a row of durations: all its columns except the interval.
type pair struct {
	ID, Way, FromWay, From, To, Kind, FromNode, ToNode string
}

func (p pair) String() string {
	return fmt.Sprintf("tuple %s, ways %s, %s: %s on %s → %s on %s, %s", p.ID, p.FromWay, p.Way,
		p.From, p.FromNode, p.To, p.ToNode, p.Kind)
}

// measuredPair is a pair with its interval. If an end is not known, it is nil.
type measuredPair struct {
	pair
	Lo, Hi  *int64
	Verdict string
}

func inOrder(all []measuredPair) {
	slices.SortFunc(all, func(a, b measuredPair) int {
		return slices.Compare([]string{a.pair.String()}, []string{b.pair.String()})
	})
}

// nativeDurations returns the durations that the analysis itself joins.
func nativeDurations(t *testing.T, run string, o analysis.Options) (all []measuredPair) {
	t.Helper()
	dir, err := runs.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	o.Durations = func(d analysis.DurationRow) error {
		way, from := d.Tuple, d.Tuple
		if d.Tuple == 0 {
			way, from = d.Made, d.Origin
		}
		all = append(all, measuredPair{pair{fmt.Sprint(d.ID), fmt.Sprint(way), fmt.Sprint(from),
			d.From,
			d.To, d.Kind, d.FromNode, d.ToNode}, &d.Lo, &d.Hi, d.Verdict.String()})
		return nil
	}
	o.Events = func(analysis.EventRow) error { return nil }
	if _, err := analysis.Run(t.Context(), dir, o); err != nil {
		t.Fatal(err)
	}
	inOrder(all)
	return all
}

// exportOf writes a run's tables and queries, and returns their directory.
func exportOf(t *testing.T, run string, o analysis.Options) string {
	t.Helper()
	dir, err := runs.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, _, err := Run(t.Context(), dir, o, Parquet|CSV|SQL); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(run, "exports")
}

// samePairs fails the test unless both lists have exactly the same pairs, and each interval in the
// list joined contains that of the same pair in the list native. It returns how many pairs violate
// this.
func samePairs(t *testing.T, native, joined []measuredPair) (other int) {
	t.Helper()
	tell := func(format string, args ...any) {
		if other++; other <= 5 {
			t.Errorf(format, args...)
		}
	}
	count := map[pair]int{}
	for _, p := range native {
		count[p.pair]++
	}
	for _, p := range joined {
		count[p.pair]--
	}
	for p, n := range count {
		if n > 0 {
			tell("not joined: %v", p)
		} else if n < 0 {
			tell("joined, and not a duration: %v", p)
		}
	}
	if other > 0 {
		return other
	}
	for i, p := range joined {
		want := native[i]
		switch {
		case p.Verdict == "unknown" && p.Lo == nil && p.Hi == nil:
		case p.Verdict == "unknown" || p.Lo == nil || p.Hi == nil:
			tell("%v: verdict %s, interval %v to %v", p, p.Verdict, p.Lo, p.Hi)
		case *p.Lo > *want.Lo || *p.Hi < *want.Hi:
			tell("%v: %d to %d does not contain %d to %d", p, *p.Lo, *p.Hi, *want.Lo, *want.Hi)
		case p.Verdict == "consistent" && want.Verdict != "consistent":
			tell("%v: it is %s, and joined %s", p, want.Verdict, p.Verdict)
		}
	}
	return other
}
