package tscclient

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// ErrClosed is returned by the methods of a client after Close.
var ErrClosed = errors.New("client is closed")

// Client does one node's part in measuring: its answerer answers probes, and its probers run
// trains. Any goroutine may use it.
type Client struct {
	config   Config
	address  netip.AddrPort
	answerer *minrtt.Answerer

	stop    context.CancelFunc
	ctx     context.Context // ended by Close
	running sync.WaitGroup
	closing sync.Once
	changed chan struct{} // wakes the probing goroutine; has room for one element

	// busy is a channel with room for one element, which serves as a lock. A goroutine that runs a
	// train holds the lock, because two trains at the same time would disturb each other.
	busy    chan struct{}
	probers map[proberKey]*prober // used only by the goroutine that holds busy

	mu     sync.Mutex
	secret minrtt.Secret   // the keys that Key returns derive from it; zero: Key returns none
	given  []minrtt.Secret // secrets passed to Accept

	neighbours minrtt.Secret // the keys of neighbours in the graph derive from it; zero: none yet

	node      tscratio.Node // this node, with its present epoch
	pairs     peerPairs
	probing   peerArguments
	observers []*func(Outcome) // replaced, never modified: they are called without the lock
	stats     Stats
	serving   error // why the answerer ended; nil while it runs
}

// peerArguments contains the arguments of SetPeers.
type peerArguments struct {
	peers  []Peer
	manner Manner
	budget Budget
}

// An Outcome is the result of one train.
type Outcome struct {
	Peer  Peer
	Epoch string // the present epoch of this node
	Train minrtt.Train
	Cost  Cost

	// Err is nil, or explains why the train failed.
	Err error

	// Contradiction describes how the pair's constraints, with this train, contradict the pair's
	// assumptions. It is nil if the constraints are consistent with the assumptions.
	Contradiction *tscratio.Contradiction

	// SharedClock is empty unless the nodes' shared clock contradicts their packets. In that case
	// it says how. After a contradiction, the clock is no longer used with this peer.
	SharedClock string

	// Continuous reports that the client ran the train on its own (SetPeers).
	Continuous bool
}

// Stats counts what a client has done so far.
type Stats struct {
	Trains         uint64         // trains that succeeded
	Failed         uint64         // trains that failed
	ClocksSet      uint64         // trains that failed because CLOCK_REALTIME was set meanwhile
	Refused        uint64         // trains that failed because the peer's stamps cannot be true
	Contradictions uint64         // trains that revealed a contradiction
	Meetings       uint64         // constraints of shared clocks come from so many moments
	SharedClock    string         // the last contradiction of a shared clock; "": none
	Epochs         uint64         // how often this node's epoch changed
	Forgotten      uint64         // trains that were dropped because of MaxTrains
	Exchanges      uint64         // completed exchanges
	KernelStamps   uint64         // stamps of these exchanges that the kernel took
	UserStamps     uint64         // the other stamps
	WhyUser        map[string]int // number of user stamps for each reason
	Cost           Cost           // cost of all trains
	Answers        minrtt.Counts  // counts of the packets that this node's answerer received
	Pairs          int            // number of pairs, with present and former peers
	KeptTrains     int            // number of trains in these pairs
	AnswererFailed string         // why the answerer ended; "" while it runs
}

// Start starts a client. The client answers probes until Close is called.
func Start(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("start client %q: %w", config.Node.Name, err)
	}
	transport, err := minrtt.ListenUDP(config.Listen, minrtt.UDPConfig{
		Counter: config.Clock.Counter, Spin: config.AnswerSpin, UserStampsOnly: config.UserStamps,
		HardwareInterface: config.HardwareInterface,
	})
	if err != nil {
		return nil, fmt.Errorf("start client %q: answer probes: %w", config.Node.Name, err)
	}
	var secrets []minrtt.Secret
	if config.Secret.Number != 0 {
		secrets = append(secrets, config.Secret)
	}
	answerer, err := minrtt.NewAnswerer(transport, config.Clock, secrets)
	if err != nil {
		transport.Close()
		return nil, fmt.Errorf("start client %q: %w", config.Node.Name, err)
	}
	c := &Client{
		config: config, address: transport.LocalAddr(), answerer: answerer,
		changed: make(chan struct{}, 1), busy: make(chan struct{}, 1),
		probers: map[proberKey]*prober{},
		secret:  config.Secret, node: config.Node,
		pairs: newPairs(config.MaxTrains, config.Assumptions),
	}
	c.stats.WhyUser = map[string]int{}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.running.Add(2)
	go c.answer()
	go c.runProbes()
	return c, nil
}

func (c *Client) answer() {
	defer c.running.Done()
	err := c.answerer.Serve(c.ctx)
	if c.ctx.Err() == nil {
		c.mu.Lock()
		c.serving = err
		c.mu.Unlock()
	}
}

// Close ends the client and abandons a train that is under way.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.stop()
		c.running.Wait()
		c.busy <- struct{}{} // from now on, no train is under way and none can begin
		for key := range c.probers {
			c.drop(key)
		}
	})
	return nil
}

// Address returns the address at which the client answers probes.
func (c *Client) Address() netip.AddrPort { return c.address }

// Key returns a key for one prober of this client. Each call returns a different key. If the
// client's Config has no Secret, Key returns the zero Key, and the client answers any prober.
func (c *Client) Key() minrtt.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secret.Number == 0 {
		return minrtt.Key{}
	}
	return c.secret.Key(mathrand.Uint64())
}

// keyFor returns the key with which a neighbour in the graph of nodes (package overlay) probes this
// node. For the same neighbour it returns the same key until renewNeighbours is called.
func (c *Client) keyFor(neighbour uint64) minrtt.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.neighbours.Number == 0 {
		c.neighbours = minrtt.NewSecret()
		c.acceptSecrets()
	}
	return c.neighbours.Key(neighbour)
}

