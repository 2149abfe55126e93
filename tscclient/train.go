package tscclient

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// proberKey says which trains may share a prober. A prober remembers the latest reading of the
// peer's counter, so a new epoch of the peer needs a new prober. A new probe key needs no new
// prober.
type proberKey struct {
	address netip.AddrPort
	epoch   string
	manner  Manner
	slack   uint64
}

type prober struct {
	*minrtt.Prober
	transport *minrtt.UDP
	used      uint64
}

// maxProbers is how many probers, each with a socket, are kept. The prober that has been unused for
// longest is dropped first.
const maxProbers = 128

// Train runs one train with a peer in the client's configured manner, and adds the train's
// constraints to those of the pair.
func (c *Client) Train(ctx context.Context, p Peer) (Outcome, error) {
	return c.TrainIn(ctx, p, c.config.Manner)
}

// TrainIn does what Train does, but in the given manner. The returned error is the outcome's Err.
func (c *Client) TrainIn(ctx context.Context, p Peer, m Manner) (Outcome, error) {
	if err := c.checkPeer(p); err != nil {
		return Outcome{Peer: p, Err: err}, err
	}
	o := c.runWhenFree(ctx, p, m, false)
	return o, o.Err
}

// runWhenFree waits until no other train is under way, and then runs a train.
func (c *Client) runWhenFree(ctx context.Context, p Peer, m Manner, continuous bool) Outcome {
	o := Outcome{Peer: p, Continuous: continuous}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		o.Err = c.closedOr(ctx.Err())
		return o
	}
	if err := ctx.Err(); err != nil { // the context ended while the train waited
		o.Err = c.closedOr(err)
		return o
	}
	c.runTrain(ctx, &o, m)
	if o.Err != nil {
		o.Err = c.closedOr(fmt.Errorf("probe %q: %w", p.Node.Name, o.Err))
	}
	c.accountOutcome(&o)
	return o
}

