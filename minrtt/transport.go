package minrtt

import (
	"errors"
	"net/netip"
	"time"
)

// A Transport carries packets and stamps them as they pass. Prober and Answerer use it from one
// goroutine at a time.
type Transport interface {
	// Send sends a packet. It returns a counter reading from before the packet was handed on. The
	// kernel stamp follows later, through SentStamps.
	Send(packet []byte, to netip.AddrPort) (Sent, error)

	// Receive waits for a packet until the given moment of Now and copies it to b. It returns
	// ErrTimeout if no packet arrived, an error that wraps ErrClosed if none can arrive any more,
	// and another error if a packet or a wait failed.
	Receive(b []byte, until time.Time) (Received, error)

	// SentStamps calls found for each transmit stamp that the kernel has delivered since the last
	// call. It does not wait. The slice ends with the packet that was sent; headers that the kernel
	// added precede it. The slice is valid only during the call, and found must not use the
	// transport.
	SentStamps(found func(packet []byte, realtime_ns int64))

	// Sources returns the sources of transmit and receive stamps: Kernel, or the reason why not
	// Kernel.
	Sources() (transmit, receive Source)

	// Now reads the clock to which Receive's deadlines refer.
	Now() time.Time

	// Close ends the transport. Any goroutine may call it. A Receive that is waiting returns.
	Close() error
}

// Sent is the transmit stamp of a packet.
type Sent struct {
	Before_cycles uint64 // read before the packet was handed to the kernel
}

// Received is a packet's sender, length and receive stamp.
type Received struct {
	Length       int // of the packet, which may exceed the buffer
	From         netip.AddrPort
	After_cycles uint64 // read after the kernel handed the packet out
	RealtimeNS   int64  // the kernel's stamp, in CLOCK_REALTIME; 0 if there is none
}

var (
	// ErrTimeout is returned by Receive when no packet arrived in time.
	ErrTimeout = errors.New("no packet in time")

	// ErrClosed is returned by a closed Transport.
	ErrClosed = errors.New("transport is closed")
)

// Source names where a stamp comes from. For a user stamp it also gives the reason why the kernel's
// was not used. The numbers are on the wire.
type Source uint8

const (
	Unasked     Source = 0 // user stamp: kernel stamps are switched off
	Kernel      Source = 1 // the kernel's software stamp, between the user stamps around it
	Unsupported Source = 2 // user stamp: the kernel does not stamp this socket
	Missing     Source = 3 // user stamp: the kernel delivered none for this packet, or not in time
	Outside     Source = 4 // user stamp: a kernel stamp of this clock contradicted the user stamps
	NoClock     Source = 5 // user stamp: the kernel's stamp cannot be converted into cycles

	sources = 6
)

func (s Source) String() string {
	switch s {
	case Unasked:
		return "user (kernel stamps are off)"
	case Kernel:
		return "kernel"
	case Unsupported:
		return "user (the kernel does not stamp this socket)"
	case Missing:
		return "user (no kernel stamp came)"
	case Outside:
		return "user (kernel clock contradicts user stamps)"
	case NoClock:
		return "user (kernel clock not related to the counter)"
	}
	return "unknown"
}
