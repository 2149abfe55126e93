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

// keptInMemory reports whether f is in a file system that keeps its files only in memory: tmpfs or
// ramfs.
func keptInMemory(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil &&
		(int64(s.Type) == unix.TMPFS_MAGIC || int64(s.Type) == unix.RAMFS_MAGIC)
}

// CheckMemory returns an error if the machine, or a control group of this process, does not have
// this much memory left. If shared memory exceeds a group's limit, the kernel does not refuse the
// memory: it ends a process of the group. root is the root of the file system. CheckMemory ignores
// a limit that it cannot read there. Other processes can take the memory between the check and the
// use. The C library makes the same check, and the conformance test compares both.
func CheckMemory(root fs.FS, bytes int64) error {
	// The kernel also needs page tables, and the program needs some memory to continue.
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
		// In a container, the mounted tree of control groups may begin at the container's own
		// group, while the path is the one that the host uses. Then nothing is at the path. The
		// loop ends at "/", which is the container's group.
		for group := path.Clean("/" + field[2]); ; group = path.Dir(group) {
			if left, limit := files.memoryLeft(root, group); left < wanted {
				return fmt.Errorf("%d bytes of shared memory, and control group %q has %d left "+
					"(%s %d): ask for less, or raise the group's limit: %w",
					bytes, group, max(left, 0), files.limit, limit, unix.ENOMEM)
			}
			if group == "/" {
				break
			}
		}
	}
	if kB, ok := readStatistic(root, "proc/meminfo", "MemAvailable:"); ok && kB<<10 < wanted {
		return fmt.Errorf("%d bytes of shared memory, and this machine has %d available: ask "+
			"for less, or make room: %w", bytes, kB<<10, unix.ENOMEM)
	}
	return nil
}

// groupFiles names the files in which one version of control groups says how much memory a group
// may use and does use.
type groupFiles struct {
	mount, limit, usage string
	// cache names the lines of memory.stat with memory that the kernel reclaims before it ends a
	// process.
	cache [3]string
}

// memoryController takes two fields of a line of /proc/self/cgroup. It returns the names of the
// files with the group's numbers. It also reports whether the line is about memory.
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

// memoryLeft returns how many bytes a group may still take, and the group's limit. If the method
// memoryLeft cannot read the limit, or if the limit is "max", it treats the group as one without a
// limit.
func (g groupFiles) memoryLeft(root fs.FS, group string) (left, limit int64) {
	dir := path.Join(g.mount, group)
	limit, err1 := readNumber(root, path.Join(dir, g.limit))
	usage, err2 := readNumber(root, path.Join(dir, g.usage))
	if err1 != nil || err2 != nil {
		return math.MaxInt64, math.MaxInt64
	}
	for _, name := range g.cache {
		cached, _ := readStatistic(root, path.Join(dir, "memory.stat"), name)
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

// readStatistic finds the number that follows a name in a file with one name and one number on each
// line.
func readStatistic(root fs.FS, file, name string) (int64, bool) {
	text, _ := fs.ReadFile(root, file)
	for line := range strings.Lines(string(text)) {
		if field := strings.Fields(line); len(field) >= 2 && field[0] == name {
			n, err := strconv.ParseInt(field[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
