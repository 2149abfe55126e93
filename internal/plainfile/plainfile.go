package plainfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotRegular is returned for a path that is not a regular file: a directory, a FIFO, a
	// device, a socket or, for ReadOwn, a symbolic link.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLong is returned for a file that is longer than its limit.
	ErrTooLong = errors.New("file is too long")
)

// Open opens a regular file for reading. It never waits. The error wraps ErrNotRegular or is an
// error of the system.
func Open(path string) (*os.File, error) { return open(path, 0) }

func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	switch {
	case errors.Is(err, syscall.ELOOP) && flags&unix.O_NOFOLLOW != 0:
		return nil, fmt.Errorf("open %s: it is a symbolic link: %w", path, ErrNotRegular)
	case errors.Is(err, syscall.ENXIO): // a socket, or a device that does not exist
		return nil, fmt.Errorf("%w: %w", err, ErrNotRegular)
	case errors.Is(err, fs.ErrPermission):
		return nil, addOwner(path, err)
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is a %s: %w", path, kindOf(info.Mode()), ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Read reads a whole regular file of at most limit bytes. It follows links. The error wraps
// ErrNotRegular or ErrTooLong, or is an error of the system.
func Read(path string, limit int64) ([]byte, error) { return read(path, limit, 0) }

// ReadOwn does the same as Read, for a file in a directory to which other programs write. It does
// not follow a symbolic link.
func ReadOwn(path string, limit int64) ([]byte, error) { return read(path, limit, unix.O_NOFOLLOW) }

func read(path string, limit int64, flags int) ([]byte, error) {
	f, err := open(path, flags)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, path, limit)
}

// ReadAll reads a stream of at most limit bytes to its end. The error names the stream, and wraps
// ErrTooLong if the stream is longer.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	var size int64
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			size = min(info.Size(), limit)
		}
	}
	// Reserve the whole length now. A buffer that grows would need several times the length of the
	// file.
	text := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := text.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, err
	}
	if int64(text.Len()) > limit {
		return nil, fmt.Errorf("read %s: more than %d bytes: %w", name, limit, ErrTooLong)
	}
	return text.Bytes(), nil
}

// Replace gives a file new content at once. It writes a new file in the same directory and renames
// it. So it follows no link and never waits. If a process reads the file before the new one is
// renamed, it finds the old content. The old content also stays if the process that calls Replace
// is killed before it renames the new file. Only one process may replace a file at a time.
func Replace(path string, content []byte) error {
	part := path + ".part"
	// A killed process may have left a file with this name, or somebody may have put something else
	// here.
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}
