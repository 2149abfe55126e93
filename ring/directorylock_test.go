package ring

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// If somebody removes the first drainer's lock file, as systemd does at a logout, nobody becomes a
// second drainer by creating a new lock file.
func TestDirectoryStaysLockedWithoutItsFile(t *testing.T) {
	dir := t.TempDir()
	l, err := LockDirectory(dir)
	must(t, err)
	defer l.Close()
	path := filepath.Join(dir, lockFile)
	must(t, os.Remove(path))
	if other, err := LockDirectory(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("two drainers: %v, %v", other, err)
	}
	must(t, os.RemoveAll(path))
	if fresh, err := l.Keep(); fresh || err != nil {
		t.Errorf("%v, %v", fresh, err)
	}
	// Older drainers lock only this file, and not the directory.
	if other, err := OpenLocked(path); !errors.Is(err, ErrLocked) {
		t.Errorf("the file was not locked anew: %v, %v", other, err)
	}
	if fresh, err := l.Keep(); fresh || err != nil {
		t.Errorf("nothing happened: %v, %v", fresh, err)
	}
}

func TestDirectoryLockIsTakenAnewWithTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rings")
	must(t, os.Mkdir(dir, 0o700))
	l, err := LockDirectory(dir)
	must(t, err)
	must(t, os.RemoveAll(dir))
	if fresh, err := l.Keep(); !fresh || err != nil {
		t.Fatalf("%v, %v", fresh, err)
	}
	if other, err := LockDirectory(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("two drainers: %v, %v", other, err)
	}
	must(t, l.Close())
	l, err = LockDirectory(dir)
	must(t, err)
	must(t, l.Close())
}

// If somebody removes the directory, and another drainer locks the new directory before the old
// drainer does, the old drainer cannot lock it until the other has ended.
func TestAnotherTakesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rings")
	must(t, os.Mkdir(dir, 0o700))
	l, err := LockDirectory(dir)
	must(t, err)
	defer l.Close()
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	other, err := LockDirectory(dir)
	must(t, err)
	for range 2 {
		if fresh, err := l.Keep(); fresh || !errors.Is(err, ErrLocked) {
			t.Errorf("%v, %v", fresh, err)
		}
	}
	must(t, other.Close())
	if fresh, err := l.Keep(); !fresh || err != nil {
		t.Errorf("after the other has ended: %v, %v", fresh, err)
	}
}
