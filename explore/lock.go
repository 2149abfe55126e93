package explore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockIndex lets one process at a time make a run's index. Other processes wait, and then
// find the index that the first one made. The lock is on the run's directory. When the process that
// holds the lock ends, the kernel releases the lock.
func lockIndex(ctx context.Context, path string, remark func(string)) (unlock func() error,
	err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for waits := false; ; waits = true {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return d.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %q: %w", path, err), d.Close())
		}
		if !waits {
			remark("another process makes the index: waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), d.Close())
		case <-ticker.C:
		}
	}
}
