package leak

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// longestWait is how long Main waits for goroutines to end. The goroutines of a NATS server run for
// a while after the server reports that it is closed. Main waits that long only if there is a leak.
const longestWait = 20 * time.Second

// Main runs the tests and returns the exit code of the process. If all tests pass but leave
// something behind, the code is 1.
func Main(m *testing.M) int {
	before := look()
	code := m.Run()
	if f := flag.Lookup("test.fuzz"); code != 0 || f != nil && f.Value.String() != "" {
		return code // a failed test may leave things, and fuzzing ends at any moment
	}
	if err := before.left(longestWait); err != nil {
		fmt.Fprintf(os.Stderr, "--- FAIL: tests left behind: %v\n", err)
		return 1
	}
	return 0
}

// A process is the state of this process at a moment.
type process struct {
	descriptors []string // what the descriptors refer to, sorted
	goroutines  goleak.Option
}

func look() process {
	return process{descriptors: openDescriptors(), goroutines: goleak.IgnoreCurrent()}
}

// The method left waits until the process has nothing that it did not have before, but no longer
// than the argument says. If something is still left after that time, the error names it.
func (before process) left(wait time.Duration) error {
	var err error
	for end := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		err = errors.Join(goleak.Find(before.goroutines),
			more("descriptors", before.descriptors, openDescriptors()),
			more("mappings", nil, removedMappings()))
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func more(what string, before, after []string) error {
	for _, known := range before {
		if i := slices.Index(after, known); i >= 0 {
			after = slices.Delete(after, i, i+1)
		}
	}
	if len(after) == 0 {
		return nil
	}
	return fmt.Errorf("%d %s: %s", len(after), what, strings.Join(after, ", "))
}

// closedRings is the file that backs the closed rings of a process. It stays open.
const closedRings = "/memfd:cloudprofiler-closed"

// openDescriptors returns what the descriptors of this process refer to. It leaves out what the
// runtime and libraries may open at any time: the poller, events, random numbers, and the limits of
// the process's control group.
func openDescriptors() []string {
	const directory = "/proc/self/fd"
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil // this system or an emulator does not have the directory
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(directory, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // the descriptor with which ReadDir itself reads
		case strings.HasPrefix(target, "anon_inode:[event"), target == "/dev/null",
			target == closedRings+" (deleted)", target == "/dev/urandom",
			strings.HasPrefix(target, "/sys/fs/cgroup/"):
		default:
			open = append(open, target)
		}
	}
	slices.Sort(open)
	return open
}

// removedMappings returns the mapped files of this process that no longer exist. Each test's
// directory is removed after the test. So if a test left a file mapped, that file is in the list.
func removedMappings() []string {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var files []string
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 7 && string(fields[6]) == "(deleted)" &&
			string(fields[5]) != closedRings {
			files = append(files, string(fields[5]))
		}
	}
	return files
}
