package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator/faults"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Matrix is the state of a fleet: of every node, and of every pair in both directions.
type Matrix struct {
	At        time.Time    `json:"at"`
	Server    string       `json:"server"`
	Nodes     []NodeStatus `json:"nodes"`
	Pairs     []PairStatus `json:"pairs"`
	Sweep     *SweepStatus `json:"sweep,omitempty"`
	Run       *RunStatus   `json:"run,omitempty"`
	Unhealthy []string     `json:"unhealthy"` // one line for each kind of fault, the worst first

	// Faults has one sentence for each fault, the worst first.
	Faults []string `json:"faults,omitempty"`

	Generation uint64                    `json:"table_generation,string"`
	ThirdNodes tscratio.ThirdNodes       `json:"third_nodes"` // agreed, any or none
	Refused    map[control.Reason]uint64 `json:"refused,omitempty"`

	// SampledBounds_ns has the bounds of random pairs of a large fleet, sorted. Most of these pairs
	// were not measured.
	SampledBounds_ns []float64 `json:"sampled_bounds_ns,omitempty"`

	// Summary stands for Nodes, Pairs, Faults and SampledBounds_ns, if NodesRequest asks for this.
	Summary *Summary `json:"summary,omitempty"`

	closure        *tscratio.Closure // nil: no pair is related
	readings       map[string]moment // by node: the middle of its newest train
	evaluationTime time.Duration     // how long it took to evaluate
	reasons        map[[2]string]string
	faults         faults.List
}

// A moment is a reading of a node's counter, and the approximate time of the reading.
type moment struct {
	reading uint64
	at      time.Time
}

