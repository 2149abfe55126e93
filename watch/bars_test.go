package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarTop measures what watching costs. Programs on ten nodes log a million events a second,
// first while nobody watches, and then while a client watches as cprof top does. At the end the
// test compares every duration with the truth.
func TestBarTop(t *testing.T) {
	size := proof.Begin(t)
	const nodes = 10
	tuples_s, lasts := 20_000, 3*time.Second
	if size == proof.Full {
		tuples_s, lasts = 100_000, 30*time.Second
	}
	var names, points []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%02d", i))
		points = append(points, fmt.Sprintf("op%02d/start", i))
	}
	f := newFleet(t, wandering(t), names...)
	f.open("tuesday")
	c := newChain(points, f.members)
	c.rememberedDepth = 7
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	running.Go(func() { c.run(ctx, t, handlers.Options{}, 1<<40, tuples_s) })
	defer running.Wait()
	defer stop()
	const settle = 8 * time.Second
	time.Sleep(settle)
	before, _ := f.coreShares(nil, lasts)

	var out syncBuffer
	top := f.startTo(job{Dir: t.TempDir(), Server: f.address, Watch: true}, &out)
	time.Sleep(settle) // the window fills
	out.takeLines()
	logged, begun := c.count(), time.Now()
	during, own := f.coreShares(top, lasts)
	rate := float64(c.count()-logged) / time.Since(begun).Seconds()
	top.Process.Kill()
	var pictures []toldPicture
	for _, line := range bytes.Split(bytes.TrimSpace(out.takeLines()), []byte("\n")) {
		var p toldPicture
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		pictures = append(pictures, p)
	}
	oldest := slices.MaxFunc(pictures, func(x,
		y toldPicture) int {
		return int(x.Age_ns - y.Age_ns)
	})
	least := slices.MinFunc(pictures, func(x, y toldPicture) int { return x.Spans - y.Spans })
	fewest := slices.MinFunc(pictures, func(x, y toldPicture) int { return x.Tuples - y.Tuples })

	v := New(5 * time.Second)
	k := check(t, v, f, c)
	end := time.Now().Add(lasts)
	f.watch(v, func(p *Picture) bool {
		k.picture(p)
		for _, note := range p.Notes {
			if time.Until(end) < lasts/2 {
				t.Logf("note: %s", note)
			}
		}
		return time.Now().Before(end)
	})
	stop()

	t.Logf("%.0f events/s; %d pictures of at least %d tuples, 1 in %d; notes of the last: %v", rate,
		len(pictures), fewest.Tuples, oldest.OneIn, pictures[len(pictures)-1].Notes)
	extra := 0.0
	for i, share := range during {
		name := "server"
		if i > 0 {
			name = f.members[i-1].name
			extra = max(extra, share-before[i])
		}
		t.Logf("%-6s %.2f %% of a core, %.2f %% when nobody watches", name, 100*share,
			100*before[i])
	}
	proof.Check(t,
		proof.Bar{
			Name: fmt.Sprintf("age of what cprof top shows, %d nodes and %g M events/s, until it "+
				"is replaced", nodes, float64(nodes*tuples_s)/1e6),
			Figure: float64(oldest.Age_ns) / 1e9, Limit: 1, Unit: "s", Timing: true,
		},
		proof.Bar{Name: "what watching costs an agent beside its work, the worst of ten",
			Figure: 100 * extra, Limit: 2, Unit: "% of a core", Timing: true},
		proof.Bar{Name: "what watching costs the server", Figure: 100 * (during[0] - before[0]),
			Limit: 2, Unit: "% of a core", Timing: true},
		proof.Bar{Name: "cprof top itself, without the terminal", Figure: 100 * own, Limit: 10,
			Unit: "% of a core", Timing: true},
		proof.Bar{Name: "events logged meanwhile", Figure: rate,
			Limit: 0.97 * float64(nodes*tuples_s), AtLeast: true, Unit: "events/s", Timing: true},
		proof.Bar{Name: "paths in a picture, the fewest", Limit: nodes,
			Figure: float64(least.Spans), AtLeast: true, Unit: "paths", Timing: true},
		proof.Bar{Name: "durations that cprof top shows and that miss the truth",
			Figure: float64(k.missed), Unit: "durations"},
		proof.Bar{Name: "durations that were checked", Figure: float64(k.checked), Limit: 10_000,
			AtLeast: true, Unit: "durations"},
	)
}

// coreShares waits for a given time, and measures how much of a core each process uses in that
// time. The slice contains the share of the server, and then the shares of the agents. The second
// result is the share of the process other, or 0 if other is nil.
func (f *fleet) coreShares(other *exec.Cmd, lasts time.Duration) (all []float64, more float64) {
	f.t.Helper()
	processes := []*exec.Cmd{f.server}
	for _, m := range f.members {
		processes = append(processes, m.process)
	}
	if other != nil {
		processes = append(processes, other)
	}
	var begin []time.Duration
	for _, p := range processes {
		begin = append(begin, processorTime(f.t, p))
	}
	began := time.Now()
	time.Sleep(lasts)
	for i, p := range processes {
		all = append(all, (processorTime(f.t, p)-begin[i]).Seconds()/time.Since(began).Seconds())
	}
	if other != nil {
		more = all[len(all)-1]
		all = all[:len(all)-1]
	}
	return all, more
}

// syncBuffer collects the output of a process.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// takeLines returns the complete lines that the process wrote, and removes them from the buffer.
func (b *syncBuffer) takeLines() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := bytes.LastIndexByte(b.b.Bytes(), '\n') + 1
	return bytes.Clone(b.b.Next(end))
}
