package host

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrEpochText is returned when a text is not an epoch.
var ErrEpochText = errors.New("not an epoch")

// Epoch names a span of time in which a node's counter ran unbroken. Two values or texts name the
// same epoch if and only if they are equal. Readings of a node may be compared only if they belong
// to the same epoch.
//
// Processes compute the epoch independently, and mostly come to the same result. But some breaks
// are noticed only by a Watch that runs when they happen. After such a break, the Watch adds a
// random Token to the epoch. So on each node, one Watch should name the epoch for all processes.
type Epoch struct {
	Boot       string // the kernel's boot id
	Sleep      int64  // time spent suspended since boot, in steps of 16 ms
	Disruption uint64 // hypervisor's marker (see VMClock); 0: none
	Generation uint64
	HasVMClock bool
	Token      string // "" unless a break happened that changed no field above
}

// sleepStep_ns is the step in which Epoch.Sleep counts. A suspend takes far longer. Two processes
// may measure the time slept differently, by at most some hundred nanoseconds. In about one of 10^5
// suspends, a step ends between their two values. Then their epochs differ.
const sleepStep_ns = 16_000_000

func (e Epoch) String() string {
	vmclock, token := "-", "-"
	if e.HasVMClock {
		vmclock = fmt.Sprintf("%x-%x", e.Disruption, e.Generation)
	}
	if e.Token != "" {
		token = e.Token
	}
	return fmt.Sprintf("%s.s%d.v%s.n%s", e.Boot, e.Sleep, vmclock, token)
}

// ParseEpoch reads a text that String wrote. If the text is not an epoch, the error wraps
// ErrEpochText.
func ParseEpoch(text string) (Epoch, error) {
	wrong := func(what string) (Epoch, error) {
		return Epoch{}, fmt.Errorf("parse epoch %q: %s: %w", text, what, ErrEpochText)
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return wrong("want BOOT.sSLEEP.vMARKERS.nTOKEN")
	}
	e := Epoch{Boot: parts[0]}
	if e.Boot == "" {
		return wrong("no boot id")
	}
	sleep, ok := strings.CutPrefix(parts[1], "s")
	var err error
	if e.Sleep, err = strconv.ParseInt(sleep, 10, 64); !ok || err != nil {
		return wrong("time slept is not a number")
	}
	markers, ok := strings.CutPrefix(parts[2], "v")
	if !ok {
		return wrong("no markers")
	}
	if markers != "-" {
		disruption, generation, _ := strings.Cut(markers, "-")
		e.HasVMClock = true
		if e.Disruption, err = strconv.ParseUint(disruption, 16, 64); err != nil {
			return wrong("disruption marker is not a number")
		}
		if e.Generation, err = strconv.ParseUint(generation, 16, 64); err != nil {
			return wrong("generation is not a number")
		}
	}
	token, ok := strings.CutPrefix(parts[3], "n")
	if !ok || token == "" {
		return wrong("no token")
	}
	if token != "-" {
		e.Token = token
	}
	if e.String() != text {
		return wrong("not in the shortest form")
	}
	return e, nil
}

// Observation is one look at everything that shows whether the counter still runs unbroken.
type Observation struct {
	Boot         string   `json:"boot"`
	Clocksource  string   `json:"clocksource"`
	Bracket      Bracket  `json:"bracket"`
	SleepLo_ns   int64    `json:"sleep_lo_ns,string"` // CLOCK_BOOTTIME minus CLOCK_MONOTONIC
	SleepHi_ns   int64    `json:"sleep_hi_ns,string"`
	VMClock      *VMClock `json:"vmclock,omitempty"`
	Restores     uint64   `json:"-"` // number of restores that this process was told of
	RestoresLost bool     `json:"-"` // this process may have missed announcements of restores
}

// Observer makes observations. The caller must set Root and Clocks.
type Observer struct {
	Root     fs.FS
	Clocks   Clocks
	Restores *RestoreEvents // nil: the process does not listen for restores
}

// Observe makes one observation. It takes some ten microseconds.
func (o Observer) Observe() (Observation, error) {
	var now Observation
	var err error
	if now.Boot, err = readText(o.Root, "proc/sys/kernel/random/boot_id"); err != nil {
		return now, fmt.Errorf("observe epoch: read boot id: %w", err)
	}
	// If sysfs is hidden, the clocksource stays "".
	now.Clocksource, _ = readText(o.Root, clocksourceDir+"current_clocksource")
	if now.Bracket, err = o.Clocks.Bracket(); err != nil {
		return now, fmt.Errorf("observe epoch: %w", err)
	}
	if now.SleepLo_ns, now.SleepHi_ns, err = o.Clocks.suspendedTime(); err != nil {
		return now, fmt.Errorf("observe epoch: %w", err)
	}
	shift_ns := timeNamespaceShift_ns(o.Root)
	now.SleepLo_ns -= shift_ns
	now.SleepHi_ns -= shift_ns
	if now.VMClock, err = readVMClock(o.Root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return now, fmt.Errorf("observe epoch: %w", err)
	}
	if o.Restores != nil {
		if now.Restores, now.RestoresLost, err = o.Restores.Count(); err != nil {
			return now, fmt.Errorf("observe epoch: %w", err)
		}
	}
	return now, nil
}

