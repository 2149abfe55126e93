package minrtt

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// stampInHardware gives a node a network interface that stamps packets. The interface's clock has
// steps, and its stamps are wrong by up to error_ns.
func (e *fakeEnd) stampInHardware(r *rand.Rand, clock simulatedClock, most time.Duration,
	error_ns int64) *HardwareClock {
	e.hardware = func(at time.Duration) int64 {
		return clock.at(at) + r.Int64N(2*error_ns+1) - error_ns
	}
	e.leave = func() time.Duration { return time.Duration(r.Int64N(int64(most))) }
	e.arrive = e.leave
	return &HardwareClock{
		// The rate may be at one end of its swing while the mean rate of the train is at the other
		// end, so the wander is up to twice the swing. Wander_ppb limits the changes of the inverse
		// of the rate, so the wander is also divided by the lowest rate.
		Wander_ppb: uint32(math.Ceil(2.1 * clock.swing / (1 - clock.swing) * 1e9)),
		Error_ns:   uint32(math.Ceil((float64(error_ns)+clock.step_ns)/clock.rate + 1)),
		Read: func() (before_ns, clock_ns, after_ns int64, ok bool) {
			e.net.now += time.Duration(r.Int64N(200))
			before_ns = e.realtime(e.net.now)
			e.net.now += time.Duration(r.Int64N(200))
			clock_ns = int64(math.Floor(clock.withoutSteps(e.net.now)))
			e.net.now += time.Duration(r.Int64N(200))
			return before_ns, clock_ns, e.realtime(e.net.now), true
		},
	}
}

// withoutSteps is what the clock would show without its steps.
func (c simulatedClock) withoutSteps(at time.Duration) float64 {
	c.step_ns = 1
	return float64(c.at(at))
}

// checkPassing fails the test if a limit of a stamp's interval excludes the moment at which the
// packet passed the network interface.
func (f *fakePair) checkPassing(t *testing.T, e Exchange) {
	t.Helper()
	at := func(end *fakeEnd, when map[uint32]time.Duration) uint64 {
		return end.count(when[e.Sequence])
	}
	for _, x := range []struct {
		name  string
		wrong bool
	}{
		{"sent", e.Best.Sent.Lo > at(f.prober, f.prober.trueLeft)+1},
		{"received", e.Best.Received.Hi+1 < at(f.answerer, f.answerer.trueReached)},
		{"answered", e.Best.Answered.Lo > at(f.answerer, f.answerer.trueLeft)+1},
		{"returned", e.Best.Returned.Hi+1 < at(f.prober, f.prober.trueReached)},
	} {
		if x.wrong {
			t.Errorf("exchange %d: %s: the stamp excludes the moment at the interface: %+v",
				e.Sequence, x.name, e.Best)
		}
	}
}

// An interface's clock may run at any rate and wander as far as its settings say, CLOCK_REALTIME
// may be slewed, and packets may stay in a node for any time. Still, no packet left the interface
// before the interval of its stamp begins, and none arrived after the interval of its stamp ends.
func TestHardwareStampsHoldTheTruth(t *testing.T) {
	r := seed.Random(t)
	const trains = 500
	var used, unused, kernel, steady int
	for range trains {
		f := kernelPair(t)
		f.now = time.Duration(r.Int64N(1e9))
		f.route = func(*fakeEnd, []byte) []time.Duration {
			return []time.Duration{time.Duration(r.Int64N(3000))}
		}
		slews := r.IntN(3) == 0 // something slews CLOCK_REALTIME in the middle of the train
		for _, e := range f.ends() {
			e.cycles_per_us = uint64(1000 + r.IntN(4000))
			c := simulatedClock{offset_ns: float64(1 + r.Int64N(1<<40)),
				rate:  0.9 + 0.2*r.Float64(),
				swing: math.Pow(10, -7+4*r.Float64()), step_ns: float64(1 + r.IntN(20)),
				period_ns: math.Pow(10, 4+4*r.Float64())}
			h := e.stampInHardware(r, c, 20*time.Microsecond, r.Int64N(100))
			if e == f.prober {
				f.p.clock.Hardware = h
			} else {
				f.a.clock.Hardware = h
			}
			if slews {
				f.atProbe(t, 3, func() {
					e.discipline.Tick_us += 990
					e.changeRate(0.099)
				})
			}
		}
		tr, err := f.checkTrain(t)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range tr.Exchanges {
			f.checkPassing(t, e)
			if sourcesOf(e) == allKernel.expectedSources(e) {
				kernel++
			}
		}
		if t.Failed() {
			return
		}
		if !slews {
			steady++
			used += int(tr.Counts.Hardware + f.a.Counts().Hardware)
			unused += int(tr.Counts.HardwareUnused + f.a.Counts().HardwareUnused)
		}
	}
	if kernel < 6*trains*9/10 || used < 20*steady || unused > used/100 {
		t.Errorf("%d exchanges with kernel stamps; %d hardware stamps used and %d not in %d trains",
			kernel, used, unused, steady)
	}
}

