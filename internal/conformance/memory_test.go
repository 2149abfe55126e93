package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// A program can open a ring of 64 MiB only if the control group and the machine have 69206016 bytes
// left. The cases say what the kernel's files contain, and what the program must answer.
func TestMemoryThatIsLeft(t *testing.T) {
	cases := []struct {
		name  string
		files map[string]string
		says  string // "": there is enough memory
	}{
		{"nothing to read", nil, ""},
		{"v2 without limit", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "5\n"}, ""},
		{"v2 with just enough", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "100000000\n",
			"sys/fs/cgroup/a/memory.current": "30793984\n"}, ""},
		{"v2 with a byte less", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "100000000\n",
			"sys/fs/cgroup/a/memory.current": "30793985\n"},
			`control group "/a" has 69206015 left (memory.max 100000000)`},
		{"v2, the parent is full", map[string]string{"proc/self/cgroup": "0::/p/a\n",
			"sys/fs/cgroup/p/a/memory.max": "max\n", "sys/fs/cgroup/p/a/memory.current": "1\n",
			"sys/fs/cgroup/p/memory.max": "1000\n", "sys/fs/cgroup/p/memory.current": "2000\n"},
			`control group "/p" has 0 left (memory.max 1000)`},
		{"v2, its own group is the root", map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "0\n"},
			`control group "/" has 1000 left`},
		{"v2, full of page cache", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "100000000\n",
			"sys/fs/cgroup/a/memory.current": "100000000\n",
			"sys/fs/cgroup/a/memory.stat": "anon 5\nfile 99999999\nactive_file " +
				"40000000\ninactive_file 29206016\n"}, ""},
		{"v2, full of the kernel's memory of files",
			map[string]string{"proc/self/cgroup": "0::/a\n",
				"sys/fs/cgroup/a/memory.max":     "100000000\n",
				"sys/fs/cgroup/a/memory.current": "100000000\n",
				"sys/fs/cgroup/a/memory.stat": "slab_unreclaimable 9\nslab_reclaimable " +
					"69206015\nslab 69206024\ninactive_file 1\n"}, ""},
		{"v2, a group that cannot be read in one that is full",
			map[string]string{"proc/self/cgroup": "0::/p/a/b\n",
				"sys/fs/cgroup/p/a/memory.max":   "1000\n",
				"sys/fs/cgroup/p/memory.max":     "1000\n",
				"sys/fs/cgroup/p/memory.current": "999\n"}, `control group "/p" has 1 left`},
		{"v2, full of other rings", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "100000000\n",
			"sys/fs/cgroup/a/memory.current": "100000000\n",
			"sys/fs/cgroup/a/memory.stat": "file 99999999\nshmem 99999999\nactive_file " +
				"40000000\ninactive_file 29206015\n"}, "has 69206015 left"},
		{"v1", map[string]string{"proc/self/cgroup": "5:cpu,memory:/a\n1:name=systemd:/b\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "400\n",
			"sys/fs/cgroup/memory/a/memory.stat": "active_file 9\ntotal_active_file " +
				"100\ntotal_inactive_file 1\n"},
			`control group "/a" has 701 left (memory.limit_in_bytes 1000)`},
		{"v1 without limit", map[string]string{"proc/self/cgroup": "4:memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "400\n"}, ""},
		{"v1 in a container that sees the host's path",
			map[string]string{"proc/self/cgroup": "4:memory:/docker/4f5e\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n",
				"sys/fs/cgroup/memory/memory.usage_in_bytes": "400\n"},
			`control group "/" has 600 left`},
		{"a path from outside of a namespace", map[string]string{"proc/self/cgroup": "0::/../b\n",
			"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "400\n"},
			`control group "/" has 600 left`},
		{"other controllers",
			map[string]string{"proc/self/cgroup": "4:cpu,memoryless:/a\nnonsense\n",
				"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n",
				"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "400\n"}, ""},
		{"not numbers", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "many\n", "sys/fs/cgroup/a/memory.current": "5\n"}, ""},
		{"a machine with just enough",
			map[string]string{"proc/meminfo": "MemTotal: 99999999 kB\nMemAvailable:   67584 kB\n"},
			""},
		{"a full machine",
			map[string]string{"proc/meminfo": "MemTotal: 99999999 kB\nMemAvailable:   67583 kB\n"},
			"this machine has 69204992 available"},
	}
	for _, language := range []string{"go", "c"} { // Java has the code of C
		s := newScene(t, language)
		for _, c := range cases {
			root := t.TempDir()
			for name, text := range c.files {
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			said := s.ask("memory %s %d", root, 64<<20)
			if c.says == "" && said != "ok" || !strings.Contains(said, c.says) {
				t.Errorf("%s, %s: %q, want it to say %q", language, c.name, said, c.says)
			}
		}
	}
}

// If a ring does not fit into the control group, the program gets an error. Without a check before
// the ring is made, the kernel would kill the program.
func TestPrivilegedControlGroupWithoutRoom(t *testing.T) {
	privileged.Need(t)
	for language := range writers {
		s := newScene(t, language)
		confine(t, s.cmd.Process.Pid, 48<<20)
		const order = "open one %s buffered 0 0 0 0 - - %d"
		if said := s.ask(order, "big/start", 64<<20); !strings.Contains(said, "control group") {
			t.Errorf("%s: a ring of 64 MiB in a group of 48: %q", language, said)
		}
		// Only the file with the node's number may be left in the directory.
		if files, err := os.ReadDir(s.rings); err != nil || len(files) != 1 {
			t.Errorf("%s: left in the directory: %v, %v", language, files, err)
		}
		s.do(order, "small/start", 1<<20)
		s.do("log 1 60000")
	}
}

// confine puts a process into a new control group with a memory limit.
func confine(t *testing.T, pid int, limit_bytes int64) {
	t.Helper()
	parent, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1 of control groups
	if _, err := os.Stat(parent); err != nil {
		parent, limit = "/sys/fs/cgroup", "memory.max"
		// Without this, the kernel refuses the limit below. An error here is ignored, because the
		// error that follows below says more.
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0)
	}
	group := filepath.Join(parent, fmt.Sprintf("cloudprofiler-test-%d", pid))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatalf("this test needs control groups for memory: %v", err)
	}
	root := filepath.Join(parent, "cgroup.procs")
	t.Cleanup(func() {
		_ = os.WriteFile(root, fmt.Append(nil, pid), 0) // fails if the process has ended
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	for name, value := range map[string]int64{limit: limit_bytes, "cgroup.procs": int64(pid)} {
		if err := os.WriteFile(filepath.Join(group, name), fmt.Append(nil, value), 0); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cgroup")); err != nil ||
		!bytes.Contains(text, []byte(filepath.Base(group))) {
		t.Fatalf("process %d is in groups %s, %v", pid, text, err)
	}
}
