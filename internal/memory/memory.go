package memory

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Private_bytes returns how much memory belongs only to the process with the number pid. It does
// not count mapped rings and files, even if no other process maps them, because they are shared or
// can be read again.
func Private_bytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory of a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kB int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kB); n == 1 {
			return kB << 10, nil
		}
	}
	return 0, fmt.Errorf("read memory of a process: %d has none: did it end?", pid)
}

const peakEvery = 500 * time.Millisecond

// Peak_bytes returns the largest private memory that a process has until ctx ends. It reads the
// size twice a second. If it could never read the size, it returns an error.
func Peak_bytes(ctx context.Context, pid int) (peak int64, err error) {
	ticker := time.NewTicker(peakEvery)
	defer ticker.Stop()
	for {
		var now int64
		if now, err = Private_bytes(pid); err == nil {
			peak = max(peak, now)
		}
		if ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	if peak > 0 {
		return peak, nil // the process may have ended in the meantime
	}
	return 0, err
}
