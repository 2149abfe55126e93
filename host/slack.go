package host

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrCoresDisagree is returned if the offset between two cores' counters keeps drifting, or if the
// hand-overs of one exchange contradict each other.
var ErrCoresDisagree = errors.New("no constant offset between cores explains the readings")

// Handover is one message from one core to another through shared memory. Core From reads the
// counter before it sends the message (counterBefore). Core To reads the counter after it has
// received the message (counterAfter). So Sent was read before Received. A delayed message proves
// less, but never anything false.
type Handover struct {
	From, To       int
	Sent, Received uint64
}

// handoverOffset returns the largest offset that is possible after a hand-over. The offset is the
// counter of To minus the counter of From at the same instant. When From read its counter, its
// ideal counter (type Quantum) was at least Sent. Later, when To read its counter, the ideal
// counter of To was below Received plus the quantum.
func handoverOffset(h Handover, quantum_cycles int64) int64 {
	return addOutward(int64(h.Received-h.Sent), quantum_cycles)
}

// SlackOptions are the settings of MeasureSlack.
type SlackOptions struct {
	Cores          []int  // all cores on which a program or the kernel may read the counter
	Quantum_cycles uint64 // 0: 1; use the result of MeasureQuantum

	// Budget is the time for measuring. 0 means 500 ms plus 1 ms for each pair, at most 3 s. If the
	// slack is not Known by then, MeasureSlack continues, up to ten times the budget in all.
	Budget time.Duration

	// Exchange passes messages between two cores back and forth, and returns one hand-over in each
	// direction. Between these two hand-overs, no hypervisor moved either core. If Exchange is nil,
	// pingPong is used: two threads that are pinned to the cores.
	Exchange func(a, b int, rounds int, patience time.Duration) (forth, back Handover, err error)
	Now      func() time.Time
}

// CoreSlack is the name of the finding about core slack.
const CoreSlack = "core slack"

// Slack is the result of MeasureSlack: how far the counters of a node's cores may disagree.
type Slack struct {
	Slack_cycles uint64 `json:"slack_cycles,string"` // proven for the cores in the field Cores
	Cores        []int  `json:"cores"`
	Unmeasured   []int  `json:"unmeasured,omitempty"` // requested cores that could not be measured

	// Worst is the pair of cores with the largest possible offset. Between is the interval of this
	// offset.
	Worst   [2]int `json:"worst"`
	Between Cycles `json:"between"`

	Moved     bool `json:"moved,omitempty"` // a pair's offset changed during the measurement
	Exchanges int  `json:"exchanges"`
	Handovers int  `json:"handovers"`
}

// mostSlack_cycles is the largest slack that package tscratio accepts. A counter of 5 GHz takes
// about 200 µs for this number of cycles, and a slower counter takes longer. The counters of real
// cores disagree by far less. If a measured slack is larger, one of the two cores did not run
// during the hand-overs.
const mostSlack_cycles = 1 << 20

// Known reports whether the slack is good enough to use the node's readings: every requested core
// was measured, and the slack is not too large.
func (s Slack) Known() bool { return len(s.Unmeasured) == 0 && s.Slack_cycles <= mostSlack_cycles }

// exchangeRounds is the number of rounds in one exchange of values between two cores. If both cores
// run, it lasts about a millisecond. In that time, some hand-overs find the caches and pipelines of
// both cores at their best. Most hypervisors leave a virtual core in one place for longer than
// that.
const exchangeRounds = 2000

// patienceLooks is a number of successive looks (type lookList). If none of them changes anything,
// measuring ends.
const patienceLooks = 256

// mostBudgets limits how many budgets a measurement may use. A measurement needs more than one
// budget on a busy machine, where two virtual cores seldom run at the same time. MeasureSlack does
// not give up earlier, because a node with a core that was not measured cannot be used.
const mostBudgets = 10

// MeasureSlack passes messages between cores until the budget is used up or nothing changes any
// more. It first measures every core against the core with the lowest number. Then it measures the
// pair with the largest possible offset, and now and then another pair. If the slack is not Known
// after that, it uses more budgets. If an offset drifts, the error wraps ErrCoresDisagree.
//
// The slack is valid for the time of measuring, and for each placement of virtual cores on physical
// cores that was measured (type lookList). It becomes invalid if a later placement has larger
// offsets.
func MeasureSlack(options SlackOptions) (Slack, error) {
	if len(options.Cores) == 0 {
		return Slack{}, errors.New("measure core slack: no cores")
	}
	m := newSlackMeter(options)
	err := m.lookAtAll()
	if err == nil {
		err = m.lookAtWorst()
	}
	if err == nil {
		err = m.lookUntilKnown()
	}
	return m.result(err)
}

