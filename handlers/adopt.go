package handlers

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// errLinkOnly refuses a change from handler link to another that keeps events, or the other way.
var errLinkOnly = errors.New("handler link is chosen at the open and stays")

// adopted is what a program has made of a switching word. It does not change once it is published.
type adopted struct {
	word  uint64
	mode  uint64 // what assembly does
	sieve sieve
	kind  channel.Kind
}

// What assembly does with an event.
const (
	modeNull        = 0
	modeRecord      = 1
	modeXoY         = 2
	modeDownsample  = 3
	modeCounter     = 4
	modeCounterMany = 5
	modeFirstLast   = 6
	modeGo          = 7 // call Go
)

// handler is one way to treat an event.
type handler struct {
	// prepare turns checked settings into what a log call needs, so that it never divides.
	prepare func(s channel.Settings, many bool) adopted
	// log keeps an event, in Go.
	log func(c *Channel, set *adopted, id uint64)
}

// byKind lists the handlers. Each is in a file of its own.
var byKind = [...]handler{
	channel.Null:       null,
	channel.Identity:   identity,
	channel.Buffered:   identity,
	channel.Counter:    counter,
	channel.Downsample: downsample,
	channel.XoY:        xoy,
	channel.FirstLast:  firstLast,
	channel.Link:       link,
}

// adopt takes over the settings that the switching word points to, notes in the ring's journal from
// which record on they hold, and returns them. If no handler takes the settings, the channel goes
// on null and raises a flag.
func (c *Channel) adopt() *adopted {
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.closed {
		return &adopted{}
	}
	settings, word := c.ring.Settings()
	if old := c.adopted(); old.word == uint64(word) { // another goroutine was here first
		return old
	}
	if c.admit(settings) != nil {
		c.ring.Raise(ring.FlagBadSettings)
		settings = channel.Settings{}
	}
	now := asm.Counter()
	for i := range c.ring.Shards {
		// A word of zero, which only damage writes, would make the journal's entry an empty one.
		c.ring.Shards[i].Journal(max(word, 1), settings, now)
	}
	return c.hold(settings, word)
}

// hold makes log calls do what settings say, until the switching word changes.
func (c *Channel) hold(settings channel.Settings, word ring.Word) *adopted {
	next := byKind[settings.Kind].prepare(settings, c.writer == writerMany)
	next.word, next.kind = uint64(word), settings.Kind
	atomic.StoreUint64(&c.calls, 0)
	atomic.StorePointer((*unsafe.Pointer)(unsafe.Pointer(&c.set)), unsafe.Pointer(&next))
	idle, plain := neverWord, neverWord
	switch {
	case next.mode == modeNull:
		idle = next.word
	case next.mode == modeRecord && c.writer == writerOrdered:
		plain = next.word
	}
	atomic.StoreUint64(&c.idle, idle)
	atomic.StoreUint64(&c.plain, plain)
	return &next
}

// admit returns an error if the channel cannot take the settings. Others write the memory that they
// come from.
func (c *Channel) admit(settings channel.Settings) error {
	if err := settings.Validate(); err != nil {
		return err
	}
	if settings.Kind != channel.Null && (settings.Kind == channel.Link) != c.links {
		return fmt.Errorf("change %s to handler %s: %w", c.name, settings.Kind, errLinkOnly)
	}
	return nil
}

func (c *Channel) adopted() *adopted {
	return (*adopted)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&c.set))))
}
