package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A sweep measures all pairs of the present nodes, in rounds. Then it tries failed pairs again, in
// up to maxMends further passes.
type sweep struct {
	number  uint64
	why     string
	options SweepOptions
	began   time.Time
	ended   func(*SweepStatus)

	rounds     [][][2]string // rounds that have not begun
	queue      [][2]string   // pairs of the present round that have not begun
	running    int           // number of pairs that are being measured
	inUse      map[string]int
	mends      int // number of passes over failed pairs so far
	doneBefore int // number of pairs that were done when the present pass began
	pairs      int // number of pairs to measure
	done       int
	nodes      int
	round      int
	total      int // number of rounds

	lost map[[2]string]string // pairs that are not measured, and the reasons

	// failed lists, for each node, the peers with which trains failed in the present pass. Either
	// node of such a pair may be to blame. So in the first pass, the sweep postpones the other
	// pairs of both nodes to the next pass. In a later pass, the sweep skips the other pairs of a
	// node whose trains failed with two peers and succeeded with none.
	failed    map[string]map[string]bool
	succeeded map[string]bool

	unansweredLoads int       // number of nodes that have not answered a request for their load
	noisyNodes      []string  // nodes that were not quiet at the last request
	lookFrom        time.Time // when the nodes of this round were first asked
	found           map[string]string
	waited          time.Duration
	askAgainAt      time.Time // when to ask for loads again; zero: not at all
}

// SweepStatus describes the progress or the result of a sweep.
type SweepStatus struct {
	Number    uint64      `json:"number"`
	Why       string      `json:"why"`
	Began     time.Time   `json:"began"`
	Took_ns   int64       `json:"took_ns"`
	Running   bool        `json:"running"`
	Nodes     int         `json:"nodes"`
	Pairs     int         `json:"pairs"`
	Complete  int         `json:"complete"`
	Round     int         `json:"round"`
	Rounds    int         `json:"rounds"`
	Lost      []LostPair  `json:"lost,omitempty"`
	Quiet     string      `json:"quiet"`           // whether the nodes were quiet, in words
	Noisy     []NoisyNode `json:"noisy,omitempty"` // nodes not quiet when their round began
	Waited_ns int64       `json:"waited_ns"`       // time spent in waiting for quiet moments
}

// LostPair is a pair of which a sweep did not measure both directions.
type LostPair struct {
	A   string `json:"a"`
	B   string `json:"b"`
	Why string `json:"why"`
}

// NoisyNode is a node that was not quiet when a round with it began.
type NoisyNode struct {
	Node string `json:"node"`
	What string `json:"what"`
}

// startSweep begins a sweep over all nodes that can be measured. If another sweep is under way,
// startSweep only returns an error. At the end of the new sweep, the core calls the function that
// was passed as ended, unless it is nil.
func (c *core) startSweep(why string, o SweepOptions, ended func(*SweepStatus)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if c.sweep != nil {
		return fmt.Errorf("sweep %d (%s) is under way", c.sweep.number, c.sweep.why)
	}
	c.sweeps++
	c.askedExchanges = max(c.askedExchanges, o.Exchanges)
	s := &sweep{
		number: c.sweeps, why: why, options: o, began: c.now(), ended: ended,
		inUse: map[string]int{}, lost: map[[2]string]string{}, found: map[string]string{},
		failed: map[string]map[string]bool{}, succeeded: map[string]bool{},
	}
	var names []string
	for _, n := range c.nodesByName() {
		if n.canBeProbed() && (len(o.Nodes) == 0 || slices.Contains(o.Nodes, n.name())) {
			names = append(names, n.name())
			if n.lateAnswers > 1 {
				n.lateAnswers, n.muteReason = 1, ""
			}
		}
	}
	s.nodes = len(names)
	if c.isLarge() {
		s.rounds = c.graphRounds(names, why == joinedReason)
	} else {
		for _, round := range roundsOf(len(names)) {
			var pairs [][2]string
			for _, p := range round {
				pairs = append(pairs, [2]string{names[p[0]], names[p[1]]})
			}
			s.rounds = append(s.rounds, pairs)
		}
	}
	for _, round := range s.rounds {
		s.pairs += len(round)
	}
	s.total = len(s.rounds)
	c.sweep, c.sweepBy = s, time.Time{}
	c.nextRound()
	return nil
}

