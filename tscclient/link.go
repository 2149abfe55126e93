package tscclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// LinkConfig configures the link over which a server commands a client.
type LinkConfig struct {
	Server control.ClientConfig

	// Register describes the node. The link itself sets some fields: it gets the name, the epoch,
	// the properties of the counter and the probe address from the client, and also sets the
	// instance and the nonce.
	Register control.Register

	// Advertise is the address at which other nodes reach the client's answerer. Zero means the
	// address on which the client listens or, if that is the wildcard address, the address from
	// which packets to the server are sent.
	Advertise netip.AddrPort

	// Handle carries out orders that do not concern probing: runs, tables, files, snapshots. If
	// Handle is nil, or returns a nil message and no error, the link refuses the order as unknown.
	// Several goroutines may call Handle at the same time. The context that it gets ends with the
	// link.
	Handle func(ctx context.Context, m control.Message) (control.Message, error)

	// Facts returns texts such as "role=worker", the most important first. The node says them about
	// itself in the graph of a large fleet, and Find finds the node by them. The link calls Facts
	// every few seconds. If Facts is nil, the node says nothing.
	Facts func() []string

	// Heats returns values of the node that should be low, such as its number of dropped events.
	// Hot finds nodes by these values. Heats is called every few seconds. If Heats is nil, the node
	// tells others only its HeatBound.
	Heats func() map[string]uint64

	// ReadFile reads a part of one of the node's files of a run for a collector, and returns the
	// size of the whole file. File 0 is the list of the other files. Several goroutines may call
	// ReadFile at the same time. If ReadFile is nil, the node gives no files to collectors.
	ReadFile func(run string, file int, offset int64, into []byte) (n int, size int64, err error)

	// OpenRun returns the name of the run that the node has open, or "". A nil OpenRun means that
	// the node never has an open run.
	OpenRun func() string

	Log *slog.Logger // nil: the link logs nothing

	// In tests, elapsed may replace the time since the link began. The clock of the graph runs pace
	// times faster. 0 stands for 1.
	elapsed func() time.Duration
	pace    int
}

// LinkState is the state of a link.
type LinkState struct {
	Registered    bool
	Server        string    // identifies the server's process at the newest registration
	Since         time.Time // when Registered last changed
	Problem       string    // why the client is not registered; "" if it is
	Lasting       bool      // the problem stays until a person solves it
	Registrations uint64
	Reports       uint64 // reports that the server has not acknowledged
	Dropped       uint64 // reports that were dropped because too many were waiting
}

// A Link keeps a client registered with a server and carries out the server's orders: to run
// trains, to probe on its own, to measure its load. LinkConfig.Handle carries out all other orders.
// If the server disappears or restarts, or the node's epoch changes, the Link registers again.
// After each failed attempt it waits longer. Any goroutine may use it.
type Link struct {
	client  *Client
	config  LinkConfig
	control *control.Client
	reports *waitingReports
	graph   *graphPart
	blind   func() // ends the calls of the method noteTrain

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	again   chan struct{} // makes stayRegistered register again; has room for one element

	mu    sync.Mutex
	state LinkState

	probing sync.Mutex       // held while the client's peers are set
	order   *control.Probing // the order in force; nil: none
}

// These are pauses between attempts to register. After a refusal for a lasting reason, attempts are
// rare.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
	refusedPause = 30 * time.Second

	registerTimeout = 5 * time.Second
	answerTimeout   = 10 * time.Second

	// maxOrders is the largest number of the server's orders that a link works on at the same time.
	// A correct server waits for most answers, so it never has this number of orders under way.
	maxOrders = 64
)

// Connect starts to keep a client registered. It does not wait for the server. Close ends the link
// and leaves the client running.
func Connect(c *Client, config LinkConfig) (*Link, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if !config.Advertise.IsValid() {
		config.Advertise = c.Address()
		if config.Advertise.Addr().IsUnspecified() {
			own, err := addressTowards(config.Server.Server)
			if err != nil {
				return nil, fmt.Errorf("find the address at which others reach %q: %w: "+
					"give the address to advertise", c.Node().Name, err)
			}
			config.Advertise = netip.AddrPortFrom(own, c.Address().Port())
		}
	}
	if config.Register.Instance == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		config.Register.Instance = hex.EncodeToString(b[:])
	}
	l := &Link{client: c, config: config, again: make(chan struct{}, 1)}
	var err error
	if l.graph, err = listenGraph(l); err != nil {
		return nil, err
	}
	if l.control, err = control.Dial(config.Server); err != nil {
		l.graph.socket.Close()
		return nil, err
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.reports = newReports(l.sendReport)
	l.blind = c.Observe(l.noteTrain)
	l.state.Since = time.Now()
	l.running.Add(5)
	go l.graph.maintainEdges()
	go l.graph.receiveDatagrams()
	go l.stayRegistered()
	go l.carryOutOrders()
	go l.flush()
	return l, nil
}

