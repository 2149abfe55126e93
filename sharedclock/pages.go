package sharedclock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"
)

// The names of clock pages.
const (
	KVM    = "kvm-clock"
	HyperV = "hyperv"
)

// A vmPage is a page of memory in which a hypervisor states a clock as a function of the counter.
type vmPage struct {
	load  func(offset int) uint64 // reads eight bytes of the page
	value func(p *vmPage, counter_cycles uint64) (at_ns int64, step_ns uint32, ok bool)
	// version returns a number that changes whenever the hypervisor changes the page. It reports
	// false while the page must not be used, for example while it is being changed.
	version func(p *vmPage) (uint32, bool)
}

// readPage returns the time that the clock shows now, according to the page.
func (p *vmPage) readPage(counter func() uint64) (at_ns int64, step_ns uint32, ok bool) {
	const tries = 100 // the hypervisor changes the page only for a moment
	for range tries {
		before, stable := p.version(p)
		if !stable {
			continue
		}
		at_ns, step_ns, ok = p.value(p, counter())
		if after, stable := p.version(p); stable && after == before {
			return at_ns, step_ns, ok
		}
	}
	return 0, 0, false
}

// kvmPage reads the structure pvclock_vcpu_time_info of Linux: version, counter, ns, multiplier,
// shift and flags.
func kvmPage(load func(int) uint64) vmPage {
	return vmPage{
		load: load,
		version: func(p *vmPage) (uint32, bool) {
			v := uint32(p.load(0))
			return v, v != 0 && v&1 == 0
		},
		value: func(p *vmPage, counter_cycles uint64) (int64, uint32, bool) {
			base_cycles, base_ns, rest := p.load(8), p.load(16), p.load(24)
			multiplier, shift, flags := uint32(rest), int8(rest>>32), byte(rest>>40)
			const stable = 1 // the page of one core is valid for all
			if flags&stable == 0 || counter_cycles < base_cycles || multiplier == 0 {
				return 0, 0, false
			}
			d := counter_cycles - base_cycles
			if shift >= 0 {
				d <<= min(uint8(shift), 63)
			} else {
				d >>= min(uint8(-shift), 63)
			}
			hi, lo := bits.Mul64(d, uint64(multiplier))
			const step_ns = 2 // the shift and the product are rounded down
			return int64(base_ns + hi<<32 + lo>>32), step_ns, true
		},
	}
}

// hyperVPage reads the structure HV_REFERENCE_TSC_PAGE: sequence, scale and offset, in steps of
// 100 ns.
func hyperVPage(load func(int) uint64) vmPage {
	return vmPage{
		load: load,
		version: func(p *vmPage) (uint32, bool) {
			v := uint32(p.load(0))
			return v, v != 0 // 0: the counter must not be used
		},
		value: func(p *vmPage, counter_cycles uint64) (int64, uint32, bool) {
			hi, _ := bits.Mul64(counter_cycles, p.load(8))
			return (int64(hi) + int64(p.load(16))) * 100, 101, true
		},
	}
}

// openPage finds the page of a hypervisor that the kernel maps into each process for its own use.
func openPage(name string) (page vmPage, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return page, err
	}
	address, err := findMapping(string(maps))
	if err != nil {
		return page, err
	}
	if name == HyperV {
		address += 4096
	}
	load := func(offset int) uint64 {
		// The address is that of a page which the kernel mapped, not of memory that Go manages.
		return *(*uint64)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&address)), offset))
	}
	page = kvmPage(load)
	if name == HyperV {
		page = hyperVPage(load)
	}
	return page, checkReadable(load)
}

// findMapping finds the kernel's mapping of clock pages in a list of a process's mappings. Kernels
// since 6.13 give this mapping a name.
func findMapping(maps string) (uintptr, error) {
	for line := range strings.Lines(maps) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vvar_vclock]") {
			continue
		}
		start, _, _ := strings.Cut(line, "-")
		address, err := strconv.ParseUint(start, 16, 64)
		if err != nil {
			return 0, fmt.Errorf("mapping %q: %w", line, err)
		}
		return uintptr(address), nil
	}
	return 0, fmt.Errorf("this kernel shows programs no clock page (it must be 6.13 or newer, "+
		"on a virtual machine): %w", ErrSource)
}