// renewNeighbours invalidates all keys that keyFor has returned so far.
func (c *Client) renewNeighbours() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neighbours = minrtt.NewSecret()
	c.acceptSecrets()
}

// Accept gives the client secrets in addition to the one from which Key derives keys. From now on
// the client also answers probes whose keys are derived from these secrets. The secrets of an
// earlier call stay valid for a moment, so that trains under way can finish.
func (c *Client) Accept(secrets []minrtt.Secret) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = secrets
	c.acceptSecrets()
}

// RenewSecret invalidates all keys that Key has returned so far.
func (c *Client) RenewSecret() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secret.Number != 0 {
		c.secret = minrtt.NewSecret()
		c.acceptSecrets()
	}
}

// acceptSecrets passes all valid secrets to the answerer. The caller must have locked c.mu.
func (c *Client) acceptSecrets() {
	secrets := slices.Clone(c.given)
	for _, s := range []minrtt.Secret{c.secret, c.neighbours} {
		if s.Number != 0 {
			secrets = append(secrets, s)
		}
	}
	c.answerer.Accept(secrets)
}

// Node returns this node with the epoch that the last train or Check found.
func (c *Client) Node() tscratio.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node
}

// Counter reads the node's counter.
func (c *Client) Counter() uint64 { return c.config.Clock.Counter() }

// Stats returns the statistics of the client so far.
func (c *Client) Stats() Stats {
	answers := c.answerer.Counts()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.WhyUser = make(map[string]int, len(c.stats.WhyUser))
	for why, n := range c.stats.WhyUser {
		s.WhyUser[why] = n
	}
	s.Answers = answers
	s.Pairs, s.KeptTrains, s.Forgotten = c.pairs.count()
	if c.serving != nil {
		s.AnswererFailed = c.serving.Error()
	}
	return s
}

// Pairs returns copies of the pairs with all peers. This node is A of each pair. The pairs are
// sorted by peer name and then from the oldest epoch to the newest.
func (c *Client) Pairs() []*tscratio.Pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pairs.copyPairs()
}

// Observe makes the client pass the outcome of every train to a function, until the caller calls
// stop. The function runs on the goroutine that ran the train, and other trains wait until it
// returns. So it must be quick and must not run trains.
func (c *Client) Observe(f func(Outcome)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(slices.Clip(c.observers), &f)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.observers = slices.DeleteFunc(slices.Clone(c.observers),
			func(o *func(Outcome)) bool { return o == &f })
	}
}

// Check determines the node's epoch and returns it. If the epoch has changed, later trains belong
// to new pairs.
func (c *Client) Check() (string, error) {
	if c.config.Epoch == nil {
		return c.Node().Epoch, nil
	}
	epoch, err := c.config.Epoch()
	if err != nil {
		return "", fmt.Errorf("look at the epoch of %q: %w", c.config.Node.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.node.Epoch {
		c.node.Epoch = epoch
		c.stats.Epochs++
	}
	return epoch, nil
}

// SetPeers sets three things: the peers that the client probes on its own from now on, the manner
// of these trains, and their budget. If there are no peers, the client runs no trains of its own.
func (c *Client) SetPeers(peers []Peer, manner Manner, budget Budget) error {
	if err := budget.Validate(); err != nil {
		return err
	}
	if err := manner.config(minrtt.Key{}, 0).Validate(); err != nil {
		return fmt.Errorf("manner: %w", err)
	}
	for _, p := range peers {
		if err := c.checkPeer(p); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.probing = peerArguments{append([]Peer(nil), peers...), manner, budget}
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return nil
}

// Config returns the configuration with which the client was started.
func (c *Client) Config() Config { return c.config }

func (c *Client) checkPeer(p Peer) error {
	if !p.Address.IsValid() || p.Address.Port() == 0 {
		return fmt.Errorf("peer %q: %v cannot receive packets: want address:port",
			p.Node.Name, p.Address)
	}
	if _, err := tscratio.NewPair(c.Node(), p.Node, c.config.Assumptions); err != nil {
		return err
	}
	return nil
}

// runProbes runs the client's own trains until the client is closed.
func (c *Client) runProbes() {
	defer c.running.Done()
	var s *probeScheduler
	var now peerArguments
	peers := map[string]Peer{}
	for {
		wait := time.Hour
		if s != nil {
			var name string
			if name, wait = s.nextPeer(time.Now()); name != "" {
				c.runTurn(s, peers[name], now.manner)
				wait = 0
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.ctx.Done():
			timer.Stop()
			return
		case <-c.changed:
			timer.Stop()
			c.mu.Lock()
			before := now
			now = c.probing
			c.mu.Unlock()
			if s == nil || before.budget != now.budget {
				s, _ = newScheduler(now.budget, c.config.Pace) // SetPeers and Start checked both
			}
			names := make([]string, len(now.peers))
			clear(peers)
			for i, p := range now.peers {
				names[i], peers[p.Node.Name] = p.Node.Name, p
			}
			s.setPeers(names)
		case <-timer.C:
		}
	}
}

// runTurn runs one train with the peer that the scheduler chose.
func (c *Client) runTurn(s *probeScheduler, p Peer, m Manner) {
	s.noteBegin(p.Node.Name, time.Now())
	o := c.runWhenFree(c.ctx, p, m, true)
	if o.Err != nil {
		s.noteFailure(p.Node.Name, time.Now(), o.Cost)
		return
	}
	c.mu.Lock()
	width, known := c.pairs.halfWidth(c.node.Epoch, p.Node)
	c.mu.Unlock()
	s.noteEnd(p.Node.Name, time.Now(), o.Cost, width, known)
}
