package analysis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// renamer gives tuples back the ids that they began with. Some operators make exactly one tuple of
// each tuple, under another id, and log a link. If the new tuple's events get the id that the old
// tuple began with, the events of both are one path from source to sink. Windows, joins and forks
// do not rename tuples. Their tuples keep their ids, and count as made of other tuples.
type renamer struct {
	in      *input
	scratch *scratch
	all     *scatteredLogs
	// operators are the names of operators that log links. operatorOf[i] is the index in operators
	// of the operator whose log is source i.
	operators  []string
	operatorOf []int
	// renames[i] says whether operator i makes exactly one tuple of each tuple.
	renames []bool
	handed  []renamingOperator // by operator
}

// renamedTuple says which id a tuple began with.
type renamedTuple struct {
	id, began uint64
	operator  int32 // the operator that renamed it last
}

// renamingOperator describes an operator that renames tuples: a tuple enters it under one id, and
// goes on under another. from has the points at which tuples have the first id. made has the points
// at which they have the second id.
type renamingOperator struct {
	actor      string
	from, made uint64 // masks
}

// rename changes the ids of events and links. It replaces an id that an operator gave to a tuple by
// the id that the tuple began with. It changes nothing if logs lack anything: then an operator may
// have made more tuples than the links show. If the filter chooses tuples by ids, all other tuples
// are left out.
func (in *input) rename(ctx context.Context, s *scratch, all *scatteredLogs, axes []axis) error {
	r := &renamer{in: in, scratch: s, all: all}
	began := newStore[renamedTuple](s, all.events.bits, 256)
	if all.links > 0 {
		var err error
		if began, err = r.find(ctx); err != nil {
			return err
		}
	}
	if slices.Contains(r.renames, true) {
		if err := r.apply(ctx, began); err != nil {
			return err
		}
	}
	if in.choosesLater() {
		return r.choose(ctx, began, axes)
	}
	return nil
}

// find finds the operators that rename tuples, and the tuples that they rename.
func (r *renamer) find(ctx context.Context) (began *store[renamedTuple], err error) {
	in := r.in
	r.operatorOf = make([]int, len(in.sources))
	for i := range in.sources {
		if !in.sources[i].keepsLinks() && r.all.told[i].links == 0 {
			continue
		}
		name := in.points[in.sources[i].point].actor
		if r.operatorOf[i] = slices.Index(r.operators, name); r.operatorOf[i] < 0 {
			r.operatorOf[i], r.operators = len(r.operators), append(r.operators, name)
			r.renames = append(r.renames, false)
		}
		r.renames[r.operatorOf[i]] = r.renames[r.operatorOf[i]] || r.all.told[i].links > 0
	}
	if err := r.oneForOne(ctx); err != nil {
		return nil, err
	}
	if c := in.ofAll(r.all.told); slices.Contains(r.renames, true) && c.Lacks() {
		in.addFinding(FindNote,
			"%s: each tuple there seems to be made of one other, but whether it is "+
				"the same tuple is not known: %s", r.operatorNames(), c.Because())
		clear(r.renames)
	}
	began = newStore[renamedTuple](r.scratch, r.all.events.bits, 256)
	for again := true; again && slices.Contains(r.renames, true); {
		r.handed = make([]renamingOperator, len(r.operators))
		if began, err = r.follow(ctx); err != nil {
			return nil, err
		}
		if again, err = r.passesTwice(ctx, began); err != nil {
			return nil, err
		}
	}
	for i, h := range r.handed {
		if h.actor = r.operators[i]; r.renames[i] {
			in.handed = append(in.handed, h)
		}
	}
	if len(in.handed) > 0 {
		in.addFinding(FindNote,
			"%s: each tuple there was made of one other, and each was made into one "+
				"at most: it is the same tuple, and its whole path is shown under the id that it "+
				"began with", r.operatorNames())
	}
	return began, nil
}

