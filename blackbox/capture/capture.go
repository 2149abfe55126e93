package capture

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// Options say where the records of messages go.
type Options struct {
	// Dir is the directory of the node's rings; "": as for handlers.Options.
	Dir string

	// Notify is called with failures after the start, from another goroutine. nil: nobody is told.
	Notify func(error)
}

const (
	// kernelBuffer is the size in bytes of the buffer between the kernel and the capture. It has
	// room for some 100,000 messages.
	kernelBuffer = 8 << 20
	ringBuffer   = "4MiB"

	// The capture looks for messages every busy while some come, and every idle otherwise. Each
	// time it also reads the clock and the counter. Both times are short, because a stamp that is
	// far from these readings is less exact.
	busy = 2 * time.Millisecond
	idle = 20 * time.Millisecond

	// batch is the largest number of messages that are converted at once.
	batch = 8192
)

// Capture sees the messages of all programs of this machine until it is closed. Any goroutine may
// use it.
type Capture struct {
	o       Options
	kernel  *kernel
	channel *handlers.Channel
	stop    chan struct{}
	flushes chan chan struct{} // each is closed when everything until now is in the ring
	stopped chan struct{}
	once    sync.Once
	closed  error

	mu    sync.Mutex
	stats Stats

	// Once run has started, only run uses the following fields.
	clocks  clocks
	sockets sockets
	threads threads
	seen    []sighting
	lost    uint64 // the kernel's count when it was last read
	latest  uint64 // the counter in the previous round, for records of losses
}

// Stats counts messages since the start.
type Stats struct {
	// Messages counts the messages that the capture logged. If the ring had no room for some of
	// them, Dropped counts their events.
	Messages uint64

	// Lost counts the messages that were seen but not logged. The log says how many these are, too.
	Lost map[blackbox.Reason]uint64

	// Late is the number of messages sent over TCP for which the beginning of the call was not
	// seen, or has no exact stamp.
	Late uint64

	Sockets int    // sockets that are known
	Dropped uint64 // events that found no room in the ring
	Early   bool   // the kernel shows the beginning of calls that send over TCP
	Error   string // the last failure after the start
}

// Start begins to capture. The error wraps ErrNotPossible if the kernel or the rights of this
// process do not allow a capture.
func Start(o Options) (*Capture, error) {
	c, err := start(o)
	if err != nil {
		return nil, fmt.Errorf("start capture: %w", err)
	}
	return c, nil
}

func start(o Options) (c *Capture, err error) {
	k, err := load(kernelBuffer)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	channel, err := handlers.Open(blackbox.Channel, handlers.Options{
		Buffer: ringBuffer, Dir: o.Dir,
	})
	if err != nil {
		return nil, err
	}
	c = &Capture{
		o: o, kernel: k, channel: channel,
		stop: make(chan struct{}), stopped: make(chan struct{}),
		flushes: make(chan chan struct{}),
		clocks:  clocks{read: readBracket},
		sockets: sockets{now: map[uint64]*socket{}}, threads: threads{},
	}
	c.stats.Lost, c.stats.Early = map[blackbox.Reason]uint64{}, k.early
	c.clocks.look()
	if err := k.attach(); err != nil {
		return nil, errors.Join(err, channel.Close())
	}
	go c.run()
	return c, nil
}

// Stats returns the present counts.
func (c *Capture) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Lost = make(map[blackbox.Reason]uint64, len(c.stats.Lost))
	for reason, n := range c.stats.Lost {
		s.Lost[reason] = n
	}
	s.Dropped = c.channel.Dropped()
	return s
}

// Flush returns when all messages that were seen before are in the ring. All sockets and threads
// are then described again, so that a reader does not need the log until here.
func (c *Capture) Flush() {
	done := make(chan struct{})
	select {
	case c.flushes <- done:
		<-done
	case <-c.stopped:
	}
}

// Close ends the capture. When Close returns, all messages that were seen before are in the ring.
func (c *Capture) Close() error {
	c.once.Do(func() {
		close(c.stop)
		<-c.stopped
		if err := errors.Join(c.closed, c.kernel.close(), c.channel.Close()); err != nil {
			c.closed = fmt.Errorf("close capture: %w", err)
		}
	})
	return c.closed
}

