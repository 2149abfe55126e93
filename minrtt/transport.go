package minrtt

import (
	"errors"
	"net/netip"
	"time"
)

// A Transport carries packets and stamps them as they pass. Prober and Answerer call it from one
// goroutine at a time.
type Transport interface {
	// Send sends a packet. The stamp holds a counter reading from before the packet was handed on;
	// its kernel stamp comes later, by SentStamps.
	Send(packet []byte, to netip.AddrPort) (Sent, error)

	// Receive waits for a packet until a moment of Now and copies it to b. It returns ErrTimeout
	// when none came, an error wrapping ErrClosed when none can come any more, and other errors for
	// a packet or a wait that came to nothing.
	Receive(b []byte, until time.Time) (Received, error)

	// SentStamps calls found for each transmit stamp that the kernel has delivered since the last
	// call. It does not wait. The slice ends with the packet that was sent, has whatever the kernel
	// keeps in front of it, and is valid during the call; found must not use the transport.
	SentStamps(found func(packet []byte, realtime_ns int64))

	// Sources says where transmit and receive stamps can come from: Kernel, or the reason why not.
	Sources() (transmit, receive Source)

	// Now is the clock that Receive's deadlines are of.
	Now() time.Time

	// Close ends the transport. It may be called from any goroutine, and ends a Receive that is
	// under way.
	Close() error
}

// Sent is the transmit stamp of a packet.
type Sent struct {
	BeforeCycles uint64 // read before the packet was handed to the kernel
}

// Received is a packet's sender, length and receive stamp.
type Received struct {
	Length      int // of the packet, which may be more than fitted the buffer
	From        netip.AddrPort
	AfterCycles uint64 // read after the kernel handed the packet out
	RealtimeNS  int64  // the kernel's stamp, of CLOCK_REALTIME; 0 if there is none
}

var (
	// ErrTimeout is returned by Receive when no packet came in time.
	ErrTimeout = errors.New("no packet in time")

	// ErrClosed is returned by a Transport that was closed.
	ErrClosed = errors.New("transport is closed")
)

// Source says where a stamp comes from; where it is not the kernel, why not. The numbers are on the
// wire.
type Source uint8

const (
	Unasked     Source = 0 // user stamp: kernel stamps are switched off
	Kernel      Source = 1 // the kernel's software stamp, between the user stamps around it
	Unsupported Source = 2 // user stamp: the kernel refuses to stamp on this socket
	Missing     Source = 3 // user stamp: the kernel gave none for this packet, or not in time
	// user stamp: a kernel stamp of this clock was not between the user stamps around it
	Outside Source = 4
	NoClock Source = 5 // user stamp: nothing says what the kernel's is in counter cycles

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
