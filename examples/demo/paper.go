package demo

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/minrtt/zmqtransport"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Paper is the result of the paper's method on the same nodes. The method makes exchanges over
// ZeroMQ before and after the job, and assumes no wander.
type Paper struct {
	Exchanges int       // number of exchanges of all pairs
	RoundTrip uint64    // smallest round trip, in cycles of the node that started it
	Anchors   []Anchors // one for each pair, started by the node that gives the smaller bound
}

// Anchors are the two exchanges through which the paper's method relates the counters of one pair
// of nodes.
type Anchors struct {
	E            *big.Rat // the bound, in cycles of the node that started the exchanges
	Apart_cycles uint64   // from the first anchor to the second
}

// HalfWidth_cycles returns the paper's bound e for the median pair, corrected for a wander of w.
// The corrected bound is e + w·T/2, where T is the time between the anchors.
func (p Paper) HalfWidth_cycles(w tscratio.Wander) float64 {
	if len(p.Anchors) == 0 {
		return 0
	}
	var all []float64
	for _, a := range p.Anchors {
		e, _ := a.E.Float64()
		all = append(all, e+w.PPM()/1e6*float64(a.Apart_cycles)/2)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// add adds one pair of nodes, with its exchanges before and after the job. In each array, the index
// says which node started the exchanges.
func (p *Paper) add(before, after [2][]tscratio.Exchange) error {
	var best *Anchors
	for i := range before {
		relation, err := tscratio.PaperRelate(before[i], after[i])
		if err != nil {
			return err
		}
		a := Anchors{E: relation.E(), Apart_cycles: after[i][0].Sent.Hi - before[i][0].Sent.Lo}
		if best == nil || a.E.Cmp(best.E) < 0 {
			best = &a
		}
		for _, set := range [][]tscratio.Exchange{before[i], after[i]} {
			p.Exchanges += len(set)
			for _, e := range set {
				if trip := e.RoundTrip_cycles(); p.RoundTrip == 0 || trip < p.RoundTrip {
					p.RoundTrip = trip
				}
			}
		}
	}
	p.Anchors = append(p.Anchors, *best)
	return nil
}

// paperAnswerer answers the probes of probePaper.
type paperAnswerer struct {
	address   netip.AddrPort
	transport *zmqtransport.Transport
	stop      context.CancelFunc
	served    chan struct{}
}

// counterAlone returns a clock for exchanges over ZeroMQ. It only has the counter, because the
// kernel does not stamp ZeroMQ's messages.
func counterAlone(c minrtt.Clock) minrtt.Clock {
	return minrtt.Clock{Counter: c.Counter, Quantum_cycles: c.Quantum_cycles}
}

func answerPaper(
	ctx context.Context, at netip.AddrPort, clock minrtt.Clock,
) (*paperAnswerer, error) {
	p := &paperAnswerer{served: make(chan struct{})}
	var err error
	if p.transport, p.address, err = zmqtransport.Listen(at, clock.Counter); err != nil {
		return nil, fmt.Errorf("answer probes over ZeroMQ: %w", err)
	}
	answerer, err := minrtt.NewAnswerer(p.transport, counterAlone(clock), nil)
	if err != nil {
		return nil, errors.Join(err, p.transport.Close())
	}
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.served)
		answerer.Serve(ctx) // its error only reports the end of the context or the socket
	}()
	return p, nil
}

func (p *paperAnswerer) close() {
	p.stop()
	<-p.served
	p.transport.Close()
}

// probePaper runs one train over ZeroMQ.
func probePaper(
	ctx context.Context, peer string, clock minrtt.Clock, exchanges int,
) ([]tscratio.Exchange, error) {
	to, err := netip.ParseAddrPort(peer)
	if err != nil {
		return nil, fmt.Errorf("probe %q: %w", peer, err)
	}
	transport, err := zmqtransport.Dial(to, clock.Counter)
	if err != nil {
		return nil, fmt.Errorf("probe %q: %w", peer, err)
	}
	defer transport.Close()
	config := minrtt.DefaultConfig()
	config.Exchanges, config.Timeout = exchanges, time.Second
	prober, err := minrtt.NewProber(transport, counterAlone(clock), to, config)
	if err != nil {
		return nil, err
	}
	t, err := prober.Train(ctx)
	if err != nil {
		return nil, fmt.Errorf("probe %q over ZeroMQ: %w", peer, err)
	}
	return t.User(), nil
}
