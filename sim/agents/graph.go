package agents

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

// randomGraph turns all nodes into agents of a random graph that exists already. Nobody has to
// join.
type randomGraph struct{ f *Fleet }

func newGraph(b *library.Builder, key string) any {
	return randomGraph{fleetOf(b, key+".protocol")}
}

// Run draws the edges. For each i below the degree, it draws a random permutation without fixed
// points. The i-th permutation leads each node to its i-th neighbour.
func (g randomGraph) Run(w *sim.World, s *sim.Stream) (bool, error) {
	n, degree := w.Joined(), g.f.degree
	if n <= 2*degree {
		return false, fmt.Errorf("draw a graph of %d nodes of degree %d: set network.size to %d "+
			"or more", n, degree, 2*degree+1)
	}
	outs, ins := make([][]sim.Node, degree), make([][]sim.Node, degree)
	for d := range degree {
		outs[d] = g.drawPermutation(outs[:d], n, s)
		ins[d] = make([]sim.Node, n)
		for from, to := range outs[d] {
			ins[d][to] = sim.Node(from)
		}
	}
	names := func(all [][]sim.Node, n sim.Node) (names []overlay.Name) {
		names = slices.Grow(names, len(all))
		for _, of := range all {
			names = append(names, g.f.nameOf(of[n]))
		}
		return names
	}
	return false, w.Each(0, sim.Node(n), func(c *sim.Context) {
		g.f.startAgent(c, overlay.Config{Outs: names(outs, c.Node()), Ins: names(ins, c.Node())})
	})
}

// drawPermutation returns a permutation that leads no node to itself, and no node to a neighbour
// that an earlier permutation has given it. It draws any permutation, and swaps wrong elements with
// random others.
func (g randomGraph) drawPermutation(earlier [][]sim.Node, n int, s *sim.Stream) []sim.Node {
	to := make([]sim.Node, n)
	for i := range to {
		j := s.Int(i + 1)
		to[i] = to[j]
		to[j] = sim.Node(i)
	}
	wrong := func(i int) bool {
		if to[i] == sim.Node(i) {
			return true
		}
		for _, other := range earlier {
			if other[i] == to[i] {
				return true
			}
		}
		return false
	}
	for i := 0; i < n; i++ {
		for wrong(i) {
			j := s.Int(n)
			to[i], to[j] = to[j], to[i]
			if wrong(j) {
				i = min(i, j)
			}
		}
	}
	return to
}
