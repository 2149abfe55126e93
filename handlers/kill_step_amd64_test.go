//go:build !race

package handlers

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// The tests in this file kill a program after any instruction of a log call. All events of earlier
// calls must be there and whole. The event of the running call must be there whole, or not at all.
//
// A ring is a file, so a program that is stopped leaves the same content in its ring as a program
// that is killed. Therefore the tests stop the program after each instruction and read the ring.
// Only at some instructions do they really kill the program.

// A situation is a test case of TestKillAfterEachInstruction: it brings a channel into a state in
// which a log call does something special, and then executes that call instruction by instruction.
type situation struct {
	name     string
	policy   string
	single   bool // does not apply to many writers
	adopting bool // tests code that assembly and Go share, so one of them is enough
	once     bool // tests code that all handlers share, so one handler is enough
	play     func(p *play)
}

var situations = []situation{
	{name: "first calls", play: func(p *play) {
		for id := range uint64(5) {
			p.stepCall(call{id: 100 + id}) // downsample and xoy keep some of these events
		}
	}},
	{name: "later laps", play: func(p *play) {
		for range 2 {
			p.fillRing()
			p.drainRing()
			p.untilKept()
			p.stepCall(p.nextEvent())
		}
	}},
	{name: "full, drop", policy: "drop", play: func(p *play) {
		p.fillRing()
		p.untilKept()
		p.stepCall(p.nextEvent())
		p.untilKept()
		p.stepCall(p.nextEvent()) // dropped at the same place in the sequence as the previous event
		p.drainRing()
		p.untilKept()
		p.stepCall(p.nextEvent()) // there is room again
		p.fillRing()
		p.untilKept()
		p.stepCall(p.nextEvent())
	}},
	{name: "full, overwrite", policy: "overwrite", single: true, play: func(p *play) {
		p.fillRing()
		for range 2 {
			p.untilKept()
			p.stepCall(p.nextEvent())
		}
	}},
	{name: "poison", play: func(p *play) {
		p.stepCall(call{id: channel.Poison})
		p.runCall(p.nextEvent())
		p.stepCall(call{id: channel.Poison})
	}},
	{name: "misuse", play: func(p *play) {
		c := p.nextEvent()
		p.stepOther(c)
	}},
	{name: "adopt", adopting: true, play: func(p *play) {
		settings := p.m.settings
		p.runCall(p.nextEvent())
		p.apply(p.otherSettings())
		p.stepCall(p.nextEvent())
		p.runCall(p.nextEvent())
		p.apply(settings)
		p.stepCall(p.nextEvent())
	}},
	{name: "adopt while full", policy: "drop", adopting: true, play: func(p *play) {
		settings := p.m.settings
		p.fillRing()
		p.apply(p.otherSettings())
		p.runCall(p.nextEvent())
		p.apply(settings)
		p.stepCall(p.nextEvent())
	}},
	{name: "adopt with a full journal", adopting: true, play: func(p *play) {
		settings := p.m.settings
		for i := range 15 {
			p.apply([]channel.Settings{p.otherSettings(), settings}[i%2])
			p.runCall(p.nextEvent())
		}
		p.apply(settings)
		p.stepCall(p.nextEvent())
		p.releaseJournal()
		p.apply(p.otherSettings())
		p.stepCall(p.nextEvent()) // the new journal entry takes the place of an old one
	}},
	{name: "adopt what no handler takes", adopting: true, once: true, play: func(p *play) {
		p.runCall(p.nextEvent())
		p.applyUnchecked(channel.Settings{Kind: channel.Downsample})
		p.stepCall(p.nextEvent())
		p.stepCall(p.nextEvent())
	}},
}

// A play is one run of a situation: a stepped program with one channel, the model of that channel,
// and a drainer.
type play struct {
	t        *testing.T
	program  *steppedProgram
	way      string // the order (see steppableCalls) by which the program logs: log or go
	m        model
	path     string
	consumer *ring.Consumer
	memory   []byte // the memory of the ring
	slack    uint64
	id       uint64
	killAt   int // the stepped instruction after which the play kills the program; -1: never
	steps    int
}

