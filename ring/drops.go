package ring

// DropRange is a run of events that were dropped at one place in the sequence.
type DropRange struct {
	At           uint64 // the events would have been logged before this sequence number
	Before       uint64 // events dropped before this range
	Count        uint64
	FirstCounter uint64 // counter at the first of them
	LastCounter  uint64 // counter at the last of them
}

// Drops returns the ranges of dropped events that are not yet in the log, and the number of ranges
// that are. The last range may still grow.
func (r *Reader) Drops(i int) (ranges []DropRange, before uint64, err error) {
	page := r.shards[i]
	var total, begun, taken, tail uint64
	var table [DropsSize]dropRange
	still := false
	err = guard(func() {
		for range patience {
			// A range begins before its first event is counted, and total is read after the table.
			// So no count can be negative. If another range began in the meantime, total may
			// include its events, and the loop reads again.
			taken = load(&page.consumer.drops)
			begun = load(&page.producer.drops)
			for k := range table {
				table[k] = page.drops[k].load()
			}
			total = load(&page.producer.dropped)
			tail = load(&page.producer.tail)
			if still = begun == load(&page.producer.drops) &&
				taken == load(&page.consumer.drops); still {
				break
			}
		}
	})
	if err != nil {
		return nil, 0, r.failed(err)
	}
	if !still {
		return nil, 0, r.damaged("shard %d: the table of drops does not stand still", i)
	}
	if taken > begun || begun-taken > DropsSize {
		return nil, 0, r.damaged("shard %d: %d ranges of drops, %d of them taken", i, begun, taken)
	}
	place := uint64(0)
	for k := taken; k < begun; k++ {
		d := table[k%DropsSize]
		end := total
		if k+1 < begun {
			end = table[(k+1)%DropsSize].before
		}
		switch {
		case end < d.before:
			return nil, 0, r.damaged("shard %d: range %d of drops ends at %d and begins at %d", i,
				k, end, d.before)
		case d.at < place || d.at > tail:
			return nil, 0, r.damaged("shard %d: range %d of drops at sequence %d, after one at "+
				"%d, tail %d", i, k, d.at, place, tail)
		case d.first > d.last:
			return nil, 0, r.damaged("shard %d: range %d of drops from counter %d to %d", i, k,
				d.first, d.last)
		}
		place = d.at
		ranges = append(ranges, DropRange{
			At: d.at, Before: d.before, Count: end - d.before, FirstCounter: d.first,
			LastCounter: d.last,
		})
	}
	return ranges, taken, nil
}

func (d *dropRange) load() dropRange {
	return dropRange{
		at: load(&d.at), before: load(&d.before), first: load(&d.first), last: load(&d.last),
	}
}
