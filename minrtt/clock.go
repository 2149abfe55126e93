package minrtt

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is a node's clocks, as functions, so that a node can be given others than the machine's.
// Kernel stamps are used only if Realtime, RealtimeStep, Discipline and Steps are given. The
// functions may be called from any goroutine.
type Clock struct {
	// Counter reads the node's counter, after everything that precedes the call. Required.
	Counter func() uint64

	// Quantum_cycles is the step in which the counter moves: a reading c says that it stood in [c,
	// c + quantum]. 0 is 1.
	Quantum_cycles uint64

	// Realtime reads the clock that kernel stamps are of, CLOCK_REALTIME, in ns since 1970.
	Realtime func() int64

	// Bracket reads the counter, Realtime's clock and the counter again, closer together than
	// Counter, Realtime and Counter do one after the other. It is used where these, read before and
	// after it, agree with it. Nil: they are the bracket.
	Bracket func() (before_cycles uint64, realtime_ns int64, after_cycles uint64)

	// RealtimeStep returns how much later than a reading of it the clock may stand: 1 for one that
	// is rounded down to whole ns. It is asked at both ends of a train; kernel stamps are not used
	// if it fails, or if the two differ.
	RealtimeStep func() (step_ns uint32, err error)

	// Discipline says what steers that clock.
	Discipline func() (Discipline, error)

	// Steps returns how often the clock was set, rather than steered, since some moment.
	Steps func() (uint64, error)

	// KernelStamp returns what Realtime showed when the kernel took a stamp. Nil: the stamp itself.
	KernelStamp func(realtime_ns int64) int64
}

// SystemClock returns the machine's clocks beside the counter. What its Clock.RealtimeStep says
// depends on the kernel, its clocksource and the machine's cores: package host knows.
func SystemClock(
	counter func() uint64, notice *StepNotice, realtimeStep func() (step_ns uint32, err error),
) Clock {
	return Clock{
		Counter: counter,
		// Through the vDSO, with two clocks read for one: about 60 ns between counter readings, a
		// bracket's 30 ns. x/sys's ClockGettime is a system call.
		Realtime:     func() int64 { return time.Now().UnixNano() },
		Bracket:      systemBracket(),
		RealtimeStep: realtimeStep,
		Discipline:   ReadDiscipline,
		Steps:        notice.Steps,
	}
}

func (c *Clock) relates() bool {
	return c.Realtime != nil && c.RealtimeStep != nil && c.Discipline != nil && c.Steps != nil
}

func (c *Clock) kernelStamp(realtime_ns int64) int64 {
	if realtime_ns == 0 || c.KernelStamp == nil {
		return realtime_ns
	}
	return c.KernelStamp(realtime_ns)
}

// Discipline is what steers CLOCK_REALTIME, as adjtimex says it: its rate is that of the counter,
// times a factor that is constant as long as Frequency and Tick are, and for as long as the others
// are zero.
type Discipline struct {
	Frequency_ppm16 int64 // 2⁻¹⁶ ppm
	Tick_us         int64 // per 1/100 s of the kernel; 10,000 unless somebody slews
	Offset_ns       int64 // what the kernel's phase-locked loop is still to take away
	TimeConstant    int64 // of that loop: each second it takes the offset's 2^−(2 + constant)
	Adjust_us       int64 // what adjtime(3) is still to take away, at no more than 500 ppm
	// a pulse-per-second signal steers: nothing is known about the next second's rate
	PulsePerSecond bool
}

// ReadDiscipline reads the machine's.
func ReadDiscipline() (Discipline, error) {
	var t, adjust unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return Discipline{}, os.NewSyscallError("adjtimex", err)
	}
	adjust.Modes = unix.ADJ_OFFSET_SS_READ
	if _, err := unix.Adjtimex(&adjust); err != nil {
		return Discipline{}, os.NewSyscallError("adjtimex", err)
	}
	d := Discipline{
		Frequency_ppm16: t.Freq,
		Tick_us:         t.Tick,
		Offset_ns:       t.Offset,
		TimeConstant:    t.Constant,
		Adjust_us:       adjust.Offset,
		PulsePerSecond:  t.Status&(unix.STA_PPSTIME|unix.STA_PPSFREQ) != 0,
	}
	if t.Status&unix.STA_NANO == 0 {
		d.Offset_ns *= 1000
	}
	return d, nil
}

const (
	// steady_ppb is how far the clock's rate moves while nothing steers it: the kernel follows the
	// exact rate by steps of its multiplier, each below 0.2 ppm.
	steady_ppb = 1_000

	// adjust_ppb is the most that adjtime adds to the rate.
	adjust_ppb = 500_000

	// anything_ppb is how far the rate can move at all from its mean: tick ± 10 %, frequency ± 500
	// ppm, adjtime, and a phase-locked loop that takes a quarter of at most half a second each
	// second. Rates of 0.77 to 1.23 of the nominal are counter cycles per ns of 0.81 to 1.30.
	anything_ppb = 300_000_000
)

