package runs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// ErrNotComplete is returned for a run that is still being written.
var ErrNotComplete = errors.New("run is not complete")

// File is a file of a run. Its path is relative to the run's directory, and has slashes.
type File struct {
	Path  string
	Bytes int64
}

// CheckFile returns nil if name is a path that a file of a run can have. It refuses what is made
// from a run: report.html and the files in exports/. The error wraps ErrName.
func CheckFile(name string) error {
	fail := func() error {
		return fmt.Errorf("check file %.200q: a run has no such file: %w", name, ErrName)
	}
	base := path.Base(name)
	if len(base) > 255 || base[0] == '.' || base[0] == '-' ||
		strings.ContainsFunc(base, notInFile) {
		return fail()
	}
	dir := path.Dir(name)
	if path.Join(dir, base) != name {
		return fail()
	}
	has := func(suffix string) bool { return len(base) > len(suffix) && path.Ext(base) == suffix }
	switch node := path.Base(dir); {
	case dir == "." && (base == runFile || base == tableFile):
	case dir == relationsDir && has(relationSuffix):
	case dir == baselinesDir && has(baselineSuffix):
	case dir == truthDir && has(truthSuffix):
	case dir == LogsPath(node) && CheckNodeName(node) == nil &&
		(has(logstore.Suffix) || base == logstore.ManifestName):
	default:
		return fail()
	}
	return nil
}

// notInFile returns true for a character that is not allowed in the name of a run's file.
func notInFile(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
		strings.ContainsRune("-_.~@#", r))
}

// Files lists the files of which a complete run consists, in the order of paths. The report and the
// exports are not in the list, because they can be made again. state is a hash of the listed files'
// paths, lengths and modification times. The error wraps ErrName, ErrNotComplete or fs.ErrNotExist.
func Files(parent, name string) (files []File, state string, err error) {
	root, err := openComplete(parent, name)
	if err != nil {
		return nil, "", fmt.Errorf("list files of run %q: %w", name, err)
	}
	defer root.Close()
	sum := sha256.New()
	err = fs.WalkDir(root.FS(), ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || CheckFile(file) != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files = append(files, File{file, info.Size()})
		fmt.Fprintf(sum, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list files of run %q: %w", name, err)
	}
	return files, fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// ReadFile reads bytes of a file of a complete run, from offset on, until the argument into is full
// or the file ends. n is the number of bytes read, and size is the length of the file. At the end
// of the file n is less than len(into), without an error. The error wraps ErrName, ErrNotComplete
// or fs.ErrNotExist.
func ReadFile(parent, name, file string, offset int64, into []byte) (n int, size int64, err error) {
	fail := func(err error) (int, int64, error) {
		return 0, 0, fmt.Errorf("read file %q of run %q: %w", file, name, err)
	}
	if err := CheckFile(file); err != nil {
		return fail(err)
	}
	root, err := openComplete(parent, name)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	f, size, err := openFile(root, file)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if n, err = f.ReadAt(into, offset); err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	return n, size, nil
}

// openComplete opens the directory of a complete run.
func openComplete(parent, name string) (*os.Root, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(parent, name)
	root, err := openRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, unfinished := os.Stat(dir + incompleteEnd); unfinished == nil {
			return nil, ErrNotComplete
		}
	}
	return root, err
}
