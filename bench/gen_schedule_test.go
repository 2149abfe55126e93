package bench

import (
	"testing"
	"time"
)

// In a pause of 30 µs, a tuple that is due in the first 20 µs is late by more than 10 µs. In a
// pause of 10 µs, no tuple is late by that much.
func TestLateInAPause(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{
		time.Microsecond:      0,
		lateAfter:             0,
		30 * time.Microsecond: 20 * time.Microsecond,
	} {
		if got := lateIn(pause); got != want {
			t.Errorf("of a pause of %s, %s, want %s", pause, got, want)
		}
	}
}
