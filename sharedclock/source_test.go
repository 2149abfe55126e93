package sharedclock

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// A machine has a counter of 2.5 GHz, CLOCK_REALTIME and a PTP clock, all of which are functions of
// one time. Each reading takes a random time.
type machine struct {
	r      *rand.Rand
	now_ns float64
	steps  uint64

	realtime_ns int64   // what CLOCK_REALTIME shows at the beginning
	rate        float64 // of CLOCK_REALTIME

	ways    way     // the best way that the driver offers
	false_  float64 // by how much the kernel's pairing is wrong, in ns
	last_ns float64 // when the clock was read last
	err     error
}

func (m *machine) pass(most_ns float64) { m.now_ns += most_ns * m.r.Float64() }

func (m *machine) counter() uint64 { m.pass(20); return uint64(1e6 + 2.5*m.now_ns) }

func (m *machine) realtime() int64 {
	m.pass(20)
	return m.realtime_ns + int64(m.rate*m.now_ns)
}

func (m *machine) clock() minrtt.Clock {
	return minrtt.Clock{
		Counter: m.counter, Realtime: m.realtime,
		RealtimeStep: func() (uint32, error) { return 1, nil },
		Discipline:   func() (minrtt.Discipline, error) { return minrtt.Discipline{}, nil },
		Steps:        func() (uint64, error) { return m.steps, nil },
	}
}

func (m *machine) show() int64 {
	m.pass(1500)
	m.last_ns = m.now_ns
	return 7e15 + int64(1.01*m.now_ns)
}

func (m *machine) Precise() (clock_ns, realtime_ns int64, err error) {
	if m.ways > precise {
		return 0, 0, unix.EOPNOTSUPP
	}
	clock_ns = m.show()
	realtime_ns = m.realtime_ns + int64(m.rate*m.now_ns+m.false_)
	m.pass(1500)
	return clock_ns, realtime_ns, m.err
}

func (m *machine) Extended() (before_ns, clock_ns, after_ns int64, err error) {
	if m.ways > extended {
		return 0, 0, 0, unix.ENOTTY
	}
	m.pass(500)
	before_ns = m.realtime() + int64(m.false_)
	clock_ns = m.show()
	m.pass(500)
	after_ns = m.realtime() + int64(m.false_)
	m.pass(500)
	return before_ns, clock_ns, after_ns, m.err
}

func (m *machine) Now() (int64, error) {
	ns := m.show()
	m.pass(1500)
	return ns, m.err
}

func newMachine(r *rand.Rand) *machine {
	return &machine{r: r, now_ns: 1e9 * r.Float64(), realtime_ns: 1.8e18,
		rate: 0.92 + 0.16*r.Float64()}
}

// Whatever ways of reading the driver offers, the counter was in the interval of the reading when
// the clock showed the value that was read. If the kernel pairs the clocks, the interval is
// narrower.
func TestReadingHoldsTheTruth(t *testing.T) {
	r := seed.Random(t)
	widths := map[way]uint64{}
	for range 3000 {
		m := newMachine(r)
		m.ways = way(r.IntN(3))
		p := newPHC(m)
		if p.way != m.ways {
			t.Fatalf("way %d was found, the driver offers %d", p.way, m.ways)
		}
		clock := m.clock()
		got, ok := p.read(&clock)
		if !ok {
			t.Fatal("not read")
		}
		if truth := uint64(1e6 + 2.5*m.last_ns); truth+1 < got.before_cycles ||
			truth > got.after_cycles {
			t.Fatalf("way %d: counter in [%d, %d], in truth %d", p.way,
				got.before_cycles, got.after_cycles, truth)
		}
		widths[p.way] += got.after_cycles - got.before_cycles
	}
	if widths[precise] > widths[plain]/2 || widths[extended] > widths[plain] {
		t.Errorf("widths of %d readings: %v", 1000, widths)
	}
}

// If the kernel pairs the two clocks wrongly, or if somebody sets a clock during the reading, the
// interval of the reading becomes wider, but it still contains the truth.
func TestWrongPairingIsNotUsed(t *testing.T) {
	r := seed.Random(t)
	for _, w := range []way{precise, extended} {
		for _, by := range []float64{-1e4, 1e4, 1e12} {
			m := newMachine(r)
			m.ways, m.false_ = w, by
			p, clock := newPHC(m), m.clock()
			begin := m.now_ns
			got, ok := p.read(&clock)
			if truth := uint64(1e6 + 2.5*m.last_ns); !ok || truth+1 < got.before_cycles ||
				truth > got.after_cycles || got.before_cycles > uint64(1e6+2.5*(begin+20)) {
				t.Errorf("way %d, wrong by %g ns: counter in [%d, %d], in truth %d, %t", w, by,
					got.before_cycles, got.after_cycles, truth, ok)
			}
		}
	}
	m := newMachine(r)
	clock := m.clock()
	clock.Steps = func() (uint64, error) { m.steps++; return m.steps, nil }
	m.false_ = 300 // inside the call: only the notice of the step shows it
	begin := m.now_ns
	latest := uint64(1e6 + 2.5*(begin+20+3000))
	if got, ok := newPHC(m).read(&clock); !ok || got.before_cycles > latest {
		t.Errorf("counter from %d on although the clock was set", got.before_cycles)
	}
	m.err = unix.EIO
	if _, ok := (&phc{device: m}).read(&clock); ok {
		t.Error("a broken device is read")
	}
}

