package handlers

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

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

	// Policy is what happens when the ring is full. With block, the channel waits for the drainer.
	// If the drainer takes nothing for a second, the channel drops and counts events until the
	// drainer takes some again. With drop, the channel drops and counts events at once. With
	// overwrite, it keeps only the last records. "" is block.
	Policy string

	// Stamp is the instruction that reads the counter: rdtscp or rdtsc. rdtsc costs half as much,
	// but its reading may be early or late by up to channel.UnorderedSlack_cycles. "" is rdtscp.
	Stamp string

	// Buffer is the size of the memory for records, such as "1MiB". An event takes 16 bytes, and
	// the number of events is rounded up to a power of two. "" is 1 MiB.
	Buffer string

	// Dir is the directory of the node's rings. "" is $CLOUDPROFILER_DIR or, if that is not set,
	// this user's directory in /dev/shm, which systemd may empty when the user logs out: see "cprof
	// doctor".
	Dir string
}

// checkOptions checks the options.
func (o Options) checkOptions(name channel.Name, many bool) (c ring.Config, err error) {
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
	// The first cache line has what most log calls need. The assembly uses the offsets of the
	// fields. If a channel has many writers, none of them writes to this line after the settings
	// were adopted.
	//
	// If the switching word equals the field idle, the handler keeps nothing. If it equals the
	// field plain, the channel has one writer, which keeps every event with an ordered stamp. A
	// field that the present settings do not need is neverWord, which equals no switching word.
	word  *uint64 // the ring's switching word; &noWord if there is no ring
	plain uint64
	// where the records go if the switching word equals plain; otherwise empty
	plainWindow window
	set         *adoptedSettings // the settings that the program has adopted
	idle        uint64
	// writer says how a record is written: writerOrdered, writerUnordered or writerMany.
	writer uint32
	// keepsEvents is true if the channel has one writer and a handler other than null. Then Log
	// does not check whether the switching word equals idle: that would only delay the stamp.
	keepsEvents bool
	shard       *ring.Shard // the first shard

	// If there are many writers, none of them writes to this cache line, either.
	counter *uint64         // the counting handler's cell
	cell    *ring.FirstLast // the first-last handler's cell
	// With many writers, each processor of the Go runtime with a number below this field has a
	// shard to itself: the shard with the same number. If this field is 0, all processors share the
	// shards.
	processors  uint32
	shardMask   uint64  // the number of shards - 1
	otherWindow window  // where one writer's records go if plainWindow is empty
	place       uintptr // address of first-last's next record; 0: the Go code takes the event
	last        uint64  // if the switching word equals last, place is valid

	// Log calls write these fields.
	calls      uint64 // events since the program adopted the downsample handler
	turn       int    // written only in race builds, so that the race detector sees two writers
	givenStamp uint64 // the stamp that LogAt was given, while LogAt runs; 0: read the counter
	_          [40]byte

	counts  *countTable // in which cells many writers count; nil until one counts
	name    channel.Name
	ring    *ring.Producer
	changes sync.Mutex  // protects the fields below it, and the calls of adopt and Close
	shared  atomic.Bool // no processor has a shard to itself any more: see shareShards
	links   bool        // true if the channel was opened with handler link
	closed  bool

	_ [48]byte // fills a Channel up to channelBytes
}

// channelBytes is one of the sizes in which the Go runtime allocates memory, and a multiple of a
// cache line. So every Channel begins at a cache line.
const channelBytes = 320

const (
	_ = -uint(unsafe.Sizeof(Channel{}) ^ channelBytes)
	_ = -uint(unsafe.Offsetof(Channel{}.counter) ^ 64)
	_ = -uint(unsafe.Offsetof(Channel{}.calls) ^ 128)
)

// A window is the part of a ring into which the assembly may write the next records of one writer.
// If a window is empty, the fast code of a log call writes nothing, and jumps to the code for all
// other cases.
type window struct{ next, end uintptr }

// These constants say how a channel writes a record: see Channel.writer.
const (
	writerOrdered   = 0 // one writer, RDTSCP
	writerUnordered = 1 // one writer, RDTSC
	writerMany      = 2 // many writers, one shard for each processor of the Go runtime
)

