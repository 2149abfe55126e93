package agents

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// boundObserver prints how many agents lack neighbours, and how good the bounds between neighbours
// are.
type boundObserver struct {
	name string
	f    *Fleet
	out  io.Writer
	note func(series string, at sim.Time, value float64)
	say  func(sentence string)

	number int // of the observer
}

func newObserver(b *library.Builder, key string) any {
	o := &boundObserver{name: key, f: fleetOf(b, key+".protocol"), out: b.Out, note: b.Noter(key),
		say: b.Answerer(key)}
	if o.f != nil {
		o.number = o.f.observers
		o.f.observers++
	}
	return o
}

// reportedCounts are the first numbers that Measure writes, in this order. The bounds follow.
type reportedCounts struct {
	living, irregular, messages, trains, outside, refused uint64

	before sim.Time // time of the last report; messages counts those since then
}

// Measure relates the pairs of the sample, and compares their bounds with the truth.
func (o *boundObserver) Measure(w *sim.World, shard int) []byte {
	var c reportedCounts
	var bounds []byte
	s := o.f.shards[shard]
	last := &s.reported[o.number]
	c.messages, c.trains, c.before = s.messages-last.messages, s.trains, last.at
	*last = lastReport{w.Now(), s.messages}
	w.InShard(shard, func(n sim.Node) {
		a := o.f.of(n)
		if a.graph == nil {
			return
		}
		c.living++
		c.trains += s.uncountedTrains(n)
		outs, ins := a.graph.Neighbours()
		if len(outs) != o.f.degree || len(ins) != o.f.degree {
			c.irregular++
		}
		for _, p := range a.keptPairs() {
			if !w.Up(p.peer) || p.of.Trains() < 2 {
				continue
			}
			half, inside, err := a.boundOf(w, p)
			switch {
			case err != nil:
				c.refused++
			default:
				bounds = binary.LittleEndian.AppendUint64(bounds, half)
				if !inside {
					c.outside++
				}
			}
		}
	})
	var to []byte
	for _, v := range []uint64{c.living, c.irregular, c.messages, c.trains, c.outside, c.refused,
		uint64(c.before)} {
		to = binary.LittleEndian.AppendUint64(to, v)
	}
	return append(to, bounds...)
}

// keptPairs returns what the agent has kept about its neighbours.
func (a *simulatedAgent) keptPairs() []*trainPair {
	if k := a.in.kept[a.n]; k != nil {
		return k.pairs
	}
	return nil
}

// boundOf translates a reading between the first and the last train of a pair. It returns the half
// width in cycles, and whether the result contains the truth.
func (a *simulatedAgent) boundOf(w *sim.World, p *trainPair) (half uint64, inside bool, err error) {
	r, err := p.of.Relate(tscratio.SideB, p.of.Declared.Wander)
	if err != nil {
		return 0, false, err
	}
	at := p.first + (p.last-p.first)/2
	mine, theirs := CounterOf(w, a.n), CounterOf(w, p.peer)
	got, err := r.Translate(mine.At(at))
	if err != nil {
		return 0, false, err
	}
	return got.HalfWidth(), got.Contains(theirs.At(at)), nil
}

func (o *boundObserver) Report(w *sim.World, shards [][]byte) (bool, error) {
	var c reportedCounts
	var bounds []uint64
	for _, b := range shards {
		if len(b) < 56 {
			continue
		}
		u := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
		c.living += u(0)
		c.irregular += u(1)
		c.messages += u(2)
		c.trains += u(3)
		c.outside += u(4)
		c.refused += u(5)
		c.before = max(c.before, sim.Time(u(6)))
		for i := 7; i < len(b)/8; i++ {
			bounds = append(bounds, u(i))
		}
	}
	slices.Sort(bounds)
	quantile := func(q float64) float64 {
		if len(bounds) == 0 {
			return 0
		}
		return float64(bounds[int(q*float64(len(bounds)-1))]) / Nominal_hz * 1e6
	}
	rate := 0.0
	if seconds := float64(w.Now()-c.before) / 1e9; seconds > 0 && c.living > 0 {
		rate = float64(c.messages) / seconds / float64(c.living)
	}
	o.note("agents without all neighbours, %", w.Now(),
		100*float64(c.irregular)/max(float64(c.living), 1))
	if len(bounds) > 0 {
		o.note("median bound, µs", w.Now(), quantile(0.5))
		o.note("99 % of bounds, µs", w.Now(), quantile(0.99))
	}
	if len(bounds) > 0 {
		o.say(fmt.Sprintf("%s, at %v, with %s and one train of %s every %v: half of the bounds "+
			"between neighbours are at most ±%.1f µs, and 99 %% are at most ±%.1f µs. The bounds "+
			"of %s were checked, and %s the truth.", countOf(int(c.living), "agent"),
			roundTime(w.Now()), deathRate(w), countOf(o.f.exchanges, "exchange"), o.f.budget,
			quantile(0.5), quantile(0.99), countOf(len(bounds), "pair"), missedBounds(c.outside)))
	}
	_, err := fmt.Fprintf(o.out, "%s: %v agents=%d irregular=%d messages/s=%.2f trains=%d "+
		"pairs=%d outside=%d refused=%d median=%.2fus 99%%=%.2fus\n", o.name, w.Now(), c.living,
		c.irregular, rate, c.trains, len(bounds), c.outside, c.refused, quantile(0.5),
		quantile(0.99))
	return false, err
}

// deathRate says which fraction of the agents died each second.
func deathRate(w *sim.World) string {
	rate, ok := w.Deaths()
	switch {
	case ok:
		return fmt.Sprintf("%.2g %% of the agents dying each second", 100*rate/float64(w.Size()))
	case w.Size() < w.Joined():
		return "an unknown churn" // no node died since the simulation went on from a checkpoint
	}
	return "no churn"
}

// missedBounds says in words whether all bounds contain the truth, or how many do not.
func missedBounds(outside uint64) string {
	switch outside {
	case 0:
		return "all contained"
	case 1:
		return "1 MISSED"
	}
	return fmt.Sprint(outside, " MISSED")
}

// countOf returns a number and a noun.
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// roundTime rounds the time of a last report, which is just before the end.
func roundTime(t sim.Time) time.Duration { return time.Duration(t).Round(10 * time.Millisecond) }
