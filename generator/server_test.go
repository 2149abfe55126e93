package generator

import (
	"math"
	"testing"
	"time"
)

func TestParseServer(t *testing.T) {
	s, err := ParseServer("bucket:100000,stall:50ms/1s")
	if err != nil || s.Rate != 100_000 || s.Stall != 50*time.Millisecond ||
		s.Period != time.Second {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ParseServer("bucket:2.5"); err != nil || s.Rate != 2.5 || s.Stall != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{
		"", "nats", "bucket", "bucket:", "bucket:0", "bucket:x", "bucket:1,", "bucket:1,stall",
		"bucket:1,stall:1s/1s", "bucket:1,stall:0s/1s",
	} {
		if s, err := ParseServer(bad); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestServerIsOpenOutsideOfStalls(t *testing.T) {
	s := Server{Rate: 1, Stall: 50 * time.Millisecond, Period: time.Second}
	for _, test := range []struct{ from, to, want time.Duration }{
		{0, 50 * time.Millisecond, 0}, {0, 60 * time.Millisecond, 10 * time.Millisecond}, {
			500 * time.Millisecond, 1500 * time.Millisecond, 950 * time.Millisecond,
		},
		{
			1020 * time.Millisecond, 1030 * time.Millisecond, 0,
		}, {0, 10 * time.Second, 9500 * time.Millisecond},
	} {
		if got := s.openTime(test.from, test.to); got != test.want {
			t.Errorf("open from %s to %s: %s, want %s", test.from, test.to, got, test.want)
		}
	}
}

// If tuples waited while this machine did not run the server, the server makes up for that time.
func TestServerLosesNoTimeWhileSomethingWaits(t *testing.T) {
	s := Server{Rate: 1000, Stall: 50 * time.Millisecond, Period: time.Second}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		tokens          float64
		last, busy, now time.Duration
		want            float64
	}{
		"nothing waits":          {0, 100 * ms, 400 * ms, 400 * ms, 1},
		"something waits":        {0, 100 * ms, 100 * ms, 400 * ms, 300},
		"it came in between":     {0.5, 100 * ms, 300 * ms, 400 * ms, 101},
		"through a stall":        {0, 900 * ms, 900 * ms, 1100 * ms, 150},
		"what it has stays":      {40, 100 * ms, 100 * ms, 110 * ms, 50},
		"unless nothing waited":  {40, 100 * ms, 101 * ms, 111 * ms, 11},
		"a look with no time at": {3, 100 * ms, 100 * ms, 100 * ms, 3},
	} {
		got := s.fillTokens(test.tokens, test.last, test.busy, test.now)
		if math.Abs(got-test.want) > 1e-6 {
			t.Errorf("%s: %g tokens, want %g", name, got, test.want)
		}
	}
}
