package clock

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Causality is kept, even if clocks differ by more than epsilon. The stamps are those of the second
// implementation (dense).
func TestCausalityIsKept(t *testing.T) {
	rng := seed.Random(t)
	runs := 20_000
	if proof.WantsFull() {
		runs = 1_000_000
	} else if seed.Race {
		runs /= 10
	}
	for range runs {
		n, epsilon := 2+rng.IntN(3), 1+rng.Int64N(12)
		skew := rng.Int64N(epsilon + 1)
		if rng.IntN(4) == 0 {
			skew = 4 * epsilon // the bound is broken: causality must still be kept
		}
		all := randomRun(rng, n, 4+rng.IntN(9), skew, Uniform(epsilon), false)
		checkRun(t, rng, all, n, epsilon, skew)
	}
}

func checkRun(t *testing.T, rng *rand.Rand, all []randomEvent, n int, epsilon, skew int64) {
	t.Helper()
	u := Uniform(epsilon)
	for i := range all {
		f := &all[i]
		if got := denseOf(&f.stamp, n, epsilon); got.String() != f.dense.String() {
			t.Fatalf("event %d: stamp %v, by the dense algorithm %v", i, got, f.dense)
		}
		greatest := f.stamp.Max - epsilon
		for _, k := range f.stamp.held {
			greatest = max(greatest, k.Epoch)
		}
		if greatest != f.stamp.Max {
			t.Fatalf("event %d: Max is %d, and the greatest known epoch %d", i, f.stamp.Max,
				greatest)
		}
		for j := range all {
			e := &all[j]
			got := Compare(&e.stamp, &f.stamp, u)
			if back := Compare(&f.stamp, &e.stamp, u); got != back && got != -back {
				t.Fatalf("events %d and %d are %d, and from the other side %d", j, i, got, back)
			}
			if e.causes(f) && got != Before {
				t.Fatalf("event %d causes event %d, and is compared as %d:\n%v\n%v", j, i, got,
					e.dense, f.dense)
			}
			if want := e.dense.before(f.dense, epsilon); want != (got == Before) {
				t.Fatalf("events %d and %d are %d, and before is %v by the dense algorithm:\n"+
					"%v\n%v", j, i, got, want, e.dense, f.dense)
			}
			if f.stamp.Max-e.stamp.Max > epsilon && got != Before {
				t.Fatalf("event %d is more than epsilon before event %d, and is compared as %d", j,
					i, got)
			}
		}
	}
	for range 20 { // a partial order
		a, b, c := &all[rng.IntN(len(all))], &all[rng.IntN(len(all))], &all[rng.IntN(len(all))]
		if Compare(&a.stamp, &b.stamp, u) == Before && Compare(&b.stamp, &c.stamp, u) == Before &&
			Compare(&a.stamp, &c.stamp, u) != Before {
			t.Fatalf("being before is not transitive: %v, %v, %v", a.dense, b.dense, c.dense)
		}
	}
}

// Each process may have an epsilon of its own, and epsilons may change at an epoch. Even so,
// causality is kept, and events that are further apart than the epsilons are ordered by time.
func TestEpsilonsOfProcessesAndWindows(t *testing.T) {
	rng := seed.Random(t)
	for range 5_000 {
		n := 2 + rng.IntN(3)
		var e Epsilons
		from := int64(0)
		for range 1 + rng.IntN(4) {
			of := make([]int64, n)
			for k := range of {
				of[k] = 1 + rng.Int64N(20)
			}
			e.Add(from, of)
			from = max(from, 990) + 1 + rng.Int64N(30)
		}
		clocks, vectors := make([]*Clock, n), make([][]int, n)
		for p := range n {
			clocks[p], vectors[p] = New(p, &e), make([]int, n)
		}
		var all []randomEvent
		now := int64(1000)
		for i := range 12 {
			now += rng.Int64N(10)
			p := rng.IntN(n)
			f := randomEvent{process: p, epoch: now}
			vectors[p][p]++
			if i > 0 && rng.IntN(2) == 0 {
				m := &all[rng.IntN(i)]
				clocks[p].Receive(now, &m.stamp)
				for k := range n {
					vectors[p][k] = max(vectors[p][k], m.vector[k])
				}
			} else {
				clocks[p].Local(now)
			}
			f.stamp.Copy(clocks[p].Stamp())
			f.vector = slices.Clone(vectors[p])
			all = append(all, f)
		}
		for i := range all {
			for j := range all {
				a, b := &all[j], &all[i]
				got := Compare(&a.stamp, &b.stamp, &e)
				if a.causes(b) && got != Before {
					t.Fatalf("event %d causes event %d, and is compared as %d", j, i, got)
				}
				if b.epoch-a.epoch > 20 && got != Before {
					t.Fatalf("epochs %d and %d are further apart than any epsilon, and compared "+
						"as %d", a.epoch, b.epoch, got)
				}
				if i != j && a.causes(b) && !b.stamp.Knows(uint32(a.process), a.epoch, &e) {
					t.Fatalf("event %d causes event %d, which does not know it", j, i)
				}
			}
		}
	}
}

// A stamp may have no offsets of processes, but only the greatest epoch that its process knows. Two
// such stamps are ordered by these epochs.
func TestStampsThatHoldNothing(t *testing.T) {
	e := Uniform(5)
	if got := Compare(&Stamp{Max: 9}, &Stamp{Max: 10}, e); got != Before {
		t.Errorf("9 and 10 are %d", got)
	}
	if got := Compare(&Stamp{Max: 9}, &Stamp{Max: 9}, e); got != Concurrent {
		t.Errorf("9 and 9 are %d", got)
	}
}

