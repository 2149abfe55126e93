package host

import "github.com/cloudprofiler/cloudprofiler/asm"

// counterBefore reads the counter before the following store becomes visible.
func counterBefore() uint64 { return asm.EdgeOpen() }

// counterAfter reads the counter after the preceding load. There is no store to wait for.
func counterAfter() uint64 { return asm.Counter() }
