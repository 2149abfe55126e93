package tscclient

import (
	"encoding/json"
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

	// RealtimeStep is for minrtt.SystemClock: how much later than a stamp of the kernel's its clock
	// may stand, or why no such stamp proves anything here.
	RealtimeStep func() (step_ns uint32, err error)

	kept     Kept
	watching sync.Mutex
	watch    *host.Watch
	named    host.Epoch          // the one that kept knows
	events   *host.RestoreEvents // nil: the kernel tells of none
}

// Kept is where an identity leaves, for the process that comes after it, what nobody else could find out: that the counter jumped, after
// which the same boot has an epoch of another name. Without it, readings from before and after would be taken for those of one epoch. The zero
// value keeps nothing.
type Kept struct {
	Read  func() ([]byte, error) // nil and no error: nothing is kept
	Write func(text []byte)      // empty: nothing is to be kept any more. It has a failure told by itself
}

// Identify measures what holds for readings of this machine's counter, which takes about a second, and begins to watch its
// epoch. An empty name is the host's. An error says that the counter cannot be used. Close the identity.
func Identify(name string, kept Kept) (*Identity, error) {
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
	id := &Identity{Report: report, kept: kept, Node: tscratio.Node{
		Name:            name,
		NominalHz:       (report.Frequency.Lo_millihz/2 + report.Frequency.Hi_millihz/2) / 1000,
		QuantumCycles:   report.Quantum.Step_cycles,
		CoreSlackCycles: report.Slack.Slack_cycles,
	}}
	id.RealtimeStep = host.StampStep(os.DirFS("/"), report.Slack.Cores)
	observer := host.Observer{Root: os.DirFS("/"), Clocks: host.SystemClocks()}
	if events, err := host.ListenRestores(); err == nil {
		id.events, observer.Restores = events, events
	}
	if err := id.begin(host.WatchOptions{
		Observe: observer.Observe, Widen_cycles: id.Node.QuantumCycles + id.Node.CoreSlackCycles,
		Virtual: report.Facts.Hypervisor != "", Listening: id.events != nil && report.Facts.HasVMGenID, Settle: time.Second,
	}); err != nil {
		id.Close()
		return nil, fmt.Errorf("identify node %q: %w", name, err)
	}
	return id, nil
}

// begin watches the epoch from where the process before this one ended, if that left anything.
func (id *Identity) begin(o host.WatchOptions) error {
	if id.kept.Read != nil {
		text, err := id.kept.Read()
		if err != nil {
			return fmt.Errorf("read which epoch it was in: %w", err)
		}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &o.From); err != nil {
				return fmt.Errorf("read which epoch it was in, from %q: %w", text, err)
			}
		}
	}
	var err error
	if id.watch, err = host.NewWatch(o); err != nil {
		return err
	}
	id.Node.Epoch, err = id.look()
	return err
}

// look returns the epoch that the counter is in, and has its name kept if nothing else tells it.
func (id *Identity) look() (string, error) {
	state, err := id.watch.Check()
	if err != nil {
		return "", err
	}
	if state.Epoch != id.named && id.kept.Write != nil {
		var text []byte
		if state.Epoch.Token != "" {
			if text, err = json.Marshal(id.watch.Save()); err != nil {
				return "", fmt.Errorf("write down epoch %s: %w", state.Epoch, err)
			}
		}
		id.kept.Write(text)
		id.named = state.Epoch
	}
	return state.Epoch.String(), nil
}

// Epoch looks whether the counter still runs unbroken, and returns the epoch that it is in.
func (id *Identity) Epoch() (string, error) {
	id.watching.Lock()
	defer id.watching.Unlock()
	if id.watch == nil {
		return "", errors.New("identity is closed")
	}
	return id.look()
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
