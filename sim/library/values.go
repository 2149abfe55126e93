package library

import (
	"math"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// idleProtocol has neighbours and does nothing.
type idleProtocol struct {
	silentProtocol
	links sim.Links
}

func newIdle(b *Builder, key string) any {
	b.File.Has(key + ".degree") // the name of capacity in PeerSim 0.1
	return &idleProtocol{links: sim.Links{Capacity: int(b.File.Int(key+".capacity", 1, 1<<20, 10))}}
}

func (p *idleProtocol) Parts() []sim.Part                  { return []sim.Part{&p.links} }
func (p *idleProtocol) Neighbours(n sim.Node) []sim.Node   { return p.links.Of(n) }
func (p *idleProtocol) Link(n, neighbour sim.Node) bool    { return p.links.Add(n, neighbour) }
func (p *idleProtocol) Reserve(shard, each int, nodes int) { p.links.Reserve(shard, each, nodes) }

// valueProtocol has a number for each node.
type valueProtocol struct{ column sim.Column[float64] }

func (v *valueProtocol) Parts() []sim.Part               { return []sim.Part{&v.column} }
func (v *valueProtocol) Value(n sim.Node) float64        { return *v.column.At(n) }
func (v *valueProtocol) SetValue(n sim.Node, to float64) { *v.column.At(n) = to }

// directMark marks a protocol whose nodes change the state of other nodes.
type directMark struct{}

func (directMark) Direct() bool { return true }

// agreeProtocol makes two neighbours agree on one value: on the mean of their values, or on the
// larger one.
type agreeProtocol struct {
	silentProtocol
	valueProtocol
	directMark
	links sim.Linkable
	of    func(a, b float64) float64
}

func newAverageFunction(b *Builder, key string) any {
	return &agreeProtocol{links: b.Linkable(key + ".linkable"),
		of: func(x, y float64) float64 { return (x + y) / 2 }}
}

func newMaxFunction(b *Builder, key string) any {
	return &agreeProtocol{links: b.Linkable(key + ".linkable"), of: math.Max}
}

func (p *agreeProtocol) NextCycle(c *sim.Context) {
	peer, ok := randomPeer(c, p.links)
	if !ok {
		return
	}
	mine, theirs := p.column.At(c.Node()), p.column.At(peer)
	v := p.of(*mine, *theirs)
	*mine, *theirs = v, v
}

// randomPeer returns a random neighbour of the context's node. It returns false if that neighbour
// is dead.
func randomPeer(c *sim.Context, links sim.Linkable) (sim.Node, bool) {
	neighbours := links.Neighbours(c.Node())
	if len(neighbours) == 0 {
		return 0, false
	}
	peer := neighbours[c.Random().Int(len(neighbours))]
	return peer, c.Up(peer)
}

// averageED computes the average with messages: a node sends its value to another node, and gets
// back the value that the other node had until then.
type averageED struct {
	valueProtocol
	links sim.Linkable
	tr    sim.Transport
	own   uint8
}

// These are the kinds of averageED's messages.
const (
	averageAsk    = 1
	averageAnswer = 2
)

func newAverageED(b *Builder, key string) any {
	return &averageED{links: b.Linkable(key + ".linkable"), tr: b.Transport(key + ".transport"),
		own: b.Own(key)}
}

// Warm implements sim.Warmer.
func (p *averageED) Warm(e *sim.Event) uint64 {
	sum := math.Float64bits(*p.column.At(e.To))
	if e.Kind != sim.TimerKind {
		return sum
	}
	if links := p.links.Neighbours(e.To); len(links) > 0 {
		sum += uint64(links[0]) + uint64(links[len(links)-1])
	}
	return sum
}

func (p *averageED) NextCycle(c *sim.Context) {
	if peer, ok := randomPeer(c, p.links); ok {
		c.Send(p.tr, peer, p.own, averageAsk, math.Float64bits(*p.column.At(c.Node())))
	}
}

func (p *averageED) Receive(c *sim.Context, e *sim.Event) {
	v := p.column.At(e.To)
	if e.Kind == averageAsk {
		c.Send(p.tr, e.From, p.own, averageAnswer, math.Float64bits(*v))
	}
	*v = (*v + math.Float64frombits(e.Word)) / 2
}

// linearValues gives each node a value. The values rise in equal steps from the smallest to the
// largest.
type linearValues struct {
	to       sim.Valued
	min, max float64
}

func newLinear(b *Builder, key string) any {
	p := &linearValues{to: b.valued(key + ".protocol")}
	p.min = b.File.Float(key+".min", -math.MaxFloat64, math.MaxFloat64, math.Inf(-1))
	p.max = b.File.MustFloat(key+".max", -math.MaxFloat64, math.MaxFloat64)
	if math.IsInf(p.min, -1) {
		p.min = -p.max // as in PeerSim
	}
	return p
}

func (p *linearValues) Run(w *sim.World, _ *sim.Stream) (bool, error) {
	step := (p.max - p.min) / float64(max(w.Size()-1, 1))
	for i := range w.Size() {
		if n := w.Living(i); w.Has(n) {
			p.to.SetValue(n, float64(float64(i)*step)+p.min)
		}
	}
	return false, nil
}

// peakValues gives some nodes equal parts of a value, and all others 0.
type peakValues struct {
	to           sim.Valued
	value, peaks float64
}

func newPeak(b *Builder, key string) any {
	return &peakValues{to: b.valued(key + ".protocol"),
		value: b.File.MustFloat(key+".value", -math.MaxFloat64, math.MaxFloat64),
		peaks: b.File.Float(key+".peaks", 0, maxNodes, 1)}
}

func (p *peakValues) Run(w *sim.World, _ *sim.Stream) (bool, error) {
	peaks := int(p.peaks)
	if p.peaks < 1 {
		peaks = int(p.peaks * float64(w.Size()))
	}
	for i := range w.Size() {
		if n := w.Living(i); w.Has(n) {
			v := 0.0
			if i < peaks {
				v = p.value / float64(peaks)
			}
			p.to.SetValue(n, v)
		}
	}
	return false, nil
}

// uniformValues gives each node a random value.
type uniformValues struct {
	to       sim.Valued
	min, max float64
}

func newUniformValues(b *Builder, key string) any {
	p := &uniformValues{to: b.valued(key + ".protocol"),
		max: b.File.MustFloat(key+".max", -math.MaxFloat64, math.MaxFloat64)}
	p.min = b.File.Float(key+".min", -math.MaxFloat64, math.MaxFloat64, -p.max)
	return p
}

func (p *uniformValues) Init(c *sim.Context) {
	p.to.SetValue(c.Node(), p.min+float64(c.Random().Float()*(p.max-p.min)))
}
