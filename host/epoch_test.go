package host

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// node is a simulated machine. Its counter runs at 2.6 GHz. Its time passes only when a clock is
// read or the function wait is called.
type node struct {
	now_ns  int64 // time awake since boot
	slept   int64
	reads   int64
	offset  uint64
	quantum uint64
	files   fstest.MapFS
}

const bootID = "8ce516b9-3f44-494e-8484-26adc0465027"

func newNode() *node {
	return &node{now_ns: 5_000_000_000, offset: 1 << 40, quantum: 26, files: fstest.MapFS{
		"proc/sys/kernel/random/boot_id":       {Data: []byte(bootID + "\n")},
		clocksourceDir + "current_clocksource": {Data: []byte("kvm-clock\n")},
	}}
}

func (n *node) counter() uint64 {
	n.reads++
	n.now_ns += 10 + n.reads*7919%101 // each reading takes a different time
	v := n.offset + uint64(n.now_ns)*26/10
	return v - v%n.quantum
}

func (n *node) clocks() Clocks {
	read := func(v func() int64) func() (int64, error) {
		return func() (int64, error) {
			n.now_ns += 100
			now := v()
			n.now_ns += 100
			return now, nil
		}
	}
	return Clocks{
		EdgeOpen: n.counter, EdgeClose: n.counter,
		Raw_ns:       read(func() int64 { return n.now_ns }),
		Monotonic_ns: read(func() int64 { return n.now_ns }),
		Boottime_ns:  read(func() int64 { return n.now_ns + n.slept }),
	}
}

func (n *node) wait(d time.Duration) { n.now_ns += int64(d) }

func (n *node) set(name, text string) { n.files[name] = &fstest.MapFile{Data: []byte(text)} }

