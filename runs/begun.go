package runs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrBusy is returned for a file or directory that somebody else is writing.
var ErrBusy = errors.New("somebody else is writing it: wait until that has ended")

// putFile writes a file. The file gets its name only when it is complete.
func putFile(root *os.Root, name string, from io.Reader) error {
	f, err := begin(root, name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		return errors.Join(err, f.abandon())
	}
	return f.finish()
}

// begunFile is a file that is being written. It gets its name only when it is finished.
type begunFile struct {
	*os.File
	root       *os.Root
	name, temp string
	lock       *os.File // shares the lock of File, and is closed later
}

func begin(root *os.Root, name string) (*begunFile, error) {
	temp := name + incompleteEnd
	f, err := claimPath(root, temp, func() (*os.File, error) {
		return root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	}, root.Remove)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, f.Close(), root.Remove(temp))
	}
	return &begunFile{f, root, name, temp, os.NewFile(uintptr(fd), temp)}, nil
}

func (b *begunFile) finish() error {
	defer b.lock.Close()
	if err := b.Close(); err != nil {
		return errors.Join(err, b.root.Remove(b.temp))
	}
	return b.root.Rename(b.temp, b.name)
}

func (b *begunFile) abandon() error {
	return errors.Join(b.Close(), b.root.Remove(b.temp), b.lock.Close())
}

// claimPath creates and locks a file or directory. Only the caller writes it, until the caller
// closes the returned file. If a dead writer left such a file or directory behind, claimPath
// removes it first. If another writer is alive, the error wraps ErrBusy. A writer is alive as long
// as it holds this lock.
func claimPath(root *os.Root, temp string, create func() (*os.File, error),
	remove func(string) error) (*os.File, error) {
	const most = 100 // each further attempt means that another writer came in between
	for range most {
		f, err := create()
		switch {
		case errors.Is(err, fs.ErrExist):
			err = removeStale(root, temp, remove)
		case err == nil && !lockIfFree(f) && isAt(root, temp, f):
			return f, nil
		case err == nil:
			err = f.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%q: %w", temp, ErrBusy)
}

// removeStale removes what a dead writer left. If a writer is alive, the error wraps ErrBusy.
func removeStale(root *os.Root, temp string, remove func(string) error) error {
	there, err := root.Lstat(temp)
	if err != nil {
		return ifThere(err)
	}
	if !there.Mode().IsRegular() && !there.IsDir() { // no writer makes such a file
		return ifThere(remove(temp))
	}
	f, err := root.OpenFile(temp, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ifThere(err)
	}
	defer f.Close()
	if lockIfFree(f) {
		return fmt.Errorf("%q: %w", temp, ErrBusy)
	}
	if !isAt(root, temp, f) { // another writer has come in between
		return nil
	}
	return ifThere(remove(temp))
}

// ifThere returns the given error, with one exception. If the error only says that the file is
// gone, the file's writer has finished, and ifThere returns nil.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lockIfFree locks a file, unless another open file has the lock. In that case it returns true.
// Some file systems have no locks; there all writers are taken for dead.
func lockIfFree(f *os.File) bool {
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// isAt reports whether an open file still has this name.
func isAt(root *os.Root, name string, f *os.File) bool {
	there, err1 := root.Lstat(name)
	own, err2 := f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(there, own)
}
