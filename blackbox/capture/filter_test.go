package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

func TestParseFilter(t *testing.T) {
	got, err := ParseFilter(" program=nginx cgroup=/a/b/ port=6379 port=65535 program=a=b")
	want := Filter{
		Programs: []string{"nginx", "a=b"}, CGroups: []string{"/a/b"}, Ports: []uint16{6379, 65535},
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"nginx", "program=", "cgroup=a", "port=0", "port=65536", "port=x", "pid=1", "port=1,2",
	} {
		if _, err := ParseFilter(bad); !errors.Is(err, ErrFilter) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	many := ""
	for i := range mostOf + 1 {
		many += fmt.Sprintf("port=%d ", i+1)
	}
	if _, err := ParseFilter(many); err == nil {
		t.Error("too many ports are accepted")
	}
	if _, err := (Filter{CGroups: []string{"/there/is/none"}}).resolve(); err == nil {
		t.Error("a cgroup that does not exist is accepted")
	}
}

// A filter captures exactly those messages to which it applies.
func TestPrivilegedFilter(t *testing.T) {
	privileged.Need(t)
	const server, client = true, false
	program := filepath.Base(os.Args[0])
	for name, c := range map[string]struct {
		only func(port int, group string) Filter
		want []bool // the conversations whose calls must be captured
	}{
		"program": {func(int, string) Filter {
			return Filter{Programs: []string{"other", program}}
		}, []bool{server, client}},
		"other program": {func(int, string) Filter {
			return Filter{Programs: []string{"other", program[:len(program)-1]}}
		}, nil},
		"port": {func(port int, _ string) Filter {
			return Filter{Ports: []uint16{1, uint16(port)}}
		}, []bool{server, client}},
		"other port": {func(port int, _ string) Filter {
			return Filter{Ports: []uint16{uint16(port) + 1}}
		}, nil},
		"cgroup": {func(_ int, group string) Filter {
			return Filter{CGroups: []string{"/none-of-it", group}}
		}, []bool{server}},
		"cgroup and other port": {func(port int, group string) Filter {
			return Filter{CGroups: []string{group}, Ports: []uint16{1}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := conversation.Start(t, "server", "127.0.0.1:0", 1, 3, 20)
			at := s.Says()
			var port int
			if _, err := fmt.Sscanf(at, "127.0.0.1:%d", &port); err != nil {
				t.Fatal(err)
			}
			only := c.only(port, newCGroup(t, s.Process()))
			if len(only.CGroups) > 1 {
				only.CGroups[0] = newCGroup(t, 0)
			}
			r := newRig(t, Options{Only: only})
			from := conversation.Start(t, "client", at, 1, 3, 20)
			calls := map[bool][]conversation.Call{client: from.Truth(t), server: s.Truth(t)}
			got := r.endCapture(t)
			ours := map[uint64]bool{}
			var truth []conversation.Call
			for _, who := range c.want {
				truth = append(truth, calls[who]...)
			}
			compare(t, got, truth, func(s side, _ blackbox.Message, _ conversation.Call, _ uint64) {
				ours[s.cookie] = true
			})
			if len(ours) != 3*len(c.want) {
				t.Errorf("%d sockets are captured", len(ours))
			}
			others := append(calls[client], calls[server]...)
			for _, m := range got.messages {
				if cookie := got.connections[m.Connection].Cookie; !ours[cookie] {
					for _, call := range others {
						if call.Cookie == cookie {
							t.Fatalf("captured: %+v", m)
						}
					}
				}
			}
		})
	}
}

// newCGroup makes a cgroup with another cgroup inside, and returns the path of the outer one. If
// process is not 0, it puts that process into the inner one.
func newCGroup(t *testing.T, process int) (path string) {
	t.Helper()
	root, err := cgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	outer, err := os.MkdirTemp(root, "capture-test-")
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if process > 0 {
		moveInto(t, inner, process)
	}
	t.Cleanup(func() { // the process has ended
		if err := errors.Join(os.Remove(inner), os.Remove(outer)); err != nil {
			t.Error(err)
		}
	})
	return "/" + filepath.Base(outer)
}

// moveInto puts a process into the cgroup that a directory stands for.
func moveInto(t *testing.T, dir string, process int) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, process), 0)
	if err != nil {
		t.Fatal(err)
	}
}
