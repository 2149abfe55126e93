package agent

import "testing"

// The agent notices a suspend at the next block, whenever it made the last full check.
func TestSleepIsSeenAtOnce(t *testing.T) {
	now, slept_ns, looks := "awake", int64(5e9), 0
	e := &epochFollower{look: func() string {
		looks++
		return now
	}, slept: func() (int64, error) { return slept_ns, nil }}
	if got := e.epoch(); got != "awake" || looks != 1 {
		t.Fatalf("epoch %q after %d looks", got, looks)
	}
	now, slept_ns = "awake again", slept_ns+16_000_000
	if got := e.epoch(); got != now {
		t.Errorf("epoch %q after a sleep, want %q", got, now)
	}
	for range 1000 {
		e.epoch()
	}
	if looks > 900 {
		t.Errorf("%d looks at everything for 1,000 blocks", looks)
	}
}
