package host

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrCoresDisagree is returned when hand-overs between cores contradict every constant offset between their counters.
var ErrCoresDisagree = errors.New("no constant offset between cores explains the readings")

// Handover is one message from core to core through shared memory, with the reading of the counter before it was
// sent on From (counterBefore) and after it was received on To (counterAfter). It proves that the first reading was
// taken before the second, and nothing else: a hand-over that was delayed proves less, never something false.
type Handover struct {
	From, To       int
	Sent, Received uint64
}

// Offsets is what hand-overs prove about the counters of a node's cores, provided that the offset of each pair
// stayed constant meanwhile. The offset between cores a and b is b's counter less a's at one instant.
//
// It is a matrix of upper bounds, closed under the triangle rule: o(a,c) = o(a,b) + o(b,c), rounded outward. Not safe for concurrent use.
type Offsets struct {
	cores   []int
	index   map[int]int
	atMost  []int64 // [i·n + j]: offset from core i to core j is at most this; MaxInt64 where nothing is known
	quantum int64
}

// NewOffsets starts with nothing known. Readings are widened by the quantum, because one may be that much younger
// than the counter behind it.
func NewOffsets(cores []int, quantum_cycles uint64) *Offsets {
	cores = slices.Compact(slices.Sorted(slices.Values(cores)))
	o := &Offsets{cores: cores, index: map[int]int{}, quantum: int64(min(quantum_cycles, math.MaxInt64))}
	for i, core := range cores {
		o.index[core] = i
	}
	o.atMost = make([]int64, len(cores)*len(cores))
	for i := range o.atMost {
		o.atMost[i] = math.MaxInt64
	}
	for i := range cores {
		o.atMost[i*len(cores)+i] = 0
	}
	return o
}

// Add takes one hand-over in. The error wraps ErrCoresDisagree where it contradicts what the others prove; then
// Between is empty for the pair, and no slack can be given.
func (o *Offsets) Add(h Handover) error {
	from, ok := o.index[h.From]
	to, ok2 := o.index[h.To]
	if !ok || !ok2 {
		return fmt.Errorf("add hand-over from core %d to core %d: not among cores %v", h.From, h.To, o.cores)
	}
	if from == to {
		return fmt.Errorf("add hand-over: both ends on core %d", h.From)
	}
	// Sent ≤ ideal < Sent + q on one core, and the ideal reading on the other is < Received + q.
	bound := addOutward(int64(h.Received-h.Sent), o.quantum)
	n := len(o.cores)
	if bound >= o.atMost[from*n+to] {
		return nil
	}
	for i := range n {
		left := o.atMost[i*n+from]
		if left == math.MaxInt64 {
			continue
		}
		left = addOutward(left, bound)
		for j := range n {
			if b := addOutward(left, o.atMost[to*n+j]); b < o.atMost[i*n+j] {
				o.atMost[i*n+j] = b
			}
		}
	}
	if between, _ := o.Between(h.From, h.To); between.Empty() {
		return fmt.Errorf("relate cores %d and %d: offset must be %v: %w", h.From, h.To, between, ErrCoresDisagree)
	}
	return nil
}

// Between returns the proven offset from core a to core b, and whether it is bounded on both sides.
func (o *Offsets) Between(a, b int) (Cycles, bool) {
	i, ok := o.index[a]
	j, ok2 := o.index[b]
	if !ok || !ok2 {
		return Cycles{math.MinInt64, math.MaxInt64}, false
	}
	return o.between(i, j)
}

func (o *Offsets) between(i, j int) (Cycles, bool) {
	n := len(o.cores)
	up, down := o.atMost[i*n+j], o.atMost[j*n+i]
	c := Cycles{Lo_cycles: math.MinInt64, Hi_cycles: up}
	if down != math.MaxInt64 {
		c.Lo_cycles = -max(down, -math.MaxInt64)
	}
	return c, up != math.MaxInt64 && down != math.MaxInt64
}

