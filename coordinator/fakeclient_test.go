package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

type state int

const (
	clientRunning state = iota
	clientStopped       // as by SIGSTOP
	clientKilled
)

// fakeClient simulates a node's client. Its counter is an exact linear function of time.
type fakeClient struct {
	f         *fleet
	register  control.Register
	key       control.Key // the key of its connection; empty by default
	refused   []*control.Refusal
	peer      control.Peer
	state     state
	isCut     bool // the network delivers nothing from or to it
	offset    uint64
	rate      float64 // cycles per nanosecond
	probing   *control.Probing
	member    *fakeMember // its part in the graph; nil: none
	turn      int
	nextTrain time.Duration // when the next of its own trains begins
	report    uint64
	unacked   []*control.Trains
	opened    []control.Run
	tables    []uint64

	watches        []control.Watch
	snapshots      []control.Snapshot
	answerer       fakeAnswerer
	ignoresSecrets bool     // ignores new secrets
	missing        []string // parts that it reports as missing from runs
	channels       int      // channels that it reports as logged in runs
	files          map[string][]byte
	sent           int // number of bytes of files that it has sent
	heard          time.Duration
	busy           int64 // its load in ppm
	life           int   // if it increases, events that were planned before have no effect
	lie            func(peer string) (off, shorter int64)
	overRun        *control.Frequency // sent when a run is closed

	// slowAnswer delays the answers about files and tables. If the function instead is not nil, it
	// is called with each such answer, and the client sends the message that the function returns.
	slowAnswer time.Duration
	instead    func(answer control.Message) control.Message
}

func (f *fleet) join(name string) *fakeClient {
	c := &fakeClient{
		f: f, offset: f.r.Uint64() >> 4, rate: 2.6 * (1 + (f.r.Float64()-0.5)*1e-4),
		files: map[string][]byte{},
	}
	c.answerer = fakeAnswerer{
		f: f, secrets: map[uint64]minrtt.Secret{}, ends: map[uint64]time.Duration{},
	}
	c.register = control.Register{
		Name: name, Instance: fmt.Sprintf("i%d", f.r.Uint64()), Epoch: "e1",
		Nominal_hz: 2.6e9, Quantum_cycles: 1, CoreSlack_cycles: 50, Machine: "m-" + name, Cores: 2,
		Capabilities: []string{
			control.CanProbe, control.CanRun, control.CanTable, control.CanFiles,
		},
		ProbeAddress: fmt.Sprintf("10.0.0.1:%d", 1000+len(f.clients)), Software: "fake",
		Frequency: &control.Frequency{
			Lo_millihz: 2.5999e12, Hi_millihz: 2.6001e12, Clock: "a sundial",
		},
	}
	f.clients[name] = c
	c.connect()
	return c
}

func (c *fakeClient) counter(at time.Duration) uint64 {
	// All tests compute a counter by this formula, so that it is rounded alike everywhere.
	return c.offset + uint64(float64(at)*c.rate)
}

// runLater calls the function do once the time d has passed, unless the client has stopped or
// restarted by then.
func (c *fakeClient) runLater(d time.Duration, do func()) {
	life := c.life
	c.f.after(d, func() {
		if c.life == life && c.state == clientRunning {
			do()
		}
	})
}

func (c *fakeClient) connect() {
	f := c.f
	f.peers++
	delete(f.byPeer, c.peer)
	c.peer = control.Peer(fmt.Sprintf("p%d", f.peers))
	f.byPeer[c.peer] = c
	c.heard = f.time
	c.send(0, &c.register)
}

func (c *fakeClient) send(request uint64, m control.Message) {
	frames, err := control.Encode(m, request)
	if err != nil {
		c.f.t.Fatal(err)
	}
	peer := c.peer
	c.f.after(50*time.Microsecond, func() {
		if c.isCut {
			return
		}
		got, request, err := control.Decode(frames)
		if err != nil {
			c.f.t.Fatal(err)
		}
		if got.Kind() == control.KindRegister { // the real link does this, too
			delete(c.f.forgotten, peer)
		} else if c.f.forgotten[peer] {
			c.f.after(50*time.Microsecond, func() {
				if c.peer == peer && c.state == clientRunning && !c.isCut {
					c.receive(request, control.Refuse(control.NotRegistered, "register"))
				}
			})
			return
		}
		c.f.core.handle(control.Incoming{Peer: peer, Key: c.key, Request: request, Message: got})
	})
}

