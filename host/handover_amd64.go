package host

import "github.com/cloudprofiler/cloudprofiler/asm"

// counterBefore reads the counter before the following store becomes visible. Stores become visible
// in order, after all earlier instructions, including RDTSCP, have retired. An LFENCE after the
// RDTSCP would only delay the store.
func counterBefore() uint64 { return asm.Counter() }

// counterAfter reads the counter after the preceding load: RDTSCP waits for the load. There is no
// store to wait for.
func counterAfter() uint64 { return asm.Counter() }
