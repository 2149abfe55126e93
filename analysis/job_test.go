package analysis

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// job is a random job: a source, some actors, a branch, a window, a sink.
type job struct {
	nodes    []simrun.Node
	channels []simrun.Channel
	edges    [][2]string
	// findable is true if the data show all edges: for each edge, some tuple passes both ends. If
	// ids are used twice, there must also be no window and no unlogged event: otherwise the two
	// tuples of an id may look like one.
	findable bool
	reuse    bool // each id is used twice
}

func randomJob(rng *rand.Rand) job {
	var j job
	j.nodes = simrun.Nodes(rng, 1+rng.IntN(4))
	if len(j.nodes) == 1 { // a closure has no node without a relation
		j.nodes = simrun.Nodes(rng, 2)
	}
	if rng.IntN(3) == 0 {
		for i := range j.nodes {
			j.nodes[i].Quantum = 26
		}
	}
	index := map[string]int{}
	open := func(actor string, instance int, point string, node int) int {
		name := fmt.Sprintf("%s#%d/%s", actor, instance, point)
		if _, ok := index[name]; !ok {
			index[name] = len(j.channels)
			j.channels = append(j.channels, simrun.Channel{Node: node, Name: name})
		}
		return index[name]
	}
	where := map[string]int{}
	placed := func(actor string, instance int) int {
		k := fmt.Sprint(actor, instance)
		if _, ok := where[k]; !ok {
			where[k] = rng.IntN(len(j.nodes))
		}
		return where[k]
	}
	log := func(actor string, instance int, point string, time, id uint64) {
		c := open(actor, instance, point, placed(actor, instance))
		j.channels[c].Records = append(j.channels[c].Records, simrun.Record{Time: time, ID: id})
	}
	link := func(parent, child uint64) {
		c := open("window", 0, "link", placed("window", 0))
		j.channels[c].Handler = "link"
		j.channels[c].Records = append(j.channels[c].Records, simrun.Record{
			ID: parent, Child: child, IsLink: true,
		})
	}
	const ms = simrun.Hz / 1000
	lose, copies := rng.Float64()*0.1, rng.Float64()*0.05
	stages := []string{"parse", "filter"}[:1+rng.IntN(2)]
	window := rng.IntN(2) * (2 + rng.IntN(4)) // 0: none
	branch := rng.IntN(2) == 0
	reuse := rng.IntN(2) == 0
	unlogged := rng.IntN(2) == 0 // some events are not logged
	// In some jobs, what happens to a tuple is drawn for each tuple. In others, it is the same for
	// many consecutive tuples.
	block, odd := uint64(1), 50
	if rng.IntN(2) == 0 {
		block, odd = 8<<rng.IntN(4), 300
		lose, copies = 2*lose, copies/20
	}
	chance := func(id, salt uint64, p float64) bool {
		if block == 1 || rng.IntN(200) == 0 {
			return rng.Float64() < p
		}
		return rand.New(rand.NewPCG(id/block, salt)).Float64() < p
	}
	count := 200 + rng.IntN(400)
	base := rng.Uint64() >> rng.IntN(40)
	ids := make([]uint64, count)
	for i := range ids {
		ids[i] = base + uint64(i)
		if rng.IntN(odd) == 0 {
			ids[i] = rng.Uint64()
		}
	}
	var waiting []uint64
	var made uint64 = 1 << 63
	now := uint64(simrun.Hz)
	for round := range 1 + rng.IntN(2) {
		if round > 0 && !reuse {
			break
		}
		now += 500 * ms
		for _, id := range ids {
			now += ms/20 + rng.Uint64N(ms/5)
			at := now
			hops, kind := uint64(0), id/block
			hop := func() bool { // the tuple goes on to the next actor; false: it is lost
				at += ms/2 + rng.Uint64N(ms)
				hops++
				return !chance(id, hops, lose)
			}
			alive, through := true, stages
			// The window joins tuples of two sources.
			if clicks := window > 0 && round == 0 && kind%5 == 0; clicks {
				log("clicks", 0, "send", at, id)
				through = nil
				// If no source logs the tuple, it is first seen after its source.
			} else if !unlogged || !chance(id, 0, 0.1) {
				log("source", int(kind%2), "send", at, id)
			}
			for _, s := range through {
				if alive = hop(); !alive {
					break
				}
				times := 1
				if rng.Float64() < copies {
					times += 1 + rng.IntN(2)
				}
				for range times {
					at += rng.Uint64N(ms / 10)
					log(s, int(kind%3), "recv", at, id)
				}
				at += ms / 5
				log(s, int(kind%3), "send", at, id)
			}
			if !alive || !hop() {
				continue
			}
			if branch && kind%4 == 0 && through != nil {
				log("other", 0, "recv", at, id)
				at += ms / 3
				log("other", 0, "send", at, id)
				if !hop() {
					continue
				}
			}
			if window > 0 && round == 0 {
				log("window", 0, "recv", at, id)
				if waiting = append(waiting, id); len(waiting) >= window {
					child := made
					made++
					for _, p := range waiting {
						link(p, child)
					}
					if rng.IntN(8) == 0 { // made of a tuple that was itself made of others
						link(made-2, child)
					}
					if rng.IntN(8) == 0 { // a link from an id to itself
						link(child, child)
					}
					// Links from an id that no log has. The analysis must not take this id
					// for an origin.
					if rng.IntN(8) == 0 {
						link(1<<62+child, child)
						link(1<<62+child, child+1<<61)
						log("window", 0, "send", at+ms/8, child+1<<61)
						log("sink", 0, "recv", at+ms, child+1<<61)
					}
					waiting = waiting[:0]
					at += ms / 4
					if !unlogged || rng.IntN(6) > 0 {
						log("window", 0, "send", at, child)
					}
					if hop() {
						log("sink", 0, "recv", at, child)
					}
				}
				continue
			}
			log("sink", 0, "recv", at, id)
		}
	}
	edge := func(from, to string) { j.edges = append(j.edges, [2]string{from, to}) }
	j.reuse = reuse
	j.findable = !reuse || window == 0 && !unlogged
	last := "source/send"
	for _, s := range stages {
		edge(last, s+"/recv")
		edge(s+"/recv", s+"/send")
		last = s + "/send"
	}
	edge(last, "sink/recv")
	into := []string{"sink/recv"}
	if window > 0 {
		edge(last, "window/recv")
		edge("clicks/send", "window/recv")
		edge("window/send", "sink/recv")
		into = append(into, "window/recv")
	}
	if branch {
		edge(last, "other/recv")
		edge("other/recv", "other/send")
		for _, p := range into {
			edge("other/send", p)
		}
	}
	for i := range j.channels {
		if j.channels[i].Handler == "" {
			simrun.InOrder(j.channels[i].Records)
		}
	}
	at := map[string]map[uint64]bool{}
	for _, c := range j.channels {
		ids := at[pointName(c.Name)]
		if ids == nil {
			ids = map[uint64]bool{}
			at[pointName(c.Name)] = ids
		}
		for _, r := range c.Records {
			ids[r.ID] = ids[r.ID] || !r.IsLink
		}
	}
	// If an end of an edge has no channel, the edge does not exist. The data show any other edge
	// only if some tuple passes both of its ends.
	j.edges = slices.DeleteFunc(j.edges, func(e [2]string) bool {
		return at[e[0]] == nil || at[e[1]] == nil
	})
	for _, e := range j.edges {
		both := false
		for id := range at[e[0]] {
			both = both || at[e[0]][id] && at[e[1]][id]
		}
		j.findable = j.findable && both
	}
	return j
}
