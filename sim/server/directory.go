package server

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

const directoryPattern = "cprof-sim-*"

// makeDirectory makes a temporary directory, and locks it as long as the returned file is open. It
// removes the directories that killed processes have left.
func makeDirectory() (dir string, lock *os.File, err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPattern))
	for _, old := range left {
		if f := lockDirectory(old); f != nil {
			err = errors.Join(err, os.RemoveAll(old), f.Close())
		}
	}
	for range 100 {
		if err != nil {
			break
		}
		if dir, err = os.MkdirTemp("", directoryPattern); err != nil {
			break
		}
		if lock = lockDirectory(dir); lock != nil {
			return dir, lock, nil
		}
		// Another process took the new directory for one that a killed process left, and removed
		// it.
	}
	return "", nil, errors.Join(errors.New("make a temporary directory for the server"), err)
}

// lockDirectory locks a directory of this user. It returns nil if another process has locked the
// directory, or if the directory is gone.
func lockDirectory(dir string) *os.File {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	mine, err := f.Stat()
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	there, err2 := os.Lstat(dir)
	if err != nil || err2 != nil || !os.SameFile(mine, there) ||
		int(mine.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		f.Close()
		return nil
	}
	return f
}
