package handlers

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// logGo is the log call in Go. On amd64 it handles rare cases: new settings, a full ring, and
// handlers that the assembly does not implement. Builds without assembly use it for every event.
//
//lint:ignore U1000 assembly jumps here
func logGo(c *Channel, id uint64) {
	if c.keepsNothing() {
		return
	}
	set := c.current()
	byKind[set.kind].log(c, set, id)
}

// current returns the settings that apply now. It adopts them if they are new.
func (c *Channel) current() *adopted {
	if raceBuild && c.writer != writerMany {
		c.turn++ // not atomic on purpose, so that a second writer is a data race
	}
	set := c.adopted()
	if atomic.LoadUint64(c.word) != set.word {
		set = c.adopt()
	}
	return set
}

// record writes an event into the ring. If the ring is full, the policy determines whether record
// waits or drops the event.
func (c *Channel) record(id uint64) {
	var ids [2]uint64
	ids[0] = id
	c.write(ids, 1)
}

// write puts the first n ids into the ring as records that share a stamp.
func (c *Channel) write(ids [2]uint64, n uint64) {
	if c.writer == writerMany {
		c.writeMany(ids, n)
		return
	}
	counter := c.stamp()
	s := c.shard
	tail := *s.Tail
	if tail+n > s.Limit && !s.Room(n, counter) {
		return
	}
	for i := range n {
		put(s, tail+i, ring.Record{Counter: counter, ID: ids[i]})
	}
	atomic.StoreUint64(s.Tail, tail+n)
}

// writeMany reserves places in the shard of this core, and then writes the records. In each record
// it stores the id first and the counter word last, because the lap mark in the counter word means
// that the record is finished. It writes the last record first, so that a pair is finished as soon
// as its first record is.
func (c *Channel) writeMany(ids [2]uint64, n uint64) {
	counter, core := asm.CounterCore()
	s := &c.ring.Shards[uint64(core)&c.coreMask]
	for {
		tail := atomic.LoadUint64(s.Tail)
		if tail+n > atomic.LoadUint64(&s.Limit) {
			if !s.Room(n, counter) {
				return
			}
			continue
		}
		if !atomic.CompareAndSwapUint64(s.Tail, tail, tail+n) {
			continue
		}
		for i := n; i > 0; i-- {
			seq := tail + i - 1
			put(s, seq, ring.Record{Counter: s.Finished(counter, seq), ID: ids[i-1]})
		}
		return
	}
}

// LogAt passes an event with a given stamp to the channel's handler. The stamp can be the moment at
// which something was due, or a counter reading that the caller has already made. It is a value of
// this node's counter, below 2^63 and not 0. The channel must be from Open and not from OpenShared,
// because many writers read the counter when they reserve the event's place.
func (c *Channel) LogAt(counter, id uint64) {
	if c.keepsNothing() {
		return
	}
	if c.writer == writerMany || counter == 0 || counter >= 1<<63 {
		c.misuse()
		return
	}
	c.given = counter
	logGo(c, id)
	c.given = 0
}

// stamp returns the stamp that was given to LogAt, or else reads the counter with the instruction
// in Options.Stamp.
func (c *Channel) stamp() uint64 {
	if c.given != 0 {
		return c.given
	}
	if c.writer == writerUnordered {
		return asm.CounterUnordered()
	}
	return asm.Counter()
}

func put(s *ring.Shard, seq uint64, r ring.Record) {
	at := (*ring.Record)(unsafe.Add(s.Records, (seq&s.Mask)*ring.RecordBytes))
	atomic.StoreUint64(&at.ID, r.ID)
	atomic.StoreUint64(&at.Counter, r.Counter)
}

// misuse notes a call of Log on a link channel, of Link on an event channel, or of LogAt with a bad
// stamp or on a channel of OpenShared.
func (c *Channel) misuse() { c.ring.Raise(ring.FlagMisuse) }

// sieve tests whether v mod modulus < below, without a division. The reciprocal is floor((2^64 − 1)
// / modulus), which is at most 1 less than 2^64 / modulus. Since v < 2^64, v·reciprocal / 2^64 is
// less than v / modulus by less than 1. So floor(v·reciprocal / 2^64) is the quotient, or the
// quotient minus 1.
type sieve struct {
	reciprocal uint64
	modulus    uint64 // at least 1
	below      uint64
}

func newSieve(below, modulus uint64) sieve {
	return sieve{reciprocal: (1<<64 - 1) / modulus, modulus: modulus, below: below}
}

func (s *sieve) keeps(v uint64) bool {
	quotient, _ := bits.Mul64(v, s.reciprocal)
	rest := v - quotient*s.modulus
	if rest >= s.modulus {
		rest -= s.modulus
	}
	return rest < s.below
}
