package sim

import "encoding/binary"

// An Exchange connects a world with the worlds of other processes that run the same simulation.
// Each of them has some of the shards.
type Exchange interface {
	Processes() int
	Process() int
	// Swap hands each process the events for its shards, and returns those for the shards that are
	// here. earliest is the first moment at which something happens, as this process knows, and
	// then as all know together.
	Swap(bundles [][]byte, earliest []byte) (got [][]byte, all [][]byte, err error)
	// Gather hands each process the measurements of this one's shards, and returns those of all.
	Gather(shards [][]byte) ([][]byte, error)
}

// Connect makes a world without nodes a part of one that is spread over processes.
func (w *World) Connect(e Exchange) { w.exchange = e }

// swap is earliest for a world that is spread over processes.
func (w *World) swap() (moment, error) {
	k := w.workers[0]
	bundles := make([][]byte, w.exchange.Processes())
	next := k.earliest
	k.earliest = moment{at: Never}
	for i := range k.out {
		box := &k.out[i]
		if len(box.events) == 0 {
			continue
		}
		if s := w.shards[i]; s != nil {
			w.collect(s)
			continue
		}
		for j := range box.events {
			var err error
			to := &bundles[w.owners[i]]
			if *to, err = w.appendEvent(*to, &box.events[j], box.values); err != nil {
				return moment{}, err
			}
		}
		box.events = box.events[:0]
		clear(box.values)
		box.values = box.values[:0]
	}
	for _, s := range w.shards {
		if s != nil {
			if m := s.queue.next(); m.before(next) {
				next = m
			}
		}
	}
	mine := binary.LittleEndian.AppendUint64(nil, uint64(next.at))
	mine = binary.LittleEndian.AppendUint16(mine, next.round)
	got, all, err := w.exchange.Swap(bundles, mine)
	if err != nil {
		return moment{}, err
	}
	for _, bundle := range got {
		for len(bundle) > 0 {
			var e Event
			var value any
			if e, value, bundle, err = w.readEvent(bundle); err != nil {
				return moment{}, err
			}
			s := w.shards[shardOf(e.To)]
			if value != nil {
				e.Word = s.keep(value)
			}
			s.queue.push(e)
		}
	}
	for _, b := range all {
		if len(b) < 10 {
			return moment{}, errShort
		}
		m := moment{Time(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint16(b[8:])}
		if m.before(next) {
			next = m
		}
	}
	return next, nil
}
