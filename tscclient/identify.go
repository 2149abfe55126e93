package tscclient

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// An Identity is what this machine's node is. Any goroutine may use it.
type Identity struct {
	Node   tscratio.Node
	Report host.Report

	watching sync.Mutex
	watch    *host.Watch
	events   *host.RestoreEvents // nil: the kernel tells of none
}

// Identify measures what holds for readings of this machine's counter, which takes about a second, and begins to watch its
// epoch. An empty name is the host's. An error says that the counter cannot be used. Close the identity.
func Identify(name string) (*Identity, error) {
	report := host.Examine(host.SystemOptions())
	if name == "" {
		name = report.Facts.Hostname
	}
	if report.Verdict() == host.Unfit || report.Quantum == nil || report.Slack == nil || report.Frequency == nil {
		for _, f := range report.Findings {
			if f.Verdict == host.Unfit || f.Verdict == host.Unknown {
				return nil, fmt.Errorf("identify node %q: %s: %s: %s (\"cprof doctor\" says more)", name, f.Name, f.Detail, f.Remedy)
			}
		}
		return nil, fmt.Errorf("identify node %q: not everything could be measured: see \"cprof doctor\"", name)
	}
	if !report.Slack.Known() {
		for _, f := range report.Findings {
			if f.Name == host.CoreSlack {
				return nil, fmt.Errorf("identify node %q: %s: %s: %s", name, f.Name, f.Detail, f.Remedy)
			}
		}
	}
	id := &Identity{Report: report, Node: tscratio.Node{
		Name:            name,
		NominalHz:       (report.Frequency.Lo_millihz/2 + report.Frequency.Hi_millihz/2) / 1000,
		QuantumCycles:   report.Quantum.Step_cycles,
		CoreSlackCycles: report.Slack.Slack_cycles,
	}}
	observer := host.Observer{Root: os.DirFS("/"), Clocks: host.SystemClocks()}
	if events, err := host.ListenRestores(); err == nil {
		id.events, observer.Restores = events, events
	}
	var err error
	id.watch, err = host.NewWatch(host.WatchOptions{
		Observe: observer.Observe, Widen_cycles: id.Node.QuantumCycles + id.Node.CoreSlackCycles,
		Virtual: report.Facts.Hypervisor != "", Listening: id.events != nil && report.Facts.HasVMGenID, Settle: time.Second,
	})
	if err != nil {
		id.Close()
		return nil, fmt.Errorf("identify node %q: %w", name, err)
	}
	id.Node.Epoch = id.watch.Epoch().String()
	return id, nil
}

// Epoch looks whether the counter still runs unbroken, and returns the epoch that it is in.
func (id *Identity) Epoch() (string, error) {
	id.watching.Lock()
	defer id.watching.Unlock()
	if id.watch == nil {
		return "", errors.New("identity is closed")
	}
	state, err := id.watch.Check()
	if err != nil {
		return "", err
	}
	return state.Epoch.String(), nil
}

// Counter reads the counter whose identity this is.
func (id *Identity) Counter() uint64 { return asm.Counter() }

// Close ends the watch.
func (id *Identity) Close() error {
	id.watching.Lock()
	defer id.watching.Unlock()
	id.watch = nil
	if id.events == nil {
		return nil
	}
	events := id.events
	id.events = nil
	return events.Close()
}
