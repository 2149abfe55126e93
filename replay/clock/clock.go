package clock

// A Clock is the replay clock of one process. One goroutine at a time may use it.
type Clock struct {
	process  uint32
	epsilons *Epsilons
	now      Stamp
	next     []Known // scratch space of Receive
	others   []uint64
	broken   uint64

	// counted makes the clock count events as the program of the thesis does (see the package
	// comment). That program compares what the process and the message know before it adds the
	// process's own epoch. Only the test with the thesis' trace sets counted.
	counted bool
}

// New returns the clock of a process. Processes are numbered from 0.
func New(process int, e *Epsilons) *Clock {
	return &Clock{process: uint32(process), epsilons: e}
}

// Stamp returns the stamp of the last event. The stamp is valid until the next event.
func (c *Clock) Stamp() *Stamp { return &c.now }

// Broken counts events at which a known epoch was too far ahead of the process's own clock: the
// clocks must have differed by more than epsilon.
func (c *Clock) Broken() uint64 { return c.broken }

// Send advances the clock at the event of sending a message, which must carry the stamp. The epoch
// should not be less than at the last event. If it is less, Send uses the last event's epoch.
func (c *Clock) Send(epoch int64) { c.Local(epoch) }

// Local advances the clock at an event that receives no message.
func (c *Clock) Local(epoch int64) {
	reached := max(c.now.Max, epoch)
	w := c.epsilons.at(reached)
	if epoch < w.floor(c.process, reached) {
		c.broken++
	}
	held := c.now.held
	at := 0
	for at < len(held) && held[at].Process < c.process {
		at++
	}
	if at == len(held) || held[at].Process != c.process {
		held = append(held, Known{})
		copy(held[at+1:], held[at:])
		held[at] = Known{Process: c.process, Epoch: w.floor(c.process, c.now.Max)}
		c.now.held = held
	}
	own := max(epoch, held[at].Epoch)
	if reached == c.now.Max && own == held[at].Epoch {
		held[at].Counter++
		return
	}
	c.now.Max = reached
	held[at].Epoch = own
	n := 0
	for i := range held {
		k := &held[i]
		if k.Epoch > w.floor(k.Process, reached) {
			held[n] = Known{Process: k.Process, Epoch: k.Epoch}
			n++
		}
	}
	c.now.held = held[:n]
}

// Receive advances the clock at the event of receiving a message. It does not change the message's
// stamp. The result is false if the clocks of the two processes must have differed by more than
// epsilon.
func (c *Clock) Receive(epoch int64, m *Stamp) bool {
	reached := max(c.now.Max, m.Max, epoch)
	w := c.epsilons.at(reached)
	fine := epoch >= w.floor(c.process, reached)
	if !fine {
		c.broken++
	}
	if need := len(c.now.held) + len(m.held) + 1; len(c.next) < need {
		c.next = make([]Known, 2*need)
	}
	if c.now.Max == reached || m.Max == reached {
		c.countMerge(w, reached, epoch, m)
		return fine
	}
	// The counters start again from 0, because the known epochs change with this event.
	a, b, next := c.now.held, m.held, c.next
	n, i, j, seen := 0, 0, 0, false
	for i < len(a) || j < len(b) {
		var k Known
		switch {
		case j == len(b) || i < len(a) && a[i].Process < b[j].Process:
			k = a[i]
			i++
		case i == len(a) || b[j].Process < a[i].Process:
			k = b[j]
			j++
		default:
			k.Process, k.Epoch = a[i].Process, max(a[i].Epoch, b[j].Epoch)
			i, j = i+1, j+1
		}
		if k.Process >= c.process && !seen {
			seen = true
			if k.Process > c.process {
				next[n] = Known{Process: c.process, Epoch: epoch}
				n++
			} else {
				k.Epoch = max(k.Epoch, epoch)
			}
		}
		if k.Epoch > w.floor(k.Process, reached) {
			next[n] = Known{Process: k.Process, Epoch: k.Epoch}
			n++
		}
	}
	if !seen {
		next[n] = Known{Process: c.process, Epoch: epoch}
		n++
	}
	c.keepElements(reached, n)
	return fine
}

// keepElements replaces the stamp's elements by the first n elements of c.next, and its Max by the
// parameter reached.
func (c *Clock) keepElements(reached int64, n int) {
	c.now.Max, c.now.held, c.next = reached, c.next[:n], c.now.held[:cap(c.now.held)]
}

// countMerge merges what the clock and a received message know, if one of the two already knew the
// greatest epoch. If one of the two already knew everything that both together know, countMerge
// takes over the counters of the one that knew everything, and adds 1 for the present event.
// Otherwise the counters start again from 0.
func (c *Clock) countMerge(w *window, reached, epoch int64, m *Stamp) {
	a, b, next := c.now.held, m.held, c.next
	// mine says whether the process already knew, before the message came, everything that it knows
	// now. theirs says the same of the message's stamp.
	mine, theirs := c.now.Max == reached, m.Max == reached
	others := c.others[:0]
	n := 0
	for i, j, seen := 0, 0, false; i < len(a) || j < len(b) || !seen; n++ {
		p := ^uint32(0)
		if i < len(a) {
			p = a[i].Process
		}
		if j < len(b) {
			p = min(p, b[j].Process)
		}
		if !seen {
			p = min(p, c.process)
		}
		low := w.floor(p, reached)
		x, y := low, low
		var countX, countY uint64
		if i < len(a) && a[i].Process == p {
			x, countX = max(low, a[i].Epoch), a[i].Counter
			i++
		}
		if j < len(b) && b[j].Process == p {
			y, countY = max(low, b[j].Epoch), b[j].Counter
			j++
		}
		z := max(x, y)
		if p == c.process {
			seen = true
			if c.counted {
				mine, theirs = mine && x == z, theirs && y == z
				x, y = max(x, epoch), max(y, epoch)
			}
			z = max(z, epoch)
		}
		mine, theirs = mine && x == z, theirs && y == z
		next[n] = Known{Process: p, Epoch: z, Counter: countX}
		others = append(others, countY)
	}
	kept := 0
	for i, k := range next[:n] {
		switch {
		case mine && theirs:
			k.Counter = max(k.Counter, others[i])
		case mine:
		case theirs:
			k.Counter = others[i]
		default:
			k.Counter = 0
		}
		if (mine || theirs) && k.Process == c.process {
			k.Counter++
		}
		if k.Counter > 0 || k.Epoch > w.floor(k.Process, reached) {
			next[kept] = k
			kept++
		}
	}
	c.others = others
	c.keepElements(reached, kept)
}
