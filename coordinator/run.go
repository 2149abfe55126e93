package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Phase is the stage that a run has reached. A run passes through all of these phases, in the order
// of the list. In the comments of the list, anchors are the trains that relate the counters of a
// run's nodes.
type Phase string

const (
	PhaseBefore     Phase = "anchors before" // a sweep
	PhaseOpening    Phase = "opening"        // the server tells nodes to open the run
	PhaseOpen       Phase = "open"           // nodes measure anchors; the workload may run
	PhaseClosing    Phase = "closing"        // the server tells nodes to close the run
	PhaseAfter      Phase = "anchors after"  // a sweep
	PhaseCollecting Phase = "collecting"     // the server fetches the nodes' files
	PhaseComplete   Phase = "complete"
)

// run is the state of the run that is under way.
type run struct {
	named string
	draft *runs.Draft
	phase Phase
	begun time.Time
	// number of nodes that were told to open or close and have not answered
	waiting      int
	opened       map[string]bool // nodes that have opened the run
	missing      []runs.Missing
	collect      []*collection
	stopWhenOpen bool // close the run as soon as it is open
	onlyCollect  bool // the run was complete; only its files are being collected once more
	isAborted    bool // complete the run with the present data, as soon as keeping is 0
	filesMoving  int  // number of files that are being moved into the run

	gathering *gathering              // nil: nobody waits for collectors
	heldLogs  map[string]gatheredLogs // by node: logs that collectors have

	fetching     int                 // nodes whose turn it is; at most maxFetching
	waitingTurns []func(over func()) // what waits for a turn

	// While isCompleting is true, another goroutine makes the run's relations, and only that
	// goroutine may use draft. Meanwhile, status has the run's state.
	isCompleting bool
	status       *RunStatus

	overRun map[string]*control.Frequency // what nodes measured over the run

	channels map[string]int  // by node that closed the run: how many channels it logged
	silent   map[string]bool // nodes that have no log to send

	// returnLimit is the time until which the run waits for nodes to return after a restart of the
	// server. A sweep before this time would find no node. If the run does not wait, returnLimit is
	// zero.
	returnLimit time.Time
}

// RunStatus describes the progress of a run.
type RunStatus struct {
	Name    string         `json:"name"`
	Phase   Phase          `json:"phase"`
	Begun   time.Time      `json:"begun"`
	Nodes   []string       `json:"nodes"` // the nodes that have opened the run
	Pairs   int            `json:"pairs"`
	Trains  int            `json:"trains"`
	Bytes   int64          `json:"bytes,omitempty"` // number of bytes collected so far
	Of      int64          `json:"of,omitempty"`    // number of bytes to collect, if known
	Sweep   *SweepStatus   `json:"sweep,omitempty"`
	Missing []runs.Missing `json:"missing,omitempty"`
	Path    string         `json:"path"` // path on the server's machine
	// Again is true if the run was complete before, and is only collected once more. Then Pairs and
	// Trains are 0.
	Again bool `json:"again,omitempty"`
	// Collectors says, for each collector, for how many nodes it fetched the logs.
	Collectors map[string]int `json:"collectors,omitempty"`
	// NoLogs has the nodes on which no program logged anything.
	NoLogs []string `json:"no_logs,omitempty"`
	// Away lists the nodes that are gone and for which the server still waits, with the time at
	// which it gives up.
	Away    map[string]time.Time `json:"away,omitempty"`
	Problem string               `json:"problem,omitempty"`
}

// takesTrains reports whether new trains belong to the run. They do not if a complete run is only
// collected once more.
func (r *run) takesTrains() bool { return !r.onlyCollect }

func (r *run) name() string { return r.named }

// utcSlack is the assumed error of the server's own clock. The clock only labels runs. No bound
// depends on it.
const utcSlack = time.Second

// RunRequest is the argument of AskStartRun and of the other questions about one run.
type RunRequest struct {
	Name      string `json:"name"`
	Note      string `json:"note,omitempty"`
	Reference string `json:"reference,omitempty"`
}

