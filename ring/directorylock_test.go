package ring

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The first lock file was removed, as systemd does at a logout. Whoever makes another does not
// become a second drainer.
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
	// like drainers that knew only the file
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

// After the directory was removed, the first of two drainers to come gets the new one.
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
