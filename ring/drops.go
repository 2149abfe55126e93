package ring

// DropRange is a series of events that were dropped at one place in the sequence of records.
type DropRange struct {
	At           uint64 // the sequence number of the record that follows the dropped events
	Before       uint64 // number of events that were dropped before this range
	Count        uint64
	FirstCounter uint64 // the smallest counter of the events in the range
	LastCounter  uint64 // the largest counter of the events in the range
}

// Drops returns the ranges of dropped events that are not yet in the log. The second result is the
// number of ranges that are already in the log. The last range may still grow.
func (r *Reader) Drops(i int) (ranges []DropRange, before uint64, err error) {
	page := r.shards[i]
	var total, begun, taken, tail uint64
	var table [DropsSize]dropRange
	still := false
	err = guard(func() {
		for range readAttempts {
			// The program writes a range into page.drops before it adds the range's first event to
			// dropped. This loop reads dropped (into total) after page.drops. So total includes all
			// ranges in table, and no DropRange.Count is negative. If another range began
			// meanwhile, total may include that range's events, and the loop reads again.
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