// Slack returns the largest disagreement that is possible between two of the cores that are related to the first
// one, the pair that allows it, and the cores about which nothing is known.
func (o *Offsets) Slack() (slack_cycles uint64, worst [2]int, unknown []int) {
	var known []int
	for i := range o.cores {
		if _, ok := o.between(0, i); ok {
			known = append(known, i)
		} else {
			unknown = append(unknown, o.cores[i])
		}
	}
	for x, i := range known {
		for _, j := range known[x+1:] {
			c, _ := o.between(i, j)
			if m := c.Magnitude(); m > slack_cycles || worst[0] == worst[1] {
				slack_cycles, worst = m, [2]int{o.cores[i], o.cores[j]}
			}
		}
	}
	return slack_cycles, worst, unknown
}

// SlackOptions says how MeasureSlack works.
type SlackOptions struct {
	Cores          []int         // all on which a program or the kernel may read the counter
	Quantum_cycles uint64        // default 1; take it from MeasureQuantum
	Budget         time.Duration // default 500 ms and 2 ms for each core beyond two; ten times as long where that does not make it Known

	// Exchange passes a message between two cores back and forth and returns the hand-over that proves most in
	// each direction. Default: two threads pinned to the cores.
	Exchange func(a, b int, rounds int, patience time.Duration) (forth, back Handover, err error)
	Now      func() time.Time
}

// CoreSlack is the name of the finding that a Slack makes.
const CoreSlack = "core slack"

// Slack is how far the cores of a node may disagree.
type Slack struct {
	Slack_cycles uint64 `json:"slack_cycles,string"` // proven for Cores
	Cores        []int  `json:"cores"`
	Unmeasured   []int  `json:"unmeasured,omitempty"` // cores asked for, about which nothing is known
	Worst        [2]int `json:"worst"`                // the pair with the largest possible disagreement,
	Between      Cycles `json:"between"`              // and its interval
	Exchanges    int    `json:"exchanges"`
	Handovers    int    `json:"handovers"`
}

// No relation takes a slack above this (package tscratio): 200 µs and more. Cores never disagree by so little less than that; hand-overs
// during which an end did not run prove no better.
const mostSlack_cycles = 1 << 20

// Known says whether a node's readings may be used with this slack: every core was related, and closely enough.
func (s Slack) Known() bool { return len(s.Unmeasured) == 0 && s.Slack_cycles <= mostSlack_cycles }

// Rounds in one exchange: a third of a millisecond between two cores that both run.
const exchangeRounds = 1000

// Most exchanges gain nothing: the best hand-over needs both caches and both pipelines at their best, and a
// hypervisor moves cores about. A few hundred in a row without gain are the end of it.
const patienceExchanges = 512

// On a busy machine the two ends seldom run at one time. Whoever takes a core that was never reached for one that agrees states a false
// bound, so such a machine gets so many budgets.
const mostBudgets = 10

