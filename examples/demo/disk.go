package demo

import (
	"io/fs"
	"path/filepath"
)

// disk_bytes returns the size of the files in a directory. Files may disappear during the call.
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
