package tscratio

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// sparseFleet returns a fleet in which every node probes only a few others, so that most nodes are
// related only by paths over several third nodes.
func sparseFleet(t *testing.T, rng *rand.Rand, nodes, seconds int) *fleet {
	t.Helper()
	f := newFleet(rng, nodes, seconds, 1*PPM, []uint64{1, 40}[rng.IntN(2)],
		[]uint64{0, 60}[rng.IntN(2)])
	for i := range nodes {
		for _, step := range []int{1, 2 + rng.IntN(nodes-3)} {
			a, b := i, (i+step)%nodes
			if f.pairs[[2]int{a, b}] == nil && f.pairs[[2]int{b, a}] == nil {
				f.measure(t, a, b, honestNetwork, 0.5, float64(seconds)-0.5)
			}
		}
	}
	return f
}

func TestLongerPathsHoldTruth(t *testing.T) {
	const nodes, seconds = 20, 12
	seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
		f := sparseFleet(t, rng, nodes, seconds)
		for _, third := range []ThirdNodes{ThirdAgreed, ThirdAny} {
			c := f.closure(t, third)
			answered, longer := 0, 0
			for range 2000 {
				from, into, ref := rng.IntN(nodes), rng.IntN(nodes), rng.IntN(nodes)
				at := uint64((1 + rng.Float64()*(seconds-2)) * second)
				e, truth := f.event(from, at), f.event(into, at)
				got, err := c.Translate(e.Node, truth.Node, e.Reading)
				if err != nil {
					if !errors.Is(err, ErrNoPath) || third == ThirdAny {
						t.Fatal(err)
					}
					continue
				}
				if from != into && !got.Contains(truth.Reading) {
					t.Fatalf("third nodes %v: %v is %v by %v and %v, truth %v",
						third, e, got.Interval, got.LoPath, got.HiPath, truth)
				}
				answered++
				if len(got.LoPath) > 3 {
					longer++
				}
				f.checkDuration(t, c, rng, [3]int{from, into, ref}, at)
			}
			if answered < 1000 || longer < 200 {
				t.Errorf("third nodes %v: %d answers, %d by longer paths", third, answered, longer)
			}
		}
	})
}

// checkDuration fails the test if the duration between events of two nodes, by Closure or by Ways,
// does not contain the truth. The last of the three nodes is the reference.
func (f *fleet) checkDuration(
	t *testing.T, c *Closure, rng *rand.Rand, nodes [3]int, at uint64,
) {
	t.Helper()
	later := at + uint64(rng.Float64()*2000*microsecond)
	x, y, ref := f.event(nodes[0], at), f.event(nodes[1], later), f.clocks[nodes[2]]
	d, err := c.Duration(ref.node.Name, x, y)
	if err != nil {
		if !errors.Is(err, ErrNoPath) {
			t.Fatal(err)
		}
		return
	}
	w := mustReturn(mustReturn(c.Ways(ref.node.Name, x.Node, y.Node))(t).Duration(x.Reading,
		y.Reading))(t)
	truth := ref.cyclesBetween(at, later)
	for _, d := range []Duration{d, w} {
		if truth+1 < d.Lo || truth-1 > d.Hi {
			t.Fatalf("%v from %v to %v in cycles of %q: %v, truth %d",
				d.Scenario, x, y, ref.node.Name, d.Elapsed, truth)
		}
	}
	if most := f.widestDuration(nodes); nodes[0] == nodes[1] && d.Width() > most {
		t.Errorf("from %v to %v in cycles of %q: %v by %v is wider than %d cycles",
			x, y, ref.node.Name, d, d.Scenario, most)
	}
}

// widestDuration returns how wide the interval of a duration of 2 ms on one node may be: quantum
// and slack of the node, and the error of a rate over a few third nodes. The test fails if both
// events were translated, which gives a wider interval.
func (f *fleet) widestDuration(nodes [3]int) uint64 {
	const rate = 2_000_000 * 7 / 2 / 10_000 // 100 ppm of 2 ms at 3.5 GHz
	return 4*uint64(f.clocks[nodes[0]].node.error_cycles()) + rate
}

// No two paths have a third node in common. So a liar makes at most one of them wrong.
func TestLongerPathsAreDisjoint(t *testing.T) {
	rng := seed.Random(t)
	f := sparseFleet(t, rng, 24, 4)
	c := f.closure(t, ThirdAgreed)
	most := 0
	for from := range c.names {
		for into := range c.names {
			if from == into || c.relation(from, into) != nil {
				continue
			}
			paths, err := c.paths(from, into)
			if err != nil {
				continue
			}
			most = max(most, len(paths))
			seen := map[string]bool{}
			for _, p := range paths {
				names := p.nodes()
				if names[0] != c.names[from] || names[len(names)-1] != c.names[into] {
					t.Fatalf("%v does not lead from %s to %s", names, c.names[from], c.names[into])
				}
				for i, r := range p {
					if r.From.Name != names[i] || r.Into.Name != names[i+1] {
						t.Fatalf("%v is not a chain", names)
					}
				}
				for _, n := range names[1 : len(names)-1] {
					if seen[n] || n == c.names[from] || n == c.names[into] {
						t.Fatalf("%q is twice on the paths %v", n, paths)
					}
					seen[n] = true
				}
			}
		}
	}
	if most < 3 {
		t.Errorf("at most %d paths were found", most)
	}
}

