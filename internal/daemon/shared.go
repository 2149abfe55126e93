package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/sharedclock"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// SharedClock contains what a configuration says about a clock that several nodes share. No shared
// clock is used unless an operator names both the source and the clock.
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
	f.Duration("shared-clock-error", 0, "`duration`, such as 50ns: the largest difference between "+
		"the clocks of this name (default: they are one clock)")
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

func (n *Node) closeShared() (err error) {
	if n.shared != nil {
		err = n.shared.Close()
	}
	if n.stamps != nil {
		err = errors.Join(err, n.stamps.Close())
	}
	return err
}

// HardwareStamps contains what a configuration says about the stamps that a network interface
// takes. No such stamps are used unless an operator names the interface.
type HardwareStamps struct {
	Interface string        // key hardware_stamps
	Error     time.Duration // key hardware_stamps_error
	Wander    float64       // key hardware_stamps_wander_ppm
}

// AddHardwareStampsFlags adds a flag for each key of HardwareStamps.
func AddHardwareStampsFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("hardware-stamps", "", "network `interface`, such as eth0, whose own stamps of "+
		"probes are used: they narrow bounds if what you say about them is true (default: none)")
	f.Duration("hardware-stamps-error", sharedclock.DefaultStampError,
		"how far such a stamp may be on the wrong side of its packet, such as 100ns")
	f.Float64("hardware-stamps-wander-ppm", sharedclock.DefaultWander_ppm,
		"how far the rate of the interface's clock may move from its mean during a train, in ppm")
}

func (s HardwareStamps) settings() sharedclock.StampSettings {
	return sharedclock.StampSettings{Error: s.Error, Wander_ppm: s.Wander}
}

// Check returns what is wrong with the keys.
func (s HardwareStamps) Check() error {
	if s.Interface == "" {
		return nil
	}
	if err := s.settings().Validate(); err != nil {
		return fmt.Errorf("hardware_stamps_%w", err)
	}
	return nil
}

// UseHardwareStamps makes a client use the stamps of a network interface. If there are none, it
// says so in the log, and the client uses the kernel's stamps alone. The client's own clocks must
// be set.
func (n *Node) UseHardwareStamps(s HardwareStamps, log *slog.Logger, c *tscclient.Config) {
	if s.Interface == "" {
		return
	}
	stamps, err := sharedclock.OpenStamps(s.Interface)
	if err != nil {
		log.Warn("hardware stamps are not used: the kernel's stamps are", "error", err)
		return
	}
	n.stamps = stamps
	c.HardwareInterface, c.Clock.Hardware = stamps.Interface, stamps.Clock(c.Clock, s.settings())
	n.Facts.HardwareStamps = fmt.Sprintf("%s stamps packets by %s; the operator says that such "+
		"a stamp is wrong by at most %v, and that the clock's rate moves by at most %v ppm in a "+
		"train",
		s.Interface, stamps.Device, s.Error, s.Wander)
}
