package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ErrVMClock is returned if the VMClock page (type VMClock) does not contain what its specification
// requires.
var ErrVMClock = errors.New("not a VMClock page")

// VMClock is what a hypervisor reports about disruptions of the counter
// (https://uapi-group.org/specifications/specs/vmclock/). The report is a page of memory, which
// Linux provides as /dev/vmclock0 (CONFIG_PTP_1588_CLOCK_VMCLOCK).
type VMClock struct {
	// Disruption changes when the counter may have been disrupted, for example by a live migration.
	Disruption uint64 `json:"disruption,string"`
	// Generation changes when the machine was cloned or restored. It is 0 if the hypervisor does
	// not provide it.
	Generation uint64 `json:"generation,string"`
}

const (
	vmClockMagic = 0x4b4c4356 // "VCLK"
	vmClockSize  = 0x70

	// The specification and Linux disagree on the flag that says that there is a generation. This
	// package accepts either flag. A page without a generation has, in the place of the generation,
	// a value that does not change.
	vmClockHasGeneration      = 1 << 7
	vmClockHasGenerationLinux = 1 << 8
)

func parseVMClock(page []byte) (vmclock VMClock, stable bool, err error) {
	if len(page) < vmClockSize {
		return vmclock, false, fmt.Errorf("read VMClock: %d bytes, want %d: %w",
			len(page), vmClockSize, ErrVMClock)
	}
	if magic := binary.LittleEndian.Uint32(page); magic != vmClockMagic {
		return vmclock, false, fmt.Errorf("read VMClock: magic %#x, want %#x: %w",
			magic, vmClockMagic, ErrVMClock)
	}
	if version := binary.LittleEndian.Uint16(page[8:]); version != 1 {
		return vmclock, false, fmt.Errorf("read VMClock: version %d, want 1: %w",
			version, ErrVMClock)
	}
	vmclock.Disruption = binary.LittleEndian.Uint64(page[0x10:])
	const either = vmClockHasGeneration | vmClockHasGenerationLinux
	if binary.LittleEndian.Uint64(page[0x18:])&either != 0 {
		vmclock.Generation = binary.LittleEndian.Uint64(page[0x68:])
	}
	return vmclock, binary.LittleEndian.Uint32(page[0x0c:])&1 == 0, nil
}

// readVMClock reads the VMClock page. If there is no such device, it returns nil and
// fs.ErrNotExist.
func readVMClock(root fs.FS) (*VMClock, error) {
	const tries = 100 // the hypervisor locks the page only for a moment
	for range tries {
		f, err := root.Open("dev/vmclock0")
		if errors.Is(err, fs.ErrPermission) {
			return nil, fs.ErrNotExist // act as if there were no page; Facts says that there is one
		}
		if err != nil {
			return nil, err
		}
		page := make([]byte, vmClockSize)
		n, err := io.ReadFull(f, page)
		f.Close()
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read VMClock: %w", err)
		}
		vmclock, stable, err := parseVMClock(page[:n])
		if err != nil {
			return nil, err
		}
		if stable {
			return &vmclock, nil
		}
	}
	return nil, fmt.Errorf("read VMClock: held by the hypervisor over %d tries: %w",
		tries, ErrVMClock)
}
