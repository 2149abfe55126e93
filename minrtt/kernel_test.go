package minrtt

import (
	"errors"
	"math"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// stampSources contains the source of each stamp of an exchange.
type stampSources struct{ sent, received, answered, returned Source }

func sourcesOf(e Exchange) stampSources {
	return stampSources{e.Sent, e.Received, e.Answered, e.Returned}
}

// expectedSources returns the sources that the stamps of exchange e should have. These are the
// sources s, except in the first exchange of a train, which warms up. There, the kernel's stamp of
// the probe's arrival cannot be used, because the answerer had not yet read its clock.
func (s stampSources) expectedSources(e Exchange) stampSources {
	if e.Sequence == 0 && (s.received == Kernel || s.received == Outside) {
		s.received = NoClock
	}
	return s
}

var allKernel = stampSources{Kernel, Kernel, Kernel, Kernel}

// kernelPair returns a pair with kernel stamps at both ends. Its CPUs take long to wake, so user
// stamps are late.
func kernelPair(t *testing.T) *fakePair {
	t.Helper()
	f := newFakePair(t)
	f.stampInKernel()
	f.prober.wake, f.answerer.wake = 30*time.Microsecond, 40*time.Microsecond
	return f
}

func TestKernelStamps(t *testing.T) {
	f := kernelPair(t)
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Exchanges) != 6 {
		t.Fatalf("%d exchanges, want 6", len(tr.Exchanges))
	}
	for _, e := range tr.Exchanges {
		if got := sourcesOf(e); got != allKernel.expectedSources(e) {
			t.Errorf("exchange %d: %v, want kernel stamps", e.Sequence, got)
		}
		if e.Sequence == 0 {
			continue
		}
		// The width of the interval is a sum: the packet's 10 µs, two brackets of 40 ns, and the
		// clock's wander in 1 ms.
		start, end := f.prober.offset_cycles, f.answerer.offset_cycles
		for name, half_cycles := range map[string]uint64{
			"out":  (e.Best.Received.Hi - end) - (e.Best.Sent.Lo-start)*3/2,
			"back": (e.Best.Returned.Hi-start)*3/2 - (e.Best.Answered.Lo - end),
		} {
			if ns := half_cycles / 3; ns < 10_000 || ns > 10_100 {
				t.Errorf("exchange %d: %s took at most %d ns, want 10 µs and a little",
					e.Sequence, name, ns)
			}
		}
	}
	if tr.Counts.Outside != 0 {
		t.Errorf("%d kernel stamps outside", tr.Counts.Outside)
	}
}

// If the kernel's stamps of one kind are missing, user stamps replace only the stamps of this kind.
// The source of these user stamps says why.
func TestKernelStampsFallBack(t *testing.T) {
	broken := errors.New("adjtimex is forbidden")
	for _, tc := range []struct {
		name   string
		change func(f *fakePair)
		want   stampSources // stamps of all exchanges except the warm-up
	}{
		{"prober does not stamp what it sends",
			func(f *fakePair) { f.prober.transmit = Unsupported },
			stampSources{Unsupported, Kernel, Kernel, Kernel}},
		{"answerer does not stamp what it receives",
			func(f *fakePair) { f.answerer.receives = Unsupported },
			stampSources{Kernel, Unsupported, Kernel, Kernel}},
		{"answerer does not stamp what it sends",
			func(f *fakePair) { f.answerer.transmit = Unsupported },
			stampSources{Kernel, Kernel, Unsupported, Kernel}},
		{"prober does not stamp what it receives",
			func(f *fakePair) { f.prober.receives = Unasked },
			stampSources{Kernel, Kernel, Kernel, Unasked}},
		{"no transmit stamp comes to the prober", func(f *fakePair) { f.prober.lag = 1000 },
			stampSources{Missing, Kernel, Kernel, Kernel}},
		{"transmit stamps come to the answerer too late", func(f *fakePair) { f.answerer.lag = 1 },
			stampSources{Kernel, Kernel, Missing, Kernel}},
		{"transmit stamps come to the prober late, but in time",
			func(f *fakePair) { f.prober.lag = 1 }, allKernel},
		{"receive stamps are empty", func(f *fakePair) {
			f.answerer.falsify = func(int64) int64 { return 0 }
		}, stampSources{Kernel, Missing, Missing, Kernel}},
		{"answerer's discipline cannot be read",
			func(f *fakePair) { f.answerer.clockError = broken },
			stampSources{Kernel, NoClock, NoClock, Kernel}},
		{"prober's discipline cannot be read", func(f *fakePair) { f.prober.clockError = broken },
			stampSources{NoClock, Kernel, Kernel, NoClock}},
		{"answerer has no clock", func(f *fakePair) { f.a.clock.Realtime = nil },
			stampSources{Kernel, NoClock, NoClock, Kernel}},
		{"prober has no notice of steps", func(f *fakePair) { f.p.clock.Steps = nil },
			stampSources{NoClock, Kernel, Kernel, NoClock}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := kernelPair(t)
			tc.change(f)
			tr, err := f.checkTrain(t)
			if err != nil {
				t.Fatal(err)
			}
			if len(tr.Exchanges) != 6 {
				t.Errorf("%d exchanges, want 6", len(tr.Exchanges))
			}
			for _, e := range tr.Exchanges[1:] {
				if got := sourcesOf(e); got != tc.want.expectedSources(e) {
					t.Errorf("exchange %d: %v, want %v", e.Sequence, got, tc.want)
				}
			}
		})
	}
}

