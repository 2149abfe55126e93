package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pebbe/zmq4"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// hostileJob makes a client hostile. It knows what all counters show, because the best liar knows
// the truth.
type hostileJob struct {
	Seed    uint64
	Fleet   []hostilePeer // the last one is the client itself
	Patient bool          // it also does things that delay the end of a run by minutes
}

type hostilePeer struct {
	Name, Epoch string
	Clocks      []byte
}

// hostile is a member of the fleet that has a key of its own and does whatever it likes.
type hostile struct {
	job         job
	key, server control.Key
	peers       []hostilePeer // without itself
	truth       map[string]*vnode.Truth
	link        *control.Client
	context     *zmq4.Context
	answerer    *minrtt.Answerer

	// These belong to the goroutine that does the deeds.
	rand     *rand.Rand
	register control.Register

	mu     sync.Mutex // guards what follows
	epoch  string     // as the server knows it
	report uint64
}

func newHostile(j job, key, server control.Key) *hostile {
	return &hostile{
		job: j, key: key, server: server, truth: map[string]*vnode.Truth{},
		rand: rand.New(rand.NewPCG(j.Hostile.Seed, 0)), epoch: j.Node.Epoch,
	}
}

// hostileDeeds are done in random order.
var hostileDeeds = []struct {
	name string
	do   func(*hostile) error
}{
	{"lies", (*hostile).lies},
	{"lies about itself and others", (*hostile).liesOfNoEnd},
	{"large reports", (*hostile).largeReports},
	{"epochs", (*hostile).epochs},
	{"names", (*hostile).names},
	{"facts", (*hostile).facts},
	{"snapshots", (*hostile).snapshots},
	{"asks", (*hostile).asks},
	{"answers to questions that nobody asked", (*hostile).unasked},
	{"garbage", (*hostile).garbage},
	{"garbage instead of ZeroMQ", (*hostile).strange},
	{"connections", (*hostile).connections},
	{"deafness", (*hostile).deaf},
	{"an endless message", (*hostile).endless},
}

// run does deeds until the process is killed.
func (h *hostile) run() error {
	for _, p := range h.job.Hostile.Fleet {
		clocks, err := vnode.ParseConfig(p.Clocks)
		if err != nil {
			return err
		}
		if h.truth[p.Name], err = vnode.NewTruth(clocks.Counter); err != nil {
			return err
		}
		if p.Name != h.job.Node.Name {
			h.peers = append(h.peers, p)
		}
	}
	n := h.job.Node
	h.register = control.Register{
		Name: n.Name, Instance: "hostile", Epoch: n.Epoch, NominalHz: n.NominalHz,
		QuantumCycles: n.QuantumCycles, CoreSlackCycles: n.CoreSlackCycles, Virtual: true,
		Machine: "this", Cores: h.job.Cores, Software: "test",
		ProbeAddress: h.job.Listen.String(),
		Capabilities: []string{
			control.CanProbe, control.CanRun, control.CanTable, control.CanFiles,
			control.CanSnapshot,
		},
	}
	if err := h.answerProbes(); err != nil {
		return err
	}
	var err error
	if h.context, err = zmq4.NewContext(); err != nil {
		return err
	}
	config := control.ClientConfig{Server: h.job.Address, Key: &h.key, Public: h.server.Public}
	h.link, err = control.Dial(config)
	if err != nil {
		return err
	}
	go h.answers()
	go h.lives()
	for ; ; h.rest() {
		for _, i := range h.rand.Perm(len(hostileDeeds)) {
			h.signUp(h.register) // this may be refused, when its share is used up
			d := hostileDeeds[i]
			err := d.do(h)
			text, _ := json.Marshal(struct{ Did, Error string }{d.name, fmt.Sprint(err)})
			fmt.Fprintf(os.Stderr, "%s\n", text)
		}
	}
}

// rest lies at a slow pace, so that its share does not prevent all that it does.
func (h *hostile) rest() {
	h.during(time.Second, func() { h.lies(); time.Sleep(50 * time.Millisecond) })
}

