package demo

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// A process that makes its directory also removes directories of processes that were killed. It
// removes no directory of a running process.
func TestAbandonedDirectoryIsRemoved(t *testing.T) {
	parent := t.TempDir()
	mine, err := makeDirectory(parent)
	if err != nil {
		t.Fatal(err)
	}
	argv, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), abandonVariable+"="+parent)
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("it was not killed: %v", err)
	}
	strange := filepath.Join(parent, directoryPrefix+"strange") // it has no lock, so it must stay
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*")); len(found) != 3 {
		t.Fatalf("found %q, want this process's, the abandoned one and the strange one", found)
	}
	second, err := makeDirectory(parent)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*"))
	if len(found) != 3 {
		t.Errorf("found %q, want both of this process and the strange one", found)
	}
	for _, d := range []*directory{mine, second} {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", d.path, err)
		}
	}
}
