package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// simulatedMember is a simulated node of a real server. It answers as tscclient does. Its counter
// is a linear function of the time, and packets take a random time.
type simulatedMember struct {
	w          *watchedServer
	name       string
	index      int
	link       *link
	neighbours []string

	mu        sync.Mutex // protects the fields below
	r         *rand.Rand
	closed    bool
	probing   bool
	turn      int
	report    uint64
	heartbeat time.Duration
	beat      *time.Timer
	due       time.Time // when beat is due
	beats     int

	secret, graph, probes chan struct{} // closed when the node has got each of them
}

// join registers a node. It returns how long it took until the node had a secret for probes, its
// part in the graph and, while a run is open, an order to probe.
func (w *watchedServer) join(ctx context.Context, i int) (time.Duration, error) {
	m := &simulatedMember{w: w, name: w.nodeName(i), index: i, neighbours: w.neighboursOf(i),
		r: rand.New(rand.NewPCG(w.o.Seed, 3+uint64(i))), secret: make(chan struct{}),
		graph: make(chan struct{}), probes: make(chan struct{})}
	ip := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	address := netip.AddrPortFrom(ip, 7342)
	identity, err := wire.NewIdentity(m.name, address)
	if err != nil {
		return 0, err
	}
	facts, err := json.Marshal(map[string]string{"cpu": "AMD EPYC 9R14", "clocksource": "tsc",
		"kernel": "6.8.0-1021-aws", "hypervisor": "kvm", "os": "Ubuntu 24.04.1 LTS"})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	const tries = 20 // a server that is busy gives up handshakes
	for range tries {
		m.link, err = dialLink(w.address, w.keys[m.name], w.keys[serverName].Public)
		if err == nil {
			break
		}
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	w.members.Store(m.name, m)
	d := m.described()
	welcome, err := m.link.register(control.Register{
		Name: m.name, Instance: m.name, Epoch: d.Epoch, Nominal_hz: d.Nominal_hz,
		Quantum_cycles: d.Quantum_cycles, CoreSlack_cycles: d.CoreSlack_cycles,
		Machine: "m-" + m.name, Cores: 16, ProbeAddress: address.String(), Software: "simulated",
		Facts: facts, Graph: string(identity.Name), Capabilities: []string{
			control.CanProbe, control.CanRun, control.CanTable, control.CanFiles,
		},
	})
	if err != nil {
		return 0, fmt.Errorf("node %q: %w", m.name, err)
	}
	m.mu.Lock()
	m.heartbeat = time.Duration(welcome.Heartbeat_ns)
	first := time.Duration(m.r.Int64N(int64(m.heartbeat))) // nodes begin at different moments
	m.due = time.Now().Add(first)
	m.beat = time.AfterFunc(first, m.onBeat)
	m.mu.Unlock()
	w.ended.Go(m.run)
	needs := []chan struct{}{m.secret}
	if i >= w.o.Nodes { // this node joins a large fleet with an open run
		needs = append(needs, m.graph, m.probes)
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for _, got := range needs {
		select {
		case <-got:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-limit.C:
			return 0, fmt.Errorf("node %q did not get all that it needs within a minute", m.name)
		}
	}
	return time.Since(began), nil
}

func (m *simulatedMember) close() {
	m.mu.Lock()
	m.closed = true
	if m.beat != nil {
		m.beat.Stop()
	}
	m.mu.Unlock()
	m.link.close()
}

func (m *simulatedMember) described() tscratio.Node {
	return tscratio.Node{Name: m.name, Epoch: "1", Nominal_hz: physical_hz, Quantum_cycles: 1,
		CoreSlack_cycles: 30}
}

// counter returns the reading of a node's counter.
func (w *watchedServer) counter(i int, at time.Duration) uint64 {
	drift := float64((i*7919)%101-50) * 1e-6
	return uint64(startReading+i<<20) + uint64(at.Seconds()*physical_hz*(1+drift))
}

// The method now returns the simulated time of the fleet. It passes more slowly than real time if
// ServerOptions.Slower is above 1.
func (w *watchedServer) now() time.Duration {
	return time.Since(w.began) / time.Duration(w.o.Slower)
}

// send sends a message. If the node is closing, or the server is away, the message is lost.
func (m *simulatedMember) send(request uint64, message control.Message) {
	_ = m.link.send(request, message)
}

// run answers the server until the node is closed.
func (m *simulatedMember) run() {
	for {
		in, err := m.link.receive()
		if err != nil {
			return
		}
		m.receive(in)
	}
}

// onBeat sends what a node sends without being asked.
func (m *simulatedMember) onBeat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.send(0, &control.Ping{Counter_cycles: m.w.counter(m.index, m.w.now())})
	if m.beats++; m.beats%2 == 0 {
		_ = m.link.ping()
	}
	if m.probing {
		m.reportOwn()
	}
	m.w.beats.Add(1)
	m.due = m.due.Add(m.heartbeat)
	m.beat.Reset(time.Until(m.due))
}

// reportOwn reports the trains that a real node would have run since the last report.
func (m *simulatedMember) reportOwn() {
	for range m.heartbeat / time.Duration(m.w.o.Slower) / trainEvery {
		peer := m.neighbours[m.turn%len(m.neighbours)]
		m.turn++
		m.report++
		m.send(0, m.trains(m.r, peer, m.report, 1, trainExchanges))
	}
}

// The method trains invents trains with a peer, and returns a report in which they have just ended.
func (m *simulatedMember) trains(r *rand.Rand, peer string, number uint64, trains, exchanges int,
) *control.Trains {
	out := &control.Trains{Report: number, Peer: peer, PeerEpoch: "1", Epoch: "1"}
	var to int
	fmt.Sscanf(peer, "n%d", &to)
	const apart = 5 * time.Millisecond
	for i := range trains {
		at := m.w.now() - time.Duration(trains-i)*apart
		read := func(node int) tscratio.Interval { return tscratio.At(m.w.counter(node, at)) }
		t := control.Train{KernelStamps: uint64(4 * exchanges)}
		for range exchanges {
			e := tscratio.Exchange{Sent: read(m.index)}
			at += packetDelay(r)
			e.Received = read(to)
			at += 3 * time.Microsecond
			e.Answered = read(to)
			at += packetDelay(r)
			e.Returned = read(m.index)
			at += 2 * time.Microsecond
			t.Exchanges = append(t.Exchanges, e)
		}
		out.Trains = append(out.Trains, t)
	}
	return out
}

// closeOnce closes a channel once.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (m *simulatedMember) receive(in control.Incoming) {
	switch o := in.Message.(type) {
	case *control.LoadRequest:
		time.AfterFunc(time.Duration(o.Over_ns), func() {
			m.send(in.Request, &control.Load{Over_ns: o.Over_ns})
		})
	case *control.ProbeSecrets:
		m.send(in.Request, &control.Done{})
		closeOnce(m.secret)
	case *control.Graph:
		m.send(in.Request, &control.Done{})
		m.send(0, &control.Neighbours{Names: m.neighbours})
		closeOnce(m.graph)
	case *control.Probing:
		m.send(in.Request, &control.Done{})
		m.mu.Lock()
		m.probing = len(o.Targets) > 0 || o.Neighbours
		m.mu.Unlock()
		if m.probing {
			closeOnce(m.probes)
		}
	case *control.Probe:
		m.mu.Lock()
		m.report++
		number := m.report
		m.mu.Unlock()
		took := time.Duration(o.Trains) * (time.Duration(o.Gap_ns) + 2*time.Millisecond)
		time.AfterFunc(took, func() {
			r := rand.New(rand.NewPCG(number, uint64(m.index)))
			m.send(in.Request, m.trains(r, o.Peer, number, o.Trains, o.Exchanges))
		})
	case *control.Run:
		m.send(in.Request, &control.RunState{Name: o.Name, Closed: o.Close})
	case *control.Table:
		m.send(in.Request, &control.TableState{Generation: o.Generation})
	case *control.ListFiles:
		m.send(in.Request, &control.Files{Run: o.Run})
	}
}
