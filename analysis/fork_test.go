package analysis

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// forked is an event of a job that copies each tuple to several branches and joins the copies.
type forked struct {
	point  string
	node   int
	time   uint64
	causes []*forked
}

// forkJob is a random job with forks and joins, and what truly happened in it.
type forkJob struct {
	nodes    []simrun.Node
	channels []simrun.Channel
	edges    [][2]string
	perfect  bool // nothing was lost, repeated, sent again or sampled

	where map[string]int       // by actor: its node
	index map[string]int       // by point: its channel
	seen  map[uint64][]*forked // by id: the events that were logged
	ends  map[uint64][]*forked // by id: the events where tuples ended
}

func (j *forkJob) log(id uint64, actor, point string, time uint64, causes ...*forked) *forked {
	name := actor + "/" + point
	if _, ok := j.index[name]; !ok {
		j.index[name] = len(j.channels)
		j.channels = append(j.channels, simrun.Channel{Node: j.where[actor], Name: name})
	}
	c := &j.channels[j.index[name]]
	c.Records = append(c.Records, simrun.Record{Time: time, ID: id})
	e := &forked{point: name, node: j.where[actor], time: time, causes: causes}
	j.seen[id] = append(j.seen[id], e)
	return e
}

// arrival is a message that came to the point where branches meet.
type arrival struct {
	time uint64
	sent *forked
}

const forkMs = simrun.Hz / 1000

func randomForkJob(rng *rand.Rand) *forkJob {
	j := &forkJob{
		nodes: simrun.Nodes(rng, 2+rng.IntN(3)), where: map[string]int{}, index: map[string]int{},
		seen: map[uint64][]*forked{}, ends: map[uint64][]*forked{}, perfect: rng.IntN(3) == 0,
	}
	branches := make([]int, 2+rng.IntN(2)) // the number of actors on each branch
	quiet := make([]bool, len(branches))   // the actors of the branch log only what they send
	for b := range branches {
		quiet[b] = rng.IntN(3) == 0
		branches[b] = 1 + rng.IntN(2)
		for a := range branches[b] {
			j.where[fmt.Sprintf("b%d-%d", b, a)] = rng.IntN(len(j.nodes))
		}
	}
	for _, a := range []string{"source", "join", "sink"} {
		j.where[a] = rng.IntN(len(j.nodes))
	}
	// In some jobs a copy goes to a separate actor, and does not come back.
	side := rng.IntN(3) == 0
	j.where["side"] = rng.IntN(len(j.nodes))
	eachArrival := rng.IntN(2) == 0 // whether the join logs each message, or only the last
	var lose, repeat, resend float64
	if !j.perfect {
		lose, repeat, resend = rng.Float64()*0.03, rng.Float64()*0.03, rng.Float64()*0.03
	}
	edge := func(from, to string) { j.edges = append(j.edges, [2]string{from, to}) }
	into := "join/start"
	if eachArrival {
		into = "join/recv"
		edge("join/recv", "join/start")
	}
	for b, n := range branches {
		last := "source/send"
		for a := range n {
			actor := fmt.Sprintf("b%d-%d", b, a)
			if !quiet[b] {
				edge(last, actor+"/recv")
				last = actor + "/recv"
			}
			edge(last, actor+"/send")
			last = actor + "/send"
		}
		edge(last, into)
	}
	edge("join/start", "join/end")
	edge("join/end", "sink/recv")
	if side {
		edge("source/send", "side/recv")
	}
	now := uint64(simrun.Hz)
	for i := range 300 + rng.IntN(300) {
		id := uint64(i) + 1000
		now += forkMs/10 + rng.Uint64N(forkMs/5)
		times := []uint64{now}
		if rng.Float64() < resend {
			times = append(times, now+rng.Uint64N(10*forkMs))
		}
		arrived := make([][]arrival, len(branches)) // by branch, each copy once
		var logged []arrival
		var sides []*forked
		for _, t := range times {
			source := j.log(id, "source", "send", t)
			if side {
				at := t + rng.Uint64N(12*forkMs)
				sides = append(sides, j.log(id, "side", "recv", at, source))
			}
			for b, n := range branches {
				at, sent := t, source
				lost := false
				for a := range n {
					at += forkMs/20 + rng.Uint64N(forkMs)
					if lost = rng.Float64() < lose; lost {
						break
					}
					actor := fmt.Sprintf("b%d-%d", b, a)
					if !quiet[b] {
						sent = j.log(id, actor, "recv", at, sent)
					}
					at += 1000 + rng.Uint64N(forkMs)
					sent = j.log(id, actor, "send", at, sent)
				}
				at += forkMs/20 + rng.Uint64N(forkMs)
				if lost || rng.Float64() < lose {
					continue
				}
				arrived[b] = append(arrived[b], arrival{at, sent})
				logged = append(logged, arrival{at, sent})
				if rng.Float64() < repeat {
					logged = append(logged, arrival{at + rng.Uint64N(3*forkMs), sent})
				}
			}
		}
		j.join(rng, id, eachArrival, arrived, logged)
		if ends := j.ends[id]; len(sides) == 1 && (len(ends) == 0 ||
			len(ends) == 1 && sides[0].time > ends[0].time) {
			j.ends[id] = sides // the copy to the separate actor ends last
		} else if len(sides) > 1 {
			j.ends[id] = append(j.ends[id], sides...)
		}
	}
	for i := range j.channels {
		simrun.InOrder(j.channels[i].Records)
	}
	return j
}

