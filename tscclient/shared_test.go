package tscclient

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// twoNodes has two nodes, whose counters count nanoseconds, and a clock that both read. B's
// oscillator wanders by up to 0.45 ppm in a window of ±10 s. B reads the clock through a device.
// lie_ns is the error of what the device shows; it is 0 if the device is honest.
type twoNodes struct {
	r      *rand.Rand
	phase  float64
	now    uint64 // A's counter
	lie_ns func(at uint64) float64
}

// b returns what B's counter shows when A's counter shows the given value (at).
func (s *twoNodes) b(at float64) uint64 {
	const swing, period = 0.45e-6, 3e9
	return uint64(7e12 + at*(1+40e-6) + swing*period*math.Sin(at/period+s.phase))
}

// simulateTrain runs a train whose packets take at least 20 µs, with a meeting at its beginning and
// one at its end. Each node reads the clock within half a microsecond.
func (s *twoNodes) simulateTrain() minrtt.Train {
	s.now += 100e6 + s.r.Uint64N(200e6)
	var t minrtt.Train
	at := s.now
	for range 3 {
		delay := func() uint64 { return 20_000 + s.r.Uint64N(40_000) }
		received := at + delay()
		answered := received + 500
		returned := answered + delay()
		t.Exchanges = append(t.Exchanges, minrtt.Exchange{
			Best: tscratio.Exchange{
				Sent:     tscratio.At(at),
				Received: tscratio.At(s.b(float64(received)) + 1),
				Answered: tscratio.At(s.b(float64(answered))),
				Returned: tscratio.At(returned),
			},
			Sent: minrtt.Kernel, Received: minrtt.Kernel,
			Answered: minrtt.Kernel, Returned: minrtt.Kernel,
		})
		at = returned + 1000
	}
	for _, when := range []uint64{s.now, at} {
		early, late := s.r.Uint64N(500), s.r.Uint64N(500)
		seen := float64(when) + s.lie_ns(when) // when B's device shows what A's showed
		t.Meetings = append(t.Meetings, minrtt.Meeting{
			Own: tscratio.Interval{Lo: when - s.r.Uint64N(500), Hi: when + s.r.Uint64N(500)},
			Peer: tscratio.Interval{
				Lo: s.b(seen) - early, Hi: s.b(seen) + 1 + late},
		})
	}
	return t
}

// checkTruth fails the test if a bound does not contain the truth. It returns the median bound.
func (s *twoNodes) checkTruth(t *testing.T, p *peerPairs) time.Duration {
	t.Helper()
	pair := p.copyPairs()[0]
	pair.Prune()
	relation, err := pair.Relate(tscratio.SideB, pair.Declared.Wander)
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for at := s.now - 20e9; at < s.now; at += 100e6 + s.r.Uint64N(100e6) {
		got, err := relation.Translate(at)
		if err != nil {
			continue // before the first train
		}
		answers++
		if truth := s.b(float64(at)); truth < got.Lo-1 || truth > got.Hi+1 {
			t.Fatalf("at %d: B's counter in %v, in truth %d", at, got, truth)
		}
	}
	if answers < 10 {
		t.Fatalf("%d readings were translated", answers)
	}
	width, _ := medianBound(pair)
	return width
}

func addAll(t *testing.T, s *twoNodes, p *peerPairs, trains int, meet bool) (lie string,
	after int) {
	t.Helper()
	for i := range trains {
		train := s.simulateTrain()
		if !meet {
			train.Meetings = nil
		}
		c, what, err := p.addShared(fakeNode("a"), fakeNode("b"), &train)
		if err != nil || c != nil {
			t.Fatal(c, err)
		}
		if what != "" {
			if lie != "" {
				t.Errorf("the lie was found again: %s", what)
			}
			lie, after = what, i
		}
		if what != "" && train.Meetings != nil {
			t.Error("meetings that contradict the packets are passed on")
		}
	}
	return lie, after
}

