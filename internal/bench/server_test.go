package bench

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

func TestParseServer(t *testing.T) {
	s, err := ParseServer("bucket:100000,stall:50ms/1s")
	if err != nil || s.limit() != 95_000 || s.Stall != 50*time.Millisecond {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ParseServer("bucket:2.5"); err != nil || s.limit() != 2.5 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "bucket", "bucket:", "bucket:0", "bucket:x", "bucket:1,", "bucket:1,stall", "bucket:1,stall:1s/1s", "bucket:1,stall:0s/1s", "nats"} {
		if s, err := ParseServer(bad); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestServerIsOpenOutsideOfStalls(t *testing.T) {
	s := Server{Rate: 1, Stall: 50 * time.Millisecond, Period: time.Second}
	for _, test := range []struct{ from, to, want time.Duration }{
		{0, 50 * time.Millisecond, 0}, {0, 60 * time.Millisecond, 10 * time.Millisecond}, {500 * time.Millisecond, 1500 * time.Millisecond, 950 * time.Millisecond},
		{1020 * time.Millisecond, 1030 * time.Millisecond, 0}, {0, 10 * time.Second, 9500 * time.Millisecond},
	} {
		if got := s.open(test.from, test.to); got != test.want {
			t.Errorf("open from %s to %s: %s, want %s", test.from, test.to, got, test.want)
		}
	}
}

// What a server could have let out while it did not run is not lost, if something waited for it.
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
		if got := s.fill(test.tokens, test.last, test.busy, test.now); math.Abs(got-test.want) > 1e-6 {
			t.Errorf("%s: %g tokens, want %g", name, got, test.want)
		}
	}
}

// The search's bar: the limits of servers that are known, in real time, with the same search that users have.
func TestBarSearch(t *testing.T) {
	size := proof.Begin(t)
	for _, text := range []string{"bucket:100000", "bucket:100000,stall:50ms/1s"} {
		server, err := ParseServer(text)
		if err != nil {
			t.Fatal(err)
		}
		o := generator.SearchOptions{Connect: server.Connect, Start: 50_000, Confirm: 1, NoCurve: true, Trial: 3100 * time.Millisecond, WarmUp: 300 * time.Millisecond}
		if size == proof.Full {
			o.Start, o.Confirm, o.Trial, o.WarmUp = 0, 3, 5*time.Second, time.Second
		}
		if o.Tuples, err = generator.Advertisements(1000, tupleBody, 1); err != nil {
			t.Fatal(err)
		}
		search, err := generator.NewSearch(o)
		if err != nil {
			t.Fatal(err)
		}
		before, err := readUsage()
		if err != nil {
			t.Fatal(err)
		}
		stop := server.Start(search.Done)
		r, err := search.Run(t.Context())
		stop()
		after, usageErr := readUsage()
		if err := errors.Join(err, usageErr); err != nil {
			t.Fatal(err)
		}
		others := after.othersSince(before)
		t.Logf("%s: %d trials\n%s", text, len(r.Trials), r.Answer())
		for _, trial := range r.Trials {
			t.Logf("%+v", trial)
		}
		off := proof.Bar{Name: "search: " + text, Figure: 100 * math.Abs(r.Sustained-server.limit()) / server.limit(), Limit: 3, Unit: "% off the limit", Timing: true}
		switch {
		case r.LimitedBy == generator.ByEngine:
		case r.LimitedBy == generator.ByGenerator && others > disturbedShare: // true: this machine could not send as much
			off.Absent = fmt.Sprintf("the generator was the limit, as the search says: other processes took %.1f cores", others)
		default:
			off.Figure = 100
		}
		bars := []proof.Bar{off}
		if server.Stall > 0 {
			named := func(what string, got, want time.Duration) proof.Bar {
				return proof.Bar{Name: "search: " + text + ": " + what, Figure: 100 * math.Abs(float64(got-want)) / float64(want), Limit: 10, Unit: "% off the truth", Timing: true}
			}
			bars = append(bars, named("length of the stalls", r.Stalls.Typical, server.Stall), named("time between stalls", r.Stalls.Every, server.Period))
		}
		proof.Check(t, bars...)
	}
}

// limit is the rate that a server sustains.
func (s *Server) limit() float64 {
	if s.Stall == 0 {
		return s.Rate
	}
	return s.Rate * (1 - float64(s.Stall)/float64(s.Period))
}
