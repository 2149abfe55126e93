package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The files in this test have the same form as those that the kernel and Kubernetes write about
// processes.
func TestPlaces(t *testing.T) {
	const (
		id  = "3fca5e1d0f8c4b7a9e6d2c1b0a99887766554433221100ffeeddccbbaa998877"
		pod = "8a6f1c2e-0d4b-4a57-9c1e-2b7f63d5e0aa"
	)
	inPod := "0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(pod, "-", "_") +
		".slice/cri-containerd-" + id + ".scope\n"
	for name, test := range map[string]struct{ cgroup, environ, logs, want string }{
		"the downward API": {inPod,
			"A=1\x00POD_NAMESPACE=shop\x00POD_NAME=cart-1\x00HOSTNAME=x\x00", "",
			"pod shop/cart-1, containerd 3fca5e1d0f8c"},
		"a pod whose program was told nothing": {inPod, "HOSTNAME=cart-1\x00", "",
			"pod cart-1, containerd 3fca5e1d0f8c"},
		"a pod whose environment is hidden": {inPod, "", "",
			"pod " + pod + ", containerd 3fca5e1d0f8c"},
		"the node's directory of pods": {inPod, "", "shop_cart-2_" + pod,
			"pod shop/cart-2, containerd 3fca5e1d0f8c"},
		"another cgroup namespace": {"0::/../../pod" + pod + "/" + id + "\n", "", "",
			"pod " + pod + ", container 3fca5e1d0f8c"},
		"a container": {"0::/system.slice/docker-" + id + ".scope\n", "HOSTNAME=3fca5e1d0f8c\x00",
			"", "docker 3fca5e1d0f8c"},
		"a unit":    {"0::/system.slice/shop.service\n", "", "", "unit shop.service"},
		"a session": {"0::/user.slice/user-0.slice/session-1.scope\n", "", "", ""},
		"nothing":   {"0::/\n", "HOSTNAME=box\x00", "", ""},
		"a liar's novel": {"", "POD_NAME=" + strings.Repeat("x", 9999) + "\x00", "",
			"pod " + strings.Repeat("x", maxPlace-4)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces(t.TempDir())
			p.pods.Dir = t.TempDir()
			write(t, filepath.Join(p.proc, "7/cgroup"), test.cgroup)
			write(t, filepath.Join(p.proc, "7/environ"), test.environ)
			if test.logs != "" {
				write(t, filepath.Join(p.pods.Dir, test.logs, "log"), "")
			}
			if got := p.placeOf(0, 7); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if got := p.placeOf(0, 8); got != "" {
				t.Errorf("%q of a process that does not exist", got)
			}
		})
	}
}

// A program in a container knows only the process id that it has there. The agent finds the process
// by this id and the PID namespace.
func TestPlaceOfAProcessInAnotherNamespace(t *testing.T) {
	p := newPlaces(t.TempDir())
	write(t, filepath.Join(p.proc, "self/ns/pid"), "")
	for process, status := range map[string]string{
		"41": "Name:\tx\nNSpid:\t41\t1\nUid:\t0\n", "42": "Name:\tx\nNSpid:\t42\t7\n",
	} {
		write(t, filepath.Join(p.proc, process, "cgroup"),
			"0::/system.slice/p"+process+".service\n")
		write(t, filepath.Join(p.proc, process, "status"), status)
		inode := filepath.Join(p.proc, "inode")
		write(t, inode, "")
		write(t, filepath.Join(p.proc, process, "ns/x"), "")
		if err := os.Link(inode, filepath.Join(p.proc, process, "ns/pid")); err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(p.proc, "inode"), &st); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int]string{
		1: "unit p41.service", 7: "unit p42.service", 9: "", 41: "",
	} {
		if got := p.placeOf(st.Ino, id); got != want {
			t.Errorf("process %d: %q, want %q", id, got, want)
		}
	}
	if got := p.placeOf(st.Ino+1_000_000, 7); got != "" {
		t.Errorf("%q in a namespace that nobody sees", got)
	}
}

// The type processPlaces can read the files of the real kernel.
func TestPlaceOfThisProcess(t *testing.T) {
	p := newPlaces("/proc")
	if dir := p.find(0, strconv.Itoa(os.Getpid())); dir == "" {
		t.Error("not found")
	}
	_ = p.placeOf(0, os.Getpid())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
