package generator

import "slices"

// An id's upper bits name its source. Its lower bits are its count: the next id of the source has
// the next count. See FORMAT.md.
const countBits = 40

// maxGaps is the largest number of gaps that a sequence remembers. If there are more, the sequence
// forgets the oldest gap, and counts its ids as lost.
const maxGaps = 4096

// A gap is a range of counts that did not arrive: from ≤ count < to.
type gap struct{ from, to uint64 }

// A sequence records for every id of one source whether it arrived. An id that arrives in order, as
// nearly all do, costs one comparison. One goroutine uses it.
type sequence struct {
	started    bool
	first      uint64 // the smallest count seen
	next       uint64 // one more than the largest count
	gaps       []gap  // in order, between first and next
	forgotten  uint64 // how many counts were in gaps that were given up
	forgetting uint64 // where the last gap that was given up ended
	received   uint64
	duplicates uint64
	reordered  uint64 // ids that arrived after a later id
	end        *End
}

func (s *sequence) see(count uint64) {
	s.received++
	if s.started && count == s.next {
		s.next++
		return
	}
	switch {
	case !s.started:
		s.started, s.first, s.next = true, count, count+1
	case count > s.next:
		s.gaps = append(s.gaps, gap{s.next, count})
		s.next = count + 1
	case count < s.first:
		if count+1 < s.first {
			s.gaps = slices.Insert(s.gaps, 0, gap{count + 1, s.first})
		}
		s.first = count
		s.reordered++
	default:
		s.seeEarlier(count)
	}
	if len(s.gaps) > maxGaps {
		oldest := s.gaps[0]
		s.forgotten += oldest.to - oldest.from
		s.forgetting = max(s.forgetting, oldest.to)
		s.gaps = slices.Delete(s.gaps, 0, 1)
	}
}

// seeEarlier records a count below s.next. Either the count fills a gap, or its id has arrived
// before. If the count is so early that it may be in a gap that the sequence has forgotten, the
// sequence cannot tell which is the case. Then it counts the id as reordered, and no longer as
// lost.
func (s *sequence) seeEarlier(count uint64) {
	i, _ := slices.BinarySearchFunc(s.gaps, count, func(g gap, c uint64) int {
		if g.to <= c {
			return -1
		}
		return 1
	})
	if i == len(s.gaps) || count < s.gaps[i].from {
		if count < s.forgetting && s.forgotten > 0 {
			s.forgotten--
			s.reordered++
			return
		}
		s.duplicates++
		return
	}
	s.reordered++
	switch g := s.gaps[i]; {
	case g.from+1 == g.to:
		s.gaps = slices.Delete(s.gaps, i, i+1)
	case count == g.from:
		s.gaps[i].from++
	case count+1 == g.to:
		s.gaps[i].to--
	default:
		s.gaps[i].to = count
		s.gaps = slices.Insert(s.gaps, i+1, gap{count + 1, g.to})
	}
}

// lostIDs returns the number of ids that are missing between those that arrived. If the source has
// sent its end, lostIDs also counts the ids that are missing before the first and after the
// last.
func (s *sequence) lostIDs() uint64 {
	n := s.forgotten
	for _, g := range s.gaps {
		n += g.to - g.from
	}
	if s.end == nil {
		return n
	}
	if !s.started {
		return s.end.Sent
	}
	first := s.end.First & (1<<countBits - 1)
	if s.first > first {
		n += s.first - first
	}
	if last := first + s.end.Sent; last > s.next {
		n += last - s.next
	}
	return n
}

// A Check says what became of the tuples of some sources.
type Check struct {
	Received uint64 `json:"received"` // tuples that arrived, duplicates included
	// Lost counts tuples that did not arrive. Before a source's end is known, Lost counts only
	// tuples whose loss is proven by later tuples.
	Lost       uint64 `json:"lost"`
	Duplicates uint64 `json:"duplicates"` // tuples that arrived again
	Reordered  uint64 `json:"reordered"`  // tuples that arrived after a later one of their source
	Malformed  uint64 `json:"malformed"`  // messages or tuples that could not be read
	Sources    int    `json:"sources"`    // threads that sent
	Ended      int    `json:"ended"`      // threads that sent their end
}

// Whole reports whether every tuple of every source arrived exactly once.
func (c Check) Whole() bool {
	return c.Lost == 0 && c.Duplicates == 0 && c.Malformed == 0 && c.Ended == c.Sources
}

func (c Check) plus(o Check) Check {
	return Check{
		Received:   c.Received + o.Received,
		Lost:       c.Lost + o.Lost,
		Duplicates: c.Duplicates + o.Duplicates,
		Reordered:  c.Reordered + o.Reordered,
		Malformed:  c.Malformed + o.Malformed,
		Sources:    c.Sources + o.Sources,
		Ended:      c.Ended + o.Ended,
	}
}

// A checker checks the ids of several sources. One goroutine uses it.
type checker struct {
	sources   map[uint64]*sequence
	last      *sequence // sequence of the source lastOf: tuples of one source arrive together
	lastOf    uint64
	malformed uint64
}

func (c *checker) of(source uint64) *sequence {
	if c.sources == nil {
		c.sources = map[uint64]*sequence{}
	}
	s := c.sources[source]
	if s == nil {
		s = &sequence{}
		c.sources[source] = s
	}
	return s
}

func (c *checker) see(id uint64) {
	source := id >> countBits
	if c.last == nil || c.lastOf != source {
		c.last, c.lastOf = c.of(source), source
	}
	c.last.see(id & (1<<countBits - 1))
}

// noteEnd notes a source's end. A source that sent nothing has no ids to check.
func (c *checker) noteEnd(e End) {
	if e.Sent > 0 {
		c.of(e.First >> countBits).end = &e
	}
}

func (c *checker) check() Check {
	sum := Check{Malformed: c.malformed}
	for _, s := range c.sources {
		sum.Sources++
		if s.end != nil {
			sum.Ended++
		}
		sum.Received += s.received
		sum.Duplicates += s.duplicates
		sum.Reordered += s.reordered
		sum.Lost += s.lostIDs()
	}
	return sum
}
