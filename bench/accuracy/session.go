package accuracy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/minrtt/zmqtransport"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Setting is the set of conditions under which one session is measured.
type Setting struct {
	Wander    tscratio.Wander // the declared wander; the nodes' relative rate wanders by half of it
	Shape     vnode.Shape     // how the rates wander
	Load      bool            // TCP saturates the link
	Spin      bool            // both ends poll for packets instead of sleeping
	Exchanges int             // exchanges in a train, after its warm-up
	PerSecond int             // trains a second
}

const (
	// spinTime is how long an end polls after a packet: longer than any pause within a train.
	spinTime = 2 * time.Millisecond

	// answerWait is how long to wait for an answer. Packets are lost only while the link is loaded.
	answerWait = 100 * time.Millisecond

	// A train ends if this many answers in a row are missing. On a busy machine the other end may
	// wait for a core much longer than answerWait.
	lostInARow = 50
)

// session is the result of trains between two virtual nodes. Node A belongs to the prober.
type session struct {
	Setting
	machine Machine
	nodes   [2]vnode.Config
	truths  [2]*vnode.Truth
	trains  []timedTrain
	failed  int // trains without a result

	cpu      [2]time.Duration // processor time of the prober's thread, and of the answerer's
	lasted   time.Duration
	loadBits float64 // load that arrived, in bits a second
}

// timedTrain is a train, and the machine's counter before and after it.
type timedTrain struct {
	minrtt.Train
	before, after uint64
}

// configs makes the two nodes of a session.
func (l *twoEnds) configs(r *rand.Rand, s Setting) (nodes [2]vnode.Config, err error) {
	now := virtual.Physical{
		Counter: asm.Counter(), Realtime_ns: time.Now().UnixNano(), Hz: l.machine.Hz,
	}
	for i, name := range []string{"a", "b"} {
		nodes[i] = virtual.Config(r, name, now, s.Shape, s.Wander.PPM()/2, 10*time.Minute)
		if err := nodes[i].Validate(); err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// prober contains the end that starts trains, and the process at the other end, which answers them.
type prober struct {
	*minrtt.Prober
	transport minrtt.Transport
	peer      *runningPeer
}

func (p *prober) close() (report, error) {
	err := p.transport.Close()
	r, stopErr := p.peer.stop()
	return r, errors.Join(err, stopErr)
}

// prober starts an answerer at one end, with the clocks of the node there. Then it opens a prober
// at the other end, and connects the prober to the answerer. The argument from is the number of the
// prober's end.
func (l *twoEnds) prober(nodes [2]vnode.Config, from int, s Setting, zeroMQ bool) (*prober, error) {
	to := 1 - from
	o := order{
		Do: answerProbes, At: netip.AddrPortFrom(l.addr(to), 0), Node: nodes[to], ZeroMQ: zeroMQ,
	}
	if s.Spin {
		o.Spin = spinTime
	}
	peer, err := l.start(to, o)
	if err != nil {
		return nil, err
	}
	p := &prober{peer: peer}
	fail := func(err error) (*prober, error) {
		if p.transport != nil {
			err = errors.Join(err, p.transport.Close())
		}
		_, stopErr := peer.stop()
		return nil, errors.Join(err, stopErr)
	}
	clock, err := virtual.Clock(nodes[from], l.clock)
	if err != nil {
		return fail(err)
	}
	err = l.at(from, func() (err error) {
		if zeroMQ {
			p.transport, err = zmqtransport.Dial(peer.address, clock.Counter)
			return err
		}
		p.transport, err = minrtt.DialUDP(peer.address,
			minrtt.UDPConfig{Counter: clock.Counter, Spin: o.Spin})
		return err
	})
	if err != nil {
		p.transport = nil
		return fail(err)
	}
	config := minrtt.DefaultConfig()
	config.Exchanges, config.Timeout, config.Attempts = s.Exchanges, answerWait, lostInARow
	// Each reading may be wrong by the core slack plus the quantum. So if one reading exceeds
	// another by less than twice this sum, the larger one may still have been taken first.
	quantum := max(l.quantum(nodes[0]), l.quantum(nodes[1]))
	config.Slack_cycles = 2 * (l.machine.virtualSlack() + quantum)
	if p.Prober, err = minrtt.NewProber(p.transport, clock, peer.address, config); err != nil {
		return fail(err)
	}
	return p, nil
}

func (l *twoEnds) quantum(c vnode.Config) uint64 {
	return virtual.Quantum_cycles(c.Counter, l.machine.Quantum_cycles)
}

// load saturates the link. The returned function ends the load, and returns how many bits a second
// arrived.
func (l *twoEnds) load() (stop func() (float64, error), err error) {
	sink, err := l.start(1, order{Do: takeLoad, At: netip.AddrPortFrom(l.addr(1), 0)})
	if err != nil {
		return nil, err
	}
	source, err := l.start(0, order{Do: makeLoad, At: sink.address})
	if err != nil {
		_, stopErr := sink.stop()
		return nil, errors.Join(err, stopErr)
	}
	begun := time.Now()
	return func() (float64, error) {
		lasted := time.Since(begun)
		_, err := source.stop()
		r, err2 := sink.stop()
		return float64(r.Bytes) * 8 / lasted.Seconds(), errors.Join(err, err2)
	}, nil
}

// run runs trains for the given time.
func (l *twoEnds) run(ctx context.Context, r *rand.Rand, s Setting, lasting time.Duration,
	progress func(time.Duration)) (*session, error) {
	result := &session{Setting: s, machine: l.machine}
	var err error
	if result.nodes, err = l.configs(r, s); err != nil {
		return nil, err
	}
	for i := range result.truths {
		if result.truths[i], err = vnode.NewTruth(result.nodes[i].Counter); err != nil {
			return nil, err
		}
	}
	p, err := l.prober(result.nodes, 0, s, false)
	if err != nil {
		return nil, err
	}
	unload := func() (float64, error) { return 0, nil }
	if s.Load {
		if unload, err = l.load(); err != nil {
			_, closeErr := p.close()
			return nil, errors.Join(err, closeErr)
		}
	}
	trainErr := onThread(s.Spin, 0,
		func() error { return result.trainsAt(ctx, p, lasting, progress) })
	bits, err := unload()
	got, closeErr := p.close()
	result.loadBits, result.cpu[1] = bits, got.CPU
	return result, errors.Join(trainErr, err, closeErr)
}

// trainsAt runs trains at the session's pace.
func (s *session) trainsAt(ctx context.Context, p *prober, lasting time.Duration,
	progress func(time.Duration)) error {
	begunCPU := threadTime()
	begun := time.Now()
	every := time.Second / time.Duration(s.PerSecond)
	var last error
	for at := time.Duration(0); at < lasting; at += every {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(begun.Add(at))):
		}
		before := asm.Counter()
		train, err := p.Train(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.failed++
			last = err
		default:
			s.trains = append(s.trains, timedTrain{train, before, asm.Counter()})
		}
		if progress != nil {
			progress(time.Since(begun))
		}
	}
	s.lasted = time.Since(begun)
	s.cpu[0] = threadTime() - begunCPU
	if len(s.trains) < 2 {
		return fmt.Errorf("%d trains, of which %d came to nothing: %w",
			len(s.trains)+s.failed, s.failed, last)
	}
	return nil
}