// timeNamespaceShift_ns returns by how much this process's time namespace shifts the difference
// between CLOCK_BOOTTIME and CLOCK_MONOTONIC. The namespace shifts each clock separately.
func timeNamespaceShift_ns(root fs.FS) int64 {
	text, err := readText(root, "proc/self/timens_offsets")
	if err != nil {
		return 0 // a kernel before 5.6 has no time namespaces
	}
	shift_ns := int64(0)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		s, err1 := strconv.ParseInt(f[1], 10, 64)
		ns, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		switch f[0] {
		case "boottime":
			shift_ns += s*1e9 + ns
		case "monotonic":
			shift_ns -= s*1e9 + ns
		}
	}
	return shift_ns
}

func (o Observation) epoch(token string) Epoch {
	middle_ns := o.SleepLo_ns + (o.SleepHi_ns-o.SleepLo_ns)/2
	e := Epoch{Boot: o.Boot, Sleep: floorDiv(middle_ns+sleepStep_ns/2, sleepStep_ns), Token: token}
	if o.VMClock != nil {
		e.HasVMClock, e.Disruption, e.Generation = true, o.VMClock.Disruption, o.VMClock.Generation
	}
	return e
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Reason names what ended an epoch.
type Reason string

const (
	Booted             Reason = "boot"        // the machine was booted again
	Suspended          Reason = "suspend"     // the machine slept
	Disrupted          Reason = "disruption"  // the hypervisor reports it: a live migration
	Restored           Reason = "restore"     // the machine was restored from a snapshot, or cloned
	Jumped             Reason = "jump"        // the counter jumped relative to CLOCK_MONOTONIC_RAW
	WentBack           Reason = "backwards"   // the counter is smaller than before
	ClocksourceChanged Reason = "clocksource" // the kernel may have found the counter unstable
)

// Break is one piece of evidence that the counter did not run unbroken.
type Break struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"`
}

// WatchOptions say what a Watch checks, and how exactly.
type WatchOptions struct {
	Observe func() (Observation, error) // required; use Observer.Observe

	Widen_cycles uint64 // the largest error of a difference of readings: quantum and core slack
	Virtual      bool   // a hypervisor is present: migrations and restores are possible
	Listening    bool   // Observe also returns restores

	// DriftLimit_ppm is how far the counter's rate relative to CLOCK_MONOTONIC_RAW may change from
	// one span to the next. A larger change counts as a jump. 0 means 20: the relative rate of two
	// crystals on one board changes less.
	DriftLimit_ppm int64

	// Settle is the least span over which the Watch measures the counter's rate. 0 means 1 s.
	Settle time.Duration

	// From is the state that an earlier process saved. The first Check then finds breaks that
	// happened since.
	From *Saved

	token func() string
}

// State is the result of one Check.
type State struct {
	Epoch    Epoch   // the present epoch
	Unbroken bool    // since the previous observation, the counter ran unbroken
	Breaks   []Break // evidence that it did not run unbroken

	// Blind lists kinds of breaks that this node cannot detect. Only contradictions with other
	// nodes can reveal such breaks.
	Blind     []string
	Frequency *Frequency

	// UnseenMoves reports whether a live migration or a restore may stay undetected.
	UnseenMoves bool

	// Threshold_cycles is the smallest jump that this Check would surely have detected. It is 0
	// while the rate is unknown.
	Threshold_cycles uint64
}

// Watch follows the epoch of one node. Only one goroutine may use it at a time.
type Watch struct {
	o     WatchOptions
	epoch Epoch
	first Observation // the first observation of this epoch
	last  Observation
	mark  Observation // where the present span for measuring the rate began
	rate  *Frequency
}

// NewWatch begins to watch. If WatchOptions.From is set, the first Check reports what broke since
// that state was saved. If it is nil, NewWatch makes the first observation.
func NewWatch(options WatchOptions) (*Watch, error) {
	w := &Watch{o: options}
	if w.o.DriftLimit_ppm == 0 {
		w.o.DriftLimit_ppm = 20
	}
	if w.o.Settle == 0 {
		w.o.Settle = time.Second
	}
	if w.o.token == nil {
		w.o.token = randomToken
	}
	if from := w.o.From; from != nil {
		w.epoch, w.first, w.last, w.mark, w.rate = from.Epoch, from.Last, from.Last, from.Mark,
			from.Rate
		return w, nil
	}
	now, err := w.o.Observe()
	if err != nil {
		return nil, fmt.Errorf("watch epoch: %w", err)
	}
	w.begin(now, "")
	return w, nil
}

