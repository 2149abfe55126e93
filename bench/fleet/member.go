package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// member is a simulated node of a real server. It answers as tscclient does. Its counter is a
// linear function of the time, and packets take a random time.
type member struct {
	w          *watched
	name       string
	index      int
	client     *control.Client
	r          *rand.Rand
	neighbours []string
	ctx        context.Context
	cancel     context.CancelFunc

	// Only run uses these fields.
	probing bool
	turn    int
	report  uint64

	secret, graph, probes chan struct{} // closed when the node has got each of them
}

// join registers a node. It returns how long it took until the node had a secret for probes, its
// part in the graph and, while a run is open, an order to probe.
func (w *watched) join(ctx context.Context, i int) (time.Duration, error) {
	m := &member{w: w, name: w.nodeName(i), index: i, neighbours: w.neighboursOf(i),
		r: rand.New(rand.NewPCG(w.o.Seed, 3+uint64(i))), secret: make(chan struct{}),
		graph: make(chan struct{}), probes: make(chan struct{})}
	var err error
	if m.client, err = w.dial(m.name); err != nil {
		return 0, err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	w.members.Store(m.name, m)
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
	d := m.described()
	began := time.Now()
	welcome, err := m.client.Register(ctx, control.Register{
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
	heartbeat := time.Duration(welcome.Heartbeat_ns)
	w.ended.Go(func() { m.run(heartbeat) })
	needs := []chan struct{}{m.secret}
	if i >= w.o.Nodes { // this node joins a large fleet with an open run
		needs = append(needs, m.graph, m.probes)
	}
	for _, got := range needs {
		select {
		case <-got:
		case <-time.After(time.Minute):
			return 0, fmt.Errorf("node %q did not get all that it needs within a minute", m.name)
		}
	}
	return time.Since(began), nil
}

func (m *member) close() {
	m.cancel()
	m.client.Close()
}

func (m *member) described() tscratio.Node {
	return tscratio.Node{Name: m.name, Epoch: "1", Nominal_hz: physical_hz, Quantum_cycles: 1,
		CoreSlack_cycles: 30}
}

// counter returns the reading of a node's counter.
func (w *watched) counter(i int, at time.Duration) uint64 {
	drift := float64((i*7919)%101-50) * 1e-6
	return uint64(origin+i<<20) + uint64(at.Seconds()*physical_hz*(1+drift))
}

func (m *member) send(request uint64, message control.Message) {
	ctx, cancel := context.WithTimeout(m.ctx, 5*time.Second)
	defer cancel()
	_ = m.client.Send(ctx, request, message) // the node is closing, or the server is away
}

// run answers the server and sends what a node sends on its own, until the node is closed.
func (m *member) run(heartbeat time.Duration) {
	messages := make(chan control.Incoming)
	m.w.ended.Go(func() {
		defer close(messages)
		for {
			in, err := m.client.Receive(m.ctx)
			if err != nil {
				return
			}
			select {
			case messages <- in:
			case <-m.ctx.Done():
				return
			}
		}
	})
	// Nodes begin at different moments.
	beat := time.NewTimer(time.Duration(m.r.Int64N(int64(heartbeat))))
	defer beat.Stop()
	for {
		select {
		case in, ok := <-messages:
			if !ok {
				return
			}
			m.receive(in)
		case <-beat.C:
			beat.Reset(heartbeat)
			m.send(0, &control.Ping{Counter_cycles: m.w.counter(m.index, time.Since(m.w.began))})
			if m.probing {
				m.reportOwn(heartbeat)
			}
		}
	}
}

// reportOwn reports the trains since the last report.
func (m *member) reportOwn(since time.Duration) {
	for range since / trainEvery {
		peer := m.neighbours[m.turn%len(m.neighbours)]
		m.turn++
		m.report++
		m.send(0, m.trains(peer, m.report, 1, exchanges))
	}
}

// trains returns a report of trains that end now.
func (m *member) trains(peer string, number uint64, trains, exchanges int) *control.Trains {
	out := &control.Trains{Report: number, Peer: peer, PeerEpoch: "1", Epoch: "1"}
	var to int
	fmt.Sscanf(peer, "n%d", &to)
	const apart = 5 * time.Millisecond
	for i := range trains {
		at := time.Since(m.w.began) - time.Duration(trains-i)*apart
		read := func(node int) tscratio.Interval { return tscratio.At(m.w.counter(node, at)) }
		t := control.Train{KernelStamps: uint64(4 * exchanges)}
		for range exchanges {
			e := tscratio.Exchange{Sent: read(m.index)}
			at += delay(m.r)
			e.Received = read(to)
			at += 3 * time.Microsecond
			e.Answered = read(to)
			at += delay(m.r)
			e.Returned = read(m.index)
			at += 2 * time.Microsecond
			t.Exchanges = append(t.Exchanges, e)
		}
		out.Trains = append(out.Trains, t)
	}
	return out
}

// got closes a channel once.
func got(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (m *member) receive(in control.Incoming) {
	switch o := in.Message.(type) {
	case *control.LoadRequest:
		time.AfterFunc(time.Duration(o.Over_ns), func() {
			m.send(in.Request, &control.Load{Over_ns: o.Over_ns})
		})
	case *control.ProbeSecrets:
		m.send(in.Request, &control.Done{})
		got(m.secret)
	case *control.Graph:
		m.send(in.Request, &control.Done{})
		m.send(0, &control.Neighbours{Names: m.neighbours})
		got(m.graph)
	case *control.Probing:
		m.send(in.Request, &control.Done{})
		m.probing = len(o.Targets) > 0 || o.Neighbours
		if m.probing {
			got(m.probes)
		}
	case *control.Probe:
		m.report++
		number := m.report
		took := time.Duration(o.Trains) * (time.Duration(o.Gap_ns) + 2*time.Millisecond)
		time.AfterFunc(took, func() {
			r := *m // its own random numbers: trains uses nothing else that changes
			r.r = rand.New(rand.NewPCG(number, uint64(m.index)))
			m.send(in.Request, r.trains(o.Peer, number, o.Trains, o.Exchanges))
		})
	case *control.Run:
		m.send(in.Request, &control.RunState{Name: o.Name, Closed: o.Close})
	case *control.Table:
		m.send(in.Request, &control.TableState{Generation: o.Generation})
	case *control.ListFiles:
		m.send(in.Request, &control.Files{Run: o.Run})
	}
}
