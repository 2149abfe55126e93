package drain

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrFull is returned, through Options.Notify and Stats, where a drainer can hold no more rings.
var ErrFull = errors.New("no room for more rings")

// capacity is how many rings a drainer holds at once, and how much of them it maps. A directory's rings
// are those of one user, so it bounds what a user's programs take of the drainer. What it keeps back is for
// logs, and for who asks how it goes.
type capacity struct {
	rings  int
	mapped int64
	why    string // which of the kernel's limits it is
}

const (
	// A ring takes a descriptor for its file, one for its log, and a mapping.
	filesOfRing = 2
	mapsOfRing  = 1
	// These are for everything else, or a quarter where there is less.
	filesReserve = 512
	mapsReserve  = 8192

	defaultMaps = 65530 // the kernel's own, where it does not say

	// maxMapped is what a drainer maps of rings. It is the most of them that it can be charged for.
	maxMapped = 512 << 20
)

// newCapacity makes a capacity of what the kernel allows a process.
func newCapacity(files, maps uint64) capacity {
	byFiles := int((files - min(files/4, filesReserve)) / filesOfRing)
	byMaps := int((maps - min(maps/4, mapsReserve)) / mapsOfRing)
	if byFiles <= byMaps {
		return capacity{max(byFiles, 1), maxMapped, fmt.Sprintf("a process may open %d files: raise LimitNOFILE", files)}
	}
	return capacity{max(byMaps, 1), maxMapped, fmt.Sprintf("a process may have %d mappings: raise vm.max_map_count", maps)}
}

func systemCapacity() (capacity, error) {
	var l unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &l); err != nil {
		return capacity{}, fmt.Errorf("ask how many files this process may open: %w", err)
	}
	return newCapacity(min(l.Cur, 1<<30), maxMaps()), nil
}

// maxMaps is how many mappings a process may have.
func maxMaps() uint64 {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return defaultMaps
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 30)
	if err != nil || n == 0 {
		return defaultMaps
	}
	return n
}

// full returns why no other ring can be held. It opens nothing. The caller holds mu.
func (d *Drainer) full() error {
	switch {
	case len(d.sources) >= d.room.rings:
		return fmt.Errorf("%d rings are open, and no more can be: %s: %w", len(d.sources), d.room.why, ErrFull)
	case d.mapped >= d.room.mapped:
		return fmt.Errorf("%d bytes of rings are mapped, the most that are: close channels of many writers: %w",
			d.mapped, ErrFull)
	}
	return nil
}

// postponed is a ring that is there and is not drained yet.
type postponed struct {
	again time.Duration // when to try it again; 0: it was not tried yet
	isNew bool          // as in Drainer.open

	// Where its process has too many rings:
	why     error
	process process
	bytes   int64
}

// leave takes note that a ring is left alone for now. It is said of the first, until there are none.
func (d *Drainer) leave(why error) {
	d.leaving++
	if d.leaving == 1 {
		d.leavingWhy = why
	}
}

// left makes known how many rings the scan that has ended left alone.
func (d *Drainer) left() {
	d.mu.Lock()
	before := d.leftAlone
	d.leftAlone, d.leftWhy = d.leaving, d.leavingWhy
	d.mu.Unlock()
	if d.leaving > 0 && before == 0 {
		d.notify(fmt.Errorf("leave rings alone until others are gone: %w", d.leavingWhy))
	}
	d.leaving, d.leavingWhy = 0, nil
}
