package ring

import (
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// Sweep reads the cells of the counting handler in several rings at nearly one instant. Each count
// was true at a moment when the CPU's counter was between the two results that are named before and
// after. If Sweep cannot read the cell of rings[i], errs[i] is the error.
func Sweep(rings []*Reader, counts []uint64, errs []error) (before, after uint64) {
	before = asm.EdgeOpen()
	for i, r := range rings {
		counts[i], errs[i] = r.Counted()
	}
	return before, asm.EdgeClose()
}

// Instant is one reading of the counter, and the interval of UTC in which the counter was read, by
// this node's clock.
type Instant struct {
	Counter          uint64
	Earliest, Latest time.Time
}

// Now reads the clock, the counter and the clock again. If somebody sets the clock back meanwhile,
// the two times form no interval, so Now repeats the reading.
func Now() Instant { return instant(time.Now) }

func instant(clock func() time.Time) Instant {
	for {
		before := clock()
		counter := asm.Counter()
		after := clock()
		// Compare the wall clock, because time.Time.Before compares the monotonic clock.
		if before.UnixNano() <= after.UnixNano() {
			return Instant{Counter: counter, Earliest: before, Latest: after}
		}
	}
}
