package watch

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// chain is a job with several points, each on a node. Every tuple passes the points one after
// another. The chain remembers the readings.
type chain struct {
	points          []string
	pointNodes      []*member
	rememberedDepth int // the chain remembers only ids of at least this depth (channel.SampleDepth)

	mu           sync.Mutex
	trueTimes    map[uint64][]uint64 // for each id: the physical counter at each point
	loggedEvents []uint64            // events by point
}

func (c *chain) run(ctx context.Context, t *testing.T, options handlers.Options, first uint64,
	rate_s int) {
	var channels []*handlers.Channel
	for i, name := range c.points {
		o := options
		o.Dir = c.pointNodes[i].rings
		ch, err := handlers.Open(name, o)
		if err != nil {
			t.Error(err)
			return
		}
		defer ch.Close()
		channels = append(channels, ch)
	}
	// The chain sleeps once for each group of tuples. If it slept once for each tuple, going to
	// sleep would take most of its time.
	const group = 64
	started := time.Now()
	for id := first; ctx.Err() == nil; {
		due := time.Duration(id-first) * time.Second / time.Duration(rate_s)
		if wait := due - time.Since(started); wait > time.Millisecond {
			time.Sleep(wait)
		}
		when := [group][]uint64{}
		for i, ch := range channels {
			for k := range uint64(group) {
				physical := asm.Counter()
				ch.LogAt(c.pointNodes[i].counter.Virtual(physical), id+k)
				if channel.SampleDepth(id+k) >= c.rememberedDepth {
					when[k] = append(when[k], physical)
				}
			}
			runtime.Gosched()
		}
		c.mu.Lock()
		for k := range uint64(group) {
			if when[k] != nil {
				c.trueTimes[id+k] = when[k]
			}
		}
		for i := range c.loggedEvents {
			c.loggedEvents[i] += group
		}
		c.mu.Unlock()
		id += group
	}
}

func newChain(points []string, on []*member) *chain {
	return &chain{
		points: points, pointNodes: on, rememberedDepth: 3, trueTimes: map[uint64][]uint64{},
		loggedEvents: make([]uint64, len(points)),
	}
}

// count returns how many events the chain has logged.
func (c *chain) count() (n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.loggedEvents {
		n += one
	}
	return n
}

// trueDuration returns the true time that a tuple took from one point to another, in cycles of a
// node's counter.
func (c *chain) trueDuration(id uint64, from, to string, reference *member) (cycles int64,
	ok bool) {
	c.mu.Lock()
	when := c.trueTimes[id]
	c.mu.Unlock()
	i, j := slices.Index(c.points, from), slices.Index(c.points, to)
	if i < 0 || j < 0 || when == nil {
		return 0, false
	}
	return int64(reference.truth.Reading(when[j]) - reference.truth.Reading(when[i])), true
}

// checker compares every duration of a View, and every percentile of a Picture, with the truth.
type checker struct {
	t               *testing.T
	chain           *chain
	checked, missed int
	percentiles     int
	truths          map[[2]string][]int64 // true durations in the picture, by the ends of spans
}

func check(t *testing.T, v *View, f *fleet, c *chain) *checker {
	k := &checker{t: t, chain: c, truths: map[[2]string][]int64{}}
	v.measured = func(id uint64, l *Span, d tscratio.Duration) {
		for _, m := range f.members {
			if m.name != v.clocks.reference {
				continue
			}
			truth, ok := c.trueDuration(id, l.From, l.To, m)
			if !ok {
				continue // the chain has not yet noted this event
			}
			k.checked++
			key := [2]string{l.From, l.To}
			k.truths[key] = append(k.truths[key], truth)
			if truth < d.Lo || truth > d.Hi {
				k.missed++
				t.Errorf("FALSE: id %d from %s to %s in cycles of %s is [%d, %d], and %d in truth",
					id, l.From, l.To, m.name, d.Lo, d.Hi, truth)
			}
		}
	}
	return k
}