// addressTowards returns the address from which this machine would send packets to a server. It
// sends no packet.
func addressTowards(server string) (netip.Addr, error) {
	c, err := net.Dial("udp", server)
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// State returns the state of the link.
func (l *Link) State() LinkState {
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	s.Reports, s.Dropped = l.reports.count()
	return s
}

// Tell sends the server a message that has no answer. It fails if the link is not registered.
func (l *Link) Tell(ctx context.Context, m control.Message) error {
	if s := l.State(); !s.Registered {
		return fmt.Errorf("tell %s: not registered: %s", m.Kind(), s.Problem)
	}
	return l.control.Send(ctx, 0, m)
}

// Close tells the server that the client leaves, and ends the link. Reports that the server has not
// acknowledged may be lost, but Client.Pairs still has what their trains proved.
func (l *Link) Close() error {
	if l.ctx.Err() == nil && l.State().Registered {
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		l.flushNow(ctx)
		// If this message is lost, the server notices a little later that the client is gone.
		_ = l.control.Send(ctx, 0, &control.Leave{Why: "closed"})
		cancel()
	}
	l.blind()
	if l.ctx.Err() == nil {
		l.graph.leaveGraph()
	}
	l.stop()
	err := l.control.Close()
	l.running.Wait()
	return err
}

// stayRegistered registers, sends pings, and registers again when the registration ends.
func (l *Link) stayRegistered() {
	defer l.running.Done()
	pause := firstPause
	for l.ctx.Err() == nil {
		welcome, err := l.register()
		if err != nil {
			l.notRegistered(err)
			wait := pause + time.Duration(mathrand.Int64N(int64(pause)))
			pause = min(2*pause, longestPause)
			if isLasting(err) {
				wait = refusedPause
			}
			l.waitOrRegister(wait)
			continue
		}
		pause = firstPause
		err = l.sendPings(welcome)
		l.notRegistered(err)
		if !errors.Is(err, errAgain) {
			l.waitOrRegister(firstPause) // never ask a server without a pause, whatever it answers
		}
	}
}

// isLasting reports whether a server refused for a reason that only a person can remove.
func isLasting(err error) bool {
	var refused *control.RefusedError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case control.WrongVersion, control.NotAllowed, control.Malformed:
		return true
	}
	return false
}

// waitOrRegister waits for a given time, but at most until registerAgain is called or the Link is
// closed.
func (l *Link) waitOrRegister(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.again:
	case <-l.ctx.Done():
	}
}

func (l *Link) register() (*control.Welcome, error) {
	epoch, err := l.client.Check()
	if err != nil {
		return nil, err
	}
	n, r := l.client.Node(), l.config.Register
	r.Name, r.Epoch, r.Nominal_hz = n.Name, epoch, n.Nominal_hz
	r.Quantum_cycles, r.CoreSlack_cycles = n.Quantum_cycles, n.CoreSlack_cycles
	r.ProbeAddress = l.config.Advertise.String()
	r.Graph = string(l.graph.socket.Name())
	if !r.Can(control.CanProbe) {
		r.Capabilities = append([]string{control.CanProbe}, r.Capabilities...)
	}
	if l.config.OpenRun != nil {
		r.OpenRun = l.config.OpenRun()
	}
	// Queue the old reports before the server can send orders. The reports that answer these orders
	// have higher numbers, and must be sent after the old reports.
	l.reports.sendAgain()
	ctx, cancel := context.WithTimeout(l.ctx, registerTimeout)
	defer cancel()
	welcome, err := l.control.Register(ctx, r)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	another := l.state.Server != "" && l.state.Server != welcome.Server
	l.state.Registered, l.state.Server = true, welcome.Server
	l.state.Problem, l.state.Lasting = "", false
	l.state.Since = time.Now()
	l.state.Registrations++
	l.mu.Unlock()
	if another { // the new process does not know the orders of the old process
		_ = l.probeAsOrdered(nil)
	}
	l.config.Log.Info("registered", "server", l.config.Server.Server, "node", r.Name,
		"epoch", epoch, "probes at", r.ProbeAddress)
	return welcome, nil
}

func (l *Link) notRegistered(err error) {
	if l.ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	was := l.state
	l.state.Problem, l.state.Lasting = err.Error(), isLasting(err)
	if was.Registered {
		l.state.Registered, l.state.Since = false, time.Now()
	}
	l.mu.Unlock()
	if was.Registered || was.Problem != err.Error() { // log each problem once
		l.config.Log.Warn("not registered", "server", l.config.Server.Server, "why", err)
	}
}

