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

// patience is how long goroutines may take to end: those of a NATS server take a while after it
// says that it is closed. Only a leak makes Main wait that long.
const patience = 20 * time.Second

// Main runs the tests and returns the exit code of the process. It is 1 also if the tests passed
// and left something behind.
func Main(m *testing.M) int {
	before := look()
	code := m.Run()
	if f := flag.Lookup("test.fuzz"); code != 0 || f != nil && f.Value.String() != "" {
		return code // a failed test need not tidy up, and fuzzing ends in the middle of things
	}
	if err := before.left(patience); err != nil {
		fmt.Fprintf(os.Stderr, "--- FAIL: tests left behind: %v\n", err)
		return 1
	}
	return 0
}

// A process is the state of this process at a moment.
type process struct {
	descriptors []string // what they refer to, sorted
	goroutines  goleak.Option
}

func look() process {
	return process{descriptors: descriptors(), goroutines: goleak.IgnoreCurrent()}
}

// left waits until the process has no more than before, and returns what is left.
func (before process) left(wait time.Duration) error {
	var err error
	for end := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		err = errors.Join(goleak.Find(before.goroutines),
			more("descriptors", before.descriptors, descriptors()),
			more("mappings", nil, mappings()))
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

// closedRings is behind the closed rings of a process, and stays.
const closedRings = "/memfd:cloudprofiler-closed"

// descriptors returns what this process has open, without what the runtime and libraries may open
// at any time: the poller, events, random numbers, and the limits of the process's group.
func descriptors() []string {
	const directory = "/proc/self/fd"
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil // no such directory here, or an emulator's
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(directory, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // the descriptor of ReadDir itself
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

// mappings returns the files mapped into this process that no longer exist. The directories of
// tests are removed after each.
func mappings() []string {
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
