package server

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDirectoriesOfKilledProcesses calls makeDirectory beside two directories. The one that a
// process still uses must stay. The one that a killed process has left must go.
func TestDirectoriesOfKilledProcesses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, lock, err := makeDirectory()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	left := filepath.Join(os.TempDir(), "cprof-sim-1")
	if err := os.MkdirAll(filepath.Join(left, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, other, err := makeDirectory()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the directory that was left is still there: %v", err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("the directory in use is gone: %v", err)
	}
}