// stepSweep begins a sweep that is due. If a sweep waits until its nodes have little to do,
// stepSweep asks them for their load again from time to time.
func (c *core) stepSweep() {
	now := c.now()
	if s := c.sweep; s != nil {
		if !s.askAgainAt.IsZero() && !now.Before(s.askAgainAt) {
			s.askAgainAt = time.Time{}
			c.askLoads()
		}
		return
	}
	if c.run != nil { // a sweep would disturb the run, which measures its own anchors
		if c.run.takesTrains() {
			c.sweepBy = time.Time{}
		}
		return
	}
	switch {
	case !c.sweepBy.IsZero() && !now.Before(c.sweepBy):
		// This cannot fail: no sweep is under way, and the options are the configured ones.
		_ = c.startSweep(joinedReason, c.config.Sweep, nil)
	case c.config.SweepEvery > 0 && now.Sub(c.sweptAt) >= c.config.SweepEvery:
		_ = c.startSweep("regular", c.config.Sweep, nil)
	}
}

// nextRound begins the next round, or ends the sweep.
func (c *core) nextRound() {
	s := c.sweep
	if len(s.rounds) == 0 {
		if c.beginMend() {
			return
		}
		c.endSweep()
		return
	}
	s.queue, s.rounds = s.rounds[0], s.rounds[1:]
	s.round++
	s.lookFrom = c.now()
	if s.options.Quiet.Over == 0 {
		c.launchPairs()
		return
	}
	c.askLoads()
}

// joinedReason is the reason of a sweep that measures new nodes, or new edges in a large fleet.
const joinedReason = "nodes joined"

// maxMends is the largest number of passes over failed pairs. A pass that completes no pair is the
// last one.
const maxMends = 3

// beginMend begins another pass over those lost pairs whose nodes are both present now. It returns
// false if there is no further pass.
func (c *core) beginMend() bool {
	s := c.sweep
	if s.mends == maxMends || s.mends > 0 && s.done == s.doneBefore {
		return false
	}
	s.mends++
	s.doneBefore = s.done
	clear(s.failed)
	clear(s.succeeded)
	var again [][2]string
	for _, p := range sortedPairs(s.lost) {
		a, b := c.nodes[p[0]], c.nodes[p[1]]
		if a.canBeProbed() && b.canBeProbed() && a.muteReason == "" && b.muteReason == "" {
			delete(s.lost, p)
			again = append(again, p)
		}
	}
	s.rounds = disjointRounds(again)
	if len(s.rounds) == 0 {
		return false
	}
	s.total += len(s.rounds)
	c.nextRound()
	return true
}

// askLoads asks the nodes of the round for their loads.
func (c *core) askLoads() {
	s := c.sweep
	q := s.options.Quiet
	s.noisyNodes = nil
	var ask []*node
	for _, p := range s.queue {
		for _, name := range p {
			if n := c.nodes[name]; n.canBeProbed() && n.muteReason == "" {
				ask = append(ask, n)
			}
		}
	}
	s.unansweredLoads = len(ask)
	if len(ask) == 0 {
		c.launchPairs()
		return
	}
	for _, n := range ask {
		ask := &control.LoadRequest{Over_ns: int64(q.Over)}
		limit := q.Over + 500*time.Millisecond
		c.ask(n, ask, limit, "a look at its load", func(m control.Message, err error) {
			if c.sweep != s {
				return
			}
			if load, ok := m.(*control.Load); ok && err == nil {
				n.load = load
				if what := q.whyNoisy(load); what != "" {
					s.noisyNodes = append(s.noisyNodes, n.name())
					s.found[n.name()] = what
				}
			}
			if s.unansweredLoads--; s.unansweredLoads == 0 {
				c.looked()
			}
		})
	}
}

