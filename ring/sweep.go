package ring

import (
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// Sweep reads the counting cells of rings at one instant, as nearly as one core can. Each count is
// from a moment at which the counter was between before and after. Cells that cannot be read have
// their errors in errs.
func Sweep(rings []*Reader, counts []uint64, errs []error) (before, after uint64) {
	before = asm.EdgeOpen()
	for i, r := range rings {
		counts[i], errs[i] = r.Counted()
	}
	return before, asm.EdgeClose()
}

// Instant is one reading of the counter, and the interval of UTC in which it was read, by this
// node's clock.
type Instant struct {
	Counter          uint64
	Earliest, Latest time.Time
}

// Now reads counter and clock. If the clock is set back in between, it reads them again, because
// there is no such interval.
func Now() Instant { return instant(time.Now) }

func instant(clock func() time.Time) Instant {
	for {
		before := clock()
		counter := asm.Counter()
		after := clock()
		// by the clock itself: Before uses the monotonic one
		if before.UnixNano() <= after.UnixNano() {
			return Instant{Counter: counter, Earliest: before, Latest: after}
		}
	}
}
