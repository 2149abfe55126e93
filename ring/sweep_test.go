package ring

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A ring that Sweep cannot read spoils only its own count. All other counts are from an instant
// between the two readings of the counter.
func TestSweep(t *testing.T) {
	needFaultAddresses(t)
	var rings []*Reader
	var paths []string
	for i := range uint64(3) {
		p := newRing(t)
		*p.Shards[0].Counter() = 10 + i
		r, err := Open(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		rings, paths = append(rings, r), append(paths, p.Path)
		if i == 1 {
			p.Close() // a Producer would not survive the cut of its file
		}
	}
	if err := os.Truncate(paths[1], 0); err != nil {
		t.Fatal(err)
	}
	counts, errs := make([]uint64, 3), make([]error, 3)
	first := Now()
	before, after := Sweep(rings, counts, errs)
	last := Now()
	if errs[0] != nil || errs[2] != nil || counts[0] != 10 || counts[2] != 12 ||
		!errors.Is(errs[1], ErrShrunk) {
		t.Errorf("counts %v, errors %v", counts, errs)
	}
	if before < first.Counter || after < before || last.Counter < after {
		t.Errorf("swept from %d to %d, between %d and %d", before, after, first.Counter,
			last.Counter)
	}
	if first.Latest.Before(first.Earliest) || last.Earliest.Before(first.Latest) {
		t.Errorf("%+v then %+v", first, last)
	}
}

// If somebody sets the clock back between Now's two readings of the clock, Now still returns an
// interval that does not end before it begins. If the interval in a ring ended before it began,
// readers would call the ring damaged.
func TestClockSetBackWhileItIsRead(t *testing.T) {
	times := []int64{1_000_000, 400, 500, 600}
	now := instant(func() time.Time {
		at := times[0]
		times = times[1:]
		return time.Unix(0, at)
	})
	if now.Earliest.UnixNano() != 500 || now.Latest.UnixNano() != 600 {
		t.Errorf("%+v", now)
	}
}
