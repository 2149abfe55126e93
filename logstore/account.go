package logstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Range is a range of sequence numbers. It begins at From, and ends before To.
type Range struct{ From, To uint64 }

// Report says what was read, what is damaged, and what is missing.
type Report struct {
	// Sealed is true if the last file is sealed. Then nothing was lost after that file's last
	// block.
	Sealed bool
	Blocks int // undamaged blocks with rows that were not read before
	// Duplicates counts the undamaged blocks that were left out because all their rows were read
	// before.
	Duplicates int
	Overlaps   int // undamaged blocks in which some rows, but not all, were read before
	// Foreign counts the undamaged blocks that were left out because they belong to another ring.
	Foreign    int
	Damage     []*CorruptionError // in the order of files and offsets; at most maxDamage of them
	MoreDamage int                // number of damaged places that Damage does not list
	Rows       []Account

	Then  End     // what the last file's end says about what follows
	Chain []Break // where segments do not fit together; nil unless they were read as one log
}

// maxDamage limits the memory that a report on a damaged file takes.
const maxDamage = 1000

// Account describes which rows of one kind in one shard were read, and which were not.
type Account struct {
	Kind  Kind
	Shard int
	Rows  uint64 // number of rows that were read
	Next  uint64 // 1 + sequence number of the last row that is known to have been written

	// Missing lists the rows that were written but not read, and that no Drop accounts for.
	Missing []Range
	// Dropped counts the rows that Drops account for, by Reason. Rows that were dropped with the
	// reason RingFull never had sequence numbers.
	Dropped map[Reason]uint64
}

// Whole reports whether nothing is damaged, all segments fit together, and no row is lost. No row
// is lost if every row that is known to have been written was read, or is accounted for by a Drop.
// A log that is not sealed may have had more rows: only a sealed end (see End) shows that there
// were none.
func (r *Report) Whole() bool {
	for _, a := range r.Rows {
		if len(a.Missing) > 0 {
			return false
		}
	}
	return len(r.Damage) == 0 && len(r.Chain) == 0
}

// MissingRows returns the number of missing rows that no Drop accounts for.
func (a *Account) MissingRows() uint64 {
	var n uint64
	for _, m := range a.Missing {
		n += m.To - m.From
	}
	return n
}

// String returns the account on one line.
func (a *Account) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, shard %d: %d rows", a.Kind, a.Shard, a.Rows)
	for i, m := range a.Missing {
		if i == 0 {
			fmt.Fprintf(&b, ", %d missing:", a.MissingRows())
		}
		if i == 10 {
			fmt.Fprintf(&b, " and %d ranges more", len(a.Missing)-i)
			break
		}
		fmt.Fprintf(&b, " %d to %d", m.From, m.To-1)
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Dropped)) {
		fmt.Fprintf(&b, ", %d %s", a.Dropped[reason], reason)
	}
	return b.String()
}

func (r *Report) damage(e *CorruptionError) {
	if len(r.Damage) < maxDamage {
		r.Damage = append(r.Damage, e)
	} else {
		r.MoreDamage++
	}
}

// rowStream identifies the rows of one kind in one shard. Each stream has its own sequence numbers.
type rowStream struct {
	kind  Kind
	shard int
}

type streamState struct {
	rows    uint64
	from    uint64  // sequence number at which the account begins
	next    uint64  // 1 + the highest sequence number that was read
	end     uint64  // 1 + the highest sequence number that is known to have been written
	covered []Range // rows that were read, sorted and disjoint
	absent  []Range // rows that Drops account for
	dropped map[Reason]uint64
}

// streamTracker follows the sequence numbers of all streams through one or more files.
type streamTracker map[rowStream]*streamState

func (t streamTracker) of(kind Kind, shard int) *streamState {
	key := rowStream{kind, shard}
	s := t[key]
	if s == nil {
		s = &streamState{}
		t[key] = s
	}
	return s
}

// noteBegin notes at which sequence numbers a file begins, according to the file's header. All rows
// with lower numbers must be in earlier files.
func (t streamTracker) noteBegin(places []Place) {
	for _, p := range places {
		t.noteKnown(p.Kind, p.Shard, p.Next)
	}
}

// skipTo notes at which sequence numbers the account begins. Earlier rows are not reported as
// missing.
func (t streamTracker) skipTo(places []Place) {
	for _, p := range places {
		s := t.of(p.Kind, p.Shard)
		s.from, s.next, s.end = max(s.from, p.Next), max(s.next, p.Next), max(s.end, p.Next)
	}
}

// noteKnown notes that all rows with sequence numbers below next were written.
func (t streamTracker) noteKnown(kind Kind, shard int, next uint64) {
	s := t.of(kind, shard)
	s.end = max(s.end, next)
}