func (c *Client) closedOr(err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// runTrain runs the train and adds its constraints to the pair. The caller must hold c.busy.
func (c *Client) runTrain(ctx context.Context, o *Outcome, m Manner) {
	if o.Epoch, o.Err = c.Check(); o.Err != nil {
		return
	}
	own, peer := c.Node(), o.Peer.Node
	slack := max(own.CoreSlack_cycles+own.Quantum_cycles, peer.CoreSlack_cycles+peer.Quantum_cycles)
	key := proberKey{o.Peer.Address, own.Epoch + "\x00" + peer.Epoch, m, slack}
	prober, err := c.proberFor(key)
	if err != nil {
		o.Err = err
		return
	}
	prober.Use(o.Peer.Key)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A prober sleeps in the kernel until an answer arrives or the prober's timeout ends. Only
	// closing its socket wakes it earlier.
	woken := context.AfterFunc(ctx, func() { _ = prober.transport.Close() })
	o.Train, o.Cost, err = runMeasured(ctx, prober.Prober)
	if !woken() || errors.Is(err, minrtt.ErrClosed) {
		c.drop(key)
		if ctx.Err() != nil && err != nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		o.Err = explainImpossible(err)
		return
	}
	// The counter may have been reset during the train.
	if epoch, err := c.Check(); err != nil || epoch != o.Epoch {
		o.Err = errors.Join(err, fmt.Errorf("epoch of %q changed during the train: %w",
			own.Name, tscratio.ErrEpoch))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var lie string
	if o.Contradiction, lie, err = c.pairs.addShared(own, peer, &o.Train); err != nil {
		o.Err = explainImpossible(err)
	}
	if lie != "" {
		o.SharedClock = c.describeRefusal(peer.Name, lie)
	}
}

// explainImpossible adds the possible causes to an error about impossible stamps.
func explainImpossible(err error) error {
	switch {
	case errors.Is(err, minrtt.ErrReplayed):
		return fmt.Errorf("%w: its counter was reset, or somebody replays old answers; "+
			"it must register with a new epoch", err)
	case errors.Is(err, tscratio.ErrImpossible):
		return fmt.Errorf("%w: no counter that runs forward shows such stamps; "+
			"its answers are not used", err)
	}
	return err
}

// runMeasured runs a train and returns the train's cost.
func runMeasured(ctx context.Context, p *minrtt.Prober) (minrtt.Train, Cost, error) {
	runtime.LockOSThread() // so that the thread's CPU time is the train's CPU time
	defer runtime.UnlockOSThread()
	before := threadTime()
	t, err := p.Train(ctx)
	return t, Cost{CPU: threadTime() - before, Bytes: t.Counts.Bytes()}, err
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// proberFor returns the prober for a key. If there is none, it creates one. The caller must hold
// c.busy.
func (c *Client) proberFor(key proberKey) (*prober, error) {
	var oldest proberKey
	var latest uint64
	first := true
	for k, p := range c.probers {
		latest = max(latest, p.used)
		if first || p.used < c.probers[oldest].used {
			oldest, first = k, false
		}
	}
	if p := c.probers[key]; p != nil {
		p.used = latest + 1
		return p, nil
	}
	if len(c.probers) >= maxProbers {
		c.drop(oldest)
	}
	m := key.manner
	transport, err := minrtt.DialUDP(key.address, minrtt.UDPConfig{
		Counter: c.config.Clock.Counter, Spin: m.Spin,
		UserStampsOnly:    m.UserStamps || c.config.UserStamps,
		HardwareInterface: c.config.HardwareInterface,
	})
	if err != nil {
		return nil, err
	}
	made, err := minrtt.NewProber(
		transport, c.config.Clock, key.address, m.config(minrtt.Key{}, key.slack))
	if err != nil {
		transport.Close()
		return nil, err
	}
	p := &prober{Prober: made, transport: transport, used: latest + 1}
	c.probers[key] = p
	return p, nil
}

func (c *Client) drop(key proberKey) {
	if p := c.probers[key]; p != nil {
		p.transport.Close()
		delete(c.probers, key)
	}
}

// accountOutcome counts an outcome and passes it to the observers.
func (c *Client) accountOutcome(o *Outcome) {
	c.mu.Lock()
	s := &c.stats
	s.Cost.CPU += o.Cost.CPU
	s.Cost.Bytes += o.Cost.Bytes
	switch {
	case o.Err == nil:
		s.Trains++
	default:
		s.Failed++
		if errors.Is(o.Err, minrtt.ErrClockSet) {
			s.ClocksSet++
		}
		if errors.Is(o.Err, minrtt.ErrReplayed) || errors.Is(o.Err, tscratio.ErrImpossible) {
			s.Refused++
		}
	}
	s.Meetings += uint64(len(o.Train.Meetings))
	if o.SharedClock != "" {
		s.SharedClock = o.SharedClock
	}
	if o.Contradiction != nil {
		s.Contradictions++
	}
	if o.Err == nil {
		s.Exchanges += uint64(len(o.Train.Exchanges))
		kernel, user := kernelStamps(o.Train)
		s.KernelStamps += uint64(kernel)
		s.UserStamps += uint64(user)
		countUserStamps(o.Train, s.WhyUser)
	}
	observers := c.observers
	c.mu.Unlock()
	for _, f := range observers {
		(*f)(*o)
	}
}

// kernelStamps returns how many of a train's stamps the kernel took, and how many it did not. Each
// exchange has four stamps.
func kernelStamps(t minrtt.Train) (kernel, user int) {
	for _, e := range t.Exchanges {
		for _, from := range sources(e) {
			if from == minrtt.Kernel {
				kernel++
			} else {
				user++
			}
		}
	}
	return kernel, user
}

func sources(e minrtt.Exchange) [4]minrtt.Source {
	return [4]minrtt.Source{e.Sent, e.Received, e.Answered, e.Returned}
}

// countUserStamps counts the reasons for user stamps.
func countUserStamps(t minrtt.Train, why map[string]int) {
	for _, e := range t.Exchanges {
		for _, from := range sources(e) {
			if from != minrtt.Kernel {
				why[from.String()]++
			}
		}
	}
}