func randomToken() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, as its documentation says
	return hex.EncodeToString(b[:])
}

func (w *Watch) begin(now Observation, token string) {
	w.epoch = now.epoch(token)
	w.first, w.last, w.mark, w.rate = now, now, now, nil
}

// Epoch returns the epoch that the last observation showed.
func (w *Watch) Epoch() Epoch { return w.epoch }

// Check makes an observation and reports whether the counter ran unbroken since the previous
// observation. A break begins a new epoch. If the observation fails, Check returns an error, and
// the epoch stays.
func (w *Watch) Check() (State, error) {
	now, err := w.o.Observe()
	if err != nil {
		return State{Epoch: w.epoch}, fmt.Errorf("check epoch: %w", err)
	}
	s := State{Blind: w.undetectedBreaks(now), UnseenMoves: w.o.Virtual && now.VMClock == nil}
	s.Breaks = append(s.Breaks, compareMarkers(w.last, now)...)
	// After a boot, the counter has started again and cannot be compared.
	if !slices.ContainsFunc(s.Breaks, func(b Break) bool { return b.Reason == Booted }) {
		breaks, threshold_cycles := w.compareCounter(now)
		s.Breaks = append(s.Breaks, breaks...)
		s.Threshold_cycles = threshold_cycles
	}
	if len(s.Breaks) > 0 {
		token := ""
		if now.epoch(w.epoch.Token) == w.epoch { // no other field of the epoch has changed
			token = w.o.token()
		}
		w.begin(now, token)
		s.Epoch = w.epoch
		return s, nil
	}
	s.Unbroken = true
	step_ns, _ := ClockStep_ns(now.Clocksource)
	if now.Bracket.Raw_ns-w.mark.Bracket.Raw_ns >= int64(w.o.Settle) {
		rate, err := FrequencyBetween(w.mark.Bracket, now.Bracket, w.o.Widen_cycles, step_ns)
		if err == nil {
			w.rate, w.mark = &rate, now
		}
	}
	f, err := FrequencyBetween(w.first.Bracket, now.Bracket, w.o.Widen_cycles, step_ns)
	if err == nil {
		s.Frequency = &f
	}
	w.last = now
	s.Epoch = w.epoch
	return s, nil
}

// compareMarkers compares what the kernel and the hypervisor reported at two observations. It does
// not compare the counter.
func compareMarkers(last, now Observation) []Break {
	var breaks []Break
	add := func(reason Reason, format string, args ...any) {
		breaks = append(breaks, Break{reason, fmt.Sprintf(format, args...)})
	}
	if now.Boot != last.Boot {
		add(Booted, "boot id was %s, is %s", last.Boot, now.Boot)
		return breaks // after a boot, nothing else can be compared
	}
	if now.SleepLo_ns > last.SleepHi_ns || now.SleepHi_ns < last.SleepLo_ns {
		add(Suspended, "slept for %v",
			time.Duration(now.SleepLo_ns-last.SleepLo_ns).Round(time.Millisecond))
	}
	switch {
	case (now.VMClock == nil) != (last.VMClock == nil):
		add(Disrupted, "VMClock appeared or disappeared")
	case now.VMClock != nil && now.VMClock.Disruption != last.VMClock.Disruption:
		add(Disrupted, "VMClock's disruption marker was %d, is %d", last.VMClock.Disruption,
			now.VMClock.Disruption)
	}
	if now.VMClock != nil && last.VMClock != nil &&
		now.VMClock.Generation != last.VMClock.Generation {
		add(Restored, "VMClock's generation was %d, is %d", last.VMClock.Generation,
			now.VMClock.Generation)
	}
	switch {
	case now.Restores != last.Restores:
		add(Restored, "the kernel announced a new VM generation id")
	case now.RestoresLost && !last.RestoresLost:
		add(Restored, "kernel announcements were lost; a restore may be among them")
	}
	if now.Clocksource != last.Clocksource {
		add(ClocksourceChanged,
			"clocksource was %q, is %q: look for \"clocksource\" in the kernel log",
			last.Clocksource, now.Clocksource)
	}
	return breaks
}

