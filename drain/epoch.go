package drain

import (
	"strings"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A segment names one epoch, and what is in it was logged in that one. A block's rows come from the ring before the epoch is asked for, so
// that they were logged in the log's epoch if that is still the answer. If it is not, nobody knows in which of the two they were, nor those that
// the ring had by then: they go to a segment whose epoch is called after both, which is that of no relation. The log then goes on in the
// new one. What a ring holds that has no log yet is taken to be of the epoch in which it is found.

// betweenEpochs names where it is not known in which of two epochs, or of those between them, rows were logged.
func betweenEpochs(before, now string) string { return between + before + and + now }

const between, and = "between ", " and "

// beginEpoch goes on in the epoch that the log has come to. What the ring holds may be of that one or of a later.
func (s *source) beginEpoch() error {
	s.epoch = s.log.Epoch()
	both, broken := strings.CutPrefix(s.epoch, between)
	if !broken {
		return nil
	}
	s.before, s.epoch, _ = strings.Cut(both, and)
	return s.noteBreak()
}

// noteBreak notes how far rows have come that may be older than the epoch that was asked for before.
func (s *source) noteBreak() (err error) {
	s.breaks, err = s.tails()
	return err
}

// tails is how far the shards have come.
func (s *source) tails() ([]uint64, error) {
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

// holdEpoch has what was read before go to a segment that says when it was logged.
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
	s.nextLook = s.lookedAt // the next one is due at once
	return s.noteBreak()
}

// enterEpoch begins with the present epoch's own segment when all that may be older is in the log.
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
	if err := s.log.Enter(epoch, now.Counter, now.Earliest.UnixNano(), now.Latest.UnixNano()); err != nil {
		return logFailure{err}
	}
	return nil
}

// findBoot finds out the boot of a ring that does not say it, as of a program without /proc: it
// is this one if somebody has the ring open, or if it is in memory.
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
