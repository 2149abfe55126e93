package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// count counts views by campaign and window. It emits a window when no more tuples of that window
// can arrive.
//
// A window is itself a tuple, and gets an id when its first view arrives. Channel window#i/start
// logs when the window begins, and window#i/end when it is emitted. Channel count#i/link logs the
// pair ⟨view, window⟩ for each view, so that a view can be followed to the store.
type count struct {
	stream *Stream
	ids    *handlers.IDs
	probes *probes // the actor's channels

	open        map[Window]*openWindow
	earliest_us int64 // when the first open window ends
	out         message

	late    bool // true: keep the latencies in lates
	lates   []time.Duration
	emitted []*openWindow
}

// openWindow is an open window.
type openWindow struct {
	Window
	id    uint64
	count int
}

func (c *count) prepare(context.Context) error { return nil }

func (c *count) work(_ context.Context, in *message) (*message, uint64, error) {
	if err := checkFields(in, 2); err != nil {
		return nil, 0, err
	}
	time_us, err := strconv.ParseInt(in.fields[joinedTime], 10, 64)
	if err != nil || time_us < 0 {
		return nil, 0, fmt.Errorf("event time %q: %w", in.fields[joinedTime], errTuple)
	}
	key := Window{in.fields[joinedCampaign], c.stream.windowOf(time_us)}
	w := c.open[key]
	if w == nil {
		id, ok := c.ids.Next()
		if !ok {
			return nil, 0, errors.New("no ids left")
		}
		w = &openWindow{Window: key, id: id}
		if end_us := c.end_us(key); len(c.open) == 0 || end_us < c.earliest_us {
			c.earliest_us = end_us
		}
		c.open[key] = w
		c.probes.windowStart.Log(w.id)
	}
	w.count++
	c.probes.link.Link(in.id, w.id)
	if c.late {
		c.lates = append(c.lates, time.Since(time.UnixMicro(time_us)))
	}
	return nil, 0, nil
}

// advance emits the windows that end at or before the watermark, in the order of their ids.
func (c *count) advance(watermark_us int64, emit func(out *message, key uint64) error) error {
	if len(c.open) == 0 || watermark_us < c.earliest_us {
		return nil
	}
	c.emitted = c.emitted[:0]
	c.earliest_us = maxWatermark_us
	for key, w := range c.open {
		if end_us := c.end_us(key); end_us <= watermark_us {
			c.emitted = append(c.emitted, w)
			delete(c.open, key)
		} else {
			c.earliest_us = min(c.earliest_us, end_us)
		}
	}
	slices.SortFunc(c.emitted, func(a, b *openWindow) int { return cmp.Compare(a.id, b.id) })
	for _, w := range c.emitted {
		c.out.id = w.id
		begin, count := strconv.FormatInt(w.Begin_us, 10), strconv.Itoa(w.count)
		c.out.fields = append(c.out.fields[:0], w.Campaign, begin, count)
		c.probes.windowEnd.Log(w.id)
		if err := emit(&c.out, w.id); err != nil {
			return err
		}
	}
	return nil
}

func (c *count) end_us(w Window) int64 { return w.Begin_us + c.stream.Window.Microseconds() }