func (n *node) watch(t *testing.T, change func(*WatchOptions)) *Watch {
	t.Helper()
	o := WatchOptions{
		Observe: Observer{Root: n.files, Clocks: n.clocks()}.Observe, Widen_cycles: n.quantum,
		token: func() string { return "token" },
	}
	if change != nil {
		change(&o)
	}
	w, err := NewWatch(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func check(t *testing.T, w *Watch) State {
	t.Helper()
	s, err := w.Check()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func reasons(s State) []Reason {
	var r []Reason
	for _, b := range s.Breaks {
		r = append(r, b.Reason)
	}
	return r
}

func TestAnUnbrokenEpochStaysOne(t *testing.T) {
	n := newNode()
	w := n.watch(t, nil)
	first := w.Epoch()
	r := seed.Random(t)
	for range 1000 {
		n.wait(time.Duration(r.Int64N(int64(3 * time.Second))))
		if s := check(t, w); !s.Unbroken || s.Epoch != first || len(s.Breaks) > 0 {
			t.Fatalf("state = %+v, want unbroken in %v", s, first)
		}
	}
	s := check(t, w)
	if s.Frequency == nil || !s.Frequency.Contains(2_600_000_000_000) ||
		s.Frequency.Uncertainty_ppb() > 50 {
		t.Errorf("frequency = %v, want 2600 MHz, known better with age", s.Frequency)
	}
	if want := bootID + ".s0.v-.n-"; first.String() != want {
		t.Errorf("epoch = %q, want %q", first, want)
	}
}

func TestWhatBreaksAnEpoch(t *testing.T) {
	tests := map[string]struct {
		happens func(n *node)
		want    []Reason
		epoch   string
	}{
		"nothing": {func(n *node) {}, nil, bootID + ".s0.v7-3.n-"},
		"boot": {func(n *node) {
			n.set("proc/sys/kernel/random/boot_id", "other\n")
			n.offset = 0
			n.slept = 9e9
		}, []Reason{Booted}, "other.s563.v7-3.n-"},
		"suspend": {func(n *node) { n.slept += 60_000_000_000 },
			[]Reason{Suspended}, bootID + ".s3750.v7-3.n-"},
		"short suspend": {func(n *node) { n.slept += 1_000_000 },
			[]Reason{Suspended}, bootID + ".s0.v7-3.ntoken"},
		"suspend that reset the counter": {func(n *node) {
			n.slept += 60_000_000_000
			n.offset = -(uint64(n.now_ns) * 26 / 10)
		}, []Reason{Suspended, WentBack}, bootID + ".s3750.v7-3.n-"},
		"migration that says so": {func(n *node) {
			n.files["dev/vmclock0"].Data = vmclockPage(8, 3)
		}, []Reason{Disrupted}, bootID + ".s0.v8-3.n-"},
		"restore that says so": {func(n *node) {
			n.files["dev/vmclock0"].Data = vmclockPage(7, 4)
		}, []Reason{Restored}, bootID + ".s0.v7-4.n-"},
		"VMClock goes away": {func(n *node) { delete(n.files, "dev/vmclock0") },
			[]Reason{Disrupted}, bootID + ".s0.v-.n-"},
		"forward jump": {func(n *node) { n.offset += 1_000_000 },
			[]Reason{Jumped}, bootID + ".s0.v7-3.ntoken"},
		"far forward jump": {func(n *node) { n.offset += 1 << 61 },
			[]Reason{Jumped}, bootID + ".s0.v7-3.ntoken"},
		"backward jump": {func(n *node) { n.offset -= 1_000_000 },
			[]Reason{Jumped}, bootID + ".s0.v7-3.ntoken"},
		"far backward jump": {func(n *node) { n.offset -= 1 << 39 },
			[]Reason{WentBack}, bootID + ".s0.v7-3.ntoken"},
		"clocksource": {func(n *node) {
			n.set(clocksourceDir+"current_clocksource", "hpet\n")
		}, []Reason{ClocksourceChanged}, bootID + ".s0.v7-3.ntoken"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			n.files["dev/vmclock0"] = &fstest.MapFile{Data: vmclockPage(7, 3)}
			w := n.watch(t, nil)
			n.wait(2 * time.Second)
			check(t, w) // this Check measures the rate
			n.wait(time.Second)
			test.happens(n)
			s := check(t, w)
			if !slices.Equal(reasons(s), test.want) || s.Unbroken != (test.want == nil) {
				t.Fatalf("breaks = %+v, want %v", s.Breaks, test.want)
			}
			if s.Epoch.String() != test.epoch || w.Epoch() != s.Epoch {
				t.Errorf("epoch = %v, want %v", s.Epoch, test.epoch)
			}
			if test.want != nil && (s.finding().Verdict != Unfit || s.finding().Remedy == "") {
				t.Errorf("finding = %+v, want unfit with a remedy", s.finding())
			}
			n.wait(2 * time.Second)
			if s := check(t, w); !s.Unbroken {
				t.Errorf("the new epoch is broken: %+v", s.Breaks)
			}
		})
	}
}

func TestJumpsAboveTheThresholdAreSeenAndNoOthersInvented(t *testing.T) {
	r := seed.Random(t)
	for range 300 {
		n := newNode()
		n.quantum = 1 + r.Uint64N(40)
		w := n.watch(t, nil)
		n.wait(1500 * time.Millisecond)
		check(t, w)
		n.wait(time.Duration(r.Int64N(int64(5 * time.Second))))
		threshold := check(t, w).Threshold_cycles
		if threshold == 0 {
			t.Fatal("no threshold though the rate is known")
		}
		n.wait(time.Second)
		// A jump of at least this length shows even over the longest span that Check compares, 6 s.
		// The drift limit is ± 20 ppm. So the fastest and the slowest rate that the limit allows
		// are 40 ppm apart.
		sure := threshold + 6_000_000_000*26/10*40/1_000_000
		jump := sure + r.Uint64N(1<<uint(22+r.IntN(18)))
		if r.IntN(2) == 0 {
			jump = -min(jump, 1<<40)
		}
		n.offset += jump
		if s := check(t, w); s.Unbroken {
			t.Fatalf("jump by %d over a threshold of %d not seen", int64(jump), threshold)
		}
	}
	n := newNode()
	w := n.watch(t, nil)
	n.wait(2 * time.Second)
	check(t, w)
	n.wait(time.Second)
	n.offset += 20_000 // 7.7 µs in a second: less than the drift limit
	if s := check(t, w); !s.Unbroken {
		t.Errorf("7.7 ppm counted as a jump: %+v", s.Breaks)
	}
}

func TestTheShorterSpanSeesTheSmallerJump(t *testing.T) {
	n := newNode()
	w := n.watch(t, func(o *WatchOptions) { o.Settle = 10 * time.Second })
	n.wait(10 * time.Second)
	check(t, w)
	n.wait(5 * time.Second)
	check(t, w)
	n.wait(10 * time.Millisecond)
	n.offset += 20_000
	if s := check(t, w); !slices.Equal(reasons(s), []Reason{Jumped}) {
		t.Errorf("state = %+v, want a jump", s)
	}
}

func TestADriftingCrystalIsNoJump(t *testing.T) {
	for _, drift_cycles := range []int64{-39_000, 39_000} { // 15 ppm
		n := newNode()
		n.quantum = 1
		w := n.watch(t, nil)
		n.wait(time.Second)
		check(t, w)
		n.wait(time.Second)
		n.offset += uint64(drift_cycles)
		if s := check(t, w); !s.Unbroken {
			t.Errorf("drift by %d cycles in a second: %+v", drift_cycles, s.Breaks)
		}
	}
}

func TestTokensAreForWhatMarkersCannotTell(t *testing.T) {
	n := newNode()
	tokens := 0
	w := n.watch(t, func(o *WatchOptions) {
		o.token = func() string { tokens++; return string(rune('a' + tokens)) }
	})
	happens := func(f func(), want string) {
		t.Helper()
		n.wait(2 * time.Second)
		check(t, w)
		f()
		if s := check(t, w); s.Unbroken || s.Epoch.String() != bootID+want {
			t.Errorf("epoch = %v, want %s", s.Epoch, want)
		}
	}
	happens(func() { n.offset += 1 << 40 }, ".s0.v-.nb")
	happens(func() { n.offset += 1 << 40 }, ".s0.v-.nc")
	happens(func() { n.slept += 1_000_000 }, ".s0.v-.nd")
	// This epoch has no token, because every process can see the suspend by itself.
	happens(func() { n.slept += 160_000_000 }, ".s10.v-.n-")
}

func TestTheNarrowestReadingsCount(t *testing.T) {
	n := newNode()
	c := n.clocks()
	quick, tries := c.Boottime_ns, 0
	c.Boottime_ns = func() (int64, error) {
		if tries++; tries != 3 {
			n.wait(time.Millisecond)
		}
		return quick()
	}
	if lo, hi, err := c.suspendedTime(); err != nil || hi-lo > 1000 || lo > 0 || hi < 0 {
		t.Errorf("suspended = [%d, %d], %v; want the third, undisturbed reading around 0",
			lo, hi, err)
	}
	raw := c.Raw_ns
	tries = 0
	c.Raw_ns = func() (int64, error) {
		if tries++; tries != 5 {
			n.wait(time.Millisecond)
		}
		return raw()
	}
	if b, err := c.Bracket(); err != nil || b.Width_cycles() > 3000 {
		t.Errorf("bracket = %+v, %v; want the fifth, undisturbed one", b, err)
	}
	c.Raw_ns = func() (int64, error) { return 0, errors.New("no clock") }
	if _, err := c.Bracket(); err == nil {
		t.Error("a clock that fails gave a bracket")
	}
}

func TestSmallJumpsAddUp(t *testing.T) {
	n := newNode()
	w := n.watch(t, func(o *WatchOptions) { o.Settle = 10 * time.Second })
	n.wait(10 * time.Second)
	check(t, w)
	for i := range 200 {
		n.wait(10 * time.Millisecond)
		n.offset += 900 // 35 ppm; the brackets are too wide to show one jump of this length
		if s := check(t, w); !s.Unbroken {
			if i == 0 {
				t.Error("the first of them was seen: the test shows nothing")
			}
			return
		}
	}
	t.Error("two hundred small jumps were not seen")
}

func TestRestoresThatTheKernelAnnounces(t *testing.T) {
	n := newNode()
	var restores uint64
	var lost bool
	w := n.watch(t, func(o *WatchOptions) {
		observe := o.Observe
		o.Observe = func() (Observation, error) {
			now, err := observe()
			now.Restores, now.RestoresLost = restores, lost
			return now, err
		}
	})
	restores++
	if s := check(t, w); !slices.Equal(reasons(s), []Reason{Restored}) || s.Epoch.Token != "token" {
		t.Errorf("state = %+v, want restored, with a token", s)
	}
	lost = true
	if s := check(t, w); !slices.Equal(reasons(s), []Reason{Restored}) {
		t.Errorf("state = %+v, want restored, because announcements were lost", s)
	}
	if s := check(t, w); !s.Unbroken {
		t.Errorf("state = %+v, want unbroken: the loss was reported once", s)
	}
}

func TestAWatchContinuesWhereAnotherEnded(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(n *node)
		want    []Reason
	}{
		"nothing": {func(n *node) {}, nil},
		"boot": {func(n *node) { n.set("proc/sys/kernel/random/boot_id", "other") },
			[]Reason{Booted}},
		"jump": {func(n *node) { n.offset += 1 << 40 }, []Reason{Jumped}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			w := n.watch(t, nil)
			n.offset -= 1 << 35 // a jump, which gives the saved epoch a token
			check(t, w)
			n.wait(2 * time.Second)
			check(t, w)
			text, err := json.Marshal(w.Save())
			if err != nil {
				t.Fatal(err)
			}
			var saved Saved
			if err := json.Unmarshal(text, &saved); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			n.wait(time.Minute)
			test.happens(n)
			next := n.watch(t, func(o *WatchOptions) { o.From = &saved })
			if next.Epoch() != w.Epoch() {
				t.Errorf("epoch = %v, want %v", next.Epoch(), w.Epoch())
			}
			s := check(t, next)
			if !slices.Equal(reasons(s), test.want) || s.Unbroken && s.Epoch != w.Epoch() {
				t.Errorf("state = %+v, want %v", s, test.want)
			}
		})
	}
}

