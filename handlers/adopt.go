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

// errLinkOnly is the error for a change from handler link to any other but null, and for a change
// to link.
var errLinkOnly = errors.New("handler link is chosen at the open and stays")

// adopted contains the settings of a switching word in the form that log calls use. It does not
// change once it is published.
type adopted struct {
	word  uint64
	mode  uint64 // what the assembly does with an event
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

// handler implements a handler kind.
type handler struct {
	// prepare computes from checked settings what a log call needs, so that log calls never divide.
	prepare func(s channel.Settings, many bool) adopted
	// log handles an event, in Go.
	log func(c *Channel, set *adopted, id uint64)
}

// byKind lists the handlers. Each has its own file.
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

// adopt adopts the settings that the switching word points to, notes in the ring's journal from
// which record on they apply, and returns them. If the channel cannot take the settings, it adopts
// the null handler and sets a flag.
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
		// A word of 0, which can only be damage, would make the journal's entry an unfinished one.
		c.ring.Shards[i].Journal(max(word, 1), settings, now)
	}
	return c.hold(settings, word)
}

// hold makes log calls use the settings until the switching word changes.
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

// admit returns an error if the channel cannot take the settings, which are from memory that other
// processes can write.
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
