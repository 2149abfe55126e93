package handlers

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Options say how to open a channel. With the zero value, the channel keeps every event,
// compressed, and loses no event while a drainer runs.
type Options struct {
	// Handler is what the channel does with an event: id, buffered, counter, downsample, xoy,
	// first-last, link or null. "" is buffered. The node's handler table may change the handler
	// while the program runs.
	Handler string

	// Params are the handler's parameters: n for downsample, x and y for xoy, period for counter.
	// They are numbers, or strings with a unit: "64Ki", "10KB", "500ms".
	Params channel.Params

	// Policy is what happens when the ring is full. block waits for the drainer. If the drainer
	// does not move for a second, block drops and counts events until it moves again. drop drops
	// events and counts them. overwrite keeps only the last records. "" is block.
	Policy string

	// Stamp is the instruction that reads the counter: rdtscp or rdtsc. rdtsc costs half as much,
	// and its stamp may be early or late by channel.UnorderedSlack_cycles. "" is rdtscp.
	Stamp string

	// Buffer is the size of the memory for records, such as "1MiB". An event takes 16 bytes, and
	// the number of events is rounded up to a power of two. "" is 1 MiB.
	Buffer string

	// Dir is the directory of the node's rings. "" is $CLOUDPROFILER_DIR or, if that is not set,
	// this user's directory in /dev/shm, which systemd may empty when the user logs out: see "cprof
	// doctor".
	Dir string
}

// config checks the options.
func (o Options) config(name channel.Name, many bool) (c ring.Config, err error) {
	c.Name = name
	if o.Handler == "" {
		o.Handler = channel.Buffered.String()
	}
	if c.Settings, err = channel.NewSettings(o.Handler, o.Params); err != nil {
		return c, err
	}
	if o.Policy != "" {
		if c.Policy, err = channel.ParsePolicy(o.Policy); err != nil {
			return c, err
		}
	}
	if o.Stamp != "" {
		if c.Stamp, err = channel.ParseStamp(o.Stamp); err != nil {
			return c, err
		}
	}
	if o.Buffer != "" {
		bytes, err := channel.ParseCount(o.Buffer)
		if err != nil {
			return c, fmt.Errorf("option Buffer: %w", err)
		}
		if c.Records = bytes / ring.RecordBytes; c.Records == 0 {
			return c, fmt.Errorf("option Buffer %q: a record takes %d bytes: %w",
				o.Buffer, ring.RecordBytes, channel.ErrParameter)
		}
	}
	c.ManyWriters = many
	return c, nil
}

// Channel is a named place in a program where events are logged. All methods do nothing if the
// Channel is nil, did not open or was closed.
//
// Only one goroutine at a time may log to a channel that Open returned. If two goroutines log at
// once, the race detector reports it. Any number of goroutines may use a channel that OpenShared
// returned. Any goroutine may call Close.
type Channel struct {
	// Every log call reads these fields, and the assembly uses their offsets. If the switching word
	// equals idle, the handler keeps nothing. If it equals plain, there is one writer, which keeps
	// every event with an ordered stamp. A field that does not apply to the present settings is
	// neverWord, which equals no switching word.
	word     *uint64 // the ring's switching word; &noWord if there is no ring
	idle     uint64
	plain    uint64
	set      *adopted        // the settings that the program has adopted
	shard    *ring.Shard     // the first shard
	coreMask uint64          // many writers: core & coreMask is the shard's index
	writer   uint64          // how a record is written: writerOrdered, writerUnordered, writerMany
	counter  *uint64         // the counting handler's cell
	cell     *ring.FirstLast // the first-last handler's cell

	// Log calls write these fields. They have their own cache line, so that many writers do not
	// slow down each other's reads of the fields above.
	_     [64]byte
	calls uint64 // events since the downsample handler was adopted
	turn  int    // written in race builds only, so that the race detector sees two writers
	given uint64 // while LogAt runs, its stamp; 0: read the counter
	_     [40]byte

	name    channel.Name
	ring    *ring.Producer
	changes sync.Mutex // guards all below, and the calls of adopt and Close
	links   bool       // opened with handler link
	closed  bool
}

// How a channel writes a record.
const (
	writerOrdered   = 0 // one writer, RDTSCP
	writerUnordered = 1 // one writer, RDTSC
	writerMany      = 2 // many writers, one shard for each core
)