// join joins the copies of a tuple. Each time when one more copy has come over each branch, the
// tuple goes on.
func (j *forkJob) join(rng *rand.Rand, id uint64, eachArrival bool, arrived [][]arrival,
	logged []arrival) {
	byTime := func(a, b arrival) int { return cmp.Compare(a.time, b.time) }
	events := map[arrival]*forked{}
	if eachArrival {
		for _, a := range logged {
			events[a] = j.log(id, "join", "recv", a.time, a.sent)
		}
	}
	for _, all := range arrived {
		slices.SortFunc(all, byTime)
	}
	for n := 0; ; n++ {
		var last arrival
		var sent []*forked
		for _, all := range arrived {
			if n >= len(all) {
				return
			}
			sent = append(sent, all[n].sent)
			last = slices.MaxFunc([]arrival{last, all[n]}, byTime)
		}
		causes := sent
		if eachArrival {
			// The last arrival is where the branches meet.
			events[last].causes = sent
			causes = []*forked{events[last]}
		}
		start := j.log(id, "join", "start", last.time+100+rng.Uint64N(forkMs/10), causes...)
		end := j.log(id, "join", "end", start.time+100+rng.Uint64N(forkMs), start)
		sink := j.log(id, "sink", "recv", end.time+forkMs/20+rng.Uint64N(forkMs), end)
		j.ends[id] = append(j.ends[id], sink)
	}
}

// ancestors are the events that led to an event.
func (e *forked) ancestors(into map[*forked]bool) map[*forked]bool {
	for _, c := range e.causes {
		if !into[c] {
			into[c] = true
			c.ancestors(into)
		}
	}
	return into
}

// criticalPath returns the events from the end back to the beginning. From each event, it goes to
// the latest of the events directly before.
func (e *forked) criticalPath() (path []*forked) {
	for {
		path = append(path, e)
		if len(e.causes) == 0 {
			return path
		}
		e = slices.MaxFunc(e.causes, func(a, b *forked) int { return cmp.Compare(a.time, b.time) })
	}
}

// elapsed is the true time between two events, in cycles of the reference.
func (j *forkJob) elapsed(from, to *forked) int64 {
	return int64(j.nodes[0].Reading(to.time) - j.nodes[0].Reading(from.time))
}

// isTrue reports whether a duration is the true one between two events, one of which led to the
// other. If critical is true, both must be on the critical path of one tuple.
func (j *forkJob) isTrue(r DurationRow, critical bool) bool {
	matches := func(from, to *forked) bool {
		d := j.elapsed(from, to)
		return from.point == r.From && to.point == r.To && r.Lo <= d+1 && d-1 <= r.Hi
	}
	if critical {
		for _, end := range j.ends[r.ID] {
			path := end.criticalPath()
			for i, to := range path {
				if slices.ContainsFunc(path[i:], func(e *forked) bool { return matches(e, to) }) {
					return true
				}
			}
		}
		return false
	}
	for _, to := range j.seen[r.ID] {
		for from := range to.ancestors(map[*forked]bool{}) {
			if matches(from, to) {
				return true
			}
		}
	}
	return false
}

// Every duration of jobs with forks and joins is true or withheld, although tuples are lost,
// repeated, sent again and sampled. A span that is said to be surely on a critical path is truly on
// it. If nothing is lost, the critical path of each tuple is the true one, and shares contain the
// true shares.
func TestForksAndJoins(t *testing.T) {
	told, critical := 0, 0
	for i := range max(6, 60/seed.Share()) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			a, b := forksAndJoins(t, seed.Random(t))
			told, critical = told+a, critical+b
		})
	}
	if told < 1000 || critical < 500 {
		t.Errorf("%d durations told, %d surely critical: too little was tried", told, critical)
	}
}

