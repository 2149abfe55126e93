//go:build !race

package handlers

import "sync/atomic"

const (
	countBits = 6
	countHash = 0x9E3779B1 // a prime near 2^32 divided by the golden ratio
)

// countTable says in which cell a goroutine counts if many goroutines count. A goroutine's place in
// the table is a hash of the address at which the runtime keeps the goroutine. The first
// goroutines, one for each shard, get a cell of their own, and need no locked operation. All others
// add to cells that they share.
//
// The end of a goroutine cannot be noticed, so its cell is not freed. But the runtime gives the
// memory of an ended goroutine to a later goroutine, and then the later goroutine has the cell.
type countTable struct {
	places [1 << countBits]countPlace
	given  int // number of goroutines with a cell of their own; Channel.changes protects it
}

type countPlace struct {
	goroutine  uintptr // address of the goroutine that owns alone; 0: unused; sharedPlace: none
	ownCell    *uint64 // the goroutine's own cell
	sharedCell *uint64 // the cell for other goroutines at this place
	_          uintptr // padding: the assembly multiplies by the size of a place
}

const sharedPlace = 1

// goroutineAddress returns the address at which the runtime keeps this goroutine.
func goroutineAddress() uintptr

// countMany counts the first event at a place of the table. The place has no cells yet. The
// assembly counts all later events.
func (c *Channel) countMany() {
	self := goroutineAddress()
	place := &c.counts.places[uint32(self)*countHash>>(32-countBits)]
	if atomic.LoadUintptr(&place.goroutine) == 0 {
		c.giveCell(place, self)
	}
	atomic.AddUint64(place.sharedCell, 1)
}

// giveCell gives a cell to the first goroutine at a place. This cell belongs to the goroutine alone
// if such a cell is left. Otherwise it is a shared cell.
func (c *Channel) giveCell(place *countPlace, to uintptr) {
	c.changes.Lock()
	defer c.changes.Unlock()
	if place.goroutine != 0 {
		return
	}
	shards, n := c.ring.Shards, c.counts.given
	place.sharedCell = shards[n%len(shards)].Counter()
	c.counts.given++
	if n < len(shards) {
		place.ownCell = shards[n].CounterAlone()
	} else {
		to = sharedPlace
	}
	// This store comes last, so assembly that sees the goroutine also sees its cells.
	atomic.StoreUintptr(&place.goroutine, to)
}