// noteBlock notes that a block with these rows was read. It returns the range of rows that no
// earlier block contained. No writer causes several such ranges. If there are several nevertheless,
// the method noteBlock returns the first.
func (t streamTracker) noteBlock(kind Kind, shard int, first uint64, rows int) Range {
	s := t.of(kind, shard)
	read := Range{max(first, s.from), first + uint64(rows)}
	if read.From >= read.To {
		return Range{}
	}
	if read.From < s.next || len(s.covered) > 0 && read.From != s.next {
		pieces := uncoveredParts([]Range{read}, s.covered)
		if len(pieces) == 0 {
			return Range{}
		}
		read = pieces[0]
	}
	s.rows += read.To - read.From
	s.next = max(s.next, read.To)
	s.end = max(s.end, read.To)
	s.covered = insertRange(s.covered, read)
	return read
}

// insertRange adds r to ranges, which are sorted and disjoint. r must not overlap any of them.
func insertRange(ranges []Range, r Range) []Range {
	at, _ := slices.BinarySearchFunc(ranges, r, func(a, b Range) int {
		return cmp.Compare(a.From, b.From)
	})
	after := at < len(ranges) && ranges[at].From == r.To
	switch before := at > 0 && ranges[at-1].To == r.From; {
	case before && after:
		ranges[at-1].To = ranges[at].To
		return slices.Delete(ranges, at, at+1)
	case before:
		ranges[at-1].To = r.To
	case after:
		ranges[at].From = r.From
	default:
		return slices.Insert(ranges, at, r)
	}
	return ranges
}

// noteMissing notes the rows that the given Drops declare missing.
func (t streamTracker) noteMissing(shard int, drops []Drop) {
	for _, d := range drops {
		if d.Of == 0 || d.Of >= kinds || d.Count == 0 || d.At+d.Count < d.At {
			continue
		}
		s := t.of(Kind(d.Of), shard)
		if s.dropped == nil {
			s.dropped = make(map[Reason]uint64)
		}
		s.dropped[Reason(d.Reason)] += d.Count
		if Reason(d.Reason).InSequence() {
			s.absent = append(s.absent, Range{d.At, d.At + d.Count})
			s.end = max(s.end, d.At+d.Count)
		}
	}
}

// pass advances a stream past the next rows if the given Drops declare these rows missing.
func (t streamTracker) pass(shard int, drops []Drop) {
	for _, d := range drops {
		if d.Of == 0 || d.Of >= kinds || d.At+d.Count < d.At || !Reason(d.Reason).InSequence() {
			continue
		}
		if s := t.of(Kind(d.Of), shard); d.At <= s.next {
			s.next = max(s.next, d.At+d.Count)
			s.end = max(s.end, s.next)
		}
	}
}

// noteWritten notes that the file contains a block. The argument called to is the sequence number
// after the block's last row. If the block's kind is Drops, drops is its content.
func (t streamTracker) noteWritten(kind Kind, shard int, to uint64, drops []Drop) {
	s := t.of(kind, shard)
	s.next = max(s.next, to)
	s.end = max(s.end, s.next)
	t.pass(shard, drops)
}

// report returns the accounts of all streams.
func (t streamTracker) report() []Account {
	var all []Account
	for key, s := range t {
		missing := uncoveredParts([]Range{{s.from, s.end}}, append(slices.Clone(s.absent),
			s.covered...))
		all = append(all, Account{
			Kind: key.kind, Shard: key.shard, Rows: s.rows, Next: s.end, Missing: missing,
			Dropped: maps.Clone(s.dropped),
		})
	}
	slices.SortFunc(all, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
	})
	return all
}

// uncoveredParts returns those parts of ranges that no range in others covers. ranges must be
// sorted and disjoint.
func uncoveredParts(ranges, others []Range) []Range {
	others = slices.Clone(others)
	slices.SortFunc(others, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	var left []Range
	next := 0
	for _, r := range ranges {
		for ; next < len(others) && others[next].From < r.To; next++ {
			o := others[next]
			if o.From > r.From {
				left = append(left, Range{r.From, o.From})
			}
			r.From = max(r.From, o.To)
			if r.From >= r.To {
				break // o may overlap the next range, too
			}
		}
		if r.From < r.To {
			left = append(left, r)
		}
	}
	return left
}

// nextNumbers lists the next sequence number of each stream.
func (t streamTracker) nextNumbers() []Place {
	var all []Place
	for key, s := range t {
		if s.end > 0 {
			all = append(all, Place{Kind: key.kind, Shard: key.shard, Next: s.end})
		}
	}
	slices.SortFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
	})
	return all
}