// With an honest clock, bounds are true and far narrower than those of packets alone.
func TestSharedClockNarrows(t *testing.T) {
	r := seed.Random(t)
	honest := func(uint64) float64 { return 0 }
	for range 10 {
		s := &twoNodes{r: r, phase: 6 * r.Float64(), now: 1e12, lie_ns: honest}
		packets := newPairs(1000, tscratio.DefaultAssumptions())
		addAll(t, s, &packets, 100, false)
		wide := s.checkTruth(t, &packets)

		s.now = 1e12
		shared := newPairs(1000, tscratio.DefaultAssumptions())
		if lie, _ := addAll(t, s, &shared, 100, true); lie != "" {
			t.Fatalf("an honest clock is said to lie: %s", lie)
		}
		if narrow := s.checkTruth(t, &shared); narrow > wide/4 {
			t.Errorf("bound %v with the clock, %v without it", narrow, wide)
		}
		if got := shared.copyPairs()[0]; got.Trains() != 100 {
			t.Errorf("%d trains are kept, want 100", got.Trains())
		}
	}
}

// A device that lies is found as soon as its lie exceeds what the packets allow. Then everything
// that the device said is dropped, so bounds are true.
func TestLyingClockIsRefused(t *testing.T) {
	r := seed.Random(t)
	for name, lie := range map[string]func(at uint64) float64{
		"another clock":    func(uint64) float64 { return 1e6 },
		"early":            func(uint64) float64 { return -1e6 },
		"wrong frequency":  func(at uint64) float64 { return 20e-6 * (float64(at) - 1e12) },
		"a step":           func(at uint64) float64 { return 200e3 * flag(at > 1e12+6e9) },
		"a step back":      func(at uint64) float64 { return -200e3 * flag(at > 1e12+6e9) },
		"now and then":     func(at uint64) float64 { return 300e3 * flag(at/1e9%7 == 6) },
		"a little too far": func(uint64) float64 { return 150e3 },
	} {
		s := &twoNodes{r: r, phase: 6 * r.Float64(), now: 1e12, lie_ns: lie}
		p := newPairs(1000, tscratio.DefaultAssumptions())
		what, after := addAll(t, s, &p, 150, true)
		if what == "" {
			t.Errorf("%s: the lie is not found", name)
			continue
		}
		if kept := p.copyPairs()[0].Trains(); kept < 150-after {
			t.Errorf("%s: found with train %d, and %d of 150 are kept", name, after, kept)
		}
		s.checkTruth(t, &p)
	}
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// A clock that was refused is named, so that people can correct it.
func TestRefusedClockIsNamed(t *testing.T) {
	c := &Client{config: Config{Node: fakeNode("a"),
		Clock: minrtt.Clock{Shared: &minrtt.SharedClock{Name: "host 17"}}}}
	s := &twoNodes{r: seed.Random(t), now: 1e12, lie_ns: func(uint64) float64 { return 1e6 }}
	p := newPairs(1000, tscratio.DefaultAssumptions())
	what, _ := addAll(t, s, &p, 3, true)
	said := c.describeRefusal("b", what)
	for _, want := range []string{`"host 17"`, `"a"`, `"b"`, "not used with this peer"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %s", said, want)
		}
	}
	train := s.simulateTrain()
	train.Meetings, train.ClocksDiffer = nil, true
	p = newPairs(1000, tscratio.DefaultAssumptions())
	if _, what, _ := p.addShared(fakeNode("a"), fakeNode("b"), &train); what == "" {
		t.Error("clocks that differ are not refused")
	}
}

// In a report, each meeting has the number of its train.
func TestReportedMeetings(t *testing.T) {
	s := &twoNodes{r: seed.Random(t), now: 1e12, lie_ns: func(uint64) float64 { return 0 }}
	b := trainBatch{Trains: []minrtt.Train{s.simulateTrain(), s.simulateTrain()},
		SharedClock: "lies"}
	b.Trains[0].Meetings = nil
	m := b.reportMessage(Peer{})
	if len(m.Meetings) != 2 || m.Meetings[0].Train != 1 || m.Meetings[1].Train != 1 ||
		m.Meetings[1].PeerHi != b.Trains[1].Meetings[1].Peer.Hi || m.SharedClock != "lies" {
		t.Errorf("report %+v", m)
	}
}
