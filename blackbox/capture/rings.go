package capture

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sighting is what the programs report about a message. Its fields are at the offsets that
// layout.go gives for a sighting.
type sighting struct {
	stamp_ns uint64
	cookie   uint64
	sequence uint32
	thread   uint32
	bytes    uint32
	what     uint32
}

var _ = [1]struct{}{}[unsafe.Sizeof(sighting{})-sightingBytes]

// head is the head of a ring. Its fields are at the offsets headWritten, headLost and headRead.
type head struct {
	written, lost atomic.Uint64 // owned by the programs, like headSeen behind them
	_             [headRead - 16]byte
	read          atomic.Uint64 // owned by the capture
	_             [headBytes - headRead - 8]byte
}

var _ = [1]struct{}{}[unsafe.Sizeof(head{})-headBytes]

// sharedMaps has the maps that the capture and the programs share.
type sharedMaps struct {
	mapped  [][]byte
	heads   []head // of each processor's rings, in their order
	rings   []sighting
	each    int // sightings in a ring
	of      int // rings of each processor
	sockets []uint64
	threads [][threadBytes / 8]uint64

	unreported *atomic.Uint64 // number of messages in mapLost; owned by the programs
}

func (s *sharedMaps) open(k *kernel) (err error) {
	one := func(name string) unsafe.Pointer {
		m := k.programs.Maps[name]
		var b []byte
		if b, err = unix.Mmap(m.FD(), 0, int(m.ValueSize()), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED); err != nil {
			err = errors.Join(fmt.Errorf("map %q: %w", name, err), s.close())
			return nil
		}
		s.mapped = append(s.mapped, b)
		return unsafe.Pointer(unsafe.SliceData(b))
	}
	rings := k.sizes.processors * k.sizes.rings
	s.each, s.of = k.sizes.sightings, k.sizes.rings
	for _, part := range []struct {
		name string
		use  func(unsafe.Pointer)
	}{
		{mapHeads, func(at unsafe.Pointer) { s.heads = unsafe.Slice((*head)(at), rings) }},
		{mapRings, func(at unsafe.Pointer) {
			s.rings = unsafe.Slice((*sighting)(at), rings*s.each)
		}},
		{mapSockets, func(at unsafe.Pointer) {
			s.sockets = unsafe.Slice((*uint64)(at), k.sizes.slots*k.sizes.socketBytes/8)
		}},
		{mapThreads, func(at unsafe.Pointer) {
			s.threads = unsafe.Slice((*[threadBytes / 8]uint64)(at), k.sizes.slots)
		}},
		{mapLost, func(at unsafe.Pointer) { s.unreported = (*atomic.Uint64)(at) }},
	} {
		at := one(part.name)
		if err != nil {
			return err
		}
		part.use(at)
	}
	return nil
}

func (s *sharedMaps) close() error {
	var errs []error
	for _, b := range s.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	*s = sharedMaps{}
	return errors.Join(errs...)
}

// ringEnds returns, for each ring, the number of the sighting up to which the capture may take
// sightings now. From each ring it may take at most limit sightings at once.
func (s *sharedMaps) ringEnds(limit int) (ends []uint64) {
	for i := range s.heads {
		h := &s.heads[i]
		ends = append(ends, min(h.written.Load(), h.read.Load()+uint64(limit)))
	}
	return ends
}

// takeSightings passes each sighting of a ring, up to the number end, to the function seen. It
// returns how many sightings these were.
func (s *sharedMaps) takeSightings(ring int, end uint64,
	seen func(s sighting, ring int)) (taken int) {
	h := &s.heads[ring]
	from := h.read.Load()
	for at := from; at < end; at++ {
		seen(s.rings[ring*s.each+int(at)&(s.each-1)], ring%s.of)
	}
	h.read.Store(end)
	return int(end - from)
}

func (s *sharedMaps) lost(ring int) uint64 { return s.heads[ring].lost.Load() }