// If a kernel stamp contradicts the user stamps around it, the kernel takes its stamps from another
// clock than the one that the brackets read. Then the train uses no kernel stamp of that node.
func TestKernelStampsOutside(t *testing.T) {
	for _, tc := range []struct {
		name string
		by   time.Duration
		end  func(f *fakePair) *fakeEnd
		want stampSources // stamps of the whole train, because one contradiction refutes the clock
	}{
		{"prober, late", 100 * time.Microsecond, func(f *fakePair) *fakeEnd { return f.prober },
			stampSources{Outside, Kernel, Kernel, Outside}},
		{"prober, early", -100 * time.Microsecond, func(f *fakePair) *fakeEnd { return f.prober },
			stampSources{Outside, Kernel, Kernel, Outside}},
		{"answerer, late", 120 * time.Microsecond, func(f *fakePair) *fakeEnd { return f.answerer },
			stampSources{Kernel, Outside, Outside, Kernel}},
		{"answerer, early", -120 * time.Microsecond,
			func(f *fakePair) *fakeEnd { return f.answerer },
			stampSources{Kernel, Outside, Outside, Kernel}},
		{"answerer, years early", -1 << 60, func(f *fakePair) *fakeEnd { return f.answerer },
			stampSources{Kernel, NoClock, NoClock, Kernel}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := kernelPair(t)
			tc.end(f).falsify = func(ns int64) int64 { return ns + int64(tc.by) }
			tr, err := f.checkTrain(t)
			if err != nil {
				t.Fatal(err)
			}
			outside := uint64(0)
			// The stamps of the close are counted, too, although the train's Exchanges do not
			// contain them.
			if tc.want.sent == Outside {
				outside += 2
			} else if tc.want.received == Outside {
				outside++
			}
			for _, e := range tr.Exchanges {
				if got := sourcesOf(e); got != tc.want.expectedSources(e) {
					t.Errorf("exchange %d: %v, want %v", e.Sequence, got, tc.want)
				}
				for _, s := range []Source{e.Sent, e.Received, e.Answered, e.Returned} {
					if s == Outside {
						outside++
					}
				}
			}
			if tr.Counts.Outside != outside {
				t.Errorf("%d counted outside, want %d", tr.Counts.Outside, outside)
			}
		})
	}
}

// Two kernel stamps of one node may contradict each other in an exchange, although each is possible
// alone. Then the train uses no kernel stamp of that node.
func TestKernelStampsContradictEachOther(t *testing.T) {
	f := kernelPair(t)
	sends := false
	f.prober.falsify = func(ns int64) int64 {
		if sends = !sends; sends {
			return ns + 40_000
		}
		return ns - 40_000
	}
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tr.Exchanges {
		want := stampSources{Outside, Kernel, Kernel, Outside}.expectedSources(e)
		if got := sourcesOf(e); got != want {
			t.Errorf("exchange %d: %v, want %v", e.Sequence, got, want)
		}
	}
}

// If a transmit stamp arrives after its train, the prober does not use it for the next train.
func TestKernelStampsOfAnEarlierTrain(t *testing.T) {
	f := kernelPair(t)
	f.prober.lag = 7
	for range 2 {
		tr, err := f.checkTrain(t)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range tr.Exchanges {
			if e.Sent != Missing {
				t.Errorf("exchange %d: transmit stamp from %v, want none", e.Sequence, e.Sent)
			}
		}
	}
}