// whyNoisy says in words why a node with a given load is not quiet. It returns "" for a quiet node.
func (q Quiet) whyNoisy(l *control.Load) string {
	over := max(time.Duration(l.Over_ns), time.Millisecond)
	rate := func(bytes uint64) uint64 { return uint64(float64(bytes) / over.Seconds()) }
	switch received, sent := rate(l.ReceivedBytes), rate(l.SentBytes); {
	case l.Busy_ppm > q.Busy_ppm:
		return fmt.Sprintf("%d %% busy", l.Busy_ppm/10_000)
	case received > q.BytesASecond:
		return fmt.Sprintf("receives %d kB/s", received/1000)
	case sent > q.BytesASecond:
		return fmt.Sprintf("sends %d kB/s", sent/1000)
	}
	return ""
}

func (c *core) looked() {
	s := c.sweep
	waited := c.now().Sub(s.lookFrom)
	if len(s.noisyNodes) > 0 && waited < s.options.Quiet.Limit {
		s.askAgainAt = c.now().Add(s.options.Quiet.Over)
		return
	}
	if len(s.noisyNodes) == 0 {
		for _, p := range s.queue { // the nodes became quiet while the sweep waited
			delete(s.found, p[0])
			delete(s.found, p[1])
		}
	}
	s.waited += waited
	c.launchPairs()
}

// launchPairs starts to measure as many pairs of the round as free cores allow.
func (c *core) launchPairs() {
	s := c.sweep
	for i := 0; i < len(s.queue); {
		p := s.queue[i]
		a, b := c.nodes[p[0]], c.nodes[p[1]]
		why := c.whyUnfit(a, b)
		if why == "" {
			why = s.whySkipped(p)
		}
		if why != "" {
			s.queue = slices.Delete(s.queue, i, i+1)
			s.lost[p] = why
			continue
		}
		if !s.hasRoom(a, b) {
			i++
			continue
		}
		s.queue = slices.Delete(s.queue, i, i+1)
		s.running++
		s.inUse[a.registered.Machine]++
		s.inUse[b.registered.Machine]++
		machines := [2]string{a.registered.Machine, b.registered.Machine}
		end := func(err error) {
			if c.sweep != s {
				return
			}
			s.running--
			s.inUse[machines[0]]--
			s.inUse[machines[1]]--
			s.noteResult(p, err)
			c.launchPairs()
		}
		c.orderProbe(a, b, func(err error) {
			if err != nil || c.sweep != s {
				end(err)
				return
			}
			c.orderProbe(c.nodes[p[1]], c.nodes[p[0]], end)
		})
		if c.sweep != s || len(s.queue) == 0 {
			break
		}
		i = 0
	}
	if c.sweep == s && s.running == 0 && len(s.queue) == 0 {
		c.nextRound()
	}
}

// noteResult records the result of a pair.
func (s *sweep) noteResult(p [2]string, err error) {
	if err == nil {
		s.done++
		s.succeeded[p[0]], s.succeeded[p[1]] = true, true
		return
	}
	s.lost[p] = err.Error()
	for i, name := range p {
		if s.failed[name] == nil {
			s.failed[name] = map[string]bool{}
		}
		s.failed[name][p[1-i]] = true
	}
}

// whySkipped returns the reason why the present pass does not try a pair, or "".
func (s *sweep) whySkipped(p [2]string) string {
	for _, name := range p {
		switch n := len(s.failed[name]); {
		case n > 0 && s.mends == 0, n > 1 && !s.succeeded[name]:
			return fmt.Sprintf("not tried: trains between %q and others failed", name)
		}
	}
	return ""
}

// whyUnfit returns the reason why the given nodes cannot be measured now, or "".
func (c *core) whyUnfit(nodes ...*node) string {
	for _, n := range nodes {
		switch {
		case n == nil:
			return "a node was forgotten"
		case !n.isAlive():
			return fmt.Sprintf("node %q is gone: %s", n.name(), n.goneReason)
		case n.muteReason != "":
			return fmt.Sprintf("node %q is silent: %s", n.name(), n.muteReason)
		}
	}
	return ""
}

