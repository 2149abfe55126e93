package tscratio

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// TestStepIsNamed steps one counter, in either direction, by a little more than four half-widths of
// the bound near the step. Check must name the step within two trains after it, and Relate must
// report the place and the size of the step.
func TestStepIsNamed(t *testing.T) {
	for _, name := range []string{"kernel stamps", "near and steady", "asymmetric", "bursty"} {
		for _, w := range []Wander{100 * PPB, 1 * PPM} {
			t.Run(name+"/"+w.String(), func(t *testing.T) {
				seed.For(t, 6, func(t *testing.T, rng *rand.Rand) {
					x := newWorld(rng, 60, sine, w/2, 10*time.Second, 1, 0)
					x.net = networks[name]
					d := declared(w)
					d.MaxWander = 1000 * PPM
					calm := mustReturn(x.pair(t, d, 6, 0.5).Relate(SideA, w))(t)
					// The step falls between two trains, which are half a second apart.
					at := uint64((20 + float64(rng.IntN(40))/2 + 0.1 + rng.Float64()*0.3) * second)
					half := uint64(0)
					for i := range uint64(50) {
						half = max(half,
							mustReturn(calm.Translate(x.b.count(at-second+i*(second/25))))(
								t).HalfWidth())
					}
					cycles := int64(half)*4 + int64(half)/10
					if rng.IntN(2) == 0 {
						cycles = -cycles
					}
					// If B steps forwards, φ steps back by equally many cycles of A.
					stepped, jump := x.a, float64(cycles)
					if rng.IntN(2) == 0 {
						rate := float64(x.a.node.Nominal_hz) / float64(x.b.node.Nominal_hz)
						cycles = int64(float64(cycles) / rate)
						stepped, jump = x.b, -float64(cycles)*rate
					}
					stepped.steps = []step{{at, cycles}}

					p := mustReturn(NewPair(x.a.node, x.b.node, d))(t)
					trains, named := 0, 0
					for s := 0.5; s < 59; s += 0.5 {
						x.train(t, p, uint64(s*second), 6, StartedByA)
						c := p.Check()
						if uint64(s*second) < at {
							if c != nil {
								t.Fatalf("before the step: %v", c)
							}
							continue
						}
						if trains++; c != nil && named == 0 {
							named = trains
							if c.Fault != Stepped {
								t.Errorf("named as %v", c)
							}
							if float64(c.Jump_cycles.Lo) > jump+2 ||
								float64(c.Jump_cycles.Hi) < jump-2 {
								t.Errorf("%v does not hold the true jump %g", c, jump)
							}
							if from, to := x.b.count(at-1), x.b.count(at); c.At.Lo > from ||
								c.At.Hi < to {
								t.Errorf("%v does not hold the true place %d", c, from)
							}
						}
					}
					// In a burst of delays, one train proves much less than the trains before it,
					// so Check needs more trains.
					within := map[bool]int{false: 2, true: 8}[name == "bursty"]
					if named == 0 || named > within {
						t.Errorf("named at train %d after a step of %d cycles; the half-width is "+
							"%d", named, cycles, half)
					}
					r, err := p.Relate(SideA, w)
					var refuted *RefutedError
					var cs []Contradiction
					switch {
					case errors.As(err, &refuted):
						cs = refuted.Contradictions
					case err != nil:
						t.Fatal(err)
					case r.Verdict != Suspect:
						t.Errorf("consistent in spite of the step")
					default:
						cs = r.Contradictions
					}
					if len(cs) != 1 || cs[0].Fault != Stepped || cs[0].At.Lo > x.b.count(at-1) ||
						cs[0].At.Hi < x.b.count(at) {
						t.Errorf("contradictions %v, want one step at %d", cs, x.b.count(at))
					}

					// The trains before the step, and those after it, form pairs without
					// contradiction.
					before, after := p.Split(x.b.count(at))
					for _, part := range []*Pair{before, after} {
						if r := mustReturn(part.Relate(SideA, w))(t); r.Verdict != Consistent {
							t.Errorf("a part without the step is %v", r.Verdict)
						}
					}
				})
			})
		}
	}
}

func TestResetIsNamed(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		t.Run(side, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 0))
			x := newWorld(rng, 40, still, 0, 10*time.Second, 1, 0)
			x.net = networks["kernel stamps"]
			c := x.a
			if side == "b" {
				c = x.b
			}
			at := uint64(20.25 * second)
			c.steps = []step{{at, -int64(c.count(at) - 12345)}}
			p := mustReturn(NewPair(x.a.node, x.b.node, declared(1*PPM)))(t)
			for s := 0.5; s < 39; s += 0.5 {
				x.train(t, p, uint64(s*second), 6, StartedByA)
				found := p.Check()
				switch {
				case s < 20 && found != nil:
					t.Fatalf("before the reset: %v", found)
				case s == 20.5 && (found == nil || found.Fault != RanBackwards):
					t.Fatalf("after the first train since the reset: %v", found)
				}
			}
			_, err := p.Relate(SideA, 1*PPM)
			var refuted *RefutedError
			if !errors.As(err, &refuted) || !errors.Is(err, ErrWanderAboveMax) ||
				len(refuted.Contradictions) == 0 {
				t.Fatalf("Relate: %v", err)
			}
			if f := refuted.Contradictions[0].Fault; f != RanBackwards {
				t.Errorf("Relate names %v", f)
			}
		})
	}
}

// Wander that looks like a step is not named a step.
func TestWanderIsNotAStep(t *testing.T) {
	seed.For(t, 5, func(t *testing.T, rng *rand.Rand) {
		x := newWorld(rng, 60, sine, 20*PPM, 10*time.Second, 1, 0)
		x.net = networks["near and steady"]
		d := declared(1 * PPM)
		d.MaxWander = 1000 * PPM
		r := mustReturn(x.pair(t, d, 6, 0.5).Relate(SideA, 1*PPM))(t)
		if r.Verdict != Suspect || len(r.Contradictions) == 0 {
			t.Fatalf("%v, w_min %v, %d contradictions", r.Verdict, r.Least, len(r.Contradictions))
		}
		for _, c := range r.Contradictions {
			if c.Fault != RateMoved {
				t.Errorf("%v", c)
			}
		}
	})
}