// lightestPath finds the path of the smallest weight, even if that path leads over many nodes. If
// that path has more relations than maxHops, lightestPath may find a heavier one, or none.
func TestLightestPath(t *testing.T) {
	rng := seed.Random(t)
	for range 50 {
		const nodes = 12
		c := &Closure{}
		weights := [nodes][nodes]float64{}
		for i := range nodes {
			c.edges = append(c.edges, nil)
			c.nodes = append(c.nodes, Node{Name: string(rune('a' + i))})
			c.names = append(c.names, c.nodes[i].Name)
		}
		for i := range nodes {
			for j := range nodes {
				if i != j && (weights[j][i] > 0 || j > i && rng.IntN(3) == 0) {
					weights[i][j] = 1 + rng.Float64()*9
					c.edges[i] = append(c.edges[i], edge{into: j, weight: weights[i][j],
						r: &Relation{From: c.nodes[i], Into: c.nodes[j]}})
				}
			}
		}
		c.addSearchEdges()
		f := newFrontiers(nodes)
		least := weights // the algorithm of Floyd and Warshall
		more := [nodes][nodes]int{}
		for k := range nodes {
			for i := range nodes {
				for j := range nodes {
					a, b := least[i][k], least[k][j]
					if a > 0 && b > 0 && (least[i][j] == 0 || a+b < least[i][j]) {
						least[i][j], more[i][j] = a+b, more[i][k]+more[k][j]+1
					}
				}
			}
		}
		for i := range nodes {
			for j := range nodes {
				hops := more[i][j] + 1
				if i == j || hops > maxHops {
					continue
				}
				sum := 0.0
				for _, r := range c.lightestPath(i, j, f) {
					sum += weights[c.index(r.From.Name)][c.index(r.Into.Name)]
				}
				if d := sum - least[i][j]; d > 1e-9 || d < -1e-9 {
					t.Fatalf("path of weight %v from %d to %d, want %v over %d relations", sum, i,
						j, least[i][j], hops)
				}
			}
		}
	}
}

// A liar in the middle of a fleet moves no relation of others, however it lies.
func TestLiarOnLongerPath(t *testing.T) {
	const nodes, seconds = 16, 8
	seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
		f := sparseFleet(t, rng, nodes, seconds)
		liar := rng.IntN(nodes)
		f.withLiar(t, liar, seconds, func(int) int64 { return rng.Int64N(40_001) - 20_000 })
		agreed, anyone := f.closure(t, ThirdAgreed), f.closure(t, ThirdAny)
		over, falsified := 0, 0
		for range 3000 {
			from, into, ref := rng.IntN(nodes), rng.IntN(nodes), rng.IntN(nodes)
			if from == into || slices.Contains([]int{from, into, ref}, liar) {
				continue
			}
			at := uint64((1 + rng.Float64()*(seconds-2)) * second)
			e, truth := f.event(from, at), f.event(into, at)
			got, err := agreed.Translate(e.Node, truth.Node, e.Reading)
			if errors.Is(err, ErrNoPath) {
				continue
			}
			if err != nil || !got.Contains(truth.Reading) {
				t.Fatalf("%d lies, and %d in %d is %v by %v and %v, %v, truth %d",
					liar, from, into, got.Interval, got.LoPath, got.HiPath, err, truth.Reading)
			}
			f.checkDuration(t, agreed, rng, [3]int{from, into, ref}, at)
			if len(got.LoPath) > 2 {
				over++
			}
			alone, err := anyone.Translate(e.Node, truth.Node, e.Reading)
			if err != nil || !alone.Contains(truth.Reading) {
				falsified++
			}
		}
		if over < 100 || falsified == 0 {
			t.Errorf("%d intervals over third nodes, %d would be false if any were believed",
				over, falsified)
		}
	})
}

// A rate over third nodes rests on as many paths as must agree, so a liar cannot narrow it.
func TestRateRestsOnAgreement(t *testing.T) {
	var ps []path
	for _, rate := range []RateInterval{{10, 60}, {20, 50}, {30, 40}} {
		ps = append(ps, path{{window_cycles: 1e9, knots: []knot{{y: 5, k: 1,
			rates: RateInterval{rate.Lo << rateBits, rate.Hi << rateBits}}}}})
	}
	for needed, want := range map[int]RateInterval{1: {30, 40}, 2: {20, 50}, 3: {10, 60}} {
		got := mustReturn(agreedRate(ps, func([]Interval) int { return needed }, At(5)))(t)
		if (RateInterval{got.Lo >> rateBits, got.Hi >> rateBits}) != want {
			t.Errorf("%v if %d of three paths must agree, want %v", got, needed, want)
		}
	}
}