// NodeStatus is the state of a node.
type NodeStatus struct {
	Name             string `json:"name"`
	Epoch            string `json:"epoch"`
	Alive            bool   `json:"alive"`
	Left             string `json:"left,omitempty"`
	Heard_ns         int64  `json:"heard_ns"` // time since the server last heard from the node
	Virtual          bool   `json:"virtual,omitempty"`
	Machine          string `json:"machine"`
	Address          string `json:"probe_address,omitempty"`
	Software         string `json:"software"`
	Cores            int    `json:"cores,omitempty"`
	Nominal_hz       uint64 `json:"nominal_hz,string"`
	Quantum_cycles   uint64 `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64 `json:"core_slack_cycles,string"`
	Restarts         int    `json:"restarts"`
	TableGeneration  uint64 `json:"table_generation,string"`
	TableError       string `json:"table_error,omitempty"`
	Load             string `json:"load,omitempty"`
	DroppedReports   uint64 `json:"dropped_reports,string"`
	Accused          bool   `json:"accused,omitempty"` // contradictions name this node
}

// PairStatus describes the relation that translates readings of the node From into cycles of the
// node Into.
type PairStatus struct {
	From string `json:"from"`
	Into string `json:"into"`

	// In the middle of the newest train, From's counter showed Reading_cycles, and Into's counter
	// was in [Lo_cycles, Hi_cycles]. In a large fleet, there may be newer trains: see reusedFor.
	Reading_cycles uint64        `json:"reading_cycles,string,omitempty"`
	Lo_cycles      uint64        `json:"lo_cycles,string,omitempty"`
	Hi_cycles      uint64        `json:"hi_cycles,string,omitempty"`
	Bound_ns       float64       `json:"bound_ns"`        // half-width, with closure
	Direct_ns      float64       `json:"direct_bound_ns"` // half-width without closure; 0: none
	LoPath         tscratio.Path `json:"lo_path,omitempty"`
	HiPath         tscratio.Path `json:"hi_path,omitempty"`
	Wander_ppb     float64       `json:"wander_ppb"` // the wander that the bound allows for
	Least_ppb      float64       `json:"least_wander_ppb"`
	Verdict        string        `json:"verdict"` // consistent, suspect or none
	RateLo_ppb     float64       `json:"rate_lo_ppb"`
	RateHi_ppb     float64       `json:"rate_hi_ppb"` // relative to the ratio of the nominal rates
	Age_ns         int64         `json:"age_ns"`      // time since the train of Reading_cycles
	Kernel_percent float64       `json:"kernel_stamps_percent"`
	Trains         uint64        `json:"trains,string"`
	Exchanges      uint64        `json:"exchanges,string"`
	Lost           uint64        `json:"lost,string"`
	Old            bool          `json:"old,omitempty"`      // a node is gone, or in another epoch
	GivenUp        bool          `json:"given_up,omitempty"` // no longer measured
	RoundTrip      *RoundTrip    `json:"round_trip,omitempty"`
	Unhealthy      string        `json:"unhealthy,omitempty"`
}

// NotMeasured reports whether the pair has no bound because a large fleet stopped measuring it.
// That is no fault.
func (p PairStatus) NotMeasured() bool { return p.GivenUp && p.Hi_cycles == 0 }

// Stamps says who took the pair's stamps: the kernel, user space or both.
func (p PairStatus) Stamps() string {
	switch {
	case p.Exchanges == 0:
		return "none"
	case p.Kernel_percent == 0:
		return "user"
	case p.Kernel_percent == 100:
		return "kernel"
	}
	return fmt.Sprintf("kernel %.0f%%", p.Kernel_percent)
}

// Path names the third nodes that narrowed the bound.
func (p PairStatus) Path() string {
	via := map[string]bool{}
	for _, path := range []tscratio.Path{p.LoPath, p.HiPath} {
		if len(path) > 2 {
			for _, n := range path[1 : len(path)-1] {
				via[n] = true
			}
		}
	}
	if len(via) == 0 {
		return "direct"
	}
	return "via " + strings.Join(slices.Sorted(maps.Keys(via)), ", ")
}

// A fleetCopy contains everything from which a Matrix is computed. It is a copy of the core's data,
// because evaluating many pairs takes long and must not block the core.
type fleetCopy struct {
	matrix Matrix
	pairs  []pairCopy
	large  bool
	done   *atomic.Int64 // how many pairs have been evaluated

	// suspects are the nodes that the audit of the relations accuses (tscratio.Audit). One of them
	// is wrong.
	suspects []string
}

type pairCopy struct {
	pair                         // without its trains
	liveCopy      *tscratio.Pair // a copy of live; nil: the pair was evaluated already
	old           bool
	givenUp       bool
	isStale       bool // given up so long ago that it says nothing about the present
	neverMeasured bool
}

// fleetCopy copies everything from which a Matrix is computed. Any goroutine may evaluate the copy.
func (c *core) fleetCopy() *fleetCopy {
	now := c.now()
	s := &fleetCopy{large: c.isLarge(), done: new(atomic.Int64)}
	s.matrix = Matrix{
		At: now, Server: c.instance, Sweep: c.sweepStatus(), Run: c.runStatus(),
		Generation: c.table.Generation, ThirdNodes: c.config.ThirdNodes,
	}
	for _, n := range c.nodesByName() {
		r := n.registered
		status := NodeStatus{
			Name: r.Name, Epoch: r.Epoch, Alive: n.isAlive(), Left: n.goneReason,
			Heard_ns: int64(now.Sub(n.lastHeard)), Virtual: r.Virtual, Machine: r.Machine,
			Address: r.ProbeAddress, Software: r.Software, Cores: r.Cores, Nominal_hz: r.Nominal_hz,
			Quantum_cycles: r.Quantum_cycles, CoreSlack_cycles: r.CoreSlack_cycles,
			Restarts: n.restarts, TableGeneration: n.generation, TableError: n.tableError,
			DroppedReports: n.droppedReports,
		}
		if n.load != nil {
			status.Load = fmt.Sprintf("%d %% busy", n.load.Busy_ppm/10_000)
		}
		s.matrix.Nodes = append(s.matrix.Nodes, status)
	}
	s.matrix.reasons = c.edgeReasons()
	for _, names := range sortedPairs(c.current) {
		p := c.pairs[c.current[names]]
		a, b := c.nodes[names[0]], c.nodes[names[1]]
		k := pairCopy{pair: *p}
		k.liveTrains, k.unsavedTrains = nil, nil
		if !c.mayReuse(p, s.large) {
			k.liveCopy, k.lastEvaluation = p.liveTrains.Since(0), nil
		}
		k.old = a == nil || b == nil || !a.isAlive() || !b.isAlive() ||
			a.registered.Epoch != p.key.epochA || b.registered.Epoch != p.key.epochB
		k.givenUp = s.large && !k.old && s.matrix.reasons[names] == ""
		k.isStale = k.givenUp && now.Sub(p.reportedAt) > c.config.Assumptions.ExtrapolationLimit
		s.pairs = append(s.pairs, k)
	}
	s.addNeverMeasured(c)
	return s
}

// matrix computes a Matrix in the background, and calls its argument with the result. However many
// callers there are, only one computation is under way at a time.
func (c *core) matrix(then func(*Matrix)) {
	c.matrixCallers = append(c.matrixCallers, then)
	if !c.evaluating {
		c.evaluateFleet()
	}
}

func (c *core) evaluateFleet() {
	c.evaluating = true
	wants, s, voided := c.matrixCallers, c.fleetCopy(), c.voided
	c.matrixCallers, c.progress = nil, s
	c.background(func() error { s.evaluate(); return nil }, func(error) {
		c.keepEvaluations(s)
		if c.voided == voided {
			c.evaluated.Store(&s.matrix)
		}
		for _, f := range wants {
			f(&s.matrix)
		}
		c.evaluating, c.progress = false, nil
		if len(c.matrixCallers) > 0 {
			c.evaluateFleet()
		}
	})
}

// evaluate computes the relations of every pair in both directions, and their closure over the
// fleet. If a pair has no new trains, it uses the pair's last evaluation.
func (s *fleetCopy) evaluate() *Matrix {
	began := time.Now()
	m := &s.matrix
	hz := map[string]float64{}
	for _, n := range m.Nodes {
		hz[n.Name] = float64(n.Nominal_hz)
	}
	var all []*tscratio.Relation
	m.readings = map[string]moment{}
	s.evaluatePairs(min(runtime.GOMAXPROCS(0), maxEvaluators))
	for i := range s.pairs {
		k := &s.pairs[i]
		if k.neverMeasured || k.old || k.isStale || k.lastEvaluation.err != nil {
			continue
		}
		e := k.lastEvaluation
		all = append(all, e.bToA, e.aToB)
		for node, reading := range map[string]uint64{k.key.a: e.readA, k.key.b: e.readB} {
			if m.readings[node].at.Before(e.reportedAt) {
				m.readings[node] = moment{reading, e.reportedAt}
			}
		}
	}
	if len(all) > 0 {
		var err error
		if m.closure, err = tscratio.NewClosure(all, m.ThirdNodes); err != nil {
			m.faults.Add(faults.NotClosed, "", err.Error(),
				fmt.Sprintf("fleet cannot be closed over: %v", err))
		} else {
			s.audit(m.closure)
		}
	}
	for i := range s.pairs {
		runtime.Gosched()
		k := &s.pairs[i]
		e := k.lastEvaluation
		m.Pairs = append(m.Pairs,
			s.status(k, k.key.b, k.key.a, e.readB, e.bToA, e.err, m.closure, hz),
			s.status(k, k.key.a, k.key.b, e.readA, e.aToB, e.err, m.closure, hz))
	}
	slices.SortFunc(m.Pairs, comparePairs)
	s.describeFaults()
	if s.large {
		m.sample()
	}
	m.evaluationTime = time.Since(began)
	return m
}

func comparePairs(x, y PairStatus) int {
	return cmp.Or(strings.Compare(x.From, y.From), strings.Compare(x.Into, y.Into))
}

func (s *fleetCopy) audit(closure *tscratio.Closure) {
	audit := closure.Audit(3)
	for i, d := range audit.Disagreements {
		if more := len(audit.Disagreements) - i; i == maxDisagreements {
			s.matrix.faults.AddMany(faults.Contradiction, more, "", "",
				fmt.Sprintf("%d more paths disagree", more))
			break
		}
		path := d.Paths[0]
		s.matrix.faults.Add(faults.Contradiction, path[0]+" to "+path[len(path)-1], "", d.Error())
	}
	for i := range s.matrix.Nodes {
		n := &s.matrix.Nodes[i]
		n.Accused = slices.Equal(audit.Accused, []string{n.Name}) ||
			slices.Contains(audit.Liars, n.Name)
	}
	s.suspects = audit.Accused
}

// maxDisagreements is the largest number of disagreements that a matrix lists. In a large fleet,
// one liar may cause many.
const maxDisagreements = 20

func (s *fleetCopy) status(
	k *pairCopy, from, into string, reading uint64, r *tscratio.Relation, err error,
	closure *tscratio.Closure, hz map[string]float64,
) PairStatus {
	p := PairStatus{
		From: from, Into: into, Verdict: "none",
		Trains: k.trains, Exchanges: k.exchanges, Lost: k.lost, Old: k.old, GivenUp: k.givenUp,
	}
	if k.neverMeasured {
		p.Unhealthy = neverMeasured
		return p
	}
	p.RoundTrip = k.lastEvaluation.roundTrip
	p.Age_ns = int64(s.matrix.At.Sub(k.lastEvaluation.reportedAt))
	if k.stamps > 0 {
		p.Kernel_percent = 100 * float64(k.kernel) / float64(k.stamps)
	}
	if k.complaint != "" {
		ago := s.matrix.At.Sub(k.complaintAt).Round(time.Second)
		p.Unhealthy = fmt.Sprintf("%s (%v ago)", k.complaint, ago)
	}
	if err != nil {
		p.Unhealthy = whyNot(err)
		return p
	}
	p.Verdict = r.Verdict.String()
	p.Wander_ppb = float64(r.Wander) / float64(tscratio.PPB)
	p.Least_ppb = float64(r.Least) / float64(tscratio.PPB)
	if r.Verdict == tscratio.Suspect && p.Unhealthy == "" {
		p.Unhealthy = fmt.Sprintf("suspect: the data need a wander of at least %.3g ppb",
			p.Least_ppb)
	}
	if rate, err := r.Rate(reading); err == nil {
		p.RateLo_ppb, p.RateHi_ppb = rate.PPB(hz[into] / hz[from])
	}
	p.Reading_cycles = reading
	ns := func(i tscratio.Interval) float64 { return float64(i.HalfWidth()) / hz[into] * 1e9 }
	direct, err := r.Translate(reading)
	if err != nil {
		p.Unhealthy = err.Error()
		return p
	}
	p.Direct_ns = ns(direct)
	p.Bound_ns, p.Lo_cycles, p.Hi_cycles = p.Direct_ns, direct.Lo, direct.Hi
	p.LoPath = tscratio.Path{from, into}
	p.HiPath = p.LoPath
	if closure != nil && !k.old && !k.isStale {
		if closed, err := closure.Translate(from, into, reading); err == nil {
			p.Bound_ns, p.Lo_cycles, p.Hi_cycles = ns(closed.Interval), closed.Lo, closed.Hi
			p.LoPath, p.HiPath = closed.LoPath, closed.HiPath
		} else if p.Unhealthy == "" {
			p.Unhealthy = err.Error()
		}
	}
	return p
}

// neverMeasured is the complaint about a pair that should have been measured, but never was.
const neverMeasured = "never measured"

// describeFaults describes in sentences what is unhealthy, and sums the sentences up.
func (s *fleetCopy) describeFaults() {
	m := &s.matrix
	for _, n := range m.Nodes {
		say := func(k faults.Kind, why, sentence string) {
			m.faults.Add(k, n.Name, why, sentence)
		}
		if !n.Alive {
			why := n.Left
			if strings.HasPrefix(why, "silent for") { // for another time than other nodes
				why = "silent"
			}
			say(faults.Gone, why, fmt.Sprintf("node %s is gone: %s", n.Name, n.Left))
		}
		if n.TableError != "" {
			say(faults.NoTable, n.TableError, fmt.Sprintf(
				"node %s does not apply the handler table: %s", n.Name, n.TableError))
		}
		if n.DroppedReports > 0 {
			say(faults.Dropped, "", fmt.Sprintf(
				"node %s had to drop %d reports of trains", n.Name, n.DroppedReports))
		}
		switch {
		case n.Accused && len(s.suspects) == 0:
			say(faults.Contradicts, "", fmt.Sprintf("node %s contradicts nodes that have "+
				"nothing else in common: its counter or its stamps are wrong", n.Name))
		case n.Accused:
			say(faults.Disagrees, "", fmt.Sprintf("every path that disagrees with another leads "+
				"over node %s: its counter or its stamps are wrong", n.Name))
		}
	}
	if len(s.suspects) == 2 {
		a, b := s.suspects[0], s.suspects[1]
		m.faults.Add(faults.OneOfTwo, a+" or "+b, "", fmt.Sprintf("every path that disagrees "+
			"with another leads over nodes %s and %s: the counter or the stamps of one of them "+
			"are wrong", a, b))
	}
	if m.Sweep != nil {
		for _, l := range m.Sweep.Lost {
			if m.Sweep.Running { // the sweep may try the pair again
				break
			}
			m.faults.Add(faults.Unswept, l.A+" with "+l.B, l.Why, fmt.Sprintf(
				"sweep %d did not measure %s with %s: %s", m.Sweep.Number, l.A, l.B, l.Why))
		}
		for _, n := range m.Sweep.Noisy {
			m.faults.Add(faults.Noisy, n.Node, n.What, fmt.Sprintf(
				"sweep %d found node %s not quiet: %s", m.Sweep.Number, n.Node, n.What))
		}
	}
	for _, p := range m.Pairs {
		if p.Unhealthy == "" || p.Old || p.NotMeasured() || p.From > p.Into {
			continue
		}
		kind := faults.Unrelated
		switch {
		case p.Unhealthy == neverMeasured && m.Sweep != nil && m.Sweep.Running:
			kind = faults.NotYet
		case p.Unhealthy == neverMeasured:
			kind = faults.NeverMeasured
		case strings.HasPrefix(p.Unhealthy, "suspect:"):
			kind = faults.Suspect
		}
		m.faults.Add(kind, p.From+" with "+p.Into, p.Unhealthy,
			fmt.Sprintf("%s with %s: %s", p.From, p.Into, p.Unhealthy))
	}
	m.Unhealthy, m.Faults = m.faults.Summary(), m.faults.Sentences()
}

// Healthy reports whether every measured pair of present nodes has the verdict "consistent", and
// the matrix contains no other complaint.
func (m *Matrix) Healthy() bool {
	if m.Summary != nil {
		return m.Summary.Healthy
	}
	for _, p := range m.Pairs {
		if !p.Old && !p.NotMeasured() && p.Verdict != tscratio.Consistent.String() {
			return false
		}
	}
	return len(m.Unhealthy) == 0
}