// The answers in this test have the layouts of linux/ptp_clock.h.
func TestAnswersOfTheKernel(t *testing.T) {
	a := extendedAnswer{samples: 3}
	for i, ns := range [][3]uint32{{100, 1000, 900}, {2000, 3000, 2100}, {4000, 5000, 4500}} {
		for j := range ns {
			a.times[i][j] = ptpTime{s: 7, ns: ns[j]}
		}
	}
	a.times[3] = [3]ptpTime{{s: 9}, {s: 9}, {s: 9}} // not counted
	if before, clock, after := a.shortestSample(); before != 7_000_002_000 ||
		clock != 7_000_003_000 ||
		after != 7_000_002_100 {
		t.Errorf("shortest sample %d, %d, %d", before, clock, after)
	}
	if got := clockOf(3); got != -29 { // ((~3) << 3) | 3
		t.Errorf("clock of descriptor 3 is %d", got)
	}
}

func loads(page []byte) func(int) uint64 {
	return func(offset int) uint64 { return binary.LittleEndian.Uint64(page[offset:]) }
}

// The page was recorded on a guest of KVM with a counter of 2.6 GHz, 1.4 s after the guest was
// started.
const recordedKVM = "b401000000000000501240d900000000a8b9965300000000d17437c5ff010000"

func TestKVMPage(t *testing.T) {
	page, _ := hex.DecodeString(recordedKVM)
	p := kvmPage(loads(page))
	base := binary.LittleEndian.Uint64(page[8:])
	for _, tc := range []struct {
		after_cycles uint64
		ns           int64
	}{
		{0, 1402386856},
		{2, 1402386856}, // 0.77 ns
		{2_600_000_000, 1402386856 + 1_001_490_000},
	} {
		ns, step, ok := p.readPage(func() uint64 { return base + tc.after_cycles })
		if off := ns - tc.ns; !ok || off < -2_000_000 || off > 2_000_000 || step != 2 {
			t.Errorf("after %d cycles: %d ns, step %d, %t, want %d", tc.after_cycles, ns, step, ok,
				tc.ns)
		}
	}
	if _, _, ok := p.readPage(func() uint64 { return base - 1 }); ok {
		t.Error("a counter before the page's is converted")
	}
	for name, change := range map[string]func(){
		"being changed": func() { page[0]++ },
		"not stable":    func() { page[0]--; page[29] = 0 },
	} {
		change()
		if _, _, ok := p.readPage(func() uint64 { return base }); ok {
			t.Errorf("a page that is %s is used", name)
		}
	}
}

func TestHyperVPage(t *testing.T) {
	page := make([]byte, 24)
	binary.LittleEndian.PutUint32(page, 1)
	binary.LittleEndian.PutUint64(page[8:], 1<<64/250)    // 2.5 GHz in steps of 100 ns
	binary.LittleEndian.PutUint64(page[16:], ^uint64(99)) // −100
	p := hyperVPage(loads(page))
	if ns, step, ok := p.readPage(func() uint64 { return 250_000_001 }); !ok || ns != 99_990_000 ||
		step != 101 {
		t.Errorf("%d ns, step %d, %t", ns, step, ok)
	}
	page[0] = 0
	if _, _, ok := p.readPage(func() uint64 { return 1 }); ok {
		t.Error("a page without a counter is used")
	}
}

func vmClockPage() []byte {
	b := make([]byte, vmClockBytes)
	le := binary.LittleEndian
	le.PutUint32(b, vmClockMagic)
	le.PutUint16(b[8:], 1)
	b[0xa], b[0x22], b[0x27] = 1, 2, 3
	le.PutUint64(b[0x28:], 1000)
	const period = (1 << 63) / 2_000_000_000 // 2 GHz
	le.PutUint64(b[0x30:], period<<4+7)      // in 2^−67 s
	le.PutUint64(b[0x48:], 1_800_000_000)
	le.PutUint64(b[0x50:], 3<<62) // 0.75 s
	le.PutUint64(b[0x60:], 400)
	return b
}

type memory struct{ io.ReaderAt }

func (memory) Close() error { return nil }

