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

// Identity describes this machine's node and watches its epoch. Any goroutine may use it.
type Identity struct {
	Node   tscratio.Node
	Report host.Report

	// RealtimeStep can be passed to minrtt.SystemClock. A stamp of the kernel may be earlier than
	// the true time. RealtimeStep returns by how much at most, or the reason why a stamp of the
	// kernel proves nothing.
	RealtimeStep func() (step_ns uint32, err error)

	kept     Kept
	watching sync.Mutex
	watch    *host.Watch
	named    host.Epoch          // the epoch whose name was last passed to Kept.Write
	events   *host.RestoreEvents // reports restores of this virtual machine; nil: cannot listen
}

// Kept stores the epoch for the next process, because that process cannot notice an earlier jump of
// the counter. After a jump, the epoch gets a new name although the machine was not booted. Without
// Kept, the next process would use the old name, and readings from before and after the jump would
// seem to belong to one epoch. The zero Kept stores nothing.
type Kept struct {
	Read  func() ([]byte, error) // returns nil and no error if nothing is stored
	Write func(text []byte)      // empty text: delete what is stored; logs its own errors
}

// Identify measures the properties of this machine's counter, which takes about a second, and
// begins to watch its epoch. An empty name means the host's name. If the counter cannot be used,
// Identify returns an error. The caller must close the identity.
func Identify(name string, kept Kept) (*Identity, error) {
	report := host.Examine(host.SystemOptions())
	if name == "" {
		name = report.Facts.Hostname
	}
	if report.Verdict() == host.Unfit ||
		report.Quantum == nil || report.Slack == nil || report.Frequency == nil {
		for _, f := range report.Findings {
			if f.Verdict == host.Unfit || f.Verdict == host.Unknown {
				return nil, fmt.Errorf("identify node %q: %s: %s: %s (\"cprof doctor\" says more)",
					name, f.Name, f.Detail, f.Remedy)
			}
		}
		return nil, fmt.Errorf("identify node %q: not everything could be measured: "+
			"see \"cprof doctor\"", name)
	}
	if !report.Slack.Known() {
		for _, f := range report.Findings {
			if f.Name == host.CoreSlack {
				return nil, fmt.Errorf("identify node %q: %s: %s: %s",
					name, f.Name, f.Detail, f.Remedy)
			}
		}
	}
	id := &Identity{Report: report, kept: kept, Node: tscratio.Node{
		Name:             name,
		Nominal_hz:       (report.Frequency.Lo_millihz/2 + report.Frequency.Hi_millihz/2) / 1000,
		Quantum_cycles:   report.Quantum.Step_cycles,
		CoreSlack_cycles: report.Slack.Slack_cycles,
	}}
	id.RealtimeStep = host.StampStep(os.DirFS("/"), report.Slack.Cores)
	observer := host.Observer{Root: os.DirFS("/"), Clocks: host.SystemClocks()}
	if events, err := host.ListenRestores(); err == nil {
		id.events, observer.Restores = events, events
	}
	if err := id.watchEpoch(host.WatchOptions{
		Observe: observer.Observe, Widen_cycles: id.Node.Quantum_cycles + id.Node.CoreSlack_cycles,
		Virtual:   report.Facts.Hypervisor != "",
		Listening: id.events != nil && report.Facts.HasVMGenID, Settle: time.Second,
	}); err != nil {
		id.Close()
		return nil, fmt.Errorf("identify node %q: %w", name, err)
	}
	return id, nil
}

// watchEpoch starts to watch the epoch. If an earlier process stored its watch's state with Kept,
// watchEpoch continues from there.
func (id *Identity) watchEpoch(o host.WatchOptions) error {
	if id.kept.Read != nil {
		text, err := id.kept.Read()
		if err != nil {
			return fmt.Errorf("read the epoch that was kept: %w", err)
		}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &o.From); err != nil {
				return fmt.Errorf("read the epoch that was kept, from %q: %w", text, err)
			}
			if o.From != nil && o.From.Version > host.SavedVersion {
				return fmt.Errorf("read the epoch that was kept: version %d: this program knows "+
					"versions up to %d: install the release that wrote it, or a later one",
					o.From.Version, host.SavedVersion)
			}
		}
	}
	var err error
	if id.watch, err = host.NewWatch(o); err != nil {
		return err
	}
	id.Node.Epoch, err = id.presentEpoch()
	return err
}

// presentEpoch returns the present epoch of the counter. If the next process could not find out the
// epoch's name by itself, the name is stored.
func (id *Identity) presentEpoch() (string, error) {
	state, err := id.watch.Check()
	if err != nil {
		return "", err
	}
	if state.Epoch != id.named && id.kept.Write != nil {
		var text []byte
		if state.Epoch.Token != "" {
			if text, err = json.Marshal(id.watch.Save()); err != nil {
				return "", fmt.Errorf("keep epoch %s: %w", state.Epoch, err)
			}
		}
		id.kept.Write(text)
		id.named = state.Epoch
	}
	return state.Epoch.String(), nil
}

// Epoch checks whether the counter has run without interruption, and returns its present epoch.
func (id *Identity) Epoch() (string, error) {
	id.watching.Lock()
	defer id.watching.Unlock()
	if id.watch == nil {
		return "", errors.New("identity is closed")
	}
	return id.presentEpoch()
}

// Counter reads this machine's counter.
func (id *Identity) Counter() uint64 { return asm.Counter() }

// Close stops watching the epoch.
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
