package ring

import (
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// When a ring is closed, its address space stays reserved, because a goroutine may still be in a
// log call. Close maps private memory there. Only the pages to which late calls write take memory.
//
// If the system promises no more memory than it has (overcommit_memory=2), the kernel charges even
// untouched private memory to the program. A program that opens and closes channels would then run
// out of memory. In that case one memory file backs all closed rings of the process, because the
// kernel does not charge a shared mapping of a file. The ring at address A maps the file from
// offset A on. So no two rings share memory, and the kernel joins the mappings of neighboring rings
// into one.

// overcommitFile contains the kernel's overcommit mode.
var overcommitFile = "/proc/sys/vm/overcommit_memory"

func promisesNoMore() bool {
	mode, err := plainfile.ReadOwn(overcommitFile, 16)
	return err == nil && strings.TrimSpace(string(mode)) == "2"
}

// closedBytes is more than any address in user space.
const closedBytes = 1 << 48

// closedFile returns the descriptor of the memory file that backs closed rings, or -1 if the file
// could not be created. The first call creates the file.
var closedFile = sync.OnceValue(func() int {
	var l unix.Rlimit
	// If a process makes a file longer than RLIMIT_FSIZE, the kernel sends a signal that ends the
	// process.
	if err := unix.Prlimit(0, unix.RLIMIT_FSIZE, nil, &l); err != nil || l.Cur < closedBytes {
		return -1
	}
	fd, err := unix.MemfdCreate("cloudprofiler-closed", unix.MFD_CLOEXEC)
	if err != nil {
		return -1
	}
	if err := unix.Ftruncate(fd, closedBytes); err != nil {
		unix.Close(fd)
		return -1
	}
	return fd
})

// detach replaces the mapping of a closed ring with zeroed memory that nobody else reads.
func detach(mapping []byte) error {
	const access = unix.PROT_READ | unix.PROT_WRITE
	at := unsafe.Pointer(&mapping[0])
	size := uintptr(len(mapping))
	if uintptr(at)+size <= closedBytes && promisesNoMore() {
		if fd := closedFile(); fd >= 0 {
			const flags = unix.MAP_SHARED | unix.MAP_FIXED
			if _, err := unix.MmapPtr(fd, int64(uintptr(at)), at, size, access, flags); err == nil {
				return nil
			}
		}
	}
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED | unix.MAP_NORESERVE
	_, err := unix.MmapPtr(-1, 0, at, size, access, flags)
	return err
}