func (h *hostile) during(d time.Duration, do func()) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		do()
	}
}

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// signUp registers, and returns why it could not.
func (h *hostile) signUp(r control.Register) error {
	ctx, cancel := within(2 * time.Second)
	defer cancel()
	_, err := h.link.Register(ctx, r)
	if err == nil && r.Name == h.job.Node.Name {
		h.mu.Lock()
		h.epoch = r.Epoch
		h.mu.Unlock()
	}
	return err
}

func (h *hostile) send(request uint64, m control.Message) error {
	ctx, cancel := within(time.Second)
	defer cancel()
	return h.link.Send(ctx, request, m)
}

// lives keeps it registered.
func (h *hostile) lives() {
	for range time.Tick(200 * time.Millisecond) {
		h.send(0, &control.Ping{})
	}
}

// A liar's line says where its counter, or a peer's, is at about this moment. A reading that is
// exact to the cycle would not be a lie.
type liarsLine struct {
	at, reading uint64
	rate        float64
}

func (h *hostile) line(name string) liarsLine {
	const back = 1e8
	now := asm.Counter()
	t := h.truth[name]
	return liarsLine{now, t.Reading(now), float64(t.Reading(now)-t.Reading(now-back)) / back}
}

func (l liarsLine) interval(back uint64, lie int64, width uint64) control.Interval {
	lo := l.reading - uint64(float64(back)*l.rate) + uint64(lie)
	return control.Interval{Lo: lo, Hi: lo + width}
}

// trains makes trains that may each pass for a real one. The peer's stamps are true. Its own are
// shifted, or run at another rate, or are narrower than they may be.
func (h *hostile) trains(r *rand.Rand, peer string, trains, exchanges int) (out []control.Train) {
	own, other := h.line(h.job.Node.Name), h.line(peer)
	lie := []int64{0, 300, -300, 100_000, -100_000, 1 << 40}[r.IntN(6)]
	own.rate *= []float64{1, 1 + 1e-7, 1 + 1e-5, 2}[r.IntN(4)]
	width := []uint64{0, 10, 10_000}[r.IntN(3)]
	const step = 5000
	back := uint64(trains*(exchanges+1)+1) * 4 * step
	for range trains {
		t := control.Train{KernelStamps: uint64(4 * exchanges)}
		for range exchanges {
			t.Exchanges = append(t.Exchanges, control.Exchange{
				Sent:     own.interval(back, lie, width),
				Received: other.interval(back-step, 0, width),
				Answered: other.interval(back-2*step, 0, width),
				Returned: own.interval(back-3*step, lie, width),
			})
			back -= 4 * step
		}
		out = append(out, t)
		back -= 4 * step
	}
	return out
}

func (h *hostile) reportOf(peer hostilePeer, trains []control.Train) *control.Trains {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report++
	return &control.Trains{
		Report: h.report, Peer: peer.Name, PeerEpoch: peer.Epoch, Epoch: h.epoch, Trains: trains,
	}
}

func (h *hostile) lies() (err error) {
	for _, p := range h.peers {
		trains := h.trains(h.rand, p.Name, 1+h.rand.IntN(5), 1+h.rand.IntN(20))
		err = h.send(0, h.reportOf(p, trains))
	}
	return err
}

// liesOfNoEnd reports trains with itself, with an unknown node, and between other nodes, as far as
// a message can say that.
func (h *hostile) liesOfNoEnd() (err error) {
	self := hostilePeer{Name: h.job.Node.Name, Epoch: h.epoch}
	h.send(0, h.reportOf(self, h.trains(h.rand, self.Name, 3, 10)))
	nobody := hostilePeer{Name: "nobody", Epoch: "e"}
	h.send(0, h.reportOf(nobody, h.trains(h.rand, self.Name, 3, 10)))
	for _, p := range h.peers {
		of := h.peers[h.rand.IntN(len(h.peers))]
		m := h.reportOf(p, h.trains(h.rand, p.Name, 3, 10))
		m.Epoch, m.Report = of.Epoch, 1<<63
		err = h.send(0, m)
		frames, e := control.Encode(m, 0)
		if e != nil {
			return e
		}
		var body map[string]any
		if err := json.Unmarshal(frames[1], &body); err != nil {
			return err
		}
		body["node"], body["name"], body["by"] = of.Name, of.Name, of.Name
		frames[1], _ = json.Marshal(body)
		h.raw(func(s *zmq4.Socket) { sendRaw(s, frames) })
	}
	return err
}

