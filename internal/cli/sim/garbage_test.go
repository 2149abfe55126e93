package sim

import (
	"runtime/debug"
	"testing"
	"time"
)

// Garbage may fill what the state leaves of plenty_bytes, and in any case garbage_percent of the
// state's size.
func TestGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: garbage_percent, 1 << 30: mostGarbage_percent,
		plenty_bytes / 2: mostGarbage_percent, plenty_bytes / 3 * 2: 50,
		plenty_bytes / 5 * 4: garbage_percent, plenty_bytes: garbage_percent,
		2 * plenty_bytes: garbage_percent} {
		if got := garbageFor(live); got < want-1 || got > want {
			t.Errorf("%d bytes: %d %%, want %d %%", live, got, want)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(garbage_percent))
	stop := letGarbageGrow()
	got := garbage_percent
	end := time.Now().Add(20 * time.Second)
	for got != mostGarbage_percent && time.Now().Before(end) {
		time.Sleep(garbageLook / 4)
		got = debug.SetGCPercent(mostGarbage_percent) // returns what was set before
		debug.SetGCPercent(got)
	}
	stop()
	if after := debug.SetGCPercent(garbage_percent); got != mostGarbage_percent ||
		after != garbage_percent {
		t.Errorf("%d %% while a small simulation runs, %d %% after it", got, after)
	}
}
