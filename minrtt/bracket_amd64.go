package minrtt

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"
)

// vdsoBracket is the memory that bracketVDSO fills. The assembly code depends on its layout.
type vdsoBracket struct {
	before_cycles uint64
	second        int64 // second and nanosecond of the clock are a struct timespec
	nanosecond    int64
	after_cycles  uint64
	// result is what the kernel's function returned. Its lower half is an int: 0 means success.
	result int64
}

// bracketVDSO reads the counter, then CLOCK_REALTIME through the kernel's function at the given
// address, then the counter again.
//
//go:noescape
func bracketVDSO(function uintptr, b *vdsoBracket)

// systemBracket returns a function that reads a bracket: the counter, CLOCK_REALTIME and the
// counter again. A bracket made with time.Now is twice as wide, because time.Now reads two clocks.
// If the kernel's function is not found, systemBracket returns nil.
var systemBracket = sync.OnceValue(func() func() (
	before_cycles uint64, realtime_ns int64, after_cycles uint64,
) {
	function, err := vdsoFunction("__vdso_clock_gettime")
	if err != nil {
		return nil
	}
	if b := new(vdsoBracket); !b.read(function) {
		return nil
	}
	return func() (uint64, int64, uint64) {
		var b vdsoBracket
		if !b.read(function) {
			return 0, 0, 0 // the caller's own readings do not confirm this, so it is not used
		}
		return b.before_cycles, b.second*1_000_000_000 + b.nanosecond, b.after_cycles
	}
})

func (b *vdsoBracket) read(function uintptr) bool {
	bracketVDSO(function, b)
	return int32(b.result) == 0
}

// vdsoFunction returns the address of a function in the vDSO, the library that the kernel maps into
// every process; see vdso(7).
func vdsoFunction(name string) (uintptr, error) {
	image, begin, err := vdsoBytes()
	if err != nil {
		return 0, err
	}
	library, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == name && elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value < uint64(len(image)) {
			return begin + uintptr(s.Value), nil
		}
	}
	return 0, fmt.Errorf("find %s in the vDSO: it is not there", name)
}

// vdsoBytes returns the bytes of the vDSO and its address.
func vdsoBytes() ([]byte, uintptr, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, 0, err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		if !strings.HasSuffix(line, "[vdso]") {
			continue
		}
		var begin, end uintptr
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &begin, &end, &rights); err != nil ||
			end <= begin || rights[0] != 'r' {
			return nil, 0, fmt.Errorf("find the vDSO: %q in %s", line, maps.Name())
		}
		// A uintptr may become a pointer here: the kernel never moves this mapping, and the garbage
		// collector ignores it.
		first := *(**byte)(unsafe.Pointer(&begin))
		return unsafe.Slice(first, end-begin), begin, nil
	}
	return nil, 0, fmt.Errorf("find the vDSO: it is not in %s", maps.Name())
}
