package bench

import (
	"context"

	"github.com/cloudprofiler/cloudprofiler/internal/memory"
)

// watchMemory watches a process. The function that it returns ends that and returns the most
// private memory that was seen. It must be called, and may be called again.
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