func TestVMClockPage(t *testing.T) {
	page := vmClockPage()
	c := &vmClock{memory{strings.NewReader(string(page))}}
	// half a second later
	ns, step, ok := c.readEarliest(func() uint64 { return 1000 + 1_000_000_000 })
	if want := int64(1_800_000_001_250_000_000); !ok || step != 2 || ns < want-2 || ns > want {
		t.Errorf("%d ns, step %d, %t, want %d", ns, step, ok, want)
	}
	binary.LittleEndian.PutUint64(page[0x18:], 1<<6)
	if ns, step, err := vmClockAt(page, 1000); err != nil || ns != 1_800_000_000_749_999_600 ||
		step != 802 {
		t.Errorf("with the page's error: %d ns, step %d, %v", ns, step, err)
	}
	for name, change := range map[string]func(b []byte){
		"magic":           func(b []byte) { b[0]++ },
		"version":         func(b []byte) { b[8]++ },
		"counter":         func(b []byte) { b[0xa] = 0xff },
		"unreliable":      func(b []byte) { b[0x22] = 4 },
		"later counter":   func(b []byte) { b[0x2f] = 1 },
		"shift":           func(b []byte) { b[0x27] = 64 },
		"far future":      func(b []byte) { b[0x4f] = 1 },
		"error of a year": func(b []byte) { b[0x18], b[0x67] = 1<<6, 1 },
	} {
		b := vmClockPage()
		change(b)
		if _, _, err := vmClockAt(b, 1000); !errors.Is(err, errVMClock) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	odd := vmClockPage()
	odd[12] = 1
	c = &vmClock{memory{strings.NewReader(string(odd))}}
	if _, _, ok := c.readEarliest(func() uint64 { return 2000 }); ok {
		t.Error("a page that the hypervisor holds is used")
	}
}

func TestMapped(t *testing.T) {
	got, err := findMapping("7f00-7f01 r--p 0 0 0 [vvar]\n" +
		"7fff0000-7fff2000 r--p 0 0 0   [vvar_vclock]\n")
	if err != nil || got != 0x7fff0000 {
		t.Errorf("%#x, %v", got, err)
	}
	if _, err := findMapping("7f00-7f01 r--p 0 0 0 [vvar]\n"); !errors.Is(err, ErrSource) {
		t.Errorf("error %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"":              "use a path",
		"ptp0":          "use a path",
		"/dev/null":     "no PTP clock",
		"/dev/ptp987":   "no such file",
		"/dev/vmclock9": "no such file",
	} {
		s, err := Open(name)
		if err == nil {
			t.Errorf("%q is open: %v", name, s.Close())
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, s := range []Settings{{}, {Name: "x", Error: -1}, {Name: "x", Error: time.Second},
		{Name: "x", Wander_ppm: 1e6}} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}

// Two nodes on this machine run trains over UDP, and both read one clock. The test does this with a
// made clock and, if the machine has one, with the hypervisor's page. Both nodes have the machine's
// counter, so the truth is known: at any moment, the two counters show the same value.
func TestNodesMeetOnOneClock(t *testing.T) {
	// The made clock ticks every 16 cycles, like a real clock whose step is some ns long.
	made := &Source{name: "made", step_ns: 2, close: func() error { return nil },
		read: readInside(func() (int64, uint32, bool) {
			return int64(asm.Counter() >> 4), 1,
				true
		})}
	sources := []*Source{made}
	switch page, err := Open(KVM); {
	case err == nil:
		sources = append(sources, page)
	case !errors.Is(err, ErrSource):
		t.Error(err)
	}
	for _, s := range sources {
		t.Run(s.String(), func(t *testing.T) { meet(t, s) })
	}
}

func meet(t *testing.T, source *Source) {
	defer source.Close()
	clock := minrtt.Clock{Counter: asm.Counter}
	clock.Shared = source.Share(clock, Settings{Name: "host", Wander_ppm: DefaultWander_ppm})
	local := netip.MustParseAddrPort("127.0.0.1:0")
	listener, err := minrtt.ListenUDP(local, minrtt.UDPConfig{Counter: asm.Counter})
	if err != nil {
		t.Fatal(err)
	}
	answerer, err := minrtt.NewAnswerer(listener, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = answerer.Serve(ctx) }()
	dialer, err := minrtt.DialUDP(listener.LocalAddr(), minrtt.UDPConfig{Counter: asm.Counter})
	if err != nil {
		t.Fatal(err)
	}
	defer dialer.Close()
	config := minrtt.DefaultConfig()
	config.Timeout = 10 * time.Second // a busy machine is not what is tested here
	prober, err := minrtt.NewProber(dialer, clock, listener.LocalAddr(), config)
	if err != nil {
		t.Fatal(err)
	}
	const slack_cycles = 1000 // between cores
	for range 20 {
		train, err := prober.Train(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(train.Meetings) != 2 {
			t.Fatalf("%d meetings, clocks differ: %t", len(train.Meetings), train.ClocksDiffer)
		}
		for _, m := range train.Meetings {
			if m.Own.Lo > m.Peer.Hi+slack_cycles || m.Peer.Lo > m.Own.Hi+slack_cycles {
				t.Errorf("this node in %v, the peer in %v", m.Own, m.Peer)
			}
		}
	}
}