func (p *play) open(handler string, params channel.Params, many bool, stamp, policy string) {
	p.t.Helper()
	o := Options{Handler: handler, Params: params, Stamp: stamp, Policy: policy, Buffer: "256",
		Dir: p.t.TempDir()}
	p.path = p.program.openChannel(many, o)
	config, err := o.checkOptions(channel.Name{Actor: "stepped", Point: "start"}, many)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.consumer, err = ring.OpenConsumer(p.path); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.consumer.Close() })
	p.memory = mapFile(p.t, p.path)
	v, err := viewRing(p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.m = model{
		capacity: p.consumer.Header().Records, policy: config.Policy,
		links:    config.Settings.Kind == channel.Link,
		settings: config.Settings, last: v,
	}
	p.slack = 10_000 + config.Stamp.OrderingSlack_cycles() // the program may run on another core
}

// nextEvent makes an event. A handler that chooses events by their ids keeps it. A handler that
// counts calls may discard it.
func (p *play) nextEvent() call {
	p.id += 5
	return call{id: p.id, child: p.id + 1, link: p.m.links}
}

// otherSettings returns settings, different from the present ones, that the channel accepts.
func (p *play) otherSettings() channel.Settings {
	if p.m.settings.Kind == channel.Null && !p.m.links {
		return channel.Settings{Kind: channel.Identity}
	}
	return channel.Settings{}
}

// keepsRecord reports whether the next event would become a record, or would be dropped for lack of
// room.
func (p *play) keepsRecord() bool {
	e := p.m.nextEffect(call{id: p.id + 5, link: p.m.links})
	return len(e.ids) > 0 || e.drops
}

// untilKept logs until the next event would become a record. Handlers that count calls need this.
func (p *play) untilKept() {
	for range 3 {
		if p.keepsRecord() {
			return
		}
		p.runCall(p.nextEvent())
	}
}

// fillRing fills the ring.
func (p *play) fillRing() {
	for range 4 * p.m.capacity {
		if uint64(len(p.m.want))-p.m.head == p.m.capacity {
			return
		}
		p.runCall(p.nextEvent())
	}
}

// drainRing drains the ring.
func (p *play) drainRing() {
	p.t.Helper()
	if err := p.consumer.Release(p.m.last.shard, uint64(len(p.m.want)), 0, 0); err != nil {
		p.t.Fatal(err)
	}
	p.m.head = uint64(len(p.m.want))
}

// releaseJournal drains the journals.
func (p *play) releaseJournal() {
	p.t.Helper()
	if p.program.dead {
		return
	}
	for i := range p.m.last.journals {
		head := uint64(0)
		if i == p.m.last.shard {
			head = p.m.head
		}
		if err := p.consumer.Release(i, head, 0, 16); err != nil {
			p.t.Fatal(err)
		}
		p.m.last.journals[i] = nil
	}
}

func (p *play) apply(s channel.Settings) {
	p.t.Helper()
	if _, err := p.consumer.Apply(s); err != nil {
		p.t.Fatal(err)
	}
	p.m.applied = &s
}

// applyUnchecked writes settings that no valid drainer would write.
func (p *play) applyUnchecked(s channel.Settings) {
	p.t.Helper()
	if err := scribble(p.path, ring.NewWord(77, s.Kind, 5), 5, s); err != nil {
		p.t.Fatal(err)
	}
	p.m.applied = &s
}

func (p *play) order(c call) order {
	o := order{Do: p.way, ID: c.id, Child: c.child}
	if c.link {
		o.Do = "link"
	}
	return o
}

// runCall makes a call at full speed and checks what the call leaves in the ring.
func (p *play) runCall(c call) {
	p.t.Helper()
	if p.program.dead {
		return
	}
	e := p.m.nextEffect(c)
	lo := asm.Counter()
	p.program.runOrder(p.order(c))
	v, err := viewRing(p.path)
	if err == nil {
		err = p.m.checkView(v, e, bracket{lo - p.slack, asm.Counter() + p.slack}, true)
	}
	if err != nil {
		p.t.Fatalf("after %+v: %v", c, err)
	}
	p.m.applyEffect(e, v)
}

