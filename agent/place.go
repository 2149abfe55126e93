package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// processPlaces finds the pod, the container or the unit of systemd of each process that logs
// events. The answer is only for display, because it relies on the process id that a program wrote
// into its ring.
type processPlaces struct {
	proc string // the directory of processes
	mu   sync.Mutex
	pods blackbox.PodNames
}

func newPlaces(proc string) *processPlaces {
	return &processPlaces{proc: proc, pods: blackbox.PodNames{Dir: blackbox.PodLogs}}
}

// placeOf returns where a process runs, or "" if that cannot be found out: the process has ended,
// or it is in a container whose processes the agent does not see.
func (p *processPlaces) placeOf(pidNamespace uint64, processID int) string {
	dir := p.find(pidNamespace, strconv.Itoa(processID))
	if dir == "" {
		return ""
	}
	at := blackbox.PlaceOf(blackbox.GroupOf(filepath.Join(dir, "cgroup")))
	if at.Pod != "" {
		p.mu.Lock()
		at.PodName = p.pods.Name(at.Pod)
		p.mu.Unlock()
	}
	if at.PodName == "" {
		environment, _ := plainfile.Read(filepath.Join(dir, "environ"), 1<<22)
		at.PodName = podOf(environment, at.Pod != "")
	}
	return describe(at)
}

// find returns the directory of a process. The process may have a different number in its own
// namespace than it has here.
func (p *processPlaces) find(namespace uint64, id string) string {
	inside := func(dir string) bool {
		var st unix.Stat_t
		return unix.Stat(filepath.Join(dir, "ns/pid"), &st) == nil && st.Ino == namespace
	}
	own := filepath.Join(p.proc, "self")
	if namespace == 0 || inside(own) {
		return filepath.Join(p.proc, id)
	}
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		dir := filepath.Join(p.proc, e.Name())
		if _, err := strconv.Atoi(e.Name()); err != nil || !inside(dir) {
			continue
		}
		status, _ := plainfile.Read(filepath.Join(dir, "status"), 1<<16)
		_, after, _ := bytes.Cut(status, []byte("\nNSpid:"))
		line, _, _ := bytes.Cut(after, []byte("\n"))
		if ids := strings.Fields(string(line)); len(ids) > 0 && ids[len(ids)-1] == id {
			return dir
		}
	}
	return ""
}

// podOf returns the name of a pod as the downward API gives it to a program, in the variables
// POD_NAMESPACE and POD_NAME. In a pod, the host's name is the pod's name, too.
func podOf(environment []byte, inPod bool) string {
	var namespace, name, host string
	for v := range bytes.SplitSeq(environment, []byte{0}) {
		key, value, _ := strings.Cut(string(v), "=")
		switch key {
		case "POD_NAMESPACE":
			namespace = value
		case "POD_NAME":
			name = value
		case "HOSTNAME":
			host = value
		}
	}
	if name == "" && inPod {
		name = host
	}
	if namespace != "" && name != "" {
		name = namespace + "/" + name
	}
	return name
}

// describe puts a place into words, such as "pod shop/cart-1, container 3fca5e1d0f8c".
func describe(at blackbox.Place) string {
	const short = 12 // characters of a container's id, as the tools of containers show it
	var words []string
	switch {
	case at.PodName != "":
		words = append(words, "pod "+at.PodName)
	case at.Pod != "":
		words = append(words, "pod "+at.Pod)
	}
	if at.Container != "" {
		words = append(words, at.Runtime+" "+at.Container[:min(short, len(at.Container))])
	}
	if len(words) == 0 && strings.HasSuffix(at.Unit, ".service") {
		words = append(words, "unit "+at.Unit)
	}
	text := strings.ToValidUTF8(strings.Join(words, ", "), "?")
	return text[:min(len(text), maxPlace)]
}

// maxPlace is the largest length of the text about a place. The text comes from the program, and
// must not fill the headers of logs.
const maxPlace = 200
