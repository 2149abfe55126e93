package bench

import (
	"runtime"
	"slices"
)

// Two cores may share their execution units, and the hypervisor may run another machine on the
// second core. Then most instructions take up to twice as long. But a reading of the counter hardly
// takes longer, because it waits for earlier instructions anyway. The kernel does not notice the
// slowdown. Additions that do not wait for each other show the slowdown: they take about 1.8 times
// as long while the second core works.

// crowdedBy decides which turns are used: those in which additions take at most crowdedBy times as
// long as in the quietest turns. The time of the additions is divided by the time of one reading of
// the counter in the same turn.
const crowdedBy = 1.25

// crowdAdditions is the number of loops in one measurement. They take about two tenths of a
// millisecond.
const crowdAdditions = 200_000

// runAdditions does n loops of six simple operations that do not wait for each other.
//
//go:noinline
func runAdditions(n uint64) uint64 {
	var a, b, c, d, e, f uint64
	for i := range n {
		a += i
		b ^= i
		c -= i
		d += i ^ 5
		e ^= i + 3
		f += i
	}
	return a + b + c + d + e + f
}

// measureCrowd times one round of additions.
func measureCrowd() float64 {
	return nsPerCall(crowdAdditions, func(n uint64) { runtime.KeepAlive(runAdditions(n)) })
}

// turn is one measurement of a row.
type turn struct {
	ratio float64 // time of a call, relative to the base
	ns    float64 // time of a call
	crowd float64 // time of one round of additions in the same turn, in units of the base
}

// quietestTime returns how long additions take in the quietest turns. The time of the additions is
// divided by the time of a reading. If the reading was interrupted, its time is longer, and the
// turn looks quieter than it was. So quietestTime ignores the twentieth of the turns that look
// quietest.
func quietestTime(all []turn) float64 {
	if len(all) == 0 {
		return 0
	}
	crowds := make([]float64, len(all))
	for i, t := range all {
		crowds[i] = t.crowd
	}
	slices.Sort(crowds)
	return crowds[len(crowds)/20]
}

// quietRepetitions uses the turns that were not crowded, in their order. Each repetition consists
// of the next eight of these turns. It returns the median of each repetition.
func quietRepetitions(all []turn, quiet float64) (ratios, ns []float64) {
	var ratio, took samples
	for _, t := range all {
		if t.crowd > crowdedBy*quiet {
			continue
		}
		ratio.add(t.ratio)
		took.add(t.ns)
		if len(ratio.turns) == turnsPerRepetition {
			ratio.endRepetition(true)
			took.endRepetition(true)
		}
	}
	return ratio.counted, took.counted
}
