package tscclient

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// peerOf converts the target of an order into a Peer.
func peerOf(t control.Target) (Peer, error) {
	address, err := netip.ParseAddrPort(t.Address)
	if err != nil {
		return Peer{}, fmt.Errorf("peer %q: address %q: %w", t.Peer, t.Address, err)
	}
	key, err := minrtt.DecodeKey(t.Key)
	if err != nil {
		return Peer{}, fmt.Errorf("peer %q: %w", t.Peer, err)
	}
	return Peer{
		Node: tscratio.Node{
			Name: t.Peer, Epoch: t.PeerEpoch, Nominal_hz: t.Nominal_hz,
			Quantum_cycles: t.Quantum_cycles, CoreSlack_cycles: t.CoreSlack_cycles,
		},
		Address: address, Key: key,
	}, nil
}

func secretsOf(m *control.ProbeSecrets) (secrets []minrtt.Secret) {
	for _, s := range m.Secrets {
		secret := minrtt.Secret{Number: s.Number}
		copy(secret.Bytes[:], s.Bytes)
		secrets = append(secrets, secret)
	}
	return secrets
}

func mannerOf(m control.Manner) Manner {
	return Manner{
		Exchanges: m.Exchanges, Timeout: time.Duration(m.Timeout_ns), Attempts: m.Attempts,
		Spin: time.Duration(m.Spin_ns), UserStamps: m.UserStamps,
	}
}

// maxBatchTime limits the time of a batch if the order gives no limit.
const maxBatchTime = 10 * time.Minute

// runOrderedTrains runs the trains that an order requests, and reports them together.
func (l *Link) runOrderedTrains(m *control.Probe) (control.Message, error) {
	p, err := peerOf(m.Target)
	if err != nil {
		return nil, err
	}
	limit := time.Duration(m.Limit_ns)
	if limit == 0 {
		limit = maxBatchTime
	}
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	result := runBatch(ctx, l.client, p, mannerOf(m.Manner), m.Trains, time.Duration(m.Gap_ns))
	if l.ctx.Err() != nil {
		return nil, l.ctx.Err()
	}
	return result.reportMessage(p), nil
}

// trainBatch is the result of several trains with one peer.
type trainBatch struct {
	Epoch  string // epoch of this node during all trains
	Trains []minrtt.Train
	Lost   uint64 // number of answers that did not arrive

	SharedClock string // Outcome.SharedClock of the last train that has one

	// Err says why the batch ended early. The field Trains is valid even then.
	Err error
}

