package coordinator

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// A Link is how a server reaches its peers. *control.Server is one.
type Link interface {
	Send(to control.Peer, request uint64, m control.Message) error
	Forget(control.Peer) // undo the peer's registration
	Admit(control.Peer)  // treat the peer as registered
}

// core contains the rules of the server. It never waits. Its caller calls handle for each message,
// and calls tick when time has passed. The core sends messages through its network. Only one
// goroutine may use it.
type core struct {
	config   Config
	now      func() time.Time
	network  Link
	store    *Store
	log      *slog.Logger
	instance string

	// background runs the function work on another goroutine. Then it calls the function done on
	// the core's goroutine, with the error that work returned. The default, which tests use, calls
	// both functions immediately, one after the other.
	background func(work func() error, done func(error))

	// timeSince returns how much time has passed since a given moment. The core charges this time
	// to a node's share (share.go). The default, which tests use, returns 0.
	timeSince func(began time.Time) time.Duration

	// random returns a random number from 0 to n − 1. Simulations replace it.
	random func(n int) int

	nodes     map[string]*node
	peers     map[control.Peer]*node
	byAddress map[string][]*node // by the address at which they are probed
	learnt    learntPairs

	untoldNodes map[*node]bool // nodes that tellGraph must look at
	members     []*node        // of the graph; some are gone

	pairs   map[pairKey]*pair
	current map[[2]string]pairKey // by two nodes' names, sorted: the pair of their newest epochs

	requests uint64
	pending  map[uint64]*pendingRequest

	// nodesDue is a time until which no node needs a tick: see nextOfNodes.
	nodesDue time.Time

	sweep          *sweep
	sweepBy        time.Time // when the sweep for nodes that joined is due; zero: none is due
	sweptAt        time.Time // when the last sweep ended
	last           *SweepStatus
	sweeps         uint64
	askedExchanges int // the most exchanges in a train, over all sweeps that were requested

	reading int // number of parts of files that are being read for askers

	matrixCallers []func(*Matrix) // callers that wait for a matrix whose evaluation has not begun
	evaluating    bool
	progress      *fleetCopy             // what is being evaluated; nil: nothing is
	evaluated     atomic.Pointer[Matrix] // the matrix that was evaluated last; nil: none

	voided int // how often voidEvaluations was called

	inTurns  bool      // pairs are evaluated in turns; Server sets this, simulations do not
	turns    []pairKey // the pairs that wait for their turns in this round
	turnAt   time.Time // when the last turn began
	turnRuns bool

	run       *run
	lastRun   *RunStatus
	anchoring bool // nodes have been ordered to probe on their own (control.Probing)

	table tableState

	secretsRenewed time.Time // when all nodes last got new secrets for probe keys
	rekeyAt        time.Time // when probers get keys made from new secrets; zero: no secret is new

	issuer *wire.Issuer // signs the names of the graph's members

	watch watchState

	// by peer: the highest report to acknowledge once it is on disk
	acks       map[control.Peer]uint64
	flushed    time.Time
	lastForgot time.Time // when pairs that were given up were last forgotten
}

// A pendingRequest is a request whose answer has not arrived.
type pendingRequest struct {
	node  *node
	until time.Time
	what  string
	done  func(control.Message, error)
}

// errLate is the error of a request whose answer did not arrive in time.
var errLate = errors.New("no answer in time")

// newCore returns a core that continues with the contents of the store.
func newCore(
	config Config, store *Store, network Link, now func() time.Time, log *slog.Logger,
) (*core, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	id := make([]byte, 8)
	rand.Read(id)
	c := &core{
		config: config, now: now, network: network, store: store, log: log,
		instance: hex.EncodeToString(id),
		nodes:    map[string]*node{}, peers: map[control.Peer]*node{},
		byAddress: map[string][]*node{}, untoldNodes: map[*node]bool{},
		pairs: map[pairKey]*pair{}, current: map[[2]string]pairKey{},
		pending: map[uint64]*pendingRequest{}, acks: map[control.Peer]uint64{},
		flushed: now(), sweptAt: now(), secretsRenewed: now(),
		background: func(work func() error, done func(error)) { done(work()) },
		timeSince:  func(time.Time) time.Duration { return 0 },
		random:     mathrand.IntN,
	}
	return c, c.restore()
}

func (c *core) send(to control.Peer, request uint64, m control.Message) {
	if err := c.network.Send(to, request, m); err != nil {
		c.log.Error("message was not sent", "kind", m.Kind(), "error", err)
	}
}

// ask sends a request to a node. It calls the function done once, with the answer or with an error.
// There is an error if the node refuses, is gone, or does not answer within the limit.
func (c *core) ask(
	n *node, m control.Message, limit time.Duration, what string, done func(control.Message, error),
) {
	if !n.isAlive() {
		done(nil, fmt.Errorf("node %q is gone: %s", n.name(), n.goneReason))
		return
	}
	c.requests++
	c.pending[c.requests] = &pendingRequest{n, c.now().Add(limit), what, done}
	c.send(n.peer, c.requests, m)
}

// settle ends a request and passes its result on.
func (c *core) settle(id uint64, m control.Message, err error) {
	if p := c.pending[id]; p != nil {
		delete(c.pending, id)
		p.done(m, err)
	}
}

