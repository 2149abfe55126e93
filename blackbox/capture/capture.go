package capture

import (
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// Options say where the records of messages go.
type Options struct {
	// Dir is the directory of the node's rings. "" has the same meaning as in handlers.Options.
	Dir string

	// Notify is called with each failure after the start, from another goroutine. It may be nil.
	Notify func(error)

	Only Filter // what is captured; the zero value: everything
	Also Also   // what is captured beside messages

	// If Light is set, the capture does not observe the moments at which calls that send over TCP
	// begin, just as on kernels before Linux 6.16. Each such call then costs less, but the transfer
	// times of messages are less exact.
	Light bool

	// Empty lets eBPF programs that do nothing take the place of those of the capture, so nothing
	// is captured. It shows how much of a call's cost is the kernel's own.
	Empty bool

	// These are for tests.
	slots    int  // the number of sockets, and of threads, that have a slot; 0: many
	indirect bool // the programs ask a function of the kernel for the present thread
}

const (
	ringBuffer = "8MiB"

	// The capture looks for messages every busyInterval while messages come, and every idleInterval
	// otherwise. At each look it also reads the clock and the counter. Both intervals are short,
	// because a stamp that is far from such a reading is less exact.
	busyInterval = 2 * time.Millisecond
	idleInterval = 20 * time.Millisecond

	// batchSize is the largest number of messages of each ring that are converted at once.
	batchSize = 8192
)

// Capture sees the messages of all programs of this machine until it is closed. Any goroutine may
// use it.
type Capture struct {
	o       Options
	kernel  *kernel
	channel *handlers.Channel
	stop    chan struct{}
	flushes chan chan struct{} // each channel is closed when all messages until now are in the ring
	stopped chan struct{}
	once    sync.Once
	closed  error

	mu    sync.Mutex
	stats Stats

	// Once run has started, only run uses the following fields.
	clocks    clocks
	sockets   sockets
	threads   threads
	places    *places
	hosts     hostNames
	seen      []seenMessage
	order     order
	later     []seenMessage // what may have come before something older
	happens   happeningQueue
	lost      uint64 // the kernel's count at the last look
	lostWakes uint64
	latest    uint64 // the counter at the last look, for records of losses
}

// Stats counts messages since the start.
type Stats struct {
	// Messages counts the messages that the capture gave to the ring. If the ring had no room for
	// some of them, Dropped counts their events.
	Messages uint64

	// Lost counts the messages that were seen but not logged. The log has these counts, too.
	Lost map[blackbox.Reason]uint64

	// Late counts messages sent over TCP: those for which the beginning of the sending call was not
	// seen, or has no exact stamp.
	Late uint64

	Retransmitted uint64 // packets that TCP sent again
	Arrived       uint64 // received messages whose arrival was seen
	Woke          uint64 // wake-ups of threads that were logged

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
	k, err := load(mostRings, o)
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
		places: newPlaces(), hosts: readHosts(hostsFile),
		happens: happeningQueue{waiting: map[uint64][]timedHappening{}},
	}
	c.stats.Lost, c.stats.Early = map[blackbox.Reason]uint64{}, k.early
	c.clocks.takeBracket()
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

// Flush returns when all messages that were seen before the call are in the ring. Afterwards all
// sockets and threads are described again, so that the later part of the log can be read without
// the earlier part.
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

// priority is the nice value of the thread that moves messages. The thread needs little of a
// processor, but needs it soon: on a busy machine, the buffers in the kernel overflow while a
// thread without priority waits for a processor.
const priority = -15

// AllowPriority lets the captures of this process have priority, even after the process has given
// up its rights. It needs CAP_SYS_RESOURCE.
func AllowPriority() error {
	const lowest = 20 - priority // in the units of this limit
	return unix.Setrlimit(unix.RLIMIT_NICE, &unix.Rlimit{Cur: lowest, Max: lowest})
}

// run moves messages from the kernel into the ring.
func (c *Capture) run() {
	defer close(c.stopped)
	runtime.LockOSThread()                               // the thread ends with the goroutine
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, priority) // without the right, it has none
	timer := time.NewTimer(busyInterval)
	defer timer.Stop()
	for {
		select {
		case <-c.stop:
			c.closed = c.kernel.detach()
			for c.moveBatch() {
			}
			return
		case done := <-c.flushes:
			for c.moveBatch() {
			}
			c.sockets.forgetDescriptions()
			c.threads.forgetDescriptions()
			c.places.forgetDescriptions()
			c.hosts = readHosts(hostsFile)
			close(done)
			continue
		case <-timer.C:
		}
		wait := idleInterval
		if c.moveBatch() {
			wait = 0
		} else if len(c.seen) > 0 {
			// If this thread waited for the timer, threads of Go's scheduler would wake up several
			// times in each interval. That would cost half as much again as everything else.
			pause := unix.NsecToTimespec(int64(busyInterval))
			unix.Nanosleep(&pause, nil)
			wait = 0
		}
		timer.Reset(wait)
	}
}

