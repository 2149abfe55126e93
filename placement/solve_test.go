package placement

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// bruteForce returns the smallest end-to-end latency of all placements. If detail is true, it also
// returns, for each operator and each node, the smallest latency of the placements that put this
// operator on this node. It builds each placement operator by operator. It gives up a placement
// only if a node has too few cores.
func bruteForce(p *Problem, detail bool) (best float64, through [][]float64) {
	best = math.Inf(1)
	for range p.order {
		through = append(through, slices.Repeat([]float64{math.Inf(1)}, p.n))
	}
	at, done := make(Placement, len(p.order)), make([]float64, len(p.order))
	free := make([]float64, p.n)
	for i, n := range p.job.Nodes {
		free[i] = n.Cores * (1 + 1e-9)
	}
	before := make([][]int, len(p.order))
	for _, e := range p.job.Edges {
		before[e.To] = append(before[e.To], e.From)
	}
	var place func(k int, longest float64)
	place = func(k int, longest float64) {
		v := p.order[k]
		o := &p.job.Operators[v]
		for i := range p.job.Nodes {
			works := o.Time.Hi_ns / p.job.Nodes[i].Speed
			load := works * o.PerSecond / 1e9
			if load > free[i] || o.Nodes != nil && !slices.Contains(o.Nodes, i) {
				continue
			}
			ready := 0.0
			for _, u := range before[v] {
				ready = max(ready, done[u]+p.job.Latency[at[u]][i].Hi_ns)
			}
			at[v], done[v] = i, ready+works
			switch end := max(longest, done[v]); {
			case k+1 < len(p.order):
				free[i] -= load
				place(k+1, end)
				free[i] += load
			case detail:
				for v, i := range at {
					through[v][i] = min(through[v][i], end)
				}
				fallthrough
			default:
				best = min(best, end)
			}
		}
	}
	place(0, 0)
	return best, through
}

// randomProblem returns a random job that has a placement.
func randomProblem(t testing.TB, r *rand.Rand, ops, nodes int) *Problem {
	t.Helper()
	for range 1000 {
		p, err := New(randomJob(r, ops, nodes))
		if err != nil {
			continue
		}
		l := newLimits(p, p.allows)
		if _, err := p.placeGreedily(l, &l.before, &l.after); err == nil {
			return p
		}
	}
	t.Fatal("1,000 random jobs had no placement")
	return nil
}

func equal(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(x, y) }

// For small jobs, Solve finds the smallest latency of all placements. No lower limit is above this
// latency: neither the limit for an operator on a node, nor the limit that raiseLimit returns. The
// function prove alone, without a search before it, also finds the best placement.
func TestSolveSmallJobs(t *testing.T) {
	r := seed.Random(t)
	for k := range 150 {
		ops, nodes := 2+r.IntN(6), 1+r.IntN(4)
		if k%3 == 0 {
			ops, nodes = 2+r.IntN(2), 20+r.IntN(20)
		}
		p := randomProblem(t, r, ops, nodes)
		best, through := bruteForce(p, true)
		l := newLimits(p, p.allows)
		for v, nodes := range p.allows {
			for _, i := range nodes {
				if limit := l.limitThrough(v, i); limit > through[v][i]*(1+1e-9) {
					t.Fatalf("job %d: operator %d on node %d: limit %v, but a placement has %v",
						k, v, i, limit, through[v][i])
				}
			}
		}
		checkCross(t, l, &l.before, func(from, into int) float64 { return p.far[from*p.n+into] })
		checkCross(t, l, &l.after, func(from, into int) float64 { return p.far[into*p.n+from] })
		a, err := p.Solve(DefaultEffort())
		if err != nil {
			t.Fatalf("job %d: %v", k, err)
		}
		if !a.Exact || !equal(a.End.Latency.Hi_ns, best) {
			t.Fatalf("job %d: found %+v, the best is %v", k, a, best)
		}
		if err := p.Allowed(a.At); err != nil {
			t.Fatalf("job %d: %v", k, err)
		}
		at, err := p.placeGreedily(l, &l.before, &l.after)
		if err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Hour)
		_, got, whole := p.prove(l, at, p.End(at).Latency.Hi_ns, 1e9, later)
		if !whole || !equal(got, best) {
			t.Fatalf("job %d: proven %v, the best is %v", k, got, best)
		}
		s := solution{p: p, l: l, limit: l.leastLatency(), latency: 3 * best}
		if s.raiseLimit(8, later); s.limit > best*(1+1e-9) {
			t.Fatalf("job %d: raised the limit to %v, but the best is %v", k, s.limit, best)
		}
		weak, err := p.Solve(Effort{Changes: 100, Rounds: 1, Raises: 6, Time: time.Hour})
		if err != nil || weak.Limit_ns > best*(1+1e-9) || weak.End.Latency.Hi_ns < best*(1-1e-9) {
			t.Fatalf("job %d: with little effort %+v, %v; the best is %v", k, weak, err, best)
		}
	}
}

