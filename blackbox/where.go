package blackbox

import (
	"bufio"
	"os"
	"regexp"
	"strings"
)

// PodLogs is where Kubernetes has a directory for each pod of the machine. The name of each
// directory consists of the pod's namespace, name and unique id.
const PodLogs = "/var/log/pods"

// GroupOf returns the longest path in a file that says in which cgroups a process is. It returns ""
// if there is no such file.
func GroupOf(path string) (longest string) {
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

// runtimes says which program has made a container. A key is a prefix of the name of the
// container's cgroup, or the name of the group that contains this cgroup.
var runtimes = map[string]string{
	"docker": "docker", "cri-containerd": "containerd", "nerdctl": "containerd",
	"crio": "cri-o", "libpod": "podman", "libpod_parent": "podman",
}

// PlaceOf reads the path of a cgroup. These are some of its forms:
//
//	/system.slice/nginx.service
//	/system.slice/docker-ID.scope
//	/docker/ID
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/crio-ID.scope
//	/kubepods/burstable/podUID/ID
func PlaceOf(path string) (p Place) {
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
			p.Unit = cutText(part)
		}
		bare, _, _ = strings.Cut(part, ":")
		bare = strings.TrimSuffix(bare, ".slice")
		if id := podID.FindStringSubmatch(bare); id != nil {
			p.Pod = strings.ReplaceAll(id[1], "_", "-")
		}
	}
	return p
}

// cutText shortens a text so that a place has room for it.
func cutText(s string) string { return s[:min(len(s), MaxText)] }

// PodNames knows the names of this machine's pods, by their unique ids.
type PodNames struct {
	Dir   string // normally PodLogs
	known map[string]string
}

// Name returns the namespace and name of a pod, or "".
func (p *PodNames) Name(uid string) string {
	if _, ok := p.known[uid]; !ok && uid != "" {
		p.known = map[string]string{uid: ""}
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			return "" // this is no machine of Kubernetes, or the agent may not look
		}
		for _, e := range entries {
			if w := strings.Split(e.Name(), "_"); len(w) == 3 {
				p.known[w[2]] = cutText(w[0] + "/" + w[1])
			}
		}
	}
	return p.known[uid]
}