// picture compares the percentiles of a picture with the percentiles of the true durations.
func (k *checker) picture(p *Picture) {
	k.t.Helper()
	for _, l := range p.Spans {
		truths := k.truths[[2]string{l.From, l.To}]
		if len(truths) != l.Tuples || l.Tuples == 0 {
			continue
		}
		slices.Sort(truths)
		for percent, shown := range map[int]Interval{50: l.P50, 99: l.P99} {
			k.percentiles++
			if truth := percentile(truths, percent); truth < shown.Lo_cycles ||
				truth > shown.Hi_cycles {
				k.t.Errorf("FALSE: percentile %d of %s → %s is %+v, and %d in truth", percent,
					l.From, l.To, shown, truth)
			}
		}
	}
	clear(k.truths)
}

func wandering(t *testing.T) func(string, virtual.Physical) vnode.Config {
	r := seed.Random(t)
	return func(name string, now virtual.Physical) vnode.Config {
		shape := []vnode.Shape{vnode.Steady, vnode.Sine, vnode.Walk, vnode.Temperature}[r.IntN(4)]
		return virtual.Config(r, name, now, shape, 0.5, 10*time.Minute)
	}
}

// A client watches a job on three nodes. Every duration and percentile contains the true one. The
// pictures show the job's paths and no others, and counts are exact.
func TestFleetIsWatched(t *testing.T) {
	f := newFleet(t, wandering(t), "alpha", "beta", "gamma")
	f.open("tuesday")
	m := f.members
	c := newChain([]string{"source/send", "work/recv", "work/send", "sink/recv"},
		[]*member{m[0], m[1], m[1], m[2]})
	const attempts = 6
	for i := range uint64(attempts) {
		if watchChain(t, f, c, 1<<40+i<<30) {
			return
		}
	}
	t.Errorf("in each of %d attempts, an agent's stream of Samples broke off", attempts)
}

// watchChain watches a chain for some seconds. It returns false if an agent's stream of Samples
// broke off. That happens if this machine is so busy that the client's requests come late, and the
// server thinks that the client has gone. Then the counts of the last picture are not those of the
// whole chain.
func watchChain(t *testing.T, f *fleet, c *chain, first uint64) (whole bool) {
	v := New(Kept)
	k := check(t, v, f, c)
	quiet := time.Now().Add(time.Second) // by then agents know that somebody watches
	f.watch(v, func(*Picture) bool { return time.Now().Before(quiet) })
	streams := streamsOf(v)

	before := slices.Clone(c.loggedEvents)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.run(ctx, t, handlers.Options{}, first, 2000) })
	spans := []string{"[source/send sink/recv]", "source/send work/recv", "work/recv work/send",
		"work/send sink/recv"}
	seen, ended := 0, false
	look := func(lasts time.Duration) (last *Picture) {
		end := time.Now().Add(lasts)
		f.watch(v, func(p *Picture) bool {
			k.picture(p)
			last = p
			// Until a sampled tuple has reached the last point of the chain, pictures show paths
			// that end at earlier points.
			ended = ended || slices.Contains(names(p), spans[0])
			for _, span := range names(p) {
				if ended && !slices.Contains(spans, span) {
					t.Errorf("a picture has the span %s, with the notes %q", span, p.Notes)
				}
			}
			if len(names(p)) == len(spans) {
				seen++
			}
			return time.Now().Before(end)
		})
		return last
	}
	look(6 * time.Second)
	stop()
	running.Wait()
	last := look(2 * time.Second)
	t.Logf("%d durations and %d percentiles were checked in %d pictures", k.checked, k.percentiles,
		seen)
	if streamsOf(v) != streams {
		return false
	}
	for i, name := range c.points {
		for _, p := range last.Points {
			if logged := c.loggedEvents[i] - before[i]; p.Name == name && p.Events != logged {
				t.Errorf("%s has %d events, and %d were logged", name, p.Events, logged)
			}
		}
	}
	if k.checked < 10_000 || k.percentiles < 10 || seen < 10 || len(last.Points) != 4 {
		t.Errorf("too little to check: %+v", last)
	}
	return true
}

// streamsOf lists, for each node, the name of its stream and the time at which the View last
// noticed a missing Sample of the node.
func streamsOf(v *View) (all string) {
	for _, name := range slices.Sorted(maps.Keys(v.nodes)) {
		all += fmt.Sprintln(name, v.nodes[name].stream, v.nodes[name].missedSample.UnixNano())
	}
	return all
}