// run moves messages from the kernel into the ring.
func (c *Capture) run() {
	defer close(c.stopped)
	timer := time.NewTimer(busy)
	defer timer.Stop()
	for {
		select {
		case <-c.stop:
			c.closed = c.kernel.detach()
			for c.round() {
			}
			return
		case done := <-c.flushes:
			for c.round() {
			}
			c.sockets.forgetDescriptions()
			c.threads.forgetDescriptions()
			close(done)
			continue
		case <-timer.C:
		}
		wait := idle
		if c.round() {
			wait = 0
		} else if len(c.seen) > 0 {
			wait = busy
		}
		timer.Reset(wait)
	}
}

// round moves at most one batch of messages, and reports whether there may be more.
func (c *Capture) round() (more bool) {
	c.seen = c.seen[:0]
	more, err := c.kernel.drain(batch, c.sockets.described, func(s sighting) {
		c.seen = append(c.seen, s)
	})
	// All stamps so far are before the bracket that is taken now.
	c.clocks.look()
	counts := Stats{Lost: map[blackbox.Reason]uint64{}}
	for i := range c.seen {
		c.write(&c.seen[i], &counts)
	}
	lost, lostErr := c.kernel.lost()
	if lostErr == nil && lost > c.lost {
		counts.Lost[blackbox.BufferFull] += lost - c.lost
		c.lost = lost
	}
	newest := c.clocks.brackets[len(c.clocks.brackets)-1].before_cycles
	for reason, n := range counts.Lost {
		c.put(blackbox.Loss{
			Reason: reason, First_cycles: max(c.latest, 1), Last_cycles: newest, Messages: n,
		}.Events())
	}
	c.latest = newest
	if len(c.sockets.now) > most {
		c.sockets.forget()
		err = errors.Join(err, c.kernel.describeAgain())
	}
	c.account(counts, errors.Join(err, lostErr))
	return more && err == nil
}

// account adds counts to the statistics, and reports a failure.
func (c *Capture) account(counts Stats, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.stats
	s.Messages += counts.Messages
	s.Late += counts.Late
	s.Sockets = len(c.sockets.now)
	for reason, n := range counts.Lost {
		s.Lost[reason] += n
	}
	if err != nil && err.Error() != s.Error {
		s.Error = err.Error()
		if c.o.Notify != nil {
			c.o.Notify(fmt.Errorf("capture: %w", err))
		}
	}
}

// put gives a record to the ring.
func (c *Capture) put(events [2]blackbox.Event, err error) bool {
	if err != nil {
		return false
	}
	for _, e := range events {
		c.channel.LogAt(e.Counter_cycles, e.ID)
	}
	return true
}

// write gives a message to the ring, and before it the descriptions that the message needs.
func (c *Capture) write(s *sighting, counts *Stats) {
	lo, hi, ok := c.clocks.counts(s.ended_ns)
	if !ok {
		counts.Lost[blackbox.NoStamp]++
		return
	}
	m := blackbox.Message{
		Kind: blackbox.Received, Began_cycles: lo, Ended_cycles: hi, Thread: s.thread,
		Stream: s.what&whatStream != 0, Sure: s.what&whatSure != 0,
	}
	if s.what&whatSent != 0 {
		m.Kind = blackbox.Sent
		if early, width, ok := c.began(s); ok {
			m.Early, m.Began_cycles, m.Width_cycles = true, early, width
		} else if m.Stream {
			counts.Late++
		}
	}
	var described bool
	if m.Connection, described = c.sockets.use(s, c.describe, lo); !described {
		counts.Lost[blackbox.NotKnown]++
		return
	}
	c.threads.use(s, c.describe, lo)
	for position, left := s.position, s.bytes; left > 0; {
		m.Bytes = min(left, blackbox.MaxBytes)
		if m.Stream {
			m.Position = position & blackbox.MaxPosition
		}
		if !c.put(m.Events()) {
			counts.Lost[blackbox.NotValid]++
			return
		}
		position, left = position+uint64(m.Bytes), left-m.Bytes
	}
	counts.Messages++
}

// began returns the earliest moment at which a sending call may have begun, and how much later it
// may have begun. The latter is rounded up to a valid width.
func (c *Capture) began(s *sighting) (early, width uint64, ok bool) {
	if s.began_ns == 0 {
		return 0, 0, false
	}
	lo, hi, ok := c.clocks.counts(s.began_ns)
	if !ok || hi-lo > blackbox.MaxWidth_cycles {
		return 0, 0, false
	}
	for width = blackbox.MinWidth_cycles; width < hi-lo; width *= 2 {
	}
	return lo, width, true
}

// describe gives the records of a description to the ring.
func (c *Capture) describe(events []blackbox.Event, err error) bool {
	if err != nil {
		return false
	}
	for _, e := range events {
		c.channel.LogAt(e.Counter_cycles, e.ID)
	}
	return true
}
