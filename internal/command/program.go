package command

import (
	"os"
	"os/exec"
	"path/filepath"
)

// FindProgram finds another program of this release. It looks beside this program first, because a
// program on the PATH may be of another version.
func FindProgram(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}
