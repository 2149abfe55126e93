package ring

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// flagsOf returns the kernel's flags of the mapping at an address.
func flagsOf(t *testing.T, at unsafe.Pointer) []string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	must(t, err)
	defer f.Close()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= uintptr(at) && uintptr(at) < hi
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return strings.Fields(flags)
		}
	}
	t.Fatalf("no mapping has %p", at)
	return nil
}

// If the system does not overcommit memory, the kernel charges no memory for closed rings. So a
// program that opens and closes channels all day does not run out of memory.
func TestClosedRingsArePromisedNoMemory(t *testing.T) {
	asSystem := overcommitFile
	t.Cleanup(func() { overcommitFile = asSystem })
	overcommitFile = filepath.Join(t.TempDir(), "overcommit_memory")
	writeFile(t, overcommitFile, []byte("2\n"))
	for range 3 {
		p := newRing(t, size(1<<16))
		records, word := p.Shards[0].Records, p.Word()
		must(t, p.Close())
		flags := flagsOf(t, records)
		// "ac" marks memory that the kernel charges, "sh" a shared mapping and "wr" a writable one.
		// The kernel never charges a shared mapping of a file.
		if slices.Contains(flags, "ac") || !slices.Contains(flags, "sh") ||
			!slices.Contains(flags, "wr") {
			t.Errorf("the mapping behind a closed ring has the flags %q", flags)
		}
		// A late call writes into the memory of its own closed ring only.
		if late := (*uint64)(records); *late != 0 || *word != 0 {
			t.Errorf("a closed ring has switching word %d and a record of another, %d", *word,
				*late)
		} else {
			*late = 7
		}
	}
	writeFile(t, overcommitFile, []byte("0\n"))
	p := newRing(t)
	must(t, p.Close())
	if flags := flagsOf(t, p.Shards[0].Records); slices.Contains(flags, "sh") {
		t.Errorf("the mapping behind a closed ring has the flags %q", flags)
	}
}
