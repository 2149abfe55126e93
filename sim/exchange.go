package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// An Exchange connects a world with the worlds of the other processes that run the same simulation.
// Each process has some of the shards.
type Exchange interface {
	Processes() int
	Process() int
	// Swap sends each process the events for its shards, and returns the events for the shards of
	// this process. It also tells all processes the moment of this process's next event (earliest),
	// and returns the moments that all processes told (all).
	Swap(bundles [][]byte, earliest []byte) (got [][]byte, all [][]byte, err error)
	// Gather sends each process the measurements of this process's shards, and returns the
	// measurements of all shards.
	Gather(shards [][]byte) ([][]byte, error)
}

// Connect makes the world a part of a simulation in several processes. The world must have no nodes
// yet.
func (w *World) Connect(e Exchange) { w.exchange = e }

// exchangeEvents puts all events that are on their way into the queues, in a simulation of several
// processes. It returns the moment of the next event of all processes.
func (w *World) exchangeEvents() (timeAndRound, error) {
	k := w.workers[0]
	bundles := make([][]byte, w.exchange.Processes())
	next := k.earliest
	k.earliest = timeAndRound{at: Never}
	for i := range k.out {
		box := &k.out[i]
		if len(box.events) == 0 {
			continue
		}
		if s := w.shards[i]; s != nil {
			w.collectPosted(s)
			continue
		}
		for j := range box.events {
			var err error
			to := &bundles[w.owners[i]]
			if *to, err = w.appendEvent(*to, &box.events[j], box.values); err != nil {
				return timeAndRound{}, err
			}
		}
		box.events = box.events[:0]
		clear(box.values)
		box.values = box.values[:0]
	}
	for _, s := range w.shards {
		if s != nil {
			if m := s.queue.firstMoment(); m.before(next) {
				next = m
			}
		}
	}
	mine := binary.LittleEndian.AppendUint64(nil, uint64(next.at))
	mine = binary.LittleEndian.AppendUint16(mine, next.round)
	got, all, err := w.exchange.Swap(bundles, mine)
	if err != nil {
		return timeAndRound{}, err
	}
	for _, bundle := range got {
		for len(bundle) > 0 {
			var e Event
			var value any
			if e, value, bundle, err = w.readEvent(bundle); err != nil {
				return timeAndRound{}, err
			}
			s := w.shards[shardOf(e.To)]
			if s == nil {
				return timeAndRound{}, fmt.Errorf("read bundle: node %d is not here", e.To)
			}
			if value != nil {
				e.Word = s.keepValue(value)
			}
			s.queue.push(e)
		}
	}
	for _, b := range all {
		if len(b) < 10 {
			return timeAndRound{}, errShort
		}
		m := timeAndRound{Time(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint16(b[8:])}
		if m.before(next) {
			next = m
		}
	}
	return next, nil
}

// Inject posts an event from outside the simulation. Only this process knows of the event. Inject
// returns false if the node is not here, or if the simulation is over.
func (w *World) Inject(after Time, to Node, protocol, kind uint8, word uint64) bool {
	if w.over || int(to) >= w.joined || w.shards[shardOf(to)] == nil || !w.Up(to) ||
		int(protocol) >= len(w.protocols) || kind >= TimerKind {
		return false
	}
	at := max(w.now.at+after, w.happened.at+1)
	if after < 0 || at >= w.End {
		return false
	}
	// Controls number their events upwards from 0. Events from outside are numbered downwards, so
	// no two events are equal.
	w.injected--
	w.shards[shardOf(to)].queue.push(Event{At: at, To: to, From: outsideNode, number: w.injected,
		Protocol: protocol, Kind: kind, Word: word})
	return true
}

// Balance moves shards from processes that had many events since the last call to processes that
// had few. The parameter is the number of processes that stay: these are the first ones. The others
// give all their shards away, and can leave afterwards. All processes must call Balance between the
// same two windows. Balance returns how many shards this process got.
func (w *World) Balance(stay int) (moved int, err error) {
	if w.exchange == nil {
		return 0, nil
	}
	if _, err := w.queueInFlight(); err != nil {
		return 0, err
	}
	loads := make([][]byte, len(w.shards))
	for i, s := range w.shards {
		if s != nil {
			loads[i] = binary.LittleEndian.AppendUint64(nil, s.events-s.balanced)
			s.balanced = s.events
		}
	}
	if loads, err = w.exchange.Gather(loads); err != nil {
		return 0, err
	}
	owners, err := assignShards(loads, w.owners, stay)
	if err != nil || slices.Equal(owners, w.owners) {
		return 0, err
	}
	bundles := make([][]byte, w.exchange.Processes())
	for i, owner := range owners {
		if w.shards[i] == nil || owner == w.exchange.Process() {
			continue
		}
		b, err := w.EncodeShard(i)
		if err != nil {
			return 0, err
		}
		to := &bundles[owner]
		*to = binary.LittleEndian.AppendUint32(*to, uint32(i))
		*to = binary.LittleEndian.AppendUint64(*to, uint64(len(b)))
		*to = append(*to, b...)
		w.shards[i] = nil
		for _, p := range w.parts {
			p.Free(i)
		}
	}
	w.owners = owners
	got, _, err := w.exchange.Swap(bundles, nil)
	if err != nil {
		return 0, err
	}
	for _, b := range got {
		for len(b) > 0 {
			if len(b) < 12 {
				return moved, errShort
			}
			i, n := int(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[4:])
			if i >= len(w.shards) || n > uint64(len(b)-12) {
				return moved, errShort
			}
			if err := w.DecodeShard(i, b[12:12+n]); err != nil {
				return moved, err
			}
			w.shards[i].balanced = w.shards[i].events
			b = b[12+n:]
			moved++
		}
	}
	return moved, nil
}

// toleratedLoad limits the load of the busiest process, divided by the mean load. Above this limit,
// shards move.
const toleratedLoad = 1.1

// assignShards returns which process gets which shard, so that all processes have about the same
// number of events. If the loads of the present owners differ little, and no owner leaves, nothing
// changes. All processes compute the same result.
func assignShards(loads [][]byte, owners []int, processes int) ([]int, error) {
	highest := processes - 1
	for _, owner := range owners {
		highest = max(highest, owner)
	}
	leaves := highest >= processes
	load, present := make([]uint64, len(loads)), make([]uint64, highest+1)
	order, total := make([]int, len(loads)), uint64(0)
	for i, b := range loads {
		if len(b) != 8 {
			return nil, errShort
		}
		load[i] = binary.LittleEndian.Uint64(b) + 1 // an idle shard costs something, too
		present[owners[i]] += load[i]
		order[i] = i
		total += load[i]
	}
	if !leaves && float64(slices.Max(present))*float64(processes) <= toleratedLoad*float64(total) {
		return owners, nil
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case load[a] > load[b]:
			return -1
		case load[a] < load[b]:
			return 1
		}
		return 0
	})
	next, sum := make([]int, len(loads)), make([]uint64, processes)
	for _, i := range order {
		least := owners[i] // the shard stays with its owner, unless another process has less
		if least >= processes {
			least = 0
		}
		for p := range sum {
			if sum[p] < sum[least] {
				least = p
			}
		}
		next[i] = least
		sum[least] += load[i]
	}
	if !leaves && slices.Max(sum) >= slices.Max(present) {
		return owners, nil
	}
	return next, nil
}
