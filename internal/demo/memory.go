package demo

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// private_bytes is what a process alone has in memory. Rings are shared with others and do not count.
func private_bytes(pid int) (int64, error) {
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

// disk_bytes is how much the files in a directory hold. Some may go meanwhile.
func disk_bytes(dir string) (sum int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