// hardwarePair returns a pair whose packets spend 8 µs between the kernel and the wire.
func hardwarePair(t *testing.T, on bool) *fakePair {
	f := kernelPair(t)
	f.route = func(*fakeEnd, []byte) []time.Duration {
		return []time.Duration{2 * time.Microsecond}
	}
	r := rand.New(rand.NewPCG(1, 1))
	c := simulatedClock{offset_ns: 1e15, rate: 1, swing: 1e-6, step_ns: 1, period_ns: 1e9}
	p := f.prober.stampInHardware(r, c, 1, 0)
	a := f.answerer.stampInHardware(r, c, 1, 0)
	for _, e := range f.ends() {
		e.leave = func() time.Duration { return 8 * time.Microsecond }
		e.arrive = e.leave
	}
	if on {
		f.p.clock.Hardware, f.a.clock.Hardware = p, a
	}
	return f
}

// shortestRoundTrip returns the smallest sum of the times that an exchange's two packets took, in
// ns.
func (f *fakePair) shortestRoundTrip(tr Train) time.Duration {
	least := time.Hour
	for _, e := range tr.Exchanges {
		there := f.timeOf(f.answerer, e.Best.Received.Hi) - f.timeOf(f.prober, e.Best.Sent.Lo)
		back := f.timeOf(f.prober, e.Best.Returned.Hi) - f.timeOf(f.answerer, e.Best.Answered.Lo)
		least = min(least, there+back)
	}
	return least
}

// The bound is half of the time that an exchange's two packets take. Hardware stamps leave out the
// time that packets spend between the kernel and the wire.
func TestHardwareStampsNarrow(t *testing.T) {
	for _, on := range []bool{false, true} {
		f := hardwarePair(t, on)
		tr, err := f.checkTrain(t)
		if err != nil {
			t.Fatal(err)
		}
		if took := f.shortestRoundTrip(tr); on && took > 8*time.Microsecond ||
			!on && took < 36*time.Microsecond {
			t.Errorf("hardware stamps %t: the packets of an exchange take %v", on, took)
		}
	}
}

