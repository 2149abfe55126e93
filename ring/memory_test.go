package ring

import (
	"os"
	"testing"
)

// The conformance test checks the limits of control groups, for Go and for the C library.

func TestFileSystemsInMemory(t *testing.T) {
	shared, err := os.CreateTemp("/dev/shm", "cloudprofiler-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(shared.Name())
	defer shared.Close()
	if !keptInMemory(shared) {
		t.Error("/dev/shm is in memory")
	}
	kernel, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	if keptInMemory(kernel) {
		t.Error("/proc is no file system in memory")
	}
}