// stepCall makes a call. After each instruction it checks what a reader finds in the ring.
func (p *play) stepCall(c call) {
	p.t.Helper()
	if p.program.dead {
		return
	}
	e := p.m.nextEffect(c)
	var lo uint64
	var seen []byte
	var v *view
	check := func(at int, returned bool) {
		p.t.Helper()
		var err error
		if v, err = viewRing(p.path); err == nil {
			err = p.m.checkView(v, e, bracket{lo - p.slack, asm.Counter() + p.slack}, returned)
		}
		if err != nil {
			p.t.Fatalf("killed after %d instructions (returned: %v) of %+v: %v",
				at, returned, c, err)
		}
	}
	at := 0
	p.program.stepOrder(p.order(c), func(now int, returned bool) bool {
		p.t.Helper()
		if at = now; at == 0 {
			lo = asm.Counter()
		}
		// Read the ring again only if it changed.
		if at == 0 || returned || !bytes.Equal(p.memory, seen) {
			seen = append(seen[:0], p.memory...)
			check(at, returned)
		}
		p.steps++
		return p.steps-1 != p.killAt
	})
	if p.program.dead {
		if !bytes.Equal(p.memory, seen) {
			p.t.Fatalf("the kill after %d instructions of %+v changed the ring", at, c)
		}
		check(at, false)
		if alive, err := p.consumer.Alive(); alive || err != nil {
			p.t.Fatalf("after the kill the ring's owner is alive: %v, %v", alive, err)
		}
		return
	}
	p.m.applyEffect(e, v)
}

// stepOther calls Link if the channel is for Log, and Log if it is for Link.
func (p *play) stepOther(c call) {
	p.t.Helper()
	c.link = !c.link
	p.stepCall(c)
}

// Some situations take long, and run only code that other situations run, too. This test leaves out
// most of these situations. In the short run, it also leaves out two thirds of the combinations of
// handler, writer and way to log. TestBarKillAfterEachInstruction leaves out nothing.
func TestKillAfterEachInstruction(t *testing.T) { killAfterEachInstruction(t, false, 1) }

func TestBarKillAfterEachInstruction(t *testing.T) {
	kills := 3
	if proof.Begin(t) == proof.Full {
		kills = 100
	}
	steps, killed := killAfterEachInstruction(t, true, kills)
	if t.Failed() {
		return // the failure says which events were lost
	}
	proof.Check(t,
		proof.Bar{Name: "instructions after which a reader finds every event",
			Figure: float64(steps), Limit: 50_000, AtLeast: true, Unit: "instructions"},
		proof.Bar{Name: "kills after an instruction, every event found", Figure: float64(killed),
			Limit: 100, AtLeast: true, Unit: "kills"},
	)
}

// killAfterEachInstruction plays every situation of every handler. For each combination of handler,
// writer and way to log, it really kills a program as many times as kills says.
func killAfterEachInstruction(t *testing.T, all bool, kills int) (steps, killed int) {
	draw := seed.Random(t)
	for _, handler := range allHandlers {
		for _, writer := range allWriters {
			for _, way := range []string{"log", "go"} {
				if way == "go" && (handler.name == "link" || !all && writer.stamp == "rdtsc") {
					continue // Link exists only in Go
				}
				if !all && testing.Short() && draw.IntN(3) != 0 {
					continue
				}
				adopts := all || draw.IntN(4) == 0
				t.Run(fmt.Sprintf("%s/%s/%s", handler.name, writer.name, way), func(t *testing.T) {
					play := func(s situation, program *steppedProgram, killAt int) (steps int) {
						p := &play{t: t, program: program, way: way, id: 1000, killAt: killAt}
						p.open(handler.name, handler.params, writer.many, writer.stamp, s.policy)
						s.play(p)
						return p.steps
					}
					taken := make(map[string]int)
					var played []situation
					program := startStepped(t)
					for _, s := range situations {
						if s.single && writer.many || s.adopting && (way == "go" || !adopts) ||
							s.once && handler.name != "id" {
							continue
						}
						taken[s.name] = play(s, program, -1)
						steps += taken[s.name]
						played = append(played, s)
					}
					t.Logf("instructions: %v", taken)
					for range kills {
						s := played[draw.IntN(len(played))]
						killAtStep(t, draw, taken[s.name],
							func(program *steppedProgram, at int) int {
								return play(s, program,
									at)
							})
						killed++
					}
				})
			}
		}
	}
	return steps, killed
}

// killAtStep plays up to a random instruction, and kills the program there.
func killAtStep(t *testing.T, draw *rand.Rand, steps int,
	play func(program *steppedProgram, at int) int) {
	t.Helper()
	program := startStepped(t)
	for range 10 {
		// If the Go scheduler ran in the previous play, the scheduler's instructions were counted,
		// too. So this play may have fewer instructions, and end before the instruction at which it
		// should kill the program.
		if steps = play(program, draw.IntN(steps)); program.dead {
			return
		}
	}
	t.Errorf("no kill in ten attempts, of %d instructions the last time", steps)
}
