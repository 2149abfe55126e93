package ntp

import (
	"math"
	"net/netip"
	"time"
)

// Claim is an NTP daemon's report about the system clock at one moment.
type Claim struct {
	Offset_ns         int64  // estimate of what must still be added to the system clock
	RootDelay_ns      uint64 // length of the round trip to the reference clock
	RootDispersion_ns uint64 // error of the estimated offset, as NTP computes it
	Frequency_ppt     int64  // estimated error of the clock's rate, in parts per 10¹²
	Skew_ppt          uint64 // error of the estimated frequency, in parts per 10¹²
	Stratum           uint64 // number of steps to the reference clock; 0: not synchronised
	Leap              Leap
	ReferenceID       uint64
	// address of the server that the daemon follows; zero if the daemon follows no server, or
	// follows a reference clock
	Source  netip.Addr
	Updated time.Time // time of the estimate; zero if there was none
}

// Leap is NTP's leap status. Logs contain the numbers: never change one.
type Leap uint64

const (
	LeapNone           Leap = 0
	LeapInsert         Leap = 1
	LeapDelete         Leap = 2
	LeapUnsynchronised Leap = 3
)

// Bound_ns returns how far the system clock may be from UTC according to the daemon's claim:
// |offset| + dispersion + delay/2, rounded up. If the daemon follows no source, it claims nothing,
// and ok is false.
func (c Claim) Bound_ns() (bound_ns uint64, ok bool) {
	if c.Leap >= LeapUnsynchronised || c.Stratum == 0 || c.Stratum > 15 {
		return 0, false
	}
	offset := uint64(max(c.Offset_ns, -c.Offset_ns))
	if c.Offset_ns == math.MinInt64 {
		offset = 1 << 63
	}
	bound_ns = offset
	for _, part := range []uint64{c.RootDispersion_ns, c.RootDelay_ns/2 + c.RootDelay_ns%2} {
		if bound_ns+part < bound_ns {
			return math.MaxUint64, true
		}
		bound_ns += part
	}
	return bound_ns, true
}