// MeasureSlack passes messages between cores until the budget is used up or nothing improves. Every core is first
// related to the lowest one; then the pair that is known worst is measured directly, and now and then the others
// again. A slack that is not Known by then gets more time. The error wraps ErrCoresDisagree where no constant offsets explain the readings.
//
// The statement is about the time of measuring. A hypervisor may later run a virtual core on another socket, and
// then it holds only if the sockets' counters agree as well.
func MeasureSlack(options SlackOptions) (Slack, error) {
	o := options
	if len(o.Cores) == 0 {
		return Slack{}, errors.New("measure core slack: no cores")
	}
	if o.Quantum_cycles == 0 {
		o.Quantum_cycles = 1
	}
	if o.Budget == 0 {
		o.Budget = 500*time.Millisecond + time.Duration(max(0, len(o.Cores)-2))*2*time.Millisecond
	}
	if o.Exchange == nil {
		o.Exchange = pingPong
	}
	if o.Now == nil {
		o.Now = time.Now
	}

	offsets := NewOffsets(o.Cores, o.Quantum_cycles)
	cores := offsets.cores
	s := Slack{}
	deadline := o.Now().Add(o.Budget)
	// One core that does not run (halted by its hypervisor, held by a real-time task) must not eat the others' time.
	share := o.Budget / time.Duration(max(1, len(cores)-1))
	exchange := func(a, b int) error {
		forth, back, err := o.Exchange(a, b, exchangeRounds, max(0, min(share, deadline.Sub(o.Now()))))
		if err != nil {
			return fmt.Errorf("measure core slack between cores %d and %d: %w", a, b, err)
		}
		s.Exchanges++
		for _, h := range []Handover{forth, back} {
			if h.From == h.To {
				continue // that direction was never completed
			}
			s.Handovers++
			if err := offsets.Add(h); err != nil {
				return fmt.Errorf("measure core slack: %w", err)
			}
		}
		return nil
	}

	var err error
	for _, core := range cores[1:] {
		if err = exchange(cores[0], core); err != nil || !o.Now().Before(deadline) {
			break
		}
	}
	for idle := 0; err == nil && idle < patienceExchanges && o.Now().Before(deadline); idle++ {
		before, worst, _ := offsets.Slack()
		if worst[0] == worst[1] {
			break
		}
		pair := worst
		if s.Exchanges%4 == 0 { // a core that drifts shows when it is measured again, however well it was known
			pair = [2]int{cores[0], cores[1+s.Exchanges/4%(len(cores)-1)]}
		}
		if err = exchange(pair[0], pair[1]); err != nil {
			break
		}
		if after, _, _ := offsets.Slack(); after < before {
			idle = -1
		}
	}
	deadline = deadline.Add((mostBudgets - 1) * o.Budget)
	for err == nil && o.Now().Before(deadline) {
		slack, pair, unknown := offsets.Slack()
		switch {
		case len(unknown) > 0:
			pair = [2]int{cores[0], unknown[s.Exchanges%len(unknown)]}
		case slack <= mostSlack_cycles:
			deadline = o.Now()
			continue
		}
		err = exchange(pair[0], pair[1])
	}
	s.Slack_cycles, s.Worst, s.Unmeasured = offsets.Slack()
	s.Between, _ = offsets.Between(s.Worst[0], s.Worst[1])
	for _, core := range cores {
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
		return Finding{name, Unfit, "the cores' counters do not keep a constant distance: " + err.Error(),
			"update the firmware, disable features that set the TSC of single cores, " +
				"or keep this and all instrumented programs in a cpuset of one core (AllowedCPUs=N)"}
	case err != nil:
		return Finding{name, Unknown, err.Error(), "allow sched_setaffinity(2), or state the slack yourself"}
	case len(s.Cores) == 1 && len(s.Unmeasured) == 0:
		if len(f.Cores.Online) > 1 {
			return Finding{name, Warning, fmt.Sprintf("this process may run on core %d alone, of %d: nothing is known about programs on the others", s.Cores[0], len(f.Cores.Online)),
				keepTogether}
		}
		return Finding{name, Fit, "one core: nothing to disagree with", ""}
	}
	out := Finding{name, Fit, fmt.Sprintf("%d cores agree within %d cycles, proven by %d hand-overs; widest between cores %d and %d: %v",
		len(s.Cores), s.Slack_cycles, s.Handovers*exchangeRounds, s.Worst[0], s.Worst[1], s.Between), ""}
	switch {
	case len(s.Unmeasured) > 0:
		out.Verdict = Unknown
		out.Detail = fmt.Sprintf("cores that could not be reached, and of which nothing is known: %s; %d agree within %d cycles", listCores(s.Unmeasured), len(s.Cores), s.Slack_cycles)
		out.Remedy = "run it again when the machine is less busy, " +
			"or keep it and the programs that are measured to a cpuset without those cores (AllowedCPUs=)"
	case !s.Known():
		out.Verdict = Unknown
		out.Detail += fmt.Sprintf("; no bound can be given with more than %d", mostSlack_cycles)
		out.Remedy = "run it again when the machine is less busy"
	case len(f.Cores.Online) > len(s.Cores):
		out.Verdict = Warning
		out.Detail += fmt.Sprintf("; %d more cores are online, on which this process may not run", len(f.Cores.Online)-len(s.Cores))
		out.Remedy = keepTogether
	}
	return out
}
