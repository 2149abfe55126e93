package ring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// lockFile names the file that every drainer locks, in every version and language.
const lockFile = "drainer.lock"

// DirectoryLock makes this process the only one that drains a directory, until the DirectoryLock is
// closed or the process dies.
//
// A DirectoryLock consists of two locks: one on the file drainer.lock, and one on the directory
// itself. Somebody can remove the file and lock a new one. But nobody can remove the directory
// without removing the rings in it. One goroutine at a time may use a DirectoryLock.
type DirectoryLock struct {
	dir  string
	root *os.File // the directory
	file *os.File
}

// heldLocks keeps directory locks from the garbage collector, which would close their files.
var heldLocks sync.Map

// LockDirectory makes this process the only one that drains a directory. The error wraps ErrLocked
// if another process already drains it.
func LockDirectory(dir string) (*DirectoryLock, error) {
	if err := CheckDirectory(dir); err != nil {
		return nil, err
	}
	l := &DirectoryLock{dir: dir}
	if err := l.takeLocks(); err != nil {
		return nil, err
	}
	heldLocks.Store(l, nil)
	return l, nil
}

// takeLocks locks the directory to which l.dir leads now, and the lock file in that directory. If
// takeLocks returns an error, l has the same locks as before the call.
func (l *DirectoryLock) takeLocks() error {
	root := l.root
	if same, err := l.isSameFile(l.dir, root); err != nil || !same {
		if root, err = lockRoot(l.dir); err != nil {
			return err
		}
	}
	file, err := OpenLocked(filepath.Join(l.dir, lockFile))
	if err != nil {
		if root != l.root {
			root.Close()
		}
		return lockError(l.dir, err)
	}
	if root != l.root && l.root != nil {
		l.root.Close()
	}
	if l.file != nil {
		l.file.Close()
	}
	l.root, l.file = root, file
	return nil
}

func lockRoot(dir string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(filepath.Clean(dir), flags, 0)
	if err != nil {
		return nil, lockError(dir, err)
	}
	root := os.NewFile(uintptr(fd), dir)
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = ErrLocked
	}
	if err != nil {
		root.Close()
		return nil, lockError(dir, err)
	}
	return root, nil
}

func lockError(dir string, err error) error {
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf(
			"lock ring directory %q: another process drains it: stop that one first: %w", dir, err)
	}
	return fmt.Errorf("lock ring directory %q: %w", dir, err)
}

// Keep checks whether the names still lead to the directory and to the file that l has locked. If
// somebody has removed one of the two, as systemd does at a logout, Keep creates it again and locks
// it. fresh means that l has locked another directory than before. The error wraps ErrLocked if
// another process was faster. After an error, the caller may call Keep again.
func (l *DirectoryLock) Keep() (fresh bool, err error) {
	sameRoot, err := l.isSameFile(l.dir, l.root)
	if err != nil {
		return false, lockError(l.dir, err)
	}
	sameFile, err := l.isSameFile(filepath.Join(l.dir, lockFile), l.file)
	if err != nil {
		return false, lockError(l.dir, err)
	}
	if sameRoot && sameFile {
		return false, nil
	}
	if err := MakeDirectory(l.dir); err != nil {
		return false, err
	}
	if err := l.takeLocks(); err != nil {
		return false, err
	}
	return !sameRoot, nil
}

// isSameFile reports whether a path leads to an open file. If nothing is at the path, the method
// isSameFile returns false.
func (l *DirectoryLock) isSameFile(path string, file *os.File) (bool, error) {
	if file == nil {
		return false, nil
	}
	var open unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &open); err != nil {
		return false, err
	}
	same, err := leadsTo(filepath.Clean(path), open)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return same, err
}

// Close lets another process drain the directory.
func (l *DirectoryLock) Close() error {
	heldLocks.Delete(l)
	return errors.Join(l.file.Close(), l.root.Close())
}
