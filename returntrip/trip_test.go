package returntrip

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// port is one end of a network. The test itself delivers the network's packets.
type port struct {
	name   string
	in     chan datagram
	out    chan datagram
	closed chan struct{}
	refuse bool // sending fails
	broken chan error
}

type datagram struct {
	b        []byte
	from, to net.Addr
}

type address string

func (a address) Network() string { return "test" }
func (a address) String() string  { return string(a) }

func newPort(name string) *port {
	return &port{name: name, in: make(chan datagram), out: make(chan datagram, 1000),
		closed: make(chan struct{}), broken: make(chan error)}
}

func (p *port) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-p.in:
		return copy(b, d.b), d.from, nil
	case err := <-p.broken:
		return 0, nil, err
	case <-p.closed:
		return 0, nil, net.ErrClosed
	}
}

func (p *port) WriteTo(b []byte, to net.Addr) (int, error) {
	if p.refuse {
		return 0, errors.New("network is down")
	}
	p.out <- datagram{append([]byte(nil), b...), p.LocalAddr(), to}
	return len(b), nil
}

func (p *port) Close() error                     { close(p.closed); return nil }
func (p *port) LocalAddr() net.Addr              { return address(p.name) }
func (p *port) SetDeadline(time.Time) error      { return nil }
func (p *port) SetReadDeadline(time.Time) error  { return nil }
func (p *port) SetWriteDeadline(time.Time) error { return nil }

// testTrip is a Start and an End, and the network between them.
type testTrip struct {
	*Start
	*End
	startPort, endPort *port
}

const stream = 0xfeedbeef

func newTrip(t *testing.T) *testTrip {
	t.Helper()
	o := Options{Stream: stream, Channels: handlers.Options{Dir: t.TempDir()}}
	r := &testTrip{startPort: newPort("start"), endPort: newPort("end")}
	var err error
	if r.Start, err = NewStart(r.startPort, "source#0", o); err != nil {
		t.Fatal(err)
	}
	if r.End, err = NewEnd(r.endPort, r.startPort.LocalAddr(), "sink#0", o); err != nil {
		t.Fatal(err)
	}
	return r
}