// A train keeps the kernel's stamps if a hardware stamp is missing or contradicts the kernel's, or
// if the interface's clock cannot be read. If the user stamps refute a stamp, the train has user
// stamps.
func TestHardwareStampsFallBack(t *testing.T) {
	for name, test := range map[string]struct {
		spoil   func(f *fakePair)
		unused  bool // stamps came, and were not used
		refutes bool // the train has user stamps
	}{
		"no stamps": {spoil: func(f *fakePair) {
			for _, e := range f.ends() {
				e.hardware = func(time.Duration) int64 { return 0 }
			}
		}},
		"stamps of another clock": {unused: true, spoil: func(f *fakePair) {
			for _, e := range f.ends() {
				was := e.hardware
				e.hardware = func(at time.Duration) int64 { return was(at) - 1e9 }
			}
		}},
		"stamps of one moment": {unused: true, refutes: true, spoil: func(f *fakePair) {
			for _, e := range f.ends() {
				was, at := e.hardware, e.net.now+30*time.Microsecond
				e.hardware = func(time.Duration) int64 { return was(at) }
			}
		}},
		"a clock that cannot be read": {unused: true, spoil: func(f *fakePair) {
			dead := func() (a, b, c int64, ok bool) { return 0, 0, 0, false }
			f.p.clock.Hardware.Read, f.a.clock.Hardware.Read = dead, dead
		}},
		"a clock that dies in the train": {unused: true, spoil: func(f *fakePair) {
			for _, h := range []*HardwareClock{f.p.clock.Hardware, f.a.clock.Hardware} {
				was, n := h.Read, 0
				h.Read = func() (a, b, c int64, ok bool) {
					n++
					a, b, c, ok = was()
					return a, b, c, ok && n <= maxBrackets
				}
			}
		}},
		"CLOCK_REALTIME is slewed in the train": {unused: true, spoil: func(f *fakePair) {
			f.atProbe(t, 3, func() {
				for _, e := range f.ends() {
					e.discipline.Tick_us += 990
					e.changeRate(0.099)
				}
			})
		}},
		"a clock whose rate may be anything": {unused: true, spoil: func(f *fakePair) {
			f.p.clock.Hardware.Wander_ppb, f.a.clock.Hardware.Wander_ppb = 1e9, 4e9
		}},
		"CLOCK_REALTIME runs backwards around the clock": {unused: true, spoil: func(f *fakePair) {
			for _, h := range []*HardwareClock{f.p.clock.Hardware, f.a.clock.Hardware} {
				was := h.Read
				h.Read = func() (int64, int64, int64, bool) {
					a, b, c, ok := was()
					return c + 1, b, a, ok
				}
			}
		}},
	} {
		f := hardwarePair(t, true)
		test.spoil(f)
		tr, err := f.checkTrain(t)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(tr.Exchanges) != 6 {
			t.Errorf("%s: %d exchanges", name, len(tr.Exchanges))
		}
		for _, e := range tr.Exchanges {
			if got := sourcesOf(e); !test.refutes && got != allKernel.expectedSources(e) {
				t.Errorf("%s: exchange %d: %v, want the kernel's stamps", name, e.Sequence, got)
			}
			f.checkPassing(t, e)
		}
		n := tr.Counts.HardwareUnused + f.a.Counts().HardwareUnused
		if (n > 0) != test.unused {
			t.Errorf("%s: %d stamps are counted as not used", name, n)
		}
	}
}

// A hardware stamp alone says nothing about the counter, so the user stamp stays.
func TestHardwareStampAlone(t *testing.T) {
	f := hardwarePair(t, true)
	for _, e := range f.ends() {
		e.transmit, e.receives = Unsupported, Unsupported
	}
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	want := stampSources{Unsupported, Unsupported, Unsupported, Unsupported}
	for _, e := range tr.Exchanges {
		if got := sourcesOf(e); got != want || e.Best != e.User {
			t.Errorf("exchange %d: %v, %+v", e.Sequence, got, e.Best)
		}
	}
}

// The bytes are the control data that Linux writes on amd64 and arm64, by the layouts of
// linux/errqueue.h, linux/in.h and linux/ipv6.h.
func TestControlDataWithHardwareStamps(t *testing.T) {
	const (
		// SCM_TIMESTAMPING: 64 bytes, SOL_SOCKET, 37; 1,700,000,000 s and 500 ns by the kernel,
		// nothing, 1,700,000,037 s and 123,456,789 ns by the hardware.
		head     = "4000000000000000" + "01000000" + "25000000"
		software = "00f1536500000000" + "f401000000000000"
		nothing  = "0000000000000000" + "0000000000000000"
		hardware = "25f1536500000000" + "15cd5b0700000000"

		// IP_PKTINFO: 28 bytes and padding; interface 3, two addresses.
		ipv4 = "1c00000000000000" + "00000000" + "08000000" +
			"03000000" + "0a000001" + "0a000001" + "00000000"
		// IPV6_PKTINFO: 36 bytes and padding; an address, interface 3.
		ipv6 = "2400000000000000" + "29000000" + "32000000" +
			"fd000000000000000000000000000001" + "03000000" + "00000000"
		// IP_RECVERR of the error queue, with the origin SO_EE_ORIGIN_TIMESTAMPING.
		origin = "3000000000000000" + "00000000" + "0b000000" +
			"2a000000" + "04000000" + "00000000" + "00000000" +
			"00000000000000000000000000000000"
	)
	const software_ns, hardware_ns = 1_700_000_000_000_000_500, 1_700_000_037_123_456_789
	for name, test := range map[string]struct {
		control string
		ask     int
		want    Stamps
	}{
		"a packet that arrived": {head + software + nothing + hardware + ipv4, 3,
			Stamps{software_ns, hardware_ns}},
		"the interface first": {ipv4 + head + software + nothing + hardware, 3,
			Stamps{software_ns, hardware_ns}},
		"IPv6": {head + software + nothing + hardware + ipv6, 3,
			Stamps{software_ns, hardware_ns}},
		"of another interface": {head + software + nothing + hardware + ipv4, 4,
			Stamps{RealtimeNS: software_ns}},
		"of an interface that is not named": {head + software + nothing + hardware, 3,
			Stamps{RealtimeNS: software_ns}},
		"nobody asked": {head + software + nothing + hardware + ipv4, 0,
			Stamps{RealtimeNS: software_ns}},
		"a packet that left": {head + nothing + nothing + hardware + ipv4 + origin, 3,
			Stamps{HardwareNS: hardware_ns}},
		"a packet that left, by the kernel": {head + software + nothing + nothing + ipv4 + origin,
			3, Stamps{RealtimeNS: software_ns}},
		"a short one": {"2000000000000000" + "01000000" + "25000000" + software + ipv4, 3,
			Stamps{RealtimeNS: software_ns}},
	} {
		control, err := hex.DecodeString(test.control)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for cut := 0; cut <= len(control); cut++ {
			m := new(messageMemory)
			copy(m.control[:], control[:cut])
			m.header.SetControllen(cut)
			if got := m.findStamps(test.ask); got != test.want && cut == len(control) {
				t.Errorf("%s: %+v, want %+v", name, got, test.want)
			} else if got.HardwareNS != 0 && got.HardwareNS != test.want.HardwareNS {
				t.Errorf("%s, cut at %d: %+v", name, cut, got)
			}
		}
	}
}

