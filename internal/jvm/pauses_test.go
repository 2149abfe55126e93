package jvm

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// collectorFlags are the JVM's flags that choose one of its five garbage collectors.
var collectorFlags = []string{"UseSerialGC", "UseParallelGC", "UseG1GC", "UseZGC",
	"UseShenandoahGC"}

// From the beginning of main to its end, the agent logs every pause that is in the JVM's own log,
// with the same times. The JVM's log gives times of CLOCK_MONOTONIC. To compare them with the
// counter, this process reads both together every 10 ms.
func TestBarJavaPauses(t *testing.T) {
	seconds, chosen := 0.7, []string{"UseG1GC", "UseZGC"}
	if proof.Begin(t) == proof.Full {
		seconds, chosen = 15, collectorFlags
	}
	dir := t.TempDir()
	kit, err := Build(dir)
	if err != nil {
		proof.Check(t, proof.Bar{Name: "pauses found", Unit: "%", Absent: err.Error()})
		return
	}
	for _, java := range kit.Javas {
		if java.Release == 21 {
			continue // the bar is about Java 17 and 25; of Java 21 only a runtime is here
		}
		for _, collector := range chosen {
			rings := filepath.Join(dir, fmt.Sprint(java.Release, collector))
			if err := os.Mkdir(rings, 0o700); err != nil {
				t.Fatal(err)
			}
			judgePauses(t, kit, java, collector, rings, seconds)
		}
	}
}

func judgePauses(t *testing.T, kit *Kit, java Java, collector, rings string, seconds float64) {
	agent, err := kit.Pauses(filepath.Dir(rings), rings)
	if err != nil {
		t.Fatal(err)
	}
	jvmLog := rings + ".log"
	clock := beginClock()
	out, err := kit.With(java, []string{agent, "-Xmx192m", "-XX:+" + collector,
		"-Xlog:gc*=info,safepoint=debug,vmthread=debug:file=" + jvmLog + ":tn:filecount=0"},
		"Pauser", fmt.Sprint(seconds)).CombinedOutput()
	clock.end()
	if err != nil {
		t.Fatalf("%s: %v\n%s", collector, err, out)
	}
	if strings.Contains(string(out), "cloudprofiler:") {
		t.Errorf("the agent says:\n%s", out)
	}
	var began_ns, ended_ns int64
	_, err = fmt.Sscanf(string(out), "begins at %d\nends at %d", &began_ns, &ended_ns)
	if err != nil {
		t.Fatalf("%s: when main began and ended is not known: %v\n%s", collector, err, out)
	}
	told := readTold(t, jvmLog)
	found := readFound(t, rings)
	logged := len(found)
	within, missed, around, bounds_ns, worst_ns := 0, 0, 0, []float64{}, 0.0
	for n, p := range told {
		i := slices.IndexFunc(found, func(f foundPause) bool {
			return clock.off(&p, &f) <= clock.bound_ns(&f)+1000
		})
		if i < 0 && (p.most_ns < began_ns || p.ended_ns > ended_ns) {
			around++ // the agent was starting, or the JVM was ending
			continue
		}
		if i < 0 {
			if missed++; missed <= 10 {
				t.Logf("%d %s: not found: %d of %d: %+v", java.Release, collector, n, len(told), p)
			}
			continue
		}
		within++
		worst_ns = max(worst_ns, clock.off(&p, &found[i]))
		bounds_ns = append(bounds_ns, clock.bound_ns(&found[i]))
		found = slices.Delete(found, i, i+1)
	}
	slices.Sort(bounds_ns)
	name := fmt.Sprintf("Java %d, %s", java.Release, collector)
	if len(bounds_ns) == 0 {
		t.Fatalf("%s: none of %d pauses found; the agent logged %d", name, len(told), logged)
	}
	wanted := len(told) - around
	t.Logf("%s: %d of %d pauses, and %d from before or after main not; bounds: median %.0f ns, "+
		"largest %.0f ns; farthest from where the JVM's log says: %.0f ns", name, within, wanted,
		around, bounds_ns[len(bounds_ns)/2], bounds_ns[len(bounds_ns)-1], worst_ns)
	proof.Check(t, proof.Bar{Name: "pauses found, " + name, Unit: "%", Limit: 99.9, AtLeast: true,
		Figure: 100 * float64(within) / float64(wanted)},
		proof.Bar{Name: "pauses logged, " + name, Unit: "pauses", AtLeast: true,
			Figure: float64(len(told)), Limit: 20},
		proof.Bar{Name: "pauses that the JVM did not log, " + name, Unit: "pauses",
			Figure: float64(len(found))})
}

// toldPause is what the JVM's log says about a pause: the times of two lines between which the
// pause began, the time of a line before which it had ended, and how long it took.
type toldPause struct {
	name                                string
	least_ns, most_ns, ended_ns         int64
	reaching_ns, total_ns, collected_ns int64
}

var (
	toldLine   = regexp.MustCompile(`^\[(\d+)ns\s*\] ?(.*)$`)
	toldBefore = regexp.MustCompile(`^(Evaluating|Executing) +safepoint VM operation: `)
	toldEnd    = regexp.MustCompile(`^Safepoint "(.*)", .*Reaching safepoint: (\d+) ns, .*` +
		`Total: (\d+) ns`)
)

