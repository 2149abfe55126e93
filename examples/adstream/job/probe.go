package job

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// Instrumentation says what the job's channels are.
type Instrumentation string

const (
	Full Instrumentation = "full" // every event is kept
	Null Instrumentation = "null" // channels are open, their handler discards
	Off  Instrumentation = "off"  // there are no channels: a log call is a call of a nil Channel, a compare
)

// ParseInstrumentation reads one of the three words.
func ParseInstrumentation(s string) (Instrumentation, error) {
	switch i := Instrumentation(s); i {
	case Full, Null, Off:
		return i, nil
	}
	return "", fmt.Errorf("instrumentation %q: use %s, %s or %s", s, Full, Null, Off)
}

// channels opens the channels of one actor's instance and closes them together.
type channels struct {
	instrumentation Instrumentation
	options         handlers.Options
	actor           string // with the instance: actor#inst
	scheduled       bool   // a source's: tuples are due at times of their own
	open            []*handlers.Channel
}

// named opens a channel. Unlike most programs, this one does not go on without: it is there to be measured.
func (c *channels) named(name, handler string) (*handlers.Channel, error) {
	o := c.options
	o.Handler = handler
	switch c.instrumentation {
	case Off:
		return nil, nil
	case Null:
		o.Handler = channel.Null.String()
	}
	ch, err := handlers.Open(name, o)
	if err != nil {
		return nil, err
	}
	c.open = append(c.open, ch)
	return ch, nil
}

func (c *channels) close() error {
	var errs []error
	for _, ch := range c.open {
		errs = append(errs, ch.Close())
	}
	return errors.Join(errs...)
}

// probes are the channels of an actor. The zero value has none, and log calls to it do nothing.
type probes struct {
	start, end *handlers.Channel // around the work on a tuple
	intended   *handlers.Channel // of a source that has a schedule: when a tuple was due

	// Of count alone: around the life of a window, and from each view to its window.
	windowStart, windowEnd, link *handlers.Channel
}

// probes opens what an actor of a stage logs to.
func (c *channels) probes(stage string) (p probes, err error) {
	open := func(ch **handlers.Channel, actor, point, handler string) {
		if err == nil {
			*ch, err = c.named(actor+"/"+point, handler)
		}
	}
	open(&p.start, c.actor, channel.PointStart, "")
	open(&p.end, c.actor, channel.PointEnd, "")
	if c.scheduled {
		open(&p.intended, c.actor, "intended", "")
	}
	if stage == "count" {
		window := strings.Replace(c.actor, "count", "window", 1)
		open(&p.windowStart, window, channel.PointStart, "")
		open(&p.windowEnd, window, channel.PointEnd, "")
		open(&p.link, c.actor, "link", "link")
	}
	return p, err
}

// poison ends the stream in all of them but the links.
func (p *probes) poison() {
	for _, ch := range []*handlers.Channel{p.intended, p.start, p.end, p.windowStart, p.windowEnd} {
		ch.Log(channel.Poison)
	}
}

// Switch changes the instrumentation of a job while it runs between Options.Instrumentation and Off, for who measures what it costs: an
// actor follows from one tuple to the next. The zero Switch begins with Off. It serves one job.
type Switch struct {
	on    atomic.Bool
	conns []*nats.Conn // of the actors; complete when Options.Begin is called
}

// Set puts the channels in use, or out of it.
func (s *Switch) Set(on bool) { s.on.Store(on) }

// Messages is how many messages all actors of this process have received.
func (s *Switch) Messages() uint64 {
	sum := uint64(0)
	for _, conn := range s.conns {
		sum += conn.Stats().InMsgs
	}
	return sum
}

// switched is an actor's side of a Switch.
type switched struct {
	by   *Switch // nil: none
	on   bool
	open probes
}

// follow puts the probes in use, or out of it, as the switch says.
func (s *switched) follow(p *probes) {
	if s.by == nil || s.by.on.Load() == s.on {
		return
	}
	s.on = !s.on
	if s.on {
		*p = s.open
	} else {
		*p = probes{}
	}
}

// openProbes opens an actor's channels. Where there is a switch, that has yet to put them in use.
func (j *runner) openProbes(c *channels, stage string) (p probes, s switched, err error) {
	p, err = c.probes(stage)
	if j.options.Switch != nil {
		p, s = probes{}, switched{by: j.options.Switch, open: p}
	}
	return p, s, err
}
