package tscratio

import (
	"fmt"
	"iter"
	"slices"
)

// Kept is a train as a pair keeps it.
type Kept struct {
	By          Starter
	Exchanges   int  // complete exchanges in the train
	Whole       bool // whether Best is set
	Best        Exchange
	Gathered    int // constraints before pruning; 0 if unknown
	Constraints []Constraint
	Stamps      Stamps
	B, A        Interval // smallest and largest reading of the constraints, before pruning
}

// Kept returns the pair's trains, in the order in which they were added.
func (p *Pair) Kept() iter.Seq[Kept] {
	return func(yield func(Kept) bool) {
		for i := range p.trains {
			t := &p.trains[i]
			k := Kept{
				By: t.by, Exchanges: int(t.exchanges), Whole: t.whole, Best: t.best,
				Gathered: int(t.gathered),
				Stamps:   t.stamps, B: t.b, A: t.a,
			}
			for _, r := range t.lower {
				k.Constraints = append(k.Constraints, Constraint{Lower, r.b, r.a})
			}
			for _, r := range t.upper {
				k.Constraints = append(k.Constraints, Constraint{Upper, r.b, r.a})
			}
			if !yield(k) {
				return
			}
		}
	}
}

// Merge adds the trains of another pair of the same two nodes. If two nodes probe each other, each
// node has a pair with only the trains that it started, and Merge joins the two pairs. Node A of
// one pair may be node B of the other. The error wraps ErrEpoch if a node's epoch differs. The
// error wraps ErrAssumption if the nodes, their properties or the windows differ, or if the other
// pair has a smaller MaxWander, for which Prune may have dropped constraints.
func (p *Pair) Merge(q *Pair) error {
	a, b := q.A, q.B
	turned := a.Name == p.B.Name
	if turned {
		a, b = b, a
	}
	name := fmt.Sprintf("merge pair %q with %q into %q with %q",
		q.A.Name, q.B.Name, p.A.Name, p.B.Name)
	if a.Epoch != p.A.Epoch || b.Epoch != p.B.Epoch {
		return fmt.Errorf("%s: epochs %q and %q, want %q and %q: %w",
			name, a.Epoch, b.Epoch, p.A.Epoch, p.B.Epoch, ErrEpoch)
	}
	if a != p.A || b != p.B {
		return fmt.Errorf("%s: nodes are %+v and %+v, want %+v and %+v: %w",
			name, a, b, p.A, p.B, ErrAssumption)
	}
	if q.Declared.MaxWander < p.Declared.MaxWander || q.Declared.Window != p.Declared.Window {
		return fmt.Errorf("%s: constraints were kept for at most %v in windows of ±%v, want %v "+
			"in ±%v: %w",
			name, q.Declared.MaxWander, q.Declared.Window, p.Declared.MaxWander, p.Declared.Window,
			ErrAssumption)
	}
	trains := slices.Clone(q.trains)
	for i := range trains {
		if turned {
			trains[i] = trains[i].swapNodes()
		}
		// A long train may fit into a window of one node but not into a window of the other.
		if err := p.checkTrain(&trains[i]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	p.trains = append(p.trains, trains...)
	return nil
}

// swapNodes returns the train with A and B exchanged.
func (t train) swapNodes() train {
	t.b, t.a = t.a, t.b
	t.by = StartedByA + StartedByB - t.by
	turn := func(rs []reading) []reading {
		out := make([]reading, len(rs))
		for i, r := range rs {
			out[i] = reading{b: r.a, a: r.b}
		}
		slices.SortFunc(out, compareReadings)
		return out
	}
	t.lower, t.upper = turn(t.upper), turn(t.lower)
	return t
}

// Since returns a pair with the trains that were added after the first n.
func (p *Pair) Since(n int) *Pair {
	return &Pair{A: p.A, B: p.B, Declared: p.Declared, trains: slices.Clone(p.trains[n:])}
}

// Join adds the trains of another pair of the same two counters. As with Describe, the larger
// quantum and core slack of each node apply from now on. If the pairs are of other counters, or
// were gathered under other assumptions, the error wraps ErrAssumption.
func (p *Pair) Join(q *Pair) error {
	same := func(n, m Node) bool { return n.Name == m.Name && n.Epoch == m.Epoch }
	if !same(p.A, q.A) || !same(p.B, q.B) || p.Declared != q.Declared {
		return fmt.Errorf("join pair %q (%q) with %q (%q) and %q (%q) with %q (%q): other "+
			"counters or assumptions: %w", p.A.Name, p.A.Epoch, p.B.Name, p.B.Epoch,
			q.A.Name, q.A.Epoch, q.B.Name, q.B.Epoch, ErrAssumption)
	}
	p.Describe(q.A)
	p.Describe(q.B)
	p.trains = append(p.trains, q.trains...)
	return nil
}

// KeepNewest drops the oldest trains until at most the given number is left, and until Encode
// returns at most the given number of bytes. At least one train is left.
func (p *Pair) KeepNewest(trains, bytes int) {
	newest := make([]int, len(p.trains))
	for i := range newest {
		newest[i] = i
	}
	slices.SortStableFunc(newest, func(i, j int) int {
		switch x, y := p.trains[i].b.Hi, p.trains[j].b.Hi; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return j - i
	})
	size := (&Pair{A: p.A, B: p.B}).EncodedBytes()
	for n, i := range newest {
		size += p.trains[i].encodedBytes()
		if n > 0 && (n == trains || size > bytes) {
			newest = newest[:n]
			break
		}
	}
	slices.Sort(newest) // so that trains stay in the order in which they were added
	for n, i := range newest {
		p.trains[n] = p.trains[i]
	}
	clear(p.trains[len(newest):]) // so that the constraints of the dropped trains are freed
	if p.trains = p.trains[:len(newest)]; cap(p.trains) > 4*len(newest) {
		p.trains = slices.Clone(p.trains)
	}
}

// EncodedBytes returns the length of what Encode returns.
func (p *Pair) EncodedBytes() int {
	const around, header, end = 12, 8 + 1 + 2*(2*2+3*8) + 4*8, 8 + 9
	n := around + header + end
	for _, s := range []string{p.A.Name, p.A.Epoch, p.B.Name, p.B.Epoch} {
		n += len(s)
	}
	for i := range p.trains {
		n += p.trains[i].encodedBytes()
	}
	if p.version() > packetsAlone {
		n += 4 * len(p.trains)
	}
	return n
}

// encodedBytes returns the length of the train's block in what Encode returns.
func (t *train) encodedBytes() int {
	n := 8 + 19 + 4*8 + 2*4 + 16*(len(t.lower)+len(t.upper))
	if t.whole {
		n += 8 * 8
	}
	return n
}
