package ring

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// A program is alive while it has an open-file-description lock on the whole ring file. The kernel
// releases the lock with the last descriptor and mapping of that open file, however the program
// dies. A process id cannot replace this lock, because processes in different containers can have
// the same id. A POSIX lock cannot replace it either, because a POSIX lock ends when any part of
// the program opens and closes the same file.

// ErrLocked is returned if the lock belongs to another open file description.
var ErrLocked = errors.New("locked by another")

func lock(f *os.File) error {
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
	runtime.KeepAlive(f)
	if err == unix.EAGAIN || err == unix.EACCES {
		err = ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	return nil
}

// OpenLocked opens or creates a regular file, and locks it until the file is closed or the process
// ends. The error wraps ErrLocked if another open file description of the file has the lock.
func OpenLocked(path string) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("lock %q: %w: remove it", path, plainfile.ErrNotRegular)
	}
	if err == nil {
		err = lock(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isLocked reports whether another open file description of the file has the lock.
func isLocked(f *os.File) (bool, error) {
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole)
	runtime.KeepAlive(f)
	if err != nil {
		return false, err
	}
	return whole.Type != unix.F_UNLCK, nil
}
