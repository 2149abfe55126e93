package library

import (
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// cycleScheduler starts the cycles of protocols at each node.
type cycleScheduler struct {
	w         *sim.World
	numbers   []uint8
	cycles    []sim.Cycle
	randstart bool
}

func newScheduler(b *Builder, key string) any {
	p := &cycleScheduler{w: b.W, randstart: b.File.Has(key + ".randstart")}
	for name := range strings.FieldsSeq(b.File.MustText(key + ".protocol")) {
		i := slices.Index(b.names, "protocol."+name)
		if i < 0 {
			b.File.Fault(key+".protocol", "there is no protocol %q", name)
			continue
		}
		of, ok := b.protocolAt(i).(sim.Protocol)
		if !ok {
			continue
		}
		if _, cycled := of.(sim.Cycled); !cycled {
			b.File.Fault(key+".protocol", "protocol %q has no cycles", name)
			continue
		}
		c := b.cycleStart(b.names[i], of, false)
		if c.Step == 0 && b.File.Line(b.names[i]+".step") == 0 {
			b.File.Missing(b.names[i] + ".step")
		}
		b.started[uint8(i)] = true
		p.numbers = append(p.numbers, uint8(i))
		p.cycles = append(p.cycles, c)
	}
	return p
}

func (p *cycleScheduler) Init(c *sim.Context) {
	for i, number := range p.numbers {
		cycle := p.cycles[i]
		delay := max(cycle.From-c.Now(), 0)
		if p.randstart {
			delay += sim.Time(c.Random().Below(uint64(cycle.Step)))
		}
		if cycle.Until == 0 || c.Now()+delay < cycle.Until {
			c.After(delay, number, sim.TimerKind, 0)
		}
	}
}

// turnShuffle changes the order in which nodes get their turn in a cycle.
type turnShuffle struct{}

func newShuffle(*Builder, string) any { return turnShuffle{} }

func (turnShuffle) Run(w *sim.World, s *sim.Stream) (bool, error) {
	w.Shuffle(s)
	return false, nil
}

// churnControl removes and adds nodes.
type churnControl struct{ inits []nodeInit }

func (b *Builder) churn(key string) (c churnControl) {
	for _, name := range b.File.Names(key + ".init") {
		made := b.makeComponent(name)
		n, ok := made.(nodeInit)
		if !ok {
			if made != nil {
				b.File.Fault(name, "class %q does not prepare single nodes", b.File.Class(name))
			}
			continue
		}
		c.inits = append(c.inits, n)
	}
	return c
}

// changeNodes removes some nodes at random, and then adds some.
func (p *churnControl) changeNodes(w *sim.World, s *sim.Stream, remove, add int) error {
	for range min(remove, w.Size()) {
		w.Kill(s.Int(w.Size()))
	}
	if add <= 0 {
		return nil
	}
	first, err := w.Join(add)
	if err != nil {
		return err
	}
	return w.Each(first, sim.Node(w.Joined()), func(c *sim.Context) {
		for _, init := range p.inits {
			init.Init(c)
		}
	})
}

// dynamicNetwork removes or adds nodes each time it runs.
type dynamicNetwork struct {
	churnControl
	add        float64
	substitute bool
	min, max   int
}

func newDynamic(b *Builder, key string) any {
	return &dynamicNetwork{churnControl: b.churn(key), substitute: b.File.Has(key + ".substitute"),
		add: b.File.MustFloat(key+".add", -maxNodes, maxNodes),
		min: int(b.File.Int(key+".minsize", 0, maxNodes, 0)),
		max: int(b.File.Int(key+".maxsize", 0, maxNodes, b.File.Int("network.maxSize", 1,
			math.MaxInt64, maxNodes)))}
}

func (p *dynamicNetwork) Run(w *sim.World, s *sim.Stream) (bool, error) {
	change := math.Abs(p.add)
	if change < 1 {
		change *= float64(w.Size())
	}
	remove, add := 0, int(change)
	if p.add < 0 {
		remove, add = add, 0
	}
	if p.substitute {
		return false, p.changeNodes(w, s, remove+add, remove+add)
	}
	return false, p.changeNodes(w, s, min(remove, max(w.Size()-p.min, 0)),
		min(add, max(p.max-w.Size(), 0)))
}

// oscillatingNetwork makes the size of the network follow a sine.
type oscillatingNetwork struct {
	churnControl
	min, max, period int64
}

func newOscillating(b *Builder, key string) any {
	return &oscillatingNetwork{churnControl: b.churn(key),
		min: b.File.Int(key+".minsize", 0, maxNodes, 0),
		max: b.File.Int(key+".maxsize", 0, maxNodes, b.File.Int("network.maxSize", 1,
			math.MaxInt64, maxNodes)),
		period: b.File.MustInt(key+".period", 1, math.MaxInt64)}
}

func (p *oscillatingNetwork) Run(w *sim.World, s *sim.Stream) (bool, error) {
	half := (p.max - p.min) / 2
	size := (p.max+p.min)/2 +
		int64(math.Sin(float64(w.Now())/float64(p.period)*math.Pi)*float64(half))
	change := int(size) - w.Size()
	return false, p.changeNodes(w, s, max(-change, 0), max(change, 0))
}
