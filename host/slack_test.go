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

// A package of cores whose counters have known offsets and move in steps.
type cores struct {
	r       *rand.Rand
	offset  map[int]int64
	quantum uint64
	ideal   uint64
	phase   map[int]uint64
}

func newCores(r *rand.Rand, n int, spread int64, quantum uint64) *cores {
	c := &cores{r: r, offset: map[int]int64{}, quantum: quantum, ideal: 1 << 60, phase: map[int]uint64{}}
	for core := range n {
		c.offset[core] = r.Int64N(2*spread+1) - spread
		c.phase[core] = r.Uint64N(quantum)
	}
	return c
}

// read shows the last full step; the steps of two cores need not fall together.
func (c *cores) read(core int) uint64 {
	v := c.ideal + uint64(c.offset[core])
	return v - (v+c.phase[core])%c.quantum
}

func (c *cores) pass(from, to int) Handover {
	h := Handover{From: from, To: to, Sent: c.read(from)}
	c.ideal += 60 + uint64(c.r.ExpFloat64()*200)
	h.Received = c.read(to)
	return h
}

func (c *cores) allNumbers() []int {
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
		o := NewOffsets(c.allNumbers(), c.quantum)
		for range 1 + r.IntN(200) {
			from := r.IntN(n)
			to := (from + 1 + r.IntN(n-1)) % n
			if err := o.Add(c.pass(from, to)); err != nil {
				t.Fatalf("true hand-over refused: %v", err)
			}
		}
		slack, _, unknown := o.Slack()
		for a := range n {
			for b := range n {
				truth := c.offset[b] - c.offset[a]
				between, bounded := o.Between(a, b)
				if !between.Contains(truth) {
					t.Fatalf("cores %d, %d: true offset %d outside %v", a, b, truth, between)
				}
				known := !slices.Contains(unknown, a) && !slices.Contains(unknown, b)
				if known && (!bounded || magnitude(truth) > slack) {
					t.Fatalf("cores %d, %d: true offset %d, slack %d", a, b, truth, slack)
				}
			}
		}
	}
}

// The matrix is updated one hand-over at a time; the shortest paths over all of them must come out.
func TestOffsetsAreTheShortestPaths(t *testing.T) {
	r := seed.Random(t)
	for range 200 {
		n := 2 + r.IntN(6)
		c := newCores(r, n, 1000, 1+r.Uint64N(30))
		o := NewOffsets(c.allNumbers(), c.quantum)
		want := make([][]int64, n)
		for i := range want {
			want[i] = make([]int64, n)
			for j := range want[i] {
				if i != j {
					want[i][j] = math.MaxInt64 / 4
				}
			}
		}
		for range r.IntN(4 * n) {
			from := r.IntN(n)
			to := (from + 1 + r.IntN(n-1)) % n
			h := c.pass(from, to)
			if err := o.Add(h); err != nil {
				t.Fatal(err)
			}
			want[from][to] = min(want[from][to], int64(h.Received-h.Sent)+int64(c.quantum))
		}
		for k := range n {
			for i := range n {
				for j := range n {
					want[i][j] = min(want[i][j], want[i][k]+want[k][j])
				}
			}
		}
		for i := range n {
			for j := range n {
				got, _ := o.Between(i, j)
				known := want[i][j] < math.MaxInt64/8
				if known && got.Hi_cycles != want[i][j] || !known && got.Hi_cycles != math.MaxInt64 {
					t.Fatalf("cores %d, %d: upper bound %d, want %d", i, j, got.Hi_cycles, want[i][j])
				}
			}
		}
	}
}

