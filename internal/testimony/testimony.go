package testimony

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Testimony is the mapped file of one program. The program writes it while other processes may
// read it.
type Testimony struct {
	Returned [8]uint64 // number of calls of each writer that have returned

	begun uint64
	rings [4][256]byte
}

// Open maps a testimony. If its file does not exist, Open makes it.
func Open(path string) (*Testimony, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := unsafe.Sizeof(Testimony{})
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	b, err := unix.MmapPtr(int(f.Fd()), 0, nil, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*Testimony)(b), nil
}

// Close unmaps the testimony. The file stays as it is.
func (t *Testimony) Close() error {
	return unix.MunmapPtr(unsafe.Pointer(t), unsafe.Sizeof(*t))
}

// Begin notes the rings into which the program will log.
func (t *Testimony) Begin(rings ...string) {
	for i, path := range rings {
		if copy(t.rings[i][:], path) < len(path) {
			panic(fmt.Sprintf("testimony: %d characters are too long for a path here: %q",
				len(path), path))
		}
	}
	atomic.StoreUint64(&t.begun, 1)
}

// Begun reports whether the program lived until it had opened its rings.
func (t *Testimony) Begun() bool { return atomic.LoadUint64(&t.begun) != 0 }

// Incarnation returns the random number, in hexadecimal, that distinguishes a ring from all others.
// The ring need not exist any more, because its file's name contains the number.
func (t *Testimony) Incarnation(ring int) string {
	parts := strings.Split(filepath.Base(strings.TrimRight(string(t.rings[ring][:]), "\x00")), ".")
	return parts[len(parts)-2]
}

// Burst makes calls forever, with the ids 0, 1, 2 and so on, in bursts of up to a few thousand. It
// notes how many calls have returned.
func (t *Testimony) Burst(writer int, call func(id uint64)) {
	returned := &t.Returned[writer]
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for {
		for range rng.IntN(4000) {
			call(*returned)
			atomic.StoreUint64(returned, *returned+1)
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
}
