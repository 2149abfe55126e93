package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// links are the logged links of a run. Each takes 16 bytes of memory: two ids, and no time.
type links struct {
	// began has the links of operators that rename tuples. After resolve, the Parent of each link
	// is the id that the tuple began with.
	began []logstore.Link
	made  []logstore.Link // the others; both are sorted by child
}

// maxMakers limits the search for the tuples of which an event's tuple was made: the search ends
// when it has found this number of tuples.
const maxMakers = 10_000

// readLinks reads the links of a segment.
func (r *Run) readLinks(f *logstore.File, shard int, actor string) error {
	into := &r.links.made
	if slices.Contains(r.options.Renames, actor) {
		into = &r.links.began
	}
	for c := f.In(logstore.Links, shard); ; {
		b, err := c.Next()
		var damage *logstore.CorruptionError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &damage):
			r.Unusable = append(r.Unusable, fmt.Sprintf("links of %s: %v", actor, err))
			continue
		case err != nil:
			return err
		}
		for _, l := range b.Links {
			if l.Parent != l.Child {
				*into = append(*into, l)
			}
		}
	}
}

// resolve sorts the links. It finds, for each renamed tuple, the id that the tuple began with.
func (l *links) resolve() {
	for _, of := range [][]logstore.Link{l.began, l.made} {
		slices.SortFunc(of, func(a, b logstore.Link) int {
			return cmp.Or(cmp.Compare(a.Child, b.Child), cmp.Compare(a.Parent, b.Parent))
		})
	}
	began := make([]uint64, len(l.began))
	for i := range l.began {
		id := l.began[i].Parent
		for range len(l.began) { // bounded, because links of another run may lead in a circle
			before := linksOf(l.began, id)
			if len(before) == 0 {
				break
			}
			id = before[0].Parent
		}
		began[i] = id
	}
	for i, id := range began {
		l.began[i].Parent = id
	}
	for i := range l.made {
		m := &l.made[i]
		m.Parent, m.Child = l.tuple(m.Parent), l.tuple(m.Child)
	}
	if len(l.began) > 0 {
		slices.SortFunc(l.made, func(a, b logstore.Link) int {
			return cmp.Or(cmp.Compare(a.Child, b.Child), cmp.Compare(a.Parent, b.Parent))
		})
	}
	l.made = slices.Compact(l.made)
}

// linksOf returns the links of a child.
func linksOf(sorted []logstore.Link, child uint64) []logstore.Link {
	at, found := slices.BinarySearchFunc(sorted, child, func(l logstore.Link, id uint64) int {
		return cmp.Compare(l.Child, id)
	})
	if !found {
		return nil
	}
	end := at
	for end < len(sorted) && sorted[end].Child == child {
		end++
	}
	return sorted[at:end]
}

// tuple returns the id that a tuple began with.
func (l *links) tuple(id uint64) uint64 {
	if len(l.began) == 0 {
		return id
	}
	if of := linksOf(l.began, id); len(of) > 0 {
		return of[0].Parent
	}
	return id
}

// makerTuples returns the tuples of which a tuple was made, the tuples of which these were made,
// and so on. See maxMakers.
func (l *links) makerTuples(tuple uint64) (all []uint64) {
	direct := linksOf(l.made, tuple)
	if len(direct) == 0 {
		return nil
	}
	seen := map[uint64]bool{tuple: true}
	for at := -1; at < len(all) && len(all) < maxMakers; at++ {
		if at >= 0 {
			direct = linksOf(l.made, all[at])
		}
		for _, m := range direct {
			if !seen[m.Parent] {
				seen[m.Parent] = true
				all = append(all, m.Parent)
			}
		}
	}
	return all
}

// tellMade notes the events of the window that are before a given event because of links: the tuple
// of the given event was made of the tuples of these events.
func (p *runPass) tellMade(g *windowPlace) {
	from := p.run.makers[g.point]
	if len(from) == 0 || len(p.run.links.made) == 0 {
		return
	}
	for _, tuple := range p.run.links.makerTuples(g.tuple) {
		for c := p.heads[hash(tuple)&uint64(len(p.heads)-1)]; c > p.tail; c = p.at(c - 1).chain {
			e := p.at(c - 1)
			// An event that is surely later than g belongs to another tuple with the same id.
			if e.tuple == tuple && e.Node != g.Node && e.Lo_cycles <= g.Hi_cycles &&
				slices.Contains(from, e.point) {
				g.told = append(g.told, c)
			}
		}
	}
}
