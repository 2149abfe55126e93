package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Options say what to simulate.
type Options struct {
	Nodes   int
	Degree  int           // neighbours that each node probes
	Talks   int           // nodes to which the tuples of each node travel
	Measure time.Duration // how long nodes measure each other
	Churn   float64       // share of the nodes that die each minute; as many join
	Liars   float64       // share of the nodes that report false stamps
	Loss    float64       // share of messages and exchanges that are lost
	Pairs   int           // random pairs to ask for
	Queries int           // moments at which each pair is asked for
	Seed    uint64

	Progress func(step string)
}

// Result is what Run found.
type Result struct {
	Nodes     int
	Irregular int // nodes without all their neighbours at the end
	Measured  int // pairs that were measured

	Queries   uint64 // bounds of random pairs
	Outside   uint64 // of these, bounds that do not contain the truth
	Unrelated uint64 // questions without an answer

	EdgeBound, RandomBound, TalkBound time.Duration // medians: see ask
	Hops                              float64       // mean of relations in a random pair's path

	// These say what a node sends in a second: for the graph when the fleet has grown, and for
	// trains.
	Messages, Bytes, TrainPackets, TrainBytes float64
	GraphCPU                                  time.Duration // of a node, in a second
}

// Run simulates a fleet.
func Run(ctx context.Context, o Options) (r Result, err error) {
	w := &world{r: rand.New(rand.NewPCG(o.Seed, 0)), o: o, byName: map[overlay.Name]*node{}}
	say := func(format string, args ...any) {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf(format, args...))
		}
	}
	say("%d nodes join", o.Nodes)
	if err := w.grow(); err != nil {
		return r, err
	}
	for _, n := range w.nodes {
		n.lies = w.r.Float64() < o.Liars
		for range o.Talks {
			if other := w.nodes[w.r.IntN(len(w.nodes))]; other != n {
				n.talks = append(n.talks, other)
			}
		}
	}
	r.Nodes = len(w.nodes)
	w.messages, w.bytes = 0, 0
	const quiet = 20 * time.Second
	began := time.Now()
	w.run(quiet)
	perNode := 1 / (quiet.Seconds() * float64(len(w.nodes)))
	r.GraphCPU = time.Duration(float64(time.Since(began)) * perNode)
	r.Messages, r.Bytes = float64(w.messages)*perNode, float64(w.bytes)*perNode
	r.TrainPackets = trainPackets / trainEvery.Seconds()
	r.TrainBytes = trainBytes / trainEvery.Seconds()

	say("they measure each other")
	w.measuring = true
	for _, n := range w.nodes {
		if err := n.start(w); err != nil {
			return r, err
		}
	}
	all, from := pairs{}, w.now
	var failed error
	begin := func(n *node) {
		w.after(time.Duration(w.r.Int64N(int64(trainEvery))),
			func() { n.probe(all, func(err error) { failed = errors.Join(failed, err) }) })
	}
	for _, n := range w.nodes {
		begin(n)
	}
	for deaths := 0.0; w.now < from+o.Measure; {
		w.run(time.Second)
		for deaths += o.Churn * float64(o.Nodes) / 60; deaths >= 1; deaths-- {
			living := w.living()
			n := living[w.r.IntN(len(living))]
			n.graph, n.died = nil, w.now
			if err := w.join(); err != nil {
				return r, err
			}
			begin(w.nodes[len(w.nodes)-1])
		}
		if err := errors.Join(failed, ctx.Err()); err != nil {
			return r, err
		}
	}
	r.Irregular, r.Measured = w.irregular(), len(all)
	say("%d pairs are related", len(all))
	closure, err := tscratio.NewClosure(relate(all), tscratio.ThirdAgreed)
	if err != nil {
		return r, err
	}
	return r, w.ask(ctx, &r, closure, all, from, say)
}

// ask compares bounds of random pairs with the truth. It also notes the median bound of these
// pairs, of neighbours, and of nodes between which tuples travel. It leaves out nodes that lie.
func (w *world) ask(ctx context.Context, r *Result, closure *tscratio.Closure, all pairs,
	from time.Duration, say func(string, ...any)) error {
	honest := slices.DeleteFunc(w.living(), func(n *node) bool { return n.lies || n.born > from })
	moment := func() time.Duration { // neighbours were measured before and after it
		const edge = 5 * time.Second
		return from + edge + time.Duration(w.r.Int64N(int64(w.o.Measure-2*edge)))
	}
	var random, edges, talks []uint64
	hops, ways := 0, 0
	for i := range w.o.Pairs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i%100 == 0 {
			say("%d of %d random pairs are asked for", i, w.o.Pairs)
		}
		a, b := honest[w.r.IntN(len(honest))], honest[w.r.IntN(len(honest))]
		if a == b {
			continue
		}
		view, err := closure.View(a.described.Name, b.described.Name)
		if err != nil {
			r.Unrelated += uint64(w.o.Queries)
			continue
		}
		for q := range w.o.Queries {
			at := physical(moment())
			reading := a.counter.Virtual(at)
			got, _, err := view.Translate(reading)
			if err != nil {
				r.Unrelated++
				continue
			}
			r.Queries++
			if truth := b.truth.Reading(at); truth < got.Lo || truth > got.Hi {
				r.Outside++
			}
			random = append(random, got.HalfWidth())
			if q == 0 {
				if c, err := closure.Translate(a.described.Name, b.described.Name,
					reading); err == nil {
					hops += len(c.LoPath) - 1
					ways++
				}
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(x, y [2]int) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	})
	for _, key := range keys {
		a, b := w.nodes[key[0]], w.nodes[key[1]]
		if a.lies || b.lies || a.died > 0 || b.died > 0 || a.born > from || b.born > from {
			continue
		}
		got, err := closure.Translate(a.described.Name, b.described.Name,
			a.counter.Virtual(physical(moment())))
		if err != nil {
			continue
		}
		if slices.Contains(a.talks, b) || slices.Contains(b.talks, a) {
			talks = append(talks, got.HalfWidth())
		} else {
			edges = append(edges, got.HalfWidth())
		}
	}
	r.RandomBound, r.EdgeBound, r.TalkBound = median(random), median(edges), median(talks)
	if ways > 0 {
		r.Hops = float64(hops) / float64(ways)
	}
	return nil
}

// median returns the median of bounds in cycles, as a time.
func median(all []uint64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return time.Duration(float64(all[len(all)/2]) / physical_hz * 1e9)
}