func forksAndJoins(t *testing.T, rng *rand.Rand) (told, sure int) {
	j := randomForkJob(rng)
	declared := rng.IntN(2) == 0
	if !j.perfect && rng.IntN(2) == 0 {
		c := &j.channels[rng.IntN(len(j.channels))]
		c.Handler = "xoy x=3 y=4"
		c.Records = slices.DeleteFunc(c.Records, func(r simrun.Record) bool { return r.ID%4 == 3 })
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "job", j.nodes, j.channels); err != nil {
		t.Fatal(err)
	}
	o := Options{Reference: j.nodes[0].Name}
	if declared {
		o.Edges, o.OnlyEdges = j.edges, true
	}
	answer := analyze(t, openRun(t, parent, "job"), o)
	var rows []DurationRow
	o.Durations = func(r DurationRow) error { rows = append(rows, r); return nil }
	again := analyze(t, openRun(t, parent, "job"), o)
	for i := range answer.Paths {
		if got, want := fmt.Sprint(again.Paths[i]), fmt.Sprint(answer.Paths[i]); len(again.Paths) ==
			len(answer.Paths) && got != want && !samePaths(&again.Paths[i], &answer.Paths[i]) {
			t.Errorf("measured one by one %s, together %s", got, want)
		}
	}
	for _, r := range rows {
		told++
		if !j.isTrue(r, false) {
			t.Errorf("%s of id %d from %s to %s is %d to %d: it is not true", r.Kind, r.ID, r.From,
				r.To, r.Lo, r.Hi)
		}
		if r.Kind == "waiting" && len(j.ends[r.ID]) == 1 && j.isTrue(r, true) {
			t.Errorf("id %d: %s to %s waited for nothing", r.ID, r.From, r.To)
		}
		if r.Critical == SurelyCritical {
			if sure++; !j.isTrue(r, true) {
				t.Errorf("id %d: %s to %s is no part of its critical path", r.ID, r.From, r.To)
			}
		}
	}
	if t.Failed() {
		t.Logf("perfect %v, declared %v, edges %v", j.perfect, declared, j.edges)
		for _, c := range j.channels {
			if c.Handler != "" {
				t.Logf("%s is sampled", c.Name)
			}
		}
	}
	if j.perfect && declared {
		j.compareCritical(t, rows, answer)
	}
	return told, sure
}

func samePaths(a, b *Path) bool {
	return slices.EqualFunc(a.Spans, b.Spans, func(x, y RankedSpan) bool {
		return x.Span == y.Span && (x.Share == nil) == (y.Share == nil) &&
			(x.Share == nil || *x.Share == *y.Share)
	})
}

// silent reports whether some node has no log.
func (j *forkJob) silent() bool {
	for node := range j.nodes {
		if !slices.ContainsFunc(j.channels, func(c simrun.Channel) bool { return c.Node == node }) {
			return true
		}
	}
	return false
}

// compareCritical compares the critical path of each tuple with the true one, and shares with the
// true shares.
func (j *forkJob) compareCritical(t *testing.T, rows []DurationRow, a *Answer) {
	t.Helper()
	type key struct {
		id       uint64
		from, to string
	}
	got := map[key]Critical{}
	for _, r := range rows {
		if r.Kind != "end-to-end" && r.Kind != "waiting" {
			got[key{r.ID, r.From, r.To}] = r.Critical
		}
	}
	truth := map[key]bool{}
	sums, total := map[[2]string]float64{}, 0.0
	for id, ends := range j.ends {
		path := ends[0].criticalPath()
		total += float64(j.elapsed(path[len(path)-1], path[0]))
		for i, to := range path[:len(path)-1] {
			from := path[i+1]
			truth[key{id, from.point, to.point}] = true
			sums[[2]string{from.point, to.point}] += float64(j.elapsed(from, to))
		}
	}
	perhaps := 0
	for k, c := range got {
		if c == PerhapsCritical {
			perhaps++
		} else if truth[k] != (c == SurelyCritical) {
			t.Errorf("%v is %v on the critical path, the truth is %v", k, c, truth[k])
		}
	}
	if perhaps*20 > len(got) {
		t.Errorf("%d of %d spans are perhaps on the critical path", perhaps, len(got))
	}
	for k := range truth {
		if _, ok := got[k]; !ok {
			t.Errorf("%v is not told", k)
		}
	}
	for _, p := range a.Paths {
		if silent := j.silent(); (p.NoShares != "") != silent {
			t.Errorf("shares are withheld: %q, nodes have no log: %v", p.NoShares, silent)
		}
		for _, s := range p.Spans {
			if p.NoShares != "" {
				continue
			}
			l := &a.Spans[s.Span]
			want := sums[[2]string{l.From, l.To}] / total
			if s.Share == nil || want < s.Share.Lo-1e-6 || want > s.Share.Hi+1e-6 {
				t.Errorf("the share of %s, %s is %v, the truth is %g", l.From, l.To, s.Share, want)
			}
		}
	}
}