var errAgain = errors.New("registering again")

// sendPings sends pings until the registration ends, and returns the reason for the end.
func (l *Link) sendPings(w *control.Welcome) error {
	beat, dead := time.Duration(w.Heartbeat_ns), time.Duration(w.Dead_ns)
	registered := l.client.Node().Epoch
	heard := time.Now()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-l.again:
			return errAgain
		case <-ticker.C:
		}
		epoch, err := l.client.Check()
		if err == nil && epoch != registered {
			return fmt.Errorf("the node's epoch is now %q: %w", epoch, errAgain)
		}
		ctx, cancel := context.WithTimeout(l.ctx, min(dead/2, answerTimeout))
		_, err = l.control.Call(ctx, &control.Ping{Counter_cycles: l.client.Counter()})
		cancel()
		var refused *control.RefusedError
		switch {
		case err == nil:
			heard = time.Now()
		case errors.As(err, &refused), errors.Is(err, control.ErrKey):
			return err
		case time.Since(heard) > dead:
			silent := time.Since(heard).Round(time.Millisecond)
			return fmt.Errorf("server has been silent for %v: %w", silent, err)
		}
	}
}

// carryOutOrders carries out the server's orders.
func (l *Link) carryOutOrders() {
	defer l.running.Done()
	orders := make(chan struct{}, maxOrders)
	// For each kind of order that stays in force (see staysInForce), the map newest has a channel.
	// The channel is closed when the newest order of the kind has been carried out and answered.
	newest := map[control.Kind]chan struct{}{}
	for {
		in, err := l.control.Receive(l.ctx)
		if err != nil {
			return
		}
		switch m := in.Message.(type) {
		case *control.Ack:
			l.reports.dropAcknowledged(m.Report)
			continue
		case *control.Refusal:
			if m.Code == control.NotRegistered {
				l.registerAgain()
			}
			continue
		case *control.Pong, *control.Welcome, *control.Challenge, *control.Answer:
			continue // the caller no longer waits for this answer
		}
		select {
		case orders <- struct{}{}:
		default:
			l.answer(in.Request, control.Refuse(control.NotNow,
				fmt.Sprintf("%d orders are under way: order less at a time", maxOrders)))
			continue
		}
		var before chan struct{}
		done := make(chan struct{})
		if staysInForce(in.Message) {
			before, newest[in.Message.Kind()] = newest[in.Message.Kind()], done
		}
		l.running.Add(1)
		go func() {
			defer l.running.Done()
			defer func() { <-orders }()
			defer close(done)
			if before != nil {
				<-before
			}
			if answer := l.obey(in.Message); answer != nil {
				l.answer(in.Request, answer)
			}
		}()
	}
}

// staysInForce reports whether an order stays in force until the next order of its kind. The link
// carries out such orders in the order in which they arrived, so that the last order stays in
// force.
func staysInForce(m control.Message) bool {
	switch m.(type) {
	case *control.Table, *control.Run, *control.Probing, *control.ProbeSecrets, *control.Graph:
		return true
	}
	return false
}

func (l *Link) registerAgain() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

func (l *Link) answer(request uint64, m control.Message) {
	if request == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, answerTimeout)
	defer cancel()
	send := func() {
		if err := l.control.Send(ctx, request, m); err != nil && l.ctx.Err() == nil {
			l.config.Log.Warn("answer was not sent", "kind", m.Kind(), "why", err)
		}
	}
	if trains, ok := m.(*control.Trains); ok {
		l.reports.reportBatch(ctx, trains, send)
		return
	}
	send()
}

func (l *Link) obey(m control.Message) control.Message {
	var err error
	var answer control.Message
	switch m := m.(type) {
	case *control.Probe:
		answer, err = l.runOrderedTrains(m)
	case *control.Probing:
		answer, err = l.switchProbing(m)
	case *control.ProbeSecrets:
		l.client.Accept(secretsOf(m))
		answer = &control.Done{}
	case *control.Graph:
		answer, err = &control.Done{}, l.graph.passOrder(m)
	case *control.LoadRequest:
		answer, err = measureLoad(l.ctx, l.client, time.Duration(m.Over_ns))
	default:
		if l.config.Handle != nil {
			answer, err = l.config.Handle(l.ctx, m)
		}
		if answer == nil && err == nil {
			return control.Refuse(control.UnknownKind,
				fmt.Sprintf("node %q takes no %s", l.client.Node().Name, m.Kind()))
		}
	}
	if err != nil {
		return control.Refuse(control.Failed, err.Error())
	}
	return answer
}
