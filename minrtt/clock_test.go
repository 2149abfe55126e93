package minrtt

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

func TestWander(t *testing.T) {
	steady := Discipline{Frequency_ppm16: -3 << 16, Tick_us: 10_000, TimeConstant: 2}
	with := func(change func(*Discipline)) Discipline {
		d := steady
		change(&d)
		return d
	}
	const second = int64(1_000_000_000)
	const calm = 1_800_000_000*second + second/2 // far from where a second begins
	for _, tc := range []struct {
		name          string
		before, after Discipline
		opening_ns    int64
		length        time.Duration
		want          uint32
	}{
		{"nothing steers", steady, steady, calm, time.Millisecond, 1000},
		{"frequency changed", steady, with(func(d *Discipline) { d.Frequency_ppm16++ }), calm,
			time.Millisecond, anything_ppb},
		{"tick changed", steady, with(func(d *Discipline) { d.Tick_us-- }), calm, time.Millisecond,
			anything_ppb},
		{"slewed by tick, steadily", with(func(d *Discipline) { d.Tick_us = 9167 }),
			with(func(d *Discipline) { d.Tick_us = 9167 }), calm, time.Millisecond, 1000},
		{"pulses begin", steady, with(func(d *Discipline) { d.PulsePerSecond = true }), calm,
			time.Millisecond, anything_ppb},
		{"pulses end", with(func(d *Discipline) { d.PulsePerSecond = true }), steady, calm,
			time.Millisecond, anything_ppb},
		// An offset of 1 ms remains. In each second the kernel's loop corrects 1/16 of it, which is
		// 62.5 ppm. The bound is twice that, and 1/1024 of the offset in addition, because the loop
		// may be frequency-locked.
		{"loop at work", with(func(d *Discipline) { d.Offset_ns = 1_000_000 }), steady, calm,
			time.Millisecond, 1000 + 125_000 + 1 + 977},
		{"loop at work, the other way", steady,
			with(func(d *Discipline) { d.Offset_ns = -1_000_000 }), calm, time.Millisecond,
			1000 + 125_000 + 1 + 977},
		{"faster loop", with(func(d *Discipline) { d.Offset_ns, d.TimeConstant = 1_000_000, 0 }),
			steady, calm, time.Millisecond, 1000 + 500_000 + 1 + 977},
		{"loop with everything to do",
			with(func(d *Discipline) { d.Offset_ns, d.TimeConstant = 1<<62, -5 }), steady, calm,
			time.Millisecond, anything_ppb},
		{"adjtime begins", steady, with(func(d *Discipline) { d.Adjust_us = 1 }), calm,
			time.Millisecond, 501_000},
		{"adjtime ends", with(func(d *Discipline) { d.Adjust_us = -1 }), steady, calm,
			time.Millisecond, 501_000},
		{"a second begins", steady, steady, calm + second/2 - 1000, 2 * time.Microsecond, 501_000},
		{"a second has begun", steady, steady, calm + second/2 + 9_999_999, time.Microsecond,
			501_000},
		{"and the tick after it is over", steady, steady, calm + second/2 + 10_000_000,
			time.Microsecond, 1000},
		{"before 1970", steady, steady, -second/2 - 1, time.Microsecond, 1000},
		{"1970 begins", steady, steady, -1, 2, 501_000},
	} {
		got := possibleWander(tc.before, tc.after, tc.opening_ns, tc.opening_ns+int64(tc.length))
		if got != tc.want {
			t.Errorf("%s: %d ppb, want %d", tc.name, got, tc.want)
		}
	}
}

func TestReadDiscipline(t *testing.T) {
	d, err := ReadDiscipline()
	if err != nil {
		t.Fatal(err)
	}
	if d.Tick_us < 9000 || d.Tick_us > 11_000 || magnitude(d.Frequency_ppm16) > 500<<16 ||
		magnitude(d.Offset_ns) > 5e8 {
		t.Errorf("%+v is beyond what the kernel allows", d)
	}
}

// No test may set the machine's clock. So tests of what happens after the clock was set use a
// function Steps of their own.
func TestStepNotice(t *testing.T) {
	n, err := OpenStepNotice()
	if err != nil {
		t.Fatal(err)
	}
	first, err := n.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := n.Steps(); err != nil || second != first {
		t.Errorf("%d steps, then %d, %v: nobody set the clock", first, second, err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := n.Steps(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: error = %v, want %v", err, os.ErrClosed)
	}
	if err := n.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed twice: error = %v, want %v", err, os.ErrClosed)
	}
}

func TestSystemClock(t *testing.T) {
	n, err := OpenStepNotice()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c := SystemClock(asm.Counter, n, whole_ns)
	e := c.readBeforeTrain()
	r := c.readAfterTrain(&e)
	if r.status != clockRelated || r.step_ns != 1 || newRealtime(&r) == nil {
		t.Errorf("%+v relates nothing, or steps of other than 1 ns", r)
	}
	for _, b := range append(r.opening[:], r.closing[:]...) {
		if b.after_cycles <= b.before_cycles ||
			magnitude(b.realtime_ns-time.Now().UnixNano()) > uint64(time.Minute) {
			t.Errorf("%+v is no bracket of this moment", b)
		}
	}
}

// whole_ns is the RealtimeStep of a clock that is rounded down to whole ns.
func whole_ns() (step_ns uint32, err error) { return 1, nil }

// The result of RealtimeStep may change during a train, or be unknown, for example because nothing
// is known about a core. Then kernel stamps are not used.
func TestStepOfTheClock(t *testing.T) {
	unknown := errors.New("nothing is known of core 3")
	for _, tc := range []struct {
		name        string
		ns          [2]uint32 // results at the beginning and at the end of the train
		err         [2]error
		wantRelated bool
	}{
		{"fine", [2]uint32{1, 1}, [2]error{}, true},
		{"coarse", [2]uint32{101, 101}, [2]error{}, true},
		{"changed", [2]uint32{1, 101}, [2]error{}, false},
		{"changed back", [2]uint32{101, 1}, [2]error{}, false},
		{"unknown", [2]uint32{}, [2]error{unknown, unknown}, false},
		{"unknown at the beginning", [2]uint32{1, 1}, [2]error{unknown, nil}, false},
		{"unknown at the end", [2]uint32{1, 1}, [2]error{nil, unknown}, false},
	} {
		end := 0
		var now int64
		c := Clock{
			Counter:      func() uint64 { now += 30; return uint64(now) },
			Realtime:     func() int64 { now += 30; return now },
			Discipline:   func() (Discipline, error) { return Discipline{}, nil },
			Steps:        func() (uint64, error) { return 0, nil },
			RealtimeStep: func() (uint32, error) { return tc.ns[end], tc.err[end] },
		}
		e := c.readBeforeTrain()
		end = 1
		r := c.readAfterTrain(&e)
		c.RealtimeStep = nil
		if e := c.readBeforeTrain(); e.known {
			t.Error("a clock without RealtimeStep has a known step")
		}
		if related := r.status == clockRelated; related != tc.wantRelated ||
			related && r.step_ns != tc.ns[0] {
			t.Errorf("%s: status %d with steps of %d ns", tc.name, r.status, r.step_ns)
		}
	}
}
