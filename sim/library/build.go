package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
)

// Options say how to run a simulation.
type Options struct {
	Workers  int
	Exchange sim.Exchange // nil: the simulation runs in one process
	Out      io.Writer    // what observers print
	// If the configuration names a file without a directory, the file is in Dir.
	Dir string
	// Note gets each number that an observer reports, so that the caller can plot it. It may be
	// nil.
	Note func(observer, series string, at sim.Time, value float64)
	// Answer gets a sentence that sums up what an observer reports. An observer may give another
	// sentence each time: the last one counts. Answer may be nil.
	Answer func(observer, sentence string)
	// Classes are the classes of protocols and controls that this package does not have, by name.
	Classes map[string]Class
}

// A Class makes a component. The keys of the component's parameters begin with key.
type Class func(b *Builder, key string) any

// A Simulation is a network with its initialisers.
type Simulation struct {
	World  *sim.World
	Cycles int // number of cycles for the cycle engine; 0: the event engine runs

	nodes int
	inits []initialiser
	made  []any // the protocols
}

// Close releases what protocols hold outside of memory. Nobody may use the simulation afterwards.
func (s *Simulation) Close() error {
	var err error
	for _, p := range s.made {
		if c, ok := p.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

type initialiser struct {
	name   string
	run    any
	stream sim.Stream
}

// A Builder makes the components of a configuration. It notes the mistakes of the configuration.
type Builder struct {
	File *config.File
	W    *sim.World
	Out  io.Writer

	o       Options
	names   []string // names of the protocols, by number
	made    []any
	making  []bool
	classes map[string]Class
	used    []sim.Transport
	routes  *routerDelays    // the routes of E2ETransport
	linked  map[uint8]string // protocols that keep neighbours for others, with a key that says so
	wired   map[uint8]bool   // protocols that get neighbours
	started map[uint8]bool   // protocols whose cycles begin
}

// Noter returns the function that an observer calls with each number that it reports.
func (b *Builder) Noter(observer string) func(series string, at sim.Time, value float64) {
	return func(series string, at sim.Time, value float64) {
		if b.o.Note != nil {
			b.o.Note(observer, series, at, value)
		}
	}
}

// Answerer returns the function that an observer calls with a sentence that sums up its report.
func (b *Builder) Answerer(observer string) func(sentence string) {
	return func(sentence string) {
		if b.o.Answer != nil {
			b.o.Answer(observer, sentence)
		}
	}
}

// nodeInit prepares one node at the beginning, or when the node joins.
type nodeInit interface{ Init(c *sim.Context) }

// maxNodes is the largest number of nodes that a configuration may ask for.
const maxNodes = 1 << 30

// Build makes the simulation of a configuration. Its error names each wrong key.
func Build(f *config.File, o Options) (*Simulation, error) {
	f.Rename("overlay.size", "network.size")
	f.Rename("overlay.maxsize", "network.maxSize")
	f.Rename("overlay.maxSize", "network.maxSize")
	for _, key := range []string{"simulation.logtime", "simulation.timebits", "debug.config",
		"network.node", "network.initialCapacity", "network.maxSize", "expressions.maxdepth",
		"jvm.options",
		"simulation.experiments", "order.init", "order.control", "order.protocol"} {
		f.Has(key) // PeerSim uses these keys; here they change no result
	}
	w := sim.New(uint64(f.Int("random.seed", math.MinInt64, math.MaxInt64, 1)), o.Workers)
	if o.Exchange != nil {
		w.Connect(o.Exchange)
	}
	s := &Simulation{World: w}
	if f.Has("simulation.endtime") {
		w.End = sim.Time(f.MustInt("simulation.endtime", 1, math.MaxInt64-1))
	} else if f.Has("simulation.cycles") {
		s.Cycles = int(f.MustInt("simulation.cycles", 1, math.MaxInt32))
	} else {
		f.Missing("simulation.endtime")
	}
	b := &Builder{File: f, W: w, Out: o.Out, o: o, names: f.Names("protocol"),
		linked: map[uint8]string{}, wired: map[uint8]bool{}, started: map[uint8]bool{}}
	b.classes = maps.Clone(classMakers)
	maps.Copy(b.classes, o.Classes)
	b.made = make([]any, len(b.names))
	b.making = make([]bool, len(b.names))
	if len(b.names) > 255 {
		return nil, fmt.Errorf("%s: %d protocols: at most 255 are possible", f.Name, len(b.names))
	}
	for i := range b.names {
		b.protocolAt(i)
	}
	for i, key := range b.names {
		p, ok := b.made[i].(sim.Protocol)
		if !ok {
			if b.made[i] != nil {
				f.Fault(key, "class %q is not a protocol", f.Class(key))
			}
			p = silentProtocol{}
		}
		w.AddProtocol(p, b.cycleStart(key, p, s.Cycles > 0))
	}
	if o.Exchange != nil && w.Direct() {
		return nil, fmt.Errorf("%s: a protocol has direct access to other nodes: run the "+
			"simulation in one process, or give the protocol a transport", f.Name)
	}
	nodes := int(f.MustInt("network.size", 1, maxNodes))
	b.makeControls("init", func(key string, c any) {
		s.inits = append(s.inits, initialiser{key, c, w.ControlStream(1<<20 + len(s.inits))})
	})
	b.makeControls("control", func(key string, c any) {
		w.AddControl(key, c, b.controlTimes(key, s.Cycles > 0))
	})
	err := f.Err()
	if err == nil {
		b.checkNeighbours()
		if s.Cycles == 0 {
			b.checkCycles()
		}
		err = f.Err()
	}
	if err != nil {
		return nil, err
	}
	for _, t := range b.used { // the initialisers have read the delays by now
		w.Within(t.Shortest())
	}
	s.nodes, s.made = nodes, b.made
	return s, nil
}

// makeControls makes all components of a kind. The components of this kind must be controls.
func (b *Builder) makeControls(kind string, use func(key string, c any)) {
	for _, key := range b.File.Names(kind) {
		c := b.makeComponent(key)
		if c == nil {
			continue
		}
		if n, ok := c.(nodeInit); ok {
			c = eachNode{n}
		}
		_, control := c.(sim.Control)
		if _, observer := c.(sim.Observer); !control && !observer {
			b.File.Fault(key, "class %q is a protocol, not a control", b.File.Class(key))
			continue
		}
		use(key, c)
	}
}

// makeComponent makes a component of any class.
func (b *Builder) makeComponent(key string) any {
	name := b.File.Class(key)
	if name == "" {
		return nil
	}
	class := b.classes[name]
	if class == nil {
		hint := ""
		all := slices.Sorted(maps.Keys(b.classes))
		if best := similar.Word(name, slices.Values(all)); best != "" {
			hint = fmt.Sprintf("; the nearest class is %q", best)
		}
		b.File.Fault(key, "class %q does not exist%s", name, hint)
		b.File.LeaveOut(key)
		return nil
	}
	return class(b, key)
}

// protocolAt returns the protocol with the given number. It makes the protocol if it does not exist
// yet.
func (b *Builder) protocolAt(i int) any {
	if b.making[i] {
		b.File.Fault(b.names[i], "the protocol needs itself")
		return nil
	}
	if b.made[i] == nil {
		b.making[i] = true
		b.made[i] = b.makeComponent(b.names[i])
		b.making[i] = false
	}
	return b.made[i]
}

// protocolNumber returns the number of the protocol that the value of a key names. It returns false
// if there is none.
func (b *Builder) protocolNumber(key string) (int, bool) {
	name := b.File.MustText(key)
	if name == "" {
		return 0, false
	}
	i := slices.Index(b.names, "protocol."+name)
	if i < 0 {
		hint := ""
		if best := similar.Word("protocol."+name, slices.Values(b.names)); best != "" {
			hint = fmt.Sprintf("; the nearest one is %q in line %d", best, b.File.Line(best))
		}
		b.File.Fault(key, "there is no protocol %q%s", name, hint)
		return 0, false
	}
	return i, true
}

// Own returns the number of the protocol that a key declares.
func (b *Builder) Own(key string) uint8 { return uint8(slices.Index(b.names, key)) }

// Find returns the protocol that the value of a key names. The protocol must implement T. If it
// does not, the last parameter completes the error "protocol X ...".
func Find[T any](b *Builder, key, what string) (t T, number uint8) {
	i, ok := b.protocolNumber(key)
	if !ok {
		return t, 0
	}
	p := b.protocolAt(i)
	if p == nil {
		return t, 0
	}
	t, ok = p.(T)
	if !ok {
		b.File.Fault(key, "protocol %q %s", b.names[i], what)
	}
	return t, uint8(i)
}

// Linkable returns the linkable that the value of a key names.
func (b *Builder) Linkable(key string) sim.Linkable {
	l, number := Find[sim.Linkable](b, key, "has no neighbours")
	if _, ok := l.(*idleProtocol); ok {
		dot := strings.LastIndex(key, ".")
		class := b.File.Class(key[:dot])
		switch {
		case key[dot:] == ".linkable":
			b.linked[number] = key
		case strings.HasPrefix(class, "Wire") || class == "RandNI" || class == "StarNI":
			b.wired[number] = true
		}
	}
	return l
}

// checkNeighbours reports protocols that would send to nobody, because no component gives
// neighbours to the nodes of their linkable.
func (b *Builder) checkNeighbours() {
	for _, number := range slices.Sorted(maps.Keys(b.linked)) {
		if name := strings.TrimPrefix(b.names[number], "protocol."); !b.wired[number] {
			b.File.Fault(b.linked[number], "the nodes of %q get no neighbours, so nobody is sent "+
				"anything: add an initialiser such as WireKOut with the protocol %s", name, name)
		}
	}
}

// checkCycles reports protocols of the event engine that would do nothing, because no component
// starts their cycles.
func (b *Builder) checkCycles() {
	for i, key := range b.names {
		if _, cycled := b.made[i].(sim.Cycled); cycled && !b.started[uint8(i)] {
			b.File.Fault(key, "nobody starts its cycles, so it does nothing: add the initialiser "+
				"CDScheduler with the protocol %s", strings.TrimPrefix(key, "protocol."))
		}
	}
}

// Transport returns the transport that the value of a key names. The windows of the simulation will
// be at most as long as this transport's shortest delay.
func (b *Builder) Transport(key string) sim.Transport {
	t, _ := Find[sim.Transport](b, key, "sends no messages")
	if t != nil {
		b.used = append(b.used, t)
	}
	return t
}

func (b *Builder) valued(key string) sim.Valued {
	v, _ := Find[sim.Valued](b, key, "has no values")
	return v
}

// Path returns the path of the file that the value of a key names.
func (b *Builder) Path(key string) string {
	name := b.File.MustText(key)
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.o.Dir, name)
}

// cycleStart returns the schedule of a protocol's cycles: From, Until and Step.
func (b *Builder) cycleStart(key string, p sim.Protocol, byCycles bool) sim.Cycle {
	f := b.File
	if _, ok := p.(sim.Cycled); !ok {
		return sim.Cycle{}
	}
	c := sim.Cycle{From: sim.Time(f.Int(key+".from", 0, math.MaxInt64, 0)),
		Until: sim.Time(f.Int(key+".until", 0, math.MaxInt64, 0))}
	if byCycles {
		c.Step = sim.Time(f.Int(key+".step", 1, math.MaxInt64, 1))
		return c
	}
	// The step is only needed by a scheduler, which checks it.
	c.Step = sim.Time(f.Int(key+".step", 1, math.MaxInt64, 0))
	return c
}

// controlTimes returns when a control runs.
func (b *Builder) controlTimes(key string, byCycles bool) sim.Schedule {
	f := b.File
	final := f.Has(key + ".FINAL")
	if f.Has(key + ".at") {
		at := sim.Time(f.Int(key+".at", -1, math.MaxInt64-1, 0))
		if at >= 0 {
			return sim.Schedule{From: at, Step: 1, Until: at + 1, Final: final}
		}
	}
	s := sim.Schedule{Step: 1, Final: final,
		From:  sim.Time(f.Int(key+".from", 0, math.MaxInt64, 0)),
		Until: sim.Time(f.Int(key+".until", 0, math.MaxInt64, math.MaxInt64))}
	if byCycles || f.Has(key+".step") {
		s.Step = sim.Time(f.Int(key+".step", 1, math.MaxInt64, 1))
	} else {
		f.Missing(key + ".step")
	}
	return s
}

// Run runs the initialisers and then the simulation.
func (s *Simulation) Run(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	return s.RunStarted(ctx)
}

// RunStarted runs the simulation after Start, or after its world was restored from a checkpoint.
func (s *Simulation) RunStarted(ctx context.Context) error {
	if s.Cycles > 0 {
		return s.World.Cycle(ctx, s.Cycles)
	}
	return s.World.Run(ctx)
}

// Start lets the first nodes join and runs the initialisers.
func (s *Simulation) Start() error {
	if _, err := s.World.Join(s.nodes); err != nil {
		return err
	}
	for i := range s.inits {
		one := &s.inits[i]
		if _, err := s.World.Execute(one.run, &one.stream); err != nil {
			return fmt.Errorf("initialise %q: %w", one.name, err)
		}
	}
	return nil
}

// eachNode is an initialiser that prepares each living node independently.
type eachNode struct{ nodeInit }

func (e eachNode) Run(w *sim.World, _ *sim.Stream) (bool, error) {
	return false, w.Each(0, sim.Node(w.Joined()), e.Init)
}

// silentProtocol is a protocol that receives nothing.
type silentProtocol struct{}

func (silentProtocol) Receive(c *sim.Context, e *sim.Event) {
	c.Fail("protocol %d receives no events", e.Protocol)
}