// The kernel of this machine names the interface of each packet, whether it arrives or leaves.
// Asking for hardware stamps does not change the kernel's own stamps.
func TestKernelNamesTheInterface(t *testing.T) {
	for _, local := range loopbacks {
		t.Run(local, func(t *testing.T) {
			needFamily(t, local)
			namesTheInterface(t, local)
		})
	}
}

func namesTheInterface(t *testing.T, local string) {
	config := UDPConfig{Counter: asm.Counter, HardwareInterface: 1} // "lo"
	listener, err := ListenUDP(netip.MustParseAddrPort(local), config)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialer, err := DialUDP(listener.LocalAddr(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer dialer.Close()
	for _, u := range []*UDP{listener, dialer} {
		if tx, rx := u.Sources(); tx != Kernel || rx != Kernel || u.hardware != 1 {
			t.Fatalf("sources %v and %v, interface %d", tx, rx, u.hardware)
		}
	}
	b := make([]byte, shortSize)
	deadline := time.Now().Add(soonEnough)
	for came := false; !came; {
		if time.Now().After(deadline) {
			t.Fatal("no stamps")
		}
		packet := testKey.codecUnder().append(nil, &packet{header: header{kindProbe, 7, 1, testID}})
		if _, err := dialer.Send(packet, listener.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		rx, err := listener.Receive(b, deadline)
		if err != nil {
			t.Fatal(err)
		}
		came = rx.RealtimeNS != 0
		if came && !listener.in.usesHardwareOf(1) {
			t.Errorf("%s: the kernel does not say where the packet arrived: %x", local,
				listener.in.control[:listener.in.header.Controllen])
		}
		sent := 0
		dialer.SentStamps(func(p []byte, at Stamps) {
			sent++
			if at.RealtimeNS == 0 || at.HardwareNS != 0 || !dialer.errors.usesHardwareOf(1) {
				t.Errorf("%s: stamps %+v in %x", local, at,
					dialer.errors.control[:dialer.errors.header.Controllen])
			}
		})
		if sent != 1 {
			t.Errorf("%s: %d transmit stamps", local, sent)
		}
	}
}

// usesHardwareOf reports whether hardware stamps would be used for the interface with the given
// index, and for no other. To find out, it writes a hardware stamp into the control data, which
// must have room for it.
func (m *messageMemory) usesHardwareOf(index int) bool {
	control := m.control[:m.header.Controllen]
	for len(control) >= unix.SizeofCmsghdr+48 {
		if control[8] == unix.SOL_SOCKET && control[12] == unix.SCM_TIMESTAMPING {
			control[unix.SizeofCmsghdr+32] = 9
			return m.findStamps(index).HardwareNS != 0 && m.findStamps(index+1).HardwareNS == 0
		}
		control = control[8:]
	}
	return false
}