// checkCross checks the limits directionLimits.cross: how early an operator's tuples can arrive at
// a receiver's node from another node. It compares these limits with a plain minimum over all
// nodes.
func checkCross(t *testing.T, l *lowerLimits, h *directionLimits,
	latency func(from, into int) float64) {
	t.Helper()
	for v := range h.from {
		for _, u := range h.from[v] {
			for _, k := range l.nodes[v] {
				want := unreachable
				for _, i := range l.nodes[u] {
					if i != k {
						want = min(want, h.at[u*l.p.n+i]+latency(i, k))
					}
				}
				if got := h.cross[u*l.p.n+k]; got != want {
					t.Fatalf("operator %d can be at node %d at %v, want %v", u, k, got, want)
				}
			}
		}
	}
}

// TestBarPlacement solves a job of 12 operators on 8 nodes, and compares it with all placements. It
// also solves jobs of 200 operators on 1,000 nodes, whose latencies must be close to the limit.
func TestBarPlacement(t *testing.T) {
	size := proof.Begin(t)
	small, tried, large, placed := [2]int{9, 5}, 3, [2]int{40, 80}, 2
	if size == proof.Full {
		small, tried, large, placed = [2]int{12, 8}, 2, [2]int{200, 1000}, 8
	}
	r := seed.Random(t)
	var off, gap, took []float64
	for range tried {
		p := randomProblem(t, r, small[0], small[1])
		best, _ := bruteForce(p, false)
		a, err := p.Solve(DefaultEffort())
		if err != nil {
			t.Fatal(err)
		}
		off = append(off, a.End.Latency.Hi_ns/best)
	}
	for range placed {
		p := randomProblem(t, r, large[0], large[1])
		began := time.Now()
		a, err := p.Solve(DefaultEffort())
		if err != nil {
			t.Fatal(err)
		}
		took, gap = append(took, time.Since(began).Seconds()), append(gap, 100*a.Gap())
	}
	proof.Check(t,
		worst(proof.Bar{Name: "placement of a small job, against trying all", Limit: 1.000001,
			Unit: "x"}, off),
		worst(proof.Bar{Name: "placement of a large job, above the limit", Limit: 5, Unit: "%"},
			gap),
		worst(proof.Bar{Name: "time to place a large job", Limit: 10, Unit: "s", Timing: true},
			took))
}

// worst returns the bar with the largest of the figures, not with their median: each job must reach
// the limit.
func worst(b proof.Bar, figures []float64) proof.Bar {
	b = b.From(figures)
	b.Figure = b.Spread[1]
	return b
}

// When its time is over, Solve returns what it knows.
func TestSolveStops(t *testing.T) {
	p := randomProblem(t, seed.Random(t), 60, 100)
	const most = 100 * time.Millisecond
	began := time.Now()
	a, err := p.Solve(Effort{Changes: 1e9, Rounds: 10, Raises: 1e9, Choices: 1e12, Time: most})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 50*most || !a.Stopped && !a.Exact {
		t.Errorf("took %v, stopped: %v, exact: %v", took, a.Stopped, a.Exact)
	}
	if err := p.Allowed(a.At); err != nil || a.Limit_ns > a.End.Latency.Hi_ns*(1+1e-9) {
		t.Errorf("%+v: %v", a, err)
	}
}

