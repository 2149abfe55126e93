package library

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// linkWiring adds links. If the simulation runs in several processes, each process draws all links
// and keeps the links of its own nodes.
type linkWiring struct {
	links sim.Linkable
	both  bool // each link gets an opposite link
	draw  func(w *sim.World, s *sim.Stream, link func(from, to int)) error
}

func (b *Builder) wiring(key string) linkWiring {
	b.File.Has(key + ".pack") // links are always packed
	undir, undirected := b.File.Has(key+".undir"), b.File.Has(key+".undirected")
	return linkWiring{links: b.Linkable(key + ".protocol"), both: undir || undirected}
}

func (p *linkWiring) Run(w *sim.World, s *sim.Stream) (bool, error) {
	one := func(from, to int) {
		if n := w.Living(from); from != to && w.Has(n) {
			p.links.Link(n, w.Living(to))
		}
	}
	return false, p.draw(w, s, func(from, to int) {
		one(from, to)
		if p.both {
			one(to, from)
		}
	})
}

// kOut links each node to k random other nodes.
type kOut struct {
	linkWiring
	k int
}

func newKOut(b *Builder, key string) any {
	p := &kOut{linkWiring: b.wiring(key)}
	if name := key + ".degree"; b.File.Has(name) { // its name in WireRegularRandom
		p.k = int(b.File.Int(name, 0, 1<<20, 1))
	} else {
		p.k = int(b.File.MustInt(key+".k", 1, 1<<20))
	}
	p.draw = func(w *sim.World, s *sim.Stream, link func(from, to int)) error {
		var picked []int
		for i := range w.Size() {
			picked = drawDistinct(picked[:0], s, p.k, i, w.Size())
			for _, to := range picked {
				link(i, to)
			}
		}
		return nil
	}
	return p
}

func (p *kOut) Run(w *sim.World, s *sim.Stream) (bool, error) {
	if p.both {
		return p.linkWiring.Run(w, s)
	}
	k := min(p.k, w.Size()-1)
	if r, ok := p.links.(interface{ Reserve(shard, each, nodes int) }); ok {
		for shard := range w.Shards() {
			if w.Here(shard) {
				r.Reserve(shard, k, min(w.Joined()-shard*sim.ShardNodes, sim.ShardNodes))
			}
		}
	}
	all := w.Size() == w.Joined() // if all live, a node's number is its index in the list
	if !all {
		return p.linkWiring.Run(w, s)
	}
	return false, w.Each(0, sim.Node(w.Joined()), func(c *sim.Context) {
		linkRandomly(c, p.links, k)
	})
}

// linkRandomly links the context's node to k random living others.
func linkRandomly(c *sim.Context, links sim.Linkable, k int) {
	w := c.World()
	if k*4 < w.Size() {
		for added := 0; added < k; {
			to := w.Living(c.Random().Int(w.Size()))
			if to != c.Node() && links.Link(c.Node(), to) {
				added++
			}
		}
		return
	}
	self := -1
	for i := range w.Size() {
		if w.Living(i) == c.Node() {
			self = i
		}
	}
	for _, i := range drawDistinct(nil, c.Random(), k, self, w.Size()) {
		links.Link(c.Node(), w.Living(i))
	}
}

// drawDistinct appends k different random numbers below n to a list. The parameter named without is
// a number that it never draws.
func drawDistinct(to []int, s *sim.Stream, k, without, n int) []int {
	if k*4 < n {
	next:
		for len(to) < k {
			i := s.Int(n)
			if i == without {
				continue
			}
			for _, have := range to {
				if have == i {
					continue next
				}
			}
			to = append(to, i)
		}
		return to
	}
	for i := range n {
		if i != without {
			to = append(to, i)
		}
	}
	for i := range min(k, len(to)) {
		j := i + s.Int(len(to)-i)
		to[i], to[j] = to[j], to[i]
	}
	return to[:min(k, len(to))]
}

// newRing links each node to its k nearest nodes on a ring.
func newRing(b *Builder, key string) any {
	p := b.wiring(key)
	k := int(b.File.MustInt(key+".k", 1, 1<<20))
	p.draw = func(w *sim.World, _ *sim.Stream, link func(from, to int)) error {
		n := w.Size()
		for i := range n {
			for j := -k / 2; j <= k/2; j++ {
				if j != 0 {
					link(i, ((i+j)%n+n)%n)
				}
			}
		}
		return nil
	}
	return &p
}