func readTold(t *testing.T, path string) (all []toldPause) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p toldPause
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := toldLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at := number(t, m[1])
		switch end := toldEnd.FindStringSubmatch(m[2]); {
		case toldBefore.MatchString(m[2]):
			p.least_ns = at
		case strings.HasPrefix(m[2], "Safepoint synchronization initiated"):
			p.most_ns = at
		case strings.HasPrefix(m[2], "GC(") && strings.Contains(m[2], " Pause ") &&
			strings.HasSuffix(m[2], "ms"):
			p.collected_ns = at
		case end != nil:
			p.name, p.ended_ns = end[1], at
			p.reaching_ns, p.total_ns = number(t, end[2]), number(t, end[3])
			all = append(all, p)
			p = toldPause{}
		}
	}
	return all
}

func number(t *testing.T, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// foundPause is a pause that the agent logged.
type foundPause struct {
	begin, stopped, end uint64
	bound_cycles        uint64
}

func readFound(t *testing.T, rings string) (all []foundPause) {
	files, err := filepath.Glob(filepath.Join(rings, "*.ring"))
	if err != nil || len(files) != 1 {
		t.Fatalf("rings: %q, %v", files, err)
	}
	r, err := ring.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	byNumber := map[uint64]*foundPause{}
	state, err := r.State(0)
	if err != nil {
		t.Fatal(err)
	}
	records := make([]ring.Record, state.Tail-state.Head)
	if _, n, _, err := r.Copy(0, state.Head, records); err != nil || n < len(records) {
		t.Fatalf("%d of %d records, %v", n, len(records), err)
	}
	for _, e := range records {
		p := byNumber[e.ID>>32]
		if p == nil {
			p = &foundPause{}
			byNumber[e.ID>>32] = p
		}
		*[]*uint64{&p.begin, &p.stopped, &p.end}[e.ID>>8&0xFF] = e.Counter
		p.bound_cycles = max(p.bound_cycles, e.ID>>16&0xFFFF)
	}
	for _, number := range slices.Sorted(maps.Keys(byNumber)) {
		all = append(all, *byNumber[number])
	}
	return all
}

// clock relates CLOCK_MONOTONIC and the counter. This process reads both together from time to
// time.
type clock struct {
	done  chan struct{}
	group sync.WaitGroup
	looks [][2]float64 // pairs of time in ns and counter in cycles, since the first look
	zero  [2]uint64
}

func beginClock() *clock {
	c := &clock{done: make(chan struct{})}
	c.look()
	c.group.Go(func() {
		for {
			select {
			case <-c.done:
				return
			case <-time.After(10 * time.Millisecond):
				c.look()
			}
		}
	})
	return c
}

func (c *clock) end() {
	close(c.done)
	c.group.Wait()
	c.look()
}

func (c *clock) look() {
	least := ^uint64(0)
	var ns, cycles uint64
	for range 20 {
		lo := asm.Counter()
		var at unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &at) != nil {
			continue
		}
		if hi := asm.Counter(); hi-lo < least {
			least, ns, cycles = hi-lo, uint64(at.Nano()), lo+(hi-lo)/2
		}
	}
	if c.looks == nil {
		c.zero = [2]uint64{ns, cycles}
	}
	c.looks = append(c.looks, [2]float64{float64(ns - c.zero[0]), float64(cycles - c.zero[1])})
}

// ns converts a reading of the counter into a time, in ns since this process first read both.
func (c *clock) ns(cycles uint64) float64 {
	x := float64(int64(cycles - c.zero[1]))
	i, _ := slices.BinarySearchFunc(c.looks, x, func(l [2]float64, x float64) int {
		if l[1] < x {
			return -1
		}
		return 1
	})
	i = min(max(i, 1), len(c.looks)-1)
	a, b := c.looks[i-1], c.looks[i]
	return a[0] + (x-a[1])*(b[0]-a[0])/(b[1]-a[1])
}

// bound_ns returns how far the true times of a pause may be from those that the agent logged,
// according to the agent.
func (c *clock) bound_ns(f *foundPause) float64 {
	last := c.looks[len(c.looks)-1]
	return float64(f.bound_cycles) * last[0] / last[1]
}

// off returns by how many ns the times of a pause that the agent logged contradict the JVM's log.
func (c *clock) off(p *toldPause, f *foundPause) float64 {
	begin, stopped, end := c.ns(f.begin), c.ns(f.stopped), c.ns(f.end)
	since := func(ns int64) float64 { return float64(ns - int64(c.zero[0])) }
	off := max(end-since(p.ended_ns),
		end-begin-float64(p.total_ns), begin+float64(p.total_ns)-end,
		stopped-begin-float64(p.reaching_ns), begin+float64(p.reaching_ns)-stopped, 0)
	if p.least_ns != 0 {
		off = max(off, since(p.least_ns)-begin)
	}
	if p.most_ns != 0 {
		off = max(off, begin-since(p.most_ns))
	}
	if p.collected_ns != 0 { // the JVM writes the line of a collection during the pause
		off = max(off, stopped-since(p.collected_ns), since(p.collected_ns)-end)
	}
	return off
}
