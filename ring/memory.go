package ring

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keptInMemory reports whether the pages of f's file system can only be in memory.
func keptInMemory(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil &&
		(int64(s.Type) == unix.TMPFS_MAGIC || int64(s.Type) == unix.RAMFS_MAGIC)
}

// CheckMemory refuses a size for which the control groups of this process, or the machine, have no
// memory. The kernel does not refuse shared memory beyond a group's limit: it ends a process of the
// group. root is the root of the file system. What cannot be read there counts as no limit. Others
// can take the memory between this check and its use. The C library has the same check, and the
// conformance test compares both.
func CheckMemory(root fs.FS, bytes int64) error {
	// The kernel needs tables of the pages too, and the program some memory to go on.
	wanted := bytes + bytes/64 + 1<<20
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(field) != 3 {
			continue
		}
		files, ok := memoryController(field[0], field[1])
		if !ok {
			continue
		}
		// A container may see its own group as the root of the mount, under the host's path. Then
		// the path leads nowhere, but its ancestors end at the right group.
		for group := path.Clean("/" + field[2]); ; group = path.Dir(group) {
			if left, limit := files.left(root, group); left < wanted {
				return fmt.Errorf("%d bytes of shared memory, and control group %q has %d left "+
					"(%s %d): ask for less, or raise the group's limit: %w",
					bytes, group, max(left, 0), files.limit, limit, unix.ENOMEM)
			}
			if group == "/" {
				break
			}
		}
	}
	if kB, ok := statistic(root, "proc/meminfo", "MemAvailable:"); ok && kB<<10 < wanted {
		return fmt.Errorf("%d bytes of shared memory, and this machine has %d available: ask "+
			"for less, or make room: %w", bytes, kB<<10, unix.ENOMEM)
	}
	return nil
}

// groupFiles names where a version of control groups keeps its numbers.
type groupFiles struct {
	mount, limit, usage string
	// in memory.stat: memory that the kernel reclaims before it ends a process
	cache [3]string
}

// memoryController tells from a line of /proc/self/cgroup whether it is about memory, and where the
// numbers are.
func memoryController(hierarchy, controllers string) (groupFiles, bool) {
	if hierarchy == "0" && controllers == "" {
		return groupFiles{
			"sys/fs/cgroup", "memory.max", "memory.current",
			[3]string{"active_file", "inactive_file", "slab_reclaimable"},
		}, true
	}
	for controller := range strings.SplitSeq(controllers, ",") {
		if controller == "memory" {
			return groupFiles{
				"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				[3]string{"total_active_file", "total_inactive_file"},
			}, true
		}
	}
	return groupFiles{}, false
}

// left returns what a group may still take, and its limit. There is none if it cannot be read, or
// is "max".
func (g groupFiles) left(root fs.FS, group string) (left, limit int64) {
	dir := path.Join(g.mount, group)
	limit, err1 := readNumber(root, path.Join(dir, g.limit))
	usage, err2 := readNumber(root, path.Join(dir, g.usage))
	if err1 != nil || err2 != nil {
		return math.MaxInt64, math.MaxInt64
	}
	for _, name := range g.cache {
		cached, _ := statistic(root, path.Join(dir, "memory.stat"), name)
		usage -= cached
	}
	return limit - usage, limit
}

func readNumber(root fs.FS, name string) (int64, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// statistic finds the number after a name, in a file with one of each a line.
func statistic(root fs.FS, file, name string) (int64, bool) {
	text, _ := fs.ReadFile(root, file)
	for line := range strings.Lines(string(text)) {
		if field := strings.Fields(line); len(field) >= 2 && field[0] == name {
			n, err := strconv.ParseInt(field[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
