package drain

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// ErrFull is the error that Options.Notify and Stats report while a drainer has no room for more
// rings.
var ErrFull = errors.New("no room for more rings")

// capacity is the number of rings that a drainer may have open at once, and the number of bytes of
// rings that it may map. All rings of a directory belong to one user, so the capacity limits what
// one user's programs cost the drainer. It leaves some descriptors and mappings for logs and for
// queries.
type capacity struct {
	rings  int
	mapped int64
	why    string // the limit of the kernel that determines the capacity
}

const (
	// Each ring needs two descriptors, one for its file and one for its log, and a mapping.
	filesOfRing = 2
	mapsOfRing  = 1
	// The drainer keeps this many descriptors and mappings free for everything else, but at most a
	// quarter of the kernel's limit.
	filesReserve = 512
	mapsReserve  = 8192

	defaultMaps = 65530 // the kernel's default, used if the limit cannot be read

	// A ring costs a drainer up to 30 KB, including the kernel's memory. In addition, a part of its
	// log's index waits in memory. So even with maxRings rings that log little, a drainer needs
	// less than 1 GiB of memory.
	maxRings = 1 << 14

	// maxMapped is the largest number of bytes of rings that a drainer maps. The kernel charges the
	// drainer's control group for at most these bytes.
	maxMapped = 512 << 20
)

// newCapacity computes a capacity from the limits on the files and mappings of a process.
func newCapacity(files, maps uint64) capacity {
	byFiles := int((files - min(files/4, filesReserve)) / filesOfRing)
	byMaps := int((maps - min(maps/4, mapsReserve)) / mapsOfRing)
	switch rings := max(min(byFiles, byMaps, maxRings), 1); rings {
	case byFiles:
		return capacity{
			rings, maxMapped, fmt.Sprintf("a process may open %d files: raise LimitNOFILE", files),
		}
	case byMaps:
		why := fmt.Sprintf("a process may have %d mappings: raise vm.max_map_count", maps)
		return capacity{rings, maxMapped, why}
	default:
		return capacity{rings, maxMapped, "a drainer holds no more: open fewer channels"}
	}
}

func systemCapacity() (capacity, error) {
	var l unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &l); err != nil {
		return capacity{}, fmt.Errorf("ask how many files this process may open: %w", err)
	}
	return newCapacity(min(l.Cur, 1<<30), maxMaps()), nil
}

// maxMaps returns the number of mappings that a process may have.
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

// checkRoom returns an error that says why no other ring can be opened, or nil if one can. The
// caller has locked d.mu.
func (d *Drainer) checkRoom() error {
	switch {
	case len(d.sources) >= d.room.rings:
		return fmt.Errorf("%d rings are open, and no more can be opened: %s: %w", len(d.sources),
			d.room.why, ErrFull)
	case d.mapped >= d.room.mapped:
		return fmt.Errorf(
			"%d bytes of rings are mapped, which is the limit: close shared channels: %w",
			d.mapped, ErrFull)
	}
	return nil
}

// postponedRing is a ring that is not drained yet.
type postponedRing struct {
	again time.Duration // when to try it again
	isNew bool          // see Drainer.open

	// The following fields are set only if there is no room for the ring:
	why     error
	process process
	bytes   int64
}

// notePostponed notes that the drainer leaves a ring undrained for now, and why.
func (d *Drainer) notePostponed(whose process, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leaving) == 0 {
		d.leavingWhy = why
	}
	d.leaving[whose]++
}

// reportPostponed counts the rings that the drainer left undrained in the last full scan and in the
// partial scans after it. In any case it divides the room among the processes. If there are such
// rings now, and there were none before, it reports the reason.
func (d *Drainer) reportPostponed() {
	d.mu.Lock()
	count := 0
	for _, n := range d.leaving {
		count += n
	}
	why, before := d.leavingWhy, d.leftAlone
	d.leftAlone, d.leftWhy = count, why
	d.shareOut()
	d.mu.Unlock()
	if count > 0 && before == 0 {
		d.notify(fmt.Errorf("do not drain some rings until others are gone: %w", why))
	}
}

// shareOut divides the room equally among the processes if there is not enough room for all rings.
// No process gets more room than its rings need. If a process has less than its share and has
// waiting rings, processes with more than their shares give up rings. The caller has locked d.mu
// and is at the end of a scan.
func (d *Drainer) shareOut() {
	d.share = math.MaxInt
	if len(d.leaving) == 0 {
		return
	}
	room := d.room.rings
	if d.mapped >= d.room.mapped {
		room = len(d.sources)
	}
	wants := map[process]int{}
	for p, has := range d.processes {
		wants[p] = has.Rings
	}
	for p, n := range d.leaving {
		wants[p] += n
	}
	if most := d.o.MaxProcessRings; most > 0 {
		for p := range wants {
			wants[p] = min(wants[p], most)
		}
	}
	d.share = fairShare(slices.Collect(maps.Values(wants)), room)
	needed := len(d.sources) - room
	for p := range d.leaving {
		needed += max(0, min(wants[p], d.share)-d.processes[p].Rings)
	}
	over := map[process]int{}
	for p, has := range d.processes {
		over[p] = has.Rings - d.share
	}
	for _, s := range d.sources {
		if s.yields.Load() { // this ring will be given up soon
			needed--
			over[s.process]--
		}
	}
	for path, s := range d.sources {
		if needed <= 0 {
			return
		}
		if over[s.process] > 0 && !s.yields.Load() {
			needed--
			over[s.process]--
			d.later[path] = postponedRing{
				process: s.process, bytes: s.header.FileBytes(), why: d.leavingWhy,
			}
			s.yields.Store(true)
		}
	}
}

// fairShare returns the largest share that everybody can have: nobody gets more than it wants, and
// all together get at most room. The share is at least 1. It is math.MaxInt if room is enough for
// all wants.
func fairShare(wants []int, room int) int {
	slices.Sort(wants)
	for i, want := range wants {
		share := max(room/(len(wants)-i), 1)
		if want > share {
			return share
		}
		room -= want
	}
	return math.MaxInt
}

// giveUpRing gives up a ring so that another process gets its room. It returns false if the drainer
// cannot end the ring's log. As soon as there is room, the drainer drains the ring again. The
// ring's log then continues in the log directory that is in use at that time.
func (s *source) giveUpRing(w *worker) bool {
	for i := range s.places {
		if s.takeSkipped(w, i) != nil {
			return false
		}
	}
	if err := s.log.Seal(); err != nil && !errors.Is(err, logstore.ErrRemoved) {
		return false
	}
	s.d.releaseSource(s, s.closeRing(w))
	s.d.mu.Lock()
	s.d.leaving[s.process]++
	s.d.leftAlone++
	s.d.mu.Unlock()
	return true
}