// If the answer to the first close does not yet carry the last transmit stamp, the answer to the
// second close does.
func TestKernelStampComesWithTheSecondClose(t *testing.T) {
	f := kernelPair(t)
	f.route = func(from *fakeEnd, b []byte) []time.Duration {
		if p := newPacket(t, b); p.kind == kindClose|answerBit && p.sequence == 6 {
			return []time.Duration{100 * time.Millisecond}
		} else if p.sequence == 5 {
			f.answerer.lag = 1
		}
		return []time.Duration{fakeDelay}
	}
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Counts.Late != 1 || len(tr.Exchanges) != 6 {
		t.Fatalf("%d exchanges, %+v; want 6 and a late answer", len(tr.Exchanges), tr.Counts)
	}
	if got := sourcesOf(tr.Exchanges[5]); got != allKernel {
		t.Errorf("last exchange: %v, want kernel stamps", got)
	}
}

// atProbe calls the given function once, when the probe with the given sequence number leaves.
func (f *fakePair) atProbe(t *testing.T, sequence uint32, run func()) {
	f.route = func(from *fakeEnd, b []byte) []time.Duration {
		if from == f.prober && newPacket(t, b).sequence == sequence {
			run()
			sequence = noSequence // so that it runs only once
		}
		return []time.Duration{fakeDelay}
	}
}

func (f *fakePair) ends() map[string]*fakeEnd {
	return map[string]*fakeEnd{"prober": f.prober, "answerer": f.answerer}
}

// If the clock is set during a train, the clock's count Steps changes, and the prober drops the
// train. The test sets the clock forward or back, by so little that no stamp would reveal it.
func TestClockSetDuringTrain(t *testing.T) {
	for name := range newFakePair(t).ends() {
		for _, by := range []int64{-20_000, 20_000, 0} {
			f := kernelPair(t)
			e := f.ends()[name]
			f.atProbe(t, 3, func() {
				e.steps++
				now, was := f.now, e.realtime
				e.realtime = func(at time.Duration) int64 {
					if at < now {
						return was(at)
					}
					return was(at) + by
				}
			})
			if tr, err := f.checkTrain(t); !errors.Is(err, ErrClockSet) || len(tr.Exchanges) != 0 {
				t.Errorf("%s set by %d ns: %d exchanges, error = %v, want %v",
					name, by, len(tr.Exchanges), err, ErrClockSet)
			}
			if _, err := f.checkTrain(t); err != nil {
				t.Errorf("the train after it: %v", err)
			}
		}
	}
}

// chrony slews the clock by up to 83,333 ppm. Frequency or tick show the change, and the stamps
// stay true.
func TestClockSlewedDuringTrain(t *testing.T) {
	for name := range newFakePair(t).ends() {
		for _, slew := range []float64{-83_333e-6, 83_333e-6, -200e-6, 200e-6} {
			f := kernelPair(t)
			e := f.ends()[name]
			f.atProbe(t, 3, func() {
				if math.Abs(slew) > 500e-6 {
					e.discipline.Tick_us += int64(slew * 10_000)
				} else {
					e.discipline.Frequency_ppm16 += int64(slew * 65536e6)
				}
				e.changeRate(slew)
			})
			tr, err := f.checkTrain(t) // checkTrain compares each stamp with the truth
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range tr.Exchanges {
				if got := sourcesOf(x); got != allKernel.expectedSources(x) {
					t.Errorf("%s slewed by %v: exchange %d: %v, want kernel stamps, if wide ones",
						name, slew, x.Sequence, got)
				}
			}
			// In the next train the rate is steady, and bounds are as narrow as before.
			tr, err = f.checkTrain(t)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range tr.Exchanges {
				if w := max(x.Best.Sent.Width()*3/2, x.Best.Received.Width()); w > 3*100 {
					t.Errorf("%s slewed by %v: next train: %d cycles wide", name, slew, w)
				}
			}
		}
	}
}

// changeRate changes the rate of the clock from the present moment on.
func (e *fakeEnd) changeRate(by float64) {
	now, was := e.net.now, e.realtime
	e.realtime = func(at time.Duration) int64 {
		if at < now {
			return was(at)
		}
		return was(now) + int64(math.Floor(float64(at-now)*(1+by)))
	}
}

// If the kernel takes its stamps from another clock than the node's, KernelStamp converts the
// stamps.
func TestKernelStampsOfAnotherClock(t *testing.T) {
	f := kernelPair(t)
	for _, e := range f.ends() {
		e.falsify = func(ns int64) int64 { return ns - 1_000_000_000 }
	}
	other := func(ns int64) int64 { return ns + 1_000_000_000 }
	f.p.clock.KernelStamp, f.a.clock.KernelStamp = other, other
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tr.Exchanges {
		if got := sourcesOf(e); got != allKernel.expectedSources(e) {
			t.Errorf("exchange %d: %v, want kernel stamps", e.Sequence, got)
		}
	}
}