func TestLookingFails(t *testing.T) {
	n := newNode()
	w := n.watch(t, nil)
	before := w.Epoch()
	delete(n.files, "proc/sys/kernel/random/boot_id")
	if _, err := w.Check(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Check = %v, want the missing file", err)
	}
	n.set("proc/sys/kernel/random/boot_id", bootID)
	n.set("dev/vmclock0", "too short")
	if _, err := w.Check(); !errors.Is(err, ErrVMClock) {
		t.Errorf("Check = %v, want ErrVMClock", err)
	}
	if w.Epoch() != before {
		t.Error("an error changed the epoch")
	}
	fails := func() (Observation, error) { return Observation{}, errors.New("no") }
	if _, err := NewWatch(WatchOptions{Observe: fails}); err == nil {
		t.Error("a watch that sees nothing began")
	}
}

func TestTimeNamespacesDoNotLookLikeSleep(t *testing.T) {
	n := newNode()
	n.slept = 7_000_000_000
	n.set("proc/self/timens_offsets",
		"monotonic           0         0\nboottime            7  000000000\n")
	if e := n.watch(t, nil).Epoch(); e.Sleep != 0 {
		t.Errorf("epoch = %v, want no sleep", e)
	}
	n.set("proc/self/timens_offsets",
		"monotonic           -3         500\nboottime            0         0\n")
	n.slept = 3_000_000_000 - 500
	if e := n.watch(t, nil).Epoch(); e.Sleep != 0 {
		t.Errorf("epoch = %v, want no sleep", e)
	}
}

