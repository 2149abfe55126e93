package command

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// If WriteWhole cannot write the whole new file, the old file stays. WriteWhole follows a link, and
// writes directly to a pipe.
func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	page, link := filepath.Join(dir, "page.html"), filepath.Join(dir, "link.html")
	if err := os.Symlink("page.html", link); err != nil {
		t.Fatal(err)
	}
	holds := func(want string, mode os.FileMode) {
		t.Helper()
		info, err := os.Stat(page)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(page); err != nil || string(text) != want ||
			info.Mode() != mode {
			t.Errorf("it holds %q, mode %v, %v; want %q, %v", text, info.Mode(), err, want, mode)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 || entries[0].Type() != os.ModeSymlink {
			t.Errorf("in the directory are %v, want a link and the page; %v", entries, err)
		}
	}
	if err := WriteWhole(page, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(page, 0o640); err != nil {
		t.Fatal(err)
	}
	holds("first", 0o640)
	if err := os.WriteFile(page+".part", []byte("left by one that was killed, and longer"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteWhole(link, []byte("second")); err != nil {
		t.Fatal(err)
	}
	holds("second", 0o640)
	if err := os.MkdirAll(filepath.Join(page+".part", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteWhole(page, []byte("third")); err == nil {
		t.Error("nothing was in the way")
	}
	if err := os.RemoveAll(page + ".part"); err != nil {
		t.Fatal(err)
	}
	holds("second", 0o640)

	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	// The limit below holds for every file that this process writes. The constant room is so large
	// that the log of the test still fits.
	const room = 16 << 20
	// The limit imitates a full disk.
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE,
		&unix.Rlimit{Cur: room, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	tooMuch := WriteWhole(page, make([]byte, room+1))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(tooMuch, unix.EFBIG) {
		t.Errorf("more than has room: %v", tooMuch)
	}
	holds("second", 0o640)

	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := WriteWhole(pipe, []byte("third")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(pipe)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 10)
	if info.Mode().IsRegular() {
		t.Error("the pipe is a file now")
	} else if n, err := reader.Read(text); err != nil || string(text[:n]) != "third" {
		t.Errorf("out of a pipe come %q, %v", text[:n], err)
	}
	if err := WriteWhole(filepath.Join(dir, "none", "page.html"), nil); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("into no directory: %v", err)
	}
}