// runBatch runs trains with one peer, with a pause after each train. It stops early if more trains
// would be useless: the peer does not answer, its stamps cannot be true, or an epoch ended.
func runBatch(
	ctx context.Context, c *Client, p Peer, m Manner, trains int, gap time.Duration,
) trainBatch {
	var b trainBatch
	stamps := 0
	for i := range trains {
		if i > 0 && gap > 0 {
			timer := time.NewTimer(gap)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		o, err := c.TrainIn(ctx, p, m)
		b.Lost += o.Train.Counts.Lost
		if b.Epoch == "" {
			b.Epoch = o.Epoch
		}
		switch {
		case errors.Is(err, minrtt.ErrClockSet):
			continue // perhaps the next train succeeds
		case err != nil:
			b.Err = err
			return b
		case o.Epoch != b.Epoch:
			b.Err = fmt.Errorf("epoch changed to %q: %w", o.Epoch, tscratio.ErrEpoch)
			return b
		}
		n := 4*len(o.Train.Exchanges) + 2*len(o.Train.Arrivals)
		if stamps += n; stamps > control.MaxBatchStamps {
			b.Err = fmt.Errorf("batch holds more than %d stamps: order fewer trains",
				control.MaxBatchStamps)
			return b
		}
		b.Trains = append(b.Trains, o.Train)
		if o.SharedClock != "" {
			b.SharedClock = o.SharedClock
		}
	}
	return b
}

// reportMessage returns the batch as a report to the server.
func (b trainBatch) reportMessage(p Peer) *control.Trains {
	m := &control.Trains{Peer: p.Node.Name, PeerEpoch: p.Node.Epoch, Epoch: b.Epoch, Lost: b.Lost}
	if b.Err != nil {
		m.Error = control.Cut(b.Err.Error())
	}
	for _, t := range b.Trains {
		m.Trains = append(m.Trains, reported(t))
		reportedMeetings(m, t)
	}
	m.SharedClock = control.Cut(b.SharedClock)
	return m
}

func reported(t minrtt.Train) control.Train {
	kernel, _ := kernelStamps(t)
	out := control.Train{KernelStamps: uint64(kernel)}
	for _, e := range t.Exchanges {
		out.Exchanges = append(out.Exchanges, e.Best)
	}
	for _, a := range t.Arrivals {
		out.Arrivals = append(out.Arrivals, control.Arrival{Sent: a.Sent, Received: a.Received})
	}
	return out
}

// switchProbing starts or ends the client's own probing. The period in the order limits the number
// of trains. The client's configured budget limits their CPU time and bytes.
func (l *Link) switchProbing(m *control.Probing) (control.Message, error) {
	if len(m.Targets) == 0 && !m.Neighbours {
		if err := l.probeAsOrdered(nil); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(l.ctx, answerTimeout)
		defer cancel()
		l.flushNow(ctx) // report the last trains of the probing that ends
		return &control.Done{}, nil
	}
	if err := l.probeAsOrdered(m); err != nil {
		return nil, err
	}
	return &control.Done{}, nil
}

// probeAsOrdered makes the client probe as an order says. If the order is nil, probeAsOrdered ends
// the probing.
func (l *Link) probeAsOrdered(m *control.Probing) error {
	l.probing.Lock()
	defer l.probing.Unlock()
	return l.setPeers(m)
}

// setPeers does what probeAsOrdered does. The caller must have locked l.probing.
func (l *Link) setPeers(m *control.Probing) error {
	if m == nil {
		l.order = nil
		return l.client.SetPeers(nil, l.client.Config().Manner, Budget{})
	}
	peers := make([]Peer, len(m.Targets))
	named := map[string]bool{}
	for i, t := range m.Targets {
		var err error
		if peers[i], err = peerOf(t); err != nil {
			return err
		}
		named[t.Peer] = true
	}
	if m.Neighbours {
		for _, p := range l.graph.describedPeers() {
			if !named[p.Node.Name] {
				peers = append(peers, p)
			}
		}
	}
	budget := l.client.Config().Budget
	ordered := 1e9 / float64(m.Period_ns)
	if budget.TrainsPerSecond == 0 || ordered < budget.TrainsPerSecond {
		budget.TrainsPerSecond = min(ordered, maxTrainsPerSecond)
	}
	if err := l.client.SetPeers(peers, mannerOf(m.Manner), budget); err != nil {
		return err
	}
	l.order = m
	return nil
}

// probePeers sets the client's peers again after the node's neighbours in the graph changed.
func (l *Link) probePeers() {
	l.probing.Lock()
	defer l.probing.Unlock()
	if l.order == nil || !l.order.Neighbours {
		return
	}
	if err := l.setPeers(l.order); err != nil {
		l.config.Log.Warn("neighbours are not probed", "why", err)
	}
}

// describeNode returns what another node needs to probe this one, except a key.
func (l *Link) describeNode() control.Target {
	n := l.client.Node()
	return control.Target{
		Peer: n.Name, PeerEpoch: n.Epoch, Address: l.config.Advertise.String(),
		Nominal_hz: n.Nominal_hz, Quantum_cycles: n.Quantum_cycles,
		CoreSlack_cycles: n.CoreSlack_cycles,
	}
}

const maxTrainsPerSecond = 10_000

// noteTrain notes the bound of each train. If the client ran the train on its own, noteTrain also
// collects it for a report to the server.
func (l *Link) noteTrain(o Outcome) {
	l.graph.storeBound(o)
	if !o.Continuous || l.ctx.Err() != nil {
		return
	}
	l.reports.collectTrain(o)
}

// flushEvery is the interval at which the link reports the client's own trains.
const flushEvery = time.Second

func (l *Link) flush() {
	defer l.running.Done()
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C:
			l.flushNow(l.ctx)
			l.graph.reportNeighbours(l.ctx)
		}
	}
}

func (l *Link) flushNow(ctx context.Context) {
	l.mu.Lock()
	registered := l.state.Registered
	l.mu.Unlock()
	l.reports.sendAll(ctx, registered)
}

func (l *Link) sendReport(ctx context.Context, m *control.Trains) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return l.control.Send(ctx, 0, m)
}
