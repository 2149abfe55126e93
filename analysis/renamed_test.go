package analysis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// renamingOperators returns the operators that give tuples other ids, according to the answer. It
// joins the same ids in j, which is the truth. If the answer is wrong, a comparison with the truth
// then fails.
func (n *jobsTried) renamingOperators(t *testing.T, j *simrun.Job, dir *runs.Directory) []string {
	joined := joinedBy(analyze(t, dir, Options{}))
	j.Join(joined)
	n.joined += number(len(joined) > 0)
	n.joinedTwice += number(len(joined) > 1)
	return joined
}

// An operator may send a tuple on under another id before it ends its work on the tuple. setAside
// notes that no path leads over the points where such work ends. If all edges are declared, nothing
// is set aside.
func (w *truth) setAside(operators []string) {
	w.asides = map[string]bool{}
	for _, name := range operators {
		w.asides[name+"/end"] = true
	}
	w.after = map[*simrun.Event]bool{}
	for _, u := range w.job.Tuples {
		for _, e := range u.Events {
			for _, from := range e.Causes {
				w.after[from] = w.after[from] || !w.asides[e.Point]
			}
		}
	}
	for _, u := range w.job.Tuples {
		w.paths[u] = w.criticalPath(u)
	}
}

// joinedBy returns the operators over which an answer joins the ids of tuples.
func joinedBy(a *Answer) []string {
	for _, f := range a.Findings {
		names, _, found := strings.Cut(f.Text, ": each tuple there was made of one other")
		if found {
			return strings.Split(names, ", ")
		}
	}
	return nil
}

// In these jobs, operators send tuples on under other ids, and anything else may happen, too.
// Whether an answer joins the ids or not, every aggregate contains the truth or is withheld.
func TestAnswersAboutRenamedTuplesAreTrue(t *testing.T) {
	seed.NotUnderRace(t, "TestAnswersEqualOracle analyses random jobs")
	told, twice := jobsTried{}, max(1, 3/seed.Share())
	for i := 0; i < 24/seed.Share() || told.joinedTwice < twice && i < 300; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := fixedJob(t, i)
			answerOfJob(t, rng, simrun.RandomRenamingJob(rng, rng.IntN(3) == 0), &told)
		})
	}
	t.Logf("%+v", told)
	if told.joined*8 < told.jobs || told.joined == told.jobs || told.joinedTwice < twice {
		t.Errorf("%+v: too little was tried", told)
	}
}

// chain returns a run in which tuples go from operator to operator. All operators but the last send
// them on under other ids, and log links.
func chain(t *testing.T, operators ...string) *runs.Directory {
	return chainWith(t, nil, operators...)
}

// chainWith is chain with more logs.
func chainWith(t *testing.T, more []simrun.Channel, operators ...string) *runs.Directory {
	channels := map[string]*simrun.Channel{}
	log := func(name, handler string, node int, r simrun.Record) {
		if channels[name] == nil {
			channels[name] = &simrun.Channel{Node: node, Name: name, Handler: handler}
		}
		channels[name].Records = append(channels[name].Records, r)
	}
	now := uint64(simrun.Hz)
	for tuple := range uint64(300) {
		now += simrun.Hz / 100
		id, at := tuple, now
		log("source#0/send", "", 0, simrun.Record{Time: at, ID: id})
		for i, name := range operators {
			node := len(name) % 2
			at += simrun.Hz / 1000
			log(name+"#0/recv", "", node, simrun.Record{Time: at, ID: id})
			if i == len(operators)-1 {
				break
			}
			made := uint64(i+1)<<40 | tuple
			at += simrun.Hz / 2000
			log(name+"#0/links", "link", node, simrun.Record{ID: id, Child: made, IsLink: true})
			log(name+"#0/send", "", node, simrun.Record{Time: at, ID: made})
			id = made
		}
	}
	all := more
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		simrun.InOrder(channels[name].Records)
		all = append(all, *channels[name])
	}
	rng, parent := rand.New(rand.NewPCG(1, 1)), t.TempDir()
	if err := simrun.Write(rng, parent, "chain", simrun.Nodes(rng, 2), all); err != nil {
		t.Fatal(err)
	}
	return openRun(t, parent, "chain")
}

// A tuple to which two operators gave other ids has one path.
func TestRenamedTuplesHaveOnePath(t *testing.T) {
	a := analyze(t, chain(t, "parse", "join", "count"), Options{})
	if len(a.Paths) != 1 || a.Paths[0].Tuples != 300 || len(a.EndToEnd) != 1 ||
		len(a.Spans) != 5 {
		t.Fatalf("%d whole spans, %d spans, paths %+v", len(a.EndToEnd), len(a.Spans), a.Paths)
	}
	whole := a.EndToEnd[0]
	if whole.From != "source/send" || whole.To != "count/recv" || whole.All.Count != 300 ||
		whole.Origin != "" {
		t.Errorf("%s to %s, %d, origin %q", whole.From, whole.To, whole.All.Count, whole.Origin)
	}
	const took = simrun.Hz / 250 // three transfers of 1 ms, two computations of half a millisecond
	if m := whole.All.Mean; m.Lo_cycles > took+1000 || m.Hi_cycles < took-1000 {
		t.Errorf("the whole path takes %v cycles, want %d", m, took)
	}
}

