package dist

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A machine is a debian that was booted: systemd runs in it, in namespaces of its own.
type machine struct {
	*debian
	name string
	pid  int // of systemd, as this machine sees it
}

// boot starts systemd in a new Debian root. The machine has no network yet. Of the services that
// are installed on this host, it runs only those that systemd itself needs.
func boot(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{debian: newDebian(t), name: name}
	m.debian.run("sh", "-c", "rm -rf /etc/systemd/system/*.wants /etc/cloudprofiler "+
		"/var/lib/cloudprofiler /etc/resolv.conf && : >/etc/machine-id && echo "+name+
		" >/etc/hostname && echo 127.0.0.1 localhost "+name+" >/etc/hosts")
	const script = `set -e
mount --make-rprivate /
cd "$1"
umount proc dev/null dev/urandom dev/shm run
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
for d in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 ptmx:5:2; do
    mknod -m 666 "dev/${d%%:*}" c "$(echo "${d#*:}" | cut -d : -f 1)" "${d##*:}"
done
mkdir dev/shm
mount -t tmpfs -o mode=1777 tmpfs dev/shm
pivot_root . mnt
umount --lazy /mnt
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test /lib/systemd/systemd`
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount", "--net", "--uts",
		"--ipc", "--cgroup", "sh", "-c", script, "sh", m.root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := m.try("journalctl", "--no-pager", "--lines", "40")
			t.Logf("%s: %s", name, journal)
		}
		cmd.Process.Kill()
		cmd.Wait()
	})
	until(t, name+" boots", func() (string, bool) {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		m.pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		if m.pid == 0 {
			return "systemd is not started", false
		}
		out, _ := m.try("systemctl", "is-system-running")
		return out, strings.HasPrefix(out, "running") || strings.HasPrefix(out, "degraded")
	})
	return m
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() (said string, ok bool)) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		said, ok := holds()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute: %s", what, said)
		}
	}
}

// try runs a command in the machine, as root.
func (m *machine) try(name string, args ...string) (string, error) {
	enter := []string{"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--uts",
		"--ipc", "--cgroup", "--root", "--wdns=/root", name}
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run runs a block of commands in the machine, as root, in a directory. A block that fails ends the
// test.
func (m *machine) run(dir, block string) string {
	m.t.Helper()
	begun := time.Now()
	out, err := m.try("bash", "-ec", "cd "+dir+"\n"+block)
	m.t.Logf("%s (%.1f s)# %s\n%s", m.name, time.Since(begun).Seconds(), block, out)
	if err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
	return out
}

// network connects the machines by a bridge in the first machine. The addresses of the machines are
// 192.0.2.1, 192.0.2.2, and so on.
func network(t *testing.T, machines []*machine) {
	t.Helper()
	hub := machines[0]
	hub.run("/", "ip link set lo up; ip link add lan type bridge; ip address add 192.0.2.1/24 "+
		"dev lan; ip link set lan up")
	for i, m := range machines[1:] {
		add := exec.Command("nsenter", "--target", strconv.Itoa(hub.pid), "--net", "ip", "link",
			"add", "to-"+m.name, "type", "veth", "peer", "name", "lan", "netns",
			strconv.Itoa(m.pid))
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("connect %s: %v: %s", m.name, err, out)
		}
		hub.run("/", fmt.Sprintf("ip link set to-%s master lan up", m.name))
		m.run("/", fmt.Sprintf("ip link set lo up; ip address add 192.0.2.%d/24 dev lan; "+
			"ip link set lan up", i+2))
	}
}

// copyTo copies a file from a machine to another one, as an operator would with scp.
func (m *machine) copyTo(to *machine, path string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, path))
	if err == nil {
		err = os.WriteFile(filepath.Join(to.root, path), text, 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}
