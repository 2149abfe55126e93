package analysis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// nestedKind is how tuples come to a quick actor that works only while a slow one does.
type nestedKind int

const (
	forkLast    nestedKind = iota // both get a copy; a join logs the last arrival
	forkEach                      // both get a copy; the join logs both arrivals
	forkAside                     // both get a copy; the quick one sends its result elsewhere
	forkNoJoin                    // both get a copy; tuples end at both
	callAndWait                   // the slow actor calls the quick one, and waits
	callEach                      // the same as callAndWait, but the join logs each arrival
	nestedKinds
)

// nestedJob is a job in which the actor quick works only while the actor slow does.
type nestedJob struct {
	forkJob
	kind  nestedKind
	other bool // a third branch, which works at any time
}

// randomNested makes a job of source, slow, quick and join. If single is true, quick has only one
// point. If other is true, a third branch joins the others.
func randomNested(rng *rand.Rand, kind nestedKind, single, other bool) *nestedJob {
	j := &nestedJob{kind: kind, other: other, forkJob: forkJob{
		nodes: simrun.Nodes(rng, 1+rng.IntN(3)), actorNode: map[string]int{},
		index:        map[string]int{},
		loggedEvents: map[uint64][]*forkedEvent{}, ends: map[uint64][]*forkedEvent{},
	}}
	for i, a := range []string{"source", "slow", "quick", "other", "join", "aside"} {
		j.actorNode[a] = rng.IntN(len(j.nodes))
		if i < 3 {
			// Each node has logs: a node without logs would leave more orders open.
			j.actorNode[a] = i % len(j.nodes)
		}
	}
	step := func(most uint64) uint64 { return forkMs/50 + rng.Uint64N(most) }
	for i := range uint64(300) {
		id, now := i+1000, uint64(simrun.Hz)+i*7*forkMs
		source := j.log(id, "source", "send", now)
		enter := j.log(id, "slow", "recv", now+step(forkMs), source)
		from := source
		if kind >= callAndWait {
			from = enter
		}
		quick := j.log(id, "quick", "recv", enter.time+step(forkMs), from)
		if !single {
			quick = j.log(id, "quick", "send", quick.time+step(forkMs), quick)
		}
		left := enter
		if kind >= callAndWait {
			left = quick
		}
		leave := j.log(id, "slow", "send", quick.time+step(forkMs), left)
		sent := []*forkedEvent{leave}
		if kind == forkLast || kind == forkEach {
			sent = append(sent, quick)
		}
		aside := quick
		if kind == forkAside {
			aside = j.log(id, "aside", "recv", quick.time+step(2*forkMs), quick)
		}
		if other {
			at := j.log(id, "other", "recv", now+step(3*forkMs), source)
			sent = append(sent, j.log(id, "other", "send", at.time+step(forkMs), at))
		}
		if kind == forkNoJoin && !other {
			j.ends[id] = []*forkedEvent{leave}
			continue
		}
		j.logArrivals(id, sent, kind == forkEach || kind == callEach, step)
		if kind == forkAside && aside.time > j.ends[id][0].time {
			j.ends[id] = []*forkedEvent{aside}
		}
	}
	for i := range j.channels {
		simrun.InOrder(j.channels[i].Records)
	}
	return j
}

// logArrivals logs the arrival of a tuple's branches at the point join. If each is true, it logs
// the arrival of each branch, otherwise only that of the last.
func (j *nestedJob) logArrivals(id uint64, sent []*forkedEvent, each bool,
	step func(uint64) uint64) {
	var times []uint64
	for _, e := range sent {
		times = append(times, e.time+step(forkMs))
	}
	last := slices.Max(times)
	var at *forkedEvent
	for i, e := range sent {
		if each && times[i] < last {
			j.log(id, "join", "recv", times[i], e)
		}
	}
	at = j.log(id, "join", "recv", last, sent...)
	j.ends[id] = []*forkedEvent{j.log(id, "join", "send", at.time+step(forkMs), at)}
}

func (j *nestedJob) analyze(t *testing.T, rng *rand.Rand, edges ...[2]string) (*Answer,
	[]DurationRow) {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "job", j.nodes, j.channels); err != nil {
		t.Fatal(err)
	}
	var rows []DurationRow
	a := analyze(t, openRun(t, parent, "job"), Options{
		Edges: edges, Durations: func(r DurationRow) error { rows = append(rows, r); return nil },
	})
	return a, rows
}

