package minrtt

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Clock contains functions that read a node's clocks. They need not be the machine's clocks: a
// virtual node has clocks of its own. Kernel stamps are used only if Realtime, RealtimeStep,
// Discipline and Steps are set. Any goroutine may call the functions.
type Clock struct {
	// Counter reads the node's counter, after everything that the program did before the call. It
	// is required.
	Counter func() uint64

	// Quantum_cycles is the step in which the counter moves: a reading c means that the exact count
	// was in [c, c + quantum]. 0 means 1.
	Quantum_cycles uint64

	// Realtime reads CLOCK_REALTIME, the clock of kernel stamps, in ns since 1970.
	Realtime func() int64

	// Bracket reads the counter, Realtime's clock and the counter again. It takes less time than
	// separate calls of Counter, Realtime and Counter. The result is used only if both counter
	// readings in the result lie between a reading by Counter just before the call of Bracket and a
	// reading by Counter just after. If Bracket is nil, separate calls are made.
	Bracket func() (before_cycles uint64, realtime_ns int64, after_cycles uint64)

	// RealtimeStep returns the most by which the clock's exact value may exceed its reading. For a
	// clock that is rounded down to whole ns, this is 1. RealtimeStep is called at the beginning
	// and at the end of a train. If a call fails, or if the two results differ, kernel stamps are
	// not used.
	RealtimeStep func() (step_ns uint32, err error)

	// Discipline returns how the clock is being steered.
	Discipline func() (Discipline, error)

	// Steps returns how often the clock was set, rather than steered, since some fixed moment.
	Steps func() (uint64, error)

	// KernelStamp converts a kernel stamp into what Realtime showed when the kernel took the stamp.
	// If KernelStamp is nil, the two are the same.
	KernelStamp func(realtime_ns int64) int64

	// Shared is a clock that other nodes read, too. It is nil if there is no such clock, or if
	// nobody vouches for it.
	Shared *SharedClock

	// Hardware is the clock by which the network interface stamps packets. If it is nil, the stamps
	// of the interface are not used.
	Hardware *HardwareClock
}

