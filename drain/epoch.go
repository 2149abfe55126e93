package drain

import (
	"strings"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// All rows of a segment were logged in one epoch, which the segment names. The drainer reads the
// rows of a block from the ring, and then looks up the present epoch. If this is still the log's
// epoch, the rows were logged in that epoch.
//
// If the epoch is new, nobody knows in which of the two epochs certain rows were logged: the rows
// of the block, and all other rows that are now in the ring. All of these rows go to a segment with
// an epoch that is named after both epochs. There is no relation for such an epoch. After these
// rows, the log continues in the new epoch.
//
// If the drainer finds a ring that has no log yet, it assumes that the ring's content was logged in
// the epoch of that moment.

// betweenEpochs returns the name of the epoch for rows that were logged in one of two epochs, or
// between them.
func betweenEpochs(before, now string) string { return between + before + and + now }

const between, and = "between ", " and "

// beginEpoch continues in the epoch with which the log ends. The ring's content may be from that
// epoch or from a later one.
func (s *source) beginEpoch() error {
	s.epoch = s.log.Epoch()
	both, broken := strings.CutPrefix(s.epoch, between)
	if !broken {
		return nil
	}
	s.before, s.epoch, _ = strings.Cut(both, and)
	return s.noteBreak()
}

// noteBreak notes the tails of the shards. Rows below these tails may be from an earlier epoch.
func (s *source) noteBreak() (err error) {
	s.breaks, err = s.shardTails()
	return err
}

// shardTails returns the tails of the shards.
func (s *source) shardTails() ([]uint64, error) {
	tails := make([]uint64, s.header.Shards)
	for i := range tails {
		state, err := s.ring.State(i)
		if err != nil {
			return nil, err
		}
		tails[i] = state.Tail
	}
	return tails, nil
}

// holdEpoch makes sure that the rows that the drainer read before the call go to a segment with the
// right epoch.
func (s *source) holdEpoch() error {
	now := s.d.o.epochNow(s.header)
	if now == s.epoch {
		return nil
	}
	if s.breaks == nil {
		s.before = s.epoch
	}
	if err := s.enter(betweenEpochs(s.before, now)); err != nil {
		return err
	}
	s.epoch = now
	s.nextLook = s.lookedAt // the next look is due at once
	return s.noteBreak()
}

// enterEpoch begins a segment of the present epoch after all rows that may be older are in the log.
func (s *source) enterEpoch() error {
	for i := range s.places {
		if s.places[i].head < s.breaks[i] {
			return nil
		}
	}
	if err := s.enter(s.epoch); err != nil {
		return err
	}
	s.breaks = nil
	return nil
}

func (s *source) enter(epoch string) error {
	now := ring.Now()
	if err := s.log.Enter(epoch, now.Counter, now.Earliest.UnixNano(),
		now.Latest.UnixNano()); err != nil {
		return logFailure{err}
	}
	return nil
}

// findBoot sets the boot of a ring whose header does not name a boot, because its program had no
// /proc. The ring is from the present boot if a program has the ring open, or if the ring is in
// memory, which no boot leaves intact.
func (s *source) findBoot() {
	if s.header.Boot != ([16]byte{}) {
		return
	}
	alive, err := s.ring.Alive()
	memory, memoryErr := ring.InSharedMemory(s.d.dir)
	if err == nil && alive || memoryErr == nil && memory {
		s.header.Boot = ring.Boot()
	}
}