// startRun begins a run with a sweep. It returns as soon as the run's directory exists.
func (c *core) startRun(r RunRequest) error {
	if c.run != nil {
		return fmt.Errorf("run %q is %s: stop it first", c.run.name(), c.run.phase)
	}
	if r.Reference != "" && (c.nodes[r.Reference] == nil || !c.nodes[r.Reference].isAlive()) {
		return fmt.Errorf("reference node %q is not registered", r.Reference)
	}
	about := runs.Run{
		Version: runs.Version, Name: r.Name, Note: r.Note, Reference: r.Reference,
		Begun:      runs.UTCOf(c.now(), utcSlack),
		Wander_ppt: int64(c.config.Assumptions.Wander),
		Window_ns:  int64(c.config.Assumptions.Window),
	}
	if c.config.AllPairs != runs.DefaultAllPairs {
		about.AllPairs = c.config.AllPairs // older programs refuse a run with this key
	}
	for _, n := range c.nodesByName() {
		if n.isAlive() {
			about.Nodes = append(about.Nodes, runNode(n))
		}
	}
	if err := c.store.removeParts(); err != nil { // parts of a run that could not be resumed
		return err
	}
	if err := c.save(); err != nil { // trains before this moment do not belong to the run
		return err
	}
	draft, err := runs.Create(c.store.runs, about)
	if err != nil {
		return err
	}
	c.run = newRun(draft, PhaseBefore, c.now())
	if c.table.Text != "" {
		err = draft.AddTable(runs.TableChange{
			Served_utc_ns: c.now().UnixNano(), By: "before the run", Table: c.table.Text,
		})
	}
	c.log.Info("run begins", "run", r.Name)
	return errors.Join(err, c.store.putRun(c.run))
}

func newRun(draft *runs.Draft, phase Phase, begun time.Time) *run {
	return &run{
		named: draft.Run().Name, draft: draft, phase: phase, begun: begun,
		opened: map[string]bool{}, overRun: map[string]*control.Frequency{},
		channels: map[string]int{}, silent: map[string]bool{},
	}
}

// noteFrequencies stores the frequencies that nodes measured over the run. They replace those from
// the nodes' registrations, which were measured for a shorter time.
func (r *run) noteFrequencies(run *runs.Run) {
	for i := range run.Nodes {
		if f := r.overRun[run.Nodes[i].Name]; f != nil {
			setFrequency(&run.Nodes[i], f)
		}
	}
}

// stopRun begins to end the open run, and does not wait. RunStatus shows the progress.
func (c *core) stopRun() error {
	switch r := c.run; {
	case r == nil:
		return errors.New("no run is under way")
	case r.phase == PhaseBefore, r.phase == PhaseOpening:
		r.stopWhenOpen = true
		return nil
	case r.phase != PhaseOpen:
		return fmt.Errorf("run %q is %s already", r.name(), r.phase)
	default:
		c.closeRun()
		return nil
	}
}

// stepRun continues a run that waited only for the end of a sweep or for the moment r.returnLimit.
func (c *core) stepRun() {
	r := c.run
	if r == nil || r.isAborted || r.isCompleting || c.sweep != nil ||
		c.now().Before(r.returnLimit) {
		return
	}
	r.returnLimit = time.Time{}
	switch r.phase {
	case PhaseBefore:
		c.sweepFor(r, "before run ")
	case PhaseCollecting:
		if r.onlyCollect && r.collect == nil {
			c.collectAll()
		}
	case PhaseAfter:
		c.sweepFor(r, "after run ")
	}
}

// sweepFor starts the sweep that measures a run's anchors, before or after the run.
func (c *core) sweepFor(r *run, when string) {
	done := func(s *SweepStatus) { c.runSwept(r, s) }
	if err := c.startSweep(when+r.name(), c.config.Sweep, done); err != nil {
		c.log.Error("start a sweep", "error", err)
	}
}

func (c *core) enter(p Phase) {
	if c.run.phase != p {
		c.run.phase = p
		c.log.Info("run continues", "run", c.run.name(), "phase", p)
	}
	if err := c.store.putRun(c.run); err != nil {
		c.log.Error("note a run", "error", err)
	}
}

