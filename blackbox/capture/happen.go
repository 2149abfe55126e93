package capture

import (
	"math"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// happeningQueue has what happened beside messages.
type happeningQueue struct {
	now []happening // in this round
	// waiting has the happenings of sockets that have no number yet, by cookie. A socket gets its
	// number when its first message comes.
	waiting map[uint64][]timedHappening
}

// timedHappening is a happening with its moment in cycles.
type timedHappening struct {
	happening
	lo, hi         uint64
	earlier, later uint64 // of Busy: lo and hi, each less the time for which the program was busy
}

// busy_ns returns for how long the thread did something else while a message waited. It returns 0
// for happenings that are not Busy.
func (h *happening) busy_ns() uint64 {
	if blackbox.What(h.what) != blackbox.Busy {
		return 0
	}
	return uint64(h.process)<<32 | uint64(h.other)
}

func (all *happeningQueue) add(h happening) { all.now = append(all.now, h) }

// writeHappenings writes the new happenings to the ring. It is called after the new messages were
// written, so that sockets with messages already have their numbers.
func (c *Capture) writeHappenings(counts *Stats) {
	for _, h := range c.happens.now {
		lo, hi, ok := c.clocks.countsAt(h.stamp_ns)
		if !ok {
			continue
		}
		at := timedHappening{happening: h, lo: lo, hi: hi}
		if at.busy_ns() > 0 {
			if at.earlier, at.later, ok = c.clocks.countsAt(h.stamp_ns - at.busy_ns()); !ok {
				continue
			}
		}
		if h.thread != 0 {
			c.useThread(h.thread, h.stamp_ns, lo)
		}
		if h.cookie == 0 {
			c.writeHappening(at, nil, counts)
		} else if s := c.sockets.find(h.cookie); s != nil && s.of.Number != 0 {
			c.writeHappening(at, s, counts)
		} else {
			c.happens.waiting[h.cookie] = append(c.happens.waiting[h.cookie], at)
		}
	}
	c.happens.now = c.happens.now[:0]
	if len(c.happens.waiting) > mostRemembered {
		clear(c.happens.waiting) // these sockets seem to exchange no messages
	}
}

// writeWaiting gives the ring what happened to a socket before its first message.
func (c *Capture) writeWaiting(s *socket, counts *Stats) {
	for _, h := range c.happens.waiting[s.of.Cookie] {
		c.writeHappening(h, s, counts)
	}
	delete(c.happens.waiting, s.of.Cookie)
}

func (c *Capture) writeHappening(h timedHappening, s *socket, counts *Stats) {
	r := blackbox.Happening{
		What: blackbox.What(h.what), Began_cycles: h.lo, Ended_cycles: h.hi, Thread: h.thread,
		Other: h.other, Process: h.process,
	}
	if r.What == blackbox.Busy {
		r.Other, r.Process = 0, 0
		r.Position, r.Began_cycles = s.received.positionAt(h.sequence), h.hi
		if h.busy_ns() > 0 {
			// The time for which the thread did something else is between lo-later and hi-earlier.
			width := (h.hi - h.lo) + (h.later - h.earlier)
			r.Slack_cycles = uint32(min((width+1)/2, math.MaxUint32))
			r.Began_cycles = h.earlier + width/2
		}
	}
	if s != nil {
		r.Connection = s.of.Number
	}
	if r.What == blackbox.Retransmitted {
		counts.Retransmitted++
		r.Position, r.Bytes = s.sent.positionAt(h.sequence), min(h.bytes, blackbox.MaxBytes)
	}
	c.putRecord(r.Events())
}

// writeWakeUp writes a wake-up to the ring. Where other sightings have a cookie, this sighting has
// the thread that was woken.
func (c *Capture) writeWakeUp(s *seenMessage, counts *Stats) {
	lo, hi, ok := c.clocks.countsAt(s.stamp_ns)
	if !ok {
		return
	}
	c.useThread(s.thread, s.stamp_ns, lo)
	c.putRecord(blackbox.Happening{
		What: blackbox.Woke, Began_cycles: lo, Ended_cycles: hi, Thread: s.thread,
		Other: uint32(s.cookie),
	}.Events())
	counts.Woke++
}