// handle processes a message.
func (c *core) handle(in control.Incoming) {
	if in.Revoked {
		c.revokeKey(in)
		return
	}
	if r, ok := in.Message.(*control.Register); ok {
		c.register(in, r)
		return
	}
	if ask, ok := in.Message.(*control.Ask); ok {
		c.answer(in, ask)
		return
	}
	if read, ok := in.Message.(*control.ReadFile); ok {
		c.readRunFile(in, read)
		return
	}
	n := c.peers[in.Peer]
	if n == nil {
		if in.Message != nil { // the client does not know yet that it is no longer registered
			c.network.Forget(in.Peer)
			if in.Message.Kind() != control.KindRefusal && in.Message.Kind() != control.KindLeave {
				c.send(in.Peer, in.Request, control.Refuse(control.NotRegistered,
					"this connection was given up: register again"))
			}
		}
		return
	}
	if in.Message == nil {
		c.markGone(n, "connection is closed")
		return
	}
	c.heardOf(n)
	p := c.pending[in.Request]
	asked := in.Request != 0 && p != nil && p.node == n
	if !asked || in.Message.Kind() == control.KindTrains {
		defer c.charge(n, time.Now())
	}
	switch m := in.Message.(type) {
	case *control.Ping:
		c.send(in.Peer, in.Request, &control.Pong{})
		c.helpLonely(n)
		return
	case *control.Leave:
		c.markGone(n, "left: "+m.Why)
		return
	case *control.Refusal:
		if p := c.pending[in.Request]; p != nil && p.node == n {
			err := fmt.Errorf("node %q refuses (%s): %s", n.name(), m.Code, m.Text)
			c.settle(in.Request, nil, err)
		}
		return
	case *control.Trains:
		c.processTrains(n, in.Request, m)
	case *control.Snapshot:
		c.wantSnapshot(n, m)
		return
	case *control.Sample:
		c.keepSample(n, m)
		return
	case *control.Neighbours:
		c.hasNeighbours(n, m)
		return
	}
	if p := c.pending[in.Request]; in.Request != 0 && p != nil && p.node == n {
		n.lateAnswers, n.muteReason = 0, ""
		c.settle(in.Request, in.Message, nil)
	}
}

// tick does everything that is due.
func (c *core) tick() {
	now := c.now()
	c.buryTheDead()
	var late []uint64
	for id, p := range c.pending {
		if !now.Before(p.until) {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		if p := c.pending[id]; p != nil {
			p.node.lateAnswers++
			if p.node.lateAnswers > 1 || now.Sub(p.node.lastHeard) > c.config.Heartbeat*3/2 {
				p.node.muteReason = "no answer to " + p.what
			}
			c.settle(id, nil, fmt.Errorf("node %q: %s: %w", p.node.name(), p.what, errLate))
		}
	}
	c.stepKeys()
	c.stepSweep()
	c.stepRun()
	c.stepGather()
	c.stepCollect()
	c.stepSnapshots()
	c.stepTurn()
	if now.Sub(c.flushed) >= c.config.FlushEvery {
		c.flush()
	}
}

// nextTick returns the time by which tick must be called again.
func (c *core) nextTick() time.Time {
	next := c.flushed.Add(c.config.FlushEvery)
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	for _, p := range c.pending {
		earlier(p.until)
	}
	if c.run != nil && c.run.gathering != nil {
		earlier(c.run.gathering.nextAsk)
	}
	if c.inTurns && c.isLarge() {
		earlier(c.turnAt.Add(c.config.Heartbeat))
	}
	earlier(c.secretsRenewed.Add(secretLife))
	earlier(c.rekeyAt)
	earlier(c.nextOfNodes())
	if c.run != nil {
		earlier(c.run.returnLimit)
		for _, k := range c.run.collect {
			earlier(k.waitEnd)
		}
	}
	switch {
	case c.sweep != nil:
		earlier(c.sweep.askAgainAt)
	case c.run == nil: // sweeps wait for the end of a run
		earlier(c.sweepBy)
		if c.config.SweepEvery > 0 {
			earlier(c.sweptAt.Add(c.config.SweepEvery))
		}
	}
	return next
}

// nextOfNodes returns a time until which no node needs a tick. It looks at all nodes only when this
// time has come. Until then, a message can only delay the moment at which its sender counts as
// gone, and a node that registers counts as gone no earlier than this time. Whatever else may make
// a node need a tick earlier calls dueBy.
func (c *core) nextOfNodes() time.Time {
	if now := c.now(); !now.Before(c.nodesDue) {
		c.nodesDue = now.Add(c.config.Dead)
		for _, n := range c.nodes {
			if n.isAlive() {
				c.dueBy(n.lastHeard.Add(c.config.Dead))
				c.dueBy(n.keys.renewAt)
			}
			if n.snapshot != nil {
				c.dueBy(n.snapshotDue)
			}
		}
	}
	return c.nodesDue
}

// dueBy notes that a node may need a tick at a given time. The zero time means nothing.
func (c *core) dueBy(t time.Time) {
	if !t.IsZero() && t.Before(c.nodesDue) {
		c.nodesDue = t
	}
}

// flush writes new measurements to disk, then acknowledges them.
func (c *core) flush() {
	c.flushed = c.now()
	if err := c.save(); err != nil {
		c.log.Error("write measurements", "error", err)
		return // do not acknowledge reports that are not on disk
	}
	for _, peer := range slices.Sorted(maps.Keys(c.acks)) { // the order makes tests repeatable
		if c.peers[peer] != nil {
			c.send(peer, 0, &control.Ack{Report: c.acks[peer]})
		}
	}
	clear(c.acks)
	c.forgetGivenUp()
}
