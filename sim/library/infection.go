package library

import (
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// infectionProtocol spreads an infection: a node that gets the infection passes it on to random
// neighbours. A node that has got the infection too often stops passing it on.
type infectionProtocol struct {
	count  sim.Column[uint32]
	links  sim.Linkable
	tr     sim.Transport
	own    uint8
	degree int
	limit  uint32
}

func newInfection(b *Builder, key string) any {
	return &infectionProtocol{links: b.Linkable(key + ".linkable"),
		tr: b.Transport(key + ".transport"), own: b.Own(key),
		degree: int(b.File.Int(key+".degree", 1, 1<<10, 1)),
		limit:  uint32(b.File.Int(key+".limit", 1, 1<<31, 1<<31))}
}

func (p *infectionProtocol) Parts() []sim.Part              { return []sim.Part{&p.count} }
func (p *infectionProtocol) Value(n sim.Node) float64       { return float64(*p.count.At(n)) }
func (p *infectionProtocol) SetValue(n sim.Node, v float64) { *p.count.At(n) = uint32(v) }

func (p *infectionProtocol) Receive(c *sim.Context, e *sim.Event) {
	count := p.count.At(e.To)
	*count++
	if *count > p.limit {
		return
	}
	for range p.degree {
		if peer, ok := randomPeer(c, p.links); ok {
			c.Send(p.tr, peer, p.own, 1, 0)
		}
	}
}

// infectionSeed infects some nodes.
type infectionSeed struct {
	number uint8
	seeds  int
}

func newInfectionSeed(b *Builder, key string) any {
	_, n := Find[*infectionProtocol](b, key+".protocol", "is not an InfectionED")
	return &infectionSeed{n, int(b.File.Int(key+".seeds", 1, maxNodes, 1))}
}

func (p *infectionSeed) Run(w *sim.World, s *sim.Stream) (bool, error) {
	for range p.seeds {
		if w.Size() > 0 {
			w.Post(0, w.Living(s.Int(w.Size())), p.number, 1, 0)
		}
	}
	return false, nil
}

// infectionObserver prints how many nodes are infected.
type infectionObserver struct {
	name string
	of   *infectionProtocol
	out  io.Writer
	note func(series string, at sim.Time, value float64)
}

func newInfectionObserver(b *Builder, key string) any {
	of, _ := Find[*infectionProtocol](b, key+".protocol", "is not an InfectionED")
	return &infectionObserver{key, of, b.Out, b.Noter(key)}
}

func (p *infectionObserver) Measure(w *sim.World, shard int) []byte {
	var s sim.Stats
	w.InShard(shard, func(n sim.Node) { s.Add(min(p.of.Value(n), 1)) })
	return s.Append(nil)
}

func (p *infectionObserver) Report(w *sim.World, shards [][]byte) (bool, error) {
	s := totalStatistics(shards)
	p.note("infected", w.Now(), s.Mean())
	_, err := fmt.Fprintf(p.out, "%s: %d %s\n", p.name, w.Now(), sim.Java(s.Mean()))
	return false, err
}

// totalStatistics merges the statistics of all shards.
func totalStatistics(shards [][]byte) (all sim.Stats) {
	for _, b := range shards {
		all.Merge(sim.ReadStats(b))
	}
	return all
}