// SystemClock returns the machine's clocks, with the given counter. What realtimeStep must return
// depends on the kernel, its clocksource and the machine's cores. The function host.StampStep
// returns a suitable realtimeStep.
func SystemClock(
	counter func() uint64, notice *StepNotice, realtimeStep func() (step_ns uint32, err error),
) Clock {
	return Clock{
		Counter: counter,
		// time.Now makes no system call, unlike ClockGettime of x/sys. But it reads two clocks, so
		// a bracket made with time.Now takes about 60 ns. A bracket made by systemBracket takes
		// only 30 ns.
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

// Discipline says how CLOCK_REALTIME is steered, according to adjtimex. The clock's rate is the
// counter's rate times a factor. This factor is constant if Frequency and Tick are constant and the
// other fields are zero.
type Discipline struct {
	Frequency_ppm16 int64 // in 2⁻¹⁶ ppm
	Tick_us         int64 // µs per 1/100 s of the kernel; 10,000 unless someone slews the clock
	Offset_ns       int64 // correction that the kernel's phase-locked loop still has to make
	TimeConstant    int64 // the loop corrects the share 2^−(2 + constant) of the offset each second
	Adjust_us       int64 // correction that adjtime(3) still has to make, at 500 ppm or less
	PulsePerSecond  bool  // a pulse-per-second signal steers: the next second's rate is unknown
}

// ReadDiscipline reads how the machine's CLOCK_REALTIME is steered.
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
	// steady_ppb is how far the clock's rate moves while nothing steers the clock. The kernel
	// approximates the exact rate by changing its multiplier in steps, each below 0.2 ppm.
	steady_ppb = 1_000

	// adjust_ppb is the most that adjtime adds to the rate.
	adjust_ppb = 500_000

	// anything_ppb is the most by which the rate can move from its mean in any case. The causes are
	// the tick (± 10 %), the frequency (± 500 ppm), adjtime, and a phase-locked loop. The clock's
	// offset is at most half a second, and in each second this loop corrects at most a quarter of
	// the offset. The rate is then between 0.77 and 1.23 times the nominal rate. So the counter's
	// cycles per ns of the clock are between 0.81 and 1.30 times their nominal number.
	anything_ppb = 300_000_000
)

// possibleWander returns how far the clock's rate may have moved from its mean between two readings
// of the discipline. The clock showed opening_ns at the first reading and closing_ns at the second.
func possibleWander(before, after Discipline, opening_ns, closing_ns int64) uint32 {
	if before.Frequency_ppm16 != after.Frequency_ppm16 || before.Tick_us != after.Tick_us ||
		before.PulsePerSecond || after.PulsePerSecond {
		return anything_ppb
	}
	ppb := uint64(steady_ppb)
	// Each second the loop corrects a share of the remaining offset. The factor 2 is there because
	// the share may become smaller.
	if offset := max(magnitude(before.Offset_ns), magnitude(after.Offset_ns)); offset != 0 {
		constant := min(before.TimeConstant, after.TimeConstant)
		ppb += 1 + 2*offset>>(2+min(max(constant, 0), 10))
		// If the loop locks the frequency, adjtimex shows a new frequency at once, but the clock
		// uses it only from its next tick on. The rate then changes by at most offset/4 per 256 s,
		// which is offset/1024 per second. If the loop locks the phase, the change is far smaller
		// than what is added above.
		ppb += 1 + offset>>10
	}
	// At the first tick of each second, the kernel subtracts that second's share of adjtime from
	// the remaining correction. So during the correction's last second, adjtimex already shows that
	// nothing remains. The correction ends at the end of that second.
	const tick = int64(10 * time.Millisecond)
	second := int64(time.Second)
	if before.Adjust_us != 0 || after.Adjust_us != 0 ||
		floorDiv(opening_ns-tick, second) != floorDiv(closing_ns, second) {
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

// clockEnd contains the readings of a clock at the beginning or at the end of a train.
type clockEnd struct {
	steps      uint64
	discipline Discipline
	step_ns    uint32
	brackets   [maxBrackets]bracket
	known      bool
	hardware   hardwareEnd
}

// readBeforeTrain reads the clock before a train.
func (c *Clock) readBeforeTrain() (e clockEnd) {
	if !c.relates() {
		return e
	}
	var err1, err2, err3 error
	e.steps, err1 = c.Steps()
	e.discipline, err2 = c.Discipline()
	e.step_ns, err3 = c.RealtimeStep()
	c.readBrackets(&e.brackets)
	e.known = err1 == nil && err2 == nil && err3 == nil
	c.openHardware(&e)
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
		if before_cycles <= b.before_cycles &&
			b.before_cycles <= b.after_cycles && b.after_cycles <= after_cycles {
			return b
		}
		// The readings do not confirm the bracket. Reading the bracket failed, or it read another
		// counter, or the thread moved to a core with a counter that is behind.
	}
	b.before_cycles = c.Counter()
	b.realtime_ns = c.Realtime()
	b.after_cycles = c.Counter()
	return b
}

// readAfterTrain reads the clock after a train. It reports how the clock behaved since
// readBeforeTrain.
func (c *Clock) readAfterTrain(opening *clockEnd) clockReport {
	var r clockReport
	if !opening.known {
		return r
	}
	// readAfterTrain reads in the reverse order of readBeforeTrain. So the readings of
	// RealtimeStep, Discipline and Steps enclose all brackets.
	c.readBrackets(&r.closing)
	step_ns, err1 := c.RealtimeStep()
	discipline, err2 := c.Discipline()
	steps, err3 := c.Steps()
	if err1 != nil || err2 != nil || err3 != nil || step_ns != opening.step_ns {
		return clockReport{}
	}
	r.opening = opening.brackets
	r.openingLength, r.closingLength = maxBrackets, maxBrackets
	r.wander_ppb = possibleWander(opening.discipline, discipline, r.opening[0].realtime_ns,
		r.closing[maxBrackets-1].realtime_ns)
	r.step_ns = step_ns
	r.status = clockRelated
	if steps != opening.steps {
		r.status = clockStepped
	}
	return r
}

// clockStatus says what a clockReport may be used for. Packets contain the numbers: never change
// one.
type clockStatus uint8

const (
	clockAbsent  clockStatus = 0 // kernel stamps cannot be converted into counter readings
	clockRelated clockStatus = 1 // the brackets convert kernel stamps into counter readings
	clockStepped clockStatus = 2 // the clock was set during the train

	clockStatuses = 3
)

// StepNotice counts how often CLOCK_REALTIME was set. The kernel reports each setting, even if the
// clock was set forward and back between two calls of Steps. Any goroutine may use a StepNotice.
type StepNotice struct {
	mu    sync.Mutex
	timer int // descriptor of the kernel's timer; -1 if closed
	steps uint64
}

// OpenStepNotice starts the count.
func OpenStepNotice() (*StepNotice, error) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch for steps of the clock: %w",
			os.NewSyscallError("timerfd_create", err))
	}
	// The timer never expires. It only serves to be cancelled: the kernel does that when the clock
	// is set.
	const never_s = math.MaxInt64/1_000_000_000 - 1
	when := unix.ItimerSpec{Value: unix.Timespec{Sec: never_s}}
	const flags = unix.TFD_TIMER_ABSTIME | unix.TFD_TIMER_CANCEL_ON_SET
	if err := unix.TimerfdSettime(timer, flags, &when, nil); err != nil {
		_ = unix.Close(timer)
		return nil, fmt.Errorf("watch for steps of the clock: %w",
			os.NewSyscallError("timerfd_settime", err))
	}
	return &StepNotice{timer: timer}, nil
}

// Steps returns the count. It may count several steps since its last call as one.
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
