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

// Epoch names a span in which a node's counter ran unbroken. Two epochs are the same if and only if
// they are equal, as values or as texts. Readings of a node may be compared only within one epoch.
//
// Processes of one boot compute the same epoch independently. An epoch has a Token only after a
// break that nothing but a running Watch can detect. So on each node, one Watch should name the
// epoch for all processes.
type Epoch struct {
	Boot       string // the kernel's boot id
	Sleep      int64  // time spent suspended since boot, in steps of 16 ms
	Disruption uint64 // the hypervisor's markers (VMClock); 0 if there are none
	Generation uint64
	HasVMClock bool
	Token      string // "" until a break that the fields above cannot express
}

// Suspending and resuming takes far longer than this. A reading of the time slept is some hundred
// nanoseconds wide. If it lies on the edge between two steps, two readings may fall into different
// steps. The chance of this is some 10^-5 for each suspend.
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

// ParseEpoch reads what String wrote. The error wraps ErrEpochText.
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

// Observation is one set of readings of everything that shows whether the counter still runs
// unbroken.
type Observation struct {
	Boot         string   `json:"boot"`
	Clocksource  string   `json:"clocksource"`
	Bracket      Bracket  `json:"bracket"`
	SleepLo_ns   int64    `json:"sleep_lo_ns,string"` // CLOCK_BOOTTIME minus CLOCK_MONOTONIC
	SleepHi_ns   int64    `json:"sleep_hi_ns,string"`
	VMClock      *VMClock `json:"vmclock,omitempty"`
	Restores     uint64   `json:"-"` // restore events that this process has received
	RestoresLost bool     `json:"-"` // events were lost: there may have been more
}

// Observer makes observations. Root and Clocks must be set.
type Observer struct {
	Root     fs.FS
	Clocks   Clocks
	Restores *RestoreEvents // nil: not listening
}