// largeReports sends reports as long as they may be: many trains, one train, and trains far apart.
func (h *hostile) largeReports() (err error) {
	for range 3 {
		for _, shape := range [][2]int{{10_000, 9}, {1, 100_000}, {100, 900}} {
			p := h.peers[h.rand.IntN(len(h.peers))]
			trains := h.trains(h.rand, p.Name, shape[0], shape[1])
			if e := h.send(0, h.reportOf(p, trains)); e != nil {
				err = e
			}
		}
	}
	return err
}

func (h *hostile) epochs() (err error) {
	for range 10 {
		r := h.register
		r.Epoch = fmt.Sprintf("%0200d", h.rand.Uint64())
		err = h.signUp(r)
		h.lies()
	}
	return err
}

// names registers under other nodes' names, and under names that the server does not know.
func (h *hostile) names() (err error) {
	for i := range 10 {
		r := h.register
		r.Name = fmt.Sprintf("x%d", h.rand.Uint64())
		if i%2 == 0 {
			r.Name = h.peers[h.rand.IntN(len(h.peers))].Name
		}
		if err = h.signUp(r); err == nil {
			return fmt.Errorf("it is registered as %s", r.Name)
		}
	}
	return err
}

func (h *hostile) facts() (err error) {
	for i := range 10 {
		r := h.register
		bytes := []int{10_000, 10_900, 20_000, 600_000}[i%4] // each takes six bytes in JSON
		r.Facts = []byte(`{"x":"` + strings.Repeat(`\u0001`, bytes) + `"}`)
		if frames, err := control.Encode(&r, 1); err == nil {
			h.raw(func(s *zmq4.Socket) { sendRaw(s, frames) })
		}
		err = h.signUp(r)
	}
	return err
}

func (h *hostile) snapshots() (err error) {
	for i := range 2000 {
		reason := strings.Repeat("x", control.MaxTextBytes)
		err = h.send(0, &control.Snapshot{Channels: fmt.Sprint(i), Reason: reason})
	}
	return err
}

func (h *hostile) asks() (err error) {
	for range 500 {
		for _, what := range []string{AskNodes, AskAbortRun, AskForgetNode, AskSnapshot} {
			argument := []byte(`"` + strings.Repeat("x", 1000) + `"`)
			err = h.send(1, &control.Ask{What: what, Argument: argument})
		}
	}
	return err
}

// unasked sends answers to questions that the server may have asked another node, and gives the
// server orders.
func (h *hostile) unasked() (err error) {
	for range 200 {
		peer := h.peers[h.rand.IntN(len(h.peers))]
		for _, m := range []control.Message{
			&control.Ack{Report: h.rand.Uint64()},
			&control.ProbeSecrets{Secrets: []control.ProbeSecret{
				{Number: 1, Bytes: make([]byte, control.SecretBytes)},
			}},
			&control.Done{}, &control.Pong{}, &control.Load{Busy_ppm: 1_000_000},
			&control.Run{Name: "hostile", Close: true}, &control.Table{Text: []byte("*: null")},
			&control.RunState{Name: "hostile", Closed: true},
			&control.TableState{Generation: 1 << 60},
			&control.Chunk{Path: "logs/x.cplog", Data: []byte("x")}, &control.Files{Run: "hostile"},
			&control.Leave{Why: "\x1b[2J"},
			&control.Welcome{Server: "x", Heartbeat_ns: 1, Dead_ns: 1},
			h.reportOf(peer, h.trains(h.rand, peer.Name, 1, 5)),
		} {
			if m.Kind() == control.KindLeave && h.rand.IntN(100) > 0 {
				continue
			}
			err = h.send(h.rand.Uint64N(2000), m)
		}
	}
	return err
}