// wander returns how far the clock's rate may have moved from its mean between two readings of its
// discipline, the first at a moment of the clock and the second at another.
func wander(before, after Discipline, opening_ns, closing_ns int64) uint32 {
	if before.Frequency_ppm16 != after.Frequency_ppm16 || before.Tick_us != after.Tick_us ||
		before.PulsePerSecond || after.PulsePerSecond {
		return anything_ppb
	}
	ppb := uint64(steady_ppb)
	// What the loop takes away each second is a share of what it has left; twice, because it is
	// less afterwards.
	if offset := max(magnitude(before.Offset_ns), magnitude(after.Offset_ns)); offset != 0 {
		constant := min(before.TimeConstant, after.TimeConstant)
		ppb += 1 + 2*offset>>(2+min(max(constant, 0), 10))
		// What a frequency-locked loop makes of the offset adjtimex shows at once, and the clock
		// follows at its next tick: no more than a quarter of it in 256 s. A phase-locked loop's is
		// far below the above.
		ppb += 1 + offset>>10
	}
	// The kernel takes adjtime's next second from what is left of it when a second begins, at the
	// first tick after it. The last such second is not seen by who asks, and it ends where a second
	// does.
	const tick = int64(10 * time.Millisecond)
	second := int64(time.Second)
	if before.Adjust_us != 0 || after.Adjust_us != 0 || floorDiv(opening_ns-tick, second) != floorDiv(closing_ns, second) {
		ppb += adjust_ppb
	}
	return uint32(min(ppb, anything_ppb))
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func floorDiv(x, y int64) int64 {
	q := x / y
	if x%y < 0 {
		q--
	}
	return q
}

// clockEnd is what is read of a clock at one end of a train.
type clockEnd struct {
	steps      uint64
	discipline Discipline
	step_ns    uint32
	brackets   [maxBrackets]bracket
	known      bool
}

// open reads the clock before a train.
func (c *Clock) open() (e clockEnd) {
	if !c.relates() {
		return e
	}
	var err1, err2, err3 error
	e.steps, err1 = c.Steps()
	e.discipline, err2 = c.Discipline()
	e.step_ns, err3 = c.RealtimeStep()
	c.readBrackets(&e.brackets)
	e.known = err1 == nil && err2 == nil && err3 == nil
	return e
}

func (c *Clock) readBrackets(bs *[maxBrackets]bracket) {
	for i := range bs {
		bs[i] = c.bracket()
		bs[i].after_cycles += max(c.Quantum_cycles, 1)
	}
}

func (c *Clock) bracket() (b bracket) {
	if c.Bracket != nil {
		before_cycles := c.Counter()
		b.before_cycles, b.realtime_ns, b.after_cycles = c.Bracket()
		after_cycles := c.Counter()
		if before_cycles <= b.before_cycles && b.before_cycles <= b.after_cycles && b.after_cycles <= after_cycles {
			return b
		}
		// It failed, or is of another counter, or the thread went to a core whose counter is
		// behind.
	}
	b.before_cycles = c.Counter()
	b.realtime_ns = c.Realtime()
	b.after_cycles = c.Counter()
	return b
}

// close reads the clock after a train and says what it did since open.
func (c *Clock) close(opening *clockEnd) clockReport {
	var r clockReport
	if !opening.known {
		return r
	}
	// The other way round than open: what is read of the clock's step, its discipline and its
	// setting spans the brackets.
	c.readBrackets(&r.closing)
	step_ns, err1 := c.RealtimeStep()
	discipline, err2 := c.Discipline()
	steps, err3 := c.Steps()
	if err1 != nil || err2 != nil || err3 != nil || step_ns != opening.step_ns {
		return clockReport{}
	}
	r.opening = opening.brackets
	r.openingLength, r.closingLength = maxBrackets, maxBrackets
	r.wander_ppb = wander(opening.discipline, discipline, r.opening[0].realtime_ns,
		r.closing[maxBrackets-1].realtime_ns)
	r.step_ns = step_ns
	r.status = clockRelated
	if steps != opening.steps {
		r.status = clockStepped
	}
	return r
}

// clockStatus says what a clockReport is good for. The numbers are on the wire.
type clockStatus uint8

const (
	clockAbsent  clockStatus = 0 // kernel stamps cannot be turned into counter readings
	clockRelated clockStatus = 1 // the brackets say how
	clockStepped clockStatus = 2 // the clock was set during the train

	clockStatuses = 3
)

// StepNotice counts how often CLOCK_REALTIME was set. The kernel notes each time for it, also when
// it was set there and back between two questions. Any goroutine may use it.
type StepNotice struct {
	mu    sync.Mutex
	timer int // -1: closed
	steps uint64
}

// OpenStepNotice begins to count.
func OpenStepNotice() (*StepNotice, error) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch for steps of the clock: %w",
			os.NewSyscallError("timerfd_create", err))
	}
	// The timer itself is never to expire; only its cancellation is of interest.
	const never_s = math.MaxInt64/1_000_000_000 - 1
	when := unix.ItimerSpec{Value: unix.Timespec{Sec: never_s}}
	if err := unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &when,
		nil); err != nil {
		_ = unix.Close(timer)
		return nil, fmt.Errorf("watch for steps of the clock: %w",
			os.NewSyscallError("timerfd_settime", err))
	}
	return &StepNotice{timer: timer}, nil
}

// Steps returns the count. Several steps since the last call may count as one.
func (n *StepNotice) Steps() (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer < 0 {
		return 0, fmt.Errorf("watch for steps of the clock: %w", os.ErrClosed)
	}
	var expirations [8]byte
	for {
		switch _, err := unix.Read(n.timer, expirations[:]); err {
		case unix.EAGAIN:
			return n.steps, nil
		case unix.ECANCELED, nil:
			n.steps++
		case unix.EINTR:
		default:
			return 0, fmt.Errorf("watch for steps of the clock: %w",
				os.NewSyscallError("read", err))
		}
	}
}

// Close ends the count.
func (n *StepNotice) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer < 0 {
		return os.ErrClosed
	}
	timer := n.timer
	n.timer = -1
	return unix.Close(timer)
}