// neverWord equals no valid switching word, because it names a slot that does not exist. neverWord
// is random, so that nobody can guess it. If somebody set a ring's switching word to neverWord, the
// channel would not notice the change.
var neverWord = rand.Uint64() | 0xFF

// noWord is the switching word of channels without a ring. The field idle of such a channel has the
// same value.
var noWord uint64

// cpuFeatures returns the CPU's features. The first call reads them.
var cpuFeatures = sync.OnceValue(asm.Read)

// noopChannel returns a channel that does nothing.
func noopChannel() *Channel { return &Channel{word: &noWord, closed: true} }

// Open opens a channel for one goroutine at a time. The name is operator[#instance]/point. The
// analysis uses the points start, end, send and recv. If Open returns an error, it also returns a
// channel with methods that do nothing. So the program may report the error and continue.
func Open(name string, o Options) (*Channel, error) { return open(name, o, false) }

// OpenShared opens a channel for any number of goroutines. A log call costs more than with Open, by
// about a fifth of a counter read.
func OpenShared(name string, o Options) (*Channel, error) { return open(name, o, true) }

func open(name string, o Options, many bool) (*Channel, error) {
	parsed, err := channel.ParseName(name)
	if err != nil {
		return noopChannel(), fmt.Errorf("open channel: %w", err)
	}
	config, err := o.checkOptions(parsed, many)
	if err != nil {
		return noopChannel(), fmt.Errorf("open channel %s: %w", name, err)
	}
	if err := cpuFeatures().Check(); err != nil {
		return noopChannel(), fmt.Errorf("open channel %s: %w", name, err)
	}
	if o.Dir == "" {
		o.Dir = ring.DefaultDirectory()
	}
	if err := ring.MakeDirectory(o.Dir); err != nil {
		return noopChannel(), fmt.Errorf("open channel %s: %w", name, err)
	}
	producer, err := ring.Create(o.Dir, config)
	if err != nil {
		return noopChannel(), fmt.Errorf("open channel %s: %w", name, err)
	}
	first := &producer.Shards[0]
	c := &Channel{
		word: producer.Word(), idle: neverWord, plain: neverWord, set: &adoptedSettings{},
		ring:  producer,
		name:  config.Name,
		shard: first, shardMask: uint64(len(producer.Shards) - 1), counter: first.Counter(),
		cell:  first.FirstLast(),
		links: config.Settings.Kind == channel.Link,
	}
	switch {
	case many:
		c.writer = writerMany
		if n := runtime.GOMAXPROCS(0); n <= len(producer.Shards) {
			c.processors = uint32(n)
		}
	case config.Stamp == channel.Unordered:
		c.writer = writerUnordered
	}
	// The first entry of the ring's journal contains these settings already.
	c.holdSettings(config.Settings, ring.FirstWord(config.Settings.Kind))
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

// Log passes an event to the channel's handler. The event consists of the present counter and the
// tuple's id.
//
// The compiler inlines Log: a channel that keeps nothing costs no call.
func (c *Channel) Log(id uint64) {
	if c != nil && (c.keepsEvents || atomic.LoadUint64(&c.idle) != *c.word) {
		log(c, id)
	}
}

// keepsNothing reports whether the handler is null, or the channel was closed or did not open.
func (c *Channel) keepsNothing() bool {
	return c == nil || atomic.LoadUint64(c.word) == atomic.LoadUint64(&c.idle)
}

// Snapshot asks the agents of all nodes to write the contents of their flight recorders to the
// logs. Flight recorders are the channels with policy overwrite. Any channel can be used for the
// request. Snapshot returns at once. The agent of this node sees the request within a fraction of a
// second, so a flight recorder should have room for at least the last second.
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

// Dropped returns the number of events that found no room in the ring since the channel was opened.
// The log will say that these events are missing. After Close, Dropped returns 0. Any goroutine may
// call Dropped.
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

// Close ends logging to the channel, and the drainer then takes the remaining records. Later log
// calls do nothing. A second Close returns nil.
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
	// From now on the ring's memory reads as zero, so the switching word is zero, too.
	atomic.StoreUint64(&c.idle, 0)
	if err != nil {
		return fmt.Errorf("close channel %s: %w", c.name, err)
	}
	return nil
}