// pairLooks contains the measurements of one pair of cores.
type pairLooks struct {
	looks  lookList
	joined Cycles // contains the offset of every measured placement
}

// slackMeter is one measurement of the slack.
type slackMeter struct {
	SlackOptions
	cores    []int // sorted
	pairs    map[[2]int]*pairLooks
	slack    Slack
	deadline time.Time
}

func newSlackMeter(o SlackOptions) *slackMeter {
	if o.Quantum_cycles == 0 {
		o.Quantum_cycles = 1
	}
	if o.Budget == 0 {
		pairs := len(o.Cores) * (len(o.Cores) - 1) / 2
		o.Budget = min(500*time.Millisecond+time.Duration(pairs)*time.Millisecond, 3*time.Second)
	}
	if o.Exchange == nil {
		o.Exchange = pingPong
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &slackMeter{
		SlackOptions: o,
		cores:        slices.Compact(slices.Sorted(slices.Values(o.Cores))),
		pairs:        map[[2]int]*pairLooks{},
		deadline:     o.Now().Add(o.Budget),
	}
}

// lookAtAll measures each core against the core with the lowest number.
func (m *slackMeter) lookAtAll() error {
	for _, core := range m.cores[1:] {
		if _, err := m.measurePair([2]int{m.cores[0], core}); err != nil || m.isLate() {
			return err
		}
	}
	return nil
}

// lookAtWorst measures the worst pair until nothing changes. Every fourth measurement is of another
// pair, because only a new measurement of a core shows that the core's counter drifts.
func (m *slackMeter) lookAtWorst() error {
	worst, between, _ := m.worstPair()
	for idle := 0; idle < patienceLooks && worst[0] != worst[1] && !m.isLate(); idle++ {
		pair := worst
		if m.slack.Exchanges%4 == 0 {
			pair = [2]int{m.cores[0], m.cores[1+m.slack.Exchanges/4%(len(m.cores)-1)]}
		}
		changed, err := m.measurePair(pair)
		if err != nil {
			return err
		}
		if changed {
			before := between
			if worst, between, _ = m.worstPair(); between != before {
				idle = -1
			}
		}
	}
	return nil
}

// lookUntilKnown goes on measuring until the slack is Known, or until all of the mostBudgets
// budgets are used up.
func (m *slackMeter) lookUntilKnown() error {
	m.deadline = m.deadline.Add((mostBudgets - 1) * m.Budget)
	for !m.isLate() {
		pair, between, unknown := m.worstPair()
		switch {
		case len(unknown) > 0:
			pair = [2]int{m.cores[0], unknown[m.slack.Exchanges%len(unknown)]}
		case between.Magnitude() <= mostSlack_cycles:
			return nil
		}
		if _, err := m.measurePair(pair); err != nil {
			return err
		}
	}
	return nil
}

func (m *slackMeter) isLate() bool { return !m.Now().Before(m.deadline) }

// exchangeBudget returns the part of the budget that one exchange may use. It may happen that a
// core does not run at all, because its hypervisor halted it or a real-time task occupies it. Such
// a core must not use up the time of the other cores.
func (m *slackMeter) exchangeBudget() time.Duration {
	return m.Budget / time.Duration(max(1, len(m.cores)-1))
}

// measurePair measures a pair of cores once. changed says whether the pair's interval of offsets
// changed.
func (m *slackMeter) measurePair(pair [2]int) (changed bool, err error) {
	patience := max(0, min(m.exchangeBudget(), m.deadline.Sub(m.Now())))
	forth, back, err := m.Exchange(pair[0], pair[1], exchangeRounds, patience)
	if err != nil {
		return false, fmt.Errorf("measure core slack between cores %d and %d: %w",
			pair[0], pair[1], err)
	}
	m.slack.Exchanges++
	if forth.From == forth.To || back.From == back.To {
		return false, nil // no round was completed
	}
	m.slack.Handovers += 2
	q := int64(min(m.Quantum_cycles, math.MaxInt64))
	between := Cycles{-max(handoverOffset(back, q), -math.MaxInt64), handoverOffset(forth, q)}
	if between.Empty() {
		return false, fmt.Errorf("measure core slack: relate cores %d and %d: "+
			"offset must be %v: %w", pair[0], pair[1], between, ErrCoresDisagree)
	}
	p := m.pairs[pair]
	if p == nil {
		p = new(pairLooks)
		m.pairs[pair] = p
	}
	before := p.joined
	p.looks = append(p.looks, between)
	p.joined = p.looks.joinedInterval()
	return p.joined != before, nil
}

// worstPair returns the pair of cores with the largest possible offset, the interval of that
// offset, and the cores that have not been measured.
func (m *slackMeter) worstPair() (pair [2]int, between Cycles, unknown []int) {
	known := m.cores[:1:1]
	for _, core := range m.cores[1:] {
		if m.pairs[[2]int{m.cores[0], core}] != nil {
			known = append(known, core)
		} else {
			unknown = append(unknown, core)
		}
	}
	for i, a := range known {
		for _, b := range known[i+1:] {
			c := m.offsetBetween(a, b)
			if pair[0] == pair[1] || c.Magnitude() > between.Magnitude() {
				pair, between = [2]int{a, b}, c
			}
		}
	}
	return pair, between, unknown
}

// offsetBetween returns an interval of the possible offsets of two cores. If the pair was measured,
// that is the measured interval. If not, it follows from the offsets between each of the two cores
// and the core with the lowest number. A measured interval is never intersected with the one that
// follows in this way, for the reason given at type lookList.
func (m *slackMeter) offsetBetween(a, b int) Cycles {
	if p := m.pairs[[2]int{a, b}]; p != nil {
		return p.joined
	}
	toA, toB := m.pairs[[2]int{m.cores[0], a}].joined, m.pairs[[2]int{m.cores[0], b}].joined
	return Cycles{
		-addOutward(-toB.Lo_cycles, toA.Hi_cycles),
		addOutward(toB.Hi_cycles, -toA.Lo_cycles),
	}
}

func (m *slackMeter) result(err error) (Slack, error) {
	s := m.slack
	for pair, p := range m.pairs {
		l := p.looks
		s.Moved = s.Moved || l.hasMoved()
		if err == nil && l.keepsMoving() {
			err = fmt.Errorf("measure core slack: cores %d and %d: "+
				"the offset was in %v, and at last in %v: %w",
				pair[0], pair[1], l[:(len(l)+1)/2].joinedInterval(), l[len(l)-1], ErrCoresDisagree)
		}
	}
	s.Worst, s.Between, s.Unmeasured = m.worstPair()
	s.Slack_cycles = s.Between.Magnitude()
	for _, core := range m.cores {
		if !slices.Contains(s.Unmeasured, core) {
			s.Cores = append(s.Cores, core)
		}
	}
	if errors.Is(err, ErrCoresDisagree) {
		s.Slack_cycles = math.MaxUint64
	}
	return s, err
}

const keepTogether = "run it in the cpuset of the programs that are measured (AllowedCPUs=), " +
	"or in that of the whole machine"

func (s Slack) finding(f Facts, err error) Finding {
	const name = CoreSlack
	switch {
	case errors.Is(err, ErrCoresDisagree):
		return Finding{name, Unfit,
			"the cores' counters do not keep a constant distance: " + err.Error(),
			"update the firmware, disable features that set the TSC of single cores, or keep " +
				"this and all instrumented programs in a cpuset of one core (AllowedCPUs=N)"}
	case err != nil:
		return Finding{name, Unknown, err.Error(),
			"allow sched_setaffinity(2), or state the slack yourself"}
	case len(s.Cores) == 1 && len(s.Unmeasured) == 0:
		if len(f.Cores.Online) > 1 {
			detail := fmt.Sprintf("this process may run on core %d alone, of %d: "+
				"nothing is known about programs on the others", s.Cores[0], len(f.Cores.Online))
			return Finding{name, Warning, detail, keepTogether}
		}
		return Finding{name, Fit, "one core: nothing to disagree with", ""}
	}
	detail := fmt.Sprintf("%d cores agree within %d cycles, proven by %d hand-overs; "+
		"widest between cores %d and %d: %v", len(s.Cores), s.Slack_cycles,
		s.Handovers*exchangeRounds, s.Worst[0], s.Worst[1], s.Between)
	out := Finding{name, Fit, detail, ""}
	if s.Moved {
		out.Verdict = Warning
		out.Detail += "; an offset changed meanwhile, and the slack covers those that were seen"
		out.Remedy = "have the hypervisor pin virtual cores to cores"
	}
	switch {
	case len(s.Unmeasured) > 0:
		out.Verdict = Unknown
		out.Detail = fmt.Sprintf("cores that could not be reached, and of which nothing is known: "+
			"%s; %d agree within %d cycles", listCores(s.Unmeasured), len(s.Cores), s.Slack_cycles)
		out.Remedy = "run it again when the machine is less busy, or keep it and the programs " +
			"that are measured to a cpuset without those cores (AllowedCPUs=)"
	case !s.Known():
		out.Verdict = Unknown
		out.Detail += fmt.Sprintf("; no bound can be given with more than %d", mostSlack_cycles)
		out.Remedy = "run it again when the machine is less busy"
	case len(f.Cores.Online) > len(s.Cores):
		out.Verdict = Warning
		out.Detail += fmt.Sprintf("; %d more cores are online, on which this process may not run",
			len(f.Cores.Online)-len(s.Cores))
		out.Remedy = keepTogether
	}
	return out
}
