package oscillator

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// world has a counter of 2 GHz, and clocks that count true nanoseconds. The counter's rate wanders
// as a sine with the given amplitude and a period of 20 s.
type world struct {
	now       float64 // in ns
	amplitude float64
	looks     int
}

const period_ns = 20e9

func (w *world) counter() uint64 {
	w.looks++
	w.now += 20 + float64(w.looks*w.looks%47) // reading takes 20 ns or more
	k := 2 * math.Pi / period_ns
	return 1e12 + uint64(2*(w.now+w.amplitude/k*(1-math.Cos(k*w.now))))
}

func (w *world) clock() (int64, error) {
	w.now += 30
	return 1e18 + int64(w.now), nil
}

func (w *world) options() Options {
	return Options{
		Open: w.counter, Close: w.counter, Wait: func(d time.Duration) { w.now += float64(d) },
		Hz: 2e9, Quantum: 2, Window: 10 * time.Second, Span: 60 * time.Second,
		Every: 200 * time.Millisecond,
	}
}

func TestWanderIsRefutedAsFarAsItGoes(t *testing.T) {
	for _, amplitude := range []float64{0, 1e-9, 50e-9, 1e-6, 20e-6} {
		w := &world{amplitude: amplitude}
		c := Clock{Name: "clock", Kind: Independent, Read: w.clock, Step_ns: 1}
		results, err := Measure(t.Context(), w.options(), []Clock{c}, nil)
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results[0].Err)
		}
		r := results[0]
		truth := tscratio.Wander(amplitude * 1e12)
		if r.Refuted > truth+tscratio.PPT || truth > 10*r.Unseen && r.Refuted < truth/5 {
			t.Errorf("true wander %v: refuted below %v, unseen %v", truth, r.Refuted, r.Unseen)
		}
		if truth > r.Unseen && r.Refuted == 0 {
			t.Errorf("a wander of %v was not seen, and %v should have been", truth, r.Unseen)
		}
		if r.Looks != 301 || r.Bracket_ns < 40 || r.Bracket_ns > 120 {
			t.Errorf("%d looks of %v ns", r.Looks, r.Bracket_ns)
		}
		if advice, justified := Advice(results); !justified ||
			advice < 2*truth && truth > r.Unseen {
			t.Errorf("true wander %v: advice %v, %v", truth, advice, justified)
		}
	}
}

func TestClocksThatShowNothingJustifyNothing(t *testing.T) {
	w := &world{amplitude: 1e-6}
	same := Clock{Name: "same", Kind: Same, Step_ns: 1,
		Read: func() (int64, error) { return int64(w.counter() / 2), nil }}
	steered := Clock{Name: "steered", Kind: Steered, Step_ns: 1, Read: w.clock}
	broken := Clock{Name: "broken", Kind: Independent, Step_ns: 1,
		Read: func() (int64, error) { return 0, errors.New("gone") }}
	results, err := Measure(t.Context(), w.options(), []Clock{same, steered, broken}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Refuted != 0 || results[1].Refuted == 0 || results[2].Err == nil {
		t.Errorf("%+v", results)
	}
	if w, justified := Advice(results); justified || w != tscratio.PPM {
		t.Errorf("advice %v, %v", w, justified)
	}
}

func TestMeasureEndsAndRefuses(t *testing.T) {
	w := &world{}
	o := w.options()
	o.Span = o.Window
	if _, err := Measure(t.Context(), o, nil, nil); err == nil {
		t.Error("one window is taken for enough")
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	_, err := Measure(ctx, w.options(), []Clock{{Name: "c", Read: w.clock, Step_ns: 1}},
		func(int, int) {
			if looks++; looks == 3 {
				cancel()
			}
		})
	if !errors.Is(err, context.Canceled) || looks != 3 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

func TestClocksOfThisMachine(t *testing.T) {
	clocks, left := Clocks()
	if len(clocks) == 0 || clocks[0].Name != "CLOCK_MONOTONIC_RAW" {
		t.Fatalf("%+v, left out %v", clocks, left)
	}
	for _, c := range clocks {
		before, err := c.Read()
		if err != nil || before <= 0 || c.Why == "" || c.Step_ns == 0 {
			t.Errorf("%+v reads %d, %v", c, before, err)
		}
		if c.Close != nil {
			c.Close()
		}
	}
}

func TestAdviceIsRoundedUp(t *testing.T) {
	for w, want := range map[tscratio.Wander]tscratio.Wander{1: 1, 3: 5, 6: 10, 100_000: 100_000,
		100_001: 200_000, 21 * tscratio.PPM: 50 * tscratio.PPM} {
		if got := roundUp(w); got != want {
			t.Errorf("%v is rounded to %v, want %v", w, got, want)
		}
	}
}