func TestIntervalsOfGivenHandovers(t *testing.T) {
	o := NewOffsets([]int{3, 1, 7}, 10)
	add := func(from, to int, sent, received uint64) {
		t.Helper()
		if err := o.Add(Handover{from, to, sent, received}); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 3, 1000, 1200) // o(1,3) ≤ 200 + 10
	if _, ok := o.Between(1, 3); ok {
		t.Error("one direction bounded both sides")
	}
	add(3, 1, 2000, 2150) // o(3,1) ≤ 150 + 10
	add(3, 7, 1<<63, 1<<63+300)
	add(7, 3, math.MaxUint64-50, 49) // over the end of the counter: 100
	for _, test := range []struct {
		a, b int
		want Cycles
	}{{1, 3, Cycles{-160, 210}}, {3, 1, Cycles{-210, 160}}, {3, 7, Cycles{-110, 310}}, {1, 7, Cycles{-270, 520}}, {7, 1, Cycles{-520, 270}}} {
		if got, ok := o.Between(test.a, test.b); !ok || got != test.want {
			t.Errorf("Between(%d, %d) = %v, %v; want %v", test.a, test.b, got, ok, test.want)
		}
	}
	if slack, worst, unknown := o.Slack(); slack != 520 || worst != [2]int{1, 7} || unknown != nil {
		t.Errorf("Slack() = %d, %v, %v; want 520 between 1 and 7", slack, worst, unknown)
	}
	if err := o.Add(Handover{1, 9, 1, 2}); err == nil {
		t.Error("a core from elsewhere was accepted")
	}
	if err := o.Add(Handover{1, 1, 1, 2}); err == nil {
		t.Error("a hand-over from a core to itself was accepted")
	}
	if _, ok := o.Between(1, 9); ok {
		t.Error("a core from elsewhere is bounded")
	}
}

func TestHandoversThatContradictEachOther(t *testing.T) {
	o := NewOffsets([]int{0, 1}, 5)
	if err := o.Add(Handover{0, 1, 1000, 1100}); err != nil {
		t.Fatal(err)
	}
	// Received 111 cycles before it was sent, so the offset is at least 111 - 5; it must be at most 105.
	if err := o.Add(Handover{1, 0, 5000, 4890}); err != nil {
		t.Fatalf("offsets of exactly 105 are possible: %v", err)
	}
	err := o.Add(Handover{1, 0, 5000, 4889})
	if !errors.Is(err, ErrCoresDisagree) {
		t.Fatalf("Add = %v, want ErrCoresDisagree", err)
	}
	if between, _ := o.Between(0, 1); !between.Empty() {
		t.Errorf("Between = %v, want empty", between)
	}
}

