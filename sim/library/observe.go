package library

import (
	"fmt"
	"io"
	"math"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// valueObserver prints statistics of a protocol's values.
type valueObserver struct {
	name     string
	of       sim.Valued
	out      io.Writer
	accuracy float64 // the simulation stops when the values differ by less than this
	timed    bool    // the printed line has the time
	note     func(series string, at sim.Time, value float64)
}

func newValueObserver(b *Builder, key string) any {
	return &valueObserver{key, b.valued(key + ".protocol"), b.Out,
		b.File.Float(key+".accuracy", -1, math.MaxFloat64, -1), false, b.Noter(key)}
}

func newAverageObserver(b *Builder, key string) any {
	p := newValueObserver(b, key).(*valueObserver)
	p.timed = true
	return p
}

func (p *valueObserver) Measure(w *sim.World, shard int) []byte {
	var s sim.Stats
	w.InShard(shard, func(n sim.Node) { s.Add(p.of.Value(n)) })
	return s.Append(nil)
}

func (p *valueObserver) Report(w *sim.World, shards [][]byte) (bool, error) {
	s := totalStatistics(shards)
	p.note("mean", w.Now(), s.Mean())
	p.note("variance", w.Now(), s.Variance())
	var err error
	if p.timed {
		_, err = fmt.Fprintf(p.out, "%s: %d %s\n", p.name, w.Now(), s.String())
	} else {
		_, err = fmt.Fprintf(p.out, "%s: %s\n", p.name, s.String())
	}
	return math.Sqrt(s.Sample()) <= p.accuracy && w.Now() > 0, err
}