// If a receiver's clock is more than epsilon behind the sender's, Receive returns false and Broken
// counts the event.
func TestBrokenBoundIsCounted(t *testing.T) {
	e := Uniform(10)
	a, b := New(0, e), New(1, e)
	a.Send(100)
	if !b.Receive(90, a.Stamp()) || b.Broken() != 0 {
		t.Error("10 epochs behind, and the bound is called broken")
	}
	a.Send(105)
	if b.Receive(94, a.Stamp()) || b.Broken() != 1 {
		t.Error("11 epochs behind, and the bound is not called broken")
	}
	b.Local(94)
	if b.Broken() != 2 {
		t.Error("11 epochs behind what is known, and the bound is not called broken")
	}
}

// This is the trace of 13 events that the thesis prints (see the package comment). The program of
// the thesis counts events differently than this package: see Clock.counted.
func TestTraceOfTheThesis(t *testing.T) {
	const absent = -1
	type row struct {
		process int // the thesis numbers processes from 1
		epoch   int64
		message string // "s4": sends message 4, "r4": receives it
		offsets [5]int64
		counter uint64
	}
	x := int64(absent)
	rows := []row{
		{3, 21, "s1", [5]int64{x, x, 0, x, x}, 0},
		{1, 42, "s2", [5]int64{0, x, x, x, x}, 0},
		{4, 44, "s3", [5]int64{x, x, x, 0, x}, 0},
		{2, 55, "s4", [5]int64{x, 0, x, x, x}, 0},
		{3, 55, "r4", [5]int64{x, 0, 0, x, x}, 1},
		{1, 57, "s5", [5]int64{0, x, x, x, x}, 0},
		{3, 59, "s6", [5]int64{x, 4, 0, x, x}, 0},
		{5, 61, "s7", [5]int64{x, x, x, x, 0}, 0},
		{1, 61, "r7", [5]int64{0, x, x, x, 0}, 0},
		{1, 61, "s8", [5]int64{0, x, x, x, 0}, 1},
		{2, 62, "s9", [5]int64{x, 0, x, x, x}, 0},
		{5, 62, "s10", [5]int64{x, x, x, x, 0}, 0},
		{2, 62, "r2", [5]int64{x, 0, x, x, x}, 1},
	}
	e := Uniform(15)
	clocks := map[int]*Clock{}
	sent := map[string]*Stamp{}
	for p := 1; p <= 5; p++ {
		clocks[p] = New(p-1, e)
		clocks[p].counted = true
	}
	for i, r := range rows {
		c := clocks[r.process]
		if r.message[0] == 's' {
			c.Send(r.epoch)
			s := &Stamp{}
			s.Copy(c.Stamp())
			sent[r.message[1:]] = s
		} else {
			c.Receive(r.epoch, sent[r.message[1:]])
		}
		got := row{r.process, c.Stamp().Max, r.message, [5]int64{x, x, x, x, x}, 0}
		for _, k := range c.Stamp().Held() {
			if k.Epoch > e.Floor(int(k.Process), c.Stamp().Max) {
				got.offsets[k.Process] = c.Stamp().Max - k.Epoch
			}
			got.counter += k.Counter
		}
		if got != r {
			t.Errorf("row %d: %+v, the thesis has %+v", i+1, got, r)
		}
	}
}

// These are figures 3.1 and 4.2 of the thesis: four events of three processes, and the orders in
// which a replay may take them.
func TestFiguresOfTheThesis(t *testing.T) {
	for epsilon, want := range map[int64][]string{5: {"CABD"}, 20: {"ABCD", "ACBD", "CABD"}} {
		e := Uniform(epsilon)
		p1, p2, p3 := New(0, e), New(1, e), New(2, e)
		stamps := map[byte]*Stamp{}
		keep := func(name byte, c *Clock) {
			stamps[name] = &Stamp{}
			stamps[name].Copy(c.Stamp())
		}
		p1.Send(50)
		keep('A', p1)
		p2.Receive(48, stamps['A'])
		keep('B', p2)
		p3.Send(40)
		keep('C', p3)
		p2.Receive(52, stamps['C'])
		keep('D', p2)
		third := min(epsilon, 12)
		for name, offsets := range map[byte][]int64{
			'B': {0, 2, epsilon}, 'D': {2, 0, third},
		} {
			if got := denseOf(stamps[name], 3, epsilon); !slices.Equal(got.offset, offsets) {
				t.Errorf("epsilon %d: the offsets of %c are %v, want %v", epsilon, name, got.offset,
					offsets)
			}
		}
		var orders []string
		var extend func(done string)
		extend = func(done string) {
			if len(done) == 4 {
				orders = append(orders, done)
			}
		next:
			for _, x := range []byte("ABCD") {
				for _, y := range []byte("ABCD") {
					taken := slices.Contains([]byte(done), y)
					if x == y && taken ||
						!taken && Compare(stamps[y], stamps[x], e) == Before {
						continue next
					}
				}
				extend(done + string(x))
			}
		}
		extend("")
		if !slices.Equal(orders, want) {
			t.Errorf("epsilon %d: orders %v, want %v", epsilon, orders, want)
		}
	}
}
