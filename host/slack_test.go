package host

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// simulatedCores simulates cores of a CPU. Their counters have known offsets and move in steps.
type simulatedCores struct {
	r       *rand.Rand
	offset  map[int]int64
	quantum uint64
	ideal   uint64
	phase   map[int]uint64
}

func newCores(r *rand.Rand, n int, spread int64, quantum uint64) *simulatedCores {
	c := &simulatedCores{r: r, offset: map[int]int64{}, quantum: quantum, ideal: 1 << 60,
		phase: map[int]uint64{}}
	for core := range n {
		c.offset[core] = r.Int64N(2*spread+1) - spread
		c.phase[core] = r.Uint64N(quantum)
	}
	return c
}

// read returns the last full step of a core's counter. Different cores' counters step at different
// times.
func (c *simulatedCores) read(core int) uint64 {
	v := c.ideal + uint64(c.offset[core])
	return v - (v+c.phase[core])%c.quantum
}

func (c *simulatedCores) pass(from, to int) Handover {
	h := Handover{From: from, To: to, Sent: c.read(from)}
	c.ideal += 60 + uint64(c.r.ExpFloat64()*200)
	h.Received = c.read(to)
	return h
}

func (c *simulatedCores) allNumbers() []int {
	var all []int
	for core := range c.offset {
		all = append(all, core)
	}
	return all
}

func TestTrueOffsetsAreInsideEveryInterval(t *testing.T) {
	r := seed.Random(t)
	for range 400 {
		n := 2 + r.IntN(7)
		c := newCores(r, n, 1+r.Int64N(1<<(1+r.IntN(40))), 1+r.Uint64N(1<<r.IntN(8)))
		options, now := c.slackOptions()
		options.Budget = time.Duration(n+r.IntN(40)) * time.Millisecond
		m := newSlackMeter(options)
		for range r.IntN(100) {
			a := r.IntN(n - 1)
			if _, err := m.measurePair([2]int{a, a + 1 + r.IntN(n-1-a)}); err != nil {
				t.Fatalf("true hand-over refused: %v", err)
			}
		}
		_, worst, unknown := m.worstPair()
		for b := range n {
			for a := range b {
				if slices.Contains(unknown, a) || slices.Contains(unknown, b) {
					continue
				}
				truth := c.offset[b] - c.offset[a]
				between := m.offsetBetween(a, b)
				if !between.Contains(truth) || magnitude(truth) > worst.Magnitude() {
					t.Fatalf("cores %d, %d: true offset %d, between %v, worst %v; at %v",
						a, b, truth, between, worst, now)
				}
			}
		}
	}
}

func TestIntervalsOfGivenHandovers(t *testing.T) {
	next := map[[2]int]Handover{}
	m := newSlackMeter(SlackOptions{Cores: []int{3, 1, 7}, Quantum_cycles: 10,
		Exchange: func(
			a, b int, rounds int, patience time.Duration,
		) (forth, back Handover, err error) {
			return next[[2]int{a, b}], next[[2]int{b, a}], nil
		}})
	look := func(a, b int, forth, back Handover) error {
		next[[2]int{a, b}], next[[2]int{b, a}] = forth, back
		_, err := m.measurePair([2]int{a, b})
		return err
	}
	if err := look(1, 3, Handover{1, 3, 1000, 1200}, Handover{}); err != nil ||
		m.pairs[[2]int{1, 3}] != nil {
		t.Errorf("one direction bounded both sides, %v", err)
	}
	if err := look(1, 3, Handover{1, 3, 1000, 1200}, Handover{3, 1, 2000, 2150}); err != nil {
		t.Fatal(err)
	}
	if pair, between, unknown := m.worstPair(); pair != [2]int{1, 3} ||
		between != (Cycles{-160, 210}) ||
		!slices.Equal(unknown, []int{7}) {
		t.Errorf("worst = %v, %v, unknown %v", pair, between, unknown)
	}
	// These readings wrap round at the largest counter value.
	if err := look(1, 7, Handover{1, 7, 1 << 63, 1<<63 + 300},
		Handover{7, 1, math.MaxUint64 - 50, 49}); err != nil {
		t.Fatal(err)
	}
	if between := m.offsetBetween(3, 7); between != (Cycles{-320, 470}) {
		t.Errorf("over core 1: %v, want [-110 - 210, 310 + 160]", between)
	}
	if err := look(3, 7, Handover{3, 7, 0, 600}, Handover{7, 3, 0, 90}); err != nil {
		t.Fatal(err)
	}
	if between := m.offsetBetween(3, 7); between != (Cycles{-100, 610}) {
		t.Errorf("what was seen is %v, want it alone", between)
	}
	// In the second hand-over, the message seems to be received 111 cycles before it was sent. A
	// reading may be 10 cycles too low. So the offset is at least 101, but the first hand-over
	// proves that it is at most 100.
	err := look(1, 3, Handover{1, 3, 1000, 1090}, Handover{3, 1, 5000, 4889})
	if !errors.Is(err, ErrCoresDisagree) {
		t.Errorf("look = %v, want ErrCoresDisagree", err)
	}
	if err := look(1, 3, Handover{1, 3, 1000, 1090}, Handover{3, 1, 5000, 4890}); err != nil {
		t.Errorf("an offset of exactly 100 is possible: %v", err)
	}
}

