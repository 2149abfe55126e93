package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// KelpOptions say how large an experiment of KELP's thesis to repeat.
type KelpOptions struct {
	Nodes    int // largest graph to grow, up to 100,000
	Searches int // for each group size
	Periods  int // of the queue: in each, ten nodes make an item, and ten take one
	Seed     uint64
	Progress func(step string)
}

// A KelpCell is one figure of the evaluation in KELP's thesis, measured again with the product.
type KelpCell struct {
	Table    string  `json:"table"` // one of KelpTables
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Model    float64 `json:"model"`
	Thesis   float64 `json:"thesis"` // 0: the thesis has no such figure
	// BetterAbove means that a figure above the model is better.
	BetterAbove bool `json:"better_above,omitempty"`
	// Free says why the figure may differ from the model. If it is empty, the figure must not
	// differ.
	Free string `json:"free,omitempty"`
}

// KelpTables are the names of the tables, in the order in which they are measured.
var KelpTables = []string{"randomness", "coverage", "search length", "product's search", "queue"}

// Off returns how far the measured figure is from the model, as a share of the model. If
// BetterAbove is set, Off is 0 for a figure above the model.
func (c KelpCell) Off() float64 {
	off := 1 - c.Measured/c.Model
	if c.BetterAbove {
		return max(0, off)
	}
	return math.Abs(off)
}

// Reproduced reports whether the thesis' figure differs from the model's by at most the given
// share.
func (c KelpCell) Reproduced(share float64) bool {
	return c.Thesis == 0 || math.Abs(c.Thesis/c.Model-1) <= share
}

// Kelp repeats the experiments of KELP's thesis (section 6) with the product's graph, search and
// queue, and compares them with the model of a random regular graph.
func Kelp(ctx context.Context, o KelpOptions) (all []KelpCell, err error) {
	say := func(format string, args ...any) {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf(format, args...))
		}
	}
	for _, row := range thesisWalks {
		if row.nodes > o.Nodes {
			continue
		}
		say("%d nodes of degree %d join", row.nodes, row.degree)
		w, err := plainWorld(row.nodes, row.degree, o.Seed)
		if err != nil {
			return nil, err
		}
		all = append(all, row.measure(w.outs())...)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if row.nodes != thesisSearchNodes || row.degree != thesisSearchDegree {
			continue
		}
		say("nodes search for facts")
		outs := w.outs()
		all = append(all, compareCoverage(w.r, outs)...)
		all = append(all, searchLengths(w.r, outs, o.Searches)...)
		found, err := w.productSearches(o.Searches)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, n := range []int{100, 1000} {
		periods := o.Periods
		if n == 1000 {
			periods /= 10 // it costs as much
		}
		if n > o.Nodes || periods < leastPeriods {
			continue
		}
		say("%d nodes have a queue", n)
		w, err := plainWorld(n, thesisSearchDegree, o.Seed)
		if err != nil {
			return nil, err
		}
		found, err := w.queue(ctx, periods)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(x, y KelpCell) int {
		return cmp.Compare(slices.Index(KelpTables, x.Table), slices.Index(KelpTables, y.Table))
	})
	return all, nil
}

// plainWorld grows a fleet whose nodes have no facts and no heats (see package overlay).
func plainWorld(nodes, degree int, seed uint64) (*world, error) {
	w := &world{r: rand.New(rand.NewPCG(seed, uint64(degree))), plain: true,
		o: Options{Nodes: nodes, Degree: degree}, byName: map[overlay.Name]*node{}}
	if err := w.grow(); err != nil {
		return nil, err
	}
	for range 60 {
		if w.irregular() == 0 {
			return w, nil
		}
		w.run(healStep)
	}
	return nil, errors.New("grow a graph: some nodes lack neighbours after a minute")
}

// outs returns the outgoing neighbours of each node. Neighbours are given by their index in
// w.nodes.
func (w *world) outs() [][]int32 {
	all := make([][]int32, len(w.nodes))
	for i, n := range w.nodes {
		outs, _ := n.graph.Neighbours()
		for _, name := range outs {
			all[i] = append(all[i], int32(w.byName[name].index))
		}
	}
	return all
}

// thesisWalk is a row of the thesis' table 6.1: how evenly the ends of random walks spread over the
// nodes, for four lengths of walks.
type thesisWalk struct {
	nodes, degree, steps int // the first of the four lengths
	percent              [4]float64
}

var thesisWalks = []thesisWalk{
	{100, 7, 5, [4]float64{6.13, 3.36, 3.25, 2.16}},
	{100, 9, 4, [4]float64{10.62, 4.15, 2.57, 1.91}},
	{1000, 7, 6, [4]float64{11.16, 5.13, 4.34, 2.22}},
	{1000, 9, 5, [4]float64{12.89, 4.90, 2.64, 2.25}},
	{10_000, 7, 7, [4]float64{11.33, 4.67, 2.72, 2.39}},
	{10_000, 9, 6, [4]float64{14.08, 5.10, 2.68, 2.28}},
	{100_000, 7, 8, [4]float64{13.44, 5.44, 2.93, 2.34}},
	{100_000, 9, 7, [4]float64{14.63, 5.41, 2.75, 2.30}},
}

const (
	// thesisWalksEach is the mean number of walks that the thesis expects to end at a node. Even if
	// all nodes are equally likely as ends, chance makes their numbers of walks differ: the
	// standard deviation of these numbers is sqrt(1/thesisWalksEach) of their mean.
	thesisWalksEach = 2000
	walkStarts      = 10 // nodes whose walks are looked at
	fewNodes        = 1000
)

// measure computes the probabilities with which walks end at each node. It does not count the ends
// of walks, because these counts would also vary by chance.
func (t thesisWalk) measure(outs [][]int32) (all []KelpCell) {
	n := len(outs)
	var sums [4]float64
	p, q := make([]float64, n), make([]float64, n)
	for s := range walkStarts {
		clear(p)
		p[s*n/walkStarts] = 1
		for h := 1; h < t.steps+len(sums); h++ {
			clear(q)
			for i, to := range outs {
				for _, j := range to {
					q[j] += p[i] / float64(len(to))
				}
			}
			p, q = q, p
			if h < t.steps {
				continue
			}
			for _, x := range p {
				sums[h-t.steps] += (x*float64(n) - 1) * (x*float64(n) - 1)
			}
		}
	}
	for k, sum := range sums {
		h := t.steps + k
		c := KelpCell{Table: KelpTables[0],
			What:     fmt.Sprintf("%d nodes, degree %d, %d steps: deviation %%", n, t.degree, h),
			Measured: 100 * math.Sqrt(sum/float64(n*walkStarts)+1./thesisWalksEach),
			Model: 100 * math.Sqrt(float64(n)/math.Pow(float64(t.degree), float64(h))+
				1./thesisWalksEach),
			Thesis: t.percent[k]}
		if n < fewNodes {
			c.Free = "graphs of 100 nodes differ too much from each other"
		}
		all = append(all, c)
	}
	return all
}