func (c *core) runSwept(r *run, s *SweepStatus) {
	if c.run != r {
		return
	}
	for _, l := range s.Lost {
		r.lacks(runs.RelationPath(l.A, l.B), fmt.Sprintf("%s: %s", s.Why, l.Why))
	}
	if r.phase == PhaseBefore {
		c.enter(PhaseOpening)
		c.tellNodes(false, func() {
			c.enter(PhaseOpen)
			c.targetsChanged()
			if r.stopWhenOpen {
				c.closeRun()
			}
		})
		return
	}
	c.enter(PhaseCollecting)
	c.gather()
}

// A run states a reason for each part that it lacks. If a node may still provide the part later,
// the reason begins with one of these texts. All other reasons are final.
const (
	openingRun = "opening the run"
	closingRun = "closing the run"
	notFetched = "its logs were not fetched"
	notWhole   = "file is not whole: "
)

// tellNodes orders the nodes to open or close the run. When each of these nodes has answered, or
// has failed to answer, tellNodes calls its function argument.
func (c *core) tellNodes(closing bool, then func()) {
	r := c.run
	var tell []*node
	for _, n := range c.nodesByName() {
		if n.isAlive() && n.can(control.CanRun) && (!closing || r.opened[n.name()]) {
			tell = append(tell, n)
		}
	}
	r.waiting = len(tell)
	if len(tell) == 0 {
		then()
		return
	}
	for _, n := range tell {
		c.tellOne(n, closing, func() {
			if r.waiting--; r.waiting == 0 && c.run == r {
				then()
			}
		})
	}
}

func (c *core) tellOne(n *node, closing bool, then func()) {
	r := c.run
	name := n.name()
	what := openingRun
	if closing {
		what = closingRun
	}
	m := &control.Run{Name: r.name(), Close: closing}
	if closing && !r.onlyCollect {
		m.Collectors = c.collectors()
	}
	c.ask(n, m, c.config.AnswerLimit, what, func(m control.Message, err error) {
		if state, ok := m.(*control.RunState); ok && err == nil {
			r.opened[name] = true
			for _, missing := range state.Missing[:min(len(state.Missing), maxMissingPart)] {
				r.lacks("node "+name, missing)
			}
			if closing {
				r.channels[name] = state.Channels
			}
			if closing && state.Frequency != nil {
				r.overRun[name] = state.Frequency
			}
		} else if err != nil {
			r.lacks("node "+name, what+": "+err.Error())
		}
		then()
	})
}

// joinRun makes a node take part in the present run when the node joins or returns. Depending on
// the phase, it tells the node to open or close the run, or continues to collect the node's files.
func (c *core) joinRun(n *node) {
	c.closeEnded(n)
	r := c.run
	if r == nil || r.isCompleting {
		return
	}
	if r.onlyCollect {
		c.collectOn(n)
		return
	}
	about := runNode(n)
	changed, err := r.addNode(about)
	if changed {
		c.log.Warn("node's counter was interrupted",
			"node", about.Name, "epoch", about.Epoch)
	}
	if err != nil {
		c.log.Error("note a node in the run",
			"node", about.Name, "epoch", about.Epoch, "error", err)
		r.lacks("node "+about.Name, err.Error())
	}
	switch {
	case r.phase == PhaseOpen && n.can(control.CanRun):
		c.tellOne(n, false, func() {})
	case (r.phase == PhaseClosing || r.phase == PhaseAfter) && n.registered.OpenRun == r.name():
		c.tellOne(n, true, func() {}) // it was away when the server told the other nodes
	case r.phase == PhaseCollecting:
		c.collectOn(n)
	}
}

// targetsChanged tells every node which nodes to probe while a run is open. When the run is no
// longer open, it tells them to stop.
func (c *core) targetsChanged() {
	open := c.run != nil && c.run.phase == PhaseOpen
	if !open && !c.anchoring {
		return
	}
	c.anchoring = open
	c.order(c.nodesByName())
}

// nodeChanged does what targetsChanged does, after one node came, changed or went. In a large
// fleet, nodeChanged sends orders only to that node, and to the nodes whose machines have
// connections to the node's machine.
func (c *core) nodeChanged(n *node) {
	open := c.run != nil && c.run.phase == PhaseOpen
	if !open || !c.anchoring || !c.moreThan(c.config.AllPairs, (*node).canBeProbed) {
		c.targetsChanged()
		return
	}
	address := addressOf(n)
	concerned := append(c.wantedNodes(func(other *node) bool {
		return slices.Contains(other.graph.connected, address)
	}), c.talksTo(n)...)
	c.order(append(concerned, n))
}

