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

// TestBarSearch runs the search that users run. The search must find, in real time, the limits of
// servers whose limits are known.
func TestBarSearch(t *testing.T) {
	size := proof.Begin(t)
	for _, text := range []string{"bucket:100000", "bucket:100000,stall:50ms/1s"} {
		server, err := generator.ParseServer(text)
		if err != nil {
			t.Fatal(err)
		}
		o := generator.SearchOptions{
			Connect: server.Connect, Start: 50_000, Confirm: 1,
			NoCurve: true, Trial: 2100 * time.Millisecond, WarmUp: 300 * time.Millisecond,
		}
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
		limit := server.Rate
		if server.Stall > 0 {
			limit *= 1 - float64(server.Stall)/float64(server.Period)
		}
		off := proof.Bar{Name: "search: " + text,
			Figure: 100 * math.Abs(r.Sustained-limit) / limit, Limit: 3,
			Unit: "% off the limit", Timing: true}
		switch {
		case r.LimitedBy == generator.ByEngine:
		case r.LimitedBy == generator.ByGenerator && others > disturbedShare:
			// The search is right: this machine could not send as much.
			off.Absent = fmt.Sprintf("the generator was the limit, as the search says: "+
				"other processes took %.1f cores", others)
		default:
			off.Figure = 100
		}
		bars := []proof.Bar{off}
		if server.Stall > 0 {
			named := func(what string, got, want time.Duration) proof.Bar {
				return proof.Bar{Name: "search: " + text + ": " + what,
					Figure: 100 * math.Abs(float64(got-want)) / float64(want), Limit: 10,
					Unit: "% off the truth", Timing: true}
			}
			bars = append(bars, named("length of the stalls", r.Stalls.Typical, server.Stall),
				named("time between stalls", r.Stalls.Every, server.Period))
		}
		proof.Check(t, bars...)
	}
}