func TestSumsOfBoundsGoOutward(t *testing.T) {
	big := int64(math.MaxInt64)
	for _, test := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {-5, 2, -3}, {big, -100, big}, {-100, big, big}, {big - 1, 2, big},
		{math.MinInt64, -1, math.MinInt64}, {-big, -big, math.MinInt64},
	} {
		if got := addOutward(test.a, test.b); got != test.want {
			t.Errorf("addOutward(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// slackOptions returns options for simulated cores, and the time of their clock. Only exchanges
// move this clock.
func (c *simulatedCores) slackOptions(dead ...int) (SlackOptions, *time.Time) {
	now := time.Unix(0, 0)
	return SlackOptions{
		Cores: c.allNumbers(), Quantum_cycles: c.quantum, Budget: time.Second,
		Now: func() time.Time { return now },
		Exchange: func(a, b, rounds int, patience time.Duration) (forth, back Handover, err error) {
			if slices.Contains(dead, a) || slices.Contains(dead, b) {
				now = now.Add(patience)
				return Handover{}, Handover{}, nil
			}
			now = now.Add(time.Millisecond)
			return c.passMany(a, b), c.passMany(b, a), nil
		},
	}, &now
}

// passMany passes many messages and returns the hand-over that proves most.
func (c *simulatedCores) passMany(from, to int) (best Handover) {
	for i := range 50 {
		if h := c.pass(from, to); i == 0 || h.Received-h.Sent < best.Received-best.Sent {
			best = h
		}
	}
	return best
}

func TestMeasuredSlackHoldsAndEnds(t *testing.T) {
	r := seed.Random(t)
	for _, n := range []int{2, 3, 8, 64} {
		c := newCores(r, n, 500, 26)
		options, now := c.slackOptions()
		s, err := MeasureSlack(options)
		if err != nil {
			t.Fatal(err)
		}
		if spent := now.Sub(time.Unix(0, 0)); spent > options.Budget+time.Millisecond {
			t.Errorf("%d cores took %v of %v", n, spent, options.Budget)
		}
		low, high := int64(math.MaxInt64), int64(math.MinInt64)
		for _, offset := range c.offset {
			low, high = min(low, offset), max(high, offset)
		}
		truth := uint64(high - low)
		if s.Slack_cycles < truth || s.Slack_cycles > truth+2*(60+200+2*26) {
			t.Errorf("%d cores: slack %d, true disagreement %d", n, s.Slack_cycles, truth)
		}
		if len(s.Cores) != n || len(s.Unmeasured) != 0 || s.Between.Magnitude() != s.Slack_cycles {
			t.Errorf("%d cores: %+v", n, s)
		}
		f := s.finding(Facts{Cores: Cores{Online: c.allNumbers()}}, nil)
		if f.Verdict != Fit {
			t.Errorf("finding = %+v, want fit", f)
		}
	}
}

func TestSlackWhereNotAllIsKnown(t *testing.T) {
	r := seed.Random(t)
	c := newCores(r, 4, 100, 1)
	options, now := c.slackOptions(2)
	s, err := MeasureSlack(options)
	if err != nil || !slices.Equal(s.Unmeasured, []int{2}) ||
		!slices.Equal(s.Cores, []int{0, 1, 3}) {
		t.Fatalf("slack = %+v, %v; want core 2 unmeasured", s, err)
	}
	if spent := now.Sub(time.Unix(0, 0)); spent > mostBudgets*options.Budget+time.Millisecond {
		t.Errorf("a dead core took %v", spent)
	}
	if f := s.finding(Facts{}, nil); f.Verdict != Unknown || s.Known() ||
		!strings.Contains(f.Detail, "nothing is known: 2;") {
		t.Errorf("finding = %+v, known %v; want that core 2 is not known", f, s.Known())
	}
	if f := s.finding(Facts{Cores: Cores{Online: make([]int, 16)}}, nil); f.Verdict != Unknown {
		t.Errorf("finding = %+v, want unknown", f)
	}

	full := Slack{Slack_cycles: 10, Cores: []int{0, 1}}
	if f := full.finding(Facts{Cores: Cores{Online: make([]int, 16)}}, nil); f.Verdict != Warning ||
		!strings.Contains(f.Detail, "14 more cores") {
		t.Errorf("finding with a narrow cpuset = %+v, want a warning that says 14 more", f)
	}
	one, err := MeasureSlack(SlackOptions{Cores: []int{5}})
	if err != nil || one.Slack_cycles != 0 || !slices.Equal(one.Cores, []int{5}) {
		t.Fatalf("slack of one core = %+v, %v", one, err)
	}
	if f := one.finding(Facts{Cores: Cores{Online: []int{5}}}, nil); f.Verdict != Fit {
		t.Errorf("one core of one = %+v, want fit", f)
	}
	if f := one.finding(Facts{Cores: Cores{Online: []int{4, 5}}}, nil); f.Verdict != Warning {
		t.Errorf("one core of two = %+v, want a warning", f)
	}
}

// On a busy machine, it may happen that no hand-over completes within the budget, or that one core
// does not run for a long time during every hand-over. In both cases, MeasureSlack must go on
// measuring.
func TestSlackOfABusyMachine(t *testing.T) {
	for name, early := range map[string]func(*simulatedCores) (forth, back Handover){
		"nothing completes": func(*simulatedCores) (forth, back Handover) { return },
		"ends are late": func(c *simulatedCores) (forth, back Handover) {
			forth, back = c.pass(0, 1), c.pass(1, 0)
			forth.Received += 25_000_000
			return forth, back
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCores(seed.Random(t), 2, 100, 1)
			options, now := c.slackOptions()
			quiet := options.Exchange
			begin := *now
			options.Exchange = func(
				a, b, rounds int, patience time.Duration,
			) (forth, back Handover, err error) {
				if now.Sub(begin) < 3*options.Budget {
					*now = now.Add(max(patience, time.Millisecond))
					forth, back = early(c)
					return forth, back, nil
				}
				return quiet(a, b, rounds, patience)
			}
			s, err := MeasureSlack(options)
			if err != nil || !s.Known() || s.Handovers == 0 || now.Sub(begin) > 4*options.Budget {
				t.Errorf("slack = %+v, known %v, after %v, %v; want it known soon after 3 budgets",
					s, s.Known(), now.Sub(begin), err)
			}

			options.Exchange = func(
				a, b, rounds int, patience time.Duration,
			) (forth, back Handover, err error) {
				*now = now.Add(max(patience, time.Millisecond))
				forth, back = early(c)
				return forth, back, nil
			}
			begin = *now
			s, err = MeasureSlack(options)
			f := s.finding(Facts{}, err)
			if err != nil || s.Known() || f.Verdict != Unknown || f.Remedy == "" {
				t.Errorf("a machine that stays busy: slack = %+v, finding %+v, %v; "+
					"want unknown, with a remedy", s, f, err)
			}
			if spent := now.Sub(begin); spent > mostBudgets*options.Budget+time.Millisecond {
				t.Errorf("a machine that stays busy took %v", spent)
			}
		})
	}
}

func TestCoresThatDriftApartAreUnfit(t *testing.T) {
	r := seed.Random(t)
	c := newCores(r, 3, 100, 1)
	// Cores 0 and 2 stay the worst pair, but MeasureSlack must nevertheless measure core 1 again.
	c.offset[2] = 100_000
	options, _ := c.slackOptions()
	honest := options.Exchange
	options.Exchange = func(
		a, b, rounds int, patience time.Duration,
	) (forth, back Handover, err error) {
		c.offset[1] += 40
		return honest(a, b, rounds, patience)
	}
	s, err := MeasureSlack(options)
	if !errors.Is(err, ErrCoresDisagree) || s.Slack_cycles != math.MaxUint64 {
		t.Fatalf("slack = %+v, %v; want ErrCoresDisagree and no slack", s, err)
	}
	if f := s.finding(Facts{}, err); f.Verdict != Unfit || f.Remedy == "" {
		t.Errorf("finding = %+v, want unfit with a remedy", f)
	}
	options.Exchange = func(
		a, b, rounds int, patience time.Duration,
	) (forth, back Handover, err error) {
		return Handover{}, Handover{}, errors.New("not permitted")
	}
	s, err = MeasureSlack(options)
	if f := s.finding(Facts{}, err); err == nil || f.Verdict != Unknown {
		t.Errorf("finding = %+v, %v; want unknown", f, err)
	}
}

// A hypervisor moves virtual cores to physical cores whose counters disagree. The slack includes
// the offsets of every placement that was measured. (An intersection of all measured intervals
// would leave out some of these offsets.)
func TestSlackCoversEachPlacement(t *testing.T) {
	r := seed.Random(t)
	for range 50 {
		c := newCores(r, 2+r.IntN(4), 0, 1+r.Uint64N(26))
		options, _ := c.slackOptions()
		honest := options.Exchange
		places := make([]map[int]int64, 1+r.IntN(6))
		for i := range places {
			places[i] = map[int]int64{}
			for core := range c.offset {
				places[i][core] = r.Int64N(401) - 200
			}
		}
		var apart uint64
		options.Exchange = func(
			a, b int, rounds int, patience time.Duration,
		) (forth, back Handover, err error) {
			if r.IntN(10) == 0 {
				c.offset = places[r.IntN(len(places))]
			}
			apart = max(apart, magnitude(c.offset[b]-c.offset[a]))
			return honest(a, b, rounds, patience)
		}
		s, err := MeasureSlack(options)
		if err != nil {
			t.Fatal(err)
		}
		if s.Slack_cycles < apart {
			t.Errorf("%d places: slack = %+v, cores were %d cycles apart", len(places), s, apart)
		}
	}
}

func TestMovedCoresAreAWarning(t *testing.T) {
	c := newCores(seed.Random(t), 2, 0, 1)
	options, _ := c.slackOptions()
	honest := options.Exchange
	options.Exchange = func(
		a, b int, rounds int, patience time.Duration,
	) (forth, back Handover, err error) {
		c.offset[1] = 5000 - c.offset[1]
		return honest(a, b, rounds, patience)
	}
	s, err := MeasureSlack(options)
	if err != nil || !s.Moved || s.Slack_cycles < 5000 || s.Slack_cycles > 6000 {
		t.Fatalf("slack = %+v, %v; want 5000 and a hand-over, of cores that moved", s, err)
	}
	if f := s.finding(Facts{}, nil); f.Verdict != Warning || f.Remedy == "" {
		t.Errorf("finding = %+v, want a warning with a remedy", f)
	}
}

func TestLooksAreJoined(t *testing.T) {
	for name, test := range map[string]struct {
		looks         lookList
		joined        Cycles
		moved, drifts bool
	}{
		"one":         {lookList{{-5, 9}}, Cycles{-5, 9}, false, false},
		"overlapping": {lookList{{-5, 9}, {-9, 5}, {-4, 9}}, Cycles{-9, 9}, false, false},
		"much wider":  {lookList{{-500, 400}, {-5, 9}, {-9, 5}}, Cycles{-9, 9}, false, false},
		"wider elsewhere": {lookList{{100, 900}, {-5, 9}, {50, 950}, {-9, 5}}, Cycles{-9, 950},
			true,
			false},
		"back again": {lookList{{-5, 9}, {20, 34}, {-5, 9}, {20, 34}}, Cycles{-5, 34}, true,
			false},
		"never back":   {lookList{{-5, 9}, {-5, 9}, {-5, 9}, {20, 34}}, Cycles{-5, 34}, true, true},
		"two of two":   {lookList{{-5, 9}, {20, 34}}, Cycles{-5, 34}, true, true},
		"last but one": {lookList{{-5, 9}, {0, 5}, {20, 34}, {0, 5}}, Cycles{-5, 34}, true, false},
	} {
		if joined := test.looks.joinedInterval(); joined != test.joined {
			t.Errorf("%s: joined = %v, want %v", name, joined, test.joined)
		}
		moved, drifts := test.looks.hasMoved(), test.looks.keepsMoving()
		if moved != test.moved || drifts != test.drifts {
			t.Errorf("%s: moved %v, drifts %v", name, moved, drifts)
		}
	}
}

// Two hand-overs must not be combined if a disturbed round lies between them.
func TestNarrowestOfUndisturbedRounds(t *testing.T) {
	var atA, atB []stamps
	round := func(pause, forth, back uint64, offset int64) {
		sent := uint64(1000)
		if len(atA) > 0 {
			sent = atA[len(atA)-1].received + pause
		}
		b := sent + forth + uint64(offset)
		atA = append(atA, stamps{sent, sent + forth + 10 + back})
		atB = append(atB, stamps{b + 10, b})
	}
	for range 20 {
		round(5, 100, 110, 0)
	}
	round(5, 90, 9000, 0) // core B is moved during this round
	for range 20 {
		round(5, 105, 100, 80)
	}
	round(5000, 200, 200, 0) // core A is moved before this round
	forth, back := narrowestPair(3, 4, atA, atB)
	if forth.From != 3 || forth.To != 4 || back.From != 4 || back.To != 3 {
		t.Fatalf("from %+v and %+v", forth, back)
	}
	if f, b := int64(forth.Received-forth.Sent), int64(back.Received-back.Sent); f != 185 ||
		b != 20 {
		t.Errorf("hand-overs of %d and %d cycles, want 185 and 20, those of one placement", f, b)
	}
	if forth, _ := narrowestPair(3, 4, nil, nil); forth.From != forth.To {
		t.Error("no round proves something")
	}
}

func TestTheBestHandoverProvesMost(t *testing.T) {
	var b bestHandover
	for _, received := range []uint64{900, 300, 500} {
		b.take(0, 1, 100, received)
	}
	if want := (Handover{0, 1, 100, 300}); b.handover != want {
		t.Errorf("best = %+v, want %+v", b.handover, want)
	}
	b.take(0, 1, 500, 20) // the other counter is far behind
	if want := (Handover{0, 1, 500, 20}); b.handover != want {
		t.Errorf("best = %+v, want %+v", b.handover, want)
	}
}

func TestTwoCoresOfThisMachine(t *testing.T) {
	allowed, err := AllowedCores()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		skipOutsideCI(t, "this process may run on core %v alone", allowed)
	}
	s, err := MeasureSlack(SlackOptions{
		Cores: allowed[:2], Quantum_cycles: 50, Budget: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Unmeasured) > 0 {
		t.Fatalf("slack = %+v: two cores could not reach each other in 10 s", s)
	}
	t.Logf("%+v", s)
	after, err := AllowedCores()
	if err != nil || !slices.Equal(after, allowed) {
		t.Errorf("allowed cores were %v, are %v, %v", allowed, after, err)
	}
}

func TestPinningToACoreThatIsNotThere(t *testing.T) {
	ran := false
	if err := OnCore(1023, func() { ran = true }); err == nil || ran {
		t.Errorf("OnCore = %v, ran %v; want an error", err, ran)
	}
	allowed, err := AllowedCores()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := pingPong(allowed[0], 1023, 10, time.Second); err == nil {
		t.Error("a core that is not there answered")
	}
	if _, _, err := pingPong(1023, allowed[0], 10, time.Second); err == nil {
		t.Error("a core that is not there called")
	}
}
