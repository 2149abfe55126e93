package ring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// ErrDirectory is returned for a directory that is not safe for rings, or not safe for other data
// that must be private to this user.
var ErrDirectory = errors.New("unfit directory")

// DirectoryVariable is the environment variable with the directory of a node's rings.
const DirectoryVariable = "CLOUDPROFILER_DIR"

const (
	ringSuffix = ".ring"
	partSuffix = ".part" // the end of an unfinished ring's name; nobody reads such a ring yet
	nodeFile   = "node"  // contains the node's number, in decimal
)

// DefaultDirectory returns $CLOUDPROFILER_DIR, or, if that is empty, this user's directory in
// shared memory.
func DefaultDirectory() string {
	if dir := os.Getenv(DirectoryVariable); dir != "" {
		return dir
	}
	return fmt.Sprintf("/dev/shm/cloudprofiler-%d", os.Geteuid())
}

// MakeDirectory creates the directory, private to this user, or checks an existing one. The
// directory must belong to this user and must not be a symbolic link, and others must not be able
// to write to it. Errors of the check wrap ErrDirectory.
func MakeDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make ring directory %q: set %s to a place where this user may write: %w",
			dir, DirectoryVariable, err)
	}
	return CheckDirectory(dir)
}

// CheckDirectory makes the checks of MakeDirectory, but creates no directory. Its errors wrap
// ErrDirectory or fs.ErrNotExist.
func CheckDirectory(dir string) error {
	return CheckPrivate(dir, "ring directory", DirectoryVariable)
}

// CheckPrivate makes the checks of CheckDirectory for any directory that must be private. The other
// two parameters are words for error messages. The first of them (what) describes the directory.
// The second (setting) names the option with which the user chooses another directory.
func CheckPrivate(dir, what, setting string) error {
	var st unix.Stat_t
	// A slash at the end of the name would make Lstat follow a symbolic link.
	if err := unix.Lstat(filepath.Clean(dir), &st); err != nil {
		return fmt.Errorf("check %s %q: %w", what, dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return fmt.Errorf("check %s %q: it is a symbolic link: name its target in %s: %w", what,
			dir, setting, ErrDirectory)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("check %s %q: it is not a directory: remove it or set %s: %w", what, dir,
			setting, ErrDirectory)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("check %s %q: it belongs to user %s and this is user %s: run this as "+
			"its owner (sudo -u %[3]s …), or set %[5]s to a directory of your own: %[6]w", what,
			dir, plainfile.UserName(st.Uid), plainfile.UserName(uint32(os.Geteuid())), setting,
			ErrDirectory)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("check %s %q: others may write to it (mode %#o): chmod 700 it: %w", what,
			dir, st.Mode&0o777, ErrDirectory)
	}
	return nil
}

// InSharedMemory reports whether dir is on a memory file system. Rings work on other file systems
// too, but there the kernel's write-back sometimes makes a log call cause a page fault.
func InSharedMemory(dir string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false, fmt.Errorf("check file system of %q: %w", dir, err)
	}
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC, nil
}

// fileName returns the file name of the ring with this identity.
func fileName(name channel.Name, incarnation [16]byte) string {
	return fmt.Sprintf("%s.%x%s", name.FileStem(), incarnation, ringSuffix)
}

// Files lists the ring files of a directory, sorted by name. If the directory does not exist, the
// list is empty.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list rings: %w", err)
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ringSuffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// maxNodeBytes is more than the length of any file with a node's number.
const maxNodeBytes = 64

// NodeNumber reads the node's number from the directory. ok is false if the directory contains no
// number. Because any program of the user can write to the directory, NodeNumber reads only a short
// regular file.
func NodeNumber(dir string) (number int, ok bool, err error) {
	path := filepath.Join(dir, nodeFile)
	text, err := plainfile.ReadOwn(path, maxNodeBytes)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read node number: %w", err)
	}
	number, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || number < 0 || number > channel.MaxNode {
		return 0, false, fmt.Errorf("read node number from %q: %.20q is not a number from 0 to %d",
			path, text, channel.MaxNode)
	}
	return number, true, nil
}

// SetNodeNumber writes the node's number to the directory.
func SetNodeNumber(dir string, number int) error {
	if number < 0 || number > channel.MaxNode {
		return fmt.Errorf("set node number: %d is not from 0 to %d", number, channel.MaxNode)
	}
	path := filepath.Join(dir, nodeFile)
	if err := plainfile.Replace(path, []byte(strconv.Itoa(number)+"\n")); err != nil {
		return fmt.Errorf("set node number: %w", err)
	}
	return nil
}
