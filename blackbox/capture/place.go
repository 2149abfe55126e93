package capture

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// places says where processes run, by their numbers.
type places struct {
	of   map[uint32]*placed
	pods podNames
}

type placed struct {
	blackbox.Place
	groups       string
	described_ns uint64
}

// podLogs is where Kubernetes has a directory for each pod of the machine. Its name says the pod's
// namespace, name and unique id.
const podLogs = "/var/log/pods"

func newPlaces() *places {
	return &places{of: map[uint32]*placed{}, pods: podNames{dir: podLogs}}
}

func (all *places) forgetDescriptions() {
	for _, p := range all.of {
		p.described_ns = 0
	}
}

// use describes where the process of a thread runs, if its cgroup says so.
func (all *places) use(t *name, put func([]blackbox.Event, error) bool, stamp_ns, at uint64) {
	p := all.of[t.process]
	if p == nil || p.groups != t.groups {
		groups := t.groups
		if groups == "" { // it is in no group of version 2: look at the groups of version 1
			groups = groupOf(fmt.Sprintf("/proc/%d/cgroup", t.process))
		}
		p = &placed{Place: placeOf(groups), groups: t.groups}
		p.Process, p.PodName = t.process, all.pods.name(p.Pod)
		all.of[t.process] = p
	}
	if p.Place == (blackbox.Place{Process: t.process}) ||
		p.described_ns != 0 && stamp_ns <= p.described_ns+again_ns {
		return
	}
	put(p.Events(at))
	p.described_ns = stamp_ns
}

// groupOf returns the longest path in a file that says in which cgroups a process is. It returns ""
// if there is no such file.
func groupOf(path string) (longest string) {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if parts := strings.SplitN(lines.Text(), ":", 3); len(parts) == 3 &&
			len(parts[2]) > len(longest) {
			longest = parts[2]
		}
	}
	return longest
}

var (
	containerID = regexp.MustCompile(`^(?:(.+)[-:])?([0-9a-f]{64})$`)
	podID       = regexp.MustCompile(
		`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})$`)
)

// runtimes says which program makes containers whose cgroups have this prefix, or are in a group of
// this name.
var runtimes = map[string]string{
	"docker": "docker", "cri-containerd": "containerd", "nerdctl": "containerd",
	"crio": "cri-o", "libpod": "podman", "libpod_parent": "podman",
}

// placeOf reads the path of a cgroup. These are some of its forms:
//
//	/system.slice/nginx.service
//	/system.slice/docker-ID.scope
//	/docker/ID
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/crio-ID.scope
//	/kubepods/burstable/podUID/ID
func placeOf(path string) (p blackbox.Place) {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		part := parts[i]
		bare := strings.TrimSuffix(strings.TrimSuffix(part, ".scope"), ".slice")
		if id := containerID.FindStringSubmatch(bare); id != nil && p.Container == "" {
			p.Container = id[2]
			// The prefix may be a whole path of its own, as in kubepods-…:cri-containerd:ID.
			by := id[1][strings.LastIndex(id[1], ":")+1:]
			if by == "" && i > 0 {
				by = parts[i-1]
			}
			if p.Runtime = runtimes[by]; p.Runtime == "" {
				p.Runtime = "container"
			}
			p.Unit = "" // a unit in the container
		} else if p.Unit == "" && p.Container == "" && (strings.HasSuffix(part, ".service") ||
			strings.HasSuffix(part, ".scope")) {
			p.Unit = cut(part)
		}
		bare, _, _ = strings.Cut(part, ":")
		bare = strings.TrimSuffix(bare, ".slice")
		if id := podID.FindStringSubmatch(bare); id != nil {
			p.Pod = strings.ReplaceAll(id[1], "_", "-")
		}
	}
	return p
}

// cut shortens a text so that a place has room for it.
func cut(s string) string { return s[:min(len(s), blackbox.MaxText)] }

// podNames knows the names of this machine's pods, by their unique ids.
type podNames struct {
	dir   string
	known map[string]string
}

// name returns the namespace and name of a pod, or "".
func (p *podNames) name(uid string) string {
	if _, ok := p.known[uid]; !ok && uid != "" {
		p.known = map[string]string{uid: ""}
		entries, err := os.ReadDir(p.dir)
		if err != nil {
			return "" // this is no machine of Kubernetes, or the agent may not look
		}
		for _, e := range entries {
			if w := strings.Split(e.Name(), "_"); len(w) == 3 {
				p.known[w[2]] = cut(w[0] + "/" + w[1])
			}
		}
	}
	return p.known[uid]
}
