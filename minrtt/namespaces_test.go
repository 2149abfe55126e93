package minrtt

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Two processes in two network namespaces exchange trains over a pair of virtual interfaces. Both
// processes read one counter, so the true relation is known, and no exchange may contradict it. The
// test's log (-v) shows how narrow the bounds are.
func TestPrivilegedTrainsBetweenNamespaces(t *testing.T) {
	privileged.Need(t)
	pair, err := netns.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	const trains = 100
	for _, tc := range []struct {
		name string
		addr netip.Addr
		spin time.Duration
		load bool
	}{
		{"IPv4, blocking", pair.Addr(1), 0, false},
		{"IPv6, blocking", pair.Addr6(1), 0, false},
		{"IPv4, spinning", pair.Addr(1), time.Millisecond, false},
		{"IPv4, blocking, under TCP", pair.Addr(1), 0, true},
		{"IPv6, spinning, under TCP", pair.Addr6(1), time.Millisecond, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.load {
				fillLink(t, pair)
			}
			user := trainsBetween(t, pair, tc.addr, tc.spin, trains, true)
			kernel := trainsBetween(t, pair, tc.addr, tc.spin, trains, false)
			logWidths(t, "user stamps", user, Train.User)
			logWidths(t, "kernel stamps", kernel, Train.Best)
			for _, e := range kernel[trains-1].Exchanges {
				if got := sourcesOf(e); got != allKernel.expectedSources(e) {
					t.Errorf("exchange %d of the last train: %v, want kernel stamps",
						e.Sequence, got)
				}
			}
		})
	}
}

// trainsBetween runs trains from namespace 0 to namespace 1.
func trainsBetween(
	t *testing.T, pair *netns.Pair, addr netip.Addr, spin time.Duration, trains int, userOnly bool,
) []Train {
	t.Helper()
	stamps := map[bool]string{true: "user", false: "kernel"}[userOnly]
	how := fmt.Sprintf("%v,%v,%s", netip.AddrPortFrom(addr, 0), spin, stamps)
	peer := startProcess(t, how, func(c *exec.Cmd) error { return pair.Do(1, c.Start) })
	var u *UDP
	err := pair.Do(0, func() (err error) {
		u, err = DialUDP(peer,
			UDPConfig{Counter: asm.Counter, Spin: spin, UserStampsOnly: userOnly})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	clock, done, err := machineClock()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	config := DefaultConfig()
	config.Key = testKey
	config.Timeout = 3 * time.Second // on a crowded machine, the other process may be slow to run
	p, err := NewProber(u, clock, peer, config)
	if err != nil {
		t.Fatal(err)
	}
	var all []Train
	for range trains {
		tr, err := p.Train(t.Context())
		if err != nil {
			t.Fatalf("%v; %+v", err, tr.Counts)
		}
		if tr.Counts.Outside != 0 {
			t.Errorf("%d kernel stamps outside of the user stamps", tr.Counts.Outside)
		}
		all = append(all, tr)
		time.Sleep(3 * time.Millisecond) // so that CPUs sleep between trains, as usual
	}
	return all
}

// logWidths logs how well the trains determine the offset between the two counters. It logs half
// the width of the interval that the trains prove for this offset. It compares every exchange with
// the true offset, which is 0, except that two cores of one machine may differ by slack_cycles.
func logWidths(t *testing.T, name string, trains []Train, stamps func(Train) []tscratio.Exchange) {
	t.Helper()
	const slack_cycles = 500
	us := func(cycles float64) float64 { return cycles / counter_hz(t) * 1e6 }
	var plains, intersections, widths []float64
	best, lo, hi := math.Inf(1), math.Inf(-1), math.Inf(1)
	for _, tr := range trains {
		trainPlain, trainLo, trainHi := math.Inf(1), math.Inf(-1), math.Inf(1)
		for _, e := range stamps(tr) {
			out := float64(int64(e.Received.Hi - e.Sent.Lo))
			back := float64(int64(e.Returned.Hi - e.Answered.Lo))
			if out < -slack_cycles || back < -slack_cycles {
				t.Errorf("%s: %+v: received before sent", name, e)
			}
			trainPlain = min(trainPlain, (out+back)/2)
			trainLo, trainHi = max(trainLo, -out), min(trainHi, back)
			widths = append(widths, float64(e.Sent.Width()))
		}
		plains, intersections = append(plains, trainPlain),
			append(intersections, (trainHi-trainLo)/2)
		best, lo, hi = min(best, trainPlain), max(lo, trainLo), min(hi, trainHi)
	}
	t.Logf("%-13s a train's half-width: plain %.3f µs, intersected %.3f µs (medians of %d); all: "+
		"plain %.3f µs, intersected %.3f µs; a stamp is %.0f ns wide",
		name, us(median(plains)), us(median(intersections)), len(trains), us(best), us((hi-lo)/2),
		us(median(widths))*1000)
}

func median(v []float64) float64 {
	slices.SortFunc(v, cmp.Compare)
	return v[len(v)/2]
}

var measured_hz float64

// counter_hz returns the counter's frequency, accurate enough for a line of a log.
func counter_hz(t *testing.T) float64 {
	t.Helper()
	if measured_hz == 0 {
		begin, from := time.Now(), asm.Counter()
		time.Sleep(20 * time.Millisecond)
		measured_hz = float64(asm.Counter()-from) / time.Since(begin).Seconds()
	}
	return measured_hz
}

// fillLink sends TCP data at the highest rate that the link carries, until the test ends.
func fillLink(t *testing.T, pair *netns.Pair) {
	t.Helper()
	var l net.Listener
	if err := pair.Do(1, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(pair.Addr(1), 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var c net.Conn
	if err := pair.Do(0, func() (err error) {
		c, err = net.Dial("tcp", l.Addr().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, accepted) }()
	go func() {
		for b := make([]byte, 1<<17); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _, _, _ = c.Close(), accepted.Close(), l.Close() })
}
