package host

import "github.com/cloudprofiler/cloudprofiler/asm"

// counterBefore reads the counter before any later instruction starts. So other cores see the
// caller's next store only after the reading.
func counterBefore() uint64 { return asm.EdgeOpen() }

// counterAfter reads the counter after the caller's earlier loads have finished. It does not wait
// until earlier stores are visible to other cores. The measurement does not need that.
func counterAfter() uint64 { return asm.Counter() }
