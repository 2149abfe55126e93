package minrtt

import (
	"errors"
	"net/netip"
	"time"
)

// A Transport carries packets and stamps them as they pass. A Prober or Answerer uses its Transport
// from one goroutine at a time.
type Transport interface {
	// Send sends a packet. It returns a reading of the counter from before the packet went to the
	// kernel. The kernel's stamp follows later, through SentStamps.
	Send(packet []byte, to netip.AddrPort) (Sent, error)

	// Receive waits for a packet until Now would return the given time, and copies the packet to b.
	// It returns ErrTimeout if no packet arrived. It returns an error that wraps ErrClosed if no
	// packet can arrive any more. Any other error means that receiving a packet or waiting for one
	// failed.
	Receive(b []byte, until time.Time) (Received, error)

	// SentStamps calls found with each transmit stamp that the kernel has delivered since the last
	// call of SentStamps. It does not wait. The slice packet ends with the packet that was sent;
	// headers that the kernel added precede it. The slice is valid only until found returns, and
	// found must not use the Transport. A packet may have two stamps, one of the kernel and one of
	// the network hardware. SentStamps then calls found once for each of them.
	SentStamps(found func(packet []byte, at Stamps))

	// Sources returns the sources of transmit and receive stamps: Kernel, or the reason why the
	// kernel takes none.
	Sources() (transmit, receive Source)

	// Now returns the time on the clock to which Receive's deadlines refer.
	Now() time.Time

	// Close ends the Transport. Any goroutine may call it. A Receive that is waiting returns.
	Close() error
}

// Sent is the transmit stamp of a packet.
type Sent struct {
	Before_cycles uint64 // read before the packet went to the kernel
}

// Received is a packet's sender, length and receive stamp.
type Received struct {
	Length       int // length of the packet, which may exceed the buffer
	From         netip.AddrPort
	After_cycles uint64 // read after the packet came from the kernel
	Stamps
}

// Stamps are the stamps of a packet that were taken outside of the program.
type Stamps struct {
	RealtimeNS int64 // the kernel's stamp, in CLOCK_REALTIME; 0 if there is none
	HardwareNS int64 // the network interface's stamp, in its own clock; 0 if there is none
}

var (
	// ErrTimeout is returned by Receive if no packet arrived in time.
	ErrTimeout = errors.New("no packet in time")

	// ErrClosed is returned by a closed Transport.
	ErrClosed = errors.New("transport is closed")
)

// Source says where a stamp comes from. For a user stamp it also says why the kernel's stamp was
// not used. Packets contain the numbers: never change one.
type Source uint8

const (
	Unasked     Source = 0 // user stamp: the kernel was not asked for stamps
	Kernel      Source = 1 // the kernel's software stamp, narrowed by the user stamps around it
	Unsupported Source = 2 // user stamp: the kernel does not stamp this socket
	Missing     Source = 3 // user stamp: the kernel delivered no stamp for this packet, or too late
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