// seenMessage is a message that moveBatch took from one of the rings.
type seenMessage struct {
	sighting
	ring int
}

// moveBatch moves at most one batch of messages, and reports whether there may be more.
func (c *Capture) moveBatch() (more bool) {
	c.seen = append(c.seen[:0], c.later...)
	more, complete_ns, err := c.kernel.drain(batchSize, reportTaker{
		described: c.sockets.rememberSocket, named: c.threads.rememberThread,
		seen:     func(s sighting, ring int) { c.seen = append(c.seen, seenMessage{s, ring}) },
		happened: c.happens.add,
	})
	// The messages come from several rings. Put those of one socket in the order of their stamps.
	c.seen = c.order.sortMessages(c.seen)
	n := sort.Search(len(c.seen), func(i int) bool { return c.seen[i].stamp_ns > complete_ns })
	c.later = append(c.later[:0], c.seen[n:]...)
	c.seen = c.seen[:n]
	// Take a new bracket (see clocks). All stamps so far are before it, so they can be converted.
	c.clocks.takeBracket()
	counts := Stats{Lost: map[blackbox.Reason]uint64{}}
	for i := range c.seen {
		if s := &c.seen[i]; s.ring == wokeRing {
			c.writeWakeUp(s, &counts)
		} else {
			c.writeMessage(s, &counts)
		}
	}
	c.writeHappenings(&counts)
	if lost := c.kernel.lostWakes(); lost > c.lostWakes {
		counts.Lost[blackbox.WakeUp] += lost - c.lostWakes
		c.lostWakes = lost
	}
	if lost := c.kernel.lostMessages(); lost > c.lost {
		counts.Lost[blackbox.BufferFull] += lost - c.lost
		c.lost = lost
	}
	newest := c.clocks.brackets[len(c.clocks.brackets)-1].before_cycles
	for reason, n := range counts.Lost {
		c.putRecord(blackbox.Loss{
			Reason: reason, First_cycles: max(c.latest, 1), Last_cycles: newest, Messages: n,
		}.Events())
	}
	c.latest = newest
	if len(c.sockets.now) > mostRemembered {
		c.sockets.forget()
		err = errors.Join(err, c.kernel.describeAgain())
	}
	if len(c.threads) > mostRemembered {
		clear(c.threads)
		c.places = newPlaces()
		c.kernel.nameAgain()
	}
	c.addCounts(counts, err)
	return (more || len(c.later) > 0) && err == nil
}

