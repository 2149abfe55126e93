package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/runs"
)

// RunsDir returns the directory of runs: the one that CLOUDPROFILER_RUNS names, or else the
// directory runs below the working directory.
func RunsDir() string { return cmp.Or(os.Getenv("CLOUDPROFILER_RUNS"), "runs") }

// OpenRun opens a run. run is a directory, or the name of a run in RunsDir. If both exist, OpenRun
// opens the directory. The caller closes the run.
func OpenRun(run string) (*runs.Directory, error) {
	dir, err := runs.Open(run)
	if err == nil || runs.CheckName(run) != nil || runExists(run) {
		return dir, err
	}
	named := filepath.Join(RunsDir(), run)
	if dir, err := runs.Open(named); err == nil || runExists(named) {
		return dir, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, fmt.Errorf("open run %q: it is neither a directory nor a run in %q: fetch it with "+
		"\"cprof run fetch %s\", or give the directory of one run: %w", run, RunsDir(), run,
		fs.ErrNotExist)
}

// runExists reports whether a run exists at a path, complete or incomplete. If one exists but
// runs.Open fails, the error of runs.Open says what is wrong with the run.
func runExists(path string) bool {
	for _, sign := range []string{path + ".part", filepath.Join(path, "run.yaml")} {
		if _, err := os.Lstat(sign); err == nil {
			return true
		}
	}
	return false
}
