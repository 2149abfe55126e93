package tscratio

import (
	"errors"
	"math/big"
	"testing"
)

// The expected results of these two anchors were computed by hand. Node A starts the exchanges.
var (
	vectorBefore = Exchange{Sent: At(1_000_000), Received: At(50_000_000), Answered: At(50_000_000),
		Returned: At(1_200_000)}
	vectorAfter = Exchange{Sent: At(201_000_000), Received: At(250_020_000),
		Answered: At(250_020_000), Returned: At(201_160_000)}
)

func vectorRelation(t *testing.T) PaperRelation {
	t.Helper()
	worse := vectorBefore
	worse.Sent.Lo--
	p, err := PaperRelate([]Exchange{worse, vectorBefore}, []Exchange{vectorAfter})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantRat(t *testing.T, what string, got *big.Rat, num, den int64) {
	t.Helper()
	if want := big.NewRat(num, den); got.Cmp(want) != 0 {
		t.Errorf("%s = %s (%s), want %s (%s)",
			what, got, got.FloatString(6), want, want.FloatString(6))
	}
}

func wantDecimal(t *testing.T, what string, got *big.Rat, digits int, want string) {
	t.Helper()
	if s := got.FloatString(digits); s != want {
		t.Errorf("%s = %s, want %s", what, s, want)
	}
}

func TestPaperVector(t *testing.T) {
	p := vectorRelation(t)
	wantRat(t, "ratio", p.Ratio(), 199_980_000, 200_020_000)
	wantDecimal(t, "ratio", p.Ratio(), 8, "0.99980002")
	wantRat(t, "e", p.E(), 100_000, 1)
	wantRat(t, "first anchor", p.mid(p.j), 1_100_000, 1)
	wantRat(t, "first anchor's half-width", p.halfGap(p.j), 100_000, 1)
	wantRat(t, "second anchor", p.mid(p.m), 201_080_000, 1)
	wantRat(t, "second anchor's half-width", p.halfGap(p.m), 80_000, 1)

	v, err := p.Value(100_000_000)
	if err != nil {
		t.Fatal(err)
	}
	wantDecimal(t, "translation", v.Centre, 2, "51090001.00")
	wantRat(t, "its bound", v.Paper, 100_000, 1)
	wantDecimal(t, "its tight bound", v.Tight, 1, "95000.5")
	if got, want := mustReturn(v.Interval())(t), (Interval{50_990_000, 51_190_001}); got != want {
		t.Errorf("translation = %v, want %v", got, want)
	}
	if got, want := mustReturn(v.TightInterval())(t),
		(Interval{50_995_000, 51_185_002}); got != want {
		t.Errorf("tight translation = %v, want %v", got, want)
	}
	within := Interval{50_990_000, 51_190_001}
	if got, want := mustReturn(p.Translate(100_000_000))(t), within; got != want {
		t.Errorf("Translate = %v, want %v", got, want)
	}

	s1 := p.SameNode(100_000_000, 101_000_000)
	wantDecimal(t, "scenario 1", s1.Centre, 2, "999800.02")
	wantDecimal(t, "scenario 1's bound", s1.Paper, 2, "999.90")
	wantDecimal(t, "scenario 1's tight bound", s1.Tight, 2, "899.91")
	back := p.SameNode(101_000_000, 100_000_000)
	wantDecimal(t, "scenario 1 backwards", back.Centre, 2, "-999800.02")
	wantDecimal(t, "scenario 1's bound backwards", back.Paper, 2, "999.90")

	s2 := mustReturn(p.FromReference(51_000_000, 100_000_000))(t)
	wantDecimal(t, "scenario 2", s2.Centre, 2, "90001.00")
	wantRat(t, "scenario 2's bound", s2.Paper, 100_000, 1)
}

// mustReturn returns a function. That function returns v, or ends the test if err is not nil. Call
// it in the form mustReturn(f())(t).
func mustReturn[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestPaperDirectVector(t *testing.T) {
	// C runs exactly as B does and has the same e. So a reading of C is also a reading of B.
	same := func(b uint64) Exchange {
		return Exchange{Sent: At(b - 100_000), Received: At(b), Answered: At(b),
			Returned: At(b + 100_000)}
	}
	cb := mustReturn(PaperRelate([]Exchange{same(50_000_000)}, []Exchange{same(250_000_000)}))(t)
	ba := vectorRelation(t)

	v := mustReturn(PaperDirect(ba, cb, 100_000_000, 101_000_000))(t)
	wantDecimal(t, "scenario 3", v.Centre, 2, "999800.02")
	wantDecimal(t, "scenario 3's bound", v.Paper, 1, "100979.9")
	if v.Paper.Cmp(ba.E()) <= 0 {
		t.Errorf("scenario 3's bound %s is not above e: the digest's counterexample is gone",
			v.Paper.FloatString(1))
	}
	// The tight bound of PaperDirect is r·e + (d + e)·(δj + δm)/D. Here r is the ratio of ba, d is
	// the duration and e is its error. δj and δm are the half-widths of ba's two anchors, and D is
	// the distance between the anchors. With the numbers of this test, the bound is 99980.002 +
	// 1.1e6·180000/200.02e6.
	wantDecimal(t, "scenario 3's tight bound", v.Tight, 1, "100969.9")

	b := mustReturn(PaperBaseline(ba, ba, 100_000_000, 101_000_000))(t)
	wantDecimal(t, "baseline", b.Centre, 2, "999800.02")
	wantRat(t, "baseline's bound", b.Paper, 200_000, 1)
}

func TestPaperRefusesToExtrapolate(t *testing.T) {
	p := vectorRelation(t)
	for _, y := range []uint64{0, 49_999_999, 250_020_001} {
		if _, err := p.Translate(y); !errors.Is(err, ErrExtrapolated) {
			t.Errorf("Translate(%d) error = %v, want ErrExtrapolated", y, err)
		}
		if _, err := p.FromReference(0, y); !errors.Is(err, ErrExtrapolated) {
			t.Errorf("FromReference(0, %d) error = %v, want ErrExtrapolated", y, err)
		}
	}
	// y is as far after the second anchor as the two anchors are apart. So λ is 2, and the bound is
	// 3e.
	y := uint64(250_020_000 + 200_020_000)
	grown := Interval{401_060_000 - 300_000, 401_060_000 + 300_000}
	if got, want := mustReturn(p.TranslateGrown(y))(t), grown; got != want {
		t.Errorf("TranslateGrown(%d) = %v, want %v", y, got, want)
	}
	want := mustReturn(p.Translate(100_000_000))(t)
	if got := mustReturn(p.TranslateGrown(100_000_000))(t); got != want {
		t.Errorf("TranslateGrown between the anchors = %v, want %v", got, want)
	}
}

// With wander, the bound is e at the anchors, and grows with the distance from the nearer anchor.
func TestPaperWanderedBound(t *testing.T) {
	p := vectorRelation(t)
	for _, c := range []struct {
		y    uint64
		want string
	}{
		{50_000_000, "100000.00000"},
		{100_000_000, "100050.03500"}, // 5e7·1e-6·(199.98e6 + 0.18e6)/200.02e6
		{200_020_000, "100050.03500"},
		{150_010_000, "100100.08000"}, // half-way, where it is largest
	} {
		wantDecimal(t, "wandered bound", mustReturn(p.WanderedBound(c.y, PPM))(t), 5, c.want)
		if b := mustReturn(p.WanderedBound(c.y, 0))(t); b.Cmp(p.E()) != 0 {
			t.Errorf("without wander the bound at %d is %s, want e", c.y, b.FloatString(3))
		}
	}
	if _, err := p.WanderedBound(49_999_999, PPM); !errors.Is(err, ErrExtrapolated) {
		t.Errorf("before the first anchor: error %v, want ErrExtrapolated", err)
	}
}

func TestPaperRelateRefuses(t *testing.T) {
	backwards := vectorBefore
	backwards.Returned = At(999_999)
	for _, tc := range []struct {
		name          string
		before, after []Exchange
		is            error
	}{
		{"nothing before", nil, []Exchange{vectorAfter}, nil},
		{"nothing after", []Exchange{vectorBefore}, nil, nil},
		{"the same anchor twice", []Exchange{vectorBefore}, []Exchange{vectorBefore}, nil},
		{"anchors swapped", []Exchange{vectorAfter}, []Exchange{vectorBefore}, nil},
		{"returned before sent", []Exchange{backwards}, []Exchange{vectorAfter}, ErrImpossible},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := PaperRelate(tc.before, tc.after)
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error = %v, want %v", err, tc.is)
			}
		})
	}
}

func TestPaperKeepsLargeCounters(t *testing.T) {
	// A float64 has 53 bits: at 2⁶² it would round to multiples of 1024 cycles.
	const far = 1 << 62
	shift := func(e Exchange) Exchange {
		e.Sent, e.Returned = At(e.Sent.Lo+far), At(e.Returned.Lo+far)
		e.Received, e.Answered = At(e.Received.Lo+far+1), At(e.Answered.Lo+far+1)
		return e
	}
	p := mustReturn(PaperRelate([]Exchange{shift(vectorBefore)}, []Exchange{shift(vectorAfter)}))(t)
	want := Interval{far + 50_990_000, far + 51_190_001}
	if got := mustReturn(p.Translate(far + 1 + 100_000_000))(t); got != want {
		t.Errorf("Translate = %v, want %v", got, want)
	}
}
