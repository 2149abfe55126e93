package handlers

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A drain empties a ring as a drainer does: it copies records, keeps the copies, and then tells the
// program that the records may be overwritten.
type drain struct {
	consumer     *ring.Consumer
	next         []uint64        // the next sequence number of each shard
	takenRecords [][]ring.Record // the records of each shard, in sequence
	holes        int             // records that the dead owner reserved and never wrote
	dropped      uint64          // number of events in the ranges that the drain took
	journal      []ring.JournalEntry
	buffer       []ring.Record

	last  time.Time // when the drain last looked at the ring
	pause time.Duration
}

// lookedOften reports whether the drain looked so often that the program never stopped waiting for
// it.
func (d *drain) lookedOften() bool { return d.pause < 500*time.Millisecond }

func newDrain(path string) (*drain, error) {
	consumer, err := ring.OpenConsumer(path)
	if err != nil {
		return nil, err
	}
	h := consumer.Header()
	d := &drain{consumer: consumer, next: make([]uint64, h.Shards),
		takenRecords: make([][]ring.Record, h.Shards), buffer: make([]ring.Record, h.Records)}
	return d, nil
}

// drainOnce takes all records that the ring has now. If the ring's owner is dead, it also skips
// places that the owner reserved for records but never wrote.
func (d *drain) drainOnce(dead bool) (moved bool, err error) {
	if pause := time.Since(d.last); d.last != (time.Time{}) && pause > d.pause {
		d.pause = pause
	}
	for i := range d.next {
		first, n, unfinished, err := d.consumer.Copy(i, d.next[i], d.buffer)
		if err != nil {
			return moved, err
		}
		if first != d.next[i] {
			return moved, fmt.Errorf("shard %d: records %d to %d are gone", i, d.next[i], first)
		}
		d.takenRecords[i] = append(d.takenRecords[i], d.buffer[:n]...)
		d.next[i] += uint64(n)
		if unfinished && dead {
			// A writer writes the second record of a pair first. If the first record is missing,
			// the pair is not complete, so skip both records.
			d.next[i]++
			if d.consumer.Header().Links {
				d.next[i]++
			}
			d.holes++
		}
		moved = moved || n > 0 || unfinished && dead
		if err := d.release(i); err != nil {
			return moved, err
		}
	}
	d.last = time.Now()
	return moved, nil
}

func (d *drain) release(i int) error {
	ranges, before, err := d.consumer.Drops(i)
	if err != nil {
		return err
	}
	if len(ranges) > 0 {
		ranges = ranges[:len(ranges)-1] // the last range may still grow
	}
	for _, r := range ranges {
		d.dropped += r.Count
	}
	journal, journalBefore, err := d.consumer.Journal(i)
	if err != nil {
		return err
	}
	if i == 0 {
		d.journal = append(d.journal, journal...)
	}
	return d.consumer.Release(i, d.next[i], before+uint64(len(ranges)),
		journalBefore+uint64(len(journal)))
}

// finishDrain takes the remaining records of a ring whose owner has closed it or has died. It also
// counts all dropped events.
func (d *drain) finishDrain() error {
	for moved := true; moved; {
		var err error
		if moved, err = d.drainOnce(true); err != nil {
			return err
		}
	}
	for i := range d.next {
		ranges, _, err := d.consumer.Drops(i)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			d.dropped += r.Count
		}
	}
	total := uint64(0)
	for i := range d.next {
		s, err := d.consumer.State(i)
		if err != nil {
			return err
		}
		total += s.Dropped
	}
	if d.dropped != total {
		return fmt.Errorf("%d events dropped, and their ranges have %d", total, d.dropped)
	}
	return nil
}
