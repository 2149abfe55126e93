package handlers

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A call is one call of Log or Link.
type call struct {
	id, child uint64
	link      bool // a call of Link
}

// An effect says how a call must change the ring.
type effect struct {
	ids     []uint64          // the ids of the new records; the ring must have all or none
	drops   bool              // the event must be counted as dropped
	counts  bool              // the cell of the counting handler must increase
	last    bool              // the first-last cell must have the record
	poison  bool              // the first-last cell must have a stamp of a poison event
	adopts  *channel.Settings // the journal must have an entry with these settings
	flags   uint64
	id      uint64
	from    uint64 // the tail before the call
	dropped uint64 // number of dropped events before the call
}

// A model says what a channel with one writer at a time must do. It is as simple as possible: it
// uses divisions, and it keeps all records.
type model struct {
	capacity uint64 // number of records in a shard
	policy   channel.Policy
	links    bool

	settings channel.Settings
	applied  *channel.Settings // settings that the program has not adopted yet
	calls    uint64            // calls since the program adopted downsample
	want     []ring.Record     // all records that must have been logged, by sequence number
	head     uint64
	last     *view // what the reader found after the last call
}

// nextEffect returns the effect that the next call must have.
func (m *model) nextEffect(c call) effect {
	e := effect{id: c.id, from: uint64(len(m.want)), dropped: m.last.dropped}
	settings, calls := m.settings, m.calls
	if m.applied != nil {
		settings, calls = *m.applied, 0
		if settings.Validate() != nil || settings.Kind != channel.Null &&
			(settings.Kind == channel.Link) != m.links {
			settings, e.flags = channel.Settings{}, ring.FlagBadSettings
		}
		e.adopts = &settings
	}
	if settings.Kind != channel.Null && c.link != (settings.Kind == channel.Link) {
		e.flags |= ring.FlagMisuse
		return e
	}
	switch settings.Kind {
	case channel.Identity, channel.Buffered:
		e.ids = []uint64{c.id}
	case channel.Counter:
		e.counts = true
	case channel.Downsample:
		if calls%settings.A == 0 {
			e.ids = []uint64{c.id}
		}
	case channel.XoY:
		if c.id%settings.B < settings.A {
			e.ids = []uint64{c.id}
		}
	case channel.FirstLast:
		e.last, e.poison = c.id != channel.Poison, c.id == channel.Poison
	case channel.Link:
		e.ids = []uint64{c.id, c.child}
	}
	if n := uint64(len(e.ids)); m.policy != channel.Overwrite && e.from-m.head+n > m.capacity {
		e.ids, e.drops = nil, true
	}
	return e
}

// applyEffect writes into the model what a call did. The test calls applyEffect after m.checkView
// has accepted the call's effect.
func (m *model) applyEffect(e effect, v *view) {
	if e.adopts != nil {
		m.settings, m.applied, m.calls = *e.adopts, nil, 0
	}
	m.calls++
	m.want = append(m.want, v.records[len(v.records)-len(e.ids):]...)
	m.last = v
}

// A bracket is an interval in which the stamp of a call must lie.
type bracket struct{ lo, hi uint64 }

func (b bracket) holds(counter uint64) bool { return b.lo <= counter && counter <= b.hi }

// checkView checks what a reader finds in the ring while a call runs, or after the call has
// returned. The ring must have everything from before the call. If the call has returned, the ring
// must also have its whole effect. Until it returns, the ring has the whole effect or nothing of
// it.
func (m *model) checkView(v *view, e effect, b bracket, returned bool) error {
	if err := m.recordsHold(v, e, b, returned); err != nil {
		return err
	}
	if v.dropped != m.last.dropped && !(e.drops && v.dropped == m.last.dropped+1) ||
		returned && e.drops && v.dropped == m.last.dropped {
		return fmt.Errorf("%d events dropped, %d before the call", v.dropped, m.last.dropped)
	}
	if v.dropped > m.last.dropped {
		if d := v.ranges[len(v.ranges)-1]; d.At != e.from || !b.holds(d.LastCounter) ||
			d.FirstCounter > d.LastCounter {
			return fmt.Errorf("the drop stands in %+v, want at %d within %v", d, e.from, b)
		}
	}
	if v.counted != m.last.counted && !(e.counts && v.counted == m.last.counted+1) ||
		returned && e.counts && v.counted == m.last.counted {
		return fmt.Errorf("%d events counted, %d before the call", v.counted, m.last.counted)
	}
	if err := m.firstLastHolds(v.firstLast, e, b, returned); err != nil {
		return err
	}
	if v.flags&^e.flags != m.last.flags&^e.flags || returned && v.flags != m.last.flags|e.flags {
		return fmt.Errorf("flags %#x, %#x before the call", v.flags, m.last.flags)
	}
	for i, journal := range v.journals {
		if err := m.journalHolds(journal, m.last.journals[i], e, b, i == v.shard,
			returned); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if e.adopts != nil && (v.endSequence() > e.from || v.dropped > m.last.dropped) &&
			len(journal) == len(m.last.journals[i]) && !isFull(m.last.journals[i]) {
			return fmt.Errorf("shard %d: the event came before the journal's entry", i)
		}
	}
	return nil
}

