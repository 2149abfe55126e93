package answers

import (
	"bytes"
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// sampledRun writes a run in which tuples go from a source by way of a worker to a sink. The tuples
// spend 58 % of their time before the worker, and 42 % after it. The function change makes logs
// lack events.
func sampledRun(t *testing.T, change func([]simrun.Channel)) *runs.Directory {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	channels := []simrun.Channel{
		{Name: "source/send"}, {Name: "worker/recv", Node: 1}, {Name: "sink/recv"},
	}
	for id := range uint64(1600) {
		at := uint64(simrun.Hz) + id*simrun.Hz/1000
		for i, after := range []uint64{0, 580_000, 1_000_000} {
			channels[i].Records = append(channels[i].Records, simrun.Record{
				Time: at + after, ID: id,
			})
		}
	}
	change(channels)
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "sampled", simrun.Nodes(rng, 2), channels); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "sampled"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// sampleChannel makes a channel keep one tuple in 16, by its id.
func sampleChannel(c *simrun.Channel) {
	c.Handler = "xoy x=1 y=16"
	c.Records = slices.DeleteFunc(c.Records, func(r simrun.Record) bool { return r.ID%16 > 0 })
}

// If logs lack tuples, the first screen and the page say which tuples they describe. What they say
// is true of these tuples. No span is called surely the slowest.
func TestWhatIsSlowInThinnedLogs(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]simrun.Channel)
		says   []string // what the terminal shows
		page   []string // what the page shows of the path: which tuples, and why it is not sure
	}{
		"all are there": {func([]simrun.Channel) {}, []string{
			"slowest spans by share of the end-to-end time, for 1600 tuples, from source/send\n",
			"\n  surely        source/send → worker/recv: 58",
		}, []string{"1600 tuples", ""}},
		"one point samples": {func(c []simrun.Channel) { sampleChannel(&c[1]) }, []string{
			"slowest spans by share of the end-to-end time, for 1600 tuples, from source/send\n",
			"\n  perhaps       source/send → worker/recv: 50±48 %, median 223",
			" of 100 sampled tuples\n",
			"\n  no order is proven, because logs do not have every tuple: worker/recv keeps " +
				"only xoy x=1 y=16\n",
			"source/send → sink/recv, a gap ",
			"a gap: past worker/recv, whose logs do not have every tuple: sampled\n",
			"source/send → worker/recv: sampled\n",
		}, []string{"1600 tuples", "no order is proven, because logs do not have every tuple: " +
			"worker/recv keeps only xoy x=1 y=16"}},
		"all points sample": {func(c []simrun.Channel) {
			for i := range c {
				sampleChannel(&c[i])
			}
		}, []string{
			"slowest spans by share of the end-to-end time, for 100 sampled tuples, from source",
			"\n  perhaps       source/send → worker/recv: 58",
			" of 100 sampled tuples\n", "no order is proven, ",
		}, []string{"100 sampled tuples", "no order is proven, because logs do not have every " +
			"tuple: sink/recv, source/send and worker/recv keep only xoy x=1 y=16"}},
		"a log in the middle lacks a part": {func(c []simrun.Channel) {
			c[1].Records, c[1].Dropped = slices.Delete(c[1].Records, 100, 1000), 900
		}, []string{
			"slowest spans by share of the end-to-end time, for 1600 tuples, from source/send\n",
			"\n  perhaps       source/send → worker/recv: 54±", " of 700 tuples in the logs\n",
			"source/send → sink/recv, a gap ",
		}, []string{"1600 tuples", "no order is proven, because logs do not have every tuple: " +
			"worker/recv dropped events"}},
		"the last log lacks a part": {func(c []simrun.Channel) {
			c[2].Records, c[2].Dropped = slices.Delete(c[2].Records, 100, 1000), 900
		}, []string{
			"slowest spans by median, for 1600 tuples in the logs, from source/send\n",
			"\n  shares of the end-to-end time are withheld: the logs of points where tuples " +
				"begin or end do not have every tuple:\n    sink/recv dropped events\n",
		}, []string{"1600 tuples in the logs", "shares of the end-to-end time are withheld: the " +
			"logs of points where tuples begin or end do not have every tuple: sink/recv dropped " +
			"events"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := sampledRun(t, test.change)
			a, err := analysis.Run(context.Background(), dir, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := printAnswer(&text, a, shown{run: "sampled"}); err != nil {
				t.Fatal(err)
			}
			for _, says := range test.says {
				if !strings.Contains(text.String(), says) {
					t.Errorf("%q is not in\n%s", says, text.String())
				}
			}
			path, lacks := report.From(a, dir, "a test").Paths[0], name != "all are there"
			surely := strings.Contains(text.String(), "surely")
			if surely == lacks || path.Slowest[0].Surely == lacks {
				t.Errorf("surely %v, on the page %v:\n%s", surely, path.Slowest[0].Surely,
					text.String())
			}
			if page := []string{path.Of, path.Unsure}; !slices.Equal(page, test.page) {
				t.Errorf("the page says %q", page)
			}
		})
	}
}