// neverWord is not a valid switching word, because its slot does not exist. It is random, so that
// nobody can guess it: a channel would not notice a change of its switching word to neverWord.
var neverWord = rand.Uint64() | 0xFF

// noWord is the switching word of channels without a ring. It equals their field idle.
var noWord uint64

// cpu returns the CPU's features, which it reads once.
var cpu = sync.OnceValue(asm.Read)

// noop returns a channel that does nothing.
func noop() *Channel { return &Channel{word: &noWord, closed: true} }

// Open opens a channel for one goroutine at a time. The name is operator[#instance]/point; the
// analysis uses the points start, end, send and recv. Even with an error, Open returns a channel,
// whose methods do nothing. So the program may report the error and continue.
func Open(name string, o Options) (*Channel, error) { return open(name, o, false) }

// OpenShared opens a channel for any number of goroutines. A log call costs about a third of a
// counter read more than with Open.
func OpenShared(name string, o Options) (*Channel, error) { return open(name, o, true) }

func open(name string, o Options, many bool) (*Channel, error) {
	parsed, err := channel.ParseName(name)
	if err != nil {
		return noop(), fmt.Errorf("open channel: %w", err)
	}
	config, err := o.config(parsed, many)
	if err != nil {
		return noop(), fmt.Errorf("open channel %s: %w", name, err)
	}
	if err := cpu().Check(); err != nil {
		return noop(), fmt.Errorf("open channel %s: %w", name, err)
	}
	if o.Dir == "" {
		o.Dir = ring.DefaultDirectory()
	}
	if err := ring.MakeDirectory(o.Dir); err != nil {
		return noop(), fmt.Errorf("open channel %s: %w", name, err)
	}
	producer, err := ring.Create(o.Dir, config)
	if err != nil {
		return noop(), fmt.Errorf("open channel %s: %w", name, err)
	}
	first := &producer.Shards[0]
	c := &Channel{
		word: producer.Word(), idle: neverWord, plain: neverWord, set: &adopted{}, ring: producer,
		name:  config.Name,
		shard: first, coreMask: uint64(len(producer.Shards) - 1), counter: first.Counter(),
		cell:  first.FirstLast(),
		links: config.Settings.Kind == channel.Link,
	}
	switch {
	case many:
		c.writer = writerMany
	case config.Stamp == channel.Unordered:
		c.writer = writerUnordered
	}
	// The ring's journal has these settings already.
	c.hold(config.Settings, ring.FirstWord(config.Settings.Kind))
	return c, nil
}

// Name returns the channel's name, or the zero Name if the channel did not open.
func (c *Channel) Name() channel.Name {
	if c == nil {
		return channel.Name{}
	}
	return c.name
}

// Path returns the path of the ring's file, or "" if the channel did not open.
func (c *Channel) Path() string {
	if c == nil || c.ring == nil {
		return ""
	}
	return c.ring.Path
}

// Log passes an event to the channel's handler: the present counter, and the tuple's id.
func (c *Channel) Log(id uint64) {
	if c.keepsNothing() {
		return
	}
	log(c, id)
}

// keepsNothing reports whether the handler is null, or the channel was closed or did not open.
func (c *Channel) keepsNothing() bool {
	return c == nil || atomic.LoadUint64(c.word) == atomic.LoadUint64(&c.idle)
}

// Snapshot requests that the content of the flight recorders of all nodes, which are the channels
// with policy overwrite, is written to their logs. Any channel can be used for the request.
// Snapshot returns at once. The agent sees the request within a fraction of a second, so a flight
// recorder should have room for at least the last second.
func (c *Channel) Snapshot() {
	if c == nil {
		return
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	if !c.closed {
		c.ring.Snapshot()
	}
}

// Dropped returns the number of events that found no room in the ring since the open. The log will
// say that these events are missing. After Close, Dropped returns 0. Any goroutine may call it.
func (c *Channel) Dropped() (n uint64) {
	if c == nil || c.ring == nil {
		return 0
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.closed {
		return 0
	}
	for i := range c.ring.Shards {
		n += c.ring.Shards[i].Dropped()
	}
	return n
}

// Close gives the ring to the drainer. Later log calls do nothing. A second Close returns nil.
func (c *Channel) Close() error {
	if c == nil {
		return nil
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	err := c.ring.Close()
	// From now on the ring's memory reads as zero, and so does its switching word.
	atomic.StoreUint64(&c.idle, 0)
	if err != nil {
		return fmt.Errorf("close channel %s: %w", c.name, err)
	}
	return nil
}
