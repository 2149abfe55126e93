package capture

import (
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// places says where each process runs. The processes are found by their numbers.
type places struct {
	of   map[uint32]*placedProcess
	pods blackbox.PodNames
}

type placedProcess struct {
	blackbox.Place
	groups       string
	described_ns uint64
}

func newPlaces() *places {
	return &places{of: map[uint32]*placedProcess{}, pods: blackbox.PodNames{Dir: blackbox.PodLogs}}
}

func (all *places) forgetDescriptions() {
	for _, p := range all.of {
		p.described_ns = 0
	}
}

// describePlace describes where the process of a thread runs, if the name of its cgroup shows that.
func (all *places) describePlace(t *name, put func([]blackbox.Event, error) bool,
	stamp_ns, at uint64) {
	p := all.of[t.process]
	if p == nil || p.groups != t.groups {
		groups := t.groups
		if groups == "" { // it is in no group of version 2: look at the groups of version 1
			groups = blackbox.GroupOf(fmt.Sprintf("/proc/%d/cgroup", t.process))
		}
		p = &placedProcess{Place: blackbox.PlaceOf(groups), groups: t.groups}
		p.Process, p.PodName = t.process, all.pods.Name(p.Pod)
		all.of[t.process] = p
	}
	if p.Place == (blackbox.Place{Process: t.process}) ||
		p.described_ns != 0 && stamp_ns <= p.described_ns+again_ns {
		return
	}
	put(p.Events(at))
	p.described_ns = stamp_ns
}
