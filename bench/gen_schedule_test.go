package bench

import (
	"testing"
	"time"
)

// In a pause of 30 µs, what is due in the first 20 is late by more than 10. In one of 10, nothing
// is.
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
