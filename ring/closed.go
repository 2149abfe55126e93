package ring

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The address space of a closed ring stays taken, because a goroutine may still be in a log call. Behind it lies
// one file in memory for all closed rings of the process, of which nothing is there but what late calls write.
// A shared mapping of a file is not charged against what the system may promise (overcommit_memory=2), as a private
// one of that size would be, and a ring takes the file's bytes at its own address: neighbours make one mapping.

// closedBytes is more than any address in user space.
const closedBytes = 1 << 48

// closedFile makes the file behind closed rings, once; -1 where that cannot be.
var closedFile = sync.OnceValue(func() int {
	var l unix.Rlimit
	// Whoever makes a longer file than it may is sent a signal that ends it.
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &l); err != nil || l.Cur < closedBytes {
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

// detach puts memory that reads zero, and that nobody else reads, in the mapping's place.
func detach(mapping []byte) error {
	const access = unix.PROT_READ | unix.PROT_WRITE
	at := unsafe.Pointer(&mapping[0])
	size := uintptr(len(mapping))
	if fd := closedFile(); fd >= 0 && uintptr(at)+size <= closedBytes {
		if _, err := unix.MmapPtr(fd, int64(uintptr(at)), at, size, access, unix.MAP_SHARED|unix.MAP_FIXED); err == nil {
			return nil
		}
	}
	_, err := unix.MmapPtr(-1, 0, at, size, access, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}