// Return trips and pauses have no links. If one of their logs has links, these links belong to no
// tuple.
func TestLinksOfAReturnTripAreLeftOut(t *testing.T) {
	for _, point := range []string{"ret-sent", pausePoint} {
		links := []simrun.Record{{ID: 1, Child: 2, IsLink: true}, {ID: 1, Child: 3, IsLink: true}}
		more := []simrun.Channel{{Name: "parse#1/" + point, Handler: "link", Records: links}}
		a := analyze(t, chainWith(t, more, "parse", "join", "count"), Options{})
		if len(a.Paths) != 1 || a.Paths[0].Tuples != 300 {
			t.Errorf("%s: paths %+v", point, a.Paths)
		}
	}
}

// If a tuple comes to a point again under another id, its ids are not joined: with one id, its
// events there could not be told apart. The answer does not count any of its events as a duplicate.
func TestTupleThatComesBackKeepsItsIDs(t *testing.T) {
	a := analyze(t, chain(t, "group", "group", "sink"), Options{})
	for _, p := range a.Points {
		if p.Duplicates > 0 {
			t.Errorf("%d duplicates at %s", p.Duplicates, p.Name)
		}
	}
	if names := joinedBy(a); names != nil {
		t.Errorf("the ids are joined over %v", names)
	}
}

// If a tuple passes a point twice under one id, the ids that operators gave to tuples are not
// joined either.
func TestTupleThatPassesAPointTwiceKeepsItsIDs(t *testing.T) {
	operators := []string{"parse", "join", "count"}
	for name, id := range map[string]uint64{"source#1/send": 7, "join#1/send": 2<<40 | 7} {
		again := simrun.Channel{Name: name, Records: []simrun.Record{{Time: 2 * simrun.Hz, ID: id}}}
		a := analyze(t, chainWith(t, []simrun.Channel{again}, operators...), Options{})
		if names := joinedBy(a); slices.Contains(names, "join") {
			t.Errorf("%s: the ids are joined over %v", name, names)
		}
	}
}

// Each id of a tuple chooses the whole tuple, and only the events of this tuple are counted.
func TestTupleIsChosenByEachOfItsIDs(t *testing.T) {
	dir := chain(t, "parse", "join", "count")
	for _, id := range []uint64{7, 1<<40 | 7, 2<<40 | 7} {
		a := analyze(t, dir, Options{Filter: Filter{IDs: [][2]uint64{{id, id}}}})
		if len(a.EndToEnd) != 1 || a.EndToEnd[0].All.Count != 1 || a.Work.Tuples != 1 ||
			uint64(a.Slowest[0].ID) != 7 {
			t.Fatalf("id %d: %+v", id, a.EndToEnd)
		}
		for _, p := range a.Points {
			inBins := uint64(0)
			for _, n := range p.PerBin {
				inBins += n
			}
			want := uint64(number(!strings.HasSuffix(p.Name, "/links")))
			if p.Events != want || inBins != want || p.Tuples != want {
				t.Errorf("id %d: %d events at %s, %d over time", id, p.Events, p.Name, inBins)
			}
		}
	}
}

// An operator sends a tuple on, and then ends its work on the tuple. Even if the tuple comes to the
// next operator before the work ends, no finding says that this is impossible. No path leads over
// the end of the work.
func TestEndOfWorkAfterSendingIsOnNoPath(t *testing.T) {
	const n, step = 300, simrun.Hz / 1000
	channels := []simrun.Channel{{Node: 0, Name: "source#0/send"}, {Node: 1, Name: "parse#0/recv"},
		{Node: 1, Name: "parse#0/send"}, {Node: 1, Name: "parse#0/end"},
		{Node: 0, Name: "sink#0/recv"}}
	for id := range uint64(n) {
		ends := uint64(4 * step)
		if id == 7 {
			ends = 9 * step
		}
		for i, after := range []uint64{0, 2 * step, 3 * step, ends, 6 * step} {
			at := simrun.Hz + id*simrun.Hz/10 + after
			channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id})
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	rng, parent := rand.New(rand.NewPCG(2, 2)), t.TempDir()
	if err := simrun.Write(rng, parent, "ends", simrun.Nodes(rng, 2), channels); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "ends"), Options{})
	for _, f := range a.Findings {
		if f.Kind == FindImpossible {
			t.Errorf("the answer says: %s", f.Text)
		}
	}
	p := a.Paths[0]
	if len(a.Paths) != 1 || !slices.Equal(p.To, []string{"sink/recv"}) || p.Whole != n ||
		p.Backwards != 0 {
		t.Errorf("%d paths, %d whole tuples to %v, %d durations backwards", len(a.Paths), p.Whole,
			p.To, p.Backwards)
	}
	for _, s := range a.Spans {
		if s.From == "parse/recv" && s.To == "parse/end" && s.All.Count == n {
			return
		}
	}
	t.Error("the work from parse/recv to parse/end is not measured")
}
