package host

import "github.com/cloudprofiler/cloudprofiler/asm"

// counterBefore reads the counter before the store that follows becomes visible: stores do so in
// order, after all earlier instructions have retired, RDTSCP among them. An LFENCE behind it would
// only make the store later.
func counterBefore() uint64 { return asm.Counter() }

// counterAfter reads the counter after the load that precedes: RDTSCP waits for it. There is no
// store to wait for.
func counterAfter() uint64 { return asm.Counter() }
