package clock

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// operations returns the operations of clocks of 64 processes, each by its name. Each stamp holds
// the epochs of 4 processes.
func operations(tb testing.TB) map[string]func() {
	e := Uniform(1000)
	make4 := func(process int, others ...int) *Clock {
		c := New(process, e)
		for i, p := range others {
			o := New(p, e)
			o.Local(1_000_000 + int64(i))
			c.Receive(1_000_001, o.Stamp())
		}
		return c
	}
	a, b := make4(20, 7, 33, 60), make4(33, 7, 20, 41)
	if len(a.Stamp().Held()) != 4 || len(b.Stamp().Held()) != 4 {
		tb.Fatalf("the stamps hold %d and %d processes, want 4", len(a.Stamp().Held()),
			len(b.Stamp().Held()))
	}
	const period = 900 // the others stay within epsilon
	var sent, m Stamp
	sent.Copy(a.Stamp())
	m.Copy(b.Stamp())
	i := int64(0)
	fresh := func(c *Clock) { // every operation begins with 4 known epochs held
		c.now.Max, c.now.held = sent.Max, append(c.now.held[:0], sent.held...)
	}
	c, d, like := make4(20, 7, 33, 60), make4(20, 7, 33, 60), make4(60, 7, 20, 33)
	return map[string]func(){
		"local": func() {
			if i++; i%period == 0 {
				fresh(c)
			}
			c.Local(1_000_001 + i%period)
		},
		"send": func() {
			if i++; i%period == 0 {
				fresh(c)
			}
			c.Send(1_000_001 + i%period)
		},
		"receive": func() {
			if i++; i%period == 0 {
				fresh(d)
			}
			d.Receive(1_000_002+i%period, like.Stamp())
		},
		"compare": func() {
			if Compare(&sent, &m, e) != Concurrent {
				panic("the stamps are ordered")
			}
		},
	}
}

func BenchmarkClock(b *testing.B) {
	all := operations(b)
	for _, name := range []string{"local", "send", "receive", "compare"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			do := all[name]
			for b.Loop() {
				do()
			}
		})
	}
}

func TestOperationsDoNotAllocate(t *testing.T) {
	for name, do := range operations(t) {
		do()
		if n := testing.AllocsPerRun(2000, do); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// The cost of an operation depends on what the stamps hold, not on how many processes there are.
func TestBarOperation(t *testing.T) {
	proof.Begin(t)
	if seed.Race {
		t.Skip("the race detector is slow")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var bars []proof.Bar
	for name, do := range operations(t) {
		var each []float64
		for range 9 {
			const times = 2_000_000
			start := threadTime(t)
			for range times {
				do()
			}
			each = append(each, float64(threadTime(t)-start)/times)
		}
		bars = append(bars, proof.Bar{
			Name:  fmt.Sprintf("replay clock, 64 processes, 4 offsets held: %s", name),
			Limit: 30, Unit: "ns", Timing: true,
		}.From(each))
	}
	proof.Check(t, bars...)
}

// threadTime is how long a core has worked for this thread. It does not pass while other programs
// have the core.
func threadTime(t *testing.T) time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