// checkCritical compares an answer with the truth. If the answer calls a span surely critical, the
// span must be on the tuple's true critical path. If the answer calls it surely not critical, the
// span must not be on that path. If decided is true, the order is known, so the answer must decide
// nearly all spans.
func (j *nestedJob) checkCritical(t *testing.T, a *Answer, rows []DurationRow, decided bool) {
	t.Helper()
	type key struct {
		id       uint64
		from, to string
	}
	truth, spans := map[key]bool{}, map[[2]string]bool{}
	sums, total := map[[2]string]float64{}, 0.0
	for _, events := range j.loggedEvents {
		for _, e := range events {
			for _, c := range e.causes {
				spans[[2]string{c.point, e.point}] = true
			}
		}
	}
	for id, ends := range j.ends {
		path := ends[0].criticalPath()
		total += float64(j.trueElapsed(path[len(path)-1], path[0]))
		for i, to := range path[:len(path)-1] {
			truth[key{id, path[i+1].point, to.point}] = true
			sums[[2]string{path[i+1].point, to.point}] += float64(j.trueElapsed(path[i+1], to))
		}
	}
	perhaps, told := 0, map[key]bool{}
	for _, r := range rows {
		if r.Kind == "end-to-end" {
			continue
		}
		k := key{r.ID, r.From, r.To}
		told[k] = true
		if r.Critical == PerhapsCritical {
			perhaps++
		} else if truth[k] != (r.Critical == SurelyCritical) {
			t.Errorf("%v is %v on the critical path, the truth is %v", k, r.Critical, truth[k])
		}
		if !decided {
			continue
		}
		if r.Critical == NotCritical && truth[k] {
			t.Errorf("%v is not critical", k)
		}
	}
	if open := mentions(a, "branch or call?"); open == decided {
		t.Errorf("decided %v, findings %v", decided, a.Findings)
	}
	if decided && (perhaps*20 > len(rows) || a.Partial) {
		t.Errorf("%d of %d spans are perhaps critical, findings %v", perhaps, len(rows), a.Findings)
	}
	for k := range truth {
		if decided && !told[k] {
			t.Errorf("%v is not told", k)
		}
	}
	for _, p := range a.Paths {
		for i, s := range p.Spans {
			l := &a.Spans[s.Span]
			want := sums[[2]string{l.From, l.To}]
			if s.Surely && !spans[[2]string{l.From, l.To}] {
				t.Errorf("%s, %s is surely slow, and is no span of the job", l.From, l.To)
			}
			if s.Share == nil && !decided { // withheld: the join has not one event for each branch
				continue
			}
			if s.Share == nil || want/total < s.Share.Lo-1e-6 || want/total > s.Share.Hi+1e-6 {
				t.Errorf("the share of %s, %s is %v, the truth is %g", l.From, l.To, s.Share,
					want/total)
			}
			for _, after := range p.Spans[i+1:] {
				m := &a.Spans[after.Span]
				if s.Surely && sums[[2]string{m.From, m.To}] >= want {
					t.Errorf("%s, %s is surely slower than %s, %s", l.From, l.To, m.From, m.To)
				}
			}
		}
	}
}

// If a quick actor works only while a slow one does, either both got a copy of the tuple, or the
// slow one called the quick one. The answer says which only if the data or declared edges do.
func TestNestedForksAndCalls(t *testing.T) {
	seed.NotUnderRace(t, "TestDurationsHoldTruth runs the same code side by side")
	for i := range max(1, 2/seed.Share()) {
		for kind := range nestedKinds {
			for variant := range 4 {
				single, other := variant&1 > 0, variant&2 > 0
				t.Run(fmt.Sprint(i, kind, single, other), func(t *testing.T) {
					nestedForksAndCalls(t, seed.Random(t), kind, single, other)
				})
			}
		}
	}
}

func nestedForksAndCalls(t *testing.T, rng *rand.Rand, kind nestedKind, single, other bool) {
	j := randomNested(rng, kind, single, other)
	shown := kind == forkEach || kind == forkAside
	a, rows := j.analyze(t, rng)
	j.checkCritical(t, a, rows, shown)

	edge := [2]string{"source/send", "quick/recv"}
	if kind >= callAndWait {
		edge = [2]string{"slow/recv", "quick/recv"}
	}
	a, rows = j.analyze(t, rng, edge)
	j.checkCritical(t, a, rows, true)
}