// Observe reads everything once. It takes some ten microseconds.
func (o Observer) Observe() (Observation, error) {
	var now Observation
	var err error
	if now.Boot, err = readText(o.Root, "proc/sys/kernel/random/boot_id"); err != nil {
		return now, fmt.Errorf("observe epoch: read boot id: %w", err)
	}
	// This is "" if sysfs is hidden.
	now.Clocksource, _ = readText(o.Root, clocksourceDir+"current_clocksource")
	if now.Bracket, err = o.Clocks.Bracket(); err != nil {
		return now, fmt.Errorf("observe epoch: %w", err)
	}
	if now.SleepLo_ns, now.SleepHi_ns, err = o.Clocks.suspended(); err != nil {
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

// timeNamespaceShift_ns returns by how much a time namespace shifts the difference of
// CLOCK_BOOTTIME and CLOCK_MONOTONIC. It shifts each clock by a different amount.
func timeNamespaceShift_ns(root fs.FS) int64 {
	text, err := readText(root, "proc/self/timens_offsets")
	if err != nil {
		return 0 // a kernel before 5.6, without time namespaces
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
	Booted             Reason = "boot"        // another boot id
	Suspended          Reason = "suspend"     // the machine slept
	Disrupted          Reason = "disruption"  // the hypervisor reports it: a live migration
	Restored           Reason = "restore"     // a snapshot was restored or the machine was cloned
	Jumped             Reason = "jump"        // the counter jumped against CLOCK_MONOTONIC_RAW
	WentBack           Reason = "backwards"   // the counter is smaller than it was
	ClocksourceChanged Reason = "clocksource" // the kernel may have found the counter unstable
)

// Break is one piece of evidence that the counter did not run unbroken.
type Break struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"`
}

// WatchOptions determine what a Watch checks, and how closely.
type WatchOptions struct {
	Observe func() (Observation, error) // required; see Observer

	Widen_cycles uint64 // quantum and core slack: the largest error of a difference of two readings
	Virtual      bool   // a hypervisor is present: migrations and restores are possible
	Listening    bool   // Observe includes restore events

	// DriftLimit_ppm is how far the counter's rate against CLOCK_MONOTONIC_RAW may change from one
	// span to the next before the change is reported as a jump. Default 20: two crystals on one
	// board move by less.
	DriftLimit_ppm int64

	// Settle is the span over which that rate is measured. Default 1 s.
	Settle time.Duration

	// From continues from what another process saved. Breaks since then are found.
	From *Saved

	token func() string
}

// Saved is the state of a Watch, for a later process.
type Saved struct {
	Epoch Epoch       `json:"epoch"`
	Last  Observation `json:"last"`
	Mark  Observation `json:"mark"`
	Rate  *Frequency  `json:"rate,omitempty"`
}

// State is the result of one Check.
type State struct {
	Epoch    Epoch   // the present one
	Unbroken bool    // nothing broke since the previous Check
	Breaks   []Break // what broke

	// Blind lists kinds of breaks that this node cannot detect. Such breaks show only as
	// contradictions with other nodes.
	Blind     []string
	Frequency *Frequency

	// UnseenMoves reports whether a live migration or a restore may go undetected.
	UnseenMoves bool

	// Threshold_cycles is the smallest jump that this Check was sure to detect. It is 0 until the
	// rate is known.
	Threshold_cycles uint64
}

// Watch follows the epoch of one node. It is not safe for concurrent use.
type Watch struct {
	o     WatchOptions
	epoch Epoch
	first Observation // of this epoch
	last  Observation
	mark  Observation // where the present span of the rate began
	rate  *Frequency
}

// NewWatch makes the first observation. With WatchOptions.From, the first Check reports what broke
// since then.
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
	rand.Read(b[:]) // never fails; see its documentation
	return hex.EncodeToString(b[:])
}

func (w *Watch) begin(now Observation, token string) {
	w.epoch = now.epoch(token)
	w.first, w.last, w.mark, w.rate = now, now, now, nil
}

// Epoch returns the epoch as of the last observation.
func (w *Watch) Epoch() Epoch { return w.epoch }

// Save returns the state that a later process needs to continue.
func (w *Watch) Save() Saved { return Saved{w.epoch, w.last, w.mark, w.rate} }

// Check makes an observation and reports whether the counter ran unbroken since the previous one. A
// break begins a new epoch. An error means that the observation failed; it does not mean a break.
func (w *Watch) Check() (State, error) {
	now, err := w.o.Observe()
	if err != nil {
		return State{Epoch: w.epoch}, fmt.Errorf("check epoch: %w", err)
	}
	s := State{Blind: w.blind(now), UnseenMoves: w.o.Virtual && now.VMClock == nil}
	s.Breaks = append(s.Breaks, compareMarkers(w.last, now)...)
	// A different boot has a different counter.
	if !slices.ContainsFunc(s.Breaks, func(b Break) bool { return b.Reason == Booted }) {
		breaks, threshold_cycles := w.compareCounter(now)
		s.Breaks = append(s.Breaks, breaks...)
		s.Threshold_cycles = threshold_cycles
	}
	if len(s.Breaks) > 0 {
		token := ""
		if now.epoch(w.epoch.Token) == w.epoch { // the markers are the same in both epochs
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

// compareMarkers compares what the kernel and the hypervisor reported.
func compareMarkers(last, now Observation) []Break {
	var breaks []Break
	add := func(reason Reason, format string, args ...any) {
		breaks = append(breaks, Break{reason, fmt.Sprintf(format, args...)})
	}
	if now.Boot != last.Boot {
		add(Booted, "boot id was %s, is %s", last.Boot, now.Boot)
		return breaks // nothing else can be compared
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

// compareCounter compares the advance of the counter with that of CLOCK_MONOTONIC_RAW, since the
// last observation and since the field mark.
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
		expected := w.expected(now.Bracket.Raw_ns-since.Bracket.Raw_ns, step_ns)
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

// expected returns the counter's advance in a span of CLOCK_MONOTONIC_RAW, at the known rate and
// within the drift limit.
func (w *Watch) expected(ns, step_ns int64) Cycles {
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

// blind lists the kinds of breaks that cannot be detected. It promises the reader of a bound that
// every other break would have been detected.
func (w *Watch) blind(now Observation) []string {
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

// MarshalText and UnmarshalText use the form of String.
func (e Epoch) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func (e *Epoch) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEpoch(string(text))
	return err
}