// raw calls do with a ZeroMQ connection that uses the key, and nothing of this project.
func (h *hostile) raw(do func(*zmq4.Socket)) error {
	s, err := h.context.NewSocket(zmq4.DEALER)
	if err != nil {
		return err
	}
	defer s.Close()
	s.SetLinger(100 * time.Millisecond)
	s.SetSndtimeo(time.Second)
	s.SetRcvhwm(1)
	s.SetCurveServerkey(h.server.Public)
	s.SetCurvePublickey(h.key.Public)
	s.SetCurveSecretkey(h.key.Secret)
	if err := s.Connect("tcp://" + h.job.Address); err != nil {
		return err
	}
	do(s)
	return nil
}

func sendRaw(s *zmq4.Socket, frames [][]byte) error {
	parts := make([]any, len(frames))
	for i, f := range frames {
		parts[i] = f
	}
	_, err := s.SendMessage(parts...)
	return err
}

func (h *hostile) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(h.rand.Uint32())
	}
	return b
}

// garbage sends frames without meaning, and damaged messages.
func (h *hostile) garbage() error {
	return h.raw(func(s *zmq4.Socket) {
		for range 500 {
			frames, err := control.Encode(&control.Hello{Name: h.job.Node.Name}, h.rand.Uint64())
			if err != nil {
				return
			}
			switch h.rand.IntN(3) {
			case 0:
				frames = [][]byte{h.noise(h.rand.IntN(100)), h.noise(h.rand.IntN(10_000))}
			case 1:
				f := frames[h.rand.IntN(2)]
				f[h.rand.IntN(len(f))] ^= 1 << h.rand.IntN(8)
			case 2:
				for range 1000 {
					frames = append(frames, nil)
				}
			}
			if sendRaw(s, frames) != nil {
				return
			}
		}
	})
}

// strange opens TCP connections that do not speak ZeroMQ, or stop doing so after its greeting.
func (h *hostile) strange() error {
	for i := range 50 {
		c, err := net.DialTimeout("tcp", h.job.Address, time.Second)
		if err != nil {
			return err
		}
		c.SetDeadline(time.Now().Add(50 * time.Millisecond))
		if i%2 == 0 {
			greeting := "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00CURVE"
			c.Write([]byte(greeting + strings.Repeat("\x00", 47)))
		}
		c.Write(h.noise(100_000))
		c.Close()
	}
	return nil
}

// connections opens many connections at once, and begins a large message on each.
func (h *hostile) connections() error {
	var all []*zmq4.Socket
	defer func() {
		for _, s := range all {
			s.Close()
		}
	}()
	for range 100 {
		s, err := h.context.NewSocket(zmq4.DEALER)
		if err != nil {
			return err
		}
		all = append(all, s)
		s.SetLinger(0)
		s.SetSndtimeo(20 * time.Millisecond)
		s.SetCurveServerkey(h.server.Public)
		s.SetCurvePublickey(h.key.Public)
		s.SetCurveSecretkey(h.key.Secret)
		if err := s.Connect("tcp://" + h.job.Address); err != nil {
			return err
		}
		frames, err := control.Encode(&control.Hello{Name: h.job.Node.Name}, 1)
		if err != nil {
			return err
		}
		sendRaw(s, frames)
		s.SendBytes(make([]byte, control.MaxMessageBytes), zmq4.SNDMORE|zmq4.DONTWAIT)
	}
	return nil
}

// deaf makes the server answer without end, and reads nothing.
func (h *hostile) deaf() error {
	return h.raw(func(s *zmq4.Socket) {
		h.during(500*time.Millisecond, func() {
			if frames, err := control.Encode(&control.Hello{Name: h.job.Node.Name}, 1); err == nil {
				sendRaw(s, frames)
			}
		})
	})
}

// endless sends 256 MB of a message and not its end.
func (h *hostile) endless() error {
	return h.raw(func(s *zmq4.Socket) {
		frame := make([]byte, 1<<20)
		for range 256 {
			if _, err := s.SendBytes(frame, zmq4.SNDMORE); err != nil {
				return
			}
		}
	})
}

