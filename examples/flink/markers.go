package main

import (
	"context"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/engine"
)

// Flink measures latency with markers. A marker leaves the source like an event, and waits in the
// same queues. spans lists the operators at which markers arrive. For each operator, it names the
// point up to which we measure latency, so that our latency can be compared with Flink's.
var spans = []struct{ operator, to string }{
	{"deserialise", "job.deserialise/start"},
	{"filter", "job.filter/start"},
	{"join", "job.join/start"},
	{"count", "job.count/start"},
}

const source = "job.read/start"

// path is an event's path through the job.
var path = [][2]string{
	{"generator/intended", "generator/send"},
	{"generator/send", source},
	{source, "job.deserialise/start"},
	{"job.deserialise/start", "job.filter/start"},
	{"job.filter/start", "job.join/start"},
	{"job.join/start", "job.count/start"},
}

// statistics lists the statistics of latency markers that are read from Flink: the mean and two
// percentiles. The field end is the end of the metric's name in Flink. The percentile 0 stands for
// the mean.
var statistics = []struct {
	end     string
	percent float64
}{{"_mean", 0}, {"_median", 50}, {"_p99", 99}}

// said contains the last values in ms that Flink stated. The first key is the operator. The second
// key is the name of the metric, which contains the number of the subtask.
type said map[string]map[string]float64

// latencyMarkers asks Flink for its latency markers until ctx ends, and returns the last values. It
// asks again and again, because Flink forgets the markers when the job ends.
func (f *flink) latencyMarkers(ctx context.Context) []engine.Claim {
	last := said{}
	for {
		f.readMarkers(ctx, last)
		select {
		case <-ctx.Done():
			return last.claims()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// readMarkers stores Flink's present values in the map last. While no job runs, it stores nothing.
func (f *flink) readMarkers(ctx context.Context, last said) {
	var jobs struct{ Jobs []struct{ ID, Status string } }
	if f.ask(ctx, "/jobs", &jobs) != nil {
		return
	}
	for _, job := range jobs.Jobs {
		var plan struct{ Vertices []struct{ ID, Name string } }
		if job.Status != "RUNNING" || f.ask(ctx, "/jobs/"+job.ID, &plan) != nil {
			continue
		}
		for _, v := range plan.Vertices {
			// In Flink, a vertex is a chain of operators. Its id is the id of the first operator.
			operator, _, _ := strings.Cut(v.Name, " -> ")
			for name, ms := range f.metrics(ctx, "/jobs/"+job.ID+"/vertices/"+v.ID, v.ID) {
				if last[operator] == nil {
					last[operator] = map[string]float64{}
				}
				last[operator][name] = ms
			}
		}
	}
}

// metrics returns the statistics of the markers that arrive at an operator.
func (f *flink) metrics(ctx context.Context, vertex, operator string) map[string]float64 {
	type metric struct{ ID, Value string }
	var all, wanted []metric
	if f.ask(ctx, vertex+"/metrics", &all) != nil {
		return nil
	}
	var names []string
	for _, m := range all {
		for _, s := range statistics {
			if strings.Contains(m.ID, ".latency.") && strings.HasSuffix(m.ID, s.end) &&
				strings.Contains(m.ID, ".operator_id."+operator+".") {
				names = append(names, m.ID)
			}
		}
	}
	query := url.QueryEscape(strings.Join(names, ","))
	if len(names) == 0 || f.ask(ctx, vertex+"/metrics?get="+query, &wanted) != nil {
		return nil
	}
	values := map[string]float64{}
	for _, m := range wanted {
		if ms, err := strconv.ParseFloat(m.Value, 64); err == nil && !math.IsNaN(ms) {
			values[m.ID] = ms
		}
	}
	return values
}

// claims returns a claim for each operator and each statistic: the range of the values of all
// subtasks.
func (last said) claims() (claims []engine.Claim) {
	for _, span := range spans {
		for _, s := range statistics {
			var ms []float64
			for name, value := range last[span.operator] {
				if strings.HasSuffix(name, s.end) {
					ms = append(ms, value)
				}
			}
			if len(ms) > 0 {
				claims = append(claims, engine.Claim{
					Name: "marker at " + span.operator, From: source, To: span.to,
					Percent: s.percent, Lo_ms: slices.Min(ms), Hi_ms: slices.Max(ms),
				})
			}
		}
	}
	return claims
}
