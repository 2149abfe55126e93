package overlay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// nextNodes returns the outgoing neighbours of each node, as indices.
func (f *fleet) nextNodes() [][]int {
	index := map[Name]int{}
	for i, m := range f.nodes {
		index[m.name] = i
	}
	all := make([][]int, len(f.nodes))
	for i, m := range f.nodes {
		outs, _ := m.node.Neighbours()
		for _, name := range outs {
			all[i] = append(all[i], index[name])
		}
	}
	return all
}

// deviation says how unevenly walks of h steps end. For each of several starts, it computes for
// every node the probability that a walk from the start ends at this node. It returns the standard
// deviation of these probabilities, relative to their mean.
func deviation(next [][]int, h, starts int) float64 {
	n := len(next)
	sum := 0.0
	for s := range starts {
		p := make([]float64, n)
		p[s*n/starts] = 1
		for range h {
			q := make([]float64, n)
			for i, outs := range next {
				for _, j := range outs {
					q[j] += p[i] / float64(len(outs))
				}
			}
			p = q
		}
		for _, x := range p {
			sum += (x*float64(n) - 1) * (x*float64(n) - 1)
		}
	}
	return math.Sqrt(sum / float64(n*starts))
}

// The longer walks are, the more evenly their ends spread over the nodes. For walks of h steps in a
// random regular graph of n nodes with degree d, theory says that the deviation is sqrt(n/d^h). The
// simulated graph must be as good. The standard error of the deviation over 20 starts is 1 to 2 %.
func TestWalksMix(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := grownFleet(t, rand.New(rand.NewPCG(1, 0)), 1000)
	compare := func(what string) {
		next := f.nextNodes()
		for h := 4; h <= 7; h++ {
			model := math.Sqrt(1000 / math.Pow(7, float64(h)))
			got := deviation(next, h, 20)
			t.Logf("%s, %d steps: %.4f, model %.4f", what, h, got, model)
			if math.Abs(got/model-1) > 0.1 {
				t.Errorf("%s, %d steps: deviation %v, model %v", what, h, got, model)
			}
		}
	}
	compare("grown")
	f.killSome(0.5)
	f.run(PingPeriod + 1)
	for range 500 { // one node joins for each that died, while the others repair the graph
		f.add(chooseRandom(f.random, f.alive()).name)
	}
	f.whole(healLimit)
	f.nodes = f.alive()
	n := len(f.nodes)
	t.Logf("%d nodes", n)
	next := f.nextNodes()
	for h := 4; h <= 7; h++ {
		model := math.Sqrt(float64(n) / math.Pow(7, float64(h)))
		if got := deviation(next, h, 20); math.Abs(got/model-1) > 0.1 {
			t.Errorf("repaired, %d steps: deviation %v, model %v", h, got, model)
		}
	}
}

// chiSquare returns the chi-square statistic of the nodes where walks end. Each node should be the
// end with equal probability.
func chiSquare(r *rand.Rand, next [][]int, steps, each int) float64 {
	counts := make([]float64, len(next))
	for range each * len(next) {
		at := 0
		for range steps {
			at = next[at][r.IntN(len(next[at]))]
		}
		counts[at]++
	}
	sum := 0.0
	for _, c := range counts {
		sum += (c - float64(each)) * (c - float64(each)) / float64(each)
	}
	return sum
}

// The ends of walks of WalkSteps steps from one node pass a chi-square test at the level 10⁻⁶, with
// a fixed seed. The ends of walks of five steps do not pass it.
func TestWalksEndAnywhere(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	r := rand.New(rand.NewPCG(1, 0))
	next := grownFleet(t, r, 1000).nextNodes()
	const df = 1000 - 1
	limit := df + 4.75*math.Sqrt(2*df) // 4.75 deviations of a normal distribution: 10⁻⁶
	if x := chiSquare(r, next, WalkSteps, 100); x > limit {
		t.Errorf("%d steps: chi-square %v with %d degrees of freedom, limit %v", WalkSteps, x, df,
			limit)
	}
	if x := chiSquare(r, next, 5, 100); x < limit {
		t.Errorf("5 steps: chi-square %v: the test notices nothing", x)
	}
}
