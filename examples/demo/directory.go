package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directory is a private directory, which its process removes at the end. If the process is killed,
// the directory is removed by the next process that makes a directory beside it.
type directory struct {
	path string
	lock *os.File // held while the process lives
}

const (
	directoryPrefix = "cloudprofiler-demo-"
	lockName        = "lock"
)

// sharedMemory returns the directory for shared memory. If there is none, it returns the directory
// for temporary files.
func sharedMemory() string {
	const dir = "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		return os.TempDir()
	}
	return dir
}

// makeDirectory makes a private directory, and removes directories beside it that demonstrations
// have left because they were killed.
func makeDirectory(parent string) (_ *directory, err error) {
	removeAbandoned(parent)
	d := &directory{}
	if d.path, err = os.MkdirTemp(parent, directoryPrefix); err != nil {
		return nil, fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a directory for the demonstration: %w", err)
			err = errors.Join(err, d.remove())
		}
	}()
	// The lock file gets its final name only after it was locked. So if a lock file has this name
	// and is not locked, its process is gone.
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

// removeAbandoned removes the directories whose process is gone. It skips a directory whose lock
// file it cannot open, such as another user's directory.
func removeAbandoned(parent string) {
	// Glob fails only for a malformed pattern.
	found, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*", lockName))
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
