package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// Entry is a run in a directory of runs.
type Entry struct {
	Name     string
	Path     string
	Complete bool
	Run      Run   // valid if Err is nil
	Err      error // why the run could not be read
}

// List lists the runs in a directory, sorted by name. If the directory does not exist, the list is
// empty. A directory without a run.yaml is not a run, unless its name ends in ".part".
func List(parent string) ([]Entry, error) {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var found []Entry
	for _, e := range entries {
		name, unfinished := strings.CutSuffix(e.Name(), incompleteEnd)
		if !e.IsDir() || CheckName(name) != nil {
			continue
		}
		entry := Entry{Name: name, Path: filepath.Join(parent, e.Name()), Complete: !unfinished}
		d, err := Open(entry.Path)
		switch {
		case err == nil:
			entry.Run = d.Run
			d.Close()
		case errors.Is(err, ErrNotRun) && !unfinished:
			continue
		}
		entry.Err = err
		found = append(found, entry)
	}
	slices.SortStableFunc(found, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Channels returns the names of the channels whose logs are in the run, sorted, without reading the
// logs.
func (d *Directory) Channels() (names []string) {
	nodes, err := d.list(logsDir)
	if err != nil {
		return nil
	}
	for _, node := range nodes {
		files, err := d.list(LogsPath(node.Name()))
		if err != nil {
			continue
		}
		for _, f := range files {
			if s, ok := logstore.ParseSegment(f.Name()); ok {
				names = append(names, s.Channel.String())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Remove removes a run, even if the run is incomplete. It does not remove a directory that is not a
// run. The error wraps ErrName, ErrNotRun or fs.ErrNotExist.
func Remove(parent, name string) error {
	fail := func(err error) error { return fmt.Errorf("remove run %q: %w", name, err) }
	if err := CheckName(name); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	removed := false
	for _, dir := range []string{name, name + incompleteEnd} {
		info, err := root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fail(err)
		}
		if !info.IsDir() {
			return fail(fmt.Errorf("%q is not a directory: %w", filepath.Join(parent, dir),
				ErrNotRun))
		}
		// An incomplete run may lack run.yaml, because its creator died early. A complete run must
		// have it.
		if _, err := root.Lstat(filepath.Join(dir, runFile)); err != nil && dir == name {
			return fail(fmt.Errorf("%q has no %s: remove it by hand if it is yours: %w",
				filepath.Join(parent, dir), runFile, ErrNotRun))
		}
		if err := root.RemoveAll(dir); err != nil {
			return fail(err)
		}
		removed = true
	}
	if !removed {
		return fail(fmt.Errorf("there is none in %q: %w", parent, fs.ErrNotExist))
	}
	return nil
}