// addCounts adds counts to the statistics, and reports an error.
func (c *Capture) addCounts(counts Stats, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.stats
	s.Messages += counts.Messages
	s.Late += counts.Late
	s.Retransmitted += counts.Retransmitted
	s.Arrived += counts.Arrived
	s.Woke += counts.Woke
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

// putRecord gives a record to the ring.
func (c *Capture) putRecord(events [2]blackbox.Event, err error) bool {
	return c.putDescription(events[:], err)
}

// writeMessage first gives the ring the descriptions that a message needs, and then the message.
func (c *Capture) writeMessage(s *seenMessage, counts *Stats) {
	lo, hi, ok := c.clocks.countsAt(s.stamp_ns)
	if !ok {
		counts.Lost[blackbox.NoStamp]++
		return
	}
	m := blackbox.Message{
		Kind: blackbox.Received, Began_cycles: lo, Ended_cycles: hi, Thread: s.thread,
		Stream: s.what&whatStream != 0,
	}
	if s.ring == sentRing {
		m.Kind = blackbox.Sent
	}
	arrived := m
	if s.ring == receiveRing && s.what&whatCame != 0 && c.addArrival(s, &arrived, lo, hi) {
		counts.Arrived++
	}
	if s.ring == sentRing && s.what&whatEarly != 0 {
		m.Width_cycles, m.Early = roundedWidth(lo, hi)
		// Nobody measured when the call ended. It ended before the last look at the clocks.
		m.Ended_cycles = c.clocks.brackets[len(c.clocks.brackets)-1].after_cycles
	}
	if s.ring == sentRing && m.Stream && !m.Early {
		counts.Late++
	}
	socket := c.sockets.useSocket(s, c.putDescription, lo)
	if socket == nil {
		counts.Lost[blackbox.NotKnown]++
		return
	}
	if socket.described_ns == s.stamp_ns { // it was described just now
		c.hosts.logNames(socket.of.Remote.Addr(), c.putDescription, lo)
	}
	m.Connection = socket.of.Number
	if len(c.happens.waiting) > 0 {
		c.writeWaiting(socket, counts)
	}
	c.useThread(s.thread, s.stamp_ns, lo)
	var position uint64
	var waiting uint16
	if m.Stream {
		position, m.Sure = socket.placeMessage(s)
	} else {
		m.Checksum, waiting = s.sequence, uint16(s.what>>whatWaiting&blackbox.MaxWaiting)
		if later := s.what >> whatLater; later > 0 {
			_, until, ok := c.clocks.countsAt(s.stamp_ns + uint64(later)<<laterShift)
			if m.Ended_cycles = max(hi, until); !ok {
				waiting = 0
			}
		}
	}
	for left := s.bytes; left > 0; {
		m.Bytes = min(left, blackbox.MaxBytes)
		m.Position = position & blackbox.MaxPosition
		if m.Bytes == left {
			m.Waiting = waiting
			if arrived.Arrived { // the arrival is that of the last byte
				m.Arrived, m.Arrived_cycles = true, arrived.Arrived_cycles
				m.Began_cycles, m.Ended_cycles = arrived.Began_cycles, arrived.Ended_cycles
				m.Width_cycles = arrived.Width_cycles
			}
		}
		if !c.putRecord(m.Events()) {
			counts.Lost[blackbox.NotValid]++
			return
		}
		position, left = position+uint64(m.Bytes), left-m.Bytes
		if !m.Stream {
			position = 0
		}
	}
	counts.Messages++
}

// addArrival adds a message's arrival to its record. It reports false if the moment of the arrival
// is not known exactly enough. The program received the message between lo and hi.
func (c *Capture) addArrival(s *seenMessage, m *blackbox.Message, lo, hi uint64) bool {
	const unit_ns = 16
	came_ns := s.stamp_ns - uint64(s.what&^(unit_ns-1))
	from, _, ok := c.clocks.countsAt(came_ns - (unit_ns - 1))
	_, to, ok2 := c.clocks.countsAt(came_ns)
	width, ok3 := roundedWidth(0, max(hi-lo, to-from))
	if !ok || !ok2 || !ok3 || from == 0 {
		return false
	}
	m.Arrived, m.Arrived_cycles, m.Width_cycles = true, from, width
	m.Began_cycles, m.Ended_cycles = hi-width, hi
	return true
}

// roundedWidth returns the width of an interval, rounded up to a valid one. ok is false if the
// interval is too wide.
func roundedWidth(lo, hi uint64) (width_cycles uint64, ok bool) {
	for width_cycles = blackbox.MinWidth_cycles; width_cycles < hi-lo; width_cycles *= 2 {
	}
	return width_cycles, width_cycles <= blackbox.MaxWidth_cycles
}

// putDescription gives the records of a description to the ring.
func (c *Capture) putDescription(events []blackbox.Event, err error) bool {
	if err != nil {
		return false
	}
	for _, e := range events {
		c.channel.LogAt(e.Counter_cycles, e.ID)
	}
	return true
}
