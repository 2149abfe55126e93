package runs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// stateFile names the file with the state of the arriving run, as Files returned it. The process
// that fetches the run locks the file. When the run is complete, the file is removed.
const stateFile = "arriving"

// ErrArriving is returned while another process fetches the same run.
var ErrArriving = errors.New("another process fetches this run")

// Arrival is a run that is copied from elsewhere into a directory of runs, file by file. Until the
// run is complete, the name of its directory ends in ".part". run.yaml arrives last, so nothing
// takes an incomplete directory for a run. Only one goroutine may use an Arrival.
type Arrival struct {
	parent, name string
	root         *os.Root
	lock         *os.File
	files        []File
}

// Receive begins to copy a run into a directory of runs, or continues a copy that was begun. files
// and state describe the original, as Files returns them. If an earlier Arrival received files of
// the same state, Receive keeps these files. If the earlier Arrival received files of another
// state, Receive removes these files. The error wraps ErrName, ErrExists or ErrArriving.
func Receive(parent, name string, files []File, state string) (*Arrival, error) {
	fail := func(err error) (*Arrival, error) {
		return nil, fmt.Errorf("receive run %q: %w", name, err)
	}
	if err := CheckName(name); err != nil {
		return fail(err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		if err := CheckFile(f.Path); err != nil {
			return fail(err)
		}
		if f.Bytes < 0 || seen[f.Path] {
			return fail(fmt.Errorf("file %q is listed twice, or with %d bytes: %w", f.Path, f.Bytes,
				ErrRun))
		}
		seen[f.Path] = true
	}
	if !seen[runFile] {
		return fail(fmt.Errorf("it has no %s: %w", runFile, ErrNotRun))
	}
	if err := os.MkdirAll(parent, directoryMode); err != nil {
		return fail(err)
	}
	to := filepath.Join(parent, name)
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fail(fmt.Errorf("%q is there: remove it to fetch the run again: %w", to, ErrExists))
	}
	if err := os.Mkdir(to+incompleteEnd, directoryMode); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	root, err := openRoot(to + incompleteEnd)
	if err != nil {
		return fail(err)
	}
	a := &Arrival{parent: parent, name: name, root: root, files: files}
	if err := a.begin(state); err != nil {
		a.Close()
		return fail(err)
	}
	return a, nil
}

// begin opens and locks the state file. If files of another state have arrived, the method begin
// removes them.
func (a *Arrival) begin(state string) (err error) {
	if _, err := a.root.Lstat(stateFile); errors.Is(err, fs.ErrNotExist) {
		if _, err := a.root.Lstat(runFile); err == nil {
			return fmt.Errorf("%q is a run of this machine that was never completed: %w",
				filepath.Join(a.parent, a.name+incompleteEnd), ErrExists)
		}
	}
	a.lock, err = a.root.OpenFile(stateFile, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(a.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrArriving
	}
	known, err := io.ReadAll(io.LimitReader(a.lock, 1<<10))
	if err != nil {
		return err
	}
	if string(known) == state {
		return nil
	}
	for _, name := range []string{
		runFile, tableFile, relationsDir, logsDir, baselinesDir, truthDir,
	} {
		if err := a.root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := a.lock.Truncate(0); err != nil {
		return err
	}
	_, err = a.lock.WriteAt([]byte(state), 0)
	return err
}

// Lacks returns the files that have not arrived, with run.yaml at the end.
func (a *Arrival) Lacks() (files []File) {
	for _, f := range a.files {
		info, err := a.root.Lstat(f.Path)
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.Bytes {
			files = append(files, f)
		}
	}
	slices.SortStableFunc(files, func(x, y File) int {
		return strings.Compare(lastRun(x.Path), lastRun(y.Path))
	})
	return files
}

// lastRun returns a file's sort key. The key puts run.yaml after all other files.
func lastRun(file string) string {
	if file == runFile {
		return "\xff"
	}
	return ""
}

// Put writes a file. Put gets the file's bytes part by part from the function read, which returns
// the bytes at an offset. The file gets its name when all its bytes are on disk.
func (a *Arrival) Put(f File, read func(offset int64) ([]byte, error)) error {
	if dir := path.Dir(f.Path); dir != "." {
		if err := a.root.MkdirAll(dir, directoryMode); err != nil {
			return fmt.Errorf("receive file %q: %w", f.Path, err)
		}
	}
	to, err := begin(a.root, f.Path)
	if err != nil {
		return fmt.Errorf("receive file %q: %w", f.Path, err)
	}
	for offset := int64(0); err == nil && offset < f.Bytes; {
		var data []byte
		if data, err = read(offset); err != nil {
			break
		}
		if n := int64(len(data)); n == 0 || n > f.Bytes-offset {
			err = fmt.Errorf("%d bytes came at byte %d of %d: %w", n, offset, f.Bytes, ErrRun)
			break
		}
		_, err = to.Write(data)
		offset += int64(len(data))
	}
	if err == nil {
		err = to.Sync()
	}
	if err != nil {
		return fmt.Errorf("receive file %q: %w", f.Path, errors.Join(err, to.abandon()))
	}
	if err := to.finish(); err != nil {
		return fmt.Errorf("receive file %q: %w", f.Path, err)
	}
	return nil
}

// Complete gives the directory the run's name, if all files have arrived. It returns the path of
// the directory.
func (a *Arrival) Complete() (path string, err error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("receive run %q: %w", a.name, err)
	}
	if lacks := a.Lacks(); len(lacks) > 0 {
		return fail(fmt.Errorf("%d files have not arrived, the first is %q: %w", len(lacks),
			lacks[0].Path, ErrNotComplete))
	}
	to := filepath.Join(a.parent, a.name)
	text, err := readFile(a.root, runFile, maxRunBytes)
	if err == nil {
		_, err = parseRun(text, runFile)
	}
	if err != nil {
		return fail(errors.Join(err, a.root.Remove(runFile)))
	}
	if err := renameNew(to+incompleteEnd, to); err != nil {
		return fail(err)
	}
	if err := a.root.Remove(stateFile); err != nil {
		return fail(err)
	}
	return to, nil
}

// Close ends the arrival. What arrived stays, so that Receive can continue.
func (a *Arrival) Close() error {
	err := a.root.Close()
	if a.lock != nil {
		err = errors.Join(err, a.lock.Close())
	}
	return err
}
