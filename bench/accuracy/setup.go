package accuracy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// Machine has the facts about this machine's counter that are measured before anything else.
type Machine struct {
	Hz             uint64 // cycles a second, for windows and to convert figures
	Quantum_cycles uint64
	Slack_cycles   uint64 // how far two cores may disagree
	Cores          []int  // the cores that this process may use
}

// Micros returns cycles as microseconds.
func (m Machine) Micros(cycles float64) float64 { return cycles / float64(m.Hz) * 1e6 }

// slackTime is the longest time for which core slack (how far the counters of two cores may differ)
// is measured. On a machine without other work, half a second is enough. On a busy machine the
// threads on two cores seldom run at the same time, so the measurement takes longer. Whatever it
// leaves unknown widens every bound.
const slackTime = 5 * time.Second

// examineCounter measures the machine's counter. It takes about a second on an idle machine.
func examineCounter() (Machine, error) {
	r := host.Examine(host.SystemOptions())
	switch {
	case r.Quantum == nil || r.Slack == nil || r.Frequency == nil:
		return Machine{}, errors.New("examine this machine's counter: " +
			"not everything could be measured: see cprof doctor")
	case len(r.Slack.Unmeasured) > 0:
		return Machine{}, fmt.Errorf("examine this machine's counter: "+
			"nothing is known of cores %v: see cprof doctor", r.Slack.Unmeasured)
	}
	slack, err := host.MeasureSlack(host.SlackOptions{
		Cores: r.Slack.Cores, Quantum_cycles: r.Quantum.Step_cycles, Budget: slackTime,
	})
	if err != nil {
		return Machine{}, err
	}
	if len(slack.Unmeasured) > 0 {
		slack = *r.Slack
	}
	return Machine{
		Hz:             (r.Frequency.Lo_millihz/2 + r.Frequency.Hi_millihz/2) / 1000,
		Quantum_cycles: max(r.Quantum.Step_cycles, 1),
		// Core slack was measured twice. Either measurement may have seen a difference that the
		// other did not see.
		Slack_cycles: max(r.Slack.Slack_cycles, slack.Slack_cycles),
		Cores:        r.Slack.Cores,
	}, nil
}

// twoEnds has the two ends between which trains run, and the state that they share. Only one
// goroutine at a time may use it.
type twoEnds struct {
	machine Machine
	pair    *netns.Pair // nil: both ends are on the loopback interface
	clock   minrtt.Clock
	done    func() error
}

// newLab makes two namespaces, or uses the loopback interface.
func newLab(machine Machine, loopback bool) (*twoEnds, error) {
	l := &twoEnds{machine: machine}
	var err error
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return nil, err
	}
	l.done = notice.Close
	l.clock = minrtt.SystemClock(asm.Counter, notice, host.StampStep(os.DirFS("/"), machine.Cores))
	l.clock.Quantum_cycles = l.machine.Quantum_cycles
	if !loopback {
		if l.pair, err = netns.NewPair(); err != nil {
			return nil, errors.Join(err, l.done())
		}
	}
	return l, nil
}

func (l *twoEnds) close() error {
	if l.pair != nil {
		l.pair.Close()
	}
	return l.done()
}

// The method at runs f in the namespace of an end (0 or 1), if the ends have namespaces.
func (l *twoEnds) at(end int, f func() error) error {
	if l.pair == nil {
		return f()
	}
	return l.pair.Do(end, f)
}

func (l *twoEnds) addr(end int) netip.Addr {
	if l.pair == nil {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return l.pair.Addr(end)
}
