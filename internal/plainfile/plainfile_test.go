package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// oddities makes paths that are not regular files. Opening some of them would wait forever, and
// reading others would never end.
func oddities(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	endless := filepath.Join(dir, "endless")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"a FIFO": fifo, "a socket": socket, "a device": "/dev/zero", "a link to a device": endless,
		"a directory": dir,
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	for name, path := range oddities(t) {
		for how, read := range map[string]func(string, int64) ([]byte, error){
			"Read": Read, "ReadOwn": ReadOwn,
		} {
			text, err := read(path, 100)
			if !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s of %s: %d bytes, %v", how, name, len(text), err)
			}
		}
	}
	if _, err := Read("/nonexistent/file", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestReadsUpToTheLimit(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "file"), "12345678")
	if text, err := Read(path, 8); err != nil || string(text) != "12345678" {
		t.Errorf("as long as the limit: %q, %v", text, err)
	}
	if text, err := Read(path, 7); !errors.Is(err, ErrTooLong) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("longer than the limit: %q, %v", text, err)
	}
	if text, err := Read("/proc/self/status", 1<<20); err != nil || len(text) == 0 {
		t.Errorf("a file of the kernel's, which is as long as it is read: %q, %v", text, err)
	}
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := write(t, filepath.Join(dir, "target"), "text"), filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(link, 100); err != nil || string(text) != "text" {
		t.Errorf("Read: %q, %v", text, err)
	}
	if _, err := ReadOwn(link, 100); !errors.Is(err, ErrNotRegular) ||
		!strings.Contains(err.Error(), "link") {
		t.Errorf("ReadOwn: %v", err)
	}
}

// If something else already has the name of Replace's new file, Replace does not write to it and
// does not wait.
func TestReplaceWritesThroughNothing(t *testing.T) {
	dir := t.TempDir()
	path, victim := write(t, filepath.Join(dir, "file"), "old"),
		write(t, filepath.Join(dir, "victim"), "its own")
	put := map[string]func(part string) error{
		"nothing": func(string) error { return nil },
		"a link":  func(part string) error { return os.Symlink(victim, part) },
		"a FIFO":  func(part string) error { return unix.Mkfifo(part, 0o600) },
		"what was left of one that died": func(part string) error {
			return os.WriteFile(part, []byte("a longer half"), 0o644)
		},
	}
	for name, make := range put {
		if err := make(path + ".part"); err != nil {
			t.Fatal(err)
		}
		if err := Replace(path, []byte(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if text, err := ReadOwn(path, 100); err != nil || string(text) != name {
			t.Errorf("%s: holds %q, %v", name, text, err)
		}
	}
	if text, err := Read(victim, 100); err != nil || string(text) != "its own" {
		t.Errorf("the link's target holds %q, %v", text, err)
	}
}
