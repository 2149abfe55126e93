package bench

import (
	"math"
	"testing"
	"time"
)

// Of a pause of 30 µs what is due in its first 20 is late by more than 10; of one of 10 nothing is.
func TestPausesAreWhatALoopWouldHaveLate(t *testing.T) {
	var p pauses
	for _, pause := range []time.Duration{time.Microsecond, lateAfter, 30 * time.Microsecond} {
		p.add(pause)
	}
	if math.Abs(p.paused-30e-6) > 1e-9 || math.Abs(p.late-20e-6) > 1e-9 {
		t.Errorf("%+v, want 30 µs in pauses, and 20 µs in which what is due is late", p)
	}
}
