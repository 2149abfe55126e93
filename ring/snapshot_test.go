package ring

import "testing"

func TestSnapshotIsAskedForOnce(t *testing.T) {
	p := newRing(t)
	c := drain(t, p.Path)
	check := func(wantN uint64, wantOpen bool) {
		t.Helper()
		n, open, err := c.Asked()
		if err != nil || n != wantN || open != wantOpen {
			t.Fatalf("asked %d, open %v, %v; want %d, %v", n, open, err, wantN, wantOpen)
		}
	}
	check(0, false)
	p.Snapshot()
	p.Snapshot()
	check(2, true)
	must(t, c.Answered(2))
	check(2, false)
	p.Snapshot()
	check(3, true)
	// The next consumer knows which snapshots were answered.
	must(t, c.Answered(3))
	c = drain(t, p.Path)
	check(3, false)
}
