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

// keptInMemory reports whether the pages of f's file system have nowhere to go but memory.
func keptInMemory(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil && (int64(s.Type) == unix.TMPFS_MAGIC || int64(s.Type) == unix.RAMFS_MAGIC)
}

// CheckMemory refuses what the control groups of this process, or the machine, have no memory for. Shared memory that is asked for beyond a
// group's limit is no error to the kernel: it ends a process of the group. root is that of the file system; what cannot be read there is taken for
// no limit. Others can take the memory between this look and the use. The C library has the same, and the conformance test asks both.
func CheckMemory(root fs.FS, bytes int64) error {
	// Beside it the kernel's tables of its pages, and some for the program to go on.
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
		// A container may see its own group as the root of the mount under the path that the host has for it: then the path leads nowhere,
		// and its ancestors end at the right one.
		for group := path.Clean("/" + field[2]); ; group = path.Dir(group) {
			if left, limit := files.left(root, group); left < wanted {
				return fmt.Errorf("%d bytes of shared memory, and control group %q has %d left (%s %d): ask for less, or raise the group's limit: %w",
					bytes, group, max(left, 0), files.limit, limit, unix.ENOMEM)
			}
			if group == "/" {
				break
			}
		}
	}
	if kB, ok := statistic(root, "proc/meminfo", "MemAvailable:"); ok && kB<<10 < wanted {
		return fmt.Errorf("%d bytes of shared memory, and this machine has %d available: ask for less, or make room: %w", bytes, kB<<10, unix.ENOMEM)
	}
	return nil
}

// groupFiles names where a version of control groups keeps its numbers.
type groupFiles struct {
	mount, limit, usage string
	cache               [3]string // in memory.stat: what the kernel drops before it ends anyone
}

// memoryController tells by a line of /proc/self/cgroup whether it is about memory, and where.
func memoryController(hierarchy, controllers string) (groupFiles, bool) {
	if hierarchy == "0" && controllers == "" {
		return groupFiles{"sys/fs/cgroup", "memory.max", "memory.current", [3]string{"active_file", "inactive_file", "slab_reclaimable"}}, true
	}
	for controller := range strings.SplitSeq(controllers, ",") {
		if controller == "memory" {
			return groupFiles{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", [3]string{"total_active_file", "total_inactive_file"}}, true
		}
	}
	return groupFiles{}, false
}

// left is what a group may still take, and its limit; boundless if that cannot be read, or is "max".
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

// statistic finds a number behind its name, a line each.
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
