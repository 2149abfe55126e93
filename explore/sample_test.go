package explore

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// truth is what really happened to one tuple of a job.
type truth struct {
	id               uint64
	worker           int
	sent, start, end uint64
	received         uint64 // 0: the tuple never came to the sink
}

// jobRun writes a run of a job: a source on node A, four workers on B and C, a sink on D. For a
// while the third worker is slow. For a short time a third of the tuples are lost. The workers
// filter out a tenth of all tuples.
func jobRun(rng *rand.Rand, parent, name string, tuples int) ([]truth, []simrun.Node, error) {
	nodes := simrun.Nodes(rng, 4)
	channels := []simrun.Channel{{Node: 0, Name: "source/send"}}
	for i := range 4 {
		worker := "worker#" + string(rune('0'+i))
		channels = append(channels, simrun.Channel{Node: 1 + i/2, Name: worker + "/start"},
			simrun.Channel{Node: 1 + i/2, Name: worker + "/end"})
	}
	channels = append(channels, simrun.Channel{Node: 3, Name: "sink/recv"})
	var all []truth
	free := [4]uint64{}
	at := uint64(2 * simrun.Hz)
	for i := range tuples {
		at += 20_000 + rng.Uint64N(60_000)
		t := truth{id: 1<<40 + uint64(i), worker: rng.IntN(4), sent: at}
		log := func(channel int, time uint64) {
			c := &channels[channel]
			c.Records = append(c.Records, simrun.Record{Time: time, ID: t.id})
		}
		log(0, at)
		part := float64(i) / float64(tuples)
		if part > 0.7 && part < 0.72 && rng.IntN(3) == 0 {
			all = append(all, t)
			continue // lost on the way
		}
		t.start = max(at+60_000+rng.Uint64N(1<<rng.UintN(17)), free[t.worker]+500)
		work := 30_000 + rng.Uint64N(1<<rng.UintN(18))
		if t.worker == 2 && part > 0.4 && part < 0.45 {
			work *= 12
		}
		t.end = t.start + work
		free[t.worker] = t.end
		log(1+2*t.worker, t.start)
		log(2+2*t.worker, t.end)
		if rng.IntN(10) > 0 {
			t.received = t.end + 50_000 + rng.Uint64N(1<<rng.UintN(16))
			log(9, t.received)
		}
		all = append(all, t)
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	return all, nodes, simrun.Write(rng, parent, name, nodes, channels)
}

// preparedIndex returns the index of a run.
func preparedIndex(t testing.TB, path string, o analysis.Options) *Index {
	t.Helper()
	dir, err := runs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	x, err := Prepare(context.Background(), dir, o, noReport, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func noReport(*analysis.Answer) ([]byte, error) { return []byte("<p>report"), nil }

// job is an index of a run, with the truth about its tuples.
type job struct {
	*Index
	all  []truth
	path string
	node simrun.Node // the reference node
}

// aJob makes a run of a job and the run's index.
func aJob(t testing.TB, rng *rand.Rand, tuples int) *job {
	t.Helper()
	parent := t.TempDir()
	all, nodes, err := jobRun(rng, parent, "job", tuples)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(parent, "job")
	j := &job{preparedIndex(t, path, analysis.Options{}), all, path, simrun.Node{}}
	for _, n := range nodes {
		if n.Name == j.Meta.Reference.Node {
			j.node = n
		}
	}
	return j
}

// spanOf returns the number of a span.
func (j *job) spanOf(t testing.TB, from, to string) int {
	t.Helper()
	for i, s := range j.Meta.Spans {
		if s.From == from && s.To == to {
			return i
		}
	}
	t.Fatalf("no span from %s to %s: %+v", from, to, j.Meta.Spans)
	return 0
}

// allItems returns all items of a track. It reads every block.
func (x *Index) allItems(t testing.TB, of *track) (all []item) {
	t.Helper()
	for k := range of.levels[0] {
		if err := x.eachItem(&of.levels[0][k], func(i *item) {
			all = append(all,
				*i)
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func (x *Index) whole() Range { return Range{x.zero(), x.zero() + x.Meta.Length_cycles} }

// randomPart returns a random part of the run, short or long.
func (x *Index) randomPart(rng *rand.Rand) Range {
	length := x.Meta.Length_cycles >> rng.UintN(16)
	from := x.zero() + rng.Uint64N(x.Meta.Length_cycles-length+1)
	return Range{from, from + length}
}

// windowRun makes a run in which a node gathers windows of 50 tuples and sends each window to a
// store.
func windowRun(t *testing.T, rng *rand.Rand) *job {
	t.Helper()
	channels := []simrun.Channel{{Node: 0, Name: "source/send"}, {Node: 1, Name: "window/recv"},
		{Node: 1, Name: "window/emit", Handler: "link"}, {Node: 1, Name: "window/send"},
		{Node: 0, Name: "store/recv"}}
	log := func(c int, time, id uint64) {
		channels[c].Records = append(channels[c].Records, simrun.Record{Time: time, ID: id})
	}
	for id := range uint64(2000) {
		at := simrun.Hz*2 + id*100_000
		log(0, at, id)
		log(1, at+50_000, id)
		channels[2].Records = append(channels[2].Records,
			simrun.Record{ID: id, Child: 1<<50 + id/50, IsLink: true})
		if id%50 == 49 {
			log(3, at+60_000, 1<<50+id/50)
			log(4, at+120_000, 1<<50+id/50)
		}
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "windows", simrun.Nodes(rng, 2), channels); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(parent, "windows")
	return &job{Index: preparedIndex(t, path, analysis.Options{}), path: path}
}

// sampledRun writes a run in which one channel keeps every second event.
func sampledRun(rng *rand.Rand, parent, name string) error {
	channels := []simrun.Channel{{Node: 0, Name: "source/send"},
		{Node: 1, Name: "worker/recv", Handler: "downsample n=2"}, {Node: 0, Name: "sink/recv"}}
	for id := range uint64(4000) {
		at := simrun.Hz + id*100_000
		for k := range channels {
			if k != 1 || id%2 == 0 {
				channels[k].Records = append(channels[k].Records, simrun.Record{Time: at, ID: id})
			}
			at += 50_000 + rng.Uint64N(1<<rng.UintN(17))
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	return simrun.Write(rng, parent, name, simrun.Nodes(rng, 2), channels)
}

var serveAt = flag.String("serve", "", "serve sample runs until interrupted, and write their "+
	"addresses into this file, for the browser's tests")

// TestServeSamples serves runs for the browser tests of the page.
func TestServeSamples(t *testing.T) {
	if *serveAt == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rng, parent := rand.New(rand.NewPCG(1, 1)), t.TempDir()
	for i, name := range []string{"monday", "tuesday"} {
		if _, _, err := jobRun(rng, parent, name, 60_000-10_000*i); err != nil {
			t.Fatal(err)
		}
	}
	if err := simrun.Suspect(rng, parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	if err := sampledRun(rng, parent, "sampled"); err != nil {
		t.Fatal(err)
	}
	if _, err := pausingRun(rng, parent, "pausing", 20_000); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	var group sync.WaitGroup
	defer group.Wait()
	for name, of := range map[string][]string{"one": {"monday"}, "two": {"monday", "tuesday"},
		"suspect": {"suspect"}, "sampled": {"sampled"}, "pausing": {"pausing"}} {
		var indexes []*Index
		for _, run := range of {
			indexes = append(indexes, preparedIndex(t, filepath.Join(parent, run),
				analysis.Options{}))
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[name] = "http://" + l.Addr().String()
		group.Go(func() {
			if err := Serve(ctx, l, Handler(indexes)); err != nil {
				t.Error(err)
			}
		})
	}
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*serveAt+".part", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(*serveAt+".part", *serveAt); err != nil {
		t.Fatal(err)
	}
}