func TestEpochsAsText(t *testing.T) {
	for _, e := range []Epoch{
		{Boot: bootID}, {Boot: bootID, Sleep: 3750, Token: "a1"}, {Boot: "b", HasVMClock: true},
		{Boot: "b", Sleep: -1, HasVMClock: true, Disruption: math.MaxUint64, Generation: 0xabc,
			Token: "ff"},
	} {
		got, err := ParseEpoch(e.String())
		if err != nil || got != e {
			t.Errorf("ParseEpoch(%q) = %+v, %v", e, got, err)
		}
	}
	for _, text := range []string{"", "x", "b.s0.v-", "b.s0.v-.n-.n-", ".s0.v-.n-", "b.0.v-.n-",
		"b.sx.v-.n-", "b.s0.-.n-", "b.s0.v1.n-", "b.s0.vx-1.n-", "b.s0.v01-1.n-", "b.s0.v-.n",
		"b.s0.v-.x", "b.s+1.v-.n-"} {
		if e, err := ParseEpoch(text); !errors.Is(err, ErrEpochText) {
			t.Errorf("ParseEpoch(%q) = %+v, %v; want ErrEpochText", text, e, err)
		}
	}
}

func FuzzParseEpoch(f *testing.F) {
	f.Add(bootID + ".s0.v7-3.n-")
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := ParseEpoch(text); err == nil && e.String() != text {
			t.Fatalf("%q became %q", text, e)
		}
	})
}

func TestThisMachineRunsUnbroken(t *testing.T) {
	o := Observer{Root: SystemOptions().Root, Clocks: SystemClocks()}
	w, err := NewWatch(WatchOptions{Observe: o.Observe, Widen_cycles: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if s := check(t, w); !s.Unbroken {
			t.Fatalf("state = %+v", s)
		}
	}
}