// No stamp is ever false, even if the network delays, loses and duplicates packets, and clocks
// change as much as the assumptions allow.
func TestTrainHoldsTheTruth(t *testing.T) {
	r := seed.Random(t)
	const trains = 400
	kept, kernel := 0, 0
	for range trains {
		f := kernelPair(t)
		for _, e := range f.ends() {
			e.cycles_per_us = uint64(20 + r.IntN(10_000))
			e.wake = time.Duration(r.Int64N(50_000))
			e.stampAfter = time.Duration(r.Int64N(2_000))
			rate, offset := 1+(r.Float64()-0.5)*0.1, r.Int64N(1<<50)
			period, phase := 1e4+r.Float64()*1e6, r.Float64()*10
			e.realtime = func(at time.Duration) int64 {
				x := float64(at) * rate
				// The kernel steers the clock by up to 0.5 ppm in either direction.
				x += 0.5e-6 * period * math.Sin(float64(at)/period+phase)
				return fakeBegin + offset + int64(math.Floor(x))
			}
			if r.IntN(2) == 0 {
				e.lag = r.IntN(3)
			}
		}
		f.now = time.Duration(r.Int64N(1e9))
		loss := r.Float64() * 0.3
		f.route = func(*fakeEnd, []byte) (arrivals []time.Duration) {
			for r.Float64() < 0.05 || len(arrivals) == 0 {
				d := time.Duration(r.ExpFloat64() * 20_000)
				if r.Float64() < 0.02 {
					d += 100 * time.Millisecond // so late that the timeout has passed
				}
				arrivals = append(arrivals, d)
			}
			if r.Float64() < loss {
				return nil
			}
			return arrivals
		}
		tr, err := f.checkTrain(t)
		if err != nil && !errors.Is(err, ErrNoAnswer) {
			t.Fatal(err)
		}
		for _, e := range tr.Exchanges {
			kept++
			if sourcesOf(e) == allKernel.expectedSources(e) {
				kernel++
			}
		}
		if t.Failed() {
			break
		}
	}
	if kept < 3*trains || kernel < trains {
		t.Errorf("only %d exchanges in %d trains, %d with kernel stamps: too few to have tested "+
			"anything", kept, trains, kernel)
	}
}

func TestKernelStampIsFoundAmongOthers(t *testing.T) {
	// build makes a message as recvmsg does. It has one control message for each of the given
	// levels. Each has a stamp of 5 s and 7 ns.
	build := func(levels ...int) *messageMemory {
		m := new(messageMemory)
		at := 0
		for _, level := range levels {
			h := unix.Cmsghdr{Level: int32(level), Type: unix.SCM_TIMESTAMPING}
			h.SetLen(unix.SizeofCmsghdr + 48)
			writeHeader(m.control[at:], h)
			m.control[at+unix.SizeofCmsghdr], m.control[at+unix.SizeofCmsghdr+8] = 5, 7
			at += unix.CmsgSpace(48)
		}
		m.header.SetControllen(at)
		return m
	}
	const want = 5_000_000_007
	if got := build(unix.SOL_SOCKET).findStamps(0).RealtimeNS; got != want {
		t.Errorf("alone: %d, want %d", got, want)
	}
	if got := build(unix.SOL_IP, unix.SOL_SOCKET).findStamps(0).RealtimeNS; got != want {
		t.Errorf("second: %d, want %d", got, want)
	}
	if got := build(unix.SOL_IP).findStamps(0).RealtimeNS; got != 0 {
		t.Errorf("of another level: %d, want none", got)
	}
	if got := build().findStamps(0).RealtimeNS; got != 0 {
		t.Errorf("nothing: %d, want none", got)
	}
	for _, length := range []int{0, unix.SizeofCmsghdr - 1, unix.SizeofCmsghdr + 8, 1 << 20} {
		m := build(unix.SOL_SOCKET)
		h := unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SCM_TIMESTAMPING}
		h.SetLen(length)
		writeHeader(m.control[:], h)
		if got := m.findStamps(0).RealtimeNS; got != 0 {
			t.Errorf("length %d: %d, want none", length, got)
		}
	}
}

func writeHeader(b []byte, h unix.Cmsghdr) {
	*(*unix.Cmsghdr)(unsafe.Pointer(&b[0])) = h
}
