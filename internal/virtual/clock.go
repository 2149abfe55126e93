package virtual

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Clock returns the clocks of a virtual node, given the physical clocks.
func Clock(c vnode.Config, physical minrtt.Clock) (minrtt.Clock, error) {
	n, err := vnode.New(c)
	if err != nil {
		return minrtt.Clock{}, err
	}
	clock := minrtt.Clock{
		Counter:        func() uint64 { return n.Counter.Virtual(physical.Counter()) },
		Quantum_cycles: Quantum_cycles(c.Counter, physical.Quantum_cycles),
	}
	if physical.Realtime == nil || physical.RealtimeStep == nil ||
		physical.Discipline == nil || physical.Steps == nil {
		return clock, nil
	}
	clock.Realtime = func() int64 { return n.Realtime.Virtual(physical.Realtime()) }
	if physical.Bracket != nil {
		clock.Bracket = func() (before_cycles uint64, realtime_ns int64, after_cycles uint64) {
			before_cycles, realtime_ns, after_cycles = physical.Bracket()
			return n.Counter.Virtual(before_cycles), n.Realtime.Virtual(realtime_ns),
				n.Counter.Virtual(after_cycles)
		}
	}
	// A reading of the physical clock may be too low by up to its step. The virtual clock runs at
	// most 1.11 times as fast, so its reading is too low by up to 1.11 steps. Rounding may lower it
	// further.
	clock.RealtimeStep = func() (uint32, error) {
		step_ns, err := physical.RealtimeStep()
		return step_ns*10/9 + 2, err
	}
	clock.Discipline = func() (minrtt.Discipline, error) {
		d, err := physical.Discipline()
		if err != nil {
			return d, err
		}
		x := n.Realtime.Timex(physical.Realtime(),
			vnode.Timex{Freq: d.Frequency_ppm16, Tick_us: d.Tick_us})
		d.Frequency_ppm16, d.Tick_us = x.Freq, x.Tick_us
		// A slew moves the clock as adjtime does, at up to 500 ppm. The remaining correction is
		// rounded away from 0 to whole µs, so that it is not 0 before the slew ends.
		switch left := x.Offset_ns; {
		case left > 0:
			d.Adjust_us += (left + 999) / 1000
		case left < 0:
			d.Adjust_us += (left - 999) / 1000
		}
		return d, nil
	}
	clock.Steps = func() (uint64, error) {
		steps, err := physical.Steps()
		return steps + uint64(n.Realtime.Stepped(0, physical.Realtime())), err
	}
	clock.KernelStamp = n.Realtime.Virtual
	return clock, nil
}

// HostClocks returns the clocks of a virtual node for package host: the virtual counter, and those
// clocks of the machine that nobody can set.
func HostClocks(c vnode.Config, physical host.Clocks) (host.Clocks, error) {
	counter, err := vnode.NewCounter(c.Counter)
	if err != nil {
		return host.Clocks{}, err
	}
	clocks := physical
	clocks.EdgeOpen = func() uint64 { return counter.Virtual(physical.EdgeOpen()) }
	clocks.EdgeClose = func() uint64 { return counter.Virtual(physical.EdgeClose()) }
	return clocks, nil
}

// Quantum_cycles returns the quantum of a virtual counter. The physical counter moves in steps of
// physical_cycles.
func Quantum_cycles(c vnode.CounterConfig, physical_cycles uint64) uint64 {
	physical_cycles = max(physical_cycles, 1)
	hi, lo := bits.Mul64(physical_cycles, uint64(max(c.Rate_2e40, 0)))
	// The hundredth part covers the wander, which changes the rate by less than a hundredth. One
	// cycle covers the rounding of this division, and another cycle covers the rounding of the
	// reading.
	return max(c.Quantum_cycles, physical_cycles+(hi<<24|lo>>40)+physical_cycles/100+2)
}
