package ring

// Counted returns how many events the counting handler has counted since the program opened the
// ring. Any goroutine may call Counted until the ring is closed.
func (r *Reader) Counted() (uint64, error) {
	var n, most uint64
	err := guard(func() {
		for _, page := range r.shards {
			for _, cell := range []*uint64{&page.cells.counter, &page.cells.counterAlone} {
				one := load(cell)
				n, most = n+one, max(most, one)
			}
		}
	})
	switch {
	case err != nil:
		return 0, r.failed(err)
	case most > MaxEvents:
		return 0, r.damaged("%d events counted", most)
	}
	return n, nil
}

// FirstAndLast is the result of the first-last handler.
type FirstAndLast struct {
	Count         uint64 // number of events; if it is 0, First and Last are not valid
	First, Last   Record
	PoisonCounter uint64 // the counter at the first poison event; 0: there was none
}

// FirstAndLast reads the FirstLast cells of all shards. It returns the earliest first record and
// the latest last record.
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

// load reads a cell while the program may be writing it. f.last has places for two records, and
// f.count tells which of them is the last record. The program writes only to the other place. The
// method load returns false if f.count changed during every attempt.
func (f *FirstLast) load() (got FirstAndLast, still bool) {
	for range readAttempts {
		// At full speed the writer leaves a reader almost no time between two writes. So the count
		// and the last record are on one cache line, and load reads the record directly after the
		// count. The first record never changes once it is written.
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
