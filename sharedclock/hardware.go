package sharedclock

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// DefaultStampError is the error that is assumed for a stamp if the operator states none: a few
// steps of the clock of a common network interface.
const DefaultStampError = 100 * time.Nanosecond

// StampSettings are what an operator states about the stamps of a network interface.
type StampSettings struct {
	// Error is a limit: the stamp of a packet that leaves may be too late by at most Error, and the
	// stamp of a packet that arrives may be too early by at most Error.
	Error time.Duration

	// Wander_ppm is how much, at any moment of a train, the rate of the interface's clock may
	// differ from the mean rate during the train.
	Wander_ppm float64
}

// Validate returns an error that names the first invalid field.
func (s StampSettings) Validate() error {
	return Settings{Name: "unused", Error: s.Error, Wander_ppm: s.Wander_ppm}.Validate()
}

// Stamps are the stamps of a network interface, with the clock that takes them. Any goroutine may
// use them.
type Stamps struct {
	Interface int    // the interface's index
	Device    string // the clock's device, such as /dev/ptp0
	phc       *phc
	close     func() error
}

// stampAbilities are what the kernel answers about an interface's stamps.
type stampAbilities struct {
	info   *unix.EthtoolTsInfo
	config *unix.HwTstampConfig // nil: the driver does not say
}

// OpenStamps opens the clock by which a network interface stamps packets. It does not tell the
// interface to stamp: that needs the right to configure networks, and might undo what another
// program has set.
func OpenStamps(name string) (*Stamps, error) {
	s, err := openStamps(name)
	if err != nil {
		return nil, fmt.Errorf("use hardware stamps of %q: %w", name, err)
	}
	return s, nil
}

func openStamps(name string) (*Stamps, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	// For a bond, a VLAN or a bridge, the kernel does not say which clock stamped a packet.
	if _, err := os.Stat(filepath.Join("/sys/class/net", name, "device")); err != nil {
		return nil, fmt.Errorf("this interface is made by software: "+
			"name the interface below it, which has a device: %w", ErrSource)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	var a stampAbilities
	if a.info, err = unix.IoctlGetEthtoolTsInfo(fd, name); err != nil {
		return nil, fmt.Errorf("%w: %w", os.NewSyscallError("ethtool", err), ErrSource)
	}
	if a.config, err = unix.IoctlGetHwTstamp(fd, name); err != nil {
		a.config = nil
	}
	if err := a.whyUnusable(name); err != nil {
		return nil, err
	}
	s := &Stamps{Interface: i.Index, Device: fmt.Sprintf("/dev/ptp%d", a.info.Phc_index)}
	d, err := openPTP(s.Device)
	if err != nil {
		return nil, err
	}
	s.phc, s.close = newPHC(d), d.Close
	return s, nil
}

// whyUnusable returns why an interface's stamps cannot be used.
func (a stampAbilities) whyUnusable(name string) error {
	const hardware = unix.SOF_TIMESTAMPING_RAW_HARDWARE | unix.SOF_TIMESTAMPING_TX_HARDWARE |
		unix.SOF_TIMESTAMPING_RX_HARDWARE
	switch {
	case a.info.So_timestamping&hardware != hardware:
		return fmt.Errorf("its driver takes none: %w", ErrSource)
	case a.info.Phc_index < 0:
		return fmt.Errorf("its driver offers no PTP clock: %w", ErrSource)
	case a.config != nil && (a.config.Tx_type != unix.HWTSTAMP_TX_ON ||
		a.config.Rx_filter != unix.HWTSTAMP_FILTER_ALL):
		return fmt.Errorf("it is not told to stamp all packets: run "+
			"\"hwstamp_ctl -i %s -t 1 -r 1\" as root: %w", name, ErrSource)
	}
	return nil
}

// Clock returns the interface's clock in the form that package minrtt uses.
func (s *Stamps) Clock(clock minrtt.Clock, settings StampSettings) *minrtt.HardwareClock {
	return &minrtt.HardwareClock{
		Error_ns:   uint32(settings.Error.Nanoseconds()) + 1, // a stamp is rounded down to whole ns
		Wander_ppb: uint32(settings.Wander_ppm * 1000),
		Read: func() (before_ns, clock_ns, after_ns int64, ok bool) {
			return s.phc.readBetween(clock.Realtime)
		},
	}
}

// readBetween reads the clock between two readings of CLOCK_REALTIME.
func (p *phc) readBetween(realtime func() int64) (before_ns, clock_ns, after_ns int64, ok bool) {
	var err error
	switch p.way {
	case precise:
		clock_ns, before_ns, err = p.device.Precise()
		after_ns = before_ns
	case extended:
		before_ns, clock_ns, after_ns, err = p.device.Extended()
	case plain:
		before_ns = realtime()
		clock_ns, err = p.device.Now()
		after_ns = realtime()
	default:
		err = ErrSource
	}
	return before_ns, clock_ns, after_ns, err == nil
}

// Close closes the clock.
func (s *Stamps) Close() error { return s.close() }