// newWS makes the small world of Watts and Strogatz: a ring in which some links lead to random
// nodes.
func newWS(b *Builder, key string) any {
	p := b.wiring(key)
	k := int(b.File.MustInt(key+".k", 1, 1<<20))
	beta := b.File.MustFloat(key+".beta", 0, 1)
	p.draw = func(w *sim.World, s *sim.Stream, link func(from, to int)) error {
		n := w.Size()
		for i := range n {
			for j := -k / 2; j <= k/2; j++ {
				if j == 0 {
					continue
				}
				to := ((i+j)%n + n) % n
				if s.Float() < beta && n > 1 {
					if to = s.Int(n - 1); to >= i {
						to++
					}
				}
				link(i, to)
			}
		}
		return nil
	}
	return &p
}

// newStar links each node to the first one.
func newStar(b *Builder, key string) any {
	p := b.wiring(key)
	p.draw = func(w *sim.World, _ *sim.Stream, link func(from, to int)) error {
		for i := 1; i < w.Size(); i++ {
			link(i, 0)
		}
		return nil
	}
	return &p
}

// newTree makes a tree in which each node has k children.
func newTree(b *Builder, key string) any {
	p := b.wiring(key)
	k := int(b.File.MustInt(key+".k", 1, 1<<20))
	p.draw = func(w *sim.World, _ *sim.Stream, link func(from, to int)) error {
		for child := 1; child < w.Size(); child++ {
			link((child-1)/k, child)
		}
		return nil
	}
	return &p
}

// newBA makes the graph of Barabási and Albert: each new node links to k others, and prefers nodes
// with many links.
func newBA(b *Builder, key string) any {
	p := b.wiring(key)
	k := int(b.File.MustInt(key+".k", 1, 1<<16))
	p.draw = func(w *sim.World, s *sim.Stream, link func(from, to int)) error {
		if w.Size() <= k {
			return nil
		}
		ends := make([]uint32, 0, 2*k*(w.Size()-k)) // holds each node once for each of its links
		picked := make([]uint32, 0, k)
		for i := k; i < w.Size(); i++ {
			picked = picked[:0]
			for len(picked) < k {
				to := uint32(len(picked)) // the first of these nodes links to all before it
				if i > k {
					to = ends[s.Int(len(ends))]
				}
				if !slices.Contains(picked, to) {
					picked = append(picked, to)
				}
			}
			for _, to := range picked {
				link(i, int(to))
				ends = append(ends, uint32(i), to)
			}
		}
		return nil
	}
	return &p
}

// newFromFile reads the links from a file: in each line a node and its neighbours.
func newFromFile(b *Builder, key string) any {
	p := b.wiring(key)
	path := b.Path(key + ".file")
	most := int(b.File.Int(key+".k", 1, math.MaxInt32, math.MaxInt32))
	p.draw = func(w *sim.World, _ *sim.Stream, link func(from, to int)) error {
		return eachLine(path, func(line string) error {
			var nodes []int
			for _, text := range strings.Fields(line) {
				n, err := strconv.Atoi(text)
				if err != nil || n < 0 || n >= w.Size() {
					return fmt.Errorf("%q is not a node: want 0 to %d", text, w.Size()-1)
				}
				nodes = append(nodes, n)
			}
			for _, to := range nodes[1 : min(len(nodes)-1, most)+1] {
				link(nodes[0], to)
			}
			return nil
		})
	}
	return &p
}

// randNI links a node that has joined to k random other nodes.
type randNI struct {
	links sim.Linkable
	k     int
}

func newRandNI(b *Builder, key string) any {
	b.File.Has(key + ".pack")
	return &randNI{b.Linkable(key + ".protocol"), int(b.File.MustInt(key+".k", 1, 1<<20))}
}

func (p *randNI) Init(c *sim.Context) { linkRandomly(c, p.links, min(p.k, c.World().Size()-1)) }

// starNI links a node that has joined to the first node.
type starNI struct{ links sim.Linkable }

func newStarNI(b *Builder, key string) any {
	b.File.Has(key + ".pack")
	return &starNI{b.Linkable(key + ".protocol")}
}

func (p *starNI) Init(c *sim.Context) {
	if first := c.World().Living(0); first != c.Node() {
		p.links.Link(c.Node(), first)
	}
}
