package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// The thesis searches in fleets of this size and, as its headings show, of this degree.
const (
	thesisSearchNodes  = 1000
	thesisSearchDegree = 7
)

// factSpread says how far a node's facts spread. A node that the facts reach is said to hold a hint
// of their node. Hints reach all nodes at a distance of at most levels edges. Each node at exactly
// this distance passes them on to random neighbours, and the field some is the number of these
// neighbours.
type factSpread struct{ levels, some int }

// hints returns the number of nodes that hold a node's hint, if the hint reaches no node twice.
func (s factSpread) hints() float64 {
	sum, level := 0., 1.
	for range s.levels + 1 {
		sum += level
		level *= thesisSearchDegree
	}
	return sum + level/thesisSearchDegree*float64(s.some)
}

// fresh returns the number of hints at a walk's present node that the walk's previous node did not
// hold. The two nodes are neighbours, so they hold some of the same hints.
func (s factSpread) fresh() float64 {
	if s.levels == 0 {
		return s.hints()
	}
	return s.hints() - factSpread{s.levels - 1, s.some}.hints()
}

func (s factSpread) String() string {
	return fmt.Sprintf("(%d,%d) %.1f %%", s.levels, s.some, 100*s.hints()/thesisSearchNodes)
}

// The method length returns the mean number of nodes that a search visits, if the given share of
// all nodes has the fact. The thesis' model is 1/P, where P is the probability that a visited node
// holds a hint of the fact. This model assumes that all hints of each visited node are fresh.
func (s factSpread) length(share float64) (model, thesis float64) {
	first := 1 - math.Pow(1-share, s.hints())
	later := 1 - math.Pow(1-share, s.fresh())
	return 1 + (1-first)/later, 1 / first
}

var thesisSpreads = []factSpread{{0, 0}, {1, 0}, {2, 0}, {2, 1}, {2, 3}, {2, 5}, {3, 0}}

// thesisShares is the thesis' table 6.2. For each share of nodes that have a fact, it says how many
// nodes a search visits with each of thesisSpreads.
var thesisShares = []struct {
	share   float64
	visited [7]float64
}{
	{0.2, [7]float64{5, 1.20, 1, 1, 1, 1, 1}},
	{0.1, [7]float64{10, 1.76, 1, 1, 1, 1, 1}},
	{0.02, [7]float64{50, 6.70, 1.46, 1.13, 1.02, 1, 1}},
	{0.01, [7]float64{100, 12.94, 2.29, 1.53, 1.15, 1.05, 1.02}},
	{0.002, [7]float64{500, 62.94, 9.27, 5.23, 2.98, 2.20, 1.81}},
	{0.001, [7]float64{1000, 125.44, 18.04, 9.94, 5.42, 3.83, 3.03}},
}

// spreadHints returns the nodes whose hints each node holds.
func (s factSpread) spreadHints(r *rand.Rand, outs [][]int32) [][]int32 {
	held := make([][]int32, len(outs))
	seen := make([]int, len(outs)) // by node: 1 + the owner that it saw last
	for owner := range outs {
		tell := func(n int32) {
			if seen[n] != owner+1 {
				seen[n] = owner + 1
				held[n] = append(held[n], int32(owner))
			}
		}
		level := []int32{int32(owner)}
		tell(int32(owner))
		for range s.levels {
			var next []int32
			for _, n := range level {
				next = append(next, outs[n]...)
			}
			for _, n := range next {
				tell(n)
			}
			level = next
		}
		for _, n := range level {
			for _, k := range r.Perm(len(outs[n]))[:s.some] {
				tell(outs[n][k])
			}
		}
	}
	return held
}

// compareCoverage compares the share of nodes that hold a hint with the model. In the model, hints
// go to random nodes. A hint that reaches the same node a second time does not count again.
func compareCoverage(r *rand.Rand, outs [][]int32) (all []KelpCell) {
	for _, s := range thesisSpreads {
		count := 0
		for _, hints := range s.spreadHints(r, outs) {
			count += len(hints)
		}
		n := float64(len(outs))
		all = append(all, KelpCell{Table: KelpTables[1], What: s.String() + ": nodes %",
			Measured: 100 * float64(count) / n / n,
			Model:    100 * (1 - math.Pow(1-1/n, s.hints())), Thesis: 100 * s.hints() / n})
	}
	return all
}

// searchLengths repeats the thesis' searches over the product's graph.
func searchLengths(r *rand.Rand, outs [][]int32, searches int) (all []KelpCell) {
	for i, s := range thesisSpreads {
		held := s.spreadHints(r, outs)
		for _, row := range thesisShares {
			groups := int32(math.Round(1 / row.share))
			matches := make([][]bool, groups) // by group: the nodes with a hint of it
			for g := range matches {
				matches[g] = make([]bool, len(outs))
			}
			for n, hints := range held {
				for _, owner := range hints {
					matches[owner%groups][n] = true
				}
			}
			sum := 0
			for k := range searches {
				at := int32(r.IntN(len(outs)))
				for sum++; !matches[int32(k)%groups][at]; sum++ {
					at = outs[at][r.IntN(len(outs[at]))]
				}
			}
			model, _ := s.length(row.share)
			all = append(all, KelpCell{Table: KelpTables[2],
				What:     fmt.Sprintf("%v, %g %% have the fact: nodes visited", s, 100*row.share),
				Measured: float64(sum) / float64(searches), Model: model,
				Thesis: row.visited[i]})
		}
	}
	return all
}

// productSearches searches with the product's code. Its facts spread over overlay.HintLevels
// levels, as in one column of the thesis' table.
func (w *world) productSearches(searches int) (all []KelpCell, err error) {
	group := func(row int, i int) string {
		return fmt.Sprintf("s%d=%d", row, i%int(math.Round(1/thesisShares[row].share)))
	}
	for i, n := range w.nodes {
		var facts []overlay.Fact
		for row := range thesisShares {
			facts = append(facts, overlay.Fact(group(row, i)))
		}
		if err := n.graph.SetFacts(facts...); err != nil {
			return nil, err
		}
		n.watch()
	}
	w.run(2 * overlay.AdvertisePeriod)
	const column = 2 // its spread is the product's
	s := thesisSpreads[column]
	for row, t := range thesisShares {
		sum, open := 0, 0
		for k := range searches {
			n := w.nodes[w.r.IntN(len(w.nodes))]
			open++
			err := n.graph.Search(w.now, group(row, k), func(r overlay.Result) {
				open--
				sum += r.Visited
				if r.Name == "" {
					err = fmt.Errorf("search for %q: nothing is found", group(row, k))
				}
			})
			if err != nil {
				return nil, err
			}
			n.watch()
			w.run(20 * time.Millisecond)
		}
		w.run(20 * time.Second)
		if err != nil {
			return nil, err
		}
		if open > 0 {
			return nil, fmt.Errorf("search for facts: %d searches do not end", open)
		}
		model, _ := s.length(t.share)
		all = append(all, KelpCell{Table: KelpTables[3],
			What:     fmt.Sprintf("%v, %g %% have the fact: nodes visited", s, 100*t.share),
			Measured: float64(sum) / float64(searches), Model: model, Thesis: t.visited[column]})
	}
	return all, nil
}
