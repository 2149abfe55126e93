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

// A directory whose process was killed is taken away by the next one, and no other is.
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
		t.Fatalf("it was to be killed: %v", err)
	}
	strange := filepath.Join(parent, directoryPrefix+"strange") // without a lock: not ours to judge
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*")); len(found) != 3 {
		t.Fatalf("found %q, want mine, the abandoned one and a strange one", found)
	}
	second, err := makeDirectory(parent)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*"))
	if len(found) != 3 {
		t.Errorf("found %q, want two of live demonstrations and a strange one", found)
	}
	for _, d := range []*directory{mine, second} {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still: %v", d.path, err)
		}
	}
}