// compareCounter compares the advance of the counter with the advance of CLOCK_MONOTONIC_RAW, both
// since the last observation. Because small jumps add up, it also compares the two advances since
// an earlier observation (w.mark).
func (w *Watch) compareCounter(now Observation) (breaks []Break, threshold_cycles uint64) {
	for _, since := range []Observation{w.last, w.mark} {
		widen := int64(w.o.Widen_cycles)
		went := Cycles{
			int64(now.Bracket.Open-since.Bracket.Close) - widen,
			int64(now.Bracket.Close-since.Bracket.Open) + widen,
		}
		if went.Hi_cycles < 0 {
			text := fmt.Sprintf("the counter was %d, is %d", since.Bracket.Close, now.Bracket.Open)
			return append(breaks, Break{WentBack, text}), threshold_cycles
		}
		if w.rate == nil {
			continue
		}
		step_ns, _ := ClockStep_ns(now.Clocksource)
		expected := w.expectedAdvance(now.Bracket.Raw_ns-since.Bracket.Raw_ns, step_ns)
		if since == w.last {
			threshold_cycles = uint64(went.Hi_cycles-went.Lo_cycles) +
				uint64(expected.Hi_cycles-expected.Lo_cycles)
		}
		if went.Lo_cycles > expected.Hi_cycles || went.Hi_cycles < expected.Lo_cycles {
			jump := Cycles{went.Lo_cycles - expected.Hi_cycles, went.Hi_cycles - expected.Lo_cycles}
			text := fmt.Sprintf("the counter jumped by %v against CLOCK_MONOTONIC_RAW", jump)
			return append(breaks, Break{Jumped, text}), threshold_cycles
		}
	}
	return breaks, threshold_cycles
}

// expectedAdvance returns how far the counter may advance in a span of CLOCK_MONOTONIC_RAW. The
// interval covers all rates that the drift limit allows.
func (w *Watch) expectedAdvance(ns, step_ns int64) Cycles {
	bound := func(millihz uint64, ns, millionths int64) int64 {
		v := new(big.Int).SetUint64(millihz)
		v.Mul(v, big.NewInt(max(0, ns))).Mul(v, big.NewInt(millionths))
		v.Div(v, big.NewInt(1_000_000_000_000)).Div(v, big.NewInt(1_000_000))
		return v.Int64()
	}
	return Cycles{
		bound(w.rate.Lo_millihz, ns-step_ns, 1_000_000-w.o.DriftLimit_ppm),
		bound(w.rate.Hi_millihz, ns+step_ns, 1_000_000+w.o.DriftLimit_ppm) + 1,
	}
}

// undetectedBreaks lists the kinds of breaks that this node cannot detect. Check must detect every
// kind of break that is not on the list.
func (w *Watch) undetectedBreaks(now Observation) []string {
	var blind []string
	if w.o.Virtual && now.VMClock == nil {
		if w.o.Listening {
			blind = append(blind, "live migration, and restores before this process began to "+
				"listen: by contradiction only")
		} else {
			blind = append(blind, "live migration and snapshot restore: by contradiction only")
		}
	}
	switch {
	case now.Clocksource == "tsc" || now.Clocksource == "arch_sys_counter":
		blind = append(blind, "forward jumps of the counter: the kernel's clocks are made from "+
			"the same counter and jump with it; by contradiction only")
	case now.Clocksource == "":
		blind = append(blind, "forward jumps of the counter, if the kernel's clocks are made "+
			"from it (clocksource unreadable): by contradiction only")
	}
	if w.rate == nil {
		blind = append(blind, fmt.Sprintf("jumps of the counter within the first %v: "+
			"its rate is not known yet", w.o.Settle))
	}
	return blind
}

func (s State) finding() Finding {
	f := Finding{
		Name: "epoch", Verdict: Fit,
		Detail: "the counter runs unbroken since " + s.Epoch.String(),
	}
	if !s.Unbroken {
		f.Verdict, f.Detail = Unfit, "the counter did not run unbroken:"
		for _, b := range s.Breaks {
			f.Detail += fmt.Sprintf(" %s (%s);", b.Reason, b.Detail)
		}
		f.Detail = strings.TrimSuffix(f.Detail, ";")
		f.Remedy = "results from before and after cannot be compared; " +
			"disable suspend and pin the machine to its host during a run"
		return f
	}
	if len(s.Blind) > 0 {
		f.Detail += "; cannot be seen here: " + strings.Join(s.Blind, "; ")
	}
	if s.UnseenMoves {
		f.Verdict = Warning
		f.Remedy = "keep the machine from being migrated, suspended or restored during a run; " +
			"relations with other nodes contradict each other if it was"
	}
	return f
}

// MarshalText returns what String returns, and UnmarshalText reads it.
func (e Epoch) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func (e *Epoch) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEpoch(string(text))
	return err
}
