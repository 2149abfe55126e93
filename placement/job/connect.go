package job

import (
	"container/heap"
	"fmt"
	"math"

	"github.com/cloudprofiler/cloudprofiler/placement"
)

// Connect fills in the latencies of the job from a list. If a latency is listed for only one
// direction, it is used for both directions. If a pair of nodes is not listed, its latency is at
// least 0, and at most that of the fastest route over other nodes. Connect returns how many pairs
// are not listed. If no route leads from one node to another, the error wraps ErrFile.
func (f *File) Connect(latencies []Latency) (missing int, err error) {
	nodes := f.Job.Nodes
	index := map[string]int{}
	for i, n := range nodes {
		index[n.Name] = i
	}
	unknown := placement.Range{Hi_ns: math.Inf(1)}
	rows := make([][]placement.Range, len(nodes))
	for i := range rows {
		rows[i] = make([]placement.Range, len(nodes))
		for k := range rows[i] {
			rows[i][k] = unknown
		}
		rows[i][i] = f.Local
	}
	var given [][2]int
	for _, l := range latencies {
		i, ok := index[l.From]
		k, ok2 := index[l.Into]
		if ok && ok2 && i != k {
			rows[i][k] = l.Range
			given = append(given, [2]int{i, k})
		}
	}
	for _, p := range given {
		if i, k := p[0], p[1]; rows[k][i] == unknown {
			rows[k][i] = rows[i][k]
		}
	}
	ways := make([][]listedLatency, len(nodes))
	for i, row := range rows {
		for k, l := range row {
			if i != k && l != unknown {
				ways[i] = append(ways[i], listedLatency{k, l.Hi_ns})
			}
		}
	}
	for i, row := range rows {
		var fastest []float64
		for k := range row {
			if row[k] != unknown {
				continue
			}
			if fastest == nil {
				fastest = fastestFrom(ways, i)
			}
			if math.IsInf(fastest[k], 1) {
				return 0, fmt.Errorf("no latency from node %q to node %q is known, nor a route by "+
					"other nodes: measure it, or leave one of them out: %w", nodes[i].Name,
					nodes[k].Name, ErrFile)
			}
			row[k].Hi_ns = fastest[k]
			missing++
		}
	}
	f.Job.Latency = rows
	return missing, nil
}

// listedLatency is the time that a tuple takes to reach one node (into), according to the list.
type listedLatency struct {
	into    int
	time_ns float64
}

// fastestFrom returns the time of the fastest route from one node to each node (Dijkstra's
// algorithm).
func fastestFrom(ways [][]listedLatency, start int) []float64 {
	times := make([]float64, len(ways))
	for i := range times {
		times[i] = math.Inf(1)
	}
	times[start] = 0
	next := &queue{{start, 0}}
	for next.Len() > 0 {
		w := heap.Pop(next).(listedLatency)
		if w.time_ns > times[w.into] {
			continue
		}
		for _, on := range ways[w.into] {
			if t := w.time_ns + on.time_ns; t < times[on.into] {
				times[on.into] = t
				heap.Push(next, listedLatency{on.into, t})
			}
		}
	}
	return times
}

type queue []listedLatency

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, k int) bool { return q[i].time_ns < q[k].time_ns }
func (q queue) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }
func (q *queue) Push(w any)        { *q = append(*q, w.(listedLatency)) }
func (q *queue) Pop() any {
	w := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return w
}
