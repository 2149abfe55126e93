package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/pebbe/zmq4"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// reportFalseTrains returns false trains for a report. Each train looks plausible by itself. The
// stamps of the peer are true. The stamps of the hostile member are shifted, or run at another
// rate, or are too narrow.
func (h *hostileClient) reportFalseTrains(r *rand.Rand, peer string, count,
	exchanges int) (out []control.Train) {
	own, other := h.line(h.job.Node.Name), h.line(peer)
	lie := []int64{0, 300, -300, 100_000, -100_000, 1 << 40}[r.IntN(6)]
	own.rate *= []float64{1, 1 + 1e-7, 1 + 1e-5, 2}[r.IntN(4)]
	width := []uint64{0, 10, 10_000}[r.IntN(3)]
	const step = 5000
	back := uint64(count*(exchanges+1)+1) * 4 * step
	for range count {
		t := control.Train{KernelStamps: uint64(4 * exchanges)}
		for range exchanges {
			t.Exchanges = append(t.Exchanges, tscratio.Exchange{
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

func (h *hostileClient) reportOf(peer hostilePeer, trains []control.Train) *control.Trains {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report++
	return &control.Trains{
		Report: h.report, Peer: peer.Name, PeerEpoch: peer.Epoch, Epoch: h.epoch, Trains: trains,
	}
}

func (h *hostileClient) lies() (err error) {
	for _, p := range h.peers {
		trains := h.reportFalseTrains(h.rand, p.Name, 1+h.rand.IntN(5), 1+h.rand.IntN(20))
		err = h.send(0, h.reportOf(p, trains))
	}
	return err
}

// liesOfNoEnd reports trains that the member cannot have run: with itself, with an unknown node,
// and between two other nodes. A train between two other nodes names the member in none of its
// fields.
func (h *hostileClient) liesOfNoEnd() (err error) {
	self := hostilePeer{Name: h.job.Node.Name, Epoch: h.epoch}
	h.send(0, h.reportOf(self, h.reportFalseTrains(h.rand, self.Name, 3, 10)))
	nobody := hostilePeer{Name: "nobody", Epoch: "e"}
	h.send(0, h.reportOf(nobody, h.reportFalseTrains(h.rand, self.Name, 3, 10)))
	for _, p := range h.peers {
		of := h.peers[h.rand.IntN(len(h.peers))]
		m := h.reportOf(p, h.reportFalseTrains(h.rand, p.Name, 3, 10))
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
		h.withRawSocket(func(s *zmq4.Socket) { sendRaw(s, frames) })
	}
	return err
}

// largeReports sends reports of the greatest allowed size: many trains, one long train, and trains
// far apart in time.
func (h *hostileClient) largeReports() (err error) {
	for range 3 {
		for _, shape := range [][2]int{{10_000, 9}, {1, 100_000}, {100, 900}} {
			p := h.peers[h.rand.IntN(len(h.peers))]
			trains := h.reportFalseTrains(h.rand, p.Name, shape[0], shape[1])
			if e := h.send(0, h.reportOf(p, trains)); e != nil {
				err = e
			}
		}
	}
	return err
}

func (h *hostileClient) epochs() (err error) {
	for range 10 {
		r := h.register
		r.Epoch = fmt.Sprintf("%0200d", h.rand.Uint64())
		err = h.signUp(r)
		h.lies()
	}
	return err
}

// registerOthers registers under other nodes' names and under unknown names.
func (h *hostileClient) registerOthers() (err error) {
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

func (h *hostileClient) facts() (err error) {
	for i := range 10 {
		r := h.register
		bytes := []int{10_000, 10_900, 20_000, 600_000}[i%4] // each byte takes six bytes in JSON
		r.Facts = []byte(`{"x":"` + strings.Repeat(`\u0001`, bytes) + `"}`)
		if frames, err := control.Encode(&r, 1); err == nil {
			h.withRawSocket(func(s *zmq4.Socket) { sendRaw(s, frames) })
		}
		err = h.signUp(r)
	}
	return err
}

func (h *hostileClient) snapshots() (err error) {
	for i := range 2000 {
		reason := strings.Repeat("x", control.MaxTextBytes)
		err = h.send(0, &control.Snapshot{Channels: fmt.Sprint(i), Reason: reason})
	}
	return err
}

func (h *hostileClient) asks() (err error) {
	for range 500 {
		for _, what := range []string{AskNodes, AskAbortRun, AskForgetNode, AskSnapshot} {
			argument := []byte(`"` + strings.Repeat("x", 1000) + `"`)
			err = h.send(1, &control.Ask{What: what, Argument: argument})
		}
	}
	return err
}

// sendUnasked sends answers for which the server did not ask this member, and orders that only a
// server may give.
func (h *hostileClient) sendUnasked() (err error) {
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
			h.reportOf(peer, h.reportFalseTrains(h.rand, peer.Name, 1, 5)),
		} {
			if m.Kind() == control.KindLeave && h.rand.IntN(100) > 0 {
				continue
			}
			err = h.send(h.rand.Uint64N(2000), m)
		}
	}
	return err
}

// withRawSocket opens a plain ZeroMQ socket and passes it to do. The socket has the member's key,
// but uses none of this project's code.
func (h *hostileClient) withRawSocket(do func(*zmq4.Socket)) error {
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

func (h *hostileClient) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(h.rand.Uint32())
	}
	return b
}

// sendGarbage sends frames without meaning, and damaged messages.
func (h *hostileClient) sendGarbage() error {
	return h.withRawSocket(func(s *zmq4.Socket) {
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

// sendNoise opens TCP connections and sends noise: on half of them at once, on the others after a
// valid greeting of ZeroMQ's protocol.
func (h *hostileClient) sendNoise() error {
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

// openMany opens many connections at once, and begins a large message on each.
func (h *hostileClient) openMany() error {
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

// askEndlessly asks the server without end, and reads none of its answers.
func (h *hostileClient) askEndlessly() error {
	return h.withRawSocket(func(s *zmq4.Socket) {
		h.during(500*time.Millisecond, func() {
			if frames, err := control.Encode(&control.Hello{Name: h.job.Node.Name}, 1); err == nil {
				sendRaw(s, frames)
			}
		})
	})
}

// sendEndless sends 256 MB of a message without ever ending the message.
func (h *hostileClient) sendEndless() error {
	return h.withRawSocket(func(s *zmq4.Socket) {
		frame := make([]byte, 1<<20)
		for range 256 {
			if _, err := s.SendBytes(frame, zmq4.SNDMORE); err != nil {
				return
			}
		}
	})
}

// obeyFalsely receives the server's orders and obeys them only in part, or falsely.
func (h *hostileClient) obeyFalsely() {
	r := rand.New(rand.NewPCG(h.job.Hostile.Seed, 1))
	data := make([]byte, 3<<20)
	for {
		in, err := h.link.Receive(context.Background())
		if err != nil {
			return
		}
		var answer control.Message
		switch m := in.Message.(type) {
		case *control.ProbeSecrets: // without secrets, no node would probe the hostile member
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
			answer = h.falseFiles(r, m.Run)
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
			answer = h.reportOf(p, h.reportFalseTrains(r, p.Name, min(m.Trains, 100),
				min(m.Exchanges, 100)))
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

// falseFiles returns a list of files that do not exist, or of endless files.
func (h *hostileClient) falseFiles(r *rand.Rand, run string) control.Message {
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
func (h *hostileClient) answerProbes() error {
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