// answers carries out the server's orders in its own way.
func (h *hostile) answers() {
	r := rand.New(rand.NewPCG(h.job.Hostile.Seed, 1))
	data := make([]byte, 3<<20)
	for {
		in, err := h.link.Receive(context.Background())
		if err != nil {
			return
		}
		var answer control.Message
		switch m := in.Message.(type) {
		case *control.ProbeSecrets: // otherwise nobody would probe it
			var secrets []minrtt.Secret
			for _, s := range m.Secrets {
				secrets = append(secrets, minrtt.Secret{Number: s.Number, Bytes: [32]byte(s.Bytes)})
			}
			h.answerer.Accept(secrets)
			answer = &control.Done{}
		case *control.Run:
			missing := make([]string, 10_000)
			for i := range missing {
				missing[i] = strings.Repeat("\x01", 60)
			}
			answer = &control.RunState{Name: m.Name, Closed: m.Close, Missing: missing}
		case *control.ListFiles:
			answer = h.list(r, m.Run)
		case *control.ReadFile:
			c := &control.Chunk{Path: m.Path, Offset: m.Offset, Size: 1 << 60, Data: data[:m.Bytes]}
			switch {
			case strings.Contains(m.Path, "trickle"):
				c.Data = data[:1]
			case r.IntN(20) == 0:
				c.Data = data
			case r.IntN(20) == 0:
				c.Offset++
			}
			answer = c
		case *control.Probe:
			p := h.peers[r.IntN(len(h.peers))]
			answer = h.reportOf(p, h.trains(r, p.Name, min(m.Trains, 100), min(m.Exchanges, 100)))
		case *control.Snapshot:
			answer = &control.SnapshotState{Error: strings.Repeat("x", control.MaxTextBytes)}
		case *control.Probing, *control.Table, *control.LoadRequest:
			answer = []control.Message{
				&control.Done{}, &control.Pong{}, control.Refuse(control.Failed, "no"),
			}[r.IntN(3)]
		default:
			continue
		}
		if r.IntN(10) > 0 || in.Message.Kind() == control.KindProbeSecrets {
			h.send(in.Request, answer)
		}
	}
}

// list lists more files than there are, or endless files.
func (h *hostile) list(r *rand.Rand, run string) control.Message {
	m := &control.Files{Run: run, More: true}
	switch r.IntN(4) {
	case 0:
		for i := range 30_000 {
			path := fmt.Sprintf("logs/%d.cplog", i)
			m.Files = append(m.Files, control.File{Path: path, Bytes: 1 << 50})
		}
	case 1:
		m.Files = []control.File{
			{Path: "logs/x.cplog", Bytes: 1 << 62}, {Path: "logs/y.cplog", Bytes: 1 << 62},
		}
	case 2:
		m.Files = []control.File{
			{Path: "logs/x.cplog", Bytes: 64 << 20}, {Path: "truth.json", Bytes: 64 << 20},
			{Path: "x.ntp", Bytes: 64 << 20}, {Path: "nothing", Bytes: 1 << 20},
		}
	case 3:
		if !h.job.Hostile.Patient {
			return &control.Done{}
		}
		m.Files = []control.File{{Path: "logs/trickle.cplog", Bytes: 1 << 30}}
	}
	return m
}

// answerProbes answers other nodes' probes with stamps that are sometimes false.
func (h *hostile) answerProbes() error {
	clocks, err := vnode.ParseConfig(h.job.Clocks)
	if err != nil {
		return err
	}
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return err
	}
	system := minrtt.SystemClock(asm.Counter, notice, func() (uint32, error) { return 1, nil })
	clock, err := virtual.Clock(clocks, system)
	if err != nil {
		return err
	}
	truly := clock.Counter
	clock.Counter = func() uint64 {
		c := truly()
		switch rand.IntN(50) {
		case 0:
			return c + 1e6
		case 1:
			return c - 1e6
		case 2:
			return rand.Uint64()
		}
		return c
	}
	clock.Bracket = nil
	transport, err := minrtt.ListenUDP(h.job.Listen, minrtt.UDPConfig{Counter: clock.Counter})
	if err != nil {
		return err
	}
	h.answerer, err = minrtt.NewAnswerer(transport, clock, []minrtt.Secret{minrtt.NewSecret()})
	if err != nil {
		return err
	}
	go h.answerer.Serve(context.Background())
	return nil
}