func (c *fakeClient) beat() {
	if c.f.time-c.heard > 4*time.Second {
		c.connect()
	} else {
		c.send(0, &control.Ping{Counter_cycles: c.counter(c.f.time)})
	}
	c.life++
	c.runLater(time.Second, c.beat)
	if c.probing != nil {
		c.runLater(max(0, c.nextTrain-c.f.time), c.probeOn)
	}
}

// probeLater schedules the next train that the node sends on its own.
func (c *fakeClient) probeLater() {
	period := time.Duration(c.probing.Period_ns)
	c.nextTrain = c.f.time + period
	c.runLater(period, c.probeOn)
}

func (c *fakeClient) receive(request uint64, m control.Message) {
	c.heard = c.f.time
	switch m := m.(type) {
	case *control.Welcome:
		c.life++
		c.runLater(time.Second, c.beat)
		for _, r := range c.unacked {
			c.send(0, r)
		}
	case *control.Refusal:
		c.refused = append(c.refused, m)
		if m.Code == control.NameTaken {
			c.runLater(time.Second, c.connect)
		} else if m.Code == control.NotRegistered {
			c.connect()
		}
	case *control.LoadRequest:
		c.runLater(time.Duration(m.Over_ns), func() {
			c.send(request, &control.Load{Over_ns: m.Over_ns, Busy_ppm: c.busy})
		})
	case *control.ProbeSecrets:
		if !c.ignoresSecrets {
			c.answerer.accept(m)
			c.send(request, &control.Done{})
		}
	case *control.Probe:
		c.probe(request, m)
	case *control.Probing:
		c.send(request, &control.Done{})
		c.probing = nil
		if len(m.Targets) > 0 || m.Neighbours {
			c.probing = m
			c.probeLater()
		}
	case *control.Graph:
		c.send(request, &control.Done{})
		c.member.joinGraph(m)
	case *control.Ack:
		c.unacked = slices.DeleteFunc(c.unacked, func(t *control.Trains) bool {
			acked := t.Report <= m.Report
			if acked && c.f.acknowledged != nil {
				c.f.acknowledged(c, t)
			}
			return acked
		})
	case *control.Run:
		c.opened = append(c.opened, *m)
		if c.register.OpenRun = m.Name; m.Close {
			c.register.OpenRun = ""
		}
		state := &control.RunState{Name: m.Name, Closed: m.Close, Missing: c.missing}
		if m.Close {
			state.Frequency, state.Channels = c.overRun, c.channels
		}
		c.send(request, state)
	case *control.Snapshot:
		c.snapshots = append(c.snapshots, *m)
		c.send(request, &control.SnapshotState{Channels: 1})
	case *control.Watch:
		c.watches = append(c.watches, *m)
	case *control.Table:
		c.tables = append(c.tables, m.Generation)
		c.answer(request, &control.TableState{Generation: m.Generation, Matched: []int{2}})
	case *control.ListFiles:
		files := &control.Files{Run: m.Run}
		for path, data := range c.files {
			files.Files = append(files.Files, control.File{Path: path, Bytes: int64(len(data))})
		}
		c.answer(request, files)
	case *control.ReadFile:
		data := c.files[m.Path]
		m.Bytes = min(m.Bytes, 1000) // a small limit makes each file arrive in many parts
		c.sent += int(min(m.Bytes, int64(len(data))-m.Offset))
		part := data[m.Offset:min(m.Offset+m.Bytes, int64(len(data)))]
		c.answer(request, &control.Chunk{
			Path: m.Path, Offset: m.Offset, Size: int64(len(data)), Data: part,
		})
	}
}

