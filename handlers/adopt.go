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

// errLinkOnly is returned if a channel that was opened with handler link must change to a handler
// other than null, or if a channel that was opened with another handler must change to link.
var errLinkOnly = errors.New("only the open decides whether a channel keeps links: open a second " +
	"channel")

// adoptedSettings contains the settings that a ring's switching word selects, in the form that log
// calls use. These settings do not change after log calls can see them.
type adoptedSettings struct {
	word  uint64
	mode  uint64 // what the assembly does with an event
	sieve sieve
	kind  channel.Kind
}

// A mode tells the assembly what to do with an event.
const (
	modeNull        = 0
	modeRecord      = 1
	modeXoY         = 2
	modeDownsample  = 3
	modeCounter     = 4
	modeCounterMany = 5
	modeFirstLast   = 6
	modeGo          = 7 // leave the event to the Go code
)

// handler implements a handler kind.
type handler struct {
	// prepare computes from checked settings what a log call needs, so that log calls never divide.
	prepare func(s channel.Settings, many bool) adoptedSettings
	// log is the Go implementation of what the handler does with an event.
	log func(c *Channel, set *adoptedSettings, id uint64)
}

// byKind has the handler of each kind. Each handler has its own file.
var byKind = [...]handler{
	channel.Null:       nullHandler,
	channel.Identity:   identityHandler,
	channel.Buffered:   identityHandler,
	channel.Counter:    counterHandler,
	channel.Downsample: downsampleHandler,
	channel.XoY:        xoyHandler,
	channel.FirstLast:  firstLast,
	channel.Link:       linkHandler,
}

// adopt adopts the settings that the switching word points to, and returns them. It notes in the
// ring's journal from which record on these settings apply. If the channel cannot take the
// settings, it adopts the null handler and sets a flag.
func (c *Channel) adopt() *adoptedSettings {
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.closed {
		return &adoptedSettings{}
	}
	settings, word := c.ring.Settings()
	// Another goroutine may have adopted these settings already.
	if old := c.adopted(); old.word == uint64(word) {
		return old
	}
	if c.admit(settings) != nil {
		c.ring.Raise(ring.FlagBadSettings)
		settings = channel.Settings{}
	}
	now := asm.Counter()
	for i := range c.ring.Shards {
		// Only damage can make the word 0. In the journal, a word of 0 would mark the entry as
		// unfinished.
		c.ring.Shards[i].Journal(max(word, 1), settings, now)
	}
	return c.holdSettings(settings, word)
}

// holdSettings makes log calls use the settings until the switching word changes.
func (c *Channel) holdSettings(settings channel.Settings, word ring.Word) *adoptedSettings {
	next := byKind[settings.Kind].prepare(settings, c.writer == writerMany)
	next.word, next.kind = uint64(word), settings.Kind
	if next.mode == modeCounterMany && c.counts == nil {
		c.counts = &countTable{}
	}
	atomic.StoreUint64(&c.calls, 0)
	atomic.StorePointer((*unsafe.Pointer)(unsafe.Pointer(&c.set)), unsafe.Pointer(&next))
	idle, plain := neverWord, neverWord
	switch {
	case next.mode == modeNull:
		idle = next.word
	case next.mode == modeRecord && c.writer != writerUnordered:
		plain = next.word
	}
	atomic.StoreUint64(&c.idle, idle)
	atomic.StoreUint64(&c.plain, plain)
	return &next
}

// admit returns an error if the channel cannot take the settings. It checks the settings
// completely, because they come from memory to which other processes can write.
func (c *Channel) admit(settings channel.Settings) error {
	if err := settings.Validate(); err != nil {
		return err
	}
	if settings.Kind != channel.Null && (settings.Kind == channel.Link) != c.links {
		return fmt.Errorf("change %s to handler %s: %w", c.name, settings.Kind, errLinkOnly)
	}
	return nil
}

func (c *Channel) adopted() *adoptedSettings {
	return (*adoptedSettings)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&c.set))))
}