func TestSumsOfBoundsGoOutward(t *testing.T) {
	big := int64(math.MaxInt64)
	for _, test := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {-5, 2, -3}, {big, -100, big}, {-100, big, big}, {big - 1, 2, big}, {math.MinInt64, -1, math.MinInt64}, {-big, -big, math.MinInt64},
	} {
		if got := addOutward(test.a, test.b); got != test.want {
			t.Errorf("addOutward(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// A laboratory is cores and a clock that only moves with the exchanges.
func (c *cores) laboratory(dead ...int) (SlackOptions, *time.Time) {
	now := time.Unix(0, 0)
	return SlackOptions{
		Cores: c.allNumbers(), Quantum_cycles: c.quantum, Budget: time.Second, Now: func() time.Time { return now },
		Exchange: func(a, b, rounds int, patience time.Duration) (forth, back Handover, err error) {
			if slices.Contains(dead, a) || slices.Contains(dead, b) {
				now = now.Add(patience)
				return Handover{}, Handover{}, nil
			}
			now = now.Add(time.Millisecond)
			return c.pass(a, b), c.pass(b, a), nil
		},
	}, &now
}

func TestMeasuredSlackHoldsAndEnds(t *testing.T) {
	r := seed.Random(t)
	for _, n := range []int{2, 3, 8, 64} {
		c := newCores(r, n, 500, 26)
		options, now := c.laboratory()
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
		if truth := uint64(high - low); s.Slack_cycles < truth || s.Slack_cycles > truth+2*(60+200+2*26) {
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
	options, now := c.laboratory(2)
	s, err := MeasureSlack(options)
	if err != nil || !slices.Equal(s.Unmeasured, []int{2}) || !slices.Equal(s.Cores, []int{0, 1, 3}) {
		t.Fatalf("slack = %+v, %v; want core 2 unmeasured", s, err)
	}
	if spent := now.Sub(time.Unix(0, 0)); spent > mostBudgets*options.Budget+time.Millisecond {
		t.Errorf("a dead core took %v", spent)
	}
	if f := s.finding(Facts{}, nil); f.Verdict != Unknown || s.Known() || !strings.Contains(f.Detail, "nothing is known: 2;") {
		t.Errorf("finding = %+v, known %v; want that core 2 is not known", f, s.Known())
	}
	if f := s.finding(Facts{Cores: Cores{Online: make([]int, 16)}}, nil); f.Verdict != Unknown {
		t.Errorf("finding = %+v, want unknown", f)
	}

	full := Slack{Slack_cycles: 10, Cores: []int{0, 1}}
	if f := full.finding(Facts{Cores: Cores{Online: make([]int, 16)}}, nil); f.Verdict != Warning || !strings.Contains(f.Detail, "14 more cores") {
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

// On a busy machine no hand-over may complete within the budget, or only such during which an end did not run for long. Neither is an answer.
func TestSlackOfABusyMachine(t *testing.T) {
	for name, early := range map[string]func(*cores) (forth, back Handover){
		"nothing completes": func(*cores) (forth, back Handover) { return },
		"ends are late": func(c *cores) (forth, back Handover) {
			forth, back = c.pass(0, 1), c.pass(1, 0)
			forth.Received += 25_000_000
			return forth, back
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCores(seed.Random(t), 2, 100, 1)
			options, now := c.laboratory()
			quiet := options.Exchange
			begin := *now
			options.Exchange = func(a, b, rounds int, patience time.Duration) (forth, back Handover, err error) {
				if now.Sub(begin) < 3*options.Budget {
					*now = now.Add(max(patience, time.Millisecond))
					forth, back = early(c)
					return forth, back, nil
				}
				return quiet(a, b, rounds, patience)
			}
			s, err := MeasureSlack(options)
			if err != nil || !s.Known() || s.Handovers == 0 || now.Sub(begin) > 4*options.Budget {
				t.Errorf("slack = %+v, known %v, after %v, %v; want it known soon after 3 budgets", s, s.Known(), now.Sub(begin), err)
			}

			options.Exchange = func(a, b, rounds int, patience time.Duration) (forth, back Handover, err error) {
				*now = now.Add(max(patience, time.Millisecond))
				forth, back = early(c)
				return forth, back, nil
			}
			begin = *now
			s, err = MeasureSlack(options)
			if f := s.finding(Facts{}, err); err != nil || s.Known() || f.Verdict != Unknown || f.Remedy == "" {
				t.Errorf("a machine that stays busy: slack = %+v, finding %+v, %v; want unknown, with a remedy", s, f, err)
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
	c.offset[2] = 100_000 // the pair of cores 0 and 2 stays the worst known, and core 1 must be looked at nevertheless
	options, _ := c.laboratory()
	honest := options.Exchange
	options.Exchange = func(a, b, rounds int, patience time.Duration) (forth, back Handover, err error) {
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
	options.Exchange = func(a, b, rounds int, patience time.Duration) (forth, back Handover, err error) {
		return Handover{}, Handover{}, errors.New("not permitted")
	}
	s, err = MeasureSlack(options)
	if f := s.finding(Facts{}, err); err == nil || f.Verdict != Unknown {
		t.Errorf("finding = %+v, %v; want unknown", f, err)
	}
}

func TestTheBestHandoverProvesMost(t *testing.T) {
	var b best
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
	s, err := MeasureSlack(SlackOptions{Cores: allowed[:2], Quantum_cycles: 50, Budget: 10 * time.Second})
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