// operatorNames lists the operators that rename.
func (r *renamer) operatorNames() string {
	var names []string
	for i, name := range r.operators {
		if r.renames[i] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// oneForOne finds the operators that make exactly one tuple of each tuple. Each link of such an
// operator is the only link of its parent, and the only link of its child.
func (r *renamer) oneForOne(ctx context.Context) error {
	for _, by := range []struct {
		store *store[logstore.Link]
		end   func(logstore.Link) uint64
	}{
		{r.all.byPar, func(l logstore.Link) uint64 { return l.Parent }},
		{r.all.byKid, func(l logstore.Link) uint64 { return l.Child }},
	} {
		var links []logstore.Link
		for p := range by.store.partitions() {
			if !slices.Contains(r.renames, true) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			first := map[uint64]int{} // by id: the operator of its first link
			var err error
			links, err = by.store.eachStretch(p, links, func(of []logstore.Link, source int32) {
				operator := r.operatorOf[source]
				for _, l := range of {
					if before, known := first[by.end(l)]; known {
						r.renames[before], r.renames[operator] = false, false
					} else {
						first[by.end(l)] = operator
					}
					if l.Parent == l.Child {
						r.renames[operator] = false
					}
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// follow returns the renamed tuples by their ids. A tuple may be renamed several times, so each
// round goes back by one operator.
func (r *renamer) follow(ctx context.Context) (*store[renamedTuple], error) {
	bits := r.all.events.bits
	current := newStore[renamedTuple](r.scratch, bits, 256)
	done := newStore[renamedTuple](r.scratch, bits, 256)
	next, ready := current.appender(), done.appender()
	for p := range r.all.byKid.partitions() {
		err := r.eachRenaming(r.all.byKid, p, func(l logstore.Link, operator int) {
			next.add(l.Parent, 0, renamedTuple{l.Child, l.Parent, int32(operator)})
		})
		if err != nil {
			return nil, err
		}
	}
	var rows []renamedTuple
	for generation, any := 0, true; any && generation < maxGenerations; generation++ {
		if err := next.flush(); err != nil {
			return nil, err
		}
		before := current
		current = newStore[renamedTuple](r.scratch, bits, 256)
		next, any = current.appender(), false
		for p := range before.partitions() {
			if err := ctx.Err(); err != nil {
				return nil, context.Cause(ctx)
			}
			parents := map[uint64]uint64{}
			err := r.eachRenaming(r.all.byKid, p, func(l logstore.Link, _ int) {
				parents[l.Child] = l.Parent
			})
			if err != nil {
				return nil, err
			}
			if rows, err = before.load(p, rows[:0]); err != nil {
				return nil, err
			}
			for _, row := range rows {
				if parent, ok := parents[row.began]; ok {
					row.began, any = parent, true
					next.add(parent, 0, row)
				} else {
					ready.add(row.id, 0, row)
				}
			}
		}
	}
	return done, errors.Join(next.flush(), ready.flush())
}

// eachRenaming calls the function tell for each link in partition p that renames a tuple. Links are
// divided into partitions either by their child's id or by their parent's.
func (r *renamer) eachRenaming(links *store[logstore.Link], p int,
	tell func(l logstore.Link, operator int)) error {
	_, err := links.eachStretch(p, nil, func(of []logstore.Link, source int32) {
		for _, l := range of {
			if operator := r.operatorOf[source]; r.renames[operator] {
				tell(l, operator)
			}
		}
	})
	return err
}

// passedPoints says which points a tuple passed under one of its ids.
type passedPoints struct {
	began       uint64
	points      uint64 // a mask
	operator    int32  // the operator that made this id, or that replaced it
	passedTwice bool   // the tuple passed one of the points twice
}

// passesTwice reports whether a tuple would pass a point twice under the id that it began with.
// Then its events could not be distinguished from those of another tuple. So the operators that
// renamed it are no longer treated as operators that rename tuples.
func (r *renamer) passesTwice(ctx context.Context, began *store[renamedTuple]) (any bool,
	err error) {
	ways := newStore[passedPoints](r.scratch, r.all.events.bits, 256)
	told := ways.appender()
	var rows []renamedTuple
	for p := range r.all.events.partitions() {
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		if rows, err = began.peek(p, rows[:0]); err != nil {
			return false, err
		}
		byID, err := r.passedUnder(p, rows)
		if err != nil {
			return false, err
		}
		for _, t := range byID {
			told.add(t.began, 0, *t)
		}
		for _, row := range rows {
			r.handed[row.operator].made |= byID[row.id].points
		}
		err = r.eachRenaming(r.all.byPar, p, func(l logstore.Link, operator int) {
			r.handed[operator].from |= byID[l.Parent].points
		})
		if err != nil {
			return false, err
		}
	}
	if err := told.flush(); err != nil {
		return false, err
	}
	return r.stopRenaming(ways)
}

// passedUnder returns the points that the renamed tuples passed, for each of their ids that lies in
// a partition. The parameter rows has those of the partition's ids that operators gave to tuples.
func (r *renamer) passedUnder(p int, rows []renamedTuple) (map[uint64]*passedPoints, error) {
	byID := map[uint64]*passedPoints{}
	for _, row := range rows {
		byID[row.id] = &passedPoints{began: row.began, operator: row.operator}
	}
	err := r.eachRenaming(r.all.byPar, p, func(l logstore.Link, operator int) {
		if byID[l.Parent] == nil {
			byID[l.Parent] = &passedPoints{began: l.Parent, operator: int32(operator)}
		}
	})
	if err != nil || len(byID) == 0 {
		return nil, err
	}
	_, err = r.all.events.eachStretch(p, nil, func(of []logstore.Event, source int32) {
		point := uint64(1) << r.in.sources[source].point
		for _, e := range of {
			if t := byID[e.ID]; t != nil {
				t.passedTwice = t.passedTwice || t.points&point != 0
				t.points |= point
			}
		}
	})
	return byID, err
}

// stopRenaming finds the tuples that passed a point twice under any of their ids. It marks the
// operators that renamed one of them as operators that do not rename. It reports whether there is
// such an operator.
func (r *renamer) stopRenaming(ways *store[passedPoints]) (any bool, err error) {
	var all []passedPoints
	for p := range ways.partitions() {
		if all, err = ways.load(p, all[:0]); err != nil {
			return false, err
		}
		points, twice := map[uint64]uint64{}, map[uint64]bool{}
		for _, t := range all {
			twice[t.began] = twice[t.began] || t.passedTwice || points[t.began]&t.points != 0
			points[t.began] |= t.points
		}
		for _, t := range all {
			if twice[t.began] {
				r.renames[t.operator], any = false, true
			}
		}
	}
	return any, nil
}

// apply gives events and links of renamed tuples the ids with which these tuples began.
func (r *renamer) apply(ctx context.Context, began *store[renamedTuple]) error {
	old := *r.all
	r.all.events = newStore[logstore.Event](r.scratch, old.events.bits, old.events.chunkRows)
	r.all.byPar = newStore[logstore.Link](r.scratch, old.byPar.bits, old.byPar.chunkRows)
	r.all.byKid = newStore[logstore.Link](r.scratch, old.byKid.bits, old.byKid.chunkRows)
	// left has the links that remain, divided into partitions by the parent's old id.
	left := newStore[logstore.Link](r.scratch, old.byPar.bits, old.byPar.chunkRows)
	events, links := r.all.events.appender(), left.appender()
	byPar, byKid := r.all.byPar.appender(), r.all.byKid.appender()
	r.all.links = 0
	err := r.eachPartition(ctx, began, func(p int, ids map[uint64]uint64) error {
		_, err := old.events.eachStretch(p, nil, func(of []logstore.Event, source int32) {
			for _, e := range of {
				if id, ok := ids[e.ID]; ok {
					e.ID = id
				}
				events.add(e.ID, source, e)
			}
		})
		old.events.drop(p)
		if err != nil {
			return err
		}
		_, err = old.byKid.eachStretch(p, nil, func(of []logstore.Link, source int32) {
			for _, l := range of {
				if _, ok := ids[l.Child]; !ok {
					links.add(l.Parent, source, l)
					r.all.links++
				}
			}
		})
		old.byKid.drop(p)
		old.byPar.drop(p)
		return err
	})
	if err := errors.Join(err, events.flush(), links.flush()); err != nil {
		return err
	}
	err = r.eachPartition(ctx, began, func(p int, ids map[uint64]uint64) error {
		_, err := left.eachStretch(p, nil, func(of []logstore.Link, source int32) {
			for _, l := range of {
				if id, ok := ids[l.Parent]; ok {
					l.Parent = id
				}
				byPar.add(l.Parent, source, l)
				byKid.add(l.Child, source, l)
			}
		})
		left.drop(p)
		return err
	})
	return errors.Join(err, byPar.flush(), byKid.flush())
}

// choosesLater reports whether the filter's choice by ids must wait until it is known which ids
// belong to the same tuple.
func (in *input) choosesLater() bool {
	return len(in.options.Filter.IDs) > 0 &&
		slices.ContainsFunc(in.sources, func(s source) bool { return s.keepsLinks() })
}

// choose leaves out the events of tuples that are not chosen. A tuple is chosen if one of its ids
// is.
func (r *renamer) choose(ctx context.Context, began *store[renamedTuple], axes []axis) error {
	old := r.all.events
	r.all.events = newStore[logstore.Event](r.scratch, old.bits, old.chunkRows)
	also := newStore[uint64](r.scratch, old.bits, 256)
	events, others := r.all.events.appender(), also.appender()
	filter := &r.in.options.Filter
	var rows []renamedTuple
	for p := range began.partitions() {
		var err error
		if rows, err = began.load(p, rows[:0]); err != nil {
			return err
		}
		for _, row := range rows {
			if filter.id(row.id) {
				others.add(row.began, 0, row.began)
			}
		}
	}
	if err := others.flush(); err != nil {
		return err
	}
	var ids []uint64
	for p := range old.partitions() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var err error
		if ids, err = also.load(p, ids[:0]); err != nil {
			return err
		}
		chosen := map[uint64]bool{}
		for _, id := range ids {
			chosen[id] = true
		}
		_, err = old.eachStretch(p, nil, func(of []logstore.Event, source int32) {
			for i, e := range of {
				if filter.id(e.ID) || chosen[e.ID] {
					r.all.told[source].countEvents(&axes[r.in.sources[source].node], of[i:i+1])
					events.add(e.ID, source, e)
				}
			}
		})
		if err != nil {
			return err
		}
		old.drop(p)
	}
	return events.flush()
}

// eachPartition calls the function do for each partition, with a map. The keys are those of the
// partition's ids that an operator gave to a tuple. The values are the ids that these tuples began
// with.
func (r *renamer) eachPartition(ctx context.Context, began *store[renamedTuple],
	do func(p int, ids map[uint64]uint64) error) error {
	var rows []renamedTuple
	for p := range began.partitions() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var err error
		if rows, err = began.peek(p, rows[:0]); err != nil {
			return err
		}
		ids := make(map[uint64]uint64, len(rows))
		for _, row := range rows {
			ids[row.id] = row.began
		}
		if err := do(p, ids); err != nil {
			return err
		}
	}
	return nil
}