// The range that Better returns contains the difference for any true latencies and working times.
func TestBetterHolds(t *testing.T) {
	r := seed.Random(t)
	surely := 0
	for range 300 {
		p := randomProblem(t, r, 2+r.IntN(8), 2+r.IntN(4))
		a, b := random(r, p), random(r, p)
		d := p.Better(a, b)
		if d.SurelyFaster() || d.SurelySlower() {
			surely++
		}
		for range 20 {
			if got := drawTruth(r, p, a, b); got < d.Lo_ns-1e-3 || got > d.Hi_ns+1e-3 {
				t.Fatalf("%v against %v: difference %v is not in %v", a, b, got, d)
			}
		}
		if d := p.Better(a, a); max(-d.Lo_ns, d.Hi_ns) > 1e-2 {
			t.Fatalf("a placement against itself: %v", d)
		}
	}
	if surely < 100 {
		t.Errorf("only %d of 300 comparisons were decided", surely)
	}
}

func random(r *rand.Rand, p *Problem) Placement {
	at := make(Placement, len(p.order))
	for v := range at {
		at[v] = r.IntN(p.n)
	}
	return at
}

// drawTruth draws true latencies and working times, often at the ends of their ranges. It returns
// the difference between two placements.
func drawTruth(r *rand.Rand, p *Problem, a, b Placement) float64 {
	draw := func(x Range) float64 {
		return x.Lo_ns + (x.Hi_ns-x.Lo_ns)*[]float64{0, 1, r.Float64()}[r.IntN(3)]
	}
	works, latency := make([]float64, len(a)), make([][]float64, p.n)
	for v, o := range p.job.Operators {
		works[v] = draw(o.Time)
	}
	for i, row := range p.job.Latency {
		for _, l := range row {
			latency[i] = append(latency[i], draw(l))
		}
	}
	end := func(at Placement) float64 {
		longest, _ := p.slowestPath(at,
			func(v int) float64 { return works[v] / p.job.Nodes[at[v]].Speed },
			func(u, v int) float64 { return latency[at[u]][at[v]] })
		return longest
	}
	return end(a) - end(b)
}

func TestUnusableJobs(t *testing.T) {
	good := func() *Job {
		ms := Range{1e6, 1e6}
		return &Job{
			Operators: []Operator{{Name: "a", Time: ms}, {Name: "b", Time: ms, PerSecond: 900}},
			Edges:     []Edge{{0, 1}}, Nodes: []Node{{"n", 1, 1}}, Latency: [][]Range{{{}}},
		}
	}
	twoNodes := func(j *Job) {
		j.Nodes = append(j.Nodes, Node{"m", 1, 1})
		j.Latency = [][]Range{make([]Range, 2), make([]Range, 2)}
		j.Operators = append(j.Operators, Operator{Name: "c", Time: Range{0, 1e6}, PerSecond: 900})
	}
	for want, spoil := range map[string]func(j *Job){
		"0 operators":                func(j *Job) { j.Operators = nil },
		"0 nodes":                    func(j *Job) { j.Nodes = nil },
		`operator "b" works for`:     func(j *Job) { j.Operators[1].Time = Range{2, 1} },
		`operator "b" gets NaN`:      func(j *Job) { j.Operators[1].PerSecond = math.NaN() },
		`"a" may run on no node`:     func(j *Job) { j.Operators[0].Nodes = []int{} },
		`may run on node 1 of 1`:     func(j *Job) { j.Operators[0].Nodes = []int{1} },
		`"n" has 0 cores`:            func(j *Job) { j.Nodes[0].Cores = 0 },
		"edge from operator 0 to op": func(j *Job) { j.Edges[0].To = 2 },
		`"a" gets its own tuples`:    func(j *Job) { j.Edges = append(j.Edges, Edge{1, 0}) },
		`"b" needs 2 cores`:          func(j *Job) { j.Operators[1].PerSecond = 2000 },
		"have no 0.9 cores left":     func(j *Job) { j.Operators[0].PerSecond = 900; twoNodes(j) },
		`"n" need 0.8 cores`:         func(j *Job) { j.Operators[0].PerSecond = 900 },
		"latencies from 2 nodes":     func(j *Job) { j.Latency = append(j.Latency, nil) },
		"-1} from node":              func(j *Job) { j.Latency[0][0] = Range{-1, -1} },
	} {
		j := good()
		spoil(j)
		p, err := New(j)
		if err == nil {
			_, err = p.Solve(DefaultEffort())
		}
		if !errors.Is(err, ErrJob) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	if p, err := New(good()); err != nil {
		t.Error(err)
	} else if a, err := p.Solve(DefaultEffort()); err != nil || a.End.Latency.Hi_ns != 2e6 {
		t.Errorf("a usable job: %+v, %v", a, err)
	}
}
