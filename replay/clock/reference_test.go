package clock

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// denseClock is a second implementation of the clock: arrays with an element for each process, as
// the algorithms of the thesis have them, with a uniform epsilon.
type denseClock struct {
	max     int64
	offset  []int64
	counter []uint64
}

func newDense(n int, epsilon int64) denseClock {
	d := denseClock{offset: make([]int64, n), counter: make([]uint64, n)}
	for k := range d.offset {
		d.offset[k] = epsilon
	}
	return d
}

func (d denseClock) shift(to, epsilon int64) denseClock {
	s := denseClock{max: to, offset: slices.Clone(d.offset), counter: slices.Clone(d.counter)}
	for k := range s.offset {
		s.offset[k] = min(s.offset[k]+to-d.max, epsilon)
	}
	return s
}

func (d denseClock) local(j int, epoch, epsilon int64) denseClock {
	to := max(d.max, epoch)
	off := min(to-epoch, epsilon)
	s := d.shift(to, epsilon)
	if d.max == to && d.offset[j] == off {
		s.counter[j]++
		return s
	}
	s.offset[j] = off
	clear(s.counter)
	return s
}

func (d denseClock) receive(j int, epoch, epsilon int64, m denseClock) denseClock {
	to := max(d.max, m.max, epoch)
	a, b := d.shift(to, epsilon), m.shift(to, epsilon)
	c := denseClock{max: to, offset: make([]int64, len(a.offset)), counter: make([]uint64,
		len(a.offset))}
	for k := range c.offset {
		c.offset[k] = min(a.offset[k], b.offset[k])
	}
	c.offset[j] = min(to-epoch, epsilon)
	mine := d.max == to && slices.Equal(d.offset, c.offset)
	theirs := m.max == to && slices.Equal(m.offset, c.offset)
	for k := range c.counter {
		switch {
		case mine && theirs:
			c.counter[k] = max(d.counter[k], m.counter[k])
		case mine:
			c.counter[k] = d.counter[k]
		case theirs:
			c.counter[k] = m.counter[k]
		}
	}
	if mine || theirs {
		c.counter[j]++
	}
	return c
}

func (d denseClock) before(f denseClock, epsilon int64) bool {
	if f.max > d.max+epsilon {
		return true
	}
	if f.max < d.max-epsilon {
		return false
	}
	all, some, equal := true, false, true
	counts, more := true, false
	for l := range d.offset {
		e, g := d.max-d.offset[l], f.max-f.offset[l]
		all, some, equal = all && e <= g, some || e < g, equal && e == g
		counts, more = counts && d.counter[l] <= f.counter[l],
			more || d.counter[l] < f.counter[l]
	}
	return all && some || equal && counts && more
}

func (d denseClock) String() string { return fmt.Sprint(d.max, d.offset, d.counter) }

// denseOf turns a stamp into its dense form.
func denseOf(s *Stamp, n int, epsilon int64) denseClock {
	d := newDense(n, epsilon)
	d.max = s.Max
	for _, k := range s.held {
		d.offset[k.Process], d.counter[k.Process] = s.Max-k.Epoch, k.Counter
	}
	return d
}

// randomEvent is an event of a random run.
type randomEvent struct {
	process int
	epoch   int64
	time    int64 // the true time, in epochs
	stamp   Stamp
	dense   denseClock
	vector  []int // the vector clock
	from    int   // the event whose message this one receives; -1: none
}

func (e *randomEvent) causes(f *randomEvent) bool {
	return e.vector[e.process] <= f.vector[e.process] && !slices.Equal(e.vector, f.vector)
}

// randomRun makes a run of n processes whose clocks differ by at most skew.
func randomRun(rng *rand.Rand, n, events int, skew int64, e *Epsilons, counted bool) []randomEvent {
	epsilon := e.windows[0].uniform
	clocks, last := make([]*Clock, n), make([]int64, n)
	vectors, denses := make([][]int, n), make([]denseClock, n)
	var messages []int
	for p := range n {
		clocks[p], vectors[p] = New(p, e), make([]int, n)
		clocks[p].counted = counted
		denses[p] = newDense(n, epsilon)
	}
	var all []randomEvent
	now := int64(1000)
	pace := 1 + rng.Int64N(2*epsilon+1)
	for len(all) < events {
		now += rng.Int64N(pace)
		p := rng.IntN(n)
		last[p] = max(last[p], now+rng.Int64N(skew+1))
		f := randomEvent{process: p, epoch: last[p], time: now, from: -1}
		vectors[p][p]++
		if k := rng.IntN(3); k > 0 && len(messages) > 0 {
			at := rng.IntN(len(messages))
			if m := messages[at]; all[m].process != p {
				messages = slices.Delete(messages, at, at+1)
				f.from = m
			}
		}
		if f.from >= 0 {
			m := &all[f.from]
			clocks[p].Receive(f.epoch, &m.stamp)
			denses[p] = denses[p].receive(p, f.epoch, epsilon, m.dense)
			for k := range n {
				vectors[p][k] = max(vectors[p][k], m.vector[k])
			}
		} else {
			if rng.IntN(2) == 0 {
				messages = append(messages, len(all))
			}
			clocks[p].Local(f.epoch)
			denses[p] = denses[p].local(p, f.epoch, epsilon)
		}
		f.stamp.Copy(clocks[p].Stamp())
		f.dense, f.vector = denses[p], slices.Clone(vectors[p])
		all = append(all, f)
	}
	return all
}
