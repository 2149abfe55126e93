package sharedclock

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// A phc reads a PTP clock of the kernel in the best way that its driver offers.
type phc struct {
	device device
	way    way
}

// A device is what the kernel answers about a PTP clock. Tests replace it by recorded answers.
type device interface {
	// Precise returns the clock and CLOCK_REALTIME at one moment.
	Precise() (clock_ns, realtime_ns int64, err error)
	// Extended returns the clock between two readings of CLOCK_REALTIME.
	Extended() (before_ns, clock_ns, after_ns int64, err error)
	// Now returns the clock.
	Now() (clock_ns int64, err error)
}

type way uint8

const (
	precise way = iota
	extended
	plain
	broken
)

// newPHC finds out in which way the clock can be read.
func newPHC(d device) *phc {
	p := &phc{device: d}
	if _, _, err := d.Precise(); err == nil {
		return p
	}
	p.way = extended
	if _, _, _, err := d.Extended(); err == nil {
		return p
	}
	p.way = plain
	if _, err := d.Now(); err != nil {
		p.way = broken
	}
	return p
}

// read reads the clock. If the kernel pairs the clock with CLOCK_REALTIME, the moment of the
// reading is known more exactly: it lies in an interval that is shorter than the call.
func (p *phc) read(clock *minrtt.Clock) (r reading, ok bool) {
	r.step_ns = 1 // the clock's readings are rounded down to whole ns
	at := clock.Around(func() (lo_ns, hi_ns int64, paired bool) {
		var err error
		switch p.way {
		case precise:
			r.at_ns, lo_ns, err = p.device.Precise()
			hi_ns = lo_ns
		case extended:
			lo_ns, r.at_ns, hi_ns, err = p.device.Extended()
		case plain:
			r.at_ns, err = p.device.Now()
		default:
			err = ErrSource
		}
		ok = err == nil
		return lo_ns, hi_ns, ok && p.way != plain
	})
	r.before_cycles, r.after_cycles = at.Lo, at.Hi
	return r, ok
}

// ptpDevice is a character device such as /dev/ptp0.
type ptpDevice struct{ file *os.File }

func openPTP(path string) (*ptpDevice, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: let this program's user read it, for example by a rule of "+
			"udev: KERNEL==\"ptp*\", GROUP=\"cloudprofiler\", MODE=\"0640\"", err)
	}
	if err != nil {
		return nil, err
	}
	d := &ptpDevice{f}
	if _, err := d.Now(); err != nil {
		return nil, errors.Join(fmt.Errorf("no PTP clock: %w: %w", err, ErrSource), f.Close())
	}
	return d, nil
}

// These numbers and layouts are those of linux/ptp_clock.h. A time is 8 bytes of seconds, 4 bytes
// of nanoseconds and 4 bytes of padding.
const (
	sysOffsetPrecise  = 0xc0403d08 // _IOWR('=', 8, 64 bytes)
	sysOffsetExtended = 0xc4c03d09 // _IOWR('=', 9, 1216 bytes)

	extendedSamples = 5 // of which the shortest is used
)

type ptpTime struct {
	s        int64
	ns       uint32
	reserved uint32
}

func (t ptpTime) nanoseconds() int64 { return t.s*1_000_000_000 + int64(t.ns) }

type preciseAnswer struct {
	device, realtime, raw ptpTime
	reserved              [4]uint32
}

type extendedAnswer struct {
	samples  uint32
	reserved [3]uint32
	times    [25][3]ptpTime // CLOCK_REALTIME, the clock, CLOCK_REALTIME
}

func (d *ptpDevice) ask(request uintptr, answer unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, d.file.Fd(), request, uintptr(answer))
	if errno != 0 {
		return errno
	}
	return nil
}

// Precise uses PTP_SYS_OFFSET_PRECISE.
func (d *ptpDevice) Precise() (clock_ns, realtime_ns int64, err error) {
	var a preciseAnswer
	err = d.ask(sysOffsetPrecise, unsafe.Pointer(&a))
	return a.device.nanoseconds(), a.realtime.nanoseconds(), err
}

// Extended uses PTP_SYS_OFFSET_EXTENDED.
func (d *ptpDevice) Extended() (before_ns, clock_ns, after_ns int64, err error) {
	a := extendedAnswer{samples: extendedSamples}
	if err := d.ask(sysOffsetExtended, unsafe.Pointer(&a)); err != nil {
		return 0, 0, 0, err
	}
	before_ns, clock_ns, after_ns = a.shortestSample()
	return before_ns, clock_ns, after_ns, nil
}

// shortestSample returns the sample whose moment is known best.
func (a *extendedAnswer) shortestSample() (before_ns, clock_ns, after_ns int64) {
	for i, t := range a.times[:min(int(a.samples), len(a.times))] {
		before, clock, after := t[0].nanoseconds(), t[1].nanoseconds(), t[2].nanoseconds()
		if i == 0 || after-before < after_ns-before_ns {
			before_ns, clock_ns, after_ns = before, clock, after
		}
	}
	return before_ns, clock_ns, after_ns
}

// Now uses clock_gettime on the device.
func (d *ptpDevice) Now() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(clockOf(d.file.Fd()), &t)
	return t.Nano(), err
}

// clockOf returns the kernel's number for the clock behind a descriptor.
func clockOf(fd uintptr) int32 {
	const dynamic = 3
	return int32(^fd<<3 | dynamic)
}

// Close closes the device.
func (d *ptpDevice) Close() error { return d.file.Close() }