func (c *fakeClient) answer(request uint64, m control.Message) {
	if c.instead != nil {
		m = c.instead(m)
	}
	if c.slowAnswer > 0 {
		c.f.after(c.slowAnswer, func() { c.send(request, m) })
		return
	}
	c.send(request, m)
}

// train runs one train while the fleet's clock stands still. It returns how long the train takes.
func (c *fakeClient) train(to *fakeClient, exchanges int) (t control.Train, took time.Duration) {
	at := c.f.time
	way := func(from, to *fakeClient) time.Duration {
		l, ok := c.f.links[[2]string{from.register.Name, to.register.Name}]
		if !ok {
			l = link{10 * time.Microsecond, 20 * time.Microsecond}
		}
		return l.base + time.Duration(c.f.r.Int64N(int64(l.noise)+1))
	}
	// A liar shifts all its stamps by a number of cycles. It also makes each packet look faster by
	// a number of cycles.
	stamp := func(of, peer *fakeClient, leaves bool) tscratio.Interval {
		n := of.counter(at)
		if of.lie != nil {
			off, shorter := of.lie(peer.register.Name)
			if !leaves {
				shorter = -shorter
			}
			n += uint64(off + shorter)
		}
		return tscratio.Interval{Lo: n, Hi: n}
	}
	for range exchanges {
		var e tscratio.Exchange
		e.Sent = stamp(c, to, true)
		at += way(c, to)
		e.Received = stamp(to, c, false)
		at += 2 * time.Microsecond
		e.Answered = stamp(to, c, true)
		at += way(to, c)
		e.Returned = stamp(c, to, false)
		at += 2 * time.Microsecond
		t.Exchanges = append(t.Exchanges, e)
	}
	return t, at - c.f.time
}

func (c *fakeClient) probe(request uint64, m *control.Probe) {
	f := c.f
	out := &control.Trains{Peer: m.Peer, PeerEpoch: m.PeerEpoch, Epoch: c.register.Epoch}
	to := f.clients[m.Peer]
	if to == nil || to.state != clientRunning || to.isCut || to.register.ProbeAddress != m.Address {
		out.Error, out.Lost = "no answer", uint64(m.Attempts)
		silence := time.Duration(m.Attempts) * time.Duration(m.Timeout_ns)
		c.runLater(silence, func() { c.send(request, out) })
		return
	}
	if !f.wasAnswered(c, to, m.Key) {
		out.Error = "no answer"
		c.send(request, out)
		return
	}
	f.probed[[2]string{c.register.Name, m.Peer}]++
	for _, name := range []string{c.register.Name, m.Peer} {
		if f.active[name] {
			f.clashes++
		}
		f.active[name] = true
	}
	var next func()
	next = func() {
		if len(out.Trains) == m.Trains {
			f.active[c.register.Name], f.active[m.Peer] = false, false
			c.send(request, out)
			return
		}
		t, took := c.train(to, m.Exchanges)
		out.Trains = append(out.Trains, t)
		life := c.life
		f.after(took+time.Duration(m.Gap_ns), func() {
			if c.state != clientRunning || life > c.life || to.state != clientRunning {
				f.active[c.register.Name], f.active[m.Peer] = false, false
				return
			}
			next()
		})
	}
	next()
}

// probeOn runs the next train that the node sends on its own.
func (c *fakeClient) probeOn() {
	p := c.probing
	if p == nil {
		return
	}
	targets := p.Targets
	if p.Neighbours {
		targets = append(slices.Clone(targets), c.member.targets()...)
	}
	if len(targets) == 0 {
		c.probeLater()
		return
	}
	target := targets[c.turn%len(targets)]
	c.turn++
	to := c.f.clients[target.Peer]
	if to != nil && to.state == clientRunning && !to.isCut && !c.isCut &&
		c.f.wasAnswered(c, to, target.Key) {
		c.report++
		t, _ := c.train(to, p.Exchanges)
		out := &control.Trains{
			Report: c.report, Peer: target.Peer, PeerEpoch: target.PeerEpoch,
			Epoch: c.register.Epoch, Trains: []control.Train{t},
		}
		c.unacked = append(c.unacked, out)
		c.send(0, out)
	}
	c.probeLater()
}
