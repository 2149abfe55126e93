package host

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// AllowedCores lists the cores that this process may run on. It supports at most 1,024 cores.
func AllowedCores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read affinity: %w", err)
	}
	var cores []int
	for core := range len(set) * 64 {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores, nil
}

// OnCore runs f on a thread that is pinned to one core. Afterwards it restores the thread's
// affinity and lets the thread end, so that no other goroutine runs on a pinned thread.
func OnCore(core int, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // without unlock: the thread ends with the goroutine
		var before, only unix.CPUSet
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			done <- fmt.Errorf("read affinity: %w", err)
			return
		}
		only.Set(core)
		if err := unix.SchedSetaffinity(0, &only); err != nil {
			done <- fmt.Errorf("pin a thread to core %d: %w", core, err)
			return
		}
		f()
		var after unix.CPUSet
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != only {
			done <- fmt.Errorf("stay on core %d: something else changed the affinity meanwhile: "+
				"measure again", core)
			return
		}
		// If this is the process's first thread, the thread does not end, and the system shows the
		// thread's affinity as that of the process. So put the affinity back.
		err := unix.SchedSetaffinity(0, &before)
		if err != nil {
			err = fmt.Errorf("put affinity back after core %d: %w", core, err)
		}
		done <- err
	}()
	return <-done
}

// sharedLine contains a number that two cores share. Nothing else is on its cache line, or on the
// neighbouring cache line, which the CPU fetches together with it.
type sharedLine struct {
	sequence atomic.Uint64
	fetched  atomic.Uint64 // see handOver
	_        [128 - 16]byte
}

// handOver gives the number n to the other core. Just before that it reads the counter, and it
// returns this reading. It first stores to l.fetched, which brings the cache line to this core.
// Otherwise the line would be fetched after the reading, and the time for that would widen the
// result.
func (l *sharedLine) handOver(n uint64) (sent uint64) {
	l.fetched.Store(n)
	sent = counterBefore()
	l.sequence.Store(n)
	return sent
}

type table struct {
	_    [128]byte
	ball sharedLine
	stop atomic.Bool
	_    [127]byte
}

// maxPause is the largest number of readings of the counter that a core makes as a pause, before it
// looks at the shared number again. A core that looks without a pause takes the cache line back
// before the other core has used it. A core that pauses for long notices the number late. So the
// pause differs from round to round, and the best round is used.
const maxPause = 32

// await waits in a loop until l.sequence is want. It rarely looks at the clock, because that takes
// longer than a hand-over.
func (t *table) await(l *sharedLine, want uint64, deadline time.Time) bool {
	for spins := 1; l.sequence.Load() != want; spins++ {
		for range want % maxPause {
			asm.CounterUnordered()
		}
		if spins&0xff == 0 {
			if !time.Now().Before(deadline) {
				t.stop.Store(true)
			}
			if t.stop.Load() {
				return false
			}
			runtime.Gosched() // if Go may use one thread only, the other goroutine needs it
		}
	}
	return true
}

// bestHandover keeps the hand-over with the smallest difference of readings, which proves most.
type bestHandover struct {
	handover Handover
	cycles   int64
}

func (b *bestHandover) take(from, to int, sent, received uint64) {
	if d := int64(received - sent); b.handover.From == b.handover.To || d < b.cycles {
		b.handover, b.cycles = Handover{from, to, sent, received}, d
	}
}

// stamps contains the readings that one core took in one round.
type stamps struct{ sent, received uint64 }

// pingPong passes a number back and forth between two pinned threads. It ends after the given
// number of rounds, or when the time limit (patience) is over. It returns the two hand-overs that
// narrowestPair chooses.
func pingPong(a, b int, rounds int, patience time.Duration) (forth, back Handover, err error) {
	// Both goroutines wait in loops, so they need two threads. In a container with a CPU quota, Go
	// may use only one thread.
	if before := runtime.GOMAXPROCS(0); before < 2 {
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(before)
	}
	atA, atB := make([]stamps, rounds), make([]stamps, rounds)
	var done int
	var errors [2]error
	var arrived, left sync.WaitGroup
	arrived.Add(2)
	left.Add(2)
	t := new(table)
	deadline := time.Now().Add(patience)

	// A goroutine whose thread cannot be pinned still reports its arrival. Otherwise the other one
	// would wait for ever.
	end := func(core, which int, f func()) {
		defer left.Done()
		ran := false
		errors[which] = OnCore(core, func() {
			ran = true
			arrived.Done()
			arrived.Wait()
			if !t.stop.Load() {
				f()
			}
		})
		if !ran {
			t.stop.Store(true)
			arrived.Done()
		}
	}
	go end(a, 0, func() {
		for i := range rounds {
			atA[i].sent = t.ball.handOver(2*uint64(i) + 1)
			if !t.await(&t.ball, 2*uint64(i)+2, deadline) {
				return
			}
			atA[i].received = counterAfter()
			done = i + 1
		}
	})
	go end(b, 1, func() {
		for i := range rounds {
			if !t.await(&t.ball, 2*uint64(i)+1, deadline) {
				return
			}
			atB[i].received = counterAfter()
			atB[i].sent = t.ball.handOver(2*uint64(i) + 2)
		}
	})
	left.Wait()
	for _, err := range errors {
		if err != nil {
			return Handover{}, Handover{}, err
		}
	}
	forth, back = narrowestPair(a, b, atA[:done], atB[:done])
	return forth, back, nil
}

// A round is disturbed if it takes more than undisturbedRounds times as long as the median round.
// Either an interrupt happened in the round, or the hypervisor moved a virtual core. A move takes
// so long because the core must leave the guest and enter it again.
const undisturbedRounds = 4

// narrowestPair returns two hand-overs, one in each direction, that give the narrowest interval. No
// disturbed round lies between them, because the offset of the cores may have changed in such a
// round.
func narrowestPair(a, b int, atA, atB []stamps) (forth, back Handover) {
	if len(atA) == 0 {
		return Handover{}, Handover{}
	}
	took := make([]uint64, len(atA))
	for i, at := range atA {
		took[i] = at.received - at.sent
	}
	sorted := slices.Sorted(slices.Values(took))
	limit := undisturbedRounds * sorted[len(sorted)/2]
	there, andBack := bestHandover{cycles: math.MaxInt64}, bestHandover{cycles: math.MaxInt64}
	narrowest := int64(math.MaxInt64)
	for i := range atA {
		disturbed := took[i] > limit
		if disturbed || i > 0 && atA[i].sent-atA[i-1].received > limit {
			there, andBack = bestHandover{cycles: math.MaxInt64},
				bestHandover{cycles: math.MaxInt64}
		}
		if disturbed {
			continue
		}
		there.take(a, b, atA[i].sent, atB[i].received)
		andBack.take(b, a, atB[i].sent, atA[i].received)
		if width := addOutward(there.cycles, andBack.cycles); width < narrowest {
			narrowest, forth, back = width, there.handover, andBack.handover
		}
	}
	return forth, back
}
