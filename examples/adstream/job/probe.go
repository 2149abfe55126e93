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

// Instrumentation says what the job's channels do with each event.
type Instrumentation string

const (
	Full Instrumentation = "full" // keep every event
	Null Instrumentation = "null" // the handler discards every event
	Off  Instrumentation = "off"  // there are no channels: a log call only finds a nil Channel
)

// ParseInstrumentation reads the name of an Instrumentation.
func ParseInstrumentation(s string) (Instrumentation, error) {
	switch i := Instrumentation(s); i {
	case Full, Null, Off:
		return i, nil
	}
	return "", fmt.Errorf("instrumentation %q: use %s, %s or %s", s, Full, Null, Off)
}

// channels opens the channels of one instance and closes them together.
type channels struct {
	instrumentation Instrumentation
	options         handlers.Options
	actor           string // the operator and the instance: filter#1
	scheduled       bool   // set for a source with a rate
	open            []*handlers.Channel
}

// openNamed opens a channel. Unlike most programs, this program fails if a channel cannot be
// opened, because it exists to be measured.
func (c *channels) openNamed(name, handler string) (*handlers.Channel, error) {
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

// probes are the channels of an instance. The zero value has no channels, and log calls to it do
// nothing.
type probes struct {
	start, end *handlers.Channel // log before and after the work on a tuple
	intended   *handlers.Channel // for a source with a rate: when a tuple was due

	// Only for count: when a window begins, when it is emitted, and which views are in it.
	windowStart, windowEnd, link *handlers.Channel
}

// probes opens the channels of an instance of an operator.
func (c *channels) probes(stage string) (p probes, err error) {
	open := func(ch **handlers.Channel, actor, point, handler string) {
		if err == nil {
			*ch, err = c.openNamed(actor+"/"+point, handler)
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

// poison logs the end of the stream on all channels but link.
func (p *probes) poison() {
	for _, ch := range []*handlers.Channel{p.intended, p.start, p.end, p.windowStart, p.windowEnd} {
		ch.Log(channel.Poison)
	}
}

// Switch turns the instrumentation of a running job on (Options.Instrumentation) and off (Off), so
// that its cost can be measured. Each instance follows the switch at its next tuple. The zero
// Switch is off. A Switch is for one job. Any goroutine may call Set. After Options.Begin was
// called, any goroutine may call Messages.
type Switch struct {
	on    atomic.Bool
	conns []*nats.Conn // the actors' connections; complete when Options.Begin is called
}

// Set turns the channels on or off.
func (s *Switch) Set(on bool) { s.on.Store(on) }

// Messages returns the number of messages that all instances of this process have received.
func (s *Switch) Messages() uint64 {
	sum := uint64(0)
	for _, conn := range s.conns {
		sum += conn.Stats().InMsgs
	}
	return sum
}

// switchSide is what an instance needs to follow a Switch.
type switchSide struct {
	by   *Switch // nil without a switch
	on   bool
	open probes
}

// followSwitch sets p to the open probes if the switch is on, and to no probes if it is off.
func (s *switchSide) followSwitch(p *probes) {
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

// openProbes opens an instance's channels. If there is a switch, the channels are off until the
// switch turns them on.
func (j *runner) openProbes(c *channels, stage string) (p probes, s switchSide, err error) {
	p, err = c.probes(stage)
	if j.options.Switch != nil {
		p, s = probes{}, switchSide{by: j.options.Switch, open: p}
	}
	return p, s, err
}