// orderSome tells some nodes of a large fleet anew which nodes to probe, if a run is open. In a
// small fleet it does nothing: there, all nodes probe all others.
func (c *core) orderSome(nodes []*node) {
	if c.anchoring && c.isLarge() {
		c.order(nodes)
	}
}

// order tells nodes which nodes to probe. In a large fleet, a node probes its neighbours in the
// graph, which it knows without the server. So the server names only the other nodes that it must
// probe: those with which it may exchange tuples.
func (c *core) order(nodes []*node) {
	large := c.isLarge()
	var probing []*node // at least as many as count
	if !large || !c.moreThan(c.config.AllPairs, (*node).canBeProbed) {
		probing = c.wantedNodes((*node).canBeProbed)
	}
	most := int64(c.config.AllPairs)
	if probing != nil {
		most = min(most, int64(len(probing)))
	}
	for _, n := range nodes {
		if !n.canBeProbed() {
			continue
		}
		m := &control.Probing{}
		if c.anchoring {
			o := c.config.Sweep
			m.Manner = control.Manner{
				Exchanges: c.config.TrainExchanges, Timeout_ns: int64(o.Timeout),
				Attempts: o.Attempts, UserStamps: o.UserStamps, Spin_ns: int64(o.Spin),
			}
			// In addition to its TrainExchanges exchanges, a train has one exchange to warm up and
			// one to close the train.
			packets := most * int64(c.config.TrainExchanges+2)
			m.Period_ns = max(1, packets*int64(time.Second)/int64(c.config.Budget))
			m.Neighbours = large
			targets := probing
			if large {
				targets = c.talkPartners(n)
			}
			for _, p := range targets {
				if p != n {
					m.Targets = append(m.Targets, n.target(p))
				}
			}
		}
		c.orderProbing(n, m)
	}
}

func (c *core) runStatus() *RunStatus {
	r := c.run
	switch {
	case r == nil:
		return c.lastRun
	case r.isCompleting:
		return r.status
	}
	s := &RunStatus{
		Name: r.name(), Phase: r.phase, Begun: r.begun,
		Missing: slices.Clone(r.missing), Path: r.draft.Path(), Again: r.onlyCollect,
		Collectors: r.gatheredBy(), NoLogs: r.noLogs(),
	}
	for name := range r.opened {
		s.Nodes = append(s.Nodes, name)
	}
	slices.Sort(s.Nodes)
	s.Pairs, s.Trains = r.draft.Gathered()
	for _, k := range r.collect {
		s.Bytes += k.got
		s.Of += k.of
		if !k.waitEnd.IsZero() {
			if s.Away == nil {
				s.Away = map[string]time.Time{}
			}
			s.Away[k.node] = k.waitEnd
		}
	}
	if c.sweep != nil {
		s.Sweep = c.sweep.status(c.now())
	}
	return s
}

// resumeRun continues the run that was under way when the previous server process ended.
func (c *core) resumeRun(noted *notedRun) error {
	draft, err := runs.Resume(c.store.runs, noted.Name)
	if err != nil {
		return err
	}
	r := newRun(draft, noted.Phase, noted.Begun)
	r.missing, r.onlyCollect = noted.Missing, noted.Again
	if n := draft.Cut(); n > 0 {
		c.log.Warn("the run's trains end in the middle of a block, because a server was killed: "+
			"the block is cut off", "run", noted.Name, "bytes", n)
	}
	for _, name := range noted.Opened {
		r.opened[name] = true
	}
	r.returnLimit = c.now().Add(c.config.Dead)
	// When nodes return, joinRun or closeEnded tells them to open or close the run.
	switch r.phase {
	case PhaseOpening:
		r.phase = PhaseOpen
	case PhaseClosing, PhaseCollecting:
		if !noted.Again {
			r.phase = PhaseAfter
		}
	}
	c.run = r
	if r.phase == PhaseAfter {
		c.endRun()
	}
	c.log.Info("run continues", "run", noted.Name, "phase", r.phase)
	return nil
}
