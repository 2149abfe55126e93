package daemon

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/sharedclock"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// SharedClock contains the keys of a clock that several nodes share. None is used unless an
// operator names both the source and the clock.
type SharedClock struct {
	Source string        // key shared_clock
	Name   string        // key shared_clock_name
	Error  time.Duration // key shared_clock_error
	Wander float64       // key shared_clock_wander_ppm
}

// AddSharedClockFlags adds a flag for each key of a SharedClock.
func AddSharedClockFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("shared-clock", "", "`source` of a clock that other nodes read, too, such as "+
		"/dev/ptp0: it narrows bounds if what you say about it is true (default: none)")
	f.String("shared-clock-name", "",
		"`name` of that clock: give it to nodes only if they read the same clock")
	f.Duration("shared-clock-error", 0, "largest difference between the clocks of this name")
	f.Float64("shared-clock-wander-ppm", sharedclock.DefaultWander_ppm,
		"how far the clock's rate may move from its mean during a train, in ppm")
}

func (s SharedClock) settings() sharedclock.Settings {
	return sharedclock.Settings{Name: s.Name, Error: s.Error, Wander_ppm: s.Wander}
}

// Check returns what is wrong with the keys.
func (s SharedClock) Check() error {
	if s.Source == "" {
		if s.Name != "" {
			return fmt.Errorf("shared_clock_name %q: no clock is read: "+
				"set shared_clock, for example to /dev/ptp0", s.Name)
		}
		return nil
	}
	if err := s.settings().Validate(); err != nil {
		return fmt.Errorf("shared_clock_%w", err)
	}
	if err := control.CheckName(s.Name); err != nil {
		return fmt.Errorf("shared_clock_name: %w", err)
	}
	return nil
}

// ShareClock opens the clock and makes a client use it. Without a source it does nothing. The
// client's own clocks must be set.
func (n *Node) ShareClock(s SharedClock, c *tscclient.Config) error {
	if s.Source == "" {
		return nil
	}
	source, err := sharedclock.Open(s.Source)
	if err != nil {
		return err
	}
	n.shared = source
	c.Clock.Shared = source.Share(c.Clock, s.settings())
	n.Facts.SharedClock = fmt.Sprintf("%s, read from %s; the operator says that all nodes "+
		"which name it read one clock within %v, whose rate moves by at most %v ppm in a train",
		s.Name, source, s.Error, s.Wander)
	return nil
}

func (n *Node) closeShared() error {
	if n.shared == nil {
		return nil
	}
	return n.shared.Close()
}
