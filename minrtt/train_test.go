package minrtt

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func TestTrain(t *testing.T) {
	f := newFakePair(t)
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(tr.Exchanges); got != 6 {
		t.Errorf("%d exchanges, want a warm-up and 5", got)
	}
	for i, e := range tr.Exchanges {
		if e.Sequence != uint32(i) {
			t.Errorf("exchange %d has sequence number %d", i, e.Sequence)
		}
		// The round trip takes two delays of 10 µs, and the time for reading the counters.
		trip := e.User.RoundTrip_cycles() - (e.User.Answered.Lo-e.User.Received.Lo)*2/3
		if want := uint64(2000 * 2 * 10); trip < want || trip > want+2000 {
			t.Errorf("exchange %d: round trip less hold is %d cycles, want %d and a little",
				i, trip, want)
		}
	}
	if len(tr.Arrivals) != 1 || tr.Arrivals[0].Sequence != 6 {
		t.Errorf("arrivals %+v, want the close's alone", tr.Arrivals)
	}
	want := Counts{Sent: 7, Accepted: 7}
	if diff := cmp.Diff(want, tr.Counts); diff != "" {
		t.Errorf("counts of the prober (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, f.a.Counts()); diff != "" {
		t.Errorf("counts of the answerer (-want +got):\n%s", diff)
	}
}

func TestTrainNeverDrawsMoreThanItGives(t *testing.T) {
	f := newFakePair(t)
	if _, err := f.checkTrain(t); err != nil {
		t.Fatal(err)
	}
	for i, out := range f.answerer.sent {
		if in := f.prober.sent[i]; len(out) != len(in) {
			t.Errorf("answer %d: %d bytes to a probe of %d", i, len(out), len(in))
		}
	}
}

// Trains succeed although single packets are lost, late or doubled. In a fault, fromProber says
// which end sent the packet, and n is the packet's number: each end numbers its own packets.
func TestTrainSurvivesTheNetwork(t *testing.T) {
	type fault func(fromProber bool, n int) []time.Duration
	one := []time.Duration{fakeDelay}
	for _, tc := range []struct {
		name             string
		fault            fault
		exchanges        int
		arrivals         int
		prober, answerer Counts
	}{
		{"third probe lost", func(p bool, n int) []time.Duration {
			if p && n == 2 {
				return nil
			}
			return one
		}, 5, 1, Counts{Sent: 7, Accepted: 6, Lost: 1}, Counts{Sent: 6, Accepted: 6}},
		{"third answer lost", func(p bool, n int) []time.Duration {
			if !p && n == 2 {
				return nil
			}
			return one
			// If the second answer is lost, its transmit stamp is lost, too.
		}, 4, 2, Counts{Sent: 7, Accepted: 6, Lost: 1}, Counts{Sent: 7, Accepted: 7}},
		{"open lost twice", func(p bool, n int) []time.Duration {
			if p && n < 2 {
				return nil
			}
			return one
		}, 6, 1, Counts{Sent: 9, Accepted: 7, Lost: 2}, Counts{Sent: 7, Accepted: 7}},
		{"answer to the open lost", func(p bool, n int) []time.Duration {
			if !p && n == 0 {
				return nil
			}
			return one
		}, 6, 1, Counts{Sent: 8, Accepted: 7, Lost: 1}, Counts{Sent: 8, Accepted: 8}},
		{"answer to the close lost", func(p bool, n int) []time.Duration {
			if !p && n == 6 {
				return nil
			}
			return one
		}, 6, 1, Counts{Sent: 8, Accepted: 7, Lost: 1}, Counts{Sent: 8, Accepted: 8}},
		{"every packet twice", func(bool, int) []time.Duration {
			return []time.Duration{fakeDelay, fakeDelay + time.Microsecond}
		}, 6, 1, Counts{Sent: 7, Accepted: 7, Duplicate: 6},
			Counts{Sent: 7, Accepted: 7, Duplicate: 7}},
		{"third answer late, among later ones", func(p bool, n int) []time.Duration {
			if !p && n == 2 {
				return []time.Duration{100*time.Millisecond + fakeDelay}
			}
			return one
		}, 6, 1, Counts{Sent: 7, Accepted: 7, Lost: 1, Late: 1}, Counts{Sent: 7, Accepted: 7}},
		{"third probe late, overtaken", func(p bool, n int) []time.Duration {
			if p && n == 2 {
				return []time.Duration{100*time.Millisecond + 2*fakeDelay}
			}
			return one
		}, 5, 1, Counts{Sent: 7, Accepted: 6, Lost: 1}, Counts{Sent: 6, Accepted: 6, Duplicate: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakePair(t)
			sent := map[*fakeEnd]int{}
			f.route = func(from *fakeEnd, _ []byte) []time.Duration {
				n := sent[from]
				sent[from]++
				return tc.fault(from == f.prober, n)
			}
			tr, err := f.checkTrain(t)
			if err != nil {
				t.Fatal(err)
			}
			if len(tr.Exchanges) != tc.exchanges {
				t.Errorf("%d exchanges, want %d", len(tr.Exchanges), tc.exchanges)
			}
			if len(tr.Arrivals) != tc.arrivals {
				t.Errorf("arrivals %+v, want %d", tr.Arrivals, tc.arrivals)
			}
			if diff := cmp.Diff(tc.prober, tr.Counts); diff != "" {
				t.Errorf("counts of the prober (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.answerer, f.a.Counts()); diff != "" {
				t.Errorf("counts of the answerer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrainWithoutAnswers(t *testing.T) {
	f := newFakePair(t)
	f.route = func(*fakeEnd, []byte) []time.Duration { return nil }
	tr, err := f.checkTrain(t)
	if !errors.Is(err, ErrNoAnswer) {
		t.Errorf("error = %v, want %v", err, ErrNoAnswer)
	}
	if diff := cmp.Diff(Counts{Sent: 3, Lost: 3}, tr.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if waited := f.now - time.Second/2; waited < 300*time.Millisecond ||
		waited > 301*time.Millisecond {
		t.Errorf("gave up after %v, want three timeouts of 100 ms", waited)
	}
}

func TestTrainWithAnotherKey(t *testing.T) {
	f := newFakePair(t, func(c *Config) { c.Key.Bytes[5]++ })
	if _, err := f.checkTrain(t); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("error = %v, want %v", err, ErrNoAnswer)
	}
	if got, want := f.a.Counts(), (Counts{Forged: 3}); got != want {
		t.Errorf("counts of the answerer = %+v, want %+v", got, want)
	}
	if len(f.answerer.sent) != 0 {
		t.Errorf("the answerer sent %d packets to who does not know the key", len(f.answerer.sent))
	}
}

func TestTrainEndsWithItsContext(t *testing.T) {
	f := newFakePair(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.route = func(*fakeEnd, []byte) []time.Duration { cancel(); return nil }
	if _, err := f.p.Train(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
	if got := len(f.prober.sent); got != 1 {
		t.Errorf("%d packets sent, want none after the end of the context", got)
	}
}

func TestTrainOnAFailingTransport(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		f := newFakePair(t)
		f.prober.errors = []error{ErrClosed}
		if _, err := f.checkTrain(t); !errors.Is(err, ErrClosed) {
			t.Errorf("error = %v, want %v", err, ErrClosed)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		f := newFakePair(t)
		f.prober.errors = []error{unix.ECONNREFUSED, unix.ECONNREFUSED, unix.ECONNREFUSED}
		tr, err := f.checkTrain(t)
		if !errors.Is(err, ErrNoAnswer) {
			t.Errorf("error = %v, want %v", err, ErrNoAnswer)
		}
		if diff := cmp.Diff(Counts{Unsent: 3, Refused: 3}, tr.Counts); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
	t.Run("notice of an earlier train", func(t *testing.T) {
		f := newFakePair(t)
		f.prober.errors = []error{unix.ECONNREFUSED}
		if _, err := f.checkTrain(t); err != nil {
			t.Error(err)
		}
	})
}

// A packet that arrives at either end and does not belong to the train is counted, and has no other
// effect.
func TestTrainAmidForeignTraffic(t *testing.T) {
	c := testKey.codecUnder()
	make := func(change func(*packet)) []byte {
		p := everyField(kindProbe | answerBit)
		change(&p)
		return c.append(nil, &p)
	}
	other := netip.MustParseAddrPort("192.0.2.3:3")
	f := newFakePair(t)
	noise := []delivery{
		{packet: []byte("GET / HTTP/1.1\r\n\r\n")},
		{packet: nil},
		{packet: make(func(*packet) {}), from: other},
		{packet: make(func(*packet) {})[:50]},
		{packet: append(make(func(*packet) {}), 1, 2, 3)},
		{packet: append(make(func(*packet) {}), zeros[:]...)},
		{packet: make(func(p *packet) { p.kind = 7 })},
		{packet: make(func(p *packet) { p.kind = kindOpen })},
		{packet: make(func(*packet) {})},
		{packet: newCodec([]byte("x")).append(nil, &packet{header: header{kind: kindOpen}})},
	}
	f.route = func(from *fakeEnd, packet []byte) []time.Duration {
		if parsed := newPacket(t, packet); parsed.sequence == 3 {
			for _, d := range noise {
				d.at, d.to = f.now+fakeDelay/2, from.peer()
				if !d.from.IsValid() {
					d.from = from.addr
				}
				f.deliver(d)
			}
		}
		return []time.Duration{fakeDelay}
	}
	tr, err := f.checkTrain(t)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Exchanges) != 6 {
		t.Errorf("%d exchanges, want 6", len(tr.Exchanges))
	}
	want := Counts{Sent: 7, Accepted: 7, Foreign: 3, Truncated: 1, Oversize: 2, Malformed: 2,
		OtherTrain: 1, Forged: 1}
	if diff := cmp.Diff(want, tr.Counts); diff != "" {
		t.Errorf("counts of the prober (-want +got):\n%s", diff)
	}
	// The stray open has a session with a number below the current one, so the open is taken for a
	// replay.
	want = Counts{Sent: 7, Accepted: 7, Duplicate: 1, Foreign: 2, Truncated: 1, Oversize: 2,
		Malformed: 3, Forged: 1}
	if diff := cmp.Diff(want, f.a.Counts()); diff != "" {
		t.Errorf("counts of the answerer (-want +got):\n%s", diff)
	}
}

func newPacket(t *testing.T, b []byte) packet {
	t.Helper()
	var p packet
	if err := testKey.codecUnder().parse(b, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A peer with the key may still send false stamps. If the stamps are impossible, the error says so.
func TestTrainRefusesImpossibleStamps(t *testing.T) {
	for _, tc := range []struct {
		name string
		lie  func(p *packet)
		want error
	}{
		{"answered before received", func(p *packet) {
			if p.sequence == 4 {
				p.answered.counter_cycles -= 1 << 20
			}
		}, tscratio.ErrImpossible},
		{"received before the answer before it left", func(p *packet) {
			if p.sequence == 4 {
				p.received.counter_cycles -= 3000 * 30 // by 30 µs, to before the probe left
			}
		}, tscratio.ErrImpossible},
		{"transmit stamp of itself", func(p *packet) {
			if p.sequence == 4 {
				p.previous = 4
			}
		}, tscratio.ErrImpossible},
		{"two transmit stamps for one answer", func(p *packet) {
			if p.sequence == 4 {
				p.previous = 2
			}
		}, tscratio.ErrImpossible},
		{"transmit stamp of an answer to come", func(p *packet) {
			if p.sequence == 4 {
				p.previous = 5
			}
		}, tscratio.ErrImpossible},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakePair(t)
			f.changeAnswers(t, tc.lie)
			tr, err := f.checkTrain(t)
			if !errors.Is(err, tc.want) {
				t.Errorf("error = %v, want %v", err, tc.want)
			}
			if len(tr.Exchanges) != 0 || len(tr.Arrivals) != 0 {
				t.Errorf("%d exchanges, %d arrivals of a liar were kept",
					len(tr.Exchanges), len(tr.Arrivals))
			}
		})
	}
}

// changeAnswers changes every answer by the given function, and computes the answer's code again.
func (f *fakePair) changeAnswers(t *testing.T, lie func(p *packet)) {
	f.route = func(from *fakeEnd, b []byte) []time.Duration {
		if from == f.answerer {
			p := newPacket(t, b)
			lie(&p)
			copy(b, testKey.codecUnder().append(nil, &p))
		}
		return []time.Duration{fakeDelay}
	}
}

func TestTrainRefusesReplayedStamps(t *testing.T) {
	f := newFakePair(t)
	if _, err := f.checkTrain(t); err != nil {
		t.Fatal(err)
	}
	if _, err := f.checkTrain(t); err != nil {
		t.Fatalf("second train: %v", err)
	}
	f.answerer.offset_cycles -= 1 << 30 // as after a reset, or with old stamps
	if _, err := f.checkTrain(t); !errors.Is(err, ErrReplayed) {
		t.Errorf("error = %v, want %v", err, ErrReplayed)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tc := range []struct {
		field  string
		change func(*Config)
	}{
		{"exchanges", func(c *Config) { c.Exchanges = 0 }},
		{"exchanges", func(c *Config) { c.Exchanges = maxExchanges + 1 }},
		{"timeout", func(c *Config) { c.Timeout = 0 }},
		{"timeout", func(c *Config) { c.Timeout = time.Hour }},
		{"attempts", func(c *Config) { c.Attempts = 0 }},
		{"attempts", func(c *Config) { c.Attempts = 101 }},
	} {
		c := DefaultConfig()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		tc.change(&c)
		if err := c.Validate(); err == nil || err.Error()[:len(tc.field)] != tc.field {
			t.Errorf("%+v: error = %v, want one of %s", c, err, tc.field)
		}
	}
}

// Serve continues after one error of the transport. If errors do not end, it returns the error.
func TestServeGivesUpABrokenTransport(t *testing.T) {
	n := newFakeNet()
	a, err := NewAnswerer(n.answerer, n.answerer.clock(), []Secret{testSecret})
	if err != nil {
		t.Fatal(err)
	}
	broken := func(times int) {
		for range times {
			n.answerer.errors = append(n.answerer.errors, unix.ENETDOWN)
		}
	}
	broken(maxFailures - 1)
	n.answerer.errors = append(n.answerer.errors, nil) // one packet that arrives in between
	broken(maxFailures)
	n.answerer.inbox = []delivery{{packet: []byte("a packet")}}
	if err := a.Serve(t.Context()); !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("error = %v, want %v", err, unix.ENETDOWN)
	}
	if !n.answerer.closed.Load() {
		t.Error("the transport is not closed")
	}
	if got, want := a.Counts(), (Counts{Foreign: 1, Failed: 2*maxFailures - 1}); got != want {
		t.Errorf("counts = %+v, want %+v", got, want)
	}
}

func TestArrivalProvesOneInequality(t *testing.T) {
	a := Arrival{Sent: tscratio.Interval{Lo: 10, Hi: 11},
		Received: tscratio.Interval{Lo: 20, Hi: 21}}
	want := tscratio.Constraint{Kind: tscratio.Lower, B: 21, A: 10}
	if got := a.Constraint(tscratio.StartedByA); got != want {
		t.Errorf("from A to B: %+v, want %+v", got, want)
	}
	want = tscratio.Constraint{Kind: tscratio.Upper, B: 10, A: 21}
	if got := a.Constraint(tscratio.StartedByB); got != want {
		t.Errorf("from B to A: %+v, want %+v", got, want)
	}
}
