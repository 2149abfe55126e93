package capture

import (
	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// happens has what happened beside messages.
type happens struct {
	now []happening // in this round
	// waiting has, by cookie, what happened to sockets without a number. A socket gets its number
	// when its first message comes.
	waiting map[uint64][]happened
}

// happened is a happening with its moment in cycles.
type happened struct {
	happening
	lo, hi uint64
}

func (all *happens) add(h happening) { all.now = append(all.now, h) }

// writeHappenings gives the happenings of this round to the ring, after its messages: so sockets
// with messages have their numbers.
func (c *Capture) writeHappenings(counts *Stats) {
	for _, h := range c.happens.now {
		lo, hi, ok := c.clocks.counts(h.stamp_ns)
		if !ok {
			continue
		}
		at := happened{h, lo, hi}
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
	if len(c.happens.waiting) > most {
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

func (c *Capture) writeHappening(h happened, s *socket, counts *Stats) {
	r := blackbox.Happening{
		What: blackbox.What(h.what), Began_cycles: h.lo, Ended_cycles: h.hi, Thread: h.thread,
		Other: h.other, Process: h.process,
	}
	if s != nil {
		r.Connection = s.of.Number
	}
	if r.What == blackbox.Retransmitted {
		counts.Retransmitted++
		r.Position, r.Bytes = s.again(h.sequence), min(h.bytes, blackbox.MaxBytes)
	}
	c.put(r.Events())
}

// woke gives the ring a wake-up. The sighting has the thread that was woken in place of a cookie.
func (c *Capture) woke(s *seen, counts *Stats) {
	lo, hi, ok := c.clocks.counts(s.stamp_ns)
	if !ok {
		return
	}
	c.useThread(s.thread, s.stamp_ns, lo)
	c.put(blackbox.Happening{
		What: blackbox.Woke, Began_cycles: lo, Ended_cycles: hi, Thread: s.thread,
		Other: uint32(s.cookie),
	}.Events())
	counts.Woke++
}
