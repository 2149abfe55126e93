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
		if c.writer != writerMany {
			c.keepsEvents = false // the channel was closed
			c.plainWindow, c.otherWindow, c.place = window{}, window{}, 0
		}
		return
	}
	set := c.currentSettings()
	byKind[set.kind].log(c, set, id)
	c.setWindows(set)
}

// setWindows tells the assembly where the next records of one writer go.
func (c *Channel) setWindows(set *adoptedSettings) {
	if c.writer == writerMany {
		return
	}
	c.keepsEvents = set.mode != modeNull
	c.plainWindow, c.otherWindow, c.place = window{}, window{}, 0
	switch {
	case set.word == c.plain:
		c.plainWindow.next, c.plainWindow.end = c.shard.Window()
	case set.mode == modeRecord, set.mode == modeXoY:
		c.otherWindow.next, c.otherWindow.end = c.shard.Window()
	case set.mode == modeFirstLast:
		c.place, c.last = c.cell.Next(), set.word
	}
}

// currentSettings returns the settings that apply now. If they are new, currentSettings adopts
// them.
func (c *Channel) currentSettings() *adoptedSettings {
	if raceBuild && c.writer != writerMany {
		c.turn++ // not atomic on purpose: the race detector reports a second writer
	}
	set := c.adopted()
	if atomic.LoadUint64(c.word) != set.word {
		set = c.adopt()
	}
	return set
}

// recordEvent writes an event into the ring. If the ring is full, the policy determines whether
// recordEvent waits or drops the event.
func (c *Channel) recordEvent(id uint64) {
	var ids [2]uint64
	ids[0] = id
	c.writeRecords(ids, 1)
}

// writeRecords puts the first n ids into the ring, as records with the same stamp.
func (c *Channel) writeRecords(ids [2]uint64, n uint64) {
	if c.writer == writerMany {
		c.writeMany(ids, n)
		return
	}
	counter := c.chooseStamp()
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

// writeMany writes the records into the shard of this processor.
func (c *Channel) writeMany(ids [2]uint64, n uint64) {
	counter := asm.Counter()
	for {
		processor := pin()
		s := &c.ring.Shards[uint64(processor)&c.shardMask]
		tail := atomic.LoadUint64(s.Tail)
		room, alone := tail+n <= atomic.LoadUint64(&s.Limit), c.hasOwnShard(processor)
		if room && alone {
			putMany(s, tail, counter, ids, n)
			atomic.StoreUint64(s.Tail, tail+n)
		}
		unpin()
		switch {
		case !room:
			if !s.Room(n, counter) {
				return
			}
		case alone:
			return
		case !c.shared.Load():
			c.shareShards()
		case atomic.CompareAndSwapUint64(s.Tail, tail, tail+n):
			putMany(s, tail, counter, ids, n)
			return
		}
	}
}

// putMany writes n records. In each record it stores the id first and the counter word last,
// because the lap mark in the counter word means that the record is finished. It writes the last
// record first. So if the first record of a pair is finished, the pair is finished.
func putMany(s *ring.Shard, tail, counter uint64, ids [2]uint64, n uint64) {
	for i := n; i > 0; i-- {
		seq := tail + i - 1
		put(s, seq, ring.Record{Counter: s.Finished(counter, seq), ID: ids[i-1]})
	}
}

// LogAt passes an event with a given stamp to the channel's handler. The stamp can be the moment at
// which something was due, or a counter reading that the caller has already made. The stamp must be
// a value of this node's counter, below 2^63 and not 0. The channel must have been opened with
// Open. On a channel that was opened with OpenShared, a log call must read the counter when it
// reserves the event's place.
func (c *Channel) LogAt(counter, id uint64) {
	if c.keepsNothing() {
		return
	}
	if c.writer == writerMany || counter == 0 || counter >= 1<<63 {
		c.flagMisuse()
		return
	}
	c.givenStamp = counter
	logGo(c, id)
	c.givenStamp = 0
}

// chooseStamp returns the stamp that LogAt was given. If there is none, chooseStamp reads the
// counter with the instruction in Options.Stamp.
func (c *Channel) chooseStamp() uint64 {
	if c.givenStamp != 0 {
		return c.givenStamp
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

// flagMisuse raises a flag in the ring. It is called for Log on a link channel, for Link on an
// event channel, and for LogAt with a bad stamp or on a channel that was opened with OpenShared.
func (c *Channel) flagMisuse() { c.ring.Raise(ring.FlagMisuse) }

// sieve tests whether v mod modulus is below a limit, without a division.
//
// The reciprocal is floor((2^64 − 1) / modulus), which is at most 1 less than 2^64 / modulus. Since
// v < 2^64, v·reciprocal / 2^64 is at most v / modulus, and more than v / modulus − 1. So
// floor(v·reciprocal / 2^64) is the quotient, or the quotient minus 1.
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
