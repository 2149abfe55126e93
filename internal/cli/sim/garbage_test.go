package sim

import (
	"runtime/debug"
	"testing"
)

// The process may take plenty_bytes, or process_percent more than the size of the state, whichever
// is larger.
func TestGarbage(t *testing.T) {
	for live, want := range map[uint64]int64{0: plenty_bytes, 1 << 30: plenty_bytes,
		plenty_bytes / 7 * 4: plenty_bytes, plenty_bytes: plenty_bytes / 100 * 175,
		2 * plenty_bytes: plenty_bytes / 100 * 350} {
		if got := limitFor(live); got != want {
			t.Errorf("%d bytes: limit %d bytes, want %d", live, got, want)
		}
	}
	now := func() [2]int64 {
		percent := debug.SetGCPercent(garbage_percent) // returns what was set before
		debug.SetGCPercent(percent)
		return [2]int64{int64(percent), debug.SetMemoryLimit(-1)}
	}
	before := now()
	stop := letGarbageGrow()
	during := now()
	stop()
	if want := [2]int64{mostGarbage_percent, plenty_bytes}; during != want || now() != before {
		t.Errorf("%d while a small simulation runs, want %d; %d after it, want %d", during, want,
			now(), before)
	}
}
