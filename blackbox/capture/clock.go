package capture

import (
	"math"
	"sort"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// The programs in the kernel cannot read the counter. They read CLOCK_MONOTONIC, which the kernel
// computes from the counter. The type clocks converts such stamps to readings of the counter,
// because all other stamps are readings of the counter.
//
// A bracket is a reading of the clock between two readings of the counter. Between two brackets the
// clock's rate stays within ±wander of some value, so the rate is within 2·wander of its mean
// between the two brackets. So at a stamp, the counter is near the straight line through the two
// brackets: its distance from the line is at most 2·wander times the time to the nearer bracket.
type clocks struct {
	brackets []bracket // by time; the last one is the newest
	read     func() bracket
}

type bracket struct {
	before_cycles uint64
	clock_ns      uint64
	after_cycles  uint64
	steering      steering
}

// steering has the settings with which somebody makes the clock faster or slower than the counter.
type steering struct {
	frequency, tick, offset int64
}

const (
	// steadyWander is the wander while nobody steers the clock. The kernel rounds the rate, but by
	// less than this.
	steadyWander = 1e-6
	// steeredWander is the wander while the kernel removes an offset of the clock. To do so, the
	// kernel changes the rate by at most 500 ppm.
	steeredWander = 501e-6
	// steppedWander is the wander if somebody changed the length of a tick. The kernel allows
	// changes of ±10 %.
	steppedWander = 0.3

	// fast_ns is the largest difference between what the eBPF programs read and the true
	// CLOCK_MONOTONIC. For eBPF programs, the kernel computes this clock with parameters that are
	// up to one tick old.
	fast_ns = 5

	// keptBrackets is the smallest number of old brackets that are kept. A busy capture makes one
	// every 2 ms, so they cover at least 8 seconds.
	keptBrackets = 4096
)

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// readBracket reads the clocks several times and returns the narrowest bracket.
func readBracket() bracket {
	var best bracket
	for try := range 5 {
		b := bracket{before_cycles: asm.Counter()}
		b.clock_ns = uint64(nanotime())
		b.after_cycles = asm.Counter()
		if try == 0 || b.after_cycles-b.before_cycles < best.after_cycles-best.before_cycles {
			best = b
		}
	}
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err == nil {
		best.steering = steering{int64(t.Freq), int64(t.Tick), int64(t.Offset)}
	} else {
		best.steering = steering{offset: 1} // not known: assume that somebody steers the clock
	}
	return best
}

// takeBracket makes a new bracket. From then on, all stamps before the bracket can be converted.
func (c *clocks) takeBracket() {
	b := c.read()
	if n := len(c.brackets); n > 0 && b.clock_ns <= c.brackets[n-1].clock_ns {
		return
	}
	if len(c.brackets) == 2*keptBrackets {
		c.brackets = append(c.brackets[:0], c.brackets[keptBrackets:]...)
	}
	c.brackets = append(c.brackets, b)
}

// wander returns how far the clock's rate may move from some constant rate between the time of
// bracket a and the time of bracket b. The result is a share of the constant rate.
func wander(a, b steering) float64 {
	switch {
	case a.tick != b.tick:
		return steppedWander
	case a.offset != 0 || b.offset != 0:
		return steeredWander
	case a.frequency != b.frequency:
		// The frequency is in ppm, with 16 binary places.
		return steadyWander + math.Abs(float64(a.frequency-b.frequency))/(1<<16)/1e6
	}
	return steadyWander
}

// countsAt returns an interval [lo, hi] that contains the counter's reading at a stamp. ok is false
// if the stamp is not between two brackets.
func (c *clocks) countsAt(stamp_ns uint64) (lo, hi uint64, ok bool) {
	n := len(c.brackets)
	after := n - 1 // nearly all stamps are between the last two brackets
	if n < 2 || c.brackets[n-2].clock_ns > stamp_ns || c.brackets[n-1].clock_ns <= stamp_ns {
		after = sort.Search(n, func(i int) bool { return c.brackets[i].clock_ns > stamp_ns })
	}
	if after == 0 || after == n {
		return 0, 0, false
	}
	a, b := &c.brackets[after-1], &c.brackets[after]
	span := float64(b.clock_ns - a.clock_ns)
	early, late := float64(stamp_ns-a.clock_ns), float64(b.clock_ns-stamp_ns)
	line := func(from, to uint64) float64 {
		return float64(int64(from-a.before_cycles)) + float64(to-from)*early/span
	}
	rate := float64(b.after_cycles-a.before_cycles) / span
	// Readings of the clock are rounded down to ns. So each bracket and the stamp may be 1 ns later
	// than they say.
	const rounding_ns = 1
	off := rate * (2*wander(a.steering, b.steering)*min(early, late) + fast_ns + rounding_ns)
	lo = a.before_cycles + uint64(int64(math.Floor(line(a.before_cycles, b.before_cycles)-off)))
	hi = a.before_cycles + uint64(int64(math.Ceil(line(a.after_cycles, b.after_cycles)+off)))
	return lo, hi, true
}