// records closes the trip's Start and End. It returns the events that the two have logged, by
// point.
func (r *testTrip) records(t *testing.T) map[string][]ring.Record {
	t.Helper()
	all := map[string][]ring.Record{}
	var readers []*ring.Reader
	for _, c := range []*handlers.Channel{r.sent, r.acknowledged, r.arrived, r.echoed} {
		reader, err := ring.Open(c.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		readers = append(readers, reader)
	}
	if err := errors.Join(r.End.Close(), r.Start.Close()); err != nil {
		t.Error(err)
	}
	for _, reader := range readers {
		buffer := make([]ring.Record, reader.Header().Records)
		s, err := reader.State(0)
		if err != nil {
			t.Fatal(err)
		}
		_, n, _, err := reader.Copy(0, s.Head, buffer)
		if err != nil {
			t.Fatal(err)
		}
		all[reader.Header().Name.String()] = buffer[:n]
	}
	return all
}

func spin(cycles uint64) {
	for begin := asm.Counter(); asm.Counter()-begin < cycles; {
	}
}

// Each of the four moments is logged when it happens, not before. Each delay that the test makes
// appears in the round trip to which it belongs. The true duration lies within the bounds that
// follow from these round trips.
func TestFourMoments(t *testing.T) {
	const forward, back, echo = 900_000, 500_000, 300_000
	r := newTrip(t)
	const id = 42
	r.Start.Log(id)
	spin(forward)
	r.End.Log(id)
	acknowledgement := <-r.endPort.out
	if acknowledgement.to != r.startPort.LocalAddr() {
		t.Errorf("acknowledgement goes to %v", acknowledgement.to)
	}
	spin(back)
	r.startPort.in <- acknowledgement
	answer := <-r.startPort.out
	if answer.to != r.endPort.LocalAddr() {
		t.Errorf("echo goes to %v", answer.to)
	}
	spin(echo)
	r.endPort.in <- answer
	if err := r.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	at := map[string]uint64{}
	for name, records := range r.records(t) {
		if len(records) != 1 || records[0].ID != id {
			t.Fatalf("%s: %v, want one record of tuple %d", name, records, id)
		}
		at[name] = records[0].Counter
	}
	startTrip := at["source#0/ret-acknowledged"] - at["source#0/ret-sent"]
	endTrip := at["sink#0/ret-echoed"] - at["sink#0/ret-arrived"]
	truth := at["sink#0/ret-arrived"] - at["source#0/ret-sent"]
	if truth < forward || startTrip < forward+back || endTrip < back+echo {
		t.Errorf("tuple took %d, round trips %d and %d: less than the delays that were made",
			truth, startTrip, endTrip)
	}
	const slack = 10_000 // largest difference between the counters of two cores, in cycles
	if truth > startTrip+slack || truth+endTrip+slack < startTrip {
		t.Errorf("tuple took %d, outside of [%d − %d, %d]", truth, startTrip, endTrip, startTrip)
	}
}

// Packets that are lost, doubled, overtaken or of another stream affect only their own events.
func TestBadNetwork(t *testing.T) {
	random := seed.Random(t)
	r := newTrip(t)
	const tuples = 200
	want := map[string]map[uint64]int{"source#0/ret-acknowledged": {}, "sink#0/ret-echoed": {}}
	carry := func(from, to *port, name string) {
		var packets []datagram
		for len(from.out) > 0 {
			packets = append(packets, <-from.out)
		}
		random.Shuffle(len(packets),
			func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
		for _, p := range packets {
			id := uint64(p.b[22])<<8 | uint64(p.b[23])
			for range random.IntN(3) { // 0 times: the packet is lost
				to.in <- p
				want[name][id]++
			}
			stranger := append([]byte(nil), p.b...)
			if at := []int{0, 3, 4, 5, 8, 15, packetSize}[random.IntN(7)]; at == packetSize {
				stranger = append(stranger, 0) // a packet that is too long
			} else {
				stranger[at] ^= 0x40 // in magic, version, kind or stream
			}
			to.in <- datagram{stranger, p.from, p.to}
		}
	}
	for id := range uint64(tuples) {
		r.Start.Log(id)
		r.End.Log(id)
	}
	carry(r.endPort, r.startPort, "source#0/ret-acknowledged")
	// carry delivers an altered copy of each packet after the packet itself. So when all altered
	// packets are counted, all other packets were handled before.
	for r.Start.Counts().Foreign < tuples {
		runtime.Gosched()
	}
	sent := r.Start.Counts().Sent
	carry(r.startPort, r.endPort, "sink#0/ret-echoed")
	for r.End.Counts().Foreign < sent {
		runtime.Gosched()
	}
	if c := r.Start.Counts(); c.Foreign != tuples || c.Received != sent || c.Unsent != 0 {
		t.Errorf("start counts %+v", c)
	}
	records := r.records(t)
	for name, ids := range want {
		got := map[uint64]int{}
		for _, record := range records[name] {
			got[record.ID]++
		}
		for id := range uint64(tuples) {
			if got[id] != ids[id] {
				t.Errorf("%s: tuple %d logged %d times, want %d", name, id, got[id], ids[id])
			}
		}
	}
	for _, name := range []string{"source#0/ret-sent", "sink#0/ret-arrived"} {
		if len(records[name]) != tuples {
			t.Errorf("%s: %d records, want %d", name, len(records[name]), tuples)
		}
	}
}

func TestSettleEndsWithItsContext(t *testing.T) {
	r := newTrip(t)
	defer r.records(t)
	r.End.Log(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Settle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("settle without an echo: %v", err)
	}
}

func TestNetworkThatTakesNothing(t *testing.T) {
	r := newTrip(t)
	r.endPort.refuse = true
	r.End.Log(1)
	if c := r.End.Counts(); c.Sent != 0 || c.Unsent != 1 {
		t.Errorf("counts %+v", c)
	}
	if err := r.Settle(t.Context()); err != nil { // there is nothing to wait for
		t.Error(err)
	}
	if n := len(r.records(t)["sink#0/ret-arrived"]); n != 1 {
		t.Errorf("%d arrivals logged, want 1", n)
	}
}

// If the network fails, Settle stops waiting, and Close returns the reason.
func TestNetworkThatEnds(t *testing.T) {
	r := newTrip(t)
	r.End.Log(1)
	down := errors.New("interface went down")
	r.endPort.broken <- down
	r.startPort.broken <- down
	if err := r.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.End.Close(); !errors.Is(err, down) ||
		!strings.Contains(err.Error(), "receive echoes") {
		t.Errorf("end: %v", err)
	}
	if err := r.Start.Close(); !errors.Is(err, down) ||
		!strings.Contains(err.Error(), "receive acknowledgements") {
		t.Errorf("start: %v", err)
	}
}

// A packet is counted as received only after its event is logged. So when Settle returns, all
// events are logged.
func TestReceivedIsLogged(t *testing.T) {
	p := newPort("end")
	var c sharedCounts
	ended := make(chan error)
	go func() {
		ended <- c.receive(p, kindEcho, stream, func(uint64, net.Addr) {
			if n := c.read().Received; n != 0 {
				t.Errorf("%d received before it is logged", n)
			}
		})
	}()
	var b [packetSize]byte
	packet{kindEcho, stream, 7}.put(&b)
	p.in <- datagram{b: b[:]}
	p.Close()
	if err := <-ended; err != nil || c.read().Received != 1 {
		t.Errorf("%+v, %v", c.read(), err)
	}
}

func TestOpenFailsWhole(t *testing.T) {
	dir := t.TempDir()
	o := Options{Channels: handlers.Options{Dir: dir}}
	if _, err := NewStart(newPort("start"), "no actor", o); err == nil {
		t.Error("a start with a bad name was made")
	}
	if _, err := NewEnd(newPort("end"), address("start"), "no actor", o); err == nil {
		t.Error("an end with a bad name was made")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// NewStart opens two channels for this actor. The first name just fits, and the second is too
	// long. So NewStart must close the first channel again, which leak.Main checks.
	long := strings.Repeat("a", channel.MaxNameBytes-len("/"+PointSent))
	if _, err := NewStart(newPort("start"), long, o); err == nil {
		t.Error("a start with a long name was made")
	}
	var s *Start
	var e *End
	s.Log(1)
	e.Log(1)
	if err := errors.Join(e.Settle(t.Context()), e.Close(), s.Close()); err != nil {
		t.Errorf("nil ends: %v", err)
	}
}

func TestOverLoopback(t *testing.T) {
	listen := func() net.PacketConn {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	o := Options{Stream: stream, Channels: handlers.Options{Dir: t.TempDir()}}
	startConn := listen()
	s, err := NewStart(startConn, "source#0", o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEnd(listen(), startConn.LocalAddr(), "sink#0", o)
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint64(100) {
		s.Log(id)
		e.Log(id)
		if err := e.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if c := e.Counts(); c.Sent != 100 || c.Received != 100 || c.Foreign != 0 || c.Unsent != 0 {
		t.Errorf("end counts %+v", c)
	}
	if err := errors.Join(e.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestNothingAllocates(t *testing.T) {
	r := newTrip(t)
	r.endPort.refuse = true
	if n := testing.AllocsPerRun(100, func() { r.Start.Log(1) }); n != 0 {
		t.Errorf("Start.Log allocates %v times", n)
	}
	r.records(t)
}
