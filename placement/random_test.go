package placement

import (
	"fmt"
	"math/rand/v2"
)

// randomJob makes a job whose operators stand in layers, each with one or two senders in the layer
// before. The operators of the first layer may only run on certain nodes. The nodes stand in racks
// of about 25, and a latency depends on the distance between two racks. An operator uses 0.1 to 1
// core.
func randomJob(r *rand.Rand, ops, nodes int) *Job {
	j := &Job{}
	type xy struct{ x, y float64 }
	racks := max(1, nodes/25)
	where := make([]xy, racks)
	for i := range where {
		where[i] = xy{r.Float64() * 200, r.Float64() * 200}
	}
	cores := []float64{2, 4, 8}
	if nodes < 8 {
		cores = []float64{1, 1.5, 3} // few, so that few operators fit on a node
	}
	for i := range nodes {
		j.Nodes = append(j.Nodes, Node{fmt.Sprint("n", i), cores[r.IntN(3)], 1})
	}
	for i := range nodes {
		row := make([]Range, nodes)
		for k := range nodes {
			if i == k {
				if nodes < 8 { // a small job, in which also tuples within a node take time
					row[k] = Range{0, 10_000 * r.Float64()}
				}
				continue
			}
			a, b := where[i%racks], where[k%racks]
			l := 20 + abs(a.x-b.x) + abs(a.y-b.y) + 10*r.Float64()
			row[k] = Range{1000 * l, 1000 * l * (1 + 0.2*r.Float64())}
		}
		j.Latency = append(j.Latency, row)
	}
	layers := min(ops, ops/12+4)
	for v := range ops {
		t := (5 + 40*r.Float64()) * 1000
		j.Operators = append(j.Operators, Operator{Name: fmt.Sprint("o", v),
			Time: Range{t, t * 1.1}, PerSecond: 1e9 / t * (0.1 + 0.9*r.Float64())})
	}
	layer := func(v int) int { return v * layers / ops }
	for v := range ops {
		if layer(v) == 0 {
			j.Operators[v].Nodes = []int{r.IntN(nodes)}
			continue
		}
		for range 1 + r.IntN(2) {
			u := r.IntN(v)
			for layer(u) != layer(v)-1 {
				u = r.IntN(v)
			}
			j.Edges = append(j.Edges, Edge{u, v})
		}
	}
	return j
}

func abs(x float64) float64 { return max(x, -x) }