// checkReadable returns an error if the page cannot be read: the kernel maps a page only if it used
// the clock at least once.
func checkReadable(load func(int) uint64) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the kernel never used this page: %w", ErrSource)
		}
	}()
	load(0)
	return nil
}

// A vmClock is the page of a VMClock device
// (https://uapi-group.org/specifications/specs/vmclock/).
type vmClock struct {
	file interface {
		io.ReaderAt
		io.Closer
	}
}

func openVMClock(path string) (*vmClock, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &vmClock{f}, nil
}

const (
	vmClockMagic = 0x4b4c4356 // "VCLK"
	vmClockBytes = 0x70
)

var errVMClock = errors.New("not a page of VMClock")

// readEarliest returns the smallest value that the clock may have now, and by how much the clock's
// true value may be larger.
func (c *vmClock) readEarliest(counter func() uint64) (at_ns int64, step_ns uint32, ok bool) {
	const tries = 100 // the hypervisor changes the page only for a moment
	var page, again [vmClockBytes]byte
	for range tries {
		if _, err := c.file.ReadAt(page[:], 0); err != nil {
			return 0, 0, false
		}
		now := counter()
		if _, err := c.file.ReadAt(again[:], 0); err != nil {
			return 0, 0, false
		}
		if sequence := binary.LittleEndian.Uint32(page[12:]); sequence&1 != 0 || page != again {
			continue
		}
		at_ns, step_ns, err := vmClockAt(page[:], now)
		return at_ns, step_ns, err == nil
	}
	return 0, 0, false
}

func vmClockAt(page []byte, counter_cycles uint64) (at_ns int64, step_ns uint32, err error) {
	le := binary.LittleEndian
	refuse := func(what string) (int64, uint32, error) {
		return 0, 0, fmt.Errorf("%s: %w", what, errVMClock)
	}
	const (
		version                  = 1
		counterARM, counterX86   = 0, 1
		synchronized, freeRuns   = 2, 3
		periodError, timeError   = 1 << 4, 1 << 6
		largestTime_s            = 1 << 33
		unstated, largestStep_ns = 0, 1_000_000
	)
	flags := le.Uint64(page[0x18:])
	base_cycles, period := le.Uint64(page[0x28:]), le.Uint64(page[0x30:])
	time_s, fraction := le.Uint64(page[0x48:]), le.Uint64(page[0x50:])
	shift := page[0x27]
	switch {
	case le.Uint32(page) != vmClockMagic || le.Uint16(page[8:]) != version:
		return refuse("magic or version")
	case page[0xa] != counterARM && page[0xa] != counterX86:
		return refuse("another counter")
	case page[0x22] != synchronized && page[0x22] != freeRuns:
		return refuse("the clock's state")
	case counter_cycles < base_cycles || shift > 63 || time_s > largestTime_s:
		return refuse("a reading before the page's own")
	}
	d := counter_cycles - base_cycles
	// A period is in units of 2^−(64 + shift) seconds.
	seconds := func(rate uint64) (s, fraction uint64) {
		hi, lo := bits.Mul64(d, rate)
		return hi >> shift, hi<<(64-shift) | lo>>shift
	}
	s, f := seconds(period)
	f, carry := bits.Add64(f, fraction, 0)
	s += time_s + carry
	ns := func(fraction uint64) uint64 {
		hi, _ := bits.Mul64(fraction, 1_000_000_000)
		return hi
	}
	error_ns := uint64(unstated)
	if flags&timeError != 0 {
		error_ns = le.Uint64(page[0x60:])
	}
	if flags&periodError != 0 {
		more_s, more := seconds(le.Uint64(page[0x40:]))
		if more_s > 0 {
			return refuse("an error of seconds")
		}
		error_ns += ns(more) + 1
	}
	if error_ns > largestStep_ns/2 || s > largestTime_s {
		return refuse("a large error")
	}
	at_ns = int64(s)*1_000_000_000 + int64(ns(f)) - int64(error_ns)
	return at_ns, uint32(2*error_ns + 2), nil
}
