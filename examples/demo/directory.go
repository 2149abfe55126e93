package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directory is a private one that goes with whoever made it: it is removed at the end, or, where the process was killed, by the next
// that makes one beside it.
type directory struct {
	path string
	lock *os.File // held while the process lives
}

const (
	directoryPrefix = "cloudprofiler-demo-"
	lockName        = "lock"
)

// sharedMemory is a directory in shared memory, where there is some; else that for temporary files.
func sharedMemory() string {
	const dir = "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		return os.TempDir()
	}
	return dir
}

// makeDirectory makes a private directory, and takes away what killed demonstrations have left beside it.
func makeDirectory(parent string) (_ *directory, err error) {
	removeAbandoned(parent)
	d := &directory{}
	if d.path, err = os.MkdirTemp(parent, directoryPrefix); err != nil {
		return nil, fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make a directory for the demonstration: %w", err), d.remove())
		}
	}()
	// It has its name only once it is locked: who finds it unlocked finds it abandoned.
	early := filepath.Join(d.path, lockName+".new")
	if d.lock, err = os.OpenFile(early, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	return d, os.Rename(early, filepath.Join(d.path, lockName))
}

func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// removeAbandoned removes the directories whose process is gone. What cannot be removed is another user's.
func removeAbandoned(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*", lockName)) // the pattern is a good one
	for _, name := range found {
		lock, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(filepath.Dir(name))
		}
		lock.Close()
	}
}
