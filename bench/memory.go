package bench

import (
	"context"

	"github.com/cloudprofiler/cloudprofiler/internal/memory"
)

// watchMemory watches a process. The returned function ends the watching and returns the largest
// private memory that was seen. The caller must call the returned function, and may call it again.
func watchMemory(ctx context.Context, pid int) func() (peak_bytes int64, err error) {
	ctx, stop := context.WithCancel(ctx)
	var peak int64
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		peak, err = memory.Peak_bytes(ctx, pid)
	}()
	return func() (int64, error) {
		stop()
		<-over
		return peak, err
	}
}
