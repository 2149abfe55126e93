package library

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// graphObserver observes the graph of all living nodes.
type graphObserver struct {
	name  string
	links sim.Linkable
	undir bool
	out   io.Writer
}

func (b *Builder) graph(key string) graphObserver {
	b.File.Has(key + ".undir.fast")
	return graphObserver{key, b.Linkable(key + ".protocol"), b.File.Has(key + ".undir"), b.Out}
}

// Measure encodes the living nodes of a shard and their neighbours.
func (p *graphObserver) Measure(w *sim.World, shard int) (to []byte) {
	w.InShard(shard, func(n sim.Node) {
		neighbours := p.links.Neighbours(n)
		to = binary.LittleEndian.AppendUint32(to, uint32(n))
		to = binary.LittleEndian.AppendUint32(to, uint32(len(neighbours)))
		for _, m := range neighbours {
			to = binary.LittleEndian.AppendUint32(to, uint32(m))
		}
	})
	return to
}

// encodedGraph is what Measure encoded: the links of each node.
type encodedGraph struct {
	nodes []sim.Node // living nodes
	links [][]sim.Node
}

func (p *graphObserver) read(w *sim.World, shards [][]byte) encodedGraph {
	g := encodedGraph{links: make([][]sim.Node, w.Joined())}
	for _, b := range shards {
		for len(b) >= 8 {
			n := sim.Node(binary.LittleEndian.Uint32(b))
			count := int(binary.LittleEndian.Uint32(b[4:]))
			b = b[8:]
			g.nodes = append(g.nodes, n)
			for i := range count {
				m := sim.Node(binary.LittleEndian.Uint32(b[4*i:]))
				g.links[n] = append(g.links[n], m)
			}
			b = b[4*count:]
		}
	}
	if p.undir {
		opposite := make([][]sim.Node, len(g.links))
		for _, n := range g.nodes {
			for _, m := range g.links[n] {
				opposite[m] = append(opposite[m], n)
			}
		}
		for _, n := range g.nodes {
			for _, m := range opposite[n] {
				if !slices.Contains(g.links[n], m) {
					g.links[n] = append(g.links[n], m)
				}
			}
		}
	}
	return g
}

// degreeStats prints how many neighbours nodes have.
type degreeStats struct {
	graphObserver
	n            int
	method, kind string
}

func newDegreeStats(b *Builder, key string) any {
	p := &degreeStats{graphObserver: b.graph(key), n: int(b.File.Int(key+".n", -1, maxNodes, -1)),
		method: b.File.OneOf(key+".method", "stats", "freq", "list"),
		kind:   b.File.OneOf(key+".linktype", "live", "all", "dead")}
	// PeerSim observes the same nodes each time only if this key is set. This observer observes the
	// same nodes each time, with or without the key. So it accepts the key, and ignores its value.
	b.File.Has(key + ".trace")
	if p.undir && p.kind != "live" {
		b.File.Fault(key+".linktype", "%q needs links with a direction: leave out %q", p.kind,
			key+".undir")
	}
	return p
}

func (p *degreeStats) Report(w *sim.World, shards [][]byte) (bool, error) {
	g := p.read(w, shards)
	var all sim.Stats
	var list []int
	for i, n := range g.nodes {
		if p.n >= 0 && i >= p.n {
			break
		}
		live := 0
		for _, m := range g.links[n] {
			if w.Up(m) {
				live++
			}
		}
		degree := map[string]int{"live": live, "all": len(g.links[n]),
			"dead": len(g.links[n]) - live}[p.kind]
		all.Add(float64(degree))
		list = append(list, degree)
	}
	var err error
	switch p.method {
	case "stats":
		_, err = fmt.Fprintf(p.out, "%s: %s\n", p.name, all.String())
	case "list":
		_, err = fmt.Fprintf(p.out, "%s: %s\n", p.name, strings.Trim(fmt.Sprint(list), "[]"))
	case "freq":
		slices.Sort(list)
		for len(list) > 0 && err == nil {
			count := 1
			for count < len(list) && list[count] == list[0] {
				count++
			}
			_, err = fmt.Fprintf(p.out, "%d %d\n", list[0], count)
			list = list[count:]
		}
	}
	return false, err
}

// connectivityObserver prints the sizes of the connected parts of the graph.
type connectivityObserver struct {
	graphObserver
	sizes bool
}

func newConnectivity(b *Builder, key string) any {
	b.File.OneOf(key+".type", "wcc")
	return &connectivityObserver{b.graph(key), b.File.Has(key + ".sizestats")}
}

func (p *connectivityObserver) Report(w *sim.World, shards [][]byte) (bool, error) {
	g := p.read(w, shards)
	parent := make([]sim.Node, w.Joined())
	for i := range parent {
		parent[i] = sim.Node(i)
	}
	find := func(n sim.Node) sim.Node {
		for parent[n] != n {
			parent[n] = parent[parent[n]]
			n = parent[n]
		}
		return n
	}
	for _, n := range g.nodes {
		for _, m := range g.links[n] {
			if w.Up(m) {
				a, b := find(n), find(m)
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	size := make([]int, w.Joined())
	for _, n := range g.nodes {
		size[find(n)]++
	}
	var all sim.Stats
	var parts []string
	for _, s := range size {
		if s > 0 {
			all.Add(float64(s))
			parts = append(parts, fmt.Sprintf("%d=%d", len(parts), s))
		}
	}
	text := "{" + strings.Join(parts, ", ") + "}"
	if p.sizes {
		text = all.String()
	}
	_, err := fmt.Fprintf(p.out, "%s: %s\n", p.name, text)
	return false, err
}

// clusteringObserver prints how many neighbours of a node are neighbours of each other.
type clusteringObserver struct {
	graphObserver
	n int
}

func newClustering(b *Builder, key string) any {
	return &clusteringObserver{b.graph(key), int(b.File.Int(key+".n", 1, maxNodes, maxNodes))}
}

func (p *clusteringObserver) Report(w *sim.World, shards [][]byte) (bool, error) {
	g := p.read(w, shards)
	var all sim.Stats
	for _, n := range g.nodes[:min(p.n, len(g.nodes))] {
		var live []sim.Node
		for _, m := range g.links[n] {
			if w.Up(m) {
				live = append(live, m)
			}
		}
		if len(live) < 2 {
			all.Add(math.NaN())
			continue
		}
		links := 0
		for _, a := range live {
			for _, b := range live {
				if a != b && slices.Contains(g.links[a], b) {
					links++
				}
			}
		}
		all.Add(float64(links) / float64(len(live)*(len(live)-1)))
	}
	_, err := fmt.Fprintf(p.out, "%s: %s\n", p.name, all.String())
	return false, err
}
