package ring

// Counted returns how many events the counting handler has counted since the open. Any goroutine
// may call it until the ring is closed.
func (r *Reader) Counted() (uint64, error) {
	var n uint64
	if err := guard(func() { n = load(&r.shards[0].cells.counter) }); err != nil {
		return 0, r.failed(err)
	}
	if n > MaxEvents {
		return 0, r.damaged("%d events counted", n)
	}
	return n, nil
}

// FirstAndLast is what the first-last handler kept.
type FirstAndLast struct {
	Count         uint64 // events; 0: First and Last do not hold
	First, Last   Record
	PoisonCounter uint64 // counter at the first poison; 0: none came
}

// FirstAndLast reads the cells of all shards, and returns the earliest first and the latest last.
func (r *Reader) FirstAndLast() (FirstAndLast, error) {
	var all FirstAndLast
	var most uint64
	still := true
	err := guard(func() {
		for _, page := range r.shards {
			one, ok := page.cells.firstLast.load()
			most = max(most, one.Count)
			all.add(one)
			still = still && ok
		}
	})
	if err != nil {
		return FirstAndLast{}, r.failed(err)
	}
	switch {
	case !still:
		return FirstAndLast{}, r.damaged("the cell of first and last does not stand still")
	case most > MaxEvents:
		return FirstAndLast{}, r.damaged("%d events in a cell of first and last", most)
	}
	return all, nil
}

func (all *FirstAndLast) add(one FirstAndLast) {
	if one.Count > 0 {
		if all.Count == 0 || one.First.Counter < all.First.Counter {
			all.First = one.First
		}
		if all.Count == 0 || one.Last.Counter > all.Last.Counter {
			all.Last = one.Last
		}
		all.Count += one.Count
	}
	if one.PoisonCounter != 0 && (all.PoisonCounter == 0 || one.PoisonCounter < all.PoisonCounter) {
		all.PoisonCounter = one.PoisonCounter
	}
}

// load reads a cell while its writer may write it. The record that the count points to is written
// again only after the count has moved. load returns false if the count never stood still.
func (f *FirstLast) load() (got FirstAndLast, still bool) {
	for range patience {
		// Count and last record are on one cache line and are read in direct succession, because a
		// writer at full speed leaves no more time. The first record does not change once there is
		// one.
		got.Count = load(&f.count)
		got.Last = f.last[got.Count&1].load()
		if still = load(&f.count) == got.Count; still {
			break
		}
	}
	got.PoisonCounter = load(&f.poison)
	if got.Count == 0 {
		got.Last = Record{}
	} else {
		got.First = f.first.load()
	}
	return got, still
}
