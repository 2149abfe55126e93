package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Programs may put anything into the directory of rings, even in the place of the file with the
// epoch. A client must neither wait for ever when it opens that file, nor read it without end.
func TestKeptEpochIsReadFromAShortFileOnly(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a FIFO": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link to an endless file": func(path string) error {
			return os.Symlink("/dev/zero",
				path)
		},
		"a sparse terabyte": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, epochFile)
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			kept := keptEpoch(dir, slog.New(slog.DiscardHandler))
			if text, err := kept.Read(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("read %d bytes, %v", len(text), err)
			}
			kept.Write([]byte("mine")) // this replaces the file
			if text, err := kept.Read(); err != nil || string(text) != "mine" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// The next process reads the epoch that a process has stored. If no epoch is stored, there is no
// file and no directory.
func TestKeptEpoch(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	dir := filepath.Join(t.TempDir(), "rings")
	kept := keptEpoch(dir, log)
	read := func(want string) {
		t.Helper()
		if text, err := keptEpoch(dir, log).Read(); err != nil || string(text) != want {
			t.Errorf("%q is kept, want %q, %v", text, want, err)
		}
	}
	read("")
	kept.Write(nil)
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was made for nothing")
	}
	kept.Write([]byte("one"))
	kept.Write([]byte("two"))
	read("two")
	kept.Write(nil)
	read("")
	if said.Len() > 0 {
		t.Errorf("said: %s", &said)
	}

	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Read(); err == nil {
		t.Error("what others can write is read")
	}
	kept.Write([]byte("three"))
	if !strings.Contains(said.String(), "its new epoch is not stored") {
		t.Errorf("it could not be kept, and was said: %q", &said)
	}
}