// hasRoom reports whether a pair can be measured at the same time as the pairs under way. Each node
// needs one core of its machine for itself. If no other pair uses the two machines, the pair may
// always be measured, even if the machines have too few cores.
func (s *sweep) hasRoom(a, b *node) bool {
	if s.options.Width > 0 {
		return s.running < s.options.Width
	}
	fits := func(machine string, cores, wants int) bool {
		return s.inUse[machine] == 0 || s.inUse[machine]+wants <= cores
	}
	ra, rb := a.registered, b.registered
	if ra.Machine == rb.Machine {
		return fits(ra.Machine, min(ra.Cores, rb.Cores), 2)
	}
	return fits(ra.Machine, ra.Cores, 1) && fits(rb.Machine, rb.Cores, 1)
}

// orderProbe orders one node (from) to probe another node (to).
func (c *core) orderProbe(from, to *node, done func(error)) {
	o := c.sweep.options
	if why := c.whyUnfit(from, to); why != "" {
		done(errors.New(why))
		return
	}
	limit := o.directionLimit()
	probe := &control.Probe{
		Target: from.target(to),
		Manner: control.Manner{
			Exchanges: o.Exchanges, Timeout_ns: int64(o.Timeout), Attempts: o.Attempts,
			UserStamps: o.UserStamps, Spin_ns: int64(o.Spin),
		},
		Trains: o.Trains, Gap_ns: int64(o.Gap), Limit_ns: int64(limit),
	}
	what := fmt.Sprintf("trains with %q", to.name())
	c.ask(from, probe, limit+500*time.Millisecond, what, func(m control.Message, err error) {
		if err == nil {
			if t, ok := m.(*control.Trains); !ok {
				err = fmt.Errorf("node %q answers an order to probe with %s", from.name(), m.Kind())
			} else if t.Error != "" {
				err = fmt.Errorf("%q with %q: %s", from.name(), to.name(), t.Error)
			} else if len(t.Trains) == 0 {
				err = fmt.Errorf("%q with %q: no train", from.name(), to.name())
			}
		}
		done(err)
	})
}

func (c *core) endSweep() {
	s := c.sweep
	status := c.ofKnownNodes(s.status(c.now()))
	status.Running = false
	c.last, c.sweep, c.sweptAt = status, nil, c.now()
	c.log.Info("sweep ended", "why", s.why, "nodes", s.nodes, "pairs", s.pairs,
		"complete", s.done, "took", c.now().Sub(s.began), "quiet", status.Quiet)
	for _, l := range status.Lost {
		c.log.Warn("pair was not measured", "a", l.A, "b", l.B, "why", l.Why)
	}
	c.flush()
	if s.ended != nil {
		s.ended(status)
	}
}

func (s *sweep) status(now time.Time) *SweepStatus {
	t := &SweepStatus{
		Number: s.number, Why: s.why, Began: s.began, Took_ns: int64(now.Sub(s.began)),
		Running: true, Nodes: s.nodes, Pairs: s.pairs, Complete: s.done,
		Round: s.round, Rounds: s.total, Waited_ns: int64(s.waited),
	}
	for _, p := range sortedPairs(s.lost) {
		t.Lost = append(t.Lost, LostPair{p[0], p[1], s.lost[p]})
	}
	for name, what := range s.found {
		t.Noisy = append(t.Noisy, NoisyNode{name, what})
	}
	slices.SortFunc(t.Noisy, func(a, b NoisyNode) int { return strings.Compare(a.Node, b.Node) })
	switch {
	case s.options.Quiet.Over == 0:
		t.Quiet = "nobody looked"
	case len(t.Noisy) > 0:
		t.Quiet = fmt.Sprintf("%d of %d nodes were not quiet", len(t.Noisy), s.nodes)
	default:
		t.Quiet = "quiet"
	}
	return t
}

// sweepStatus returns the status of the present sweep. If there is none, it returns the status of
// the last sweep, or nil before the first sweep.
func (c *core) sweepStatus() *SweepStatus {
	if c.sweep != nil {
		return c.sweep.status(c.now())
	}
	return c.last
}