func (m *model) recordsHold(v *view, e effect, b bracket, returned bool) error {
	known, n := uint64(len(m.want)), uint64(len(e.ids))
	oldest := m.head
	if m.policy == channel.Overwrite {
		held := m.capacity - 1 // the writer may be writing over the oldest record or pair
		if m.links {
			held--
		}
		oldest = max(v.tail, held) - held
	}
	switch end := v.endSequence(); {
	case v.tail == 0 && known == 0 && !(returned && n > 0):
		return nil
	case v.tail != known && v.tail != known+n:
		return fmt.Errorf("tail %d, %d records before the call that makes %d", v.tail, known, n)
	case v.first != oldest:
		return fmt.Errorf("first record has sequence %d, want %d", v.first, oldest)
	case end != known && end != known+n:
		return fmt.Errorf("%d records finished, %d before the call that makes %d", end, known, n)
	case v.unfinished != (v.tail > end):
		return fmt.Errorf("unfinished %v with %d records and tail %d", v.unfinished, end, v.tail)
	case returned && end != known+n:
		return fmt.Errorf("%d records, want %d after the call", end, known+n)
	}
	for i, r := range v.records {
		seq := v.first + uint64(i)
		if seq < known {
			if r != m.want[seq] {
				return fmt.Errorf("record %d is %v and was %v", seq, r, m.want[seq])
			}
			continue
		}
		if r.ID != e.ids[seq-known] || !b.holds(r.Counter) ||
			r.Counter != v.records[uint64(len(v.records))-n].Counter {
			return fmt.Errorf("record %d is %v, want id %d within %v", seq, r, e.ids[seq-known], b)
		}
	}
	return nil
}

func (m *model) firstLastHolds(got ring.FirstAndLast, e effect, b bracket, returned bool) error {
	before := m.last.firstLast
	if e.poison && before.PoisonCounter == 0 && (returned || got.PoisonCounter != 0) {
		if !b.holds(got.PoisonCounter) {
			return fmt.Errorf("poison at %d, want within %v", got.PoisonCounter, b)
		}
		before.PoisonCounter = got.PoisonCounter
	}
	if got == before && !(returned && e.last) {
		return nil
	}
	want := before
	want.Count++
	want.Last = ring.Record{Counter: got.Last.Counter, ID: e.id}
	if before.Count == 0 {
		want.First = want.Last
	}
	if !e.last || got != want || !b.holds(got.Last.Counter) {
		return fmt.Errorf("first and last are %+v, and were %+v before id %d within %v",
			got, before, e.id, b)
	}
	return nil
}

// isFull reports whether a journal that nobody reads is full. In a full journal, a change
// overwrites the newest entry, which may be missing while the program writes it.
func isFull(journal []ring.JournalEntry) bool { return len(journal) == 16 }

func (m *model) journalHolds(got, before []ring.JournalEntry, e effect, b bracket, written,
	returned bool) error {
	if slices.Equal(got, before) && !(returned && e.adopts != nil) {
		return nil
	}
	if e.adopts == nil {
		return fmt.Errorf("journal is %v and was %v", got, before)
	}
	if isFull(before) && slices.Equal(got, before[:len(got)]) && !returned {
		return nil
	}
	at, skipped := len(before), uint64(0)
	if len(before) == 16 {
		at, skipped = 15, before[15].Skipped+1
	}
	from, dropped := e.from, e.dropped
	if !written {
		from, dropped = 0, 0
	}
	if len(got) != at+1 || !slices.Equal(got[:at], before[:at]) {
		return fmt.Errorf("journal is %v and was %v", got, before)
	}
	last := got[at]
	want := ring.JournalEntry{Word: last.Word, Settings: *e.adopts, From: from,
		Counter: last.Counter, Dropped: dropped, Skipped: skipped}
	if last != want || !b.holds(last.Counter) || at > 0 && last.Word == before[at-1].Word {
		return fmt.Errorf("journal's newest entry is %+v, want %+v within %v", last, want, b)
	}
	return nil
}
