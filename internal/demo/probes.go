package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// prober answers the other node's probes, and sends its own.
type prober struct {
	address   string // where probes are answered
	node      tscratio.Node
	clock     minrtt.Clock
	notice    *minrtt.StepNotice
	transport *minrtt.UDP
	served    chan struct{}
	started   *background // between orderStart and orderStop
}

// background is trains that are run beside the job.
type background struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the fields below may be read
	trains []train
	err    error
}

// startProber begins to answer probes, with the virtual node's clocks in the place of the machine's.
func startProber(ctx context.Context, s setup) (p *prober, err error) {
	p = &prober{node: s.Node, served: make(chan struct{})}
	if p.notice, err = minrtt.OpenStepNotice(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.notice.Close()
		}
	}()
	physical := minrtt.SystemClock(asm.Counter, p.notice)
	physical.Quantum_cycles = s.PhysicalQuantum_cycles
	if p.clock, err = virtual.Clock(s.Clocks, physical); err != nil {
		return nil, err
	}
	local := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	if p.transport, err = minrtt.ListenUDP(local, minrtt.UDPConfig{Counter: p.clock.Counter}); err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	answerer, err := minrtt.NewAnswerer(p.transport, p.clock, nil)
	if err != nil {
		p.transport.Close()
		return nil, err
	}
	p.address = p.transport.LocalAddr().String()
	go func() {
		defer close(p.served)
		answerer.Serve(ctx) // ends with the context or the socket: there is nobody to tell
	}()
	return p, nil
}

// train runs one train of exchanges with another node.
func (p *prober) train(ctx context.Context, peer string, exchanges int) (train, error) {
	trains, err := p.trains(ctx, peer, exchanges, func(done int) (again bool) { return done < 1 })
	if err != nil {
		return train{}, err
	}
	return trains[0], nil
}

// trains runs trains of exchanges with another node for as long as it is told to.
func (p *prober) trains(ctx context.Context, peer string, exchanges int, again func(done int) bool) (done []train, err error) {
	to, err := netip.ParseAddrPort(peer)
	if err != nil {
		return nil, fmt.Errorf("probe %q: %w", peer, err)
	}
	transport, err := minrtt.DialUDP(to, minrtt.UDPConfig{Counter: p.clock.Counter})
	if err != nil {
		return nil, fmt.Errorf("probe %q: %w", peer, err)
	}
	defer transport.Close()
	config := minrtt.DefaultConfig()
	config.Exchanges, config.Timeout = exchanges, time.Second
	config.SlackCycles = p.node.QuantumCycles + p.node.CoreSlackCycles
	prober, err := minrtt.NewProber(transport, p.clock, to, config)
	if err != nil {
		return nil, err
	}
	for again(len(done)) {
		t, err := prober.Train(ctx)
		if errors.Is(err, minrtt.ErrClockSet) { // somebody set this machine's clock just now
			continue
		}
		if err != nil {
			return done, err
		}
		done = append(done, reported(t))
	}
	return done, nil
}

func reported(t minrtt.Train) train {
	out := train{User: t.User(), Lost: int(t.Counts.Lost), Best: tscratio.Train{By: tscratio.StartedByA, Exchanges: t.Best()}}
	for _, e := range t.Exchanges {
		for _, s := range []minrtt.Source{e.Sent, e.Received, e.Answered, e.Returned} {
			out.Stamps++
			if s == minrtt.Kernel {
				out.KernelStamps++
			}
		}
	}
	for _, a := range t.Arrivals {
		out.Best.OneWay = append(out.Best.OneWay, a.Constraint(tscratio.StartedByA))
	}
	return out
}

// start runs trains beside the job, the first of them at once, until stop.
func (p *prober) start(ctx context.Context, peer string, perSecond int) {
	ctx, cancel := context.WithCancel(ctx)
	b := &background{cancel: cancel, done: make(chan struct{})}
	p.started = b
	go func() {
		defer close(b.done)
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		b.trains, b.err = p.trains(context.WithoutCancel(ctx), peer, minrtt.DefaultConfig().Exchanges, func(done int) bool {
			if done == 0 {
				return true
			}
			select {
			case <-ctx.Done():
				return false
			case <-tick.C:
				return true
			}
		})
	}()
}

// stop returns what start has brought.
func (p *prober) stop() ([]train, error) {
	if p.started == nil {
		return nil, errors.New("stop probing: it was not started")
	}
	p.started.cancel()
	<-p.started.done
	return p.started.trains, p.started.err
}

func (p *prober) close() {
	if p.started != nil {
		p.stop()
	}
	p.transport.Close()
	<-p.served
	p.notice.Close()
}
