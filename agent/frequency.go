package agent

import (
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/host"
)

// runFrequency is the frequency of the node's counter over a run. The measurement begins when the
// run is opened. If the run was already open when this agent started, the measurement begins at the
// agent's start. The measurement ends when the run is closed. The zero value means that there is no
// run.
type runFrequency struct {
	run   string
	epoch string
	begun host.Observation
	is    *control.Frequency // the measured frequency; nil: unknown
}

// beginFrequency makes the reading with which the measurement of a run begins. If the reading
// fails, the agent reports that, but no data are lost.
func (a *Agent) beginFrequency(run string) {
	a.frequency = runFrequency{}
	if a.c.Observe == nil {
		return
	}
	epoch := a.epochs.look()
	begun, err := a.c.Observe()
	if err != nil {
		a.notify(fmt.Errorf("measure the counter's frequency over run %q: %w", run, err))
		return
	}
	a.frequency = runFrequency{run: run, epoch: epoch, begun: begun}
}

// endFrequency makes the reading with which the measurement of a run ends.
func (a *Agent) endFrequency(run string) {
	f := &a.frequency
	if f.run != run {
		return
	}
	ended, err := a.c.Observe()
	if epoch := a.epochs.look(); err == nil && epoch != f.epoch {
		err = fmt.Errorf("the counter was interrupted: its epoch was %q, and is %q", f.epoch, epoch)
	}
	var over host.Frequency
	if err == nil {
		over, err = host.FrequencyOver(f.begun, ended, a.widen_cycles())
	}
	if err != nil {
		a.notify(fmt.Errorf(
			"measure the counter's frequency over run %q, which has an earlier one: %w", run, err))
		return
	}
	f.is = &control.Frequency{Lo_millihz: over.Lo_millihz, Hi_millihz: over.Hi_millihz}
	f.is.Clock = over.Clock + " over the run"
}

// widen_cycles returns how far two readings of the counter at the same moment may differ.
func (a *Agent) widen_cycles() uint64 {
	if a.c.Client == nil {
		return a.c.Quantum_cycles + a.c.CoreSlack_cycles
	}
	node := a.c.Client.Node()
	return node.Quantum_cycles + node.CoreSlack_cycles
}
