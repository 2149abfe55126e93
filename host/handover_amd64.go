package host

import "github.com/cloudprofiler/cloudprofiler/asm"

// counterBefore reads the counter with RDTSCP. Other cores see the caller's next store only after
// the reading: x86 makes a store visible only after all earlier instructions, including the RDTSCP,
// have retired. An LFENCE after the RDTSCP would only delay the store.
func counterBefore() uint64 { return asm.Counter() }

// counterAfter reads the counter after the caller's earlier loads have finished: RDTSCP waits for
// them. It does not wait until earlier stores are visible to other cores. The measurement does not
// need that.
func counterAfter() uint64 { return asm.Counter() }
